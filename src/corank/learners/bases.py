"""The bases of views: which rows, scored and unscored, span each view's functions, and how wide its
kernel is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from corank.core.arrays import Array, Index, is_sparse, like, namespace, stack_rows, take, to_numpy
from corank.core.basis import (
    AUTO_SIZE,
    Basis,
    FeatureBasis,
    KernelBasis,
    candidate_limit,
    candidate_rows,
    check_basis,
    choose_rows,
    resolve_basis,
    warn_of_subset,
)
from corank.core.kernels import Kernel, basis_points, check_precomputed, is_named, scale_gamma
from corank.core.unscored import HeldRows, UnscoredRows
from corank.core.views import View, select
from corank.solve.systems import ViewData
from corank.solve.tuning import GAMMA_STEPS

MAX_WHOLE_SCAN = 20_000  # rows of a scan that basis="all" takes: their kernel matrix is 3 GB
MAX_COLUMNS = 20_000  # of basis="features" in the primal: a square matrix of that size is 3 GB


@dataclass(frozen=True)
class ViewBases:
    """Makes every view's basis for a kernel width.

    kernels : one per view, their widths still open
    widths : candidates of gamma, one entry per view, as `candidates` reads them
    specs : one per view, checked; "all" and "scored" as they are, a number of rows, row numbers, or
        "features"
    index : (n_v,) per view, the row numbers of its scored rows
    scored : (n_v, d_v) per view, those rows as the view sees them; of rows that only pass by the
        candidates
    features, weights : of all rows of X
    others : (m,) row numbers of the unscored rows that may serve as basis (X first, then
        `unscored=`)
    other_features : (m, d) those rows, None for no rows
    n_unscored : number of all unscored rows
    in_memory : whether all unscored rows are
    """

    views: Sequence[View]
    kernels: Sequence[Kernel]
    widths: Sequence[Any]
    specs: Sequence[Any]
    index: Sequence[Index]
    scored: Sequence[Array]
    features: Array
    weights: Array | None
    others: Index
    other_features: Array | None
    n_unscored: int
    in_memory: bool
    selection: Any
    seed: int

    @classmethod
    def of(
        cls,
        learner: Any,
        views: Sequence[View],
        kernels: Sequence[Kernel],
        widths: Sequence[Any],
        features: Array,
        weights: Array | None,
        index: Sequence[Index],
        scored: Sequence[Array],
        rows: UnscoredRows,
        *,
        n_scored: int | None = None,
    ) -> ViewBases:
        """Check the learner's basis and kernels against the rows, and draw the candidates.

        Parameters
        ----------
        scored : (n_v, d) per view, the scored rows with all columns
        n_scored : number of scored rows where only some of them are in memory: then "auto" is a
            number of rows
        """
        asked = asked_bases(learner, views)
        n, n_rows, m = max(len(own) for own in index), features.shape[0], rows.n_rows
        limit = max((_limit(spec) for spec in asked), default=0)
        whole = any(is_named(spec, "all") for spec in asked)
        others, other_features = rows.sample(m if whole else max(limit - n, 0), learner._seed)
        # views that were drawn and see all columns differ in their rows only, also where a number
        # of views was asked for
        drawn = len(views) > 1 and not isinstance(learner.views, list | tuple)
        drawn = drawn and all(len(view.columns) == features.shape[1] for view in views)
        total = m + (n if n_scored is None else n_scored)
        auto_limit, auto_size = learner._auto_basis
        specs = []
        for position, (view, kernel, spec) in enumerate(zip(views, kernels, asked, strict=True)):
            checked = check_basis(spec, n_rows, total)
            resolved = resolve_basis(
                checked, total, auto_limit if n_scored is None else 0, auto_size
            )
            warn_of_subset(checked, resolved, total, f" of {view.name}" if learner._several else "")
            if is_named(resolved, "features") and kernel.name != "linear":
                whose = f" in {view.name}" if learner._several else ""
                raise ValueError(
                    f"basis='features' needs kernel='linear', got kernel={kernel.name!r}{whose}."
                )
            if kernel.precomputed:
                check_precomputed(_seen(features, view))
            if drawn and is_named(resolved, "scored"):
                rng = np.random.default_rng([learner._seed, position])
                size = max(1, len(index[position]) // len(views))
                resolved = np.sort(rng.choice(index[position], size=size, replace=False))
            elif drawn and isinstance(resolved, str) and resolved != "features":
                resolved = max(1, total // len(views))
            specs.append(resolved)
        return cls(
            views=views,
            kernels=kernels,
            widths=widths,
            specs=specs,
            index=index,
            scored=[_seen(values, view) for values, view in zip(scored, views, strict=True)],
            features=features,
            weights=weights,
            others=others,
            other_features=other_features,
            n_unscored=m,
            in_memory=all(isinstance(part, HeldRows) for part in rows.parts),
            selection="random" if drawn else learner.basis_selection,
            seed=learner._seed,
        )

    @property
    def n_rows(self) -> int:
        """Rows of X."""
        return int(self.features.shape[0])

    @property
    def dual(self) -> bool:
        """Whether every view's basis is all its scored and all unscored rows; one view may have the
        columns instead.
        """
        if len(self.views) == 1 and isinstance(self.specs[0], str) and len(self.others) == 0:
            return self.specs[0] != "features" or self.views[0].columns is None
        beyond = bool((self.others >= self.n_rows).any())
        every = all(is_named(spec, "all") for spec in self.specs)
        return every and not (beyond and any(kernel.precomputed for kernel in self.kernels))

    def check_columns(self, n_roots: int) -> None:
        """Refuse the columns of a view as its basis where they are too many."""
        for view, spec in zip(self.views, self.specs, strict=True):
            columns = self.features.shape[1] if view.columns is None else len(view.columns)
            check_column_basis(spec, columns, n_roots)

    def width_choices(self) -> list[list[float | None]]:
        """The kernel widths to try, one per view; views that are tuned go through theirs together."""
        choices: list[tuple[float | None, ...]] = []
        for position, (kernel, asked) in enumerate(zip(self.kernels, self.widths, strict=True)):
            if not kernel.has_width:
                choices.append((None,))
            elif isinstance(asked, str):
                scale = self._scale(position)
                choices.append(
                    tuple(
                        float(scale * step) for step in (GAMMA_STEPS if asked == "tune" else (1.0,))
                    )
                )
            else:
                choices.append(asked if isinstance(asked, tuple) else (asked,))
        lengths = {len(choice) for choice in choices if len(choice) > 1}
        if len(lengths) > 1:
            raise ValueError(
                "gamma: views that are tuned together need equally many candidates, got"
                f" {sorted(lengths)}."
            )
        steps = range(max(lengths, default=1))
        return [
            [choice[step] if len(choice) > 1 else choice[0] for choice in choices] for step in steps
        ]

    def view_data(
        self,
        choices: Sequence[Sequence[float | None]],
        problems: Sequence[Any],
        groups: Sequence[Index] | None,
    ) -> Iterator[list[ViewData]]:
        """The views of the data with every choice of kernel widths.

        Parameters
        ----------
        choices : one width per view each
        problems : of every view, with all columns of X
        groups : as in `ViewData`, per view
        """
        for widths in choices:
            data = []
            for position, (view, problem) in enumerate(zip(self.views, problems, strict=True)):
                basis, rows = self._basis(position, widths[position])
                group = None if groups is None else groups[position]
                data.append(ViewData(problem, basis, view.columns, view.penalty, group, rows))
            yield data

    def seen_problems(self, problems: Sequence[Any]) -> list[Any]:
        """Every view's problem with the columns that the view sees."""
        return [
            problem.with_features(values)
            for problem, values in zip(problems, self.scored, strict=True)
        ]

    def _scale(self, position: int) -> float:
        """gamma="scale" of a view: from its scored rows and the unscored ones that may serve as
        basis.
        """
        numbers, features = self._candidates(position)
        if self.weights is None:
            return float(scale_gamma(features, None))
        inside = numbers < self.n_rows  # rows of `unscored=` have no weights
        weights = np.where(inside, to_numpy(self.weights)[np.where(inside, numbers, 0)], 1.0)
        return float(scale_gamma(features, like(weights, self.weights)))

    def _candidates(self, position: int) -> tuple[Index, Array]:
        """Row numbers and features of a view's scored rows and the sampled unscored ones."""
        index, scored = self.index[position], self.scored[position]
        rows = candidate_rows(index, _size(self.specs[position], len(index)), self.seed)
        features = [scored if len(rows) == len(index) else take(scored, rows)]
        numbers = [index[rows]]
        if self.other_features is not None:
            features.append(_beside(_seen(self.other_features, self.views[position]), features[0]))
            numbers.append(self.others)
        return np.concatenate(numbers), stack_rows(features)

    def _basis(self, position: int, width: float | None) -> tuple[Basis, Index | None]:
        """A view's basis and its row numbers."""
        spec, view, kernel = self.specs[position], self.views[position], self.kernels[position]
        scored = self.scored[position]
        if width is not None:
            kernel = replace(kernel, gamma=width)
        if is_named(spec, "features"):
            reference = np.empty(0) if is_sparse(scored) else scored[:1, :1]
            return FeatureBasis(scored.shape[1], reference), None
        if is_named(spec, "scored"):
            return _kernel_basis(kernel, self.index[position], scored), self.index[position]
        if not isinstance(spec, int | str):
            rows = np.asarray(spec)
            return _kernel_basis(kernel, rows, _seen(take(self.features, rows), view)), rows
        numbers, features = self._candidates(position)
        if kernel.precomputed:
            inside = np.flatnonzero(numbers < self.n_rows)
            if len(inside) < len(numbers):
                numbers, features = numbers[inside], take(features, inside)
        if isinstance(spec, str):
            return _kernel_basis(kernel, numbers, features), numbers
        rng = np.random.default_rng([self.seed, position])
        pool = (
            kernel.block(features, basis_points(kernel, features, numbers))
            if kernel.precomputed
            else features
        )
        chosen = choose_rows(kernel, pool, min(spec, len(numbers)), self.selection, rng)
        return _kernel_basis(kernel, numbers[chosen], take(features, chosen)), numbers[chosen]


