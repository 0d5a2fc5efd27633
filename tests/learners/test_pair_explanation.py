"""Why one item is above another: parts sum to the difference, for every learner, and are what they
are said to be.
"""

import json
import math
import warnings
from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from edited_files import round_trip
from golden.fits import FITS, HALF, NEW, X, Y, _converted
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.metrics.pairwise import rbf_kernel

from corank import (
    RLS,
    CoRLS,
    DifferenceGP,
    MatchingPursuit,
    PreferenceGP,
    RankRLS,
    TableEncoder,
    View,
)
from corank.core.arrays import to_numpy
from corank.core.registry import learner_records
from corank.learners import pair_explanation
from corank.learners.pair_explanation import ALL_COLUMNS, OTHERWISE, mixed_rows, shapley_values

pytestmark = pytest.mark.usefixtures("one_blas_thread")

TOLERANCE = 1e-9  # of the spread of predictions
DETAILS = (
    "default",
    "widths",
    "by-row",
    "weights",
    "disagreement",
    "scan",
    "ridge",
    "final",
    "basic",
    "pre",
    "paper",
)
CHOSEN = [
    name
    for name, fit in FITS.items()
    if fit.asks is None and fit.table is None and not any(detail in name for detail in DETAILS)
]


def check_sums(explanation, difference, spread):
    for parts in (explanation.by_item, explanation.by_view, explanation.by_column):
        assert abs(math.fsum(part.value for part in parts) - difference) <= TOLERANCE * spread
        assert OTHERWISE not in [part.name for part in parts]
        sizes = [abs(part.value) for part in parts]
        assert sizes == sorted(sizes, reverse=True)
    assert abs(explanation.difference - difference) <= TOLERANCE * spread


def by_name(parts):
    return {part.name: part.value for part in parts}


# ---- sums


def test_every_learner_is_looked_at():
    assert {FITS[name].learner.__name__ for name in CHOSEN} == {
        record.name for record in learner_records()
    }


@pytest.mark.parametrize("name", CHOSEN)
def test_parts_sum_to_the_difference(name):
    fit = FITS[name]
    if fit.rows == "torch":
        pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = fit.learner(**fit.parameters)
        getattr(model, fit.method)(_converted(X, fit.rows), **fit.given)
    rows = _converted(NEW, fit.rows)
    predictions = to_numpy(model.predict(rows))
    explanation = model.explain_pair(rows[[3]], rows[[7]])
    check_sums(explanation, predictions[3] - predictions[7], np.ptp(predictions))
    assert {part.name for part in explanation.by_column} <= {f"column {at}" for at in range(5)}


def half(rows, points):
    return rbf_kernel(rows, points, gamma=0.2) / 2


OTHERS = {
    "own kernel": lambda: RankRLS(1.0, kernel=half).fit(X, Y),
    "polynomial": lambda: RLS(1.0, kernel="poly", gamma=0.1).fit(X, Y),
    "a width per column": lambda: DifferenceGP(1.0, "columns", 0.1).fit(X, Y),
    "several widths": lambda: PreferenceGP(2.0, average_width=True).fit(X, Y),
    "functions": lambda: MatchingPursuit(3, dictionary=np.sin).fit(X, Y),
    "no atoms": lambda: MatchingPursuit(1, dictionary=np.zeros_like).fit(X, Y),
    "linear view beside another": (
        lambda: CoRLS([View([0, 1], "linear"), View([2, 3, 4])], 0.3, 0.1).fit(X, HALF)
    ),
}


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.filterwarnings("ignore:dictionary")
def test_parts_sum_for_kernels_and_atoms_of_all_kinds(name):
    model = OTHERS[name]()
    predictions = model.predict(NEW)
    check_sums(
        model.explain_pair(NEW[0], NEW[1]),
        predictions[0] - predictions[1],
        np.ptp(predictions) or 1.0,
    )


