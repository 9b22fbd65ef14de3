"""The error tree.

CorevecError
├── InvalidInputError (also ValueError)   data or a parameter that cannot be used
└── KernelError (also ValueError)         the kernel returned what no kernel returns

NotCertifiedWarning (UserWarning)         the model is usable, but `tol` was not reached
"""


class CorevecError(Exception):
    """Base of every error that corevec raises on purpose."""


class InvalidInputError(CorevecError, ValueError):
    """Data or a parameter that cannot be used; the text says what is allowed."""


class KernelError(CorevecError, ValueError):
    """A kernel gave non-finite values, a wrong shape or an asymmetric matrix."""


class NotCertifiedWarning(UserWarning):
    """The fit ended before the rule asked for was met on all rows."""
