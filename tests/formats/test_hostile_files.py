"""No field of a model file ends the interpreter: each is changed, read and used.

Fields that reach C code as indices or sizes are changed one by one, and the message
names them; the others at random. What is read is used in a child process (`mutants`).
"""

import json

import formats_models
import mutants
import numpy as np
import pytest
from scipy import sparse

import corevec
from corevec import InvalidInputError, methods
from corevec.formats import load, load_libsvm, save, save_libsvm

X, Y = formats_models.rows()
WORD, LONG = 2**32, 2**64
WORDS = [np.zeros(3, "u8"), np.zeros(4, "i8"), np.zeros((4, 1), "u8"), 7, None]
FLAGS = {
    "has_uint32": [2, -1, True, 0.0, None],
    "uinteger": [-1, WORD, 2**70, 1.0, "1"],
}
PCG = {
    "state.state": [-1, 2**128, 1.5, None, "1"],
    "state.inc": [-1, 2**128, 1.5, None],
    **FLAGS,
}
KEYS = [np.zeros(623, "u4"), np.zeros(624, "i4"), np.zeros(624, "u8"), 5, None]
POSITIONS = [-1, 625, 2**30, 2**31, 2**63, 2**70, -(2**31), 1.5, True, None, "624"]
# Of each bit generator: a field, and values that it cannot have.
FIELDS = {
    "RandomState": {
        "key": KEYS,
        "pos": POSITIONS,
        "has_gauss": [-1, 2, 2**40, True, None, 0.0],
        "gauss": [float("nan"), float("inf"), None, "0", 2**2000],
    },
    "MT19937": {"state.key": KEYS, "state.pos": POSITIONS},
    "PCG64": PCG,
    "PCG64DXSM": PCG,
    "Philox": {
        "state.counter": WORDS,
        "state.key": WORDS,
        "buffer": WORDS,
        "buffer_pos": [-1, 5, 2**30, 2**31, -(2**31), 1.0, None],
        **FLAGS,
    },
    "SFC64": {"state.state": WORDS, **FLAGS},
}
CASES = [(kind, field) for kind, fields in FIELDS.items() for field in fields]


def generator(kind):
    if kind == "RandomState":
        return np.random.RandomState(1)
    return np.random.Generator(getattr(np.random, kind)(1))


def stream(kind):
    """Return a model whose `partial_fit`, or whose `fit`, draws from a generator."""
    if kind == "RandomState":
        return corevec.CoreVectorClassifier(random_state=generator(kind)).fit(X, Y)
    model = corevec.StreamingOneClass(nu=0.1, random_state=0).fit(X)
    object.__setattr__(model._sample, "generator", generator(kind))
    return model


def saved(model, folder):
    """Return the header and the arrays of a model."""
    folder.mkdir(exist_ok=True)
    save(model, folder / "good.npz")
    np.savez(folder / "rows.npz", X=X, y=Y)
    return mutants.entries_of(folder / "good.npz")


def node_of(value, arrays):
    """Return the node of a value, written as an attacker would."""
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return {"array": len(arrays) - 1}
    if isinstance(value, float) and not np.isfinite(value):
        return {"float": str(value)}
    return value


def at_state(header, kind, field):
    """Return the holder and the key of a field of a generator's state."""
    state = header["model"]["state"]
    if kind == "RandomState":
        return state["random_state"]["random_state"], list(FIELDS[kind]).index(field)
    pairs = state["_sample"]["state"]["generator"]["state"]["dict"]
    for name in field.split("."):
        pair = next(pair for pair in pairs if pair[0] == name)
        pairs = (
            pair[1]["dict"] if isinstance(pair[1], dict) and "dict" in pair[1] else []
        )
    return pair, 1


@pytest.mark.parametrize(("kind", "field"), CASES)
def test_every_field_of_a_random_state_is_checked_and_named(kind, field, tmp_path):
    header, arrays = saved(stream(kind), tmp_path)
    for value in FIELDS[kind][field]:
        changed, more = json.loads(json.dumps(header)), list(arrays)
        holder, key = at_state(changed, kind, field)
        holder[key] = node_of(value, more)
        mutants.write(tmp_path / "bad.npz", changed, more)
        words = rf"(random_state|generator)\.{field}: must be"
        with pytest.raises(InvalidInputError, match=words):
            load(tmp_path / "bad.npz")


@pytest.mark.parametrize("kind", FIELDS)
def test_a_state_goes_on_where_it_was(kind, tmp_path):
    """After every number of draws up to beyond the end of the buffers."""
    for n_draws in (0, 1, 3, 4, 5, 623, 624, 625):
        model = corevec.CoreVectorClassifier()
        if kind == "RandomState":
            model.random_state = own = generator(kind)
            own.standard_normal()  # keeps the second of a pair
        else:
            model = stream(kind)
            own = model._sample.generator
        own.bytes(4 * n_draws)
        save(model, tmp_path / "model")
        read = load(tmp_path / "model")
        other = read.random_state if kind == "RandomState" else read._sample.generator
        np.testing.assert_array_equal(other.normal(size=700), own.normal(size=700))


