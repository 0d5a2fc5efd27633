"""The learners of the studies: their names in the tables, and how they are made for a draw."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from corank import RLS, AutoRanker, AutoRegressor, CoRankRLS, CoRLS, RankRLS
from studies.questions.study import Method, Result, Table

SUPERVISED, AVERAGE, TUNED = "supervised", "view average", "co-regularised"
REGRESSOR, RANKER = "AutoRegressor", "AutoRanker"

CHOICES = ("supervised", "average", "agreement")

_SUPERVISED = {"RLS": RLS, "RankRLS": RankRLS}
_WITH_VIEWS = {"CoRLS": CoRLS, "CoRankRLS": CoRankRLS, "AutoRegressor": AutoRegressor, "AutoRanker": AutoRanker}


def regressors(**settings: Any) -> tuple[Method, ...]:
    """Supervised, views averaged, co-regularised, and the one that chooses among them, with the same settings."""
    return (
        Method(SUPERVISED, "RLS", settings),
        Method(AVERAGE, "CoRLS", settings | {"agreement": 0.0}),
        Method(TUNED, "CoRLS", settings),
        Method(REGRESSOR, "AutoRegressor", settings),
    )


def rankers(**settings: Any) -> tuple[Method, ...]:
    """The same for ranking."""
    return (
        Method(SUPERVISED, "RankRLS", settings),
        Method(AVERAGE, "CoRankRLS", settings | {"agreement": 0.0}),
        Method(TUNED, "CoRankRLS", settings),
        Method(RANKER, "AutoRanker", settings),
    )


def make(method: Method, views: Any, random_state: int) -> Any:
    """The learner, not yet fitted; views go to those that have any."""
    if method.learner in _SUPERVISED:
        return _SUPERVISED[method.learner](**method.settings, random_state=random_state)
    return _WITH_VIEWS[method.learner](**method.settings, views=views, random_state=random_state)


def chosen(model: Any) -> Result:
    """What a fitted model chose, where it chose anything."""
    found: Result = {}
    for name in ("alpha", "agreement"):
        value = getattr(model, f"{name}_", None)
        if value is not None:
            found[name] = float(value)
    if hasattr(model, "chosen_"):
        found["chosen"] = str(model.chosen_)
    return found


def choices(results: Iterable[Result]) -> list[int]:
    """How often each of CHOICES was taken."""
    counts = Counter(result["chosen"] for result in results)
    if unknown := set(counts) - set(CHOICES):
        raise ValueError(f"chosen_ has values that are not among {CHOICES}: {sorted(unknown)}.")
    return [counts[choice] for choice in CHOICES]


def choice_table(learner: str, rows: Iterable[tuple[str, list[int]]]) -> Table:
    """How often each candidate was chosen, one row a kind of draw."""
    return Table(f"What {learner} chose", ("", *CHOICES), [(name, *map(str, counts)) for name, counts in rows])
