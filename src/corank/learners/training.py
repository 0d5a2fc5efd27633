"""What kernel least squares are fitted on: the scored rows of every view or comparisons, the rows
on which views should agree, and the bases of the views: which of these rows span each view's
functions, and how wide its kernel is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from corank.core.arrays import Array, Index, is_sparse, like, namespace, stack_rows, take, to_numpy
from corank.core.basis import (
    Basis,
    basis_size,
    candidate_limit,
    candidate_rows,
    make_basis,
    read_basis,
)
from corank.core.kernels import Kernel, check_precomputed, is_named
from corank.core.loss import Loss
from corank.core.observations import ComparedRows, Problem, Rows, ScoredRows, warn_of_ties
from corank.core.queries import encode_queries
from corank.core.unscored import HeldRows
from corank.core.views import View, select
from corank.inputs import given_scores, scored_rows
from corank.solve.systems import Unscored, ViewData
from corank.solve.tuning import Candidates, widths_to_try

MAX_WHOLE_SCAN = 20_000  # rows of a scan that basis="all" takes: their kernel matrix is 3 GB
MAX_COLUMNS = 20_000  # of basis="features" in the primal: a square matrix of that size is 3 GB


@dataclass(frozen=True)
class TrainingData:
    """What kernel least squares are fitted on.

    features : (n, d) all rows of X
    problems : per view, its scored rows or the comparisons, with all columns of X
    index : (n_v,) per view, row numbers in X of the rows of its problem
    groups : (n_units,) per view, as in `ViewData`; None for items of one query
    shown : the problem that a splitter is shown: the rows scored in any view, or the comparisons
    shown_index : row numbers in X of its rows
    n_units : scored rows of a view, or comparisons; n_scored : rows scored in any view, or compared
    unscored : the rows on which views should agree, `n_apart` of them not of X; None for no rows
    weights : (n,) of the rows of X, or None for ones
    level : was taken out of the scores
    summed : whether scored rows do not fit into memory: `problems` then stand for their sums, and
        hold candidates for the basis
    with_queries : whether the rows came with query labels
    """

    features: Array
    problems: Sequence[Problem]
    index: Sequence[Index]
    groups: Sequence[Index] | None
    shown: Problem
    shown_index: Index
    n_units: int
    n_scored: int
    unscored: Unscored | None = None
    n_apart: int = 0
    weights: Array | None = None
    level: float = 0.0
    summed: bool = False
    with_queries: bool = False

    @property
    def n_unscored(self) -> int:
        """Number of rows on which views should agree."""
        return 0 if self.unscored is None else self.unscored.rows.n_rows


def scored_data(
    rows: Rows,
    features: Array,
    views: Sequence[View],
    loss: Loss,
    *,
    centred: bool,
    with_queries: bool,
) -> TrainingData:
    """Rows with scores as what views are fitted on.

    Parameters
    ----------
    rows : with scores (n, 1), or (n, M) one column per view; NaN = unscored
    features : (n, d) all rows of X
    centred : whether the mean of all given scores is taken out
    """
    level = mean_of_given(rows) if centred else 0.0
    by_column: dict[int, ScoredRows] = {}
    problems: list[ScoredRows] = []
    for view, column in zip(views, columns_of_views(rows, len(views)), strict=True):
        if column not in by_column:
            scored = scored_rows(rows, column).lowered(level)
            if len(scored) == 0:
                raise ValueError(f"y has no score for {view.name}.")
            if scored.n_queries == 1:
                scored = replace(scored, queries=None)
            by_column[column] = ScoredRows(scored, loss, level)
        problems.append(by_column[column])
    warn_of_ties(*problems)
    shown = problems[0]
    if len(by_column) > 1:
        shown = ScoredRows(scored_anywhere(rows).lowered(level), loss, level)
    index = [to_numpy(problem.rows.index) for problem in problems]
    shown_index = to_numpy(shown.rows.index)
    return TrainingData(
        features=features,
        problems=problems,
        index=index,
        groups=_groups(shown, index),
        shown=shown,
        shown_index=shown_index,
        n_units=len(index[0]),
        n_scored=len(shown_index),
        weights=rows.weights,
        level=level,
        with_queries=with_queries,
    )


def summed_data(summed: Any, features: Any, n_views: int, *, with_queries: bool) -> TrainingData:
    """Scored rows of a scan that only pass by as what views are fitted on.

    summed : stands for them
    features : the rows of X, of which candidates for the basis are in memory
    """
    return TrainingData(
        features=features,
        problems=[summed] * n_views,
        index=[features.numbers] * n_views,
        groups=None,
        shown=summed,
        shown_index=features.numbers,
        n_units=summed.n_rows,
        n_scored=summed.n_rows,
        level=summed.level,
        summed=True,
        with_queries=with_queries,
    )


def compared_data(
    problem: ComparedRows, used: Index, features: Array, n_views: int, *, with_queries: bool
) -> TrainingData:
    """Comparisons between rows of X, of which those numbered `used` take part, as what views are
    fitted on.
    """
    return TrainingData(
        features=features,
        problems=[problem] * n_views,
        index=[used] * n_views,
        groups=[problem.groups] * n_views,
        shown=problem,
        shown_index=used,
        n_units=len(problem.winners),
        n_scored=len(used),
        with_queries=with_queries,
    )


def _groups(shown: ScoredRows, index: Sequence[Index]) -> Sequence[Index] | None:
    """What is held out together, per view: queries, or every row for itself; None for items of
    one query.
    """
    if shown.n_queries == 1:
        return None if shown.comparison.needs_queries else index
    every, codes = to_numpy(shown.rows.index), to_numpy(shown.rows.queries)
    return [
        codes if len(numbers) == len(every) else codes[np.searchsorted(every, numbers)]
        for numbers in index
    ]


# ---------------------------------------------------------------- rows with one or several scores


def columns_of_views(rows: Rows, n_views: int) -> Sequence[int]:
    """The column that holds the scores of every view; refuses a number of columns that no views
    explain.
    """
    assert rows.scores is not None
    n_columns = int(rows.scores.shape[1])
    if n_columns not in (1, n_views):
        raise ValueError(
            f"y has {n_columns} columns for {n_views} views; give one column, or one per view."
        )
    return [0] * n_views if n_columns == 1 else range(n_views)


def scored_anywhere(rows: Rows) -> Rows:
    """The rows that have a score in any column, each with the first of its scores."""
    first = np.argmax(given_scores(rows), axis=1)
    scores = to_numpy(rows.scores)[np.arange(len(rows)), first]
    return scored_rows(replace(rows, scores=like(scores[:, None], rows.scores)), 0)


def mean_of_given(rows: Rows) -> float:
    """The weighted mean of all given scores."""
    scores, given = to_numpy(rows.scores), given_scores(rows)
    weights = np.ones(len(rows)) if rows.weights is None else to_numpy(rows.weights)
    every = np.broadcast_to(weights[:, None], scores.shape)
    return float(np.average(scores[given], weights=every[given]))


def rows_without_scores(rows: Rows) -> list[HeldRows]:
    """The rows of X that have a weight but no score in any column."""
    without = ~given_scores(rows).any(axis=1)
    if rows.weights is not None:
        without &= to_numpy(rows.weights) > 0
    queries = None if rows.queries is None else to_numpy(rows.queries)
    return _held_rows(rows.features, np.flatnonzero(without), queries, rows.weights)


def rows_without(features: Array, used: Index, qid: Any) -> list[HeldRows]:
    """The rows of X in no comparison."""
    n = features.shape[0]
    queries = None if qid is None else to_numpy(encode_queries(qid, n)[0])
    return _held_rows(features, np.setdiff1d(np.arange(n), used), queries, None)


def _held_rows(
    features: Array, numbers: Index, queries: Index | None, weights: Array | None
) -> list[HeldRows]:
    """The rows of X with these numbers, where there are any, as unscored rows."""
    if len(numbers) == 0:
        return []
    codes = None
    if queries is not None:
        codes = np.unique(queries[numbers], return_inverse=True)[1].astype(np.int64)
    return [HeldRows(features, codes, numbers, take(weights, numbers))]


# ---------------------------------------------------------------- bases as asked, whatever the rows


@dataclass(frozen=True)
class AskedView:
    """A view, and what is to span its functions.

    kernel : its width still open
    gamma : the width, "scale", "tune" or candidates; None for a kernel without one
    basis : "auto", "all", "scored", "features", a number of rows or row numbers
    """

    view: View
    kernel: Kernel
    gamma: Candidates | None
    basis: Any

    @property
    def limit(self) -> int:
        """How many candidates its basis is chosen from."""
        return candidate_limit(basis_size(self.basis, 0))

    def seen(self, features: Array) -> Array:
        """The columns that the view sees."""
        return features if self.view.columns is None else select(features, self.view.columns)

    def checked_basis(self, data: TrainingData, total: int, auto: tuple[int, int]) -> Any:
        """`basis` checked against the rows, of which `total` may serve; see `read_basis`."""
        n_rows = data.features.shape[0]
        resolved = read_basis(self.basis, self.kernel.name, n_rows, total, auto, self.view.name)
        if is_named(resolved, "features") and not data.summed:
            check_column_basis(resolved, self.seen(data.shown.features).shape[1], data.n_units)
        if self.kernel.precomputed:
            check_precomputed(self.seen(data.features))
        return resolved


@dataclass(frozen=True)
class AskedBases:
    """What is to span the functions of every view.

    selection : how a number of rows is chosen
    auto : rows up to which basis="auto" takes all of them; how many beyond
    drawn : whether the views were drawn instead of named
    """

    views: Sequence[AskedView]
    selection: Any
    auto: tuple[int, int]
    seed: int
    drawn: bool = False

    @property
    def specs(self) -> list[Any]:
        """What every view is to take as its basis."""
        return [asked.basis for asked in self.views]

    def refuse_precomputed(self) -> None:
        """Refuse a precomputed kernel on rows of a scan."""
        if any(asked.kernel.precomputed for asked in self.views):
            raise ValueError(
                "kernel='precomputed' needs all kernel values in memory; a scan holds features."
            )

    @property
    def whole(self) -> bool:
        """Whether a view takes all rows."""
        return any(is_named(asked.basis, "all") for asked in self.views)

    @property
    def n_candidates(self) -> int:
        """How many rows of a scan may be needed as basis."""
        limits = [asked.limit for asked in self.views]
        return max([MAX_WHOLE_SCAN if self.whole else 0, *limits])

    def check_scanned(self, n_rows: int) -> None:
        """Refuse a basis of all rows where they are too many."""
        if n_rows > MAX_WHOLE_SCAN and self.whole:
            raise ValueError(
                f"basis='all' would take {n_rows:,} rows of a scan, whose kernel matrix has"
                f" {n_rows**2:,} entries; give a number of basis rows."
            )


# ---------------------------------------------------------------- bases of the rows


@dataclass(frozen=True)
class ViewBasis:
    """Makes the basis of one view for a kernel width.

    spec : checked; "all" and "scored" as they are, a number of rows, row numbers, or "features"
    index : (n,) row numbers of its scored rows
    scored : (n, d_v) those rows as the view sees them; of rows that only pass by the candidates
    data : all rows
    others : (m,) row numbers of the unscored rows that may serve as basis (X first, then
        `unscored=`)
    other_features : (m, d) those rows, None for no rows
    seed : for the choice of rows, and that with the position of the view for the choice of a basis
    auto_width : what gamma="auto" means for the rows at hand: "scale" or "tune"
    """

    asked: AskedView
    spec: Any
    index: Index
    scored: Array
    data: TrainingData
    others: Index
    other_features: Array | None
    selection: Any
    seed: tuple[int, int]
    auto_width: str

    @cached_property
    def candidates(self) -> tuple[Index, Array]:
        """Row numbers and features of the scored rows and the sampled unscored ones."""
        numbers, features = self.index, self.scored
        rows = candidate_rows(numbers, basis_size(self.spec, len(numbers)), self.seed[0])
        if len(rows) < len(numbers):
            numbers, features = numbers[rows], take(features, rows)
        if self.other_features is None:
            return numbers, features
        others = _with_precision_of(features, self.asked.seen(self.other_features))
        return np.concatenate([numbers, self.others]), stack_rows([features, others])

    def widths(self) -> Sequence[float | None]:
        """The kernel widths to try."""
        gamma = self.auto_width if is_named(self.asked.gamma, "auto") else self.asked.gamma
        if gamma is None or not self.asked.kernel.has_width:
            return (None,)
        return widths_to_try(gamma, self._scale)

    def _scale(self) -> float:
        """gamma="scale": from the scored rows and the unscored ones that may serve as basis."""
        numbers, features = self.candidates
        weights = self.data.weights
        kernel = self.asked.kernel
        if weights is None:
            return kernel.scale_width(features)
        # rows of `unscored=` have no weights
        inside = numbers < self.data.features.shape[0]
        by_row = np.where(inside, to_numpy(weights)[np.where(inside, numbers, 0)], 1.0)
        return kernel.scale_width(features, like(by_row, weights))

    def basis(self, width: float | None) -> tuple[Basis, Index | None]:
        """The basis and its row numbers, None for the columns."""
        kernel = self.asked.kernel
        if width is not None:
            kernel = replace(kernel, gamma=width)
        if is_named(self.spec, "features") or is_named(self.spec, "scored"):
            features, numbers = self.scored, self.index
        elif isinstance(self.spec, int | str):
            numbers, features = self.candidates
        else:
            numbers = np.asarray(self.spec)
            features = self.asked.seen(take(self.data.features, numbers))
        if kernel.precomputed and numbers[-1] >= self.data.features.shape[0]:
            inside = np.flatnonzero(numbers < self.data.features.shape[0])
            numbers, features = numbers[inside], take(features, inside)
        return make_basis(self.spec, kernel, features, numbers, self.selection, self.seed)


@dataclass(frozen=True)
class ViewBases:
    """Makes every view's basis for a choice of kernel widths."""

    views: Sequence[ViewBasis]
    data: TrainingData

    @classmethod
    def of(cls, asked: AskedBases, data: TrainingData, *, auto_width: str) -> ViewBases:
        """Check bases and kernels against the rows, and draw the candidates."""
        index, n_views = data.index, len(asked.views)
        n_held = max(len(numbers) for numbers in index)
        total = data.n_scored if data.summed else n_held
        others, other_features = np.zeros(0, dtype=np.int64), None
        if data.unscored is not None:
            most = max(view.limit for view in asked.views)
            needed = data.n_unscored if asked.whole else max(most - n_held, 0)
            others, other_features = data.unscored.rows.sample(needed, asked.seed)
            total += data.n_unscored
        # views that were drawn and see all columns differ in their rows only, also where a number
        # of views was asked for
        alike = n_views > 1 and asked.drawn
        alike = alike and all(
            len(view.view.columns) == data.features.shape[1] for view in asked.views
        )
        limit, size = asked.auto
        auto = (0 if data.summed else limit, size)
        views = []
        for position, view in enumerate(asked.views):
            spec = view.checked_basis(data, total, auto)
            seed = (asked.seed, position)
            if alike:
                spec = _drawn_share(spec, index[position], total, n_views, seed)
            views.append(
                ViewBasis(
                    asked=view,
                    spec=spec,
                    index=index[position],
                    scored=view.seen(data.problems[position].features),
                    data=data,
                    others=others,
                    other_features=other_features,
                    selection="random" if alike else asked.selection,
                    seed=seed,
                    auto_width=auto_width,
                )
            )
        return cls(views, data)

    @property
    def dual(self) -> bool:
        """Whether every view's basis is all its scored and all unscored rows; one view may have the
        columns instead.
        """
        first = self.views[0]
        if len(self.views) == 1 and isinstance(first.spec, str) and len(first.others) == 0:
            return first.spec != "features" or first.asked.view.columns is None
        beyond = bool((first.others >= self.data.features.shape[0]).any())
        every = all(is_named(view.spec, "all") for view in self.views)
        return every and not (beyond and any(view.asked.kernel.precomputed for view in self.views))

    @cached_property
    def choices(self) -> list[list[float | None]]:
        """The kernel widths to try, one per view; views that are tuned go through theirs together."""
        by_view = [view.widths() for view in self.views]
        lengths = {len(widths) for widths in by_view if len(widths) > 1}
        if len(lengths) > 1:
            raise ValueError(
                "gamma: views that are tuned together need equally many candidates, got"
                f" {sorted(lengths)}."
            )
        steps = range(max(lengths, default=1))
        return [
            [widths[step] if len(widths) > 1 else widths[0] for widths in by_view] for step in steps
        ]

    def view_data(self) -> Iterator[list[ViewData]]:
        """The views of the data with every choice of kernel widths."""
        pairs = zip(self.views, self.data.problems, strict=True)
        problems = [problem.with_features(view.scored) for view, problem in pairs]
        groups: Sequence[Index | None] = self.data.groups or [None] * len(self.views)
        for widths in self.choices:
            data = []
            for made, width, problem, group in zip(
                self.views, widths, problems, groups, strict=True
            ):
                basis, rows = made.basis(width)
                view = made.asked.view
                data.append(ViewData(problem, basis, view.columns, view.penalty, group, rows))
            yield data


def _drawn_share(spec: Any, index: Index, total: int, n_views: int, seed: Sequence[int]) -> Any:
    """The share of the rows that a view takes where views differ in their rows only."""
    if is_named(spec, "scored"):
        size = max(1, len(index) // n_views)
        return np.sort(np.random.default_rng(seed).choice(index, size=size, replace=False))
    if isinstance(spec, str) and spec != "features":
        return max(1, total // n_views)
    return spec


def check_column_basis(spec: Any, columns: int, n_roots: int) -> None:
    """Refuse the columns as basis where their square matrix is too large and rows are more than
    columns.
    """
    if is_named(spec, "features") and n_roots > columns > MAX_COLUMNS:
        raise ValueError(
            f"basis='features' with {columns} columns needs a square matrix of that size; "
            "use basis='auto' or a number of basis rows."
        )


def _with_precision_of(reference: Array, features: Array) -> Array:
    """The rows with the precision of a reference."""
    if is_sparse(features) or is_sparse(reference):
        return features
    return namespace(reference).asarray(
        like(features, reference, str(reference.dtype).rpartition(".")[2])
    )
