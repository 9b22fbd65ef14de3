"""Fuzz the readers of files: ``python tests/fuzz_readers.py --minutes 10``.

Broken files of every kind that corevec reads, made from whole ones and from nothing.
A reader may refuse a file with the library's own error or an `OSError`; anything else
is a failure: another exception, a hang, memory that grows beyond all proportion. The
file that failed is kept and its name printed.
"""

from __future__ import annotations

import argparse
import bz2
import contextlib
import faulthandler
import gzip
import io
import lzma
import resource
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as with_seed
from hypothesis import strategies as st
from sklearn.preprocessing import StandardScaler

import corevec
from corevec import formats
from corevec.cli import CliError, ReadingOptions, read_table
from corevec.exceptions import CorevecError

# What a reader may say: its own error, or that the system cannot open the file.
ALLOWED = (CorevecError, CliError, OSError)
# A file of some kB is read in milliseconds; compiled loops were loaded before.
MOST_SECONDS = 20.0
# Beyond what the process needs to start. The largest table that a good file of the
# strategies below holds has 10**5 values.
MOST_BYTES = 1 << 30
SUFFIXES = {
    "libsvm": ".txt",
    "csv": ".csv",
    "npz": ".npz",
    "npy": ".npy",
    "parquet": ".parquet",
    "model": ".corevec",
    "pipeline": ".corevec",
    "libsvm model": ".model",
}


def whole_files() -> dict[str, list[bytes]]:
    """Return good files of each kind, to be broken."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), rng.integers(0, 2, 40)
    rows = "".join(
        f"{label} " + " ".join(f"{j + 1}:{v!r}" for j, v in enumerate(row)) + "\n"
        for row, label in zip(X.tolist(), y, strict=True)
    )
    table = "a,b,c,label\n" + "".join(
        f"{a!r},{b!r},{c!r},{label}\n"
        for (a, b, c), label in zip(X.tolist(), y, strict=True)
    )
    model = corevec.CoreVectorClassifier(C=10, random_state=0).fit(X, y)
    scaled = formats_of_a_pipeline(X, y)
    return {
        "libsvm": [rows.encode(), b"+1 qid:3 1:1e-3 7:.5 # note\n-1 2:5\n"],
        "csv": [table.encode(), table.replace(",", ";").encode(), b'a,b\n"1",2\n'],
        "npz": [packed(X=X, y=y), packed(data=X[0], rows=X), sparse_parts()],
        "npy": [saved(X), saved(X.astype(np.float32)), saved(np.asfortranarray(X))],
        "parquet": [parquet(X, y)],
        "model": [stored(formats.save, model)],
        "pipeline": [stored(formats.save, scaled)],
        "libsvm model": [stored(formats.save_libsvm, model)],
    }


def formats_of_a_pipeline(X, y):
    from sklearn.pipeline import Pipeline

    steps = [("scale", StandardScaler()), ("model", corevec.SVDD(random_state=0))]
    return Pipeline(steps).fit(X, y)


def packed(**arrays):
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def sparse_parts():
    return packed(
        format=np.array(b"csr"),
        shape=np.array([2, 3]),
        data=np.ones(2),
        indices=np.array([0, 2], dtype=np.int32),
        indptr=np.array([0, 1, 2], dtype=np.int32),
    )


def saved(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def parquet(X, y):
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = io.BytesIO()
    columns = {f"x{j}": X[:, j] for j in range(X.shape[1])}
    pq.write_table(pa.table({**columns, "label": y}), file)
    return file.getvalue()


def stored(save, model):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m"
        save(model, path)
        return path.read_bytes()


@st.composite
def broken_inside(draw, whole):
    """Return a good archive of which one member is broken, checksums and all right."""
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(draw(st.sampled_from(whole)))) as good:
        members = {name: good.read(name) for name in good.namelist()}
    names = sorted(members)
    name = draw(st.sampled_from(names))
    fate = draw(st.sampled_from(["break", "break", "break", "swap", "drop", "rename"]))
    if fate == "break":
        members[name] = draw(broken([members[name]]))
    elif fate == "swap":
        members[name] = members[draw(st.sampled_from(names))]
    else:
        kept = members.pop(name)
        if fate == "rename":
            # zipfile cuts names at a NUL, and cannot write an empty one.
            letters = st.characters(exclude_characters="\0", codec="utf-8")
            members[draw(st.text(letters, min_size=1, max_size=9))] = kept
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


@st.composite
def broken(draw, whole):
    """Return a good file with a few bytes changed, cut, doubled or put in."""
    content = bytearray(draw(st.sampled_from(whole)))
    for _ in range(draw(st.integers(1, 6))):
        place = draw(st.integers(0, max(len(content) - 1, 0)))
        length = draw(st.integers(0, 40))
        how = draw(
            st.sampled_from(["byte", "cut", "drop", "insert", "double", "digit"])
        )
        if how == "byte" and content:
            content[place] = draw(st.integers(0, 255))
        elif how == "cut":
            del content[place:]
        elif how == "drop":
            del content[place : place + length]
        elif how == "insert":
            content[place:place] = draw(st.binary(max_size=40))
        elif how == "double":
            content[place:place] = content[place : place + length]
        else:
            words = [b"99999999999", b"-1", b"nan", b"1e999", b"0x1p9", b"\xff", b'"']
            content[place:place] = draw(st.sampled_from(words))
    return bytes(content)


TEXT_PIECES = [
    *(
        b"1",
        b"-1",
        b"+1",
        b"nan",
        b"inf",
        b"1e400",
        b"0",
        b"2147483648",
        b"1:1",
        b"0:1",
    ),
    *(
        b":",
        b",",
        b";",
        b"\t",
        b" ",
        b"\n",
        b"\r\n",
        b"\r",
        b"#",
        b'"',
        b"qid:1",
        b"\0",
    ),
    *(b"\xef\xbb\xbf", b"svm_type ", b"SV\n", b"rho 1\n", b"x", b"\xff", b"_", b"."),
]


def contents(whole):
    """Return the strategy of files: broken ones, pieces of text, and noise."""
    pieces = st.lists(st.sampled_from(TEXT_PIECES), max_size=60).map(b"".join)
    noise = st.binary(max_size=300)
    if whole[0].startswith(b"PK"):
        inside = broken_inside(whole)
        return st.one_of(inside, inside, inside, broken(whole), noise)
    squeezed = st.sampled_from([gzip.compress, bz2.compress, lzma.compress])
    packed = st.tuples(squeezed, broken(whole)).map(lambda pair: pair[0](pair[1]))
    broken_packed = packed.flatmap(lambda content: broken([content]))
    return st.one_of(broken(whole), broken(whole), packed, broken_packed, pieces, noise)


def read(kind: str, path: Path) -> str:
    """Read a file as the command line does; return what came of it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            if kind == "libsvm model":
                _use(formats.load_libsvm(path))
            elif kind in ("model", "pipeline"):
                _use(formats.load(path))
            else:
                target = None if kind in ("libsvm", "npz") else "-1"
                read_table(str(path), ReadingOptions(format=kind, target=target))
    except ALLOWED as error:
        if not str(error).strip():
            raise AssertionError("an error without words") from error
        return "refused"
    return "read"


