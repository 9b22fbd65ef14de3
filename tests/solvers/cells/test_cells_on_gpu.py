"""Batches of cells on a device have the solutions of single cells.

The tensors are on the CPU, which is a device like any other.
"""

import numpy as np
import pytest
from naive import gram
from scipy import sparse

torch = pytest.importorskip("torch", reason="torch is not installed (corevec[gpu])")

from corevec import (  # noqa: E402
    CoreVectorClassifier,
    CoreVectorOneClass,
    CoreVectorRegressor,
    InvalidInputError,
    certify,
    methods,
)
from corevec.backend.gpu.cells import BROKEN, SOLVED, Machines, newton, times  # noqa: E402
from corevec.backend.loops import cells as loops  # noqa: E402
from corevec.data.sources import (  # noqa: E402
    TARGET,
    WEIGHT,
    CarriedColumn,
    Coded,
    HostCopy,
    row_statistics,
)
from corevec.data.sources.gpu import TensorSource  # noqa: E402
from corevec.exceptions import NotCertifiedWarning  # noqa: E402
from corevec.kernels import make_kernel  # noqa: E402
from corevec.problems import Labels, one_class, regression, two_class  # noqa: E402
from corevec.solvers.cells import solve_cell, solve_cells  # noqa: E402

# Of function values, whose size is about 1, and of objectives. Sums of n coefficients,
# which are large where C is, have an error of some eps times their absolute sum; rows
# outside the margin, whose values no equation holds, some ten times as much.
CLOSE, ROUNDING = 1e-8, 100 * np.finfo(float).eps
# Where a distance is the difference of squares its root has half of the digits.
ROOT = 1e-6
KINDS = ("classes", "one class", "numbers")


def cloud(n, d=3, seed=0, classes=2):
    """Return rows, labels with errors, targets with noise, weights with zeros."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = np.floor(2.5 * X[:, 0] + X[:, 1] + 0.4 * rng.standard_normal(n)) % classes
    z = np.sin(2 * X[:, 0]) + 0.2 * rng.standard_normal(n)
    weight = rng.integers(0, 4, n).astype(float)
    return X, y.astype(np.int64), z, weight


# --- Newton's method ------------------------------------------------------------------


def a_problem(kind, n, C, seed):
    """Return matrix, z, side, tube and omega of one cell."""
    X, y, target, weight = cloud(n, seed=seed)
    K = gram(X, X, kernel="rbf", gamma=0.5) + (kind != "one class")
    if kind == "numbers":
        return K, target, np.zeros(n), 0.1, C * weight
    sign = 2.0 * y - 1 if kind == "classes" else np.ones(n)
    return K, sign, sign, 0.0, C * weight


def padded(arrays, shape):
    out = np.zeros((len(arrays), *shape))
    for own, one in zip(out, arrays, strict=True):
        own[tuple(slice(size) for size in one.shape)] = one
    return torch.as_tensor(out)


@pytest.mark.parametrize("max_bytes", [1 << 28, 100_000], ids=["together", "in parts"])
@pytest.mark.parametrize("C", [0.1, 10.0, 1e6])
@pytest.mark.parametrize("kind", KINDS)
def test_batched_newton_equals_newton_in_each_cell(kind, C, max_bytes):
    sizes = [1, 7, 60, 61, 150, 200]
    cells = [a_problem(kind, n, C, seed) for seed, n in enumerate(sizes)]
    m, slot = max(sizes), torch.arange(len(sizes))
    z, side, omega = (padded([one[j] for one in cells], (m,)) for j in (1, 2, 4))
    tube = torch.tensor([[one[3]] for one in cells], dtype=torch.float64)
    many = Machines(slot, torch.zeros_like(slot), 1, z, side, omega, tube)
    K = padded([one[0] for one in cells], (m, m))
    a, ended = newton(K, many, torch.zeros_like(z), 100, max_bytes)
    assert (ended == SOLVED).all()
    f = times(K, many, a)
    for i, (K_own, z_own, side_own, width, weight) in enumerate(cells):
        alone, n = np.zeros(sizes[i]), sizes[i]
        machine = loops.Machine(z_own, side_own, width, weight)
        steps = loops.newton(K_own, machine, alone, 100)
        assert steps > 0
        assert not a[i, n:].any()
        close = CLOSE + ROUNDING * np.abs(alone).sum()
        assert f[i, :n].numpy() == pytest.approx(K_own @ alone, abs=close)
        assert ((a[i, :n].numpy() != 0) == (alone != 0)).all()


def test_the_machines_of_a_cell_share_its_kernel_matrix():
    """Each output of a cell is solved with the cell's own matrix."""
    n, seeds = 80, (0, 1, 2)
    cells = [a_problem("classes", n, 10.0, seed) for seed in seeds]
    labels = [np.sign(np.sin(np.arange(n) * (t + 1.0)) + 1e-9) for t in range(3)]
    slot = torch.tensor([0, 0, 1, 2, 2, 2])
    lane = torch.tensor([0, 2, 1, 0, 1, 2])
    z = torch.as_tensor(np.stack([labels[t] for t in lane]))
    omega = torch.as_tensor(np.stack([cells[c][4] for c in slot]))
    many = Machines(slot, lane, 3, z, z, omega, torch.zeros((6, 1), dtype=z.dtype))
    K = torch.as_tensor(np.stack([one[0] for one in cells]))
    a, ended = newton(K, many, torch.zeros_like(z), 100, 1 << 28)
    assert (ended == SOLVED).all()
    for i, (c, t) in enumerate(zip(slot.tolist(), lane.tolist(), strict=True)):
        alone = np.zeros(n)
        machine = loops.Machine(labels[t], labels[t], 0.0, cells[c][4])
        loops.newton(cells[c][0], machine, alone, 100)
        assert cells[c][0] @ a[i].numpy() == pytest.approx(
            cells[c][0] @ alone, abs=CLOSE
        )


