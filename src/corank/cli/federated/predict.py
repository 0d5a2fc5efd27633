"""`corank federated predict`: score new items by the mean of all sites' models, over the network."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from corank.cli.console import check_output, count, facts, show
from corank.cli.federated.common import live_rounds, logged, need_extra
from corank.cli.federated.coordinate import Log, listening


def predict(
    settings: Annotated[Path, typer.Argument(help="coordinator.toml", show_default=False)],
    items: Annotated[Path, typer.Argument(help="Table of items to score.", show_default=False)],
    out: Annotated[Path, typer.Option(help="Where to write them with their scores.", show_default=False)],
    id: Annotated[str, typer.Option("--id", help="Column that names the items.")] = "id",
    only_ids: Annotated[
        bool, typer.Option("--only-ids", help="Send the ids alone; every site has its own table of these items.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is already there.")] = False,
    log: Log = None,
) -> None:
    """Ask every site to score new items, and write the mean of what they say.

    The items are sent to the sites, which must run corank federated join --serve.
    """
    need_extra()
    check_output(out, items, force=force)
    import numpy as np
    import pyarrow as pa

    from corank.federated.predicting import joint_prediction
    from corank.federated.settings import read_coordinator
    from corank.tables import column, read_table, write_table

    given = read_coordinator(settings)
    table = read_table(items, text=[id])
    if only_ids:
        column(table, id, "id")
    if "score" in table.column_names:
        raise ValueError(f"{items} has a column 'score' already: rename it")
    with logged(log):
        channel = listening(given)
        try:
            with live_rounds(f"waiting for {', '.join(given.plan.sites)} …"):
                found = joint_prediction(channel, given.plan.sites, table.select([id]) if only_ids else table)
        finally:
            channel.close()
    scores = np.mean(list(found.values()), axis=0)
    write_table(table.append_column("score", pa.array(scores)), out, overwrite=force)
    apart = float(np.sqrt(np.mean((np.stack(list(found.values())) - scores) ** 2)))
    show(
        facts(
            f"{count(len(table), 'item')} scored by {count(len(found), 'site')}",
            {"sites differ by": f"{apart:.4g}", "written to": str(out)},
        )
    )
