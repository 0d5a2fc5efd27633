"""The command line on files of answers: what is learned from them, what is counted, and what is
wrong in one sentence.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import error, run

from corank import Answers, RankRLS, load, read_answers
from corank.interview import AnswersFile
from corank.tables.answer_log import HEADER

FIT = ("fit", "items.csv", "--id", "name", "--comparisons")
METHODS = {
    "rankrls": ("--gamma", "0.3", "--alpha", "1"),
    "preference": ("--gamma", "0.3", "--amplitude", "2"),
}
AT = "2026-01-31T12:00:00Z"


def items(n=12):
    rng = np.random.default_rng(0)
    names = ["tie", "first", *(f"{number:03d}" for number in range(n - 2))]
    return pd.DataFrame({"name": names, "size": rng.normal(size=n), "weight": rng.normal(size=n)})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A table of items, and answers about them: comparisons.csv, scores.csv, and pairs.csv of what
    the first ones mean.
    """
    monkeypatch.chdir(tmp_path)
    items().to_csv("items.csv", index=False)
    with AnswersFile(Path("comparisons.csv")) as file:
        file.append("compare", ("tie", "000"), "first", person="Ada")
        file.append("compare", ("001", "first"), "second")
        file.append("compare", ("002", "003"), "tie")
        file.append("compare", ("002", "004"), "skip")
        file.append("compare", ("005", "006"), "first")
        file.undo()
        file.append("best-worst", ("005", "006", "007", "008"), "second", "fourth")
    wins = [("tie", "000"), ("first", "001"), ("002", "003")]
    wins += [("006", "005"), ("006", "007"), ("006", "008"), ("005", "008"), ("007", "008")]
    pairs = pd.DataFrame(wins, columns=["winner", "loser"]).assign(margin=1.0)
    pairs.loc[2, "margin"] = 0.0
    pairs.to_csv("margins.csv", index=False)
    pd.concat([pairs, pd.DataFrame({"winner": ["003"], "loser": ["002"]})]).to_csv(
        "wins.csv", index=False
    )
    with AnswersFile(Path("scores.csv")) as file:
        for place, name in enumerate(items()["name"][:8]):
            file.append("score", (name,), "score", score=float(place))
        file.append("score", ("007",), "skip")
        file.append("score", ("000",), "score", score=9.5)
        file.append("score", ("000",), "score", score=1.0, person="Ada")
        file.append("score", ("001",), "score", score=100.0)
        file.undo()
    return tmp_path


def add_line(name, line, end="\n"):
    with Path(name).open("a") as file:
        file.write(line + end)


def predictions(name):
    model = load(name)
    return model.predict(model.encoder_.transform(items().drop(columns="name")))


# ---- comparisons


@pytest.mark.parametrize(
    ("method", "table"),
    [("rankrls", ("margins.csv", "--margin", "margin")), ("preference", ("wins.csv",))],
)
def test_answers_are_learned_from_like_the_comparisons_they_imply(folder, method, table):
    words = ("--method", method, *METHODS[method], "--quiet", "--out")
    run(*FIT, "comparisons.csv", *words, "answers.corank")
    run(*FIT, *table, *words, "pairs.corank")
    np.testing.assert_allclose(
        predictions("answers.corank"), predictions("pairs.corank"), rtol=1e-8
    )


def test_fit_says_how_many_answers_count(folder):
    add_line("comparisons.csv", "8,compare,0", end="")
    said = run(
        *FIT, "comparisons.csv", "--method", "rankrls", *METHODS["rankrls"], "--out", "m.corank"
    ).stderr
    words = " ".join(said.split())
    assert "comparisons.csv: 4 answers (1 tie), 1 skipped, 1 taken back" in words
    assert "1 line of comparisons.csv" in words
    assert "line 9" in words


@pytest.fixture
def preference(folder):
    run(
        *FIT,
        "wins.csv",
        "--method",
        "preference",
        *METHODS["preference"],
        "--quiet",
        "--out",
        "m.corank",
    )
    return folder


