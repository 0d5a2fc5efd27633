"""From a table to a matrix: what `TableEncoder` promises."""

import datetime as dt
import json
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from corank.encode.encoder import TableEncoder
from corank.tables import TableError, read_table, write_table

COLUMNS: dict[str, list[Any]] = {
    "price": [1.0, None, 4.0, 10.0],
    "size": [3, 1, 2, 2],
    "new": [True, False, None, True],
    "colour": ["red", "blue", None, "red"],
    "day": [dt.date(2020, 1, 1), dt.date(2020, 1, 3), dt.date(2020, 1, 2), None],
    "same": [7, 7, 7, 7],
    "gone": [None, None, None, None],
}
FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}


def encoded(columns: dict[str, Any], **parameters: Any) -> dict[str, list[float]]:
    table = pa.table(columns)
    encoder = TableEncoder(**parameters).fit(table)
    matrix = encoder.transform(table)
    assert matrix.dtype == np.float64
    names = encoder.get_feature_names_out()
    assert matrix.shape == (table.num_rows, len(names))
    return {name: matrix[:, at].tolist() for at, name in enumerate(names)}


# ---- what becomes of a column


def test_missing_numbers_become_the_median_and_are_marked() -> None:
    assert encoded({"x": [1.0, None, 4.0, 10.0], "y": [3, 1, 2, 2]}, scale=False) == {
        "x": [1, 4, 4, 10],
        "x missing": [0, 1, 0, 0],
        "y": [3, 1, 2, 2],
    }


def test_nan_is_missing() -> None:
    assert encoded({"x": [1.0, np.nan, 3.0]}, scale=False) == {
        "x": [1, 2, 3],
        "x missing": [0, 1, 0],
    }


def test_scaled_numbers_have_mean_0_and_standard_deviation_1() -> None:
    result = encoded(
        {"x": [1.0, None, 4.0, 10.0], "big": [1e149, -1e149, 0, 0], "small": [1e-149, 0, 0, 0]}
    )
    for name in ("x", "big", "small"):
        np.testing.assert_allclose(
            [np.mean(result[name]), np.std(result[name])], [0, 1], atol=1e-12
        )
    assert result["x missing"] == [0, 1, 0, 0]


def test_true_and_false_are_numbers() -> None:
    assert encoded({"x": [True, False, None, True]}, scale=False)["x"] == [1, 0, 1, 1]


