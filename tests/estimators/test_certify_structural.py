"""`certify` does not promise what it does not do for a StructuralSVM."""

import pytest
from sklearn.datasets import load_iris

from corevec import InvalidInputError, StructuralSVM, certify


def test_certify_points_to_the_certificate_of_a_structural_machine():
    X, y = load_iris(return_X_y=True)
    model = StructuralSVM().fit(X, y)
    with pytest.raises(InvalidInputError, match=r"StructuralSVM .*certificate_\.$"):
        certify(model, X, y)
    assert model.certificate_.relative_gap < 1
