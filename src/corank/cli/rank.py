"""`corank rank`: a model file and a new table → the table in order, best first. `corank predict`:
in its own order.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import typer
from rich.text import Text

from corank.cli.columns import (
    id_columns,
    ranked_order,
    remembered,
    remembered_ids,
    result_names,
    unusual_cells,
)
from corank.cli.console import (
    DASH,
    cell,
    is_big,
    note,
    readable,
    show,
    show_json,
    title_of,
    working,
)
from corank.cli.items import (
    AppliedModel,
    ItemTable,
    Step,
    known_person,
    labels_at,
    table_of_persons,
)
from corank.cli.options import (
    TABLE,
    File,
    ForPerson,
    LinkOptions,
    ModelFile,
    QueryInFit,
    ShuffleQueries,
    TableOutput,
    Word,
    argument,
    flag,
    option,
)
from corank.core.arrays import FloatArray, Index
from corank.core.messages import count, listed
from corank.describe import learned_from_comparisons
from corank.display import GAP, LEAST_CELL, MAX_CELL, Table, width_of_screen
from corank.tables import TableFile, column, is_text
from corank.tables.names import names_in

SHOWN_ROWS = 10
MAX_SHOWN_CHANCES = 200  # rows of a query of which it is said how likely the first is the best
# by how much another row must be more likely the best than the first, to be named
NOTEWORTHY_CHANCE = 0.02
LONG_TEXT = 24  # letters in the mean: such a column comes last
FILES = ".csv, .tsv, .parquet or .jsonl"


@dataclass(frozen=True)
class PredictOptions:
    """What `corank predict` and `corank rank` have in common."""

    model: ModelFile
    file: Path = argument(f"Table of items: {TABLE}; or a folder or pattern of such files.")
    query: QueryInFit = None
    for_person: ForPerson = None
    persons: File = option(
        "Table about persons, as that of corank fit --persons, with those who have rated nothing yet."
    )
    id: Word = option(
        "Columns to write next to the results, such as sku,name. Default: all.", "--id", "--item"
    )

    @property
    def ids(self) -> list[str]:
        """The only columns to write next to the results; none for all."""
        return id_columns(self.id)


@dataclass(frozen=True)
class RankOptions:
    """What `corank rank` has in addition: predictions have it at its defaults."""

    top: int | None = option("Keep only this many rows of each query, the best.", min=1)
    chances: bool = flag(
        "Also give the probability that each item is the best of its query, and the ranks between"
        " which it lies with a probability of 90 %: best, rank_low and rank_high. Left out for"
        " queries of more than 1,000 rows."
    )
    all_items: bool = flag("With --for also rank items that the person has scored.", "--all")
    shuffle_queries: ShuffleQueries = False


def rank(
    context: typer.Context,
    *,
    applied: PredictOptions,
    out: File = option(
        f"Where to write the ranking: {FILES}; - prints it. Default: show the best ten."
    ),
    ranking: RankOptions,
    links: LinkOptions,
    output: TableOutput,
) -> None:
    """Rank the items of a table, within each query: 1 is the best.

    std, where the model knows how certain it is, is a standard deviation:
    for the average that corank fit makes by default, of a new score, noise
    included; for a Gaussian process that ranks, of a score minus the mean
    score of its query, as the level of the scores says nothing about the
    order (beyond 2,000 rows per query the level is left in).
    A model that knows persons ranks for each of those whom the table names,
    or with --for NAME for one of them, without the items known to that person.
    Values unlike those in the fitted table are listed in a column unusual.
    A folder, a pattern or a large file is ranked query by query as it is
    read: rank, score and all columns are written, without std.
    """
    _run(context, applied, ranking, links, output, out)


def predict(
    context: typer.Context,
    *,
    applied: PredictOptions,
    out: File = option(
        f"Where to write the predictions: {FILES}; - prints them. Default: show the first ten."
    ),
    links: LinkOptions,
    output: TableOutput,
) -> None:
    """Predict the score of every row of a table, and keep the order of the rows.

    std is the standard deviation of a score, as in corank rank, which sorts.
    """
    _run(context, applied, None, links, output, out)


@dataclass(frozen=True)
class RankedTable:
    """A table with what a model says of its rows.

    Attributes
    ----------
    table : results, ids, number of the row, and the other columns
    results : names of the columns of results
    ids : names of the columns that name the rows, or of the one that numbers them
    query : name of the query column, or None
    sizes : (n_queries,) how many rows every query has
    best_chances : (size of the first query,) probability that each of its rows is its best, None
        where it is not known
    """

    table: pa.Table
    results: Sequence[str]
    ids: Sequence[str]
    query: str | None
    sizes: Index
    best_chances: FloatArray | None

    def best(self, top: int | None) -> pa.Table:
        """The first `top` rows of each query, None for all."""
        if top is None:
            return self.table
        return self.table.filter(pc.less_equal(self.table.column(0), top))


def _run(
    context: typer.Context,
    applied: PredictOptions,
    ranks: RankOptions | None,
    links: LinkOptions,
    output: TableOutput,
    out: Path | None,
) -> None:
    """Rank or, without `ranks`, predict."""
    model = AppliedModel.opened(context, applied.model, applied.file, output, links)
    output.check(out, *model.sources)
    persons = None if applied.persons is None else readable(context, applied.persons)
    in_passes = is_big(model.file.path) and model.links is None
    top = None if ranks is None else ranks.top
    ranking = rows = None
    with working(quiet=output.quiet, status=not in_passes) as step:
        step(f"reading {title_of(applied.file)}")
        if in_passes:
            n_rows, n_queries, by = _written_in_passes(model, applied, ranks, output, out)
        else:
            shown = out is None and not output.as_json
            ranking = _ranking(model, applied, ranks, persons, step, shown=shown)
            rows = ranking.best(top)
            n_rows = len(ranking.table)
            n_queries = len(ranking.sizes)
            by = ranking.query
            if out is not None:
                step(f"writing {out.name}")
                output.write(rows, out)
            elif shown and not sys.stdout.isatty():
                note("this is a table for people; --out - prints CSV")
    if output.as_json:
        result: dict[str, Any] = {"model": str(applied.model), "rows": n_rows}
        result["queries"] = None if by is None else n_queries
        if out is None and rows is not None:
            result["ranking" if ranks else "predictions"] = rows.to_pylist()
        else:
            result["out"] = str(out)
        show_json(result)
    elif out is None and ranking is not None:
        _show(ranking, title_of(applied.file), ranks)
    elif not output.quiet and out != DASH:
        written = count(n_rows if rows is None else len(rows), "row")
        within = "" if by is None or not ranks else f" in {count(n_queries, 'query', 'queries')}"
        what = f"{written} {'ranked' if ranks else 'with a prediction'}{within}"
        show(Text(f"the best {written}{within}: {out}" if top else f"{what}: {out}"))


def _written_in_passes(
    model: AppliedModel,
    applied: PredictOptions,
    ranks: RankOptions | None,
    output: TableOutput,
    out: Path | None,
) -> tuple[int, int, str | None]:
    """Write the result as the file is read: numbers of rows and queries, and the query column."""
    from corank.cli.large_files import RankingInPasses

    if out is None or out == DASH:
        raise ValueError(
            "--out is needed for a folder, a pattern or a large file: name a file for the result"
        )
    by = None if ranks is None else applied.query or remembered(model.model, "query")
    top, shuffles = (None, False) if ranks is None else (ranks.top, ranks.shuffle_queries)
    if top is not None and by is None:
        raise ValueError(
            "--top needs queries if rows are read in passes: without --query they are not ranked"
        )
    if applied.for_person is not None:
        raise ValueError("--for needs all rows in memory: name a single table")
    if remembered(model.model, "person") is not None:
        note("rows that are read in passes are ranked by what all persons have in common")
    if ranks is not None and ranks.chances:
        raise ValueError(
            "--chances needs all rows in memory, so a folder, a pattern or a large file cannot have"
            " it: leave it out, or name a single table"
        )
    ranking = RankingInPasses(model.model, model.file, by, applied.ids, top, shuffles)
    if by is None and ranks is not None:
        note("no query column: rows stay in their order, with their scores but without ranks")
    return *ranking.write(out, output), by


def _ranking(
    model: AppliedModel,
    applied: PredictOptions,
    ranks: RankOptions | None,
    persons: TableFile | None,
    step: Step,
    *,
    shown: bool,
) -> RankedTable:
    """The table in order with ranks, scores and standard deviations before its columns, or before
    those of the ids.
    """
    from corank.interpretation import predicted_scores  # slow to import

    learner = model.model
    about: pa.Table | None = None
    named: Sequence[str | None] = ()
    if persons is not None:
        who = remembered(learner, "person")
        if who is None:
            raise ValueError(
                "--persons needs a model that knows persons: corank fit --persons FILE"
            )
        about = table_of_persons(persons, who)
        named = names_in(about, who, "person", persons)
    person = known_person(learner, applied.for_person, named)
    fitted_ids = remembered_ids(learner)
    wanted = applied.ids
    otherwise = "all rows are ranked together" if ranks else "all rows are predicted as one query"
    items = ItemTable.read(
        model,
        model.file,
        applied.query,
        *wanted,
        *fitted_ids,
        otherwise=otherwise,
        person=person,
    )
    if person is not None and ranks is not None and not ranks.all_items:
        items = _unanswered(items, person)
    table = items.table
    queries = items.queries
    step(f"encoding {count(len(table), 'row')}")
    features = items.features
    unusual = unusual_cells(learner, table, model.file)
    for name in wanted:
        column(table, name, "id")
    ids = wanted or [name for name in fitted_ids if name in table.column_names]
    named = [name for name in (*fitted_ids[:1], *wanted) if name in table.column_names]
    linked = items.linked(named[0] if named else None, person)
    if about is not None and "person" in linked:
        linked["persons"] = about
    step(f"{'ranking' if ranks else 'predicting'} {count(len(table), 'row')}")
    scores, std = predicted_scores(learner, features, queries, linked)
    results: dict[str, Any] = {"score": scores, **({} if std is None else {"std": std})}
    order = np.arange(len(table))
    best = None
    if ranks is not None:
        order, places = ranked_order(scores, queries)
        results = {"rank": places[np.argsort(order)], **results}
        first = order[: np.count_nonzero(queries == 0)]
        if ranks.chances:
            chances = _chances(learner, features, queries, linked)
            results |= chances
            if chances and not chances["best"].take(first).null_count:
                best = chances["best"].take(first).to_numpy()
        elif shown and "links" not in linked and 1 < len(first) <= MAX_SHOWN_CHANCES:
            rows = np.sort(first)
            about = labels_at(linked, rows)
            best = _best_chances(learner, features[rows], np.searchsorted(rows, first), about)
    beside: dict[str, Any] = {"row": np.arange(1, len(table) + 1)}
    if unusual is not None:
        beside["unusual"] = unusual
    names = result_names([*results, *beside], table.column_names)
    result_columns = names[: len(results)]
    more = names[len(results) :]
    columns: dict[str, Any] = dict(zip(result_columns, results.values(), strict=True))
    columns |= {name: table[name] for name in ids}
    columns |= zip(more, beside.values(), strict=True)
    others = ([] if items.query is None else [items.query]) if wanted else table.column_names
    columns |= {name: table[name] for name in others if name not in columns}
    ordered = pa.table(columns).take(pa.array(order))
    sizes = np.bincount(queries)
    return RankedTable(ordered, result_columns, ids or more[:1], items.query, sizes, best)


def _unanswered(items: ItemTable, person: str) -> ItemTable:
    """The items that a person has not scored, as far as a model of scores knows."""
    learner = items.applied.model
    item = remembered(learner, "item")
    if person not in learner.persons_:
        return items
    known = None if learned_from_comparisons(learner) else learner.answered_by(person)
    if known is None or item not in items.table.column_names:
        note(
            f"it is not known which items {person!r} has scored, so none is left out; a model of"
            " scores knows if items come back in the column that --id names in fit"
        )
        return items
    others = items.without(known, item)
    if not len(others.table):
        raise ValueError(f"{person!r} has scored all items of {items.file}: --all ranks them")
    if n_known := len(items.table) - len(others.table):
        note(f"left out: {count(n_known, 'row')} that {person!r} has scored; --all ranks them")
    return others


def _best_chances(
    learner: Any, features: Any, order: Index, labels: dict[str, Any]
) -> FloatArray | None:
    """How likely each row of one query, in that order, is its best; None where the model does not
    know.
    """
    from corank.interpretation import rank_uncertainty  # slow to import

    if not learner.knows_uncertainty:
        return None
    return rank_uncertainty(learner, features, qid=np.zeros(len(order)), **labels).best[order]


def _chances(
    learner: Any, features: Any, queries: Index, linked: dict[str, Any]
) -> dict[str, pa.Array]:
    """How likely every row is the best of its query, and between which ranks it lies: columns,
    empty where that is not known; none where all queries are too large to tell.
    """
    # slow to import
    from corank.interpretation import MAX_UNCERTAIN_ROWS, rank_uncertainty

    if not learner.knows_uncertainty:
        raise ValueError(
            "--chances needs a model that knows how certain it is, unlike"
            f" {type(learner).__name__}: fit with the default method, or with --method preference"
            " or difference"
        )
    is_large = np.bincount(queries) > MAX_UNCERTAIN_ROWS
    if is_large.any():
        which = (
            "a query"
            if len(is_large) == 1
            else f"{is_large.sum():,} of {count(len(is_large), 'query', 'queries')}"
        )
        note(
            f"--chances is left out for {which} of more than {MAX_UNCERTAIN_ROWS:,} rows; to have"
            f" it for the best of them, rank with --top {MAX_UNCERTAIN_ROWS} --out best.csv, then"
            " rank best.csv with --chances"
        )
    if is_large.all():
        return {}
    sure = rank_uncertainty(learner, features, qid=queries, **linked)
    columns = {"best": sure.best, "rank_low": sure.low, "rank_high": sure.high}
    unknown = np.isnan(sure.best)
    return {name: pa.array(values, mask=unknown) for name, values in columns.items()}


# ---- on the screen


def _show(ranking: RankedTable, file: str, ranks: RankOptions | None) -> None:
    """The best rows of the first query, or the first rows."""
    table = ranking.table
    top = None
    more = ""
    rows = count(len(table), "row")
    title = f"The first of {rows} in {file}"
    if ranks is not None:
        top = ranks.top
        title = f"The best of {rows} in {file}"
    if ranks is not None and ranking.query is not None:
        size = int(ranking.sizes[0])
        n_others = len(ranking.sizes) - 1
        query = f"{ranking.query} {table[ranking.query][0]}"
        title = f"The best of {count(size, 'row')} with {query} in {file}"
        table = table.slice(0, size).drop_columns([ranking.query])
        more = f"and {count(n_others, 'more query', 'more queries')}; " if n_others else ""
    first = table.slice(0, top or SHOWN_ROWS).to_pylist()
    cells = {name: [cell(row[name]) for row in first] for name in _first_columns(table, ranking)}
    names, left_out = _fitting(cells, len(ranking.results) + len(ranking.ids))
    lines = list(zip(*(cells[name] for name in names), strict=True))
    sure = ""
    if ranking.best_chances is not None:
        sure = _most_likely(ranking.best_chances, table, ranking.ids) + "\n"
    hidden = f"not shown: {listed(left_out, SHOWN_ROWS)}; " if left_out else ""
    remark = f"{sure}{more}{hidden}--out FILE writes them all"
    show(Table(title, lines, names, ranking.results, remark=remark))


def _most_likely(chances: FloatArray, table: pa.Table, ids: Sequence[str]) -> str:
    """How likely the first row of a query is its best, and which row is most likely the best if
    that is another.
    """
    sentence = f"the first is the best with a probability of {chances[0]:.0%}"
    likeliest = int(np.argmax(chances))
    if chances[likeliest] - chances[0] < NOTEWORTHY_CHANCE:
        return sentence
    name = " ".join(cell(table[name][likeliest].as_py()) for name in ids)
    return (
        f"{sentence}; number {likeliest + 1}, {name}, of {chances[likeliest]:.0%}: its score is"
        " lower, but less certain"
    )


def _first_columns(table: pa.Table, ranking: RankedTable) -> list[str]:
    """Names of the columns as they are shown: results, ids, then those of the table, long text
    last.
    """
    first = [*ranking.results, *ranking.ids]
    others = [name for name in table.column_names if name not in first]
    unusual = [
        name
        for name in others
        if name.removeprefix("predicted_") == "unusual" and table[name].null_count < len(table)
    ]
    others = [name for name in others if name.removeprefix("predicted_") not in ("row", "unusual")]
    texts = [name for name in others if is_text(table[name].type)]
    lengths = {name: pc.mean(pc.utf8_length(table[name])).as_py() or 0 for name in texts}
    return [*first, *unusual, *sorted(others, key=lambda name: lengths.get(name, 0) > LONG_TEXT)]


def _fitting(cells: dict[str, list[str]], n_needed: int) -> tuple[list[str], list[str]]:
    """Names of the columns that fit on the screen, of which the first `n_needed` always do, and of
    the others.
    """
    names: list[str] = []
    left_out: list[str] = []
    room = width_of_screen() - GAP
    for at, (name, texts) in enumerate(cells.items()):
        width = min(MAX_CELL, max(map(len, [name, *texts])))
        if at >= n_needed and room < min(width, max(len(name), LEAST_CELL)):
            left_out.append(name)
            continue
        names.append(name)
        room -= (width if at < n_needed else min(width, room)) + GAP
    return names, left_out
