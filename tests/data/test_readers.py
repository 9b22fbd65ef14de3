"""Readers of files: the rows of independent readers, bounded memory, clear errors."""

import bz2
import gzip
import lzma
import sys
import time
import tracemalloc
from decimal import Decimal, localcontext

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import dump_svmlight_file, load_svmlight_file
from sklearn.linear_model import SGDClassifier

from corevec import InvalidInputError
from corevec.backend.loops.text import ALL_READ
from corevec.data.readers import (
    RowBuffer,
    Rules,
    Wanted,
    WholeLines,
    find_columns,
)
from corevec.streams import read_csv, read_libsvm, read_parquet, scan_libsvm

ODD = (
    b"# a note\n"
    b"+1 1:0.5 3:-2e3 7:.25 # another\n"
    b"\n"
    b"-1\tqid:12 2:1e-3\t5:7.\r\n"
    b"  0.5   \r\n"
    b"2 qid:3\n"
    b"-0 1:-0 2:0.1#close\n"
    b"1e2 6:+123456789012345678901234567890 7:4.9e-324\n"
    b"   \t\n"
    b"3 1:17976931348623157e292 2:0.30000000000000004 7:1"
)


def gathered(stream):
    """Return the blocks of one pass, stacked."""
    parts = list(zip(*stream, strict=True))
    join = sparse.vstack if sparse.issparse(parts[0][0]) else np.concatenate
    return join(parts[0]), *(np.concatenate(p) for p in parts[1:])


def with_chunks(stream, size):
    stream._chunk_bytes = size
    return stream


def same_bits(a, b):
    return np.array_equal(
        np.asarray(a, dtype=np.float64).view(np.int64),
        np.asarray(b, dtype=np.float64).view(np.int64),
    )


def assert_same_rows(found, expected):
    X, y = found
    X_expected, y_expected = expected
    assert X.shape == X_expected.shape
    assert np.array_equal(X.indptr, X_expected.indptr)
    assert np.array_equal(X.indices, X_expected.indices)
    assert same_bits(X.data, X_expected.data)
    assert same_bits(y, y_expected)


