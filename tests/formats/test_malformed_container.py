"""Container files with one mistake each: what the message says, and where.

And with random mistakes: an error of ours, or a model; never a crash. The corpus of
LIBSVM texts is in `test_malformed_libsvm_models.py`.
"""

import contextlib
import io
import json
import pickle
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import make_moons
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

import corevec
from corevec import InvalidInputError
from corevec.formats import load, save


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """Return the entries of a good file."""
    X, y = make_moons(40, noise=0.1, random_state=0)
    model = make_pipeline(MinMaxScaler(), corevec.CoreVectorClassifier(random_state=0))
    path = tmp_path_factory.mktemp("sound") / "model.npz"
    save(model.fit(X, y), path)
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(entries, compression=zipfile.ZIP_STORED):
    """Return the bytes of a zip file."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return file.getvalue()


def headed(entries, change):
    """Return the file with another header."""
    header = json.loads(entries["header.json"])
    change(header)
    return packed({**entries, "header.json": json.dumps(header)})


def classifier(header):
    """Return the state of the classifier inside the pipeline."""
    steps = header["model"]["state"]["steps"]
    return steps[1]["tuple"][1]["state"]


def functions(header):
    return classifier(header)["_functions"]["state"]


def npy(array, **options):
    file = io.BytesIO()
    np.lib.format.write_array(file, array, **options)
    return file.getvalue()


def with_array(entries, number, content):
    return packed({**entries, f"array_{number}.npy": content})


def lying_header(shape):
    """Return the start of an .npy file that promises more than there is."""
    words = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}"
    words = words.ljust(118) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(words)) + words.encode()


def set_in(place, name, value):
    def change(header):
        place(header)[name] = value

    return change


def top(name, value):
    return lambda header: header.__setitem__(name, value)


def basis_array(header):
    return functions(header)["basis"]["state"]["values"]["array"]


def coef_number(entries):
    return functions(json.loads(entries["header.json"]))["coef"]["array"]


EXECUTED = []


def _execute():
    EXECUTED.append(1)


class Evil:
    """Leaves a mark where it is unpickled."""

    def __reduce__(self):
        return _execute, ()


CONTAINERS = {
    "empty": (lambda e: b"", "the file is empty"),
    "text": (lambda e: b"hello world\n", "this is no corevec model, which starts with"),
    "libsvm": (
        lambda e: b"svm_type c_svc\n",
        "It is a LIBSVM model: use corevec.formats.l",
    ),
    "pickle": (
        lambda e: pickle.dumps(Evil()),
        "looks like a pickle, which is never op",
    ),
    "cut off": (lambda e: packed(e)[:-40], "the zip file is cut off or damaged"),
    "cut in half": (
        lambda e: packed(e)[: len(packed(e)) // 2],
        "zip file is cut off or",
    ),
    "bit flipped": (
        lambda e: packed(e).replace(e["array_1.npy"][-16:], b"\x00" * 16, 1),
        "the entry array_1.npy is cut off or damaged .*CRC",
    ),
    "no header": (
        lambda e: packed({k: v for k, v in e.items() if k != "header.json"}),
        "there is no entry 'header.json': a zip file, but no corevec model",
    ),
    "array missing": (
        lambda e: packed({k: v for k, v in e.items() if k != "array_2.npy"}),
        "does not belong to a corevec model, or one of the .* arrays before it is miss",
    ),
    "strange entry": (
        lambda e: packed({**e, "../../etc/passwd": b""}),
        "the entry '../../etc/passwd' does not belong to a corevec model",
    ),
    "not JSON": (
        lambda e: packed({**e, "header.json": b"{"}),
        "header.json is no JSON",
    ),
    "JSON NaN": (
        lambda e: packed({**e, "header.json": b'{"version": NaN}'}),
        "header.json is no JSON that can be read .NaN is no JSON number",
    ),
    "JSON list": (lambda e: packed({**e, "header.json": b"[]"}), "must hold an object"),
    "JSON nested": (
        lambda e: packed({**e, "header.json": b"[" * 100_000}),
        "header.json is no JSON that can be read",
    ),
    "not UTF-8": (
        lambda e: packed({**e, "header.json": b"\xff\xfe"}),
        "header.json is no JSON that can be read .*utf-8",
    ),
    "another format": (
        lambda e: headed(e, top("format", "keras")),
        "header.json does not say 'format': 'corevec model'",
    ),
    "later version": (
        lambda e: headed(e, top("version", 2)),
        "has format version 2, written by corevec .* reads versions up to 1. Upgrade",
    ),
    "version in words": (
        lambda e: headed(e, top("version", "one")),
        "header.json has the version 'one', no whole number",
    ),
    "no estimator": (
        lambda e: headed(e, top("model", 3)),
        "at model: a int is no estim",
    ),
    "a certificate": (
        lambda e: headed(
            e,
            top(
                "model",
                {
                    "object": "Certificate",
                    "state": {
                        "problem": "p",
                        "primal": 1.0,
                        "dual": 1.0,
                        "relative_gap": 0.0,
                    },
                },
            ),
        ),
        "at model: a Certificate is no estimator",
    ),
    "unknown class": (
        lambda e: headed(e, top("model", {"object": "os.system", "state": {}})),
        "at model: the class 'os.system' is not among those that a model consists of",
    ),
    "unknown node": (
        lambda e: headed(e, top("model", {"pickle": "gASVKAAAAA=="})),
        "at model: has a node of unknown kind .'pickle'",
    ),
    "unknown attribute": (
        lambda e: headed(e, set_in(classifier, "__class__", "x")),
        r"at model.steps\[1\]\[1\]: a CoreVectorClassifier has no attribute '__class",
    ),
    "a method replaced": (
        lambda e: headed(e, set_in(classifier, "predict", "x")),
        "a CoreVectorClassifier has no attribute 'predict'",
    ),
    "missing field": (
        lambda e: headed(e, lambda h: functions(h).pop("coef")),
        "._functions: a KernelExpansion needs coef",
    ),
    "state of a list": (
        lambda e: headed(e, set_in(classifier, "certificate_", {"object": "Balls"})),
        "certificate_: a Balls needs a state with names",
    ),
    "wrong class": (
        lambda e: headed(
            e, set_in(classifier, "_functions", {"object": "RowMap", "state": {}})
        ),
        "_functions must be of type KernelExpansion",
    ),
    "certificate a number": (
        lambda e: headed(e, set_in(classifier, "certificate_", 3)),
        r"at model.steps\[1\]\[1\]: certificate_ must be of type Certificate",
    ),
    "array number": (
        lambda e: headed(e, set_in(functions, "coef", {"array": 999})),
        "_functions.coef: array 999 is none of the .* arrays",
    ),
    "array number negative": (
        lambda e: headed(e, set_in(functions, "coef", {"array": -1})),
        "_functions.coef: array -1 is none of the",
    ),
    "coef of another size": (
        lambda e: with_array(e, coef_number(e), npy(np.zeros((3, 1)))),
        r"coef must be a float64 array of shape \(\d+, any\)",
    ),
    "coef of whole numbers": (
        lambda e: headed(
            e,
            lambda h: functions(h).__setitem__(
                "coef", functions(h)["basis"]["state"]["index"]
            ),
        ),
        "coef must be a float64 array",
    ),
    "fewer columns": (
        lambda e: headed(e, set_in(classifier, "n_features_in_", 3)),
        "n_features_in_=3, but rows of 2 columns",
    ),
    "kernel unknown": (
        lambda e: headed(
            e, lambda h: functions(h)["kernel"]["state"].__setitem__("name", "exec")
        ),
        "_functions.kernel: the kernel 'exec' is not known",
    ),
    "gamma infinite": (
        lambda e: headed(
            e,
            lambda h: functions(h)["kernel"]["state"].__setitem__(
                "gamma", {"float": "inf"}
            ),
        ),
        "_functions.kernel: gamma must be a finite number",
    ),
    "float in words": (
        lambda e: headed(e, set_in(classifier, "C", {"float": "many"})),
        "the number 'many' is none of nan, inf, -inf",
    ),
    "number type": (
        lambda e: headed(e, set_in(classifier, "C", {"number": "object", "value": 1})),
        "'object' of 1 is no NumPy number",
    ),
    "number too large": (
        lambda e: headed(e, set_in(classifier, "C", {"number": "int8", "value": 1000})),
        "1000 does not fit into int8",
    ),
    "dict without pairs": (
        lambda e: headed(e, set_in(classifier, "class_weight", {"dict": [1]})),
        "class_weight: entry 0 of a dict is no pair",
    ),
    "dict with a list as key": (
        lambda e: headed(e, set_in(classifier, "class_weight", {"dict": [[[], 1]]})),
        "class_weight: entry 0 of a dict has no usable key",
    ),
    "random state": (
        lambda e: headed(e, set_in(classifier, "random_state", {"random_state": [1]})),
        "random_state: a RandomState needs key, pos, has_gauss and gauss",
    ),
    "generator": (
        lambda e: headed(
            e, set_in(classifier, "random_state", {"generator": "seed", "state": {}})
        ),
        "the generator 'seed' is not known",
    ),
    "nested deeply": (
        lambda e: headed(e, set_in(classifier, "C", json.loads("[" * 200 + "]" * 200))),
        "is nested deeper than 100 levels",
    ),
    "CSR out of range": (
        lambda e: headed(
            e,
            lambda h: functions(h)["basis"]["state"].__setitem__(
                "values",
                {
                    "csr": [
                        functions(h)["intercept"]["array"],
                        functions(h)["basis"]["state"]["index"]["array"],
                        functions(h)["basis"]["state"]["index"]["array"],
                    ],
                    "shape": [1, 2],
                },
            ),
        ),
        "basis.values: its arrays are no CSR matrix",
    ),
    "pipeline with a cache": (
        lambda e: headed(
            e, lambda h: h["model"]["state"].__setitem__("memory", "/tmp/cache")
        ),
        "at model: memory must be None",
    ),
    "pipeline of a word": (
        lambda e: headed(
            e, lambda h: h["model"]["state"]["steps"].__setitem__(0, "exec")
        ),
        "at model: steps must be pairs of a name and an estimator",
    ),
    "object array": (
        lambda e: with_array(e, 0, npy(np.array([Evil()], dtype=object))),
        "array_0.npy is an array of object; only numbers and strings are read",
    ),
    "array with fields": (
        lambda e: with_array(e, 0, npy(np.zeros(2, dtype=[("a", "f8")]))),
        "array_0.npy is an array of .*; only numbers and strings are read",
    ),
    "array not .npy": (
        lambda e: with_array(e, 0, b"not an array"),
        "the entry array_0.npy is cut off or damaged .*magic",
    ),
    "array too short": (
        lambda e: with_array(e, 0, npy(np.zeros(100))[:-8]),
        r"array_0.npy is said to have shape \(100,\) of float64, .*800 bytes, but 792",
    ),
    "array that lies": (
        lambda e: with_array(e, 0, lying_header("(1000000000000,)")),
        "array_0.npy is said to have shape .1000000000000,.* but 0 are there",
    ),
    "array of negative shape": (
        lambda e: with_array(e, 0, lying_header("(-1,)") + b"\x00" * 8),
        r"array_0.npy is said to have shape \(-1,\)",
    ),
    "array header without its end": (
        lambda e: with_array(e, 0, lying_header("(1, (")),
        "the entry array_0.npy is cut off or damaged",
    ),
    "array of code": (
        lambda e: with_array(e, 0, lying_header("__import__('os')")),
        "the entry array_0.npy is cut off or damaged",
    ),
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_a_container_with_one_mistake_says_where(name, sound, tmp_path):
    make, words = CONTAINERS[name]
    path = tmp_path / "bad.npz"
    path.write_bytes(make(sound))
    with pytest.raises(InvalidInputError, match=words) as caught:
        load(path)
    assert str(caught.value).startswith(f"load: {path}: ")
    assert not EXECUTED


def test_the_container_is_sound_without_its_mistake(sound, tmp_path):
    path = tmp_path / "good.npz"
    for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        path.write_bytes(packed(sound, compression))
        assert load(path).predict([[0.0, 0.0]]).shape == (1,)


def test_a_bomb_is_refused_before_it_is_read(sound, tmp_path):
    path = tmp_path / "bomb.npz"
    # 300 MB of zeros in 300 kB, honest about it.
    zeros = npy(np.zeros(3 * 10**7))
    path.write_bytes(packed({**sound, "array_0.npy": zeros}, zipfile.ZIP_DEFLATED))
    assert path.stat().st_size < 400_000
    tracemalloc.start()
    with pytest.raises(InvalidInputError, match=r"more than memory_limit=100,000,000"):
        load(path, memory_limit=1e8)
    assert tracemalloc.get_traced_memory()[1] < 5e6
    tracemalloc.stop()


def test_a_file_that_understates_or_overstates_its_sizes_is_refused(sound, tmp_path):
    path = tmp_path / "lies.npz"
    content = bytearray(packed({"header.json": sound["header.json"]}))
    # The uncompressed size in the central directory, 24 bytes behind its mark.
    at = content.index(b"PK\x01\x02") + 24
    content[at : at + 4] = struct.pack("<I", 2**31)
    path.write_bytes(content)
    with pytest.raises(InvalidInputError, match=r"header\.json .*2,147,483,648"):
        load(path)
    data = bytearray(packed(sound))
    at = data.index(b"PK\x01\x02", data.index(b"PK\x01\x02") + 1) + 24
    data[at : at + 4] = struct.pack("<I", 2**30)
    path.write_bytes(data)
    with pytest.raises(InvalidInputError, match=r"array_0\.npy .*1,073,741"):
        load(path)
    long = json.dumps({"format": "x" * (1 << 25)})
    path.write_bytes(packed({**sound, "header.json": long}, zipfile.ZIP_DEFLATED))
    with pytest.raises(InvalidInputError, match=r"header\.json .*33,554"):
        load(path)


def test_an_entry_that_is_there_twice_is_refused(sound, tmp_path):
    path = tmp_path / "twice.npz"
    path.write_bytes(packed(sound))
    with (
        pytest.warns(UserWarning, match="Duplicate name"),
        zipfile.ZipFile(path, "a") as a,
    ):
        a.writestr("header.json", b"{}")
    with pytest.raises(InvalidInputError, match=r"'header\.json' is there twice"):
        load(path)


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 40),
    st.sampled_from(["rbf", "linear", "", "auto", "precomputed"]),
    st.sampled_from([[], {}, {"array": 1}, {"float": "nan"}, {"tuple": []}, [[0]]]),
)


@given(choice=st.integers(0, 10**6), value=VALUES)
def test_any_header_gives_a_model_or_an_error_of_ours(
    choice, value, sound, tmp_path_factory
):
    """One node anywhere is replaced; a model that is made crashes no process."""
    header = json.loads(sound["header.json"])
    places = list(_places(header["model"]))
    holder, key = places[choice % len(places)]
    holder[key] = value
    path = tmp_path_factory.getbasetemp() / "fuzzed.npz"
    path.write_bytes(packed({**sound, "header.json": json.dumps(header)}))
    model = None
    with contextlib.suppress(InvalidInputError):
        model = load(path)
    # What is asked of a model that somebody changed may fail, in any ordinary way.
    ordinary = (ValueError, TypeError, AttributeError, IndexError, NotFittedError)
    with contextlib.suppress(*ordinary):
        if model is not None:
            model.predict([[0.0, 0.5]])


def _places(node):
    """Yield every (container, key) of nested nodes."""
    items = enumerate(node) if isinstance(node, list) else node.items()
    for key, inner in list(items):
        yield node, key
        if isinstance(inner, list | dict):
            yield from _places(inner)
