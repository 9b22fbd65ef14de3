"""Rows on a disk are the rows in memory: every verb, bounded memory, clear errors."""

import gzip
import itertools
import pickle
import sys
import threading
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import dump_svmlight_file
from watched_memory import told_by

from corevec import InvalidInputError
from corevec.data.readers._arrow import as_labels
from corevec.data.sources import (
    TARGET,
    WEIGHT,
    CarriedColumn,
    LibsvmSource,
    MemorySource,
    NpySource,
    ParquetSource,
    ReadAhead,
    Workers,
    row_statistics,
)
from corevec.data.sources import open as open_rows

BUDGET = 1 << 28
# So little that blocks have the least number of rows, 256.
SMALL = 1 << 16


def dense(X):
    return X.toarray() if sparse.issparse(X) else np.asarray(X)


def assert_same_rows(found, expected):
    assert found.values.dtype == expected.values.dtype
    assert sparse.issparse(found.values) == sparse.issparse(expected.values)
    assert np.array_equal(dense(found.values), dense(expected.values))
    assert found.index.dtype == np.int64
    assert np.array_equal(found.index, expected.index)
    assert set(found.columns) == set(expected.columns)
    for name, column in expected.columns.items():
        assert np.array_equal(found.columns[name], column)


def sums(rows):
    """A score whose value depends on every entry, and on the order of additions."""
    values = dense(rows.values)
    own = sum(float(np.sum(c)) for c in rows.columns.values() if c.dtype.kind != "U")
    return np.array([values.sum(dtype=values.dtype), own, float(rows.index.sum())])


def margins(rows):
    return np.asarray(rows.values @ np.arange(1.0, rows.values.shape[1] + 1)).ravel()