def written(folder, text, name="rows"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.fixture(scope="module")
def random_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("libsvm") / "random"
    X = sparse.random(1000, 40, density=0.2, format="csr", random_state=0)
    X.data = np.random.default_rng(0).normal(size=X.nnz) * 10.0 ** (X.indices % 12 - 6)
    dump_svmlight_file(X, np.arange(1000) % 3 - 1, str(path), zero_based=False)
    return path


# LIBSVM text: against scikit-learn


@pytest.mark.parametrize("block_rows", [1, 7, 250, 1000, 5000])
def test_blocks_are_the_rows_of_scikit_learn(random_file, block_rows):
    stream = read_libsvm(random_file, n_features=40, block_rows=block_rows)
    blocks = list(stream)
    rows = [len(y) for _, y in blocks]
    assert set(rows[:-1]) <= {block_rows}
    assert 0 < rows[-1] <= block_rows
    assert stream.rows == sum(rows) == 1000
    assert all(X.shape == (len(y), 40) for X, y in blocks)
    expected = load_svmlight_file(random_file, n_features=40)
    assert_same_rows(gathered(blocks), expected)
    X = blocks[0][0]
    assert type(X) is type(expected[0])
    assert X.dtype == expected[0].dtype
    assert X.indices.dtype == X.indptr.dtype == np.int32
    assert X.has_canonical_format


def test_a_block_belongs_to_its_reader(random_file):
    stream = read_libsvm(random_file, n_features=40, block_rows=100)
    kept = list(stream)
    for X, y in stream:
        X.data[:] = 0.0
        y[:] = 9.0
    assert_same_rows(gathered(kept), load_svmlight_file(random_file, n_features=40))


def test_oddities_of_the_format_are_read_as_scikit_learn_reads_them(tmp_path):
    path = written(tmp_path, ODD)
    expected = load_svmlight_file(path, n_features=9, zero_based=False)
    assert_same_rows(gathered(read_libsvm(path, n_features=9)), expected)


def test_a_chunk_may_end_at_any_byte(tmp_path):
    path = written(tmp_path, ODD)
    expected = load_svmlight_file(path, n_features=9, zero_based=False)
    for size in range(1, len(ODD) + 3):
        stream = with_chunks(read_libsvm(path, n_features=9, block_rows=3), size)
        assert_same_rows(gathered(stream), expected)


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
def test_compression_is_told_by_the_bytes_not_by_the_name(tmp_path, compress):
    plain = written(tmp_path, ODD, "rows.gz.txt")
    # Two members one after the other are one file, as `cat a.gz b.gz` makes it.
    packed = written(tmp_path, compress(ODD[:40]) + compress(ODD[40:]), "rows.txt")
    expected = gathered(read_libsvm(plain, n_features=9))
    for size in (5, 1 << 20):
        stream = with_chunks(read_libsvm(packed, n_features=9), size)
        assert_same_rows(gathered(stream), expected)


def test_a_byte_order_mark_is_passed_over(tmp_path):
    path = written(tmp_path, b"\xef\xbb\xbf1 1:2\n-1 1:3\n")
    X, y = gathered(read_libsvm(path, n_features=1))
    assert y.tolist() == [1.0, -1.0]
    assert X.data.tolist() == [2.0, 3.0]


def test_counting_from_zero(tmp_path):
    path = written(tmp_path, "1 0:1 2:3\n2 1:5\n")
    expected = load_svmlight_file(path, n_features=3, zero_based=True)
    stream = read_libsvm(path, n_features=3, zero_based=True)
    assert_same_rows(gathered(stream), expected)
    with pytest.raises(InvalidInputError, match=r"line 1: index 0.*zero_based=True"):
        list(read_libsvm(path, n_features=3))


def test_float32_values_are_those_of_scikit_learn(tmp_path):
    path = written(tmp_path, "1 1:0.1 2:3.4028235e38 3:1e-46\n")
    X, y = gathered(read_libsvm(path, n_features=3, dtype=np.float32))
    expected, _ = load_svmlight_file(path, n_features=3, dtype=np.float32)
    assert X.dtype == np.float32
    assert np.array_equal(X.data.view(np.int32), expected.data.view(np.int32))
    assert y.dtype == np.float64
    path = written(tmp_path, "1 1:0.1 2:3.4028236e38\n")
    with pytest.raises(InvalidInputError, match=r"after '2:', .* out of range"):
        list(read_libsvm(path, n_features=3, dtype=np.float32))


def test_files_without_rows_give_no_block(tmp_path):
    for text in (b"", b"\n\n", b"# only a note"):
        assert list(read_libsvm(written(tmp_path, text), n_features=3)) == []


def test_several_files_are_one_stream_and_each_pass_begins_anew(tmp_path, random_file):
    other = written(tmp_path, b"5 1:1")
    stream = read_libsvm([random_file, str(other)], n_features=40, block_rows=300)
    first = list(stream)
    assert [len(y) for _, y in first] == [300, 300, 300, 101]
    again = gathered(stream)
    assert_same_rows(gathered(first), again)
    assert again[1][-1] == 5.0


def test_a_stream_trains_what_the_whole_file_trains(random_file):
    stream = read_libsvm(random_file, n_features=40, block_rows=100)
    X, y = load_svmlight_file(random_file, n_features=40)
    streamed, whole = (SGDClassifier(shuffle=False, random_state=0) for _ in range(2))
    for rows, labels in stream:
        streamed.partial_fit(rows, labels, classes=[-1, 0, 1])
    for start in range(0, 1000, 100):
        part = slice(start, start + 100)
        whole.partial_fit(X[part], y[part], classes=[-1, 0, 1])
    assert np.array_equal(streamed.coef_, whole.coef_)


# LIBSVM text: numbers

DECIMALS = st.from_regex(
    r"[+-]?([0-9]{1,22}\.?[0-9]{0,22}|\.[0-9]{1,22})([eE][+-]?[0-9]{1,3})?",
    fullmatch=True,
).filter(lambda text: np.isfinite(float(text)))
FORMATS = st.sampled_from(["r", ".17g", ".16g", ".17e", ".18e", ".25g", ".3f"])
FLOATS = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def written_floats(draw):
    value, form = draw(FLOATS), draw(FORMATS)
    return repr(value) if form == "r" else format(value, form)


def halfway(value):
    """Return all digits of the middle between a float64 and its upper neighbour."""
    upper = float(np.nextafter(value, np.inf))
    with localcontext(prec=200):
        return format((Decimal(value) + Decimal(upper)) / 2, "e")


HALFWAYS = st.floats(1e-10, 1e10).map(halfway)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(numbers=st.lists(DECIMALS | written_floats() | HALFWAYS, min_size=1))
def test_every_number_is_rounded_as_python_rounds_it(tmp_path_factory, numbers):
    path = tmp_path_factory.getbasetemp() / "numbers"
    path.write_text("".join(f"{n} 1:{n}\n" for n in numbers))
    X, y = gathered(read_libsvm(path, n_features=1))
    assert same_bits(y, [float(n) for n in numbers])
    assert same_bits(X.data, [float(n) for n in numbers])
    expected, _ = load_svmlight_file(path, n_features=1, zero_based=False)
    assert same_bits(X.data, expected.data)


@pytest.mark.parametrize("form", ["r", ".16g", ".17g", ".17e"])
def test_the_compiled_loop_rounds_long_numbers_itself(tmp_path, form):
    rng = np.random.default_rng(1)
    values = rng.normal(size=20_000) * 10.0 ** rng.integers(-250, 250, size=20_000)
    write = repr if form == "r" else lambda value: format(value, form)
    path = written(tmp_path, "".join(f"1 1:{write(v)}\n" for v in values.tolist()))
    block = RowBuffer(Rules.checked("test", 1, False, np.float64), 20_000, 1 << 26)
    with WholeLines("test", path, 1 << 20, 1 << 26) as lines:
        assert lines.more()
        assert block.parse(lines) == ALL_READ
    X, _ = block.take_block()
    assert same_bits(X.data, [float(write(v)) for v in values.tolist()])


# LIBSVM text: bad input

# What each message names: the words, the index, the bound.
BAD_LINES = {
    "one 1:2": r"'one', in 'one 1:2'",
    "1:2 2:3": "'1:2'",
    "1,2 1:3": "'1,2'",
    "nan 1:2": "'nan'",
    "1 1:2 x": "'x'",
    "1 1:2 3": "'3'",
    "1 1.5:2": r"'1\.5:2'",
    "1 a:2": "'a:2'",
    "1 1:2 qid:3": "'qid:3'",
    "1 qid:x 1:2": "'qid:x'",
    "1 2:": "'2:'.*''",
    "1 2: 3": "'2:'.*''",
    "1 2:3:4": "'2:'.*'3:4'",
    "1 2:nan": "'2:'.*'nan'",
    "1 2:-inf": "'2:'.*'-inf'",
    "1 2:0x10": "'2:'.*'0x10'",
    "1 2:1_0": "'2:'.*'1_0'",
    "1 2:1e": "'2:'.*'1e'",
    "1 2:.": r"'2:'.*'\.'",
    "1 2:1e999": "'2:'.*'1e999'",
    "1 0:1": "index 0.*zero_based=True",
    "1 -1:1": "index -1.* 1",
    "1 3:1 2:1": "index 2.* 3",
    "1 3:1 3:1": "index 3.* 3",
    "1 6:1": "index 6.* 5 columns.*n_features",
    "1 99999999999999999999:1": "index 9{20}.* 5 columns",
}


@pytest.mark.parametrize("line", BAD_LINES)
def test_a_line_that_does_not_parse_is_told_and_can_be_skipped(tmp_path, line):
    path = written(tmp_path, f"# note\n1 1:2\n\n{line}\n-1 5:3\n")
    strict = iter(read_libsvm(path, n_features=5))
    _, y = next(strict)
    assert y.tolist() == [1.0]
    with pytest.raises(InvalidInputError, match=BAD_LINES[line]) as told:
        next(strict)
    assert f"read_libsvm: {path}, line 4: " in str(told.value)
    assert "errors='skip'" in str(told.value)
    assert "Rows yielded before it: 1." in str(told.value)
    lenient = read_libsvm(path, n_features=5, errors="skip")
    X, y = gathered(lenient)
    assert y.tolist() == [1.0, -1.0]
    assert X.toarray()[:, [0, 4]].tolist() == [[2.0, 0.0], [0.0, 3.0]]
    assert lenient.skipped == 1
    assert f"{path}, line 4: " in lenient.messages[0]
    gathered(lenient)
    assert lenient.skipped == 1


def test_many_bad_lines_are_counted_and_the_first_ones_kept(tmp_path):
    lines = ["1 1:1" if i % 3 else f"1 {'x' * i}" for i in range(900)]
    stream = read_libsvm(
        written(tmp_path, "\n".join(lines)), n_features=1, errors="skip", block_rows=50
    )
    assert [len(y) for _, y in stream] == [50] * 12 + [1]
    assert stream.skipped == 299  # line 1 is a row without entries
    assert len(stream.messages) == 5
    assert "line 4: " in stream.messages[0]
    assert all(len(message) < 400 for message in stream.messages)


def test_long_lines_are_shortened_in_messages(tmp_path):
    path = written(tmp_path, "1 1:1\n" + "x" * 100_000 + " 1:1\n")
    with pytest.raises(InvalidInputError, match="line 2") as told:
        list(read_libsvm(path, n_features=1))
    assert len(str(told.value)) < 600


@pytest.mark.parametrize("errors", ["raise", "skip"])
@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
def test_a_file_that_is_cut_off_is_always_an_error(tmp_path, compress, errors):
    rng = np.random.default_rng(0)
    lines = [f"1 1:{v!r}" for v in rng.normal(size=60_000).tolist()]
    whole = compress("\n".join(lines).encode())
    path = written(tmp_path, whole[: 3 * len(whole) // 4])
    stream = read_libsvm(path, n_features=1, errors=errors, block_rows=1000)
    got = []
    with pytest.raises(InvalidInputError, match="damaged") as told:
        got.extend(X.data for X, _ in stream)
    got = np.concatenate(got)
    assert 20_000 < len(got) < 60_000
    assert same_bits(got, [float(line.split(":")[1]) for line in lines[: len(got)]])
    assert f"after line {len(got)} " in str(told.value)
    assert f"Rows yielded before it: {len(got)}." in str(told.value)
    assert stream.skipped == 0


def test_damage_inside_a_compressed_file_is_an_error(tmp_path):
    rng = np.random.default_rng(0)
    text = "\n".join(f"1 1:{v!r}" for v in rng.normal(size=60_000).tolist())
    packed = bytearray(gzip.compress(text.encode()))
    packed[-6] ^= 1  # the checksum at the end
    path = written(tmp_path, bytes(packed))
    stream = read_libsvm(path, n_features=1)
    with pytest.raises(InvalidInputError, match=r"damaged after line .*CRC"):
        list(stream)
    assert stream.rows > 50_000


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_features", None),
        ("n_features", 0),
        ("n_features", 2**31),
        ("zero_based", "auto"),
        ("zero_based", 2),
        ("dtype", np.int32),
        ("errors", "ignore"),
        ("block_rows", 0),
        ("memory_budget", 1.5),
    ],
)
def test_parameters_that_cannot_be_used(random_file, name, value):
    with pytest.raises(InvalidInputError) as told:
        read_libsvm(random_file, **{"n_features": 3, name: value})
    assert str(told.value).startswith(f"read_libsvm: {name}={value!r}")


def test_paths_that_cannot_be_used(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file .*missing"):
        read_libsvm([tmp_path / "missing"], n_features=3)
    with pytest.raises(InvalidInputError, match="empty"):
        read_libsvm([], n_features=3)


def test_a_scan_finds_what_a_pass_must_be_told(tmp_path, random_file):
    facts = scan_libsvm(random_file)
    X, y = load_svmlight_file(random_file)
    assert (facts.n_rows, facts.n_features, facts.n_entries) == (*X.shape, X.nnz)
    assert facts.labels.tolist() == np.unique(y).tolist()
    assert not facts.zero_based
    path = written(tmp_path, "1 0:1 7:1\nx\n3\n")
    facts = scan_libsvm(path, errors="skip")
    assert (facts.n_rows, facts.n_features, facts.zero_based) == (2, 8, True)
    assert facts.skipped == 1
    many = written(tmp_path, "".join(f"{i} 3:1\n" for i in range(10_001)))
    facts = scan_libsvm(many)
    assert (facts.n_features, facts.labels) == (3, None)
    assert scan_libsvm(written(tmp_path, "1\n")).n_features == 0


# LIBSVM text: memory


def long_line(n_entries):
    return "1 " + " ".join(f"{i}:{i % 7 + 0.5}" for i in range(1, n_entries + 1))


def test_a_line_may_be_longer_than_the_chunk(tmp_path):
    path = written(tmp_path, "\n".join(["2 1:1", long_line(100_000), "3 2:1", ""]))
    expected = load_svmlight_file(path, n_features=100_000)
    stream = with_chunks(read_libsvm(path, n_features=100_000), 64)
    assert_same_rows(gathered(stream), expected)


def test_blocks_of_long_rows_end_early_and_a_row_stays_whole(tmp_path):
    lengths = [3, 4, 200, 1, 2, 3, 4, 5, 6, 300, 2, 20_000, 1]
    text = "\n".join(long_line(n) for n in lengths)
    path = written(tmp_path, text)
    expected = load_svmlight_file(path, n_features=20_000)
    # Budgets for 10 and for 1000 entries; the text of the longest line is 210 kB.
    for budget_entries in (10, 1000):
        work = RowBuffer(Rules(1, 20_000, np.dtype(float)), 8192, 12 * budget_entries)
        blocks = []
        with WholeLines("test", path, 512, 1 << 20) as lines:
            stream = read_libsvm(path, n_features=20_000)
            blocks.extend(stream._full_blocks(lines, work))
        blocks.append(work.take_block())
        assert_same_rows(gathered(blocks), expected)
        for X, _ in blocks:
            assert X.nnz <= budget_entries or X.shape[0] == 1
        # Lines that go by hand keep to the same blocks.
        odd = written(tmp_path, text.replace(" 1:1.5", " +1:1.5"), "odd")
        work = RowBuffer(Rules(1, 20_000, np.dtype(float)), 8192, 12 * budget_entries)
        with WholeLines("test", odd, 512, 1 << 20) as lines:
            by_hand = [*stream._full_blocks(lines, work), work.take_block()]
        assert_same_rows(gathered(by_hand), expected)
        assert all(X.nnz <= budget_entries or X.shape[0] == 1 for X, _ in by_hand)


def test_a_line_beyond_the_budget_is_an_error_that_says_so(tmp_path):
    path = written(tmp_path, "1 1:1\n" + long_line(20_000))
    stream = read_libsvm(path, n_features=20_000, memory_budget=1 << 16)
    stream = with_chunks(stream, 1 << 10)
    with pytest.raises(InvalidInputError, match=r"line 2 .*memory_budget"):
        list(stream)
    assert stream.rows == 1


def test_memory_is_that_of_a_block_whatever_the_file(tmp_path):
    lines = "".join(f"1 1:{i}.5 7:0.25 40:1e-3\n" for i in range(2000)).encode()
    peaks = []
    for repeats in (50, 500):
        path = written(tmp_path, gzip.compress(lines * repeats, compresslevel=1))
        stream = read_libsvm(path, n_features=40, block_rows=1000)
        next(iter(stream))  # what is made once, and compiled
        tracemalloc.start()
        rows = sum(len(y) for _, y in stream)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert rows == 2000 * repeats
    # 1 MB of text, 0.8 MB of entries in work, two blocks of 0.05 MB; 25 MB of text.
    assert max(peaks) < 4e6


# CSV: against pandas


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "a": rng.normal(size=500) * 1e-9,
            "b": rng.integers(-9, 9, size=500),
            "kind": np.where(rng.random(500) < 0.5, 'big, "red"\nfox', "cat"),
            "c": rng.normal(size=500) * 1e30,
            "w": rng.random(500),
        }
    )


