"""The studies of the papers on tiny stand-ins of their data, and on a little of the real data where
they are at hand.
"""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

import studies.data as data_sets
from studies.__main__ import study_named
from studies.data import Rankings, RegressionSet, stacked
from studies.papers import (
    PAPERS,
    co_rankrls,
    corlsr_donations,
    corlsr_uci,
    costs,
    kpcrank_noise,
    kpcrank_sinc,
    transduction,
)
from studies.run import missing_data, part_rng, run_study
from studies.study import CANNOT_BE_TESTED, DOES_NOT_HOLD, HOLDS, Finding, Settings
from studies.tests.stand_ins import write_all
from studies.write import as_dict, as_json

# the papers' protocols take columns as they are
pytestmark = pytest.mark.filterwarnings("ignore:The columns of X have ranges")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_all(tmp_path_factory.mktemp("data"))


@pytest.fixture
def small(monkeypatch):
    """A handful of fits in the place of hundreds."""
    monkeypatch.setattr(corlsr_uci, "QUICK_FOLDS", 1)
    monkeypatch.setattr(corlsr_donations, "QUICK_RUNS", 2)
    monkeypatch.setattr(corlsr_donations, "QUICK_AMOUNTS", (0, 50))
    monkeypatch.setattr(corlsr_donations, "QUICK_TIMED", (20, 40, 80, 1000))
    monkeypatch.setattr(corlsr_donations, "TIMED_IN_FULL", 100)
    monkeypatch.setattr(corlsr_donations, "TIMES", 2)
    monkeypatch.setattr(transduction, "QUICK_DRAWS", 1)
    monkeypatch.setattr(transduction, "SCORED", {"jester": (3, 6), "sushi": (3, 6), "ltr": (3, 6)})
    monkeypatch.setattr(co_rankrls, "QUICK_DRAWS", 2)
    monkeypatch.setattr(co_rankrls, "QUICK_TEST_USERS", 16)
    monkeypatch.setattr(co_rankrls, "UNSCORED_USERS", 20)
    monkeypatch.setattr(co_rankrls, "UNSCORED_QUERIES", 20)
    amounts = {"parses": [0, 2, 4], "ltr": [0, 5, 10], "jester": [0, 5, 10]}
    monkeypatch.setattr(co_rankrls, "AMOUNTS", amounts)
    monkeypatch.setattr(kpcrank_noise, "QUICK_DRAWS", 2)
    monkeypatch.setattr(kpcrank_noise, "QUERIES", 20)
    corlsr_donations.best_parameters.cache_clear()
    yield
    corlsr_donations.best_parameters.cache_clear()


@pytest.mark.parametrize("name", ["parses", "noise", "uci", "donations", "transduction"])
def test_studies_run_from_end_to_end_on_stand_ins(name, folder, small):
    run = run_study(study_named(name), Settings(folder, quick=True))
    outcome = run.outcome
    assert outcome.findings
    assert outcome.n_fits > 0
    for table in outcome.tables:
        assert all(len(row) == len(table.columns) for row in table.rows)
    for finding in outcome.findings:
        assert finding.evidence.endswith(".")
        assert finding.source.split()[0] in PAPERS
    assert len({(finding.kind, finding.sentence) for finding in outcome.findings}) == len(
        outcome.findings
    )
    if name == "donations":
        assert any(
            finding.verdict == CANNOT_BE_TESTED and "9,686 rows" in finding.evidence
            for finding in outcome.findings
        )
    assert as_json(as_dict(run, None))


def test_every_file_a_study_asks_for_is_missed_where_it_is_not(folder, tmp_path):
    for name in ("parses", "noise", "uci", "donations", "transduction"):
        study = study_named(name)
        assert missing_data(study, folder) == []
        assert missing_data(study, tmp_path) == list(study.files)
        assert missing_data(study, None) == list(study.files)
    assert missing_data(study_named("sinc"), None) == []


# ---- sinc


