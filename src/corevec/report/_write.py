"""`write_report`: one HTML file about one fitted model."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from corevec.exceptions import InvalidInputError
from corevec.models.certificate_text import ball_facts, is_of_cells, short_state
from corevec.plots import Curves, curves_of, last_step
from corevec.report import _facts, _page, _rows
from corevec.report._results import Results, kind_of, measure


def write_report(
    path: Any,
    model: Any,
    X: Any,
    y: Any = None,
    *,
    X_test: Any = None,
    y_test: Any = None,
    title: str | None = None,
    command: str | None = None,
    data_name: str | None = None,
    seconds: float | None = None,
) -> Path:
    """Write a one-page HTML report of a fitted model and return its path.

    The page describes the data, the parameters, what the certificate proves and what it
    does not, the convergence of the fit (an interactive chart), the results on rows
    (confusion matrix, residuals or a histogram of scores), the size of the model, the
    measured cost of a prediction, and how to repeat the fit. It is self-contained:
    style and script are part of the file, and nothing is fetched.

    Parameters
    ----------
    path : str or path
        File to write; an existing one is replaced.
    model : estimator
        A fitted corevec estimator, or a scikit-learn ``Pipeline`` that ends in one.
        Other fitted models are reported without certificate.
    X : array-like, frame or CSR matrix of shape (n_rows, n_features)
        The training rows.
    y : array-like, optional
        Labels or targets of the training rows; None for detectors.
    X_test : array-like, frame or CSR matrix, optional
        Test rows. Without them the results are those on the training rows, which the
        page says. At most 50,000 rows are used, a random subset.
    y_test : array-like, optional
        Labels or targets of the test rows.
    title : str, optional
        Heading. The default is the estimator and the name of the data.
    command : str, optional
        The command that fitted the model, for the section on how to reproduce it.
    data_name : str, optional
        Name of the data, for example the file.
    seconds : float, optional
        Elapsed time of the fit. The default is that of the certificate.

    Returns
    -------
    pathlib.Path
        The file written.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import make_moons
    >>> from corevec import CoreVectorClassifier
    >>> from corevec.report import write_report
    >>> X, y = make_moons(300, noise=0.2, random_state=0)
    >>> model = CoreVectorClassifier(C=10, random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = write_report(f"{folder}/moons.html", model, X, y)
    ...     "What is proved" in page.read_text()
    True
    """
    subject = _subject(model, X, y, X_test, y_test, data_name)
    name = subject.name
    heading = title or (f"{name} on {data_name}" if data_name else name)
    rows, columns = subject.X.shape
    html = _page.page(
        title=heading,
        over=f"corevec report · {name}",
        subtitle=f"{rows:,} rows, {columns:,} columns"
        + (f" · {data_name}" if data_name and title else ""),
        tiles=_tiles(subject, seconds),
        sections="\n".join(
            [
                _certificate_section(subject),
                _convergence_section(subject),
                _result_section(subject),
                _cost_section(subject),
                _data_section(subject),
                _parameter_section(model),
                _reproduce_section(subject, command),
            ]
        ),
        rounds=_page.rounds_of(subject.curves, subject.certificate),
    )
    target = Path(path)
    target.write_text(html, encoding="utf-8")
    return target


@dataclass(frozen=True)
class _Subject:
    """What a report is about: the model, its rows, and what was measured on them."""

    model: Any
    own: Any  # the last step of a pipeline
    kind: str
    X: Any
    y: Any
    X_test: Any
    data_name: str | None
    found: Results
    speed: float  # microseconds per row
    timed_rows: int

    @property
    def name(self) -> str:
        return type(self.own).__name__

    @property
    def certificate(self) -> Any:
        return getattr(self.own, "certificate_", None)

    @property
    def bound(self) -> Any:
        return getattr(self.own, "ball_bound_", None)

    @cached_property
    def curves(self) -> Curves:
        return curves_of(self.own)


def _subject(
    model: Any, X: Any, y: Any, X_test: Any, y_test: Any, data_name: str | None
) -> _Subject:
    """Check the model and its rows, and measure the predictions."""
    own = last_step(model)
    check_is_fitted(own)
    if not hasattr(model, "predict"):
        raise InvalidInputError(
            f"write_report: {type(own).__name__} has no predict. A report needs a "
            "classifier, regressor, detector or ranker."
        )
    _refuse_unknown_diagonal(own)
    X, X_test = _rows.as_rows(X), None if X_test is None else _rows.as_rows(X_test)
    _check_rows(model, X, y, "X", "y")
    rows, labels = X, y
    if X_test is not None:
        _check_rows(model, X_test, y_test, "X_test", "y_test")
        rows, labels = X_test, y_test
    found = measure(model, rows, labels, is_test=X_test is not None)
    speed, timed = _facts.microseconds_per_row(model, rows)
    kind = kind_of(model)
    return _Subject(model, own, kind, X, y, X_test, data_name, found, speed, timed)


def _refuse_unknown_diagonal(own: Any) -> None:
    """Refuse a ball that needs `diagonal` for every prediction."""
    if getattr(own, "diagonal_", 0.0) is None:
        raise InvalidInputError(
            f"write_report: k(x, x) varies in the precomputed kernel of this "
            f"{type(own).__name__}, so that its predictions need diagonal=, which a "
            "report does not have. Fit it with a named kernel, or on a normalised "
            "matrix, K[i, j] / sqrt(K[i, i] K[j, j])."
        )


def _check_rows(model: Any, X: Any, y: Any, rows: str, labels: str) -> None:
    who = "write_report"
    if X.ndim != 2 or X.shape[0] == 0:
        raise InvalidInputError(
            f"{who}: {rows} has shape {X.shape}, expected (n_rows, n_features) with at "
            "least one row."
        )
    wanted = getattr(model, "n_features_in_", X.shape[1])
    if X.shape[1] != wanted:
        raise InvalidInputError(
            f"{who}: {rows} has {X.shape[1]} columns, the model was fitted on {wanted}."
        )
    if y is None and kind_of(model) in ("classifier", "regressor"):
        raise InvalidInputError(
            f"{who}: {labels} is needed with {rows} for a {kind_of(model)}: labels or "
            "targets, one per row."
        )
    if y is not None and len(y) != X.shape[0]:
        raise InvalidInputError(
            f"{who}: {rows} has {X.shape[0]} rows, {labels} has {len(y)} values."
        )


def _tiles(subject: _Subject, seconds: float | None) -> str:
    certificate, found = subject.certificate, subject.found
    tiles = []
    if certificate is not None:
        tiles.append(_state_tile(certificate))
        gap = "worst gap of a cell" if is_of_cells(certificate) else "relative gap"
        tiles.append(_page.tile(gap, f"{certificate.relative_gap:.2g}"))
    if found.headline is not None:
        tiles.append(_page.tile(*found.headline))
    n_vectors = _facts.n_vectors(subject.model)
    if n_vectors is not None:
        tiles.append(_page.tile("vectors", f"{n_vectors:,}"))
    tiles.append(_page.tile("per prediction", f"{subject.speed:.3g} µs"))
    if seconds is None:
        seconds = getattr(certificate or subject.bound, "seconds", None)
    if seconds is not None:
        tiles.append(_page.tile("elapsed time", f"{seconds:.3g} s"))
    return "".join(tiles)


def _state_tile(certificate: Any) -> str:
    if is_of_cells(certificate):
        return _page.tile("certified", "each cell, not the whole")
    state = "good" if certificate.converged else "bad"
    if certificate.stopped_by == "n_vectors":
        state = ""  # as many vectors as requested: neither
    return _page.tile("training", short_state(certificate), state)


def _certificate_section(subject: _Subject) -> str:
    heading = "Certificate"
    if subject.bound is not None:
        heading = "Bound of the ball"
        said = (
            f"{subject.name} has no certificate: one pass cannot measure the duality "
            "gap. What is proved concerns the ball around the rows seen."
        )
        body = _page.note(said) + _page.facts(ball_facts(subject.bound))
    elif subject.certificate is None:
        said = (
            f"{subject.name} has no certificate. corevec.certify(model, X, y) measures "
            "the gap of many kernel models on given rows."
        )
        body = _page.note(said)
    else:
        body = _page.certificate_words(subject.certificate)
    return _page.section("certificate", heading, body, wide=True)


def _convergence_section(subject: _Subject) -> str:
    if len(subject.curves):
        body = _page.convergence(subject.curves)
    elif hasattr(subject.own, "history_"):
        body = _page.note("The fit needed no round.")
    else:
        body = _page.note("This model has no history of rounds.")
    return _page.section("convergence", "Convergence", body, wide=True)


_RESULT_HEADINGS = {
    "classifier": "Confusion matrix",
    "regressor": "Residuals",
    "detector": "Scores",
}


def _result_section(subject: _Subject) -> str:
    heading, found = _RESULT_HEADINGS.get(subject.kind, "Predictions"), subject.found
    n_classes = len(found.confusion.names) if found.confusion else 0
    is_wide = n_classes > _page.MOST_WITH_SHARES
    return _page.section("results", heading, _page.results(found), wide=is_wide)


def _cost_section(subject: _Subject) -> str:
    timed = f"{subject.timed_rows:,} rows together, measured now"
    cost = _facts.size_facts(subject.model, subject.X)
    cost.append(("time per row", f"{subject.speed:.3g} µs, {timed}"))
    return _page.section("cost", "Size and cost of a prediction", _page.facts(cost))


def _data_section(subject: _Subject) -> str:
    X, y, kind = subject.X, subject.y, subject.kind
    facts = _facts.data_facts(X, y, kind, subject.data_name)
    if subject.X_test is not None:
        facts.append(("test rows", f"{subject.X_test.shape[0]:,}"))
    return _page.section("data", "Data", _page.facts(facts))


def _parameter_section(model: Any) -> str:
    steps = model.steps if isinstance(model, Pipeline) else [("", model)]
    parts = [_page.note("A dot marks what is not the default.")]
    for name, step in steps:
        if isinstance(step, str):  # "passthrough"
            continue
        if name:
            parts.append(f"<h3>{escape(type(step).__name__)}</h3>")
        parts.append(_page.parameters(_facts.parameter_facts(step)))
    found = _facts.found_facts(last_step(model))
    if found:
        parts.append(f"<h3>Found by the fit</h3>{_page.facts(found)}")
    return _page.section("parameters", "Parameters", "".join(parts), wide=True)


def _reproduce_section(subject: _Subject, command: str | None) -> str:
    snippet, parts = _facts.python_snippet(subject.model, subject.kind), []
    if command:
        parts.append(f"<h3>Command</h3>{_page.code(command)}")
    parts.append(f"<h3>Python</h3>{_page.code(snippet)}")
    if getattr(subject.own, "random_state", 0) is None:
        said = "random_state was None: another run may draw other samples."
        parts.append(_page.note(said))
    parts.append(f"<h3>Versions</h3>{_page.facts(_facts.version_facts())}")
    return _page.section("reproduce", "How to reproduce", "".join(parts), wide=True)