def assert_columns(found, frame, names, target, weight=None):
    assert same_bits(found[0], frame[names].to_numpy(dtype=np.float64))
    assert found[0].flags.c_contiguous
    assert found[1].tolist() == frame[target].tolist()
    if weight is not None:
        assert same_bits(found[2], frame[weight])


@pytest.mark.parametrize("block_rows", [1, 77, 500, 8192])
def test_csv_blocks_are_the_columns_of_the_frame(tmp_path, frame, block_rows):
    path = tmp_path / "table.csv"
    frame.to_csv(path, index=False)
    stream = read_csv(path, target="kind", sample_weight="w", block_rows=block_rows)
    blocks = list(stream)
    assert {len(y) for _, y, _ in blocks[:-1]} <= {block_rows}
    assert_columns(gathered(blocks), frame, ["a", "b", "c"], "kind", "w")
    assert stream.rows == 500


def test_csv_columns_by_name_and_position_in_the_order_asked_for(tmp_path, frame):
    path = tmp_path / "table.csv"
    frame.to_csv(path, index=False, sep=";")
    for target in ("kind", 2, -3):
        stream = read_csv(path, target=target, columns=["c", 0], delimiter=";")
        assert_columns(gathered(stream), frame, ["c", "a"], "kind")
    found = gathered(read_csv(path, target="b", columns=["a"], delimiter=";"))
    assert_columns(found, frame, ["a"], "b")
    assert found[1].dtype == np.float64
    stream = read_csv(
        path, target="b", columns=["a"], delimiter=";", target_type="string"
    )
    assert gathered(stream)[1].tolist() == [str(b) for b in frame["b"]]


