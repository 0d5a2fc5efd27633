"""Entries that a NumPy masked array masks count for nothing: scores are unscored, cells of tables
missing, others refused.
"""

from functools import cache

import numpy as np
import pandas as pd
import pytest

from corank import (
    AutoRanker,
    AutoRegressor,
    CoRankRLS,
    PreferenceGP,
    RankRLS,
    TableEncoder,
    column_effects,
    side_by_side,
)
from corank.core.arrays import digest
from corank.core.registry import learner_class, learner_records
from corank.experiments import Items
from corank.links import read_links
from corank.metrics import average_precision, calibration_error, disagreement_error, ndcg

pytestmark = pytest.mark.usefixtures("one_blas_thread")

RNG = np.random.default_rng(5)
N = 24
X, Y, QID = RNG.normal(size=(N, 4)), np.round(3 * RNG.normal(size=N)), np.repeat(np.arange(4), 6)
HIDDEN = np.isin(np.arange(N), [1, 8, 9, 15, 20])
WITH_NAN = np.where(HIDDEN, np.nan, Y)
WINNERS, LOSERS = np.arange(0, 20), np.arange(1, 21)


def masked(values, hidden=HIDDEN):
    """What is masked would change everything if it counted."""
    values = np.ma.array(
        values,
        mask=np.broadcast_to(
            np.reshape(hidden, (-1, *[1] * (np.ndim(values) - 1))), np.shape(values)
        ),
    )
    values.data[values.mask] = 1_000
    return values


def first(length):
    return np.arange(length) == 0


FORMS = {
    "floats": lambda: masked(Y.copy()),
    "integers": lambda: masked(Y.astype(np.int64)),
    "objects": lambda: masked(Y.astype(object)),
    "a column": lambda: masked(Y[:, None].copy())[:, 0],
    "a list": lambda: [
        np.ma.masked if hidden else score for hidden, score in zip(HIDDEN, Y, strict=True)
    ],
}


@pytest.mark.parametrize("name", [record.name for record in learner_records() if record.in_files])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_masked_scores_are_unscored(name):
    learner = learner_class(name)
    expected, found = (learner().fit(X, scores, qid=QID) for scores in (WITH_NAN, masked(Y.copy())))
    np.testing.assert_array_equal(found.predict(X), expected.predict(X))
    scores = [
        model.score(X, y, qid=QID) for model, y in ((expected, WITH_NAN), (found, masked(Y.copy())))
    ]
    assert scores[0] == scores[1]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("learner", [RankRLS, AutoRegressor])
def test_masked_scores_may_be_of_any_type(learner, form):
    expected, found = (learner().fit(X, scores, qid=QID) for scores in (WITH_NAN, FORMS[form]()))
    np.testing.assert_array_equal(found.predict(X), expected.predict(X))


def test_masked_scores_of_each_view_are_unscored():
    both = np.stack([Y, np.roll(Y, 1)], axis=1)
    expected, found = (
        CoRankRLS(alpha=1.0, agreement=0.1).fit(X, scores, qid=QID)
        for scores in (np.where(HIDDEN[:, None], np.nan, both), masked(both.copy()))
    )
    np.testing.assert_array_equal(found.predict(X), expected.predict(X))


