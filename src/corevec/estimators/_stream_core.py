"""Base class of the streaming estimators that carry a core set along."""

from __future__ import annotations

import time
from abc import abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from corevec._runtime.checks import is_count
from corevec._runtime.types import Array
from corevec.data.sources import Workers
from corevec.estimators._base import read_only
from corevec.estimators._parameters import (
    check_number,
    check_parameters,
    check_positive,
    check_share,
)
from corevec.estimators._stream import StreamingEstimator
from corevec.estimators._stream_checks import FREE
from corevec.exceptions import InvalidInputError, KernelError
from corevec.kernels import AnyKernel, Kernel, Rows, RowStatistics, make_kernel
from corevec.models.certificate import Certificate
from corevec.models.expansion import KernelExpansion
from corevec.solvers.streaming.columns import (
    ColumnMoments,
    Scaling,
    in_different_units,
)
from corevec.solvers.streaming.core_stream import CoreForm, CoreStream, Targets
from corevec.solvers.streaming.objective_bound import (
    ObjectiveBound,
    SeenRows,
    bound_of,
)
from corevec.solvers.streaming.squared_stream import SquaredStream

# The moments are looked at again when the rows are so many times those of the last
# time; the kernel changes where gamma or a deviation has moved by this share.
GROWTH, MOVED = 2.0, 0.05
# Parameters that may change in mid-stream, and differ between merged models.
CHANGEABLE = (*FREE, "block")