def test_a_precomputed_kernel_is_a_sum_over_its_columns():
    kernel = rbf_kernel(X, gamma=0.3)
    rows = rbf_kernel(NEW, X, gamma=0.3)
    model = RankRLS(1.0, kernel="precomputed").fit(kernel, Y)
    explanation = model.explain_pair(rows[0], rows[1])
    predictions = model.predict(rows)
    check_sums(explanation, predictions[0] - predictions[1], np.ptp(predictions))
    assert explanation.columns_by == "sum"
    assert [part.value for part in explanation.by_column] == pytest.approx(
        [p.value for p in explanation.by_item]
    )


def test_single_precision_is_explained_in_double_precision():
    model = RLS(1.0).fit(X.astype(np.float32), Y)
    explanation = model.explain_pair(NEW[0].astype(np.float32), NEW[1].astype(np.float32))
    check_sums(explanation, explanation.difference, np.ptp(Y))
    assert explanation.difference == pytest.approx(
        np.subtract(*model.predict(NEW[:2].astype(np.float32))), abs=1e-5
    )


def test_a_model_from_a_file_explains_the_same(tmp_path):
    model = CoRLS([View([0, 1]), View([2, 3, 4])], 0.3, 0.1).fit(X, HALF)
    assert round_trip(model, tmp_path / "model.corank").explain_pair(
        NEW[0], NEW[1]
    ) == model.explain_pair(NEW[0], NEW[1])


# ---- what parts are


def test_parts_of_items_are_terms_of_the_expansion():
    model = RLS(1.0, gamma=0.3).fit(X, Y)
    kernel = rbf_kernel(NEW[:2], X, gamma=0.3)
    terms = model.coef_ * (kernel[0] - kernel[1])
    parts = by_name(model.explain_pair(NEW[0], NEW[1]).by_item)
    assert parts == pytest.approx({f"row {row}": term for row, term in enumerate(terms)})


def test_parts_of_views_are_those_of_their_predictions():
    model = CoRLS([View([0, 1], name="size"), View([2, 3, 4], name="taste")], 0.3, 0.1).fit(X, HALF)
    gaps = np.subtract(*model.predict_views(NEW[:2])) / 2
    assert by_name(model.explain_pair(NEW[0], NEW[1]).by_view) == pytest.approx(
        {"size": gaps[0], "taste": gaps[1]}
    )


def test_one_view_is_all_columns():
    explanation = RLS(1.0).fit(X, Y).explain_pair(NEW[0], NEW[1])
    assert by_name(explanation.by_view) == {ALL_COLUMNS: explanation.difference}


@pytest.mark.parametrize("basis", ["all", "features"])
def test_a_linear_model_is_a_sum_over_columns(basis):
    model = RLS(1.0, kernel="linear", basis=basis).fit(X, Y)
    slopes = model.coef_ if basis == "features" else X.T @ model.coef_
    explanation = model.explain_pair(NEW[0], NEW[1])
    expected = slopes * (NEW[0] - NEW[1])
    assert by_name(explanation.by_column) == pytest.approx(
        {f"column {at}": v for at, v in enumerate(expected)}
    )
    assert explanation.columns_exact
    assert explanation.columns_by == "sum"


def by_all_orders(value, n):
    """Shapley values by definition: the mean over all orders of what a player adds."""
    shares = np.zeros(n)
    orders = list(permutations(range(n)))
    for order in orders:
        members = np.zeros((1, n), dtype=bool)
        before = value(members)[0]
        for player in order:
            members[0, player] = True
            after = value(members)[0]
            shares[player] += (after - before) / len(orders)
            before = after
    return shares


def test_columns_share_by_the_mean_over_all_orders():
    model = RLS(1.0).fit(X, Y)

    def value(masks):
        return model.predict(np.where(masks, NEW[0], NEW[1]))

    explanation = model.explain_pair(NEW[0], NEW[1])
    expected = by_all_orders(value, 5)
    assert by_name(explanation.by_column) == pytest.approx(
        {f"column {at}": v for at, v in enumerate(expected)}
    )
    assert explanation.columns_by == "all orders"
    assert explanation.columns_exact


