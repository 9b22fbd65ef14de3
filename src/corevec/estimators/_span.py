"""Base class of the Subspace estimators: the basis, and the fit in its span."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array

from corevec._runtime.progress import Progress
from corevec.estimators._parameters import check_choice
from corevec.exceptions import InvalidInputError
from corevec.kernels import Rows
from corevec.models.checkpoint import Saved
from corevec.models.expansion import KernelExpansion
from corevec.models.result import FitResult
from corevec.problems.task import Task
from corevec.solvers.basis.choose import Wanted
from corevec.solvers.strategy import few_vectors as basis_engine
from corevec.solvers.strategy import hinge as hinge_engine

BASES = (
    "pursuit",
    "train",
    "nystroem",
    "kmeans",
    "rpcholesky",
    "cholesky",
    "coreset",
)


class InSpan:
    """Base class of the Subspace estimators: the basis, and the fit in its span."""

    # Parameters of the base class that have no effect here.
    ball_epsilon = max_core = None
    sampling = batch = qp = init = low_rank = "auto"
    multi_class = "ovr"
    cells: Any = None
    n_trees: Any = 1
    weights = "all"
    warm_start = False
    loss = "squared_hinge"
    regulariser = "norm"

    n_basis: Any
    basis: Any
    kernel: Any
    certificate: Any
    n_features_in_: int

    def _validate_fit(self, X: Any, y: Any = "no_validation", **checks: Any) -> Any:
        self._check_span()
        found = super()._validate_fit(X, y, **checks)  # type: ignore[misc]
        self._check_vectors()
        return found

    def _check_span(self) -> None:
        if isinstance(self.basis, str):
            who = type(self).__name__
            check_choice(who, "basis", self.basis, BASES, "an array of vectors")
            self._check_size()

    def _check_size(self) -> None:
        n = self.n_basis
        is_number = isinstance(n, Real) and not isinstance(n, bool)
        whole = is_number and isinstance(n, Integral) and int(n) >= 1
        share = is_number and not isinstance(n, Integral) and 0 < float(n) < 1
        if not (whole or share):
            raise InvalidInputError(
                f"{type(self).__name__}: n_basis={n!r} must be a whole number of at "
                "least 1, or a share of the rows between 0 and 1, e.g. 0.1.",
                parameter="n_basis",
            )

    def _check_vectors(self) -> None:
        """Check a given basis against the rows."""
        if isinstance(self.basis, str):
            return
        who = type(self).__name__
        if self.kernel == "precomputed":
            raise InvalidInputError(
                f"{who}: with kernel='precomputed' a basis cannot be given as "
                f"vectors; use one of {', '.join(repr(b) for b in BASES)}."
            )
        try:
            vectors = check_array(self.basis, accept_sparse="csr", input_name="basis")
        except (TypeError, ValueError) as error:
            raise InvalidInputError(
                f"{who}: {error} Give one of {', '.join(repr(b) for b in BASES)}, or "
                "an array with one basis vector per row."
            ) from None
        if vectors.shape[1] != self.n_features_in_:
            raise InvalidInputError(
                f"{who}: basis has {vectors.shape[1]} columns, X has "
                f"{self.n_features_in_}. Basis vectors must have the columns of X."
            )

    def _wanted(self) -> Wanted:
        own_norm = self.regulariser == "norm"
        if not isinstance(self.basis, str):
            vectors = check_array(self.basis, accept_sparse="csr", dtype=np.float64)
            rows = Rows(vectors, np.full(vectors.shape[0], -1))
            return Wanted(len(rows), rows, self.certificate, own_norm)
        return Wanted(self.n_basis, self.basis, self.certificate, own_norm)

    def _solve(self, task: Task, progress: Progress, saved: Saved | None) -> FitResult:
        solve = hinge_engine.fit if self.loss == "hinge" else basis_engine.fit
        wanted, source = self._wanted(), task.source
        if saved is not None and saved.basis_is_final:
            wanted = replace(wanted, basis=Rows(saved.values, saved.index))
        own = task.problems, source, task.kernel, wanted
        outcome = solve(*own, task.settings, progress)
        if isinstance(self.basis, str) and wanted.size(source.n_rows) == source.n_rows:
            # All rows are the basis: the gap is not due to the size of the basis.
            outcome.certificates = [
                replace(c, stopped_by="stall") if c.stopped_by == "n_vectors" else c
                for c in outcome.certificates
            ]
        return outcome

    def _attributes(self, functions: KernelExpansion) -> dict[str, Any]:
        """Return the fitted attributes that follow from the functions alone."""
        found: dict[str, Any] = super()._attributes(functions)  # type: ignore[misc]
        found["basis_indices_"] = found.pop("support_")
        found["basis_vectors_"] = found.pop("support_vectors_")
        return found

    def _count_support(self, given: Any) -> None:
        """Basis vectors have no class."""
