"""Scans in learners: what goes with one, its rows for `fit`, the checkpoint of a fit, predictions
chunk by chunk.

Scores of the rows of scans are those of whole queries, wherever chunks cut them, or of all rows one
by one.
"""

from __future__ import annotations

import numbers
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from corank.core.arrays import FloatArray, Index, digest, namespace, to_numpy
from corank.core.kernels import is_named
from corank.core.labels import encode_queries
from corank.core.messages import warn_user
from corank.core.unscored import HeldRows, Part
from corank.inputs import is_collection, is_frame, read_unscored
from corank.learners.bases import asked_bases, check_scanned, n_candidates
from corank.metrics import disagreement_error
from corank.model_files.container import ModelFileError
from corank.streaming import Chunk, Scan, with_extra
from corank.streaming.checkpoint import Checkpoint, stopping_at_sigterm
from corank.streaming.chunks import ClosedQueries
from corank.streaming.dask import collection_scan, unit_results
from corank.streaming.passes import Passes, progress_bar
from corank.streaming.survey import (
    NumberedRows,
    ScannedRows,
    Survey,
    SurveyJob,
    max_held_rows,
    run_survey,
)
from corank.streaming.unscored import StreamedRows, is_stream
from corank.tables import check_target
from corank.tables.write import table_writer

NO_ROWS = "the scan has no rows."
TOO_MANY = "the scored rows of the scan do not fit into memory ({rows:,} of them)"


def is_scan(X: Any) -> bool:
    """Whether rows are in files, or in partitions."""
    return isinstance(X, Scan)


def from_dask(X: Any, y: Any = None, qid: Any = None) -> tuple[Any, Any, Any]:
    """X, y and qid, where X is a Dask collection as one scan that brings the others."""
    if not is_collection(X):
        for value, name in ((y, "y"), (qid, "qid")):
            if is_collection(value):
                raise TypeError(
                    f"{name} is a Dask collection but X is not; give both as Dask collections, or"
                    " neither."
                )
        return X, y, qid
    return collection_scan(X, y, qid), None, None


def check_alone(scan: Scan, given: Mapping[str, Any]) -> None:
    """Refuse what a scan brings itself, and a scan without scores."""
    for name, value in given.items():
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


def note_features(learner: Any, scan: Scan) -> None:
    """Remember the number and names of the features; what an encoder gives is an array, which has
    none.
    """
    learner.n_features_in_ = scan.n_features
    names = scan.feature_names
    if names is None or scan.encoder is not None:
        vars(learner).pop("feature_names_in_", None)
    else:
        learner.feature_names_in_ = np.asarray(names, dtype=object)


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


@contextmanager
def passing(learner: Any, checkpoint: Any, rows: Mapping[str, Any]) -> Iterator[Passes]:
    """Passes of one fit; with a checkpoint they are taken up where they broke, and SIGTERM loses
    nothing.
    """
    if checkpoint is None:
        yield Passes()
        return
    if not any(is_scan(value) for value in rows.values()):
        raise ValueError("checkpoint goes with a scan; rows in memory are fitted at once.")
    parameters = {
        name: in_words(value) for name, value in sorted(learner.get_params(deep=False).items())
    }
    about = {
        "learner": type(learner).__name__,
        "parameter": parameters,
        "scan": {name: value.about() for name, value in rows.items() if is_scan(value)},
        "rows": {
            name: digest_of(value)
            for name, value in rows.items()
            if value is not None and not is_scan(value)
        },
    }
    passes = Passes(Checkpoint(checkpoint, about))
    try:
        with stopping_at_sigterm():
            yield passes
            coefficients = learner.coef_ if isinstance(learner.coef_, list) else [learner.coef_]
            if not all(np.isfinite(to_numpy(array)).all() for array in coefficients):
                raise ValueError("coefficients are not finite")
    except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError) as error:
        if not passes.resumed or isinstance(error, ModelFileError):
            raise
        # a checkpoint whose checksum is right can still hold what no fit has written
        raise ModelFileError(
            f"the fit went on from the checkpoint in {checkpoint} and failed: {error}; if that"
            " makes no sense, delete the folder to start again"
        ) from error


