"""``python -m torture --problems 10000 --seed 0``: fit, judge, count, repeat."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

import corevec
from corevec.exceptions import CorevecError
from torture import estimators, judge, problems

# Of 300 rows a good fit takes milliseconds, the worst some seconds. Processor time: on
# a busy machine, or one that freezes processes, elapsed time says nothing.
SECONDS, SLOW_SECONDS = 60, 25


class TooLongError(BaseException):
    """Raised by the alarm; no `except Exception` of the library may catch it."""


def one(seed, only=(), folder=None):
    """Return (estimator, finding, bracket) of the problem of a seed."""
    rng = np.random.default_rng(seed)
    found = problems.data(rng)
    trial = estimators.trial(rng, found, only)
    name = type(trial.model).__name__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", corevec.NotCertifiedWarning)
        try:
            X = problems.place_of(found, folder)
            model = trial.fit(trial.model, X)
            certificate, finding = certificate_of(model, trial, found, X)
            finding = finding or predicts(model, found, X)
        except CorevecError as error:
            return name, unclear(error, trial.model), np.inf, "refused"
        except TooLongError as error:
            at = traceback.extract_tb(error.__traceback__)[-2]
            where = f"{Path(at.filename).name}:{at.lineno}"
            return name, f"hang: more than {SECONDS} s at {where}", np.inf, "hang"
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            own = [f for f in frames if "corevec/" in f.filename.replace("\\", "/")]
            place = (own or frames)[-1]
            at = f"{Path(place.filename).name}:{place.lineno}"
            text = f"crash: {type(error).__name__} at {at}: {str(error)[:200]}"
            return name, text, np.inf, "crash"
    if finding:
        return name, finding, np.inf, "false"
    with np.errstate(all="ignore"):  # of candidates that are no good
        finding, bracket = judged(model, trial, found, certificate)
    done = certificate is not None and certificate.converged
    return name, finding, bracket, "converged" if done else "not converged"


def certificate_of(model, trial, found, X):
    """Return the certificate of a fitted model; a text if there is a contradiction."""
    if trial.task == "none":
        return None, ""
    if trial.task == "certify":
        return corevec.certify(model, X, found.classes, found.weights), ""
    certificate = model.certificate_
    if trial.task == "violation":  # LIBSVM's criterion, measured on all rows
        parts = judge.parts_of(certificate)
        reached = max(part.largest_violation for part in parts)
        if certificate.converged and not reached <= model.tol:
            return certificate, f"converged at violation {reached} > {model.tol}"
    elif certificate.converged and not certificate.relative_gap <= model.tol:
        return certificate, f"converged at gap {certificate.relative_gap} > {model.tol}"
    if certificate.primal < certificate.dual * (1 - 1e-14 * np.sign(certificate.dual)):
        return certificate, f"primal {certificate.primal} < dual {certificate.dual}"
    return certificate, ""


def predicts(model, found, X):
    """Ask for predictions of the training rows; return what is wrong with them."""
    ask = next(
        (
            a
            for a in ("decision_function", "predict", "score_samples")
            if hasattr(model, a)
        ),
        None,
    )
    values = getattr(model, ask)(X)
    values = judge.dense(values.compute() if hasattr(values, "compute") else values)
    if len(values) != len(found.X) or not np.isfinite(values).all():
        return f"{ask} returned {np.asarray(values).ravel()[:5]}"
    return ""


def judged(model, trial, found, certificate):
    """Return the first finding about the claims of a model, and the bracket."""
    if trial.task == "none":
        return "", np.inf
    if trial.task == "ball":
        found_out = judge.judge_ball(model, found, certificate)
        return found_out.wrong, found_out.bracket
    worst = 0.0
    for claim in trial.claims(model, found, certificate, **trial.options):
        candidates = judge.candidates_for(claim, found)
        told = judge.judge(claim, candidates)
        if told.wrong:
            return told.wrong, told.bracket
        worst = max(worst, abs(told.bracket))
    return "", worst


def unclear(error, model):
    """Return what a refusal lacks: the class, the parameter or its value."""
    text = str(error)
    if type(model).__name__ not in text:
        return f"unclear refusal, no class: {text[:200]}"
    if error.parameter and error.parameter not in text:
        return f"unclear refusal, no parameter {error.parameter}: {text[:200]}"
    return ""


def words_of(seed, only):
    """Return the parameters of the problem of a seed, to repeat it by hand."""
    rng = np.random.default_rng(seed)
    found = problems.data(rng)
    return f"{found.words} {estimators.trial(rng, found, only).model!r}"


def run(first, count, only=(), *, loud=True):
    """Return counts, the findings and the brackets of consecutive seeds."""

    def alarm(*_):
        raise TooLongError

    signal.signal(signal.SIGPROF, alarm)
    # Compiled loops are loaded, or compiled, outside of the limit.
    X = np.random.default_rng(0).normal(size=(40, 2))
    for kernel in ("rbf", "linear"):
        corevec.CoreVectorClassifier(kernel=kernel, tol=0.5).fit(X, X[:, 0] > 0)
        corevec.CoreVectorRanker(kernel=kernel, tol=0.5).fit(X, X[:, 0])
    counts, findings, brackets = Counter(), [], []
    with tempfile.TemporaryDirectory(prefix="corevec-torture-") as folder:
        for seed in range(first, first + count):
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            begun = time.process_time()
            try:
                name, finding, bracket, what = one(seed, only, folder)
            except TooLongError:  # the evaluator's time, not the library's
                name, finding, bracket, what = "any", "", np.inf, "not judged in time"
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
            seconds = time.process_time() - begun
            counts[name, what] += 1
            brackets.append(bracket)
            if finding or seconds > SLOW_SECONDS:
                text = " ".join(f"{finding} ({seconds:.1f} s)".split())
                findings.append((seed, name, text))
                if loud:
                    print(f"{seed}\t{name}\t{text}", flush=True)
    return counts, findings, np.array(brackets)


def main() -> int:
    """Read the words of the command line and torture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0, help="of the first problem")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", default="", help="estimators, with commas")
    parser.add_argument("--words", action="store_true", help="print the first problem")
    words = parser.parse_args()
    only = tuple(filter(None, words.only.split(",")))
    if words.words:
        print(words_of(words.seed, only))
    begun = time.perf_counter()
    if words.jobs > 1:
        from joblib import Parallel, delayed

        each = -(-words.problems // words.jobs)
        starts = [words.seed + job * each for job in range(words.jobs)]
        parts = Parallel(words.jobs)(
            delayed(run)(start, each, only) for start in starts
        )
    else:
        parts = [run(words.seed, words.problems, only)]
    counts, findings = Counter(), []
    for part, found, _ in parts:
        counts.update(part)
        findings += found
    brackets = np.concatenate([part[2] for part in parts])
    for (name, what), number in sorted(counts.items()):
        print(f"{name:<26}{what:<15}{number:>8,}")
    tight = np.mean(brackets < 1e-6)
    print(f"own bracket of the optimum below 1e-6: {tight:.0%} of the problems")
    seconds = time.perf_counter() - begun
    print(
        f"{sum(counts.values()):,} problems, {len(findings)} findings, {seconds:.0f} s"
    )
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
