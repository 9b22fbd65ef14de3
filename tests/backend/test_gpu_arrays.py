"""Words for arrays that are NumPy's or torch's, and the blocks of rows on a device."""

import pickle
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

torch = pytest.importorskip("torch", reason="torch is not installed (corevec[gpu])")

from corevec.backend import arrays  # noqa: E402
from corevec.data.sources import (  # noqa: E402
    TARGET,
    WEIGHT,
    Coded,
    StreamedSource,
    TensorSource,
    Workers,
    device_source,
    part_source,
    tensor_source,
)
from corevec.kernels import Rows, make_kernel  # noqa: E402

N = 2_000
RNG = np.random.default_rng(6)
X = RNG.normal(size=(N, 3)) * (RNG.random((N, 3)) < 0.7)  # zeros, for CSR
CODES, WEIGHTS = RNG.integers(0, 2, N), RNG.integers(0, 3, N).astype(float)
tensor = torch.as_tensor
LITTLE = 60_000  # X has 48,000 bytes, more than half of it

NUMBERS = st.lists(st.integers(-5, 5), min_size=1, max_size=30)


@given(NUMBERS, st.integers(1, 40))
def test_the_largest_are_the_same_with_ties(numbers, count):
    values = np.array(numbers, dtype=float)
    found = arrays.largest(tensor(values), count).numpy()
    known = np.argsort(-values, kind="stable")[:count]
    for own in (found, arrays.largest(values, count)):
        assert np.array_equal(values[own], values[known])
        for value in np.unique(values[own]):  # of equal values the first come first
            same = own[values[own] == value]
            assert list(same) == sorted(set(same))


@given(NUMBERS, NUMBERS)
def test_sets_are_the_same(a, b):
    few, many = np.array(a), np.array(b)
    assert np.array_equal(arrays.union(few, tensor(many)), np.union1d(a, b))
    assert np.array_equal(arrays.union(few, many), np.union1d(a, b))
    assert np.array_equal(arrays.is_among(tensor(many), few), np.isin(b, a))
    mask = many > 0
    assert np.array_equal(arrays.places(tensor(mask)), np.flatnonzero(mask))
    assert arrays.count(tensor(mask)) == arrays.count(mask) == mask.sum()


@given(st.lists(st.tuples(st.integers(-30, 30), st.integers(0, 4)), min_size=1))
def test_masses_of_labels_are_sums_of_weights(pairs):
    labels, weights = (np.array(part) for part in zip(*pairs, strict=True))
    kinds, masses = arrays.masses_of(tensor(labels), tensor(weights).double())
    assert np.array_equal(kinds, np.unique(labels))
    assert masses.tolist() == [weights[labels == kind].sum() for kind in kinds]


def test_masses_of_labels_that_come_late():
    """Labels that the first 10,000 rows lack are found; so are a hundred kinds."""
    for labels in (np.repeat([3, 5, 4], [12_000, 7, 1]), np.arange(200) % 100):
        kinds, masses = arrays.masses_of(
            tensor(labels), torch.ones(len(labels), dtype=torch.float64)
        )
        known = np.unique(labels, return_counts=True)
        assert np.array_equal(kinds, known[0])
        assert np.array_equal(masses, known[1])


@given(NUMBERS)
def test_small_words_agree(numbers):
    a = np.array(numbers, dtype=np.float32)
    there = tensor(a)
    assert arrays.dtype_of(there) == a.dtype
    assert arrays.cast(there, np.float64).dtype == torch.float64
    rows = np.stack([a, a + 1], axis=1)
    assert np.array_equal(arrays.row_sums_of_squares(tensor(rows)), (rows**2).sum(1))
    assert np.array_equal(arrays.column_of(tensor(rows), 1), a + 1)
    assert np.array_equal(arrays.joined([there, there]), np.concatenate([a, a]))
    assert arrays.full((2, 3), 0.5, there).tolist() == np.full((2, 3), 0.5).tolist()
    codes = np.arange(len(a)) % 2
    assert np.array_equal(
        arrays.entries_of(np.array([7, 9]), tensor(codes)), codes * 2 + 7
    )
    assert list(arrays.entries_of(np.array(["a", "b"]), tensor(codes[:2]))) == [
        "ab"[code] for code in codes[:2]
    ]
    assert arrays.is_finite(there)
    assert not arrays.is_finite(there / 0)


def test_arrays_that_may_not_be_written_go_there():
    """As those of a model that joblib maps from its file: torch would warn."""
    given = np.arange(6.0).reshape(2, 3)
    given.flags.writeable = False
    found = arrays.to_device_of(given, tensor(X))
    found += 1
    assert np.array_equal(found, np.arange(1.0, 7.0).reshape(2, 3))
    assert given[0, 0] == 0


