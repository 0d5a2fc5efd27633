"""What the federated commands share: logs, live progress, the extra that they need, tables as sites see them."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    import pyarrow as pa

    from corank.federated.plan import Round
    from corank.federated.settings import SharedSettings


def need_extra() -> None:
    """Refuse in one sentence where the extra is not installed."""
    try:
        import cryptography  # noqa: F401
        import grpc  # noqa: F401
    except ImportError as error:
        raise ValueError(f"federated needs {error.name}: pip install 'corank[federated]'") from error


@contextmanager
def logged(log: Path | None, *, quiet: bool = False) -> Iterator[None]:
    """Log to stderr as text where it is no terminal, and to a file as one JSON object a line."""
    from corank.federated.journal import NAME, JsonLines

    logger = logging.getLogger(NAME)
    handlers: list[logging.Handler] = []
    if not quiet and not sys.stderr.isatty():
        handlers.append(logging.StreamHandler())
        handlers[-1].setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    if log is not None:
        handlers.append(logging.FileHandler(log))
        handlers[-1].setFormatter(JsonLines())
    level = logger.level
    logger.setLevel(logging.INFO)
    for handler in handlers:
        logger.addHandler(handler)
    try:
        yield
    finally:
        logger.setLevel(level)
        for handler in handlers:
            logger.removeHandler(handler)
            handler.close()


@contextmanager
def live_rounds(waiting: str, *, quiet: bool = False) -> Iterator[Callable[[Round], None]]:
    """One line on a terminal that says how the rounds go; nothing elsewhere, where the log says it."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda done: None
        return
    with console.status(Text(waiting)) as status:
        yield lambda done: status.update(Text(round_line(done)))


def round_line(done: Round) -> str:
    """A round in words."""
    from corank.cli.console import in_bytes

    gradient = "" if done.gradient is None else f", gradient {done.gradient:.1e}"
    error = "first answers" if done.error == float("inf") else f"error about {done.error:.1e}"
    return (
        f"round {done.number}: {error}{gradient}, sites differ by {done.disagreement:.4g}, "
        f"{in_bytes(done.sent + done.received)}, {done.seconds:.2f} s"
    )


def shared_table(settings: SharedSettings) -> pa.Table:
    """The shared items, from their file or their recipe."""
    from corank.federated.shared import synthetic_table
    from corank.tables import read_table

    if settings.recipe is not None:
        return synthetic_table(**settings.recipe)
    assert settings.file is not None
    text = [name for name in (settings.id, settings.query) if name is not None]
    return read_table(settings.file, text=text)


def shared_columns(settings: SharedSettings, table: pa.Table) -> dict[str, Any]:
    """What sites must have in common of them: ids, queries and agreed columns."""
    from corank.tables import column, is_number, numbers, query_column

    agreed = []
    for name in settings.agreed:
        values = column(table, name, "agreed")
        agreed.append(numbers(values, name) if is_number(values.type) else values.to_pylist())
    return {
        "ids": column(table, settings.id, "id").to_pylist(),
        "queries": None if settings.query is None else query_column(table, settings.query),
        "agreed": agreed,
    }