def test_sampled_orders_come_close_and_sum_exactly(monkeypatch):
    model = RLS(1.0).fit(X, Y)
    exact = by_name(model.explain_pair(NEW[0], NEW[1]).by_column)
    monkeypatch.setattr(pair_explanation, "MAX_ENUMERATED", 0)
    sampled = model.explain_pair(NEW[0], NEW[1])
    predictions = model.predict(NEW[:2])
    check_sums(sampled, predictions[0] - predictions[1], np.ptp(Y))
    assert not sampled.columns_exact
    assert "approximate" in str(sampled)
    assert by_name(sampled.by_column) == pytest.approx(exact, abs=0.02 * np.ptp(Y))
    assert sampled == model.explain_pair(NEW[0], NEW[1])


def test_an_additive_value_takes_one_order():
    slopes = np.arange(12.0)
    shares, how = shapley_values(lambda masks: masks @ slopes, 12, additive=True)
    assert how == "sum"
    np.testing.assert_allclose(shares, slopes)


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_mixed_rows_take_chosen_columns_from_the_first(convert):
    pair = np.asarray([[1.0, 0.0, 3.0, 0.0], [0.0, 5.0, 3.0, 0.0]])
    chosen = np.asarray([[True, True, False, False], [False, True, False, True]])
    rows = mixed_rows(convert(pair), chosen)
    rows = rows.toarray() if sparse.issparse(rows) else rows
    np.testing.assert_array_equal(rows, [[1, 0, 3, 0], [0, 0, 3, 0]])


def test_columns_in_which_the_items_agree_have_no_part():
    model = RLS(1.0).fit(X, Y)
    other = np.where(np.arange(5) < 2, NEW[1], NEW[0])
    explanation = model.explain_pair(NEW[0], other)
    assert {part.name for part in explanation.by_column} == {"column 0", "column 1"}
    same = model.explain_pair(NEW[0], NEW[0])
    assert (same.difference, same.by_item, same.by_view, same.by_column) == (0.0, [], [], [])
    assert "same prediction" in str(same)


# ---- tables, names and words

NAMES = [f"item {row}" for row in range(len(X))]
TABLE = pd.DataFrame(
    {
        "price": X[:, 0],
        "colour": np.where(X[:, 1] > 0, "red", "blue"),
        **{
            f"emb_{at}": column
            for at, column in enumerate(np.random.default_rng(4).normal(size=(8, len(X))))
        },
    },
    index=NAMES,
)


def model_of_table():
    encoder = TableEncoder().fit(TABLE)
    model = RLS(1.0).fit(encoder.transform(TABLE), Y)
    model.encoder_ = encoder
    return model


def test_columns_of_a_table_count_once_and_a_vector_too():
    explanation = model_of_table().explain_pair(TABLE.iloc[[0]], TABLE.iloc[[1]])
    differing = {"price", "emb_*"} | (
        {"colour"} if TABLE.colour.iloc[0] != TABLE.colour.iloc[1] else set()
    )
    assert {part.name for part in explanation.by_column} == differing
    assert (explanation.first, explanation.second) == ("item 0", "item 1")


def test_an_item_may_be_given_in_many_ways():
    model = model_of_table()
    expected = model.explain_pair(TABLE.iloc[[0]], TABLE.iloc[[1]])
    assert model.explain_pair(TABLE.iloc[0], TABLE.iloc[1]) == expected
    for pair in (
        (TABLE.iloc[0].to_dict(), TABLE.iloc[1].to_dict()),
        model.encoder_.transform(TABLE.iloc[:2]),
    ):
        explanation = model.explain_pair(*pair)
        assert explanation.by_column == expected.by_column
        assert (explanation.first, explanation.second) == ("a", "b")


