"""`corank rank`: a model file and a new table → the table in order, best first."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import typer
from rich.text import Text

from corank._messages import count
from corank.cli.columns import features_of, predicted_scores, queries_of, ranked_order, result_names, text_columns
from corank.cli.console import grid, is_big, note, show, show_json, working
from corank.cli.files import (
    DASH,
    check_model_and_table,
    check_printed,
    check_table_output,
    readable,
    title_of,
    write_result,
)
from corank.cli.links import check_single_table, file_of, link_table, links_for
from corank.cli.options import (
    AsJson,
    Force,
    InputFormat,
    LinkColumns,
    LinksFile,
    ModelFile,
    OutputFormat,
    QueryInFit,
    Quiet,
    RankItem,
    RankOut,
    RankTable,
    ShuffleQueries,
    SpreadsheetSafe,
    Top,
)
from corank.model_files import load
from corank.tables import column, read_table

SHOWN_ROWS, SHOWN_COLUMNS = 10, 5
RESULTS = ("rank", "score", "std")


def rank(
    context: typer.Context,
    model: ModelFile,
    file: RankTable,
    out: RankOut = None,
    top: Top = None,
    query: QueryInFit = None,
    id: RankItem = None,
    links: LinksFile = None,
    link_columns: LinkColumns = None,
    shuffle_queries: ShuffleQueries = False,
    format: InputFormat = None,
    out_format: OutputFormat = None,
    spreadsheet_safe: SpreadsheetSafe = False,
    force: Force = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Rank the items of a table, within each query: 1 is the best.

    Where a model knows how sure it is, std is a standard deviation. Of an
    average, which corank fit makes by default, it is that of a new score,
    noise included. Of a ranker among the Gaussian processes it is that of a
    score less the mean score of its query: the level of the scores, which
    says nothing about the order, is taken out (left in beyond 2,000 rows).
    Of a folder, a pattern or a large file every query is written as it is
    read, with rank, score and all columns, and without std.
    """
    check_model_and_table("rank", model, file)
    check_printed(out, out_format, as_json=as_json)
    source = readable(context, file, format)
    linked = link_table(context, links, link_columns)
    check_single_table(linked, source)
    check_table_output(out, source, file_of(linked), force=force)
    in_passes = is_big(source) and linked is None
    if in_passes and (out is None or out == DASH):
        raise ValueError("--out is needed for a folder, a pattern or a large file: say where to write the ranking")
    with working(quiet=quiet, status=not in_passes) as step:
        step(f"reading {source.name}")
        learner = load(model)
        remembered = learner.table_ or {}
        by = query or remembered.get("query")
        if in_passes:
            from corank.cli.large_files import rank_in_passes

            assert out is not None
            if top is not None and by is None:
                raise ValueError(
                    "--top does not go with rows that are read in passes and have no queries: none is ranked"
                )
            options: Any = {"overwrite": force, "top": top, "shuffles": shuffle_queries, "safe": spreadsheet_safe}
            n_rows, n_queries = rank_in_passes(learner, source, out, by, id, **options)
            n_written = n_rows
        else:
            table = read_table(source, text=text_columns(learner, by, id, remembered.get("id")))
            asked = query is not None
            by, queries = queries_of(table, source, by, asked=asked, otherwise="all rows are ranked together")
            step(f"encoding {count(len(table), 'row')}")
            features = features_of(learner, table)
            names = [name for name in (remembered.get("id"), id) if name in table.column_names]
            joining = links_for(learner, linked, table, names[0] if names else id, source)
            step(f"ranking {count(len(table), 'row')}")
            ranking = _ranking(table, *predicted_scores(learner, features, queries, joining), queries, by, id)
            best = ranking if top is None else ranking.filter(pc.less_equal(ranking.column(0), top))
            n_rows, n_queries, n_written = len(ranking), int(queries.max()) + 1, len(best)
            if out is not None:
                step(f"writing {out.name}")
                write_result(best, out, out_format, force=force, safe=spreadsheet_safe)
            elif not as_json and not sys.stdout.isatty():
                note("this is a table for people; --out - prints CSV")
    if as_json:
        result = {"model": str(model), "rows": n_rows, "queries": None if by is None else n_queries}
        more = {"ranking": best.to_pylist()} if out is None else {"out": str(out)}
        show_json({**result, **more})
    elif out is None:
        _show_best(ranking, by, file, top or SHOWN_ROWS)
    elif not quiet and out != DASH:
        within = "" if by is None else f" in {count(n_queries, 'query', 'queries')}"
        written = count(n_written, "row")
        show(Text(f"{written} ranked{within}: {out}" if top is None else f"the best {written}{within}: {out}"))


def _ranking(table: pa.Table, scores: Any, std: Any, queries: Any, query: str | None, item: str | None) -> pa.Table:
    """The table in order with ranks, scores and standard deviations before its columns, or before one column alone."""
    order, ranks = ranked_order(scores, queries)
    if item is not None:
        column(table, item, "id")
        table = table.select(list(dict.fromkeys(name for name in (query, item) if name is not None)))
    results = {"rank": ranks, "score": scores[order], **({} if std is None else {"std": std[order]})}
    names = result_names(list(results), table.column_names)
    ordered = table.take(pa.array(order))
    columns = dict(zip(names, map(pa.array, results.values()), strict=True))
    return pa.table({**columns, **dict(zip(ordered.column_names, ordered.columns, strict=True))})


def _show_best(ranking: pa.Table, query: str | None, file: Path, top: int) -> None:
    """The best rows of the first query."""
    title, more, first = f"The best of {count(len(ranking), 'row')} of {title_of(file)}", "", ranking
    if query is not None:
        label, n_queries = ranking[query][0], len(ranking[query].unique())
        begins = np.flatnonzero(ranking.column(0).to_numpy() == 1)
        size = int(begins[1]) if len(begins) > 1 else len(ranking)
        first = ranking.slice(0, size).drop_columns([query])
        title = f"The best of {query} {label}, {count(size, 'row')} of {title_of(file)}"
        more = f"and {count(n_queries - 1, 'more query', 'more queries')}; " if n_queries > 1 else ""
    results = [name for name in first.column_names[: len(RESULTS)] if name.removeprefix("predicted_") in RESULTS]
    names = first.column_names[: len(results) + SHOWN_COLUMNS]
    table = grid(title, names, right=results)
    for row in first.slice(0, top).select(names).to_pylist():
        table.add_row(*(Text(_cell(row[name])) for name in names))
    show(table, Text(f"{more}--out FILE writes them all", style="dim"))


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
