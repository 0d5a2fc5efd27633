"""What candidates weigh, for held-out predictions that are made up."""

import numpy as np
import pytest
from scipy import sparse, stats

from corank import AutoRegressor, Candidate
from corank.learners.average.closed_form import ClosedForm
from corank.learners.average.fitting import fit_average, honest_predictions
from corank.learners.average.model import prior_of_links, score_units
from corank.learners.average.scored_table import AverageSettings
from corank.learners.average.similarity import Space
from corank.learners.average.weighing import Judged, coarse_folds, judge, mix

rng = np.random.default_rng(11)
TRUTH = rng.standard_normal(25)
TRUTH -= TRUTH.mean()
NOISE = rng.standard_normal((3, 25))
NOISE -= NOISE.mean(axis=1, keepdims=True)


def scored(scores, *, ranks):
    return score_units(np.asarray(scores, dtype=float), None, None, AverageSettings(ranks=ranks))


def judged(units, *predictions, evidence=None, candidates=None):
    """One candidate for each of the held-out predictions (N,), of one alpha."""
    evidence = np.zeros(len(predictions)) if evidence is None else evidence
    candidates = [Candidate()] * len(predictions) if candidates is None else candidates
    result = []
    for held_out, log_evidence, candidate in zip(predictions, evidence, candidates, strict=True):
        column = np.asarray(held_out)[:, None]
        form = ClosedForm(
            np.ones(1), np.full(1, log_evidence), np.ones(1), column, np.ones_like(column), column
        )
        errors = np.mean((units.truth[:, None] - column) ** 2, axis=0)
        result.append(Judged(candidate, [], form, column, errors))
    return result


def odds(weights):
    return weights[0] / weights[1]


@pytest.mark.parametrize(("times", "exponent"), [(1, 5.0), (16, 400**2 / (2 * 700))])
def test_an_error_of_grades_says_more_with_more_units(times, exponent):
    better, worse = TRUTH + 0.9 * NOISE[0], TRUTH + NOISE[0]
    units = scored(np.tile(TRUTH, times), ranks=False)
    made = judged(units, np.tile(better, times), np.tile(worse, times))
    by_evidence = min(0.5, 1 / times)  # which says nothing here
    weights = (mix(made, units, ranks=False).weights - by_evidence / 2) / (1 - by_evidence)
    assert weights[1] / weights[0] == pytest.approx(0.81**exponent, rel=1e-4)


def in_queries(scores, times):
    """The same scores in every one of so many queries."""
    codes = np.repeat(np.arange(times), len(scores))
    return score_units(np.tile(scores, times), codes, None, AverageSettings(ranks=True))


def test_few_queries_say_little_about_orders_and_many_decide():
    better, worse = TRUTH + 0.7 * NOISE[0], TRUTH + NOISE[0]
    weights = []
    for times in (2, 64):
        units = in_queries(TRUTH, times)
        made = judged(units, np.tile(better, times), np.tile(worse, times))
        weights.append(mix(made, units, ranks=True).weights[0])
    assert 0.5 < weights[0] < 0.75
    assert weights[1] > 0.99


def test_squared_errors_decide_with_few_queries_and_misordered_pairs_with_many():
    scores = np.array([0.0, 0.1, 0.2, 6.0])
    in_order, nearer = np.array([0.0, 2.0, 4.0, 6.0]), np.array([0.2, 0.1, 0.0, 6.0])
    weights = []
    for times in (6, 200):
        units = in_queries(scores, times)
        centred = (np.tile(values - values.mean(), times) for values in (in_order, nearer))
        weights.append(mix(judged(units, *centred), units, ranks=True).weights[0])
    assert weights[0] < 0.4
    assert weights[1] > 0.99


def test_candidates_that_chance_tells_apart_share_the_weight_with_any_number_of_queries():
    units = in_queries(TRUTH, 100)
    noise = np.random.default_rng(3).standard_normal((2, 100, 25))
    size = np.random.default_rng(4).exponential(size=(2, 100, 1))  # other queries are hard for each
    made = judged(units, *(units.centred((TRUTH + size * noise).reshape(2, -1).T)).T)
    assert 0.1 < mix(made, units, ranks=True).weights[0] < 0.9


