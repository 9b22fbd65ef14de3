"""The option letters of LIBSVM: ``corevec svm-train -c 10 -g 0.5 data model``."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from corevec.cli.errors import usage_error

TRAIN_FILES = "training_set_file [model_file]"
PREDICT_FILES = "test_file model_file output_file"
TRAIN_HELP = """\
LIBSVM's svm-train by its option letters; the model file is LIBSVM's text, which its
svm-predict reads. Solved differently: the slack is squared (L2-SVM) and the bias is
penalised; -e is the relative duality gap.

\b
-s svm_type      0 C-SVC, 2 one-class, 3 epsilon-SVR (default 0; 1 and 4, the nu
                 machines, do not exist here)
-t kernel_type   0 linear, 1 polynomial, 2 RBF, 3 sigmoid (default 2)
-d degree        of the polynomial kernel (default 3)
-g gamma         of the kernel (default 1/num_features)
-r coef0         of the polynomial and sigmoid kernels (default 0)
-c cost          C of C-SVC and epsilon-SVR (default 1)
-n nu            of one-class: the share of rows outside (default 0.5)
-p epsilon       width of the tube of epsilon-SVR (default 0.1)
-m memory        megabytes for kernel values (default 256)
-e tolerance     relative duality gap (default 0.001)
-h shrinking     taken and ignored: there is no shrinking
-b probability   0 only; for probabilities see scikit-learn's CalibratedClassifierCV
-wi weight       multiplies C of class i, as in -w1 5 -w-1 1
-v n             n-fold cross-validation; writes no model
-q               quiet

\b
Examples:
  corevec svm-train -c 10 -g 0.5 a9a a9a.model
  corevec svm-train -s 3 -p 0.2 -t 2 cpusmall
  corevec svm-train -v 5 heart_scale
"""
PREDICT_HELP = """\
LIBSVM's svm-predict: reads LIBSVM's model text and corevec's own models.

\b
-b probability   0 only
-q               quiet

\b
Example:
  corevec svm-predict a9a.t a9a.model a9a.predicted
"""
DIFFERENCE = (
    "unlike LIBSVM: squared slack (L2-SVM), penalised bias, -e is the relative duality "
    "gap; -h is ignored"
)
_CALIBRATION = (
    "-b 1: LIBSVM's probabilities come from Platt scaling; use scikit-learn's "
    "CalibratedClassifierCV around CoreVectorClassifier instead."
)
_NO_NU = (
    "-s {}: there is no {} here. Use -s {}, or corevec train --estimator {} --help."
)
_KERNELS = ("linear", "poly", "rbf", "sigmoid")
_WHOLE = "stdhbv"
_REAL = "grcnpme"


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
    def data(self) -> str:
        """The training set."""
        return self.files[0]

    @property
    def model(self) -> Path:
        """The model file; by default the name of the data with .model appended."""
        if len(self.files) > 1:
            return Path(self.files[1])
        return Path(f"{Path(self.data).name}.model")


def train_letters(arguments: list[str]) -> TrainLetters:
    """Return the parsed arguments of svm-train."""
    found = TrainLetters()
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if not _is_option(word):
            found.files.append(word)
        elif word == "-q":
            found.q = True
        else:
            if not rest:
                raise usage_error(f"svm-train: {word} needs a value after it.")
            _take(found, word, rest.pop(0))
    _check(found)
    return found


def _is_option(word: str) -> bool:
    return len(word) > 1 and word[0] == "-" and not word[1].isdigit()


def _take(found: TrainLetters, word: str, text: str) -> None:
    letter = word[1:]
    if letter in _WHOLE and len(letter) == 1:
        setattr(found, letter, _number(word, text, int))
    elif letter in _REAL and len(letter) == 1:
        setattr(found, letter, _number(word, text, float))
    elif letter.startswith("w") and len(letter) > 1:
        label = _number(word, letter[1:], float)
        found.weights[label] = _number(word, text, float)
    else:
        raise usage_error(
            f"svm-train: no option {word!r}; LIBSVM's are -s -t -d -g -r -c -n -p -m "
            "-e -h -b -wi -v -q (corevec svm-train --help)."
        )


def _number(word: str, text: str, kind: Any) -> Any:
    try:
        return kind(text)
    except ValueError:
        what = "a whole number" if kind is int else "a number"
        raise usage_error(f"svm-train: {word} needs {what}, got {text!r}.") from None


def _check(found: TrainLetters) -> None:
    if not 1 <= len(found.files) <= 2:
        raise usage_error(
            f"svm-train: expected {TRAIN_FILES}, got "
            f"{len(found.files)} names (corevec svm-train --help)."
        )
    if found.b not in (0, 1):
        raise usage_error(f"svm-train: -b {found.b} must be 0.")
    if found.b:
        raise usage_error(_CALIBRATION)
    if found.s == 1:
        raise usage_error(_NO_NU.format(1, "nu-SVC", 0, "CoreVectorClassifier"))
    if found.s == 4:
        raise usage_error(_NO_NU.format(4, "nu-SVR", 3, "CoreVectorRegressor"))
    if found.s not in (0, 2, 3):
        raise usage_error(f"svm-train: -s {found.s} must be 0, 2 or 3.")
    if found.t == 4:
        raise usage_error(
            "svm-train: -t 4, a precomputed kernel: use CoreVectorClassifier("
            "kernel='precomputed') in Python."
        )
    if not 0 <= found.t <= 3:
        raise usage_error(f"svm-train: -t {found.t} must be 0, 1, 2 or 3.")
    if found.v and found.v < 2:
        raise usage_error(f"svm-train: -v {found.v} must be at least 2 folds.")


def estimator_for(letters: TrainLetters, verbose: int) -> Any:
    """Return the estimator for these options."""
    import corevec

    shared: dict[str, Any] = {
        "kernel": _KERNELS[letters.t],
        # In LIBSVM gamma = 0 also means 1/num_features.
        "gamma": letters.g or "auto",
        "degree": letters.d,
        "coef0": letters.r,
        "tol": letters.e,
        "memory_budget": letters.m * 2**20,
        "random_state": 0,
        "verbose": verbose,
    }
    if letters.s == 2:
        return corevec.CoreVectorOneClass(nu=letters.n, **shared)
    if letters.s == 3:
        return corevec.CoreVectorRegressor(
            C=letters.c, mu=None, tube=letters.p, **shared
        )
    return corevec.CoreVectorClassifier(
        C=letters.c,
        multi_class="ovo",
        class_weight=letters.weights or None,
        **shared,
    )


@dataclass
class PredictLetters:
    """The options of svm-predict."""

    test: str
    model: str
    output: Path
    quiet: bool


def predict_letters(arguments: list[str]) -> PredictLetters:
    """Return the parsed arguments of svm-predict."""
    rest, files, quiet = list(arguments), [], False
    while rest:
        word = rest.pop(0)
        if word == "-q":
            quiet = True
        elif word == "-b":
            if rest[:1] != ["0"]:
                raise usage_error(_CALIBRATION)
            rest.pop(0)
        elif _is_option(word):
            raise usage_error(f"svm-predict: no option {word!r}; there are -b and -q.")
        else:
            files.append(word)
    if len(files) != 3:
        raise usage_error(
            f"svm-predict: expected {PREDICT_FILES}, got {len(files)} "
            "names (corevec svm-predict --help)."
        )
    return PredictLetters(files[0], files[1], Path(files[2]), quiet)
