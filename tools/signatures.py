"""Print the parameters of every public estimator side by side, with their defaults.

python tools/signatures.py
"""

from __future__ import annotations

import inspect

import corevec
from corevec import methods

KINDS = (
    corevec.CoreVectorClassifier,
    corevec.CoreVectorRegressor,
    corevec.CoreVectorOneClass,
    corevec.SVDD,
    corevec.CoreVectorRanker,
)
WIDTH = 20


def main() -> None:
    """Print a table of the estimators, and the method objects below it."""
    shown = [inspect.signature(kind).parameters for kind in KINDS]
    names = list(dict.fromkeys(name for one in shown for name in one))
    print(
        "".join(f"{text:{WIDTH}}" for text in ("", *(k.__name__[:19] for k in KINDS)))
    )
    for name in names:
        cells = [_default(one[name]) if name in one else "" for one in shown]
        print("".join(f"{text:{WIDTH}}" for text in (name, *cells)))
    print("".join(f"{text:{WIDTH}}" for text in ("", *(str(len(s)) for s in shown))))
    for name in methods.__all__:
        print(f"methods.{name}{inspect.signature(getattr(methods, name))}")


def _default(parameter: inspect.Parameter) -> str:
    mark = "*" if parameter.kind is parameter.KEYWORD_ONLY else ""
    if isinstance(parameter.default, float) and parameter.default > 1e6:
        return f"{mark}{parameter.default:.2g}"
    return f"{mark}{parameter.default!r}"


if __name__ == "__main__":
    main()
