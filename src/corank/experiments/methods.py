"""The methods that can be compared, by name. Others join by `register_method`."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from corank.core.arrays import FloatArray, stack_rows
from corank.core.messages import ArgumentError, did_you_mean
from corank.core.registry import (
    LearnerRecord,
    declare,
    learner_class,
    learner_record,
    learner_records,
)
from corank.describe import chosen_parameters
from corank.experiments import peers
from corank.experiments.peers import SETTINGS, FittedMethod
from corank.experiments.protocol import Task

BASELINE = "ridge"
N_ATOMS = list(range(1, SETTINGS // peers.N_WIDTHS + 1))
AVERAGES = ("AutoRanker", "AutoRegressor")
PURSUITS = ("MatchingPursuit", "RankingPursuit")
AUTO, REGRESSOR = "auto", "autoregressor"  # what `corank fit` builds, for orders and for scores
CO_BASIS = 200  # rows that span each view's function


@dataclass(frozen=True)
class Method:
    """A way to learn.

    Attributes
    ----------
    name : what it is asked for by
    title : what tables call it
    about : one line that says what it is
    fit : Task → FittedMethod; a function of a module, so that other processes find it
    uses_unscored : whether it learns from unscored rows too
    for_queries : whether it is meant for data with queries
    scale : where its predictions are on the scale of the scores: always, with queries (up to their
        level), without queries, or never; elsewhere there is no RMSE
    needs : modules that must be installed
    default : whether it is compared when nobody says what to compare
    """

    name: str
    title: str
    about: str
    fit: Callable[[Task], FittedMethod]
    uses_unscored: bool = False
    for_queries: bool = True
    scale: Literal["always", "with queries", "without queries", "never"] = "always"
    needs: tuple[str, ...] = ()
    default: bool = False

    def on_scale(self, *, queries: bool) -> bool:
        """Whether an RMSE makes sense."""
        return self.scale == "always" or self.scale == (
            "with queries" if queries else "without queries"
        )

    @property
    def is_installed(self) -> bool:
        """Whether everything it needs is there."""
        return all(importlib.util.find_spec(name) is not None for name in self.needs)


_METHODS: dict[str, Method] = {}


def register_method(method: Method) -> None:
    """Make a method known by its name, so that `compare(methods=[name])` finds it."""
    if method.name in known_methods():
        raise ValueError(f"a method called {method.name!r} is there already; choose another name.")
    _METHODS[method.name] = method


def estimator_method(
    name: str, estimator: Any, *, title: str | None = None, about: str | None = None
) -> Method:
    """A regressor of scikit-learn as a method, to be tuned by itself, as `GridSearchCV` is.

    It is fitted to the scores of the scored rows; with queries to those less the mean of their
    query.

    Examples
    --------
    >>> from sklearn.kernel_ridge import KernelRidge
    >>> from corank.datasets import make_ranking
    >>> from corank.experiments import Protocol, compare, estimator_method
    >>> mine = estimator_method("mine", KernelRidge(kernel="rbf"), title="kernel ridge")
    >>> data = make_ranking(n_queries=30, query_size=8, random_state=0)
    >>> result = compare(data, ["ridge", mine], Protocol(repeats=5, curves=False))
    >>> [row.title for row in result.rows()]
    ['ridge', 'kernel ridge']
    """
    return Method(
        name,
        title or name,
        about or f"{type(estimator).__name__} of scikit-learn",
        partial(peers.fit_estimator, estimator),
    )


def known_methods() -> dict[str, Method]:
    """Every method by its name: the baseline, corank's learners, then others."""
    learners = {record.method: _learner_method(record) for record in learner_records()}
    return {BASELINE: _METHODS[BASELINE], **learners, **_METHODS}


def default_methods(*, queries: bool, judge: str) -> list[Method]:
    """The baseline and the methods that are compared when nobody says what to compare; peers where
    installed.

    Those that learn to rank where the order counts, those that predict scores where their error
    does.
    """
    regress = judge == "rmse" and not queries
    return [
        method
        for method in known_methods().values()
        if method.default
        and method.is_installed
        and (method.on_scale(queries=False) if regress else method.for_queries)
    ]