def test_csv_without_header_and_without_target(tmp_path, frame):
    path = tmp_path / "table.csv"
    frame[["a", "b", "c"]].to_csv(path, index=False, header=False)
    ((X, y),) = read_csv(path, target=None, header=False)
    assert y is None
    assert same_bits(X, frame[["a", "b", "c"]].to_numpy(dtype=np.float64))
    ((X, y, w),) = read_csv(path, target=None, sample_weight="1", header=False)
    assert (X.shape, y) == ((500, 2), None)
    assert w.tolist() == frame["b"].tolist()


def test_a_csv_chunk_may_end_at_any_byte(tmp_path):
    text = (
        b'x,"the\nname",z\r\n1,"a\n""b"",c",2\r\n\r\n"3",d,4\n-5e-3,"",\n +6 ,e,7\n'
        b'8,"f\n\n",9\n10,g,11'
    )
    path = written(tmp_path, b"\xef\xbb\xbf" + text)
    labels = ['a\n"b",c', "d", "e", "f\n\n", "g"]
    numbers = {"x": [1, 3, 6, 8, 10], "z": [2, 4, 7, 9, 11]}
    expected = pd.DataFrame({**numbers, "name": labels})
    for size in range(1, len(text) + 5):
        stream = read_csv(path, target="the\nname", errors="skip", block_rows=2)
        found = gathered(with_chunks(stream, size))
        assert_columns(found, expected, ["x", "z"], "name")
        assert stream.skipped == 1
        assert "line 7: " in stream.messages[0]


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
def test_compressed_csv_in_several_files(tmp_path, frame, compress):
    text = frame.to_csv(index=False).encode()
    paths = [written(tmp_path, compress(text), f"{i}.csv") for i in range(2)]
    stream = read_csv(paths, target="kind", block_rows=400)
    blocks = list(stream)
    assert [len(y) for _, y in blocks] == [400, 400, 200]
    both = pd.concat([frame, frame])
    assert_columns(gathered(blocks), both, ["a", "b", "c", "w"], "kind")