@pytest.mark.parametrize("learner", [RankRLS(1.0), AutoRanker()], ids=["RankRLS", "AutoRanker"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_masked_scores_of_an_update_are_left_out(learner):
    expected, found = (
        learner.fit(X, Y, qid=QID).update(X, scores, qid=QID).predict(X)
        for scores in (WITH_NAN, masked(Y.copy()))
    )
    np.testing.assert_array_equal(found, expected)


def test_all_masked_scores_are_no_scores():
    with pytest.raises(ValueError, match="y has no scored row"):
        RankRLS(1.0).fit(X, masked(Y.copy(), np.ones(N, dtype=bool)))


def test_an_array_without_masked_entries_is_an_array():
    plain = np.ma.array
    model = RankRLS(1.0).fit(plain(X), plain(Y), qid=plain(QID), sample_weight=plain(np.ones(N)))
    expected = RankRLS(1.0).fit(X, Y, qid=QID, sample_weight=np.ones(N))
    np.testing.assert_array_equal(model.predict(plain(X)), expected.predict(X))


def test_masked_cells_of_a_table_are_missing():
    hidden = masked(X[:, 0].copy())
    table = {"a": hidden, "b": X[:, 1]}
    filled = pd.DataFrame({"a": np.where(HIDDEN, np.nan, X[:, 0]), "b": X[:, 1]})
    np.testing.assert_array_equal(
        TableEncoder().fit_transform(table), TableEncoder().fit_transform(filled)
    )
    # what the message says to do
    frame = pd.DataFrame(np.ma.array(X, mask=HIDDEN[:, None] * [True, False, False, False])).rename(
        columns=str
    )
    assert np.all(np.isfinite(AutoRegressor().fit(frame, Y).predict(frame)))


@cache
def fitted(learner):
    return learner().fit(X, Y, qid=QID)


COMPARED = {
    "X": X,
    "winners": WINNERS,
    "losers": LOSERS,
    "margins": np.ones(20),
    "weights": np.ones(20),
}


def compare(learner, name):
    values = COMPARED[name]
    return learner().fit_comparisons(
        **{**COMPARED, name: masked(values.copy(), first(len(values)))}
    )


REFUSED = {
    "fit X": (
        "X has masked entries, first in row 1, column 0; fill in",
        lambda L: L().fit(masked(X.copy()), Y),
    ),
    "fit rows of X": ("X has masked entries", lambda L: L().fit(list(masked(X.copy())), Y)),
    "fit sample_weight": (
        "sample_weight has masked",
        lambda L: L().fit(X, Y, sample_weight=masked(np.ones(N))),
    ),
    "fit qid": (
        "qid has masked entries, first in row 1; give",
        lambda L: L().fit(X, Y, qid=masked(QID.copy())),
    ),
    "fit text qid": ("qid has masked", lambda L: L().fit(X, Y, qid=masked(QID.astype("U9")))),
    "fit list qid": ("qid has masked", lambda L: L().fit(X, Y, qid=[np.ma.masked, *QID[1:]])),
    "predict": ("X has masked", lambda L: fitted(L).predict(masked(X.copy()))),
    "score X": ("X has masked", lambda L: fitted(L).score(masked(X.copy()), Y, qid=QID)),
    "score sample_weight": (
        "sample_weight has masked",
        lambda L: fitted(L).score(X, Y, qid=QID, sample_weight=masked(np.ones(N))),
    ),
    "score qid": ("qid has masked", lambda L: fitted(L).score(X, Y, qid=masked(QID.copy()))),
    "update X": ("X has masked", lambda L: fitted(L).update(masked(X.copy()), Y, qid=QID)),
    "explain_pair": (
        "a has masked",
        lambda L: fitted(L).explain_pair(masked(X[0].copy(), first(4)), X[1]),
    ),
    **{
        f"comparisons {name}": (f"{name} has masked", lambda L, name=name: compare(L, name))
        for name in COMPARED
    },
}


@pytest.mark.parametrize("learner", [RankRLS, AutoRanker])
@pytest.mark.parametrize("what", REFUSED)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_other_masked_entries_are_refused(learner, what):
    message, call = REFUSED[what]
    with pytest.raises(ValueError, match=message):
        call(learner)


@pytest.mark.parametrize(
    ("message", "call"),
    [
        ("unscored does not fit X: X has masked", lambda: AutoRanker().fit(X, Y, unscored=masked(X.copy()))),
        ("unscored.*X has masked", lambda: CoRankRLS(alpha=1.0).fit(X, Y, unscored=masked(X.copy()))),
        ("unscored, chunk 1: .*X has masked", lambda: CoRankRLS(alpha=1.0).fit(X, Y, unscored=[X, masked(X.copy())])),
        (
            "unscored_qid has masked|qid of unscored has masked",
            lambda: CoRankRLS(alpha=1.0).fit(X, Y, qid=QID, unscored=X, unscored_qid=masked(QID.copy())),
        ),
        ("weights has masked", lambda: PreferenceGP().fit_comparisons(X, WINNERS, LOSERS, weights=masked(np.ones(20), first(20)))),
        (r"arrays\[1\] has masked", lambda: side_by_side([X, masked(X.copy())])),
        ("X has masked", lambda: fitted(AutoRanker).suggest(masked(X.copy()))),
        ("X has masked", lambda: column_effects(fitted(RankRLS), masked(X.copy()), Y)),
        ("X has masked", lambda: Items(masked(X.copy()), Y)),
        ("qid has masked", lambda: Items(X, Y, masked(QID.copy()))),
        ("links has masked", lambda: read_links(masked(np.stack([WINNERS, LOSERS], axis=1), first(20)), N)),
        ("y_score has masked", lambda: disagreement_error(Y, masked(Y.copy()))),
        ("sample_weight has masked", lambda: disagreement_error(Y, Y, sample_weight=masked(np.ones(N)))),
        ("qid has masked", lambda: disagreement_error(Y, Y, masked(QID.copy()))),
        ("y_prob has masked", lambda: calibration_error(Y > 0, masked(np.full(N, 0.5)))),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_masked_entries_are_refused_elsewhere(message, call):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    "measure", [disagreement_error, ndcg, average_precision, calibration_error]
)
def test_metrics_leave_masked_true_scores_out(measure):
    relevant = (Y > 0).astype(np.int64)
    predicted = (X[:, 0] - X[:, 0].min()) / np.ptp(X[:, 0])
    expected = measure(np.where(HIDDEN, np.nan, relevant), predicted)
    assert measure(masked(relevant.copy()), predicted) == expected
    assert measure(masked(relevant.astype(float)), predicted) == expected


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_masked_scores_do_not_count_in_comparisons_of_methods_and_effects_of_columns():
    np.testing.assert_array_equal(Items(X, masked(Y.copy())).y, WITH_NAN)
    expected, found = (
        column_effects(fitted(RankRLS), X, scores) for scores in (WITH_NAN, masked(Y.copy()))
    )
    assert [effect.in_words() for effect in found] == [effect.in_words() for effect in expected]


def test_a_digest_tells_masks_apart():
    assert digest(masked(Y.copy())) != digest(masked(Y.copy()).data)
    assert digest(np.ma.array(Y)) == digest(Y)


def test_masked_entries_of_dask_collections_are_those_of_arrays():
    collections = pytest.importorskip("dask.array")

    def spread(values):
        return collections.from_array(values, chunks=8, asarray=False)

    expected, found = (
        RankRLS(1.0, basis=8).fit(spread(X), spread(scores), qid=spread(QID)).predict(X)
        for scores in (WITH_NAN, masked(Y.copy()))
    )
    np.testing.assert_array_equal(found, expected)
    with pytest.raises(ValueError, match="X has masked"):
        RankRLS(1.0, basis=8).fit(spread(masked(X.copy())), spread(Y), qid=spread(QID))
