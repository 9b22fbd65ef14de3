"""The report in a real browser: Debian's chromium, headless, through ``--dump-dom``.

Pages are looked at inside frames of several widths in one page, which writes what it
measured into its own DOM: chromium starts in seconds, so it is started rarely.
"""

import html
import json
import re
import shutil
import subprocess
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits, make_friedman1, make_moons

from corevec import (
    CoreVectorClassifier,
    CoreVectorOneClass,
    CoreVectorRegressor,
    NotCertifiedWarning,
    StreamingBallClassifier,
    methods,
)
from corevec.report import write_report

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")

WIDTHS = (360, 768, 1600)
EVIL = '<img src=x onerror="document.documentElement.dataset.hacked=1">'
# WCAG 2.2, level AA, for letters of normal size.
LEAST_CONTRAST = 4.5

LISTEN = """<script>
window.errors = [];
addEventListener("error", (e) => errors.push(String(e.message)));
addEventListener("securitypolicyviolation", (e) => errors.push(e.violatedDirective));
</script>"""

MEASURE = """
function luminance(c) {
  const [r, g, b] = c.map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : Math.pow((v + 0.055) / 1.055, 2.4)));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
function colour(text) {
  const parts = text.match(/[\\d.]+/g).map(Number);
  return { c: parts.slice(0, 3), a: parts.length > 3 ? parts[3] : 1 };
}
function behind(element) {
  const layers = [];
  for (let e = element; e; e = e.parentElement) {
    const own = colour(getComputedStyle(e).backgroundColor);
    layers.push(own);
    if (own.a === 1) break;
  }
  const over = (below, top) => below.map((v, i) => top.a * top.c[i] + (1 - top.a) * v);
  return layers.reverse().reduce(over, [255, 255, 255]);
}
function contrast(element) {
  const style = getComputedStyle(element);
  const ink = element instanceof SVGElement ? style.fill : style.color;
  const a = luminance(colour(ink).c);
  const b = luminance(behind(element));
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
}
function lowest() {
  let worst = [99, ""];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const hidden = element.closest("script, style, noscript, .skip, [hidden]");
    if (hidden || !walker.currentNode.textContent.trim()) continue;
    const found = contrast(element);
    if (found < worst[0]) worst = [found, walker.currentNode.textContent.slice(0, 60)];
  }
  return worst;
}
function measure() {
  const root = document.documentElement;
  const count = (what) => document.querySelectorAll(what).length;
  const found = {
    width: innerWidth,
    overflow: root.scrollWidth - root.clientWidth,
    errors: window.errors,
    hacked: root.dataset.hacked || "",
    points: count("#chart circle.point"),
    dark: matchMedia("(prefers-color-scheme: dark)").matches,
    contrast: lowest(),
    views: {},
  };
  const chart = document.getElementById("chart");
  if (!chart) return found;
  const key = (name) =>
    chart.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true }));
  const tip = document.getElementById("tip");
  key("ArrowRight");
  found.first = tip.textContent;
  key("End");
  found.last = tip.textContent;
  const place = chart.getBoundingClientRect();
  chart.dispatchEvent(new PointerEvent("pointermove", {
    clientX: place.left + 0.5 * place.width, clientY: place.top + 50 }));
  found.hover = tip.textContent;
  const spot = tip.getBoundingClientRect();
  found.inside = spot.left >= place.left - 1 && spot.right <= place.right + 1;
  chart.dispatchEvent(new PointerEvent("pointerleave"));
  found.hidden = tip.hidden;
  for (const y of document.querySelectorAll("input[name=y]")) {
    for (const x of document.querySelectorAll("input[name=x]")) {
      y.click(); x.click();
      found.views[y.value + " " + x.value] = count("#chart circle.point");
      document.querySelector("input[name=logx]").click();
      document.querySelector("input[name=logx]").click();
    }
  }
  document.querySelectorAll("details").forEach((d) => { d.open = true; });
  found.open_overflow = root.scrollWidth - root.clientWidth;
  return found;
}
"""

COLLECT = """<script>
addEventListener("load", () => setTimeout(() => {
  const frames = [...document.querySelectorAll("iframe")];
  const found = frames.map((frame) => frame.contentWindow.measure());
  document.getElementById("found").textContent = JSON.stringify(found);
}, 300));
</script>"""