# --- Columns --------------------------------------------------------------------------


# NumPy has no bfloat16; torch sorts no unsigned numbers of more than one byte.
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "uint16", "uint32", "uint8"])
def test_columns_may_be_of_any_type_of_numbers(dtype):
    own = [tensor(one).to(getattr(torch, dtype)) for one in (CODES, WEIGHTS)]
    assert_columns(tensor_source("a test", tensor(X), *own))


@pytest.mark.parametrize("dtype", ["<u2", "<u4", ">f8", "<i8"])
def test_columns_beside_tensors_or_of_a_partition_may_be_of_any_type(dtype):
    own = [one.astype(dtype) for one in (CODES, WEIGHTS)]
    backwards = [one[::-1].copy()[::-1] for one in own]  # torch takes no such strides
    assert_columns(tensor_source("a test", tensor(X), *backwards))
    columns = dict(zip((TARGET, WEIGHT), own, strict=True))
    assert_columns(part_source(X, columns, 0, 1 << 28, "cpu"))


def assert_columns(source):
    taken = source.take(np.arange(N)).columns
    assert np.array_equal(taken[TARGET], CODES)
    assert np.array_equal(taken[WEIGHT], WEIGHTS)
    codes = Coded(np.unique(taken[TARGET]))(source.block(0, N))
    assert np.array_equal(codes, CODES)


# --- Blocks of rows -------------------------------------------------------------------


@given(st.integers(1, 40), st.integers(1 << 20, 1 << 34))
def test_blocks_begin_where_triton_was_compiled_for(n_features, budget):
    rows = torch.zeros((1, n_features), dtype=torch.float32)
    size = 4 * n_features * TensorSource(rows, None, budget).block_rows
    assert size % 16 == 0


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(TensorSource, "fewest_rows", 300)


def sources(rows, small=LITTLE):
    columns = CODES, WEIGHTS
    both = device_source("a test", rows, *columns, "cpu")
    return both.using(small, Workers(1)), both.using(1 << 28, Workers(1))


@pytest.mark.parametrize("kind", ["NumPy", "CSR"])
def test_streamed_blocks_are_the_rows(kind, small_blocks):
    streamed, resident = sources(X if kind == "NumPy" else sparse.csr_matrix(X))
    assert isinstance(streamed, StreamedSource)
    assert not isinstance(resident, StreamedSource)
    assert len(streamed.blocks()) > 3
    for source in (streamed, resident):
        for column, known in ((TARGET, CODES), (WEIGHT, WEIGHTS)):
            found = source.map(lambda rows, column=column: rows.columns[column])
            assert np.array_equal(found, known)
        assert np.array_equal(source.map(lambda rows: rows.values), X)
        assert np.array_equal(source.map(lambda rows: rows.index), np.arange(N))
        some = np.array([5, 17, N - 1])
        assert np.array_equal(source.pick(some).values.numpy(), X[some])
        taken = source.take(some)
        assert not isinstance(taken.values, torch.Tensor)
        assert np.array_equal(_dense(taken.values), X[some])
        picked = source.alone(some)
        assert np.array_equal(picked.numbers, some)
        assert np.array_equal(picked.pick(some[1:]).values.numpy(), X[some[1:]])


def _dense(rows):
    return rows.toarray() if sparse.issparse(rows) else rows


def test_a_basis_is_moved_once_and_does_not_travel_with_its_copies():
    kernel = make_kernel("rbf", 0.5)
    basis = kernel.prepare_basis(Rows(X[:5], np.arange(5)))
    rows = kernel.prepare(Rows(tensor(X), torch.arange(N)), basis.dtype)
    there = basis.to_device_of(rows)
    assert isinstance(there.values, torch.Tensor)
    assert basis.to_device_of(rows) is there
    again = pickle.dumps(basis)
    assert b"torch" not in again
    assert np.array_equal(pickle.loads(again).values, basis.values)


# --- The manual -----------------------------------------------------------------------

MANUAL = Path(__file__).parents[2] / "docs" / "gpu.md"


def test_the_code_of_the_manual_runs():
    blocks = re.findall(r"```python\n(.*?)```", MANUAL.read_text(), re.DOTALL)
    assert len(blocks) == 3
    names = {}
    for code in blocks:
        exec(code, names)
    assert isinstance(names["model"].predict(names["large"]), np.ndarray)
    assert names["detector"].certificate_.converged