def in_words(value: Any) -> str:
    """A parameter without where it lies in memory, which differs from run to run."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def digest_of(values: Any) -> str:
    """Of an array, a frame or a list; of chunks only that they are some."""
    if is_frame(values) or (isinstance(values, Sequence) and np.ndim(values[0]) == 0):
        values = np.asarray(values)
    if not hasattr(values, "shape"):
        return "chunks"
    return digest(values.astype(str) if values.dtype == object else values)


# ---------------------------------------------------------------- rows for fit


def survey_scan(model: Any, scan: Scan, passes: Passes) -> tuple[Survey, list[Any]]:
    """The first pass over the rows to fit, and what every view was asked to take as its basis."""
    note_features(model, scan)
    model._set_views(scan.n_features, scan.feature_names)
    _refuse_precomputed(model)
    asked = asked_bases(model, model._view_list)
    held = max_held_rows(scan.n_features)
    job = SurveyJob(n_candidates(asked), model._seed, held, unscored=model._several)
    look = run_survey(scan, passes, job, "X", contiguous=True)
    if look.n_scored == 0:
        raise ValueError("the scan has no scored row: its score column is empty.")
    return look, asked


def _refuse_precomputed(model: Any) -> None:
    if any(is_named(view.kernel, "precomputed") for view in model._view_list):
        raise ValueError(
            "kernel='precomputed' needs all kernel values in memory; a scan holds features."
        )


def scanned_parts(
    model: Any,
    scan: Scan,
    look: Survey,
    features: NumberedRows,
    unscored: Any,
    labels: Any,
    passes: Passes,
) -> list[Part]:
    """The rows of a scan without a score, then those of `unscored=`."""
    parts: list[Part] = []
    if look.n_rows > look.n_scored:
        with_queries = model._unscored_comparison().needs_queries
        parts.append(ScannedRows(scan, look, passes, "X", every=False, with_queries=with_queries))
    return [*parts, *unscored_parts(model, features, unscored, labels, passes)]


def unscored_parts(
    model: Any, features: Any, unscored: Any, labels: Any, passes: Passes
) -> list[Part]:
    """Rows of `unscored=`, whose queries are their own and whose numbers come after those of X."""
    n_before = features.shape[0]
    if unscored is None:
        if labels is not None:
            raise ValueError("unscored_qid was given without unscored.")
        return []
    with_queries = model._unscored_comparison().needs_queries
    if is_scan(unscored):
        if labels is not None:
            raise ValueError(
                "unscored_qid does not go with a scan; name its column in scan(..., query=)."
            )
        names = getattr(model, "feature_names_in_", None)
        scan = unscored.seen_by(names, model.n_features_in_, type(model).__name__)
        _refuse_precomputed(model)
        asked = asked_bases(model, model._view_list)
        job = SurveyJob(
            n_candidates(asked), model._seed, 0, all_unscored=True, first_number=n_before
        )
        look = run_survey(scan, passes, job, "unscored", contiguous=with_queries)
        check_scanned(asked, n_before + look.n_rows)
        return [ScannedRows(scan, look, passes, "unscored", with_queries=with_queries)]
    fitted = features.features if isinstance(features, NumberedRows) else features
    if is_stream(unscored):
        if labels is not None:
            raise ValueError(
                "unscored_qid does not go with chunks; each chunk brings its own: (X, qid)."
            )
        return [
            StreamedRows(
                unscored, partial(read_unscored, model, fitted), with_queries, first=n_before
            )
        ]
    more = read_unscored(model, fitted, unscored)
    codes = None if labels is None else encode_queries(labels, more.shape[0], "unscored_qid")[0]
    return [HeldRows(more, None if codes is None else to_numpy(codes), first=n_before)]


def check_streamed(model: Any, specs: Sequence[Any], settings: Any, n_scored: int) -> None:
    """Refuse what needs scored rows in memory, which they do not fit into."""
    for spec in specs:
        number = isinstance(spec, numbers.Integral) and not isinstance(spec, bool)
        if not number and not (isinstance(spec, str) and spec in ("auto", "features")):
            raise ValueError(
                f"basis={spec!r} needs the rows in memory, but {TOO_MANY.format(rows=n_scored)};"
                " give a number of basis rows, or 'features' with kernel='linear'."
            )
    if settings.tunes and (model._cv is not None or model.scoring == "disagreement"):
        what = "cv" if model._cv is not None else "scoring='disagreement'"
        raise ValueError(
            f"{what} needs the scored rows in memory, but {TOO_MANY.format(rows=n_scored)}; leave"
            " it out."
        )


# ---------------------------------------------------------------- predictions


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


def order_score(learner: Any, scan: Scan) -> float:
    """1 − the mean disagreement of the queries where it is defined."""
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


def explained_score(learner: Any, scan: Scan) -> float:
    """R² of the rows that have a score."""
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