def test_dates_times_and_durations_are_days() -> None:
    moment = dt.datetime(1970, 1, 2, 12)
    assert encoded(
        {
            "date": [dt.date(1970, 1, 1), dt.date(1970, 1, 3)],
            "date64": pa.array([0, 86_400_000], pa.date64()),
            "moment": [moment, moment + dt.timedelta(days=1)],
            "nano": pa.array([0, 86_400 * 10**9 // 2], pa.timestamp("ns")),
            "zone": pa.array([0, 86_400], pa.timestamp("s", tz="Europe/Berlin")),
            "time": [dt.time(0), dt.time(12)],
            "time32": pa.array([0, 21_600], pa.time32("s")),
            "span": [dt.timedelta(days=2), dt.timedelta(hours=6)],
        },
        scale=False,
    ) == {
        "date": [0, 2],
        "date64": [0, 1],
        "moment": [1.5, 2.5],
        "nano": [0, 0.5],
        "zone": [0, 1],
        "time": [0, 0.5],
        "time32": [0, 0.25],
        "span": [2, 0.25],
    }


def test_texts_become_one_column_a_value() -> None:
    assert encoded({"x": ["b", "a", None, "b"], "y": ["u", "v", "u", "u"]}) == {
        "x=a": [0, 1, 0, 0],
        "x=b": [1, 0, 0, 1],
        "x missing": [0, 0, 1, 0],
        "y=u": [1, 0, 1, 1],
        "y=v": [0, 1, 0, 0],
    }


def test_rare_texts_share_the_column_other() -> None:
    assert encoded({"x": ["c", "b", "a", "b", "c", "z", None]}, max_categories=2) == {
        "x=b": [0, 1, 0, 1, 0, 0, 0],
        "x=c": [1, 0, 0, 0, 1, 0, 0],
        "x other": [0, 0, 1, 0, 0, 1, 0],
        "x missing": [0, 0, 0, 0, 0, 0, 1],
    }


def test_unseen_texts_are_other_if_there_is_one_else_zeros() -> None:
    table = pa.table({"x": ["a", "a", "b"]})
    new = pa.table({"x": ["new", None]})
    assert TableEncoder(max_categories=1).fit(table).transform(new).tolist() == [[0, 1], [0, 0]]
    assert TableEncoder().fit(table).transform(new).tolist() == [[0, 0], [0, 0]]


def test_numbers_declared_as_categories_are_categories_also_when_some_are_missing() -> None:
    encoder = TableEncoder().fit(pd.DataFrame({"x": pd.Categorical([1, 2, 1])}))
    assert encoder.get_feature_names_out().tolist() == ["x=1", "x=2"]
    assert encoder.transform(pd.DataFrame({"x": [2.0, np.nan, 3.5]})).tolist() == [
        [0, 1],
        [0, 0],
        [0, 0],
    ]


def test_two_features_never_have_one_name() -> None:
    assert list(encoded({"x": [1.0, None, 3.0], "x missing": [1, 2, 3]})) == [
        "x",
        "x missing",
        "x missing (2)",
    ]


def test_each_feature_knows_its_column() -> None:
    encoder = TableEncoder().fit(pa.table(COLUMNS))
    names = encoder.get_feature_names_out()
    origins = encoder.feature_names_in_[encoder.attributes_]
    assert all(name.startswith(origin) for name, origin in zip(names, origins, strict=True))
    assert set(origins) | set(encoder.dropped_) == set(COLUMNS)


# ---- what is dropped


def test_columns_that_say_nothing_are_dropped_with_the_reason() -> None:
    table = pa.table(
        {
            **COLUMNS,
            "word": ["w"] * 4,
            "void": pa.array([None] * 4, pa.string()),
            "tenth": [0.1] * 4,
        }
    )
    encoder = TableEncoder().fit(table)
    same, missing = "always the same value", "all values are missing"
    assert encoder.dropped_ == {
        "same": same,
        "gone": missing,
        "word": same,
        "void": missing,
        "tenth": same,
    }
    assert not {*encoder.dropped_} & {*encoder.get_feature_names_out()}


def test_a_dropped_column_need_not_be_there_later() -> None:
    table = pa.table(COLUMNS)
    encoder = TableEncoder().fit(table)
    np.testing.assert_array_equal(
        encoder.transform(table.drop(["same", "gone"])), encoder.transform(table)
    )


def test_one_value_or_missing_keeps_only_the_mark() -> None:
    assert encoded({"x": [5.0, None, 5.0]}) == {"x missing": [0, 1, 0]}


def test_a_text_column_that_is_mostly_numbers_is_noticed() -> None:
    prices = [str(price / 4) for price in range(46)] + ["unknown", "unknown", "cheap", "unknown"]
    words = (
        "92 % of 'price' are numbers, except for instance 'unknown', so it is treated as categories"
    )
    with pytest.warns(UserWarning, match=words):
        encoder = TableEncoder().fit(pa.table({"price": prices, "size": range(50)}))
    assert encoder.text_columns == ["price"]


@pytest.mark.parametrize(
    "values",
    [
        ["1", "2", "3"] * 4,
        ["1", "2", "x"] * 4,
        ["1", "2", "3", "x"] * 4 + ["4"] * 4,
        ["1", None] * 6,
        pa.array(["1"] * 11 + ["x"]).dictionary_encode(),
    ],
    ids=["only numbers", "few numbers", "80 %", "missing", "categories"],
)
def test_other_text_columns_are_not_remarked_upon(values: Any) -> None:
    TableEncoder().fit(pa.table({"code": values, "size": range(len(values))}))


def test_a_text_of_its_own_in_every_row_is_dropped_with_a_warning() -> None:
    table = pa.table({"name": [f"item {i}" for i in range(21)], "x": range(21)})
    with pytest.warns(UserWarning, match="column 'name' is dropped: no text occurs twice"):
        encoder = TableEncoder().fit(table)
    assert list(encoder.dropped_) == ["name"]
    assert not TableEncoder().fit(table.slice(0, 20)).dropped_


def test_a_table_of_which_nothing_is_left_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"no column of the table can be used \('x': always the same value\)"
    ):
        TableEncoder().fit(pa.table({"x": [1, 1]}))
    for nothing in (pa.table({"x": pa.array([], pa.float64())}), pa.table({})):
        with pytest.raises(ValueError, match="the table is empty"):
            TableEncoder().fit(nothing)


# ---- another table than in fit


@pytest.mark.parametrize("library", FRAMES)
def test_every_kind_of_table_gives_the_same_matrix(library: str) -> None:
    expected = TableEncoder().fit(pa.table(COLUMNS))
    encoder = TableEncoder().fit(FRAMES[library](COLUMNS))
    assert encoder.dropped_ == expected.dropped_
    assert encoder.get_feature_names_out().tolist() == expected.get_feature_names_out().tolist()
    # columns lie in memory otherwise in every library, and are added up in another order
    np.testing.assert_allclose(
        encoder.transform(FRAMES[library](COLUMNS)),
        expected.transform(pa.table(COLUMNS)),
        rtol=1e-12,
        atol=1e-12,
    )


def test_order_of_columns_does_not_matter_and_others_are_ignored() -> None:
    table = pd.DataFrame(COLUMNS)
    encoder = TableEncoder().fit(table)
    other = table[list(reversed(COLUMNS))].assign(mixed=pd.Series([1, "a", None, {}], dtype=object))
    np.testing.assert_array_equal(encoder.transform(other), encoder.transform(table))


def test_columns_that_lack_are_named() -> None:
    encoder = TableEncoder().fit(pa.table(COLUMNS))
    with pytest.raises(ValueError, match="lacks columns it had in fit: 'price', 'colour'"):
        encoder.transform(pa.table(COLUMNS).drop(["price", "colour"]))


@pytest.mark.parametrize("library", FRAMES)
def test_columns_that_lack_are_answered_with_names_that_are_near(library: str) -> None:
    table = FRAMES[library](
        {"Price": [1.0, 2.0], "color": ["a", "b"], "size": [1, 2], "new": [True, False]}
    )
    encoder = TableEncoder().fit(
        pa.table(COLUMNS).select(["price", "colour", "size", "new", "day"])
    )
    words = r"'price' \(did you mean 'Price'\?\), 'colour' \(did you mean 'color'\?\), 'day'$"
    with pytest.raises(ValueError, match=words):
        encoder.transform(table)


def test_text_in_a_column_of_numbers_is_parsed_or_named() -> None:
    encoder = TableEncoder(scale=False).fit(pa.table({"x": [1.0, 2.0, 9.0]}))
    assert encoder.transform(pa.table({"x": ["1.5", " 3 ", "", None, "NA"]})).ravel().tolist() == [
        1.5,
        3,
        2,
        2,
        2,
    ]
    with pytest.raises(TableError, match="column 'x': 'many' in data row 2 is not a number"):
        encoder.transform(pa.table({"x": ["1", "many", "lots"]}))
    with pytest.raises(TableError, match="column 'x' should hold numbers"):
        encoder.transform(pa.table({"x": [dt.date(2020, 1, 1)]}))


def test_text_in_a_column_of_dates_is_parsed_or_named() -> None:
    encoder = TableEncoder(scale=False).fit(
        pa.table({"day": [dt.date(1970, 1, 2), dt.date(1970, 1, 3)]})
    )
    texts = ["1970-01-11", "1970-01-11T12:00", "1970-01-11T12:00+12:00", None]
    assert encoder.transform(pa.table({"day": texts})).ravel().tolist() == [10, 10.5, 10, 1.5]
    assert encoder.transform(pa.table({"day": [None]})).ravel().tolist() == [1.5]
    with pytest.raises(TableError, match="column 'day': 'soon' in data row 1 is not a date like"):
        encoder.transform(pa.table({"day": ["soon"]}))
    with pytest.raises(
        TableError, match="column 'day' should hold a date in each row as in fit, but holds int64"
    ):
        encoder.transform(pa.table({"day": [5]}))


@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e200])
def test_infinite_values_are_named(value: float) -> None:
    table = pa.table({"x": [1.0, 2.0, value]})
    with pytest.raises(
        TableError, match=r"column 'x' has an infinite or far too large value, .* in data row 3"
    ):
        TableEncoder().fit(table)
    with pytest.raises(TableError, match="column 'x' has an infinite"):
        TableEncoder().fit(table.slice(0, 2)).transform(table)


