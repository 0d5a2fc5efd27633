"""Parameters of learners that choose by evidence: kernel width, variances, and a basis whose covariance can be had."""

from __future__ import annotations

from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np

from corank._warnings import warn_user
from corank.basis import KernelBasis, make_basis
from corank.kernels import WITH_GAMMA, Kernel
from corank.learners.gaussian import GaussianMixin
from corank.learners.parameters import check_choice, seed
from corank.learners.single import SingleLearner
from corank.solvers.fit import Training, kernels_to_try
from corank.statistics import Index

WIDTHS = {"tune": "one", "columns": "each", "scale": "given"}


class EvidenceLearner(GaussianMixin, SingleLearner):
    """A Gaussian process whose kernel is learned from the evidence. A learner adds its likelihood."""

    _auto_basis = (2_000, 500)  # items up to which all of them span the function; how many do beyond
    scoring = None  # the evidence takes the place of held-out errors

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
        if widths == "each":
            kernel = replace(kernel, scales=(1.0,) * int(features.shape[1]))
        return replace(basis, kernel=kernel), rows, widths

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

    def _warn_of_bounds(self, names: tuple[str, ...]) -> None:
        for name in names:
            warn_user(
                f"{name} was tuned to the end of its range: the data do not determine it. Give {name} a number, or give "
                "more data."
            )
