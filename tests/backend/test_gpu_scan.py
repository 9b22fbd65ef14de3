"""A look at rows on a device, reduced beside their kernel values, without a device.

The cases are looked at in three ways, each against a slow twin: Triton's interpreter
(``python -m test_gpu_looks OUT``, in a process of its own: the interpreter is chosen
when Triton is imported), plain torch, and NumPy.
"""

import os
import subprocess
import sys
import warnings
from dataclasses import dataclass

import numpy as np
import pytest
from naive import gram

from corevec import CoreVectorClassifier, problems
from corevec.certificates import ScanRequest, answers_on_device, scan
from corevec.data.sources import CarriedColumn, MemorySource
from corevec.exceptions import KernelError
from corevec.kernels import Kernel, RowMap, Rows
from corevec.models import KernelExpansion

torch = pytest.importorskip("torch", reason="torch is not installed (corevec[gpu])")

from corevec.data.sources import TensorSource  # noqa: E402

FAR = 3_000_000_000  # a row number that needs more than 32 bits
FIELDS = ("loss", "slope", "curve", "worst", "violation", "n_violated")
# Of sums and values: float32 kernel values are right to 6e-8 of sums over 40 of them.
TOLERANCE = {"float32": 3e-6, "float64": 1e-12}


@dataclass(frozen=True)
class Case:
    """A problem, a kernel, and what is asked."""

    kind: str
    kernel: str = "rbf"
    d: int = 2
    n: int = 1100
    dtype: str = "float64"
    rows: str = "float64"
    weights: bool = False
    classes: int = 2
    n_worst: int = 7
    n_skip: int = 0
    trials: int = 1
    first: int = 0
    exponent: int = 0

    @property
    def seed(self):
        return [self.d, self.n, self.classes, self.n_skip]


def cases():
    many = {"d": 22, "n": 300}
    return [
        Case("two-class"),
        Case("two-class", weights=True, n_skip=40, trials=2, n_worst=100),
        Case("two-class", weights=True, n_skip=40, trials=2, **many),
        Case("two-class", dtype="float32", rows="float32", trials=2),
        Case("two-class", dtype="float32", rows="float32", trials=2, **many),
        Case("two-class", dtype="float64", rows="float32", exponent=3, **many),
        Case("two-class", "laplacian", first=FAR, n_skip=3, exponent=-5),
        Case("two-class", "poly", n_worst=2000),
        Case("two-class", "linear", trials=3),
        Case("two-class", "normalized-poly", **many),
        Case("two-class", d=100, n=300, n_skip=5, trials=2),
        Case("pair", classes=3, n_skip=9),
        Case("rest", classes=3, trials=2, weights=True),
        Case("rest", classes=10, trials=2, n=600),
        Case("rest", classes=10, n_skip=20, d=22, n=300),
        Case("one-class", weights=True),
        Case("svdd", "poly", trials=2, d=9, n=300),
        Case("svdd", trials=2, n_skip=20),
        Case("hard", "laplacian", weights=True, n_skip=20),
        Case("hard", "poly", d=9, n=300),
        Case("tube", weights=True, n_skip=20),
        Case("tube", dtype="float32", rows="float32", n_skip=20, **many),
        Case("automatic", trials=2, n_skip=20, first=FAR),
        Case("one-class", n=1),
    ]


def data(case):
    """Return rows, codes, a response and weights; a tenth of the weights is zero."""
    rng = np.random.default_rng(case.seed)
    X = rng.normal(size=(case.n, case.d)) + 1.0
    codes = rng.integers(case.classes, size=case.n)
    weights = rng.exponential(size=case.n) * (rng.random(case.n) > 0.1)
    weights = weights if case.weights else np.ones(case.n)
    return X.astype(case.rows), codes, X[:, 0] + rng.normal(size=case.n), weights


def kernel_of(case):
    """Return the kernel of mapped rows: distances do not change by the map."""
    name, d = case.kernel.removeprefix("normalized-"), case.d
    distance = name in ("rbf", "laplacian")
    row_map = RowMap(np.full(d, 1.0), case.exponent) if distance else RowMap()
    return Kernel(
        name,
        gamma=0.7 / d * 4.0**case.exponent,
        coef0=0.5,
        degree=3,
        normalized=case.kernel != name,
        row_map=row_map,
    )


