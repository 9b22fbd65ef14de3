"""The exceptions and warnings of corevec.

CorevecError
├── InvalidInputError (also ValueError)   invalid data or an invalid parameter
├── KernelError (also ValueError)         the kernel function returned invalid values
└── RowsLostError (also ConnectionError)  the workers or files that held the rows failed

NotCertifiedWarning (scikit-learn's ConvergenceWarning)
                                      the model is usable, but `tol` was not reached
"""

from typing import TYPE_CHECKING, Any


class CorevecError(Exception):
    """Base class of the exceptions that corevec raises.

    Parameters
    ----------
    message : str
        Who raises it, what was given, what is allowed and what to do.
    parameter : str, optional
        Name of the constructor parameter or argument that is the cause.

    Attributes
    ----------
    parameter : str or None
        Name of the parameter that is the cause; None if the data are.
    """

    def __init__(self, message: str = "", *, parameter: str | None = None):
        super().__init__(message)
        self.parameter = parameter


class InvalidInputError(CorevecError, ValueError):
    """Exception for invalid data or an invalid parameter.

    Parameters
    ----------
    message : str
        Who raises it, what was given, what is allowed and what to do.
    parameter : str, optional
        Name of the constructor parameter or argument that is the cause.
    """


class KernelError(CorevecError, ValueError):
    """Exception for kernel values that are not finite, not symmetric or misshapen.

    Parameters
    ----------
    message : str
        Which kernel returned what, and what a kernel must return.
    parameter : str, optional
        Name of the constructor parameter or argument that is the cause.
    """


class RowsLostError(CorevecError, ConnectionError):
    """Exception for remote or out-of-core rows that cannot be read during a fit.

    Parameters
    ----------
    message : str
        Which workers or files failed, and how to resume the fit.
    parameter : str, optional
        Name of the constructor parameter or argument that is the cause.
    """


class _NotCertified(UserWarning):
    """Warning that the fit ended before its stopping criterion was met on all rows.

    Parameters
    ----------
    message : str
        The gap that was reached, the gap that was requested, and what to do.
    stopped_by : str, optional
        The reason, with the words of ``Certificate.stopped_by``.

    Attributes
    ----------
    stopped_by : str
        The reason; empty where it is unknown.
    """

    def __init__(self, message: str = "", *, stopped_by: str = ""):
        super().__init__(message)
        self.stopped_by = stopped_by


if TYPE_CHECKING:

    class NotCertifiedWarning(_NotCertified):
        """See `_NotCertified`; at run time a ``ConvergenceWarning`` as well."""


def __getattr__(name: str) -> Any:
    """Return `NotCertifiedWarning`: its base class takes seconds to import.

    Only estimators warn, which have imported scikit-learn; ``corevec --help`` has not.
    """
    if name != "NotCertifiedWarning":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from sklearn.exceptions import ConvergenceWarning

    own = {"__module__": __name__, "__doc__": _NotCertified.__doc__}
    found = type(name, (_NotCertified, ConvergenceWarning), own)
    globals()[name] = found
    return found