def test_a_matrix_without_a_cholesky_factor_affects_no_other_cell():
    good = a_problem("classes", 40, 1.0, 0)
    K = np.stack([good[0], -10.0 * np.eye(40), good[0]])
    z, omega = (torch.as_tensor(np.stack([good[j]] * 3)) for j in (1, 4))
    slot = torch.arange(3)
    tube = torch.zeros((3, 1), dtype=z.dtype)
    many = Machines(slot, torch.zeros_like(slot), 1, z, z, omega, tube)
    a, ended = newton(torch.as_tensor(K), many, torch.zeros_like(z), 100, 1 << 28)
    assert ended.tolist() == [SOLVED, BROKEN, SOLVED]
    alone = np.zeros(40)
    loops.newton(good[0], loops.Machine(*good[1:]), alone, 100)
    for i in (0, 2):
        assert good[0] @ a[i].numpy() == pytest.approx(good[0] @ alone, abs=CLOSE)


# --- The machines of cells ------------------------------------------------------------


def on_device(X, y, weight=None, budget=1 << 28):
    columns = {TARGET: torch.as_tensor(y)}
    if weight is not None:
        columns[WEIGHT] = torch.as_tensor(weight)
    return HostCopy(TensorSource(torch.as_tensor(X), columns, budget))


def stated(kind, C, y, weight=None):
    """Return the problems of a kind, over rows that bring their columns along."""
    own, mass = (
        (None, None) if weight is None else (CarriedColumn(WEIGHT), weight.sum())
    )
    labels = Labels(len(y), Coded(np.unique(y)), own, None, mass)
    if kind == "classes":
        return [two_class(labels, C, 1, 0)]
    if kind == "one class":
        return [one_class(labels, C)]
    if kind == "one against the rest":
        return [two_class(labels, C, t) for t in range(3)]
    if kind == "pairs":
        return [two_class(labels, C, *pair) for pair in ((1, 0), (2, 0), (2, 1))]
    return [regression(labels, C, CarriedColumn(TARGET), tube=e) for e in (0.1, 0.4)]


def parts(n, sizes, seed=0):
    """Return so many of n rows for each cell, sorted; a row may be in several."""
    rng = np.random.default_rng(seed)
    return [np.sort(rng.permutation(n)[:size]) for size in sizes]


def solved_together(problems, source, kernel, members):
    """Return the machines, and how many cells no batch took."""
    alone = []

    def solve(rows):
        alone.append(len(rows))
        return solve_cell(problems, source, kernel, rows)

    fits = solve_cells(problems, source, kernel, members, solve, lambda: False)
    return list(fits), alone