def asked(case, *, of_tensors):
    """Return the functions and the questions, one for each problem."""
    X, codes, response, weights = data(case)
    n_rows = case.first + case.n
    if of_tensors:  # rows bring what belongs to them along
        codes, response, weights = map(CarriedColumn, ("target", "response", "weight"))
    labels = problems.Labels(n_rows, codes, weights, mass=float(case.n))
    made = {
        "two-class": lambda: [problems.two_class(labels, 3.0, 1)],
        "pair": lambda: [problems.two_class(labels, 3.0, 0, 2)],
        "rest": lambda: [
            problems.two_class(labels, 1.0 + c, c) for c in range(case.classes)
        ],
        "one-class": lambda: [problems.one_class(labels, 2.0)],
        "svdd": lambda: [problems.svdd(labels, 0.7)],
        "hard": lambda: [problems.svdd(labels, None)],
        "tube": lambda: [problems.regression(labels, 2.0, response, tube=0.1)],
        "automatic": lambda: [
            problems.regression(labels, 2.0, response, problems.AutomaticTube(0.2))
        ],
    }[case.kind]()
    rng = np.random.default_rng([1, *case.seed])
    basis = X[rng.integers(case.n, size=11)] + 0.1
    coef = rng.normal(size=(11, len(made)))
    functions = KernelExpansion(
        kernel_of(case),
        Rows(basis, np.arange(11)),
        coef,
        np.linspace(-0.2, 0.5, len(made)),
    )
    return functions, [question(case, problem, rng) for problem in made]


def question(case, problem, rng):
    few = case.first + rng.permutation(case.n)[: case.n_skip]
    skip = few + n_entries(case) * rng.integers(len(problem.sides), size=len(few))
    offset = 0.05 if problem.has_offset else 0.0
    some = tuple((1.0 + 0.3 * q, offset + 0.1 * q) for q in range(case.trials))
    return ScanRequest(problem, np.sort(skip), some, case.n_worst)


def n_entries(case):
    return case.first + case.n


def place(case):
    """Return the rows as tensors."""
    X, codes, response, weights = map(torch.from_numpy, data(case))
    brought = {"target": codes, "response": response, "weight": weights}
    source = TensorSource(X, brought)
    source.first_number = case.first
    return source


def expected(case, t):
    """Return the numbers of a `ScanResult` for problem t, entry by entry: the twin."""
    X, codes, response, weights = data(case)
    functions, questions = asked(case, of_tensors=False)
    asking, kernel = questions[t], functions.kernel
    shape = {"gamma": kernel.gamma / 4.0**case.exponent, "coef0": 0.5, "degree": 3}
    shape |= {"kernel": case.kernel}
    X, Z = X.astype(float), functions.basis.values.astype(float)
    f = gram(X, Z, **shape) @ functions.coef[:, t] + functions.intercept[t]
    own = np.array([gram(x[None], x[None], **shape)[0, 0] for x in X])
    slack = {"rest": 1.0 + t, "svdd": 2.8, "hard": np.inf}.get(case.kind)
    slack = slack or {"two-class": 3.0, "pair": 3.0}.get(case.kind, 2.0)
    entries, violations, parts = [], [], []
    for i in range(case.n):
        for side in asking.problem.sides:
            entry = case.first + i + side * n_entries(case)
            omega = slack * weights[i] if weights[i] > 0 else 0.0
            y, p = 1.0, 1.0
            if case.kind in ("two-class", "rest"):
                y = 1.0 if codes[i] == {"two-class": 1}.get(case.kind, t) else -1.0
            if case.kind == "pair":
                y, omega = {0: (1.0, omega), 1: (1.0, 0.0), 2: (-1.0, omega)}[codes[i]]
            if case.kind in ("svdd", "hard"):
                p = own[i] / 2
            if case.kind in ("tube", "automatic"):
                y = 1.0 - 2.0 * side
                p = y * response[i] - (0.1 if case.kind == "tube" else 0.0)
            if omega == 0 or entry in asking.skip:
                continue
            trials = [p - scale * y * f[i] - offset for scale, offset in asking.trials]
            entries.append(entry)
            violations.append(trials[0])
            parts.append((omega, y * f[i], trials))
    return totals(asking, np.array(entries), np.array(violations), parts)


