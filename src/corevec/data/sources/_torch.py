"""The module `torch`; importing this says how to install it where it is missing."""

try:
    import torch
except ImportError as error:  # pragma: no cover - asked for where it is missing
    raise ImportError(
        "rows on a GPU need torch, which is not installed. Run: "
        'pip install "corevec[gpu]"'
    ) from error

__all__ = ["torch"]
