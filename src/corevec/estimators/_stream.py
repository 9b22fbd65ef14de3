"""Base class of the streaming estimators: blocks in, one ball per machine out."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from corevec._runtime.progress import Progress, RoundState
from corevec._runtime.types import Array
from corevec.data.sources import (
    DEFAULT_MEMORY_BUDGET,
    TARGET,
    WEIGHT,
    as_source,
    map_values,
    remote_source,
    require_host_rows,
    require_rows_in_memory,
)
from corevec.estimators._base import CoreVectorEstimator, kernel_for
from corevec.estimators._dataset import Dataset
from corevec.estimators._stream_blocks import Block, BlockReporter, first_unusable
from corevec.estimators._stream_checks import (
    FREE,
    check_mergeable,
    check_streaming,
    check_unchanged,
)
from corevec.estimators._validation import checked_weights, named, validated
from corevec.exceptions import InvalidInputError, KernelError
from corevec.kernels import AnyKernel, Rows, make_kernel
from corevec.models.certificate import Certificate
from corevec.models.expansion import KernelExpansion
from corevec.solvers.streaming.ball_bound import BallBound, loosest_of
from corevec.solvers.streaming.geometry import Form, UnusableRow
from corevec.solvers.streaming.kernel_stream import KernelStream
from corevec.solvers.streaming.stream import BallStream, LinearStream, Signs, stacked


class StreamingEstimator(CoreVectorEstimator):
    """Base class of the streaming estimators; not for direct use."""

    # Parameters of the base class: one pass uses one thread and little memory.
    n_jobs = None
    memory_budget = DEFAULT_MEMORY_BUDGET

    _what_is_known = (
        "ball_bound_ holds what is proved about the ball around the rows seen."
    )
    # Whether remote rows give the kernel in a pass of its own.
    _kernel_first = True

    C: Any
    n_balls: Any
    balls: Any
    budget: Any
    overflow: Any

    @property
    @abstractmethod
    def _form(self) -> Form: ...

    @abstractmethod
    def _machines(self) -> list[int]:
        """Return the positive class code of each machine."""

    def _check(self) -> None:
        check_streaming(self)

    def _check_unchanged(self) -> None:
        """Raise if a parameter has changed since the stream began."""
        if self.__sklearn_is_fitted__():
            check_unchanged(self, self._begun_with)
        self.__dict__.pop("_stopped_by", None)

    # One pass -----------------------------------------------------------------------

    def _fit_blocks(
        self, blocks: Iterable[Block], learn: Callable[[Any, Any, Any], None]
    ) -> None:
        """Learn from every block, in order, once; Ctrl-C ends it between blocks."""
        progress = Progress(0)
        reporter = BlockReporter(self, lambda _: self._fitted_attributes())
        with reporter, progress.listening_for_interrupt():
            for number, block in enumerate(blocks):
                learn(*block)
                stop = reporter.on_round(
                    {
                        "block": number,
                        "rows": self._position,
                        "updates": self._total_updates(),
                        **self._results(),
                    },
                    RoundState(lambda: None),  # the model itself is fitted
                )
                if stop or progress.stop_asked:
                    self._stopped_by = "interrupt"
                    break
        if not self.__sklearn_is_fitted__():
            raise InvalidInputError(
                f"{type(self).__name__}: the stream contains no row, so there is "
                "nothing to fit. (An iterator can be consumed once only.)"
            )

    def _results(self) -> dict[str, float]:
        """Return what was measured on the rows before they were learned."""
        return {"accuracy": getattr(self, "test_then_train_accuracy_", np.nan)}

    def _forget(self) -> None:
        for name in self._fitted_attributes():
            self.__dict__.pop(name, None)

    def _fitted_attributes(self) -> dict[str, Any]:
        """Return the fitted attributes of a pass."""
        names = ("classes_", "n_features_in_", "feature_names_in_")
        private = ("_streams", "_position", "_seconds", "_stopped_by", "_begun_with")
        more = ("_right", "_tested", "_sample", "_offsets", "_mass")
        targets = ("_target_offset", "_one_target")
        core = ("_moments", "_resolved", "_seen")
        kept = (*names, *private, *more, *targets, *core)
        return {n: self.__dict__[n] for n in kept if n in self.__dict__}

    def _validated(self, X: Any, y: Any, *, first: bool, **more: Any) -> Any:
        """Return validated rows and labels; the linear loop finds NaN itself."""
        linear = self._is_linear
        checks: dict[str, Any] = {"order": "C", "reset": first, **more}
        if not first:
            checks["ensure_min_samples"] = 0  # an empty block changes nothing
        try:
            return validated(self, X, y, ensure_all_finite=not linear, **checks)
        except InvalidInputError:
            self._name_bad_row(X, y, checks)
            raise

    def _name_bad_row(self, X: Any, y: Any, checks: dict[str, Any]) -> None:
        """Raise an error that names the first row that is not finite, if any."""
        try:
            found = validated(self, X, y, ensure_all_finite=False, **checks)
        except InvalidInputError:
            return
        rows = found[0] if isinstance(found, tuple) else found
        self._raise_bad_row(rows)

    def _raise_bad_row(self, X: Any, row: int | None = None) -> None:
        found = first_unusable(X)
        if found is not None:
            row, kind = found
            raise InvalidInputError(
                f"{type(self).__name__}: Input X contains {kind} in "
                f"{self._where(row)}. No row of this block was learned; drop or impute "
                "such rows."
            )
        if row is not None:
            raise KernelError(
                f"{type(self).__name__}: the squared norm of {self._where(row)} "
                "overflows. Scale the columns (StandardScaler)."
            )

    def _where(self, row: int) -> str:
        position = self.__dict__.get("_position", 0)
        return f"row {row} of this block (row {position + row:,} of the stream)"

    def _learn(self, X: Any, codes: Array, weights: Array | None) -> None:
        """Update every machine with validated rows: all of the machines, or none."""
        began = time.perf_counter()
        fitted = self.__sklearn_is_fitted__()
        inverse = self._inverse(weights)
        streams = self._streams if fitted else self._new_streams(X, weights)
        try:
            streams = [
                stream.absorb(X, Signs(codes, positive, inverse))
                for stream, positive in zip(streams, self._machines(), strict=True)
            ]
        except UnusableRow as error:
            self._raise_bad_row(X, error.row)
        except KernelError as error:
            raise KernelError(f"{type(self).__name__}: {error}") from None
        self._position = self.__dict__.get("_position", 0) + X.shape[0]
        self._seconds = self.__dict__.get("_seconds", 0.0)
        self._seconds += time.perf_counter() - began
        self._streams: list[BallStream] = streams
        if not fitted:
            self._begun_with = {
                name: value
                for name, value in self.get_params().items()
                if name not in FREE
            }

    def _inverse(self, weights: Array | None) -> Array:
        """Return 1/C_i per row, or one value for all rows; infinite for weight 0."""
        unit = 1.0 / self._slack  # 0 of a hard ball
        if weights is None:
            return np.array([unit])
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return np.where(weights > 0, unit / weights, np.inf)

    @property
    def _slack(self) -> float:
        return float(self.C)

    def _new_streams(self, X: Any, weights: Array | None) -> list[BallStream]:
        machines = range(len(self._machines()))
        if self._is_linear:
            return [LinearStream(self._form, X.shape[1]) for _ in machines]
        # For remote rows: the kernel that all partitions share.
        kernel = self.__dict__.get("_kernel_of_all")
        if kernel is None:
            source = as_source(X, self.memory_budget)
            kernel = kernel_for(self, Dataset.in_memory("X", source, weights))
        merge = self.overflow == "merge"
        return [
            KernelStream(self._form, kernel, self.budget, merge=merge) for _ in machines
        ]

    def _block_weights(self, sample_weight: Any, n: int) -> Array | None:
        """Return checked weights; a later block may consist of weights 0."""
        if sample_weight is None or n == 0:
            return None
        plain = np.asarray(sample_weight)
        nothing = plain.shape == (n,) and plain.dtype.kind in "fiu" and not plain.any()
        if nothing and self.__sklearn_is_fitted__():
            return np.zeros(n)
        return checked_weights(self, sample_weight, n)

    # Fitted attributes --------------------------------------------------------------

    def __sklearn_is_fitted__(self) -> bool:
        """Whether at least one row has been seen."""
        return "_streams" in self.__dict__

    @property
    def radius_(self) -> Any:
        """Radius of the ball around all rows seen, one per machine."""
        return self._each(lambda stream: stream.whole().radius)

    @property
    def lower_radius_(self) -> Any:
        """Lower bound of the radius of the smallest ball, one per machine."""
        return self._each(lambda stream: stream.whole().lower_radius)

    @property
    def n_updates_(self) -> Any:
        """Number of absorbed rows, one per machine (nSV in the paper)."""
        return self._each(lambda stream: stream.n_updates)

    @property
    def n_rows_seen_(self) -> int:
        """Number of rows seen, without those of weight 0."""
        return int(self._streams[0].n_rows)

    @property
    def _is_linear(self) -> bool:
        """Whether the centres are explicit vectors, that is, the kernel is linear."""
        if self.__sklearn_is_fitted__():
            return isinstance(self._streams[0], LinearStream)
        return isinstance(self.kernel, str) and self.kernel == "linear"

    def _each(self, value: Any) -> Any:
        found = [value(stream) for stream in self._streams]
        return found[0] if len(found) == 1 else np.array(found)

    def _total_updates(self) -> int:
        return sum(stream.n_updates for stream in self._streams)

    @property  # computed on access: otherwise every block would compute it
    def ball_bound_(self) -> BallBound:
        """Proved bound of the ball: of the loosest class, all classes in `.parts`."""
        interrupted = self.__dict__.get("_stopped_by") == "interrupt"
        parts = []
        for stream in self._streams:
            whole = stream.whole()
            radii = whole.radius, whole.lower_radius
            parts.append(BallBound(*radii, stream.n_rows, self._seconds, interrupted))
        return loosest_of(parts)

    @property
    def certificate_(self) -> Certificate:  # type: ignore[override]
        """Always raises AttributeError: one pass cannot measure the duality gap."""
        raise AttributeError(
            f"{type(self).__name__} has no certificate_: the duality gap of the model "
            "is unknown after one pass. To measure it on rows of your choice, call "
            f"corevec.certify(model, X, y); {self._what_is_known}"
        )

    # Functions ----------------------------------------------------------------------

    @property
    def _functions(self) -> KernelExpansion:
        """The centres as one kernel expansion, one output per machine, not scaled."""
        streams, bias = self._streams, self._streams[0].form.bias
        kernel: AnyKernel
        if self._is_linear:
            kernel = make_kernel("linear")
            centres = [s.centre() for s in streams if isinstance(s, LinearStream)]
            rows: Any = np.stack([centre for centre, _ in centres])
            coef = np.eye(len(streams))
            intercept = np.array([own for _, own in centres])
        else:
            expansions = [s for s in streams if isinstance(s, KernelStream)]
            kernel, rows = expansions[0].kernel, expansions[0].rows
            for one in expansions[1:]:
                rows = stacked(rows, one.rows)
            sizes = np.cumsum([0, *(len(one.own) for one in expansions)])
            coef = np.zeros((sizes[-1], len(streams)))
            for t, one in enumerate(expansions):
                coef[sizes[t] : sizes[t + 1], t] = one.centre()
            intercept = bias * coef.sum(axis=0)
        return KernelExpansion(
            kernel, Rows(rows, np.arange(rows.shape[0])), coef, intercept
        )

    def _for_certificate(self, X: Any) -> tuple[Any, KernelExpansion]:
        """Return rows and functions as the problem has them."""
        return X, self._functions

    def _values(self, X: Any) -> Array:
        """Return the values of the centres on new rows, shape (n_rows, n_machines)."""
        check_is_fitted(self)
        refuse_tensors(type(self).__name__, X)
        X = self._validate_new(X)
        return map_values(X, self._values_of)

    def _values_of(self, X: Any) -> Array:
        functions = self._functions
        if self._is_linear:
            return np.asarray(X @ functions.basis.values.T + functions.intercept)
        return np.asarray(functions.values(as_source(X, self.memory_budget)))

    def _unless_linear(self) -> None:
        if self._is_linear:
            raise AttributeError("a linear model keeps no rows: see coef_")

    @property
    def support_vectors_(self) -> Any:
        """Rows of the expansion, for kernels other than the linear one."""
        self._unless_linear()
        return self._functions.basis.values

    # Merging ------------------------------------------------------------------------

    def merge(self, other: Any) -> Self:
        """Merge a model that was trained on other rows into this one.

        The merged ball contains all rows that either model has seen; its bounds and
        counts are valid as for one stream. `other` is not changed.

        Parameters
        ----------
        other : estimator of the same class
            Model that was fitted on rows that this one has not seen, with the same
            classes, columns and parameters (except those that only affect reports).

        Returns
        -------
        self
            The merged model.
        """
        check_is_fitted(self)
        check_mergeable(self, other)
        self._join(other)
        return self

    def _join(self, other: Any) -> None:
        self._streams = [
            mine.joined(theirs)
            for mine, theirs in zip(self._streams, other._streams, strict=True)
        ]
        self._join_counts(other)

    def _join_counts(self, other: Any) -> None:
        self._position += other._position
        self._seconds += other._seconds
        if "_stopped_by" in other.__dict__:
            self._stopped_by = other._stopped_by


def fit_remote(model: Any, X: Any, y: Any, sample_weight: Any, classes: Any) -> bool:
    """Fit a streaming model on every partition, in order, and merge the balls.

    False, and nothing is done, where the rows are in memory. The classes and the kernel
    coefficient are determined by earlier passes, because they must be the same in all
    partitions.
    """
    who, task = type(model).__name__, model._task
    if not model._check_remote_columns(X, reset=True):
        return False
    source = remote_source(who, X, None if task == "none" else y, sample_weight)
    assert source is not None
    try:
        given = Dataset.carried(who, source, task)
    except InvalidInputError as error:
        raise named(model, error) from None
    if task == "classes" and classes is None:
        classes = given.classes
    kernel = None
    if model._kernel_first and not model._is_linear:
        kernel = kernel_for(model, given)
    begin = partial(_begin, clone(model), kernel)
    step = partial(_step, task, None if classes is None else list(classes))
    found = source.fold(begin, step, _joined)
    for name, value in found._fitted_attributes().items():
        if name not in ("n_features_in_", "feature_names_in_"):
            setattr(model, name, value)
    return True


def _begin(model: Any, kernel: AnyKernel | None) -> Any:
    fresh = clone(model)
    if kernel is not None:
        fresh._kernel_of_all = kernel
    return fresh


def _step(task: str, classes: Any, model: Any, rows: Rows) -> Any:
    weights = rows.columns.get(WEIGHT)
    if weights is not None and not (weights > 0).any():
        return model  # rows of weight 0 change nothing
    more = {"classes": classes} if task == "classes" else {}
    if task != "none":
        more["y"] = rows.columns[TARGET]
    return model.partial_fit(rows.values, sample_weight=weights, **more)


def _joined(a: Any, b: Any) -> Any:
    if not b.__sklearn_is_fitted__():
        return a
    return a.merge(b) if a.__sklearn_is_fitted__() else b


def refuse_tensors(who: str, X: Any) -> None:
    """Raise for rows on a device: a ball grows row by row, on the host."""
    why = "rows are learned one after the other, on the host"
    require_host_rows(who, X, why)


def refuse_remote(who: str, X: Any) -> None:
    """Raise for remote rows: a few numbers per row are needed in memory."""
    require_rows_in_memory(
        who,
        X,
        "certify of a streaming model stores a few numbers per row, so the rows must "
        "be in memory; {kind} was given. Certify on a part of them, or fit "
        "CoreVectorClassifier or SVDD, which certify remote rows as well.",
    )
