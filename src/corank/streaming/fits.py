"""Fits of scans: the rows for `fit`, its checkpoint, and scored rows that only pass by, of which
everything comes from sums, one pass per kernel width.
"""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from corank.core.arrays import Array, Index, to_numpy
from corank.core.folds import N_FOLDS, Folding
from corank.core.kernels import is_named
from corank.core.loss import Loss
from corank.core.messages import warn_user
from corank.core.observations import TIED
from corank.core.sums import Statistics
from corank.core.unscored import Part, UnscoredRows
from corank.inputs import is_scan, unscored_parts
from corank.learners.bases import asked_bases, check_scanned, n_candidates
from corank.learners.update import Kept
from corank.model_files.container import ModelFileError
from corank.solve.effect import Evidence
from corank.solve.holdout import Scoring
from corank.solve.systems import JointFeatures, PrimalSystem, Unscored, ViewData
from corank.solve.tuning import Settings, Trial, evidence_of, tune
from corank.streaming.checkpoint import Checkpoint, digest_of, in_words, stopping_at_sigterm
from corank.streaming.passes import Passes
from corank.streaming.predictions import check_alone
from corank.streaming.scan import Scan
from corank.streaming.sums import Folds, JointSumJob, SumJob
from corank.streaming.survey import (
    NumberedRows,
    ScannedRows,
    Survey,
    SurveyJob,
    held_rows,
    max_held_rows,
    run_survey,
)

TOO_MANY = "the scored rows of the scan do not fit into memory ({rows:,} of them)"


def fit_scans(
    learner: Any,
    rows: Mapping[str, Any],
    unscored_qid: Any,
    loss: Loss,
    settings: Settings,
    checkpoint: Any,
) -> Any:
    """Fit a learner where the rows of `fit`, or those of `unscored=`, are a scan.

    rows : the arguments of `fit` by name
    """
    X, unscored = rows["X"], rows["unscored"]
    given = {name: rows[name] for name in ("y", "qid", "sample_weight")}
    with passing(learner, checkpoint, rows) as passes:
        if is_scan(X):
            check_alone(X, given)
            _fit_scan(learner, X, unscored, unscored_qid, loss, settings, passes)
        else:
            learner._fit_rows(
                X,
                *given.values(),
                loss,
                settings,
                lambda features: parts_apart(learner, features, unscored, unscored_qid, passes),
            )
    if passes.n_readings:
        learner.n_readings_ = passes.n_readings
    return learner


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


# ---------------------------------------------------------------- rows for fit


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
    return [*parts, *parts_apart(model, features, unscored, labels, passes)]


def parts_apart(
    model: Any, features: Any, unscored: Any, labels: Any, passes: Passes | None = None
) -> list[Part]:
    """Rows of `unscored=`, whose queries are their own and whose numbers come after those of X."""
    n_before = features.shape[0]
    with_queries = model._unscored_comparison().needs_queries
    if not is_scan(unscored):
        fitted = features.features if isinstance(features, NumberedRows) else features
        return unscored_parts(
            model, fitted, unscored, labels, with_queries=with_queries, first=n_before
        )
    if labels is not None:
        raise ValueError(
            "unscored_qid does not go with a scan; name its column in scan(..., query=)."
        )
    names = getattr(model, "feature_names_in_", None)
    scan = unscored.seen_by(names, model.n_features_in_, type(model).__name__)
    _refuse_precomputed(model)
    asked = asked_bases(model, model._view_list)
    job = SurveyJob(n_candidates(asked), model._seed, 0, all_unscored=True, first_number=n_before)
    passes = passes or Passes()
    look = run_survey(scan, passes, job, "unscored", contiguous=with_queries)
    check_scanned(asked, n_before + look.n_rows)
    return [ScannedRows(scan, look, passes, "unscored", with_queries=with_queries)]


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


# ---------------------------------------------------------------- fits


def _fit_scan(
    learner: Any,
    scan: Scan,
    unscored: Any,
    labels: Any,
    loss: Loss,
    settings: Settings,
    passes: Passes,
) -> None:
    """Fit the rows of a scan: scored rows in memory where they fit, else from sums; unscored
    ones pass by pass.
    """
    look, asked = survey_scan(learner, scan, passes)
    with_queries = scan.has_queries
    if look.held is None:
        _fit_sums(learner, scan, look, asked, unscored, labels, loss, settings, passes)
        return
    features, rows = held_rows(look, with_queries=with_queries)
    parts: list[Part] = []
    if learner._several:
        parts = scanned_parts(learner, scan, look, features, unscored, labels, passes)
    check_scanned(asked, len(rows) + sum(part.n_rows for part in parts))
    n_plain = look.n_rows - look.n_scored if learner._several else 0
    learner._fit_held(features, rows, parts, n_plain, loss, settings, with_queries=with_queries)


