"""What an order of several items is worth, and what a win is that is called slight or clear.

60 items with three columns; how good they are is a linear and a wavy function of them, with a
standard deviation of 1.2. A judge sees that with noise of variance 1.64, of Gumbel's form (so that
orders are those of Plackett and Luce) or normal, and puts 3 or 8 random items in order (40 and 15
orders); comparisons of two come on top (60 and 40). The comparisons that an order implies count
one each, or 2 / m where the better item was chosen from m (`Judgement.pairs`); and held-out errors
leave out two items at a time, or whole answers. Graded wins are ties, slight, plain and clear by
thresholds of .3, .8 and 2 on the difference that the judge sees, and become margins, weights or
plain wins. The error is the share of misordered pairs of all items.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from corank import AutoRanker, RankRLS
from corank.metrics import disagreement_error
from corank.tables.answers import Answers, Judgement, pairs_of
from studies.data import Floats
from studies.questions.methods import Results
from studies.study import Outcome, Part, Result, Settings, Study, Table
from studies.verdicts import student_interval

N_ITEMS, N_DRAWS = 60, 10
LEARNERS: dict[str, Any] = {"RankRLS": RankRLS, "AutoRanker": AutoRanker}
ORDERS = {3: (40, 60), 8: (15, 40)}  # items of an order → orders, comparisons of two
NOISE = ("Plackett and Luce", "normal")
WAYS = {  # how orders are learned from: whether weighted, whether held out whole
    "one each, held out by two": (False, False),
    "2 / m, held out by two": (True, False),
    "one each, held out whole": (False, True),
    "2 / m, held out whole (fit_answers)": (True, True),
}
STEPS = (0.3, 0.8, 2.0)
STRENGTHS = np.array([0.0, 0.5, 1.0, 2.0])
GRADES = {  # margins and weights of ties, slight, plain and clear wins
    "plain wins": (np.sign(STRENGTHS), np.ones(4)),
    "weights 0.5, 1, 2": (np.sign(STRENGTHS), np.maximum(STRENGTHS, 0.5)),
    "margins 0.5, 1, 2 (fit_answers)": (STRENGTHS, np.ones(4)),
}
N_VOTES = 120


def parts(settings: Settings) -> list[Part]:
    """One part per draw."""
    n_draws = 2 if settings.quick else N_DRAWS
    return [Part(f"draw {seed}", run, {"seed": seed}) for seed in range(n_draws)]


def run(settings: Settings, rng: np.random.Generator, seed: int) -> Result:
    """The error of every learner, kind of order and way."""
    rng = np.random.default_rng([seed, 71])
    X = rng.normal(size=(N_ITEMS, 3))
    truth = 0.7 * X @ rng.normal(size=3) + np.sin(X @ rng.normal(size=(3, 4))) @ rng.normal(size=4)
    truth = 1.2 * (truth - truth.mean()) / truth.std()
    errors: dict[str, float] = {}
    for size, numbers in ORDERS.items():
        for noise in NOISE:
            pairs = pairs_of(_answers(rng, truth, size, numbers, noise))
            for way, (weighted, whole) in WAYS.items():
                weights = pairs.counts if weighted else None
                groups = pairs.more["groups"] if whole else None
                for name, learner in LEARNERS.items():
                    model = learner().fit_comparisons(
                        X, pairs.winners, pairs.losers, weights=weights, groups=groups
                    )
                    errors[f"{name}|{size}, {noise}|{way}"] = _error(model, X, truth)
    first, second = _two(rng)
    seen = truth[first] - truth[second] + rng.normal(size=N_VOTES)
    ends = np.where(seen > 0, first, second), np.where(seen > 0, second, first)
    grades = np.digitize(np.abs(seen), STEPS)
    for way, (margins, weights) in GRADES.items():
        for name, learner in LEARNERS.items():
            model = learner().fit_comparisons(
                X, *ends, margins=margins[grades], weights=weights[grades]
            )
            errors[f"{name}|graded|{way}"] = _error(model, X, truth)
    return errors


def _answers(
    rng: np.random.Generator, truth: Floats, size: int, numbers: tuple[int, int], noise: str
) -> Any:
    """Orders of so many items, and of two; with the rows of the items by name."""
    names = list(map(str, range(len(truth))))
    judgements = []
    for items, number in zip((size, 2), numbers, strict=True):
        for _ in range(number):
            rows = rng.choice(len(truth), items, replace=False)
            errors = rng.gumbel(size=items) if noise == NOISE[0] else 1.28 * rng.normal(size=items)
            ordered = rows[np.argsort(-(truth[rows] + errors))]
            judgements.append(Judgement(tuple(map(str, ordered)), tuple(range(1, items + 1))))
    return Answers(judgements).at_rows(names)


def _two(rng: np.random.Generator) -> tuple[Any, Any]:
    first = rng.integers(N_ITEMS, size=N_VOTES)
    return first, (first + rng.integers(1, N_ITEMS, size=N_VOTES)) % N_ITEMS


def _error(model: Any, X: Floats, truth: Floats) -> float:
    return float(disagreement_error(truth, model.predict(X)))


def conclude(settings: Settings, results: Results) -> Outcome:
    """Mean errors, and their differences to the first way of a setting."""
    tables = []
    errors = {key: np.array([draw[key] for draw in results.values()]) for key in _keys(results)}
    for title, ways in (("Orders", WAYS), ("Graded wins", GRADES)):
        rows = []
        for key, values in errors.items():
            learner, setting, way = key.split("|")
            if way not in ways:
                continue
            base = errors[f"{learner}|{setting}|{next(iter(ways))}"]
            mean, low, high = student_interval(values - base)
            against = "" if way == next(iter(ways)) else f"{mean:+.3f} ({low:+.3f} to {high:+.3f})"
            rows.append((learner, setting, way, f"{values.mean():.3f}", against))
        head = ("learner", "items, noise", "comparisons", "misordered", "against the first")
        tables.append(Table(title, head, sorted(rows, key=lambda row: (str(row[0]), str(row[1])))))
    return Outcome(tables, n_fits=len(results) * len(errors))


def _keys(results: Results) -> list[str]:
    return list(next(iter(results.values())))


STUDY = Study(
    name="orders",
    title="What orders of several items and graded wins are worth",
    about=f"60 made-up items, orders of 3 and 8 of them; {N_DRAWS} draws.",
    parts=parts,
    conclude=conclude,
    fixed_draws=True,
    with_results=True,
)
STUDIES = (STUDY,)
