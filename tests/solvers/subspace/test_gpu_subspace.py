"""Weights of all rows of a device: their numbers stay there, the answer is the same."""

import re

import few_vectors
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

torch = pytest.importorskip("torch", reason="torch is not installed (corevec[gpu])")

from torch.overrides import TorchFunctionMode  # noqa: E402

from corevec import (  # noqa: E402
    CoreVectorClassifier,
    CoreVectorRegressor,
    InvalidInputError,
    methods,
)
from corevec._runtime import Progress  # noqa: E402
from corevec.certificates import Subset  # noqa: E402
from corevec.data.sources import (  # noqa: E402
    TARGET,
    WEIGHT,
    CarriedColumn,
    Coded,
    HostCopy,
    MemorySource,
    Workers,
    device_source,
    gpu,
    gpu_input,
)
from corevec.kernels import make_kernel  # noqa: E402
from corevec.models import basis_of  # noqa: E402
from corevec.problems import (  # noqa: E402
    AutomaticTube,
    Labels,
    regression,
    two_class,
)
from corevec.solvers import subspace  # noqa: E402
from corevec.solvers.basis import ByMultipliers  # noqa: E402
from corevec.solvers.cells import solve_cell, solve_cells  # noqa: E402
from corevec.solvers.numeric import NewtonSettings  # noqa: E402
from corevec.solvers.subspace import (  # noqa: E402
    RowOrder,
    SpanMethod,
    SpanTask,
    expansion,
    rows_that_fit,
    view_that_fits,
    weighted_rows,
)

N, K, SAMPLE = 2_000, 40, 800
RNG = np.random.default_rng(8)
X = RNG.uniform(-2, 2, (N, 3)) * (RNG.random((N, 3)) < 0.8)  # zeros, for CSR
NUMBER = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * RNG.normal(size=N)
KINDS = np.digitize(NUMBER + 0.3 * RNG.normal(size=N), [-0.4, 0.5])
WEIGHTS = RNG.integers(0, 3, N).astype(float)  # some rows weigh nothing
KERNEL = make_kernel("rbf", 0.7)
PROBLEMS = "tube", "free tube", "two classes", "three classes"
# Both ways end where the next step would gain less than this share of the objective,
# 4000 at most. That is strongly convex with modulus 1: weights are then within
# sqrt(2 * 4000 * 1e-14) = 1e-5 of the best, twice that of each other; values, which are
# at most sqrt(k(x, x) + 1) times as far, within 3e-5. Three times that, as the gain is
# measured by the Hessian of a sample.
GAIN, CLOSE = subspace.ROUNDING_DECREASE, 1e-4
# One rounding of sums over N rows, and what a fit's decisions make of it.
ROUNDED = 1e-6
# No line search runs on the host.
ON_DEVICE = NewtonSettings(host_entries=0)


def columns_of(kind):
    if "tube" in kind:
        return NUMBER
    return KINDS if kind == "three classes" else (KINDS > 0).astype(int)


def stated(kind, weighted=True, C=5.0):
    """Return the problems of a kind, over rows that bring their columns along."""
    y = columns_of(kind)
    own, mass = (CarriedColumn(WEIGHT), WEIGHTS.sum()) if weighted else (None, None)
    if kind == "tube":
        labels = Labels(N, None, own, None, mass)
        return [regression(labels, C, CarriedColumn(TARGET), tube=0.2)]
    if kind == "free tube":
        labels = Labels(N, None, own, None, mass)
        return [regression(labels, C, CarriedColumn(TARGET), AutomaticTube(0.2))]
    labels = Labels(N, Coded(np.unique(y)), own, None, mass)
    if kind == "two classes":
        return [two_class(labels, C, 1, 0)]
    return [two_class(labels, C, t) for t in range(3)]


def here_of(kind, budget=1 << 28):
    source = MemorySource(X, budget, Workers(1))
    source.row_columns = {TARGET: columns_of(kind), WEIGHT: WEIGHTS}
    return source


def streamed_of(kind, rows=X, budget=60_000):
    """Return rows that are copied block by block: half of the budget is less."""
    moved = device_source("a test", rows, columns_of(kind), WEIGHTS, "cpu")
    source = moved.using(budget, Workers(1))
    assert isinstance(source, gpu.StreamedSource)
    return source


def there_of(kind, budget=1 << 28):
    columns = {TARGET: columns_of(kind), WEIGHT: WEIGHTS}
    there = {name: torch.as_tensor(one) for name, one in columns.items()}
    return gpu.TensorSource(torch.as_tensor(X), there, budget, Workers(1))


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(gpu.TensorSource, "fewest_rows", 300)