def _fit_sums(
    learner: Any,
    scan: Scan,
    look: Survey,
    asked: Sequence[Any],
    unscored: Any,
    labels: Any,
    loss: Loss,
    settings: Settings,
    passes: Passes,
) -> None:
    """Fit more scored rows than fit into memory."""
    check_streamed(learner, asked, settings, look.n_scored)
    learner._choose_widths(look.n_scored, settings)
    index, pool = look.scored.rows()
    features = NumberedRows(pool, index, look.n_rows)
    rows = UnscoredRows(())
    if learner._several:
        rows = UnscoredRows(
            tuple(scanned_parts(learner, scan, look, features, unscored, labels, passes))
        )
    every = [index for _ in learner._view_list]
    bases = learner._bases(
        features, None, every, [pool for _ in every], rows, n_scored=look.n_scored
    )
    check_streamed(learner, bases.specs, settings, look.n_scored)
    level = look.level if learner._centred else 0.0
    scored = ScoredScan(scan, look, passes, loss, level)
    choices = bases.width_choices()
    agreement = settings.agreement if rows.n_rows and len(bases.views) > 1 else 0.0
    settings = replace(settings, agreement=agreement, compared=len(choices) > 1)
    stand_in = SummedRows(loss, scored.n_queries, scan.reference())
    problem = ScannedProblem(
        choices=bases.view_data(choices, [stand_in for _ in every], None),
        rows=scored,
        unscored=Unscored(learner._unscored_comparison(), rows) if rows.n_rows else None,
    )
    solution = tune(problem, settings)
    gram = solution.system.grams[0]
    if loss.needs_queries and float(gram.matrix[-2, -2]) <= 1e-28 * look.n_scored:
        warn_user(TIED)
    apart = [part.n_rows for part in rows.parts if not (hasattr(part, "every") and not part.every)]
    learner._n_seen = look.n_rows + sum(apart)
    learner._n_scored, learner._n_queries = look.n_scored, scored.n_queries
    learner._keep_solution(solution, problem, settings, level, rows, scan.has_queries)
    learner._kept = Kept.of(solution.system, rows, in_memory=False)


@dataclass
class ScoredScan:
    """The scored rows of a scan after its first pass.

    level : is taken out of the scores
    """

    scan: Scan
    look: Survey
    passes: Passes
    comparison: Loss
    level: float
    _n_passes: int = field(default=0, init=False)

    @property
    def n_queries(self) -> int:
        """Queries with a score, 1 where there is no query column."""
        return self.look.offsets()[1] if self.scan.has_queries else 1

    def folds(self, seed: int) -> Folds | None:
        """At most ten folds of queries, of rows, or of items of the only query; None for too
        little.
        """
        offsets, _ = self.look.offsets()
        n = self.n_queries
        if n > 1:
            return Folds("query", min(N_FOLDS, n), seed, offsets)
        n = self.look.n_scored
        if self.comparison.needs_queries:
            return Folds("row", min(N_FOLDS, n // 2), seed, offsets) if n >= 4 else None
        return Folds("row", min(N_FOLDS, n), seed, offsets) if n > 1 else None

    def summed(
        self,
        features: Any,
        folds: Folds | None,
        columns: list[Index] | None,
        unscored: Unscored | None,
    ) -> Statistics:
        """One pass: the sums of every fold, and those of the unscored rows of the scan, which are
        kept. O(n r (r + d)).
        """
        items = self.comparison.needs_queries and self.n_queries == 1
        job = SumJob(self.comparison, features, "scored", columns, folds, items, self.level)
        self._n_passes += 1
        others = (
            []
            if unscored is None
            else [part for part in unscored.rows.parts if isinstance(part, ScannedRows)]
        )
        beside = [part for part in others if part.scan is self.scan]
        jobs = [job, *(part.sum_job(unscored.comparison, features, columns) for part in beside)]  # type: ignore[union-attr]
        name = f"sums-scored-{self._n_passes}"
        sums = self.passes.run(
            self.scan, JointSumJob(tuple(jobs)), name, "summing scored rows", self.look.n_rows
        ).sums
        for part, part_job, part_sums in zip(beside, jobs[1:], sums[1:], strict=True):
            part.keep(part_job, part_sums.closed())
        return sums[0].closed()  # type: ignore[no-any-return]


@dataclass(frozen=True)
class SummedRows:
    """Stands for scored rows of which there are only sums."""

    comparison: Loss
    n_queries: int
    reference: Array


@dataclass(frozen=True)
class ScannedProblem:
    """Views of the scored rows of a scan, which only pass by: everything comes from sums, one pass
    per kernel width.
    """

    choices: Iterable[Sequence[ViewData]]
    rows: ScoredScan
    unscored: Unscored | None

    def prepared(
        self, views: Sequence[ViewData], settings: Settings
    ) -> tuple[PrimalSystem, Folding | None]:
        """The system from one pass, with sums for every fold."""
        folds = self.rows.folds(settings.seed) if settings.tunes else None
        joint = JointFeatures([view.basis for view in views])
        features: Any = joint
        columns: Any = [view.columns for view in views]
        if len(views) == 1 and views[0].columns is None:
            features, columns = joint.maps[0], None
        sums = self.rows.summed(
            features, folds, columns, None if settings.agreement == 0.0 else self.unscored
        )
        system = PrimalSystem(views, self.unscored, statistics=[joint.whitened(sums)])
        return system, None if folds is None else Folding([np.arange(folds.n_folds)])

    def constant(self, system: Any, offset: float, scoring: Scoring) -> float:
        """From the sums over all scored rows."""
        gram = system.grams[0]
        return float(gram.loss(0.0 * gram.right(), offset)[0] / max(gram.freedom, 1))

    def evidence(self, trial: Trial, settings: Settings) -> Evidence:
        """The errors that were found."""
        folding = (
            trial.folds if trial.errors is not None and isinstance(trial.folds, Folding) else None
        )
        return evidence_of(trial, settings, None, trial.errors, folding)