class CoreStreamEstimator(StreamingEstimator):
    """Base class of the learners with a core set; not for direct use."""

    block: Any
    forget: Any
    standardize: Any
    _kernel_first = False  # it follows the moments of the rows seen
    _has_objective = True
    _what_is_known = "objective_bound() bounds the objective over the rows seen."
    _seen: SeenRows

    @property
    @abstractmethod
    def _core_form(self) -> CoreForm: ...

    @abstractmethod
    def _n_outputs(self) -> int: ...

    # Parts of the balls that a core set does not have.
    @property
    def _form(self) -> Any:
        raise NotImplementedError

    def _machines(self) -> list[int]:
        raise NotImplementedError

    def _check(self) -> None:
        check_parameters(self)
        who = type(self).__name__
        check_positive(who, "C", self.C)
        if isinstance(self.kernel, str) and self.kernel == "precomputed":
            raise InvalidInputError(
                f"{who}: kernel='precomputed' has no rows to store. Give a kernel by "
                "name, or a function k(X, Z).",
                parameter="kernel",
            )
        if not is_count(self.budget) or self.budget < 10:
            raise InvalidInputError(
                f"{who}: budget={self.budget!r} must be a whole number of at least 10: "
                "the rows that are kept.",
                parameter="budget",
            )
        if not is_count(self.block) or self.block < 1:
            raise InvalidInputError(
                f"{who}: block={self.block!r} must be a whole number of at least 1: "
                "the rows that are judged at a time.",
                parameter="block",
            )
        if self.forget is not None:
            remedy = "It is the number of rows after which a row counts half."
            check_number(who, "forget", self.forget, above=0, remedy=remedy)
        if self.standardize not in (True, False) and not (
            isinstance(self.standardize, str) and self.standardize == "auto"
        ):
            raise InvalidInputError(
                f"{who}: standardize={self.standardize!r} must be 'auto', True or "
                "False.",
                parameter="standardize",
            )

    # Learning -----------------------------------------------------------------------

    def _learn_targets(
        self, X: Any, z: Array, weights: Array | None, factors: Array | None = None
    ) -> None:
        """Learn from validated rows with targets z: from all of them, or from none.

        C is multiplied by `weights` and by `factors`, which do not count as rows.
        """
        began = time.perf_counter()
        fitted = self.__sklearn_is_fitted__()
        self._raise_unless_finite(X)
        omega = np.full(len(z), float(self.C))
        if weights is not None:
            omega *= weights
        if factors is not None:
            omega *= factors
        if not fitted and not (omega > 0).any():
            return
        stream = self._streams[0] if fitted else self._new_stream(X)
        try:
            with Workers(1):  # BLAS's threads cost more than small matrices gain
                moments = self._moments_with(X, weights, stream.n_rows)
                resolved = self.__dict__.get("_resolved", 0)
                if self._is_due(resolved, stream.n_rows + X.shape[0]):
                    stream = self._with_kernel_of(stream, moments)
                    resolved = stream.n_rows + X.shape[0]
                stream = stream.absorb(X, Targets(z, omega), weights)
        except KernelError as error:
            raise KernelError(f"{type(self).__name__}: {error}") from None
        self._position = self.__dict__.get("_position", 0) + X.shape[0]
        self._seconds = self.__dict__.get("_seconds", 0.0)
        self._seconds += time.perf_counter() - began
        self._streams: list[Any] = [stream]
        self._moments: ColumnMoments | None = moments
        self._resolved = resolved
        self._sample_seen(X, Targets(z, omega))
        if not fitted:
            self._begun_with = {
                name: value
                for name, value in self.get_params().items()
                if name not in CHANGEABLE
            }

    def _sample_seen(self, X: Any, targets: Targets) -> None:
        """Continue the sample that the bound of the objective is measured on."""
        if not self._has_objective or self.forget is not None:
            return
        seen = self.__dict__.get("_seen")
        if seen is None:
            seen = SeenRows.of_first(X)
        self._seen = seen.after(X, targets)

    def objective_bound(self, confidence: float = 0.95) -> ObjectiveBound:
        r"""Return a bound on the objective over all rows seen.

        From above: the loss at the present model is measured on a uniform sample of the
        rows seen, at most 4000 of them, and chance adds to it (empirical
        Bernstein-Serfling bound). Nothing is assumed about the rows or their order.
        From below: the dual value of the core, which is proved but small where most
        rows have left it. ``corevec.certify`` measures the gap on given rows.

        Parameters
        ----------
        confidence : float, default=0.95
            Probability with which the bound from above holds.

        Returns
        -------
        ObjectiveBound
            `upper`, `estimate`, `lower` and how they were found; printable.
        """
        stream, who = self._stream, type(self).__name__
        check_share(who, "confidence", confidence)
        if self.forget is not None:
            raise InvalidInputError(
                f"{who}: with forget= every row changes the objective, so that there "
                "is none over all rows seen. error_bound() and the test-then-train "
                "results say how good the model is; forget=None has this bound.",
                parameter="forget",
            )
        seen = self.__dict__.get("_seen")
        if seen is None or seen.n_seen != stream.n_rows:
            raise InvalidInputError(
                f"{who}: the sample of rows does not cover the whole stream, because "
                "this model began in a version without it. Fit it anew, or call "
                "corevec.certify(model, X, y)."
            )
        with Workers(1):
            return bound_of(stream, seen, self._largest_norm_sq(), confidence)

    def _largest_norm_sq(self) -> float:
        """Return what no squared norm of a row seen exceeds, as the kernel takes it."""
        scaling, reach = self._stream.scaling, self._seen.reach
        if scaling is None or self._moments is None:
            return reach
        found = scaling.of_statistics(self._moments.statistics)
        if found.is_sparse:
            return reach * float(np.max(scaling.factor)) ** 2
        return float((np.maximum(found.low**2, found.high**2)).sum())

    # Moments of the columns ---------------------------------------------------------

    def _moments_with(
        self, X: Any, weights: Array | None, n_rows: int
    ) -> ColumnMoments | None:
        """Return the moments of all rows, these included; None of objects."""
        if X.dtype.kind != "f" or (weights is not None and not weights.any()):
            return self.__dict__.get("_moments")
        new, known = ColumnMoments.of(X, weights), self.__dict__.get("_moments")
        if known is None:
            return new
        if self.forget is not None:
            share = 0.5 ** (X.shape[0] / float(self.forget))
            known = replace(known, weight=share * known.weight)
        joined: ColumnMoments = known.joined(new)
        return joined

    def _is_due(self, resolved: int, n_rows: int) -> bool:
        """Whether gamma and the scaling are to be compared with the moments again."""
        if n_rows >= GROWTH * resolved:
            return True
        half_life = self.forget
        return half_life is not None and n_rows - resolved >= float(half_life) / 2

    def _with_kernel_of(
        self, stream: CoreStream, moments: ColumnMoments | None
    ) -> CoreStream:
        """Return the stream with the kernel of these moments, if that has moved."""
        if moments is None:
            return stream
        scaling, statistics = None, moments.statistics
        if self._standardizes(statistics):
            # Without a bias a shift would change the problem.
            scaling = Scaling.of(moments, centre=bool(self.fit_intercept))
            statistics = scaling.of_statistics(statistics)
        kernel: AnyKernel
        if callable(self.kernel):
            kernel = make_kernel(self.kernel)
        else:
            own = self.gamma, self.degree, self.coef0
            kernel = make_kernel(self.kernel, *own, statistics)
        now = stream.kernel, stream.scaling
        if stream.rows is not None and not _has_moved(now, (kernel, scaling)):
            return stream
        return stream.with_kernel(kernel, scaling)

    def _standardizes(self, statistics: RowStatistics) -> bool:
        if isinstance(self.standardize, str):
            return in_different_units(statistics)
        return bool(self.standardize)

    def _new_stream(self, X: Any) -> CoreStream:
        kernel = make_kernel(self.kernel, 1.0, self.degree, self.coef0)
        form = self._core_form
        squared = form.two_sided and form.tube == 0.0
        kind = SquaredStream if squared else CoreStream
        return kind(form, kernel, X.shape[1], self._n_outputs())

    def _raise_unless_finite(self, X: Any) -> None:
        values = X.data if hasattr(X, "indptr") else X
        if not np.isfinite(np.sum(values)):
            self._raise_bad_row(X)

    # Fitted attributes --------------------------------------------------------------

    @property
    def _stream(self) -> CoreStream:
        check_is_fitted(self)
        found: CoreStream = self._streams[0]
        return found

    @property
    def _is_linear(self) -> bool:
        """Whether the model is one weight per column."""
        if self.__sklearn_is_fitted__():
            return bool(self._stream.by_columns)
        return isinstance(self.kernel, str) and self.kernel == "linear"

    @property
    def n_updates_(self) -> int:
        """Number of rows that joined the core."""
        return int(self._stream.n_updates)

    @property
    def n_left_(self) -> int:
        """Number of rows that left the core into the summary."""
        return int(self._stream.n_left)

    @property
    def coef_(self) -> Array:
        """Weights of the columns, shape (n_outputs, n_features)."""
        if not self._is_linear:
            raise AttributeError(
                "coef_ exists for kernel='linear' with few columns only"
            )
        return read_only(self._functions.basis.values)

    @property
    def intercept_(self) -> Array:
        """Penalised biases, shape (n_outputs,)."""
        return self._functions.intercept

    @property
    def dual_coef_(self) -> Array:
        """Coefficients of `support_vectors_`, shape (n_outputs, n_core)."""
        if self._is_linear:
            raise AttributeError("a linear model of few columns has coef_ instead")
        return np.ascontiguousarray(self._stream.coef.T)

    @property
    def support_vectors_(self) -> Any:
        """The core rows."""
        return self._stream.rows

    @property
    def _functions(self) -> KernelExpansion:
        """The functions as one kernel expansion."""
        stream = self._stream
        if stream.by_columns:
            weights, intercept = stream.linear_function()
            kernel = make_kernel("linear")
            rows: Any = np.ascontiguousarray(weights.T)
            coef = np.eye(len(rows))
        else:
            kernel, coef = stream.kernel, stream.coef
            rows = stream.scaled(stream.rows)
            intercept = coef.sum(axis=0) * float(stream.form.bias)
        basis = Rows(rows, np.arange(rows.shape[0]))
        return KernelExpansion(kernel, basis, coef, np.asarray(intercept))

    def _for_certificate(self, X: Any) -> tuple[Any, KernelExpansion]:
        """Return rows and functions as the problem has them: of scaled columns."""
        stream = self._stream
        if stream.scaling is None or not stream.by_columns:
            return stream.scaled(X), self._functions
        d = self.n_features_in_
        rows = np.ascontiguousarray(stream.coef[:d].T)
        basis, kernel = Rows(rows, np.arange(len(rows))), make_kernel("linear")
        bias = stream.coef[d] if stream.form.bias else np.zeros(len(rows))
        functions = KernelExpansion(kernel, basis, np.eye(len(rows)), bias)
        return stream.scaled(X), functions

    def _values_of(self, X: Any) -> Array:
        with Workers(1):
            return self._stream.values(X)

    def _join(self, other: Any) -> None:
        self._join_moved(other, np.zeros(self._n_outputs()))

    def _join_moved(self, other: Any, step: Array) -> None:
        """Join a model whose targets have had `step` more subtracted from them."""
        moments, theirs = self._moments, other._moments
        if moments is not None and theirs is not None:
            moments = moments.joined(theirs)
        with Workers(1):
            mine, added = (
                self._with_kernel_of(one._stream, moments) for one in (self, other)
            )
            # Both within a few percent of the kernel of the moments: now the same.
            added = added.with_kernel(mine.kernel, mine.scaling)
            self._streams = [mine.joined(added.moved(step))]
        self._moments, self._resolved = moments, self._stream.n_rows
        if "_seen" in self.__dict__ and "_seen" in other.__dict__:
            self._seen = self._seen.joined(other._seen.moved(step))
        self._join_counts(other)

    def _total_updates(self) -> int:
        return int(self._stream.n_updates)

    @property
    def ball_bound_(self) -> Any:
        """Always raises AttributeError: a core set has no ball."""
        raise AttributeError(
            f"{type(self).__name__} has no ball_bound_: it keeps a core set, not a "
            "ball. corevec.certify(model, X, y) measures the gap on given rows."
        )

    def _certify(self, X: Any, y: Any, sample_weight: Any) -> Certificate:
        raise NotImplementedError


Seen = tuple[AnyKernel, Scaling | None]


def _has_moved(before: Seen, after: Seen) -> bool:
    """Whether a kernel, or the scaling of its rows, is another than before."""
    (kernel, scaling), (new, new_scaling) = before, after
    if (scaling is None) != (new_scaling is None):
        return True
    if scaling is not None and new_scaling is not None:
        ratio = np.abs(np.log(new_scaling.factor / scaling.factor)).max()
        shift = np.abs((new_scaling.shift - scaling.shift) * scaling.factor).max()
        if max(ratio, shift) > MOVED:
            return True
    if not isinstance(kernel, Kernel) or not isinstance(new, Kernel):
        return False
    gammas = [float(one.gamma) * 4.0**-one.row_map.exponent for one in (kernel, new)]
    moved = abs(gammas[1] - gammas[0]) > MOVED * abs(gammas[1])
    return moved or kernel.row_map.exponent != new.row_map.exponent
