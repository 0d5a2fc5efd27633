"""Folders, patterns and files too large for memory: fitted, ranked and evaluated in passes over
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
from corank.cli.fit import FitJob, with_effect
from corank.cli.items import Step
from corank.cli.options import AGREEING, AUTO, STREAMED, TableOutput
from corank.streaming import Scan, scan, with_extra
from corank.streaming.group_queries import group_queries
from corank.streaming.models import (
    predicted_chunks,
    scored_queries,
    whole_queries,
)
from corank.streaming.scan import sampled_table
from corank.tables import TableError, TableFile, spreadsheet_safe
from corank.tables.write import table_writer

SAMPLE_ROWS = 100_000  # from which the encoder learns what the columns hold


# ---- fit


def fit_in_passes(job: FitJob, step: Step) -> Any:
    """A model of files that need not fit into memory."""
    method, passes = job.method, job.request.passes
    if method not in STREAMED:
        raise ValueError(
            f"--method {method} needs all rows in memory; methods that read files in passes are"
            f" {', '.join(STREAMED)}"
        )
    if method is AUTO and job.request.learner.device is not None:
        raise ValueError("--device does not go with an average of models that are fitted in passes")
    _check_shuffle(job.roles.query, shuffles=passes.shuffle_queries)
    if passes.shuffle_queries and passes.dask is not None:
        raise ValueError("--shuffle-queries does not go with --dask: sort the files by query first")
    client = _dask_client(passes.dask)
    try:
        place = {
            "client": client,
            "device": job.request.learner.device,
            "shuffle_queries": passes.shuffle_queries,
        }
        rows = _scan_training(job, place, step)
        unscored: dict[str, Any] = {}
        if method in AGREEING and passes.unscored is not None:
            query, encoder = rows.roles.query, rows.encoder
            unscored["unscored"] = scan(passes.unscored, query=query, encoder=encoder, **place)
        model = job.learner(rows.encoder, rows.feature_names or [])
        step(f"fitting {type(model).__name__}")
        model.fit(rows, checkpoint=passes.checkpoint, **unscored)
        model = with_effect(model, step, wanted=passes.effect)
    finally:
        if client is not None:
            client.close()
    counts = model.counts()
    if method is AUTO and passes.effect and model.n_unscored:
        note("whether unscored rows help is not checked for an average that is fitted in passes")
    queries = None if rows.roles.query is None else counts["queries"]
    numbers = {"rows": counts["rows"], "scored": counts["scored"], "queries": queries}
    model.encoder_, model.table_ = rows.encoder, {**job.roles.columns, **numbers}
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


def _scan_training(job: FitJob, place: dict[str, Any], step: Step) -> Scan:
    """A scan whose encoder was fitted on a sample of the rows; `place`: where it runs, and whether
    it is grouped.
    """
    file, roles = job.file, job.roles
    step(f"looking at {file}")
    sample = sampled_table(file, SAMPLE_ROWS, job.read_as_text)
    encoder = None
    if sample is not None:  # in SVMlight all columns are numbers
        names, encoder = learned_columns(sample, roles.columns, job.request.chosen)
        encoder.fit(sample.select(names))
        note_kinds(encoder)
    return scan(file, score=roles.score, query=roles.query, encoder=encoder, **place)


# ---- evaluate


def scored_rows(
    model: Any, file: TableFile, score: str, query: str | None, *, shuffles: bool
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
    if model.encoder_ is None:
        return {"features": column_names_of(model)}
    return {"encoder": model.encoder_}


# ---- rank


@dataclass(frozen=True)
class RankingInPasses:
    """A file whose rows are written query by query in order, as they are read.

    Attributes
    ----------
    query : name of the query column; None leaves the rows in their order
    ids : the only columns to write next to the results; none for all
    top : how many rows of each query are wanted, or None for all
    shuffles : whether the rows of each query must be brought together first
    """

    model: Any
    file: TableFile
    query: str | None
    ids: Sequence[str]
    top: int | None
    shuffles: bool

    def write(self, out: Path, output: TableOutput) -> tuple[int, int]:
        """Write the result: numbers of rows and queries."""
        _check_shuffle(self.query, shuffles=self.shuffles)
        rows = self._scan()
        if rows.n_rows == 0:
            raise TableError(f"{self.file} has no rows")
        names = result_names(("rank", "score", "row"), rows.roles.extra)
        rows = group_queries(rows) if self.shuffles else rows
        n_read = n_rows = n_queries = 0
        with table_writer(out, overwrite=output.force) as write:
            for table, scores, codes in _predicted_queries(self.model, rows):
                first_row = None if self.shuffles else n_read + 1
                ranked, n_more = self._ranked(table, scores, codes, first_row, names)
                write(spreadsheet_safe(ranked) if output.spreadsheet_safe else ranked)
                n_read += len(table)
                n_rows += len(ranked)
                n_queries += n_more
        return n_rows, n_queries

    def _scan(self) -> Scan:
        """The rows with the columns to write."""
        rows = scan(self.file, query=self.query, **_features(self.model))
        if self.ids:
            extra = [*self.ids, *([] if self.query is None else [self.query])]
        else:
            extra = [*remembered_ids(self.model), *rows.columns]
            extra = [name for name in extra if name in rows.columns]
        return with_extra(rows, list(dict.fromkeys(extra)))

    def _ranked(
        self, table: pa.Table, scores: Any, codes: Any, first_row: int | None, names: Sequence[str]
    ) -> tuple[pa.Table, int]:
        """Some whole queries as they are written, and how many they are; `names` of rank, score and
        row number, from `first_row` where rows have their order.
        """
        rank_name, score_name, row_name = names
        order, results, n_queries = np.arange(len(table)), {}, 0
        if self.query is not None:
            order, ranks = ranked_order(scores, codes)
            n_queries = int(np.count_nonzero(ranks == 1))
            if self.top is not None:
                order, ranks = order[ranks <= self.top], ranks[ranks <= self.top]
            results, table = {rank_name: ranks}, table.take(pa.array(order))
        columns: dict[str, Any] = {**results, score_name: scores[order]}
        for name in self.ids or remembered_ids(self.model):
            if name in table.column_names:
                columns[name] = table[name]
        if first_row is not None:
            columns[row_name] = first_row + order
        columns |= {name: table[name] for name in table.column_names if name not in columns}
        return pa.table(columns), n_queries


def _predicted_queries(model: Any, rows: Scan) -> Iterator[tuple[pa.Table, Any, Any]]:
    """Columns, predictions and query codes of some whole queries at a time; all rows of a chunk
    without queries.
    """
    purpose = "ranking"
    if not rows.has_queries:
        for chunk, values in predicted_chunks(model, rows, purpose):
            codes = np.zeros(chunk.n_rows, dtype=np.int64)
            yield chunk.extra, np.asarray(values, dtype=np.float64), codes
        return
    for chunks, codes in whole_queries(model, rows, purpose):
        table = pa.concat_tables([chunk.extra for chunk in chunks])
        yield table, np.concatenate([chunk.values for chunk in chunks]), codes
