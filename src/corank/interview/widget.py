"""The page as a widget in a notebook: the same module shows it, and messages go through the
notebook's own channel.
"""

from __future__ import annotations

from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any

import anywidget

from corank.interview.interview import Interview
from corank.interview.page import Cards, Page, page_file
from corank.tables.answer_log import AnswersInUse


class AskWidget(anywidget.AnyWidget):  # type: ignore[misc]
    """An interview that a notebook shows.

    Attributes
    ----------
    interview : Interview
        What was asked and learned so far.
    """

    _esm = page_file("page.js")
    _css = page_file("page.css")

    def __init__(self, interview: Interview, cards: Cards, heading: str | None, place: str) -> None:
        super().__init__()
        self.interview = interview
        commands = ['widget.save("model.corank")', "widget.ranking()"]
        self._page = Page(
            interview,
            cards,
            heading=heading,
            commands=commands,
            place=place,
            on_news=lambda: self.send({"news": self._page.news()}),
        )
        self.on_msg(self._hear)
        self._page.begin()

    def _hear(self, widget: Any, message: Any, buffers: Any) -> None:
        try:
            reply = self._page.reply(message)
        except (TypeError, ValueError) as error:
            reply = {"error": str(error)}
        self.send(reply)

    def ranking(self) -> Any:
        """The latest ranking as a table of pyarrow: rank, name, score, its standard deviation, and
        between which ranks.
        """
        return self._page.ranking_table()

    def save(self, path: str | PathLike[str], overwrite: bool = False) -> None:
        """Save the model of all answers, for `corank.load` and `corank rank`."""
        self.interview.save(Path(path), overwrite=overwrite)

    def close(self) -> None:
        """Stop learning, and let another process write to the file of answers."""
        self._page.end()
        # what it lacks is in a copy, and refused answers were told
        with suppress(OSError, AnswersInUse):
            self.interview.ensure_saved()
        self.interview.close()
        super().close()
