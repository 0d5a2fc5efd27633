"""`corank rank`: a model file and a new table → the table in order, best first."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from corank._messages import count
from corank.cli.console import grid, is_big, note, show, working
from corank.cli.files import (
    DASH,
    check_model_and_table,
    check_printed,
    check_table_output,
    given,
    title_of,
    write_result,
)
from corank.cli.options import TABLE, AsJson, Force, ModelFile, Printed, QueryInFit, Quiet, Read, Shuffle

TOP = 10
SHOWN_COLUMNS = 5


def rank(
    context: typer.Context,
    model: ModelFile,
    file: Annotated[
        Path,
        typer.Argument(help=f"Table of items: {TABLE}; or a folder or pattern of such files.", show_default=False),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            help="Where to write the ranking: .csv, .tsv, .parquet or .jsonl; - prints it. Default: show the best ten.",
            show_default=False,
        ),
    ] = None,
    top: Annotated[
        int | None, typer.Option(min=1, help="Only so many of each query, the best.", show_default=False)
    ] = None,
    query: QueryInFit = None,
    id: Annotated[
        str | None,
        typer.Option(
            "--id", "--item", help="Write only this column beside rank and score. Default: all.", show_default=False
        ),
    ] = None,
    shuffle_queries: Shuffle = False,
    format: Read = None,
    out_format: Printed = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Rank the items of a table, within each query: 1 is the best.

    Where a ranker knows how sure it is, std is the standard deviation of
    a score less the mean score of its query: the level of the scores, which
    says nothing about the order, is taken out (left in beyond 2,000 rows).
    Of a folder, a pattern or a large file every query is written as it is
    read, with rank, score and all columns, and without std.
    """
    check_model_and_table("rank", model, file)
    check_printed(out, out_format, as_json=as_json)
    source = given(context, file, format)
    if out is not None:
        check_table_output(out, source, force=force)
    if is_big(source):
        talk = {"force": force, "quiet": quiet, "as_json": as_json}
        _rank_in_passes(model, source, out, query, id, top, shuffles=shuffle_queries, **talk)
        return
    with working(quiet=quiet) as doing:
        ranked, by = _ranked(model, source, query, id, doing)
        n_queries = None if by is None else len(ranked[by].unique())
        result = {"model": str(model), "rows": len(ranked), "queries": n_queries}
        kept = ranked if top is None else _first(ranked, top)
        if out is not None:
            doing(f"writing {out.name}")
            write_result(kept, out, out_format, force=force)
        elif not as_json and not sys.stdout.isatty():
            note("this is a table for people; --out - prints CSV")
    if as_json:
        more = {"ranking": kept.to_pylist()} if out is None else {"out": str(out)}
        typer.echo(json.dumps({**result, **more}, indent=2, default=str))
    elif out is None:
        _show(ranked, by, file, top or TOP)
    elif not quiet and out != DASH:
        show(Text(_written(len(kept), n_queries, out, top)))


def _written(rows: int, queries: int | None, out: Path, top: int | None = None) -> str:
    within = "" if queries is None else f" in {count(queries, 'query', 'queries')}"
    return (
        f"{count(rows, 'row')} ranked{within}: {out}"
        if top is None
        else f"the best {count(rows, 'row')}{within}: {out}"
    )


def _first(ranked: Any, top: int) -> Any:
    """The rows of the first ranks."""
    import pyarrow.compute as pc

    return ranked.filter(pc.less_equal(ranked.column(0), top))


def _rank_in_passes(
    model_file: Path,
    file: Path,
    out: Path | None,
    query: str | None,
    id: str | None,
    top: int | None,
    *,
    shuffles: bool,
    force: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Rank files that need not fit into memory; every query as it is read."""
    if out is None or out == DASH:
        raise ValueError("--out is needed for a folder, a pattern or a large file: say where to write the ranking")
    from corank.cli.large_files import rank_scan
    from corank.learners import load

    with working(quiet=quiet, status=False):
        model = load(model_file)
        by = query or (model.table_ or {}).get("query")
        if top is not None and by is None:
            raise ValueError("--top does not go with rows that are read in passes and have no queries: none is ranked")
        rows, queries = rank_scan(model, file, out, by, id, overwrite=force, top=top, shuffles=shuffles)
    n_queries = None if by is None else queries
    if as_json:
        typer.echo(
            json.dumps({"model": str(model_file), "rows": rows, "queries": n_queries, "out": str(out)}, indent=2)
        )
    elif not quiet:
        show(Text(_written(rows, n_queries, out, top)))


def _ranked(
    model_file: Path, file: Path, query: str | None, id_column: str | None, doing: Callable[[str], None]
) -> tuple[Any, str | None]:
    """The table in order with its ranks and scores, and the name of the query column."""
    doing(f"reading {file.name}")
    import numpy as np
    import pyarrow as pa

    from corank.cli.columns import features_of, queries_of, ranked, text_columns
    from corank.learners import load
    from corank.tables import column, read_table

    model = load(model_file)
    remembered = model.table_ or {}
    by = query or remembered.get("query")
    table = read_table(file, text=text_columns(model, by, id_column, remembered.get("id")))
    by, codes = queries_of(table, file, by, asked=query is not None, otherwise="all rows are ranked together")
    doing(f"encoding {count(len(table), 'row')}")
    features = features_of(model, table)
    doing(f"ranking {count(len(table), 'row')}")
    scores, std = ranked(model, features, codes)
    order = np.lexsort((-scores, codes))  # stable: ties stay in the order of the file
    begins = np.flatnonzero(np.r_[True, np.diff(codes[order]) != 0])
    ranks = np.arange(len(order)) - np.repeat(begins, np.diff(np.r_[begins, len(order)])) + 1
    if id_column is not None:
        column(table, id_column, "id")
        table = table.select(list(dict.fromkeys(name for name in (by, id_column) if name is not None)))
    taken = set(table.column_names)
    parts = {"rank": ranks, "score": scores[order], **({} if std is None else {"std": std[order]})}
    names = [name if name not in taken else f"predicted_{name}" for name in parts]
    if set(names) & taken:
        raise ValueError(
            f"the table has columns {' and '.join(map(repr, sorted(set(names) & taken)))} already: rename them"
        )
    ordered = table.take(pa.array(order))
    first = dict(zip(names, map(pa.array, parts.values()), strict=True))
    return pa.table({**first, **dict(zip(ordered.column_names, ordered.columns, strict=True))}), by


def _show(ranked: Any, by: str | None, file: Path, top: int) -> None:
    """The best of the first query."""
    first = ranked
    title, more = f"The best of {count(len(ranked), 'row')} of {title_of(file)}", ""
    if by is not None:
        label = ranked[by][0]
        n_queries = len(ranked[by].unique())
        ranks = ranked.column(0).to_pylist()
        size = next((at for at in range(1, len(ranks)) if ranks[at] == 1), len(ranks))
        first = ranked.slice(0, size).drop_columns([by])
        title = f"The best of {by} {label}, {count(size, 'row')} of {title_of(file)}"
        more = f"and {count(n_queries - 1, 'more query', 'more queries')}; " if n_queries > 1 else ""
    first = first.slice(0, top)
    own = [name for name in first.column_names[:3] if name.removeprefix("predicted_") in ("rank", "score", "std")]
    names = first.column_names[: len(own) + SHOWN_COLUMNS]
    table = grid(title, names, right=own)
    for row in first.select(names).to_pylist():
        table.add_row(*(Text(_cell(row[name])) for name in names))
    show(table, Text.assemble((f"{more}--out FILE writes them all", "dim")))


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
