"""The page: sections of escaped HTML in a template with style and script."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Iterable
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

import numpy as np

from corevec.models.certificate_text import (
    stopped_in_words,
    what_is_not_proved,
    what_is_proved,
)
from corevec.plots import Curves, bounds_of
from corevec.report._facts import Facts
from corevec.report._results import Confusion, Results
from corevec.report._svg import histogram, residual_plot

# Rounds in the table under the chart: the first and the last ones.
_MOST_LISTED = 60
# Maximum classes for a matrix with large cells, with shares, and at all.
_ROOMY, MOST_WITH_SHARES, _MOST_CLASSES = 5, 10, 40
# Number of confusions in the list that replaces a larger matrix.
_LISTED_CONFUSIONS = 20


def page(
    *, title: str, over: str, subtitle: str, tiles: str, sections: str, rounds: Any
) -> str:
    """Return the complete page. `tiles` and `sections` are HTML, the rest is text."""
    script = _file("report.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    # Nothing is fetched, and only our script runs, not one injected by a label.
    policy = (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
        f"script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )
    return Template(_file("page.html")).substitute(
        title=escape(title),
        over=escape(over),
        subtitle=escape(subtitle),
        tiles=tiles,
        sections=sections,
        footer="Created by corevec. This file is self-contained: it fetches nothing.",
        policy=policy,
        style=_file("report.css"),
        script=script,
        data=_json(rounds),
    )


def _file(name: str) -> str:
    return files("corevec.report").joinpath(name).read_text(encoding="utf-8")


def _json(value: Any) -> str:
    """Return JSON that cannot close the script element around it."""
    return json.dumps(value, allow_nan=False).replace("<", "\\u003c")


def section(name: str, heading: str, body: str, *, wide: bool = False) -> str:
    """Return one section; `body` is HTML."""
    kind = ' class="wide"' if wide else ""
    return (
        f'<section id="{name}"{kind} aria-labelledby="{name}-head">'
        f'<h2 id="{name}-head">{escape(heading)}</h2>{body}</section>'
    )


def tile(name: str, value: str, state: str = "") -> str:
    """Return one of the figures at the top; `state` is "", "good" or "bad"."""
    kind = f' class="{state}"' if state else ""
    return f"<li{kind}><span>{escape(name)}</span><strong>{escape(value)}</strong></li>"


def facts(pairs: Facts) -> str:
    """Return names and values as a list."""
    inside = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in pairs
    )
    return f'<dl class="facts">{inside}</dl>'


def parameters(values: list[tuple[str, str, bool]]) -> str:
    """Return parameters as a list; those that differ from the default are marked."""
    inside = "".join(
        f"<div><dt>{escape(name)}</dt>"
        f"<dd{_changed(changed)}><code>{escape(value)}</code></dd></div>"
        for name, value, changed in values
    )
    return f'<dl class="facts many">{inside}</dl>'


def _changed(changed: bool) -> str:
    return ' class="changed" title="not the default"' if changed else ""


def words(sentences: Iterable[str]) -> str:
    """Return sentences as a list."""
    lines = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)
    return f'<ul class="words">{lines}</ul>'


def note(text: str) -> str:
    """Return a note."""
    return f'<p class="note">{escape(text)}</p>'


def code(text: str) -> str:
    """Return a code listing that can be focused and scrolled by keyboard."""
    return f'<pre tabindex="0"><code>{escape(text)}</code></pre>'


def certificate_words(certificate: Any) -> str:
    """Return the explanation of a certificate: problem, what is proved, what is not."""
    return (
        f"<p>{escape(stopped_in_words(certificate))} The problem solved:</p>"
        f'<p class="problem">{escape(certificate.problem)}</p><div class="halves">'
        f"<div><h3>What is proved</h3>{words(what_is_proved(certificate))}</div>"
        f"<div><h3>What is not</h3>{words(what_is_not_proved(certificate))}</div></div>"
    )


def rounds_of(curves: Curves, certificate: Any) -> dict[str, Any]:
    """Return the rounds and the certificate as data for the script."""
    names = ("round", "seconds", "passes", "core", "gap", "span_gap", "upper", "lower")
    rounds = [
        {name: _known(getattr(curves, name)[k]) for name in names}
        | {"exact": bool(curves.exact[k])}
        for k in range(len(curves))
    ]
    lower, upper = bounds_of(certificate) if certificate else (np.nan, np.nan)
    end = {
        "gap": _known(getattr(certificate, "relative_gap", np.nan)),
        "tol": _known(getattr(certificate, "tol", np.nan)),
        "seconds": _known(getattr(certificate, "seconds", np.nan)),
        "passes": _known(getattr(certificate, "passes", np.nan)),
        "lower": _known(lower),
        "upper": _known(upper),
    }
    return {"rounds": rounds, "certificate": end}


def _known(value: Any) -> float | None:
    return float(value) if math.isfinite(value) else None


def convergence(curves: Curves) -> str:
    """Return the container of the chart with controls, and a table of the rounds."""
    views = [("gap", "gap"), ("objective", "objective"), ("core", "vectors")]
    known = {
        "gap": np.isfinite([curves.gap, curves.span_gap]).sum(),
        "objective": np.isfinite([curves.upper, curves.lower]).sum(),
        "core": len(curves),
    }
    views = [view for view in views if known[view[0]] > 0]
    first = next((k for k, view in enumerate(views) if known[view[0]] > 1), 0)
    times = [("seconds", "time"), ("passes", "passes"), ("round", "rounds")]
    ticks = "".join(
        f'<label class="tick"><input type="checkbox" name="{name}"> {text}</label>'
        for name, text in (("logy", "log y"), ("logx", "log x"))
    )
    return (
        f'<form id="controls" class="controls">{_choice("Show", "y", views, first)}'
        f"{_choice('against', 'x', times)}<fieldset><legend>axes</legend>{ticks}"
        '</fieldset></form><div id="chart" tabindex="0" role="group" aria-label="'
        'Convergence chart. Arrow keys go from round to round.">'
        '<div id="tip" hidden></div></div><ul id="keys" class="keys"></ul>'
        '<p id="said" class="skip" aria-live="polite"></p>'
        "<noscript><p>The chart needs JavaScript; the table holds the same.</p>"
        f"</noscript>{_rounds_table(curves)}"
    )


def _choice(
    legend: str, name: str, options: list[tuple[str, str]], first: int = 0
) -> str:
    inside = "".join(
        f'<label class="pick"><input type="radio" name="{name}" value="{value}"'
        f"{' checked' if k == first else ''}><span>{text}</span></label>"
        for k, (value, text) in enumerate(options)
    )
    return f"<fieldset><legend>{legend}</legend>{inside}</fieldset>"


def _rounds_table(curves: Curves) -> str:
    names = ("round", "core", "gap", "span_gap", "lower", "upper", "passes", "seconds")
    heads = ("round", "vectors", "gap", "gap in span", "dual", "primal", "passes", "s")
    shown = [
        (head, getattr(curves, name))
        for head, name in zip(heads, names, strict=True)
        if np.isfinite(getattr(curves, name)).any()
    ]
    half = _MOST_LISTED // 2
    every = list(range(len(curves)))
    listed = every if len(every) <= _MOST_LISTED else every[:half] + every[-half:]
    lines = "".join(
        "<tr>"
        + "".join(f"<td>{_cell(values[k])}</td>" for _, values in shown)
        + "</tr>"
        for k in listed
    )
    top = "".join(f'<th scope="col">{head}</th>' for head, _ in shown)
    left_out = len(every) - len(listed)
    more = f" ({left_out} in the middle left out)" if left_out else ""
    return (
        f"<details><summary>{_count(len(every))} as a table{more}</summary>"
        f'<div class="scroll" tabindex="0"><table class="rounds"><thead><tr>{top}</tr>'
        f"</thead><tbody>{lines}</tbody></table></div></details>"
    )


def _count(rounds: int) -> str:
    return "The only round" if rounds == 1 else f"The {rounds} rounds"


def _cell(value: float) -> str:
    if not math.isfinite(value):
        return ""
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:.4g}"


def results(found: Results) -> str:
    """Return the metrics and the figure of the results."""
    said = f"Measured on {found.rows}."
    if not found.is_test:
        said += " These are training rows: the error on new rows is usually larger."
    parts = [note(said)]
    if found.metrics:
        parts.append(facts(found.metrics))
    if found.confusion is not None:
        parts.append(_confusion(found.confusion))
    if found.residuals is not None:
        parts.append(residual_plot(*found.residuals))
    if found.scores is not None and len(found.scores):
        detector = found.headline is not None
        name = "decision value (below 0: outside)" if detector else "predicted score"
        parts.append(histogram(found.scores, 0.0 if detector else None, name))
    return "".join(parts)


def _confusion(found: Confusion) -> str:
    names, counts = found.names, found.counts
    if len(names) > _MOST_CLASSES:
        return _worst_confusions(found)
    totals = np.maximum(counts.sum(axis=1, keepdims=True), 1)
    top = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    lines = []
    for name, row, shares in zip(names, counts, counts / totals, strict=True):
        cells = "".join(
            f'<td style="--share:{share:.3f}"{_depth(share)}>{count:,}'
            f"{f'<small>{share:.0%}</small>' if count else ''}</td>"
            for count, share in zip(row, shares, strict=True)
        )
        lines.append(f'<tr><th scope="row">{escape(name)}</th>{cells}</tr>')
    kind = "roomy" if len(names) <= _ROOMY else ""
    kind = "dense" if len(names) > MOST_WITH_SHARES else kind
    caption = "Rows: the true class. Columns: the predicted one."
    return (
        f"{note(caption)}"
        f'<div class="scroll" tabindex="0"><table class="confusion {kind}" '
        f'aria-label="Confusion matrix. {caption}"><thead><tr>'
        f'<td class="corner"></td>{top}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def _depth(share: float) -> str:
    """Return the CSS class of a cell: white text on dark colours, pale zeros."""
    if share == 0:
        return ' class="none"'
    # Black text has a contrast of 4.5 : 1 up to here, and white text beyond.
    return ' class="deep"' if share > 0.82 else ""


def _worst_confusions(found: Confusion) -> str:
    wrong = found.counts - np.diag(np.diag(found.counts))
    order = np.argsort(wrong, axis=None)[::-1][:_LISTED_CONFUSIONS]
    lines = "".join(
        f'<tr><th scope="row">{escape(found.names[i])}</th>'
        f"<td>{escape(found.names[j])}</td><td>{wrong[i, j]:,}</td></tr>"
        for i, j in zip(*np.unravel_index(order, wrong.shape), strict=True)
        if wrong[i, j]
    )
    heads = "".join(f'<th scope="col">{h}</th>' for h in ("true", "predicted", "rows"))
    return (
        f'<div class="scroll" tabindex="0"><table class="rounds"><caption>'
        f"{len(found.names)} classes: the most frequent confusions</caption><thead>"
        f"<tr>{heads}</tr></thead><tbody>{lines}</tbody></table></div>"
    )