def test_update_learns_from_answers_and_counts_them(preference):
    words = ("update", "m.corank", "comparisons.csv", "--items", "items.csv", "--again", "--out")
    said = json.loads(run(*words, "new.corank", "--json").stdout)
    counts = {
        "answers": 4,
        "ties": 1,
        "skipped": 1,
        "undone": 1,
        "broken": 0,
        "added": 9,
        "comparisons": 18,
    }
    assert {key: said[key] for key in counts} == counts
    shown = " ".join(run(*words, "other.corank").stdout.split())
    assert "added 4 answers (1 tie: a win for both), 1 skipped, 1 taken back" in shown
    run(
        "update",
        "m.corank",
        "wins.csv",
        "--items",
        "items.csv",
        "--again",
        "--quiet",
        "--out",
        "pairs.corank",
    )
    np.testing.assert_allclose(predictions("new.corank"), predictions("pairs.corank"), rtol=1e-8)


@pytest.mark.parametrize("method", ["preference", "difference"])
def test_update_says_that_the_model_has_learned_from_answers_taken_back_since(folder, method):
    run(
        *FIT,
        "comparisons.csv",
        "--method",
        method,
        *METHODS["preference"],
        "--quiet",
        "--out",
        "m.corank",
    )
    with AnswersFile(Path("comparisons.csv")) as file:
        file.undo()
        file.append("best-worst", ("005", "006", "007", "008"), "first", "fourth")
    said = run(
        "update", "m.corank", "comparisons.csv", "--items", "items.csv", "--out", "new.corank"
    )
    words = " ".join(said.stderr.split())
    assert "learned from 1 answer since taken back" in words
    assert "corank fit" in words
    # of the new answer, 006 and 007 above 008 and 005 above 008 were said before
    assert "added 2 comparisons of 4 answers" in " ".join(said.stdout.split())


def test_an_answer_that_was_taken_back_and_given_again_is_known(folder):
    run(
        *FIT,
        "comparisons.csv",
        "--method",
        "preference",
        *METHODS["preference"],
        "--quiet",
        "--out",
        "m.corank",
    )
    with AnswersFile(Path("comparisons.csv")) as file:
        last = file.undo()
        file.append("compare", ("000", "003"), "first")
        file.append(last.kind, last.items, last.answer, last.worst)
    said = run(
        "update", "m.corank", "comparisons.csv", "--items", "items.csv", "--out", "new.corank"
    )
    assert "taken back since" not in " ".join(said.stderr.split())
    assert "added 1 comparison of 5 answers" in " ".join(said.stdout.split())


def test_evaluate_reads_answers(preference):
    words = ("evaluate", "m.corank", "comparisons.csv", "--items", "items.csv")
    said = json.loads(run(*words, "--json").stdout)
    assert (said["comparisons"], said["ties"], said["unanswered"]) == (7, 1, 0)
    run(*words, "--out", "out.csv")
    pairs = pd.read_csv("out.csv", dtype=str)
    assert list(pairs["winner"]) == ["tie", "first", "tie", "006", "006", "006", "005", "007"]
    assert list(pairs["first"][:3]) == ["tie", "first", "002"]


# ---- scores


def scored():
    """What scores.csv says, with the mean of two people about 000."""
    return pd.DataFrame({"name": items()["name"][:8], "score": [0.0, 1, 5.25, 3, 4, 5, 6, 7]})


