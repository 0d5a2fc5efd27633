"""The methods that can be compared, by name; others join by `register_method`. After corank's own
come the methods that they are compared with: ridge, Gaussian process, forest, RankSVM, LightGBM.

Each of these is tuned by held-out error on the scored training rows, over as many settings as
corank's learners with views try; a Gaussian process learns its parameters by evidence, a forest has
few that matter. Settings come in families that share their work: one decomposition for all alphas,
one ensemble for all numbers of trees.
"""

from __future__ import annotations

import importlib.util
import pickle
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from scipy import linalg, sparse
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.svm import LinearSVC

from corank.core.arrays import FloatArray, Index, is_sparse, run_starts, stack_rows, take
from corank.core.folds import fold_splits
from corank.core.kernels import scale_gamma
from corank.core.messages import ArgumentError, did_you_mean
from corank.core.queries import query_codes
from corank.core.registry import (
    LearnerRecord,
    declare,
    learner_class,
    learner_record,
    learner_records,
)
from corank.describe import chosen_parameters
from corank.experiments.protocol import Task

SETTINGS = 200  # 20 alphas x 10 agreements, as a learner with views tries
FOLDS = 3
N_WIDTHS = 10
FOREST_TREES = 200
MOST_PAIRS = 4_000  # of the pairwise transform
SVM_SETTINGS = 20  # each costs a fit of its own
N_TREES = tuple(range(2, 101, 2))
LEVELS = 32  # of relevance, which LightGBM wants as whole numbers
LIGHTGBM = (
    {"num_leaves": 4, "min_data_in_leaf": 20, "feature_fraction": 0.3, "learning_rate": 0.1},
    {"num_leaves": 8, "min_data_in_leaf": 5, "feature_fraction": 0.3, "learning_rate": 0.1},
    {"num_leaves": 16, "min_data_in_leaf": 20, "feature_fraction": 1.0, "learning_rate": 0.1},
    {"num_leaves": 8, "min_data_in_leaf": 10, "feature_fraction": 1.0, "learning_rate": 0.05},
)
assert len(LIGHTGBM) * len(N_TREES) == SETTINGS
Setting: TypeAlias = dict[str, Any]
Predict: TypeAlias = Callable[[Any], FloatArray]  # rows → (n, settings)
# predictions, and the size of the model with each setting
Fitted: TypeAlias = tuple[Predict, Callable[[int], int]]
BASELINE = "ridge"
N_ATOMS = list(range(1, SETTINGS // N_WIDTHS + 1))
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


@dataclass(frozen=True)
class FittedMethod:
    """A method after fitting.

    Attributes
    ----------
    predict : rows → (n,) scores
    chosen : the parameters that were chosen
    tried : number of settings that were compared; None where nothing was held out
    size : bytes that predictions need
    model : the learner, where it is one of corank
    """

    predict: Callable[[Any], FloatArray]
    chosen: Setting
    tried: int | None
    size: int
    model: Any = None


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
    about = about or f"{type(estimator).__name__} of scikit-learn"
    return Method(name, title or name, about, partial(fit_estimator, estimator))


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
        own["gamma"] = widths(task.scored[0]).tolist()
    if name == "RankRLS":
        # as learners with views choose alpha: else a difference would be that of the rule
        own["scoring"] = "rescaled"
    if name in PURSUITS:
        own["n_atoms"] = [number for number in N_ATOMS if number <= task.n_scored // 2]
    return own


def _fitted(model: Any, predict: Callable[[Any], FloatArray]) -> FittedMethod:
    """A fitted learner of corank, and what it chose."""
    tried = None
    if model.is_average:
        tried = len(model.candidates_)
    elif model.tuning_path is not None:
        tried = len(model.tuning_path.error)
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


# ---- methods of others: how they are tuned


class MethodRows(NamedTuple):
    """Scored rows, those of a query together."""

    X: Any
    y: FloatArray
    qid: Index | None

    def take(self, rows: Any) -> MethodRows:
        """Some of them."""
        return MethodRows(take(self.X, rows), self.y[rows], take(self.qid, rows))


@dataclass(frozen=True)
class Family:
    """Settings that are fitted together: `fit(rows, seed)` gives predictions, one column per
    setting, and model sizes.
    """

    settings: Sequence[Setting]
    fit: Callable[[MethodRows, int], Fitted]


def fit_tuned(families: Sequence[Family], task: Task) -> FittedMethod:
    """The setting with the least held-out error, fitted on all scored rows; among equals the first
    one.
    """
    rows = grouped(*task.scored)
    parts = [(rows.take(kept), rows.take(left)) for kept, left in folds(rows, task.seed)]
    errors = []
    for family in families:
        total = np.zeros(len(family.settings))
        for kept, left in parts:
            predict, _ = family.fit(kept, task.seed)
            total += _errors(left, predict(left.X), task.judge)
        errors.append(total)
    best = int(np.argmin([total.min() for total in errors]))
    at = int(np.argmin(errors[best]))
    chosen = families[best].settings[at]
    predict, size = families[best].fit(rows, task.seed)
    n_tried = sum(map(len, errors))
    return FittedMethod(lambda X: predict(X)[:, at], dict(chosen), n_tried, size(at))


def grouped(X: Any, y: FloatArray, qid: Index | None) -> MethodRows:
    """Rows of a query together, as trees want them; the order is kept otherwise."""
    rows = MethodRows(X, y, qid)
    if qid is None:
        return rows
    return rows.take(np.argsort(qid, kind="stable"))


def folds(rows: MethodRows, seed: int) -> list[tuple[Index, Index]]:
    """Rows to fit on and rows to judge on: whole queries where there are several, else rows."""
    n = len(rows.y)
    queries = np.unique(query_codes(rows.qid, n), return_inverse=True)[1]
    unit_of_row = queries if queries.max() > 0 else np.arange(n)
    n_units = int(unit_of_row.max()) + 1
    order = np.random.default_rng([seed, 2]).permutation(n_units)
    fold_of_row = (order % min(FOLDS, n_units))[unit_of_row]
    return list(fold_splits(fold_of_row))


def _errors(left: MethodRows, predicted: FloatArray, judge: str) -> FloatArray:
    """Sum of the errors of the held-out queries (rows), one per setting."""
    if judge != "rmse":
        return np.asarray(disagreements(left, predicted).sum(axis=0))
    residuals = left.y[:, None] - predicted
    if left.qid is not None:
        for query in np.unique(left.qid):
            members = left.qid == query
            residuals[members] -= residuals[members].mean(axis=0)
    return np.asarray((residuals**2).sum(axis=0))


def _pairs_by_query(rows: MethodRows) -> Iterator[tuple[Index, Index]]:
    """Row numbers (better, worse) of the pairs with different scores, query by query."""
    codes = query_codes(rows.qid, len(rows.y))
    for query in np.unique(codes):
        members = np.flatnonzero(codes == query)
        y = rows.y[members]
        better, worse = np.nonzero(y[:, None] > y[None, :])
        yield members[better], members[worse]


def disagreements(rows: MethodRows, predicted: FloatArray) -> FloatArray:
    """`disagreement_error` of every query with two different scores, for many columns of
    predictions at once.

    O(pairs) per column; held-out queries are small.
    """
    errors = []
    for better, worse in _pairs_by_query(rows):
        if len(better):
            gaps = predicted[better] - predicted[worse]
            n_wrong = np.count_nonzero(gaps < 0, axis=0)
            n_tied = np.count_nonzero(gaps == 0, axis=0)
            errors.append((n_wrong + 0.5 * n_tied) / len(better))
    return np.asarray(errors).reshape(len(errors), predicted.shape[1])


def widths(X: Any) -> FloatArray:
    """Kernel widths around 1 / (columns · variance): (N_WIDTHS,)."""
    return scale_gamma(X) * np.logspace(-1.5, 1.0, N_WIDTHS)


def ridge(task: Task) -> FittedMethod:
    """Ridge regression on the columns, each query's mean score taken out."""
    alphas = np.logspace(-4, 5, SETTINGS)
    settings = [{"alpha": alpha} for alpha in alphas.tolist()]
    return fit_tuned([Family(settings, partial(_ridge_path, alphas))], task)


def gaussian_process(task: Task) -> FittedMethod:
    """scikit-learn's Gaussian process with an rbf kernel; width, amplitude and noise by evidence."""
    rows = grouped(*task.scored)
    X = _dense(rows.X)
    y, level = targets(rows)
    spread = float(y.std()) or 1.0
    kernel = ConstantKernel(1.0) * RBF(np.sqrt(X.shape[1])) + WhiteKernel(0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a parameter at the end of its range
        model = GaussianProcessRegressor(kernel, random_state=task.seed).fit(X, y / spread)

    def predict(X: Any) -> FloatArray:
        return np.asarray(level + spread * model.predict(_dense(X)))

    return FittedMethod(predict, {"kernel": str(model.kernel_)}, None, 8 * X.size)


def forest(task: Task) -> FittedMethod:
    """Extremely randomised trees, with leaves of two sizes to choose from."""
    families = [Family([{"min_samples_leaf": size}], partial(_trees, size)) for size in (1, 4)]
    return fit_tuned(families, task)


def _trees(leaf: int, rows: MethodRows, seed: int) -> Fitted:
    y, level = targets(rows)
    model = ExtraTreesRegressor(FOREST_TREES, min_samples_leaf=leaf, random_state=seed)
    model.fit(_matrix(rows.X), y)
    size = 64 * sum(tree.tree_.node_count for tree in model.estimators_)
    return lambda X: (level + model.predict(_matrix(X)))[:, None], lambda at: size


def _dense(X: Any) -> FloatArray:
    return X.toarray() if is_sparse(X) else np.asarray(X, dtype=np.float64)


def fit_estimator(estimator: Any, task: Task) -> FittedMethod:
    """A regressor of scikit-learn, on the scored rows."""
    rows = grouped(*task.scored)
    y, level = targets(rows)
    model = clone(estimator).fit(_matrix(rows.X), y)
    size = len(pickle.dumps(model))
    return FittedMethod(lambda X: np.asarray(level + model.predict(_matrix(X))), {}, None, size)


def rank_svm(task: Task) -> FittedMethod:
    """A linear support vector machine on differences of rows of a query."""
    costs = np.logspace(-5, 2, SVM_SETTINGS).tolist()
    return fit_tuned([Family([{"C": C}], partial(_pairwise, C)) for C in costs], task)


def targets(rows: MethodRows) -> tuple[FloatArray, float]:
    """Scores less their mean, or less the means of their queries where the level of a query means
    nothing.
    """
    if rows.qid is None:
        level = float(rows.y.mean())
        return rows.y - level, level
    codes = np.unique(rows.qid, return_inverse=True)[1]
    means = np.bincount(codes, weights=rows.y) / np.bincount(codes)
    return rows.y - means[codes], 0.0


def _ridge_path(alphas: FloatArray, rows: MethodRows, seed: int) -> Fitted:
    X = _dense(rows.X)
    centre, (y, level) = X.mean(axis=0), targets(rows)
    U, s, Vt = linalg.svd(X - centre, full_matrices=False)
    shrunk = s[:, None] / (s[:, None] ** 2 + alphas)  # (rank, alphas)
    weights = Vt.T @ (shrunk * (U.T @ y)[:, None])

    def predict(X: Any) -> FloatArray:
        return np.asarray(X @ weights - centre @ weights + level)

    return predict, lambda at: 8 * (X.shape[1] + 1)


def _pairwise(C: float, rows: MethodRows, seed: int) -> Fitted:
    rng = np.random.default_rng([seed, 3])
    first, second = pairs_of(rows, MOST_PAIRS, rng)
    sign = np.ones(len(first))
    sign[1::2] = -1.0  # both classes alike
    differences = rows.X[first] - rows.X[second]
    if is_sparse(rows.X):
        differences = sparse.diags_array(sign) @ differences
    else:
        differences = sign[:, None] * differences
    model = LinearSVC(
        C=C, fit_intercept=False, dual="auto", max_iter=2_000, random_state=seed, tol=1e-3
    )
    (weights,) = model.fit(differences, sign).coef_
    return lambda X: np.asarray(X @ weights)[:, None], lambda at: 8 * len(weights)


def pairs_of(rows: MethodRows, most: int, rng: np.random.Generator) -> tuple[Index, Index]:
    """Row numbers (better, worse) of pairs of a query with different scores; at most so many, drawn
    at random.
    """
    first, second = map(np.concatenate, zip(*_pairs_by_query(rows), strict=True))
    chosen: Any = slice(None)
    if len(first) > most:
        chosen = np.sort(rng.choice(len(first), most, replace=False))
    return first[chosen], second[chosen]


def lightgbm(task: Task) -> FittedMethod:
    """LightGBM: lambdarank with queries, least squares without."""
    return fit_tuned(tree_families(LIGHTGBM, lightgbm_stages), task)


def tree_families(
    grid: Sequence[Setting], fit: Callable[[MethodRows, Setting, Sequence[int]], Fitted]
) -> list[Family]:
    """One family per setting: all numbers of trees."""

    def family(setting: Setting) -> Family:
        settings = [{**setting, "trees": n} for n in N_TREES]
        return Family(settings, lambda rows, seed: fit(rows, setting, N_TREES))

    return list(map(family, grid))


def lightgbm_stages(rows: MethodRows, setting: Setting, n_trees: Sequence[int]) -> Fitted:
    """Fit the largest number of trees with LightGBM; predicts one column for each number of trees."""
    import lightgbm as lgb

    fixed: dict[str, Any] = {"num_threads": 1, "deterministic": True, "seed": 0, "verbosity": -1}
    labels: Any
    labels, level = targets(rows)
    group = None
    if rows.qid is None:
        fixed |= {"objective": "regression", "boost_from_average": False}
    else:
        labels = levels(rows.y)
        group = np.diff(run_starts(rows.qid), append=len(rows.qid))
        fixed["objective"] = "lambdarank"
        if not is_graded(rows.y):
            fixed["label_gain"] = list(range(LEVELS))
    data = lgb.Dataset(_matrix(rows.X), labels, group=group, params={"verbosity": -1})
    model = lgb.train(fixed | setting, data, num_boost_round=max(n_trees))
    grown = model.num_trees()  # fewer than asked for where nothing is left to split

    def leaves(X: Any) -> Index:
        leaf = np.asarray(model.predict(_matrix(X), pred_leaf=True), dtype=np.int64)
        return leaf.reshape(X.shape[0], grown)

    counts = leaves(rows.X).max(axis=0) + 1  # training rows reach every leaf
    values = np.zeros((grown, int(counts.max())))
    for tree, count in enumerate(counts.tolist()):
        values[tree, :count] = [model.get_leaf_output(tree, leaf) for leaf in range(count)]
    last = np.minimum(n_trees, grown) - 1

    def predict(X: Any) -> FloatArray:
        steps = values[np.arange(grown), leaves(X)]
        return level + np.cumsum(steps, axis=1)[:, last]

    return predict, lambda at: len(model.model_to_string(num_iteration=n_trees[at]))


def _matrix(X: Any) -> Any:
    """LightGBM knows CSR matrices, but not CSR arrays."""
    return sparse.csr_matrix(X) if is_sparse(X) else X


def is_graded(y: FloatArray) -> bool:
    """Whether scores are whole numbers from 0 on, few enough to be levels of relevance."""
    whole = y == np.round(y)
    return bool(whole.all() and y.min() >= 0 and y.max() < LEVELS)


def levels(y: FloatArray) -> Index:
    """Scores as levels of relevance: as they are, or by quantiles."""
    if is_graded(y):
        return y.astype(np.int64)
    borders = np.quantile(y, np.linspace(0, 1, LEVELS + 1)[1:-1])
    return np.searchsorted(borders, y, side="right").astype(np.int64)


# ---- all of them

for _method in (
    Method(BASELINE, "ridge", "ridge regression on the columns", ridge, default=True),
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
        gaussian_process,
        default=True,
    ),
    Method("forest", "forest", "extremely randomised trees", forest, default=True),
    Method(
        "ranksvm",
        "RankSVM",
        "a linear support vector machine on pairs",
        rank_svm,
        scale="never",
    ),
    Method(
        "lightgbm",
        "LightGBM",
        "gradient-boosted trees",
        lightgbm,
        scale="without queries",
        needs=("lightgbm",),
        default=True,
    ),
):
    _METHODS[_method.name] = _method