def test_csv_rows_at_once_and_one_by_one_are_the_same(tmp_path, frame):
    path = tmp_path / "table.csv"
    frame.to_csv(path, index=False)
    for target in ("kind", "b"):
        columns = [name for name in frame.columns if name not in (target, "kind")]
        ((X, y),) = read_csv(path, target=target, columns=columns)
        # A bad record: the lines of its chunk are parsed one by one.
        with_bad = tmp_path / "bad.csv"
        with_bad.write_text(path.read_text() + "1,2\n")
        stream = read_csv(with_bad, target=target, columns=columns, errors="skip")
        ((X_slow, y_slow),) = stream
        assert stream.skipped == 1
        assert same_bits(X, X_slow)
        assert y.dtype == y_slow.dtype
        assert y.tolist() == y_slow.tolist()


BAD_RECORDS = {
    "1,2": r"4 fields.* 2.*'1,2'",
    "1,2,cat,3,4": "4 fields.* 5",
    "1,x,cat,1": "'b'.*'x'",
    "1,,cat,1": "'b'.*''",
    "1,NA,cat,1": "'b'.*'NA'",
    "1,nan,cat,1": "'b'.*'nan'",
    "-inf,1,cat,1": "'a'.*'-inf'",
    "1e999,1,cat,1": "'a'.*'1e999'",
    "1,2,,1": "'kind'",
    "1,2,cat,heavy": "'w'.*'heavy'",
}


