"""Folders, patterns and files too large for memory: fitted and ranked in passes over them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from corank import learners
from corank.cli.columns import feature_columns, note_ids, views_of
from corank.cli.console import note
from corank.cli.fit import TrainingSource, with_effect
from corank.cli.options import AGREEING, LEARNERS, STREAMED, MethodName
from corank.encoder import TableEncoder
from corank.learners._scans import fitted_scan, predicted_chunks, scored_queries, whole_queries
from corank.streaming import Scan, scan, with_extra
from corank.streaming.group_queries import group_queries
from corank.streaming.scan import sampled_table
from corank.tables import TableError, near_names
from corank.tables.write import table_writer

SAMPLE_ROWS = 100_000  # by which columns are understood


def client_at(address: str | None) -> Any:
    """A Dask client, None for no address."""
    if address is None:
        return None
    try:
        from distributed import Client
    except ImportError as error:
        raise ValueError("--dask needs Dask: pip install 'corank[dask]'") from error
    try:
        return Client(address, timeout="10s")
    except (OSError, ValueError) as error:
        raise ValueError(f"--dask: there is no scheduler at {address}: {error}") from error


# ---------------------------------------------------------------- fit


def fit_in_passes(
    source: TrainingSource,
    method: MethodName,
    options: dict[str, Any],
    views: Sequence[str],
    passes: dict[str, Any],
    doing: Callable[[str], None],
    *,
    effect: bool = True,
) -> Any:
    """A model of files that need not fit into memory; `passes` are its unscored rows, checkpoint and scheduler."""
    if method not in STREAMED:
        raise ValueError(f"--method {method} needs its rows in memory; of files in passes learn {', '.join(STREAMED)}")
    if options["gamma"] == "auto":
        options = {**options, "gamma": "scale"}
    shuffles: bool = passes["shuffle_queries"]
    check_shuffle(source.columns["query"], shuffles=shuffles)
    if shuffles and passes["dask"] is not None:
        raise ValueError("--shuffle-queries does not go with --dask: sort the files by query once")
    client = client_at(passes["dask"])
    try:
        place = {"client": client, "device": passes["device"], "shuffle_queries": shuffles}
        rows = scan_training(source, place, doing)
        more: dict[str, Any] = {}
        if method in AGREEING:
            options = {**options, "views": views_of(views, rows.encoder, rows.feature_names or [])}
            if passes["unscored"] is not None:
                own = {"encoder": rows.encoder} if rows.encoder is not None else {}
                more["unscored"] = scan(passes["unscored"], query=rows.roles.query, **place, **own)
        model = getattr(learners, LEARNERS[method])(**options)
        doing(f"fitting {type(model).__name__}")
        model.fit(rows, checkpoint=passes["checkpoint"], **more)
        model = with_effect(model, doing, wanted=effect)
    finally:
        if client is not None:
            client.close()
    summary = model._summary()
    queries = None if rows.roles.query is None else summary["queries"]
    model.table_ = {**source.columns, "rows": summary["rows"], "scored": summary["scored"], "queries": queries}
    model.encoder_ = rows.encoder
    return model


def check_shuffle(query: str | None, *, shuffles: bool) -> None:
    """Refuse to bring queries together where there are none."""
    if shuffles and query is None:
        raise ValueError("--shuffle-queries needs a query column: say which with --query")


def scan_training(source: TrainingSource, place: dict[str, Any], doing: Callable[[str], None]) -> Scan:
    """A scan with an encoder that was fitted on some of the rows; `place`: where it runs, and whether it is grouped."""
    file, roles = source.file, source.columns
    doing(f"looking at {file}")
    texts = [name for name in (roles["query"], roles["id"]) if name is not None]
    sample = sampled_table(file, SAMPLE_ROWS, texts)
    options: dict[str, Any] = {"score": roles["score"], "query": roles["query"], **place}
    if sample is None:  # svmlight: all columns are numbers
        return scan(file, **options)
    for role in ("score", "query", "id"):
        name = roles[role]
        if name is not None and name not in sample.column_names:
            near = near_names(name, sample.column_names)
            guess = f"; did you mean {near[0]!r}?" if near else ""
            raise TableError(f"{file} has no {role} column {name!r}{guess}")
    names = feature_columns(sample, roles, source.wanted, source.dropped)
    note_ids(sample, names)
    return scan(file, encoder=TableEncoder().fit(sample.select(names)), **options)


def scored_rows(model: Any, file: Path, score: str, by: str | None, *, shuffles: bool) -> tuple[Any, Any, Any]:
    """Scores, predictions and query numbers of the rows that have a score: 24 bytes a row."""
    check_shuffle(by, shuffles=shuffles)
    rows = scan(file, score=score, query=by, shuffle_queries=shuffles, **_features(model))
    parts: list[tuple[Any, Any, Any]] = []
    first = 0
    for scores, found, codes in scored_queries(model, rows):
        given = ~np.isnan(scores)
        parts.append((scores[given], found[given], first + codes[given]))
        first += int(codes.max(initial=-1)) + 1
    if not parts:
        raise TableError(f"{file} has no rows")
    y, predicted, queries = (np.concatenate([part[k] for part in parts]) for k in range(3))
    return y, predicted, None if by is None else queries


# ---------------------------------------------------------------- rank


def rank_scan(
    model: Any,
    file: Path,
    out: Path,
    by: str | None,
    id_column: str | None,
    *,
    overwrite: bool,
    top: int | None = None,
    shuffles: bool = False,
) -> tuple[int, int]:
    """Write the rows of every query in order, as they are read, the first `top` or all: numbers of rows and queries."""
    check_shuffle(by, shuffles=shuffles)
    rows = scan(file, query=by, **_features(model))
    wanted = [by, id_column] if id_column is not None else rows.columns
    rows = with_extra(rows, list(dict.fromkeys(name for name in wanted if name is not None)))
    names = _free_names(rows.roles.extra)
    if rows.n_rows == 0:
        raise TableError(f"{file} has no rows")
    rows = group_queries(rows) if shuffles else rows
    n_rows = n_queries = 0
    if by is None:
        note("no query column: rows stay in their order, with their scores but without ranks")
    with table_writer(out, overwrite=overwrite) as write:
        for part, scores, codes in _ranked_parts(model, rows):
            order = np.arange(len(scores)) if by is None else np.lexsort((-scores, codes))
            begins = np.flatnonzero(np.r_[True, np.diff(codes[order]) != 0])
            ranks = np.arange(len(order)) - np.repeat(begins, np.diff(np.r_[begins, len(order)])) + 1
            n_queries += len(begins)
            if top is not None:
                order, ranks = order[ranks <= top], ranks[ranks <= top]
            table = part.take(pa.array(order))
            own = {} if by is None else {names[0]: pa.array(ranks)}
            write(pa.table({**own, names[1]: pa.array(scores[order]), **_columns(table)}))
            n_rows += len(order)
    return n_rows, n_queries


def _free_names(taken: Sequence[str]) -> list[str]:
    """What rank and score are called beside other columns."""
    names = [name if name not in taken else f"predicted_{name}" for name in ("rank", "score")]
    both = [name for name in names if name in taken]
    if both:
        raise ValueError(f"the files have columns {both[0].removeprefix('predicted_')!r} and {both[0]!r}: rename them")
    return names


def _features(model: Any) -> dict[str, Any]:
    if model.encoder_ is not None:
        return {"encoder": model.encoder_}
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        raise ValueError("the model does not know names of columns: save it with encoder=, or use corank fit")
    return {"features": [str(name) for name in names]}


def _columns(table: pa.Table) -> dict[str, Any]:
    return dict(zip(table.column_names, table.columns, strict=True))


def _ranked_parts(model: Any, rows: Scan) -> Iterator[tuple[pa.Table, Any, Any]]:
    """Columns, predictions and query codes of some whole queries at a time; all rows of a chunk without queries."""
    rows, what = fitted_scan(model, rows), "ranking"
    if not rows.has_queries:
        for chunk, values in predicted_chunks(model, rows, what):
            yield chunk.extra, np.asarray(values, dtype=np.float64), np.zeros(chunk.n_rows, dtype=np.int64)
        return
    for parts, codes in whole_queries(model, rows, what):
        yield pa.concat_tables([p.extra for p in parts]), np.concatenate([p.values for p in parts]), codes
