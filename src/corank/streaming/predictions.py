"""Predictions and scores of a fitted learner for the rows of a scan, chunk by chunk.

Scores of the rows of scans are those of whole queries, wherever chunks cut them, or of all rows one
by one.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from corank.core.arrays import FloatArray, Index, namespace, to_numpy
from corank.core.messages import warn_user
from corank.metrics import disagreement_error
from corank.streaming.chunks import Chunk, ClosedQueries
from corank.streaming.dask import unit_results
from corank.streaming.passes import progress_bar
from corank.streaming.scan import Scan, with_extra
from corank.tables import check_target
from corank.tables.write import table_writer

NO_ROWS = "the scan has no rows."


def check_alone(scan: Scan, arguments: Mapping[str, Any]) -> None:
    """Refuse arguments, by name, that a scan brings itself, and a scan without scores."""
    for name, value in arguments.items():
        if value is not None:
            brings = {"y": "scan(..., score=)", "qid": "scan(..., query=)"}.get(name)
            words = (
                f"comes from the scan: name its column in {brings}"
                if brings
                else "does not go with a scan"
            )
            raise ValueError(f"{name} {words}.")
    if scan.roles.score is None:
        raise ValueError("the scan has no score column; name it in scan(..., score=).")


def fitted_scan(learner: Any, scan: Scan) -> Scan:
    """A scan as a fitted learner sees it."""
    encoder = getattr(learner, "encoder_", None)
    if encoder is not None and scan.encoder is None and not scan.maps:
        raise ValueError(
            "the model was saved with an encoder; make the scan with scan(...,"
            " encoder=model.encoder_)."
        )
    names = getattr(learner, "feature_names_in_", None)
    return scan.seen_by(names, learner.n_features_in_, type(learner).__name__)


def predicted_chunks(learner: Any, scan: Scan, what: str) -> Iterator[tuple[Chunk, Any]]:
    """Every chunk of a scan with its predictions, shown as it goes."""
    scan = fitted_scan(learner, scan)
    with progress_bar(what, scan.n_rows) as advance, closing(scan.chunks()) as chunks:
        for chunk in chunks:
            yield chunk, learner._values(chunk.features)
            advance(chunk.n_rows)


def predict_scan(learner: Any, scan: Scan) -> Any:
    """All predictions: (n,), 8 bytes a row."""
    if scan.client is not None:
        found = unit_results(fitted_scan(learner, scan), _predicted_unit, learner)
        parts = [values for unit in found for values in unit]
    else:
        parts = [values for _, values in predicted_chunks(learner, scan, "predicting")]
    if not parts:
        raise ValueError(NO_ROWS)
    return namespace(parts[0]).concat(parts)


def _predicted_unit(scan: Scan, number: int, learner: Any) -> list[Any]:
    """Runs on a worker."""
    return [learner._values(chunk.features) for chunk in scan.unit_chunks(number)]


def _written_unit(scan: Scan, number: int, learner: Any, folder: Path, name: str) -> int:
    """Runs on a worker, perhaps twice: the file of one unit, whole or not at all; none where it has
    no rows.
    """
    with closing(scan.unit_chunks(number)) as chunks:
        rows = ((chunk, learner._values(chunk.features)) for chunk in chunks)
        return _written(rows, folder / f"part-{number:06}.parquet", name, overwrite=True)


def _written(rows: Iterator[tuple[Chunk, Any]], path: Any, name: str, *, overwrite: bool) -> int:
    """The number of rows that were written; no file for none, which would be no table."""
    first = next(rows, None)
    if first is None:
        return 0
    count = 0
    with table_writer(path, overwrite=overwrite) as write:
        for chunk, values in chain([first], rows):
            write(beside(chunk, values, name))
            count += chunk.n_rows
    return count


def _write_folder(learner: Any, scan: Scan, path: Path, name: str) -> int:
    """Every worker its own files, in a folder that gets its name when all are there."""
    if path.exists():
        raise FileExistsError(f"{path} already exists: workers write a new folder")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"the folder {path.parent} does not exist: create it first")
    part = path.absolute().with_name(f".corank-{secrets.token_hex(8)}.part")
    part.mkdir()
    try:
        count: int = sum(
            unit_results(fitted_scan(learner, scan), _written_unit, learner, part, name)
        )
        if count == 0:
            raise ValueError(NO_ROWS)
        for stale in part.glob(".corank-*.part"):  # of a worker that was killed
            stale.unlink()
        part.rename(path)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    return count


def write_predictions(
    learner: Any, scan: Scan, path: Any, columns: Any, name: str, *, overwrite: bool
) -> int:
    """Predictions beside other columns of the files, chunk by chunk: how many rows were written."""
    scan = carrying(scan, columns, name)
    if scan.client is not None:
        return _write_folder(learner, scan, Path(path), name)
    check_target(Path(path), overwrite=overwrite)
    count = _written(predicted_chunks(learner, scan, "predicting"), path, name, overwrite=overwrite)
    if count == 0:
        raise ValueError(NO_ROWS)
    return count


def carrying(scan: Scan, columns: Any, name: str) -> Scan:
    """The scan with the columns that are written too: those asked for, else the query column."""
    own = (
        [scan.roles.query]
        if columns is None and scan.has_queries
        else []
        if columns is None
        else columns
    )
    names = [own] if isinstance(own, str) else [str(each) for each in own]
    if name in names:
        raise ValueError(
            f"columns: {name!r} is the name of the predictions; give them another with name=."
        )
    return with_extra(scan, names)


def beside(chunk: Chunk, values: Any, name: str) -> pa.Table:
    """Columns that were carried along, and the predictions after them."""
    numbers = pa.array(to_numpy(values))
    if chunk.extra is None:
        return pa.table({name: numbers})
    return chunk.extra.append_column(name, numbers)


@dataclass(frozen=True)
class Stretch:
    """Rows of one chunk, and their predictions (n,)."""

    chunk: Chunk
    rows: slice
    values: FloatArray

    @property
    def scores(self) -> FloatArray:
        """Their scores (n,), NaN = unscored."""
        return to_numpy(self.chunk.scores)[self.rows]

    @property
    def extra(self) -> pa.Table:
        """Columns that are carried along."""
        chosen = pa.table({}) if self.chunk.extra is None else self.chunk.extra
        return chosen.slice(self.rows.start, self.rows.stop - self.rows.start)


def whole_queries(learner: Any, scan: Scan, what: str) -> Iterator[tuple[list[Stretch], Index]]:
    """Rows of some whole queries at a time with their query codes; without queries all rows are
    one.
    """
    waiting: list[Stretch] = []  # of the query that may go on
    last: int | None = None
    closed = ClosedQueries()
    for chunk, values in predicted_chunks(learner, scan, what):
        runs, n = chunk.runs, chunk.n_rows
        # a query may be as long as the files: features are not kept
        chunk = replace(chunk, features=np.empty((n, 0)))
        found = np.asarray(to_numpy(values), dtype=np.float64)
        if scan.has_queries:
            closed.add(runs, chunk.place)
        if waiting and last != int(runs.ids[0]):
            yield waiting, _codes(waiting)
            waiting = []
        final = int(runs.starts[-1])
        if final > 0:
            parts = [*waiting, Stretch(chunk, slice(0, final), found[:final])]
            yield parts, np.concatenate([_codes(waiting), runs.codes(n)[:final]])
            waiting = []
        waiting.append(Stretch(chunk, slice(final, n), found[final:]))
        last = int(runs.ids[-1])
    if waiting:
        yield waiting, _codes(waiting)


def _codes(waiting: Sequence[Stretch]) -> Index:
    """The codes of rows that belong to query 0."""
    return np.zeros(sum(len(part.values) for part in waiting), dtype=np.int64)


def scored_queries(learner: Any, scan: Scan) -> Iterator[tuple[FloatArray, FloatArray, Index]]:
    """Scores, predictions and query codes, some whole queries at a time."""
    for parts, codes in whole_queries(learner, scan, "scoring"):
        yield (
            np.concatenate([p.scores for p in parts]),
            np.concatenate([p.values for p in parts]),
            codes,
        )


def order_score(learner: Any, scan: Scan, arguments: Mapping[str, Any]) -> float:
    """1 − the mean disagreement of the queries where it is defined; `arguments` : as in `check_alone`."""
    check_alone(scan, arguments)
    total, count = 0.0, 0
    for scores, found, codes in scored_queries(learner, scan):
        if np.isnan(scores).all():
            continue
        errors = np.atleast_1d(disagreement_error(scores, found, qid=codes, average=False))
        defined = errors[~np.isnan(errors)]
        total, count = total + float(defined.sum()), count + len(defined)
    if count == 0:
        warn_user(
            "There was nothing to compare: no query has two rows with different scores. The result"
            " is nan."
        )
    return 1.0 - total / count if count else float("nan")


def explained_score(learner: Any, scan: Scan, arguments: Mapping[str, Any]) -> float:
    """R² of the rows that have a score; `arguments` : as in `check_alone`."""
    check_alone(scan, arguments)
    weight, mean, spread, loss = 0, 0.0, 0.0, 0.0
    for chunk, values in predicted_chunks(learner, scan, "scoring"):
        scores, found = to_numpy(chunk.scores), np.asarray(to_numpy(values), dtype=np.float64)
        given = ~np.isnan(scores)
        own, n = scores[given], int(given.sum())
        if n == 0:
            continue
        step = float(own.mean()) - mean
        spread += float(((own - own.mean()) ** 2).sum()) + step**2 * weight * n / (weight + n)
        weight, mean = weight + n, mean + step * n / (weight + n)
        loss += float(((own - found[given]) ** 2).sum())
    if weight == 0:
        raise ValueError("the scan has no scored row: its score column is empty.")
    if spread == 0:
        return 1.0 if loss == 0 else 0.0  # as scikit-learn says it
    return 1.0 - loss / spread
