"""Answers of every kind: files as other tools write them are read, written back without loss, and
what is odd about them is counted and said.
"""

import json
from itertools import permutations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from corank import read_answers
from corank.interview import AnswersFile
from corank.tables import TableError, read_table
from corank.tables.answers import Answers, Judgement, pairs_of

MESSAGES = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "good"}]
WORSE = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "bad"}]
TASK = {  # as Label Studio exports it, shortened
    "id": 1,
    "data": {"prompt": "Hi", "answer1": "a", "answer2": "b"},
    "annotations": [
        {
            "id": 1001,
            "completed_by": 7,
            "was_cancelled": False,
            "lead_time": 4.2,
            "result": [
                {
                    "id": "Dx_aB91ISN",
                    "from_name": "pw",
                    "to_name": "answer1,answer2",
                    "type": "pairwise",
                    "origin": "manual",
                    "value": {"selected": "right"},
                }
            ],
        }
    ],
    "predictions": [],
    "project": 83,
}


def skipped(task):
    return {
        **task,
        "annotations": [{**task["annotations"][0], "was_cancelled": True, "result": []}],
    }


def tied(task):
    result = {"from_name": "tie", "to_name": "answer1", "type": "choices"}
    result["value"] = {"choices": ["tie"]}
    by = {"id": 8, "email": "ann@example.org"}
    return {**task, "annotations": [{"completed_by": by, "result": [result]}]}


def written(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text)
    return path


FILES = {  # name of a file → what is in it, its format, and what it says
    "evalica.csv": (
        "left,right,winner\npizza,burger,left\nburger,pasta,tie\npasta,pizza,right\n",
        "sides",
        [("pizza", "burger", 1, ""), ("burger", "pasta", 0, ""), ("pizza", "pasta", 1, "")],
    ),
    "crowd-kit.tsv": (
        "worker\tleft\tright\tlabel\nw1\ta\tb\ta\nw2\ta\tb\tb\n",
        "sides",
        [("a", "b", 1, "w1"), ("b", "a", 1, "w2")],
    ),
    "wins.csv": (
        "winner,loser,margin,count,person\n007,8,much,3,ann\n8,007,slightly,1,bob\n7,8,0,1,\n",
        "winners",
        [("007", "8", 2, "ann"), ("8", "007", 0.5, "bob"), ("7", "8", 0, "")],
    ),
    "battles.jsonl": (
        "\n".join(
            json.dumps(
                {
                    "question_id": f"q{at}",
                    "model_a": "gpt-4",
                    "model_b": "claude-v1",
                    "winner": winner,
                    "judge": f"arena_user_{at}",
                    "conversation_a": MESSAGES,
                    "conversation_b": WORSE,
                    "turn": 1,
                    "anony": True,
                    "language": "English",
                    "tstamp": 1682351591.1322,
                }
            )
            for at, winner in enumerate(["model_a", "model_b", "tie", "tie (bothbad)"])
        )
        + "\n",
        "arena",
        [
            ("gpt-4", "claude-v1", 1, "arena_user_0"),
            ("claude-v1", "gpt-4", 1, "arena_user_1"),
            ("gpt-4", "claude-v1", 0, "arena_user_2"),
            ("gpt-4", "claude-v1", 0, "arena_user_3"),
        ],
    ),
    "clean_battle.json": (
        json.dumps(
            [{"model_a": "a", "model_b": "b", "winner": "model_b", "judge": 3, "tstamp": 1.5}]
        ),
        "arena",
        [("b", "a", 1, "3")],
    ),
    "dpo.jsonl": (
        json.dumps({"prompt": "Hi", "chosen": MESSAGES, "rejected": WORSE, "chosen_rating": 5.0})
        + "\n",
        "argilla",
        [("good", "bad", 1, "")],
    ),
    "intel.csv": ("input,chosen,rejected\nHi,good,bad\n", "argilla", [("good", "bad", 1, "")]),
    "export.json": (
        json.dumps([TASK, tied(TASK)]),
        "label-studio",
        [("b", "a", 1, "7"), ("a", "b", 0, "ann@example.org")],
    ),
    "questions.csv": (
        "first,second,winner\na,b,first\nb,c,c\n",
        "questions",
        [("a", "b", 1, ""), ("c", "b", 1, "")],
    ),
    "orders.csv": (
        "order,person\na > b = c,ann\n",
        "orders",
        [("a", "b", 1, "ann"), ("a", "c", 1, "ann"), ("b", "c", 0, "ann")],
    ),
}