def test_items_of_the_model_are_called_by_their_names():
    model = model_of_table()
    explanation = model.explain_pair(0, 1, items=TABLE)
    assert {part.name for part in explanation.by_item} == set(NAMES)
    assert all(part.name == f"item {part.row}" for part in explanation.by_item)
    assert (explanation.first, explanation.second) == ("item 0", "item 1")
    upper = model.explain_pair(
        0, 1, items=TABLE.iloc[:9], names=[name.upper() for name in NAMES[:9]]
    )
    assert by_name(upper.by_item)["ITEM 3"] == by_name(explanation.by_item)["item 3"]
    assert by_name(upper.by_item)["row 20"] == by_name(explanation.by_item)["item 20"]
    assert set(upper.alike[0]) | set(upper.alike[1]) <= {
        *map(str.upper, NAMES),
        *(f"row {k}" for k in range(9, 32)),
    }


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_names_are_found_where_views_have_bases_of_their_own(convert):
    views = [View([0, 1], basis=[0, 5, 9]), View([2, 3, 4], basis=[5, 9, 12])]
    items = convert(X)
    model = CoRLS(views, 0.3, 0.1).fit(items, HALF)
    explanation = model.explain_pair(1, 2, items=items, names=NAMES)
    assert {part.name for part in explanation.by_item} == {"item 0", "item 5", "item 9", "item 12"}


def test_items_that_cannot_be_told_apart_are_said_to_be_alike():
    model = RLS(1.0).fit(X[:10], Y[:10])
    explanation = model.explain_pair(3, 4, items=np.vstack([X[:10], X[:1]]))
    assert "row 0 (one of 2 alike)" in by_name(explanation.by_item)


def test_the_item_most_like_one_is_near():
    near = X + 0.01
    model = RLS(1.0).fit(X, Y)
    assert model.explain_pair(near[4], near[7]).alike[0][0] == "row 4"
    assert model.explain_pair(X[4], X[7]).alike[0][0] != "row 4"


def test_words_name_the_largest_parts_and_fold_the_others():
    model = RLS(1.0, kernel="linear").fit(X, Y)
    explanation = model.explain_pair(5, 6, items=X, names=NAMES)
    above, below = ("item 5", "item 6") if explanation.difference > 0 else ("item 6", "item 5")
    lines = explanation.sentences()
    assert lines[0].startswith(f"The score of {above} is ")
    assert lines[0].endswith(f"higher than that of {below}.")
    largest = explanation.by_column[0]
    assert f"{largest.name} {abs(largest.value):.3g}" in lines[1]
    folded = explanation.folded(explanation.by_item, 3)
    assert len(folded) == 4
    assert math.fsum(part.value for part in folded) == pytest.approx(explanation.difference)
    assert "29 items" in folded[-1].name


def test_json_and_html_hold_the_parts():
    explanation = model_of_table().explain_pair(0, 1, items=TABLE, names=["<b>", *NAMES[1:]])
    facts = json.loads(json.dumps(explanation.as_dict()))
    assert facts["difference"] == explanation.difference
    assert [part["value"] for part in facts["by_column"]] == [
        part.value for part in explanation.by_column
    ]
    html = explanation._repr_html_()
    assert "&lt;b&gt;" in html
    assert "<b>" not in html
    assert f"{explanation.by_column[0].value:+.4g}" in html


# ---- bad input


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"a": X[:2], "b": X[1]}, "a must be one row, got 2"),
        ({"a": X[0], "b": X[1, :3]}, "3 features"),
        ({"a": 0, "b": 1}, "items"),
        ({"a": 0, "b": X[1], "items": X}, "row numbers"),
        ({"a": 0, "b": 99, "items": X}, "b is row 99"),
        ({"a": X[0], "b": X[1], "names": NAMES}, "items"),
        ({"a": 0, "b": 1, "items": X, "names": NAMES[:3]}, "3 entries for 32 rows"),
    ],
)
def test_what_is_no_pair_of_items_is_refused(arguments, message):
    model = RLS(1.0).fit(X, Y)
    with pytest.raises(ValueError, match=message):
        model.explain_pair(**arguments)


def test_a_model_that_is_not_fitted_explains_nothing():
    with pytest.raises(NotFittedError):
        RLS().explain_pair(X[0], X[1])


def test_very_many_players_enter_in_groups_and_still_share_everything():
    values = np.random.default_rng(0).normal(size=10_000)
    shares, how = shapley_values(lambda masks: masks @ values, len(values))
    assert how == "sampled orders"
    assert shares.sum() == pytest.approx(values.sum())
