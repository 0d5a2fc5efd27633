"""Which kind of column a column is, and its values."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from corank.encode.kinds import (
    format_of_dates,
    is_free_text,
    kind_of_column,
    numbered_columns,
    quantity,
    vectors,
)
from corank.tables import TableError, to_arrow


def column(values: Any, kind: pa.DataType | None = None) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(values, kind)])


def titles(n: int) -> list[str]:
    rng = np.random.default_rng(0)
    return [" ".join(rng.choice(list("abcdefghij"), 4)) for _ in range(n)]


# ---- text


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_every_type_of_text_is_recognised(kind: pa.DataType) -> None:
    assert kind_of_column("title", column(titles(40)).cast(kind)) == ("text", "")
    assert kind_of_column("day", column(["31/12/2024", "1/2/2023"]).cast(kind)) == (
        "date",
        "%d/%m/%Y",
    )
    assert kind_of_column("colour", column(["red", "blue", "red"]).cast(kind)) == ("category", "")


def test_many_different_strings_of_several_words_are_text() -> None:
    assert is_free_text(column(titles(40)))
    assert is_free_text(column([*titles(40), None, None]))
    assert kind_of_column("title", column(titles(40))) == ("text", "")


@pytest.mark.parametrize(
    "values",
    [
        [f"item {n}" for n in range(40)],
        titles(9),
        ["the first of two", "the second of two"] * 20,
        [f"https://example.org/{n}" for n in range(40)][:5] * 8,
        [None] * 40,
    ],
    ids=["two words", "few rows", "few values", "addresses", "nothing"],
)
def test_other_strings_are_categories(values: list[str | None]) -> None:
    assert kind_of_column("x", column(values, pa.string())) == ("category", "")


def test_languages_without_spaces_have_words() -> None:
    assert is_free_text(column([f"北京的冬天{chr(0x4E00 + n)}" for n in range(20)]))


def test_empty_texts_do_not_count_where_most_texts_differ() -> None:
    assert is_free_text(column([*titles(20), *[""] * 30]))


def test_declared_categories_are_never_text() -> None:
    assert kind_of_column("x", column(titles(40)).dictionary_encode()) == ("category", "")


# ---- dates


@pytest.mark.parametrize(
    ("texts", "date_format"),
    [
        (["31/12/2024", "01/02/2023"], "%d/%m/%Y"),
        (["12/31/2024", "1/2/2023"], "%m/%d/%Y"),
        (["31.12.2024", "1.2.2023", " ", "NA", None], "%d.%m.%Y"),
        (["2024/12/31", "2023/02/01"], "%Y/%m/%d"),
        (["2024-12-31", "2023-02-01"], "%Y-%m-%d"),
        (["13-Jun-2000", "1-May-2001"], "%d-%b-%Y"),
        (["31 December 2024", "1 Feb 2023"], "%d %b %Y"),
        (["Dec 31, 2024", "February 1, 2023"], "%b %d, %Y"),
        (["2024-12-31 23:59", "2023-02-01 00:00"], "%Y-%m-%d %H:%M"),
        (["2024-12-31 23:59:59", "2023-02-01 00:00:00"], "%Y-%m-%d %H:%M:%S"),
        (["2024-12-31T23:59:59", "2023-02-01T00:00:00"], "%Y-%m-%dT%H:%M:%S"),
        (["01/02/2024", "03/04/2023"], "%d/%m/%Y"),  # or the month first
        (["31/12/2024", "12/31/2024"], ""),
        (["31/12/2024", "soon"], ""),
        (["31/12/24", "01/02/23"], ""),
        (["2024", "2023"], ""),
        ([None, ""], ""),
    ],
)
def test_a_format_must_read_the_whole_column_and_the_day_comes_first_in_doubt(
    texts: list[str | None], date_format: str
) -> None:
    assert format_of_dates(column(texts, pa.string())) == date_format


def test_dates_in_a_format_are_days_and_iso_dates_stay_readable() -> None:
    days = quantity(column(["11.01.1970", "1970-01-02", None]), "day", "date", "%d.%m.%Y")
    np.testing.assert_array_equal(days, [10, 1, np.nan])
    with pytest.raises(TableError, match=r"'soon' in data row 1 is not a date like 31\.12\.2024"):
        quantity(column(["soon"]), "day", "date", "%d.%m.%Y")


def test_months_in_full_and_in_short_and_times_of_the_day_are_read() -> None:
    texts = column(["2 January 1970", "3 Feb 1970"], pa.string())
    np.testing.assert_array_equal(quantity(texts, "day", "date", format_of_dates(texts)), [1, 33])
    moments = column(["1970-01-02 12:00", "1970-01-03 00:00"], pa.string())
    np.testing.assert_array_equal(
        quantity(moments, "time", *kind_of_column("time", moments)), [1.5, 2]
    )


# ---- numbers with units


@pytest.mark.parametrize(
    ("texts", "unit", "amounts"),
    [
        (["23.56 EUR", "7 EUR", "NA"], "EUR", [23.56, 7, np.nan]),
        (["$1,299.00", "$5", None], "$", [1299, 5, np.nan]),
        (["1.299,50 €", "0,5€"], "€", [1299.5, 0.5]),
        (["12 %", "-3%"], "%", [12, -3]),
        (["1,299 kg", "12,5 kg"], "kg", [1299, 12.5]),
    ],
)
def test_numbers_with_one_unit_are_read(
    texts: list[str | None], unit: str, amounts: list[float]
) -> None:
    assert kind_of_column("x", column(texts, pa.string())) == ("number", unit)
    np.testing.assert_array_equal(
        quantity(column(texts, pa.string()), "x", "number", unit), amounts
    )


@pytest.mark.parametrize(
    "texts",
    [["5 kg", "500 g"], ["item-1", "item-2"], ["12A", "13B"], ["5 EUR", "dear"], ["7", "8"]],
)
def test_other_texts_with_numbers_have_no_unit(texts: list[str]) -> None:
    assert kind_of_column("x", column(texts, pa.string())) == ("category", "")


def test_a_number_of_another_unit_is_refused() -> None:
    np.testing.assert_array_equal(
        quantity(column(["5", "6 EUR"]), "price", "number", "EUR"), [5, 6]
    )
    with pytest.raises(TableError, match="'5 USD' in data row 1 is not a number of EUR"):
        quantity(column(["5 USD"]), "price", "number", "EUR")


# ---- vectors


@pytest.mark.parametrize(
    "table",
    [
        {"v": pa.array([[1.0, 2.0], None, [3.0, 4.0]])},
        {"v": pa.array([[1, 2], None, [3, 4]], pa.large_list(pa.int32()))},
        {"v": pa.array([[1.0, 2.0], None, [3.0, 4.0]], pa.list_(pa.float32(), 2))},
        pd.DataFrame({"v": [[1.0, 2.0], None, np.array([3.0, 4.0])]}),
        pl.DataFrame({"v": [[1.0, 2.0], None, [3.0, 4.0]]}),
        pl.DataFrame({"v": [[1.0, 2.0], None, [3.0, 4.0]]}, schema={"v": pl.Array(pl.Float64, 2)}),
    ],
    ids=["list", "large list", "fixed size", "pandas", "polars list", "polars array"],
)
def test_lists_of_numbers_are_vectors(table: Any) -> None:
    values = to_arrow(table)["v"]
    assert kind_of_column("v", values) == ("vector", "")
    matrix, rows = vectors(values, "v")
    assert matrix.tolist() == [[1, 2], [3, 4]]
    assert rows.tolist() == [0, 2]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            [[1.0, 2.0], None, [3.0]],
            "'v' has a vector of length 1 in data row 3 and others of length 2",
        ),
        (
            [[1.0, 2.0], [3.0, np.nan]],
            "'v' has a missing, infinite or far too large number in the vector of data row 2",
        ),
        ([[1.0, None], [3.0, 4.0]], "'v' has a missing, .* data row 1"),
        ([[1.0, np.inf], [3.0, 4.0]], "'v' has a missing, .* data row 1"),
        ([["a"], ["b"]], "'v' holds lists of string"),
    ],
)
def test_other_lists_are_refused_by_row(values: list[Any], message: str) -> None:
    with pytest.raises(TableError, match=message):
        vectors(column(values), "v")


def test_a_vector_of_another_length_than_in_fit_is_refused() -> None:
    with pytest.raises(TableError, match="length 2 in data row 1 and others of length 3"):
        vectors(column([[1.0, 2.0]]), "v", 3)


def numbered(**changes: Any) -> dict[str, pa.ChunkedArray]:
    matrix = np.random.default_rng(0).normal(size=(20, 9))
    columns = {f"emb_{at}": matrix[:, at] for at in range(9)} | changes
    return {name: column(values) for name, values in columns.items() if values is not None}


def test_numbered_columns_of_one_spread_are_a_vector() -> None:
    table = numbered(other=np.arange(20.0))
    [vector] = numbered_columns(table, table)
    assert vector.prefix == "emb_"
    assert vector.names == tuple(f"emb_{at}" for at in range(9))
    assert vector.divisor == pytest.approx(np.sqrt(np.mean(vector.spreads**2)))


@pytest.mark.parametrize(
    "changes",
    [
        {"emb_4": None},
        {"emb_7": None, "emb_8": None},
        {"emb_4": np.arange(20)},
        {"emb_4": 1000 * np.arange(20.0)},
        {"emb_4": np.r_[np.nan, np.arange(19.0)]},
        {"emb_4": [str(n) for n in range(20)]},
    ],
    ids=["a gap", "too few", "whole numbers", "another unit", "missing", "text"],
)
def test_other_numbered_columns_are_numbers_of_their_own(changes: dict[str, Any]) -> None:
    table = numbered(**changes)
    assert numbered_columns(table, table) == []


@pytest.mark.parametrize("prefix", ["", "x", "feature_", "V"])
def test_general_names_are_no_vector(prefix: str) -> None:
    table = {
        f"{prefix}{at}": column(np.random.default_rng(at).normal(size=20)) for at in range(1, 20)
    }
    assert numbered_columns(table, table) == []


def test_a_column_of_missing_vectors_holds_no_vector() -> None:
    matrix, rows = vectors(pa.chunked_array([pa.nulls(3)]), "v", 2)
    assert matrix.shape == (0, 2)
    assert len(rows) == 0