@pytest.mark.parametrize("record", BAD_RECORDS)
def test_a_record_that_does_not_parse_is_told_and_can_be_skipped(tmp_path, record):
    head = 'a,b,kind,w\n1,2,"c\nat",1\n'
    path = written(tmp_path, f"{head}{record}\n3,4,dog,2\n")
    given = {"target": "kind", "sample_weight": "w"}
    strict = iter(read_csv(path, **given))
    assert next(strict)[1].tolist() == ["c\nat"]
    with pytest.raises(InvalidInputError, match=BAD_RECORDS[record]) as told:
        next(strict)
    assert f"read_csv: {path}, line 4: " in str(told.value)
    assert "Rows yielded before it: 1." in str(told.value)
    lenient = read_csv(path, errors="skip", **given)
    X, y, w = gathered(lenient)
    assert X.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert y.tolist() == ["c\nat", "dog"]
    assert w.tolist() == [1.0, 2.0]
    assert lenient.skipped == len(lenient.messages) == 1


def test_labels_keep_the_type_of_the_first_row(tmp_path):
    path = written(tmp_path, "x,y\n1,2\n3,cat\n")
    with pytest.raises(InvalidInputError, match=r"line 3: .*target_type='string'"):
        list(read_csv(path, target="y"))
    assert gathered(read_csv(path, target="y", target_type="string"))[1].tolist() == [
        "2",
        "cat",
    ]
    path = written(tmp_path, "x,y\n1,cat\n3,2\n")
    assert gathered(read_csv(path, target="y"))[1].tolist() == ["cat", "2"]
    with pytest.raises(InvalidInputError, match=r"line 2: .*'cat'"):
        list(read_csv(path, target="y", target_type="number"))


def test_a_missing_first_label_does_not_turn_numbers_into_text(tmp_path):
    path = written(tmp_path, "x,y\n0,NaN\n1,2\n3,\n4,5\n")
    stream = read_csv(path, target="y", errors="skip")
    assert gathered(stream)[1].tolist() == [2.0, 5.0]
    assert stream.skipped == 2
    path = written(tmp_path, "x,y\n0,none\n1,some\n")
    assert gathered(read_csv(path, target="y"))[1].tolist() == ["none", "some"]


def test_bytes_that_are_not_utf8_matter_only_where_they_are_read(tmp_path):
    path = written(tmp_path, b"x,y,note\n1,a,ol\xe9\n2,b,\n")
    stream = read_csv(path, target="y", columns=["x"])
    assert gathered(stream)[1].tolist() == ["a", "b"]
    with pytest.raises(InvalidInputError, match="line 2: expected UTF-8 text"):
        list(read_csv(path, target="note", columns=["x"]))


def test_a_csv_file_that_is_cut_off_is_always_an_error(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"y": np.arange(40_000), "x": rng.normal(size=40_000)})
    packed = gzip.compress(table.to_csv(index=False).encode())
    path = written(tmp_path, packed[: len(packed) // 2])
    stream = read_csv(path, target="y", errors="skip")
    with pytest.raises(InvalidInputError, match="damaged after line"):
        list(stream)
    assert 10_000 < stream.rows < 30_000
    assert stream.skipped == 0


def test_a_quote_without_its_second_one_does_not_eat_the_memory(tmp_path):
    path = written(tmp_path, 'x,y\n1,2\n"3,4\n' + "5,6\n" * 100_000)
    stream = with_chunks(read_csv(path, target="y", memory_budget=1 << 16), 1 << 12)
    with pytest.raises(InvalidInputError, match=r"line 3 is longer.*double quote"):
        list(stream)
    assert stream.rows == 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"target": "z"}, "target='z'.* 'a', 'b', 'b', 'y'"),
        ({"target": "b"}, "target='b'.*more than one"),
        ({"target": 4}, "target=4.* 4 columns"),
        ({"target": 1.5}, r"target=1\.5"),
        ({"target": "y", "columns": ["y"]}, "'y'.*twice"),
        ({"target": "y", "columns": ["a", 0]}, "'a'.*twice"),
        ({"target": "y", "columns": []}, "no column"),
        ({"target": "y", "delimiter": ";"}, "target='y'"),
    ],
)
def test_columns_that_are_not_there(tmp_path, given, message):
    path = written(tmp_path, "a,b,b,y\n1,2,3,4\n")
    with pytest.raises(InvalidInputError, match=message):
        list(read_csv(path, **given))


