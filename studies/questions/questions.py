"""Is it worth choosing what to ask? `suggest` against questions drawn at random, one user at a
time.

Protocol: 200 users of Jester who rated all 100 jokes, and 200 users of sushi. Every user has a
model. It begins with a few answers to questions drawn at random, the same for both ways of going
on; then one question after the other is added, the first of `suggest` that was not asked yet, or
one drawn at random among those not asked yet, and answered from what the user said: which of two is
better (PreferenceGP, `update_comparisons`; of two jokes rated the same both directions are told),
or the score of one item (DifferenceGP, `update`). The error is the disagreement on all items of the
user, asked about or not: what one wants to know is the order of all of them.

The features of a joke are the ratings by 100 other users, those of sushi the columns of the item.
Kernel width, amplitude and noise are learned once, on 50 other users, and then fixed: those of
largest evidence, summed over the users, on a grid. Nothing is tuned on the 200. Decided before any
result was seen.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from corank import DifferenceGP, PreferenceGP
from corank.metrics import disagreement_error
from studies.data import (
    JESTER,
    SUSHI,
    Floats,
    Integers,
    jester,
    sushi,
    sushi_orders,
    unconnected_comparisons,
)
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

# users asked, others to learn the kernel on, comparisons of each of those
N_USERS, N_OTHERS, N_LEARNED = 200, 50, 100
TITLES = {"jester": "Jester", "sushi": "sushi"}
START = {
    ("jester", "comparison"): 3,
    ("jester", "score"): 5,
    ("sushi", "comparison"): 3,
    ("sushi", "score"): 3,
}
ASKED = {
    ("jester", "comparison"): 40,
    ("jester", "score"): 30,
    ("sushi", "comparison"): 20,
    ("sushi", "score"): 6,
}
SUGGESTED, RANDOM = "suggest", "random"
GAMMAS, AMPLITUDES, VARIANCES, NOISES = (
    4.0 ** np.arange(*ends) for ends in ((-4, 3), (-2, 5), (-2, 3), (-3, 2))
)


def parts(settings: Settings) -> list[Part]:
    """One part per set, kind of question, user and way of asking."""
    methods = (DrawMethod(SUGGESTED, "GaussianProcess"), DrawMethod(RANDOM, "GaussianProcess"))
    users = range(2 if settings.quick else N_USERS)
    return draw_parts(run, [(name, kind, user) for name, kind in START for user in users], methods)


# ---- users


@dataclass(frozen=True)
class AskedUser:
    """Items (n, d), and how good the user finds them: (n,)."""

    X: Floats
    values: Floats


@lru_cache(maxsize=4)
def people(folder: Path, name: str, kind: str) -> list[AskedUser]:
    """The users who are asked, then those on whom the kernel is learned."""
    rng = np.random.default_rng([0, 41])
    if name == "jester":
        data = jester(folder)
        complete = np.flatnonzero(~np.isnan(data.scores).any(axis=1))
        users = rng.permutation(complete)[: N_USERS + N_OTHERS]
        return [AskedUser(data.items, data.scores[user]) for user in users]
    data, orders = sushi(folder), sushi_orders(folder)
    decided = np.flatnonzero(np.nanmax(data.scores, axis=1) > np.nanmin(data.scores, axis=1))
    users = rng.permutation(decided)[: N_USERS + N_OTHERS]
    places = -np.arange(orders.shape[1], dtype=float)
    return [
        AskedUser(
            data.items[orders[user]],
            places if kind == "comparison" else data.scores[user, orders[user]],
        )
        for user in users
    ]


def all_pairs(n: int, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Every pair of n items, in random order."""
    pairs = np.stack(np.triu_indices(n, 1), axis=1)
    return [(int(a), int(b)) for a, b in rng.permutation(pairs)]


def answered(values: Floats, pairs: Sequence[tuple[int, int]]) -> tuple[Integers, Integers]:
    """Winners and losers; a tie is told both ways."""
    answers = []
    for a, b in pairs:
        answers += [(a, b)] if values[a] >= values[b] else []
        answers += [(b, a)] if values[b] >= values[a] else []
    winners, losers = np.asarray(answers, dtype=np.int64).T
    return winners, losers


# ---- the kernel, learned on others


@lru_cache(maxsize=4)
def learned(folder: Path, name: str, kind: str, quick: bool) -> dict[str, float]:
    """Width and variances of largest evidence on the other users, all of them together."""
    others = people(folder, name, kind)[N_USERS:]
    others = others[:2] if quick else others
    rows = np.concatenate([person.X for person in others])
    gammas = GAMMAS / (rows.shape[1] * rows.var())
    if kind == "comparison":
        grid = [{"gamma": g, "amplitude": a} for g, a in itertools.product(gammas, AMPLITUDES)]
    else:
        level = float(np.mean([person.values.var() for person in others]))
        grid = [
            {"gamma": g, "amplitude": level * a, "noise": level * v}
            for g, a, v in itertools.product(gammas, VARIANCES, NOISES)
        ]
    grid = [
        {key: float(value) for key, value in point.items()} for point in grid[:: 12 if quick else 1]
    ]
    evidence = [
        sum(_evidence(person, kind, number, point) for number, person in enumerate(others))
        for point in grid
    ]
    return grid[int(np.argmax(evidence))]


