"""Interview: what is asked, kept and learned, driven as a page would drive it."""

import threading

import numpy as np
import pandas as pd
import pytest
from command_line import run

from corank import load
from corank.interview.belief import Beliefs
from corank.interview.interview import Interview, StaleQuestion
from corank.learners.average.auto import LiveFit
from corank.tables import TableError
from corank.tables.answer_log import judgements_again, read_answers

N = 24
FRAME = pd.DataFrame(
    {
        "name": [f"item {at:02d}" for at in range(N)],
        "size": np.random.default_rng(0).normal(size=N).round(3),
        "kind": ["a", "b", "c"] * 8,
    }
)
VALUES = FRAME["size"].to_numpy()


def answer_all(interview: Interview, count: int, *, refresh: bool = True) -> None:
    """Answer by the size of the items."""
    for _ in range(count):
        question = interview.next()
        assert question is not None
        sizes = VALUES[list(question.rows)]
        words = np.asarray(["first", "second", "third", "fourth"])
        if question.kind == "score":
            interview.answer("score", score=float(sizes[0]), number=question.number)
        elif question.kind == "compare":
            interview.answer(str(words[np.argmax(sizes)]), number=question.number)
        else:
            interview.answer(
                str(words[np.argmax(sizes)]), str(words[np.argmin(sizes)]), number=question.number
            )
        if refresh:
            interview.refresh(ranks=False)
    interview.refresh()


@pytest.mark.parametrize("kind", ["compare", "best-worst", "score"])
def test_the_ranking_follows_the_answers(kind, tmp_path):
    with Interview(FRAME, id="name", answers=tmp_path / "a.csv", kind=kind) as interview:
        assert interview.ranking() is None
        answer_all(interview, 12 if kind == "best-worst" else 20)
        ranking = interview.ranking()
        assert ranking is not None
        assert ranking.answers == len(interview.log.answers)
        assert np.corrcoef(ranking.scores, VALUES)[0, 1] > 0.8
        np.testing.assert_array_equal(np.sort(ranking.order), np.arange(N))
        places = np.empty(N, dtype=int)
        places[ranking.order] = np.arange(1, N + 1)
        assert ((ranking.low <= places) & (places <= ranking.high)).all()
        settled = interview.settled()
        assert 0 <= settled.misordered < 0.4
        assert settled.people == {"": settled.answers}
        assert settled.sentence


@pytest.mark.parametrize("kind", ["compare", "best-worst"])
def test_saved_and_fitted_from_the_file_are_one_model(kind, tmp_path):
    FRAME.to_csv(tmp_path / "items.csv", index=False)
    answers = tmp_path / "answers.csv"
    with Interview(FRAME, id="name", answers=answers, kind=kind) as interview:
        answer_all(interview, 10)
        interview.answer("tie")
        interview.answer("skip")
        answer_all(interview, 3)
        interview.undo()
        interview.refresh()
        ranking = interview.ranking()
        interview.save(tmp_path / "saved.corank")
    run(
        "fit",
        tmp_path / "items.csv",
        "--comparisons",
        answers,
        "--id",
        "name",
        "--out",
        tmp_path / "m.corank",
        "--quiet",
    )
    fitted, saved = load(tmp_path / "m.corank"), load(tmp_path / "saved.corank")
    scores = fitted.predict(FRAME)
    np.testing.assert_allclose(saved.predict(FRAME), scores, atol=1e-9)
    assert ranking is not None
    np.testing.assert_allclose(ranking.scores, scores, atol=1e-9)


def test_scores_fitted_from_the_file_are_the_same_model(tmp_path):
    FRAME.to_csv(tmp_path / "items.csv", index=False)
    for person in ("ann", "bob"):
        with Interview(
            FRAME, id="name", answers=tmp_path / "a.csv", kind="score", person=person
        ) as interview:
            answer_all(interview, 10)
            ranking = interview.ranking()
    words = ("--items", tmp_path / "items.csv", "--id", "name", "--score", "score", "--quiet")
    run("fit", tmp_path / "a.csv", *words, "--out", tmp_path / "m.corank")
    assert ranking is not None
    np.testing.assert_allclose(
        load(tmp_path / "m.corank").predict(FRAME), ranking.scores, atol=1e-9
    )


def test_the_question_stays_until_it_is_answered_and_stale_answers_are_refused():
    interview = Interview(FRAME, id="name")
    first = interview.next()
    assert interview.next() is first
    assert first is not None
    second = interview.answer("first", number=first.number)
    with pytest.raises(StaleQuestion, match=str(first.number)):
        interview.answer("first", number=first.number)
    assert interview.next() is second
    assert len(interview.log.answers) == 1


def test_no_pair_comes_twice_and_at_the_end_nothing_is_left():
    interview = Interview(FRAME[:5], id="name")
    pairs = set()
    while (question := interview.next()) is not None:
        pair = frozenset(question.rows)
        assert pair not in pairs
        pairs.add(pair)
        interview.answer("skip" if len(pairs) % 3 == 0 else "first")
    assert len(pairs) == 10
    with pytest.raises(StaleQuestion):
        interview.answer("first")
    interview.refresh()
    settled = interview.settled()
    assert settled.more == 0
    assert settled.sentence.startswith("Everything was asked")


