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

from corank.core.arrays import (
    Array,
    Index,
    dtype_name,
    is_sparse,
    like,
    namespace,
    stack_rows,
    take,
    to_numpy,
)
from corank.core.basis import Basis, candidate_limit, candidate_rows, make_basis, read_basis
from corank.core.kernels import MEAN_DISTANCE, Kernel, check_precomputed, inverse_length, is_named
from corank.core.loss import Loss
from corank.core.observations import GraphRows, Problem, ScoredRows, warn_of_ties
from corank.core.queries import encode_queries
from corank.core.unscored import HeldRows, UnscoredRows
from corank.core.views import BlockKernel, View, select
from corank.inputs import given_scores, scored_rows
from corank.solve.grid import grid_of
from corank.solve.systems import ViewData
from corank.solve.tuning import Candidates, Training, widths_to_try
from corank.solve.widths import with_learned_widths

MAX_WHOLE_SCAN = 20_000  # rows of a scan that basis="all" takes: their kernel matrix is 3 GB
MAX_COLUMNS = 20_000  # of basis="features" in the primal: a square matrix of that size is 3 GB


@dataclass(frozen=True, kw_only=True)
class TrainingData(Training):
    """What kernel least squares are fitted on: the rows scored in any view, or the comparisons, as
    one view would be fitted on them, and what every view is.

    problems : per view, its scored rows or the comparisons, with all columns of X
    numbers : (n_v,) per view, row numbers in X of the rows of its problem
    groups : (n_units,) per view, as in `ViewData`; None for items of one query
    n_units : scored rows of a view, or comparisons; n_scored : rows scored in any view, or compared
    unscored : the rows on which views should agree, `n_apart` of them not of X; None for no rows
    summed : whether scored rows do not fit into memory: `problems` then stand for their sums, and
        hold candidates for the basis
    """

    problems: Sequence[Problem]
    numbers: Sequence[Index]
    groups: Sequence[Index] | None
    n_units: int
    n_scored: int
    unscored: UnscoredRows | None = None
    n_apart: int = 0
    summed: bool = False

    @property
    def n_unscored(self) -> int:
        """Number of rows on which views should agree."""
        return 0 if self.unscored is None else self.unscored.n_rows

    def with_scores(self, scores: Array, *, centred: bool) -> TrainingData:
        """The same rows with other scores, (n,) of all rows of X."""
        assert isinstance(self.problem, ScoredRows)
        problem = replace(self.problem, scores=take(scores, self.index), level=0.0)
        level = problem.mean_score if centred else 0.0
        problem = problem.under(problem.comparison, level)
        warn_of_ties(problem)
        return replace(self, problem=problem, problems=[problem], level=level)

    def rows(self, numbers: Index) -> Array:
        """Features of rows of X and, counted behind them, of `unscored=`."""
        n = self.everything.shape[0]
        inside = numbers < n
        if self.unscored is None or inside.all():
            return take(self.everything, numbers)
        part = self.unscored.parts[-1]
        if not isinstance(part, HeldRows):
            raise TypeError(
                f"basis names row {numbers.max()}, which is one of unscored=, but those come in"
                " chunks; hand them over as one array, or give a number of basis rows."
            )
        behind = take(part.features, numbers[~inside] - n)
        behind = _with_precision_of(self.everything, behind)
        both = stack_rows([take(self.everything, numbers[inside]), behind])
        return take(both, np.argsort(np.argsort(~inside, kind="stable")))


