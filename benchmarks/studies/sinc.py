"""002 sect. 6.2: the sinc function learned from pairs of its points, by who is higher and by how much.

Protocol: of 2,000 equidistant points of [-4, 4] 1,000 are drawn for training pairs and 338 others for test pairs; 379
training pairs, 48 test pairs; the error is the share of test pairs put the wrong way round. 30 repetitions.

What the paper leaves open, decided before any result was seen:
- which pairs: drawn from all unordered pairs of the points, none twice; pairs of equal value (x and -x) are left out.
- whether the printed errors belong to the corrupted preferences of its Fig. 1: both are reported, all preferences right
  and 5 % of the training preferences (19 of 379) turned round, margins with them. Test pairs are never corrupted.
- what KPCRank is given: the pairs with their margins. Its width and number of components are tuned by its own hold-out.
- what "probabilistic pairwise regression" stands for: both models of sect. 5, and the first averaged over widths too.
- 48 pairs are few: the same models are also judged on all pairs of the 338 test points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.studies.answers import expected_parts
from benchmarks.studies.data import Floats, Integers
from benchmarks.studies.study import (
    Job,
    Method,
    Options,
    Record,
    Result,
    Study,
    Summary,
    Table,
    all_jobs,
    by_draw,
    method_titles,
)
from corank import DifferenceGP, KPCRank, PreferenceGP
from corank.experiments.intervals import standard_error
from corank.metrics import disagreement_error

N_POINTS, N_TRAIN_POINTS, N_TEST_POINTS = 2000, 1000, 338
N_TRAIN, N_TEST, N_REPETITIONS = 379, 48, 30
SHARES = (0, 5)  # per cent of the training preferences turned round
EQUAL = 1e-12
PAIRWISE, AVERAGED, DIFFERENCES, COMPONENTS = "pairwise GP", "pairwise GP, widths averaged", "differences GP", "KPCRank"
METHODS = (
    Method(PAIRWISE, "PreferenceGP"),
    Method(AVERAGED, "PreferenceGP", {"average_width": True}),
    Method(DIFFERENCES, "DifferenceGP"),
    Method(COMPONENTS, "KPCRank", {"gamma": "tune"}),
)
LEARNERS = {"PreferenceGP": PreferenceGP, "DifferenceGP": DifferenceGP, "KPCRank": KPCRank}
UNSAID = (
    "002 prints one figure for its pairwise regression, 0.035, without saying which of its two models it is, whether "
    "preferences were corrupted, or how many repetitions it is a mean of."
)
PAPER = {PAIRWISE: "0.035", AVERAGED: "0.035", DIFFERENCES: "0.035", COMPONENTS: "0.025"}


def jobs(options: Options) -> list[Job]:
    repetitions = 1 if options.quick else N_REPETITIONS
    return all_jobs([(share, draw) for share in SHARES for draw in range(repetitions)], METHODS)


@dataclass(frozen=True)
class Pairs:
    """Points (n, 1), and pairs of them: rows `winners` are said to be higher than rows `losers`, by `margins`."""

    X: Floats
    winners: Integers
    losers: Integers
    margins: Floats


def drawn(draw: int, share: int, n_train: int = N_TRAIN) -> tuple[Pairs, Pairs]:
    """Training pairs, so many per cent of them turned round, and test pairs, all of them right."""
    rng = np.random.default_rng([draw, 21])
    points = rng.permutation(np.linspace(-4, 4, N_POINTS))
    train = _pairs(points[:N_TRAIN_POINTS], n_train, rng)
    test = _pairs(points[N_TRAIN_POINTS : N_TRAIN_POINTS + N_TEST_POINTS], N_TEST, rng)
    wrong = np.zeros(n_train, dtype=bool)
    wrong[rng.permutation(n_train)[: round(n_train * share / 100)]] = True
    winners = np.where(wrong, train.losers, train.winners)
    return Pairs(train.X, winners, np.where(wrong, train.winners, train.losers), train.margins), test


def _pairs(points: Floats, count: int, rng: np.random.Generator) -> Pairs:
    values = np.sinc(points)
    first, second = np.triu_indices(len(points), 1)
    differ = np.abs(values[first] - values[second]) > EQUAL
    chosen = rng.choice(np.flatnonzero(differ), count, replace=False)
    first, second = first[chosen], second[chosen]
    higher = values[first] > values[second]
    winners, losers = np.where(higher, first, second), np.where(higher, second, first)
    return Pairs(points[:, None], winners, losers, values[winners] - values[losers])


def fitted(method: Method, pairs: Pairs) -> Any:
    """The learner on the pairs; who won is all that PreferenceGP is told."""
    model = LEARNERS[method.learner](**method.settings)
    margins = None if method.learner == "PreferenceGP" else pairs.margins
    with expected_parts():
        return model.fit_comparisons(pairs.X, pairs.winners, pairs.losers, margins=margins)


def run(options: Options, job: Job) -> Result:
    share, draw = (int(part) for part in job.draw)
    train, test = drawn(draw, share, 60 if options.quick else N_TRAIN)
    model = fitted(job.method, train)
    scores = model.predict(test.X)
    gaps = scores[test.winners] - scores[test.losers]
    found = {
        "error": float(np.mean((gaps < 0) + 0.5 * (gaps == 0))),
        "all_pairs": float(disagreement_error(np.sinc(test.X[:, 0]), scores)),
        "gamma": float(model.gamma_),
    }
    for name in ("amplitude_", "noise_", "log_evidence_", "n_components_"):
        if hasattr(model, name):
            found[name[:-1]] = float(getattr(model, name))
    return found


def summarise(records: Sequence[Record]) -> Summary:
    draws, methods = by_draw(records), method_titles(records)
    n = len({key[1] for key in draws})
    rows = []
    for method in methods:
        cells = []
        for name in ("error", "all_pairs"):
            for share in SHARES:
                own = np.asarray([found[method][name] for key, found in draws.items() if key[0] == share])
                cells.append(f"{own.mean():.4f} ± {standard_error(own):.4f}")
        rows.append((method, PAPER[method], *cells))
    head = ("method", "002", "48 pairs", "48 pairs, 5 % wrong", "all test pairs", "all test pairs, 5 % wrong")
    title = f"Share of test pairs put the wrong way round ± s.e. over {n} repetitions"
    return Summary([Table(title, head, rows)], [], _notes(draws, methods))


def _notes(draws: dict[tuple[int | str, ...], dict[str, Result]], methods: Sequence[str]) -> list[str]:
    notes = [UNSAID]
    for method in methods:
        parts = []
        for share in SHARES:
            own = [found[method] for key, found in draws.items() if key[0] == share]
            names = [name for name in ("gamma", "amplitude", "noise", "n_components") if name in own[0]]
            typical = [f"{name} {np.median([one[name] for one in own]):.3g}" for name in names]
            parts.append(f"{', '.join(typical)} ({share} % wrong)")
        notes.append(f"{method}, medians: {'; '.join(parts)}.")
    return notes


STUDY = Study(
    name="sinc",
    title="The sinc function from pairs of its points",
    about=(
        "002 sect. 6.2: 379 training pairs of 1,000 points, 48 test pairs of 338 others, of 2,000 equidistant ones in "
        f"[-4, 4]; {N_REPETITIONS} repetitions. Left open by the paper and decided beforehand: pairs are drawn from all "
        "pairs of the points, none twice and none of equal value; preferences are all right, or 5 % of the training pairs "
        "are turned round with their margins, test pairs never. The pairwise GP is told who is higher; the differences GP "
        "and KPCRank by how much too. Everything is tuned by the learner itself: evidence for the GPs, hold-out for KPCRank."
    ),
    draw_names=("wrong", "draw"),
    protocol=1,
    jobs=jobs,
    run=run,
    summarise=summarise,
)
