"""Certificates and ball bounds as sentences, and as HTML for notebooks.

Only the standard library is used. The report and the command use the same sentences.
"""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING, Any

from corevec._runtime.enumerations import ProblemKind, StopReason

if TYPE_CHECKING:
    from corevec.models.certificate import Certificate

# Colours that are legible on a white and on a black page: notebooks have either.
_CARD_STYLE = """
.corevec-card{border:1px solid rgba(128,128,128,.45);border-radius:8px;max-width:46em;
padding:.7em 1em;font:inherit;line-height:1.45;color:inherit;text-align:left}
.corevec-card .state{border-radius:1em;padding:.1em .7em;font-weight:600;color:#fff;
background:#9a3b00;white-space:nowrap}
.corevec-card .state.yes{background:#0b6b3a}
.corevec-card .problem{margin:.5em 0;opacity:.85;overflow-wrap:anywhere}
.corevec-card dl{display:grid;grid-template-columns:max-content 1fr;gap:.15em 1em;
margin:.5em 0}
.corevec-card dl>dt,.corevec-card dl>dd{width:auto;float:none;margin:0;padding:0}
.corevec-card dl>dt{opacity:.7;font-weight:400;white-space:nowrap}
.corevec-card dl>dd{font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
.corevec-card .scale{position:relative;height:.5em;border-radius:.25em;margin:.6em 0;
background:rgba(128,128,128,.3)}
.corevec-card .scale i{position:absolute;left:0;top:0;bottom:0;border-radius:.25em;
background:#2b7fc2}
.corevec-card .scale b{position:absolute;top:-.2em;bottom:-.2em;width:2px;
background:currentColor}
.corevec-card table{border-collapse:collapse;margin:.4em 0;color:inherit;font:inherit}
.corevec-card td,.corevec-card th{padding:.1em .8em .1em 0;text-align:left;
background:none}
"""
# The scale of the card runs from this gap to 1, by powers of ten.
_LEAST_GAP = 1e-8
# The card lists this many problems and counts the others.
_MOST_PARTS = 50

_WHY_STOPPED = {
    StopReason.TOL: "the gap asked for was reached",
    StopReason.BALL_EPSILON: "the paper's rule was met",
    StopReason.MAX_VECTORS: "the largest core set allowed was full",
    StopReason.N_VECTORS: (
        "n_vectors was reached: the model has as many vectors as it was allowed, and "
        "their weights are solved"
    ),
    "n_basis": "all basis vectors allowed were used",  # in older files
    StopReason.MEMORY_BUDGET: (
        "only some of the rows, which fit the memory, decide the weights"
    ),
    StopReason.MAX_ITER: "the rounds allowed were used up",
    StopReason.MAX_TIME: "the time allowed was used up",
    StopReason.INTERRUPT: "it was interrupted",
    StopReason.STALL: "no further progress was possible",
    StopReason.SAMPLE: "the rule was met on a sample of the rows",
    StopReason.ONE_PASS: "it is a method of one pass",
    StopReason.CELLS: "every cell was solved",
}


# Never "converged": nothing was asked about the problem over all rows.
_OF_CELLS = "of each cell, not of the whole problem"


def is_of_cells(certificate: Certificate) -> bool:
    """Whether the problems of cells were certified, each by itself."""
    return certificate.kind == ProblemKind.CELLS


def state_in_words(certificate: Certificate) -> str:
    """Return the first line of a certificate: its state for the whole problem."""
    why = f"(stopped by {certificate.stopped_by})"
    if certificate.stopped_by == StopReason.N_VECTORS:
        why = "(n_vectors reached)"
    if is_of_cells(certificate):
        all_solved = certificate.stopped_by == StopReason.CELLS
        return _OF_CELLS if all_solved else f"{_OF_CELLS} {why}"
    return f"{'converged' if certificate.converged else 'NOT converged'} {why}"


def short_state(certificate: Certificate) -> str:
    """Return the state of a certificate in two words."""
    if is_of_cells(certificate):
        return _OF_CELLS
    if certificate.converged:
        return "converged"
    reached = certificate.stopped_by == StopReason.N_VECTORS
    return "n_vectors reached" if reached else "not converged"


def certificate_card(certificate: Certificate) -> str:
    """Return a certificate as self-contained HTML, with every text escaped.

    Parameters
    ----------
    certificate : Certificate
        The certificate to show.

    Returns
    -------
    str
        One ``div`` with its own style.
    """
    state = short_state(certificate)
    kind = "state yes" if certificate.converged else "state"
    facts = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>"
        for name, value in facts_of(certificate)
    )
    return (
        f'<div class="corevec-card"><style>{_CARD_STYLE}</style>'
        f'<strong>Certificate</strong> <span class="{kind}">{state}</span>'
        f" <span>{escape(stopped_in_words(certificate))}</span>"
        f'<div class="problem">{escape(certificate.problem)}</div>'
        f"{_scale(certificate)}<dl>{facts}</dl>{_parts(certificate)}</div>"
    )


