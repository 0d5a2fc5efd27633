"""Models in words: `summary()`, pages of notebooks, help, names, and labels in the place of row
numbers.
"""

import pydoc

import numpy as np
import pandas as pd
import pytest

import corank
from corank import AutoRanker, CoRankRLS, DifferenceGP, PreferenceGP, RankRLS, View, load
from corank.core.messages import measured, rounded
from corank.datasets import make_ranking, make_two_views
from corank.report import plot_path

pytestmark = pytest.mark.usefixtures("one_blas_thread")

DATA = make_ranking(n_queries=8, query_size=6, n_features=4, scored_share=0.7, random_state=0)
LEARNERS = [
    name
    for name in corank.__all__
    if hasattr(getattr(corank, name), "fit") and not name.endswith("Encoder")
]


def fitted(name):
    few = {"n_atoms": 3} if name.endswith("Pursuit") else {}
    return getattr(corank, name)(**few).fit(DATA.X, DATA.y, qid=DATA.qid)


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.filterwarnings("ignore:.*was tuned to the end of its range.*:UserWarning")
@pytest.mark.filterwarnings("ignore:.*each counts as two queries.*:UserWarning")
def test_every_learner_has_a_summary_and_a_page(name):
    model = fitted(name)
    summary = model.summary()
    assert str(summary).startswith(name)
    assert {"fitted on", "features"} <= set(summary.facts)
    assert "48 rows" in summary.facts["fitted on"] or "32 rows" in summary.facts["fitted on"]
    assert max(map(len, str(summary).split("\n\n")[0].splitlines()[2:])) <= 100
    html = model._repr_mimebundle_()["text/html"]
    assert summary.facts["fitted on"] in html
    assert "sk-container" in html
    assert summary.facts["fitted on"] in summary._repr_html_()


def test_a_model_that_is_not_fitted_has_scikit_learns_page_only():
    html = RankRLS()._repr_mimebundle_()["text/html"]
    assert "sk-container" in html
    assert "fitted on" not in html


def test_the_page_does_not_set_off_the_search_for_the_effect():
    items = make_two_views(
        n_scored=16, n_unscored=30, n_features=5, n_private=2, queries=4, n_test=1, random_state=0
    )
    model = CoRankRLS([View(columns, kernel="linear") for columns in items.views]).fit(
        items.X, items.y, qid=items.qid
    )
    assert "without them" not in model._repr_mimebundle_()["text/html"]
    assert model._effect is None
    effect = str(model.unscored_effect_).removeprefix("unscored rows: ")
    assert model.summary().facts["unscored rows"] == effect
    assert effect[:20] in model._repr_mimebundle_()["text/html"]


def test_a_loaded_model_says_the_same(tmp_path):
    model = fitted("RankRLS")
    model.save(tmp_path / "model.corank")
    assert str(load(tmp_path / "model.corank").summary()) == str(model.summary())


def test_what_an_average_is_made_of_is_in_its_summary():
    model = AutoRanker().fit(DATA.X, DATA.y, qid=DATA.qid)
    facts = model.summary().facts
    assert facts["model"] in model.reason_
    assert model.candidates_[0].what in facts["weights"]


def test_a_path_plots_itself():
    from matplotlib import pyplot as plt

    model = fitted("RankRLS")
    own, other = model.path_.plot(), plot_path(model)
    assert [list(line.get_ydata()) for line in own.lines] == [
        list(line.get_ydata()) for line in other.lines
    ]
    plt.close("all")


def test_dir_shows_what_is_public():
    assert {"RankRLS", "datasets", "report"} <= set(dir(corank))
    assert not {"Any", "import_module", "_PLACES", "TYPE_CHECKING"} & set(dir(corank))
    assert all(hasattr(corank, name) for name in dir(corank))


def test_help_is_not_drowned_in_metadata_routing():
    text = pydoc.plain(pydoc.render_doc(RankRLS))
    assert "versionadded" not in text.split("Methods inherited from sklearn")[0]
    assert "metadata routing" in RankRLS().set_fit_request.__doc__


@pytest.mark.parametrize("name", [name for name in LEARNERS if not name.startswith("Auto")])
def test_the_docstring_of_a_learner_opens_with_its_objective(name):
    before = getattr(corank, name).__doc__.split("Parameters\n")[0]
    assert ".. math::" in before


class TestLabels:
    frame = pd.DataFrame({"x": [0.0, 1.0, 2.0, 3.0]}, index=["a", "b", "c", "d"])

    @pytest.mark.parametrize(
        "learner", [RankRLS(alpha=1.0), DifferenceGP(1.0, 1.0, 0.1), PreferenceGP(1.0, 1.0)]
    )
    def test_of_an_index_say_who_won(self, learner):
        by_label = learner.fit_comparisons(self.frame, ["b", "c", "d"], ["a", "b", "c"]).predict(
            self.frame
        )
        by_row = learner.fit_comparisons(self.frame, [1, 2, 3], [0, 1, 2]).predict(self.frame)
        np.testing.assert_array_equal(by_label, by_row)

    def test_with_views_too(self):
        frame = self.frame.assign(z=[0.0, 2.0, 1.0, 3.0])
        model = CoRankRLS([View(["x"]), View(["z"])], alpha=1.0, agreement=0.0)
        by_label = model.fit_comparisons(frame, ["b", "d"], ["a", "a"], unscored=frame).predict(
            frame
        )
        by_row = model.fit_comparisons(frame, [1, 3], [0, 0], unscored=frame).predict(frame)
        np.testing.assert_array_equal(by_label, by_row)

    def test_that_are_not_there_are_named(self):
        with pytest.raises(ValueError, match="losers holds 'e', which is not a label"):
            RankRLS().fit_comparisons(self.frame, ["a"], ["e"])

    def test_that_stand_there_twice_are_named(self):
        with pytest.raises(ValueError, match="the index of X has 'a' twice"):
            RankRLS().fit_comparisons(self.frame.set_axis(["a", "a", "c", "d"]), ["a"], ["c"])

    def test_need_an_index(self):
        with pytest.raises(ValueError, match="or labels of its index"):
            RankRLS().fit_comparisons(self.frame.to_numpy(), ["a"], ["b"])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (656_192_803_302_487_040.0, "6.56e+17"),
        (-1_234_567.0, "-1.23e+06"),
        (12_345.6, "12,346"),
        (999.9, "1,000"),
        (12.345, "12.3"),
        (0.0123456, "0.0123"),
        (1.23456e-9, "1.23e-09"),
        (0.0, "0.00"),
    ],
)
def test_numbers_have_three_significant_digits_however_large_or_small(value, text):
    assert rounded(value) == text
    assert rounded(value, sign="+").lstrip("+") == text


def test_measures_have_four_decimals_unless_they_are_large_or_tiny():
    assert [measured(value) for value in (0.0, 0.25, 99.0, 123.4, 2e-7, -3e20)] == [
        "0.0000",
        "0.2500",
        "99.0000",
        "123",
        "2.00e-07",
        "-3.00e+20",
    ]