@pytest.mark.parametrize(
    "given",
    [{"delimiter": ", "}, {"header": "yes"}, {"target_type": "int"}, {"errors": None}],
)
def test_csv_parameters_that_cannot_be_used(tmp_path, given):
    path = written(tmp_path, "a,y\n1,2\n")
    ((name, value),) = given.items()
    with pytest.raises(InvalidInputError) as told:
        read_csv(path, target="y", **given)
    assert str(told.value).startswith(f"read_csv: {name}={value!r} ")


@pytest.mark.parametrize("chosen", [None, [f"c{j}" for j in range(39_999)]])
def test_forty_thousand_columns_are_found_in_a_moment(chosen):
    """Each column was compared with every other: 8 s, where one pass takes 0.04 s."""
    names = tuple(f"c{j}" for j in range(40_000))
    begun = time.process_time()
    found = find_columns("f", names, Wanted("c39999", chosen, None))
    assert time.process_time() - begun < 1.5
    assert found.features == tuple(range(39_999))
    assert found.target == 39_999


@pytest.mark.parametrize("header", [True, False])
def test_a_csv_of_many_columns_is_not_parsed_row_by_row(tmp_path, monkeypatch, header):
    """Arrow's cost is by column and call: 10 rows of 40,000 took 9 s in 10 calls."""
    calls = []

    def counted(*args, **given):
        calls.append(args)
        return parse(*args, **given)

    parse = pyarrow.csv.read_csv
    monkeypatch.setattr(pyarrow.csv, "read_csv", counted)
    X = np.random.default_rng(0).normal(size=(10, 40_000))
    path = tmp_path / "wide.csv"
    pd.DataFrame(X).to_csv(path, index=False, header=header)
    found, y = gathered(read_csv(path, target=-1, header=header))
    assert same_bits(np.column_stack([found, y]), X)
    assert len(calls) == 1
    # Within a budget of three such rows, three calls or a few more.
    calls.clear()
    stream = read_csv(path, target=-1, header=header, memory_budget=3 * 800_000)
    assert same_bits(gathered(stream)[0], X[:, :-1])
    assert 4 <= len(calls) <= 5


def test_files_with_other_columns_are_refused_or_sorted_out(tmp_path):
    one = written(tmp_path, "a,b,y\n1,2,3\n", "one")
    two = written(tmp_path, "b,a,y\n2,1,3\n", "two")
    with pytest.raises(InvalidInputError, match=r"two: its features 'b', 'a' are not"):
        list(read_csv([one, two], target="y"))
    X, _ = gathered(read_csv([one, two], target="y", columns=["a", "b"]))
    assert X.tolist() == [[1.0, 2.0], [1.0, 2.0]]


def test_csv_blocks_keep_to_the_memory_budget(tmp_path):
    head = "y," + ",".join(f"x{i}" for i in range(100)) + "\n"
    path = written(tmp_path, head + ("1" + ",2.5" * 100 + "\n") * 50_000)
    budget = 100 * 8 * 50
    stream = read_csv(path, target="y", memory_budget=budget)
    pool = pa.total_allocated_bytes()
    tracemalloc.start()
    arrow_peak = rows = 0
    for X, _ in stream:
        assert X.nbytes <= budget
        rows += len(X)
        arrow_peak = max(arrow_peak, pa.total_allocated_bytes() - pool)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert rows == 50_000
    # A chunk of 1 MB and the 2 MB made of it, three times; the file has 20 MB.
    assert peak + arrow_peak < 8e6


# Parquet


@pytest.mark.parametrize("block_rows", [1, 77, 500, 8192])
def test_parquet_blocks_are_the_columns_of_the_frame(tmp_path, frame, block_rows):
    path = tmp_path / "table.parquet"
    frame.to_parquet(path, row_group_size=120)
    stream = read_parquet(path, target="kind", sample_weight="w", block_rows=block_rows)
    blocks = list(stream)
    assert {len(y) for _, y, _ in blocks[:-1]} <= {block_rows}
    assert_columns(gathered(blocks), frame, ["a", "b", "c"], "kind", "w")
    assert stream.rows == 500
    stream = read_parquet(path, target=-4, columns=["c", "a"])
    found = gathered(stream)
    assert_columns(found, frame, ["c", "a"], "b")
    assert found[1].dtype == np.int64


