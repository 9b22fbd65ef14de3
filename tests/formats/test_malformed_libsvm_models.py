"""LIBSVM model files with one mistake each: what the message says, and where.

And with random mistakes: an error of ours, or a model; never a crash.
"""

import contextlib
import gzip
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corevec import CorevecError, InvalidInputError
from corevec.formats import load_libsvm

CLASSES = """\
svm_type c_svc
kernel_type rbf
gamma 0.5
nr_class 3
total_sv 4
rho 0.25 -0.5 1
label 2 -1 5
nr_sv 2 1 1
SV
1 0.5 1:0.5 3:1
0.25 0 2:-2
-1 0.125 1:1 2:1e-3
-0.5 -0.125 4:7
"""
TARGETS = """\
svm_type epsilon_svr
kernel_type polynomial
degree 2
gamma 0.5
coef0 1
nr_class 2
total_sv 2
rho -0.75
SV
1 1:0.5
-1 2:0.25
"""


def swap(old, new, text=CLASSES):
    """Return a file with one piece of text changed."""
    assert text.count(old) == 1, old
    return text.replace(old, new)


TEXTS = {
    "empty": ("", "line 1: the file ends before its line 'SV'. It is empty."),
    "data": ("1 1:0.5 2:1\n", "line 1: '1' is no keyword.*Is this a model, or a data"),
    "container": (
        b"PK\x03\x04rest\n",
        "line 1: this is no LIBSVM model but a zip file",
    ),
    "pickle": (pickle.dumps([1]), "line 1: this is no LIBSVM model but a pickle"),
    "header only": (CLASSES.split("SV\n")[0], "line 8: the file ends before its line"),
    "unknown keyword": (swap("gamma", "gama"), "line 3: 'gama' is no keyword of a LIB"),
    "empty line": (swap("nr_class", "\nnr_class"), "line 4: an empty line in the head"),
    "keyword twice": (swap("rho", "gamma 1\nrho"), "line 6: gamma is there twice, fir"),
    "no value": (swap("gamma 0.5", "gamma"), "line 3: gamma has no value"),
    "two values": (swap("gamma 0.5", "gamma 1 2"), "line 3: gamma has 2 values"),
    "svm_type": (
        swap("c_svc", "c_svm"),
        "line 1: svm_type 'c_svm' must be one of c_svc",
    ),
    "no svm_type": (
        swap("svm_type c_svc\n", ""),
        "line 8: svm_type is missing from the",
    ),
    "kernel_type": (swap("rbf", "gauss"), "line 2: kernel_type 'gauss' must be one of"),
    "precomputed": (
        swap("rbf", "precomputed"),
        "line 10: expected '0:number' behind the 2 coefficient.*of a training row",
    ),
    "no gamma": (swap("gamma 0.5\n", ""), "gamma is missing from the header above"),
    "negative gamma": (
        swap("gamma 0.5", "gamma -1"),
        "line 3: gamma -1 must not be neg",
    ),
    "gamma in words": (
        swap("0.5\nnr", "scale\nnr"),
        "line 3: expected a finite number behind gamma, got 'scale'",
    ),
    "rho nan": (swap("rho 0.25", "rho nan"), "line 6: expected a finite number behind"),
    "rho overflows": (
        swap("rho 0.25", "rho 1e999"),
        "line 6: the number behind rho, '1e",
    ),
    "rho short": (
        swap(" -0.5 1\n", "\n"),
        "line 6: rho has 1 values, but nr_class 3 nee",
    ),
    "no rho": (swap("rho 0.25 -0.5 1\n", ""), "line 8: rho is missing from the header"),
    "nr_class 1": (
        swap("nr_class 3", "nr_class 1"),
        "line 4: nr_class 1 must be at least",
    ),
    "nr_class huge": (
        swap("nr_class 3", "nr_class 1000000000"),
        "line 6: rho has 3 values, but nr_class 1000000000 needs 499999999500000000",
    ),
    "nr_class half": (
        swap("nr_class 3", "nr_class 2.5"),
        "line 4: expected a whole numb",
    ),
    "nr_class of a regression": (
        swap("nr_class 2", "nr_class 3", TARGETS),
        "line 6: nr_class 3 must be 2 for svm_type epsilon_svr",
    ),
    "total_sv negative": (
        swap("total_sv 4", "total_sv -4"),
        "line 5: total_sv -4 must not",
    ),
    "total_sv enormous": (
        swap("total_sv 4", "total_sv 99999999999999999999"),
        "line 5: expected a whole number behind total_sv",
    ),
    "label in words": (
        swap("label 2", "label two"),
        "line 7: expected a whole number beh",
    ),
    "label twice": (swap("label 2 -1", "label 5 -1"), "line 7: label '5 -1 5' repeats"),
    "label beyond C": (
        swap("label 2", "label 9999999999"),
        "line 7: a label is beyond",
    ),
    "label missing": (
        swap("label 2 -1 5\n", ""),
        "line 8: label is missing from the hea",
    ),
    "label of a regression": (
        swap("rho", "label 1 2\nrho", TARGETS),
        "line 8: label belongs to classifiers, not to epsilon_svr",
    ),
    "nr_sv sum": (
        swap("nr_sv 2 1 1", "nr_sv 2 2 1"),
        "line 8: nr_sv '2 2 1' must be 3 co",
    ),
    "nr_sv short": (
        swap("nr_sv 2 1 1", "nr_sv 2 2"),
        "line 8: nr_sv has 2 values, but nr",
    ),
    "nr_sv negative": (
        swap("nr_sv 2 1 1", "nr_sv 4 -1 1"),
        "line 8: nr_sv '4 -1 1' must",
    ),
    "no coef0": (swap("coef0 1\n", "", TARGETS), "coef0 is missing from the header"),
    "degree half": (
        swap("degree 2", "degree 2.5", TARGETS),
        "line 3: expected a whole num",
    ),
    "degree negative": (
        swap("degree 2", "degree -2", TARGETS),
        "line 3: degree -2 must",
    ),
    "cut off": (
        CLASSES.split("-1 0.125")[0],
        "line 11: the file ends after 2 of 4 support vectors .*is line 9.*cut off",
    ),
    "cut in a line": (
        CLASSES.split("0.125 1:1")[0],
        r"line 12: expected 2 coefficient\(s\) .*got 1 word\(s\). Is the file cut off",
    ),
    "one vector more": (
        CLASSES + "1 1 1:1\n",
        "line 14: more vectors than line 5, total",
    ),
    "coefficient": (
        swap("1 0.5 1:0.5", "x 0.5 1:0.5"),
        "line 10: expected a finite numb",
    ),
    "coefficient missing": (
        swap("0.25 0 2:-2", "0.25 2:-2"),
        "line 11: expected a finite number as a coefficient, got '2:-2'",
    ),
    "coefficient too many": (
        swap("0.25 0 2:-2", "0.25 0 1 2:-2"),
        r"line 11: expected 'index:value' behind the 2 coefficient\(s\), got '1'",
    ),
    "semicolon": (swap("3:1", "3;1"), "line 10: expected 'index:value' .*got '3;1'"),
    "no index": (swap("3:1", ":1"), "line 10: expected 'index:value' .*got ':1'"),
    "index 0": (
        swap("1:0.5 3", "0:0.5 3"),
        "line 10: index 0 follows 0; indices start",
    ),
    "index descends": (swap("3:1", "1:1"), "line 10: index 1 follows 1; indices start"),
    "index beyond C": (
        swap("4:7", "4294967296:7"),
        "line 13: index 4294967296 follows 0",
    ),
    "value": (swap("4:7", "4:seven"), "line 13: expected a finite number at index 4"),
    "value infinite": (
        swap("4:7", "4:inf"),
        "line 13: expected a finite number at index",
    ),
    "value of 2000 digits": (
        swap("4:7", "4:" + "7" * 2000 + "x"),
        "line 13: the number at index 4, '7777.*is too long",
    ),
    "value hex": (
        swap("4:7", "4:0x10"),
        "line 13: expected a finite number at index 4",
    ),
    "gzip cut off": (
        gzip.compress(CLASSES.encode())[:-20],
        "the file is cut off or damaged after line",
    ),
}