def scored_data(
    rows: ScoredRows,
    features: Array,
    views: Sequence[View],
    loss: Loss,
    *,
    centred: bool,
    with_queries: bool,
    edges: tuple[Array, ...] | None = None,
) -> TrainingData:
    """Rows with scores as what views are fitted on.

    Parameters
    ----------
    rows : with scores (n, 1), or (n, M) one column per view; NaN = unscored
    features : (n, d) all rows of X
    centred : whether the mean of all given scores is taken out
    edges : checked comparisons beside the scores, None for none
    """
    level = mean_of_given(rows) if centred else 0.0
    by_column: dict[int, ScoredRows] = {}
    problems: list[Any] = []
    for view, column in zip(views, columns_of_views(rows, len(views)), strict=True):
        if column not in by_column:
            scored = scored_rows(rows, column)
            if len(scored) == 0:
                raise ValueError(f"y has no score for {view.name}.")
            if scored.n_queries == 1:
                scored = replace(scored, queries=None)
            by_column[column] = scored.under(loss, level)
        problems.append(by_column[column])
    if edges is None:
        warn_of_ties(*problems)
    shown: Any = problems[0]
    if len(by_column) > 1:  # each row with the first of its scores
        first = np.argmax(given_scores(rows), axis=1)
        scores = to_numpy(rows.scores)[np.arange(len(rows)), first][:, None]
        shown = scored_rows(replace(rows, scores=like(scores, rows.scores)), 0).under(loss, level)
    numbers = [to_numpy(problem.index) for problem in problems]
    index, n_units = to_numpy(shown.index), len(numbers[0])
    n_scored = len(index)
    groups: Any = None
    if shown.n_queries > 1:
        codes = to_numpy(shown.queries)
        groups = [codes[np.searchsorted(index, own)] for own in numbers]
    elif not shown.comparison.needs_queries:
        groups = numbers
    if edges is not None:
        shown, index = graph_rows(shown, index, features, edges, groups)
        problems, numbers = [shown] * len(views), [index] * len(views)
        n_units += len(shown.winners)
        groups = None if shown.groups is None else [shown.groups] * len(views)
    return TrainingData(
        problem=shown,
        index=index,
        everything=features,
        problems=problems,
        numbers=numbers,
        groups=groups,
        n_units=n_units,
        n_scored=n_scored,
        weights=rows.weights,
        level=level,
        with_queries=with_queries,
    )


def graph_rows(
    scored: ScoredRows,
    index: Index,
    features: Array,
    edges: tuple[Array, ...],
    groups: Sequence[Index] | None,
) -> tuple[GraphRows, Index]:
    """Scored rows, numbered `index` in X, with comparisons beside them, and the numbers of all rows
    that take part.

    A comparison within a query is held out with it; all others stay.
    """
    winners, losers, margins, weights = edges
    used = np.unique(np.concatenate([index, winners, losers]))
    first: Any = np.searchsorted(used, winners)
    second: Any = np.searchsorted(used, losers)
    places = np.searchsorted(used, index)
    codes: Any = None
    if groups is not None:
        of_rows = np.full(len(used), -1)
        of_rows[places] = groups[0]
        inside = of_rows[first] == of_rows[second]
        codes = np.concatenate([groups[0], np.where(inside, of_rows[first], -1)])
    items = features if len(used) == features.shape[0] else take(features, used)
    graph = GraphRows(items, first, second, margins, weights, codes, scored=scored, places=places)
    return graph, used


# ---------------------------------------------------------------- rows with one or several scores


def columns_of_views(rows: ScoredRows, n_views: int) -> Sequence[int]:
    """The column that holds the scores of every view; refuses a number of columns that no views
    explain.
    """
    n_columns = int(rows.scores.shape[1])
    if n_columns not in (1, n_views):
        raise ValueError(
            f"y has {n_columns} columns for {n_views} views; give one column, or one per view."
        )
    return [0] * n_views if n_columns == 1 else range(n_views)


def mean_of_given(rows: ScoredRows) -> float:
    """The weighted mean of all given scores."""
    scores, given = to_numpy(rows.scores), given_scores(rows)
    weights = np.ones(len(rows)) if rows.weights is None else to_numpy(rows.weights)
    every = np.broadcast_to(weights[:, None], scores.shape)
    return float(np.average(scores[given], weights=every[given]))