def test_sinc_pairs_are_as_the_paper_counts_them():
    train, test = kpcrank_sinc.drawn(np.random.default_rng(3), 5)
    assert len(train.winners) == 379
    assert len(test.winners) == 48
    assert len(np.intersect1d(train.X, test.X)) == 0
    higher = np.sinc(train.X[train.winners, 0]) > np.sinc(train.X[train.losers, 0])
    assert (~higher).sum() == 19
    assert (np.sinc(test.X[test.winners, 0]) > np.sinc(test.X[test.losers, 0])).all()
    right, _ = kpcrank_sinc.drawn(np.random.default_rng(3), 0)
    np.testing.assert_array_equal(
        np.sort([right.winners, right.losers], axis=0),
        np.sort([train.winners, train.losers], axis=0),
    )


def test_sinc_concludes_from_a_few_pairs():
    settings = Settings(quick=True)
    parts = [part for part in kpcrank_sinc.parts(settings) if part.key.endswith((" 0", " 1"))]
    results = {
        part.key: kpcrank_sinc.run(
            settings, part_rng("sinc", settings, part), n_train=40, **part.arguments
        )
        for part in parts
    }
    outcome = kpcrank_sinc.conclude(settings, results)
    assert outcome.n_fits == 16
    assert len(outcome.tables[0].rows) == 8
    # a translation changes nothing, however few pairs
    assert outcome.findings[-1].verdict == "holds"
    assert len(outcome.figures[0].panels) == 2


# ---- uci and donations


