"""`corank rank`: a model file and a new table → the table in order, best first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from corank.cli.console import check_model_and_table, check_output, count, grid, is_big, show, working

TOP = 10
SHOWN_COLUMNS = 5


def rank(
    model: Annotated[Path, typer.Argument(help="Model that `corank fit` saved.", show_default=False)],
    file: Annotated[
        Path,
        typer.Argument(
            help="Table of items: .csv, .tsv or .parquet; or a folder or pattern of such files.", show_default=False
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="Where to write the ranking. Default: show the best ten.", show_default=False)
    ] = None,
    query: Annotated[
        str | None, typer.Option(help="Column with the queries. Default: as in fit.", show_default=False)
    ] = None,
    id: Annotated[
        str | None,
        typer.Option("--id", help="Write only this column beside rank and score. Default: all.", show_default=False),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is already there.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No notes; with --out print nothing but errors.")] = False,
) -> None:
    """Rank the items of a table, within each query: 1 is the best.

    Where a ranker knows how sure it is, std is the standard deviation of
    a score less the mean score of its query: the level of the scores, which
    says nothing about the order, is taken out (left in beyond 2,000 rows).
    Of a folder, a pattern or a large file the scores alone are written.
    """
    check_model_and_table("rank", model, file)
    if out is not None:
        check_output(out, file, force=force)
    if is_big(file):
        _rank_in_passes(model, file, out, query, id, force=force, quiet=quiet)
        return
    with working(quiet=quiet) as doing:
        ranked, by = _ranked(model, file, query, id, doing)
        if out is not None:
            from corank.tables import write_table

            doing(f"writing {out.name}")
            write_table(ranked, out, overwrite=force)
    if out is None:
        _show(ranked, by, file)
    elif not quiet:
        _show_written(ranked, by, out)


def _rank_in_passes(
    model_file: Path, file: Path, out: Path | None, query: str | None, id: str | None, *, force: bool, quiet: bool
) -> None:
    """Rank files that need not fit into memory; every query as it is read."""
    if out is None:
        raise ValueError("--out is needed for a folder, a pattern or a large file: say where to write the ranking")
    from corank.cli.bigger import rank_scan
    from corank.learners import load

    with working(quiet=quiet, status=False):
        model = load(model_file)
        by = query or (model.table_ or {}).get("query")
        rows, queries = rank_scan(model, file, out, by, id, client=None, overwrite=force)
    if not quiet:
        within = "" if by is None else f" in {count(queries, 'query', 'queries')}"
        show(Text(f"{count(rows, 'row')} ranked{within}: {out}"))


def _show_written(ranked: Any, by: str | None, out: Path) -> None:
    queries = "" if by is None else f" in {count(len(ranked[by].unique()), 'query', 'queries')}"
    show(Text(f"{count(len(ranked), 'row')} ranked{queries}: {out}"))


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


def _show(ranked: Any, by: str | None, file: Path) -> None:
    """The best of the first query."""
    first = ranked
    title, more = f"The best of {count(len(ranked), 'row')} of {file.name}", ""
    if by is not None:
        label = ranked[by][0]
        n_queries = len(ranked[by].unique())
        ranks = ranked.column(0).to_pylist()
        size = next((at for at in range(1, len(ranks)) if ranks[at] == 1), len(ranks))
        first = ranked.slice(0, size).drop_columns([by])
        title = f"The best of {by} {label}, {count(size, 'row')} of {file.name}"
        more = f"and {count(n_queries - 1, 'more query', 'more queries')}; " if n_queries > 1 else ""
    first = first.slice(0, TOP)
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