def _kernel_basis(kernel: Kernel, numbers: Index, features: Array) -> KernelBasis:
    if not kernel.precomputed:
        return KernelBasis(kernel, features)
    points = basis_points(kernel, features, numbers)
    return KernelBasis(kernel, points, kernel.block(features, points))


def _seen(features: Array, view: View) -> Array:
    """The columns that a view sees."""
    return features if view.columns is None else select(features, view.columns)


def asked_bases(learner: Any, views: Sequence[View]) -> list[Any]:
    """What every view was asked to take as its basis."""
    given = [learner.basis for _ in views]
    nested = isinstance(learner.basis, list | tuple) and len(learner.basis) > 0
    if learner._several and nested and all(np.ndim(rows) == 1 for rows in learner.basis):
        if len(learner.basis) != len(views):
            raise ValueError(
                f"basis lists rows for {len(learner.basis)} views, but there are {len(views)}."
            )
        given = list(learner.basis)
    return [
        spec if view.basis is None else view.basis for view, spec in zip(views, given, strict=True)
    ]


def check_column_basis(spec: Any, columns: int, n_roots: int) -> None:
    """Refuse the columns as basis where their square matrix is too large and rows are more than
    columns.
    """
    if is_named(spec, "features") and n_roots > columns > MAX_COLUMNS:
        raise ValueError(
            f"basis='features' with {columns} columns needs a square matrix of that size; "
            "use basis='auto' or a number of basis rows."
        )