@pytest.mark.parametrize("values", [[["a"], ["b"]], [{"a": 1}, {"a": 2}], [b"a", b"b"]])
def test_values_that_cannot_become_features_are_named(values: list[object]) -> None:
    with pytest.raises(TableError, match=r"column 'x' holds .*, which cannot become features"):
        TableEncoder().fit(pa.table({"x": values}))
    with pytest.raises(TableError, match=r"column 'x' holds "):
        TableEncoder().fit(pa.table({"x": pa.array(["a", "b"])})).transform(pa.table({"x": values}))


def test_a_new_file_read_with_the_text_columns_is_encoded_alike(tmp_path: Any) -> None:
    encoder = TableEncoder().fit(pa.table({"code": ["01", "02", "A"], "x": [1, 2, 3]}))
    write_table({"code": ["01", "02"], "x": [1, 2]}, tmp_path / "new.csv")
    matrix = encoder.transform(read_table(tmp_path / "new.csv", text=encoder.text_columns))
    assert matrix[:, :3].tolist() == [[1, 0, 0], [0, 1, 0]]


def test_no_rows_give_no_rows() -> None:
    table = pa.table(COLUMNS)
    encoder = TableEncoder().fit(table)
    assert encoder.transform(table.slice(0, 0)).shape == (0, len(encoder.get_feature_names_out()))


