"""Does `corank ask` ask well, and does it know when to stop? Simulated judges answer its questions.

Judges: users of Jester who rated all 100 jokes; users of sushi, each about all 100 kinds; and the
same users about the ten kinds that they ordered themselves. Nobody ordered 100 kinds, so the taste
of a user for all of them is that of a model of all users (six factors, ridge regression on the
scores that were given), which is the truth of the simulation. One answer in ten is wrong: of two
items the worse, of four another one than the best (worst). Features of a joke are the ratings by
100 other users, those of sushi the columns of the item.

Every judge is asked through `Interview`, which learns after each answer (after 100 answers every
other time). The error is the share of misordered pairs among all items of the judge, by the model
of `corank fit --comparisons`. Questions at random are pairs that were not asked before. A pair
counts 3 seconds, best and worst of four 7. The judges chose nothing: not the kernels, nor the rule
that says when to stop, which has no parameter but what it promises (the next 20 answers put fewer
than one pair in 200 right).
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from corank.interview.interview import Interview, Question
from corank.metrics import disagreement_error
from corank.tables.answer_log import POSITIONS
from studies.data import JESTER, SUSHI, Floats, jester, sushi, sushi_orders
from studies.questions.methods import Draw, DrawMethod, Results, by_draw, draw_parts, fit_count
from studies.study import (
    Figure,
    Outcome,
    Panel,
    Part,
    Result,
    Series,
    Settings,
    Study,
    Table,
    target,
)
from studies.verdicts import mean_interval, standard_error

N_JUDGES = {"jester": 50, "sushi": 50, "own ten": 50}
NOISE = 0.1
ASKED, RANDOM, FOUR = "chosen pairs", "random pairs", "chosen fours"
TITLES = {
    "jester": "Jester, 100 jokes",
    "sushi": "sushi, 100 kinds",
    "own ten": "sushi, the user's own ten",
}
MOST = {"jester": 600, "sushi": 500, "own ten": 40}  # pairs that are asked
N_COMPARED = 40  # after so many answers chosen and random questions are compared
# answers between two rankings, and twice as many once chosen and random questions are compared
STEP = 10
OFTEN = 100  # answers after which only every other one is learned from at once
SECONDS = {ASKED: 3, FOUR: 7}
STOP_STEP, LEAST_GAIN = 20, 0.005
N_FACTORS, RIDGE, N_ROUNDS = 6, 3.0, 10


def parts(settings: Settings) -> list[Part]:
    """One part per set, judge and way of asking."""
    methods = [DrawMethod(way, "AutoRanker") for way in (ASKED, RANDOM, FOUR)]
    numbers = {name: 2 if settings.quick else count for name, count in N_JUDGES.items()}
    return draw_parts(
        run, [(name, judge) for name in TITLES for judge in range(numbers[name])], methods
    )


# ---- judges


@lru_cache(maxsize=4)
def judges(folder: Path, name: str) -> list[tuple[Floats, Floats]]:
    """Items (n, d) of every judge, and how good they are to the judge: (n,)."""
    rng = np.random.default_rng([0, 51])
    most = max(N_JUDGES.values())
    if name == "jester":
        data = jester(folder)
        users = rng.permutation(np.flatnonzero(~np.isnan(data.scores).any(axis=1)))[:most]
        return [(data.items, data.scores[user]) for user in users]
    data, orders = sushi(folder), sushi_orders(folder)
    users = rng.permutation(len(orders))[:most]
    if name == "own ten":
        places = -np.arange(orders.shape[1], dtype=float)
        return [(data.items[orders[user]], places) for user in users]
    return [(data.items, tastes(folder)[user]) for user in users]


@lru_cache(maxsize=1)
def tastes(folder: Path) -> Floats:
    """How good every kind of sushi is to every user, by a model of all of them: (users, 100)."""
    scores = sushi(folder).scores
    given = ~np.isnan(scores)
    level = np.nanmean(scores)
    centred = np.where(given, scores - level, 0.0)
    rng = np.random.default_rng([0, 52])
    items = np.hstack(
        [np.ones((scores.shape[1], 1)), 0.1 * rng.standard_normal((scores.shape[1], N_FACTORS))]
    )
    people = np.zeros((scores.shape[0], N_FACTORS + 1))
    for _ in range(N_ROUNDS):
        people = _ridge(items, centred, given)
        people[:, 0] = 1.0  # of the mean taste, which the first factor of items stands for
        items = _ridge(people, centred.T, given.T)
    return np.asarray(people @ items.T)


def _ridge(features: Floats, targets: Floats, given: Floats) -> Floats:
    """Coefficients of every row of targets (n, m) on features (m, k), from those that are given:
    (n, k).
    """
    identity = RIDGE * np.eye(features.shape[1])
    rows = [
        np.linalg.solve(
            features[known].T @ features[known] + identity, features[known].T @ values[known]
        )
        for values, known in zip(targets, given, strict=True)
    ]
    return np.asarray(rows)


def answered(question: Question, values: Floats, rng: np.random.Generator) -> tuple[str, str]:
    """What a judge says: the position of the best item and, of four, of the worst; one answer in
    ten is wrong.
    """
    # ties by chance
    of_items = values[list(question.rows)] + 1e-9 * rng.standard_normal(len(question.rows))
    places = np.argsort(-of_items)
    best = int(places[0] if rng.random() >= NOISE else rng.choice(places[1:]))
    if len(places) == 2:
        return POSITIONS[best], ""
    others = [int(place) for place in places if place != best]
    worst = others[-1] if rng.random() >= NOISE else int(rng.choice(others[:-1]))
    return POSITIONS[best], POSITIONS[worst]


# ---- one judge


def run(settings: Settings, rng: np.random.Generator, draw: Draw, method: DrawMethod) -> Result:
    """Errors of a judge's ranking after 10, 20, … answers, what was expected, and when it was
    enough.
    """
    name, number = str(draw[0]), int(draw[1])
    items, values = judges(settings.folder, name)[number]
    most = {
        ASKED: MOST[name],
        RANDOM: N_COMPARED,
        FOUR: N_COMPARED * SECONDS[ASKED] // SECONDS[FOUR],
    }[method.title]
    if settings.quick:
        most = min(most, 2 * STEP)
    step = 1 if method.title == FOUR else STEP
    columns: dict[str, Any] = {f"c{at}": column for at, column in enumerate(items.T)}
    table = pa.table({"item": [f"item {at}" for at in range(len(items))], **columns})
    rng = np.random.default_rng([number, 53])
    errors, expected, stop = [], [], None
    kind = "best-worst" if method.title == FOUR else "compare"
    pairs = rng.permutation(np.stack(np.triu_indices(len(items), 1), axis=1))
    with Interview(table, id="item", kind=kind, random_state=number) as interview:
        for asked in range(1, most + 1):
            if method.title == RANDOM:
                interview.ask_about([int(row) for row in pairs[asked - 1]])
            question = interview.next()
            if question is None:
                break
            interview.answer(*answered(question, values, rng))
            ranks = asked % (step if asked <= N_COMPARED else 2 * STEP) == 0
            if ranks or (method.title != RANDOM and (asked <= OFTEN or asked % 2 == 0)):
                interview.refresh(ranks=ranks)
            ranking = interview.ranking()
            if not ranks or ranking is None:
                continue
            settled = interview.settled()
            errors.append((asked, round(float(disagreement_error(values, ranking.scores)), 5)))
            expected.append((asked, round(settled.misordered, 5)))
            stop = asked if stop is None and settled.enough else stop
    return {"errors": errors, "expected": expected, "stop": stop}


# ---- what all of it says


def curve(results: Results, name: str, way: str, entry: str = "errors") -> tuple[list[int], Floats]:
    """Numbers of answers, and errors (judges, numbers): those that all judges have."""
    of_judges = [dict(by[way][entry]) for draw, by in by_draw(results).items() if draw[0] == name]
    counts = sorted(set.intersection(*(set(errors) for errors in of_judges)))
    return counts, np.asarray([[errors[count] for count in counts] for errors in of_judges])


def conclude(settings: Settings, results: Results) -> Outcome:
    """Chosen against random pairs, pairs against fours, and when judges are told to stop."""
    names = [name for name in TITLES if any(draw[0] == name for draw in by_draw(results))]
    chosen, fours, stops, findings, panels, notes = [], [], [], [], [], []
    for name in names:
        counts, errors = curve(results, name, ASKED)
        random_counts, random_errors = curve(results, name, RANDOM)
        shared = [count for count in counts if count in random_counts]
        for count in shared:
            gap = random_errors[:, random_counts.index(count)] - errors[:, counts.index(count)]
            low, high = mean_interval(gap)
            cells = (
                errors[:, counts.index(count)].mean(),
                random_errors[:, random_counts.index(count)].mean(),
            )
            chosen.append(
                (
                    TITLES[name],
                    str(count),
                    *(f"{cell:.4f}" for cell in cells),
                    f"{gap.mean():+.4f}",
                    f"{low:+.4f} to {high:+.4f}",
                )
            )
            if count == shared[-1] and name != "own ten":
                claim = (
                    f"{TITLES[name]}: fewer misordered pairs than with random questions after"
                    f" {count} answers"
                )
                findings.append(
                    target(claim, f"{gap.mean():+.4f}, {low:+.4f} to {high:+.4f}.", low > 0)
                )
        fours += _equal_time(results, name, counts, errors)
        if name != "own ten":
            rows, finding = _stops(results, name, counts, errors)
            stops.append(rows)
            findings.append(finding)
        panels.append(_panel(results, name, counts, errors, random_counts, random_errors))
    tables = [
        Table(
            "Share of misordered pairs after so many answers",
            ("judges", "answers", ASKED, RANDOM, "random less chosen", "95 % over judges"),
            chosen,
        ),
        Table(
            "Pairs (3 s) and best and worst of four (7 s) at equal time",
            ("judges", "seconds", "pairs", "fours", "pairs less fours", "95 % over judges"),
            fours,
        ),
        Table(
            "When to stop: N is the first number of answers after which 20 more lower the mean"
            " error by less than 0.005",
            ("judges", "N", "median stop", "middle half", "never", "error at N", "expected at N"),
            stops,
        ),
    ]
    notes.append(
        "Of ten items there are 45 pairs: after 40 answers nearly all were asked, whoever chose"
        " them."
    )
    caption = (
        "Mean share of misordered pairs, with bands of one standard error; dotted: what the page"
        " says it expects."
    )
    return Outcome(tables, findings, [Figure("judges", caption, panels)], notes, fit_count(results))


def _equal_time(
    results: Results, name: str, counts: list[int], errors: Floats
) -> list[tuple[str, ...]]:
    four_counts, four_errors = curve(results, name, FOUR)
    rows: list[tuple[str, ...]] = []
    for count in (count for count in counts if count <= N_COMPARED):
        fours = max(
            (n for n in four_counts if n * SECONDS[FOUR] <= count * SECONDS[ASKED]), default=None
        )
        if fours is None:
            continue
        pairs, other = errors[:, counts.index(count)], four_errors[:, four_counts.index(fours)]
        low, high = mean_interval(pairs - other)
        rows.append(
            (
                TITLES[name],
                str(count * SECONDS[ASKED]),
                f"{pairs.mean():.4f} ({count})",
                f"{other.mean():.4f} ({fours})",
                f"{np.mean(pairs - other):+.4f}",
                f"{low:+.4f} to {high:+.4f}",
            )
        )
    return rows


def _stops(
    results: Results, name: str, counts: list[int], errors: Floats
) -> tuple[tuple[str, ...], Any]:
    means = errors.mean(axis=0)
    after = {
        count: means[counts.index(count + STOP_STEP)]
        for count in counts
        if count + STOP_STEP in counts
    }
    enough = [
        count for count, later in after.items() if means[counts.index(count)] - later < LEAST_GAIN
    ]
    best = enough[0] if enough else counts[-1]
    stops = [by[ASKED]["stop"] for draw, by in by_draw(results).items() if draw[0] == name]
    told = np.asarray(
        [counts[-1] + STOP_STEP if stop is None else stop for stop in stops], dtype=float
    )
    low, median, high = np.percentile(told, (25, 50, 75))
    expected = curve(results, name, ASKED, "expected")[1].mean(axis=0)[counts.index(best)]
    row = (
        TITLES[name],
        f"{best}" if enough else f"more than {best}",
        f"{median:.0f}",
        f"{low:.0f} to {high:.0f}",
        f"{sum(stop is None for stop in stops)} of {len(stops)}",
        f"{means[counts.index(best)]:.4f}",
        f"{expected:.4f}",
    )
    claim = f"{TITLES[name]}: the median stop lies between 0.7 N and 1.4 N"
    return row, target(
        claim, f"{median:.0f} for N = {best}.", bool(enough) and 0.7 * best <= median <= 1.4 * best
    )


def _panel(
    results: Results,
    name: str,
    counts: list[int],
    errors: Floats,
    random_counts: list[int],
    random_errors: Floats,
) -> Panel:
    expected = curve(results, name, ASKED, "expected")[1].mean(axis=0)
    series = [
        _series(ASKED, counts, errors),
        _series(RANDOM, random_counts, random_errors),
        Series("expected", counts, expected.tolist(), expected.tolist(), expected.tolist()),
    ]
    return Panel(TITLES[name], "answers", "misordered pairs", series)


def _series(title: str, counts: list[int], errors: Floats) -> Series:
    means = errors.mean(axis=0)
    spread = np.asarray([standard_error(column) for column in errors.T])
    return Series(
        title, counts, means.tolist(), (means - spread).tolist(), (means + spread).tolist()
    )


STUDY = Study(
    name="judges",
    title="Asking a person: chosen questions, and when to stop",
    about=(
        f"{N_JUDGES['jester']} simulated judges of jokes and {N_JUDGES['sushi']} of sushi answer"
        " through `Interview`, one answer in ten wrong. Jester: users who rated all 100 jokes,"
        " features the ratings by 100 others. Sushi: all 100 kinds by a factor model of the users'"
        " scores, as nobody ordered all of them; and the ten kinds that a user did order. Error:"
        " misordered pairs among all items of the judge."
    ),
    parts=parts,
    conclude=conclude,
    files=(*JESTER, *SUSHI),
    fixed_draws=True,
    with_results=True,
)
STUDIES = (STUDY,)