def said(answers):
    """Better item, other item, margin and person of every comparison."""
    return [
        (better, other, margin, judgement.person)
        for judgement in answers.judgements
        for better, other, margin, _ in judgement.pairs()
    ]


def content(path):
    if path.suffix == ".json":
        return json.loads(path.read_text())
    return read_table(path).to_pylist()


@pytest.mark.parametrize("name", FILES)
def test_files_of_other_tools_are_read_and_written_back_without_loss(name, tmp_path):
    text, format, expected = FILES[name]
    path = written(tmp_path, name, text)
    answers = read_answers(path)
    assert (answers.format, said(answers)) == (format, expected)
    assert answers.judgements == read_answers(path, format).judgements
    copy = tmp_path / f"copy-{name}"
    answers.write(copy)
    assert content(copy) == content(path)
    assert read_answers(copy) == answers
    records = tmp_path / "records.jsonl"  # and in one shape
    answers.write(records, "records")
    assert read_answers(records).judgements == answers.judgements


@pytest.mark.parametrize("format", ["winners", "sides", "arena", "questions"])
def test_comparisons_go_from_any_format_to_any_other(format, tmp_path):
    for name in ("evalica.csv", "wins.csv", "battles.jsonl", "export.json"):
        answers = read_answers(written(tmp_path, name, FILES[name][0]))
        answers.write(tmp_path / f"{format}.csv", format, overwrite=True)
        again = read_answers(tmp_path / f"{format}.csv")
        assert again.format == format
        assert said(again) == said(answers)
        counts = [(one.count, one.query) for one in answers.judgements]
        assert [(one.count, one.query) for one in again.judgements] == counts


def test_winners_do_not_all_stand_on_the_left_where_nobody_knows_the_sides(tmp_path):
    answers = read_answers({"winner": ["a", "c"], "loser": ["b", "b"]})
    answers.write(tmp_path / "sides.csv", "sides")
    expected = [("a", "b", "left"), ("b", "c", "right")]
    rows = read_table(tmp_path / "sides.csv").to_pylist()
    assert [(row["left"], row["right"], row["winner"]) for row in rows] == expected


def test_tables_of_pandas_polars_and_pyarrow_and_parquet_say_the_same(tmp_path):
    columns = {"left": ["a", "b"], "right": ["b", "c"], "winner": ["left", "tie"], "worker": [1, 2]}
    tables = [pd.DataFrame(columns), pl.DataFrame(columns), pa.table(columns), columns]
    pa.parquet.write_table(tables[2], tmp_path / "votes.parquet")
    expected = [("a", "b", 1, "1"), ("b", "c", 0, "2")]
    for table in (*tables, tmp_path / "votes.parquet"):
        assert said(read_answers(table)) == expected


def test_the_file_of_corank_ask_is_read_and_copied_byte_by_byte(tmp_path):
    path = tmp_path / "answers.csv"
    with AnswersFile(path) as file:
        file.append("compare", ("a", "b"), "second", person="Ada")
        file.append("compare", ("a", "b"), "tie")
        file.append("best-worst", tuple("abcd"), "fourth", "first")
        file.append("score", ("a",), "score", score=2.5, person="Bob")
        file.append("compare", ("a", "c"), "skip")
        file.append("compare", ("a", "c"), "first")
        file.undo()
    with pytest.warns(UserWarning, match="1 skipped"):
        answers = read_answers(path)
    assert answers.remarks == {"skipped": 1, "taken back": 1}
    assert answers.judgements == [
        Judgement(("a", "b"), (2, 1), person="Ada"),
        Judgement(("a", "b"), (1, 1)),
        Judgement(tuple("abcd"), (3, 2, 2, 1), ties=False),
        Judgement(("a",), score=2.5, person="Bob"),
    ]
    assert said(answers)[2:] == [(*pair, 1, "") for pair in ("db", "dc", "da", "ba", "ca")]
    answers.write(tmp_path / "copy.csv")
    assert (tmp_path / "copy.csv").read_bytes() == path.read_bytes()
    answers.write(tmp_path / "records.parquet", "records")
    answers.write(tmp_path / "records.csv", "records")
    for name in ("records.parquet", "records.csv"):
        assert read_answers(tmp_path / name).judgements == answers.judgements


