"""Shared items agreed by content, items from a recipe, and bytes that are not messages."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corank import CoRLS
from corank_federated import (
    Coordinator,
    InProcess,
    Message,
    MessageError,
    Plan,
    Refused,
    SharedItems,
    SharedItemsError,
    Site,
    synthetic_table,
)
from corank_federated.messages import KINDS, decoded
from corank_federated.shared_items import Fingerprint, first_difference, row_digests

IDS = [f"item {row}" for row in range(40)]


def site(name, ids, **more):
    rng = np.random.default_rng(0)
    features = rng.normal(size=(len(ids), 2))
    X = rng.normal(size=(12, 2))
    return Site(
        name, CoRLS(alpha=1.0, basis="scored"), X, X[:, 0], SharedItems(features, ids=ids, **more)
    )


def refused(second, own=None):
    """The words of the error, and how many questions it took."""
    channel = InProcess([site("a", IDS), second])
    questions = []
    record = channel.record
    channel.record = lambda way, name, content: (
        questions.append(decoded(content).kind),
        record(way, name, content),
    )
    with pytest.raises(SharedItemsError) as error:
        Coordinator(Plan("run", ("a", "b"), 1.0), channel, items=own).run()
    return str(error.value), questions.count("compare")


def test_another_item_names_the_first_differing_row_without_sending_the_rows():
    ids = IDS.copy()
    ids[17] = ids[30] = "x"
    ids[30] = "y"
    words, questions = refused(site("b", ids))
    assert "site 'a' and site 'b' first differ in row 18, counted from 1" in words
    assert questions <= 2 * 7


def test_another_order_is_another_set_of_items():
    words, _ = refused(site("b", [*IDS[:5], IDS[6], IDS[5], *IDS[7:]]))
    assert "first differ in row 6" in words


def test_another_number_of_items_is_named():
    words, _ = refused(site("b", IDS[:-1]))
    assert "site 'a' has 40 shared items and site 'b' 39; the others are alike" in words


def test_queries_and_agreed_columns_count_too():
    words, _ = refused(site("b", IDS, agreed=[np.arange(40.0)]))
    assert "first differ in row 1" in words


def test_a_coordinator_may_hold_the_items_too():
    ids = IDS.copy()
    ids[3] = "mine"
    words, _ = refused(site("b", IDS), own=SharedItems(np.zeros((40, 1)), ids=ids).fingerprint)
    assert "the coordinator and site 'a' first differ in row 4" in words


def test_a_site_knows_how_many_items_there_are():
    with pytest.raises(Refused, match="there are 40 shared items, not 41"):
        site("a", IDS).handle(Message("compare", {"upto": 41}))


@given(st.integers(1, 60), st.integers(0, 60))
def test_bisection_finds_the_first_difference(rows, place):
    ours = Fingerprint([b"%d" % row for row in range(rows)])
    theirs = Fingerprint([b"%d" % (row if row < place else -row - 1) for row in range(rows)])
    found = first_difference(ours.upto, theirs.upto, rows)
    assert found == (place if place < rows else None)


def test_digests_tell_values_apart_and_equal_ones_not():
    assert row_digests([["ab", "c"]])[0] != row_digests([["a", "b"]])[0]
    assert row_digests([["a"], ["bc"]]) != row_digests([["ab"], ["c"]])
    assert row_digests([[0.0, np.nan]]) == row_digests([[-0.0, float("nan")]])
    assert row_digests([np.arange(3)]) == row_digests([np.arange(3.0)])


# ------------------------------------------------------------------ items from a recipe

RECIPE = [
    {"name": "age", "low": 18, "high": 90, "whole": True},
    {"name": "height", "mean": 170.0, "deviation": 10.0},
    {"name": "share", "low": 0.0, "high": 1.0},
    {"name": "colour", "values": ["red", "blue"]},
]


def test_the_same_recipe_makes_the_same_items():
    table = synthetic_table(1000, 7, RECIPE, query_size=10)
    assert table.equals(synthetic_table(1000, 7, RECIPE, query_size=10))
    assert not table.equals(synthetic_table(1000, 8, RECIPE, query_size=10))
    assert table.column_names == ["id", "age", "height", "share", "colour", "query"]
    ages, heights = table["age"].to_numpy(), table["height"].to_numpy()
    assert ages.min() == 18
    assert ages.max() == 90
    assert abs(heights.mean() - 170) < 2
    assert abs(heights.std() - 10) < 1
    assert len(set(table["query"].to_pylist())) == 100


@pytest.mark.parametrize(
    ("recipe", "words"),
    [
        ({"items": 0}, "items must be a whole number"),
        ({"columns": []}, "columns is empty"),
        ({"columns": [{"name": "id", "low": 0, "high": 1}]}, "'id' is no name"),
        ({"columns": [{"name": "x", "low": 1, "high": 0}]}, "'x' needs low and high"),
        ({"columns": [{"name": "x"}]}, "got nothing"),
        ({"query_size": 1}, "query_size must be"),
    ],
)
def test_a_bad_recipe_is_named(recipe, words):
    with pytest.raises(ValueError, match=words):
        synthetic_table(**{"items": 10, "seed": 0, "columns": RECIPE, **recipe})


# ------------------------------------------------------------------ bytes

ANSWER = Message("answer", {"run": "r", "round": 2, "report": [1.0, 2.0, 3.0]}, np.arange(4.0))


def test_a_message_survives_the_wire():
    back = decoded(ANSWER.encoded())
    assert (back.kind, back.fields) == (ANSWER.kind, ANSWER.fields)
    np.testing.assert_array_equal(back.numbers, ANSWER.numbers)


@given(st.binary(max_size=300))
def test_random_bytes_are_refused(content):
    with pytest.raises(MessageError):
        decoded(content)


@given(st.integers(0, 10_000), st.integers(0, 255))
def test_damaged_bytes_are_refused_or_a_message_of_the_same_kind(place, value):
    content = bytearray(ANSWER.encoded())
    content[place % len(content)] = value
    try:
        message = decoded(bytes(content))
    except MessageError:
        return
    assert set(message.fields) == set(KINDS[message.kind][0])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (ANSWER.encoded()[:-8], "24 bytes of numbers where its header says 4"),
        (ANSWER.encoded().replace(b"answer", b"anvwer"), "unknown kind, 'anvwer'"),
        (ANSWER.encoded().replace(b'"round": 2', b'"ruond": 2'), "other fields than"),
        (
            ANSWER.encoded().replace(b'"round": 2', b'"round": 0.'),
            "its header is not JSON|begin like one|round of",
        ),
        (ANSWER.encoded().replace(b"1.0", b"NaN"), "holds NaN"),
    ],
)
def test_what_is_wrong_with_a_message_is_said(content, words):
    with pytest.raises(MessageError, match=words):
        decoded(content)


def test_too_many_numbers_are_refused():
    with pytest.raises(MessageError, match="more than the 3 that are welcome"):
        decoded(ANSWER.encoded(), max_values=3)
