"""Every example of the gallery runs, and says or draws something."""

import re
import runpy
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("plot_*.py"))
# What an example imports beside the library and scikit-learn.
OPTIONAL = ("dask.array", "mapie", "matplotlib", "onnxruntime", "pandas", "torch")
NEEDED = {"plot_surface": ("skimage",), "plot_deploy": ("onnx",)}


def needs(example):
    text = example.read_text(encoding="utf-8")
    named = [
        name for name in OPTIONAL if re.search(rf"^(import|from) {name}", text, re.M)
    ]
    return [*named, *NEEDED.get(example.stem, ())]


def test_the_gallery_is_there():
    assert len(EXAMPLES) >= 16


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs(example, tmp_path, monkeypatch, capsys):
    for module in needs(example):
        pytest.importorskip(module)
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    monkeypatch.chdir(tmp_path)
    try:
        runpy.run_path(str(example), run_name="__main__")
        assert pyplot.get_fignums() or capsys.readouterr().out
    finally:
        pyplot.close("all")
    assert not list(tmp_path.iterdir()), "an example leaves files behind"
