"""Limits on what a file may make a reader allocate."""

# Bytes of numbers in a model, 4 GiB: 5 million dense vectors of 100 columns. A file
# that asks for more than the machine has is an attack or a mistake more often than a
# model; whoever has such a model gives a larger one.
MEMORY_LIMIT = 2.0**32
# Bytes of a container's header, 16 MiB: 50,000 rounds of a fit's history.
HEADER_LIMIT = 1 << 24

__all__ = ["HEADER_LIMIT", "MEMORY_LIMIT"]
