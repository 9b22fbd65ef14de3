"""Limits on the memory that a reader allocates for a file."""

# Bytes of numbers in a model, 4 GiB: 5 million dense vectors of 100 columns. A larger
# claim is more often an attack or an error than a model; `memory_limit` raises it.
MEMORY_LIMIT = 2.0**32
# Bytes of a container's header, 16 MiB: 50,000 rounds of a fit's history.
HEADER_LIMIT = 1 << 24

__all__ = ["HEADER_LIMIT", "MEMORY_LIMIT"]
