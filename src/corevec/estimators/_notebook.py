"""What a notebook shows of a fitted estimator: its diagram and its certificate."""

from __future__ import annotations

from typing import Any


class ShowsCertificate:
    """Mixin of estimators: the card of the certificate below scikit-learn's diagram.

    To be named in front of ``BaseEstimator``, whose two methods it completes: notebooks
    call the one, and what does not know bundles calls the other.
    """

    def _card(self) -> str:
        """Return the card of what was proved by the fit; nothing before it."""
        names = ("certificate_", "ball_bound_")
        found = next((one for n in names if (one := getattr(self, n, None))), None)
        return "" if found is None else found._repr_html_()

    def _repr_html_inner(self) -> str:
        return f"{super()._repr_html_inner()}{self._card()}"  # type: ignore[misc]

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] += self._card()
        return bundle
