"""Files beside docs/ as pages of the site.

The changelog, the guide for contributors, the README of the benchmarks and the reports
of the experiments lie where a reader of the code looks for them. Here each becomes a
page in `docs/generated/`, and links to it are turned to that page.
"""

import posixpath
import re
from pathlib import Path

DOCS = Path(__file__).parents[1]
ROOT = DOCS.parent
FOLDER = "generated/repository"
PAGES = (
    "CHANGELOG.md",
    "CODE_OF_CONDUCT.md",
    "CONTRIBUTING.md",
    "RELEASING.md",
    "SECURITY.md",
    "benchmarks/README.md",
    "benchmarks/results/*.md",
)
# Links between files; those inside code are none.
LINK = re.compile(r"(\]\()([^)#\s:]+)((?:#[^)]*)?\))")


def neighbours():
    """Return the files that become pages, by their path in the repository."""
    return sorted(
        path.relative_to(ROOT).as_posix() for p in PAGES for path in ROOT.glob(p)
    )


def address(path):
    """Return the place in docs/ of a file, given by its path in the repository."""
    if path in neighbours():
        return f"{FOLDER}/{path}"
    if path == "README.md":
        return "index.md"
    return posixpath.relpath(path, "docs")


def turned(text, source, target):
    """Return a page with its links turned: it moves from `source` to `target`."""

    def link(found):
        path = posixpath.normpath(
            posixpath.join(posixpath.dirname(source), found.group(2))
        )
        if not (ROOT / path).exists():
            return found.group(0)
        place = posixpath.relpath(address(path), posixpath.dirname(target))
        return found.group(1) + place + found.group(3)

    return LINK.sub(link, text)


def write_pages(app):
    for name in neighbours():
        page = DOCS / FOLDER / name
        text = turned((ROOT / name).read_text(), name, f"{FOLDER}/{name}")
        if name.startswith("benchmarks/results/"):
            text = f"---\norphan: true\n---\n\n{text}"
        if (
            not page.exists() or page.read_text() != text
        ):  # an unchanged page stays built
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text(text)


def turn_links(app, name, source):
    path = Path(app.env.doc2path(name))
    if path.suffix == ".md" and not name.startswith(FOLDER):
        source[0] = turned(source[0], f"docs/{name}.md", f"{name}.md")


def only_ours(app, kind, name, thing, skip, options):
    """Leave out members that scikit-learn documents; the pages name them."""
    owner = getattr(thing, "fget", None) or getattr(thing, "__func__", thing)
    module = getattr(owner, "__module__", None) or ""
    return True if module.startswith("sklearn") else None


def setup(app):
    app.connect("builder-inited", write_pages, priority=100)
    app.connect("source-read", turn_links)
    app.connect("autodoc-skip-member", only_ours)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
