"""The code of the pages runs from top to bottom, with what the page itself makes."""

import re
import warnings
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
# What the code of a page imports beside the library.
NEEDS = {
    "certificate.md": (),
    "classify.md": (),
    "deploy.md": ("onnx",),
    "detect.md": (),
    "larger.md": ("dask.distributed", "pyarrow", "pandas"),
    "places.md": ("polars",),
    "regress.md": (),
    "start.md": ("pandas",),
    "streaming.md": ("pyarrow", "pandas"),
    "svm.md": (),
    "surfaces.md": ("skimage", "matplotlib"),
}


@pytest.mark.parametrize("page", NEEDS)
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch):
    for module in NEEDS[page]:
        pytest.importorskip(module)
    monkeypatch.chdir(tmp_path)
    found = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    assert found
    names: dict[str, object] = {}
    with warnings.catch_warnings():
        # A page may stop early, as its readers may; other warnings stay errors.
        warnings.simplefilter("ignore", ResourceWarning)
        for number, code in enumerate(found):
            exec(compile(code, f"{page}, block {number}", "exec"), names)
