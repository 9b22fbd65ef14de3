"""One timed fit: rows in, a model file out, and its summary."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from corevec.cli.console import ball_fields, certificate_fields, note
from corevec.cli.data import Table
from corevec.cli.errors import CliError, ExitCode, data_error, usage_error
from corevec.cli.models import estimator_of, save_model
from corevec.cli.parameters import NOT_OFFERED, is_about_a_parameter
from corevec.models.certificate_text import is_of_cells


@dataclass
class Stages:
    """Wall-clock seconds of each stage of a command."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Measure one stage."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = time.perf_counter() - begun

    def fields(self) -> dict[str, Any]:
        """Return the JSON fields: seconds of the stages, and peak memory in bytes."""
        return {"seconds": self.seconds, "peak_memory_bytes": peak_memory()}


@contextmanager
def explained(
    name: str, model: Any, hint: Callable[[Exception], str] = lambda _: ""
) -> Iterator[None]:
    """Convert the errors of a fit on the data `name` into `CliError`."""
    from corevec.exceptions import CorevecError

    try:
        yield
    except (CorevecError, ValueError) as error:
        if is_about_a_parameter(error, estimator_of(model)):
            raise usage_error(str(error)) from error
        raise data_error(f"{name}: {error}{hint(error)}") from error


@contextmanager
def or_nothing(path: object) -> Iterator[None]:
    """Convert a Ctrl-C into the error that `path` was not written."""
    try:
        yield
    except KeyboardInterrupt:
        raise CliError(
            f"interrupted before there was a model: {path} was not written.",
            ExitCode.INTERRUPTED,
        ) from None


def fit_model(model: Any, table: Table) -> Any:
    """Return the model, fitted on the rows of a table; errors become `CliError`."""
    from sklearn.utils.validation import has_fit_parameter

    estimator = estimator_of(model)
    weights = {}
    if table.sample_weight is not None:
        if not has_fit_parameter(estimator, "sample_weight"):
            raise usage_error(f"{type(estimator).__name__} takes no row weights.")
        prefix = f"{model.steps[-1][0]}__" if hasattr(model, "steps") else ""
        weights = {f"{prefix}sample_weight": table.sample_weight}
    is_regression = _are_targets(estimator, table.y)
    hint = " For numbers as targets: --estimator CoreVectorRegressor."
    with explained(table.name, model, lambda _: hint if is_regression else ""):
        return model.fit(table.X, table.y, **weights)


def _are_targets(estimator: Any, y: Any) -> bool:
    """Whether a classifier was given the real-valued targets of a regression."""
    from sklearn.base import is_classifier
    from sklearn.utils.multiclass import type_of_target

    return is_classifier(estimator) and type_of_target(y) == "continuous"


def write_model(model: Any, path: Path, stages: Stages) -> int:
    """Write the model file; in the native format if another format refuses it."""
    with stages.stage("write"):
        try:
            return save_model(model, path)
        except CliError as error:
            # A long fit must not be lost because, say, LIBSVM lacks the kernel.
            rescue = path.with_name(f"{path.name}.corevec")
            save_model(model, rescue)
            message = f"{error} The model is in {rescue} instead."
            raise CliError(message, error.code) from error


def was_interrupted(model: Any) -> bool:
    """Whether Ctrl-C ended the fit."""
    bound = _ball_bound(model)
    if bound is not None:
        return bool(bound.interrupted)
    certificate = getattr(estimator_of(model), "certificate_", None)
    return certificate is not None and certificate.stopped_by == "interrupt"


def _ball_bound(model: Any) -> Any:
    """Return the ball bound of a streaming model; None for other models."""
    return getattr(estimator_of(model), "ball_bound_", None)


def state_of(model: Any) -> list[str]:
    """Return a line about the certificate of a model, and one about its ball bound."""
    certificate = getattr(estimator_of(model), "certificate_", None)
    lines = [] if certificate is None else [certificate_in_a_line(certificate)]
    bound = _ball_bound(model)
    if bound is not None:
        lines.append(
            f"ball at most {bound.factor:.6g} times as large as the smallest one; the "
            "machine's gap is not measured (`corevec certify` measures it)"
        )
    return lines


def n_vectors(model: Any) -> int | None:
    """Return the number of vectors of the model; None if it has weights only."""
    try:
        return len(getattr(estimator_of(model), "dual_coef_", [[]])[0]) or None
    except (AttributeError, TypeError, IndexError):
        return None


