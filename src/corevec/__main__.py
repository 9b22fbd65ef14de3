"""``python -m corevec`` is the command ``corevec``."""

from __future__ import annotations

import sys

from corevec.cli import main

if __name__ == "__main__":
    sys.exit(main())
