"""Fits of an average that follow another one: with more answers, or without the unscored rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from warnings import catch_warnings

import numpy as np
import pyarrow as pa
from sklearn.base import clone

from corank.core.arrays import Array, Index, stack_rows, take
from corank.core.kernels import is_named
from corank.core.messages import count, warn_user
from corank.core.views import are_by_name
from corank.inputs import as_numbers
from corank.learners.average.closed_form import Observations
from corank.learners.average.encoding import IDENTITY, PERSON, WITHIN_QUERIES, known_items
from corank.learners.average.fitting import FittedAverage
from corank.learners.average.model import (
    AverageModel,
    candidates_for,
    fit_space,
    fit_table,
    score_units,
)
from corank.learners.average.scored_table import AverageSettings, ScoredTable
from corank.learners.average.similarity import Encoded, Space
from corank.solve.effect import FEWEST_HELD_OUT


def fit_without_unscored(
    learner: Any, table: ScoredTable, rows: pa.Table | None
) -> FittedAverage | None:
    """The average of a fitted learner without its unscored rows, on the same scored rows; None where
    there are none, or too little is left to tell.

    rows : the scored rows before they were encoded, to be encoded without the others; None without
    """
    scored = table.scored
    if len(scored) == len(table.scores) or len(scored) < FEWEST_HELD_OUT:
        return None
    alone = table.take(scored)
    if table.links is not None:
        alone = replace(alone, links=table.links[scored][:, scored])
    encoder = learner.encoder_
    n_roles = len(learner.columns_of_roles)
    by_kinds = learner.views is None or is_named(learner.views, "kinds")
    if encoder is not None and rows is not None and (by_kinds or are_by_name(learner.views)):
        try:
            # of columns that hold less without the other rows
            with catch_warnings(action="ignore"):
                encoder = clone(encoder).fit(rows)
        # without the other rows no column varies: there is no such model to compare with
        except ValueError:
            return None
        features = as_numbers(encoder.transform(rows))
        roles = alone.features[:, alone.features.shape[1] - n_roles :]
        alone = replace(alone, features=np.hstack([features, roles]) if n_roles else features)
    width = alone.features.shape[1] - n_roles
    return fit_table(alone, learner.read_settings(encoder, width))[1]


def all_answers(model: AverageModel) -> tuple[Observations, Encoded]:
    """What a model has kept of its fit, and the answers of persons who came later."""
    units, scored, later = model.units, model.scored, model.later
    assert units is not None
    assert scored is not None
    if later is None:
        return units, scored
    a, n = len(later.scores), units.n_points
    queries = units.queries
    if queries is not None:
        persons = np.unique(later.persons, return_inverse=True)[1]
        queries = np.concatenate([queries, int(queries.max()) + 1 + persons])
    joined = replace(
        units,
        scores=np.concatenate([units.scores, later.scores]),
        roots=np.concatenate([units.roots, np.sqrt(later.weights)]),
        first=np.concatenate([units.first, n + np.arange(a)]),
        folds=np.concatenate([units.folds, int(units.folds.max()) + 1 + np.arange(a)]),
        groups=None,
        queries=queries,
        persons=None,
        n_points=n + a,
    )
    return joined, {name: stack_rows([rows, later.rows[name]]) for name, rows in scored.items()}


def extended(
    model: AverageModel, table: ScoredTable, settings: AverageSettings
) -> tuple[AverageModel, FittedAverage | None]:
    """The average fitted anew to the rows that a model has kept and those of a table; encodings
    stay.
    """
    units, kept = all_answers(model)
    table = table.ordered(settings)
    rows = table.scored
    within = table.queries if settings.ranks and not settings.by_person else None
    encoded = model.encode(table.features, within, table.links)
    scored = {
        name: stack_rows([matrix, take(encoded[name], rows)]) for name, matrix in kept.items()
    }
    new = table.take(rows)
    n_queries = 0 if units.queries is None else int(units.queries.max()) + 1
    queries = None
    if settings.by_person:
        persons = scored[PERSON][:, 0].astype(np.int64)
        queries = persons - persons.min()
    elif units.queries is not None and new.queries is not None:
        queries = np.concatenate([units.queries, n_queries + new.queries])
    new_weights = np.ones(len(rows)) if new.weights is None else new.weights
    weights = np.concatenate([units.roots**2, new_weights])
    scores = np.concatenate([units.scores, new.scores])
    known = ScoredTable(np.empty((len(scores), 0)), scores, queries, weights, table.links)
    refitted, average, order = _fitted_again(model, scored, known, table.features, settings)
    assert table.numbers is not None
    given = np.append(np.arange(len(units)), len(units) + table.numbers[rows])[order]
    return refitted.as_given(average, given, given), average


def _fitted_again(
    model: AverageModel,
    scored: dict[str, Array],
    known: ScoredTable,
    features: Array,
    settings: AverageSettings,
) -> tuple[AverageModel, FittedAverage | None, Index]:
    """The average fitted to encoded rows, and the order in which it takes them.

    known : what is known of the rows beside their columns; features : as they come, encoded by
        nobody
    """
    columns = next(iter(scored.values()))
    if IDENTITY in scored:
        scored[IDENTITY] = known_items(scored[IDENTITY])
        columns = np.hstack([columns, np.maximum(scored[IDENTITY], -1.0)])
    plain = replace(settings, identity=(), person=(), of_persons=(), unused=(), n_roles=0)
    joined = replace(known, features=columns, links=None).ordered(plain)
    order = joined.numbers
    assert order is not None
    persons = None if PERSON not in scored else scored[PERSON][order, 0].astype(np.int64)
    units = score_units(joined.scores, joined.queries, joined.weights, settings, persons)
    ordered = {name: take(matrix, order) for name, matrix in scored.items()}
    space = Space(ordered, model.unscored, model.view_columns)
    candidates = candidates_for(
        features,
        known.links,
        settings,
        has_queries=not scored.keys().isdisjoint(WITHIN_QUERIES),
        agree=bool(model.unscored),
    )
    return *fit_space(space, model.encodings, candidates, units, settings), order


def without_person(
    model: AverageModel, code: int, settings: AverageSettings
) -> tuple[AverageModel, FittedAverage | None]:
    """The average fitted anew without the answers of a person."""
    units, kept = all_answers(model)
    left = kept[PERSON][:, 0] != code
    points, chosen = np.flatnonzero(left), np.flatnonzero(left[units.first])
    if not len(chosen):
        raise ValueError("forget: nobody else has answered; fit a new model.")
    units = units.take(chosen).renumbered(points)
    scored = {name: take(matrix, points) for name, matrix in kept.items()}
    if units.second is not None:
        space = Space(scored, model.unscored, model.view_columns)
        candidates = candidates_for(
            np.empty((0, 0)), None, settings, has_queries=False, agree=bool(model.unscored)
        )
        return fit_space(space, model.encodings, candidates, units, settings)
    queries = units.queries
    if settings.by_person:
        queries = scored[PERSON][:, 0].astype(np.int64)
        queries = queries - queries.min()
    known = ScoredTable(np.empty((len(units), 0)), units.scores, queries, units.roots**2)
    features = next(iter(scored.values()))
    refitted, average, order = _fitted_again(model, scored, known, features, settings)
    return refitted.as_given(average, order, order), average


def warn_of_lonely_rows(queries: Index) -> int:
    """How many queries rows (n,) form; said where some of them are alone."""
    sizes = np.unique(queries, return_counts=True)[1]
    alone = int((sizes == 1).sum())
    if alone:
        warn_user(
            f"qid: {count(alone, 'new row')} of {len(queries)} alone in a query, which says nothing"
            " about the order; rows of a query that the model knows count as a new query, so to"
            " compare them with the old ones fit again with all rows."
        )
    return len(sizes)
