"""Growing and moving vectors where the rows live: as in memory; here on the CPU device.

Kernel values and features are float32 on both sides, from other matrix products.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

torch = pytest.importorskip("torch", reason="torch is not installed (corevec[gpu])")

from torch.multiprocessing.reductions import StorageWeakRef  # noqa: E402
from torch.overrides import TorchFunctionMode  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from corevec import (  # noqa: E402
    CoreVectorClassifier,
    CoreVectorRegressor,
    methods,
)
from corevec._runtime import Progress  # noqa: E402
from corevec.backend import arrays  # noqa: E402
from corevec.backend.arrays import to_numpy  # noqa: E402
from corevec.data.sources import (  # noqa: E402  # noqa: E402
    CarriedColumn,
    Coded,
    Standardised,
    Workers,
    as_source,
    gpu,
    row_statistics,
)
from corevec.kernels import make_kernel  # noqa: E402
from corevec.problems import (  # noqa: E402
    AutomaticTube,
    Labels,
    regression,
    two_class,
)
from corevec.solvers import basis as pursuit  # noqa: E402
from corevec.solvers.basis import best_candidates, draw_candidates, move  # noqa: E402
from corevec.solvers.numeric import Deadline, NewtonSettings  # noqa: E402
from corevec.solvers.subspace import draw_each, weighted_rows  # noqa: E402

pytestmark = pytest.mark.filterwarnings(
    "ignore::corevec.exceptions.NotCertifiedWarning"
)

# One rounding of float32, as a share of the largest number: sums of up to 1000.
ROUNDING = 1e-4
# After a few steps that are decided by such numbers; values and vectors of size 1.
STEPPED = 1e-3
# L-BFGS makes another path of it in time, as it does in memory of rows that are moved
# by 1e-6. Of eight seeds of 8 vectors the mean differed by 0.5 %.
PATHS = 0.02
N, D, BUDGET = 600, 4, 2**28
TASKS = ["two classes", "ten classes", "regression", "free tube", "weights"]


def data(task, n=N, d=D):
    """Rows, what belongs to them, and the problems given that in memory or there."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    signal = np.sin(2 * X[:, 0]) + 0.3 * X[:, 1]
    if task in ("regression", "free tube"):
        columns = {"target": signal + 0.2 * rng.normal(size=n)}
        tube = 0.05 if task == "regression" else AutomaticTube(0.3)
        own = [columns["target"], Standardised(0.0, 1.0)]
        problems = [[regression(Labels(n), 3.0, z, tube)] for z in own]
        return X, columns, problems
    k = 10 if task == "ten classes" else 2
    edges = np.quantile(signal, np.arange(1, k) / k)
    columns = {"target": np.digitize(signal + 0.2 * rng.normal(size=n), edges)}
    own = [columns["target"], Coded(np.arange(k))]
    more = [{}, {}]
    if task == "weights":
        columns["weight"] = rng.integers(0, 3, n).astype(float)
        there = {
            "sample_weight": CarriedColumn("weight"),
            "mass": columns["weight"].sum(),
        }
        more = [{"sample_weight": columns["weight"]}, there]
    labels = [Labels(n, codes, **w) for codes, w in zip(own, more, strict=True)]
    classes = range(k) if k > 2 else [1]
    return X, columns, [[two_class(one, 3.0, t) for t in classes] for one in labels]


def places(task, budget=BUDGET, **more):
    """The same rows and problems in memory, and as tensors; and their kernel."""
    X, columns, problems = data(task, **more)
    tensors = {name: torch.as_tensor(column) for name, column in columns.items()}
    in_memory = as_source(X, budget, Workers(1))
    there = gpu.TensorSource(torch.as_tensor(X), tensors, budget, Workers(1))
    gamma = 1.2 / X.shape[1]
    kernel = make_kernel("rbf", gamma, 3, 0.0, row_statistics(in_memory))
    return [(problems[0], in_memory, kernel), (problems[1], there, kernel)]


def parts(task, **more):
    return [
        pursuit.part_of(*case, np.arange(case[1].n_rows), 1.0)
        for case in places(task, **more)
    ]


def rng(seed=0):
    return np.random.default_rng(seed)


def assert_close(found, wanted, close=ROUNDING):
    found, wanted = to_numpy(found), to_numpy(wanted)
    assert found.dtype == wanted.dtype
    scale = np.abs(wanted).max()
    np.testing.assert_allclose(found, wanted, rtol=0, atol=close * scale)


