"""Indefinite systems: a larger diagonal, or an error, but an end."""

import numpy as np
import pytest
from scipy import linalg

from corevec import InvalidInputError
from corevec.solvers.numeric import with_jitter


def factored(matrix, tried):
    def attempt(jitter):
        tried.append(jitter)
        own = matrix + jitter * np.eye(len(matrix))
        return linalg.cho_factor(own, lower=True, check_finite=False)[0]

    return attempt


def test_a_definite_matrix_is_factored_as_it_is():
    matrix, tried = np.array([[4.0, 2.0], [2.0, 3.0]]), []
    found = np.tril(with_jitter(factored(matrix, tried), 7.0))
    assert tried == [0.0]
    np.testing.assert_allclose(found @ found.T, matrix, rtol=1e-15)


def test_the_diagonal_grows_until_the_matrix_is_definite():
    matrix, tried = np.diag([1.0, -1e-6]), []
    with_jitter(factored(matrix, tried), 1.0)
    assert tried[-2] <= 1e-6 < tried[-1] <= 1e-5 * (1 + 1e-12)


@pytest.mark.parametrize("entry", [np.nan, np.inf])
def test_entries_that_are_not_finite_are_an_error(entry):
    matrix = np.full((2, 2), entry)
    with pytest.raises(InvalidInputError, match=str(entry)):
        with_jitter(factored(matrix, []), float(np.trace(matrix)))