@pytest.mark.parametrize("kind", FIELDS)
def test_a_state_with_missing_or_other_fields_is_refused(kind, tmp_path):
    header, arrays = saved(stream(kind), tmp_path)
    state = header["model"]["state"]
    if kind == "RandomState":
        state["random_state"]["random_state"].pop()
    else:
        node = state["_sample"]["state"]["generator"]
        node["generator"] = "SFC64" if kind == "MT19937" else "MT19937"
    mutants.write(tmp_path / "bad.npz", header, arrays)
    with pytest.raises(InvalidInputError, match=r"fields|key, pos"):
        load(tmp_path / "bad.npz")


def test_a_random_state_of_another_generator_is_not_written(tmp_path):
    model = corevec.SVDD(random_state=np.random.RandomState(np.random.PCG64(1)))
    with pytest.raises(
        InvalidInputError, match=r"save: .*RandomState of PCG64.*MT1993"
    ):
        save(model, tmp_path / "model")


def warm(kind):
    """Return models whose files hold row numbers, trees, CSR matrices, forms."""
    if kind == "cells":
        return corevec.CoreVectorClassifier(
            random_state=0, method=methods.Cells(20)
        ).fit(X, Y)
    if kind == "stream":
        model = corevec.StreamingBallClassifier(kernel="rbf", budget=12, n_balls=3)
        return model.fit(X, Y)
    if kind == "matrix":
        return corevec.CoreVectorClassifier(kernel="precomputed").fit(X @ X.T, Y)
    rows = sparse.csr_matrix(X) if kind == "sparse" else X
    return corevec.CoreVectorClassifier(warm_start=True, random_state=0).fit(rows, Y)


def first_index(*names):
    """Return where an array of a model is, by the names of its parts."""

    def find(header):
        node = header["model"]
        for name in names:
            node = node["state"][name] if isinstance(name, str) else node[name]
        return node

    return find


SUPPORT = first_index("_outcome", "support", 0)
MULTIPLIERS = first_index("_outcome", "multipliers", 0)
BASIS = first_index("_functions", "basis", "index")
ROWS = first_index("_functions", "basis", "values")


def put(value):
    return lambda array: np.r_[array[:-1], np.array([value], array.dtype)]


