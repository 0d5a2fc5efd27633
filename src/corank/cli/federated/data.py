"""A site's tables as its settings describe them: private rows, shared items, items to score later."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from corank.cli.columns import feature_columns, features_of, text_columns
from corank.cli.federated.common import shared_columns, shared_table
from corank.encoder import TableEncoder
from corank.federated.predicting import ModelServer
from corank.federated.settings import SiteSettings
from corank.federated.shared import SharedItems
from corank.federated.site import Site, comparison_of
from corank.learners import CoRankRLS, CoRLS, load
from corank.tables import TableError, column, query_column, read_table, score_column


def site_of(given: SiteSettings) -> tuple[Site, TableEncoder]:
    """The site of a settings file, and the encoder of its tables."""
    data, ranks = given.data, given.task == "ranking"
    if ranks and (data.query is None) != (given.shared.query is None):
        raise ValueError("query must be given in [data] and in [shared], or in neither")
    table = read_table(data.file, text=[name for name in (data.query, data.id) if name is not None])
    scores = score_column(table, data.score)
    queries = None if data.query is None else query_column(table, data.query)
    shared = shared_table(given.shared)
    agreed = shared_columns(given.shared, shared)
    encoder, features = _features(given, table, shared)
    site = Site(
        given.name,
        (CoRankRLS if ranks else CoRLS)(**given.learner),
        features[: len(table)],
        scores,
        SharedItems(features[len(table) :], **agreed),
        qid=queries,
        limits=given.limits,
        state=given.state,
    )
    site.model.table_ = {
        **_roles(given),
        "rows": len(table),
        "scored": int(np.isfinite(scores).sum()),
        "queries": None if queries is None else len(np.unique(queries)),
    }
    return site, encoder


def _roles(given: SiteSettings) -> dict[str, str | None]:
    return {"score": given.data.score, "query": given.data.query, "id": given.data.id}


def _features(given: SiteSettings, table: pa.Table, shared: pa.Table) -> tuple[TableEncoder, Any]:
    """Rows and shared items, one below the other, encoded alike."""
    names = feature_columns(table, _roles(given), given.data.features, given.data.drop)
    if not given.data.features:
        names = [name for name in names if name != given.shared.id]
    for name in names:
        if name not in shared.column_names:
            raise TableError(
                f"the shared items have no column {name!r}, which the rows of {given.data.file} have: leave it out with "
                "drop in [data], or name the features"
            )
    encoder = TableEncoder()
    both = pa.concat_tables([table.select(names), shared.select(names)], promote_options="permissive")
    return encoder, encoder.fit_transform(both)


def predictor_of(given: SiteSettings) -> ModelServer:
    """A site that scores items with its saved model: those it is sent or, where it has a table of its own, their ids."""
    model = load(given.model)
    own: pa.Table | None = None
    places: dict[str, int] = {}
    if given.predict_items is not None:
        own = read_table(given.predict_items, text=text_columns(model, given.shared.id))
        places = {str(name): row for row, name in enumerate(column(own, given.shared.id, "id").to_pylist())}

    def score(table: pa.Table) -> Any:
        if own is not None:
            asked = [str(name) for name in column(table, given.shared.id, "id").to_pylist()]
            unknown = [name for name in asked if name not in places]
            if unknown:
                raise ValueError(f"{given.name!r} does not know the item {unknown[0]!r}")
            table = own.take(pa.array([places[name] for name in asked]))
        return model.predict(features_of(model, table))

    return ModelServer(given.name, score, comparison_of(model), given.predict_rows)
