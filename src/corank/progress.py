"""How far a long pass is: rows, rows a second, time left. Nothing is shown where stderr is no terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def shown(what: str, total: int | None, done: int = 0) -> Iterator[Callable[[int], None]]:
    """Call what this gives with the number of rows that were worked off."""
    if not sys.stderr.isatty():
        yield lambda rows: None
        return
    from rich.console import Console
    from rich.errors import LiveError
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Speed(ProgressColumn):
        """Rows, and rows a second."""

        def render(self, task: Task) -> Text:
            speed = "" if not task.speed else f", {task.speed:,.0f}/s"
            return Text(f"{task.completed:,.0f} rows{speed}")

    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), Speed(), TimeRemainingColumn(), console=Console(stderr=True)
    )
    try:
        bar.start()
    except LiveError:  # something else is being shown
        yield lambda rows: None
        return
    try:
        task = bar.add_task(what, total=total, completed=done)
        yield lambda rows: bar.update(task, advance=rows)
    finally:
        bar.stop()
