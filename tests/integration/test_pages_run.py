"""The code of every page runs from top to bottom, and prints what the page says."""

import re
import sys
import warnings
from pathlib import Path

import pytest
from sklearn.exceptions import ConvergenceWarning

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
BLOCK = re.compile(r"```(python|text)\n(.*?)```", re.DOTALL)
# What the code of a page imports beside the library and scikit-learn.
NEEDS = {
    "deploy.md": ("onnx",),
    "gpu.md": ("torch",),
    "larger.md": ("dask.distributed", "pyarrow", "pandas"),
    "places.md": ("polars", "pyarrow"),
    "start.md": ("pandas",),
    "streaming.md": ("pyarrow", "pandas"),
    "surfaces.md": ("skimage", "matplotlib"),
    "tour.md": ("dask.array", "skimage", "torch"),
}
# Their code runs beside what it is about, with files and programs of its own.
RUN_ELSEWHERE = {
    "cli.md": "tests/cli/test_cli.py",
    "files.md": "tests/formats/test_container.py",
    "gpu.md": "tests/backend/test_gpu_arrays.py",
    "plots.md": "tests/plots/test_plots.py",
}
PAGES = [
    page
    for page in (ROOT / "README.md", *sorted(DOCS.rglob("*.md")))
    if "generated" not in page.parts and "```python\n" in page.read_text("utf-8")
]
NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?(?![\w.]*\w)")


def blocks(page):
    """Return each block of code with what the page says that it prints, or None."""
    found = [(kind, text) for kind, text in BLOCK.findall(page.read_text("utf-8"))]
    pairs = zip(found, [*found[1:], ("", "")], strict=True)
    return [
        (code, said if after == "text" else None)
        for (kind, code), (after, said) in pairs
        if kind == "python"
    ]


def value(number):
    return float(number.replace(",", ""))


def last_digit(number):
    """Return the unit of the last digit of a number as it is written."""
    digits, _, exponent = number.replace(",", "").partition("e")
    places = len(digits.partition(".")[2])
    return 10.0 ** (int(exponent or 0) - places)


def same_output(said, printed):
    """Return whether a page says what was printed, as precisely as it says it.

    Its numbers hold to one unit of the last digit that they are written with, and
    ``...`` stands for anything within a line.
    """
    pattern = NUMBER.sub("\0", said.strip())
    pattern = re.escape(pattern).replace("\0", f"({NUMBER.pattern})")
    found = re.fullmatch(pattern.replace(r"\.\.\.", ".*?"), printed.strip())
    if found is None:
        return False
    pairs = zip(NUMBER.findall(said), found.groups(), strict=True)
    return all(abs(value(a) - value(b)) <= 1.001 * last_digit(a) for a, b in pairs)


@pytest.mark.parametrize(
    ("said", "printed", "is_same"),
    [
        ("gap 5e-06, work ... s", "gap 5.23e-06, work 2.1 s", True),
        ("gap 5e-06", "gap 7.1e-06", False),
        ("1,000 of 1,000 rows", "990 of 1,000 rows", False),
        ("converged", "NOT converged", False),
        ("between 0.12 and 3", "between 0.1234 and 3", True),
    ],
)
def test_outputs_are_compared_as_precisely_as_they_are_written(said, printed, is_same):
    assert same_output(said, printed) == is_same


def test_the_pages_that_run_elsewhere_are_named_there():
    for page, test in RUN_ELSEWHERE.items():
        assert f'"{page}"' in (ROOT / test).read_text("utf-8")


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page.name not in RUN_ELSEWHERE],
    ids=lambda page: page.name,
)
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch, capsys):
    for module in NEEDS.get(page.name, ()):
        pytest.importorskip(module)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    if "distributed" in sys.modules:  # a client that is left behind may never answer
        with pytest.raises(ValueError, match="No clients found"):
            sys.modules["distributed"].default_client()
    names: dict[str, object] = {"__name__": page.stem}
    try:
        run(page, names, capsys)
    finally:  # a cluster that a page leaves open would answer the next page, or not
        for name in ("client", "cluster"):
            if name in names:
                names[name].close()


def run(page, names, capsys):
    """Run the blocks of a page in order, and compare what they print."""
    with warnings.catch_warnings():
        # A page may stop early, or show a solver that does; other warnings stay errors.
        warnings.simplefilter("ignore", ResourceWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        for number, (code, said) in enumerate(blocks(page)):
            exec(compile(code, f"{page.name}, block {number}", "exec"), names)
            printed = capsys.readouterr().out
            assert said is None or same_output(said, printed), printed