def chosen_methods(names: Sequence[str | Method], *, queries: bool, judge: str) -> list[Method]:
    """Methods by name, checked: known, installed, meant for such data."""
    found: list[Method] = []
    methods = known_methods()
    for name in names:
        wanted = REGRESSOR if name == AUTO and judge == "rmse" else name
        method = wanted if isinstance(wanted, Method) else methods.get(wanted)
        if method is None:
            guess = did_you_mean(str(name), methods, 1) or "."
            fault = f"{name!r} is not known{guess} Known methods are {', '.join(methods)}."
            raise ArgumentError("methods", f": {fault}")
        fault = ""
        if not method.is_installed:
            fault = f"needs {', '.join(method.needs)}, which is not installed."
        elif queries and not method.for_queries:
            fault = "is not meant for data with queries; leave it out."
        elif judge == "rmse" and not method.on_scale(queries=queries):
            fault = (
                "gives an order, not scores, and so has no RMSE; leave it out, or judge by"
                " measure='disagreement'."
            )
        elif method.name in [other.name for other in found]:
            fault = "is named twice."
        if fault:
            raise ArgumentError("methods", f": {method.name!r} {fault}")
        found.append(method)
    return found


# ---------------------------------------------------------------- corank's own


def _learner(record: LearnerRecord, settings: Mapping[str, Any], task: Task) -> FittedMethod:
    """A learner, tuned by itself on the scored rows."""
    declare(record)  # other processes do not know of it yet
    model = learner_class(record.name)(**settings, **_own_settings(record, task))
    if task.links is not None and record.name in AVERAGES:
        model.fit(task.X, task.y, qid=task.qid, links=task.training_links)
        return _fitted(model, partial(_predict_linked, model, task, record.ranks))
    model.fit(task.X, task.y, qid=task.qid)
    queries = {"qid": task.qid_test} if record.name == "AutoRanker" else {}
    return _fitted(model, partial(model.predict, **queries))


def _predict_linked(model: Any, task: Task, ranks: bool, X: Any) -> FloatArray:
    """The predictions for test rows, which follow links to the training rows and each other."""
    n = len(task.y)
    rows = stack_rows([task.X, X])
    queries = {}
    if ranks and task.qid is not None and task.qid_test is not None:
        queries = {"qid": np.concatenate([task.qid, task.qid_test])}
    return np.asarray(model.predict(rows, links=task.links, **queries))[n:]


def _own_settings(record: LearnerRecord, task: Task) -> dict[str, Any]:
    """What depends on the data of a draw."""
    own: dict[str, Any] = {}
    name = record.name
    if name in AVERAGES:
        # random views have no place in an average
        declared = task.views if isinstance(task.views, list | tuple) else None
        own = {"views": declared, "encoder": task.encoder, "random_state": task.seed}
    elif record.views:
        own = {"views": task.views, "random_state": task.seed}
        if "basis" in record.options:
            own["basis"] = min(CO_BASIS, len(task.y))
    if name in ("RLS", "RankRLS", *PURSUITS):
        own["gamma"] = peers.widths(task.scored[0]).tolist()
    if name == "RankRLS":
        # as learners with views choose alpha: else a difference would be that of the rule
        own["scoring"] = "rescaled"
    if name in PURSUITS:
        own["n_atoms"] = [number for number in N_ATOMS if number <= task.n_scored // 2]
    return own


def _fitted(model: Any, predict: Callable[[Any], FloatArray]) -> FittedMethod:
    """A fitted learner of corank, and what it chose."""
    path = model.tuning_path
    tried = None if path is None else len(path.error)
    if model.is_average:
        tried = len(model.candidates_)
    return FittedMethod(predict, chosen_parameters(model), tried, _size(model), model)


def _size(model: Any) -> int:
    """Bytes of the model's file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.corank"
        model.save(path)
        return path.stat().st_size


def _learner_method(record: LearnerRecord) -> Method:
    """A learner of corank as a method."""
    scale: Literal["always", "with queries", "never"] = "with queries" if record.ranks else "always"
    return Method(
        record.method,
        record.name,
        record.sentence,
        partial(_learner, record, {}),
        uses_unscored=record.unscored,
        for_queries=record.ranks,
        scale=scale if record.keeps_scale else "never",
        default=record.by_default,
    )


for _method in (
    Method(BASELINE, "ridge", "ridge regression on the columns", peers.ridge, default=True),
    Method(
        "averaged",
        "views averaged",
        "the mean of one model per view, without agreement",
        partial(_learner, learner_record("CoRankRLS"), {"agreement": 0.0}),
        scale="with queries",
    ),
    Method(
        "gp",
        "Gaussian process",
        "scikit-learn's Gaussian process, by evidence",
        peers.gaussian_process,
        default=True,
    ),
    Method("forest", "forest", "extremely randomised trees", peers.forest, default=True),
    Method(
        "ranksvm",
        "RankSVM",
        "a linear support vector machine on pairs",
        peers.rank_svm,
        scale="never",
    ),
    Method(
        "lightgbm",
        "LightGBM",
        "gradient-boosted trees",
        peers.lightgbm,
        scale="without queries",
        needs=("lightgbm",),
        default=True,
    ),
):
    _METHODS[_method.name] = _method
