"""The format of a file, and frames of other libraries as files."""

import gzip
import io

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import corevec
from corevec import InvalidInputError
from corevec.data.readers import existing_files, format_by_name, format_of
from corevec.streams import read_csv, read_parquet

LIBSVM = b"# rows\n\n-1 1:0.5 3:2\n+1 2:1e-3\n1\n"


def written(folder, name, content):
    path = folder / name
    path.write_bytes(content)
    return path


def npz():
    packed = io.BytesIO()
    np.savez(packed, X=np.ones((2, 2)))
    return packed.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("d.txt", LIBSVM, "libsvm"),
        ("d", LIBSVM, "libsvm"),
        ("a9a.t", b"+1 3:1 11:1 \n", "libsvm"),
        ("d.dat", b"2.5e0 qid:1 1:0.5\n", "libsvm"),
        ("d.gz", gzip.compress(LIBSVM, mtime=0), "libsvm"),
        ("d.libsvm", b"anything", "libsvm"),
        ("d.txt", b"a,b\n1,2\n", "csv"),
        ("d.txt", b"a\tb\n1\t2\n", "csv"),
        ("d.tsv", b"anything", "csv"),
        ("d.txt", npz(), "npz"),
        ("d.txt", b"PAR1....", "parquet"),
        ("d.txt", b"Dear reader\n", None),
        ("d.txt", b"", None),
        ("d.bin", b"\x00\x01\x02\n", None),
    ],
)
def test_the_format_is_told_by_content_then_name_then_first_line(
    tmp_path, name, content, expected
):
    assert format_of(written(tmp_path, name, content)) == expected
    assert format_of(tmp_path) == "parquet"
    assert format_by_name(tmp_path / "d.CSV.gz") == "csv"


@pytest.mark.parametrize("name", ["d.txt", "d", "a9a.t"])
def test_open_takes_libsvm_text_of_any_name(tmp_path, name):
    rows = corevec.open(written(tmp_path, name, LIBSVM))
    assert (rows.n_rows, rows.n_features) == (3, 3)


@pytest.mark.parametrize(
    ("content", "shown"),
    [(b"a,b\n1,2\n", "CSV"), (npz(), ".npz"), (b"Dear reader\n", "'Dear reader'")],
)
def test_open_refuses_other_files_with_what_it_saw(tmp_path, content, shown):
    path = written(tmp_path, "d.txt", content)
    with pytest.raises(InvalidInputError) as caught:
        corevec.open(path)
    assert str(path) in str(caught.value)
    assert shown in str(caught.value)


def test_text_of_polars_is_a_label_and_is_named_where_it_is_a_feature(tmp_path):
    """polars writes text as Arrow's string_view, categories as dictionaries of it."""
    words = pa.array(["up", "down", "up"], pa.string_view())
    table = pa.table({"a": [1.0, 2.0, 3.0], "town": words, "kind": words})
    path = tmp_path / "f.parquet"
    pq.write_table(table, path)
    stream = read_parquet(path, target="kind", columns=["a"])
    ((X, y),) = list(stream)
    assert X.tolist() == [[1.0], [2.0], [3.0]]
    assert y.tolist() == ["up", "down", "up"]
    with pytest.raises(InvalidInputError) as caught:
        list(read_parquet(path, target="kind"))
    assert "column 'town'" in str(caught.value)


@pytest.mark.parametrize("reader", [read_csv, read_parquet])
def test_a_frame_is_no_path(reader):
    with pytest.raises(InvalidInputError) as caught:
        reader(pd.DataFrame({"a": [1.0]}), target=None)
    assert "DataFrame" in str(caught.value)
    with pytest.raises(InvalidInputError):
        existing_files("read_csv", 3)
