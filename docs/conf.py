"""The site: `make docs` builds it, offline and without a warning."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_extensions"))

import corevec  # noqa: E402

project = "corevec"
author = "The corevec developers"
project_copyright = "The corevec developers. BSD-3"
version = release = corevec.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_design",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "mathml",  # docs/_extensions/
    "neighbours",
]
exclude_patterns = ["_templates", "_extensions", "**/GALLERY_HEADER.rst"]
templates_path = ["_templates"]
root_doc = "index"
nitpicky = False
# A name in single backticks links to its page in the reference where it has one.
default_role = "py:obj"

# Pages are plain Markdown with links between files, so that they read the same where
# the code is hosted; what Sphinx needs beyond that is in the index pages alone.
myst_enable_extensions = ["colon_fence", "dollarmath", "attrs_block"]
myst_fence_as_directive = ["math"]
myst_heading_anchors = 3
# `console` sessions are highlighted as they can be; a fragment that is no complete
# program is no fault of the page.
suppress_warnings = ["misc.highlighting_failure"]

autosummary_generate = True
autosummary_imported_members = True
autodoc_preserve_defaults = True
toc_object_entries_show_parents = "hide"
autodoc_typehints = "none"
autodoc_member_order = "groupwise"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "generated/gallery",
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"(?<!plot_)checkerboard\.py",
    "within_subsection_order": "gallery_order.ByTask",
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "remove_config_comments": True,
    "plot_gallery": "True",
    "abort_on_example_error": True,
    "image_scrapers": ("matplotlib",),
    "doc_module": ("corevec",),
    "backreferences_dir": "generated/backreferences",
    "min_reported_time": 1e6,
    # Of the last value of a cell, what it shows in a notebook; never an address.
    "capture_repr": ("_repr_html_",),
    "thumbnail_size": (480, 320),
    "write_computation_times": False,
}

html_theme = "pydata_sphinx_theme"
html_title = "corevec"
html_logo = "_static/logo.svg"
html_favicon = "_static/logo.svg"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_sidebars = {"index": [], "changelog": [], "start": ["sidebar-nav-bs"]}
html_theme_options = {
    "logo": {"text": "corevec", "alt_text": "corevec, start page"},
    "header_links_before_dropdown": 6,
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "navbar_persistent": ["search-button"],
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "footer_start": ["copyright"],
    "footer_end": [],
    "search_bar_text": "Search names and pages",
}