def test_parquet_folders_and_lists(tmp_path, frame):
    folder = tmp_path / "parts"
    (folder / "more").mkdir(parents=True)
    frame[:200].to_parquet(folder / "0.parquet")
    frame[200:300].to_parquet(folder / "1.parquet")
    frame[300:].to_parquet(folder / "more" / "0.parquet")
    written(folder, b"not read", "_metadata.parquet")
    for path in (folder, [folder / "0.parquet", folder / "1.parquet", folder / "more"]):
        blocks = list(read_parquet(path, target="kind", block_rows=250))
        assert [len(y) for _, y in blocks] == [250, 250]
        assert_columns(gathered(blocks), frame, ["a", "b", "c", "w"], "kind")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidInputError, match=r"no file \*\.parquet"):
        read_parquet(tmp_path / "empty", target="kind")


def test_parquet_types(tmp_path):
    table = pa.table(
        {
            "small": pa.array([1, 2, 3], pa.int8()),
            "half": pa.array([0.5, 1.5, 2.5], pa.float32()),
            "flag": [True, False, True],
            "money": pa.array([1, 2, 3], pa.int32()).cast(pa.decimal128(12, 2)),
            "word": pa.array(["a", "b", "a"]).dictionary_encode(),
            "day": pa.array([1, 2, 3], pa.date32()),
        }
    )
    path = tmp_path / "table.parquet"
    pq.write_table(table, path)
    numbers = ["small", "half", "flag", "money"]
    ((X, y),) = read_parquet(path, target="word", columns=numbers)
    assert X.tolist() == [[1, 0.5, 1, 1], [2, 1.5, 0, 2], [3, 2.5, 1, 3]]
    assert y.tolist() == ["a", "b", "a"]
    ((X, y),) = read_parquet(path, target="flag", columns=["small"])
    assert y.tolist() == [True, False, True]
    ((X, y),) = read_parquet(path, target=None, columns=["small"])
    assert y is None
    with pytest.raises(InvalidInputError, match=r"'word' is of type dict.*number"):
        list(read_parquet(path, target="flag"))
    with pytest.raises(InvalidInputError, match=r"'day' is of type date32"):
        list(read_parquet(path, target="day", columns=["small"]))


@pytest.mark.parametrize(
    ("column", "value", "got"),
    [
        ("x", None, "null"),
        ("x", np.nan, "nan"),
        ("n", None, "null"),
        ("label", None, "null"),
        ("w", np.inf, "inf"),
    ],
)
def test_a_null_is_told_and_its_row_can_be_skipped(tmp_path, column, value, got):
    columns = {
        "x": [float(i) for i in range(100)],
        "n": list(range(100)),
        "label": ["a", "b"] * 50,
        "w": [1.0] * 100,
    }
    columns[column] = [*columns[column][:70], value, *columns[column][71:]]
    path = tmp_path / "table.parquet"
    pq.write_table(pa.table(columns), path)
    given = {"target": "label", "sample_weight": "w", "block_rows": 40}
    strict = read_parquet(path, **given)
    message = (
        rf"row 71: expected a value in column '{column}', got {got}.* before it: 70"
    )
    with pytest.raises(InvalidInputError, match=message):
        list(strict)
    assert strict.rows == 70
    lenient = read_parquet(path, errors="skip", **given)
    X, y, _ = gathered(lenient)
    kept = [i for i in range(100) if i != 70]
    assert X.tolist() == [[i, i] for i in kept]
    assert y.tolist() == [columns["label"][i] for i in kept]
    assert lenient.skipped == 1


def test_a_parquet_file_that_is_cut_off_is_an_error(tmp_path, frame):
    path = tmp_path / "table.parquet"
    frame.to_parquet(path)
    short = written(tmp_path, path.read_bytes()[:-100])
    stream = read_parquet([path, short], target="kind")
    with pytest.raises(InvalidInputError, match=r"rows: .*Parquet"):
        list(stream)
    assert stream.rows == 500


def test_parquet_memory_is_that_of_a_block_whatever_the_row_group(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "table.parquet"
    table = pa.table({name: rng.normal(size=400_000) for name in "abcdy"})
    pq.write_table(
        table,
        path,
        row_group_size=400_000,
        data_page_size=1 << 16,
        use_dictionary=False,
    )
    del table
    pool = pa.total_allocated_bytes()
    arrow_peak = 0
    for _ in read_parquet(path, target="y", block_rows=2000):
        arrow_peak = max(arrow_peak, pa.total_allocated_bytes() - pool)
    # Pages of 64 kB of five columns, packed and not, and 80 kB; the group has 16 MB.
    assert arrow_peak < 2e6


def test_without_pyarrow_the_error_says_what_to_install(tmp_path, monkeypatch):
    path = written(tmp_path, "a,y\n1,2\n")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for read in (read_csv, read_parquet):
        with pytest.raises(ImportError, match=r'pip install "corevec\[arrow\]"'):
            read(path, target="y")