def test_printed_protocol_is_that_of_the_paper():
    """RLSR against its closed form with the paper's sigma and nu."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((30, 4)), rng.random(30)
    data = RegressionSet(X, y, np.arange(4))
    labelled, unlabelled = np.arange(10), np.arange(10, 30)
    labelled_rows = X[:10]
    sigma = np.mean([[np.sum((a - b) ** 2) for a in labelled_rows] for b in labelled_rows])
    nu = 1 / np.mean([np.sqrt(a @ a) for a in labelled_rows])
    kernel = rbf_kernel(X, labelled_rows, 1 / sigma)
    wanted = kernel[10:] @ np.linalg.solve(kernel[:10] + nu * np.eye(10), y[:10])
    np.testing.assert_allclose(
        corlsr_uci._printed(corlsr_uci.SINGLE, data, labelled, unlabelled, []), wanted, atol=1e-9
    )


def test_halves_that_tell_no_row_apart_are_drawn_again():
    X = np.ones((10, 4))
    X[:, :2] = np.random.default_rng(0).random((10, 2))
    for seed in range(10):
        halves = corlsr_uci._halves(
            RegressionSet(X, X[:, 0], np.arange(4)), X, np.random.default_rng(seed)
        )
        assert all(len({0, 1} & set(half.tolist())) == 1 for half in halves)
    with pytest.raises(ValueError, match="no halves"):
        corlsr_uci._halves(
            RegressionSet(np.ones((10, 4)), X[:, 0], np.arange(4)),
            np.ones((10, 4)),
            np.random.default_rng(0),
        )


def test_donations_are_encoded_as_the_paper_says(folder):
    data = data_sets.donations(folder)
    assert data.X.shape == (700, 5 + 2 + 3)  # five numbers, one with its indicator, three values
    assert not np.isnan(data.X).any()
    assert set(np.unique(data.X[:, 6])) == {0.0, 1.0}
    np.testing.assert_array_equal(data.X[:, -3:].sum(axis=1), 1)
    assert data.attributes.tolist() == [0, 1, 2, 3, 4, 5, 5, 6, 6, 6]
    assert data.y.min() == 0


def test_unlabelled_rows_are_added_and_never_tested_on(folder):
    settings = Settings(folder, quick=True)
    place = corlsr_donations.Place(settings, corlsr_donations.EVERYBODY, corlsr_donations.RAW)
    few, many = (corlsr_donations.DonationDraw(place, n, "run 0") for n in (10, 50))
    np.testing.assert_array_equal(few.holdout, many.holdout)
    np.testing.assert_array_equal(few.unlabelled, many.unlabelled[:10])
    assert not set(many.unlabelled) & (set(many.holdout) | set(many.labelled))
    assert not set(many.holdout) & set(many.labelled)
    tuned = corlsr_donations.DonationDraw(place, 10, "tuning 0")
    assert set(tuned.holdout) != set(few.holdout)


def test_donors_are_those_who_gave(folder):
    settings = Settings(folder, quick=True)
    place = corlsr_donations.Place(settings, corlsr_donations.DONORS, corlsr_donations.RAW)
    draw = corlsr_donations.DonationDraw(place, 10, "run 0")
    assert 0 < len(draw.data.y) < 700
    assert draw.data.y.min() > 0


def test_where_nothing_beats_a_constant_nothing_is_told_apart():
    rng = np.random.default_rng(0)
    base = 0.2 + 0.01 * rng.standard_normal(25)
    better = {0: {corlsr_donations.MEAN: base, "one": base - 0.05, "other": base}}
    none = {0: {corlsr_donations.MEAN: base, "one": base + 0.001, "other": base + 0.002}}
    assert corlsr_donations._can_be_learned(better)
    assert not corlsr_donations._can_be_learned(none)
    finding = Finding("Brefeld2006", "claim", "does not hold", "because.")
    untold = corlsr_donations._untold(finding, none)
    assert untold.verdict == CANNOT_BE_TESTED
    assert "no method errs less than the mean of the labelled targets" in untold.evidence


# ---- parses, noise, agreement, transduction


def test_parses_keep_their_inner_products(folder):
    with np.load(folder / data_sets.PARSES[0]) as stored:
        rows = np.vstack([data_sets._stored(stored, part).toarray() for part in ("train", "test")])
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    data = data_sets.parses(folder)
    np.testing.assert_allclose(data.X @ data.X.T, rows @ rows.T, atol=1e-9)
    assert len(np.unique(data.qid)) == 24


def test_every_sentence_is_judged_once_by_a_model_that_never_saw_it(folder, monkeypatch):
    data = data_sets.parses(folder)
    seen = []

    def compared(task, kernel, rng):
        assert not set(task.rows.qid) & set(task.test.qid)
        seen.extend(np.unique(task.test.qid).tolist())
        queries = list(dict.fromkeys(task.test.qid.tolist()))
        return {"errors": {"itself": [float(query) for query in queries]}}

    monkeypatch.setattr(co_rankrls, "compared", compared)
    result = co_rankrls.run_parses(Settings(folder, quick=True), np.random.default_rng(0), "table")
    errors = result["errors"]
    assert sorted(seen) == np.unique(data.qid).tolist()
    assert errors["itself"] == np.unique(data.qid).tolist()


def test_the_distinct_rows_give_the_exact_ranker():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((6, 3))[rng.integers(6, size=40)]
    y, qid = rng.standard_normal(40), np.repeat(np.arange(8), 5)
    task = co_rankrls.PartlyScored(Rankings(X, y, qid), 40, Rankings(X, y, qid))
    kept = co_rankrls.distinct(X)
    assert len(kept) == len(np.unique(X, axis=0))
    exact, sparse = (
        co_rankrls.RankRLS(basis=basis, alpha=0.5, gamma=0.3, weighting="unit").fit(X, y, qid=qid)
        for basis in ("all", kept)
    )
    np.testing.assert_allclose(exact.predict(X), sparse.predict(X), atol=1e-8)
    assert np.isnan(replace(task, n_scored=30).scores[30:]).all()


def test_without_unscored_items_the_curve_starts_at_the_mean_of_the_views(folder):
    settings = Settings(folder, quick=True)
    data = data_sets.jester(folder)
    rng = np.random.default_rng(0)
    scored, unscored, test = (
        data.drawn(np.arange(*span), 10, rng) for span in ((0, 8), (8, 16), (16, 30))
    )
    task = co_rankrls.PartlyScored(stacked(scored, unscored), len(scored.y), test)
    curve = co_rankrls.curve(
        task, [0, 4, 8], {"kernel": "rbf", "gamma": 0.001}, np.random.default_rng(1)
    )["errors"]
    assert list(curve) == ["0", "4", "8"]
    assert settings.quick
    assert all(len(errors) == 14 for errors in curve.values())


def test_noise_is_on_training_scores_only():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    train = Rankings(X, X[:, 0], np.repeat(np.arange(12), 5))
    errors = kpcrank_noise.noisy(train, train, 3.0, {"kernel": "linear"}, np.random.default_rng(1))
    assert list(errors) == ["0.0", "0.5", "1.0"]
    assert np.mean(errors["0.0"]["RankRLS"]) < 0.05
    assert np.mean(errors["1.0"]["RankRLS"]) > np.mean(errors["0.0"]["RankRLS"])


def test_published_numbers_are_those_of_the_tables():
    assert kpcrank_noise.PUBLISHED["KPCRank"] == (0.37, 0.41, 0.42)
    assert co_rankrls.PUBLISHED == {"Sparse RankRLS": 0.348, "Sparse Co-RankRLS": 0.326}
    assert pytest.approx(0.326 - 0.348) == co_rankrls.GAIN
    assert [statistic for _, _, statistic in corlsr_uci.CLAIMS] == [54, 66, 63]


def test_methods_at_chance_are_not_told_apart():
    rng = np.random.default_rng(0)
    chance = 0.5 + 0.1 * rng.standard_normal((10, 40))
    assert not kpcrank_noise.better_than_chance({"one": chance, "other": chance + 0.01})
    assert kpcrank_noise.better_than_chance({"one": chance, "other": chance - 0.2})
    errors = dict.fromkeys(kpcrank_noise.LEARNERS, chance)
    by_noise = {name: dict.fromkeys(kpcrank_noise.LEVELS, errors) for name in kpcrank_noise.SETS}
    findings = kpcrank_noise._findings(by_noise)
    assert len(findings) == 3 + 3 * (4 + 3 + 3) + 1  # each comparison apart
    assert {finding.verdict for finding in findings[:-1]} == {CANNOT_BE_TESTED}
    assert all("no method ranks better" in finding.evidence for finding in findings[3:-1])


@pytest.mark.parametrize("name", ["jester few", "ltr few"])
def test_unscored_and_test_rows_are_no_copies_of_scored_ones(folder, small, name):
    run = co_rankrls.RUNS[name.split()[0]]
    settings = Settings(folder, quick=True)
    result = run(settings, np.random.default_rng(0), "table", name)
    assert result["copies"] == {"unscored": 0.0, "test": 0.0}
    assert set(result["errors"]) == set(co_rankrls.METHODS)


def test_copies_are_counted():
    rows = np.arange(6.0).reshape(3, 2)
    assert data_sets.share_of_copies(np.vstack([rows[:1], rows + 1]), rows) == 0.25


def test_transduction_hides_the_scores_it_is_judged_on(folder):
    settings = Settings(folder, quick=True)
    for name in transduction.SETS:
        few, n_few = transduction.drawn(settings, np.random.default_rng(0), name, 5)
        more, n_more = transduction.drawn(settings, np.random.default_rng(0), name, 10)
        assert n_few < n_more
        assert not set(more.qid[:n_more]) & set(more.qid[n_more:])
        # other items than the scored ones, and the same queries are judged on
        assert data_sets.share_of_copies(more.X[n_more:], more.X[:n_more]) == 0
        np.testing.assert_array_equal(few.y[n_few:], more.y[n_more:])


# ---- costs


def test_costs_are_measured_and_concluded(monkeypatch):
    monkeypatch.setattr(costs, "QUICK_TIMES", 2)
    monkeypatch.setattr(costs, "EPSILONS", (1e-2, 1e-3, 1e-4))
    settings = Settings(quick=True)
    results = {}
    for part in costs.parts(settings):
        sizes = {"sizes": part.arguments["sizes"][:2]} if "sizes" in part.arguments else {}
        if part.run is costs.run_growth:  # the shape of a result, without the work
            seconds = np.asarray([[1.0, 2.0], [1.1, 2.1]])
            results[part.key] = {**sizes, "seconds": seconds.tolist()}
        elif part.run is costs.run_pair:
            results[part.key] = {"seconds": [[1.0, 1.5], [1.0, 1.6]]}
        else:
            rng = np.random.default_rng(0)
            results[part.key] = part.run(settings, rng, **(part.arguments | sizes))
    outcome = costs.conclude(settings, results)
    assert len(outcome.findings) == len(results)
    for finding in outcome.findings:
        assert finding.source.split()[0] in PAPERS
        assert finding.interval is not None
    sent = next(finding for finding in outcome.findings if "numbers are sent" in finding.claim)
    assert sent.verdict == HOLDS  # bytes are counted
    faster = next(finding for finding in outcome.findings if "faster" in finding.claim)
    assert faster.verdict == DOES_NOT_HOLD  # 1.5 times the time in these made-up results


@pytest.mark.parametrize("of", list(costs.MAKERS))
def test_what_is_timed_can_be_fitted(of):
    arguments = next(power.arguments for power in costs.POWERS if power.of == of)
    size = 2 if arguments.get("vary") == "views" else 200
    costs.MAKERS[of](np.random.default_rng(0), size, **arguments)()


# ---- a little of the real data

PLACES = [os.environ.get("CORANK_DATA"), Path(__file__).parents[3] / "shared" / "data"]
REAL = next((Path(place) for place in PLACES if place and (Path(place) / "jester").is_dir()), None)
real = pytest.mark.skipif(
    REAL is None, reason="the data folder is not at hand: set CORANK_DATA to it"
)


@real
def test_printed_protocol_on_real_sets_brings_out_the_papers_order():
    settings = Settings(REAL, quick=True)
    results = {}
    for part in corlsr_uci.parts(settings):
        if (
            part.arguments["protocol"] == corlsr_uci.PRINTED
            and len(corlsr_uci._set(settings, part.arguments["name"]).y) < 150
        ):
            results[part.key] = part.run(
                settings, part_rng("uci", settings, part), **part.arguments
            )
    errors = corlsr_uci._errors(results, corlsr_uci.PRINTED)
    means = {
        method: np.mean([runs[method].mean() for runs in errors.values()])
        for method in corlsr_uci.METHODS
    }
    assert means[corlsr_uci.FULL] < means[corlsr_uci.SINGLE]
    assert means[corlsr_uci.SEMI] < means[corlsr_uci.SINGLE]


@real
def test_real_parses_and_jokes_are_ranked_better_than_by_chance(monkeypatch):
    monkeypatch.setattr(co_rankrls, "QUICK_TEST_USERS", 50)
    settings = Settings(REAL, quick=True)
    sentences = co_rankrls.run_parses(settings, np.random.default_rng(0), "table")["errors"]
    assert len(sentences[co_rankrls.STANDARD]) == 42
    assert np.nanmean(sentences[co_rankrls.STANDARD]) < 0.45
    users = co_rankrls.run_jester(settings, np.random.default_rng(0), "table", "jester many")
    assert np.nanmean(users["errors"][co_rankrls.STANDARD]) < 0.48


@real
def test_real_donations_and_queries_are_read():
    assert data_sets.donations(REAL).X.shape[0] == 9686
    place = corlsr_donations.Place(Settings(REAL), corlsr_donations.EVERYBODY, corlsr_donations.RAW)
    draw = corlsr_donations.DonationDraw(place, 9000, "run 0")
    assert draw.error(corlsr_uci.SEMI, 1.0, 0.1) < 1
    errors = transduction.run(Settings(REAL), np.random.default_rng(0), "ltr", 5)["errors"]
    assert np.nanmean(errors[transduction.INDUCTIVE]) < 0.5