def test_scores_and_columns_with_other_names(tmp_path):
    scores = read_answers(pd.DataFrame({"id": [7, 8], "stars": [4, np.nan], "user": ["a", "b"]}))
    assert scores.judgements == [Judgement(("7",), score=4.0, person="a")]
    table = {"chosen": ["x"], "rejected": ["y"], "best": ["m1"], "worst": ["m2"]}
    models = read_answers(table, columns={"best": "chosen", "worst": "rejected"})
    assert said(models) == [("m1", "m2", 1, "")]
    task = {**TASK, "data": {"one": "a", "two": "b"}}
    path = written(tmp_path, "export.json", json.dumps([task]))
    with pytest.raises(TableError, match="which two are compared"):
        read_answers(path)
    assert said(read_answers(path, columns={"one": "left", "two": "right"}))[0][:2] == ("b", "a")


# ---- what answers imply


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_pairs_of_an_order_carry_the_information_of_plackett_and_luce(n):
    # by numerical curvature of the log likelihood at equal scores, summed over all orders
    def log_likelihood(scores, order):
        left = [scores[list(order[at:])] for at in range(n)]
        return sum(scores[order[at]] - np.log(np.exp(left[at]).sum()) for at in range(n))

    def pair_likelihood(scores, order):
        names = tuple(map(str, order))
        return sum(
            -weight * np.log1p(np.exp(scores[int(other)] - scores[int(better)]))
            for better, other, _, weight in Judgement(names, tuple(range(1, n + 1))).pairs()
        )

    step = 1e-3
    information = {}
    for likelihood in (log_likelihood, pair_likelihood):
        total = 0.0
        for order in permutations(range(n)):
            for item in range(n):
                ends = [likelihood(end * step * np.eye(n)[item], order) for end in (-1, 0, 1)]
                total -= (ends[0] - 2 * ends[1] + ends[2]) / step**2
        information[likelihood] = total
    assert information[pair_likelihood] == pytest.approx(information[log_likelihood], rel=1e-4)


def test_ties_margins_and_groups_of_what_is_implied():
    judgements = [
        Judgement(("a", "b"), (1, 1)),
        Judgement(("a", "b", "c"), (1, 2, 2), strength=2.0, count=3.0, person="ann"),
        Judgement(("a",), score=1.0, person="bob"),
        Judgement(("b",), score=4.0, person="bob"),
        Judgement(("b",), score=9.0, person="eve"),
    ]
    answered = Answers(judgements).at_rows(["a", "b", "c"])
    pairs = pairs_of(answered)
    assert list(zip(pairs.winners, pairs.losers, strict=True)) == [
        (0, 1), (0, 1), (0, 2), (1, 2), (1, 0)
    ]  # fmt: skip
    np.testing.assert_allclose(pairs.margins, [0, 2, 2, 0, 1])
    np.testing.assert_allclose(pairs.counts, [1, 2, 2, 3, 1])
    assert pairs.more["groups"] == [0, 1, 1, 1, 2]
    assert pairs.more["person"] == ["", "ann", "ann", "ann", "bob"]
    assert "first" not in pairs.more  # as scores are not shown side by side
    wins = pairs_of(answered, margins=False)
    np.testing.assert_allclose(wins.margins, [0, 1, 1, 0, 1])
    np.testing.assert_allclose(wins.counts, [1, 3, 3, 3, 1])


def test_which_item_was_shown_first_is_known_where_the_format_says_so():
    sides = {"left": ["a", "b", "b"], "right": ["b", "c", "c"], "winner": ["right", "left", "tie"]}
    answers = read_answers(sides)
    assert pairs_of(answers.at_rows(list("abc"))).more["first"] == [False, True, True]
    for table in ({"winner": ["a"], "loser": ["b"]}, {"order": ["a > b"]}):
        assert "first" not in pairs_of(read_answers(table).at_rows(list("abc"))).more