# Start on few rows, and go on until rounding ends it.
LONG_ROUNDS = SpanMethod(
    sample_products=0,
    sample_rows_per_vector=SAMPLE // K,
    design_rows=2 * SAMPLE,
    min_relative_decrease=GAIN,
    max_rounds=100,
    newton=ON_DEVICE,
)


def solved(problems, source, basis_rows, method=LONG_ROUNDS):
    basis, _ = basis_of(source, KERNEL, basis_rows)
    progress, rng = Progress(source.n_rows), np.random.default_rng(3)
    task = SpanTask(problems, source, basis, 0.0, progress, rng, method)
    return subspace.solve(task)[0], basis, progress


def certificates(fits, source, basis, progress):
    subspace.prove(fits, source, basis, progress)
    functions = expansion(fits, basis)
    return subspace.certificates(fits, functions, 1e-3, progress, "stall")


def assert_same_fits(found, wanted, where):
    (fits, basis, progress), (known, own, clock) = found, wanted
    assert np.array_equal(basis.rows.index, own.rows.index)
    for fit, one in zip(fits, known, strict=True):
        assert fit.v == pytest.approx(one.v, rel=CLOSE, abs=CLOSE)
        assert abs(fit.n_violated - one.n_violated) <= 1  # which is near 0
        # Violations are sums over the weights: each weight is within CLOSE.
        near = pytest.approx(one.violations(), abs=3 * CLOSE)
        assert fit.violations().numpy() == near
    proofs = certificates(fits, where[0], basis, progress)
    wanted = certificates(known, where[1], own, clock)
    for proof, one in zip(proofs, wanted, strict=True):
        assert proof.primal == pytest.approx(one.primal, rel=1e-9)
        assert proof.dual == pytest.approx(one.dual, rel=CLOSE)
        assert proof.dual_bound == one.dual_bound == "exact"


