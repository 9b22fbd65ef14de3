"""Readers of files, in blocks: the public name of `corevec.data.readers`."""

from corevec.data.readers import *  # noqa: F403
from corevec.data.readers import __all__ as __all__