def assert_same_source(found, expected):
    """Every verb of `found` answers as that of a source in memory answers."""
    assert found.n_rows == expected.n_rows
    assert found.n_features == expected.n_features
    assert found.dtype == expected.dtype
    assert found.is_sparse == expected.is_sparse
    assert set(found.columns) == set(expected.columns)
    n, rng = expected.n_rows, np.random.default_rng(n_seed := expected.n_rows)
    for rows in (rng.integers(n, size=50), np.arange(min(n, 40))[::-1], [n - 1], []):
        rows = np.asarray(rows, dtype=np.int64)
        assert_same_rows(found.take(rows), expected.take(rows))
    for start, stop in ((0, n), (n // 3, n // 2), (n - 1, n)):
        assert_same_rows(found.block(start, stop), expected.block(start, stop))
    for budget in (SMALL, BUDGET):
        for threads in (1, 2):
            with Workers(threads) as workers:
                here = found.using(budget, workers)
                there = expected.using(budget, workers)
                assert here.block_rows == there.block_rows
                assert_same_passes(here, there)
                drawn = here.draw(np.random.default_rng(n_seed), 20)
                assert_same_rows(here.take(drawn), there.take(drawn))
                assert_same_rows(
                    here.near(drawn).take(drawn[::2]), there.take(drawn[::2])
                )


def assert_same_passes(here, there):
    """The same blocks, so the same bits."""
    assert np.array_equal(here.map(margins), there.map(margins))
    assert np.array_equal(here.reduce(sums, np.add), there.reduce(sums, np.add))
    met = here.fold(list, lambda seen, rows: [*seen, rows.index], None)
    assert np.array_equal(np.concatenate(met), np.arange(there.n_rows))
    weights = CarriedColumn(WEIGHT) if WEIGHT in there.columns else None
    a, b = row_statistics(here, weights), row_statistics(there, weights)
    assert np.array_equal(a.mean, b.mean)
    assert np.array_equal(a.column_variance, b.column_variance)
    assert a.exponent == b.exponent


def in_memory(X, **columns):
    source = MemorySource(X)
    source.row_columns = columns
    return source


# Parquet

ARROW_TYPES = {
    "half": pa.float16(),
    "single": pa.float32(),
    "double": pa.float64(),
    "tiny": pa.int8(),
    "short": pa.uint16(),
    "long": pa.int64(),
    "flag": pa.bool_(),
    "money": pa.decimal128(25, 2),
    "coded": pa.dictionary(pa.int8(), pa.int32()),
    "coded_half": pa.dictionary(pa.int8(), pa.float32()),
}
NARROW = {"half", "single", "tiny", "short", "flag", "coded_half"}


def column_of(rng, kind, n):
    """Return numbers of a type as Arrow's array and as the float64 it stands for."""
    if kind == "flag":
        numbers = rng.integers(0, 2, n).astype(bool)
        return pa.array(numbers), numbers.astype(np.float64)
    if kind in ("half", "single", "double"):
        numbers = rng.normal(size=n).astype(ARROW_TYPES[kind].to_pandas_dtype())
        return pa.array(numbers, ARROW_TYPES[kind]), numbers.astype(np.float64)
    low = 0 if kind == "short" else -100
    numbers = rng.integers(low, 100, n)
    if kind.startswith("coded"):
        plain = pa.array(numbers % 7, ARROW_TYPES[kind].value_type)
        return plain.dictionary_encode().cast(ARROW_TYPES[kind]), numbers % 7.0
    if kind == "money":
        return pa.array(numbers, pa.int64()).cast(ARROW_TYPES[kind]), numbers * 1.0
    return pa.array(numbers, ARROW_TYPES[kind]), numbers.astype(np.float64)


def write_parts(folder, table, cuts, group_rows):
    """Write a table as several files; row groups of each may be empty."""
    folder.mkdir(exist_ok=True)
    ends = [0, *sorted(cuts), table.num_rows]
    for k, (start, stop) in enumerate(itertools.pairwise(ends)):
        with pq.ParquetWriter(folder / f"{k:03}.parquet", table.schema) as writer:
            writer.write_table(table.slice(0, 0))
            for at in range(start, stop, group_rows):
                writer.write_table(table.slice(at, min(group_rows, stop - at)))
            writer.write_table(table.slice(0, 0))


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(
    kinds=st.lists(st.sampled_from(sorted(ARROW_TYPES)), min_size=1, max_size=5),
    n=st.integers(1, 1500),
    cuts=st.lists(st.integers(0, 1500), max_size=3),
    group_rows=st.sampled_from([7, 100, 256, 999, 5000]),
    target=st.sampled_from(["word", "count", "flag", None]),
    weighted=st.booleans(),
    seed=st.integers(0, 99),
)
def test_parquet_is_the_array_of_its_columns(
    tmp_path_factory, kinds, n, cuts, group_rows, target, weighted, seed
):
    rng = np.random.default_rng(seed)
    columns = [column_of(rng, kind, n) for kind in kinds]
    labels = {
        "word": np.array(["ash", "oak", "willow"])[rng.integers(0, 3, n)],
        "count": rng.integers(-5, 5, n),
        "flag": rng.integers(0, 2, n).astype(bool),
    }
    weight = rng.random(n)
    named = {f"x{j}": column for j, (column, _) in enumerate(columns)}
    table = pa.table({"w": weight, **named, **labels, "day": pa.nulls(n)})
    folder = tmp_path_factory.mktemp("parquet")
    write_parts(folder, table, [min(c, n) for c in cuts], group_rows)
    dtype = np.float32 if set(kinds) <= NARROW else np.float64
    X = np.column_stack([values for _, values in columns]).astype(dtype)
    own = {} if target is None else {TARGET: labels[target]}
    own |= {WEIGHT: weight} if weighted else {}
    source = open_rows(
        folder,
        target=target,
        columns=list(named),
        sample_weight="w" if weighted else None,
    )
    assert isinstance(source, ParquetSource)
    assert source.feature_names.tolist() == list(named)
    assert_same_source(source, in_memory(X, **own))


@pytest.mark.parametrize("n_words", [1, 127, 128, 300])
@pytest.mark.parametrize("nulls", ["none", "in the rows", "in the dictionary"])
def test_labels_of_any_coding_are_what_arrow_lists(n_words, nulls):
    rng = np.random.default_rng(0)
    words = [f"w{'x' * (k % 5)}{k}" for k in range(n_words)]
    codes = pa.array(rng.integers(0, n_words, 500), pa.int16())
    if nulls == "in the rows":
        codes = pa.array([*codes.to_pylist()[:-1], None], pa.int16())
    if nulls == "in the dictionary":
        words[0] = None
    coded = pa.DictionaryArray.from_arrays(codes, pa.array(words, pa.string()))
    for column in (coded, coded.dictionary_decode(), coded.slice(333), coded[:0]):
        labels, there = as_labels("test", column)
        expected = column.to_pylist()
        assert there.tolist() == [word is not None for word in expected]
        assert labels[there].tolist() == [w for w in expected if w is not None]


@pytest.fixture
def small(tmp_path):
    """A folder of two Parquet files with 700 rows of 3 columns, y and w."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 3)).astype(np.float32)
    y, w = rng.integers(0, 2, 700), rng.random(700)
    table = pa.table({**{f"x{j}": X[:, j] for j in range(3)}, "y": y, "w": w})
    write_parts(tmp_path / "rows", table, [300], 64)
    return tmp_path / "rows", X, y, w


def test_columns_by_name_and_position_in_the_order_asked_for(small):
    folder, X, y, w = small
    source = open_rows(folder, target=-2, columns=["x2", 0], sample_weight="w")
    expected = in_memory(X[:, [2, 0]], target=y, weight=w)
    assert_same_rows(source.take(np.arange(700)), expected.take(np.arange(700)))
    assert source.take(np.array([5])).columns[TARGET].dtype == y.dtype
    rest = open_rows([folder / "000.parquet"], target="y")
    assert rest.feature_names.tolist() == ["x0", "x1", "x2", "w"]
    assert rest.dtype == np.float64
    assert rest.n_rows == 300


def test_a_trip_to_few_rows_reads_only_their_row_groups(small):
    folder, X, _, _ = small
    source = open_rows(folder, columns=["x0", "x1", "x2"])
    # Spoil rows 64 to 127: the third row group, behind an empty one and another.
    path = folder / "000.parquet"
    chunk = pq.read_metadata(path).row_group(2).column(0)
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    text = bytearray(path.read_bytes())
    text[start : start + chunk.total_compressed_size] = bytes(
        [255] * chunk.total_compressed_size
    )
    path.write_bytes(text)
    rows = np.array([3, 63, 128, 299, 301])
    assert np.array_equal(source.take(rows).values, X[rows])
    with pytest.raises(InvalidInputError, match=r"000\.parquet: cannot be read"):
        source.take(np.array([3, 64]))


def test_no_more_than_two_pieces_are_read_ahead():
    taken, most_ahead = 0, 0

    def pieces():
        nonlocal most_ahead
        for made in range(1, 200):
            most_ahead = max(most_ahead, made - taken)
            yield made

    with ReadAhead(pieces()) as ahead:
        deadline = time.monotonic() + 30
        while most_ahead < 2 and time.monotonic() < deadline:
            time.sleep(0.001)
        for number in range(199):
            assert ahead.take() == (number, number + 1)
            taken += 1
        with pytest.raises(RuntimeError, match="nothing is left"):
            ahead.take()
    # One more than two: a piece is counted as taken only after the taking.
    assert 2 <= most_ahead <= 3


def test_a_pass_reads_ahead_and_leaves_no_thread_behind(small):
    folder, *_ = small
    source = open_rows(folder, columns=["x0"]).using(SMALL, Workers(1))
    before = threading.active_count()
    with pytest.raises(ZeroDivisionError):
        source.reduce(lambda rows: 1 // int(rows.index[0] < 256), max)
    with Workers(2) as workers, pytest.raises(ZeroDivisionError):
        source.using(SMALL, workers).map(lambda rows: 1 // int(rows.index[0] < 256))
    assert threading.active_count() == before


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("column", "value", "got"),
    [
        ("x1", None, "null"),
        ("x1", np.nan, "nan"),
        ("y", None, "null"),
        ("w", np.inf, "inf"),
    ],
)
def test_a_missing_value_is_told_by_file_row_and_column(
    tmp_path, threads, column, value, got
):
    table = {
        "x0": list(range(1000)),
        "x1": np.ones(1000).tolist(),
        "y": ["a", "b"] * 500,
        "w": np.ones(1000).tolist(),
    }
    table[column][907] = value
    write_parts(tmp_path / "rows", pa.table(table), [400], 100)
    source = open_rows(tmp_path / "rows", target="y", sample_weight="w")
    message = (
        rf"corevec.open: .*001\.parquet, row 508: expected a value in column "
        rf"'{column}', got {got}\..* write the file again"
    )
    with Workers(threads) as workers:
        source = source.using(SMALL, workers)
        with pytest.raises(InvalidInputError, match=message):
            source.reduce(sums, np.add)
        with pytest.raises(InvalidInputError, match=message):
            source.take(np.array([3, 907, 950]))
    assert len(source.take(np.array([3, 906, 950]))) == 3


def test_a_file_that_changes_or_goes_is_told(small):
    folder, *_ = small
    source = open_rows(folder, target="y")
    table = pq.read_table(folder / "001.parquet")
    pq.write_table(table.slice(10), folder / "001.parquet")
    with pytest.raises(InvalidInputError, match=r"001\.parquet: .*changed"):
        source.reduce(sums, np.add)
    (folder / "001.parquet").unlink()
    with pytest.raises(InvalidInputError, match=r"001\.parquet: cannot be read"):
        source.take(np.array([500]))


def test_a_source_travels_to_another_process(small, tmp_path):
    folder, X, y, _ = small
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    dump_svmlight_file(X, y, str(tmp_path / "rows.svm"), zero_based=False)
    for source in (
        open_rows(folder, target="y", columns=["x0", "x1", "x2"]),
        open_rows(tmp_path / "X.npy", target=tmp_path / "y.npy"),
        open_rows(tmp_path / "rows.svm"),
    ):
        source.draw(np.random.default_rng(0), 50)
        with Workers(2) as workers:
            packed = pickle.dumps(source.using(BUDGET, workers))
        # No rows travel: 700 of them are 8.4 kB.
        assert len(packed) < 3000
        there = pickle.loads(packed)
        rows = np.arange(0, 700, 7)
        assert_same_rows(there.take(rows), source.take(rows))
        assert np.array_equal(there.map(margins), source.map(margins))


MEMORY = """
import numpy as np
from corevec.data.sources import Workers
from corevec.data.sources import open as open_rows
import pyarrow.parquet

total = lambda rows: rows.values.sum(axis=0, dtype=np.float64)
before = anonymous()
threading.Thread(target=watch, daemon=True).start()
source = open_rows(sys.argv[1], target="y").using(2**22, Workers(1))
source.reduce(total, np.add)
source.take(source.draw(np.random.default_rng(0), 100))
running = False
print(json.dumps([before, peak[0], source.n_rows]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/status")
def test_a_pass_needs_memory_for_its_blocks_not_for_the_file(tmp_path):
    rng = np.random.default_rng(0)
    n, d = 600_000, 20
    with pq.ParquetWriter(
        tmp_path / "rows.parquet",
        pa.schema([*((f"x{j}", pa.float32()) for j in range(d)), ("y", pa.int8())]),
    ) as writer:
        X = rng.standard_normal((n, d), dtype=np.float32)
        y = (X[:, 0] > 0).astype(np.int8)
        columns = [np.ascontiguousarray(X[:, j]) for j in range(d)]
        table = pa.table([*columns, y], schema=writer.schema)
        writer.write_table(table, row_group_size=60_000)
    path = tmp_path / "rows.parquet"
    before, peak, rows = told_by(MEMORY, path, seconds=120)
    assert rows == n
    # 4 MB of budget, 0.6 MB for each of the 21 columns that Arrow reads at once, and as
    # much again for its allocator; the rows are 50 MB, the file 70 MB. Measured: 22 MB.
    assert peak - before < 40


# LIBSVM text


def svm_text(rng, n, d, first, odd):
    """Return lines, and the rows and labels they stand for."""
    values = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.3)
    values[0, 0] = values[-1, -1] = 1.0
    X = sparse.csr_matrix(values)
    y = rng.integers(-3, 3, n) / 2
    lines = []
    for i in range(n):
        part = slice(X.indptr[i], X.indptr[i + 1])
        entries = zip(X.indices[part] + first, X.data[part], strict=True)
        # A plus sign in front of an index goes by hand, line by line.
        sign = "+" if odd and i % 5 == 0 else ""
        words = [str(y[i]), *(f"{sign}{j}:{v}" for j, v in entries)]
        lines.append(" ".join(words))
        if odd and i % 3 == 0:
            lines.append("# a note")
    return lines, X, y


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(
    n=st.sampled_from([1, 40, 1023, 1024, 1025, 3000]),
    d=st.integers(2, 8),
    first=st.sampled_from([0, 1]),
    odd=st.booleans(),
    cut=st.floats(0, 1),
    seed=st.integers(0, 99),
)
def test_libsvm_text_is_the_matrix_it_stands_for(
    tmp_path_factory, n, d, first, odd, cut, seed
):
    lines, X, y = svm_text(np.random.default_rng(seed), n, d, first, odd)
    folder = tmp_path_factory.mktemp("svm")
    at = int(cut * len(lines))
    (folder / "a.svm").write_bytes("\n".join(lines[:at]).encode())
    (folder / "b.svm").write_bytes("\r\n".join(lines[at:]).encode())
    source = open_rows([folder / "a.svm", folder / "b.svm"], target=True)
    assert isinstance(source, LibsvmSource)
    expected = in_memory(X, target=y)
    assert source.row_entries == expected.row_entries
    assert_same_source(source, expected)


def test_libsvm_values_do_not_depend_on_the_threads(tmp_path):
    lines, _, _ = svm_text(np.random.default_rng(0), 9000, 6, 1, False)
    (tmp_path / "rows.svm").write_text("\n".join(lines))
    source = open_rows(tmp_path / "rows.svm")
    found = []
    for threads in (1, 2):
        with Workers(threads) as workers:
            here = source.using(BUDGET, workers)
            assert here.block_rows == 1024
            found.append((here.reduce(sums, np.add), here.map(margins)))
    assert np.array_equal(found[0][0], found[1][0])
    assert np.array_equal(found[0][1], found[1][1])


def test_libsvm_text_that_cannot_be_used(tmp_path):
    def told(text, message, name="rows.svm", **how):
        (tmp_path / name).write_bytes(text)
        with pytest.raises(InvalidInputError, match=message):
            open_rows(tmp_path / name, **how)

    told(b"1 1:2\n1 x\n", r"rows\.svm, line 2: .*'1 x'")
    told(b"# nothing\n", "no rows")
    told(b"1\n-1\n", "no columns")
    packed = gzip.compress(b"1 1:2\n")
    told(packed, "compressed.*read_libsvm", "rows.svm.gz")
    told(packed, "compressed", "packed", format="libsvm")
    told(b"1 1:2\n", "target='y'", target="y")
    told(b"1 1:2\n", r"columns=\[0\]", columns=[0])
    with pytest.raises(InvalidInputError, match="is a folder"):
        open_rows(tmp_path, format="libsvm")


def test_libsvm_text_that_changes_is_told(tmp_path):
    lines, _, _ = svm_text(np.random.default_rng(0), 3000, 4, 1, False)
    (tmp_path / "rows.svm").write_text("\n".join(lines))
    source = open_rows(tmp_path / "rows.svm")
    (tmp_path / "rows.svm").write_text("\n".join(lines[:2500]))
    with pytest.raises(InvalidInputError, match="changed"):
        source.map(margins)


# Arrays mapped into memory


@pytest.mark.parametrize(
    ("kind", "handed_out"),
    [
        ("f4", "f4"),
        ("f8", "f8"),
        (">f8", "f8"),
        ("f2", "f4"),
        ("i1", "f4"),
        ("u2", "f4"),
        ("i4", "f8"),
        ("?", "f4"),
    ],
)
def test_npy_is_its_array(tmp_path, kind, handed_out):
    rng = np.random.default_rng(0)
    table = (10 * rng.normal(size=(1500, 6))).astype(kind)
    table = np.abs(table) if kind == "u2" else table
    np.save(tmp_path / "X.npy", table)
    y, w = rng.integers(0, 3, (1500, 2)), rng.random(1500)
    np.save(tmp_path / "y.npy", y)
    source = open_rows(tmp_path / "X.npy", target=tmp_path / "y.npy", sample_weight=w)
    assert isinstance(source, NpySource)
    X = table.astype(handed_out)
    assert_same_source(source, in_memory(X, target=y, weight=w))
    last = open_rows(str(tmp_path / "X.npy"), target=-1, sample_weight=0)
    own = {TARGET: table[:, 5], WEIGHT: table[:, 0].astype(float)}
    assert_same_source(last, in_memory(X[:, 1:5], **own))
    some = open_rows(tmp_path / "X.npy", target=2, columns=[5, 0])
    expected = in_memory(X[:, [5, 0]], target=table[:, 2])
    assert_same_source(some, expected)


def test_blocks_of_a_float_array_are_views_of_the_file(tmp_path):
    np.save(tmp_path / "X.npy", np.ones((300, 4)))
    source = open_rows(tmp_path / "X.npy", target=0)
    assert np.shares_memory(source.block(5, 9).values, source.values)
    assert source.draws_cheaply


def test_npy_that_cannot_be_used(tmp_path):
    def told(array, message, **how):
        np.save(tmp_path / "X.npy", array)
        with pytest.raises(InvalidInputError, match=message):
            open_rows(tmp_path / "X.npy", **how)

    told(np.ones(5), r"shape \(5,\)")
    told(np.ones((0, 5)), r"shape \(0, 5\)")
    told(np.ones((5, 2)) * 1j, "complex128")
    told(np.ones((5, 2)).astype(str), "<U32")
    told(np.array([[None, 1]], dtype=object), r"X\.npy")
    told(np.asfortranarray(np.ones((5, 2))), "Fortran")
    told(np.ones((5, 2)), "target=2 .* 2", target=2)
    told(np.ones((5, 2)), "target=True", target=True)
    told(np.ones((5, 2)), r"\(4,\) for 5", target=np.ones(4))
    told(np.ones((5, 2)), "column 1 .*twice", target=1, columns=[0, 1])
    told(np.ones((5, 1)), "no column left", target=0)
    told(np.ones((5, 2)), r"columns=\['a'\]", columns=["a"])
    (tmp_path / "short.npy").write_bytes((tmp_path / "X.npy").read_bytes()[:-8])
    with pytest.raises(InvalidInputError, match=r"short\.npy"):
        open_rows(tmp_path / "short.npy")
    with pytest.raises(InvalidInputError, match=r"2 \.npy files"):
        open_rows([tmp_path / "X.npy", tmp_path / "short.npy"])


def test_a_missing_value_of_an_array_is_told(tmp_path):
    X = np.ones((900, 3))
    X[700, 2] = np.nan
    np.save(tmp_path / "X.npy", X)
    source = open_rows(tmp_path / "X.npy").using(SMALL, Workers(1))
    with pytest.raises(InvalidInputError, match=r"row 701: .* in column 2, got nan"):
        source.reduce(sums, np.add)
    y = np.where(np.arange(900) == 300, np.inf, 1.0)
    source = open_rows(tmp_path / "X.npy", target=y, columns=[0])
    with pytest.raises(InvalidInputError, match=r"X\.npy, target, row 301: .* inf"):
        source.map(margins)


# Opening


def test_what_cannot_be_opened(small, tmp_path, monkeypatch):
    folder, *_ = small
    file = folder / "000.parquet"
    for name in ("rows.csv", "rows.tsv.gz", "rows.xyz", "rows.svm"):
        (tmp_path / "odd").mkdir(exist_ok=True)
        text = b"Dear reader\n" if name == "rows.xyz" else b"1 1:2\n"
        (tmp_path / "odd" / name).write_bytes(text)
    odd = tmp_path / "odd"

    def told(path, message, error=InvalidInputError, **how):
        with pytest.raises(error, match=message):
            open_rows(path, **how)

    told(tmp_path / "none", "corevec.open: .*none", FileNotFoundError)
    told([], "empty")
    told(odd / "rows.csv", r"CSV.*streams\.read_csv")
    told(odd / "rows.tsv.gz", "CSV")
    told(odd / "rows.xyz", "'Dear reader'.*format='parquet'")
    told(odd, r"\*\.parquet")
    told([odd / "rows.svm", file], "libsvm, parquet")
    told(file, "format='csv' .*'parquet', 'libsvm', 'npy'", format="csv")
    told(odd / "rows.svm", "cannot be read as Parquet", format="parquet")
    told(file, "target='z' .*'x0'", target="z")
    told(file, "columns='z'", columns=["z"])
    told(file, "'y' .*twice", target="y", columns=["x0", "y"])
    pq.write_table(pa.table({"a": pa.array([], pa.float32())}), odd / "no.parquet")
    told(odd / "no.parquet", r"no\.parquet: .*no rows")
    pq.write_table(pa.table({"a": ["b"], "y": [1]}), odd / "text.parquet")
    told(odd / "text.parquet", "'a' .*string")
    pq.write_table(pa.table({"a": [1.0], "y": ["1"]}), odd / "words.parquet")
    pq.write_table(pa.table({"a": [1.0], "y": [1]}), odd / "numbers.parquet")
    numbers = odd / "numbers.parquet"
    told([file, numbers], "features 'a'", target="y")
    both = [odd / "words.parquet", odd / "numbers.parquet"]
    told(both, "target 'y' is text", target="y")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    told(file, r'pip install "corevec\[arrow\]"', ImportError)


def test_a_source_says_what_it_is(small, tmp_path):
    folder, X, y, _ = small
    text = repr(open_rows(folder, target="y", sample_weight="w"))
    first = folder / "000.parquet"
    assert text == (
        "ParquetSource(700 rows x 3 columns, with target and weight: "
        f"{first} and 1 more)"
    )
    np.save(tmp_path / "X.npy", X)
    text = repr(open_rows(tmp_path / "X.npy"))
    assert text == f"NpySource(700 rows x 3 columns: {tmp_path / 'X.npy'})"
    dump_svmlight_file(X, y, str(tmp_path / "rows.svm"))
    assert "LibsvmSource(700 rows x 3 columns, with target: " in repr(
        open_rows(tmp_path / "rows.svm")
    )


def test_wide_files_in_large_row_groups_are_told_in_the_log(tmp_path, caplog):
    table = pa.table({f"x{j}": np.ones(10) for j in range(4)})
    pq.write_table(table, tmp_path / "rows.parquet")
    open_rows(tmp_path / "rows.parquet")
    assert not caplog.records
    ParquetSource(tmp_path / "rows.parquet", memory_budget=100)
    assert "a page of every column takes some 0 MB" in caplog.text