def test_of_orders_that_are_almost_right_none_is_preferred_much():
    units = scored(TRUTH, ranks=True)
    made = judged(units, TRUTH + 1e-4 * NOISE[0], TRUTH + 0.05 * NOISE[0])
    assert 1 < odds(mix(made, units, ranks=True).weights) < 1.2


def test_grades_that_are_almost_right_differ_by_their_errors():
    units = scored(TRUTH, ranks=False)
    made = judged(units, TRUTH + 1e-4 * NOISE[0], TRUTH + 0.05 * NOISE[0])
    # half of the weight is that of the evidence, which says nothing here
    assert mix(made, units, ranks=False).weights[0] == pytest.approx(0.75)


def test_evidence_has_half_a_say_about_grades_and_none_about_marks():
    marks = np.sign(TRUTH)
    for scores, expected in ((TRUTH, 0.5), (marks, 0.0)):
        units = scored(scores, ranks=False)
        made = judged(units, NOISE[1], units.truth + 0.1 * NOISE[0], evidence=[50.0, 0.0])
        weight = mix(made, units, ranks=False).weights[0]
        assert weight == pytest.approx(expected, abs=0.05)


def test_evidence_says_less_about_more_grades():
    truth, noise = np.tile(TRUTH, 8), np.tile(NOISE, 8)
    units = scored(truth, ranks=False)
    made = judged(units, noise[1], truth + 0.1 * noise[0], evidence=[50.0, 0.0])
    assert mix(made, units, ranks=False).weights[0] == pytest.approx(1 / 8, abs=0.01)


def test_a_few_rows_that_are_hard_to_predict_do_not_decide_alone():
    truth, noise = np.tile(TRUTH, 16), np.tile(NOISE[:2], 16)
    units = scored(truth, ranks=False)
    hard = np.zeros_like(noise)
    hard[0, :2], hard[1, -2:] = 9.0, 10.0
    made = judged(units, *(truth + 0.1 * noise[0] + hard))
    assert 0.1 < mix(made, units, ranks=False).weights[0] < 0.9


def test_item_effects_alone_weigh_by_their_evidence():
    units = scored(TRUTH, ranks=True)
    candidates = [Candidate(identity=1.0), Candidate()]
    predictions = TRUTH + NOISE[0], TRUTH + NOISE[1]
    without, with_evidence = (
        odds(
            mix(
                judged(units, *predictions, evidence=evidence, candidates=candidates),
                units,
                ranks=True,
            ).weights
        )
        for evidence in ([0.0, 0.0], [3.0, 1.0])
    )
    assert with_evidence == pytest.approx(without * np.exp(2))


def test_predictions_of_orders_are_as_wide_as_scores_that_they_foretell():
    units = scored(TRUTH, ranks=True)
    mixture = mix(judged(units, 0.25 * TRUTH), units, ranks=True)
    np.testing.assert_allclose(mixture.multipliers, 4)


def test_predictions_of_an_order_that_was_wrong_are_narrow_but_not_flat():
    units = scored(TRUTH, ranks=True)
    mixture = mix(judged(units, -TRUTH), units, ranks=True)
    assert 0.01 < mixture.multipliers[0] < 0.5


def test_predictions_go_farther_beyond_the_scores_the_more_is_explained():
    rows = np.linspace(-1, 1, 30)[:, None]
    line, noise = rows[:, 0], rng.standard_normal(30)
    reached = []
    for scores in (line, line + noise):
        model = AutoRegressor(candidates=[Candidate(kernel="linear")]).fit(rows, scores)
        reached.append((model.predict([[1e4]])[0] - scores.max()) / scores.std())
    assert reached[0] == pytest.approx(2, abs=0.05)
    assert 1 <= reached[1] < 1.6


def test_candidates_that_are_left_out_weigh_next_to_nothing():
    rows = rng.standard_normal((40, 4))
    candidates = [
        Candidate(kernel=kernel, width=width)
        for kernel in ("rbf", "laplacian")
        for width in (1.0, 2.0, 4.0, 8.0)
    ]
    units = scored(rows[:, 0] + rng.standard_normal(40), ranks=False)
    average = fit_average(Space({"standardised": rows}), candidates, units, ranks=False, seed=0)
    kept = {fitted.candidate for fitted in average.candidates}
    assert len(kept) > 1
    assert sum(weight for candidate, weight, _ in average.table if candidate in kept) > 0.98