# ---- what is odd


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "left,right,winner\na,b,lefft\n", "data row 1.*'lefft'.*did you mean 'left'"),
        ("a.csv", "left,right,winner\na,b,tied\n", "must be left, right, tie.*'tied'"),
        ("a.csv", "model_a,model_b,winner\na,b,modell_b\n", "did you mean 'model_b'"),
        ("a.csv", "left,right,winner\na,a,tie\n", "two different items"),
        ("a.csv", "left,right,winner\na,b,\n", "no answers: 1 not answered"),
        ("a.csv", "", "is empty"),
        ("a.json", "", "is empty"),
        ("a.json", "{", "no JSON"),
        ("a.json", "[]", "list of objects"),
        ("a.csv", "x,y\n1,2\n", "no known format.*'x', 'y'|no known format.*x, y"),
        ("a.csv", "winner,loser,margin\na,b,-1\n", "must not be below 0"),
        ("a.csv", "winner,loser,margin\na,b,mcuh\n", "slightly or much"),
        ("a.csv", "order\na > a\n", "different items"),
        ("a.json", json.dumps([skipped(TASK)]), "no answers: 1 skipped"),
        ("a.txt.docx", "a", "file extension"),
    ],
)
def test_files_that_say_nothing_are_refused_in_a_sentence(name, text, message, tmp_path):
    with pytest.raises(TableError, match=message):
        read_answers(written(tmp_path, name, text))


def test_formats_that_are_not_known_or_cannot_hold_an_answer(tmp_path):
    table = {"left": ["a"], "right": ["b"], "winner": ["tie"]}
    with pytest.raises(ValueError, match=r"format.*'side'.*did you mean 'sides'"):
        read_answers(table, "side")
    with pytest.raises(TableError, match="nor in 'winners'"):
        read_answers(table, "winners")
    with pytest.raises(TableError, match="there is no file"):
        read_answers(tmp_path / "no.json")
    answers = read_answers(table)
    with pytest.raises(ValueError, match=r"answer 1 .*'argilla'.*'records'"):
        answers.write(tmp_path / "a.csv", "argilla")
    with pytest.raises(ValueError, match="format"):
        answers.write(tmp_path / "a.csv", "label-studio")
    answers.write(tmp_path / "a.csv")
    with pytest.raises(FileExistsError):
        answers.write(tmp_path / "a.csv")


def test_skipped_tasks_blanks_and_contradictions_are_counted_said_and_kept(tmp_path):
    tasks = [TASK, skipped(TASK), {**TASK, "annotations": []}]
    with pytest.warns(UserWarning, match="1 skipped, 1 tasks without an answer"):
        answers = read_answers(written(tmp_path, "export.json", json.dumps(tasks)))
    assert len(answers) == 1
    wins = {"winner": ["a", "b ", "a"], "loser": ["b", "a", "c"], "person": ["x", "x", "y"]}
    with pytest.warns(
        UserWarning, match="1 names that differ .* by blanks, 1 pairs that one person"
    ):
        answers = read_answers(wins)
    assert said(answers) == [("a", "b", 1, "x"), ("b", "a", 1, "x"), ("a", "c", 1, "y")]
    of_two = {"winner": ["a", "b"], "loser": ["b", "a"], "person": ["x", "y"]}
    assert not read_answers(of_two).remarks


def test_votes_for_unknown_items_are_left_out_and_said():
    answers = read_answers({"order": ["a > b > Carmenn", "b > x"]})
    with pytest.warns(UserWarning, match=r"2 items that no row has, such as 'Carmenn' in 1 answer"):
        answered = answers.at_rows(["a", "b", "Carmen"])
    assert len(pairs_of(answered).winners) == 1
    with pytest.raises(TableError, match="all answers are about 4 items"):
        answers.at_rows(["c"])
    with pytest.raises(ValueError, match="items must differ"):
        answers.at_rows(["a", "a"])
    with pytest.warns(UserWarning, match="left out"):
        scored = Answers([Judgement(("a",), score=1.0), Judgement(("b",), score=1.0)]).at_rows(
            ["a"]
        )
    with pytest.raises(TableError, match="compare no two"):
        pairs_of(scored)


def test_a_column_cannot_hold_what_no_answer_has():
    table = pd.DataFrame({"left": ["a"], "right": ["b"], "winner": ["left"], "who": ["x"]})
    with pytest.raises(ValueError, match=r"columns: 'who' cannot hold 'personn'.*'person'"):
        read_answers(table, columns={"who": "personn"})
    assert read_answers(table, columns={"who": "person"}).judgements[0].person == "x"