def assert_same_machines(problems, source, kernel, members, fits, close=CLOSE):
    assert len(fits) == len(members)
    for own, one in zip(members, fits, strict=True):
        wanted = solve_cell(problems, source, kernel, own)
        assert one.n_rows == wanted.n_rows
        assert one.gap == pytest.approx(wanted.gap, rel=1e-6, abs=1e-9)
        assert one.primal == pytest.approx(wanted.primal, rel=close, abs=1e-12)
        assert one.dual == pytest.approx(wanted.dual, rel=close, abs=1e-12)
        assert one.offset == pytest.approx(wanted.offset)
        assert np.array_equal(one.basis.index, wanted.basis.index)
        assert np.array_equal(one.basis.values, wanted.basis.values)
        rows = source.take(own)
        found, known = (values(kernel, fit, rows) for fit in (one, wanted))
        off = close + ROUNDING * np.abs(wanted.coef).sum()
        assert found == pytest.approx(known, rel=close, abs=off)


def values(kernel, fit, rows):
    if len(fit.basis) == 0:
        return np.tile(fit.intercept, (len(rows), 1))
    points = kernel.prepare(rows), kernel.prepare_basis(fit.basis)
    return kernel.times(*points, fit.coef) + fit.intercept


ALL_KINDS = (*KINDS, "one against the rest", "pairs")


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weights"])
@pytest.mark.parametrize("C", [1.0, 1e6], ids=["C=1", "C=1e6"])
@pytest.mark.parametrize("kind", ALL_KINDS)
def test_a_batch_gives_the_solutions_of_single_cells(kind, C, weighted):
    """Cells of very different size, and empty ones, in one call."""
    three = kind in ("one against the rest", "pairs")
    X, y, z, weight = cloud(900, classes=3 if three else 2)
    target, own = (z if kind == "numbers" else y), (weight if weighted else None)
    source = on_device(X, target, own)
    kernel = make_kernel("rbf", 0.5, statistics=row_statistics(source))
    problems = stated(kind, C, y, own)
    members = parts(900, [250, 40, 0, 205, 3, 1, 249])
    fits, alone = solved_together(problems, source, kernel, members)
    assert alone == [0]  # the empty one
    assert_same_machines(problems, source, kernel, members, fits)


KERNELS = {
    "rbf": {"gamma": 0.3},
    "laplacian": {"gamma": 0.3},
    "inverse-distance": {"gamma": 0.3},
    "linear": {},
    "poly": {"gamma": 0.2, "degree": 2, "coef0": 1.0},
    "normalized-poly": {"gamma": 0.2, "degree": 3, "coef0": 1.0},
}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("d", [2, 12])
@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel_is_evaluated_in_a_batch(name, d, dtype):
    """Also far from the origin, where only shifted rows have digits."""
    X, y, _, _ = cloud(300, d)
    X = (X + 1000.0 * (name in ("rbf", "laplacian"))).astype(dtype)
    source = on_device(X, y)
    kernel = make_kernel(name, **KERNELS[name], statistics=row_statistics(source))
    problems, members = stated("classes", 1.0, y), parts(300, [100, 101, 90])
    fits, alone = solved_together(problems, source, kernel, members)
    assert not alone
    by_root = d > 8 and name in ("laplacian", "inverse-distance")
    close = ROOT if by_root else CLOSE
    assert_same_machines(problems, source, kernel, members, fits, close)


def test_a_cell_of_one_class_predicts_that_class():
    X, y, _, _ = cloud(400, classes=3)
    source = on_device(X, y)
    kernel = make_kernel("rbf", 0.5, statistics=row_statistics(source))
    problems = stated("one against the rest", 1.0, y)
    pure = [np.flatnonzero(y == t)[:50] for t in range(3)]
    two = np.flatnonzero(y != 1)[:60]
    fits, alone = solved_together(problems, source, kernel, [*pure, two])
    assert not alone
    for t, one in enumerate(fits[:3]):
        assert one.intercept.tolist() == [1.0 if i == t else -1.0 for i in range(3)]
        assert (len(one.basis), one.gap, one.primal.sum()) == (0, 0.0, 0.0)
    assert fits[3].intercept[1] == -1.0
    assert_same_machines(problems, source, kernel, [*pure, two], fits)