@pytest.mark.parametrize(("n", "n_folds"), [(40, 5), (110, 4)])
def test_few_units_are_foretold_by_fits_to_four_fifths_or_three_quarters_of_them(n, n_folds):
    rows = rng.standard_normal((n, 2))
    space, candidates = Space({"standardised": rows}), [Candidate(), Candidate(kernel="linear")]
    units = scored(rows[:, 0] + 0.3 * rng.standard_normal(n), ranks=False)
    average = fit_average(space, candidates, units, ranks=False, seed=0)
    folds = coarse_folds(units, n_folds)
    assert len(folds) == n_folds
    expected = honest_predictions(space, candidates, units, folds, ranks=False)
    np.testing.assert_allclose(average.held_out, expected)


@pytest.mark.parametrize("ranks", [False, True])
def test_more_units_are_foretold_by_alphas_that_other_folds_chose(ranks):
    own = np.random.default_rng(0)
    rows = own.standard_normal((150, 2))
    # marks, for which no evidence counts
    marks = np.where(rows[:, 0] + own.standard_normal(150) > 0, 1.0, 0.0)
    space, units = Space({"standardised": rows}), scored(marks, ranks=ranks)
    (judgement,) = judge(space, [Candidate()], units)
    held_out, truth = judgement.held_out, units.truth
    average = fit_average(space, [Candidate()], units, ranks=ranks, seed=0)
    folds = coarse_folds(units, 10)
    assert len(folds) == 10
    chosen = []
    for fold in folds:
        others = np.setdiff1d(np.arange(150), fold)
        errors = np.mean((truth[others, None] - held_out[others]) ** 2, axis=0)
        chosen.append(int(np.argmin(errors)))
        expected, found = held_out[fold, chosen[-1]], average.held_out[fold]
        if ranks:  # which are known up to a factor
            expected, found = (values / np.linalg.norm(values) for values in (expected, found))
        np.testing.assert_allclose(found, expected)
    assert ranks or len(set(chosen)) > 1


def test_the_evidence_without_a_fold_is_less_what_it_says_of_the_fold():
    """Exact for a fold of one unit, at the amplitude of all units."""
    rows = rng.standard_normal((12, 2))
    units = scored(rows[:, 0] + 0.5 * rng.standard_normal(12), ranks=False)
    (judgement,) = judge(Space({"standardised": rows}), [Candidate()], units)
    form = judgement.form
    without = judgement.without(np.array([3]), units).form.log_evidence
    gaps = units.truth[3] - form.held_out[3]
    expected = stats.norm.logpdf(gaps, scale=np.sqrt(form.variance[3])) + np.log(2 * np.pi) / 2
    np.testing.assert_allclose(form.log_evidence - without, expected)


def test_the_alpha_of_a_candidate_is_the_geometric_mean_of_those_that_carry_its_weight():
    rows = rng.standard_normal((30, 2))
    units = scored(rows[:, 0] + 0.5 * rng.standard_normal(30), ranks=False)
    space = Space({"standardised": rows})
    (judgement,) = judge(space, [Candidate()], units)
    shares = mix([judgement], units, ranks=False).shares[0]
    assert np.sum(shares > 0.01) > 1
    (fitted,) = fit_average(space, [Candidate()], units, ranks=False, seed=0).candidates
    assert fitted.alpha == pytest.approx(np.prod(judgement.form.alphas**shares))


def test_links_between_rows_that_are_alike_are_likely_and_others_are_not():
    rows = np.repeat(rng.standard_normal((20, 5)), 3, axis=0)
    first = np.arange(60)
    alike, random = np.roll(first.reshape(20, 3), 1, axis=1).ravel(), rng.permutation(60)
    likely, unlikely = (
        prior_of_links(
            rows,
            sparse.csr_array((np.ones(60), (first, second)), shape=(60, 60)),
            AverageSettings(ranks=True),
        )
        for second in (alike, random)
    )
    assert likely > 5 * unlikely > 0


def test_rows_of_a_query_are_held_out_together():
    queries = np.repeat(np.arange(15), 4)
    rows = np.repeat(rng.standard_normal((15, 3)), 4, axis=0)
    scores = np.repeat(rng.standard_normal(15), 4)
    error = AutoRegressor().fit(rows, scores, qid=queries).held_out_error_
    # one by one, every row has three copies that say its score
    assert error > 0.5 * scores.var()