def _evidence(person: AskedUser, kind: str, number: int, kernel: dict[str, Any]) -> float:
    if kind == "score":
        return float(DifferenceGP(**kernel).fit(person.X, person.values).log_evidence_)
    pairs = all_pairs(len(person.X), np.random.default_rng([number, 42]))[:N_LEARNED]
    with unconnected_comparisons():
        return float(
            PreferenceGP(**kernel)
            .fit_comparisons(person.X, *answered(person.values, pairs))
            .log_evidence_
        )


# ---- the loop


def run(settings: Settings, rng: np.random.Generator, draw: Draw, method: DrawMethod) -> Result:
    """Errors for a user, after the first answers and after every question."""
    name, kind, user = str(draw[0]), str(draw[1]), int(draw[2])
    kernel = learned(settings.folder, name, kind, settings.quick)
    person = people(settings.folder, name, kind)[user]
    rng, n_start, n_asked = np.random.default_rng([user, 43]), START[name, kind], ASKED[name, kind]
    n_asked = min(n_asked, 3) if settings.quick else n_asked
    chosen = method.title == SUGGESTED
    with unconnected_comparisons():
        loop = ask_comparisons if kind == "comparison" else ask_scores
        errors = loop(person, kernel, rng, n_start, n_asked, chosen)
    return {"errors": [round(error, 5) for error in errors], **kernel}


def ask_comparisons(
    person: AskedUser,
    kernel: dict[str, Any],
    rng: np.random.Generator,
    n_start: int,
    n_asked: int,
    chosen: bool,
) -> list[float]:
    """Errors after the first comparisons and after every further one, chosen by `suggest` or drawn
    at random.
    """
    order = all_pairs(len(person.X), rng)
    asked = order[:n_start]
    model = PreferenceGP(**kernel).fit_comparisons(person.X, *answered(person.values, asked))
    errors = [_error(model, person)]
    for step in range(n_start, n_start + n_asked):
        pair = (
            _first_new(lambda n: _pairs_suggested(model, person.X, n), asked, len(order))
            if chosen
            else order[step]
        )
        asked = [*asked, pair]
        model.update_comparisons(person.X, *answered(person.values, [pair]))
        errors.append(_error(model, person))
    return errors


def ask_scores(
    person: AskedUser,
    kernel: dict[str, Any],
    rng: np.random.Generator,
    n_start: int,
    n_asked: int,
    chosen: bool,
) -> list[float]:
    """Errors after the first scores and after every further one, chosen by `suggest` or drawn at
    random.
    """
    order = [int(row) for row in rng.permutation(len(person.X))]
    asked = order[:n_start]
    model = DifferenceGP(**kernel).fit(person.X[asked], person.values[asked])
    errors = [_error(model, person)]
    for step in range(n_start, n_start + n_asked):
        row = (
            _first_new(lambda n: _rows_suggested(model, person.X, n), asked, len(order))
            if chosen
            else order[step]
        )
        asked = [*asked, row]
        model.update(person.X[[row]], person.values[[row]])
        errors.append(_error(model, person))
    return errors


def _pairs_suggested(model: Any, X: Floats, n: int) -> list[tuple[int, int]]:
    return [(int(a), int(b)) for a, b in np.sort(model.suggest(X, n, "comparison"), axis=1)]


def _rows_suggested(model: Any, X: Floats, n: int) -> list[int]:
    return [int(row) for row in model.suggest(X, n, "score")]


def _first_new(suggested: Callable[[int], list[Any]], asked: Sequence[Any], total: int) -> Any:
    """The first suggestion that was not asked yet."""
    old, count = set(asked), 1
    while True:
        new = [question for question in suggested(count) if question not in old]
        if new:
            return new[0]
        count = min(4 * count, total)


def _error(model: Any, person: AskedUser) -> float:
    return float(disagreement_error(person.values, model.predict(person.X)))


# ---- what all of it says


def curves(results: Results, which: tuple[str, str]) -> tuple[Floats, Floats]:
    """Errors of suggested and of random questions: (users, questions + 1) each."""
    users = [by_method for draw, by_method in by_draw(results).items() if draw[:2] == which]
    suggested, random = (
        np.asarray([user[method]["errors"] for user in users]) for method in (SUGGESTED, RANDOM)
    )
    return suggested, random


