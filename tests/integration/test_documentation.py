"""The documentation names files that exist, and avoids the words it gave up."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    page
    for page in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("b*/*.md"))
    if page.name != "CHANGELOG.md" and "generated" not in page.parts
)
FOLDERS = ("benchmarks", "examples", "src", "tests", "tools")
CODE = [
    path
    for path in sorted(p for f in FOLDERS for p in (ROOT / f).rglob("*.py"))
    if path != Path(__file__)
]
TOP = ("benchmarks", "docs", "examples", "src", "tests", "tools")
# Words of an earlier dialect; the right-hand side is what to write instead.
GIVEN_UP = {
    r"\b(live|lives|lived) elsewhere\b": "out-of-core, distributed, remote",
    r"\bnot come to\b": "not reached, skipped",
    r"\bis dear\b": "is expensive",
    r"\bmade again\b": "recomputed",
    r"\b(brought|bring) here\b": "copied to the host",
    r"\btrips? to (single )?rows?\b": "random access",
    r"\brows? in view\b": "working set",
    r"\brows? at the margin\b": "working set, active set",
    r"\bbest weights so far\b": "incumbent",
    r"\bcannot be told apart\b": "duplicate rows",
    r"\bso many of the worst\b": "the N most violating rows",
}


def named_paths(text):
    """Return the paths in backticks that begin with a folder of the repository."""
    spans = re.findall(r"`([^`\s*]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    return [span for span in spans if span.split("/")[0] in TOP and "/" in span]


def links(text):
    """Return the relative targets of Markdown links and pictures."""
    found = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text)
    return [one for one in found if not re.match(r"[a-z]+:", one)]


def given_up(path):
    """Return what to write instead of the words of a file that were given up."""
    words = re.sub(r"[#\s]+", " ", path.read_text(encoding="utf-8"))
    return [say for old, say in GIVEN_UP.items() if re.search(old, words, re.I)]


def page_name(page):
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_path_that_a_page_names_exists(page):
    text = page.read_text(encoding="utf-8")
    missing = [path for path in named_paths(text) if not (ROOT / path).exists()]
    missing += [link for link in links(text) if not (page.parent / link).exists()]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_no_page_uses_a_word_that_was_given_up(page):
    assert not given_up(page)


def test_no_code_uses_a_word_that_was_given_up():
    found = {str(path.relative_to(ROOT)): given_up(path) for path in CODE}
    assert not {name: words for name, words in found.items() if words}
