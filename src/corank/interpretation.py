"""What a fitted model says beyond its scores: how sure the ranks are, which columns matter, and in
which direction.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import is_regressor

from corank.core.arrays import FloatArray, Index, masked_as_nan, refuse_masked, take, to_numpy
from corank.core.messages import warn_user
from corank.core.queries import encode_queries
from corank.display import Table
from corank.inputs import MASKED_FEATURES, is_frame
from corank.learners.base import QueryEstimator
from corank.metrics import disagreement_error, misplaced_shares
from corank.solve.posterior import draws

MAX_ROWS_WITHOUT_LEVEL = 2_000  # of a query: the covariance of its scores takes the square of that
MAX_UNCERTAIN_ROWS = 1_000  # of a query: the covariance of its scores takes the square of that
RANK_INTERVAL = (5, 95)  # percent
HELD_OUT_SHARE = 1 / 3  # of the scored rows or queries, on which columns are shuffled
FEWEST_UNITS = 6  # scored rows or queries, below which none are held out
MAX_JUDGED_ROWS = 2_000
QUANTILES = (0.1, 0.3, 0.5, 0.7, 0.9)  # of a column of numbers, at which its effect is found
MAX_CATEGORIES, MAX_AVERAGED_ROWS = 6, 40  # of an effect
MAX_PARTIAL = 20  # columns whose effect is found
NO_PARTIAL_EFFECT: tuple[list[Any], FloatArray, FloatArray | None] = [], np.zeros(0), None


@dataclass(frozen=True)
class RankUncertainty:
    """How sure the ranks of items are.

    Attributes
    ----------
    best : (n,) probability that the item is the best of its query
    low, high : (n,) between which ranks it lies with a probability of at least 90 %, its rank by
        score among them; 1 is the best. An item of high score that the model is unsure of has most
        of its probability below that rank
    """

    best: FloatArray
    low: Index
    high: Index


def knows_uncertainty(model: Any) -> bool:
    """Whether a model says how sure it is of the order of several rows."""
    return isinstance(model, QueryEstimator) and model.knows_uncertainty


def rank_uncertainty(
    model: Any,
    X: Any,
    *,
    qid: Any = None,
    links: Any = None,
    person: Any = None,
    item: Any = None,
    persons: Any = None,
    n_draws: int = 4_000,
    random_state: int = 0,
) -> RankUncertainty:
    """Say how likely each item is the best of its query, and between which ranks it lies.

    Functions are drawn from what the model believes, and the items are ranked by each of them.
    Noise of single scores is left out: the question is which item is better, not which will be
    scored higher next time.

    Parameters
    ----------
    model : AutoRanker, AutoRegressor, PreferenceGP or DifferenceGP, fitted
    X : (n, d) items, as in `predict`
    qid : (n,) query labels; None = one query
    links, person, item, persons : as in `AutoRanker.predict`
    n_draws : int, number of functions
    random_state : int

    Returns
    -------
    RankUncertainty
        NaN, and ranks 0, for queries of more than 1,000 items. O(m³ + m² n_draws) for a query of m
        items.

    Examples
    --------
    >>> import numpy as np
    >>> from corank import AutoRegressor, rank_uncertainty
    >>> X = np.linspace(0, 6, 30)[:, None]
    >>> model = AutoRegressor().fit(X, np.sin(X[:, 0]))
    >>> sure = rank_uncertainty(model, np.array([[1.5], [4.5]]))
    >>> sure.low.tolist(), sure.high.tolist()
    ([1, 2], [1, 2])
    """
    if not knows_uncertainty(model):
        raise TypeError(
            f"model: {type(model).__name__} does not say how sure it is; AutoRanker and"
            " PreferenceGP do."
        )
    n = len(X) if not hasattr(X, "shape") else X.shape[0]
    queries = np.zeros(n, dtype=np.int64) if qid is None else to_numpy(encode_queries(qid, n)[0])
    best = np.full(n, np.nan)
    low = np.zeros(n, dtype=np.int64)
    high = np.zeros(n, dtype=np.int64)
    rng = np.random.default_rng(random_state)
    within = {"qid": qid} if "qid" in model.takes and model.with_queries else {}
    about = {"links": links, "person": person, "item": item, "persons": persons}
    about = about if "links" in model.takes else {}
    scores = to_numpy(model.predict(X, **within, **about))
    covariance_of = _covariance_at(model, X, **about)
    for query in range(int(queries.max(initial=-1)) + 1):
        rows = np.flatnonzero(queries == query)
        if not 0 < len(rows) <= MAX_UNCERTAIN_ROWS:
            continue
        functions = draws((scores[rows], covariance_of(rows)), n_draws, rng)
        ranks = np.argsort(np.argsort(-functions, axis=1), axis=1) + 1
        best[rows] = (ranks == 1).mean(axis=0)
        by_score = np.argsort(np.argsort(-scores[rows])) + 1
        ends = np.percentile(ranks, RANK_INTERVAL, axis=0, method="nearest").astype(np.int64)
        low[rows] = np.minimum(ends[0], by_score)
        high[rows] = np.maximum(ends[1], by_score)
    return RankUncertainty(best, low, high)


def _covariance_at(model: Any, X: Any, **about: Any) -> Callable[[Index], FloatArray]:
    """What gives the covariance (m, m) of the function of a model at chosen rows of X."""
    posterior, rows = model.posterior_at(X, **about)
    return lambda chosen: to_numpy(posterior.covariance(take(rows, chosen))[1])


def predicted_scores(
    model: Any, X: Any, queries: Index, linked: dict[str, Any]
) -> tuple[FloatArray, FloatArray | None]:
    """Scores (n_rows,) and, where the model knows how sure it is, their standard deviations
    (n_rows,).

    The level of a ranker's scores is arbitrary and most of their uncertainty, so its standard
    deviations are those of a score less the mean of its query: diag((I − J) C (I − J)) with J =
    11ᵀ/m. O(m²) memory, hence only for queries of up to MAX_ROWS_WITHOUT_LEVEL rows.
    """
    if not model.knows_uncertainty:
        return np.asarray(model.predict(X)), None
    if model.is_average and model.with_queries:
        linked = {**linked, "qid": queries}
    scores, std = map(np.asarray, model.predict(X, return_std=True, **linked))
    if model.is_average or is_regressor(model):  # the level is that of the scores
        return scores, std
    sizes = np.bincount(queries)
    covariance_at = _covariance_at(model, X)
    for query in np.flatnonzero((sizes > 0) & (sizes <= MAX_ROWS_WITHOUT_LEVEL)):
        rows = np.flatnonzero(queries == query)
        covariance = covariance_at(rows)
        shared = covariance.mean(axis=0)
        std[rows] = np.sqrt(np.maximum(np.diag(covariance) - 2 * shared + shared.mean(), 0))
    if (sizes > MAX_ROWS_WITHOUT_LEVEL).any():
        warn_user(
            "std includes the uncertainty of the level of the scores in queries of more than "
            f"{MAX_ROWS_WITHOUT_LEVEL:,} rows"
        )
    return scores, std


# ---- which columns matter


@dataclass(frozen=True)
class ColumnEffect:
    """What a column does to the predictions of a model.

    Attributes
    ----------
    column : its name
    increase : by how much the held-out error grows where the column is shuffled: root mean squared
        error of a regressor, share of misordered pairs of a ranker
    standard_error : of the increase, over held-out rows or queries
    values : some values of the column, from low to high, or its most frequent categories; none for
        text and vectors, and for all but the 20 columns that matter most
    effects : (k,) the mean prediction where all rows have that value, less the mean of these
    deviations : (k,) standard deviations of the effects, None where the model does not say how sure
        it is
    """

    column: str
    increase: float
    standard_error: float
    values: list[Any]
    effects: FloatArray
    deviations: FloatArray | None

    def in_words(self) -> tuple[str, str, str]:
        """Its name, how much it matters, and where predictions are highest and lowest."""
        matters = f"{self.increase:+.3g} ± {self.standard_error:.2g}"
        if not self.values:
            return self.column, matters, ""
        highest, lowest = (self._at(int(place(self.effects))) for place in (np.argmax, np.argmin))
        return self.column, matters, f"highest at {highest}, lowest at {lowest}"

    def _at(self, place: int) -> str:
        sure = "" if self.deviations is None else f" ± {self.deviations[place]:.2g}"
        return f"{self.values[place]} ({self.effects[place]:+.3g}{sure})"


def effects_table(effects: Sequence[ColumnEffect]) -> Table:
    """Which columns matter, as a terminal and a page show it."""
    rows = [effect.in_words() for effect in effects]
    head = ("column", "held-out error if shuffled", "predictions")
    return Table("Columns by how much they matter", rows, head, numbers=head[1:2], folds=True)


def column_effects(
    model: Any, X: Any, y: Any, *, qid: Any = None, n_repeats: int = 5, random_state: int = 0
) -> list[ColumnEffect]:
    """Say which columns matter, by shuffling each in held-out rows, and in which direction.

    A copy of the model is fitted on two thirds of the scored rows (queries where there are
    several), and judged on the others, each column shuffled in turn. Columns that say the same
    stand in for each other, so each of them matters little.

    Parameters
    ----------
    model : fitted learner of scores
    X : (n, d), as in `fit`: a table, or what the model's `encoder_` made of it
    y : (n,) scores, NaN = unscored
    qid : (n,) query labels, as in `fit`
    n_repeats : int, how often each column is shuffled
    random_state : int

    Returns
    -------
    list of ColumnEffect, those that matter most first. O(n_repeats · d) predictions and one fit.
    """
    refuse_masked(X, "X", MASKED_FEATURES)
    model.refuse_targets("column_effects")
    features, columns = _columns_of(model, X)
    scores = np.asarray(masked_as_nan(y), dtype=np.float64)
    queries = None if qid is None else to_numpy(encode_queries(qid, len(scores))[0])
    rng = np.random.default_rng(random_state)
    held_out = _held_out_rows(scores, queries, rng)
    shuffling = _Shuffling(
        _refitted(model, features, scores, queries, held_out),
        features[held_out],
        scores[held_out],
        take(queries, held_out),
        ranks=not is_regressor(model),
    )
    before = shuffling.errors(shuffling.rows[None])
    increases = {
        name: shuffling.increase(before, positions, n_repeats, rng)
        for name, positions in columns.items()
    }
    effects = []
    for number, name in enumerate(sorted(increases, key=lambda name: -increases[name][0])):
        values, means, deviations = NO_PARTIAL_EFFECT
        if number < MAX_PARTIAL:
            values, means, deviations = _partial_effect(model, features, name, columns[name], rng)
        effects.append(ColumnEffect(name, *increases[name], values, means, deviations))
    return effects


@dataclass(frozen=True)
class _Shuffling:
    """A model, and rows (m, d) that it was not fitted on, whose columns are shuffled.

    scores : (m,); queries : (m,) or None
    ranks : whether the order of predictions counts, not their size
    """

    model: Any
    rows: FloatArray
    scores: FloatArray
    queries: Index | None
    ranks: bool

    def errors(self, copies: FloatArray) -> FloatArray:
        """Per unit, the mean over copies (k, m, d) of the rows, which are predicted at once."""
        k, m, d = copies.shape
        within = None
        if self.queries is not None:
            n_queries = self.queries.max() + 1
            within = np.concatenate([self.queries + at * n_queries for at in range(k)])
        predictions = _predicted(self.model, copies.reshape(k * m, d), within)
        per_copy = []
        for of_copy in predictions.reshape(k, m):
            per_copy.append(_unit_errors(self.scores, of_copy, self.queries, ranks=self.ranks))
        return np.asarray(np.mean(per_copy, axis=0))

    def increase(
        self, before: FloatArray, positions: Index, n_repeats: int, rng: np.random.Generator
    ) -> tuple[float, float]:
        """By how much the error grows where the columns at these positions are shuffled, and the
        standard error of that; `before` are the errors where they are not.
        """
        shuffled = np.repeat(self.rows[None], n_repeats, axis=0)
        for copy in shuffled:
            order = rng.permutation(len(self.rows))
            copy[:, positions] = self.rows[order][:, positions]
        grown = self.errors(shuffled) - before
        defined = grown[np.isfinite(grown)]
        increase = float(defined.mean())
        error = float(defined.std(ddof=1) / np.sqrt(len(defined)))
        if self.ranks:
            return increase, error
        # from squared errors to their roots
        mean_before = float(np.nanmean(before))
        root = np.sqrt(max(mean_before + increase, 1e-300))
        return float(root - np.sqrt(mean_before)), float(error / (2 * root))


def _columns_of(model: Any, X: Any) -> tuple[FloatArray, dict[str, Index]]:
    """The rows as numbers (n, d), and for each column of the table the columns of the matrix that
    come from it.
    """
    encoder = model.encoder_
    if encoder is not None and is_frame(X):
        X = encoder.transform(X)
    features = np.asarray(X, dtype=np.float64)
    if encoder is not None:
        names, owners = [column.name for column in encoder.columns_], encoder.attributes_
    else:
        owners = np.arange(features.shape[1])
        names = list(map(str, owners if model.feature_names is None else model.feature_names))
    return features, {names[owner]: np.flatnonzero(owners == owner) for owner in np.unique(owners)}


def _held_out_rows(scores: FloatArray, queries: Index | None, rng: np.random.Generator) -> Index:
    """Numbers of scored rows to hold out, of whole queries where there are several."""
    scored = np.flatnonzero(~np.isnan(scores))
    units = scored if queries is None else queries[scored]
    if len(np.unique(units)) < FEWEST_UNITS:
        units = scored
    distinct = np.unique(units)
    if len(distinct) < FEWEST_UNITS:
        raise ValueError(
            f"y has {len(distinct)} scored rows or queries: at least {FEWEST_UNITS} are needed to"
            " hold some out."
        )
    chosen = rng.permutation(distinct)[: max(2, round(HELD_OUT_SHARE * len(distinct)))]
    return scored[np.isin(units, chosen)][:MAX_JUDGED_ROWS]


def _refitted(
    model: Any, features: FloatArray, scores: FloatArray, queries: Index | None, held_out: Index
) -> Any:
    """A copy of a model, fitted on all rows but some."""
    from sklearn.base import clone

    learner = clone(model)
    if "encoder" in learner.get_params():
        learner.set_params(encoder=model.encoder_)
    others = np.setdiff1d(np.arange(len(scores)), held_out)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what there is to say was said of the model itself
        return learner.fit(features[others], scores[others], qid=take(queries, others))


def _predicted(model: Any, features: FloatArray, queries: Index | None) -> FloatArray:
    within = {"qid": queries} if "qid" in model.takes and queries is not None else {}
    return np.asarray(to_numpy(model.predict(features, **within)), dtype=np.float64)


def _unit_errors(
    scores: FloatArray, predictions: FloatArray, queries: Index | None, *, ranks: bool
) -> FloatArray:
    """Errors of rows, or of queries where there are several: squared ones, or shares of misordered
    pairs.
    """
    if not ranks:
        return (scores - predictions) ** 2
    if queries is None or len(np.unique(queries)) < 2:
        return misplaced_shares(scores, predictions)
    return disagreement_error(scores, predictions, qid=queries, average=False)


def _partial_effect(
    model: Any, features: FloatArray, name: str, positions: Index, rng: np.random.Generator
) -> tuple[list[Any], FloatArray, FloatArray | None]:
    """Values of a column, the mean predictions there, and how sure they are; nothing for text and
    vectors.
    """
    values, cells = _grid(model.encoder_, features, name, positions)
    if not values:
        return NO_PARTIAL_EFFECT
    k = len(values)
    chosen = rng.permutation(len(features))[:MAX_AVERAGED_ROWS]
    rows = features[chosen]
    stacked = np.concatenate([rows] * k)
    stacked[:, positions] = np.repeat(cells, len(rows), axis=0)
    averages = np.kron(np.eye(k) - 1 / k, np.full((1, len(rows)), 1 / len(rows)))
    effects = averages @ _predicted(model, stacked, None)
    if not knows_uncertainty(model):
        return values, effects, None
    covariance = _covariance_at(model, stacked)(np.arange(len(stacked)))
    variances = np.einsum("ij,jk,ik->i", averages, covariance, averages)
    return values, effects, np.sqrt(np.maximum(variances, 0))


def _grid(
    encoder: Any, features: FloatArray, name: str, positions: Index
) -> tuple[list[Any], FloatArray]:
    """Some values of a column, as people read them and as features (k, width)."""
    columns = [] if encoder is None else encoder.columns_
    column = next((column for column in columns if column.name == name), None)
    if column is not None and column.kind == "category":
        counts = features[:, positions[: len(column.categories)]].sum(axis=0)
        frequent = np.argsort(-counts, kind="stable")[:MAX_CATEGORIES]
        return [column.categories[at] for at in frequent], np.eye(len(positions))[frequent]
    is_number = column is None or column.kind in ("number", "duration", "vector")
    if len(positions) != 1 or not is_number:
        return [], np.zeros((0, len(positions)))
    cells = np.unique(np.quantile(features[:, positions[0]], QUANTILES))
    amounts = cells if column is None else cells * column.divisor + column.centre
    return [float(f"{amount:.4g}") for amount in amounts], cells[:, None]
