"""The error tree.

CorevecError
├── InvalidInputError (also ValueError)   data or a parameter that cannot be used
├── KernelError (also ValueError)         the kernel returned what no kernel returns
└── RowsLostError (also ConnectionError)  workers or files that held the rows are gone

NotCertifiedWarning (UserWarning)         the model is usable, but `tol` was not reached
"""


class CorevecError(Exception):
    """Base of every error that corevec raises on purpose."""


class InvalidInputError(CorevecError, ValueError):
    """Data or a parameter that cannot be used; the text says what is allowed."""


class KernelError(CorevecError, ValueError):
    """A kernel gave non-finite values, a wrong shape or an asymmetric matrix."""


class RowsLostError(CorevecError, ConnectionError):
    """The place where rows live cannot be reached any more, in the middle of a fit."""


class NotCertifiedWarning(UserWarning):
    """The fit ended before the rule asked for was met on all rows."""