# 300 vectors: as many as pull, and more than a narrow system has; in so many columns
# that they are far from dependent, which would multiply the rounding.
@pytest.mark.parametrize(("size", "d"), [(6, D), (300, 40)])
@pytest.mark.parametrize("task", TASKS)
def test_objective_weights_and_gradient_are_those_of_rows_in_memory(task, size, d):
    wanted, found = parts(task, d=d)
    assert found.has_tensors
    assert not wanted.has_tensors
    B = wanted.points.values[:size].astype(float)
    (value, K), (again, there) = wanted.solve(B), found.solve(B)
    assert isinstance(there, torch.Tensor)
    assert again == pytest.approx(value, rel=ROUNDING)
    assert_close(there, K)
    assert_close(found.pulls, wanted.pulls, STEPPED)
    assert_close(found.worst, wanted.worst, STEPPED)
    for v, own in zip(found.v, wanted.v, strict=True):
        assert isinstance(v, np.ndarray)
        assert_close(v, own, STEPPED)
    assert_close(found.gradient(B, there), wanted.gradient(B, K), STEPPED)


@pytest.mark.parametrize("task", TASKS)
def test_the_same_rows_become_new_vectors(task):
    B, seen = np.empty((0, D)), []
    for part in parts(task):
        found = draw_candidates(part, B, 200, rng())
        first = pursuit.as_vectors(best_candidates(found, 9, is_first=True))
        part.solve(first)
        found = draw_candidates(part, first, 200, rng(1))
        assert arrays.is_tensor(found.K) == part.has_tensors
        more = pursuit.as_vectors(best_candidates(found, 6, is_first=False))
        seen.append((first, more, found.gap))
    np.testing.assert_array_equal(seen[1][0], seen[0][0])
    np.testing.assert_array_equal(seen[1][1], seen[0][1])
    assert seen[1][2] == pytest.approx(seen[0][2], rel=STEPPED)


@pytest.mark.parametrize("task", TASKS)
def test_vectors_move_as_in_memory(task):
    wanted, found = parts(task)
    B = wanted.points.values[:8].astype(float)
    moved = [
        move(part, B, 4, Deadline.of(Progress(N)), pursuit.SMALL_PLAN, False)
        for part in (wanted, found)
    ]
    assert np.abs(moved[0] - B).max() > 10 * STEPPED
    assert isinstance(moved[1], np.ndarray)
    assert_close(moved[1], moved[0], STEPPED)
    assert sum(found.worths) == pytest.approx(sum(wanted.worths), rel=ROUNDING)


@pytest.mark.parametrize(
    ("model", "weighted"),
    [
        (CoreVectorClassifier(C=3.0, gamma=0.3, method=methods.FewVectors(20)), False),
        (CoreVectorClassifier(C=3.0, gamma=0.3, method=methods.FewVectors(8)), True),
        (
            CoreVectorRegressor(
                gamma=0.3, C=1.0, tube=0.0, method=methods.FewVectors(12)
            ),
            False,
        ),
    ],
    ids=["four classes", "weights", "regression"],
)
def test_fitted_models_are_as_good(model, weighted):
    # More rows than the first stage takes: the last is on those near the margin.
    X, columns, _ = data("regression", n=6000)
    y = columns["target"]
    if isinstance(model, CoreVectorClassifier):
        y = np.digitize(y, [0.0] if weighted else [-0.7, 0.0, 0.7])
    weight = rng().integers(0, 3, len(y)).astype(float) if weighted else None
    there = [None if a is None else torch.as_tensor(a) for a in (X, y, weight)]
    wanted, found = values(model, X, y, weight), values(model, *there)
    assert found[:, 0].sum() == pytest.approx(wanted[:, 0].sum(), rel=PATHS)
    # The optima are the same numbers: each bound holds for the other models.
    assert (found[:, 1] <= wanted[:, 0]).all()
    assert (wanted[:, 1] <= found[:, 0]).all()


def values(model, X, y, weight):
    """Primal and dual values: seeds x both x problems."""
    fits = [model.set_params(random_state=seed) for seed in (4, 6)]
    proofs = [one.fit(X, y, sample_weight=weight).certificate_ for one in fits]
    parts = [one.parts or (one,) for one in proofs]
    return np.array([[[p.primal for p in own], [p.dual for p in own]] for own in parts])


