"""Parameters of learners that choose by evidence: kernel width, variances, and a basis whose covariance can be had."""

from __future__ import annotations

from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from corank._backend import Array, is_sparse, namespace, to_numpy
from corank._warnings import warn_user
from corank.basis import KernelBasis, make_basis
from corank.kernels import WITH_GAMMA, Kernel
from corank.learners.asking import Question
from corank.learners.gaussian import GaussianMixin
from corank.learners.learner import PRECOMPUTED
from corank.learners.parameters import check_choice, seed
from corank.learners.single import SingleLearner, comparison_groups
from corank.problem import FloatArray
from corank.rows import read_comparisons, read_features
from corank.solvers.fit import Training, kernels_to_try
from corank.statistics import Index

WIDTHS = {"tune": "one", "columns": "each", "scale": "given"}
MOST_COLUMNS = 500  # that can have a width of their own
IDLE = 1e-3  # the scale of a column that never changes


class EvidenceLearner(GaussianMixin, SingleLearner):
    """A Gaussian process whose kernel is learned from the evidence. A learner adds its likelihood."""

    _auto_basis = (2_000, 500)  # items up to which all of them span the function; how many do beyond
    scoring = None  # the evidence takes the place of held-out errors
    _kind: Question  # what it was fitted on
    _n_comparisons: int

    @property
    def _asked(self) -> Question:
        return self._kind

    def _variance(self, name: str) -> float | None:
        """The parameter of that name as a variance, None to learn it."""
        value = getattr(self, name)
        if isinstance(value, str):
            check_choice(value, name, ("tune",))
            return None
        if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < np.inf:
            raise ValueError(f"{name} must be 'tune' or a number greater than 0, got {value!r}.")
        return float(value)

    def _start(self, training: Training) -> tuple[KernelBasis, Index, str]:
        """The basis with the kernel to begin with, its rows in X, and which widths are learned: given, one, each."""
        kernel, widths = self._read_kernel(training), self._widths()
        if widths == "each" and kernel.name != "rbf":
            raise ValueError(f"gamma='columns' goes with kernel='rbf' only, got kernel={self.kernel!r}.")
        if not (isinstance(kernel.name, str) and kernel.name in WITH_GAMMA):
            widths = "given"
        columns = int(training.everything.shape[1])
        if widths == "each" and columns > MOST_COLUMNS:
            raise ValueError(
                f"gamma='columns' learns one width a column, but X has {columns:,}; use gamma='tune', or at most "
                f"{MOST_COLUMNS} columns."
            )
        spec = self._basis_rows(training)
        if isinstance(spec, str) and spec == "features":
            raise ValueError("basis='features' does not go with Gaussian processes; use kernel='linear' alone.")
        own_seed = seed(self.random_state)
        gamma = "scale" if isinstance(self.gamma, str) else float(self.gamma)
        kernel = kernels_to_try(training, kernel, gamma, spec, own_seed)[0]
        features = training.problem.features
        basis, rows = make_basis(
            spec, kernel, features, training.index, training.everything, self.basis_selection, own_seed
        )
        assert isinstance(basis, KernelBasis)
        assert rows is not None
        if not kernel.precomputed and not is_sparse(features):
            kernel = self._without_constants(kernel, features, widths)
        return replace(basis, kernel=kernel), rows, widths

    def _without_constants(self, kernel: Kernel, features: Array, widths: str) -> Kernel:
        """Columns that never change start, and stay, near 0 where every column has a width of its own."""
        xp = namespace(features)
        varies = to_numpy(xp.max(features, axis=0) > xp.min(features, axis=0))
        if not varies.any():
            warn_user("X: all columns are constant over the rows that count, so nothing can be learned from them.")
        if widths != "each" or varies.all():
            return kernel
        return replace(kernel, scales=tuple(1.0 if own else IDLE for own in varies))

    def _widths(self) -> str:
        if isinstance(self.gamma, str):
            check_choice(self.gamma, "gamma", tuple(WIDTHS))
            return WIDTHS[self.gamma]
        gamma: Any = self.gamma
        if isinstance(gamma, bool) or not isinstance(gamma, Real) or not 0 < float(gamma) < np.inf:
            raise ValueError(f"gamma must be 'tune', 'columns', 'scale' or a number greater than 0, got {gamma!r}.")
        return "given"

    def _set_kernel(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self.gamma_: Any = kernel.gamma
        if kernel.scales is not None:
            assert kernel.gamma is not None
            self.gamma_ = kernel.gamma * np.asarray(kernel.scales) ** 2

    # ---------------------------------------------------------------- update

    def _read_answers(
        self, X: Any, winners: Any, losers: Any, margins: Any, weights: Any, qid: Any
    ) -> tuple[Array, Index, Index, FloatArray, FloatArray]:
        """Comparisons for a fitted model, checked: items, winners, losers, margins, weights."""
        check_is_fitted(self)
        if self._kernel.precomputed:
            raise ValueError(PRECOMPUTED)
        if self._kind == "score":
            raise ValueError("update_comparisons: this model was fitted on scores; use update.")
        if (qid is not None) != self._with_queries:
            how = "with" if self._with_queries else "without"
            raise ValueError(f"qid must be given to update_comparisons as it was to fit: {how} qid.")
        features = read_features(self, self._encoded(X), reset=False)
        n = int(features.shape[0])
        first, second, size, weight = read_comparisons(winners, losers, margins, weights, n, X)
        comparison_groups(first, second, n, qid)  # refuses those between two queries
        return features, first, second, size, weight

    def _why_fixed(self) -> str:
        if self._kernel.precomputed:
            return PRECOMPUTED
        return "update adds scored rows, but this model was fitted on comparisons; use update_comparisons."

    def _warn_of_bounds(self, names: tuple[str, ...]) -> None:
        for name in names:
            warn_user(
                f"{name} was tuned to the end of its range: the data do not determine it. Give {name} a number, or give "
                "more data."
            )
