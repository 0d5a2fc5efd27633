"""DifferenceGP: a Gaussian process on score differences within queries, or on observed margins,
exact ([Tsivtsivadze2009] section 5).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from corank.core.arrays import Array, FloatArray, Index, in_one_thread
from corank.core.basis import KernelBasis
from corank.core.observations import ComparedRows, ScoredRows
from corank.inputs import read_score_columns
from corank.learners.base import ComparisonMixin, RankerMixin
from corank.learners.gaussian_process import EvidenceLearner, EvidenceParameters
from corank.learners.update import Kept
from corank.model_files.schema import DIFFERENCE_PROCESS
from corank.solve.differences import Contrasts, spread_of
from corank.solve.expectation_propagation import joined_items
from corank.solve.function import Span
from corank.solve.posterior import MAX_ONE_THREAD_POINTS, GaussianPart
from corank.solve.systems import DualSystem, PrimalSystem
from corank.solve.tuning import Training


@dataclass(eq=False, repr=False)
class DifferenceGP(RankerMixin, ComparisonMixin, EvidenceParameters, EvidenceLearner):
    r"""A Gaussian process on score differences within queries, or on observed margins; exact.

    .. math:: s_i - s_j = f(x_i) - f(x_j) + \varepsilon_i - \varepsilon_j, \qquad f \sim N(0,
              \texttt{amplitude} \cdot k), \quad \varepsilon \sim N(0, \texttt{noise})

    Its mean is that of `RankRLS` with ``alpha = noise / amplitude`` and weighting "size". Width,
    amplitude and noise are those of largest evidence, taken on the within-query contrasts: pairs of
    scores are not independent of each other. After the section on Gaussian processes of
    Tsivtsivadze, Cseke and Heskes, "Kernel Principal Component Ranking", which takes them for
    independent.

    Parameters
    ----------
    amplitude : "tune" or float, default="tune"
        Variance of the function.
    gamma : "tune", "columns", "scale" or float, default="tune"
        Kernel width; "columns" learns one a column (rbf), which says which columns matter.
    noise : "tune" or float, default="tune"
        Variance of the noise of one score in `fit`, of one observed difference in
        `fit_comparisons`.
    basis : "auto", "all", int or row indices, default="auto"
        The rows whose kernels span the function. "auto": all up to 2,000, else 500 of them.
    kernel, degree, coef0, kernel_params, basis_selection, random_state
        As in `RLS`.

    Attributes
    ----------
    coef_ : (r,) coefficients of the basis functions
    basis_, basis_points_ : row numbers of the basis in X, and those rows
    amplitude_, noise_, gamma_ : the values used; for gamma="columns" ``gamma_`` is (d,)
    alpha_ : float, ``noise_ / amplitude_``: that of `RankRLS` with the same mean
    log_evidence_ : float

    Notes
    -----
    O(n³) a width for n rows, all amplitudes and noises from one eigendecomposition; O(n r²) on a
    basis of r rows. With weights the log evidence is up to a constant, which depends on the weights
    alone.

    Examples
    --------
    >>> from corank import DifferenceGP
    >>> from corank.datasets import make_ranking
    >>> data = make_ranking(n_queries=10, query_size=8, random_state=0)
    >>> model = DifferenceGP().fit(data.X, data.y, qid=data.qid)
    >>> mean, std = model.predict(data.X, return_std=True)
    >>> bool((std > 0).all())
    True
    """

    amplitude: Any = "tune"
    gamma: Any = "tune"
    noise: Any = "tune"
    basis: Any = "auto"

    contents = DIFFERENCE_PROCESS

    @property
    def _answer_noise(self) -> float:
        return self.noise_ * (2.0 if self._kind == "score" else 1.0)

    def _fit_training(self, training: Training) -> Self:
        amplitude = self._variance("amplitude")
        noise = self._variance("noise")
        basis, rows, widths = self._start(training)
        problem = training.problem
        if isinstance(problem, ComparedRows):
            self._kind = "comparison"
            compared = problem
            tied = not problem.margins.any()
        else:
            self._kind = "score"
            compared = None
            tied = problem.is_tied
        if tied:
            amplitude = amplitude or 1.0
            noise = noise or 1.0
            widths = "given"
        contrasts = Contrasts(problem, basis, amplitude, noise, dual=isinstance(self.basis, str))
        with in_one_thread(problem.reference, wanted=basis.size <= MAX_ONE_THREAD_POINTS):
            learned = contrasts.learn(widths)
        self._keep_counts(training)
        self.amplitude_ = learned.amplitude
        self.noise_ = learned.noise
        self.log_evidence_ = learned.log_evidence
        alpha = learned.noise / learned.amplitude
        system = learned.system
        self._n_comparisons = 0 if compared is None else len(compared.margins)
        self._compared = None if basis.kernel.precomputed else compared
        self.alpha_ = alpha
        self.path_ = None
        self._kept = Kept.of(system, None)
        self._keep_process(system, rows)
        self._warn_of_bounds(learned.at_bounds)
        return self

    def _keep_process(self, system: DualSystem | PrimalSystem, rows: Index | None) -> None:
        """Set the Gaussian process; `rows` are the row numbers of its basis."""
        basis = system.views[0].basis
        assert isinstance(basis, KernelBasis)
        coefficients = system.solve(self.alpha_)[0][:, 0]
        spread = spread_of(system, self.amplitude_, self.noise_)
        part = GaussianPart(1.0, basis.kernel, self.amplitude_, coefficients, spread)
        # sums of scored rows, to which others can be added, are those of a whitening
        view = system.views[0]
        summed = isinstance(system, PrimalSystem) and isinstance(view.problem, ScoredRows)
        whitening = basis.whitening if summed else None
        self._keep_parts([part], Span(basis.kernel, basis.points, rows=rows, whitening=whitening))

    def _grow(self, X: Any, y: Any, qid: Any, sample_weight: Any) -> None:
        system = self._grown(read_score_columns(self._read(X), y, qid, sample_weight))
        self._solve_again(system, system.views[0].rows)

    def _solve_again(self, system: DualSystem | PrimalSystem, rows: Index | None) -> None:
        """Solve for more rows with the parameters that were chosen before."""
        self.log_evidence_ = float(system.evidence().at(self.amplitude_, self.noise_))
        self._keep_process(system, rows)

    def _extend(
        self,
        features: Array,
        winners: Index,
        losers: Index,
        margins: FloatArray,
        weights: FloatArray,
    ) -> int:
        kept = self._compared
        assert kept is not None
        items, first, second = joined_items(kept.features, features, winners, losers)
        problem = ComparedRows(
            items,
            np.concatenate([kept.winners, first]),
            np.concatenate([kept.losers, second]),
            np.concatenate([kept.margins, margins]),
            np.concatenate([kept.weights, weights]),
            np.concatenate([kept.groups, np.full(len(margins), int(kept.groups.max()) + 1)]),
        )
        added = items.shape[0] - kept.features.shape[0]
        whole = len(self.coef_) == kept.features.shape[0] and isinstance(self.basis, str)
        basis = KernelBasis(self._kernel, items if whole else self.basis_points_)
        system = Contrasts(problem, basis, self.amplitude_, self.noise_, dual=whole).system(
            self._kernel
        )
        self._compared = problem
        self._n_comparisons = len(problem.margins)
        rows = self.basis_
        if whole:
            rows = np.concatenate([rows, self._n_seen + np.arange(added)])
        self._solve_again(system, rows)
        return int(added)