class Travels(TorchFunctionMode):
    """Notes the size of what comes here or goes there, and fails as a card would."""

    def __init__(self):
        super().__init__()
        self.sizes, self.brought = [], []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        name = getattr(function, "__name__", "")
        if name == "cpu":
            self.sizes.append(result.numel())
            self.brought.append(result)
        elif name == "as_tensor":
            self.sizes.append(result.numel())
        else:
            assert not any(isinstance(one, np.ndarray) for one in args), name
            assert name != "__array__"
        if name == "numpy":
            assert any(args[0] is one for one in self.brought)
        return result


def test_no_number_of_every_row_travels_in_a_step():
    n = (
        NewtonSettings().host_entries + 1
    )  # fewer are looked at here by Newton's line search
    _, part = parts("two classes", n=n)
    B = to_numpy(part.points.values[:6]).astype(float)
    travels = Travels()
    with travels:
        _, K = part.solve(B)
        part.gradient(B, K)
        part.solve(B + 0.1)
    assert B.size in travels.sizes
    assert max(travels.sizes) <= (len(B) + 1) ** 2


@pytest.mark.parametrize("first", [0, 7_000_000_000])
def test_numbers_of_all_rows_are_made_where_the_rows_live(first):
    _, (problems, source, _) = places("two classes")
    source.first_number = first
    with Travels() as travels:
        found = weighted_rows(problems, source)
    assert travels.sizes == []
    assert np.array_equal(found, first + np.arange(N))


@pytest.mark.parametrize("place", [np.asarray, torch.as_tensor])
def test_random_numbers_go_there_some_at_a_time(place):
    q = place(rng(3).random(N))
    wanted = np.flatnonzero(rng().random(N) < to_numpy(q))
    with Travels() as travels:
        found = draw_each(q, rng(), 70)
    assert np.array_equal(to_numpy(found), wanted)
    assert max(travels.sizes, default=70) == 70


@pytest.mark.parametrize("task", TASKS)
def test_arrays_and_tensors_are_never_mixed(task):
    _, case = places(task, n=3500)  # the last stage takes others than the first
    with Travels() as travels:
        *_, (B, _) = pursuit.grow(
            pursuit.PursuitTask(*case, 10, Progress(3500), rng(), np.arange(3500))
        )
    assert isinstance(B, np.ndarray)
    assert B.shape == (10, D)
    assert travels.sizes


class LiveBytes(TorchDispatchMode):
    """The most bytes that tensors made meanwhile held at once."""

    def __init__(self):
        super().__init__()
        self.live, self.peak = {}, 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for one in result if isinstance(result, (list, tuple)) else [result]:
            if isinstance(one, torch.Tensor):
                storage = one.untyped_storage()
                self.live[storage.data_ptr()] = (
                    StorageWeakRef(storage),
                    storage.nbytes(),
                )
        self.live = {p: own for p, own in self.live.items() if not own[0].expired()}
        self.peak = max(self.peak, sum(size for _, size in self.live.values()))
        return result


def test_growing_many_vectors_stays_within_the_room():
    # 8 candidates per vector, 1800 a stage, would be 39 MB of kernel values in both
    # precisions; all rows 22 MB of those and as much of features.
    size, room = 450, 2**24
    _, case = places("two classes", budget=room, n=12_000)
    assert case[1].working_budget == room
    assert pursuit.rows_that_fit(case[1], size) < 3000
    with LiveBytes() as memory:
        *_, (found, _) = pursuit.grow(
            pursuit.PursuitTask(*case, size, Progress(12_000), rng(), np.arange(12_000))
        )
    assert len(found) > size / 2
    # Beside the room: some matrices of the vectors themselves.
    assert room / 4 < memory.peak < room + 8 * 8 * size**2


def sparse_rows(n):
    """Rows with 100 columns, what belongs to them, their problems and their kernel."""
    X, columns, problems = data("two classes", n=n)
    X = sparse.csr_matrix(np.hstack([np.where(np.abs(X) > 1, X, 0), np.zeros((n, 96))]))
    kernel = make_kernel("rbf", 0.3, 3, 0.0, row_statistics(as_source(X, BUDGET)))
    return X, columns, problems, kernel


