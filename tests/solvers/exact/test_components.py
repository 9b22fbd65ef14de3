"""Kernels that fall apart into components, against the whole matrix."""

import naive
import numpy as np
import pytest
import torch
from scipy import linalg, sparse

from corevec import CoreVectorClassifier
from corevec._runtime import Progress
from corevec.data.sources import Workers, as_source, row_statistics
from corevec.kernels import Rows, make_kernel
from corevec.models import KernelExpansion, Settings
from corevec.problems import Labels, Task, regression, two_class
from corevec.solvers.exact import BlockGram, Components, Exact, WorkingSet

GAMMA = 40.0  # exp(-40) = 4e-18: two kinds that differ by 1 are apart


def tables(n=400, seed=0):
    """Return rows of three kinds (one-hot), of two shades each, and three numbers."""
    rng = np.random.default_rng(seed)
    kind, shade = rng.integers(0, 3, n), rng.integers(0, 2, n)
    X = np.column_stack(
        [np.eye(3)[kind], 0.1 * shade, rng.random((n, 3)) / 2, np.full(n, 7.0)]
    )
    y = np.where(rng.random(n) < 0.2, -1, 1) * np.where(X[:, 4] > 0.25, 1, -1)
    return X, (y > 0).astype(np.int64), kind


def found(X, kernel="rbf", gamma=GAMMA):
    source = as_source(X, 1 << 28, Workers(1))
    made = make_kernel(kernel, gamma, statistics=row_statistics(source))
    return Components.of(source, made), source, made


@pytest.mark.parametrize("place", ["dense", "float32", "csr"])
@pytest.mark.parametrize(("kernel", "gamma"), [("rbf", GAMMA), ("laplacian", GAMMA**2)])
def test_rows_of_one_component_are_those_that_a_chain_of_values_connects(
    place, kernel, gamma
):
    X, _, kind = tables()
    given = {"dense": X, "float32": X.astype(np.float32), "csr": sparse.csr_matrix(X)}
    components, _, _ = found(given[place], kernel, gamma)
    pairs = {(int(a), int(b)) for a, b in zip(components.labels, kind, strict=True)}
    assert len(pairs) == 3
    # One-hot columns and the constant one are the same inside a component.
    assert [few.tolist() for few in components.columns] == [[3, 4, 5, 6]] * 3
    K = naive.gram(X, gamma=gamma, kernel=kernel)
    apart = components.labels[:, None] != components.labels[None, :]
    assert K[apart].max() <= components.dropped < 1e-13


def test_no_components_where_the_kernel_is_wide_or_rows_are_of_one_kind():
    X, _, kind = tables()
    assert found(X, gamma=1.0)[0] is None
    assert found(X, "inverse-distance", 1e4)[0] is None
    assert found(X[kind == 0])[0] is None
    assert found(np.random.default_rng(0).normal(size=(400, 3)))[0] is None
    mostly = np.concatenate([X[kind == 0], X[kind == 1][:10]])
    assert found(mostly)[0] is None  # all but a few pairs are left


def at(place, values):
    """Return rows as an array or as a tensor, which is on a device to the solver."""
    return torch.as_tensor(values) if place == "tensor" else values


@pytest.mark.parametrize(
    ("place", "memory"), [("dense", 1 << 28), ("dense", 0), ("tensor", 0)]
)
def test_the_blocks_have_the_products_of_the_whole_matrix(place, memory):
    X, _, _ = tables()
    components, _, _ = found(X)
    order = np.random.default_rng(1).permutation(400)[:300]
    rows = Rows(at(place, X[order]), order)
    gram = BlockGram(rows, components, np.float64, Workers(1), memory)
    K = naive.gram(X[order], gamma=GAMMA)
    V = np.random.default_rng(2).normal(size=(300, 2))
    np.testing.assert_allclose(gram.times(V, 300), K @ V, atol=1e-12)
    np.testing.assert_allclose(gram.times(V, 90), K[:90, :90] @ V[:90], atol=1e-12)
    active = np.unique(order[:50] % 300)
    V[np.setdiff1d(np.arange(300), active)] = 0.0
    product = gram.on_active(active)
    for other in (V, -2 * V, V[:, :1]):  # made ready once, for any number of vectors
        wanted = (K @ other)[active]
        np.testing.assert_allclose(product(other)[active], wanted, atol=1e-12)


