"""Model files with one field changed, and a process that uses what is read from them.

A file must never crash the interpreter, and a signal cannot be caught: files are opened
by a child, ``python mutants.py folder``, which says which file it has come to. Each
folder below that one holds files of one model, and the rows to use it on.
"""

import contextlib
import io
import json
import signal
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path

import numpy as np

# Numbers that are far beyond, just beyond and just within what a field may hold.
NUMBERS = (-(2**63), -(2**31), -1, 0, 1, 2, 5, 625, 2**30, 2**31, 2**63 - 1, 2**64)
OTHERS = (None, True, 0.5, 1e300, {"float": "nan"}, "rbf", "precomputed", [], {})


def entries_of(path):
    """Return the header and the arrays of a model file."""
    with zipfile.ZipFile(path) as archive:
        found = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(found.pop("header.json"))
    arrays = [np.load(io.BytesIO(found[f"array_{n}.npy"])) for n in range(len(found))]
    return header, arrays


def write(path, header, arrays):
    """Write a model file."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", json.dumps(header))
        for number, array in enumerate(arrays):
            with archive.open(f"array_{number}.npy", "w") as entry:
                np.lib.format.write_array(entry, array)


def places(node):
    """Yield every (container, key) of nested nodes."""
    items = enumerate(node) if isinstance(node, list) else node.items()
    for key, inner in list(items):
        yield node, key
        if isinstance(inner, list | dict):
            yield from places(inner)


def changed_at_random(header, arrays, rng):
    """Return a copy with one node or one array changed."""
    header, arrays = json.loads(json.dumps(header)), list(arrays)
    if arrays and rng.random() < 0.5:
        number = int(rng.integers(len(arrays)))
        arrays[number] = _other_array(arrays[number], rng)
        return header, arrays
    found = list(places(header["model"]))
    holder, key = found[int(rng.integers(len(found)))]
    if isinstance(key, str) and rng.random() < 0.1:
        del holder[key]
    elif type(holder[key]) is int or rng.random() < 0.5:
        holder[key] = NUMBERS[int(rng.integers(len(NUMBERS)))]
    else:
        holder[key] = OTHERS[int(rng.integers(len(OTHERS)))]
    return header, arrays


def _other_array(array, rng):
    kind = int(rng.integers(6))
    if kind == 0:
        return array[:-1] if array.ndim else array.reshape(1)
    if kind == 1:
        return np.arange(array.size, dtype="f4").reshape(array.shape)
    if kind == 2:
        return np.concatenate([np.atleast_1d(array)] * 2)
    if array.size == 0 or array.dtype.kind not in "biuf":
        return np.zeros((2, 2))
    array = array.copy()
    at = int(rng.integers(array.size))
    if array.dtype.kind == "f":
        with np.errstate(over="ignore"):  # -1e308 is an infinity in 32 bits
            array.flat[at] = (np.nan, np.inf, -1e308, 0.0)[int(rng.integers(4))]
    else:
        ends = np.iinfo(array.dtype) if array.dtype.kind in "iu" else None
        low, high = (0, 1) if ends is None else (ends.min, ends.max)
        array.flat[at] = (low, high, high // 2, min(1000, high))[int(rng.integers(4))]
    return array


def run(folder):
    """Use every file below a folder in one child; return what became of each."""
    command = [sys.executable, __file__, str(folder)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False
    )
    words = [line.split("\t") for line in done.stdout.splitlines()]
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        raise AssertionError(f"{words[-1][0]} ended the interpreter with {name}")
    assert done.returncode == 0, done.stderr
    return {name: told for name, *told in words if told}


def _use(model, X, y):
    """Ask a model for everything; ordinary errors are allowed, signals are not."""
    with contextlib.suppress(Exception):
        model.predict(X)
    for ask in ("decision_function", "score_samples", "distance", "transform"):
        with contextlib.suppress(Exception):
            getattr(model, ask)(X)
    with contextlib.suppress(Exception):
        model.partial_fit(X, y)
    with contextlib.suppress(Exception):
        model.fit(X, y)


def _main(folder):
    from corevec.exceptions import InvalidInputError
    from corevec.formats import load

    warnings.simplefilter("ignore")
    for path in sorted(folder.glob("*/*.model")):
        with np.load(path.parent / "rows.npz") as rows:
            X, y = rows["X"], rows["y"]
        name = f"{path.parent.name}/{path.name}"
        print(name, flush=True)
        try:
            model = load(path)
        except InvalidInputError as error:
            print(name, "refused", str(error).splitlines()[0], sep="\t")
            continue
        except Exception as error:
            print(name, "failed", repr(error), sep="\t")
            continue
        _use(model, X, y)
        print(name, "read", "", sep="\t")


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
