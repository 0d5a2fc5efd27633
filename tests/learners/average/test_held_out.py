"""Held-out predictions of the average are those that its stated error is of."""

import numpy as np
import pytest
from edited_files import round_trip

from corank import AutoRanker, AutoRegressor
from corank.datasets import make_ranking
from corank.metrics import disagreement_error

pytestmark = pytest.mark.usefixtures("one_blas_thread")
DATA = make_ranking(n_queries=12, query_size=5, random_state=3)
Y = np.where(np.arange(60) % 7 == 3, np.nan, DATA.y)
Y[DATA.qid == 4] = np.nan


@pytest.mark.parametrize("qid", [DATA.qid, None], ids=["queries", "one query"])
def test_the_error_of_a_ranker_is_theirs(qid):
    model = AutoRanker().fit(DATA.X, Y, qid=qid)
    found = model.held_out_predictions_
    np.testing.assert_array_equal(np.isnan(found), np.isnan(Y))
    error = disagreement_error(Y, np.nan_to_num(found), qid=qid)
    assert error == pytest.approx(model.held_out_error_)
    if qid is not None:
        assert np.nanmean(found[qid == 5]) == pytest.approx(0, abs=1e-9)


def test_the_error_of_a_regressor_is_theirs():
    model = AutoRegressor().fit(DATA.X, Y)
    found = model.held_out_predictions_
    assert np.nanmean((found - Y) ** 2) == pytest.approx(model.held_out_error_)


def test_they_belong_to_the_rows_as_they_were_given():
    model = AutoRanker().fit(DATA.X, Y, qid=DATA.qid)
    order = np.random.default_rng(0).permutation(60)
    other = AutoRanker().fit(DATA.X[order], Y[order], qid=DATA.qid[order])
    np.testing.assert_allclose(
        other.held_out_predictions_, model.held_out_predictions_[order], atol=1e-8
    )


def test_rows_that_teach_have_none():
    data = make_ranking(n_queries=120, query_size=5, random_state=3)
    found = AutoRanker().fit(data.X, data.y, qid=data.qid).held_out_predictions_
    judged = np.isfinite(found)
    assert 0.3 < judged.mean() < 0.7
    error = disagreement_error(np.where(judged, data.y, np.nan), np.nan_to_num(found), qid=data.qid)
    assert error < 0.3


def test_files_and_updated_models_have_none(tmp_path):
    model = AutoRanker().fit(DATA.X, Y, qid=DATA.qid)
    again = round_trip(model, tmp_path / "model")
    model.update(DATA.X[:5], DATA.y[:5], qid=DATA.qid[:5])
    for other in (model, again):
        with pytest.raises(AttributeError, match="of rows in memory"):
            other.held_out_predictions_  # noqa: B018
