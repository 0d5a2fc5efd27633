"""What learners with one view share, whatever they fit: reading scores and comparisons into one checked problem.

What learners with a norm penalty and one view share: parameters and their checks, fitting, update.

Scores as they were handed over, one column or one a view → what is scored in every view.

What a model of several views keeps of its training, so that newly scored rows can be added to it.

On a subset of the rows: the sums over every view's scored rows, and what the unscored rows say. On all of them: the rows.

Learners with several views on scans: scored rows in memory where they fit, unscored ones always pass by pass.

What learners with several views share: reading rows and views, bases, fitting.
"""

from __future__ import annotations

import numbers
import sys
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from corank._arrays import (
    Array,
    Index,
    device,
    first_appearance,
    is_foreign,
    is_sparse,
    like,
    namespace,
    take,
    to_numpy,
)
from corank._messages import warn_user
from corank.basis import (
    AUTO_LIMIT,
    AUTO_SIZE,
    BasisNotice,
    FeatureBasis,
    KernelBasis,
    Whitening,
    candidate_limit,
    check_basis,
    resolve_basis,
)
from corank.gram import Gram, Statistics
from corank.kernels import Kernel, check_precomputed
from corank.learners._bases import BasisMaker, asked_bases, candidates_of, check_scanned
from corank.learners._learner import (
    COMPARED,
    PRECOMPUTED,
    Expansion,
    Learner,
    candidates,
    check_choice,
    check_weights,
    read_kernel,
    seed,
)
from corank.learners._scans import TOO_MANY, check_alone, from_dask, is_scan, note_features, passing
from corank.learners._suggest import AskingViews
from corank.loss import Loss, Pointwise
from corank.model_files.schema import ONE_VIEW, SEVERAL_VIEWS, Contents
from corank.problem import ComparedRows, Problem, ScoredRows
from corank.rows import (
    Rows,
    encode_queries,
    read_comparisons,
    read_features,
    read_rows,
    read_scores,
    read_unscored,
    read_weights,
)
from corank.solvers.folds import splits_of_folds
from corank.solvers.holdout import SCORINGS
from corank.solvers.least_squares import (
    DualAgreement,
    DualSystem,
    PrimalAgreement,
    PrimalSystem,
    System,
    Unscored,
    ViewData,
    mean_score,
)
from corank.solvers.tuning import (
    CoSettings,
    CoSolution,
    ScoredScan,
    Settings,
    Solution,
    StreamedAgreement,
    SummedRows,
    Training,
    read_splits,
    solve,
    solve_streamed,
    solve_streamed_views,
    solve_views,
)
from corank.solvers.unscored_effect import Evidence, UnscoredEffect, unscored_effect
from corank.streaming import Scan
from corank.streaming.passes import Passes
from corank.streaming.survey import NumberedRows, ScannedRows, Survey, SurveyJob, held_rows, run_survey
from corank.unscored import HeldRows, Part, StreamedRows, UnscoredRows, is_stream, stack_rows
from corank.views import View, read_views, select