@pytest.mark.parametrize("C", [1.0, 1e6])
def test_duplicates_with_different_labels_are_solved(C):
    X, y, _, _ = cloud(60)
    X, y = np.repeat(X, 5, axis=0), np.arange(300) % 2
    source = on_device(X, y)
    kernel = make_kernel("rbf", 0.5, statistics=row_statistics(source))
    problems, members = stated("classes", C, y), parts(300, [300, 250])
    fits, alone = solved_together(problems, source, kernel, members)
    assert not alone
    assert_same_machines(problems, source, kernel, members, fits)


def test_little_device_memory_makes_more_batches_and_the_same_solutions():
    X, y, _, _ = cloud(600)
    members = parts(600, [100] * 7)
    found = []
    for budget in (1 << 28, 1_500_000):  # 1,500,000: three cells of 100 rows
        source = on_device(X, y, budget=budget)
        kernel = make_kernel("rbf", 0.5, statistics=row_statistics(source))
        problems = stated("classes", 10.0, y)
        fits, alone = solved_together(problems, source, kernel, members)
        assert not alone
        found.append(fits)
    for one, other in zip(*found, strict=True):
        assert one.coef == pytest.approx(other.coef, abs=CLOSE)


def test_cells_that_fit_no_batch_are_solved_singly():
    """A matrix without a Cholesky factor, and cells larger than the memory."""
    X, y, _, _ = cloud(200, 4)
    source = on_device(5 * X, y)
    kernel = make_kernel("sigmoid", 1.0, coef0=-1.0)  # not positive definite
    problems, members = stated("classes", 1e3, y), parts(200, [60, 50])
    fits, alone = solved_together(problems, source, kernel, members)
    assert alone
    for own, one in zip(members, fits, strict=True):
        wanted = solve_cell(problems, source, kernel, own)
        assert one.coef == pytest.approx(wanted.coef, abs=CLOSE)
    small = on_device(X, y, budget=100_000)
    kernel = make_kernel("rbf", 1.0, statistics=row_statistics(small))
    fits, alone = solved_together(problems, small, kernel, [*members, np.arange(4)])
    assert sorted(alone) == [50, 60]
    assert_same_machines(problems, small, kernel, [*members, np.arange(4)], fits)


def test_cells_without_time_are_left_to_the_caller():
    X, y, _, _ = cloud(200)
    source = on_device(X, y)
    kernel = make_kernel("rbf", 1.0, statistics=row_statistics(source))
    problems, members = stated("classes", 1.0, y), parts(200, [50, 60])
    seen = solve_cells(
        problems, source, kernel, members, lambda r: len(r), lambda: True
    )
    assert list(seen) == [50, 60]


def test_rows_beyond_the_host_memory_are_refused():
    wide = torch.zeros((1, 8)).expand(1 << 40, 8)  # 32 TiB, of which 32 bytes exist
    with pytest.raises(InvalidInputError, match=r"32768\.0 of its .* GiB, more than"):
        TensorSource(wide).host_copy()


# --- Estimators -----------------------------------------------------------------------

ASKED = {"random_state": 0, "gamma": 0.5, "method": methods.Cells(200)}
MODELS = {
    "two classes": CoreVectorClassifier(C=10.0, **ASKED),
    "trees": CoreVectorClassifier(**ASKED | {"method": methods.Cells(200, n_trees=2)}),
    "three classes": CoreVectorClassifier(**ASKED),
    "pairs": CoreVectorClassifier(multi_class="ovo", **ASKED),
    "balanced": CoreVectorClassifier(class_weight="balanced", **ASKED),
    "tube": CoreVectorRegressor(tube=0.1, **ASKED),
    "automatic tube": CoreVectorRegressor(mu=0.2, **ASKED),
    "one class": CoreVectorOneClass(C=0.1, **ASKED),
    "share": CoreVectorOneClass(nu=0.1, **ASKED),
    "tuned": CoreVectorClassifier(**ASKED | {"method": methods.Cells(200, tune=True)}),
}