def test_functions_are_evaluated_by_component():
    X, _, _ = tables()
    components, source, kernel = found(X)
    few = np.arange(0, 400, 3)
    coef = np.random.default_rng(3).normal(size=(len(few), 2))
    functions = KernelExpansion(kernel, Rows(X[few], few), coef, np.array([1.0, -2.0]))
    wanted = naive.gram(X, X[few], gamma=GAMMA) @ coef + [1.0, -2.0]
    numbers = np.arange(50, 400)
    values = components.evaluate(functions, source, numbers, np.float64)
    np.testing.assert_allclose(values, wanted[50:], atol=1e-12)


@pytest.mark.parametrize("place", ["dense", "tensor"])
def test_the_bias_couples_the_preconditioners_of_the_components(place):
    X, _, _ = tables(150)
    X[:, 4:7] *= 0.2  # smooth inside: few landmarks explain the most
    components, _, _ = found(X)
    rows = Rows(at(place, X), np.arange(150))
    gram = BlockGram(rows, components, np.float64, Workers(1), 1 << 28)
    working = WorkingSet(np.arange(150), gram, 150, 1 << 28, np.random.default_rng(0))
    made = working.preconditioner(0.02)
    active, mu = np.arange(0, 150, 2), np.full(75, 0.02)
    with_bias = made.inverse(active, mu, has_bias=True)
    without = made.inverse(active, mu, has_bias=False)
    inverse = np.column_stack([without(e) for e in np.eye(75)])
    P = linalg.inv(inverse) + 1.0
    r = np.random.default_rng(1).normal(size=75)
    wanted = linalg.solve(P, r)
    # On a device in float32: its digits, times 75 sums.
    near = 75 * np.finfo(np.float32).eps if place == "tensor" else 1e-9
    atol = near * np.abs(wanted).max()
    np.testing.assert_allclose(with_bias(r), wanted, rtol=1e-6, atol=atol)
    # It resembles the matrix, so that conjugate gradients need few iterations.
    A = naive.gram(X[active], gamma=GAMMA) + np.diag(mu)
    values = linalg.eigvals(inverse @ A).real
    assert values.max() / values.min() < np.linalg.cond(A) / 10


@pytest.mark.parametrize("kind", ["classes", "targets"])
def test_a_machine_by_components_is_that_of_the_whole_matrix(kind):
    X, codes, _ = tables()
    if kind == "classes":
        problem = two_class(Labels(400, codes), 5.0, 1, 0)
    else:
        problem = regression(Labels(400), 5.0, X[:, 4] + codes, tube=0.1)
    _, source, kernel = found(X)
    task = Task([problem], source, kernel, Settings(tol=1e-9, random_state=0))
    results = [
        Exact(split_rows=rows, first_rows=60).solve(task, Progress(400))
        for rows in (1, 10_000)
    ]
    parts, whole = (one.certificates[0] for one in results)
    assert parts.converged
    assert whole.converged
    assert abs(parts.primal - whole.primal) <= 2e-9 * whole.primal


def test_a_table_of_kinds_is_certified_and_predicts_new_rows():
    X, codes, _ = tables(6000)
    model = CoreVectorClassifier(C=10.0, gamma=GAMMA, random_state=0).fit(X, codes)
    assert model.certificate_.converged
    new, wanted, _ = tables(1000, seed=1)
    assert abs(model.score(new, wanted) - 0.8) < 0.05  # one label in five is noise