def test_scores_are_learned_from_and_the_columns_of_the_file_are_no_features(folder):
    scored().to_csv("plain.csv", index=False)
    items().merge(scored(), how="left").to_csv("whole.csv", index=False)
    words = (
        "--id",
        "name",
        "--score",
        "score",
        "--method",
        "rls",
        "--alpha",
        "1",
        "--quiet",
        "--out",
    )
    run("fit", "scores.csv", "--items", "items.csv", *words, "scores.corank")
    run("fit", "whole.csv", *words, "plain.corank")
    model = load("scores.corank")
    assert list(model.encoder_.feature_names_in_) == ["size", "weight"]
    assert model.table_["scored"] == 8
    np.testing.assert_array_equal(predictions("scores.corank"), predictions("plain.corank"))
    words = ("--items", "items.csv", "--json")
    told = [
        json.loads(run("evaluate", "scores.corank", f"{name}.csv", *words).stdout)
        for name in ("scores", "plain")
    ]
    assert told[0] == told[1]
    said = json.loads(
        run(
            "update", "scores.corank", "scores.csv", *words, "--again", "--out", "new.corank"
        ).stdout
    )
    assert said["added"] == 8


def test_a_model_of_scores_is_evaluated_on_compared_answers(folder):
    words = (
        "--items",
        "items.csv",
        "--id",
        "name",
        "--score",
        "score",
        "--method",
        "rls",
        "--alpha",
        "1",
    )
    run("fit", "scores.csv", *words, "--quiet", "--out", "m.corank")
    said = json.loads(
        run("evaluate", "m.corank", "comparisons.csv", "--items", "items.csv", "--json").stdout
    )
    assert said["comparisons"] == 7


@pytest.mark.parametrize("change", ["taken back", "given again", "by another person", "none"])
def test_update_says_that_the_model_has_learned_from_scores_that_are_gone(folder, change):
    words = ("--items", "items.csv", "--id", "name")
    run("fit", "scores.csv", *words, "--score", "score", "--quiet", "--out", "m.corank")
    with AnswersFile(Path("scores.csv")) as file:
        if change == "taken back":
            file.undo()
        elif change != "none":
            file.append(
                "score", ("003",), "score", score=7.0, person="Ada" if "another" in change else ""
            )
        file.append("score", ("008",), "score", score=3.0)
    said = " ".join(
        run("update", "m.corank", "scores.csv", *words, "--out", "new.corank").stderr.split()
    )
    assert ("learned from 1 answer since taken back or changed" in said) == (change != "none")


# ---- what is wrong


@pytest.mark.parametrize(
    ("line", "mentions"),
    [
        (
            f"9,compare,001,espresso,,,first,,,,,{AT}",
            ("'espresso'", "comparisons.csv", "items.csv", "'name'"),
        ),
        (f"9,compare,001,002,,,third,,,,,{AT}", ("line 9", "'third'")),
        (f"9,compare,001,002,,,undo,,,77,,{AT}", ("line 9", "undoes", "'77'")),
    ],
    ids=["item", "position", "undo"],
)
def test_a_wrong_answer_is_refused(folder, refused, line, mentions):
    add_line("comparisons.csv", line)
    refused(*FIT, "comparisons.csv", "--out", "m.corank", mentions=mentions)


@pytest.mark.parametrize("name", ["comparisons", "scores"])
def test_a_file_without_answers_is_refused(folder, refused, name):
    Path("none.csv").write_text(HEADER + "\n")
    words = (
        FIT
        if name == "comparisons"
        else ("fit", "--items", "items.csv", "--id", "name", "--score", "score")
    )
    refused(*words, "none.csv", "--out", "m.corank", mentions=("none.csv", "no answers"))


def test_answers_of_the_other_kind_are_refused(folder, refused):
    refused(*FIT, "scores.csv", "--out", "m.corank", mentions=("scores.csv", "--score"))
    words = (
        "fit",
        "comparisons.csv",
        "--items",
        "items.csv",
        "--id",
        "name",
        "--score",
        "score",
        "--out",
        "m.corank",
    )
    refused(*words, mentions=("comparisons.csv", "--comparisons"))


