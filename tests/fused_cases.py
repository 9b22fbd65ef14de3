"""Kernel-times-vectors of torch tensors: cases, and a process that makes them.

Triton's interpreter is chosen when Triton is imported, so the fused kernels are run by
``python -m fused_cases PRECISION OUT`` with ``TRITON_INTERPRET=1``, all cases in one.
"""

import sys
import warnings

import numpy as np

from corevec.backend.profiles import Profile

NAMES = ("rbf", "laplacian", "inverse-distance", "linear", "poly", "sigmoid")
COLUMNS = (1, 2, 3, 8, 9, 22, 54, 100)
OUTPUTS = (1, 3, 17)
FEW = 8


def case(name, d, *, n=150, k=37, outputs=1, gamma=None, degree=3, coef0=0.5):
    """Return a kernel and sizes; no size is a multiple of a tile."""
    gamma = 0.7 / d if gamma is None else gamma
    shape = {"gamma": gamma, "degree": degree, "coef0": coef0}
    return {"name": name, "d": d, "n": n, "k": k, "outputs": outputs, **shape}


def grid():
    """Every kernel with every number of columns, and with every number of outputs."""
    small = {"n": 75, "k": 11}  # each basis row is a step of the interpreter
    return [
        case(name, d, outputs=OUTPUTS[(i + j) % 3], **(small if d <= FEW else {}))
        for i, name in enumerate(NAMES)
        for j, d in enumerate(COLUMNS)
    ]


def corners():
    """Several tiles of the basis; powers; arguments so small that tanh(y) is y."""
    several = [case("rbf", d, k=150, n=75, outputs=2) for d in (2, 9, 100)]
    powers = [case("poly", 3, degree=p, n=40, k=9) for p in (0, 1, 2, 5, 64, 70, 71)]
    broken = case("poly", 3, degree=2.5, coef0=9.0, n=40, k=9)
    tiny = case("sigmoid", 2, gamma=1e-5, coef0=0.0, n=40, k=9)
    return [*several, *powers, broken, tiny]


def data(case, precision):
    """Return rows, basis rows and coefficients; some rows are basis rows."""
    rng = np.random.default_rng([case["d"], case["n"], case["k"], case["outputs"]])
    X = rng.normal(size=(case["n"], case["d"]))
    Z = rng.normal(size=(case["k"], case["d"]))
    if case["d"] <= FEW:  # beyond, distance 0 is known to a root of the rounding only
        X[:5] = Z[:5]
    if case["degree"] == 2.5:  # a root of a negative number is nothing to compare
        X, Z = abs(X), abs(Z)
    coef = rng.normal(size=(case["k"], case["outputs"]))
    return tuple(a.astype(precision) for a in (X, Z, coef))


def profile(case):
    """Return the profile of a case."""
    code = NAMES.index(case["name"])
    return Profile(code, case["gamma"], case["coef0"], case["degree"])


def values_to_try(precision):
    """Arguments of exp2, tanh: from tiny to where the result no longer moves."""
    tiny = np.finfo(precision).tiny
    return np.concatenate([[0.0, tiny], np.geomspace(1e-12, 80.0, 400)])


def profiles(precision):
    """Return each profile at single numbers: one column, one basis row."""
    import torch

    from corevec.backend import gpu
    from corevec.backend.profiles import LAPLACIAN, RBF, SIGMOID

    x = torch.from_numpy(values_to_try(precision).astype(precision))[:, None]
    one, zero = torch.ones((1, 1), dtype=x.dtype), torch.zeros((1, 1), dtype=x.dtype)
    small = {"rows": 512}

    def times(code, rows, basis):
        rows, basis = gpu.Prepared(rows), gpu.Prepared(basis)
        return gpu.times(Profile(code), rows, basis, one, small)

    return {
        "rbf": times(RBF, x, zero),
        "laplacian": times(LAPLACIAN, x, zero),
        "sigmoid": times(SIGMOID, -x, one),
        "far": times(RBF, x * 1e15, zero),
    }


def multiply_as_tensor_cores_do():
    """Make the interpreter drop the 13 bits of a float32 operand that TF32 lacks."""
    from triton.runtime import interpreter

    exactly = interpreter.InterpreterBuilder.create_dot

    def cut(a):
        if a.data.dtype != np.float32:
            return a
        bits = np.ascontiguousarray(a.data).view(np.int32) & -0x2000
        return interpreter.TensorHandle(bits.view(np.float32), a.dtype)

    def coarsely(self, a, b, *rest):
        return exactly(self, cut(a), cut(b), *rest)

    interpreter.InterpreterBuilder.create_dot = coarsely


def main(precision, out):
    """Write what the fused kernels make of every case."""
    import torch

    from corevec.backend import gpu

    # NumPy, inside the interpreter, warns of overflow in values nobody uses.
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    multiply_as_tensor_cores_do()
    results = {f"profile-{k}": v for k, v in profiles(precision).items()}
    for number, one in enumerate([*grid(), *corners()]):
        X, Z, coef = map(torch.from_numpy, data(one, precision))
        assert gpu.fused(X)
        sizes = {"rows": 64} if one["d"] <= FEW else None
        prepared = gpu.Prepared(X), gpu.Prepared(Z)
        results[f"{number}"] = gpu.times(profile(one), *prepared, coef, sizes)
        ready = gpu.repeated(profile(one), *prepared)
        ready(-3 * coef)  # what other coefficients leave behind
        results[f"repeated-{number}"] = ready(coef)
    np.savez(out, **{k: v.numpy() for k, v in results.items()})


if __name__ == "__main__":
    main(*sys.argv[1:])