def browse(path, *options):
    """Return the DOM of a page once its scripts have run."""
    done = subprocess.run(
        [
            CHROMIUM,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--virtual-time-budget=5000",
            "--dump-dom",
            *options,
            path.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def frames(pages, folder, *options):
    """Return what is measured in each page at each width, by (name, width)."""
    inside = []
    for page in pages.values():
        text = page.read_text(encoding="utf-8")
        text = re.sub(r'<meta http-equiv="Content-Security-Policy".*?>', LISTEN, text)
        text = text.replace("</body>", f"<script>{MEASURE}</script></body>")
        inside += [
            f'<iframe width="{width}" height="900" style="border:0" '
            f'srcdoc="{html.escape(text)}"></iframe>'
            for width in WIDTHS
        ]
    outside = folder / "frames.html"
    body = f'<!doctype html><meta charset="utf-8"><pre id="found"></pre>{COLLECT}'
    outside.write_text(body + "".join(inside), encoding="utf-8")
    dom = browse(outside, *options)
    found = re.search(r'<pre id="found">(.*?)</pre>', dom, re.DOTALL).group(1)
    names = [(name, width) for name in pages for width in WIDTHS]
    return dict(zip(names, json.loads(html.unescape(found)), strict=True))


@pytest.fixture(scope="module")
def models():
    moons = make_moons(400, noise=0.25, random_state=0)
    named = np.array([EVIL, "</script><b>b"])[moons[1]]
    digits = load_digits()
    friedman = make_friedman1(300, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotCertifiedWarning)
        span = CoreVectorClassifier(
            loss="hinge", random_state=0, method=methods.FewVectors(8)
        )
        return {
            "ten classes": (
                CoreVectorClassifier(random_state=0).fit(digits.data, digits.target),
                digits.data,
                digits.target,
            ),
            "hostile labels": (span.fit(moons[0], named), moons[0], named),
            "regression": (
                CoreVectorRegressor(C=10.0, random_state=0).fit(*friedman),
                *friedman,
            ),
            "detector": (
                CoreVectorOneClass(nu=0.1, random_state=0).fit(moons[0]),
                moons[0],
                None,
            ),
            "one pass": (StreamingBallClassifier().fit(*moons), *moons),
        }


@pytest.fixture(scope="module")
def pages(models, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    made = {}
    for name, (model, X, y) in models.items():
        title = EVIL if name == "hostile labels" else "x" * 70
        command = "corevec train " + "a-long-name-of-a-file " * 8
        made[name] = write_report(
            folder / f"{len(made)}.html", model, X, y, title=title, command=command
        )
    return made


@pytest.fixture(scope="module")
def light(pages, tmp_path_factory):
    return frames(pages, tmp_path_factory.mktemp("light"))


@pytest.fixture(scope="module")
def dark(pages, tmp_path_factory):
    # 0 is "dark" in Blink's list of preferred schemes, 1 is "light".
    scheme = "--blink-settings=preferredColorScheme=0"
    return frames(pages, tmp_path_factory.mktemp("dark"), scheme)


def test_the_script_runs_under_the_page_s_own_policy(pages, models):
    dom = browse(pages["ten classes"])
    rounds = len(models["ten classes"][0].history_)
    assert dom.count('class="point ') == rounds
    assert 'class="final"' in dom


def test_no_script_fails_at_any_width(light):
    assert {key: found["errors"] for key, found in light.items()} == {
        key: [] for key in light
    }
    assert [found["width"] for found in light.values()] == list(WIDTHS) * 5


def test_a_label_never_runs_as_a_script(light, dark):
    assert {found["hacked"] for found in (*light.values(), *dark.values())} == {""}


def test_no_page_is_wider_than_its_window(light):
    none = dict.fromkeys(light, 0)
    assert {key: found["overflow"] for key, found in light.items()} == none
    # With every table opened, too.
    assert {k: found.get("open_overflow", 0) for k, found in light.items()} == none


def known(model, *names):
    """Return how many values of these names the rounds of a model know."""
    values = [record.get(name, np.nan) for record in model.history_ for name in names]
    return int(np.isfinite(np.asarray(values, dtype=float)).sum())


def test_every_view_draws_every_round(light, models):
    ten = models["ten classes"][0]
    one = models["regression"][0]
    span = models["hostile labels"][0]
    for width in WIDTHS:
        for x in ("seconds", "passes", "round"):
            views = light["ten classes", width]["views"]
            assert views[f"gap {x}"] == len(ten.history_)
            assert views[f"core {x}"] == len(ten.history_)
            assert views[f"objective {x}"] == known(ten, "dual")
            views = light["regression", width]["views"]
            assert views[f"objective {x}"] == 2 * len(one.history_)
            views = light["hostile labels", width]["views"]
            assert views[f"gap {x}"] == known(span, "promise")


def test_a_page_without_rounds_has_no_chart(light):
    assert light["one pass", 768]["points"] == 0
    assert light["one pass", 768]["views"] == {}


def test_pointer_and_keys_show_the_values_of_a_round(light, models):
    history = models["ten classes"][0].history_
    for width in WIDTHS:
        found = light["ten classes", width]
        assert found["first"].startswith("round 1\n")
        assert f"vectors {history[0]['core']}" in found["first"]
        assert found["last"].startswith(f"round {history[-1]['round']}\n")
        assert re.match(r"round \d+\ngap ", found["hover"])
        assert found["inside"]
        assert found["hidden"]


def test_letters_stand_out_in_light_and_dark(light, dark):
    assert {found["dark"] for found in light.values()} == {False}
    assert {found["dark"] for found in dark.values()} == {True}
    weak = [
        (key, found["contrast"])
        for seen in (light, dark)
        for key, found in seen.items()
        if found["contrast"][0] < LEAST_CONTRAST
    ]
    assert weak == []
