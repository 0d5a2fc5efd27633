"""`corank federated predict`: score new items by the mean of all sites' models, over the network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from corank.cli.console import count, facts, show
from corank.cli.federated.common import live_rounds, logged, need_extra
from corank.cli.federated.coordinate import Log, listening
from corank.cli.inputs import DASH, check_printed, given, write_result
from corank.cli.options import TABLE, AsJson, Force, Printed, Quiet, Read
from corank.cli.outputs import check_table_output


def predict(
    context: typer.Context,
    settings: Annotated[Path, typer.Argument(help="coordinator.toml", show_default=False)],
    items: Annotated[Path, typer.Argument(help=f"Table of items to score: {TABLE}.", show_default=False)],
    out: Annotated[
        Path,
        typer.Option(
            help="Where to write them with their scores: .csv, .tsv, .parquet or .jsonl; - prints them.",
            show_default=False,
        ),
    ],
    id: Annotated[str, typer.Option("--id", "--item", help="Column that names the items.")] = "id",
    only_ids: Annotated[
        bool, typer.Option("--only-ids", help="Send the ids alone; every site has its own table of these items.")
    ] = False,
    format: Read = None,
    out_format: Printed = None,
    force: Force = False,
    log: Log = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Ask every site to score new items, and write the mean of what they say.

    The items are sent to the sites, which must run corank federated join --serve.
    """
    need_extra()
    check_printed(out, out_format, as_json=as_json)
    source = given(context, items, format)
    check_table_output(out, source, force=force)
    import numpy as np
    import pyarrow as pa

    from corank.federated.predicting import joint_prediction
    from corank.federated.settings import read_coordinator
    from corank.tables import column, read_table

    told = read_coordinator(settings)
    table = read_table(source, text=[id])
    if only_ids:
        column(table, id, "id")
    if "score" in table.column_names:
        raise ValueError(f"{items} has a column 'score' already: rename it")
    with logged(log, quiet=quiet):
        channel = listening(told)
        try:
            with live_rounds(f"waiting for {', '.join(told.plan.sites)} …", quiet=quiet):
                found = joint_prediction(channel, told.plan.sites, table.select([id]) if only_ids else table)
        finally:
            channel.close()
    scores = np.mean(list(found.values()), axis=0)
    write_result(table.append_column("score", pa.array(scores)), out, out_format, force=force)
    apart = float(np.sqrt(np.mean((np.stack(list(found.values())) - scores) ** 2)))
    if as_json:
        result = {"items": len(table), "sites": list(found), "sites_differ_by": apart, "out": str(out)}
        typer.echo(json.dumps(result, indent=2))
    elif not quiet and out != DASH:
        show(
            facts(
                f"{count(len(table), 'item')} scored by {count(len(found), 'site')}",
                {"sites differ by": f"{apart:.4g}", "written to": str(out)},
            )
        )