# ---- scikit-learn


def test_before_fit_nothing_works() -> None:
    encoder = TableEncoder()
    for ask in (
        encoder.get_feature_names_out,
        encoder.summary,
        encoder.to_state,
        lambda: encoder.transform(None),
    ):
        with pytest.raises(NotFittedError):
            ask()


def test_it_is_a_scikit_learn_transformer() -> None:
    table = pd.DataFrame(COLUMNS)
    encoder = TableEncoder(max_categories=3, scale=False).fit(table)
    assert encoder.n_features_in_ == len(COLUMNS)
    assert encoder.feature_names_in_.tolist() == list(COLUMNS)
    copy = clone(encoder)
    assert copy.get_params() == {
        "max_categories": 3,
        "scale": False,
        **dict.fromkeys(("text", "category", "number", "ignore", "identity"), ()),
    }
    assert not hasattr(copy, "columns_")
    frame = copy.set_output(transform="pandas").fit_transform(table)
    assert frame.columns.tolist() == encoder.get_feature_names_out().tolist()


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_it_works_in_a_pipeline_and_a_search(frame: Any) -> None:
    rng = np.random.default_rng(0)
    table = frame({"x": rng.normal(size=40), "colour": rng.choice(["red", "blue"], 40)})
    y = rng.normal(size=40)
    search = GridSearchCV(
        make_pipeline(TableEncoder(), Ridge()), {"tableencoder__max_categories": [1, 2]}, cv=2
    )
    assert search.fit(table, y).predict(table).shape == (40,)


@pytest.mark.parametrize("value", [0, -1, True, 2.5, "5", None])
def test_max_categories_is_a_number_from_1(value: Any) -> None:
    with pytest.raises(ValueError, match="max_categories must be a whole number from 1"):
        TableEncoder(max_categories=value).fit(pa.table(COLUMNS))


def test_the_summary_says_what_is_done_in_plain_words() -> None:
    summary = (
        TableEncoder(max_categories=1)
        .fit(pa.table({**COLUMNS, "once": [5.0, None, 5.0, 5.0]}))
        .summary()
    )
    assert [entry["column"] for entry in summary] == [*COLUMNS, "once"]
    kinds = ["number", "number", "number", "category", "date", "number", "empty", "number"]
    assert [entry["kind"] for entry in summary] == kinds
    treatments = {entry["column"]: entry["treatment"] for entry in summary}
    assert treatments["price"].startswith(
        "as a number, missing becomes 4 and is marked in a 0/1 column, minus 4.75, "
    )
    assert treatments["day"].startswith("as days since 1970")
    assert (
        treatments["colour"]
        == "one 0/1 column for each of 1 values, one for all others, one for missing"
    )
    assert treatments["gone"] == "dropped: all values are missing"
    assert (
        treatments["once"] == "always the same where known: only a 0/1 column for missing is kept"
    )


