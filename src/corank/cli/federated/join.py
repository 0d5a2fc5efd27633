"""`corank federated join`: take part with one site's rows, and keep the model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corank.cli.console import check_model_output, count, facts, show, size_of
from corank.cli.federated.common import live_rounds, logged, need_extra, shared_columns, shared_table
from corank.cli.federated.coordinate import Log

if TYPE_CHECKING:
    import pyarrow as pa

    from corank.federated.settings import SiteSettings
    from corank.federated.site import Site


def join(
    settings: Annotated[Path, typer.Argument(help="site.toml", show_default=False)],
    serve: Annotated[
        bool, typer.Option("--serve", help="Stay, and score new items for corank federated predict.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a model that is already there.")] = False,
    log: Log = None,
) -> None:
    """Dial the coordinator, answer its rounds, and keep this site's model.

    Only predictions on the shared items leave the site, and three numbers a round.
    With --serve and a model that is already there, it only predicts.
    """
    need_extra()
    from corank.federated.client import Connection
    from corank.federated.settings import read_site

    given = read_site(settings)
    if serve and not given.predicts:
        raise ValueError(f"--serve needs allowed = true in [predict] of {settings}")
    identity, authority = given.certificates.load(given.name)
    line = Connection(given.coordinator, identity, authority, max_items=given.max_items, patience=given.patience)
    with logged(log):
        if not (serve and given.model.exists() and not force):
            check_model_output(given.model, force=force)
            _take_part(given, line, force=force)
        if serve:
            with live_rounds(f"{given.name}: ready to predict …"):
                line.answer(_predictor(given), forever=True)


def _take_part(given: SiteSettings, line: Any, *, force: bool) -> None:
    from corank.federated.client import JoinError

    with live_rounds(f"{given.name}: learning alone …"):
        site, encoder = _site(given)
    with live_rounds(f"{given.name}: waiting for the coordinator at {given.coordinator} …"):
        ending = line.answer(site)
    if ending.kind == "stop":
        here = "" if ending["row"] is None else f" (here: {_row(site, ending['row'])})"
        raise JoinError(f"the coordinator stopped: {ending['reason']}{here}")
    site.model.save(given.model, overwrite=force, encoder=encoder)
    show(
        facts(
            f"{given.name}: {'agreed' if ending['converged'] else 'stopped'} after {count(ending['round'], 'round')}",
            {
                "rows": f"{site.model._n_scored:,} scored, which stayed here",
                "shared items": f"{len(site.shared):,}",
                "alpha": f"{site.model.alpha_:.3g}",
                "saved as": f"{given.model} ({size_of(given.model)})",
            },
        )
    )


def _row(site: Site, row: int) -> str:
    return site.shared.name(row) if row < len(site.shared) else f"{len(site.shared):,} items"


def _site(given: SiteSettings) -> tuple[Site, Any]:
    """The site of a settings file, and the encoder of its tables."""
    import numpy as np
    import pyarrow as pa

    from corank.cli.columns import feature_columns
    from corank.encoder import TableEncoder
    from corank.federated.shared import SharedItems
    from corank.federated.site import Site
    from corank.learners import CoRankRLS, CoRLS
    from corank.tables import TableError, column, query_column, read_table, score_column

    data, ranks = given.data, given.task == "ranking"
    if ranks and (data.query is None) != (given.shared.query is None):
        raise ValueError("query must be given in [data] and in [shared], or in neither")
    table = read_table(data.file, text=[name for name in (data.query, data.id) if name is not None])
    shared = shared_table(given.shared)
    roles = {"score": data.score, "query": data.query, "id": data.id}
    names = feature_columns(table, roles, data.features, data.drop)
    names = [name for name in names if name != given.shared.id or data.features]
    for name in names:
        if name not in shared.column_names:
            raise TableError(
                f"the shared items have no column {name!r}, which the rows of {data.file} have: leave it out with drop "
                "in [data], or name the features"
            )
    encoder = TableEncoder()
    both = pa.concat_tables([table.select(names), shared.select(names)], promote_options="permissive")
    features: Any = encoder.fit_transform(both)
    scores = score_column(table, data.score)
    queries = None if data.query is None else query_column(table, data.query)
    for name in given.shared.agreed:
        column(shared, name, "agreed")
    site = Site(
        given.name,
        (CoRankRLS if ranks else CoRLS)(**given.learner),
        features[: len(table)],
        scores,
        SharedItems(features[len(table) :], **shared_columns(given.shared, shared)),
        qid=queries,
        limits=given.limits,
        state=given.state,
    )
    site.model.table_ = {
        **roles,
        "rows": len(table),
        "scored": int(np.isfinite(scores).sum()),
        "queries": None if queries is None else len(np.unique(queries)),
    }
    return site, encoder


def _predictor(given: SiteSettings) -> Any:
    """A site that scores items with its saved model: those it is sent or, where it has a table of its own, their ids."""
    import pyarrow as pa

    from corank.cli.columns import features_of, text_columns
    from corank.federated.predicting import ModelServer
    from corank.federated.site import comparison_of
    from corank.learners import load
    from corank.tables import column, read_table

    model = load(given.model)
    own: pa.Table | None = None
    if given.predict_items is not None:
        own = read_table(given.predict_items, text=text_columns(model, given.shared.id))
        places = {name: row for row, name in enumerate(column(own, given.shared.id, "id").to_pylist())}

    def score(table: pa.Table) -> Any:
        if own is not None:
            asked = [str(name) for name in column(table, given.shared.id, "id").to_pylist()]
            unknown = [name for name in asked if name not in places]
            if unknown:
                raise ValueError(f"{given.name!r} does not know the item {unknown[0]!r}")
            table = own.take(pa.array([places[name] for name in asked]))
        return model.predict(features_of(model, table))

    return ModelServer(given.name, score, comparison_of(model), given.predict_rows)