def _use(model) -> None:
    """Predict with a model that a reader let pass: it must be sound, not only read."""
    width = getattr(model, "n_features_in_", 3)
    if hasattr(model, "predict") and width < 10**5:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # Not fitted, or a parameter that no fit would take.
            with contextlib.suppress(ValueError):
                model.predict(np.zeros((2, width)))


def peak_bytes() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


class Fuzzer:
    """Runs examples of one kind of file at a time until the time is over."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.whole = whole_files()
        self.counts: Counter[tuple[str, str]] = Counter()
        for kind, files in self.whole.items():  # compiled loops and modules loaded
            for content in files[:1]:
                assert self.one(kind, content) == "read", kind
        self.base = peak_bytes()

    def one(self, kind: str, content: bytes) -> str:
        path = self.folder / f"fuzz{SUFFIXES[kind]}"
        path.write_bytes(content)
        begun = time.perf_counter()
        # A hang ends the process with the place where it hangs; the file is there.
        faulthandler.dump_traceback_later(
            3 * MOST_SECONDS, exit=True, file=sys.__stderr__
        )
        try:
            outcome = read(kind, path)
        finally:
            faulthandler.cancel_dump_traceback_later()
        seconds = time.perf_counter() - begun
        assert seconds < MOST_SECONDS, f"took {seconds:.1f} s"
        return outcome

    def some(self, kind: str, examples: int, seed: int) -> None:
        @with_seed(seed)
        @settings(
            max_examples=examples,
            deadline=None,
            database=None,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        )
        @given(contents(self.whole[kind]))
        def check(content: bytes) -> None:
            self.counts[kind, self.one(kind, content)] += 1
            grown = peak_bytes() - self.base
            assert grown < MOST_BYTES, f"memory grew by {grown >> 20} MiB"

        check()


def fuzz(words: argparse.Namespace, folder: Path) -> int:
    """Fuzz all kinds in turn; return the exit code."""
    kinds = words.kinds.split(",") if words.kinds else list(SUFFIXES)
    fuzzer = Fuzzer(folder)
    end = time.monotonic() + 60 * words.minutes
    turn = 0
    while turn == 0 or time.monotonic() < end:
        for kind in kinds:
            try:
                fuzzer.some(kind, words.examples, words.seed + turn)
            except Exception:
                traceback.print_exc()
                path = folder / f"fuzz{SUFFIXES[kind]}"
                kept = Path(f"fuzz-failure{SUFFIXES[kind]}")
                kept.write_bytes(path.read_bytes())
                print(f"FAILED on a {kind} file, kept as {kept}", file=sys.stderr)
                return 1
        turn += 1
    for kind in kinds:
        counted = {o: fuzzer.counts[kind, o] for o in ("read", "refused")}
        print(f"{kind:<13} {counted['refused']:>9,} refused {counted['read']:>9,} read")
    print(f"memory grew by {(peak_bytes() - fuzzer.base) >> 20} MiB; no failure")
    return 0


def main() -> int:
    """Read the words of the command line and fuzz."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--examples", type=int, default=300, help="of a kind per turn")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", default="", help=f"with commas: {list(SUFFIXES)}")
    words = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="corevec-fuzz-") as folder:
        return fuzz(words, Path(folder))


if __name__ == "__main__":
    sys.exit(main())