# ---- state

values = st.one_of(
    st.tuples(
        st.just(pa.float64()),
        st.lists(st.none() | st.floats(-1e100, 1e100), min_size=6, max_size=6),
    ),
    st.tuples(
        st.just(pa.int64()),
        st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), min_size=6, max_size=6),
    ),
    st.tuples(st.just(pa.bool_()), st.lists(st.none() | st.booleans(), min_size=6, max_size=6)),
    st.tuples(st.just(pa.date32()), st.lists(st.none() | st.dates(), min_size=6, max_size=6)),
    st.tuples(
        st.just(pa.string()),
        st.lists(st.none() | st.text(st.characters(codec="utf-8")), min_size=6, max_size=6),
    ),
)
tables = st.dictionaries(st.text(st.characters(codec="utf-8")), values, min_size=1, max_size=4).map(
    lambda columns: pa.table({name: pa.array(each, kind) for name, (kind, each) in columns.items()})
)


def fitted_or_skipped(table: pa.Table, **parameters: Any) -> TableEncoder:
    try:
        return TableEncoder(**parameters).fit(table)
    except ValueError as error:
        assume("no column of the table can be used" not in str(error))
        raise


@settings(deadline=None, max_examples=50)
@given(table=tables, max_categories=st.integers(1, 3), scale=st.booleans())
def test_any_table_becomes_finite_numbers_and_survives_the_file(
    table: pa.Table, max_categories: int, scale: bool
) -> None:
    seen = table.slice(0, 4)
    encoder = fitted_or_skipped(seen, max_categories=max_categories, scale=scale)
    matrix = encoder.transform(table)
    assert np.isfinite(matrix).all()
    assert (np.ptp(matrix[:4], axis=0) > 0).all()
    header, arrays = encoder.to_state()
    copy = TableEncoder.from_state(
        json.loads(json.dumps(header)), {key: array.copy() for key, array in arrays.items()}
    )
    assert copy.transform(table).tobytes() == matrix.tobytes()
    assert copy.get_feature_names_out().tolist() == encoder.get_feature_names_out().tolist()
    assert copy.get_params() == encoder.get_params()
    assert (copy.dropped_, copy.summary(), copy.n_features_in_) == (
        encoder.dropped_,
        encoder.summary(),
        encoder.n_features_in_,
    )


@settings(deadline=None, max_examples=25)
@given(table=tables, order=st.permutations(range(6)))
def test_order_of_rows_does_not_matter(table: pa.Table, order: list[int]) -> None:
    encoder = fitted_or_skipped(table, max_categories=2)
    shuffled = TableEncoder(max_categories=2).fit(table.take(order))
    assert shuffled.get_feature_names_out().tolist() == encoder.get_feature_names_out().tolist()
    np.testing.assert_allclose(
        shuffled.transform(table), encoder.transform(table), rtol=1e-7, atol=1e-7
    )


def state() -> tuple[dict[str, Any], dict[str, Any]]:
    header, arrays = TableEncoder().fit(pa.table(COLUMNS)).to_state()
    return json.loads(json.dumps(header)), dict(arrays)


def test_the_state_is_json_and_numbers() -> None:
    header, arrays = state()
    assert header == TableEncoder().fit(pa.table(COLUMNS)).to_state()[0]
    assert all(array.dtype == np.float64 and array.flags.c_contiguous for array in arrays.values())


def test_fit_is_silent_about_what_is_as_expected() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        TableEncoder().fit_transform(pd.DataFrame(COLUMNS))
    assert not caught


# ---- text, vectors, dates in other formats, and kinds that are asked for


def items(n: int = 30) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    nouns = ["lamp", "table", "chair", "shelf", "carpet", "mirror", "clock", "vase"]
    return {
        "title": [" ".join(rng.choice(nouns, 4)) for _ in range(n)],
        "price": rng.gamma(3.0, 5.0, n),
        "picture": list(rng.normal(size=(n, 3)) * [1.0, 2.0, 3.0]),
        **{f"emb_{at}": rng.normal(size=n) for at in range(8)},
        "code": rng.integers(0, 3, n),
        "added": (
            [
                f"{day:02d}.{month:02d}.{2019 + month % 3}"
                for day, month in rng.integers(1, 13, (n - 1, 2))
            ]
            + ["31.12.2020"]
        ),
    }


