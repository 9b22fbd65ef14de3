"""Models with a learned metric meet scikit-learn's contract."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from corevec import CoreVectorClassifier, CoreVectorRegressor, methods

# Rows are held out at random: two equal rows may be parted, one of weight two is not.
WEIGHTS = {
    f"check_sample_weight_equivalence_on_{kind}_data": (
        "gamma, C and the metric are chosen on random held-out rows, as in a search"
    )
    for kind in ("dense", "sparse")
}


def expected(estimator):
    """Return the checks that fail: the rows of these are few for one machine."""
    return WEIGHTS if isinstance(estimator.method, methods.Cells) else {}


@parametrize_with_checks(
    [
        CoreVectorClassifier(method=methods.Cells(30, metric="learned", tune=True)),
        CoreVectorRegressor(method=methods.Exact(metric="learned", tune=True)),
    ],
    expected_failed_checks=expected,
)
def test_every_check_of_scikit_learn_passes(estimator, check):
    check(estimator)