def conclude(settings: Settings, results: Results) -> Outcome:
    """Errors question by question, and the area between the curves."""
    rows, tables, findings, notes, panels = [], [], [], [], []
    for which, n_start in START.items():
        suggested, random = curves(results, which)
        gaps = (random - suggested)[:, 1:].mean(axis=1)
        low, high = mean_interval(gaps)
        title = f"{TITLES[which[0]]}, {which[1]}s"
        better = int((gaps > 0).sum())
        rows.append(
            (
                title,
                f"{random[:, 0].mean():.4f}",
                *(
                    f"{end.mean():.4f} ± {standard_error(end):.4f}"
                    for end in (suggested[:, -1], random[:, -1])
                ),
                f"{gaps.mean():+.4f}",
                f"{low:+.4f} to {high:+.4f}",
                f"{better} of {len(gaps)}",
            )
        )
        tables.append(_curve_table(title, suggested, random, n_start))
        panels.append(_curve_panel(title, suggested, random, n_start))
        notes.append(f"{title}: {_saved(suggested, random)}; {_kernel(results, which)}.")
        if which[0] == "jester":
            claim = (
                f"{title}: suggested questions are better, the 95 % interval of the area between"
                " the curves above 0"
            )
            findings.append(
                target(claim, f"{gaps.mean():+.4f}, {low:+.4f} to {high:+.4f}.", low > 0)
            )
    head = (
        "questions",
        "at the start",
        "end, suggest",
        "end, random",
        "area between",
        "95 % over users",
        "better for",
    )
    title = (
        "Disagreement on all items of a user; area between the curves: mean of random minus suggest"
        " over the questions"
    )
    caption = (
        "Mean disagreement on all items of a user after so many answers, with bands of one standard"
        " error."
    )
    figure = Figure("answers", caption, panels)
    return Outcome(
        [Table(title, head, rows), *tables], findings, [figure], notes, fit_count(results)
    )


def _curve_table(title: str, suggested: Floats, random: Floats, n_start: int) -> Table:
    steps = np.unique(np.linspace(0, suggested.shape[1] - 1, 7).astype(int))
    rows = []
    for name, errors in ((SUGGESTED, suggested), (RANDOM, random)):
        rows.append((name, *(f"{errors[:, step].mean():.4f}" for step in steps)))
    cells = []
    for step in steps:
        gap = random[:, step] - suggested[:, step]
        cells.append(f"{gap.mean():+.4f} ± {standard_error(gap):.4f}")
    rows.append(("random minus suggest ± s.e.", *cells))
    head = ("", *(str(n_start + step) for step in steps))
    return Table(f"{title}: mean disagreement after so many answers", head, rows, details=True)


def _curve_panel(title: str, suggested: Floats, random: Floats, n_start: int) -> Panel:
    series = []
    for name, errors in ((SUGGESTED, suggested), (RANDOM, random)):
        means = errors.mean(axis=0)
        spreads = errors.std(axis=0, ddof=1) / np.sqrt(len(errors))
        answers = (n_start + np.arange(errors.shape[1])).tolist()
        low, high = (means - spreads).tolist(), (means + spreads).tolist()
        series.append(Series(name, answers, means.tolist(), low, high))
    return Panel(title, "answers", "disagreement", series)


def _saved(suggested: Floats, random: Floats) -> str:
    """How soon suggested questions are where random ones end."""
    reached = np.flatnonzero(suggested.mean(axis=0) <= random.mean(axis=0)[-1])
    total = suggested.shape[1] - 1
    if not len(reached):
        return f"suggested questions do not get where {total} random ones do"
    return f"suggested questions need {reached[0]} to get where {total} random ones do"


def _kernel(results: Results, which: tuple[str, str]) -> str:
    first = next(by_method for draw, by_method in by_draw(results).items() if draw[:2] == which)[
        SUGGESTED
    ]
    return ", ".join(
        f"{name} {first[name]:.3g}" for name in ("gamma", "amplitude", "noise") if name in first
    )


STUDY = Study(
    name="questions",
    title="What to ask next: suggested against random questions",
    about=(
        f"{N_USERS} users of Jester who rated all 100 jokes and {N_USERS} of sushi (ten kinds"
        " each), one model per user. It starts with 3 comparisons (PreferenceGP) or 5 scores"
        " (sushi 3; DifferenceGP) drawn at random, the same for both; then one question after the"
        " other, the first of `suggest` not asked yet or one at random, answered from what the"
        " user said. Error: disagreement on all items of the user. Features of jokes: ratings by"
        f" 100 other users; kernel width and variances learned once on {N_OTHERS} other users by"
        f" evidence, nothing on the {N_USERS}."
    ),
    parts=parts,
    conclude=conclude,
    files=(*JESTER, *SUSHI),
    fixed_draws=True,
    with_results=True,
)
STUDIES = (STUDY,)
