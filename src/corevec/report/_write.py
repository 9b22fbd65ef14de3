"""`write_report`: one HTML file about one fitted model."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from corevec.exceptions import InvalidInputError
from corevec.models.certificate_text import ball_facts, is_of_cells, short_state
from corevec.plots._history import curves_of
from corevec.plots._model import last_step
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
    if X_test is not None:
        _check_rows(model, X_test, y_test, "X_test", "y_test")
    name = type(own).__name__
    kind = kind_of(model)
    found = _measured(model, X, y, X_test, y_test)
    speed, timed = _facts.microseconds_per_row(model, X if X_test is None else X_test)
    certificate = getattr(own, "certificate_", None)
    bound = getattr(own, "ball_bound_", None)
    if seconds is None:
        seconds = getattr(certificate or bound, "seconds", None)
    curves = curves_of(own)
    heading = title or (f"{name} on {data_name}" if data_name else name)
    cost = [
        *_facts.size_facts(model, X),
        ("time per row", f"{speed:.3g} µs, {timed:,} rows together, measured now"),
    ]
    sections = [
        _certificate_section(certificate, bound, name),
        _convergence_section(curves, own),
        _result_section(found, kind),
        _page.section("cost", "Size and cost of a prediction", _page.facts(cost)),
        _data_section(X, y, X_test, kind, data_name),
        _parameter_section(model),
        _reproduce_section(model, kind, command),
    ]
    html = _page.page(
        title=heading,
        over=f"corevec report · {name}",
        subtitle=f"{X.shape[0]:,} rows, {X.shape[1]:,} columns"
        + (f" · {data_name}" if data_name and title else ""),
        tiles=_tiles(certificate, found, _facts.n_vectors(model), speed, seconds),
        sections="\n".join(sections),
        rounds=_page.rounds_of(curves, certificate),
    )
    target = Path(path)
    target.write_text(html, encoding="utf-8")
    return target


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


def _measured(model: Any, X: Any, y: Any, X_test: Any, y_test: Any) -> Results:
    if X_test is not None:
        return measure(model, X_test, y_test, is_test=True)
    return measure(model, X, y, is_test=False)


def _tiles(
    certificate: Any,
    found: Results,
    n_vectors: int | None,
    speed: float,
    seconds: float | None,
) -> str:
    tiles = []
    if certificate is not None:
        tiles.append(_state_tile(certificate))
        gap = "worst gap of a cell" if is_of_cells(certificate) else "relative gap"
        tiles.append(_page.tile(gap, f"{certificate.relative_gap:.2g}"))
    if found.headline is not None:
        tiles.append(_page.tile(*found.headline))
    if n_vectors is not None:
        tiles.append(_page.tile("vectors", f"{n_vectors:,}"))
    tiles.append(_page.tile("per prediction", f"{speed:.3g} µs"))
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


def _certificate_section(certificate: Any, bound: Any, name: str) -> str:
    if bound is not None:
        said = (
            f"{name} has no certificate: one pass cannot measure the duality gap. What "
            "is proved concerns the ball around the rows seen."
        )
        body = _page.note(said) + _page.facts(ball_facts(bound))
        return _page.section("certificate", "Bound of the ball", body, wide=True)
    if certificate is None:
        said = (
            f"{name} has no certificate. corevec.certify(model, X, y) measures the gap "
            "of many kernel models on given rows."
        )
        return _page.section("certificate", "Certificate", _page.note(said), wide=True)
    body = _page.certificate_words(certificate)
    return _page.section("certificate", "Certificate", body, wide=True)


def _convergence_section(curves: Any, own: Any) -> str:
    if len(curves):
        body = _page.convergence(curves)
    elif hasattr(own, "history_"):
        body = _page.note("The fit needed no round.")
    else:
        body = _page.note("This model has no history of rounds.")
    return _page.section("convergence", "Convergence", body, wide=True)


def _result_section(found: Results, kind: str) -> str:
    headings = {
        "classifier": "Confusion matrix",
        "regressor": "Residuals",
        "detector": "Scores",
    }
    n_classes = len(found.confusion.names) if found.confusion else 0
    return _page.section(
        "results",
        headings.get(kind, "Predictions"),
        _page.results(found),
        wide=n_classes > _page.MOST_WITH_SHARES,
    )


def _data_section(X: Any, y: Any, X_test: Any, kind: str, name: str | None) -> str:
    facts = _facts.data_facts(X, y, kind, name)
    if X_test is not None:
        facts.append(("test rows", f"{X_test.shape[0]:,}"))
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


def _reproduce_section(model: Any, kind: str, command: str | None) -> str:
    parts = []
    if command:
        parts.append(f"<h3>Command</h3>{_page.code(command)}")
    parts.append(f"<h3>Python</h3>{_page.code(_facts.python_snippet(model, kind))}")
    if getattr(last_step(model), "random_state", 0) is None:
        said = "random_state was None: another run may draw other samples."
        parts.append(_page.note(said))
    parts.append(f"<h3>Versions</h3>{_page.facts(_facts.version_facts())}")
    return _page.section("reproduce", "How to reproduce", "".join(parts), wide=True)
