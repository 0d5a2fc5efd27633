"""`corank explain`: a model, a table and two of its items → why one is above the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import typer
from rich.text import Text

from corank.cli.columns import remembered
from corank.cli.console import (
    cell,
    check_report_output,
    is_several,
    show,
    show_json,
    title_of,
    typed_command,
    working,
)
from corank.cli.items import AppliedModel, ItemTable, known_person
from corank.cli.options import (
    TABLE,
    CommonOptions,
    File,
    ForPerson,
    LinkOptions,
    ModelFile,
    QueryInFit,
    Word,
    Words,
    argument,
    option,
)
from corank.core.messages import count, did_you_mean, shortened
from corank.display import Table
from corank.tables import TableError, TableFile, score_column

if TYPE_CHECKING:
    from corank.learners.pair_explanation import PairExplanation

MOST = 8  # parts that a table shows, besides the sum of all others
MAX_CELL = 40


def explain(
    context: typer.Context,
    *,
    model: ModelFile,
    file: Path = argument(f"Table that contains the two items: {TABLE}."),
    id: Words = option("Name of an item; given twice, once per item.", metavar="NAME"),
    id_column: Word = option("Column that names the items. Default: as in fit."),
    query: QueryInFit = None,
    for_person: ForPerson = None,
    links: LinkOptions,
    report: File = option("Also write the explanation as an HTML page, NAME.html."),
    common: CommonOptions,
) -> None:
    """Say why one item is above another: by column, by view, and by what the model learned from.

    The parts in each table add up to the difference of the two scores: a
    positive part speaks for the first item, a negative one for the second.
    Parts of columns are exact for linear models; for others they are Shapley
    values, the mean effect of exchanging a column.
    """
    applied = AppliedModel.opened(context, model, file, common, links)
    if is_several(applied.file.path):
        raise ValueError(
            f"corank explain takes a single table, but {file} is a folder or a pattern"
        )
    check_report_output(report, *applied.sources, force=common.force)
    with working(quiet=common.quiet) as step:
        step(f"reading {title_of(file)}")
        learner = applied.model
        person = known_person(learner, for_person)
        item = id_column or remembered(learner, "id")
        by_query = learner.is_average and learner.with_queries
        otherwise = "all rows are one query" if by_query else ""
        rows = ItemTable.read(
            applied, applied.file, query, item, otherwise=otherwise, person=person
        )
        items = _Items.of(rows, item, asked=id_column is not None)
        pair = items.rows_of(id or [], rows.table)
        more = rows.linked(items.column, person)
        if isinstance(whose := more.get("person"), list):
            more["person"] = whose[pair[0]]
        if by_query:
            more["qid"] = rows.queries
        step("explaining")
        explanation = learner.explain_pair(*pair, items=rows.features, names=items.names, **more)
        tables = _tables(explanation, rows.table, pair, remembered(learner, "score"))
        if report is not None:
            step(f"writing {report.name}")
            _write_page(explanation, tables, report, title_of(file), force=common.force)
    if common.as_json:
        show_json({"model": str(model), "table": str(file), **explanation.as_dict()})
        return
    if report is None or not common.quiet:
        show(
            *(Text(sentence) for sentence in explanation.sentences()[:2]),
            *tables,
            *([Text(explanation.distance)] if explanation.distance else []),
        )
    if report is not None and not common.quiet:
        show(Text(f"page: {report}"))


@dataclass(frozen=True)
class _Items:
    """The rows of a table by their names; by their numbers, from 1, where no column names them.

    column : that names them, or None; names : (n_rows,)
    """

    file: TableFile
    column: str | None
    names: Sequence[str]

    @classmethod
    def of(cls, items: ItemTable, column: str | None, *, asked: bool) -> _Items:
        """The names of the rows of a table; a column that was not `asked` for may be missing."""
        numbers = [str(row) for row in range(1, len(items.table) + 1)]
        column, named = items.names(column, asked=asked)
        if named is not None:
            numbers = [name or f"row {number}" for name, number in zip(named, numbers, strict=True)]
        return cls(items.file, column, numbers)

    def rows_of(self, wanted: Sequence[str], table: pa.Table) -> tuple[int, int]:
        """The rows of the two items that are asked about."""
        if len(wanted) != 2:
            example = (
                "--id A --id B"
                if self.column is None
                else f"--id {self.names[0]!r} --id {self.names[-1]!r}"
            )
            columns = [name for name in wanted if name in table.column_names]
            hint = f"; a column is given with --id-column {columns[0]}" if columns else ""
            times = count(len(wanted), "time")
            raise ValueError(
                f"--id is given {times}, but two items are compared: name both, such as"
                f" {example}{hint}"
            )
        first, second = (self._row_of(name.strip()) for name in wanted)
        if first == second:
            raise ValueError(f"--id {wanted[0]!r} is given twice: an item cannot be above itself")
        return first, second

    def _row_of(self, name: str) -> int:
        rows = np.flatnonzero(np.asarray(self.names, dtype=object) == name)
        if len(rows) == 1:
            return int(rows[0])
        if self.column is None:
            raise TableError(
                f"--id {name!r}: no column names the items, so --id takes row numbers from 1 to"
                f" {len(self.names)}; give the column with --id-column"
            )
        if len(rows) == 0:
            guess = did_you_mean(name, self.names)
            other = "" if guess else "; --id-column names another column"
            raise TableError(
                f"--id {name!r} is not in column {self.column!r} of {self.file}{guess}{other}"
            )
        raise TableError(
            f"--id {name!r} is in data rows {rows[0] + 1} and {rows[1] + 1} of {self.file}: remove"
            " one of them, or use --id-column with a column whose values are unique"
        )


# ---- what is shown


def _tables(
    explanation: PairExplanation, table: pa.Table, pair: tuple[int, int], score: str | None
) -> list[Table]:
    """Parts with what the table says about them: the cells of both items, the scores of scored
    items.
    """
    scores = None
    if score is not None and score in table.column_names:
        scores = score_column(table, score)
    result = []
    for title, contributions in explanation.tables(MOST).items():
        head = [title.removeprefix("By ")]
        cells: list[list[str]] = [[] for _ in contributions]
        if title.startswith("By column"):
            head = ["column", explanation.first, explanation.second]
            cells = [[_cell(table, part.name, row) for row in pair] for part in contributions]
        elif scores is not None and title not in ("By view", "By comparison"):
            head = [explanation.items_are, "score"]
            rows = [part.row for part in contributions]
            known = [None if row is None or np.isnan(scores[row]) else scores[row] for row in rows]
            cells = [[cell(None if value is None else float(value))] for value in known]
        lines = [
            [part.name, *more, f"{part.value:+.3g}"]
            for part, more in zip(contributions, cells, strict=True)
        ]
        result.append(Table(title, lines, [*head, "part"], numbers=["part"]))
    return result


def _cell(table: pa.Table, name: str, row: int) -> str:
    """A cell in a few characters; nothing where the table has no such column."""
    return shortened(cell(table[name][row].as_py()), MAX_CELL) if name in table.column_names else ""


def _write_page(
    explanation: PairExplanation,
    tables: Sequence[Table],
    path: Path,
    name: str,
    *,
    force: bool,
) -> None:
    from corank.report import page  # slow to import

    head, *others = explanation.sentences()
    about = (
        f"The parts add up to {explanation.difference:+.3g}; positive parts speak for"
        f" {explanation.first}"
    )
    sections = [
        page.Section(table.title, [replace(table, title=about).to_html()]) for table in tables
    ]
    sections.append(page.Section("How it was made", page.origins(typed_command("explain"))))
    title = f"Why {explanation.first} and {explanation.second} of {name} differ"
    page.write(page.page(title, [page.verdict(head, others)], sections), path, overwrite=force)
