"""The pages of the papers are what `python -m benchmarks papers` writes."""

from pathlib import Path

import pytest

pytest.importorskip("pandas")
from benchmarks import papers

PAGES = Path(__file__).parents[2] / "docs" / "papers"


@pytest.mark.parametrize("paper", papers.PAPERS, ids=lambda paper: paper.slug)
def test_a_page_is_what_the_results_say(paper):
    assert (PAGES / f"{paper.slug}.md").read_text() == papers.page(paper)


def test_the_index_is_what_the_papers_say():
    assert (PAGES / "index.md").read_text() == papers.index()