def facts_of(certificate: Certificate) -> list[tuple[str, str]]:
    """Return the content of a certificate, as pairs of a name and a value."""
    rows = f"{certificate.n_verified:,} of {certificate.n_rows:,} rows"
    facts = []
    if math.isfinite(certificate.primal):
        asked = f" ({certificate.tol:g} asked)" if _is_known(certificate.tol) else ""
        optimum, gap = "optimum between", "relative gap"
        if is_of_cells(certificate):
            optimum, gap = "sum of the cells' optima between", "worst gap of a cell"
        facts += [
            (optimum, _between(certificate)),
            (gap, f"{certificate.relative_gap:.3g}{asked}"),
            ("measured on", rows),
            (
                "dual bound",
                f"{certificate.dual_bound}, confidence {certificate.confidence:g}",
            ),
        ]
    else:
        facts.append(("no bound", f"only {rows} were looked at"))
    if certificate.largest_violation is not None:
        worst = f"{certificate.largest_violation:.3g} at most"
        facts.append(("violation", f"{worst}, of an optimality condition"))
    if _is_known(certificate.radius) and _is_known(certificate.ball_epsilon):
        within = f"every row looked at within {1 + certificate.ball_epsilon:.6g} radii"
        facts.append(("ball", f"radius {certificate.radius:.6g}, {within}"))
    work = f"{certificate.passes:.2f} passes over the rows, {certificate.seconds:.2f} s"
    return [*facts, ("work", work)]


def ball_facts(bound: Any) -> list[tuple[str, str]]:
    """Return what is proved about a ball, as pairs of a name and a value."""
    early = ", then it was interrupted" if bound.interrupted else ""
    facts = [
        ("ball", f"every row seen lies within {bound.radius:.6g} of the centre"),
        (
            "smallest ball",
            f"has a radius of {bound.lower_radius:.6g} or more: this one is at most "
            f"{bound.factor:.6g} times as large",
        ),
        ("rows", f"{bound.n_rows:,} seen, each once, in {bound.seconds:.2f} s{early}"),
    ]
    if bound.parts:
        worst = f"the loosest of {len(bound.parts)}, one per class (see .parts)"
        facts.append(("balls", worst))
    said = "not measured here: corevec.certify(model, X, y) measures it, on given rows"
    return [*facts, ("machine", said)]


def ball_card(bound: Any) -> str:
    """Return the bound of a ball as self-contained HTML, with every text escaped."""
    facts = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>"
        for name, value in ball_facts(bound)
    )
    return (
        f'<div class="corevec-card"><style>{_CARD_STYLE}</style>'
        "<strong>Bound of a ball</strong> <span>not of the machine that predicts</span>"
        f"<dl>{facts}</dl></div>"
    )


def stopped_in_words(certificate: Certificate) -> str:
    """Return a sentence that says why the fit ended."""
    why = _WHY_STOPPED.get(certificate.stopped_by)
    if why is None:  # a reason of a later version
        return f"It stopped by {certificate.stopped_by}."
    return f"The fit ended because {why}."


def what_is_proved(certificate: Certificate) -> list[str]:
    """Return sentences about what a certificate proves, and how."""
    if is_of_cells(certificate) and math.isfinite(certificate.primal):
        return _proved_of_cells(certificate)
    said = []
    if not math.isfinite(certificate.primal):
        said.append(
            f"Nothing is proved: only {certificate.n_verified:,} of "
            f"{certificate.n_rows:,} rows were looked at."
        )
    elif certificate.dual_bound == "none":
        said.append(
            f"The model's objective is {certificate.primal:.6g}. How far that is from "
            "the best possible value was not measured, because a lower bound would "
            "have cost too much."
        )
    else:
        said.append(
            f"The best possible value of this problem lies between "
            f"{_between(certificate)}. {_reached(certificate)} the upper end: no other "
            f"model can be lower by more than {share(certificate.relative_gap)}."
        )
        said.append(_how(certificate))
    if _is_known(certificate.tol):
        met = "met" if certificate.converged else "not met"
        said.append(f"A gap of {certificate.tol:g} was asked for: {met}.")
    if certificate.parts:
        done = sum(part.converged for part in certificate.parts)
        said.append(
            f"The model consists of {len(certificate.parts)} such problems; this is "
            f"the worst of them, and {done} of them converged."
        )
    return said