def test_best_and_worst_of_four_are_asked_until_every_pair_was_compared():
    interview = Interview(FRAME[:4], id="name", kind="best-worst")
    answer_all(interview, 2)
    assert interview.next() is None
    pairs = {frozenset(pair) for answer in interview.log.answers for pair in answer.comparisons()}
    assert len(pairs) == 6


def test_everybody_is_asked_about_all_pairs(tmp_path):
    for person in ("ann", "bob"):
        with Interview(
            FRAME[:4], id="name", answers=tmp_path / "a.csv", person=person
        ) as interview:
            answer_all(interview, 6)
            assert interview.next() is None
            assert interview.settled().people[person] == 6
    ((*_, shared, alike),) = interview.settled().agreement
    assert shared == alike == 6


def test_undo_leaves_the_answers_of_others_and_of_other_kinds(tmp_path):
    with Interview(FRAME, id="name", answers=tmp_path / "a.csv", person="ann") as interview:
        answer_all(interview, 2)
    with Interview(FRAME, id="name", answers=tmp_path / "a.csv") as interview:
        assert interview.undo() is None
    with Interview(
        FRAME, id="name", answers=tmp_path / "a.csv", person="ann", kind="best-worst"
    ) as interview:
        assert interview.undo() is None
        assert len(interview.log.answers) == 2


def test_undo_opens_the_last_question_again_and_forgets_the_answer(tmp_path):
    with Interview(FRAME, id="name", answers=tmp_path / "a.csv") as interview:
        assert interview.undo() is None
        answer_all(interview, 4)
        question = interview.next()
        assert question is not None
        interview.answer("second")
        again = interview.undo()
        assert again is not None
        assert again.rows == question.rows
        assert again.number != question.number
        assert len(interview.log.answers) == 4
        interview.answer("first", number=again.number)
    log = read_answers(tmp_path / "a.csv")
    assert (len(log.answers), log.undone) == (5, 1)


def test_an_answer_that_is_taken_back_does_not_choose_the_next_question():
    questions = []
    for words in (["second"], ["first", "undo", "second"]):
        interview = Interview(FRAME, id="name")
        answer_all(interview, 5)
        for word in words:
            _ = interview.undo() if word == "undo" else interview.answer(word)
        questions.append(interview.next().rows)
    assert sorted(questions[0]) == sorted(questions[1])


def test_answers_that_come_during_a_refresh_are_believed_too(monkeypatch):
    interview = Interview(FRAME, id="name")
    answer_all(interview, 5)
    interview.answer("first")
    after = Beliefs.after

    def interrupted(self, *arguments):
        belief = after(self, *arguments)
        interview.answer("second")
        return belief

    with monkeypatch.context() as busy:
        busy.setattr(Beliefs, "after", interrupted)
        interview.refresh(ranks=False)
    asked = interview.log.answers[-1].items
    winner, loser = (interview.belief.places([interview.names.index(name)]) for name in asked[::-1])
    whole = Interview(FRAME, id="name")
    for answer in interview.log.answers[:-1]:
        whole.ask_about([whole.names.index(name) for name in answer.items])
        whole.answer(answer.answer)
    whole.refresh(ranks=False)
    expected = whole.belief.after_win(*winner, *loser)
    np.testing.assert_allclose(interview.belief.mean, expected.mean, atol=5e-3)


def test_a_refresh_that_fails_can_be_made_again(monkeypatch):
    interview = Interview(FRAME, id="name")
    answer_all(interview, 5)

    def fail(*_):
        raise RuntimeError("no luck")

    interview.answer("first")
    with monkeypatch.context() as broken:
        broken.setattr(LiveFit, "to_comparisons", fail)
        with pytest.raises(RuntimeError, match="no luck"):
            interview.refresh()
    assert interview.ranking().answers == 5
    assert interview.refresh()
    assert interview.ranking().answers == 6


def test_an_interview_goes_on_where_it_was_left(tmp_path):
    with Interview(FRAME, id="name", answers=tmp_path / "a.csv") as interview:
        answer_all(interview, 8)
        before = interview.ranking()
    with Interview(FRAME, id="name", answers=tmp_path / "a.csv") as interview:
        asked = {frozenset(answer.items) for answer in interview.log.answers}
        question = interview.next()
        assert question is not None
        assert frozenset(interview.names[row] for row in question.rows) not in asked
        assert interview.refresh()
        after = interview.ranking()
        assert before is not None
        assert after is not None
        np.testing.assert_allclose(after.scores, before.scores, atol=1e-9)
        assert not interview.refresh()


def test_names_alone_can_be_ranked():
    interview = Interview(FRAME[["name"]], id="name")
    answer_all(interview, 40)
    ranking = interview.ranking()
    assert ranking is not None
    assert np.corrcoef(ranking.scores, VALUES)[0, 1] > 0.6