def test_groups_are_each_text_each_vector_and_everything_else() -> None:
    encoder = TableEncoder().fit(pa.table(items()))
    names = encoder.get_feature_names_out()
    groups = {group.name: group for group in encoder.groups_}
    assert [(group.name, group.kind) for group in encoder.groups_] == [
        ("title", "text"),
        ("price, code, added", "table"),
        ("picture", "vector"),
        ("emb_*", "vector"),
    ]
    together = np.concatenate([group.columns for group in encoder.groups_])
    assert sorted(together) == list(range(len(names)))
    assert names[groups["emb_*"].columns].tolist() == [f"emb_{at}" for at in range(8)]
    assert all(name.startswith("title component") for name in names[groups["title"].columns])


def test_views_are_the_groups() -> None:
    encoder = TableEncoder().fit(pa.table(items()))
    views = encoder.views()
    assert [view.name for view in views] == [group.name for group in encoder.groups_]
    assert [view.columns.tolist() for view in views] == [
        group.columns.tolist() for group in encoder.groups_
    ]


def test_a_vector_is_centred_and_divided_by_one_number() -> None:
    table = pa.table(items())
    encoder = TableEncoder().fit(table)
    matrix = encoder.transform(table)
    for group in encoder.groups_:
        if group.kind == "vector":
            part = matrix[:, group.columns]
            np.testing.assert_allclose(part.mean(axis=0), 0, atol=1e-12)
            np.testing.assert_allclose(part.var(axis=0).mean(), 1)
    vectors = np.stack(items()["picture"])
    picture = matrix[:, next(group.columns for group in encoder.groups_ if group.name == "picture")]
    np.testing.assert_allclose(
        picture.std(axis=0) / picture.std(), vectors.std(axis=0) / (vectors - vectors.mean(0)).std()
    )
    assert TableEncoder(scale=False).fit(table).transform(table)[
        :, group.columns[0]
    ] == pytest.approx(items()["emb_0"])


def test_a_missing_vector_becomes_the_mean() -> None:
    encoder = TableEncoder().fit({"v": [[1.0, 5.0], None, [3.0, 1.0]], "x": [1, 2, 3]})
    assert encoder.transform({"v": pa.array([None], pa.list_(pa.float64())), "x": [2]})[
        0, :2
    ].tolist() == [0, 0]


def test_dates_have_year_and_season_where_they_differ() -> None:
    result = encoded(
        {
            "year": ["1970-01-01", "1971-01-01", "1972-01-01"],
            "month": [dt.date(1971, 1, 1), dt.date(1971, 4, 2), dt.date(1971, 7, 2)],
            "both": [dt.date(1970, 1, 1), None, dt.date(1971, 7, 2)],
        },
        scale=False,
    )
    assert list(result) == [
        "year",
        "year year",
        "month",
        "month season (sine)",
        "month season (cosine)",
        "both",
        "both year",
        "both season (sine)",
        "both season (cosine)",
        "both missing",
    ]
    assert result["year year"] == [0, 365, 730]
    np.testing.assert_allclose(result["month season (sine)"], [0, 1, 0], atol=0.02)
    np.testing.assert_allclose(result["month season (cosine)"], [1, 0, -1], atol=0.02)
    assert result["both year"][2] == 365


def test_dates_in_a_format_are_read_in_new_tables_too() -> None:
    table = pa.table({"day": ["31.01.1970", "01.01.1970", None], "x": [1, 2, 3]})
    encoder = TableEncoder(scale=False).fit(table)
    assert encoder.transform(table)[:, 0].tolist() == [30, 0, 15]
    assert encoder.transform({"day": ["05.01.1970"], "x": [1]})[0, 0] == 4


