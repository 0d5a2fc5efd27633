"""`corank federated`: sites that may not share their data. Each subcommand imports what is slow when it runs."""

import typer

from corank.cli.federated.coordinate import coordinate
from corank.cli.federated.init import init
from corank.cli.federated.join import join
from corank.cli.federated.predict import predict

app = typer.Typer(
    name="federated",
    help="Learn together with other sites, none of which shows its data.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (init, coordinate, join, predict):
    app.command()(command)

__all__ = ["app"]
