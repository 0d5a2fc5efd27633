"""The studies of ratings, on small made-up data in the format of the real ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from studies.__main__ import study_named
from studies.batched_fits.protocol import GROUPS, SampleSizes
from studies.papers import pursuit_ratings
from studies.papers.pursuit_findings import MethodPair, err_alike, err_less, not_better, not_worse
from studies.run import run_study
from studies.study import CANNOT_BE_TESTED, DOES_NOT_HOLD, HOLDS, PARTLY, Settings
from studies.verdicts import Gap

TINY = SampleSizes(n_reference=12, n_holdout=5, n_test=14, n_repetitions=2)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """150 people, 90 items, in the formats of Jester and MovieLens 1M."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(150, 3)) @ rng.normal(size=(3, 90)) + rng.normal(size=(150, 90))
    is_rated = rng.random((150, 90)).argsort(axis=1) < rng.integers(25, 90, size=(150, 1))
    (folder / "jester").mkdir()
    table = np.where(is_rated, np.clip(np.round(200 * scores), -1000, 1000), 9900).astype(np.int16)
    np.savez(folder / "jester" / "jester_part1.npz", ratings=table)
    (folder / "movielens1m").mkdir()
    user, movie = np.nonzero(is_rated)
    stars = np.clip(np.round(3 + scores[user, movie] / 2), 1, 5).astype(np.uint8)
    np.savez(
        folder / "movielens1m" / "ratings.npz",
        user=(user + 1).astype(np.int16),
        movie=(7 * movie + 3).astype(np.int16),
        rating=stars,
    )
    return folder


@pytest.mark.parametrize(("name", "n_parts"), [("jester", 36), ("movielens", 36)])
def test_a_study_of_ratings_from_end_to_end(
    data: Path, monkeypatch: pytest.MonkeyPatch, name: str, n_parts: int
) -> None:
    monkeypatch.setattr(pursuit_ratings, "QUICK", TINY)
    monkeypatch.setattr(pursuit_ratings, "QUICK_STRIDE", 10)
    study = study_named(name)
    run = run_study(study, Settings(data, quick=True))
    assert run.n_parts == n_parts == len(run.results)
    assert not run.warnings
    titles = [table.title for table in run.outcome.tables]
    for source in study.sources:
        assert any(title.startswith(source) for title in titles)
        assert any(finding.source.startswith(source) for finding in run.outcome.findings)
    first = run.outcome.tables[0]
    assert [row[0] for row in first.rows] == list(pursuit_ratings.TABLED)
    assert all(0.2 < cell.value < 0.8 for row in first.rows for cell in row[2::2])  # type: ignore[union-attr]
    assert run.outcome.n_fits > 10_000


def test_parts_of_a_group_test_the_same_users(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pursuit_ratings, "QUICK", TINY)
    monkeypatch.setattr(pursuit_ratings, "QUICK_STRIDE", 10)
    study = study_named("jester")
    settings = Settings(data, quick=True)
    wanted = [
        part
        for part in study.parts(settings)
        if part.key.endswith((": least squares", ": RankSVM"))
    ]
    rng = np.random.default_rng(0)
    tested = [part.run(settings, rng, **part.arguments)["people"] for part in wanted]
    assert len(wanted) == 12
    assert all(users == tested[0] for users in tested)


def test_a_part_gives_the_same_again(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pursuit_ratings, "QUICK", TINY)
    monkeypatch.setattr(pursuit_ratings, "QUICK_STRIDE", 10)
    settings = Settings(data, quick=True)
    part = next(
        candidate
        for candidate in study_named("movielens").parts(settings)
        if candidate.key.endswith(": pursuit")
    )
    first, second = (
        part.run(settings, np.random.default_rng(seed), **part.arguments) for seed in range(2)
    )
    assert first == second  # draws follow from the seed of the settings alone
    other = part.run(Settings(data, quick=True, seed=1), np.random.default_rng(0), **part.arguments)
    assert first["people"] != other["people"]


def a_pair(
    mean: float, p: float, published: float | None = -0.01, reach: float = 0.0009, at: int = 0
) -> MethodPair:
    gap = Gap(mean, mean - reach, mean + reach, p, 500, 1)
    return MethodPair(GROUPS[at], "one", "other", gap, published, np.nan, 10, 300)


@pytest.mark.parametrize(
    ("pair", "verdict"),
    [
        (a_pair(-0.02, 0.001), HOLDS),
        (a_pair(-0.002, 0.001), PARTLY),  # less than half of what is printed
        (a_pair(0.01, 0.001), DOES_NOT_HOLD),
        (a_pair(-0.001, 0.3), DOES_NOT_HOLD),
        (a_pair(-0.005, 0.3, reach=0.02), CANNOT_BE_TESTED),
        (a_pair(-0.005, 0.3, reach=0.02, published=None), CANNOT_BE_TESTED),
        (replace(a_pair(-0.02, 0.001), n_once=50), CANNOT_BE_TESTED),  # a quick run
        (replace(a_pair(0.01, 0.001), n_once=50), CANNOT_BE_TESTED),
    ],
)
def test_verdict_on_who_errs_less(pair: MethodPair, verdict: str) -> None:
    (finding,) = err_less("Tsivtsivadze2013", "one errs less", [pair])
    assert finding.verdict == verdict
    assert finding.case == "20–40, one against other"


def test_verdicts_on_who_errs_alike() -> None:
    """As the tests of single repetitions say, which are as large as the paper's."""
    seldom, often, few = (
        replace(a_pair(0.001, 0.001), once=once, n_repetitions=10, n_once=users)
        for once, users in ((0.2, 300), (0.9, 300), (0.2, 50))
    )
    found = err_alike("Tsivtsivadze2013", "alike", [seldom, often, few])
    verdicts = [finding.verdict for finding in found]
    assert verdicts == [HOLDS, DOES_NOT_HOLD, CANNOT_BE_TESTED]


def test_verdicts_on_who_is_as_good() -> None:
    most = {GROUPS[0]: 0.006}
    found = not_worse(
        "Tsivtsivadze2013",
        "as well",
        [a_pair(0.004, 0.01), a_pair(0.02, 0.9), a_pair(0.006, 0.9)],
        most,
    )
    verdicts = [finding.verdict for finding in found]
    assert verdicts == [HOLDS, DOES_NOT_HOLD, CANNOT_BE_TESTED]
    found = not_better(
        "Tsivtsivadze2013",
        "no better",
        [a_pair(0.004, 0.01), a_pair(-0.02, 0.01), a_pair(-0.0005, 0.4)],
    )
    verdicts = [finding.verdict for finding in found]
    assert verdicts == [HOLDS, DOES_NOT_HOLD, CANNOT_BE_TESTED]
