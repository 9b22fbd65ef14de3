"""Print the size, shape and coupling of a checkout: ``python tools/metrics.py [PATH]``.

Nothing is imported from the checkout: every number comes from its files. Code lines are
lines that hold code: no blank line, no comment, no docstring. The length of a function
is its code lines with its signature; a nested function counts in its parent too.
Branches are McCabe's number: 1, and 1 for each ``if``, loop, ``except``, ``case``,
conditional expression, ``for`` and ``if`` of a comprehension and further operand of
``and`` / ``or``; those of a nested function belong to that function.
"""

from __future__ import annotations

import ast
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MAX_LINES, MAX_PARAMETERS, MAX_BRANCHES = 40, 6, 15
# Questions about the place of the rows, which only `data/` may ask. The old tree kept
# its sources in `sources/`.
PLACE_NAMES = {"is_far", "is_remote", "is_on_device"}
DATA_ROOMS = {"data", "sources"}
# Rooms for the user; what they contain may be imported by any test.
PUBLIC_ROOMS = {
    "formats",
    "methods",
    "plots",
    "reference",
    "report",
    "streams",
    "surfaces",
}
NOT_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}
# Rooms whose folders are rooms.
ROOMS_OF_ROOMS = {"backend", "data", "solvers"}
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    """One parsed file, and the numbers of its lines that hold code."""

    path: Path
    tree: ast.Module
    code: frozenset[int]


@dataclass(frozen=True)
class Shape:
    """The size of one function."""

    name: str
    lines: int
    parameters: int
    branches: int
    is_constructor: bool


def parse(path: Path) -> Module:
    """Return the file, parsed, with its code lines."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    lines: set[int] = set()
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type not in NOT_CODE:
                lines.update(range(token.start[0], token.end[0] + 1))
    for node in docstrings(tree):
        lines.difference_update(range(node.lineno, (node.end_lineno or 0) + 1))
    return Module(path, tree, frozenset(lines))


def docstrings(tree: ast.Module) -> Iterator[ast.Expr]:
    """Yield the docstring of the module and of each class and function."""
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        if isinstance(node, owners) and ast.get_docstring(node, clean=False):
            assert isinstance(node.body[0], ast.Expr)
            yield node.body[0]


def shapes(module: Module) -> Iterator[Shape]:
    """Yield the size of every function and method of a module."""
    for node in ast.walk(module.tree):
        if isinstance(node, Function):
            span = range(node.lineno, (node.end_lineno or node.lineno) + 1)
            yield Shape(
                f"{module.path}:{node.lineno} {node.name}",
                sum(line in module.code for line in span),
                n_parameters(node),
                n_branches(node),
                node.name == "__init__",
            )


def n_parameters(function: Function) -> int:
    """Return the number of parameters, `self` and `cls` left out."""
    given = function.args
    names = [a.arg for a in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    names += [a.arg for a in (given.vararg, given.kwarg) if a is not None]
    return len(names) - (bool(names) and names[0] in ("self", "cls"))


def n_branches(function: Function) -> int:
    """Return the number of branches of a function, nested functions left out."""
    branching = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler)
    inside = list(ast.iter_child_nodes(function))
    found = 1
    while inside:
        node = inside.pop()
        if isinstance(node, (*branching, ast.IfExp, ast.match_case)):
            found += 1
        elif isinstance(node, ast.BoolOp):
            found += len(node.values) - 1
        elif isinstance(node, ast.comprehension):
            found += 1 + len(node.ifs)
        if not isinstance(node, Function):
            inside += ast.iter_child_nodes(node)
    return found


def questions_of_place(modules: list[Module], package: Path) -> Counter[str]:
    """Count, per file outside `data/`, the attributes of `PLACE_NAMES` that are read.

    The functions of the same names, which judge what a user gave, are not counted.
    """
    found: Counter[str] = Counter()
    for module in modules:
        where = module.path.relative_to(package)
        if where.parts[0] in DATA_ROOMS:
            continue
        for node in ast.walk(module.tree):
            asks = isinstance(node, ast.Attribute) and node.attr in PLACE_NAMES
            found[str(where)] += asks
    return +found


def public_names(package: Path) -> set[str]:
    """Return what ``corevec.__all__`` names, with `open`, which it leaves out."""
    tree = ast.parse((package / "__init__.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return {*ast.literal_eval(node.value), "open"}
    return {"open"}


def imports_internals(module: Module, public: set[str]) -> bool:
    """Whether a test imports anything that is not public."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        if any(is_internal(name, public) for name in names):
            return True
    return False


