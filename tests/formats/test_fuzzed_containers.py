"""What the fuzzer of containers has found, one file each, in a child process."""

import formats_models
import mutants
import numpy as np
import pytest
import reading

import corevec
from corevec.formats import save


def at(header, *keys):
    """Return the node of a header below the state of its model."""
    node = header["model"]["state"]
    for key in keys:
        node = node[key]
    return node


def negative_pointer(header, arrays):
    step = at(header, "steps", 1, "tuple", 1, "state", "support_vectors_")
    arrays[step["csr"][2]][-1] = -(2**31)  # SciPy's own check passes over it


def vectors_without_number(header, arrays):
    arrays[at(header, "method", "state", "basis", "array")][0, 0] = np.nan


def changed(**parameters):
    def change(header, _):
        at(header).update(parameters)

    return change


def without(name):
    def change(header, _):
        del at(header)[name]

    return change


def two_scores(header, arrays):
    arrays[at(header, "offset_")["array"]] = np.zeros((2, 2))


def calibrator(header):
    part = at(header, "calibrated_classifiers_", 0)["state"]
    return part["calibrators"][0]["state"]


def no_name(header, _):
    at(header, "steps", 0, "tuple", 1)["state"]["transformers"][0]["tuple"][0] = 0.5


def scaler(header):
    return at(header, "steps", 0, "tuple", 1)["state"]


def no_column(header, _):
    step = at(header, "steps", 0, "tuple", 1)["state"]["transformers_"]
    step[0]["tuple"][2] = [2**31]


# The class of the model, and what was changed.
FILES = {
    "a pointer below 0": ("Pipeline-SMO", negative_pointer),
    "a negative class weight": (
        "CoreVectorClassifier",
        lambda header, _: at(header, "class_weight", "dict", 0).__setitem__(1, -1),
    ),
    "epochs beyond memory": ("Pegasos", changed(n_epochs=2**30)),
    "no intercept": ("StructuralSVM", without("intercept_")),
    "a step that is a word": ("ImplicitSurface", changed(_step="precomputed")),
    "one width for two scales": ("ImplicitSurface", changed(widths=2)),
    "vectors that are a number": (
        "given vectors",
        lambda header, _: at(header, "method", "state").update(basis=2),
    ),
    "costs that are a number": ("StructuralSVM", changed(cost_matrix=1)),
    "sigmoids that are a number": ("SVC", changed(_probA=5)),
    "two scores of one machine": ("OneClassSVM", two_scores),
    "a sigmoid without slope": (
        "CalibratedClassifierCV",
        lambda header, _: calibrator(header).pop("a_"),
    ),
    "a column that is not there": ("ColumnTransformer", no_column),
    "a step without name": ("ColumnTransformer", no_name),
    "given vectors that are NaN": ("given vectors", vectors_without_number),
    "no given vectors": (
        "given vectors",
        lambda header, _: at(header, "method", "state").update(basis=[]),
    ),
    "columns below 0": ("ImplicitSurface", changed(n_features_in_=-1)),
    "columns beyond 64 bits": ("ImplicitSurface", changed(n_features_in_=2**64)),
    "no frame": ("ImplicitSurface", without("_frame")),
    "no slope": ("ImplicitSurface", without("_slope")),
    "threads that are a word": (
        "ImplicitSurface",
        lambda header, _: at(header, "_field", "state").update(n_jobs="rbf"),
    ),
    "threads beyond 32 bits": ("CoreVectorClassifier", changed(n_jobs=2**40)),
    "no streams": ("StreamingClassifier", changed(_streams=[])),
    "no streams of balls": ("StreamingBallOneClass", changed(_streams=[])),
    "a remainder that is a list": (
        "ColumnTransformer",
        lambda header, _: scaler(header).update(remainder=[]),
    ),
    "a step that is another word": (
        "ColumnTransformer",
        lambda header, _: scaler(header)["transformers"][0]["tuple"].__setitem__(
            1, "rbf"
        ),
    ),
    "a range without ends": (
        "MinMaxScaler",
        lambda header, _: scaler(header).update(feature_range={"tuple": []}),
    ),
    "kernel values of a classifier of rows": (
        "CoreVectorClassifier",
        changed(kernel="precomputed"),
    ),
    "kernel values of a map of rows": (
        "CoreSetNystroem",
        changed(kernel="precomputed"),
    ),
    "kernel values of Pegasos": ("Pegasos", changed(kernel="precomputed")),
    "kernel values of a machine of rows": ("SVC", changed(kernel="precomputed")),
    "columns of a pipeline": ("Pipeline-SMO", changed(n_features_in_=2)),
    "a class of weight 0": ("SVC", changed(class_weight={"dict": [[0, 0]]})),
    "a weight of 400 digits": (
        "CoreVectorClassifier",
        changed(class_weight={"dict": [["über", 10**400]]}),
    ),
}


def name_of(kind):
    """Return the name of the first model of a class, or of a pipeline around it."""
    if kind == "Pipeline-SMO":
        return [name for name in formats_models.NAMES if name.endswith("-SMO")][-1]
    if kind == "given vectors":
        fitted = {
            name: formats_models.fitted_case(name)[0] for name in formats_models.NAMES
        }
        return next(
            name
            for name, model in fitted.items()
            if isinstance(
                getattr(getattr(model, "method", None), "basis", None), np.ndarray
            )
        )
    if kind == "MinMaxScaler":
        around = [
            n for n in formats_models.NAMES if n.endswith("-CoreVectorClassifier")
        ]
        return next(
            n for n in around if hasattr(formats_models.fitted_case(n)[0], "steps")
        )
    if kind == "ColumnTransformer":
        return formats_models.FUZZED[-1]
    return next(n for n in formats_models.FUZZED if n.partition("-")[2] == kind)


def test_changed_files_are_refused(tmp_path):
    for what, (kind, change) in FILES.items():
        model, *_ = formats_models.fitted_case(name_of(kind))
        folder = tmp_path / what
        folder.mkdir()
        save(model, folder / "good.npz")
        header, arrays = mutants.entries_of(folder / "good.npz")
        arrays = [array.copy() for array in arrays]
        change(header, arrays)
        mutants.write(folder / "0.model", header, arrays)
        np.savez(folder / "rows.npz", X=np.zeros((4, 2)), y=np.arange(4) % 2)
    told = mutants.run(tmp_path)
    assert len(told) == len(FILES)
    assert {what for what, *_ in told.values()} == {"refused"}, told


def test_numbers_beyond_64_bits_are_numbers():
    X, y = formats_models.rows()
    reading.fit(corevec.CoreVectorClassifier(C=2**70), X, y)
    corevec.SVDD(C=2**63).fit(X)
    corevec.reference.LASVM(max_iter=2**64).fit(X, y)
    corevec.reference.Pegasos(batch_size=2**64).fit(X, y)
    with pytest.raises(corevec.InvalidInputError, match=r"C=1000.*must"):
        corevec.CoreVectorClassifier(C=10**400).fit(X, y)


@pytest.mark.parametrize(
    "kind", [corevec.CoreVectorOneClass, corevec.CoreVectorRegressor]
)
def test_a_memory_budget_of_a_byte_is_no_division_by_zero(kind):
    X = np.random.default_rng(0).normal(size=(80, 2))
    model = reading.fit(kind(memory_budget=1), X, (X[:, 0] > 0).astype(float))
    assert np.isfinite(model.predict(X)).all()
