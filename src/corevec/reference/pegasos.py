"""Pegasos: stochastic subgradient steps on the primal (Shalev-Shwartz et al. 2007).

Shalev-Shwartz, Singer, Srebro, "Pegasos: Primal Estimated sub-GrAdient SOlver for SVM",
ICML 2007, figure 1 (linear, k rows a step, projection), and the kernelised form of the
journal version (Mathematical Programming 127, 2011, figure 3). The steps are in
``_reference_active_loops.py``.

Reading notes. lambda = 1 / (C n) with the C of scikit-learn's ``SVC``. The figure of
the kernelised form tests the margin of step t with 1 / (lambda t) where w_t is the sum
of the rows so far times 1 / (lambda (t - 1)); here w_t is meant, as in figure 1, so
that both forms take the same steps.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from corevec._runtime.types import Array
from corevec.data.sources import Source
from corevec.estimators._parameters import (
    check_choice,
    check_flag,
    check_number,
    check_positive,
    store,
)
from corevec.exceptions import InvalidInputError
from corevec.kernels import AnyKernel, Rows
from corevec.models.expansion import KernelExpansion
from corevec.reference import _online_loops as loops
from corevec.reference._base import Machine, ReferenceClassifier, check_limit
from corevec.reference._kernel_rows import KernelRows

# Sampled rows whose kernel values are computed together.
_BLOCK = 256
# Passes over the rows; the rows of all steps are drawn beforehand.
_MOST_EPOCHS = 1_000_000


class Pegasos(ReferenceClassifier):
    r"""Stochastic subgradient machine (Pegasos), linear or with a kernel, as published.

    Approximates the hinge-loss machine

    .. math:: \min_w \tfrac12 \|w\|^2 + C \sum_i s_i \max(0, 1 - y_i w \cdot \phi(x_i)),

    without bias, or with a penalised one: :math:`\phi` then has one more column, of
    ones. Step t draws `batch_size` rows (with probability :math:`s_i / S`, :math:`S =
    \sum s_i`), takes those with :math:`y_i w_t \cdot \phi(x_i) < 1`, and

    .. math:: w_{t+1} = (1 - \tfrac1t) w_t
              + \tfrac{1}{\lambda t k} \sum y_i \phi(x_i),
              \quad \lambda = \tfrac{1}{C S},

    which is then shortened to :math:`|w| \le 1/\sqrt\lambda` (`projection`).

    Its accuracy is that of theorem 1: with T steps, ``average=True`` and
    :math:`|\phi(x_i)| \le R`, the expected objective is above the optimum by at most
    :math:`(C S)^2 c (1 + \ln T) / (2 T)`, :math:`c = (\sqrt\lambda + R)^2` with the
    projection and :math:`4 R^2` without. The last w, which is what the paper's
    experiments use, is usually better than the average.

    Parameters
    ----------
    C : float, default=1.0
        Price of the slack, as in scikit-learn's ``SVC``.
    kernel : str or callable, default="linear"
        As in `CoreVectorClassifier`. "linear" keeps w itself, and a step costs the
        entries of its rows; any other one keeps a coefficient per row, and a step costs
        kernel values with all rows that have one.
    gamma : float or {"scale", "auto", "mean-distance"}, default="scale"
        Kernel width.
    degree, coef0 : float, default=3, 0.0
        Parameters of "poly" and "sigmoid".
    n_epochs : float, default=5
        Rows drawn, as a multiple of the rows there are.
    batch_size : int, default=1
        Rows of one step; -1 for as many as there are.
    average : bool, default=False
        Whether the result is the mean of all w instead of the last one.
    projection : bool, default=True
        Whether w is kept in the ball that holds the solution.
    fit_intercept : bool, default=True
        Whether to have the (penalised) bias. The paper's experiments have none.
    order : {"random", "given"}, default="random"
        "random": rows drawn with replacement, as in the paper. "given": one after the
        other, as a stream hands them out; a weight then multiplies a row's step.
    class_weight : dict or "balanced", optional
        Multiplies the weights of a class's rows.
    random_state : int or RandomState, optional
        Seed of the rows drawn.

    Attributes
    ----------
    classes_ : ndarray
        Class labels.
    support_, support_vectors_ : ndarray or CSR
        Row numbers and rows that were ever taken.
    dual_coef_, intercept_ : ndarray
        ``w = sum_i dual_coef_i phi(x_i)``, and the bias, per machine.
    coef_ : ndarray
        w, for the linear kernel.
    n_support_, n_iter_ : ndarray
        Rows of each class with a coefficient; steps of each machine.
    lambda_ : float
        The paper's penalty, ``1 / (C S)``.

    Examples
    --------
    >>> import numpy as np
    >>> from corevec.reference import Pegasos
    >>> X = np.random.default_rng(0).normal(size=(500, 5))
    >>> y = X[:, 0] + X[:, 1] > 0
    >>> Pegasos(random_state=0).fit(X, y).score(X, y) > 0.95
    True
    """

    def __init__(
        self,
        C: float = 1.0,
        kernel: Any = "linear",
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        *,
        n_epochs: float = 5,
        batch_size: int = 1,
        average: bool = False,
        projection: bool = True,
        fit_intercept: bool = True,
        order: str = "random",
        class_weight: Any = None,
        random_state: Any = None,
    ):
        store(self, locals())

    @property
    def bias(self) -> str:
        """The kind of bias that `corevec.certify` uses."""
        return "penalized" if self.fit_intercept else "none"

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_positive("Pegasos", "C", self.C)
        check_number("Pegasos", "n_epochs", self.n_epochs, above=0, remedy="E.g. 5.")
        if self.n_epochs > _MOST_EPOCHS:
            raise InvalidInputError(
                f"Pegasos: n_epochs={self.n_epochs!r} must be at most 1,000,000: "
                "the rows of all steps are drawn beforehand. 5 to 100 are usual.",
                parameter="n_epochs",
            )
        check_limit("Pegasos", "batch_size", self.batch_size)
        for name in ("average", "projection", "fit_intercept"):
            check_flag("Pegasos", name, getattr(self, name))
        check_choice("Pegasos", "order", self.order, ("random", "given"))

    def _fit_binary(self, rows: KernelRows, y: Array, weight: Array) -> Machine:
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        rng = np.random.default_rng(seed)
        present = np.flatnonzero(weight > 0)
        self.lambda_ = float(1 / (self.C * weight.sum()))
        pull = np.ones(len(y))
        if self.order == "given":
            pull = weight * (len(present) / weight.sum())
        draws = self._draws(present, weight, rng)
        batch = len(present) if self.batch_size == -1 else int(self.batch_size)
        batch = min(batch, len(draws))
        is_linear = rows.kernel.name == "linear" and not rows.kernel.normalized
        run = self._linear if is_linear else self._kernelised
        coef = run(rows, (y, pull, draws), batch)
        intercept = float(coef.sum()) if self.fit_intercept else 0.0
        return Machine(coef, intercept, -(-len(draws) // batch))

    def _draws(self, present: Array, weight: Array, rng: np.random.Generator) -> Array:
        """Return the rows of all steps, in order."""
        n = int(np.ceil(self.n_epochs * len(present)))
        if self.order == "given":
            return np.resize(present, n)
        mass = np.cumsum(weight[present])
        found = np.searchsorted(mass, rng.random(n) * mass[-1], side="right")
        return np.asarray(present[np.minimum(found, len(present) - 1)])

    def _linear(
        self, rows: KernelRows, drawn: tuple[Array, Array, Array], batch: int
    ) -> Array:
        """Return a coefficient per row; w is stored beside them, for the margins."""
        d = rows.source.n_features
        flags = (bool(self.projection), bool(self.average))
        settings = (batch, self.lambda_, float(self.fit_intercept), d, *flags)
        v, lag, total = np.zeros((3, d + 1 + rows.n_rows))
        numbers = np.array([0.0, 0.0, 1.0, 0.0])
        entries = _entries(rows.points.values)
        loops.pegasos_linear(entries, *drawn, settings, (v, lag, total, numbers))
        steps, scales = numbers[loops.TIME], numbers[loops.SCALES]
        if self.average:
            return np.asarray((scales * v - lag + total)[d + 1 :] / steps)
        return np.asarray(v[d + 1 :] * (numbers[loops.SHRUNK] / (self.lambda_ * steps)))

    def _kernelised(
        self, rows: KernelRows, drawn: tuple[Array, Array, Array], batch: int
    ) -> Array:
        """Return a coefficient per row; kernel values are computed in blocks."""
        y, pull, draws = drawn
        settings = (batch, self.lambda_, bool(self.projection))
        v, sums, numbers = np.zeros(len(y)), np.zeros(len(y)), np.zeros(2)
        size = batch * max(1, _BLOCK // batch)
        for start in range(0, len(draws), size):
            some = draws[start : start + size]
            K = rows.block(some, rows.prepared(some)) + float(self.fit_intercept)
            f = self._values(rows, v, some)
            gains, gain_sums = np.zeros((2, len(some)))
            old = np.array([1.0, 0.0])
            found = (f, gains, gain_sums, old, numbers)
            loops.pegasos_kernel(K, y[some], pull[some], settings, found)
            sums += old[1] * v
            v *= old[0]
            np.add.at(sums, some, gain_sums)
            np.add.at(v, some, gains)
        steps = numbers[loops.TIME]
        return np.asarray((sums if self.average else v / self.lambda_) / steps)

    def _values(self, rows: KernelRows, v: Array, numbers: Array) -> Array:
        """Return the values of v, which is w up to its scale, on rows."""
        core = np.flatnonzero(v)
        if len(core) == 0:
            return np.zeros(len(numbers))
        coef = v[core, None]
        bias = coef.sum(axis=0) * float(self.fit_intercept)
        f = KernelExpansion(rows.kernel, rows.take(core), coef, bias)
        return np.ascontiguousarray(f.evaluate(rows.take(numbers), f.prepared())[:, 0])

    def _set_fitted(
        self, machines: list[Machine], source: Source, kernel: AnyKernel, codes: Array
    ) -> None:
        super()._set_fitted(machines, source, kernel, codes)
        if self.kernel == "linear":
            # Values by w: one product per machine instead of one per support vector.
            w = Rows(self.coef_, np.arange(len(machines)))
            each = np.eye(len(machines))
            self._functions = KernelExpansion(kernel, w, each, self.intercept_)


def _entries(values: Any) -> tuple[Array, Array, Array, bool]:
    """Return values, columns and starts of the rows, and whether they are dense.

    The columns of dense rows are the same for all of them, and said once.
    """
    if sparse.issparse(values):
        return values.data, values.indices, values.indptr, False
    n, d = values.shape
    columns = np.arange(d, dtype=np.int32)
    return values.ravel(), columns, np.arange(n + 1) * d, True
