"""The option letters of LIBSVM: ``corevec svm-train -c 10 -g 0.5 data model``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from corevec.cli.errors import usage_error

KERNELS_BY_LETTER = ("linear", "poly", "rbf", "sigmoid", "precomputed")
TRAIN_FILES = "training_set_file [model_file]"
PREDICT_FILES = "test_file model_file output_file"
SCALE_FILES = "data_file"


@dataclass
class TrainLetters:
    """The options of svm-train, with the defaults of LIBSVM."""

    s: int = 0
    t: int = 2
    d: int = 3
    g: float | None = None
    r: float = 0.0
    c: float = 1.0
    n: float = 0.5
    p: float = 0.1
    m: float = 256.0
    e: float = 1e-3
    h: int = 1
    b: int = 0
    v: int = 0
    q: bool = False
    weights: dict[float, float] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)

    @property
    def is_classifier(self) -> bool:
        """Whether labels are classes."""
        return self.s in (0, 1)

    @property
    def data(self) -> str:
        """The training set."""
        return self.files[0]

    @property
    def model(self) -> Path:
        """The model file; by default the name of the data with .model appended."""
        if len(self.files) > 1:
            return Path(self.files[1])
        return Path(f"{Path(self.data).name}.model")


@dataclass
class PredictLetters:
    """The options of svm-predict."""

    b: int = 0
    q: bool = False
    files: list[str] = field(default_factory=list)


@dataclass
class ScaleLetters:
    """The options of svm-scale, with the defaults of LIBSVM."""

    l: float = -1.0  # noqa: E741 - the letter of LIBSVM
    u: float = 1.0
    y: tuple[float, float] | None = None
    s: Path | None = None
    r: Path | None = None
    files: list[str] = field(default_factory=list)


# Each letter with the types of the values behind it.
_Takes = dict[str, tuple[Callable[[str], Any], ...]]
_TRAIN: _Takes = {
    **dict.fromkeys("stdhbv", (int,)),
    **dict.fromkeys("grcnpme", (float,)),
    "q": (),
}
_PREDICT: _Takes = {"b": (int,), "q": ()}
_SCALE: _Takes = {
    **dict.fromkeys("lu", (float,)),
    "y": (float, float),
    **dict.fromkeys("sr", (Path,)),
}


def train_letters(arguments: list[str]) -> TrainLetters:
    """Return the parsed arguments of svm-train."""
    words, weights = _without_weights(arguments)
    found = TrainLetters(**_parsed(words, _TRAIN), weights=weights)
    _check_files(found.files, TRAIN_FILES, (1, 2))
    _check_choice("-s", found.s, (0, 1, 2, 3, 4))
    _check_choice("-t", found.t, (0, 1, 2, 3, 4))
    _check_choice("-h", found.h, (0, 1))
    _check_choice("-b", found.b, (0,) if found.s == 2 else (0, 1))
    if found.v and found.v < 2:
        raise usage_error(f"-v {found.v} must be at least 2 folds.")
    return found


def predict_letters(arguments: list[str]) -> PredictLetters:
    """Return the parsed arguments of svm-predict."""
    found = PredictLetters(**_parsed(arguments, _PREDICT))
    _check_choice("-b", found.b, (0, 1))
    _check_files(found.files, PREDICT_FILES, (3,))
    return found


def scale_letters(arguments: list[str]) -> ScaleLetters:
    """Return the parsed arguments of svm-scale."""
    found = ScaleLetters(**_parsed(arguments, _SCALE))
    _check_files(found.files, SCALE_FILES, (1,))
    if found.u <= found.l or (found.y is not None and found.y[1] <= found.y[0]):
        raise usage_error("-l and -u, and the two of -y: the first must be the lower.")
    if found.s is not None and found.r is not None:
        raise usage_error("-s and -r exclude each other: -r computes nothing to save.")
    return found


def _parsed(arguments: list[str], takes: _Takes) -> dict[str, Any]:
    """Return the values of the letters and, as ``files``, the words between them."""
    found: dict[str, Any] = {"files": []}
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        letter = word[1:]
        if not _is_option(word):
            found["files"].append(word)
        elif letter not in takes:
            raise usage_error(f"no option {word!r}; there are -{' -'.join(takes)}.")
        else:
            kinds = takes[letter]
            values = [_value(word, kind, rest) for kind in kinds]
            found[letter] = values[0] if len(kinds) == 1 else tuple(values) or True
    return found


def _without_weights(arguments: list[str]) -> tuple[list[str], dict[float, float]]:
    """Return the words without ``-w1 5``, and the weights of the classes."""
    words, weights, rest = [], {}, list(arguments)
    while rest:
        word = rest.pop(0)
        if word.startswith("-w") and len(word) > 2:
            label = _value(word, float, [word[2:]])
            weights[label] = _value(word, float, rest)
        else:
            words.append(word)
    return words, weights


def _is_option(word: str) -> bool:
    return len(word) > 1 and word[0] == "-" and not word[1].isdigit()


def _value(word: str, kind: Callable[[str], Any], rest: list[str]) -> Any:
    """Return the next word, which is a value of the option `word`, and remove it."""
    if not rest:
        raise usage_error(f"{word} needs a value after it.")
    text = rest.pop(0)
    try:
        return kind(text)
    except ValueError:
        what = "a whole number" if kind is int else "a number"
        raise usage_error(f"{word} needs {what}, got {text!r}.") from None


def _check_files(files: list[str], expected: str, counts: tuple[int, ...]) -> None:
    if len(files) not in counts:
        raise usage_error(f"expected {expected}, got {len(files)} names.")


def _check_choice(word: str, value: int, allowed: tuple[int, ...]) -> None:
    if value not in allowed:
        listed = " or ".join(map(str, allowed))
        raise usage_error(f"{word} {value} must be {listed}.")


def estimator_for(letters: TrainLetters, verbose: int) -> Any:
    """Return the machine of `corevec.svm` for these options: LIBSVM's own problem."""
    from corevec import svm

    shared: dict[str, Any] = {
        "kernel": KERNELS_BY_LETTER[letters.t],
        # In LIBSVM gamma = 0 also means 1/num_features.
        "gamma": letters.g or "auto",
        "degree": letters.d,
        "coef0": letters.r,
        "tol": letters.e,
        "cache_size": letters.m,
        "shrinking": bool(letters.h),
        "verbose": bool(verbose),
    }
    C, nu, weights = letters.c, letters.n, letters.weights or None
    if letters.s == 0:
        return svm.SVC(C=C, class_weight=weights, random_state=0, **shared)
    if letters.s == 1:
        return svm.NuSVC(nu=nu, random_state=0, **shared)
    if letters.s == 2:
        return svm.OneClassSVM(nu=nu, **shared)
    if letters.s == 3:
        return svm.SVR(C=C, epsilon=letters.p, **shared)
    return svm.NuSVR(C=C, nu=nu, **shared)
