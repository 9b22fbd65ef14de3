"""One small case worked out on paper for each problem.

tol=1e-10, so what is compared is right to about 1e-5 in the coefficients (the gap is
quadratic in them) and to 1e-9 in the values.
"""

import naive
import numpy as np
import pytest
import reading

from corevec import SVDD, CoreVectorClassifier, CoreVectorOneClass

EXACT = {"tol": 1e-10, "random_state": 0}


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e4])
def test_two_opposite_points_on_a_line(C):
    # Q = diag(2 + 1/C): b = 1/(2 + 1/C) twice, f(x) = 2 b x, value b.
    model = CoreVectorClassifier(C=C, kernel="linear", **EXACT)
    reading.fit(model, [[1.0], [-1.0]], [1, -1])
    b = 1 / (2 + 1 / C)
    assert model.certificate_.primal == pytest.approx(b, rel=1e-8)
    assert model.certificate_.dual == pytest.approx(b, rel=1e-8)
    assert np.ravel(model.coef_) == pytest.approx([2 * b], rel=1e-5)
    assert reading.bias(model) == pytest.approx(0.0, abs=1e-6)
    far = model.decision_function([[3.0]])
    assert far == pytest.approx([6 * b], rel=1e-5)


@pytest.mark.parametrize("C", [0.5, 100.0])
def test_two_identical_rows_with_opposite_labels_cancel(C):
    # Q = [[2 + 1/C, -2], [-2, 2 + 1/C]]: b = C twice, f = 0 everywhere, value C.
    model = CoreVectorClassifier(C=C, gamma=1.0, **EXACT)
    reading.fit(model, [[0.0, 5.0], [0.0, 5.0]], [1, -1])
    assert model.certificate_.primal == pytest.approx(C, rel=1e-8)
    assert model.decision_function([[0.0, 5.0]]) == pytest.approx([0.0], abs=1e-6)


def test_three_points_on_a_line_leave_the_far_one_out():
    # x = -1 | 1, 3 with C = 1: the row at 3 has y f > 1. Without it f = 2x/3, f(3) = 2.
    model = CoreVectorClassifier(C=1.0, kernel="linear", **EXACT)
    reading.fit(model, [[-1.0], [1.0], [3.0]], ["left", "right", "right"])
    assert model.certificate_.primal == pytest.approx(1 / 3, rel=1e-8)
    weight = np.zeros(3)
    weight[model.support_] = reading.coefficients(model)
    assert weight == pytest.approx([-1 / 3, 1 / 3, 0.0], abs=1e-5)


@pytest.mark.parametrize("C", [0.1, 1.0, 50.0])
def test_one_class_of_a_single_place(C):
    # n rows at one place, k = 1: Q = 11' + I/C, b = 1/(n + 1/C), value n b / 2.
    model = CoreVectorOneClass(C=C, kernel="rbf", gamma=1.0, **EXACT)
    reading.fit(model, np.ones((3, 2)))
    b = 1 / (3 + 1 / C)
    assert model.certificate_.primal == pytest.approx(1.5 * b, rel=1e-8)
    assert model.score_samples(np.ones((1, 2))) == pytest.approx([3 * b], rel=1e-5)


def test_one_class_of_two_orthogonal_rows():
    # K = I: Q = (1 + 1/C) I, b = C/(C+1) twice, value C/(C+1).
    model = CoreVectorOneClass(C=3.0, kernel="linear", **EXACT)
    reading.fit(model, np.eye(2))
    assert model.certificate_.primal == pytest.approx(0.75, rel=1e-8)
    assert model.score_samples(np.eye(2)) == pytest.approx([0.75, 0.75], rel=1e-5)


def test_the_ball_of_three_points_on_a_line_sits_between_the_ends():
    model = SVDD(kernel="linear", **EXACT)
    reading.fit(model, [[0.0], [1.0], [4.0]])
    assert model.radius_ == pytest.approx(2.0, rel=1e-6)
    assert model.certificate_.primal == pytest.approx(4.0, rel=1e-8)
    inside = model.distance([[2.0], [0.0], [4.0], [7.0]])
    assert inside == pytest.approx([0.0, 2.0, 2.0, 5.0], abs=1e-4)


def test_the_ball_of_an_equilateral_triangle_is_its_circumcircle():
    corners = [[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]]
    model = reading.fit(SVDD(kernel="linear", **EXACT), corners)
    assert model.radius_ == pytest.approx(1 / np.sqrt(3), rel=1e-6)


@pytest.mark.parametrize(("C", "r", "value"), [(1.0, 0.75, 0.875), (0.1, 0.0, 0.2)])
def test_the_soft_ball_of_two_points_and_its_zero_radius(C, r, value):
    # x = -1, 1: d^2 = 1; min r + 2 C (1 - r)^2 has r = 1 - 1/(4 C), 0 if C < 1/4.
    model = SVDD(C=C, kernel="linear", **EXACT)
    reading.fit(model, [[-1.0], [1.0]])
    assert model.certificate_.primal == pytest.approx(value, rel=1e-8)
    assert model.certificate_.dual == pytest.approx(value, rel=1e-8)
    assert model.radius_**2 == pytest.approx(r, abs=1e-4)


def test_a_ball_of_one_place_has_radius_zero():
    model = reading.fit(SVDD(gamma=1.0), np.full((4, 2), 7.0))
    assert model.radius_ == pytest.approx(0.0, abs=1e-7)
    assert (model.predict(np.full((2, 2), 7.0)) == 1).all()
    assert model.predict([[9.0, 9.0]]) == [-1]


def test_four_corners_of_the_exclusive_or_are_all_support_vectors():
    X = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    y = np.array([1, 1, -1, -1])
    model = reading.fit(CoreVectorClassifier(C=10.0, gamma=1.0, **EXACT), X, y)
    # By symmetry b is constant: b (1/C + k(0) + k(2) - 2 k(1)) = 1, the bias is zero.
    k = [np.exp(0.0), np.exp(-1.0), np.exp(-2.0)]
    b = 1 / (0.1 + k[0] + k[2] - 2 * k[1])
    assert model.certificate_.primal == pytest.approx(2 * b, rel=1e-8)
    assert np.abs(reading.coefficients(model)) == pytest.approx([b] * 4, rel=1e-4)
    twin = naive.hinge(naive.gram(X, gamma=1.0), y, 10.0)
    assert twin.primal == pytest.approx(2 * b, rel=1e-9)