def parameters_of(model: Any) -> dict[str, Any]:
    """Return the parameters of a model that the command line offers.

    Those of a method object stand beside the others, as they do among the options.
    """
    found = estimator_of(model).get_params(deep=False)
    method = found.get("method")
    if hasattr(method, "get_params"):
        found |= {"method": method.name, **method.get_params(deep=False)}
    return {name: value for name, value in found.items() if name not in NOT_OFFERED}


def summary_of_fit(model: Any, seconds: float) -> list[str]:
    """Return the summary of a fit: parameters, time, certificate, size."""
    estimator = estimator_of(model)
    defaults = type(estimator)().get_params(deep=False)
    method: Any = getattr(estimator, "method", None)
    if hasattr(method, "get_params"):
        defaults |= type(method)().get_params(deep=False)
    given = ", ".join(
        f"{name}={value!r}"
        for name, value in parameters_of(model).items()
        if repr(value) != repr(defaults[name])
    )
    lines = [f"fit     {type(estimator).__name__}({given}), {seconds:.2f} s"]
    lines += [f"        {line}" for line in state_of(model)]
    count = n_vectors(model)
    if count:
        lines.append(f"        {count:,} vectors in the model")
    return lines


def certificate_in_a_line(certificate: Any) -> str:
    """Return a one-line summary of a certificate."""
    state = "certified" if certificate.converged else "NOT certified"
    if is_of_cells(certificate):
        state = "certified cell by cell, not as a whole"
    rows = f"{certificate.n_verified:,} of {certificate.n_rows:,} rows"
    asked = f" ({certificate.tol:g} asked)" if certificate.tol > 0 else ""
    gap = "worst gap" if is_of_cells(certificate) else "relative gap"
    why = certificate.stopped_by
    why = "n_vectors reached" if why == "n_vectors" else f"stopped by {why}"
    return (
        f"{state}: {gap} {certificate.relative_gap:.2g}{asked}, measured on {rows}; "
        f"{why}"
    )


def peak_memory() -> int | None:
    """Return the peak memory of this process in bytes; None if it is unknown."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak if sys.platform == "darwin" else 1024 * peak)


def in_bytes(size: float) -> str:
    """Return a size with its unit."""
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.2f} GB"


def ending(model: Any, path: Path, require_certificate: bool) -> ExitCode:
    """Return the exit code of a fit, after a note on how it ended."""
    certificate = getattr(estimator_of(model), "certificate_", None)
    if was_interrupted(model):
        said = "there is no certificate"
        if certificate is not None:
            said = f"its certificate says {certificate_in_a_line(certificate)}"
        note(f"interrupted: the best model so far is saved in {path}; {said}.")
        return ExitCode.INTERRUPTED
    if require_certificate and not (certificate and certificate.converged):
        why, remedy = _why_not_certified(model, certificate)
        note(
            f"not certified, as --require-certificate asks{why}; the model is in "
            f"{path} all the same. {remedy}"
        )
        return ExitCode.NOT_CERTIFIED
    return ExitCode.OK


def _why_not_certified(model: Any, certificate: Any) -> tuple[str, str]:
    """Return why there is no certificate, and the remedy."""
    if certificate is None:
        name = type(estimator_of(model)).__name__
        return (
            f": {name} does not measure its duality gap",
            "Measure it with `corevec certify`, or fit without this option.",
        )
    if is_of_cells(certificate):
        return (
            ": with cells each cell is certified, never the problem over all rows",
            "Fit with --method auto, or without this option.",
        )
    if certificate.stopped_by == "n_vectors":
        return (
            ": n_vectors reached, the weights of the vectors are solved",
            "Allow more vectors (--n-vectors), or ask for less (--tol).",
        )
    return "", "Allow more (--max-time, --memory-budget), or ask for less (--tol)."


def fields_of_fit(model: Any) -> dict[str, Any]:
    """Return the JSON fields of a fitted model."""
    estimator = estimator_of(model)
    certificate = getattr(estimator, "certificate_", None)
    bound = _ball_bound(model)
    ball = {} if bound is None else {"ball_bound": ball_fields(bound)}
    return {
        "estimator": type(estimator).__name__,
        "parameters": parameters_of(model),
        "certificate": None if certificate is None else certificate_fields(certificate),
        **ball,
        "vectors": n_vectors(model),
        "interrupted": was_interrupted(model),
    }