@pytest.mark.parametrize(
    ("options", "column", "kind"),
    [
        ({"category": ["title"]}, "title", "category"),
        ({"category": ["code"]}, "code", "category"),
        ({"number": ["emb_3"]}, "emb_3", "number"),
        ({"category": ["added"]}, "added", "category"),
        ({"text": ["added"]}, "added", "text"),
        ({"ignore": ["price"]}, "price", "empty"),
    ],
)
@pytest.mark.filterwarnings("ignore:column .* is dropped")
def test_kinds_can_be_asked_for(options: dict[str, list[str]], column: str, kind: str) -> None:
    encoder = TableEncoder(**options).fit(pa.table(items()))  # type: ignore[arg-type]
    assert {each.name: each.kind for each in encoder.columns_}[column] == kind
    assert ("price" in encoder.dropped_) == ("ignore" in options)


def test_strings_can_be_called_numbers() -> None:
    result = encoded({"x": ["1", "2", None, "4"]}, number=["x"], scale=False)
    assert result == {"x": [1, 2, 2, 4], "x missing": [0, 0, 1, 0]}
    with pytest.raises(TableError, match="column 'x': 'many' in data row 2 is not a number"):
        TableEncoder(number=["x"]).fit({"x": ["1", "many"]})


@pytest.mark.parametrize("option", ["text", "category", "number", "ignore"])
def test_names_of_no_column_are_answered_with_names_that_are_near(option: str) -> None:
    with pytest.raises(
        ValueError, match=rf"{option}: the table has no column 'prise'; did you mean 'price'\?"
    ):
        TableEncoder(**{option: ["prise"]}).fit(pa.table(items()))  # type: ignore[arg-type]


def test_a_column_has_one_kind() -> None:
    with pytest.raises(ValueError, match="category: column 'title' is called text too"):
        TableEncoder(text=["title"], category=["title"]).fit(pa.table(items()))


def test_only_texts_can_be_called_text() -> None:
    with pytest.raises(TableError, match="column 'price' should hold text, but holds double"):
        TableEncoder(text=["price"]).fit(pa.table(items()))


def test_a_text_column_that_is_empty_is_dropped_with_the_reason() -> None:
    table = pa.table({"note": ["", None, " "] * 5, "x": range(15)})
    assert TableEncoder(text=["note"]).fit(table).dropped_ == {
        "note": "all texts are empty, or none has a word"
    }
    same = pa.table({"note": ["three words here"] * 15, "x": range(15)})
    assert TableEncoder(text=["note"]).fit(same).dropped_ == {"note": "always the same value"}


def test_a_table_of_nothing_but_text_is_encoded() -> None:
    table = pa.table({"title": items()["title"]})
    encoder = TableEncoder()
    matrix = encoder.fit_transform(table)
    assert [group.kind for group in encoder.groups_] == ["text"]
    assert np.sum(matrix**2) == pytest.approx(len(matrix), rel=1e-6)


def test_repeated_texts_are_encoded_alike() -> None:
    titles = items()["title"]
    matrix = TableEncoder().fit_transform({"title": [*titles, *titles[:5]]})
    assert matrix[:5].tobytes() == matrix[-5:].tobytes()


def test_many_categories_are_a_bounded_number_of_columns() -> None:
    codes = np.random.default_rng(0).integers(0, 100_000, 200_000)
    result = TableEncoder().fit({"code": pa.array(codes).cast(pa.string()), "x": codes % 7})
    assert len(result.get_feature_names_out()) == 50 + 1 + 1


def test_fit_transform_is_fit_and_transform_and_survives_the_file() -> None:
    table = pa.table(items())
    encoder = TableEncoder(category=["code"])
    matrix = encoder.fit_transform(table)
    assert matrix.tobytes() == TableEncoder(category=["code"]).fit(table).transform(table).tobytes()
    header, arrays = encoder.to_state()
    copy = TableEncoder.from_state(
        json.loads(json.dumps(header)), {key: array.copy() for key, array in arrays.items()}
    )
    assert copy.transform(table).tobytes() == matrix.tobytes()
    assert copy.summary() == encoder.summary()
    assert [group.name for group in copy.groups_] == [group.name for group in encoder.groups_]


def test_a_single_name_is_one_column_also_in_the_file() -> None:
    vector = np.random.default_rng(0).standard_normal((20, 12))
    table = pa.table({f"emb_{at}": vector[:, at] for at in range(12)})
    encoder = TableEncoder(number="emb_10").fit(table)
    assert [column.name for column in encoder.columns_ if column.kind == "number"] == ["emb_10"]
    assert TableEncoder.from_state(*encoder.to_state()).number == ("emb_10",)


