"""Folders, patterns and files too large for memory: fitted, ranked and evaluated in passes over
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from corank.cli.columns import (
    column_names_of,
    learned_columns,
    note_kinds,
    ranked_order,
    remembered_ids,
    result_names,
)
from corank.cli.console import note
from corank.cli.fit import FitRequest, with_effect
from corank.cli.items import Step
from corank.cli.options import AGREEING, LEARNERS, STREAMED
from corank.core.registry import learner_class
from corank.streaming import Scan, scan, with_extra
from corank.streaming.group_queries import group_queries
from corank.streaming.models import (
    fitted_scan,
    predicted_chunks,
    scored_queries,
    whole_queries,
)
from corank.streaming.scan import sampled_table
from corank.tables import TableError, columns_of, spreadsheet_safe
from corank.tables.write import table_writer

SAMPLE_ROWS = 100_000  # from which the encoder learns what the columns hold


# ---- fit


def fit_in_passes(request: FitRequest, step: Step) -> Any:
    """A model of files that need not fit into memory."""
    method, passes, shuffles = request.method, request.passes, request.passes.shuffle_queries
    if method not in STREAMED:
        raise ValueError(
            f"--method {method} needs all rows in memory; methods that read files in passes are"
            f" {', '.join(STREAMED)}"
        )
    settings = request.settings
    _check_shuffle(request.columns["query"], shuffles=shuffles)
    if shuffles and passes.dask is not None:
        raise ValueError("--shuffle-queries does not go with --dask: sort the files by query first")
    client = _dask_client(passes.dask)
    try:
        place = {"client": client, "device": request.learner.device, "shuffle_queries": shuffles}
        rows = _scan_training(request, place, step)
        unscored: dict[str, Any] = {}
        if method in AGREEING:
            settings["views"] = request.read_views(rows.encoder, rows.feature_names or [])
            if passes.unscored is not None:
                encoder = {} if rows.encoder is None else {"encoder": rows.encoder}
                unscored = {
                    "unscored": scan(passes.unscored, query=rows.roles.query, **place, **encoder)
                }
        model = learner_class(LEARNERS[method])(**settings)
        step(f"fitting {type(model).__name__}")
        model.fit(rows, checkpoint=passes.checkpoint, **unscored)
        model = with_effect(model, step, wanted=passes.effect)
    finally:
        if client is not None:
            client.close()
    counts = model.counts()
    queries = None if rows.roles.query is None else counts["queries"]
    model.table_ = {
        **request.columns,
        "rows": counts["rows"],
        "scored": counts["scored"],
        "queries": queries,
    }
    model.encoder_ = rows.encoder
    return model


def _dask_client(address: str | None) -> Any:
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


def _check_shuffle(query: str | None, *, shuffles: bool) -> None:
    """Refuse to bring queries together where there are none."""
    if shuffles and query is None:
        raise ValueError("--shuffle-queries needs a query column: name it with --query")


def _scan_training(request: FitRequest, place: dict[str, Any], step: Step) -> Scan:
    """A scan whose encoder was fitted on a sample of the rows; `place`: where it runs, and whether
    it is grouped.
    """
    file, roles = request.files.file, request.columns
    step(f"looking at {file}")
    sample = sampled_table(file, SAMPLE_ROWS, request.labelled)
    options: dict[str, Any] = {"score": roles["score"], "query": roles["query"], **place}
    if sample is None:  # svmlight: all columns are numbers
        return scan(file, **options)
    names, encoder = learned_columns(sample, roles, request.chosen)
    encoder.fit(sample.select(names))
    note_kinds(encoder)
    return scan(file, encoder=encoder, **options)


# ---- evaluate


def scored_rows(
    model: Any, file: Path, score: str, query: str | None, *, shuffles: bool
) -> tuple[Any, Any, Any]:
    """Scores, predictions and query numbers of the rows that have a score: 24 bytes per row."""
    _check_shuffle(query, shuffles=shuffles)
    rows = scan(file, score=score, query=query, shuffle_queries=shuffles, **_features(model))
    blocks: list[tuple[Any, Any, Any]] = []
    n_queries = 0
    for scores, predictions, codes in scored_queries(model, rows):
        scored = ~np.isnan(scores)
        blocks.append((scores[scored], predictions[scored], n_queries + codes[scored]))
        n_queries += int(codes.max(initial=-1)) + 1
    if not blocks:
        raise TableError(f"{file} has no rows")
    y, predicted, queries = (np.concatenate(arrays) for arrays in zip(*blocks, strict=True))
    return y, predicted, None if query is None else queries


def _features(model: Any) -> dict[str, Any]:
    """How a scan makes the features of a model."""
    return (
        {"features": column_names_of(model)}
        if model.encoder_ is None
        else {"encoder": model.encoder_}
    )


# ---- rank


def rank_in_passes(
    model: Any,
    file: Path,
    out: Path,
    query: str | None,
    ids: Sequence[str],
    *,
    sorts: bool,
    overwrite: bool,
    top: int | None = None,
    shuffles: bool = False,
    safe: bool = False,
) -> tuple[int, int]:
    """Write the rows of every query in order, as they are read, the first `top` or all: numbers of
    rows and queries.
    """
    _check_shuffle(query, shuffles=shuffles)
    rows = scan(file, query=query, **_features(model))
    extra = (
        [*ids, *([query] if query is not None else [])]
        if ids
        else [*remembered_ids(model), *rows.columns]
    )
    rows = with_extra(rows, [name for name in dict.fromkeys(extra) if ids or name in rows.columns])
    named = [name for name in ids or remembered_ids(model) if name in rows.roles.extra]
    rank_name, score_name, row_name = result_names(("rank", "score", "row"), rows.roles.extra)
    if rows.n_rows == 0:
        raise TableError(f"{file} has no rows")
    rows = group_queries(rows) if shuffles else rows
    n_read = n_rows = n_queries = 0
    if query is None and sorts:
        note("no query column: rows stay in their order, with their scores but without ranks")
    with table_writer(out, overwrite=overwrite) as write:
        for table, scores, codes in _predicted_queries(model, rows):
            results = {score_name: scores}
            numbers = {} if shuffles else {row_name: np.arange(n_read + 1, n_read + len(table) + 1)}
            n_read += len(table)
            if query is not None:
                order, ranks = ranked_order(scores, codes)
                n_queries += int(np.count_nonzero(ranks == 1))
                if top is not None:
                    order, ranks = order[ranks <= top], ranks[ranks <= top]
                table, results = (
                    table.take(pa.array(order)),
                    {
                        rank_name: ranks,
                        score_name: scores[order],
                    },
                )
                numbers = {name: values[order] for name, values in numbers.items()}
            columns = columns_of(table)
            ranked = pa.table(
                {**results, **{name: columns.pop(name) for name in named}, **numbers, **columns}
            )
            write(spreadsheet_safe(ranked) if safe else ranked)
            n_rows += len(table)
    return n_rows, n_queries


def _predicted_queries(model: Any, rows: Scan) -> Iterator[tuple[pa.Table, Any, Any]]:
    """Columns, predictions and query codes of some whole queries at a time; all rows of a chunk
    without queries.
    """
    rows, purpose = fitted_scan(model, rows), "ranking"
    if not rows.has_queries:
        for chunk, values in predicted_chunks(model, rows, purpose):
            yield (
                chunk.extra,
                np.asarray(values, dtype=np.float64),
                np.zeros(chunk.n_rows, dtype=np.int64),
            )
        return
    for chunks, codes in whole_queries(model, rows, purpose):
        table = pa.concat_tables([chunk.extra for chunk in chunks])
        yield table, np.concatenate([chunk.values for chunk in chunks]), codes