def data_of(name):
    three = name in ("three classes", "pairs", "balanced")
    X, y, z, weight = cloud(1000, classes=3 if three else 2)
    if "tube" in name:
        y = z
    weight = weight if name in ("two classes", "tube", "share") else None
    return X, (None if name in ("one class", "share") else y), weight


def tensor(a):
    return None if a is None else torch.as_tensor(a)


@pytest.mark.parametrize("name", MODELS)
def test_an_estimator_on_tensors_equals_the_one_on_arrays(name):
    X, y, weight = data_of(name)
    new = cloud(300, seed=1)[0]
    model = MODELS[name]
    here = type(model)(**model.get_params(deep=False)).fit(X, y, sample_weight=weight)
    there = type(model)(**model.get_params(deep=False))
    there.fit(tensor(X), tensor(y), sample_weight=tensor(weight))
    for method in ("decision_function", "predict"):
        if not hasattr(here, method):
            continue
        wanted, found = getattr(here, method)(new), getattr(there, method)(tensor(new))
        assert isinstance(found, torch.Tensor)
        assert found.numpy() == pytest.approx(wanted, abs=CLOSE)
        assert getattr(there, method)(new) == pytest.approx(wanted, abs=CLOSE)
    first, second = here.certificate_, there.certificate_
    assert second.primal == pytest.approx(first.primal, rel=CLOSE)
    assert second.dual == pytest.approx(first.dual, rel=CLOSE)
    assert second.relative_gap < 1e-6
    asked = "n_verified", "n_rows", "passes", "stopped_by"
    assert [getattr(second, a) for a in asked] == [getattr(first, a) for a in asked]
    assert np.array_equal(there.support_, here.support_)
    assert there.n_cells_ == here.n_cells_


@pytest.mark.parametrize("kind", ["dense", "CSR", "streamed"])
def test_rows_moved_to_a_device_have_the_cells_of_the_host(kind):
    X, y, weight = data_of("two classes")
    X, words = np.round(X), np.array(["no", "yes"])[y]  # rounded: with many zeros
    X = sparse.csr_matrix(X) if kind == "CSR" else X
    asked = dict(ASKED)
    if kind == "streamed":  # 24,000 bytes, more than half of the memory
        asked |= {"memory_budget": 40_000, "method": methods.Cells(20)}
    here = CoreVectorClassifier(**asked).fit(X, words, weight)
    there = CoreVectorClassifier(device="cpu", **asked).fit(X, words, weight)
    assert there.n_cells_ == here.n_cells_
    assert np.array_equal(there.support_, here.support_)
    found, wanted = there.decision_function(X), here.decision_function(X)
    assert found == pytest.approx(wanted, abs=CLOSE)
    assert np.array_equal(there.predict(X), here.predict(X))
    found, wanted = certify(there, X, words, weight), certify(here, X, words, weight)
    assert found.primal == pytest.approx(wanted.primal, rel=CLOSE)


def test_auto_chooses_a_global_model_of_tensors():
    X, y, _ = data_of("trees")
    model = CoreVectorClassifier(random_state=0, method=methods.Cells("auto"))
    model.fit(tensor(X), tensor(y))
    assert model.choice_ == {"choice": "global", "reason": "few rows"}
    assert isinstance(model.predict(tensor(X)), torch.Tensor)
    assert not hasattr(model, "n_cells_")


def test_the_certificate_of_tensors_equals_that_of_arrays():
    X, y, weight = data_of("two classes")
    model = MODELS["two classes"]
    model = type(model)(**model.get_params(deep=False)).fit(X, y, sample_weight=weight)
    wanted = certify(model, X, y, weight)
    found = certify(model, *map(tensor, (X, y, weight)))
    assert found.primal == pytest.approx(wanted.primal, rel=CLOSE)
    assert found.dual == pytest.approx(wanted.dual, rel=CLOSE)
    assert found.n_verified == wanted.n_verified


def test_without_time_cells_on_a_device_predict_mean_labels():
    X, y, _ = data_of("three classes")
    model = CoreVectorClassifier(max_time=1e-9, **ASKED)
    with pytest.warns(NotCertifiedWarning, match="stopped by max_time"):
        model.fit(tensor(X), tensor(y))
    assert model.certificate_.n_verified < len(X)
    assert model.predict(tensor(X)).shape == (1000,)