ARRAYS = {
    "support negative": (
        "dense",
        SUPPORT,
        put(-5),
        r"support\[0\] must be an int64 arr",
    ),
    "support of floats": ("dense", SUPPORT, lambda a: a + 0.5, r"support\[0\] must be"),
    "support too long": ("dense", SUPPORT, lambda a: np.r_[a, a], r"multipliers\[0\]"),
    "multipliers short": ("dense", MULTIPLIERS, lambda a: a[1:], r"multipliers\[0\]"),
    "index negative": ("dense", BASIS, put(-(2**40)), "index must be an int64 array"),
    "index in a matrix": ("matrix", BASIS, put(80), "index of a precomp.*below 80 col"),
    "index before it": ("matrix", BASIS, put(-1), "index of a precomputed kernel must"),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_row_numbers_of_a_file_are_checked(name, tmp_path):
    kind, find, change, words = ARRAYS[name]
    header, arrays = saved(warm(kind), tmp_path)
    number = find(header)["array"]
    arrays.append(change(arrays[number]))
    find(header)["array"] = len(arrays) - 1
    mutants.write(tmp_path / "bad.npz", header, arrays)
    with pytest.raises(InvalidInputError, match=words):
        load(tmp_path / "bad.npz")


CSR = {
    "column beyond": (1, put(2)),
    "column far beyond": (1, put(2**31 - 1)),
    "column negative": (1, put(-1)),
    "columns beyond 63 bits": (1, lambda a: put(2**64 - 1)(a.astype("u8"))),
    "fewer columns": (1, lambda a: a[:-1]),
    "fewer values": (0, lambda a: a[:-1]),
    "starts beyond": (2, put(10**6)),
    "starts that go back": (2, lambda a: np.r_[a[0], a[2], a[1], a[3:]]),
    "starts negative": (2, lambda a: np.r_[-a[1:2], a[1:]]),
    "starts of fewer rows": (2, lambda a: a[:-1]),
}


@pytest.mark.parametrize("name", CSR)
def test_indices_of_a_sparse_matrix_are_checked(name, tmp_path):
    part, change = CSR[name]
    header, arrays = saved(warm("sparse"), tmp_path)
    numbers = ROWS(header)["csr"]
    arrays.append(change(arrays[numbers[part]]))
    numbers[part] = len(arrays) - 1
    mutants.write(tmp_path / "bad.npz", header, arrays)
    with pytest.raises(
        InvalidInputError, match=r"basis\.values: .*CSR matrix of shape"
    ):
        load(tmp_path / "bad.npz")


def tree(header):
    cells = header["model"]["state"]["_forest"]["state"]["trees"]["tuple"][0]
    return cells["state"]["tree"]["state"]


def ball_stream(header):
    return header["model"]["state"]["_streams"][0]["state"]


def form(header):
    return ball_stream(header)["form"]["state"]


def kernel(header):
    return header["model"]["state"]["_functions"]["state"]["kernel"]["state"]


EIGHT_BITS = {"number": "uint8", "value": 8}
VALUES = {
    "depth of 8 bits": (
        "cells",
        tree,
        "depth",
        EIGHT_BITS,
        "depth must be a whole num",
    ),
    "no balls": ("stream", form, "n_balls", 0, "n_balls must be a whole number"),
    "balls of 8 bits": (
        "stream",
        form,
        "n_balls",
        EIGHT_BITS,
        "n_balls must be a whole",
    ),
    "too small a budget": (
        "stream",
        ball_stream,
        "budget",
        3,
        "budget must be None or",
    ),
    "rows below zero": (
        "stream",
        ball_stream,
        "n_rows",
        -1,
        "n_rows must be a whole n",
    ),
    "eta": ("stream", ball_stream, "eta", {"float": "nan"}, "eta must be a finite num"),
    "gamma of 2000 bits": ("dense", kernel, "gamma", 2**2000, "gamma must be a finite"),
    "degree of 64 bits": ("dense", kernel, "degree", 2**63, "degree must be a finite"),
}


@pytest.mark.parametrize("name", VALUES)
def test_numbers_that_loops_run_to_are_checked(name, tmp_path):
    kind, find, key, value, words = VALUES[name]
    header, arrays = saved(warm(kind), tmp_path)
    find(header)[key] = value
    mutants.write(tmp_path / "bad.npz", header, arrays)
    with pytest.raises(InvalidInputError, match=words):
        load(tmp_path / "bad.npz")


def test_counts_whose_sum_exceeds_64_bits_are_refused(tmp_path):
    model = corevec.CoreVectorClassifier(multi_class="ovo", random_state=0)
    save_libsvm(model.fit(*formats_models.three_classes()), tmp_path / "text")
    header, arrays = saved(load_libsvm(tmp_path / "text"), tmp_path)
    counts = header["model"]["state"]["text_"]["state"]["counts"]["array"]
    n = arrays[counts].sum()
    arrays[counts] = np.array([2**63 - 1, 2**63 - 1, n + 2])
    assert arrays[counts].sum() == n  # modulo 2**64
    mutants.write(tmp_path / "bad.npz", header, arrays)
    with pytest.raises(InvalidInputError, match="counts"):
        load(tmp_path / "bad.npz")


KINDS = ("cells", "dense", "matrix", "sparse", "stream")
OTHERS = (
    "SMO",
    "CoreVectorRegressor",
    "SVDD",
    "StreamingOneClass",
    "CoreSetNystroem",
    "Compressed-CoreVectorClassifier",
)
EACH = 60


def test_files_changed_at_random_never_end_the_interpreter(tmp_path):
    """`load` refuses with an error of ours, or gives a model that can be used."""
    rng = np.random.default_rng(0)
    for name in (*KINDS, *OTHERS):
        if name in KINDS:
            model = warm(name)
        else:
            model, _ = formats_models.fitted_model(formats_models.numbered(name))
        header, arrays = saved(model, tmp_path / name)
        if name == "matrix":
            np.savez(tmp_path / name / "rows.npz", X=X @ X.T, y=Y)
        for number in range(EACH):
            path = tmp_path / name / f"{number}.model"
            mutants.write(path, *mutants.changed_at_random(header, arrays, rng))
    found = [told for told, *_ in mutants.run(tmp_path).values()]
    assert len(found) == EACH * len((*KINDS, *OTHERS))
    assert "failed" not in found
    assert found.count("refused") > 50
    assert found.count("read") > 50


def test_states_that_cannot_be_never_end_the_interpreter(tmp_path):
    """The case that was found: a position of 2**30, accepted, and used by `fit`."""
    for kind, fields in FIELDS.items():
        header, arrays = saved(stream(kind), tmp_path / kind)
        for field, values in fields.items():
            for number, value in enumerate(values):
                changed, more = json.loads(json.dumps(header)), list(arrays)
                holder, key = at_state(changed, kind, field)
                holder[key] = node_of(value, more)
                path = tmp_path / kind / f"{field}-{number}.model"
                mutants.write(path, changed, more)
    assert {told for told, *_ in mutants.run(tmp_path).values()} == {"refused"}