def totals(asking, entries, violations, parts):
    loss, slope, curve = np.zeros(len(asking.trials)), 0.0, 0.0
    for omega, margin, trials in parts:
        if asking.problem.is_hard:
            break
        loss += [omega * max(0.0, one) ** 2 / 2 for one in trials]
        if trials[0] > 0:
            lever = 1.0 if asking.problem.has_offset else margin
            slope += omega * trials[0] * lever
            curve += omega * lever**2
    order = np.argsort(-violations, kind="stable")[: asking.n_worst]
    found = entries[order], violations[order], int((violations > 0).sum())
    return dict(zip(FIELDS, (loss, slope, curve, *found), strict=True))


def compare(case, t, found):
    """Compare numbers, and the worst entries where float64 tells them apart."""
    wanted, tolerance = expected(case, t), TOLERANCE[case.dtype]
    size = max(1.0, np.abs(wanted["violation"]).max())
    for name in ("loss", "slope", "curve"):
        assert np.allclose(found[name], wanted[name], tolerance, tolerance), name
    assert len(found["worst"]) == len(found["violation"])
    assert np.allclose(found["violation"], wanted["violation"], 0.0, tolerance * size)
    assert np.all(np.diff(found["violation"]) <= 0)
    assert found["worst"].dtype == np.int64
    if case.dtype == "float64":
        assert np.array_equal(found["worst"], wanted["worst"])
        assert int(found["n_violated"]) == wanted["n_violated"]
    else:
        assert abs(int(found["n_violated"]) - wanted["n_violated"]) <= 1


def identify(case):
    return f"{case.kind}-{case.kernel}-{case.d}-{case.n}-{case.dtype}-{case.n_worst}"


CASES = [
    pytest.param(i, one, id=f"{i}-{identify(one)}") for i, one in enumerate(cases())
]


@pytest.mark.parametrize(("number", "case"), CASES)
def test_looks_of_plain_torch(number, case):
    functions, questions = asked(case, of_tensors=True)
    source = place(case)
    assert not functions.ready().reduces(source.block(0, case.n))
    looks = scan(source, functions, questions, np.dtype(case.dtype))
    for t, one in enumerate(looks):
        compare(case, t, vars(one))


@pytest.mark.parametrize(
    ("number", "case"), [c for c in CASES if not c.values[1].first]
)
def test_looks_of_numpy(number, case):
    functions, questions = asked(case, of_tensors=False)
    source = MemorySource(data(case)[0])
    looks = scan(source, functions, questions, np.dtype(case.dtype))
    for t, one in enumerate(looks):
        compare(case, t, vars(one))


