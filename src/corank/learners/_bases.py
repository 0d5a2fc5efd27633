"""The bases of several views: which rows, scored and unscored, span each view's functions, and how wide its kernel is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from corank._arrays import Array, Index, is_sparse, like, namespace, take, to_numpy
from corank._messages import warn_user
from corank.basis import (
    AUTO_SIZE,
    Basis,
    BasisNotice,
    FeatureBasis,
    KernelBasis,
    candidate_limit,
    candidate_rows,
    check_basis,
    choose_rows,
    resolve_basis,
)
from corank.kernels import WITH_GAMMA, Kernel, basis_points, check_precomputed, scale_gamma
from corank.learners._learner import candidates, read_kernel
from corank.solvers.tuning import GAMMA_STEPS
from corank.unscored import HeldRows, UnscoredRows, stack_rows
from corank.views import View, select

MOST_WHOLE = 20_000  # rows of a scan that basis="all" takes: their kernel matrix is 3 GB


@dataclass(frozen=True)
class BasisPool:
    """Unscored rows that may serve as basis: row numbers (X first, then `unscored=`) and all their columns."""

    numbers: Index
    features: Array | None
    n_unscored: int


@dataclass(frozen=True)
class BasisMaker:
    """Makes every view's basis for a kernel width.

    specs : one a view, checked; "all" and "scored" as they are, a number of rows, row numbers, or "features"
    index : (n_v,) a view, the row numbers of its scored rows
    """

    views: Sequence[View]
    kernels: Sequence[Kernel]
    specs: Sequence[Any]
    index: Sequence[Index]
    features: Array
    weights: Array | None
    pool: BasisPool
    in_memory: bool
    selection: Any
    seed: int

    @classmethod
    def of(
        cls,
        learner: Any,
        features: Array,
        weights: Array | None,
        index: Sequence[Index],
        rows: UnscoredRows,
    ) -> BasisMaker:
        """Check the learner's basis and kernels against the rows, and draw the candidates."""
        views: list[View] = learner.views_
        kernels = [read_kernel(v.kernel, learner.degree, learner.coef0, learner.kernel_params) for v in views]
        asked = asked_bases(learner)
        own_seed = learner._seed
        n, n_rows = max(len(own) for own in index), int(features.shape[0])
        m = rows.n_rows
        whole = any(isinstance(spec, str) and spec == "all" for spec in asked)
        limit = max((_limit(spec) for spec in asked), default=0)
        numbers, sample = rows.sample(m if whole else max(limit - n, 0), own_seed)
        specs = []
        # views that were drawn and see all columns differ in their rows only, also where a number of views was asked for
        drawn = not isinstance(learner.views, list | tuple) and len(views) > 1
        different = drawn and all(len(view.columns) == features.shape[1] for view in views)
        for position, (view, kernel, spec) in enumerate(zip(views, kernels, asked, strict=True)):
            checked = check_basis(spec, n_rows, n + m)
            resolved = resolve_basis(checked, n + m)
            if isinstance(checked, str) and checked == "auto" and isinstance(resolved, int):
                warn_user(f"basis='auto' takes {resolved} of {n + m} rows as basis of {view.name}.", BasisNotice)
            if isinstance(resolved, str) and resolved == "features" and kernel.name != "linear":
                raise ValueError(f"basis='features' needs kernel='linear', got kernel={kernel.name!r} in {view.name}.")
            if kernel.precomputed:
                check_precomputed(select(features, view.columns))
            if different and isinstance(resolved, str) and resolved == "scored":
                rng = np.random.default_rng([own_seed, position])
                size = max(1, len(index[position]) // len(views))
                resolved = np.sort(rng.choice(index[position], size=size, replace=False))
            elif different and isinstance(resolved, str) and resolved != "features":
                resolved = max(1, (n + m) // len(views))
            specs.append(resolved)
        return cls(
            views=views,
            kernels=kernels,
            specs=specs,
            index=index,
            features=features,
            weights=weights,
            pool=BasisPool(numbers, sample, m),
            in_memory=all(isinstance(part, HeldRows) for part in rows.parts),
            selection="random" if different else learner.basis_selection,
            seed=own_seed,
        )

    @property
    def n_rows(self) -> int:
        """Rows of X."""
        return int(self.features.shape[0])

    @property
    def dual(self) -> bool:
        """Whether every view's basis is all its scored and all unscored rows."""
        every = all(isinstance(spec, str) and spec == "all" for spec in self.specs)
        beyond = bool((self.pool.numbers >= self.n_rows).any())
        return every and not (beyond and any(kernel.precomputed for kernel in self.kernels))

    def widths(self) -> Iterator[list[float | None]]:
        """The kernel widths to try, one a view; views that are tuned go through theirs together."""
        own: list[tuple[float | None, ...]] = []
        for position, (view, kernel) in enumerate(zip(self.views, self.kernels, strict=True)):
            if not (isinstance(kernel.name, str) and kernel.name in WITH_GAMMA):
                own.append((None,))
                continue
            asked = candidates(view.gamma, f"gamma of {view.name}", ("scale", "tune"))
            if isinstance(asked, float):
                own.append((asked,))
            elif isinstance(asked, tuple):
                own.append(asked)
            else:
                scale = self._scale(position)
                own.append(tuple(float(scale * step) for step in (GAMMA_STEPS if asked == "tune" else (1.0,))))
        lengths = {len(choice) for choice in own if len(choice) > 1}
        if len(lengths) > 1:
            raise ValueError(
                f"gamma: views that are tuned together need equally many candidates, got {sorted(lengths)}."
            )
        for step in range(max(lengths, default=1)):
            yield [choice[step] if len(choice) > 1 else choice[0] for choice in own]

    def _scale(self, position: int) -> float:
        scored = select(take(self.features, self.index[position]), self.views[position].columns)
        numbers, features = self._candidates(position, scored)
        return float(scale_gamma(features, self._weights_of(numbers)))

    def _weights_of(self, numbers: Index) -> Array | None:
        """Of rows of X as they were given, 1 for those of `unscored=`."""
        if self.weights is None:
            return None
        known = numbers < self.n_rows
        own = to_numpy(self.weights)[np.where(known, numbers, 0)]
        return like(np.where(known, own, 1.0), self.weights)

    def _candidates(self, position: int, scored: Array) -> tuple[Index, Array]:
        """Row numbers and features of a view's scored rows and the sampled unscored ones."""
        columns, index = self.views[position].columns, self.index[position]
        rows = candidate_rows(index, _size(self.specs[position], len(index)), self.seed)
        parts = [scored if len(rows) == len(index) else take(scored, rows)]
        numbers = [index[rows]]
        if self.pool.features is not None:
            parts.append(_beside(select(self.pool.features, columns), parts[0]))
            numbers.append(self.pool.numbers)
        return np.concatenate(numbers), stack_rows(parts)

    def basis(self, position: int, scored: Array, width: float | None) -> tuple[Basis, Index | None]:
        """A view's basis and its row numbers; `scored` are its scored rows (n_v, d_v)."""
        spec, view = self.specs[position], self.views[position]
        kernel = replace(self.kernels[position], gamma=width) if width is not None else self.kernels[position]
        if isinstance(spec, str) and spec == "features":
            reference = np.empty(0) if is_sparse(scored) else scored[:1, :1]
            return FeatureBasis(len(view.columns), reference), None
        if isinstance(spec, str) and spec == "scored":
            return self._on(kernel, view, self.index[position], scored), self.index[position]
        if not isinstance(spec, int | str):
            rows = np.asarray(spec)
            return self._on(kernel, view, rows, select(take(self.features, rows), view.columns)), rows
        numbers, features = self._candidates(position, scored)
        if kernel.precomputed:
            known = numbers < self.n_rows
            numbers, features = numbers[known], take(features, np.flatnonzero(known))
        if isinstance(spec, str):
            return self._on(kernel, view, numbers, features), numbers
        rng = np.random.default_rng([self.seed, position])
        pool = kernel.block(features, basis_points(kernel, features, numbers)) if kernel.precomputed else features
        chosen = choose_rows(kernel, pool, min(spec, len(numbers)), self.selection, rng)
        return self._on(kernel, view, numbers[chosen], take(features, chosen)), numbers[chosen]

    def _on(self, kernel: Kernel, view: View, numbers: Index, features: Array) -> KernelBasis:
        points = basis_points(kernel, features, numbers) if kernel.precomputed else features
        return KernelBasis(kernel, points, kernel.block(features, points) if kernel.precomputed else None)


def asked_bases(learner: Any) -> list[Any]:
    """What every view was asked to take as its basis."""
    views: list[View] = learner.views_
    asked = [learner.basis if view.basis is None else view.basis for view in views]
    if _is_list_of_lists(learner.basis):
        if len(learner.basis) != len(views):
            raise ValueError(f"basis lists rows for {len(learner.basis)} views, but there are {len(views)}.")
        asked = [own if view.basis is None else view.basis for view, own in zip(views, learner.basis, strict=True)]
    return asked


def candidates_of(asked: Sequence[Any]) -> int:
    """How many rows of a scan may be needed as basis."""
    whole = any(isinstance(spec, str) and spec == "all" for spec in asked)
    return max([MOST_WHOLE if whole else 0, *(_limit(spec) for spec in asked)])


def check_scanned(asked: Sequence[Any], n_rows: int) -> None:
    """Refuse a basis of all rows where they are too many."""
    if n_rows > MOST_WHOLE and any(isinstance(spec, str) and spec == "all" for spec in asked):
        raise ValueError(
            f"basis='all' would take {n_rows:,} rows of a scan, whose kernel matrix has {n_rows**2:,} entries; give a "
            "number of basis rows."
        )


def _limit(spec: Any) -> int:
    """How many candidates a basis is chosen from."""
    return candidate_limit(_size(spec, 0))


def _size(spec: Any, n: int) -> int:
    if isinstance(spec, str):
        return AUTO_SIZE if spec == "auto" else n
    return int(spec) if isinstance(spec, int | np.integer) else int(np.size(spec))


def _is_list_of_lists(basis: Any) -> bool:
    return isinstance(basis, list | tuple) and len(basis) > 0 and all(np.ndim(own) == 1 for own in basis)


def _beside(features: Array, reference: Array) -> Array:
    """The same rows with the precision of a reference."""
    if is_sparse(features) or is_sparse(reference):
        return features
    return namespace(reference).asarray(like(features, reference, str(reference.dtype).rpartition(".")[2]))
