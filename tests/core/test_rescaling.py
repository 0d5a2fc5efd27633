"""Numbers of any size: a fit of scores times a plus b, or of columns times c, gives the same order,
or one sentence.
"""

import warnings

import numpy as np
import pytest

from corank import CoRankRLS, RankRLS
from corank.core.registry import learner_class, learner_records

pytestmark = [
    pytest.mark.usefixtures("one_blas_thread"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("error::RuntimeWarning"),
]

RNG = np.random.default_rng(3)
N = 24
X = RNG.normal(size=(N, 3))
Y = X @ [1, -2, 0.5] + 0.3 * RNG.normal(size=N)
QID = np.repeat(np.arange(4), 6)
REFUSED = "compute with|lost in rounding"
SIZES = (
    1e-300,
    1e-200,
    1e-155,
    1e-100,
    1e-59,
    1e-50,
    1e-10,
    1e10,
    1e50,
    3e59,
    1e100,
    1e155,
    1e200,
    1e300,
)
LEVELS = (1e3, 1e6, 1e9, 1e11, 1e12, 1e13, 1e15)
TINY32, HUGE32 = np.float32(1e-30), np.float32(1e30)

# name: features, scores, scores of the fit to compare with, what its predictions are multiplied by
# and what is added
CASES = {f"scores times {a:g}": (X, Y * a, Y, a, 0.0) for a in SIZES}
CASES |= {f"scores plus {b:g}": (X, Y + b, (Y + b) - b, 1.0, b) for b in LEVELS}
CASES |= {f"columns times {c:g}": (X * c, Y, Y, 1.0, 0.0) for c in SIZES}
CASES |= {f"columns plus {b:g}": (X + b, Y, Y, 1.0, 0.0) for b in (1e3, 1e6, 1e9)}
CASES |= {f"both times {a:g}": (X * a, Y * a, Y, a, 0.0) for a in (1e-200, 1e-50, 1e50, 1e200)}
CASES |= {
    f"columns times {c:g}, scores divided": (X * c, Y / c, Y, 1 / c, 0.0)
    for c in (1e-200, 1e-50, 1e50, 1e200)
}
CASES |= {
    f"float32 columns times {c:g}": (X.astype(np.float32) * c, Y, Y, 1.0, 0.0)
    for c in (TINY32, HUGE32)
}
SHIFTED_QUERY = {f"one query plus {b:g}": (X, Y + b * (QID == 2), Y, 1.0, 0.0) for b in (1e9, 1e15)}

SLOW = ("AutoRanker", "AutoRegressor", "CoRankingPursuit", "PreferenceGP", "CoRankRLS")
FEW = (1e-300, 1e-155, 1e-59, 3e59, 1e100, 1e155, 1e300)
FEW_CASES = {name for name in CASES if name.endswith(tuple(f"times {size:g}" for size in FEW))} | {
    "scores plus 1e+15"
}


def predictions(record, features, scores):
    several = {"views": 2} if record.name in ("CoRLS", "CoRankRLS", "CoRankingPursuit") else {}
    learner = learner_class(record.name)(**several)
    scores = np.where(record.unscored & (np.arange(N) % 5 == 0), np.nan, scores)
    fitted = (
        learner.fit(features, scores, qid=QID) if record.ranks else learner.fit(features, scores)
    )
    found = np.asarray(fitted.predict(features), dtype=np.float64)
    return found - found.mean() if record.ranks else found


def every_case():
    for record in learner_records():
        for name, case in (CASES | SHIFTED_QUERY if record.ranks else CASES).items():
            quick = record.name not in SLOW and name in FEW_CASES
            yield pytest.param(
                record, case, id=f"{record.name}-{name}", marks=[] if quick else pytest.mark.slow
            )


@pytest.fixture(scope="module")
def usual():
    """Predictions of fits on numbers of an everyday size, by learner and scores."""
    return {}


@pytest.mark.parametrize(("record", "case"), list(every_case()))
def test_numbers_of_another_size_give_the_same_predictions_or_a_sentence(record, case, usual):
    features, scores, plain, factor, level = case
    key = record.name, plain.tobytes()
    if key not in usual:
        usual[key] = predictions(record, X, plain)
    expected = usual[key]
    try:
        found = predictions(record, features, scores)
    except ValueError as error:
        assert any(word in str(error) for word in REFUSED.split("|")), error  # noqa: PT017
        return
    if record.keeps_scale:
        found = (found - (0.0 if record.ranks else level)) / factor
    tolerance = (1e-2 if features.dtype == np.float32 else 1e-4) * np.std(expected) + 1e-15 * level
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("name", ["X", "y", "sample_weight", "margins"])
@pytest.mark.parametrize("size", [1e-250, 1e250])
def test_the_argument_and_the_size_are_named(name, size):
    values = {"X": X, "y": Y, "sample_weight": np.ones(N), "margins": np.ones(2)}
    values[name] = values[name] * size
    margins = values.pop("margins")
    sign = "+" if size > 1 else "-"
    with pytest.raises(ValueError, match=rf"{name} holds numbers of size .*e\{sign}2[45]"):
        (
            RankRLS().fit_comparisons(X, [0, 1], [2, 3], margins=margins)
            if name == "margins"
            else RankRLS().fit(**values)
        )


def test_new_rows_may_be_small_but_not_huge():
    model = RankRLS().fit(X, Y)
    np.testing.assert_allclose(model.predict(X * 1e-250), model.predict(X * 0), rtol=1e-9)
    with pytest.raises(ValueError, match="X holds numbers of size"):
        model.predict(X * 1e250)


@pytest.mark.parametrize("seed", range(6))
def test_rows_that_are_alike_within_each_query_can_be_tuned(seed):
    rng = np.random.default_rng(seed)
    alike = rng.normal(size=(6, 4))[np.repeat(np.arange(6), 4)]
    scores = np.where(np.arange(24) % 7 == 0, np.nan, rng.normal(size=24))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = CoRankRLS(views=2).fit(alike, scores, qid=np.repeat(np.arange(6), 4)).predict(alike)
    assert np.ptp(found) < 1e-9