def test_hashed_texts_survive_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("corank.encode.text.MAX_VOCABULARY_BYTES", 100)
    table = pa.table(items())
    encoder = TableEncoder()
    matrix = encoder.fit_transform(table)
    assert "hashed" in encoder.summary()[0]["treatment"]
    header, arrays = encoder.to_state()
    copy = TableEncoder.from_state(json.loads(json.dumps(header)), arrays)
    assert copy.transform(table).tobytes() == matrix.tobytes()


def test_kinds_can_be_handed_on_to_an_encoder_of_fewer_rows() -> None:
    encoder = TableEncoder().fit(pa.table(items()))
    few = encoder.with_these_kinds().fit(pa.table(items()).slice(0, 6))
    assert [column.kind for column in few.columns_ if column.name in ("title", "code")] == [
        "text",
        "number",
    ]


def test_wide_tables_are_encoded_column_by_column_as_narrow_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(5, 300))
    matrix[rng.random((5, 300)) < 0.1] = np.nan
    matrix[:, 7] = 3.0
    table = pa.table({f"c{at}x": matrix[:, at] for at in range(300)})
    encoder = TableEncoder()
    together = encoder.fit_transform(table)
    monkeypatch.setattr("corank.encode.columns.MAX_BLOCK_NUMBERS", 1)
    assert TableEncoder().fit_transform(table).tobytes() == together.tobytes()
    assert list(encoder.dropped_) == ["c7x"]


def test_no_list_of_names_is_searched_once_per_column() -> None:
    comparisons = 0

    class Name(str):
        """A name that counts how often it is compared."""

        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            nonlocal comparisons
            comparisons += 1
            return str.__eq__(self, other)

    table = {f"c{at}x": np.arange(4.0) + at for at in range(200)}
    encoder = TableEncoder().fit(table)
    encoder.columns_ = tuple(replace(column, name=Name(column.name)) for column in encoder.columns_)
    encoder.transform(table)
    assert comparisons <= 5 * 200


# ---- cells that are nothing like the others


def test_one_far_too_large_number_does_not_crush_its_column():
    prices = np.linspace(5, 99, 50)
    with pytest.warns(UserWarning, match="'price' has 1e\\+18 in data row 8"):
        encoder = TableEncoder().fit(
            pa.table({"price": np.where(np.arange(50) == 7, 1e18, prices)})
        )
    encoded = encoder.transform(pa.table({"price": [5.0, 99.0, 1e18]}))[:, 0]
    assert encoded[2] == encoded[1] > 1.5 > -1.5 > encoded[0]
    kept = TableEncoder.from_state(*encoder.to_state())
    np.testing.assert_array_equal(
        kept.transform(pa.table({"price": [5.0, 99.0, 1e18]}))[:, 0], encoded
    )


def test_long_tails_are_not_taken_for_slips():
    incomes = np.exp(np.random.default_rng(0).normal(0, 2.5, 2000))
    counts = np.zeros(2000)
    counts[5] = 1e6
    encoder = TableEncoder().fit(pa.table({"income": incomes, "count": counts}))
    assert not any(column.clips for column in encoder.columns_)


def test_unusual_cells_are_found():
    table = {
        "price": np.linspace(5, 99, 50),
        "colour": ["red", "blue"] * 25,
        "day": np.arange(50).astype("datetime64[D]"),
    }
    encoder = TableEncoder().fit(pa.table(table))
    new = {
        "price": [50.0, 5000.0, None],
        "colour": ["red", "teal", None],
        "day": np.array([3, 30, 4000], "datetime64[D]"),
    }
    unusual = encoder.unusual(pa.table(new))
    assert {name: cells.tolist() for name, cells in unusual.items()} == {
        "price": [False, True, False],
        "colour": [False, True, False],
        "day": [False, False, True],
    }
    assert encoder.unusual(pa.table(table)) == {}


def test_dates_that_may_begin_with_the_month_are_read_with_the_day_first():
    with pytest.warns(UserWarning, match="'day' holds dates such as 01/02/2024"):
        encoder = TableEncoder().fit(pa.table({"day": ["01/02/2024", "01/03/2024", "01/04/2024"]}))
    assert encoder.columns_[0].kind == "date"