def test_sparse_rows_are_dense_on_a_device_that_holds_them():
    X, columns, problems, kernel = sparse_rows(N)
    wanted = pursuit.part_of(problems[0], as_source(X, BUDGET), kernel, np.arange(N), 1)
    B = X[:20].toarray()
    value, _ = wanted.solve(B)
    for budget, is_there in ((BUDGET, True), (4 * N * 100, False)):
        source = gpu.StreamedSource(X, "cpu", columns, budget)
        part = pursuit.part_of(problems[1], source, kernel, np.arange(N), 1.0)
        assert part.has_tensors == is_there
        assert part.solve(B)[0] == pytest.approx(value, rel=ROUNDING)


def test_sparse_rows_that_a_device_holds_at_first_only():
    # The first stage takes 3000 rows, 1.2 MB of float32; the last all that are near.
    n, room = 8000, 10_000_000
    X, columns, problems, kernel = sparse_rows(n)
    source = gpu.StreamedSource(X, "cpu", columns, room)
    assert torch.is_tensor(source.part(np.arange(3000)).values)
    assert not torch.is_tensor(source.part(np.arange(n)).values)
    progress = Progress(n)
    *_, (found, _) = pursuit.grow(
        pursuit.PursuitTask(
            problems[1], source, kernel, 10, progress, rng(), np.arange(n)
        )
    )
    assert found.shape == (10, 100)
    assert progress.history[-1]["looked_at"] > room / (8 * 4 * 100)  # it was left


def test_duplicated_rows_give_fewer_vectors_and_no_error():
    _, (problems, source, kernel) = places("two classes")
    same = gpu.TensorSource(
        source.values[torch.arange(N) % 3], source.row_columns, BUDGET
    )
    *_, (found, _) = pursuit.grow(
        pursuit.PursuitTask(
            problems, same, kernel, 20, Progress(N), rng(), np.arange(N)
        )
    )
    assert 1 <= len(found) <= 20
    assert np.isfinite(found).all()


@pytest.mark.parametrize("place", [np.asarray, torch.as_tensor])
def test_factors_of_a_matrix_are_those_of_numpy(place):
    A = rng().normal(size=(30, 20))
    G, right = A.T @ A + np.eye(20), rng(1).normal(size=(20, 3))
    L = np.linalg.cholesky(G)

    def matrix():
        return place(G.copy())

    close = {"rtol": 0, "atol": 1e-10}
    shifted = matrix()
    arrays.add_to_diagonal(shifted, place(np.arange(20.0)))
    arrays.add_to_diagonal(shifted, 2.0)
    np.testing.assert_allclose(to_numpy(shifted), G + np.diag(np.arange(2.0, 22.0)))
    np.testing.assert_allclose(to_numpy(arrays.cholesky(matrix())), L, **close)
    inverse = arrays.lower_inverse(place(L))
    np.testing.assert_allclose(to_numpy(inverse), np.linalg.inv(L), **close)
    solved = arrays.lower_solved(place(L), place(right))
    np.testing.assert_allclose(to_numpy(solved), np.linalg.solve(L, right), **close)
    left = arrays.without_squares(matrix(), place(A))
    np.testing.assert_allclose(to_numpy(left), np.eye(20), **close)
    found = arrays.definite_solved(arrays.copied(matrix()), place(right[:, 0]))
    np.testing.assert_allclose(
        to_numpy(found), np.linalg.solve(G, right[:, 0]), **close
    )
    with pytest.raises(np.linalg.LinAlgError):
        arrays.definite_solved(place(-G), place(right[:, 0]))


def test_a_card_is_given_more_steps_than_the_cpu():
    (_, in_memory, _), (_, there, _) = places("two classes")
    wanted, part = parts("two classes")
    # Torch's device without numbers: not the CPU, as a card is.
    values = part.points.values.to("meta")
    card = replace(part, points=replace(part.points, values=values))
    B = np.zeros((50_000, D))
    plan = pursuit.LARGE_PLAN._replace(products=1.1e12)
    for k, on_card in ((5000, plan.most_steps), (50_000, 14)):
        steps = pursuit.last_steps(wanted, B[:k], in_memory, plan)
        assert pursuit.last_steps(part, B[:k], there, plan) == steps
        assert pursuit.last_steps(card, B[:k], there, plan) == on_card > steps