def _proved_of_cells(certificate: Certificate) -> list[str]:
    """Return what is proved about each cell, and about their sum."""
    said = [
        "Each cell is a problem of its own, over the rows in it. No other model of a "
        f"cell can be lower in that cell's objective by more than "
        f"{share(certificate.relative_gap)}; that is the worst of them.",
        "Summed over the cells (the mean over the trees), the best possible values lie "
        f"between {_between(certificate)}. {_how(certificate)}",
    ]
    if _is_known(certificate.tol):
        met = "met" if certificate.relative_gap <= certificate.tol else "not met"
        said.append(f"A gap of {certificate.tol:g} was asked for: {met} in the cells.")
    return said


def what_is_not_proved(certificate: Certificate) -> list[str]:
    """Return sentences about what a certificate does not say."""
    said = []
    if certificate.n_verified < certificate.n_rows:
        said.append(
            f"Nothing about the {certificate.n_rows - certificate.n_verified:,} rows "
            "that were not looked at."
        )
    if is_of_cells(certificate):
        said.append(
            "Anything about the global problem, over all rows at once: that is a "
            "different one, which this model was not made to solve."
        )
    elif not certificate.converged and certificate.stopped_by == StopReason.N_VECTORS:
        said.append(
            "That this is the best machine of all: its weights are solved, and more "
            "vectors may reach a better value, within the bounds above."
        )
    elif not certificate.converged and math.isfinite(certificate.primal):
        said.append(
            "That training is finished: a better value of the objective may exist, "
            "within the bounds above. The model can be used as it is."
        )
    said.append(
        "That the kernel and the parameters are the right ones, or how large the error "
        "on new rows is. A small gap says that training is finished; only rows that "
        "the fit has not seen say how good the model is."
    )
    return said


def share(value: float) -> str:
    """Return a share as a percentage, with as many digits as it needs."""
    if value == 0:
        return "0 %"
    if not math.isfinite(value):
        return "an unknown share"
    return f"{100 * value:.2g} %" if value < 0.995 else f"{100 * value:.0f} %"


def _reached(certificate: Certificate) -> str:
    """Return who reaches the primal value; a ball is never rescaled."""
    if certificate.kind == ProblemKind.BALL:
        return "The model reaches"
    return "The model, at its best scale, reaches"


def _how(certificate: Certificate) -> str:
    rows = f"all {certificate.n_rows:,} rows"
    if certificate.n_verified < certificate.n_rows:
        rows = f"{certificate.n_verified:,} of {certificate.n_rows:,} rows"
    bounds = {
        "exact": "the lower end is the dual value of explicit multipliers",
        "projection": "the lower end is a rigorous bound by projection on the basis",
        "sample": (
            "the lower end was estimated from a sample of the rows and holds with "
            f"probability {certificate.confidence:g}"
        ),
    }
    bound = bounds.get(certificate.dual_bound, "the lower end is a dual value")
    return f"The upper end was measured on {rows}; {bound}."


def _between(certificate: Certificate) -> str:
    return f"{certificate.dual:.8g} and {certificate.primal:.8g}"


def _is_known(value: float) -> bool:
    return math.isfinite(value)


def _scale(certificate: Certificate) -> str:
    """Return a bar for the gap and a tick for the tolerance, by powers of ten."""
    if not math.isfinite(certificate.relative_gap):
        return ""
    tick = ""
    if _is_known(certificate.tol):
        tick = f'<b style="left:{_position(certificate.tol):.1f}%"></b>'
    width = _position(certificate.relative_gap)
    label = f"relative gap {certificate.relative_gap:.3g}, on a scale of powers of ten"
    return (
        f'<div class="scale" role="img" aria-label="{label}" title="{label}">'
        f'<i style="width:{width:.1f}%"></i>{tick}</div>'
    )


def _position(gap: float) -> float:
    decades = -math.log10(_LEAST_GAP)
    inside = min(max(gap, _LEAST_GAP), 1.0)
    return 100 * (1 + math.log10(inside) / decades)


def _parts(certificate: Certificate) -> str:
    parts = certificate.parts
    if not parts:
        return ""
    lines = "".join(
        f"<tr><td>{number}</td><td>{part.dual:.6g}</td><td>{part.primal:.6g}</td>"
        f"<td>{part.relative_gap:.3g}</td>"
        f"<td>{'yes' if part.converged else 'no'}</td></tr>"
        for number, part in enumerate(parts[:_MOST_PARTS], start=1)
    )
    more = len(parts) - _MOST_PARTS
    rest = f"<p>and {more} more, see <code>.parts</code></p>" if more > 0 else ""
    heads = "".join(
        f"<th>{name}</th>" for name in ("", "from", "to", "gap", "converged")
    )
    return (
        f"<details><summary>the worst of {len(parts)} problems</summary>"
        f"<table><tr>{heads}</tr>{lines}</table>{rest}</details>"
    )


__all__ = [
    "ball_card",
    "ball_facts",
    "certificate_card",
    "facts_of",
    "is_of_cells",
    "share",
    "short_state",
    "state_in_words",
    "stopped_in_words",
    "what_is_not_proved",
    "what_is_proved",
]
