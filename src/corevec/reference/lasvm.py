"""LASVM: one pass over the rows, two steps of SMO for each (Bordes et al. 2005).

Bordes, Ertekin, Weston, Bottou, "Fast kernel classifiers with online and active
learning", JMLR 6: section 3.2 (PROCESS, REPROCESS and the algorithm around them) and
section 4 (which row comes next). The numbered steps are in
``_reference_active_loops.py``.

Multipliers are signed here as there: ``sum_s alpha_s = 0``, ``alpha_s`` between 0 and
``C_s y_s``, ``g_s = y_s - sum_r alpha_r k_rs`` the gradient of the dual.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from corevec._runtime.types import Array
from corevec.estimators._parameters import (
    check_choice,
    check_flag,
    check_number,
    check_positive,
    store,
)
from corevec.reference._base import (
    STEPS_REMEDY,
    Machine,
    ReferenceClassifier,
    check_limit,
    limit_of,
    step_limit,
)
from corevec.reference._kernel_rows import KernelRows
from corevec.reference._lasvm_rows import BLOCK, Expansion

# "A few rows of each class" of the initialisation.
_SEEDS = 5


class LASVM(ReferenceClassifier):
    r"""Support vector machine trained row by row (LASVM), as published.

    Solves the hinge-loss machine with free bias,

    .. math:: \min_{w, b} \tfrac12 \|w\|^2
              + C \sum_i s_i \max(0, 1 - y_i (w \cdot \phi(x_i) + b)).

    Each row picked is offered to the expansion (PROCESS: a step along the row and the
    row that it violates most with), then the pair of rows of the expansion that
    violates most takes a step (REPROCESS), and rows that lost their weight leave. In
    the end REPROCESS goes on until no pair of the *expansion* violates by more than
    `tau`. After one epoch that is near the solution, not at it: rows that left, or
    were passed over, may belong there. With ``n_epochs=None`` it is: no row of all
    violates by more than `tau`, so the objective is within
    ``tau C (sum of weights)`` of the optimum.

    Parameters
    ----------
    C : float, default=1.0
        Price of the slack, as in scikit-learn's ``SVC``.
    kernel : str or callable, default="rbf"
        As in `CoreVectorClassifier`.
    gamma : float or {"scale", "auto", "mean-distance"}, default="scale"
        Kernel width.
    degree, coef0 : float, default=3, 0.0
        Parameters of "poly" and "sigmoid".
    tau : float, default=1e-3
        By how much the gradients of two rows may violate the optimality conditions
        (SVC's ``tol``). Far below ``1e-13 C n`` rounding may keep it from ending.
    n_epochs : float or None, default=1
        How often every row is picked; 0.1 picks a tenth of the rows. None goes on, with
        the finishing after each epoch, until an epoch takes no step.
    selection : {"random", "margin", "gradient"}, default="random"
        Which row is picked next: any; out of `candidates` random ones not yet picked
        in this epoch the one closest to the decision boundary (the paper's active
        learning, which does not look at its label); the most misclassified one.
    candidates : int, default=50
        Rows looked at for a pick that is not random; -1 for all of them.
    finishing : bool, default=True
        Whether to go on with REPROCESS after the last epoch.
    max_iter : int, default=-1
        Most steps of one machine; -1 for 100,000 per row.
    max_vectors : int, default=-1
        Most rows in the expansion: no more are picked when it has as many, and the
        finishing follows; -1 for no limit.
    cache_size : float, default=200
        Megabytes of kernel values to keep.
    class_weight : dict or "balanced", optional
        Multiplies the weights of a class's rows.
    random_state : int or RandomState, optional
        Seed of the order of the rows.

    Attributes
    ----------
    classes_ : ndarray
        Class labels.
    support_, support_vectors_ : ndarray or CSR
        Row numbers and rows with a multiplier.
    dual_coef_, intercept_ : ndarray
        Signed multipliers and biases, one row and one entry per machine.
    n_support_, n_iter_ : ndarray
        Support vectors of each class; steps of each machine.
    fit_status_ : int
        0 if every machine met `tau`, else 1.

    Examples
    --------
    >>> import numpy as np
    >>> from corevec.reference import LASVM
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
    >>> LASVM(C=10.0, random_state=0).fit(X, y).score(X, y) > 0.9
    True
    """

    def __init__(
        self,
        C: float = 1.0,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        *,
        tau: float = 1e-3,
        n_epochs: float | None = 1,
        selection: str = "random",
        candidates: int = 50,
        finishing: bool = True,
        max_iter: int = -1,
        max_vectors: int = -1,
        cache_size: float = 200,
        class_weight: Any = None,
        random_state: Any = None,
    ):
        store(self, locals())

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_positive("LASVM", "C", self.C)
        check_number("LASVM", "tau", self.tau, above=0, remedy="SVC's tol is 1e-3.")
        check_number(
            "LASVM",
            "n_epochs",
            1 if self.n_epochs is None else self.n_epochs,
            above=0,
            remedy="1 picks every row once; None goes on until no row violates.",
        )
        words = ("random", "margin", "gradient")
        check_choice("LASVM", "selection", self.selection, words)
        check_limit("LASVM", "candidates", self.candidates)
        check_flag("LASVM", "finishing", self.finishing)
        check_limit("LASVM", "max_iter", self.max_iter)
        check_limit("LASVM", "max_vectors", self.max_vectors)

    def _fit_binary(self, rows: KernelRows, y: Array, weight: Array) -> Machine:
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        rng = np.random.default_rng(seed)
        present = np.flatnonzero(weight > 0)
        limit, most = step_limit(self.max_iter, len(y)), limit_of(self.max_vectors)
        S = Expansion(rows, y, self.C * weight, float(self.tau), limit)
        # 1. Initialisation: a few rows of each class.
        mixed, few = rng.permutation(present), min(_SEEDS, max(1, most // 2))
        S.seed(np.concatenate([mixed[y[mixed] == side][:few] for side in (-1, 1)]))
        # 2. Online iterations, and 3. finishing.
        left = np.inf if self.n_epochs is None else self.n_epochs * len(present)
        going, full, changed = True, False, True
        while going and left > 0 and not full and changed:
            steps = S.steps
            picks = self._picks(S, present, rng, left)
            going, full = self._one_epoch(S, picks, most)
            left -= len(present)
            to_the_end = self.n_epochs is None
            changed = S.steps > steps or not to_the_end
            if going and (to_the_end or (self.finishing and (left <= 0 or full))):
                going = S.finish()
        return self._machine(S, going, full)

    def _one_epoch(
        self, S: Expansion, picks: Iterator[Array], most: int
    ) -> tuple[bool, bool]:
        """Offer rows; return whether steps are left, and whether S is full."""
        going, full = True, False
        for picked in picks:
            going, full = S.online_within(picked, most), len(S.index) >= most
            if not going or full:
                break
        return going, full

    def _picks(
        self, S: Expansion, present: Array, rng: np.random.Generator, most: float
    ) -> Iterator[Array]:
        """Yield the rows of one epoch in small blocks, up to a limit."""
        unseen = rng.permutation(present)
        n = int(min(len(unseen), np.ceil(most)))
        if self.selection == "random":
            for start in range(0, n, BLOCK):
                yield unseen[start : min(start + BLOCK, n)]
            return
        for last in range(len(unseen) - 1, len(unseen) - 1 - n, -1):
            drawn = np.arange(last + 1)
            if self.candidates != -1:
                drawn = rng.integers(last + 1, size=int(self.candidates))
            f = S.values(unseen[drawn])
            # Section 4: "active" or "gradient" selection.
            worth = np.abs(f) if self.selection == "margin" else S.y[unseen[drawn]] * f
            best = drawn[np.argmin(worth)]
            picked = unseen[[best]]
            unseen[best] = unseen[last]
            yield picked

    def _machine(self, S: Expansion, going: bool, full: bool) -> Machine:
        coef = np.zeros(len(S.y))
        coef[S.index] = S.alpha
        reason = (
            f"stopped after {S.steps:,} steps (max_iter={self.max_iter}) with a "
            f"violation of {S.delta:.2e}, tau={self.tau:.2e} asked. {STEPS_REMEDY}"
        )
        if going and full:
            reason = (
                f"stopped by max_vectors={self.max_vectors}, before all rows were "
                "offered. Raise max_vectors or lower C."
            )
        bias = S.centred_bias() if going else S.bias
        return Machine(coef, bias, S.steps, going and not full, reason)
