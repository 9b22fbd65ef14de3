"""CoreVectorRanker: an order of the rows of each query, with a certificate."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_array

from corevec._runtime.progress import Progress
from corevec._runtime.types import Array
from corevec.data.sources import (
    DEFAULT_MEMORY_BUDGET,
    Source,
    Workers,
    as_source,
    is_spark,
)
from corevec.estimators._base import CoreVectorEstimator, kernel_for
from corevec.estimators._callbacks import RoundReporter, with_callbacks
from corevec.estimators._dataset import Dataset
from corevec.estimators._parameters import check_positive, seed_of, store
from corevec.estimators._rows import checked_weights, lazily
from corevec.estimators._validation import named
from corevec.estimators.methods import FewVectors, Method, method_of
from corevec.exceptions import InvalidInputError, KernelError
from corevec.kernels import AnyKernel
from corevec.models.result import FitResult
from corevec.problems.pairs import Pairs, pairs_of
from corevec.solvers import ranking


class CoreVectorRanker(CoreVectorEstimator):
    r"""Learning to rank with kernels over all pairs of each query, with a certificate.

    Over the pairs of rows of one query of which the first has the higher grade, solves

    .. math:: \min_w \tfrac12 \|w\|^2 + \tfrac C2 \sum_{(i, j)} c_{ij}
              \max(0, 1 - (f(x_i) - f(x_j)))^2

    with :math:`f(x) = \langle w, \varphi(x) \rangle`. Pairs are never listed: sorting
    gives their sums. Up to 3,000 rows the solution is exact; beyond, it is that over
    all pairs in the span of a basis of rows, and the certificate bounds its distance
    from the full optimum.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the squared slack, per row ("query") or per pair ("uniform").
    kernel : str or callable, default="rbf"
        Kernel function: a name, "precomputed", or a function ``k(X, Z)``. See
        `CoreVectorClassifier`.
    gamma : float or {"scale", "auto", "mean-distance"}, default="scale"
        Kernel coefficient. See `CoreVectorClassifier`.
    degree : float, default=3
        Degree of the "poly" kernel.
    coef0 : float, default=0.0
        Constant term of the "poly" and "sigmoid" kernels.
    pair_weight : {"query", "uniform"}, default="query"
        "query": every query counts the same, as in the mean NDCG, whether it has ten
        rows or a thousand: :math:`c_{ij} = m\, s_i s_j / N_q`, with :math:`N_q` the sum
        of :math:`s_i s_j` over the pairs of the query and m the mean number of rows of
        a query (by weight), so that C is per row, as in the other estimators. (A weight
        shared by all rows of a query changes little, then.) "uniform":
        :math:`c_{ij} = s_i s_j`; a query of ten times the rows counts a hundred times.
    method : str or object of `corevec.methods`, default="auto"
        "auto": the basis is all rows up to 3,000, the rank of a kernel of low rank,
        else 1000 rows (fewer where `memory_budget` requires it).
        ``methods.FewVectors(k, basis="nystroem")``: at most k random rows; where their
        number keeps the gap above `tol`, the certificate says "n_vectors reached",
        without a warning.
    tol : float, default=1e-3
        Tolerance: the relative duality gap to reach, measured on all pairs.
    max_iter : int, default=None
        Maximum number of rounds. None sets no limit.
    max_time : float, default=None
        Maximum time of the fit in seconds. None sets no limit.
    memory_budget : float, default=2**28
        Memory budget in bytes, beside the data; by default an eighth of the memory of
        the machine (256 MiB to 4 GiB). It determines the block sizes
        and the size of the core set.
    n_jobs : int, default=None
        Number of threads. None uses the available cores (or ``OMP_NUM_THREADS``).
    random_state : int or RandomState, default=None
        Seed of all sampling. None: always the same, so that a fit can be repeated.
    verbose : int, default=0
        1 shows a progress line on a terminal; 2 writes one log record per round.

    Attributes
    ----------
    support_, support_vectors_, dual_coef_ : ndarray
        The basis rows, and their coefficients: ``predict(X) = k(X, support_vectors_)
        @ dual_coef_[0]``.
    intercept_ : ndarray of shape (1,)
        Zero: a bias cancels in every pair.
    n_pairs_, n_queries_ : int
        Number of training pairs (without rows of weight 0), and of queries that have
        any.
    method_, certificate_, history_, n_iter_, n_core_
        As in `CoreVectorClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from corevec import CoreVectorRanker
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.normal(size=(300, 4)), np.repeat(np.arange(15), 20)
    >>> grades = np.clip(np.round(X[:, 0] + 2), 0, 4)
    >>> model = CoreVectorRanker(C=10).fit(X, grades, qid=qid)
    >>> model.certificate_.converged
    True
    """

    _serves = "ranker"
    _takes_remote = False  # the rows of a query may lie in several partitions

    def __init__(
        self,
        C: float = 1.0,
        *,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        pair_weight: str = "query",
        method: Any = "auto",
        tol: float = 1e-3,
        max_iter: int | None = None,
        max_time: float | None = None,
        memory_budget: float = DEFAULT_MEMORY_BUDGET,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ):
        store(self, locals())

    @with_callbacks
    def fit(
        self,
        X: Any,
        y: Any,
        group: Any = None,
        sample_weight: Any = None,
        *,
        qid: Any = None,
    ) -> Self:
        """Fit the ranker.

        Parameters
        ----------
        X : array-like, CSR matrix or memmap of shape (n_rows, n_features)
            Training rows; a square kernel matrix for ``kernel="precomputed"``.
        y : array-like of shape (n_rows,)
            Grades: numbers, of which only the order within a query matters.
        group : array-like of int, optional
            Rows of each query, in the order of the rows, as in LightGBM and XGBoost;
            they add up to n_rows. Without `group` and `qid` all rows are one query.
        sample_weight : array-like of shape (n_rows,), optional
            Weight 0 leaves a row out, weight 2 counts it twice.
        qid : array-like of shape (n_rows,), optional
            The query of each row, instead of `group`; its rows need not be adjacent.
            Cross-validation can split this one, not the other.

        Returns
        -------
        self
            The fitted ranker, with `certificate_`.
        """
        who = type(self).__name__
        check_positive(who, "C", self.C)
        X, y = self._validate_fit(X, y, y_numeric=True)
        weights = checked_weights(self, sample_weight, X.shape[0])
        pairs = self._pairs(y, group, qid, weights)
        if len(pairs) == 0:
            raise InvalidInputError(
                f"{who}: there is no pair to learn from (n_samples={X.shape[0]}): in "
                "every query all rows with a weight have one grade. Give queries with "
                "at least two grades; if `group` or `qid` split them, check those."
            )
        self.n_pairs_ = pairs.n_pairs
        self.n_queries_ = len(pairs.scale)
        with Workers(self.n_jobs) as workers:
            source = as_source(X, self.memory_budget, workers)
            given = Dataset.in_memory(who, source, weights)
            kernel = kernel_for(self, given)
            with RoundReporter(self, self._attributes_at, given) as reporter:
                found = self._solve_pairs(pairs, source, kernel, reporter)
                self._set_fitted(*found, "ranking")
        return self

    @lazily
    def predict(self, X: Any) -> Array:
        """Return a score per row: within a query, the higher the better.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_rows, n_features)
            Rows (kernel values against the training rows if precomputed).

        Returns
        -------
        ndarray of shape (n_rows,)
            Scores f(x). A difference of 1 is the margin; the zero has no meaning.
        """
        return np.ascontiguousarray(self._values(X)[:, 0])

    def score(
        self,
        X: Any,
        y: Any,
        group: Any = None,
        sample_weight: Any = None,
        *,
        qid: Any = None,
    ) -> float:
        """Return the share of pairs in the right order; ties count a half.

        It is defined for all grades, also negative ones, and for two grades is the area
        under the ROC curve. With ``pair_weight="query"`` it is the mean over the
        queries that have pairs, else over all pairs. For the NDCG see docs/ranking.md.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_rows, n_features)
            Rows.
        y : array-like of shape (n_rows,)
            Grades.
        group : array-like, optional
            The queries, as in ``fit``.
        sample_weight : array-like of shape (n_rows,), optional
            Weights of the rows, as in ``fit``.
        qid : array-like, optional
            The queries, as in ``fit``.

        Returns
        -------
        float
            Between 0 and 1; 0.5 for a constant score.
        """
        who = type(self).__name__
        if is_spark(X):
            raise InvalidInputError(
                f"{who}: the pairs are counted in memory, but a Spark data frame was "
                "given. Give score(X, y, group) of arrays: frame.toPandas()."
            )
        f = self.predict(X)
        y = check_array(y, ensure_2d=False, dtype=None, input_name="y")
        if y.shape != f.shape:
            raise InvalidInputError(
                f"{who}: X has {len(f)} rows, y has shape {y.shape}; one grade per row "
                "is needed."
            )
        weights = checked_weights(self, sample_weight, len(f))
        pairs = self._pairs(y, group, qid, weights)
        if len(pairs) == 0:
            raise InvalidInputError(
                f"{who}: there is no pair to score: every query has one grade only."
            )
        right = pairs.sums(-f[pairs.rows], margin=0.0).count
        wrong = pairs.sums(f[pairs.rows], margin=0.0).count
        total = pairs.scale * pairs.pair_weight
        return float((total + right - wrong).sum() / (2 * total.sum()))

    def _pairs(self, y: Array, group: Any, qid: Any, weights: Array | None) -> Pairs:
        who = type(self).__name__
        if y.dtype.kind not in "biuf":
            raise InvalidInputError(
                f"{who}: grades of type {y.dtype} were given (y[0] = {y[0]!r}), whose "
                "order is not known. Give numbers, the higher the better."
            )
        query = _queries(who, len(y), group, qid)
        per_query = self.pair_weight == "query"
        return pairs_of(y, query, weights, float(self.C), per_query)

    def _solve_pairs(
        self, pairs: Pairs, source: Source, kernel: AnyKernel, reporter: RoundReporter
    ) -> tuple[FitResult, Progress]:
        progress = Progress(source.n_rows, self.max_iter, self.max_time)
        progress.listeners.append(reporter.on_round)
        method, most = method_of(self), None
        if isinstance(method, FewVectors):
            most = method.wanted().size(source.n_rows)
        settings = ranking.RankingSettings(self.tol, most, seed_of(self.random_state))
        try:
            with progress.listening_for_interrupt():
                task = ranking.RankingTask(pairs, source, kernel, settings)
                outcome = ranking.solve(task, progress)
        except (KernelError, InvalidInputError) as error:
            raise named(self, error) from None
        outcome.method = (
            f"few-vectors: all pairs of {source.n_rows:,} rows in the span of "
            f"{max(outcome.n_core):,} of them"
        )
        return outcome, progress

    def _check_method(self, method: Method) -> None:
        super()._check_method(method)
        if isinstance(method, FewVectors) and (
            method.basis != "nystroem" or method.regulariser != "norm"
        ):
            raise InvalidInputError(
                f"{type(self).__name__}: method={method!r} cannot be used: the basis "
                "of a ranker are random rows. Use FewVectors(n, basis='nystroem').",
                parameter="method",
            )

    def _certify(self, X: Any, y: Any, sample_weight: Any) -> Any:
        raise InvalidInputError(
            f"certify: a {type(self).__name__} was given, but there is no way to name "
            "the queries. Read `certificate_`, which is of the rows it was fitted on."
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def _queries(who: str, n: int, group: Any, qid: Any) -> Array:
    """Return the number of each row's query."""
    if group is not None and qid is not None:
        raise InvalidInputError(
            f"{who}: both group and qid were given. Give the rows of each query "
            "(group) or the query of each row (qid), not both."
        )
    if qid is not None:
        return _from_ids(who, n, qid)
    if group is None:
        return np.zeros(n, dtype=np.int64)
    return _from_sizes(who, n, group)


def _from_ids(who: str, n: int, qid: Any) -> Array:
    ids = np.asarray(qid)
    if ids.ndim != 1 or any(one is None for one in ids[:1]):
        raise InvalidInputError(
            f"{who}: qid of shape {ids.shape} must be one query id per row: a list of "
            f"{n} numbers or strings."
        )
    if len(ids) != n:
        raise InvalidInputError(
            f"{who}: qid has {len(ids)} entries, but there are {n} rows. Give the "
            "query of every row; the rows of each query are `group`."
        )
    if ids.dtype.kind == "f" and not np.isfinite(ids).all():
        row = int(np.argmin(np.isfinite(ids)))
        raise InvalidInputError(
            f"{who}: qid[{row}] = {ids[row]} names no query. Leave the row out, or "
            "give it weight 0."
        )
    return np.asarray(np.unique(ids, return_inverse=True)[1], dtype=np.int64)


def _from_sizes(who: str, n: int, group: Any) -> Array:
    sizes = np.asarray(group)
    numbers = sizes.dtype.kind in "iuf" and sizes.ndim == 1
    if not (numbers and np.isfinite(sizes).all() and (sizes == np.floor(sizes)).all()):
        raise InvalidInputError(
            f"{who}: group={_short(group)} must be a list of whole numbers, the rows "
            "of each query. For one query id per row use qid.",
            parameter="group",
        )
    if (sizes < 0).any():
        at = int(np.argmin(sizes))
        raise InvalidInputError(
            f"{who}: group[{at}] = {sizes[at]:g} is negative. Give the number of rows "
            "of each query."
        )
    if sizes.sum() != n:
        per_row = " It has one entry per row: did you mean qid?" * (len(sizes) == n)
        raise InvalidInputError(
            f"{who}: group adds up to {sizes.sum():g} rows, but there are {n}. Give "
            f"the number of rows of each query, in the order of the rows.{per_row}"
        )
    return np.repeat(np.arange(len(sizes)), sizes.astype(np.int64))


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


__all__ = ["CoreVectorRanker"]
