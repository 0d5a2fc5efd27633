"""The settings of an average, from the parameters of its learner and what is known of its columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from corank.core.kernels import is_named
from corank.core.views import View, are_by_name, encoded_views, read_views
from corank.encode.encoder import TableEncoder
from corank.learners.average.encoding import KernelColumns, views_of_kernels
from corank.learners.average.roles import PersonsAndItems
from corank.learners.average.scored_table import AverageSettings
from corank.learners.parameters import seed


def settings_of(
    learner: Any,
    encoder: TableEncoder | None,
    roles: PersonsAndItems | None,
    kernel_columns: Sequence[KernelColumns] | None,
    width: int | None,
) -> AverageSettings:
    """Parameters, checked; views are those of the kinds of columns that an encoder found, unless they
    are given.

    kernel_columns : of kernels of the user's own; width : how many columns there are before those of
        items and persons
    """
    views: Sequence[View] = ()
    kinds: Sequence[str] = ()
    number = seed(learner.random_state)
    everything = [] if encoder is None else encoder.groups_
    groups = [group for group in everything if group.kind != "identity"]
    found = [] if encoder is None else encoder.views()
    if is_named(learner.views, "kinds"):
        if len(groups) < 2:
            raise ValueError(
                "views='kinds' needs a table with columns of more than one kind: text, vectors,"
                " and numbers with categories."
            )
        views = found
    elif learner.views is not None:
        views = _declared_views(learner, encoder, np.random.default_rng(number))
    elif any(group.kind != "table" for group in groups):
        views = found
        kinds = [group.kind for group in groups]
        if roles is not None and roles.counts is not None and width is not None:
            views = [*views, View(np.asarray([width]), name="how often it was answered")]
            kinds = [*kinds, "table"]
    identity = [int(at) for group in everything if group.kind == "identity" for at in group.columns]
    settings = AverageSettings(
        ranks=learner._ranks,
        fit_intercept=bool(learner.fit_intercept),
        views=views and views_of_kernels(views, kernel_columns),
        kinds=kinds,
        groups=[group.columns for group in groups if group.kind != "table"],
        candidates=learner.candidates,
        seed=number,
        identity=identity,
    )
    if roles is None or width is None:
        return settings
    item, person, of_persons = roles.places(width)
    return replace(
        settings,
        identity=item or identity,
        unused=identity if item else (),
        person=person,
        of_persons=of_persons,
        n_roles=roles.n_columns,
        by_person=len(person) > 0 and not learner.with_queries,
    )


def _declared_views(
    learner: Any, encoder: TableEncoder | None, rng: np.random.Generator
) -> Sequence[View]:
    """The views that were given, by columns of the features; names are those of a table's columns."""
    if encoder is None or not are_by_name(learner.views):
        names = learner.feature_names
        return read_views(learner.views, learner.n_features_in_, names, rng)
    names = encoder.feature_names_in_
    views: Sequence[View] = encoded_views(
        read_views(learner.views, len(names), names, rng), encoder.attributes_
    )
    return views
