"""Methods on draws: how the studies of questions are divided into parts, and the learners that
several of them compare.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from corank import RLS, AutoRanker, AutoRegressor, CoRankRLS, CoRLS, RankRLS
from studies.study import Part, Result, Table

# what the data of a fit follow from: seeds, sizes, the name of a set
Draw: TypeAlias = tuple[int | str, ...]
Results: TypeAlias = Mapping[str, Result]  # by the keys of the parts

SUPERVISED, AVERAGE, TUNED = "supervised", "view average", "co-regularised"
REGRESSOR, RANKER = "AutoRegressor", "AutoRanker"
CHOICES = ("supervised", "agreement")  # what has most of the weight in the two above
LIBRARIES = {  # learners that are not of corank → names of their distributions
    "lightgbm": ("lightgbm",),
    "lightgbm-grid": ("lightgbm",),
    "lambdarank-grid": ("lightgbm",),
    "boosting-grid": ("scikit-learn",),
    "trees-grid": ("scikit-learn",),
    "gp-widths": ("scikit-learn",),
    "xgboost": ("xgboost-cpu", "xgboost"),
    "botorch": ("botorch",),
    "lightgbm-columns": ("lightgbm",),
    "lightgbm-numbers": ("lightgbm",),
    "lightgbm-means": ("lightgbm",),
    "choix": ("choix",),
    "evalica": ("evalica",),
}

_WITHOUT_VIEWS = {"RLS": RLS, "RankRLS": RankRLS}
_WITH_VIEWS = {"CoRLS": CoRLS, "CoRankRLS": CoRankRLS}
_AVERAGES = {"AutoRegressor": AutoRegressor, "AutoRanker": AutoRanker}


@dataclass(frozen=True)
class DrawMethod:
    """A learner with its settings.

    title : its name in the tables
    learner : a class of corank, or a key of LIBRARIES
    settings : what it is called with besides what a draw gives it; plain JSON
    """

    title: str
    learner: str
    settings: Mapping[str, Any] = field(default_factory=dict)


# ---- every method on every draw


def draw_parts(
    run: Callable[..., Result],
    draws: Sequence[Draw],
    methods: Sequence[DrawMethod],
    **arguments: Any,
) -> list[Part]:
    """One part per draw and method, called as ``run(settings, rng, draw=..., method=...,
    **arguments)``.

    A draw says which seeds its data follow from; `rng` is not needed.
    """
    return [
        Part(
            _key(draw, method.title),
            run,
            {"draw": draw, "method": method, **arguments},
            libraries=LIBRARIES.get(method.learner, ()),
        )
        for draw in draws
        for method in methods
    ]


def _key(draw: Draw, title: str) -> str:
    return json.dumps([*draw, title], ensure_ascii=False)


def by_draw(results: Results) -> dict[Draw, dict[str, Result]]:
    """The results of every method on each draw, in the order of the draws."""
    grouped: dict[Draw, dict[str, Result]] = {}
    for key, result in results.items():
        *draw, title = json.loads(key)
        grouped.setdefault(tuple(draw), {})[title] = result
    return dict(sorted(grouped.items()))


def method_titles(results: Results) -> list[str]:
    """The methods in the order in which they were asked for."""
    return list(dict.fromkeys(json.loads(key)[-1] for key in results))


def fit_count(results: Results) -> int:
    """How many models were fitted: those a result counts, or one."""
    return sum(int(result.get("fits", 1)) for result in results.values())


# ---- learners with and without views


def regressors(**settings: Any) -> tuple[DrawMethod, ...]:
    """Supervised, views averaged and co-regularised with the same settings, and AutoRegressor."""
    return (
        DrawMethod(SUPERVISED, "RLS", settings),
        DrawMethod(AVERAGE, "CoRLS", settings | {"agreement": 0.0}),
        DrawMethod(TUNED, "CoRLS", settings),
        DrawMethod(
            REGRESSOR, "AutoRegressor", {k: v for k, v in settings.items() if k == "fit_intercept"}
        ),
    )


def rankers(**settings: Any) -> tuple[DrawMethod, ...]:
    """Supervised, views averaged and co-regularised with the same settings, and AutoRanker."""
    return (
        DrawMethod(SUPERVISED, "RankRLS", settings),
        DrawMethod(AVERAGE, "CoRankRLS", settings | {"agreement": 0.0}),
        DrawMethod(TUNED, "CoRankRLS", settings),
        DrawMethod(RANKER, "AutoRanker"),
    )


def make(method: DrawMethod, views: Any, random_state: int) -> Any:
    """The learner, not yet fitted; views go to those that have any, random ones not to averages."""
    if method.learner in _AVERAGES:
        declared = views if isinstance(views, list) else None
        return _AVERAGES[method.learner](
            **method.settings, views=declared, random_state=random_state
        )
    if method.learner in _WITHOUT_VIEWS:
        width = {"gamma": "scale"}  # as learners with views have it
        return _WITHOUT_VIEWS[method.learner](
            **width | dict(method.settings), random_state=random_state
        )
    return _WITH_VIEWS[method.learner](**method.settings, views=views, random_state=random_state)


def choice_of(model: Any) -> Result:
    """What a fitted model chose, where it chose anything."""
    choice: Result = {}
    for name in ("alpha", "agreement"):
        value = getattr(model, f"{name}_", None)
        if value is not None:
            choice[name] = float(value)
    if hasattr(model, "reason_"):
        agreement = sum(
            line.weight for line in model.candidates_ if line.candidate.views == "agreement"
        )
        choice["chosen"] = "agreement" if agreement >= 0.5 else "supervised"
    return choice


def choice_counts(results: Iterable[Result]) -> list[int]:
    """How often each of CHOICES was taken."""
    counts = Counter(result["chosen"] for result in results)
    if unknown := set(counts) - set(CHOICES):
        raise ValueError(f"chosen has values that are not among {CHOICES}: {sorted(unknown)}.")
    return [counts[choice] for choice in CHOICES]


def choice_table(learner: str, rows: Iterable[tuple[str, list[int]]]) -> Table:
    """How often each candidate was chosen, one row per kind of draw."""
    return Table(
        f"What has most of the weight in {learner}",
        ("", *CHOICES),
        [(name, *map(str, counts)) for name, counts in rows],
    )
