"""Judges of comparisons: planted ones are found, names play no part, files and updates keep them."""

from functools import cache, partial

import numpy as np
import pytest

from corank import PreferenceGP, load

pytestmark = pytest.mark.usefixtures("one_blas_thread")

N_JUDGES, EACH = 12, 40
NAMES = [f"judge {number}" for number in range(N_JUDGES)]
FIXED = partial(PreferenceGP, gamma=0.3)


def planted(seed=0):
    """Votes of eight good judges, one contrary (8), one at random (9), one for the left (10), and
    one who ties when in doubt (11): X, left, right, outcomes, names.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 2))
    truth = 1.5 * X[:, 0] - X[:, 1]
    p = N_JUDGES * EACH
    left = rng.integers(0, 40, p)
    right = (left + rng.integers(1, 40, p)) % 40
    judge = np.tile(np.arange(N_JUDGES), EACH)
    scale = np.where(judge == 8, -1.0, np.where(judge == 9, 0.0, 1.0))
    seen = scale * (truth[left] - truth[right]) + 3.0 * (judge == 10) + rng.normal(size=p)
    outcomes = np.where(np.abs(seen) < 1.5 * (judge == 11), 0, np.sign(seen)).astype(int)
    return X, left, right, outcomes, np.array(NAMES)[judge]


X, LEFT, RIGHT, OUTCOMES, PERSON = planted()
AHEAD = OUTCOMES >= 0
WINNERS, LOSERS = np.where(AHEAD, LEFT, RIGHT), np.where(AHEAD, RIGHT, LEFT)
MARGINS = np.abs(OUTCOMES)


def fit(learner=None, order=slice(None), person=PERSON, **given):
    columns = {"margins": MARGINS, "person": person, "first": AHEAD} | given
    columns = {name: None if c is None else c[order] for name, c in columns.items()}
    return (learner or FIXED()).fit_comparisons(X, WINNERS[order], LOSERS[order], **columns)


@cache
def judged():
    return fit()


def test_planted_judges_are_recognised():
    model = judged()
    judges = {judge.name: judge for judge in model.judges_}
    assert list(judges) == NAMES
    assert [judge.name for judge in model.judges_ if judge.contrary] == ["judge 8"]
    good = [judges[name] for name in NAMES[:8]]
    assert min(judge.low for judge in good) > judges["judge 9"].reliability
    assert judges["judge 9"].low < 0 < judges["judge 9"].high
    assert judges["judge 10"].side == max(judge.side for judge in model.judges_) > 0.5
    assert judges["judge 11"].ties == max(judge.ties for judge in model.judges_) > 0.5
    assert judges["judge 8"].agreement < -0.3 < 0.3 < judges["judge 0"].agreement
    assert judges["judge 9"].information < min(judge.information for judge in good)
    assert all(judge.answers == EACH for judge in model.judges_)


@pytest.mark.parametrize("response", ["probit", "logit"])
def test_judges_make_held_out_answers_more_probable(response):
    train = np.random.default_rng(1).random(len(LEFT)) > 0.25
    with_judges = fit(FIXED(response=response), train)
    alike = fit(FIXED(response=response), train, person=None, first=None)
    test = ~train
    place = 1 - OUTCOMES[test], np.arange(test.sum())
    ends = X[LEFT[test]], X[RIGHT[test]]
    known = with_judges.predict_outcome(*ends, person=PERSON[test]).T[place]
    usual = alike.predict_outcome(*ends).T[place]
    assert np.log(known).mean() > np.log(usual).mean() + 0.1


def test_names_and_order_play_no_part():
    model = judged()
    renamed = fit(person=np.array([hash(name) % 1000 + 0.5 for name in PERSON]))
    order = np.random.default_rng(0).permutation(len(LEFT))
    permuted = fit(order=order)
    for other in (renamed, permuted):
        np.testing.assert_allclose(other.predict(X), model.predict(X), atol=1e-8)
        np.testing.assert_allclose(
            sorted(judge.reliability for judge in other.judges_),
            sorted(judge.reliability for judge in model.judges_),
            atol=1e-8,
        )


def test_outcomes_sum_to_one_and_turn_round():
    model = judged()
    chances = model.predict_outcome(X[:5], X[5:10])
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    np.testing.assert_allclose(model.predict_outcome(X[5:10], X[:5]), chances[:, ::-1])
    observed = model.predict_comparison(X[:5], X[5:10], observed=True)
    np.testing.assert_allclose(observed, chances[:, 0] + chances[:, 1] / 2)
    one = model.predict_outcome(X[:5], X[5:10], person="judge 10")
    each = model.predict_outcome(X[:5], X[5:10], person=["judge 10"] * 5)
    np.testing.assert_array_equal(one, each)
    assert (one[:, 0] > chances[:, 0]).all()  # who favours what is shown first


def test_without_judges_and_ties_outcomes_are_those_of_comparisons():
    model = FIXED().fit_comparisons(X, WINNERS, LOSERS)
    chances = model.predict_outcome(X[:5], X[5:10])
    expected = model.predict_comparison(X[:5], X[5:10], observed=True)
    np.testing.assert_allclose(chances[:, 0], expected)
    np.testing.assert_allclose(chances[:, 1], 0.0)
    assert model.judges_ == []


def test_votes_of_one_habit_are_plain_comparisons():
    """A probit judge without ties, sides and lapses."""
    plain = FIXED(amplitude=2.0).fit_comparisons(X, WINNERS, LOSERS)
    one = FIXED(amplitude=2.0, lapse=1e-300).fit_comparisons(X, WINNERS, LOSERS)
    assert one.predict_outcome(X[:1], X[1:2]).shape == (1, 3)
    np.testing.assert_allclose(one.predict(X), plain.predict(X), atol=1e-6)
    np.testing.assert_allclose(one.log_evidence_, plain.log_evidence_, atol=1e-6)


def test_ties_are_more_probable_than_as_one_win_each():
    tied = fit(person=None, first=None)
    share = tied.predict_outcome(X[LEFT], X[RIGHT])[:, 1].mean()
    assert abs(share - np.mean(OUTCOMES == 0)) < 0.03
    given = FIXED(ties=0.5, lapse=0.0).fit_comparisons(X, WINNERS, LOSERS, margins=MARGINS)
    assert given.predict_outcome(X[:1], X[:1])[0, 1] == pytest.approx(0.383, abs=1e-3)


def test_files_and_updates_keep_judges(tmp_path):
    model = fit(order=slice(0, 400))
    model.save(tmp_path / "model.corank")
    loaded = load(tmp_path / "model.corank")
    ends = X[:5], X[5:10]
    for person in (None, "judge 3"):
        np.testing.assert_array_equal(
            loaded.predict_outcome(*ends, person=person), model.predict_outcome(*ends, person)
        )
    assert loaded.judges_ == model.judges_
    rest = slice(400, None)
    added = {"margins": MARGINS[rest], "first": AHEAD[rest]}
    newcomers = np.where(PERSON[rest] == "judge 3", "Zoe", PERSON[rest])
    loaded.update_comparisons(X, WINNERS[rest], LOSERS[rest], person=newcomers, **added)
    assert [judge.name for judge in loaded.judges_] == [*NAMES, "Zoe"]
    assert sum(judge.answers for judge in loaded.judges_) == len(LEFT)
    model.update_comparisons(X, WINNERS[rest], LOSERS[rest], person=PERSON[rest], **added)
    refitted = fit(FIXED(amplitude=model.amplitude_))
    np.testing.assert_allclose(model.predict(X), refitted.predict(X), atol=0.02)


def test_files_may_hold_numbers_in_place_of_names(tmp_path):
    model = judged()
    path = tmp_path / "numbers.corank"
    model.save(path, persons="numbers")
    assert not any(name.encode() in path.read_bytes() for name in NAMES)
    loaded = load(path)
    assert [judge.name for judge in loaded.judges_] == [str(n) for n in range(N_JUDGES)]
    assert [judge.name for judge in model.judges_] == NAMES
    ends = X[:5], X[5:10]
    np.testing.assert_array_equal(
        loaded.predict_outcome(*ends, person="3"), model.predict_outcome(*ends, person=NAMES[3])
    )


def test_files_keep_ties_of_nobody_and_logistic_scores(tmp_path):
    tied = fit(person=None, first=None)
    scored = FIXED(response="logit", random_state=0).fit(X[:12], X[:12, 0])
    for number, model in enumerate((tied, scored)):
        model.save(tmp_path / f"{number}.corank")
        loaded = load(tmp_path / f"{number}.corank")
        chances = model.predict_outcome(X[:5], X[5:10])
        np.testing.assert_array_equal(loaded.predict_outcome(X[:5], X[5:10]), chances)
        assert loaded.judges_ == []
    again = {"margins": MARGINS[:50]}
    tied.update_comparisons(X, WINNERS[:50], LOSERS[:50], **again)
    assert tied.n_comparisons == len(LEFT) + 50
    scored.update(X[12:15], X[12:15, 0])
    assert np.isfinite(scored.predict(X)).all()


def test_ties_may_come_with_an_update():
    model = FIXED().fit_comparisons(X, WINNERS[:80], LOSERS[:80])
    model.update_comparisons(X, WINNERS, LOSERS, margins=MARGINS)
    assert model.n_comparisons == len(LEFT) + 80
    assert 0 < model.predict_outcome(X[:1], X[1:2])[0, 1] < 1


def test_agreement_of_judges():
    found = judged().agreement()
    assert -1 <= found.low < found.alpha < found.high <= 1
    assert set(found.items) <= set(range(40))
    assert (np.diff(found.disputes) <= 0).all()


@pytest.mark.parametrize(
    ("act", "says"),
    [
        (
            lambda: fit(person=np.array(["a"])[[0] * 7 + [0]]),
            "person has 8 labels.*480 comparisons",
        ),
        (lambda: fit(person=np.where(PERSON == "judge 0", np.nan, 1.0)), "missing label in row 0"),
        (lambda: fit(first=AHEAD * 3), "first must say of each of the 480"),
        (lambda: fit(margins=MARGINS * 2), "margins of PreferenceGP are 0"),
        (lambda: fit(FIXED(ties=0)), "ties=0 says that there are none"),
        (lambda: fit(FIXED(ties=-1)), "ties must be 'tune' or a number 0 or more, got -1"),
        (lambda: fit(FIXED(lapse=1)), "lapse must be 'tune' or a number from 0 to below 1"),
        (lambda: fit(FIXED(response="cauchy")), "response"),
        (lambda: judged().predict_outcome(X[:1], X[:1], "judge O"), "'judge O' is no judge"),
        (lambda: judged().predict_outcome(X[:2], X[:2], ["judge 1"]), "1 labels, but X_a has 2"),
        (
            lambda: FIXED().fit_comparisons(X, [0], [1]).predict_outcome(X, X, "judge 1"),
            "fitted without person",
        ),
        (lambda: judged().update_comparisons(X, [0], [1]), "with person"),
        (lambda: judged().update_comparisons(X, [0], [1], person=["judge 1"]), "with first"),
    ],
)
def test_bad_input_is_refused(act, says):
    with pytest.raises(ValueError, match=says):
        act()


def test_names_that_look_alike_and_judges_of_one_answer_are_said():
    with pytest.warns(UserWarning, match="2 names differ only by blanks or capitals"):
        fit(person=np.where(PERSON == "judge 1", "Judge 0 ", PERSON))
    with pytest.warns(UserWarning, match="each of the 480 judges has one answer"):
        model = fit(person=np.arange(len(LEFT)))
    assert np.isfinite(model.predict(X)).all()
    one = fit(person=np.array(["me"] * len(LEFT)))
    assert one.judges_[0].reliability == 1
