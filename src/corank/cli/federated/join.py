"""`corank federated join`: take part with one site's rows, and keep the model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corank.cli.console import check_model_output, count, facts, show, size_of
from corank.cli.federated.common import live_rounds, logged, need_extra
from corank.cli.federated.coordinate import Log

if TYPE_CHECKING:
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
            from corank.cli.federated.data import predictor_of

            with live_rounds(f"{given.name}: ready to predict …"):
                line.answer(predictor_of(given), forever=True)


def _take_part(given: SiteSettings, line: Any, *, force: bool) -> None:
    from corank.cli.federated.data import site_of
    from corank.federated.client import JoinError

    with live_rounds(f"{given.name}: learning alone …"):
        site, encoder = site_of(given)
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