def rows_without_scores(rows: ScoredRows, used: Index) -> list[HeldRows]:
    """The rows of X that have a weight but are not among those that are used."""
    without = np.ones(len(rows), dtype=bool)
    without[used] = False
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
    gamma : the width, "scale", "mean-distance", "tune" or candidates; None for a kernel without one
    basis : "auto", "all", "scored", "features", a number of rows or row numbers
    """

    view: View
    kernel: Kernel
    gamma: Candidates | None
    basis: Any

    @property
    def limit(self) -> int:
        """How many candidates its basis is chosen from."""
        return candidate_limit(self.basis)


@dataclass(frozen=True)
class AskedBases:
    """What is to span the functions of every view.

    selection : how a number of rows is chosen
    auto : rows up to which basis="auto" takes all of them; how many beyond
    drawn : whether the views were drawn instead of named
    names : (d,) of the columns of X, None where they have none
    """

    views: Sequence[AskedView]
    selection: Any
    auto: tuple[int, int]
    seed: int
    drawn: bool = False
    names: Any = None

    def with_learned_widths(self, problem: Problem) -> AskedBases:
        """What is asked for, with kernels whose widths per column were learned from a problem."""
        views = [
            replace(asked, kernel=with_learned_widths(problem, asked.kernel, self.seed), gamma=None)
            for asked in self.views
        ]
        return replace(self, views=views)

    def with_mean_lengths(self, data: TrainingData) -> tuple[float, AskedBases]:
        """alpha="mean-length", one over the mean length of the scored rows as the first view sees
        them; the penalties of others say what it is in these.
        """
        views, alphas = [], []
        for each, problem, numbers in zip(self.views, data.problems, data.numbers, strict=True):
            rows = select(problem.features, each.view.columns)
            alphas.append(inverse_length(rows, take(data.weights, numbers)))
            penalty = each.view.penalty * alphas[-1] / alphas[0]
            views.append(replace(each, view=replace(each.view, penalty=penalty)))
        return alphas[0], replace(self, views=views)

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
        return max(MAX_WHOLE_SCAN * self.whole, *(asked.limit for asked in self.views))

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
    grid : as in `KernelBasis`
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
    grid: Any = None

    @cached_property
    def candidates(self) -> tuple[Index, Array]:
        """Row numbers and features of the scored rows and the sampled unscored ones."""
        numbers, features = self.index, self.scored
        if not isinstance(self.spec, str):  # a basis of all rows has all of them as candidates
            rows = candidate_rows(numbers, self.spec, self.seed[0])
            if len(rows) < len(numbers):
                numbers, features = numbers[rows], take(features, rows)
        if self.other_features is None:
            return numbers, features
        others = select(self.other_features, self.asked.view.columns)
        others = _with_precision_of(features, others)
        return np.concatenate([numbers, self.others]), stack_rows([features, others])

    def widths(self) -> Sequence[float | None]:
        """The kernel widths to try."""
        gamma = self.auto_width if is_named(self.asked.gamma, "auto") else self.asked.gamma
        if gamma is None or not self.asked.kernel.has_width:
            return (None,)
        if not isinstance(gamma, str):
            return widths_to_try(gamma, None)
        # the scale of the scored rows and the unscored ones that may serve as basis
        numbers, features = self.candidates
        if gamma == MEAN_DISTANCE:
            numbers, features = self.index, self.scored
        weights = self.data.weights
        if weights is not None:  # rows of `unscored=` have none
            inside = numbers < self.data.everything.shape[0]
            by_row = np.where(inside, to_numpy(weights)[np.where(inside, numbers, 0)], 1.0)
            weights = like(by_row, weights)
        return widths_to_try(gamma, self.asked.kernel.scale_width(features, weights, gamma))

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
            features = select(self.data.rows(numbers), self.asked.view.columns)
        n = self.data.everything.shape[0]
        if kernel.precomputed and numbers[-1] >= n:
            inside = np.flatnonzero(numbers < n)
            numbers, features = numbers[inside], take(features, inside)
        made, rows = make_basis(self.spec, kernel, features, numbers, self.selection, self.seed)
        return made if self.grid is None else replace(made, grid=self.grid), rows


@dataclass(frozen=True)
class ViewBases:
    """Makes every view's basis for a choice of kernel widths."""

    views: Sequence[ViewBasis]
    data: TrainingData

    @classmethod
    def of(cls, asked: AskedBases, data: TrainingData, *, auto_width: str) -> ViewBases:
        """Check bases and kernels against the rows, and draw the candidates."""
        index, n_views = data.numbers, len(asked.views)
        n_rows, n_columns = data.everything.shape
        n_held = max(len(numbers) for numbers in index)
        total = data.n_scored if data.summed else n_held
        others, other_features = np.zeros(0, dtype=np.int64), None
        if data.unscored is not None:
            most = max(view.limit for view in asked.views)
            needed = data.n_unscored if asked.whole else max(most - n_held, 0)
            others, other_features = data.unscored.sample(needed, asked.seed)
            total += data.n_unscored
        # views that were drawn and see all columns differ in their rows only, also where a number
        # of views was asked for
        alike = asked.drawn and all(len(view.view.columns) == n_columns for view in asked.views)
        alike = alike and n_views > 1
        limit, size = asked.auto
        auto = (0 if data.summed else limit, size)
        views, grid = [], None
        for position, view in enumerate(asked.views):
            columns = view.view.columns
            scored = select(data.problems[position].features, columns)
            if isinstance(view.kernel, BlockKernel):
                names = asked.names if columns is None else take(asked.names, columns)
                view = replace(view, kernel=view.kernel.seen_by(scored, names))
                if n_views == 1 and not data.summed:
                    grid = grid_of(data.problem, view.kernel, scored)
            is_small = grid is not None and max(grid[0].shape) <= limit
            whole = "all" if is_small and is_named(view.basis, "auto") else view.basis
            apart = 0 if view.kernel.precomputed else data.n_apart
            spec = read_basis(whole, view.kernel.name, n_rows, total, auto, view.view.name, apart)
            if is_named(spec, "features") and not data.summed:
                check_column_basis(scored.shape[1], data.n_units)
            if view.kernel.precomputed:
                check_precomputed(select(data.everything, columns))
            seed = (asked.seed, position)
            if alike and is_named(spec, "scored"):  # every view takes its share
                size = max(1, len(index[position]) // n_views)
                rng = np.random.default_rng(seed)
                spec = np.sort(rng.choice(index[position], size=size, replace=False))
            elif alike and isinstance(spec, str) and spec != "features":
                spec = max(1, total // n_views)
            views.append(
                ViewBasis(
                    asked=view,
                    spec=spec,
                    index=index[position],
                    scored=scored,
                    data=data,
                    others=others,
                    other_features=other_features,
                    selection="random" if alike else asked.selection,
                    seed=seed,
                    auto_width=auto_width,
                    grid=grid if is_named(spec, "all") else None,
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
        beyond = bool((first.others >= self.data.everything.shape[0]).any())
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
        return [[widths[min(step, len(widths) - 1)] for widths in by_view] for step in steps]

    def view_data(self) -> Iterator[list[ViewData]]:
        """The views of the data with every choice of kernel widths."""
        problems: list[Any] = list(self.data.problems)
        for v, made in enumerate(self.views):
            if made.scored is not problems[v].features and not self.data.summed:
                problems[v] = replace(problems[v], features=made.scored)
        groups: Sequence[Index | None] = self.data.groups or [None] * len(self.views)
        for widths in self.choices:
            data = []
            parts = zip(self.views, widths, problems, groups, strict=True)
            for made, width, problem, group in parts:
                (basis, rows), view = made.basis(width), made.asked.view
                data.append(ViewData(problem, basis, view.columns, view.penalty, group, rows))
            yield data


def check_column_basis(columns: int, n_roots: int) -> None:
    """Refuse the columns as basis where their square matrix is too large and rows are more than
    columns.
    """
    if n_roots > columns > MAX_COLUMNS:
        raise ValueError(
            f"basis='features' with {columns} columns needs a square matrix of that size; "
            "use basis='auto' or a number of basis rows."
        )


def _with_precision_of(reference: Array, features: Array) -> Array:
    """The rows with the precision of a reference."""
    if is_sparse(features) or is_sparse(reference):
        return features
    return namespace(reference).asarray(like(features, reference, dtype_name(reference)))
