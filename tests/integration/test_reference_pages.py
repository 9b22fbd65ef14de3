"""The reference of the site names every public name once, and nothing else."""

import re
from importlib import import_module
from pathlib import Path

import corevec

PAGES = sorted((Path(__file__).parents[2] / "docs" / "api").glob("*.rst"))
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
    """Return the names of the pages, without the leading ``corevec.``."""
    text = "\n".join(page.read_text() for page in PAGES)
    blocks = re.findall(r"\.\. autosummary::\n(?:   :.*\n)+\n((?:   [\w.]+\n)+)", text)
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


def test_every_public_name_is_on_a_page_once():
    assert sorted(listed()) == sorted(public())