def is_internal(name: str, public: set[str]) -> bool:
    """Whether a dotted name is one of this package's, and no public name of a room.

    A room lists its public names in its ``__init__.py``: ``corevec.kernels.Rows`` is
    public, ``corevec.kernels.rows.Rows`` is not.
    """
    first, *rest = name.split(".")
    if first != "corevec" or not rest or rest[0] in PUBLIC_ROOMS:
        return False
    if len(rest) == 1:
        return not (rest[0] in public or rest[0].startswith("__"))
    return len(rest) > 2 + (rest[0] in ROOMS_OF_ROOMS)


def contract_lines(root: Path) -> tuple[int, int]:
    """Return how many contracts pyproject.toml has, and lines of them with content."""
    text = (root / "pyproject.toml").read_text(encoding="utf-8")
    contracts = tomllib.loads(text)["tool"]["importlinter"].get("contracts", [])
    lines, inside = 0, False
    for line in text.splitlines():
        if line.startswith("["):
            inside = line.startswith(("[tool.importlinter", "[[tool.importlinter"))
        content = line.strip() and not line.strip().startswith("#")
        lines += bool(inside and content)
    return len(contracts), lines


def report(root: Path) -> Iterator[str]:
    """Yield the lines of the report."""
    package = root / "src" / "corevec"
    modules = [parse(path) for path in sorted(package.rglob("*.py"))]
    tests = [parse(path) for path in sorted((root / "tests").rglob("*.py"))]
    sizes = [shape for module in modules for shape in shapes(module)]
    yield f"files in src/corevec                  {len(modules):>7,}"
    yield f"  directly in src/corevec             {len(list(package.glob('*.py'))):>7,}"
    yield f"code lines                            {sum_code(modules):>7,}"
    yield f"functions                             {len(sizes):>7,}"
    yield from above("code lines", [(s.lines, s.name) for s in sizes], MAX_LINES)
    # A constructor of an estimator lists what scikit-learn reads from its signature.
    counts = [(s.parameters, s.name) for s in sizes]
    yield from above("parameters", counts, MAX_PARAMETERS)
    inner = [pair for pair, s in zip(counts, sizes, strict=True) if s.is_constructor]
    many = sum(count > MAX_PARAMETERS for count, _ in inner)
    yield f"    of these constructors             {many:>7,}"
    yield from above("branches", [(s.branches, s.name) for s in sizes], MAX_BRANCHES)
    asked = questions_of_place(modules, package)
    yield f"is_far, is_on_device outside data/    {asked.total():>7,}"
    yield from (f"    {count:>3}, {where}" for where, count in asked.most_common(3))
    public = public_names(package)
    test_files = [one for one in tests if one.path.name.startswith("test_")]
    inside = sum(imports_internals(one, public) for one in test_files)
    yield f"test files                            {len(test_files):>7,}"
    yield f"  that import internals               {inside:>7,}"
    contracts, lines = contract_lines(root)
    yield f"import contracts                      {contracts:>7,}"
    yield f"  lines                               {lines:>7,}"


def sum_code(modules: list[Module]) -> int:
    """Return the code lines of all modules."""
    return sum(len(module.code) for module in modules)


def above(what: str, found: list[tuple[int, str]], most: int) -> Iterator[str]:
    """Yield how many functions exceed a bound, and the worst of them."""
    count = sum(number > most for number, _ in found)
    yield f"functions above {most:>2} {what:<18} {count:>7,}"
    worst, name = max(found)
    yield f"    worst: {worst}, {name.rpartition('src/corevec/')[2]}"


if __name__ == "__main__":
    checkout = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1]
    print("\n".join(report(checkout.resolve())))
