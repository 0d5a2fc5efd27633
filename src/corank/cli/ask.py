"""`corank ask`: a table of items → a page on which a person compares them, and a file of the
answers.
"""

from __future__ import annotations

import shlex
import sys
import threading
import webbrowser
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.text import Text

from corank.cli.columns import feature_columns, matching_columns, without_ids
from corank.cli.console import (
    DASH,
    bold,
    check_model_output,
    check_output,
    command,
    note,
    readable,
    show,
    working,
)
from corank.cli.items import note_broken_lines, read_outcomes
from corank.cli.options import (
    TABLE,
    AskedQuestion,
    DroppedColumns,
    FeatureColumns,
    File,
    Force,
    InputFormat,
    Word,
    Words,
    argument,
    option,
)
from corank.core.messages import count
from corank.interview.interview import Interview
from corank.interview.page import Cards, Page
from corank.interview.server import LOCAL, PageServer
from corank.model_files.known_answers import MARKS, pair_marks, row_marks
from corank.tables import TableError, TableFile
from corank.tables.answer_log import SCORE
from corank.tables.names import NamedItems

TOP = 5


@dataclass(frozen=True)
class PageOptions:
    """Where and how questions are shown."""

    question: Word = option(
        "The question in your words, such as 'Which would you rather read?'.", metavar="TEXT"
    )
    show: Words = option("Columns to show, in this order. Default: all.", metavar="NAMES")
    host: str = option(
        "Address to listen on; 0.0.0.0 lets others in your network in.",
        default=LOCAL[0],
        shown=True,
    )
    port: int = option("Port to listen on.", default=0, min=0, max=65535, shown="any that is free")
    browser: bool = option("Open the page in the browser.", default=True, shown=True)


def ask(
    context: typer.Context,
    *,
    file: Path = argument(f"Table of items: {TABLE}."),
    out: Path = option(
        "File for the answers, NAME.csv. An existing file is continued.", default=...
    ),
    id: Word = option(
        "Column that names the items. Default: the only column, if there is just one.",
        "--id",
        "--item",
    ),
    kind: AskedQuestion = option(
        "compare: which of two is better; best-worst: the best and the worst of four; score: a"
        " number for one item.",
        default=AskedQuestion.compare,
        shown=True,
    ),
    person: str = option(
        "Name of the person who answers, if several people do.",
        "--as",
        "--person",
        default="",
        metavar="NAME",
    ),
    repeat: float = option(
        "Share of questions that are asked again, to see how consistent the answers are.",
        default=0.0,
        min=0,
        max=0.5,
    ),
    features: FeatureColumns = None,
    drop: DroppedColumns = None,
    shown: PageOptions,
    model_out: File = option("Save the model of all answers here when you are done."),
    format: InputFormat = None,
    force: Force = False,
) -> None:
    """Ask which of two items is better, on a page that shows the ranking as it settles.

    Each answer is in the file before the next question comes.
    Stop at any time with Ctrl-C; the same command continues from there.
    """
    source = readable(context, file, format, is_first=True)
    if out.suffix.lower() != ".csv":
        raise ValueError(
            f"--out {out}: answers are written as CSV, so call it {out.with_suffix('.csv')}"
        )
    check_output(out, source, force=True)
    if model_out is not None:
        check_model_output(model_out, source, out, force=force, option="--model-out")
    wanted = features or []
    dropped = drop or []
    with working() as step:
        step(f"reading {source.path.name}")
        named_by = id or _only_column(source, file)
        table = source.read([named_by])
        chosen = feature_columns(table, {"id": named_by}, wanted, dropped, named_by)
        chosen = without_ids(table, chosen, [*wanted, named_by])
        chosen.remove(named_by)
        columns = None if not shown.show else matching_columns(table, shown.show, "--show")
        if columns is None and dropped:
            hidden = {named_by, *matching_columns(table, dropped, "--drop")}
            columns = [name for name in table.column_names if name not in hidden]
        folder = None if file == DASH else file.parent
        asked: Any = {"kind": kind.value, "person": person, "repeat": repeat}
        interview = Interview(table, id=named_by, answers=out, features=chosen, **asked)
    with interview:
        before = interview.log.n_told
        given = (("--features", wanted), ("--drop", dropped))
        options = [word for name, values in given for value in values for word in (name, value)]
        commands = _next_commands(file, out, named_by, kind, options, model_out)
        cards = Cards(interview.table, interview.names, named_by, columns, folder)
        page = Page(
            interview,
            cards,
            heading=shown.question,
            commands=commands,
            place=str(out),
            download=True,
        )
        server = PageServer(page, shown.host, shown.port)
        _say_where(server.address, out, interview, shown.host)
        if shown.browser:  # in a thread, as a browser in the terminal would not come back
            threading.Thread(target=webbrowser.open, args=[server.address], daemon=True).start()
        server.run()
        interview.ensure_saved()
        with working() as step:
            if interview.log.answers:
                step("learning from the last answers")
            interview.refresh()
            if model_out is not None:
                _save(interview, source, out, model_out, force=force)
        _say_what_came_out(interview, out, before, commands)