@pytest.mark.parametrize("text", [CLASSES, TARGETS], ids=["classes", "targets"])
def test_the_text_is_sound_without_its_mistake(text, tmp_path):
    (tmp_path / "model").write_text(text)
    model = load_libsvm(tmp_path / "model")
    assert np.isfinite(model.predict(np.eye(4))).all()


@pytest.mark.parametrize("name", TEXTS)
def test_a_libsvm_model_with_one_mistake_says_where(name, tmp_path):
    content, words = TEXTS[name]
    path = tmp_path / "bad.model"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InvalidInputError, match=words) as caught:
        load_libsvm(path)
    assert str(caught.value).startswith(f"load_libsvm: {path}")


def test_a_model_by_hand_has_the_values_of_its_formula(tmp_path):
    (tmp_path / "model").write_text(TARGETS)
    x = np.array([[0.5, -2.0]])
    value = (0.5 * 0.25 + 1) ** 2 - (0.5 * -0.5 + 1) ** 2 + 0.75
    np.testing.assert_allclose(load_libsvm(tmp_path / "model").predict(x), value)


def test_long_lines_and_bombs_end_before_memory_does(tmp_path):
    path = tmp_path / "bad.model"
    path.write_bytes(b"rho " + b"1 " * (1 << 23) + b"\n")
    with pytest.raises(InvalidInputError, match="line 1 is longer than"):
        load_libsvm(path)
    many = swap("total_sv 2", "total_sv 1000000", TARGETS)
    path.write_bytes(gzip.compress((many + "1 1:0.5 2:0.5 3:0.5\n" * 40_000).encode()))
    assert path.stat().st_size < 10_000
    with pytest.raises(InvalidInputError, match=r"line \d+: the first .*memory_limit"):
        load_libsvm(path, memory_limit=1e6)


@given(
    cut=st.integers(0, len(CLASSES)),
    insert=st.text(alphabet="0123456789.:-+e \nxSV_", max_size=8),
    drop=st.integers(0, 12),
)
def test_any_text_gives_a_model_or_an_error_of_ours(
    cut, insert, drop, tmp_path_factory
):
    path = tmp_path_factory.getbasetemp() / "fuzzed.model"
    path.write_text(CLASSES[:cut] + insert + CLASSES[cut + drop :])
    model = None
    with contextlib.suppress(InvalidInputError):
        model = load_libsvm(path)
    with contextlib.suppress(CorevecError):  # numbers too large for the kernel
        if model is not None:
            assert set(model.predict(np.eye(4))) <= set(model.classes_.tolist())