class SingleLearner(Learner):
    """A learner that sees all columns at once. A kind of learner adds how a checked problem is fitted."""

    _auto_basis = (AUTO_LIMIT, AUTO_SIZE)

    @property
    def _pairwise(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    def _expansions(self) -> list[Expansion]:
        return [Expansion(self.coef_, self._kernel, self.basis_points_)]

    # ---------------------------------------------------------------- fit

    def _fit_scores(self, X: Any, y: Any, qid: Any, sample_weight: Any) -> Self:
        comparison = self._comparison()
        check_weights(comparison, sample_weight)
        everything, rows = read_rows(self, X, y, qid, sample_weight)
        return self._fit_rows(everything, rows, with_queries=qid is not None)

    def _fit_rows(self, everything: Array, rows: Rows, *, with_queries: bool) -> Self:
        """Fit scored rows, which are some of everything."""
        comparison = self._comparison()
        if rows.n_queries == 1:
            rows = replace(rows, queries=None)
        level = ScoredRows(rows, comparison).mean_score if self._centred else 0.0
        rows = rows.lowered(level)
        problem = ScoredRows(rows, comparison, level)
        if problem.is_tied:
            warn_user("y: all scores are tied within every query, so there is nothing to rank; the model is constant.")
        return self._fit_training(
            Training(problem, to_numpy(rows.index), everything, rows.weights), with_queries=with_queries, level=level
        )

    def _fit_comparisons(self, X: Any, winners: Any, losers: Any, margins: Any, weights: Any, qid: Any) -> Self:
        self._comparison()
        everything = read_features(self, X, reset=True)
        n = int(everything.shape[0])
        first, second, size, weight = read_comparisons(winners, losers, margins, weights, n, X)
        groups = comparison_groups(first, second, n, qid)
        used, ends = np.unique(np.concatenate([first, second]), return_inverse=True)
        features = everything if len(used) == n else take(everything, used)
        problem = ComparedRows(
            features, ends[: len(first)], ends[len(first) :], size, weight, groups, named=qid is not None
        )
        return self._fit_training(Training(problem, used, everything), with_queries=qid is not None)

    def _fit_training(self, training: Training, *, with_queries: bool, level: float = 0.0) -> Self:
        """Fit a checked problem, whose scores had a level taken out."""
        raise AssertionError("a kind of learner says how it is fitted")

    def _read_kernel(self, training: Training) -> Kernel:
        """The kernel, its width still open; checks `scoring`, and the matrix where it is given."""
        kernel = read_kernel(self.kernel, self.degree, self.coef0, self.kernel_params)
        check_choice(self.scoring, "scoring", (None, *SCORINGS))
        if kernel.precomputed:
            check_precomputed(training.everything)
        return kernel

    def _basis_rows(self, training: Training) -> Any:
        """What `basis` asks for, checked against the rows; says so where "auto" takes some of them."""
        check_choice(self.basis_selection, "basis_selection", ("pivoted", "random"))
        n = len(training.index)
        spec = check_basis(self.basis, int(training.everything.shape[0]), n)
        resolved = resolve_basis(spec, n, *self._auto_basis)
        if isinstance(spec, str) and spec == "auto" and isinstance(resolved, int):
            warn_user(
                f"basis='auto' takes {resolved} of {n} rows as basis. "
                f"Say basis={resolved}, another number or 'all' to choose yourself.",
                BasisNotice,
            )
        return resolved

    def _keep_counts(self, training: Training, *, with_queries: bool, level: float) -> None:
        """What a fitted model remembers of its rows."""
        self._level, self._with_queries = level, with_queries
        self._n_seen = int(training.everything.shape[0])
        self._n_scored = len(training.index)
        self._n_queries = training.problem.n_queries
        self.encoder_ = self.table_ = None  # those of a loaded model belong to what it was fitted on before


def comparison_groups(winners: Array, losers: Array, n_rows: int, qid: Any) -> Array:
    """What is held out together: the comparisons of a query, else those of the same two items."""
    if qid is None:
        low, high = np.minimum(winners, losers), np.maximum(winners, losers)
        groups, _ = first_appearance(low * n_rows + high)
        return groups
    queries = to_numpy(encode_queries(qid, n_rows)[0])
    if np.any(queries[winners] != queries[losers]):
        row = int(np.argmax(queries[winners] != queries[losers]))
        raise ValueError(f"comparison {row} is between rows of two queries: {winners[row]} and {losers[row]} of X.")
    groups, _ = first_appearance(queries[winners])
    return groups


MAX_COLUMNS = 20_000  # of basis="features" in the primal: a square matrix of that size is 3 GB


class KernelLearner(SingleLearner):
    """Kernel least squares on one view. A learner adds its comparison, its intercept and its score."""

    _contents: ClassVar[Contents] = ONE_VIEW

    # ---------------------------------------------------------------- fit

    def _settings(self, training: Training) -> Settings:
        """The parameters, checked against the rows."""
        return Settings(
            kernel=self._read_kernel(training),
            gamma=candidates(self.gamma, "gamma", ("scale", "tune")),
            alpha=candidates(self.alpha, "alpha", ("tune",)),
            basis=self._basis_spec(training),
            selection=self.basis_selection,
            cv=self.cv,
            scoring=self.scoring or "squared",
            centred=self._centred,
            seed=seed(self.random_state),
        )

    def _basis_spec(self, training: Training) -> Any:
        columns = int(training.everything.shape[1])
        spec = self._basis_rows(training)
        if isinstance(spec, str) and spec == "features":
            if self.kernel != "linear":
                raise ValueError(f"basis='features' needs kernel='linear', got kernel={self.kernel!r}.")
            if training.problem.operator.n_roots > columns > MAX_COLUMNS:
                raise ValueError(
                    f"basis='features' with {columns} columns needs a square matrix of that size; "
                    "use basis='auto' or a number of basis rows."
                )
        return spec

    def _fit_training(self, training: Training, *, with_queries: bool, level: float = 0.0) -> Self:
        """Fit a checked problem, whose scores had a level taken out."""
        settings = self._settings(training)
        solution = solve(training, settings)
        self._keep_counts(training, with_queries=with_queries, level=level)
        self._keep(solution, training.problem)
        self._warn_untuned(settings)
        return self

    # ---------------------------------------------------------------- scans

    def _fit_scan(self, scan: Scan, given: Mapping[str, Any], checkpoint: Any) -> Self:
        """Fit the scored rows of a scan: in memory where they fit, else from sums."""
        check_alone(scan, given)
        comparison = self._comparison()
        kernel = read_kernel(self.kernel, self.degree, self.coef0, self.kernel_params)
        if kernel.precomputed:
            raise ValueError("kernel='precomputed' needs all kernel values in memory; a scan holds features.")
        self._check_parameters()
        note_features(self, scan)
        size = int(self.basis) if isinstance(self.basis, numbers.Integral) else AUTO_SIZE
        with passing(self, checkpoint, {"X": scan}) as passes:
            looking = SurveyJob(candidate_limit(size), seed(self.random_state))
            look = run_survey(scan, passes, looking, "X", contiguous=True)
            if look.n_scored == 0:
                raise ValueError("the scan has no scored row: its score column is empty.")
            if look.held is not None:
                everything, rows = held_rows(look, with_queries=scan.has_queries)
                return self._fit_rows(everything, rows, with_queries=scan.has_queries)
            level = look.level if self._centred else 0.0
            return self._fit_sums(ScoredScan(scan, look, passes, comparison, level))

    def _check_parameters(self) -> None:
        """Refuse what no rows could make right, before they are passed over."""
        candidates(self.gamma, "gamma", ("scale", "tune"))
        candidates(self.alpha, "alpha", ("tune",))
        check_choice(self.scoring, "scoring", (None, *SCORINGS))
        check_choice(self.basis_selection, "basis_selection", ("pivoted", "random"))
        if isinstance(self.basis, str | numbers.Integral):
            check_basis(self.basis, sys.maxsize, sys.maxsize)

    def _fit_sums(self, rows: ScoredScan) -> Self:
        """Fit more scored rows than fit into memory."""
        n = rows.look.n_scored
        settings = Settings(
            kernel=read_kernel(self.kernel, self.degree, self.coef0, self.kernel_params),
            gamma=candidates(self.gamma, "gamma", ("scale", "tune")),
            alpha=candidates(self.alpha, "alpha", ("tune",)),
            basis=self._streamed_basis(n),
            selection=self.basis_selection,
            scoring=self.scoring or "squared",
            centred=self._centred,
            seed=seed(self.random_state),
        )
        check_choice(self.scoring, "scoring", (None, *SCORINGS))
        if settings.tunes and (self.cv is not None or self.scoring == "disagreement"):
            what = "cv" if self.cv is not None else "scoring='disagreement'"
            raise ValueError(f"{what} needs the scored rows in memory, but {TOO_MANY.format(rows=n)}; leave it out.")
        solution, gram = solve_streamed(rows, settings)
        if rows.comparison.needs_queries and float(gram.matrix[-2, -2]) <= 1e-28 * n:
            warn_user("y: all scores are tied within every query, so there is nothing to rank; the model is constant.")
        self._level, self._with_queries = rows.level, rows.scan.has_queries
        self._n_seen, self._n_scored, self._n_queries = rows.look.n_rows, n, rows.n_queries
        self.encoder_ = self.table_ = None
        self._keep(solution)
        self._warn_untuned(settings)
        return self

    def _streamed_basis(self, n_scored: int) -> Any:
        """What `basis` means where rows are only passed over."""
        check_choice(self.basis_selection, "basis_selection", ("pivoted", "random"))
        basis = self.basis
        if isinstance(basis, str) and basis == "auto":
            warn_user(f"basis='auto' takes {AUTO_SIZE} of {n_scored} rows as basis.", BasisNotice)
            return AUTO_SIZE
        if isinstance(basis, numbers.Integral) and not isinstance(basis, bool):
            return check_basis(basis, n_scored, n_scored)
        if isinstance(basis, str) and basis == "features":
            if self.kernel != "linear":
                raise ValueError(f"basis='features' needs kernel='linear', got kernel={self.kernel!r}.")
            return basis
        raise ValueError(
            f"basis={basis!r} needs the rows in memory, but {TOO_MANY.format(rows=n_scored)}; give a number of basis "
            "rows, or 'features' with kernel='linear'."
        )

    # ---------------------------------------------------------------- what is kept

    def _warn_untuned(self, settings: Settings) -> None:
        if settings.tunes and self.path_ is None:
            warn_user(
                f"alpha was not tuned: too little to hold anything out. It was set to {self.alpha_:.3g}"
                + (", the scale of the data." if isinstance(settings.alpha, str) else "."),
            )

    def _keep(self, solution: Solution, problem: Problem | None = None) -> None:
        """Set the fitted attributes, and what `update` needs; no problem where there are only sums."""
        basis = solution.basis
        self.coef_ = solution.coefficients
        self.intercept_ = self._level + solution.intercept
        self.alpha_ = solution.alpha
        self.path_ = solution.path
        self.basis_ = solution.rows
        self.basis_points_ = basis.points if isinstance(basis, KernelBasis) else None
        self._kernel = basis.kernel if isinstance(basis, KernelBasis) else Kernel("linear")
        self.gamma_ = self._kernel.gamma
        self._whitening: Whitening | None = None
        self._statistics: Statistics | None = None
        self._rows: Rows | None = None
        if problem is not None and not isinstance(problem, ScoredRows):
            return
        if isinstance(solution.system, PrimalSystem):
            self._statistics = solution.system.statistics.collapsed()
            self._whitening = basis.whitening if isinstance(basis, KernelBasis) else None
        elif problem is not None and not self._kernel.precomputed:  # whose matrix cannot grow
            self._rows = problem.rows

    # ---------------------------------------------------------------- update

    def _why_fixed(self) -> str:
        return PRECOMPUTED if self._kernel.precomputed else COMPARED

    def _grow(self, X: Any, y: Any, qid: Any, sample_weight: Any) -> None:
        everything, rows = read_rows(self, self._encoded(X), y, qid, sample_weight, reset=False)
        rows = rows.beside(self.coef_).lowered(self._level)
        self._warn_of_nothing_new([rows])
        if self._statistics is not None:
            self._update_sums(rows if self._with_queries else replace(rows, queries=None))
        else:
            self._update_rows(rows)
        self._n_seen += int(everything.shape[0])
        self._n_scored += len(rows)
        self._n_queries += rows.n_queries if self._with_queries else 0

    def _update_sums(self, rows: Rows) -> None:
        assert self._statistics is not None
        (function,) = self._expansions()
        basis = function.basis(self.coef_, self._whitening)
        new = PrimalSystem.gathered(ScoredRows(rows, self._statistics.comparison), basis)
        system = PrimalSystem(basis, self._statistics.merged(new.statistics))
        self._statistics = system.statistics
        self._solve_again(system, system.gram.mean_score if self._centred else 0.0)

    def _update_rows(self, rows: Rows) -> None:
        assert self._rows is not None
        kept = self._rows
        if self._with_queries and kept.queries is None:  # fitted on one query, which had a name
            kept = replace(kept, queries=kept.index * 0)
        merged = kept.extended(rows if self._with_queries else replace(rows, queries=None), self._n_seen)
        problem = ScoredRows(merged, self._comparison())
        basis: KernelBasis | FeatureBasis
        if self.basis_points_ is None:
            basis = FeatureBasis(self.n_features_in_, self.coef_)
        else:
            basis = KernelBasis(self._kernel, merged.features)
            self.basis_, self.basis_points_ = to_numpy(merged.index), merged.features
        self._rows = merged
        self._solve_again(DualSystem(problem, basis), problem.mean_score if self._centred else 0.0)

    def _solve_again(self, system: System, offset: float) -> None:
        """The same alpha on more rows."""
        self.coef_, self.intercept_ = system.solve(self.alpha_, offset), self._level + offset


@dataclass(frozen=True)
class Scored:
    """What is scored, view by view.

    problems, groups : as in ViewData, without the columns of the views cut out of `features`
    shown : what a splitter is shown: the rows scored in any view, or the comparisons
    index : (n_v,) a view, row numbers in X of the rows of its problem
    weights : (n,) of the rows of X, or None for ones
    """

    problems: Sequence[ScoredRows | ComparedRows]
    groups: Sequence[Index] | None
    shown: ScoredRows | ComparedRows
    index: Sequence[Index]
    level: float = 0.0
    weights: Array | None = None


@dataclass(frozen=True)
class GivenScores:
    """All rows of X with their scores.

    rows : all of them, without scores
    scores : (n, 1), or (n, M) one column a view; NaN = unscored
    given : (n, 1 or M) where there is a score that counts
    used : (n,) rows whose weight is not zero
    """

    rows: Rows
    scores: Array
    given: np.ndarray[Any, np.dtype[np.bool_]]
    used: np.ndarray[Any, np.dtype[np.bool_]]

    @classmethod
    def read(cls, features: Array, y: Any, qid: Any, sample_weight: Any) -> GivenScores:
        """Check what came with the features."""
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None.")
        n = int(features.shape[0])
        reference = np.empty(0) if is_sparse(features) else features
        scores = _read_score_columns(y, n, reference)
        weights = read_weights(sample_weight, n, reference)
        used = np.ones(n, dtype=bool) if weights is None else to_numpy(weights) > 0
        given = ~np.isnan(to_numpy(scores)) & used[:, None]
        if not given.any():
            raise ValueError("y has no scored row: every score is NaN, or the weights of scored rows are zero.")
        rows = Rows(
            features=features,
            scores=None,
            queries=None if qid is None else like(encode_queries(qid, n)[0], reference, "int64"),
            n_queries=1,
            weights=weights,
            index=like(np.arange(n), reference, "int64"),
        )
        return cls(rows, scores, given, used)

    @classmethod
    def held(cls, rows: Rows) -> GivenScores:
        """Rows that all have a score, read from a scan."""
        assert rows.scores is not None
        every = np.ones((len(rows), 1), dtype=bool)
        return cls(replace(rows, scores=None), rows.scores[:, None], every, every[:, 0])

    @property
    def queries(self) -> Index | None:
        """The query codes, None where there is no qid."""
        return None if self.rows.queries is None else np.asarray(to_numpy(self.rows.queries))

    @property
    def plain(self) -> Index:
        """The rows without any score."""
        return np.flatnonzero(~self.given.any(axis=1) & self.used)

    @property
    def mean(self) -> float:
        """The weighted mean of all given scores."""
        scores, weights = to_numpy(self.scores), self.rows.weights
        own = np.ones(len(scores)) if weights is None else to_numpy(weights)
        return float(np.average(scores[self.given], weights=np.broadcast_to(own[:, None], scores.shape)[self.given]))

    def _numbered_queries(self) -> Index | None:
        """Query codes in the order in which queries are first scored, −1 elsewhere: unscored rows change no fold."""
        if (queries := self.queries) is None:
            return None
        scored = self.given.any(axis=1)
        codes = np.full(len(queries), -1, dtype=np.int64)
        codes[scored] = first_appearance(queries[scored])[0]
        return codes

    def check_columns(self, n_views: int) -> None:
        """Refuse a number of columns that no views explain."""
        n_scores = int(self.scores.shape[1])
        if n_scores not in (1, n_views):
            raise ValueError(f"y has {n_scores} columns for {n_views} views; give one column, or one a view.")

    def column(self, view: int) -> int:
        """The column that holds the scores of a view."""
        return min(view, int(self.scores.shape[1]) - 1)

    def scored_in(self, view: int, level: float) -> Rows:
        """The rows that are scored in a view, with a level taken out of their scores."""
        column = self.column(view)
        scored = like(np.flatnonzero(self.given[:, column]), self.rows.index, "int64")
        return replace(self.rows, scores=self.scores[:, column] - level).take(scored)

    def _scored_anywhere(self, level: float) -> Rows:
        """The rows that are scored in any view, each with the first of its scores."""
        first = to_numpy(self.scores)[np.arange(len(self.given)), np.argmax(self.given, axis=1)]
        rows = replace(self.rows, scores=like(first, self.scores) - level)
        return rows.take(like(np.flatnonzero(self.given.any(axis=1)), self.rows.index, "int64"))

    def of_views(self, views: Sequence[View], comparison: Loss, level: float) -> Scored:
        """Every view's own scored rows, all columns still there."""
        problems, groups, index = [], [], []
        queries = self._numbered_queries()
        one_query = queries is None or int(queries.max()) == 0
        known: dict[int, tuple[ScoredRows, Index]] = {}
        for position, view in enumerate(views):
            column = self.column(position)
            if column not in known:
                own = self.scored_in(position, level)
                if len(own) == 0:
                    raise ValueError(f"y has no score for {view.name}.")
                own = own if own.n_queries > 1 else replace(own, queries=None)
                known[column] = ScoredRows(own, comparison, level), np.asarray(to_numpy(own.index))
            problem, numbers = known[column]
            problems.append(problem)
            index.append(numbers)
            if not one_query and queries is not None:
                groups.append(queries[np.flatnonzero(self.given[:, column])])
            elif not comparison.needs_queries:
                groups.append(numbers)
        shown = problems[0] if len(known) == 1 else ScoredRows(self._scored_anywhere(level), comparison, level)
        return Scored(problems, groups or None, shown, index, level, self.rows.weights)


def cut(problem: ScoredRows | ComparedRows, columns: Index) -> ScoredRows | ComparedRows:
    """The problem as a view of those columns sees it."""
    own = select(problem.features, columns)
    if isinstance(problem, ScoredRows):
        return replace(problem, rows=replace(problem.rows, features=own))
    return replace(problem, features=own)


def _read_score_columns(y: Any, n: int, reference: Array) -> Array:
    """(n, t): one column, or one a view."""
    array = y if is_foreign(y) else y.to_numpy() if hasattr(y, "to_numpy") else np.asarray(y)
    if array.ndim == 2 and array.shape[1] > 1:
        columns = [read_scores(array[:, k], n, reference, name="y") for k in range(array.shape[1])]
        return namespace(columns[0]).stack(columns, axis=1)
    return read_scores(y, n, reference)[:, None]


FEDERATED = "update cannot ask the sites that this model was agreed with; run the rounds again with the new rows."
CHUNKS = (
    "update cannot solve anew with unscored rows that came in chunks; fit again, or take a number of rows as basis, "
    "which keeps sums."
)


class GrownAgreement(PrimalAgreement):
    """The system of kept sums and the scored rows of `views`, which are added to them.

    Parameters
    ----------
    views : newly scored rows; their bases whiten as the sums did
    unscored : how views are compared; its rows are in the disagreement already
    disagreement, kept : of `kept_sums`
    """

    def __init__(
        self, views: Sequence[ViewData], unscored: Unscored, disagreement: Array, kept: Sequence[Statistics]
    ) -> None:
        super().__init__(views, unscored, disagreement)
        new = [PrimalSystem.gathered(view.problem, view.basis).statistics for view in views]
        self.statistics = [before.merged(after) for before, after in zip(kept, new, strict=True)]

    @cached_property
    def grams(self) -> list[Gram]:
        """The sums over each view's scored rows, old and new."""
        return [own.total() for own in self.statistics]

    @property
    def mean_score(self) -> float:
        """The weighted mean of all given scores, where single rows count."""
        return float(np.average([own.mean_score for own in self.grams], weights=[own.weight for own in self.grams]))


def kept_sums(system: PrimalAgreement) -> list[Statistics]:
    """The sums of every view; parts of the only query, which may grow, are not in its Gram matrix and summed again."""
    if isinstance(system, StreamedAgreement):
        return system.kept
    result = []
    for view, gram in zip(system.views, system.grams, strict=True):
        problem = view.problem
        assert isinstance(problem, ScoredRows)
        if problem.groups is None:
            result.append(PrimalSystem.gathered(problem, view.basis).statistics)
        else:
            result.append(Statistics(problem.comparison, (gram,), (None,)))
    return result


def kept_rows(views: Sequence[ViewData], numbers: Sequence[Index | None], unscored: UnscoredRows) -> list[Rows]:
    """The rows of every view's basis: the scored ones, then the unscored ones with NaN as score and their own queries.

    `numbers` (n_v + m,) are the row numbers of the bases.
    """
    _, codes, weights = unscored.everything()
    codes, n_codes = first_appearance(codes)
    result = []
    for view, index in zip(views, numbers, strict=True):
        assert isinstance(view.problem, ScoredRows)
        assert isinstance(view.basis, KernelBasis)
        rows, n, m = view.problem.rows, len(view.problem.rows), len(codes)
        scores = view.problem.reference
        xp, place = namespace(scores), {"dtype": namespace(scores).float64, "device": device(scores)}
        queries = rows.index * 0 if rows.queries is None else rows.queries
        both = None
        if rows.weights is not None or weights is not None:
            parts = [xp.ones(n, **place) if rows.weights is None else rows.weights]
            parts.append(xp.ones(m, **place) if weights is None else like(weights, scores))
            both = xp.concat(parts)
        result.append(
            Rows(
                features=view.basis.points,
                scores=xp.concat([scores, xp.full(m, xp.nan, **place)]),
                queries=xp.concat([queries, like(codes + rows.n_queries, scores, "int64")]),
                n_queries=rows.n_queries + n_codes,
                weights=both,
                index=like(index, scores, "int64"),
            )
        )
    return result


def parted(rows: Rows) -> tuple[Rows, Rows]:
    """The scored rows of what `kept_rows` kept, and the unscored ones."""
    missing = np.isnan(to_numpy(rows.scores))
    scored, unscored = (rows.take(like(np.flatnonzero(own), rows.index, "int64")) for own in (~missing, missing))
    return scored, unscored


class GrowingViews(Learner):
    """Learners with several views, as far as newly scored rows go. `several` says how they are fitted."""

    def _expansions(self) -> list[Expansion]:
        parts = zip(self.coef_, self._kernels, self.basis_points_, self.views_, strict=True)
        return [Expansion(coef, kernel, points, view.columns) for coef, kernel, points, view in parts]

    def _unscored_comparison(self) -> Loss:
        """How views are compared on unscored rows: beta touches the scored loss only."""
        return Pointwise()

    def _keep_training(self, system: Any, rows: UnscoredRows, *, in_memory: bool) -> None:
        """What `update` needs."""
        self._compared = isinstance(system.problems[0], ComparedRows)
        self._whitenings: list[Whitening | None] = [None for _ in system.views]
        self._statistics: list[Statistics] | None = None
        self._disagreement: Array | None = None
        self._rows: list[Rows] | None = None
        if self._compared:
            return
        if isinstance(system, PrimalAgreement):
            self._statistics, self._disagreement = kept_sums(system), system.disagreement
            bases = [view.basis for view in system.views]
            self._whitenings = [basis.whitening if isinstance(basis, KernelBasis) else None for basis in bases]
        elif in_memory and not any(kernel.precomputed for kernel in self._kernels):
            self._rows = kept_rows(system.views, self.basis_, rows)

    def _why_fixed(self) -> str:
        if "federated" in (self.table_ or {}):
            return FEDERATED
        if any(kernel.precomputed for kernel in self._kernels):
            return PRECOMPUTED
        return COMPARED if self._compared else CHUNKS

    def _grow(self, X: Any, y: Any, qid: Any, sample_weight: Any) -> None:
        given = GivenScores.read(self._read(X), y, qid, sample_weight)
        given.check_columns(len(self.views_))
        new = [given.scored_in(v, self._level).beside(own) for v, own in enumerate(self.coef_)]
        self._warn_of_nothing_new(new)
        if not self._with_queries:
            new = [replace(own, queries=None, n_queries=1) for own in new]
        functions = self._expansions()
        new = [replace(own, features=f.seen(own.features)) for f, own in zip(functions, new, strict=True)]
        if self._statistics is not None:
            self._update_sums(functions, new)
        else:
            self._update_rows(functions, new)
        scored: Any = given.given.any(axis=1)
        self.n_iter_ = 1
        self._n_seen += len(scored)
        self._n_scored += int(scored.sum())
        if self._with_queries:
            self._n_queries += 1 if given.queries is None else len(np.unique(given.queries[scored]))

    def _update_sums(self, functions: Sequence[Expansion], new: Sequence[Rows]) -> None:
        assert self._statistics is not None
        data = []
        for v, (function, own) in enumerate(zip(functions, new, strict=True)):
            problem = ScoredRows(own, self._statistics[v].comparison)
            basis = function.basis(self.coef_[v], self._whitenings[v])
            data.append(ViewData(problem, basis, self.views_[v].columns, self.views_[v].penalty))
        none = Unscored(self._unscored_comparison(), UnscoredRows(()))
        system = GrownAgreement(data, none, self._disagreement, self._statistics)
        self._solve_again(system, system.mean_score if self._centred else 0.0)
        self._statistics = system.statistics

    def _update_rows(self, functions: Sequence[Expansion], new: Sequence[Rows]) -> None:
        assert self._rows is not None
        data: list[ViewData] = []
        index: list[Index | None] = []
        for v, (function, own) in enumerate(zip(functions, new, strict=True)):
            scored, rest = parted(self._rows[v])
            scored = scored if self._with_queries else replace(scored, queries=None, n_queries=1)
            scored = scored.extended(own, self._n_seen)
            basis = KernelBasis(function.kernel, stack_rows([scored.features, rest.features]))
            problem = ScoredRows(scored, self._comparison())
            data.append(ViewData(problem, basis, self.views_[v].columns, self.views_[v].penalty))
            index.append(np.concatenate([to_numpy(scored.index), to_numpy(rest.index)]))
        unscored = UnscoredRows((HeldRows(rest.features, np.asarray(to_numpy(rest.queries)), None, rest.weights),))
        system = DualAgreement(data, Unscored(self._unscored_comparison(), unscored))
        self._solve_again(system, mean_score(system.problems) if self._centred else 0.0)
        self._rows = kept_rows(data, index, unscored)
        self.basis_, self.basis_points_ = index, [own.features for own in self._rows]

    def _solve_again(self, system: PrimalAgreement | DualAgreement, offset: float) -> None:
        solved = system.solve(self.alpha_, self.agreement_, offset)
        self.coef_, self.intercept_ = [own[:, 0] for own in solved], self._level + offset


class ScannedViews(GrowingViews):
    """Reading scans. `several` says how what was read is fitted."""

    def _fit_scan(self, X: Scan, unscored: Any, unscored_qid: Any, passes: Passes) -> Self:
        """Scored rows in memory, unscored ones pass by pass."""
        note_features(self, X)
        self._set_views(X.n_features, X.feature_names)
        self._refuse_precomputed()
        asked = asked_bases(self)
        looking = SurveyJob(candidates_of(asked), self._seed)
        look = run_survey(X, passes, looking, "X", contiguous=True)
        if look.n_scored == 0:
            raise ValueError("the scan has no scored row: its score column is empty.")
        if look.held is None:
            return self._fit_sums(X, look, asked, unscored, unscored_qid, passes)
        features, rows = held_rows(look, with_queries=X.has_queries)
        parts = self._scanned_parts(X, look, features, unscored, unscored_qid, passes)
        check_scanned(asked, len(rows) + sum(part.n_rows for part in parts))
        n_plain = look.n_rows - look.n_scored
        held = GivenScores.held(rows)
        self._fit_given(features, held, parts, n_plain, with_queries=X.has_queries)
        return self

    def _scanned_parts(
        self, X: Scan, look: Survey, features: NumberedRows, unscored: Any, labels: Any, passes: Passes
    ) -> list[Part]:
        """The rows of a scan without a score, then those of `unscored=`."""
        parts: list[Part] = []
        if look.n_rows > look.n_scored:
            with_queries = self._unscored_comparison().needs_queries
            parts.append(ScannedRows(X, look, passes, "X", every=False, with_queries=with_queries))
        return [*parts, *self._more_unscored(features, unscored, labels, passes)]

    def _fit_sums(
        self, X: Scan, look: Survey, asked: Sequence[Any], unscored: Any, labels: Any, passes: Passes
    ) -> Self:
        """Fit more scored rows than fit into memory."""
        self._check_streamed(asked, look.n_scored)
        index, pool = look.scored.rows()
        features = NumberedRows(pool, index, look.n_rows)
        rows = UnscoredRows(tuple(self._scanned_parts(X, look, features, unscored, labels, passes)))
        maker = BasisMaker.of(self, features, None, [index for _ in self.views_], rows)
        self._check_streamed(["auto" if spec is None else spec for spec in maker.specs], look.n_scored)
        comparison, level = self._comparison(), look.level if self._centred else 0.0
        scored = ScoredScan(X, look, passes, comparison, level)
        nothing = rows.n_rows == 0 or len(self.views_) == 1
        settings = replace(self._co_settings(), agreement=0.0) if nothing else self._co_settings()
        stand_in: Any = SummedRows(comparison, scored.n_queries, X.reference())
        found: list[tuple[CoSolution, float | None, list[Index | None]]] = []
        choices = list(maker.widths())
        for widths in choices:
            data, bases = [], []
            for position, view in enumerate(self.views_):
                basis, own = maker.basis(position, select(pool, view.columns), widths[position])
                data.append(ViewData(stand_in, basis, view.columns, view.penalty))
                bases.append(own)
            own_settings = replace(settings, compared=len(choices) > 1)
            solution = solve_streamed_views(data, Unscored(self._unscored_comparison(), rows), scored, own_settings)
            found.append((solution, widths[0], bases))
        best, _, self.basis_ = min(found, key=lambda one: error_of(one[0]))
        self._keep(best, level, look.n_scored, X.has_queries)
        self._n_seen = look.n_rows + sum(part.n_rows for part in rows.parts if not _is_of_x(part))
        self._n_unscored = rows.n_rows
        self._keep_training(best.system, rows, in_memory=False)
        paths = [(one.path, width) for one, width, _ in found if one.path is not None]
        if len(paths) > 1:
            self.path_ = joined_paths(paths)
        self._warn(rows, best)
        return self

    def _check_streamed(self, asked: Sequence[Any], n_scored: int) -> None:
        """Refuse what needs scored rows in memory."""
        for spec in asked:
            number = isinstance(spec, numbers.Integral) and not isinstance(spec, bool)
            if not number and not (isinstance(spec, str) and spec in ("auto", "features")):
                raise ValueError(
                    f"basis={spec!r} needs the rows in memory, but {TOO_MANY.format(rows=n_scored)}; give a number of "
                    "basis rows, or 'features' with linear kernels."
                )
        if self._co_settings().tunes and (self._cv is not None or self.scoring == "disagreement"):
            what = "cv" if self._cv is not None else "scoring='disagreement'"
            raise ValueError(
                f"{what} needs the scored rows in memory, but {TOO_MANY.format(rows=n_scored)}; leave it out."
            )

    def _scanned(self, scan: Scan, n_before: int, passes: Passes) -> Part:
        """A scan of unscored rows, which come after those of X."""
        scan = scan.seen_by(getattr(self, "feature_names_in_", None), self.n_features_in_, type(self).__name__)
        self._refuse_precomputed()
        with_queries = self._unscored_comparison().needs_queries
        asked = asked_bases(self)
        looking = SurveyJob(candidates_of(asked), self._seed, all_unscored=True, first_number=n_before)
        look = run_survey(scan, passes, looking, "unscored", contiguous=with_queries)
        check_scanned(asked, n_before + look.n_rows)
        return ScannedRows(scan, look, passes, "unscored", with_queries=with_queries)

    def _refuse_precomputed(self) -> None:
        if any(isinstance(view.kernel, str) and view.kernel == "precomputed" for view in self.views_):
            raise ValueError("kernel='precomputed' needs all kernel values in memory; a scan holds features.")

    def _more_unscored(self, features: Any, unscored: Any, labels: Any, passes: Passes) -> list[Part]:
        """Rows of `unscored=`, whose queries are their own and whose numbers come after those of X."""
        n_before = int(features.shape[0])
        if unscored is None:
            if labels is not None:
                raise ValueError("unscored_qid was given without unscored.")
            return []
        if is_scan(unscored):
            if labels is not None:
                raise ValueError("unscored_qid does not go with a scan; name its column in scan(..., query=).")
            return [self._scanned(unscored, n_before, passes)]
        known = features.features if isinstance(features, NumberedRows) else features
        if is_stream(unscored):
            if labels is not None:
                raise ValueError("unscored_qid does not go with chunks; each chunk brings its own: (X, qid).")
            with_queries = self._unscored_comparison().needs_queries
            return [StreamedRows(unscored, partial(read_unscored, self, known), with_queries, first=n_before)]
        more = read_unscored(self, known, unscored)
        codes = None if labels is None else encode_queries(labels, int(more.shape[0]), "unscored_qid")[0]
        return [HeldRows(more, None if codes is None else np.asarray(to_numpy(codes)), first=n_before)]


def _is_of_x(part: Part) -> bool:
    """Whether rows are among those of X."""
    return isinstance(part, ScannedRows) and not part.every


def error_of(solution: CoSolution) -> float:
    """Held out, of what was chosen; infinite where nothing was."""
    return float("inf") if solution.path is None else float(solution.path.error[solution.path.best])


def joined_paths(paths: Sequence[tuple[Any, float | None]]) -> Any:
    """The paths of several kernel widths as one; gamma is that of the first view."""
    errors = [float(path.error[path.best]) for path, _ in paths]
    best = int(np.argmin(errors))
    before = sum(len(path.alpha) for path, _ in paths[:best])
    return replace(
        paths[best][0],
        alpha=np.concatenate([path.alpha for path, _ in paths]),
        gamma=np.concatenate([np.full(len(path.alpha), np.nan if w is None else w) for path, w in paths]),
        error=np.concatenate([path.error for path, _ in paths]),
        standard_error=np.concatenate([path.standard_error for path, _ in paths]),
        agreement=np.concatenate([path.agreement for path, _ in paths]),
        best=before + paths[best][0].best,
    )


SOLVERS = ("direct", "partitioned", "coordinate", "accelerated")


class CoLearner(AskingViews, ScannedViews):
    """Kernel least squares on several views. A learner adds its comparison, its intercept and its score."""

    __metadata_request__fit: ClassVar[dict[str, str | bool]] = {"unscored": True, "unscored_qid": True}
    _contents: ClassVar[Contents] = SEVERAL_VIEWS
    _evidence: Evidence | None = None  # stays behind when a model is saved

    @property
    def _pairwise(self) -> bool:
        views: Any = [View(kernel=self.kernel)] if self.views == 1 else self.views
        if not isinstance(views, list | tuple) or len(views) != 1 or not isinstance(views[0], View):
            return False
        return views[0].columns is None and isinstance(views[0].kernel, str) and views[0].kernel == "precomputed"

    def _summary(self) -> dict[str, int]:
        return {**super()._summary(), "unscored": self._n_unscored}

    @property
    def _own_scoring(self) -> Any:
        """What held-out error means where `scoring` is None."""
        return "squared"

    # ---------------------------------------------------------------- fit

    def _fit_scores(
        self,
        X: Any,
        y: Any,
        qid: Any,
        sample_weight: Any,
        unscored: Any,
        unscored_qid: Any,
        checkpoint: Any = None,
    ) -> Self:
        comparison = self._comparison()
        check_weights(comparison, sample_weight)
        self._check_parameters()
        X, y, qid = from_dask(X, y, qid)
        unscored, _, unscored_qid = from_dask(unscored, None, unscored_qid)
        if is_scan(X):
            check_alone(X, {"y": y, "qid": qid, "sample_weight": sample_weight})
        rows = {"X": X, "y": y, "qid": qid, "sample_weight": sample_weight, "unscored": unscored}
        with passing(self, checkpoint, rows) as passes:
            if is_scan(X):
                return self._fit_scan(X, unscored, unscored_qid, passes)
            features = read_features(self, X, reset=True)
            given = GivenScores.read(features, y, qid, sample_weight)
            self._set_views(int(features.shape[1]))
            plain = plain_rows(features, given.plain, given.queries, given.rows.weights)
            more = self._more_unscored(features, unscored, unscored_qid, passes)
            return self._fit_given(features, given, [*plain, *more], len(given.plain), with_queries=qid is not None)

    def _fit_given(
        self, features: Array, given: GivenScores, parts: list[Part], n_plain: int, *, with_queries: bool
    ) -> Self:
        """Fit scored rows with unscored ones, `n_plain` of which are among the features."""
        comparison, rows = self._comparison(), UnscoredRows(tuple(parts))
        given.check_columns(len(self.views_))
        scored = given.of_views(self.views_, comparison, given.mean if self._centred else 0.0)
        if all(isinstance(p, ScoredRows) and p.is_tied for p in scored.problems):
            warn_user("y: all scores are tied within every query, so there is nothing to rank; the model is constant.")
        return self._fit_views(features, scored, rows, n_plain, with_queries=with_queries)

    def _check_parameters(self) -> None:
        check_choice(self.scoring, "scoring", (None, *SCORINGS))
        check_choice(self.basis_selection, "basis_selection", ("pivoted", "random"))
        check_choice(self.solver, "solver", SOLVERS)
        if not isinstance(self.max_iter, numbers.Integral) or self.max_iter < 1:
            raise ValueError(f"max_iter must be a whole number from 1, got {self.max_iter!r}.")
        if not isinstance(self.tol, numbers.Real) or not 0 < float(self.tol) < 1:
            raise ValueError(f"tol must lie between 0 and 1, got {self.tol!r}.")
        candidates(self.alpha, "alpha", ("tune",))
        candidates(self.agreement, "agreement", ("tune",), zero=True)
        self._seed = seed(self.random_state)  # drawn once: every kernel width is judged on the same folds
        self._cv = list(self.cv) if hasattr(self.cv, "__next__") else self.cv

    def _set_views(self, n_columns: int, names: Any = None) -> None:
        rng = np.random.default_rng(self._seed)
        names = getattr(self, "feature_names_in_", None) if names is None else names
        views = read_views(self.views, n_columns, names, rng)
        if not isinstance(self.views, list | tuple):
            views = [replace(view, kernel=self.kernel, gamma=self.gamma) for view in views]
        if self.solver == "partitioned" and len(views) != 2:
            raise ValueError(f"solver='partitioned' is for two views, got {len(views)}; use solver='direct'.")
        self.views_ = views

    def _fit_views(
        self, features: Array, scored: Scored, rows: UnscoredRows, n_plain: int, *, with_queries: bool
    ) -> Self:
        """Fit checked rows."""
        maker = BasisMaker.of(self, features, scored.weights, scored.index, rows)
        found: CoSolution | None = None
        paths = []
        choices = list(maker.widths())
        # read once: a splitter without a seed gives other folds each time, and widths are compared on the same ones
        settings = replace(self._settings(scored, maker), compared=len(choices) > 1)
        for widths in choices:
            data, numbers_ = self._view_data(maker, scored, widths)
            solution = solve_views(data, Unscored(self._unscored_comparison(), rows), settings)
            if solution.path is not None:
                paths.append((solution.path, widths[0]))
            better = found is None or error_of(solution) < error_of(found)
            if better:
                found, self.basis_ = solution, numbers_
        assert found is not None
        self._keep(found, scored.level, len(np.unique(np.concatenate(scored.index))), with_queries)
        self._n_seen, self._n_unscored = int(features.shape[0]) + rows.n_rows - n_plain, rows.n_rows
        self._keep_training(found.system, rows, in_memory=maker.in_memory)
        if len(paths) > 1:
            self.path_ = joined_paths(paths)
        self._warn(rows, found)
        return self

    def _view_data(
        self, maker: BasisMaker, scored: Scored, widths: Sequence[float | None]
    ) -> tuple[list[ViewData], list[Index | None]]:
        """Every view of the data, and the row numbers of its basis."""
        data, bases = [], []
        for position, view in enumerate(self.views_):
            problem = cut(scored.problems[position], view.columns)
            basis, own = maker.basis(position, problem.features, widths[position])
            groups = None if scored.groups is None else scored.groups[position]
            if isinstance(problem, ComparedRows):
                groups = problem.groups
            data.append(ViewData(problem, basis, view.columns, view.penalty, groups))
            bases.append(own)
        return data, bases

    def _settings(self, scored: Scored, maker: BasisMaker) -> CoSettings:
        nothing = maker.pool.n_unscored == 0 or len(scored.problems) == 1
        given = read_splits(self._cv, scored.shown, np.unique(np.concatenate(maker.index)), maker.n_rows)
        settings = replace(
            self._co_settings(),
            dual=self.solver == "direct" and maker.dual,
            splits=splits_of_folds(given) if isinstance(given, np.ndarray) else given,
        )
        return replace(settings, agreement=0.0) if nothing else settings

    def _co_settings(self) -> CoSettings:
        """What the learner was asked for, whatever the rows."""
        return CoSettings(
            alpha=candidates(self.alpha, "alpha", ("tune",)),
            agreement=candidates(self.agreement, "agreement", ("tune",), zero=True),
            dual=False,
            scoring=self.scoring or self._own_scoring,
            centred=self._centred,
            seed=self._seed,
            solver=self.solver,
            max_iter=int(self.max_iter),
            tol=float(self.tol),
        )

    def _keep(self, solution: CoSolution, level: float, n_scored: int, with_queries: bool) -> None:
        """Set the fitted attributes."""
        data = solution.system.views
        self.coef_ = solution.coefficients
        self.intercept_ = level + solution.intercept
        self.alpha_, self.agreement_, self.path_ = solution.alpha, solution.agreement, solution.path
        self.basis_points_ = [v.basis.points if isinstance(v.basis, KernelBasis) else None for v in data]
        self._kernels = [v.basis.kernel if isinstance(v.basis, KernelBasis) else Kernel("linear") for v in data]
        self.gamma_ = [kernel.gamma for kernel in self._kernels]
        self.n_iter_ = solution.n_iter or 1  # a direct solution is one step
        self._level, self._with_queries, self._n_scored = level, with_queries, n_scored
        self._n_queries = data[0].problem.n_queries
        self._evidence = solution.evidence
        self._effect: UnscoredEffect | None = None
        self.encoder_ = self.table_ = None  # those of a loaded model belong to what it was fitted on before

    def _warn(self, rows: UnscoredRows, solution: CoSolution) -> None:
        wanted = not (isinstance(self.agreement, numbers.Real) and float(self.agreement) == 0)
        if wanted and len(self.views_) == 1:
            warn_user("views: there is only one view, so there is nothing to agree on; agreement has no effect.")
        elif wanted and rows.n_rows == 0:
            warn_user(
                "y has no unscored row and unscored= was not given: nothing to agree on; agreement has no effect."
            )
        can_agree = len(self.views_) > 1 and rows.n_rows > 0
        tunes = not (isinstance(self.alpha, numbers.Real) and isinstance(self.agreement, numbers.Real))
        if tunes and solution.path is None and not (isinstance(self.alpha, numbers.Real) and not can_agree):
            warn_user(
                "nothing was tuned: too little to hold anything out. alpha was set to "
                f"{self.alpha_:.3g}, agreement to {self.agreement_:.3g}."
            )
        if solution.gradient:
            warn_user(
                f"solver={self.solver!r} stopped after {solution.n_iter} sweeps with the gradient at "
                f"{solution.gradient:.2g} of the right-hand side, above tol={self.tol:g}; raise max_iter, lower "
                "agreement, or use solver='direct'.",
                ConvergenceWarning,
            )

    # ---------------------------------------------------------------- what a fitted model says

    @property
    def unscored_effect_(self) -> UnscoredEffect | None:
        """Whether the unscored rows helped: see `UnscoredEffect`. None where there is nothing, or too little, to tell.

        Found when first asked for, by choosing alpha and agreement anew on parts of the scored rows of `fit` and
        judging both choices, with unscored rows and without, on the others. A model file holds it where it was asked
        for before saving, but not what it takes to find it: else it is None after loading.
        """
        check_is_fitted(self)
        can_agree = len(self.views_) > 1 and self._n_unscored > 0
        if self._effect is None and self._evidence is not None and can_agree:
            self._effect = unscored_effect(self._evidence)
        return self._effect

    def _at_a_glance(self) -> Self:
        seen = copy(self)
        seen._evidence = None  # the effect of unscored rows is shown where it is known
        return seen

    def predict_views(self, X: Any) -> Array:
        """The score that every view gives: (n, n_views); `predict` is their mean.

        Parameters
        ----------
        X : as in `predict`

        Returns
        -------
        (n, n_views) in the library, on the device and with the precision of X
        """
        features = self._read(X)
        parts = [function.values(features) for function in self._expansions()]
        return self._scores(namespace(parts[0]).stack(parts, axis=1), features)


def plain_rows(features: Array, plain: Index, queries: Index | None, weights: Array | None) -> list[Part]:
    """Rows of X without any score, whose numbers are `plain`."""
    if len(plain) == 0:
        return []
    own = None if queries is None else np.unique(queries[plain], return_inverse=True)[1].astype(np.int64)
    return [HeldRows(features, own, plain, None if weights is None else take(weights, plain))]
