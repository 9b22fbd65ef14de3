"""Data files with one mistake each: what the command line's reader says of it."""

import argparse
import bz2
import gzip
import io
import lzma
import os
import zipfile

import fuzz_readers
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse

from corevec.cli import CliError, ExitCode, ReadingOptions, read_table

ROWS = b"1 1:0.5 3:2\n-1 2:1 3:0.25\n"
TABLE = b"a,b,label\n1,2,x\n3,4,y\n"


def npy(array, **how):
    file = io.BytesIO()
    np.save(file, array, **how)
    return file.getvalue()


def npz(**arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def csr(**changed):
    parts = {
        "format": np.array(b"csr"),
        "shape": np.array([2, 3]),
        "data": np.ones(2),
        "indices": np.array([0, 2], dtype=np.int32),
        "indptr": np.array([0, 1, 2], dtype=np.int32),
        "y": np.array([1, -1]),
    }
    return npz(**{**parts, **changed})


def parquet(**columns):
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


def header_that_lies():
    """An array of 10**12 numbers, says the header; there are two."""
    whole = npy(np.zeros((2, 2)))
    return whole.replace(b"(2, 2), }" + b" " * 12, b"(1000000, 1000000), }")


def npz_that_lies():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("X.npy", header_that_lies())
    return file.getvalue()


def damaged_zip():
    whole = bytearray(npz(X=np.arange(400.0).reshape(100, 4), y=np.arange(100)))
    whole[500] ^= 0xFF
    return bytes(whole)


OBJECTS = np.array([[1, "a"], [2, "b"]], dtype=object)

# name: (file name, content, options, what the message must say)
CORPUS = {
    # LIBSVM text
    "indices that fall": (
        "f.txt",
        ROWS + b"1 3:1 2:1\n",
        {},
        r"f\.txt, line 3: index 2 comes after 3; expected ascending indices, each once",
    ),
    "index twice": ("f.txt", b"1 2:1 2:1\n", {}, r"line 1: index 2 comes after 2"),
    "index 0": (
        "f.txt",
        ROWS + b"1 0:1 2:1\n",
        {},
        r"line 3: index 0, but the first index of the format is 1; .* --zero-based",
    ),
    "index below 0": ("f.txt", b"1 -4:1\n", {}, r"index -4 is below the first, 1"),
    "index beyond all": (
        "f.txt",
        b"1 99999999999:1\n",
        {},
        r"index 99999999999 is beyond the 2147483647 columns expected",
    ),
    "index beyond the columns asked for": (
        "f.txt",
        ROWS,
        {"n_features": 2},
        r"line 1: index 3 is beyond the 2 columns expected \(see --n-features\)",
    ),
    "index that is no number": (
        "f.txt",
        b"1 one:1\n",
        {},
        r"expected '<index>:<value>', got 'one:1'",
    ),
    "no colon": ("f.txt", b"1 1:2 3\n", {}, r"expected '<index>:<value>', got '3'"),
    "no value": (
        "f.txt",
        b"1 1:\n",
        {},
        r"expected a finite number after '1:', got ''",
    ),
    "value that is no number": (
        "f.txt",
        b"1 1:two\n",
        {},
        r"line 1: expected a finite number after '1:', got 'two'",
    ),
    "value nan": ("f.txt", b"1 1:nan\n", {}, r"number after '1:', got 'nan'"),
    "value infinite": ("f.txt", b"1 1:inf\n", {}, r"number after '1:', got 'inf'"),
    "value too large": ("f.txt", b"1 1:1e999\n", {}, r"'1e999', is out of range"),
    "label nan": (
        "f.txt",
        ROWS + b"nan 1:1\n",
        {},
        r"line 3: expected a finite number as the label, got 'nan'",
    ),
    "label that is a word": (
        "f.txt",
        b"yes 1:1\n",
        {},
        r"expected a finite number as the label, got 'yes'",
    ),
    "no label": ("f.txt", b"1:1 2:1\n", {}, r"as the label, got '1:1'"),
    "several labels": (
        "f.txt",
        b"1,2 1:1\n",
        {"format": "libsvm"},
        r"label, got '1,2'",
    ),
    "comma for the point": ("f.txt", b"1 1:0,5\n", {"format": "libsvm"}, r"got '0,5'"),
    "empty file": ("f.txt", b"", {}, r"f\.txt: there is no row in this file"),
    "only notes": ("f.txt", b"# a\n\n# b\n", {}, r"there is no row in this file"),
    "only bad rows": (
        "f.txt",
        b"a\nb\n",
        {"skip_bad_rows": True},
        r"there is no row in this file \(2 bad ones\)",
    ),
    "bytes of a picture": (
        "f.txt",
        b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\xff",
        {},
        r"line 1: expected a finite number as the label, got '\\+x89PNG'",
    ),
    "zero bytes": ("f.txt", b"\0" * 64, {}, r"line 1: expected a finite number as the"),
    "UTF-16": (
        "f.txt",
        "1 1:1\n".encode("utf-16"),
        {"format": "libsvm"},
        r"line 1: expected a finite number",
    ),
    "gzip cut off": (
        "f.txt.gz",
        gzip.compress(ROWS * 500)[:-12],
        {},
        r"f\.txt\.gz: the file is cut off or damaged after line \d+ \(EOFError",
    ),
    "gzip damaged": (
        "f.gz",
        gzip.compress(ROWS * 500)[:30] + b"\xff" * 40,
        {"format": "libsvm"},
        r"the file is cut off or damaged after line \d+",
    ),
    "bzip2 cut off": (
        "f.bz2",
        bz2.compress(ROWS * 500)[:-8],
        {"format": "libsvm"},
        r"the file is cut off or damaged after line \d+",
    ),
    "xz cut off": (
        "f.xz",
        lzma.compress(ROWS * 500)[:-20],
        {"format": "libsvm"},
        r"the file is cut off or damaged after line \d+",
    ),
    # CSV
    "field missing": (
        "f.csv",
        TABLE + b"5,z\n",
        {"target": "label"},
        r"f\.csv, line 4: expected 3 fields, got 2, in '5,z'",
    ),
    "field too many": (
        "f.csv",
        TABLE + b"5,6,z,7\n",
        {"target": "label"},
        r"line 4: expected 3 fields, got 4",
    ),
    "quote without its second one": (
        "f.csv",
        TABLE + b'5,"6,z\n7,8,x\n',
        {"target": "label"},
        r"line 4: expected 3 fields, got 2, in",
    ),
    "word among numbers": (
        "f.csv",
        TABLE + b"5,six,x\n",
        {"target": "label"},
        r"line 4: expected a finite number in column 'b', got 'six'",
    ),
    "empty field": (
        "f.csv",
        TABLE + b"5,,x\n",
        {"target": "label"},
        r"line 4: expected a finite number in column 'b', got ''",
    ),
    "nan in CSV": ("f.csv", TABLE + b"nan,1,x\n", {"target": "label"}, r"got 'nan'"),
    "no label in CSV": (
        "f.csv",
        TABLE + b"5,6,\n",
        {"target": "label"},
        r"line 4: expected a label in the target column 'label'",
    ),
    "word among the labels": (
        "f.csv",
        b"a,label\n1,1\n2,two\n",
        {"target": "label"},
        r"line 3: .* in the target column 'label', got 'two', as in the first row \(or "
        r"give --target-type 'string'\)",
    ),
    "no such target": (
        "f.csv",
        TABLE,
        {"target": "klass"},
        r"--target 'klass' names no column among 'a', 'b', 'label'",
    ),
    "target beyond the columns": (
        "f.csv",
        TABLE,
        {"target": "7"},
        r"--target 7 is beyond the 3 columns",
    ),
    "column name twice": (
        "f.csv",
        b"a,label,label\n1,2,3\n",
        {"target": "label"},
        r"--target 'label' names more than one column among 'a', 'label', 'label'",
    ),
    "no such weight column": (
        "f.csv",
        TABLE,
        {"target": "label", "weight_column": "w"},
        r"--weight-column 'w' names no column",
    ),
    "only a header": ("f.csv", b"a,b,label\n", {"target": "label"}, r"there is no row"),
    "one column only": (
        "f.csv",
        b"label\n1\n2\n",
        {"target": "label"},
        r"no column is left for X among 'label'",
    ),
    "wrong delimiter": (
        "f.csv",
        TABLE,
        {"target": "label", "delimiter": ";"},
        r"--target 'label' names no column among 'a,b,label'",
    ),
    "label not UTF-8": (
        "f.csv",
        TABLE + b"5,6,\xff\xfe\n",
        {"target": "label"},
        r"line 4: expected UTF-8 text in the target column 'label'",
    ),
    # NumPy's files
    "object array": (
        "f.npy",
        npy(OBJECTS, allow_pickle=True),
        {},
        r"f\.npy: holds an object array, which could run code",
    ),
    "object array in npz": (
        "f.npz",
        npz(X=np.ones((2, 2)), y=np.array([1, "a"], dtype=object)),
        {},
        r"f\.npz: holds an object array",
    ),
    "npy cut off": (
        "f.npy",
        npy(np.ones((50, 4)))[:-100],
        {},
        r"f\.npy: is cut off or no NumPy file",
    ),
    "npy without content": ("f.npy", b"\x93NUMPY", {}, r"is cut off or no NumPy file"),
    "header that promises too much": (
        "f.npy",
        header_that_lies(),
        {},
        r"is cut off or no NumPy file \(mmap length is greater than file size",
    ),
    "npz that promises too much": (
        "f.npz",
        npz_that_lies(),
        {},
        r"X\.npy claims 8,000,000,000,000 bytes and has \d+",
    ),
    "npz cut off": (
        "f.npz",
        npz(X=np.ones((50, 4)))[:-60],
        {},
        r"is cut off or no NumPy file \(File is not a zip file",
    ),
    "npz with a wrong byte": (
        "f.npz",
        damaged_zip(),
        {},
        r"is cut off or no NumPy file \(Bad CRC-32 for file 'X\.npy'",
    ),
    "array of one dimension": (
        "f.npy",
        npy(np.ones(4)),
        {},
        r"the array has shape \(4,\); expected \(rows, columns\)",
    ),
    "array of three dimensions": (
        "f.npz",
        npz(X=np.ones((2, 2, 2))),
        {},
        r"X has shape",
    ),
    "array without rows": (
        "f.npz",
        npz(X=np.ones((0, 2))),
        {},
        r"X has shape \(0, 2\)",
    ),
    "array of words": (
        "f.npz",
        npz(X=np.array([["a"]])),
        {},
        r"X has dtype <U1, which",
    ),
    "complex numbers": ("f.npy", npy(np.ones((2, 2)) * 1j), {}, r"dtype complex128"),
    "nan in an array": (
        "f.npy",
        npy(np.array([[1.0, 2.0], [3.0, np.nan]])),
        {},
        r"the array, row 2, column 2: nan is not a finite number",
    ),
    "labels of another length": (
        "f.npz",
        npz(X=np.ones((3, 2)), y=np.ones(2)),
        {},
        r"y has shape \(2,\), X 3 rows; expected \(3,\)",
    ),
    "labels with nan": (
        "f.npz",
        npz(X=np.ones((2, 2)), y=np.array([1.0, np.nan])),
        {},
        r"y, row 2: nan is not finite",
    ),
    "labels of dates": (
        "f.npz",
        npz(X=np.ones((1, 2)), y=np.array(["2020-01-01"], dtype="M8[D]")),
        {},
        r"y has dtype datetime64\[D\]; expected numbers or text",
    ),
    "no X": (
        "f.npz",
        npz(rows=np.ones((2, 2))),
        {},
        r"expected an array named X .*rows",
    ),
    "column of npy by name": (
        "f.npy",
        npy(np.ones((2, 2))),
        {"target": "label"},
        r"--target 'label' must be the number of a column, from 0 to 1",
    ),
    "CSR index beyond the columns": (
        "f.npz",
        csr(indices=np.array([0, 9], dtype=np.int32)),
        {},
        r"f\.npz: not a CSR matrix of rows: .*",
    ),
    "CSR row pointers that fall": (
        "f.npz",
        csr(indptr=np.array([0, 2, 1], dtype=np.int32)),
        {},
        r"not a CSR matrix of rows",
    ),
    "CSR shape of one number": (
        "f.npz",
        csr(shape=np.array([2])),
        {},
        r"shape must be two whole numbers",
    ),
    "CSC": ("f.npz", csr(format=np.array(b"csc")), {}, r"format 'csc', expected 'csr'"),
    "CSR with nan": (
        "f.npz",
        csr(data=np.array([1.0, np.nan])),
        {},
        r"row 2: nan is not a finite number",
    ),
    # Parquet
    "Parquet cut off": (
        "f.parquet",
        parquet(a=[1.0, 2.0], label=[0, 1])[:-20],
        {"target": "label"},
        r"f\.parquet: cannot be read as Parquet; is it whole\?",
    ),
    "Parquet in name only": (
        "f.parquet",
        b"PAR1" + bytes(100),
        {"target": "label"},
        r"cannot be read as Parquet",
    ),
    "null in Parquet": (
        "f.parquet",
        parquet(a=[1.0, None], label=[0, 1]),
        {"target": "label"},
        r"f\.parquet, row 2: ",
    ),
    "words in Parquet": (
        "f.parquet",
        parquet(a=["x", "y"], label=[0, 1]),
        {"target": "label"},
        r"column 'a' is ",
    ),
    "no such column in Parquet": (
        "f.parquet",
        parquet(a=[1.0], label=[0]),
        {"target": "y"},
        r"--target 'y' names no column among 'a', 'label'",
    ),
}


def test_the_corpus_is_large_and_its_files_are_distinct():
    assert len(CORPUS) >= 40
    wrong = [(content, sorted(how.items())) for _, content, how, _ in CORPUS.values()]
    assert all(one not in wrong[i + 1 :] for i, one in enumerate(wrong))


@pytest.mark.parametrize("mistake", list(CORPUS))
def test_each_mistake_has_its_message(mistake, tmp_path, monkeypatch):
    name, content, options, says = CORPUS[mistake]
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(CliError, match=says) as caught:
        read_table(name, ReadingOptions(**options))
    assert caught.value.code is ExitCode.BAD_DATA
    # One line, in the words of the command line.
    text = str(caught.value)
    assert text.count(name) >= 1 or "column" in text
    for argument in ("errors=", "n_features=", "zero_based=", "target=", "read_"):
        assert argument not in text


def test_missing_files_and_folders(tmp_path):
    with pytest.raises(CliError, match=r"file .*nowhere") as caught:
        read_table(str(tmp_path / "nowhere"), ReadingOptions())
    assert caught.value.code is ExitCode.BAD_DATA
    with pytest.raises(CliError, match="is a folder"):
        read_table(str(tmp_path), ReadingOptions())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_that_may_not_be_read(tmp_path):
    path = tmp_path / "f.txt"
    path.write_bytes(ROWS)
    path.chmod(0)
    with pytest.raises(CliError, match="Permission denied"):
        read_table(str(path), ReadingOptions())


def test_the_good_twins_of_the_corpus_are_read(tmp_path):
    """What the files above are mistaken copies of is read without complaint."""
    good = {
        "f.txt": (ROWS, {}),
        "f.txt.gz": (gzip.compress(ROWS), {}),
        "f.csv": (TABLE, {"target": "label"}),
        "f.npy": (npy(np.ones((2, 3))), {"target": "0"}),
        "f.npz": (npz(X=np.ones((2, 3)), y=np.array([1, -1])), {}),
        "g.npz": (csr(), {}),
        "f.parquet": (parquet(a=[1.0, 2.0], label=[0, 1]), {"target": "label"}),
    }
    for name, (content, options) in good.items():
        (tmp_path / name).write_bytes(content)
        table = read_table(str(tmp_path / name), ReadingOptions(**options))
        assert table.X.shape[0] == len(table.y) == 2, name


def test_what_scipy_saves_is_read(tmp_path):
    X = sparse.random(20, 6, density=0.3, format="csr", random_state=0)
    sparse.save_npz(tmp_path / "f.npz", X)
    found = read_table(str(tmp_path / "f.npz"), ReadingOptions()).X
    assert (found != X).nnz == 0


@pytest.mark.slow
def test_the_fuzzer_runs(tmp_path, monkeypatch, capsys):
    """A short turn of what `make fuzz` does for minutes."""
    monkeypatch.chdir(tmp_path)
    words = argparse.Namespace(minutes=0, examples=25, seed=1, kinds="")
    assert fuzz_readers.fuzz(words, tmp_path) == 0
    assert "no failure" in capsys.readouterr().out


def test_the_fuzzer_notices_a_crash(tmp_path, monkeypatch, capsys):
    def crash(path, options):
        raise ZeroDivisionError

    fuzzer = fuzz_readers.Fuzzer(tmp_path)
    monkeypatch.setattr(fuzz_readers, "Fuzzer", lambda folder: fuzzer)
    monkeypatch.setattr(fuzz_readers, "read_table", crash)
    monkeypatch.chdir(tmp_path)
    words = argparse.Namespace(minutes=0, examples=5, seed=0, kinds="npy")
    assert fuzz_readers.fuzz(words, tmp_path) == 1
    assert "FAILED on a npy file" in capsys.readouterr().err
    assert (tmp_path / "fuzz-failure.npy").exists()
