"""scikit-learn's own checks, for every learner."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from corank import RLS, RankRLS

ROWS_DRAWN = "three basis rows are drawn by row number, and repeating rows changes those numbers"


def allowed_failures(estimator):
    if estimator.get_params()["basis"] != 3:
        return {}
    return {f"check_sample_weight_equivalence_on_{kind}_data": ROWS_DRAWN for kind in ("dense", "sparse")}


@parametrize_with_checks(
    [
        RLS(),
        RLS(alpha=1.0),
        RLS(kernel="linear", basis="features"),
        RankRLS(),
        RankRLS(alpha=1.0),
        RankRLS(basis=3),
        RankRLS(beta=0.5),
    ],
    expected_failed_checks=allowed_failures,
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)
