"""The command `corank`. Each subcommand has a file of its own, which is imported when the command
is called.
"""

from typing import Annotated

import typer

from corank.cli.console import Commands

app = typer.Typer(
    cls=Commands,
    name="corank",
    help="Learn to rank and score items when only a few of them are scored.",
    epilog="Start with: corank demo",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from corank import __version__

        typer.echo(f"corank {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True),
    ] = False,
    no_header: Annotated[
        bool,
        typer.Option(
            "--no-header",
            help="The CSV or TSV table has no header row: its columns are called 1, 2, ….",
        ),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error arose.")] = False,
) -> None:
    """Learn to rank and score items when only a few of them are scored."""


def main() -> None:
    """Run the command line."""
    app(prog_name="corank")


__all__ = ["app", "main"]