def refuse_precomputed(views: Sequence[View]) -> None:
    """Refuse a precomputed kernel on rows of a scan."""
    if any(is_named(view.kernel, "precomputed") for view in views):
        raise ValueError(
            "kernel='precomputed' needs all kernel values in memory; a scan holds features."
        )


def n_candidates(asked: Sequence[Any]) -> int:
    """How many rows of a scan may be needed as basis."""
    whole = any(is_named(spec, "all") for spec in asked)
    return max([MAX_WHOLE_SCAN if whole else 0, *(_limit(spec) for spec in asked)])


def check_scanned(asked: Sequence[Any], n_rows: int) -> None:
    """Refuse a basis of all rows where they are too many."""
    if n_rows > MAX_WHOLE_SCAN and any(is_named(spec, "all") for spec in asked):
        raise ValueError(
            f"basis='all' would take {n_rows:,} rows of a scan, whose kernel matrix has"
            f" {n_rows**2:,} entries; give a number of basis rows."
        )


def _limit(spec: Any) -> int:
    """How many candidates a basis is chosen from."""
    return candidate_limit(_size(spec, 0))


def _size(spec: Any, n: int) -> int:
    if isinstance(spec, str):
        return AUTO_SIZE if spec == "auto" else n
    return int(spec) if isinstance(spec, int | np.integer) else int(np.size(spec))


def _beside(features: Array, reference: Array) -> Array:
    """The rows with the precision of a reference."""
    if is_sparse(features) or is_sparse(reference):
        return features
    return namespace(reference).asarray(
        like(features, reference, str(reference.dtype).rpartition(".")[2])
    )