def _only_column(source: TableFile, file: Path) -> str:
    """The column that names the items where there is no other."""
    names: list[str] = source.read().column_names
    if len(names) != 1:
        listed = ", ".join(map(repr, names[:8]))
        raise TableError(
            f"missing option '--id', the column that names the items; the columns of {file} are"
            f" {listed}"
        )
    return names[0]


def _next_commands(
    file: Path, out: Path, id: str, kind: AskedQuestion, options: Sequence[str], model: Path | None
) -> list[str]:
    """What to run with the answers, or with the model that is saved at the end."""
    items = "ITEMS" if file == DASH else str(file)
    rank = shlex.join(
        ["corank", "rank", str(model or "model.corank"), items, "--out", "ranked.csv"]
    )
    if model is not None:
        return [rank]
    if kind is AskedQuestion.score:
        learned = [str(out), "--items", items, "--id", id, "--score", "score"]
    else:
        learned = [items, "--comparisons", str(out), "--id", id]
    fit = ["corank", "fit", *learned, *options, "--out", "model.corank"]
    return [shlex.join(fit), rank]


def _say_where(address: str, out: Path, interview: Interview, host: str) -> None:
    log = interview.log
    note_broken_lines(log, TableFile(out))
    continued = f"Continuing after {count(log.n_told, 'answer')} in {out}. " if log.n_told else ""
    show(
        Text(
            f"{continued}{count(len(interview.names), 'item')} to ask about. Ctrl-C stops; no"
            " answer is lost."
        ),
        command(address, "Page: "),
    )
    if host not in LOCAL:
        note(
            "everybody in the network who has its address can open the page, and what is sent is"
            " not encrypted"
        )
    sys.stdout.flush()


def _save(interview: Interview, source: TableFile, out: Path, path: Path, *, force: bool) -> None:
    """Save the model with the marks by which `corank update` knows its answers again."""
    try:
        if interview.kind == SCORE:
            scores = interview.scores()
            marks = row_marks(interview.names, np.zeros((len(scores), 1)), scores, None)
        else:
            items = NamedItems(source, interview.id, interview.table)
            pairs = read_outcomes(TableFile(out), items).to_learn(with_margins=True)
            marks = pair_marks(interview.names, **pairs.arguments())
        interview.save(path, overwrite=force, remembered={MARKS: "".join(marks) or None})
        note(f"the model of all answers is in {path}")
    except ValueError as error:
        note(f"no model is saved: {error}")


def _say_what_came_out(
    interview: Interview, out: Path, before: int, commands: Sequence[str]
) -> None:
    answers = interview.log.n_told
    show(bold(f"{count(answers, 'answer')} in {out}, {answers - before} of them new."))
    ranking = interview.ranking()
    if ranking is None:
        return
    names = [interview.names[row] for row in ranking.order[:TOP]]
    show(*(Text(f"{place:>3}  {name}") for place, name in enumerate(names, start=1)))
    show(Text(interview.settled().sentence), *(command(line) for line in commands[:1]))
