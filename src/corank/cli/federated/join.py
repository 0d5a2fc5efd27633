"""`corank federated join`: take part with one site's rows, and keep the model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corank.cli.console import count, facts, show, size_of
from corank.cli.federated.common import live_rounds, logged, need_extra
from corank.cli.federated.coordinate import Log
from corank.cli.options import AsJson, Force, Quiet
from corank.cli.outputs import check_model_output

if TYPE_CHECKING:
    from corank.federated.settings import SiteSettings
    from corank.federated.site import Site


def join(
    settings: Annotated[Path, typer.Argument(help="site.toml", show_default=False)],
    serve: Annotated[
        bool, typer.Option("--serve", help="Stay, and score new items for corank federated predict.")
    ] = False,
    force: Force = False,
    log: Log = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
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
    with logged(log, quiet=quiet):
        if not (serve and given.model.exists() and not force):
            check_model_output(given.model, force=force)
            result = _take_part(given, line, force=force, quiet=quiet)
            if as_json:
                typer.echo(json.dumps(result, indent=2))
            elif not quiet:
                _show(result, given.model)
        if serve:
            from corank.cli.federated.data import predictor_of

            with live_rounds(f"{given.name}: ready to predict …", quiet=quiet):
                line.answer(predictor_of(given), forever=True)


def _take_part(given: SiteSettings, line: Any, *, force: bool, quiet: bool) -> dict[str, Any]:
    from corank.cli.federated.data import site_of
    from corank.federated.client import JoinError

    with live_rounds(f"{given.name}: learning alone …", quiet=quiet):
        site, encoder = site_of(given)
    with live_rounds(f"{given.name}: waiting for the coordinator at {given.coordinator} …", quiet=quiet):
        ending = line.answer(site)
    if ending.kind == "stop":
        here = "" if ending["row"] is None else f" (here: {_row(site, ending['row'])})"
        raise JoinError(f"the coordinator stopped: {ending['reason']}{here}")
    site.model.save(given.model, overwrite=force, encoder=encoder)
    return {
        "site": given.name,
        "model": str(given.model),
        "converged": bool(ending["converged"]),
        "rounds": int(ending["round"]),
        "scored": site.model._n_scored,
        "shared": len(site.shared),
        "alpha": float(site.model.alpha_),
    }


def _show(result: dict[str, Any], model: Path) -> None:
    how = "agreed" if result["converged"] else "stopped"
    show(
        facts(
            f"{result['site']}: {how} after {count(result['rounds'], 'round')}",
            {
                "rows": f"{result['scored']:,} scored, which stayed here",
                "shared items": f"{result['shared']:,}",
                "alpha": f"{result['alpha']:.3g}",
                "saved as": f"{model} ({size_of(model)})",
            },
        )
    )


def _row(site: Site, row: int) -> str:
    return site.shared.name(row) if row < len(site.shared) else f"{len(site.shared):,} items"
