"""Fuzz model containers: ``python tests/fuzz_containers.py --minutes 10``.

Files that `corevec.formats.save` wrote, with one field of the header or one array
changed, are loaded, asked for predictions and, some of them, fitted again, in a child
process: a signal cannot be caught, and counts as a failure. `load` may refuse a file
with the library's own error. What it accepts must predict and fit, or refuse the rows
with the library's own error; an AttributeError or a TypeError from inside is a failure,
and so is a parameter that `fit` refuses and `load` has not. The unchanged files of
older versions are used as well: what fails there as it does in a changed one is due to
the scikit-learn that is installed, which is not the one that wrote them.
The files that failed are kept in ``fuzz-failures/``.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

import formats_models
import mutants
import numpy as np
from sklearn.exceptions import NotFittedError

from corevec.exceptions import CorevecError, InvalidInputError
from corevec.formats import load, save

# What a model from a changed file may say to the rows that it was fitted on.
ALLOWED = (CorevecError, NotFittedError)
# Of these rows a good model predicts in milliseconds and fits within seconds. What
# takes longer (processor time) was asked for by a changed parameter (tol=1e-300), and
# is given up.
SECONDS = 10
# Files of older versions of the container, each with some rows in a JSON file.
OLDER = Path(__file__).parent / "files"
# Share of the accepted files that are fitted again.
REFITTED = 0.3


class TooLongError(BaseException):
    """Raised by the alarm; no `except Exception` of the library may catch it."""


class AcceptedParameterError(Exception):
    """`load` accepted a parameter that `fit` refuses."""


def use(model, X, y, *, refit, is_older=False):
    """Ask a model for everything it offers.

    An older version allowed other parameters: `fit` may refuse those of its files.
    """
    for ask in formats_models.QUESTIONS:
        try:
            method = getattr(model, ask, None)
            if method is not None:
                method(X)
        except ALLOWED:
            pass
        except ValueError as error:
            if place_of(error).name != "validation.py":
                raise  # else scikit-learn's word on rows: a scaler made them NaN
    if refit:
        try:
            _ = model.fit(X) if y is None else model.fit(X, y)
        except InvalidInputError as error:
            if error.parameter not in (None, "device") and not is_older:
                raise AcceptedParameterError(str(error)) from error
        except (*ALLOWED, ValueError):
            pass  # the rows and labels here need not go with the parameters


def place_of(error):
    """Return the file that an error comes from."""
    return Path(traceback.extract_tb(error.__traceback__)[-1].filename)


def rows_of(name):
    """Return rows and labels for the models of a name."""
    if not name.startswith("container_"):
        return formats_models.fitted_case(name)[1:]
    wanted = json.loads((OLDER / f"{name}.json").read_text())
    return np.array(wanted["rows"]), np.array(wanted["answers"]["predict"])


def good_file(name, path):
    """Write the model of a name, or copy the file of an older version."""
    if name.startswith("container_"):
        path.write_bytes((OLDER / f"{name}.npz").read_bytes())
    else:
        save(formats_models.fitted_case(name)[0], path)


def child(folder: Path) -> None:
    """Use the files of a folder; print what became of each."""

    def alarm(*_):
        raise TooLongError

    signal.signal(signal.SIGPROF, alarm)
    rng = np.random.default_rng(0)
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    for name in sorted(path.name for path in folder.iterdir() if path.is_dir()):
        X, y = rows_of(name)
        for path in sorted((folder / name).glob("*.model")):
            print(f"{name}/{path.name}", end="\t", flush=True)
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            try:
                loaded = load(path)
                refit = path.stem == "good" or rng.random() < REFITTED
                use(loaded, X, y, refit=refit, is_older=name.startswith("container_"))
                print("used")
            except CorevecError as error:
                print("refused" if str(error).strip() else "FAILED: no words")
            except TooLongError:
                print("too long")
            except Exception as error:
                where = place_of(error).name
                text = " ".join(str(error).split())[:90]
                print(f"FAILED {type(error).__name__} at {where}: {text}")
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)


def batch(folder: Path, names, each: int, rng) -> dict[str, str]:
    """Write changed files of each model, use them in a child; return what it said."""
    for name in names:
        (folder / name).mkdir()
        good_file(name, folder / name / "good.npz")
        header, arrays = mutants.entries_of(folder / name / "good.npz")
        if name.startswith("container_"):
            mutants.write(folder / name / "good.model", header, arrays)
        for number in range(each):
            path = folder / name / f"{number}.model"
            mutants.write(path, *mutants.changed_at_random(header, arrays, rng))
    command = [sys.executable, __file__, "--child", str(folder)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    lines = [line.partition("\t") for line in done.stdout.splitlines()]
    said = {name: what for name, _, what in lines}
    if done.returncode:
        last = next(reversed(said), "?")
        said[last] = f"FAILED the process ended with {done.returncode}"
    return without_versions(said)


def without_versions(said: dict[str, str]) -> dict[str, str]:
    """Rename the failures that the unchanged file of an older version has as well."""
    found = {}
    for path, what in said.items():
        unchanged = said.get(path.partition("/")[0] + "/good.model", "")
        is_known = what.startswith("FAILED") and what == unchanged
        found[path] = what.replace("FAILED", "unchanged:") if is_known else what
    return found


def keep(said: dict[str, str], folder: Path) -> list[str]:
    """Copy the files that failed; return their lines."""
    lines = [f"{name}: {what}" for name, what in said.items() if "FAILED" in what]
    for line in lines:
        source = folder / line.partition(": ")[0]
        target = Path("fuzz-failures") / "-".join(source.parts[-2:])
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(source.read_bytes())
    return lines


def main() -> int:
    """Read the words of the command line and fuzz."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--each", type=int, default=50, help="files of a model a turn")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--models", default="", help="names with commas; all of them")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    words = parser.parse_args()
    if words.child:
        child(words.child)
        return 0
    names = words.models.split(",") if words.models else [*formats_models.FUZZED]
    if not words.models:
        names += sorted(path.stem for path in OLDER.glob("container_*.npz"))
    rng = np.random.default_rng(words.seed)
    end = time.monotonic() + 60 * words.minutes
    counts: Counter[str] = Counter()
    failures: list[str] = []
    while not counts or time.monotonic() < end:
        with tempfile.TemporaryDirectory(prefix="corevec-fuzz-") as folder:
            said = batch(Path(folder), names, words.each, rng)
            counts.update(what.partition(" ")[0] for what in said.values())
            failures += keep(said, Path(folder))
    print(*(f"{what}: {count:,}" for what, count in counts.most_common()), sep="\n")
    print(*failures, sep="\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