def test_large_tables_are_asked_about_through_a_pool():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"name": np.arange(3_000), "size": rng.normal(size=3_000)})
    interview = Interview(frame, id="name")
    for _ in range(12):
        question = interview.next()
        assert question is not None
        first, second = frame["size"].to_numpy()[list(question.rows)]
        interview.answer("first" if first > second else "second")
        interview.refresh(ranks=False)
    interview.refresh()
    ranking = interview.ranking()
    assert ranking is not None
    assert abs(np.corrcoef(ranking.scores, frame["size"])[0, 1]) > 0.9
    assert ranking.high.max() <= 3_000
    assert 0 <= interview.settled().top_stable <= 1


def test_repeated_questions_say_how_consistent_a_person_is():
    interview = Interview(FRAME, id="name", repeat=0.25)
    answer_all(interview, 40)
    settled = interview.settled()
    assert settled.repeated >= 4
    assert settled.consistent == settled.repeated


def test_people_who_judge_the_same_pairs_are_compared(tmp_path):
    with Interview(FRAME, id="name", answers=tmp_path / "a.csv", person="ann") as interview:
        answer_all(interview, 10)
    with Interview(
        FRAME, id="name", answers=tmp_path / "a.csv", person="bob", repeat=0.5
    ) as interview:
        for _ in range(10):
            question = interview.next()
            assert question is not None
            interview.answer("first")
        settled = interview.settled()
        assert settled.people == {"ann": 10, "bob": 10}
        ((first, second, shared, alike),) = settled.agreement
        assert (first, second) == ("ann", "bob")
        assert 0 <= alike <= shared
        assert shared >= 4
        interview.undo()
        assert settled.people["ann"] == 10


def test_answers_may_come_while_the_model_is_fitted():
    interview = Interview(FRAME, id="name")
    stop = threading.Event()

    def refresh() -> None:
        while not stop.is_set():
            interview.refresh()

    thread = threading.Thread(target=refresh)
    thread.start()
    answer_all(interview, 25, refresh=False)
    stop.set()
    thread.join()
    interview.refresh()
    ranking = interview.ranking()
    assert ranking is not None
    assert ranking.answers == len(interview.log.answers) == 25


def test_explanations_add_up_to_the_difference():
    interview = Interview(FRAME, id="name")
    with pytest.raises(ValueError, match="no ranking"):
        interview.explain(0, 1)
    answer_all(interview, 10)
    ranking = interview.ranking()
    assert ranking is not None
    explained = interview.explain(0, 1)
    assert explained.difference == pytest.approx(ranking.scores[0] - ranking.scores[1])


@pytest.mark.parametrize(
    ("frame", "options", "words"),
    [
        (FRAME[:1], {}, "at least 2"),
        (FRAME[:2], {"kind": "best-worst"}, "at least 3"),
        (FRAME[:0], {}, "at least 2"),
        (pd.concat([FRAME, FRAME[:1]]), {}, "item 00"),
        (FRAME.assign(name=[None, *FRAME["name"][1:]]), {}, "data row 1"),
        (FRAME, {"id": "nam"}, "'name'"),
        (FRAME, {"kind": "best"}, "compare, best-worst, score"),
        (FRAME[["name"]], {"kind": "score"}, "besides the names"),
        (FRAME.assign(name=["a\nb", *FRAME["name"][1:]]), {}, "data row 1"),
        (FRAME, {"person": "a\nb"}, "person"),
        (FRAME, {"repeat": 2.0}, "repeat"),
        (FRAME, {"features": ["sizes"]}, "features: .*'sizes'; did you mean 'size'"),
        (FRAME, {"drop": ["colour"]}, "drop: .*'colour'"),
    ],
)
def test_what_cannot_be_asked_about_is_refused(frame, options, words):
    with pytest.raises((ValueError, TableError), match=words):
        Interview(frame, **{"id": "name", **options})


def test_answers_about_other_items_are_refused_and_kept(tmp_path):
    with Interview(FRAME, id="name", answers=tmp_path / "a.csv") as interview:
        answer_all(interview, 3)
    content = (tmp_path / "a.csv").read_bytes()
    with pytest.raises(TableError, match="no item"):
        Interview(FRAME[20:], id="name", answers=tmp_path / "a.csv")
    with pytest.raises(TableError, match="kind"):
        Interview(FRAME, id="name", answers=tmp_path / "a.csv", kind="score")
    assert (tmp_path / "a.csv").read_bytes() == content


def test_ties_and_scores_count_as_judgements(tmp_path):
    with Interview(FRAME, id="name", kind="score") as interview:
        for score in (1.0, 9.0, 5.0):
            interview.answer("score", score=score)
        rows = interview.ask_about([0])
        interview.answer("score", score=1.0, number=rows.number)
        interview.ask_about([0])
        interview.answer("score", score=9.0)
        repeated, consistent, _ = judgements_again(interview.log.answers)
        assert repeated >= 1
        assert consistent <= repeated