# --- The same weights -----------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weights"])
@pytest.mark.parametrize("kind", PROBLEMS)
def test_tensors_have_the_weights_of_arrays(kind, weighted):
    problems, rows = stated(kind, weighted), np.arange(0, N, N // K)
    sources = there_of(kind), here_of(kind)
    found, wanted = (solved(problems, source, rows) for source in sources)
    assert found[2].passes > 4  # the rounds were needed
    assert_same_fits(found, wanted, sources)


@pytest.mark.parametrize("kind", ["tube", "two classes"])
def test_streamed_rows_have_the_weights_of_arrays(kind, small_blocks):
    problems, rows = stated(kind), np.arange(0, N, N // K)
    sources = streamed_of(kind), here_of(kind)
    assert len(sources[0].blocks()) > 3
    found, wanted = (solved(problems, source, rows) for source in sources)
    assert_same_fits(found, wanted, sources)


@pytest.mark.parametrize("kind", ["tube", "three classes"])
@pytest.mark.parametrize("place", ["tensors", "streamed"])
def test_some_rows_have_the_weights_of_those_rows(kind, place):
    """A view keeps the numbers of the rows it is of, which have gaps."""
    some = np.flatnonzero(np.random.default_rng(9).random(N) < 0.6)
    problems, rows = stated(kind), some[:: len(some) // K]
    whole = there_of(kind) if place == "tensors" else streamed_of(kind)
    sources = whole.alone(some), Subset(here_of(kind), some)
    found, wanted = (solved(problems, source, rows) for source in sources)
    assert_same_fits(found, wanted, sources)
    entries = found[0][0].violated(sources[0])
    assert np.isin(problems[0].rows_of(entries), some).all()
    known = set(wanted[0][0].violated(sources[1]).tolist())
    assert len(known.symmetric_difference(entries.tolist())) <= 1  # which is near 0


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weights"])
@pytest.mark.parametrize("kind", ["tube", "three classes"])
def test_the_same_rows_are_chosen(kind, weighted):
    chosen = [
        ByMultipliers()
        .choose(stated(kind, weighted), source, KERNEL, K, Progress(N), rng)
        .rows.index
        for source in (there_of(kind), here_of(kind))
        for rng in [np.random.default_rng(11)]
    ]
    assert len(chosen[0]) == K
    assert np.array_equal(*map(np.sort, chosen))
    if weighted:
        assert WEIGHTS[chosen[0]].min() > 0


MODELS = {
    "regressor": (
        CoreVectorRegressor(tube=0.2, gamma=0.7, method=methods.CoreSet(max_vectors=K)),
        NUMBER,
    ),
    "regressor in a span": (few_vectors.regressor(K, "nystroem", gamma=0.7), NUMBER),
    "classifier in a span": (few_vectors.classifier(K, "nystroem", gamma=0.7), KINDS),
    "all rows": (
        CoreVectorClassifier(gamma=0.7, method=methods.FewVectors(K, basis="coreset")),
        KINDS,
    ),
}


@pytest.mark.filterwarnings("ignore::corevec.exceptions.NotCertifiedWarning")
@pytest.mark.parametrize("name", MODELS)
def test_estimators_have_the_certificate_of_arrays(name):
    model, y = MODELS[name]
    model.set_params(random_state=0, C=3.0)
    wanted = model.fit(X, y, sample_weight=WEIGHTS).certificate_
    found = model.fit(*map(torch.as_tensor, (X, y, WEIGHTS))).certificate_
    assert found.primal == pytest.approx(wanted.primal, rel=ROUNDED)
    assert found.dual == pytest.approx(wanted.dual, rel=ROUNDED)
    assert found.stopped_by == wanted.stopped_by
    assert found.n_verified == N


# --- What is kept where ---------------------------------------------------------------


class BroughtHere(TorchFunctionMode):
    """Notes how many numbers every tensor has that is copied to the host."""

    def __init__(self):
        super().__init__()
        self.sizes = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func in (torch.Tensor.numpy, torch.Tensor.__array__, torch.Tensor.tolist):
            self.sizes.append(args[0].numel())
        return func(*args, **kwargs or {})


@pytest.mark.parametrize("kind", ["tube", "three classes"])
@pytest.mark.parametrize("place", ["tensors", "streamed"])
def test_no_number_of_every_row_comes_here(kind, place, small_blocks):
    problems = stated(kind)
    source = there_of(kind) if place == "tensors" else streamed_of(kind)
    basis, _ = basis_of(source, KERNEL, np.arange(0, N, N // K))
    looked, rng = BroughtHere(), np.random.default_rng(3)
    with looked:
        given = problems, source, basis, 0.0, Progress(N), rng, LONG_ROUNDS
        fits, _ = subspace.solve(SpanTask(*given))
    few = len(basis) + 2
    sample = 1.2 * SAMPLE  # of streamed rows, which are sought here by their numbers
    assert 0 < max(looked.sizes) <= max(few**2, sample) < N
    for fit in fits:
        there = fit.terms.sign, fit.terms.omega, fit.terms.target, fit.values
        for one in (*there, fit.violations(), fit.row_pull()):
            assert isinstance(one, torch.Tensor)
            assert one.dtype == torch.float64
        assert isinstance(fit.v, np.ndarray)
        assert isinstance(fit.primal, float)
        # Nothing of the rounds lies beside what is done next.
        assert fit.hessian is fit.last_step is fit.last_values is None
        assert fit.violated(source).dtype == np.int64


def test_rows_to_draw_come_here_once():
    way = ByMultipliers(method=SpanMethod(newton=ON_DEVICE))
    source, looked = there_of("tube"), BroughtHere()
    problems, rng = stated("tube"), np.random.default_rng(0)
    with looked:
        way.choose(problems, source, KERNEL, K, Progress(N), rng)
    assert [size for size in looked.sizes if size >= N] == [N]
    assert weighted_rows(problems, source).dtype == torch.int64


def test_rows_in_memory_have_arrays():
    rows, method = np.arange(0, N, N // K), SpanMethod()
    fits, *_ = solved(stated("tube"), here_of("tube"), rows, method)
    assert all(isinstance(one, np.ndarray) for one in (fits[0].values, fits[0].v))
    assert isinstance(fits[0].row_pull(), np.ndarray)


# --- How many rows --------------------------------------------------------------------


class Roomy(gpu.TensorSource):
    """Rows of a device with more room than the budget, as a card has by default."""

    working_budget = 1 << 24


@pytest.mark.parametrize("kind", ["tube", "three classes"])
def test_the_room_of_the_device_counts(kind):
    problems, rng, budget = stated(kind), np.random.default_rng(0), 1 << 16
    columns = there_of(kind).row_columns
    roomy = Roomy(torch.as_tensor(X), columns, budget, Workers(1))
    own = 8 * sum(11 * len(problem.sides) + 8 for problem in problems)
    assert rows_that_fit(problems, roomy) == roomy.working_budget // 2 // own
    assert view_that_fits(problems, roomy, rng) == (roomy, problems)
    for source in (there_of(kind, budget), here_of(kind, budget)):
        view, scaled = view_that_fits(problems, source, rng)
        assert view.n_rows < N
        assert scaled[0].slack == pytest.approx(problems[0].slack * N / view.n_rows)


@pytest.mark.parametrize("rows", ["NumPy", "CSR"])
def test_a_slice_of_streamed_rows_is_held_within_half_of_the_room(rows, small_blocks):
    """On a device they are dense, also those that are CSR here."""
    wide = np.zeros((N, 60))
    wide[:, :3] = X
    given = wide if rows == "NumPy" else sparse.csr_matrix(wide)
    source = streamed_of("two classes", given, 560_000)
    problems = stated("two classes")
    view, _ = view_that_fits(problems, source, np.random.default_rng(0))
    assert isinstance(view, gpu.DeviceSubset)
    held = view.values.nbytes + 8 * 19 * view.n_rows  # and numbers of its own
    row = 8 * (60 + 19)
    assert source.working_budget / 2 - row < held <= source.working_budget / 2
    assert np.array_equal(view.values.numpy(), wide[view.numbers])


# --- Numbers and places ---------------------------------------------------------------


@given(st.sets(st.integers(0, 59), min_size=1), st.integers(1, 7), st.booleans())
def test_places_and_numbers_belong_together(some, step, on_device):
    numbers, rows = np.array(sorted(some)), np.arange(120.0).reshape(60, 2)
    if on_device:
        source = gpu.TensorSource(torch.as_tensor(rows)).alone(numbers)
    else:
        source = Subset(MemorySource(rows), numbers)
    order, wanted = RowOrder(source), numbers[::step]
    places = np.searchsorted(numbers, wanted)
    assert np.array_equal(order.positions_of(wanted), places)
    assert np.array_equal(order.numbers_at(places), wanted)
    for start in range(0, len(numbers), step):
        stop = min(start + step, len(numbers))
        assert order.slice_of(source.block(start, stop)) == slice(start, stop)
    is_whole = numbers[-1] - numbers[0] == len(numbers) - 1
    assert (order.numbers is None) == is_whole  # then nothing is kept


def test_a_slice_of_the_rows_of_a_cluster_has_its_own_numbers():
    first = 7_000_000_000  # beyond int32
    part = gpu_input.part_source(X, {}, first, 1 << 28, "cpu")
    order = RowOrder(part)
    assert order.numbers is None
    found = order.numbers_at(np.array([0, N - 1]))
    assert found.tolist() == [first, first + N - 1]
    assert order.slice_of(part.block(5, 9)) == slice(5, 9)


# --- What a device is asked by other ways ---------------------------------------------


def test_cells_of_a_device_are_solved_at_work():
    """There float32 is multiplied in float32, and memory that runs out explained."""
    inside, between = [], []
    codes = Coded(np.arange(3))

    def seen(rows):
        inside.append(torch.get_float32_matmul_precision())
        return codes(rows)

    def is_late():
        between.append(torch.get_float32_matmul_precision())
        return False

    source = HostCopy(there_of("three classes"))
    problems = [two_class(Labels(N, seen), 1.0, 1)]
    members = [np.arange(60), np.arange(60, 130)]

    def alone(rows):
        return solve_cell(problems, source, KERNEL, rows)

    allowed = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        for _ in solve_cells(problems, source, KERNEL, members, alone, is_late):
            between.append(torch.get_float32_matmul_precision())
    finally:
        torch.set_float32_matmul_precision(allowed)
    assert set(inside) == {"highest"}
    assert len(between) > len(members)
    assert set(between) == {"medium"}


@pytest.mark.parametrize("kind", [CoreVectorClassifier])
@pytest.mark.parametrize("place", ["tensors", "device"])
def test_targets_of_a_regression_are_named(kind, place):
    parts = (
        kind.__name__,
        "Unknown label type: continuous",
        "whole numbers",
        "Regressor",
    )
    text = "(?s)" + "".join(f"(?=.*{re.escape(part)})" for part in parts)
    model, rows, y = kind(), torch.as_tensor(X), torch.as_tensor(NUMBER)
    if place == "device":
        model, rows, y = kind(device="cpu"), X, NUMBER
    with pytest.raises(InvalidInputError, match=text):
        model.fit(rows, y)
