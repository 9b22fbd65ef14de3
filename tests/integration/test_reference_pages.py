"""The API reference of the site names every public name, and nothing else."""

import re
from importlib import import_module
from pathlib import Path

import corevec

PAGE = Path(__file__).parents[2] / "docs" / "api" / "index.rst"
ROOMS = (
    *("formats", "methods", "plots", "reference"),
    *("report", "spark", "streams", "surfaces", "svm"),
)
# Names that two modules share are listed under the shorter one.
LISTED_ELSEWHERE = {
    "surfaces.ImplicitSurface": "ImplicitSurface",
    "svm.patch_sklearn": "patch_sklearn",
    "svm.unpatch_sklearn": "unpatch_sklearn",
}


def listed():
    """Return the names of the page, without the leading ``corevec.``."""
    blocks = re.findall(
        r"\.\. autosummary::\n(?:   :.*\n)+\n((?:   [\w.]+\n)+)", PAGE.read_text()
    )
    return [name.strip() for block in blocks for name in block.splitlines()]


def public():
    names = {*corevec.__all__, "open"}
    for room in ROOMS:
        module = import_module(f"corevec.{room}")
        names |= {
            f"{room}.{name}"
            for name in module.__all__
            if not getattr(module, name).__module__.startswith("sklearn.")
        }
    return {LISTED_ELSEWHERE.get(name, name) for name in names}


def test_every_public_name_is_on_the_page_once():
    assert sorted(listed()) == sorted(public())
