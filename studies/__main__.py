"""The command `python -m studies`."""

import sys
from collections.abc import Sequence

import typer
from typer.main import get_command

from corank.cli.console import sentence, warnings_as_notes
from studies.reproduce import reproduce

app = typer.Typer(pretty_exceptions_enable=False, context_settings={"help_option_names": ["-h", "--help"]})
app.command()(reproduce)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and give its exit code; errors are one sentence on stderr."""
    try:
        with warnings_as_notes():
            code = get_command(app).main(arguments, prog_name="python -m studies", standalone_mode=False)
    except (typer.Abort, KeyboardInterrupt):
        return 130
    except Exception as error:  # noqa: BLE001
        sys.stderr.write(f"studies: {sentence(error)}\n")
        return 2
    return code if isinstance(code, int) else 0


if __name__ == "__main__":
    sys.exit(main())