@pytest.fixture(scope="module")
def interpreted(tmp_path_factory):
    """What the Triton kernels see in every case, from a process of their own."""
    pytest.importorskip("triton", reason="triton is not installed (corevec[gpu])")
    out = tmp_path_factory.mktemp("looks") / "out.npz"
    command = [sys.executable, __file__, str(out)]
    env = {**os.environ, "TRITON_INTERPRET": "1", "COREVEC_TRITON": "1"}
    env["PYTHONPATH"] = os.pathsep.join(sys.path)  # the twins in `tests/`
    ended = subprocess.run(
        command,
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr
    with np.load(out) as results:
        return dict(results)


@pytest.mark.parametrize("way", ["in-one", "of-values"])
@pytest.mark.parametrize(("number", "case"), CASES)
def test_fused_looks(interpreted, number, case, way):
    for t in range(len(asked(case, of_tensors=False)[1])):
        names = {name: f"{number}/{way}/{t}/{name}" for name in FIELDS}
        compare(case, t, {name: interpreted[key] for name, key in names.items()})


def test_values_that_overflow_are_told_of_as_ever(interpreted):
    assert str(interpreted["overflow/in-one"]) == str(interpreted["overflow/of-values"])
    assert "the poly kernel overflows" in str(interpreted["overflow/in-one"])


def told_of_overflow():
    case = Case("two-class", "poly")
    functions, questions = asked(case, of_tensors=True)
    source = place(case)
    source.values[700] = 1e200
    with pytest.raises(KernelError) as error:
        scan(source, functions, questions)
    return str(error.value)


def fitted():
    """Return the primal value and the gap of a whole fit on tensors."""
    rng = np.random.default_rng(5)
    X = rng.uniform(0, 2, size=(3000, 2))
    y = (X.astype(int).sum(axis=1) % 2).astype(int)
    model = CoreVectorClassifier(C=1e3, gamma=4.0, random_state=0, method="coreset")
    proof = model.fit(torch.from_numpy(X), torch.from_numpy(y)).certificate_
    return np.array([proof.primal, proof.relative_gap, proof.n_verified])


def test_a_fit_ends_where_the_plain_way_ends(interpreted):
    plain, fused = fitted(), interpreted["fit"]
    assert max(plain[1], fused[1]) <= 1e-3  # the gap asked for, from all rows
    assert plain[2] == fused[2] == 3000
    assert fused[0] == pytest.approx(plain[0], rel=1e-3)


def seen_with_gaps():
    """Return what is seen of every third row: numbers do not follow each other."""
    case = Case("tube", n_skip=90, first=FAR, weights=True, n_worst=9)
    functions, questions = asked(case, of_tensors=True)
    some = np.arange(FAR, FAR + case.n, 3)
    assert np.isin(questions[0].skip % n_entries(case), some).sum() > 9
    found = scan(place(case).alone(some), functions, questions)[0]
    return np.concatenate([np.atleast_1d(getattr(found, name)) for name in FIELDS])


@pytest.mark.parametrize("way", ["in-one", "of-values"])
def test_rows_whose_numbers_have_gaps(interpreted, way):
    found, wanted = interpreted[f"gaps/{way}"], seen_with_gaps()
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


@pytest.mark.parametrize("n_trials", [1, 2, 3])
def test_what_is_asked_lies_where_triton_was_compiled_for(n_trials):
    pytest.importorskip("triton", reason="triton is not installed (corevec[gpu])")
    from corevec.backend.gpu import kernels as _torch_kernels
    from corevec.backend.gpu import triton_launch as _fused_answers

    numbers, one = torch.arange(300), torch.ones(300, dtype=torch.float64)
    trials = tuple((1.0 + q, 0.5 * q) for q in range(n_trials))
    for size in range(1, 5):
        some = [
            _torch_kernels.Asked(t, one, 2 * one, 3 * one, None, trials, False, 1)
            for t in range(size)
        ]
        work = _fused_answers._Work(some, np.arange(size) + 0.25, numbers, 128, 0)
        assert work.settings.data_ptr() % 16 == work.table.data_ptr() % 16 == 0
        assert work.table.reshape(size, -1)[:, 0].tolist() == list(range(size))
        settings = work.settings.reshape(size, -1)
        assert np.array_equal(settings[:, 0], np.arange(size) + 0.25)
        assert settings[-1, 2:].tolist() == [x for pair in trials for x in pair]


def main(out):
    """Write what is seen in every case, the fused way in one kernel and in two."""
    from corevec.backend.gpu import kernels as _torch_kernels

    # NumPy, inside the interpreter, warns of overflow in values nobody uses.
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    results = {"fit": fitted()}
    for way, rows in (("in-one", 0), ("of-values", 1 << 40)):
        _torch_kernels.ROWS_IN_ONE = rows
        results[f"overflow/{way}"] = told_of_overflow()
        results[f"gaps/{way}"] = seen_with_gaps()
        for number, case in enumerate(cases()):
            functions, questions = asked(case, of_tensors=True)
            rows, ready = place(case).block(0, case.n), functions.ready(case.dtype)
            assert ready.reduces(rows)
            # Not by `scan`, which turns to the plain way where this one finds nothing.
            looks = answers_on_device(rows, ready, questions, fewest_rows=256)
            for t, one in enumerate(looks):
                for name in FIELDS:
                    results[f"{number}/{way}/{t}/{name}"] = getattr(one, name)
    np.savez(out, **results)


if __name__ == "__main__":
    main(*sys.argv[1:])
