"""Pictures: they show what they say, on an axis that is handed over or on one of their own."""

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("Agg")
from matplotlib import pyplot as plt
from scipy import sparse

from corank import DifferenceGP, PreferenceGP, RankRLS
from corank.metrics import calibration_error, reliability
from corank.report import plot_posterior, plot_reliability

X = np.linspace(0, 1, 12)[:, None]
Y = np.sin(4 * X[:, 0])


@pytest.fixture(autouse=True)
def _closed_figures():
    yield
    plt.close("all")


@pytest.mark.parametrize(
    "model", [PreferenceGP(1.0, 3.0), DifferenceGP(1.0, 3.0, 0.1)], ids=["preference", "difference"]
)
def test_posterior_shows_mean_and_band_without_their_level(model):
    model.fit(X, Y)
    places = np.linspace(0, 1, 50)
    ax = plot_posterior(model, places, label="mean")
    x, y = ax.lines[0].get_data()
    np.testing.assert_array_equal(x, places)
    mean, covariance = model.predict(places[:, None], return_cov=True)
    np.testing.assert_allclose(y, mean - mean.mean())
    centred = covariance - covariance.mean(axis=0)
    centred -= centred.mean(axis=1, keepdims=True)
    band = ax.collections[0].get_paths()[0].vertices
    at = np.isclose(band[:, 0], places[20]) & (band[:, 1] > y[20])
    np.testing.assert_allclose(band[at, 1].max(), y[20] + 2 * np.sqrt(centred[20, 20]), rtol=1e-6)


def test_posterior_takes_an_axis_and_any_order_of_places():
    model = PreferenceGP(1.0, 3.0).fit(sparse.csr_array(X), Y)
    _, ax = plt.subplots()
    assert plot_posterior(model, [0.5, 0.1, 0.9], ax=ax) is ax
    assert (np.diff(ax.lines[0].get_xdata()) > 0).all()


def test_posterior_refuses_what_it_cannot_show():
    with pytest.raises(ValueError, match="one column"):
        plot_posterior(PreferenceGP(1.0, 3.0).fit(np.hstack([X, X]), Y))
    with pytest.raises(ValueError, match="PreferenceGP or DifferenceGP"):
        plot_posterior(RankRLS(1.0).fit(X, Y))
    with pytest.raises(ValueError, match="X has no rows"):
        plot_posterior(PreferenceGP(1.0, 3.0).fit(X, Y), [])


def test_reliability_counts_what_came_true():
    came_true = np.array([0, 1, 1, 1, 0, np.nan])
    probability = np.array([0.1, 0.15, 0.9, 1.0, 0.95, 0.5])
    found = reliability(came_true, probability)
    np.testing.assert_allclose(found.predicted, [0.125, 0.95])
    np.testing.assert_allclose(found.observed, [0.5, 2 / 3])
    np.testing.assert_array_equal(found.counts, [2, 3])
    assert (found.interval[0] < found.observed).all()
    assert (found.interval[1] > found.observed).all()
    np.testing.assert_allclose(
        calibration_error(came_true, probability), (2 * 0.375 + 3 * (0.95 - 2 / 3)) / 5
    )


def test_probabilities_that_are_right_have_a_small_error():
    rng = np.random.default_rng(0)
    probability = rng.random(200_000)
    assert calibration_error(rng.random(200_000) < probability, probability) < 0.01


@pytest.mark.parametrize(
    ("came_true", "probability", "bins", "message"),
    [
        ([0, 2], [0.1, 0.2], 10, "y_true has values other than 0 and 1"),
        ([0, 1], [0.1, 1.2], 10, "y_prob has values that are no probabilities"),
        ([0, 1], [0.1, np.nan], 10, "y_prob"),
        ([0, 1], [0.1], 10, "y_prob"),
        ([np.nan], [0.5], 10, "y_true has no row"),
        ([0, 1], [0.1, 0.2], 0, "n_bins"),
    ],
)
def test_reliability_refuses(came_true, probability, bins, message):
    with pytest.raises(ValueError, match=message):
        reliability(came_true, probability, bins)


def test_reliability_is_drawn_several_times_on_one_axis():
    rng = np.random.default_rng(0)
    probability = rng.random(1_000)
    ax = plot_reliability(rng.random(1_000) < probability, probability, label="right")
    assert plot_reliability(rng.random(1_000) < 0.5, probability, ax=ax, label="wrong") is ax
    words = [text.get_text() for text in ax.get_legend().get_texts()]
    assert words[0] == "perfect"
    assert words[1].startswith("right: 0.0")
    assert words[2].startswith("wrong: 0.2")
