"""What learners do with scans: the rows for `fit`, scored rows that only pass by, predictions and
scores.

A learner asks for passes (`passing`), for the rows of X (`SurveyedScan`) and of `unscored=`
(`ScannedRows`), and tunes a `ScannedProblem` where scored rows do not fit into memory. Scores of the
rows of scans are those of whole queries, wherever chunks cut them, or of all rows one by one.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from corank.core.arrays import (
    Array,
    FloatArray,
    Index,
    first_appearance,
    stack_rows,
    take,
    to_numpy,
)
from corank.core.folds import N_FOLDS, Folding
from corank.core.loss import Loss
from corank.core.messages import warn_user
from corank.core.observations import TIED, ScoredRows
from corank.core.storable import ModelFileError
from corank.core.sums import Spans, Statistics
from corank.core.unscored import Part, Piece, Reservoir, UnscoredRows
from corank.core.views import JointFeatures
from corank.display import progress_bar
from corank.inputs import is_scan
from corank.learners.training import ViewBases
from corank.metrics import disagreement_error
from corank.solve.effect import Evidence
from corank.solve.holdout import Scoring
from corank.solve.systems import PrimalSystem, ViewData
from corank.solve.tuning import Settings, Trial
from corank.streaming.averages import SampledScan  # noqa: F401 - asked for by learners
from corank.streaming.checkpoint import Checkpoint, digest_of, in_words, stopping_at_sigterm
from corank.streaming.chunks import Chunk, ClosedQueries
from corank.streaming.dask import unit_results
from corank.streaming.passes import (
    Folds,
    JointSumJob,
    JointSums,
    Passes,
    SumJob,
)
from corank.streaming.scan import Scan, with_extra
from corank.streaming.survey import (
    NO_SCORES,
    NumberedRows,
    Survey,
    SurveyJob,
    max_held_rows,
    run_survey,
    scored_rows,
)
from corank.tables import check_target
from corank.tables.write import table_writer

NO_SPREAD = 1e-28  # of scores that are all the same: sum of squares per row
NO_ROWS = "the scan has no rows."
LONG_QUERY = (
    "a query has more than {:,} rows, too many to compare columns within it in passes; apply the"
    " model to a table in memory, or make the scan without query=."
)


# ---------------------------------------------------------------- fits


@contextmanager
def passing(learner: Any, checkpoint: Any, rows: Mapping[str, Any]) -> Iterator[Passes]:
    """Passes of one fit; with a checkpoint they are taken up where they broke, and SIGTERM loses
    nothing.

    rows : the arguments of `fit` by name
    """
    if checkpoint is None:
        passes = Passes()
        yield passes
    else:
        passes = Passes(Checkpoint(checkpoint, _about(learner, rows)))
        try:
            with stopping_at_sigterm():
                yield passes
                if not all(np.isfinite(to_numpy(own)).all() for own in learner.coefficients):
                    raise ValueError("coefficients are not finite")
        except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError) as error:
            if not passes.resumed or isinstance(error, ModelFileError):
                raise
            # a checkpoint whose checksum is right can still hold what no fit has written
            raise ModelFileError(
                f"the fit went on from the checkpoint in {checkpoint} and failed: {error}; if that"
                " makes no sense, delete the folder to start again"
            ) from error
    if passes.n_readings:
        learner.n_readings_ = passes.n_readings


def _about(learner: Any, rows: Mapping[str, Any]) -> dict[str, Any]:
    """Everything that the sums of a fit depend on."""
    scanned = {name: values for name, values in rows.items() if is_scan(values)}
    if not scanned:
        raise ValueError("checkpoint goes with a scan; rows in memory are fitted at once.")
    parameters = sorted(learner.get_params(deep=False).items())
    return {
        "learner": type(learner).__name__,
        "parameter": {name: in_words(value) for name, value in parameters},
        "scan": {name: scan.about() for name, scan in scanned.items()},
        "rows": {
            name: digest_of(values)
            for name, values in rows.items()
            if values is not None and name not in scanned
        },
    }


# ---------------------------------------------------------------- rows to learn from


@dataclass(frozen=True)
class SurveyedScan:
    """A scan after the first pass over it.

    name : of its rows in checkpoints
    """

    scan: Scan
    passes: Passes
    survey: Survey
    name: str

    @classmethod
    def to_fit(
        cls, scan: Scan, passes: Passes, n_candidates: int, seed: int, *, unscored: bool
    ) -> SurveyedScan:
        """The rows of X; `unscored` : whether unscored rows may serve as basis."""
        most = max_held_rows(scan.n_features)
        job = SurveyJob(n_candidates, seed, most, unscored=unscored)
        survey = run_survey(scan, passes, job, "X", contiguous=True)
        if survey.n_scored == 0:
            raise ValueError(NO_SCORES)
        return cls(scan, passes, survey, "X")

    @property
    def features(self) -> NumberedRows:
        """The rows in memory: all scored ones, or those that may serve as basis."""
        survey = self.survey
        if survey.held is None:
            numbers, features = survey.scored.rows()
        else:
            features, _, _, numbers = survey.held.joined()
        return NumberedRows(features, numbers, survey.n_rows)

    @property
    def scored(self) -> ScoredRows | None:
        """All scored rows, None where they do not fit into memory."""
        return scored_rows(self.survey, with_queries=self.scan.has_queries)

    def unscored(self, comparison: Loss) -> list[Part]:
        """The rows without a score as one part, where there are any."""
        if self.survey.n_unscored == 0:
            return []
        return [ScannedRows(self, with_queries=comparison.needs_queries, every=False)]


@dataclass
class ScannedRows:
    """The unscored rows of a scan, or all of them: a `Part` of `UnscoredRows`.

    every : whether scores are ignored
    """

    is_scanned: ClassVar[bool] = True
    rows: SurveyedScan
    with_queries: bool
    every: bool = True
    _passed: int = field(default=0, init=False)
    # by a pass that was made for other rows
    _summed: tuple[str, Statistics] | None = field(default=None, init=False)

    @classmethod
    def of(
        cls,
        scan: Scan,
        passes: Passes,
        n_candidates: int,
        seed: int,
        *,
        first_number: int,
        with_queries: bool,
    ) -> ScannedRows:
        """The rows of `unscored=`, after the first pass over them."""
        job = SurveyJob(n_candidates, seed, 0, all_unscored=True, first_number=first_number)
        survey = run_survey(scan, passes, job, "unscored", contiguous=with_queries)
        return cls(SurveyedScan(scan, passes, survey, "unscored"), with_queries)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.rows.survey.n_unscored

    def sampled(self, size: int, seed: int) -> Reservoir:
        """At most `size` rows, drawn by row number in the first pass."""
        reservoir = self.rows.survey.unscored
        assert min(size, self.n_rows) <= reservoir.limit
        return reservoir.cut(size)

    def pieces(self) -> Iterator[Piece]:
        """Chunk by chunk, queries numbered through."""
        code, last = -1, None
        for chunk in self.rows.scan.chunks():
            runs = chunk.runs
            rows = np.arange(chunk.n_rows) if self.every else np.flatnonzero(~chunk.is_scored)
            if len(rows) == 0:
                continue
            present, codes = np.unique(runs.codes(chunk.n_rows)[rows], return_inverse=True)
            goes_on = last == int(runs.ids[present[0]])
            first = code if goes_on else code + 1
            codes = codes.astype(np.int64) + first if self.with_queries else 0 * codes
            yield Piece(take(chunk.features, rows), codes)
            code = first + len(present) - 1
            last = int(runs.ids[present[-1]])

    def summed(
        self, comparison: Loss, features: Any, columns: Sequence[Index] | None
    ) -> Statistics:
        """The sums over the rows, in one pass unless `keep` was given them."""
        job = self.sum_job(comparison, features, columns)
        if self._summed is not None and self._summed[0] == job.digest():
            return self._summed[1]
        self._passed += 1
        rows = self.rows
        name, what = f"sums-{rows.name}-{self._passed}", f"summing {rows.name}"
        sums: Spans = rows.passes.run(rows.scan, job, name, what, rows.survey.n_rows)
        return sums.closed()

    def sum_job(self, comparison: Loss, features: Any, columns: Sequence[Index] | None) -> SumJob:
        """The job that sums the rows."""
        return SumJob(comparison, features, "all" if self.every else "unscored", columns)

    def keep(self, job: SumJob, sums: Statistics) -> None:
        """Remember the sums of a job, so that `summed` need not pass over the rows."""
        self._summed = job.digest(), sums


# ---------------------------------------------------------------- scored rows that only pass by


@dataclass
class SummedRows:
    """Stands for more scored rows than fit into memory, of which there are only sums.

    comparison : the loss on them
    level : is taken out of the scores
    """

    rows: SurveyedScan
    comparison: Loss
    level: float
    n_passes: int = field(default=0, init=False)

    @property
    def n_rows(self) -> int:
        """How many there are."""
        return self.rows.survey.n_scored

    @property
    def n_queries(self) -> int:
        """Queries with a score, 1 where there is no query column."""
        return self.rows.survey.offsets()[1] if self.rows.scan.has_queries else 1

    @property
    def reference(self) -> Array:
        """An array of the library and device to compute on."""
        return self.rows.scan.reference()

    @cached_property
    def features(self) -> Array:
        """Those that may serve as basis."""
        return self.rows.features.features

    def warn_of_ties(self, system: PrimalSystem) -> None:
        """Say so where rows are compared, but no two rows of a query have different scores."""
        spread = float(system.grams[0].matrix[-2, -2])
        if self.comparison.needs_queries and spread <= NO_SPREAD * self.n_rows:
            warn_user(TIED)

    def folds(self, seed: int) -> Folds | None:
        """At most ten folds of queries, of rows, or of items of the only query; None for too
        little.
        """
        offsets, _ = self.rows.survey.offsets()
        if self.n_queries > 1:
            return Folds("query", min(N_FOLDS, self.n_queries), seed, offsets)
        most = self.n_rows // 2 if self.comparison.needs_queries else self.n_rows
        return Folds("row", min(N_FOLDS, most), seed, offsets) if most > 1 else None

    def summed(
        self,
        features: Any,
        folds: Folds | None,
        columns: list[Index] | None,
        unscored: UnscoredRows | None,
    ) -> Statistics:
        """One pass: the sums of every fold, and those of the unscored rows of the scan, which are
        kept. O(n r (r + d)).
        """
        rows = self.rows
        items = self.comparison.needs_queries and self.n_queries == 1
        jobs = [SumJob(self.comparison, features, "scored", columns, folds, items, self.level)]
        parts: list[ScannedRows] = []
        if unscored is not None:
            scanned = [part for part in unscored.parts if isinstance(part, ScannedRows)]
            parts = [part for part in scanned if part.rows.scan is rows.scan]
            jobs += [part.sum_job(unscored.comparison, features, columns) for part in parts]
        self.n_passes += 1
        name, what = f"sums-scored-{self.n_passes}", "summing scored rows"
        job = JointSumJob(tuple(jobs))
        joint: JointSums = rows.passes.run(rows.scan, job, name, what, rows.survey.n_rows)
        scored, *others = (spans.closed() for spans in joint.sums)
        for part, own_job, sums in zip(parts, jobs[1:], others, strict=True):
            part.keep(own_job, sums)
        return scored


@dataclass(frozen=True)
class ScannedProblem:
    """Views of more scored rows than fit into memory: everything comes from sums, one pass per
    kernel width.
    """

    bases: ViewBases

    @property
    def scored(self) -> SummedRows:
        """The scored rows, the same in every view."""
        return self.bases.data.problem  # type: ignore[return-value]

    @property
    def unscored(self) -> UnscoredRows | None:
        """The rows on which views should agree."""
        return self.bases.data.unscored

    @property
    def choices(self) -> Iterator[list[ViewData]]:
        """The views with every choice of kernel widths."""
        return self.bases.view_data()

    def prepared(
        self, views: Sequence[ViewData], settings: Settings
    ) -> tuple[PrimalSystem, Folding | None]:
        """The system from one pass, with sums for every fold."""
        folds = self.scored.folds(settings.seed) if settings.tunes else None
        joint = JointFeatures([view.basis for view in views])
        features: Any = joint
        columns: Any = [view.columns for view in views]
        if len(views) == 1 and columns[0] is None:
            features, columns = joint.maps[0], None
        unscored = None if settings.agreement == 0.0 else self.unscored
        sums = self.scored.summed(features, folds, columns, unscored)
        system = PrimalSystem(views, self.unscored, statistics=[joint.whitened(sums)])
        if self.scored.n_passes == 1:
            self.scored.warn_of_ties(system)
        return system, None if folds is None else Folding([np.arange(folds.n_folds)])

    def constant(self, system: PrimalSystem, offset: float, scoring: Scoring) -> float:
        """From the sums over all scored rows."""
        gram = system.grams[0]
        loss = gram.loss(0.0 * gram.right(), offset)
        return float(loss[0] / max(gram.freedom, 1))

    def evidence(self, trial: Trial, settings: Settings) -> Evidence:
        """The errors that were found."""
        is_known = trial.errors is not None and isinstance(trial.folds, Folding)
        folding: Any = trial.folds if is_known else None
        return Evidence(None, trial.errors, folding, trial.grid, settings)


# ---------------------------------------------------------------- predictions and scores


def fitted_scan(learner: Any, scan: Scan) -> Scan:
    """A scan as a fitted learner sees it."""
    if learner.encoder_ is not None and scan.encoder is None and not scan.maps:
        raise ValueError(
            "the model was saved with an encoder; make the scan with scan(...,"
            " encoder=model.encoder_)."
        )
    queries = scan.has_queries and scan.client is None
    remark = learner.remark_in_passes(queries=queries) if learner.is_average else ""
    if remark:
        warn_user(remark)
    return scan.seen_by(learner)


def predicted_chunks(learner: Any, scan: Scan, what: str) -> Iterator[tuple[Chunk, Any]]:
    """Every chunk of a scan with its predictions, shown as it goes."""
    scan = fitted_scan(learner, scan)
    with progress_bar(what, scan.n_rows) as advance, closing(scan.chunks()) as chunks:
        predicted: Iterator[tuple[Chunk, Any]]
        predicted = ((chunk, learner.predicted(chunk.features)) for chunk in chunks)
        if learner.needs_whole_queries and scan.has_queries:
            predicted = _by_whole_queries(learner, chunks, max_held_rows(scan.n_features))
        for chunk, values in predicted:
            yield chunk, values
            advance(chunk.n_rows)


def _by_whole_queries(
    learner: Any, chunks: Iterator[Chunk], most: int
) -> Iterator[tuple[Chunk, Any]]:
    """Every chunk with its predictions, which wait for the end of its last query; `most` : rows that
    wait beside those of a chunk.
    """
    held: list[Chunk] = []
    known: Any = None  # predictions of the first rows, by the query that began before them
    closed = ClosedQueries()
    for chunk in chain(chunks, (None,)):
        if chunk is not None:
            closed.add(chunk.runs, chunk.place)
        goes_on = chunk is not None and held and chunk.runs.ids[0] == held[-1].runs.ids[-1]
        if chunk is not None and (not held or (goes_on and len(chunk.runs.ids) == 1)):
            held.append(chunk)
            if sum(each.n_rows for each in held[1:]) > most:
                raise ValueError(LONG_QUERY.format(most))
            continue
        if not held:
            return
        head = int(chunk.runs.starts[1]) if chunk is not None and goes_on else 0
        parts = held if chunk is None or head == 0 else [*held, chunk]
        ends = np.cumsum([0, *(each.n_rows for each in held)]).tolist()
        rows = slice(0 if known is None else len(known), ends[-1] + head)
        codes, _ = first_appearance(np.concatenate([each.query_ids for each in parts])[rows])
        features = stack_rows([each.features for each in parts])
        values = learner.predicted(take(features, rows), codes)
        values = values if known is None else stack_rows([known, values])
        for each, (begin, end) in zip(held, pairwise(ends), strict=True):
            yield each, values[begin:end]
        known = values[ends[-1] :] if head else None
        held = [] if chunk is None else [chunk]


def predict_scan(learner: Any, scan: Scan) -> Any:
    """All predictions: (n,), 8 bytes a row."""
    if scan.client is not None:
        units = unit_results(fitted_scan(learner, scan), _predicted_unit, learner)
        blocks = list(chain.from_iterable(units))
    else:
        blocks = [values for _, values in predicted_chunks(learner, scan, "predicting")]
    if not blocks:
        raise ValueError(NO_ROWS)
    return stack_rows(blocks)


def _predicted_unit(scan: Scan, number: int, learner: Any) -> list[Any]:
    """Runs on a worker."""
    return [learner.predicted(chunk.features) for chunk in scan.unit_chunks(number)]


def _written_unit(scan: Scan, number: int, learner: Any, folder: Path, name: str) -> int:
    """Runs on a worker, perhaps twice: the file of one unit, whole or not at all; none where it has
    no rows.
    """
    with closing(scan.unit_chunks(number)) as chunks:
        rows = ((chunk, learner.predicted(chunk.features)) for chunk in chunks)
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
    if columns is None:
        columns = scan.roles.query if scan.has_queries else []
    names = [columns] if isinstance(columns, str) else list(map(str, columns))
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
    """Rows of one chunk: scores (n,), NaN = unscored, columns that are carried along, and
    predictions (n,).
    """

    scores: Array | None
    extra: pa.Table
    values: FloatArray

    def take(self, rows: slice) -> Stretch:
        """Some of the rows."""
        return Stretch(take(self.scores, rows), self.extra[rows], self.values[rows])


def whole_queries(learner: Any, scan: Scan, what: str) -> Iterator[tuple[list[Stretch], Index]]:
    """Rows of some whole queries at a time with their query codes; without queries all rows are
    one.
    """
    waiting: list[Stretch] = []  # of the query that may go on
    last: int | None = None
    closed = ClosedQueries()
    for chunk, values in predicted_chunks(learner, scan, what):
        runs, n = chunk.runs, chunk.n_rows
        if scan.has_queries:
            closed.add(runs, chunk.place)
        if waiting and last != int(runs.ids[0]):
            yield waiting, _codes(waiting)
            waiting = []
        # a query may be as long as the files: features are not kept
        extra = pa.table({}) if chunk.extra is None else chunk.extra
        rows = Stretch(chunk.scores, extra, _as_float64(values))
        final = int(runs.starts[-1])
        if final > 0:
            codes = np.concatenate([_codes(waiting), runs.codes(n)[:final]])
            yield [*waiting, rows.take(slice(0, final))], codes
            waiting = []
        waiting.append(rows.take(slice(final, n)))
        last = int(runs.ids[-1])
    if waiting:
        yield waiting, _codes(waiting)


def _as_float64(values: Array) -> FloatArray:
    return np.asarray(to_numpy(values), dtype=np.float64)


def _codes(waiting: Sequence[Stretch]) -> Index:
    """The codes of rows that belong to query 0."""
    return np.zeros(sum(len(part.values) for part in waiting), dtype=np.int64)


def scored_queries(learner: Any, scan: Scan) -> Iterator[tuple[FloatArray, FloatArray, Index]]:
    """Scores, predictions and query codes, some whole queries at a time."""
    for parts, codes in whole_queries(learner, scan, "scoring"):
        scores = np.concatenate([to_numpy(part.scores) for part in parts])
        predictions = np.concatenate([part.values for part in parts])
        yield scores, predictions, codes


def order_score(learner: Any, scan: Scan, arguments: Mapping[str, Any]) -> float:
    """1 − the mean disagreement of the queries where it is defined; `arguments` : as in `Scan.check_alone`."""
    learner.refuse_targets("score of a scan")
    scan.check_alone(arguments)
    total, count = 0.0, 0
    for scores, predictions, codes in scored_queries(learner, scan):
        if np.isnan(scores).all():
            continue
        errors = disagreement_error(scores, predictions, qid=codes, average=False)
        defined = errors[~np.isnan(errors)]
        total += float(defined.sum())
        count += len(defined)
    if count == 0:
        warn_user(
            "There was nothing to compare: no query has two rows with different scores. The result"
            " is nan."
        )
    return 1.0 - total / count if count else float("nan")


def explained_score(learner: Any, scan: Scan, arguments: Mapping[str, Any]) -> float:
    """R² of the rows that have a score; `arguments` : as in `Scan.check_alone`."""
    learner.refuse_targets("score of a scan")
    scan.check_alone(arguments)
    count, mean, spread, loss = 0, 0.0, 0.0, 0.0
    for chunk, values in predicted_chunks(learner, scan, "scoring"):
        scores = to_numpy(chunk.scores)[chunk.is_scored]
        n = len(scores)
        if n == 0:
            continue
        chunk_mean = scores.mean()
        step = float(chunk_mean) - mean
        deviations = scores - chunk_mean
        spread += float((deviations**2).sum()) + step**2 * count * n / (count + n)
        mean += step * n / (count + n)
        count += n
        residuals = scores - _as_float64(values)[chunk.is_scored]
        loss += float((residuals**2).sum())
    if count == 0:
        raise ValueError(NO_SCORES)
    if spread == 0:
        return 1.0 if loss == 0 else 0.0  # as scikit-learn says it
    return 1.0 - loss / spread
