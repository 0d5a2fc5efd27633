"""A titled table, as a terminal and a page show it; texts in which control characters are visible;
how far long work has come.

rich is imported when something is shown: pages and notebooks do without it.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from html import escape
from multiprocessing import parent_process
from typing import Any
from unicodedata import category

LOGGER = logging.getLogger("corank")

MAX_CELL, LEAST_CELL, GAP = 32, 12, 3  # letters of a cell of text on the screen, and between cells
DELETE = 127  # a control character too
# show text in another order than it has
REORDERING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
STYLES = {"good": "bold green", "bad": "yellow", "soft": "dim", "": ""}  # of kinds of cells


@dataclass(frozen=True)
class Cell:
    """A cell of a table.

    Attributes
    ----------
    text : what stands in it
    small : what a page shows below it, such as an interval
    kind : "good", "bad", "soft", or "" for as usual
    """

    text: str
    small: str = ""
    kind: str = ""


@dataclass(frozen=True)
class Table:
    """A table under a title.

    Attributes
    ----------
    title : may be empty
    rows : texts and cells; the first column names the rows
    head : names of the columns; none where the rows are names and what they are
    numbers : those of columns of numbers, which are never cut
    folds : whether the last column holds sentences, which take several lines
    remark : a sentence below the table, may be empty
    """

    title: str
    rows: Sequence[Sequence[str | Cell]]
    head: Sequence[str] = ()
    numbers: Collection[str] = ()
    folds: bool = False
    remark: str = ""

    @classmethod
    def of_facts(cls, title: str, facts: Mapping[str, str]) -> Table:
        """Names and what they are."""
        return cls(title, list(facts.items()))

    @property
    def cells(self) -> list[list[Cell]]:
        """The rows."""
        return [
            [cell if isinstance(cell, Cell) else Cell(cell) for cell in row] for row in self.rows
        ]

    def to_terminal(self) -> Any:
        """The table for rich to print."""
        from rich import box
        from rich.console import Group
        from rich.table import Table as Grid
        from rich.text import Text

        look = box.SIMPLE_HEAD if self.head else None
        grid = Grid(box=look, show_header=bool(self.head), pad_edge=False, padding=(0, 2, 0, 0))
        if self.head:
            self._add_columns(grid)
        else:
            grid.add_column(style="cyan", no_wrap=True)
            grid.add_column(overflow="fold")
        for row in self.cells:
            grid.add_row(*(Text(visible(cell.text), style=STYLES[cell.kind]) for cell in row))
        title = [Text(visible(self.title), style="bold")] if self.title else []
        remark = [Text(visible(self.remark), style="dim")] if self.remark else []
        return Group(*title, grid, *remark)

    __rich__ = to_terminal

    def _add_columns(self, grid: Any) -> None:
        """Columns as wide as their cells; where the screen is too narrow, those of text are cut."""
        from rich.cells import cell_len

        head = list(self.head[:-1] if self.folds else self.head)
        texts = [[visible(cell.text) for cell in row] for row in self.cells]
        widths = {}
        for at, name in enumerate(head):
            longest = max(map(cell_len, [visible(name), *(row[at] for row in texts)]))
            widths[at] = longest if name in self.numbers else min(longest, MAX_CELL)
        excess = sum(widths.values()) + GAP * len(widths) + 1 - width_of_screen()
        cut = [at for at, name in enumerate(head) if name not in self.numbers]
        while excess > 0 and not self.folds and cut:
            widest = max(cut, key=widths.__getitem__)
            if widths[widest] <= LEAST_CELL:
                break
            widths[widest] -= 1
            excess -= 1
        for at, name in enumerate(head):
            justify: Any = "right" if name in self.numbers else "left"
            grid.add_column(
                visible(name), no_wrap=True, overflow="ellipsis", width=widths[at], justify=justify
            )
        if self.folds:
            grid.add_column(visible(self.head[-1]), overflow="fold")

    def to_html(self) -> str:
        """The table for a page."""
        kinds = ["number" if name in self.numbers else "" for name in self.head] or ["", ""]
        head = "".join(
            f'<th scope="col" class="{kind}">{escape(name)}</th>'
            for name, kind in zip(self.head, kinds, strict=False)
        )
        head = f"<thead><tr>{head}</tr></thead>" if head else ""
        rows = (map(_cell_html, row, kinds, range(len(row))) for row in self.cells)
        body = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
        remark = f'<p class="soft">{escape(self.remark)}</p>' if self.remark else ""
        return (
            f'<div class="scroll"><table><caption>{escape(self.title)}</caption>'
            f"{head}<tbody>{body}</tbody></table></div>{remark}"
        )


def _cell_html(cell: Cell, kind: str, at: int) -> str:
    small = f'<br><span class="interval">{escape(cell.small)}</span>' if cell.small else ""
    name, scope = ("th", ' scope="row"') if at == 0 else ("td", "")
    kinds = f"{kind} {cell.kind}".strip()
    return f'<{name}{scope} class="{kinds}">{escape(cell.text)}{small}</{name}>'


def width_of_screen() -> int:
    """Letters per line."""
    from rich.console import Console

    return Console().width


def visible(text: str) -> str:
    """A text in which every control character is shown as a picture of it, one character for one;
    lines stay lines.
    """
    if text.isprintable():
        return text
    pictures = {}
    for character in set(text) - {"\n"}:
        code = ord(character)
        if category(character) in ("Cc", "Cs") or character in REORDERING:
            pictures[code] = (
                0x2400 + code if code < ord(" ") else 0x2421 if code == DELETE else 0xFFFD
            )
    return text.translate(pictures)


# ---- how far long work has come


@cache
def terminal() -> Any:
    """The console of stderr, on which bars and spinners know of each other."""
    from rich.console import Console

    return Console(stderr=True)


def is_watched() -> bool:
    """Whether bars are shown: on a terminal, and not by one of several processes."""
    wanted = LOGGER.isEnabledFor(logging.WARNING) and parent_process() is None
    return wanted and sys.stderr.isatty()


@contextmanager
def silence(*, wanted: bool = True) -> Iterator[None]:
    """Neither lines nor bars of long work inside the block."""
    before, LOGGER.disabled = LOGGER.disabled, LOGGER.disabled or wanted
    try:
        yield
    finally:
        LOGGER.disabled = before


def say(message: str) -> None:
    """A line on stderr, off a terminal by the logger "corank"; nothing from other processes."""
    if is_watched():
        terminal().print(message, highlight=False)
    elif parent_process() is None:
        LOGGER.warning(message)


@contextmanager
def progress_bar(
    what: str, total: float | None, done: int = 0, *, of_rows: bool = True
) -> Iterator[Callable[[float], None]]:
    """A function that takes what was done since, such as a number of rows, for a bar on stderr;
    nothing is shown off a terminal.
    """
    if not is_watched():
        yield lambda more: None
        return
    from rich.errors import LiveError
    from rich.progress import (
        BarColumn,
        Progress,
        ProgressColumn,
        Task,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class Speed(ProgressColumn):
        """Rows, and rows per second."""

        def render(self, task: Task) -> Text:
            speed = f", {task.speed:,.0f}/s" if task.speed else ""
            return Text(f"{task.completed:,.0f} rows{speed}")

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        Speed() if of_rows else TaskProgressColumn(),
        TimeRemainingColumn(),
        console=terminal(),
    )
    try:
        bar.start()
    except LiveError:  # another bar is shown already, and rich is old
        yield lambda more: None
        return
    try:
        task = bar.add_task(what, total=total, completed=done)
        yield lambda more: bar.update(task, advance=more)
    finally:
        bar.stop()
