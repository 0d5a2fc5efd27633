"""`corank federated init`: certificates, and a settings file for the coordinator and for every site."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from corank.cli.console import count, facts, show
from corank.cli.federated.common import need_extra
from corank.cli.options import AsJson, Quiet

COORDINATOR_TOML = """\
# The coordinator of a federated run. It sees predictions on the shared items, never rows.
run = "{run}"                  # a new name for every new run
address = "0.0.0.0:{port}"     # where it listens
agreement = 0.01               # how much sites should agree on the shared items: sums over items, as in CoRLS
schedule = "sequential"        # or "parallel": all sites at once
report = true                  # false: predictions alone leave a site, without its loss, norm and gradient norm
max_rounds = 200
on_missing = "stop"            # "continue": go on without a site that is lost
join_timeout = 600             # seconds
answer_timeout = 600

[certificates]
authority = "authority.pem"
certificate = "coordinator.pem"
key = "coordinator.key"
{sites}"""

SITE_TOML = """\
# One site of a federated run.
name = "{name}"
coordinator = "{host}:{port}"   # where to dial
model = "{name}.corank"         # where its own model is kept

[certificates]
authority = "authority.pem"
certificate = "{name}.pem"
key = "{name}.key"

[data]                          # stays here
file = "rows.csv"
score = "score"
# query = "user"                # for ranking: which rows compete

[shared]                        # the same items, ids and order at every site
file = "shared.csv"
id = "id"
# agreed = ["price"]            # columns that must be the same everywhere, too

[learner]
task = "regression"             # or "ranking"
kernel = "rbf"
alpha = "tune"                  # by this site's own held-out error

[limits]
rounds = 200                    # answers in all: whoever may ask without end learns how this site answers everything
# norm = 10.0                   # how large the values may be that it is pulled towards
# report = false                # take part only where predictions alone are asked for

[predict]
allowed = false                 # true: score new items for the others, with join --serve
"""


def init(
    folder: Annotated[Path, typer.Argument(help="Where to make it all; a folder a party.", show_default=False)],
    site: Annotated[list[str], typer.Option(help="Name of a site; once for each.", show_default=False)],
    host: Annotated[str, typer.Option(help="Where sites find the coordinator.")] = "localhost",
    port: Annotated[int, typer.Option(help="Its port.", min=1, max=65535)] = 8470,
    run: Annotated[str, typer.Option(help="Name of the run.")] = "first",
    days: Annotated[int, typer.Option(help="How long certificates are valid.", min=1, max=3650)] = 365,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Make certificates and settings: one folder for the coordinator, one for every site.

    Hand each site its own folder over a safe way, and keep FOLDER/authority to yourself.
    With a folder that has an authority already, new sites are added.
    """
    need_extra()
    from corank.federated.certificates import (
        COORDINATOR,
        Identity,
        check_name,
        fingerprint,
        issued,
        new_authority,
        pem,
    )

    names = [check_name(name) for name in site]
    if len(set(names)) < len(names):
        raise ValueError("--site: two sites have the same name")
    own = folder / "authority"
    adding = (own / "authority.key").exists()
    taken = [folder / name for name in ([] if adding else [COORDINATOR]) + names if (folder / name).exists()]
    if taken:
        raise FileExistsError(f"{taken[0]} is already there: choose another folder, or move it away")
    authority = Identity.read(own / "authority.pem", own / "authority.key") if adding else new_authority(days)
    if not adding:
        own.mkdir(parents=True)
        own.chmod(0o700)
        authority.write(own, "authority")
    pins = ""
    for name in names if adding else [*names, COORDINATOR]:
        identity = issued(authority, name, days)
        place = folder / name
        place.mkdir()
        identity.write(place, name)
        (place / "authority.pem").write_bytes(pem(authority.certificate))
        if name != COORDINATOR:
            pins += f'\n[[sites]]\nname = "{name}"\nfingerprint = "{fingerprint(identity.certificate)}"\n'
            (place / "site.toml").write_text(SITE_TOML.format(name=name, host=host, port=port), encoding="utf-8")
    settings = folder / COORDINATOR / "coordinator.toml"
    if adding:
        with settings.open("a", encoding="utf-8") as file:
            file.write(pins)
    else:
        settings.write_text(COORDINATOR_TOML.format(run=run, port=port, sites=pins), encoding="utf-8")
    if as_json:
        result = {"folder": str(folder), "sites": names, "coordinator": str(settings), "added": adding, "days": days}
        typer.echo(json.dumps(result, indent=2))
    elif not quiet:
        _show(folder, names, days, COORDINATOR, adding=adding)


def _show(folder: Path, names: list[str], days: int, coordinator: str, *, adding: bool) -> None:
    show(
        facts(
            f"{count(len(names), 'site')} {'added to' if adding else 'made in'} {folder}",
            {
                "for each site": f"{folder}/NAME: its certificate, its key and site.toml, to be filled in",
                "coordinator": f"{folder}/{coordinator}: the same and coordinator.toml",
                "keep to yourself": f"{folder}/authority: whoever has authority.key can be any site",
                "valid for": count(days, "day"),
            },
        )
    )