def test_scores_of_items_that_no_table_describes_are_refused(folder, refused):
    refused(
        "fit",
        "scores.csv",
        "--score",
        "score",
        "--out",
        "m.corank",
        mentions=("scores.csv", "--items", "--id"),
    )
    add_line("scores.csv", f"99,score,espresso,,,,score,,1,,,{AT}")
    words = (
        "fit",
        "scores.csv",
        "--items",
        "items.csv",
        "--id",
        "name",
        "--score",
        "score",
        "--out",
        "m.corank",
    )
    refused(*words, mentions=("'espresso'", "scores.csv", "items.csv"))


def test_names_of_columns_do_not_go_with_answers(folder, refused):
    refused(
        *FIT,
        "comparisons.csv",
        "--winner",
        "first",
        "--out",
        "m.corank",
        mentions=("--winner", "comparisons.csv"),
    )
    refused(
        *FIT,
        "comparisons.csv",
        "--query",
        "person",
        "--out",
        "m.corank",
        mentions=("'person'", "items.csv"),
    )


def test_answers_across_queries_are_refused(folder, refused):
    items().assign(kind=np.arange(12)).to_csv("kinds.csv", index=False)
    words = (
        "fit",
        "kinds.csv",
        "--id",
        "name",
        "--query",
        "kind",
        "--comparisons",
        "comparisons.csv",
    )
    refused(*words, "--out", "m.corank", mentions=("comparisons.csv", "'kind'"))


def test_a_file_of_other_bytes_under_the_header_is_refused(folder, refused):
    Path("bytes.csv").write_bytes(f"{HEADER}\n".encode() + b"\0\xff,\0\n" * 50)
    refused(*FIT, "bytes.csv", "--out", "m.corank", mentions=("bytes.csv", "no answers"))


def test_scores_and_comparisons_in_one_file_are_noted(folder):
    add_line("comparisons.csv", f"9,score,001,,,,score,,3,,,{AT}")
    said = run(
        *FIT, "comparisons.csv", "--method", "rankrls", *METHODS["rankrls"], "--out", "m.corank"
    ).stderr
    assert "both scores and comparisons" in " ".join(said.split())


# ---- answers of every kind


def test_answers_of_any_format_are_learned_from_as_in_python(folder):
    votes = pd.DataFrame({"left": ["tie", "001", "002"], "right": ["000", "first", "003"]})
    votes["winner"], votes["worker"] = ["left", "right", "tie"], ["ann", "bob", "ann"]
    votes.to_csv("votes.csv", index=False)
    pd.DataFrame({"order": ["005 > 006 = 007 > 008"], "person": ["eve"]}).to_csv("orders.csv")
    settings = ("--method", "rankrls", *METHODS["rankrls"])
    files = ("--answers", "votes.csv", "--answers", "orders.csv")
    said = run("fit", "items.csv", "--id", "name", *files, *settings, "--out", "m.corank")
    assert "4 answers imply 9 comparisons" in said.output
    answers = [*read_answers("votes.csv").judgements, *read_answers("orders.csv").judgements]
    table = items()
    features = load("m.corank").encoder_.transform(table.drop(columns="name"))
    other = RankRLS(gamma=0.3, alpha=1.0)
    other.fit_answers(features, Answers(answers), items=table["name"])
    np.testing.assert_allclose(predictions("m.corank"), other.predict(features))


def test_answers_that_cannot_be_used_are_said_in_a_sentence(folder):
    fit = ("fit", "items.csv", "--out", "m.corank", "--answers", "votes.csv")
    header = "left,right,winner\n"
    Path("votes.csv").write_text(header + "000,001,lft\n")
    assert "did you mean 'left'" in error(*fit, "--id", "name")
    assert "--answers needs --id" in error(*fit)
    both = error(*fit, "--id", "name", "--comparisons", "wins.csv")
    assert "give them all to --answers" in both
    Path("votes.csv").write_text(header + "000,001,left\n000,0001,left\n001,002,tie\n")
    said = run(*fit, "--id", "name", "--method", "rankrls")
    assert "1 item that no row has, such as '0001'" in said.output
