"""Gaussian processes on score differences: what they share with those on comparisons, and
DifferenceGP, exact on differences within queries or on observed margins ([Tsivtsivadze2009] section
5).

`EvidenceLearner` has what follows from a posterior, the parameters of learners that are fitted by
evidence (kernel width, variances, a basis whose covariance can be had) and what an update checks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from corank.core.arrays import (
    Array,
    FloatArray,
    Index,
    in_one_thread,
    is_foreign,
    is_sparse,
    like,
    namespace,
    to_numpy,
    with_precision_of,
)
from corank.core.basis import KernelBasis, basis_candidates, make_basis
from corank.core.kernels import MEAN_DISTANCE, Kernel, is_named
from corank.core.messages import warn_user
from corank.core.observations import ComparedRows, ScoredRows
from corank.inputs import comparison_groups, read_comparisons, read_score_columns
from corank.learners.base import PRECOMPUTED, OneViewLearner, RankerMixin
from corank.learners.comparisons import ComparisonMixin
from corank.learners.parameters import (
    check_choice,
    is_per_column,
    read_column_widths,
    seed,
)
from corank.learners.update import FittedRows, Kept
from corank.model_files.schema import DIFFERENCE_PROCESS
from corank.solve.differences import Contrasts, spread_of
from corank.solve.expectation_propagation import joined_items
from corank.solve.function import Expansion, Function, Span
from corank.solve.posterior import (
    MAX_ONE_THREAD_POINTS,
    GaussianPart,
    KernelProcess,
    Posterior,
    Widths,
)
from corank.solve.questions import ask
from corank.solve.systems import DualSystem, PrimalSystem
from corank.solve.tuning import ChosenViews, Settings, Training, kernels_to_try
from corank.solve.widths import with_learned_widths

BLOCK_ENTRIES = 2**22  # kernel values at a time: 32 MB
# however many basis points there are: smaller blocks cost more than their memory
MIN_BLOCK_ROWS = 64
# the scale of a column that never changes, which no width can be learned for
CONSTANT_COLUMN_SCALE = 1e-3
WIDTHS: dict[str, Widths] = {
    "tune": "one",
    "columns": "each",
    "scale": "given",
    MEAN_DISTANCE: "given",
}


@dataclass(eq=False, repr=False, kw_only=True)
class EvidenceParameters:
    """Parameters that Gaussian processes share, beside those that they learn from the evidence."""

    kernel: Any = "rbf"
    degree: float = 3
    coef0: float = 1
    kernel_params: Any = None
    basis_selection: Any = "pivoted"
    random_state: Any = None


class EvidenceLearner(OneViewLearner):
    """A Gaussian process whose kernel is learned from the evidence. A learner adds its likelihood.

    Its function has a Gaussian posterior, or a mixture of a few of them: the fitted `_parts`, on
    `basis_points_`.
    """

    has_posterior = has_evidence = suggests = updates_comparisons = True
    takes = frozenset({"return_std", "return_cov"})

    # items up to which all of them span the function; how many do beyond
    _auto_basis = (2_000, 500)
    scoring = None  # the evidence takes the place of held-out errors
    weighting = "size"  # of scores, where they are compared
    _parts: list[GaussianPart]

    def _variance(self, name: str) -> float | None:
        """The parameter of that name as a variance, None to learn it."""
        value = getattr(self, name)
        if isinstance(value, str):
            check_choice(value, name, ("tune",))
            return None
        if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < np.inf:
            raise ValueError(f"{name} must be 'tune' or a number greater than 0, got {value!r}.")
        return float(value)

    def _start(self, training: Training) -> tuple[KernelBasis, Index, Widths]:
        """The basis, with the kernel at the start of the search, its rows in X, and which widths
        are learned.
        """
        widths, per_column = self._widths(), is_per_column(self.gamma)
        kernel = self._read_kernel(training, per_column=per_column)
        if per_column:
            kernel = read_column_widths(kernel, self.gamma, training.everything.shape[1])
        if per_column and kernel.name != "rbf":  # the search for others is that of RankRLS
            kernel = with_learned_widths(training.problem, kernel, seed(self.random_state))
        if not kernel.has_width or kernel.scales is not None:
            widths = "given"
        spec = self._basis_rows(training)
        if is_named(spec, "features"):
            raise ValueError(
                "basis='features' does not go with Gaussian processes; use kernel='linear' alone."
            )
        basis_seed = seed(self.random_state)
        if kernel.scales is None:
            gamma = self.gamma if isinstance(self.gamma, str) else float(self.gamma)
            gamma = gamma if widths == "given" else "scale"
            kernel = kernels_to_try(training, kernel, gamma, spec, basis_seed)[0]
        features = training.problem.features
        chosen_from, index = basis_candidates(
            spec, features, training.index, training.everything, basis_seed
        )
        basis, rows = make_basis(spec, kernel, chosen_from, index, self.basis_selection, basis_seed)
        assert isinstance(basis, KernelBasis)
        assert rows is not None
        if not kernel.precomputed and not is_sparse(features) and features.dtype != object:
            kernel = self._without_constants(kernel, features, widths)
        return replace(basis, kernel=kernel), rows, widths

    def _without_constants(self, kernel: Kernel, features: Array, widths: Widths) -> Kernel:
        """The kernel with columns that never change near 0, where they stay, if every column has a
        width of its own.
        """
        xp = namespace(features)
        varies = to_numpy(xp.max(features, axis=0) > xp.min(features, axis=0))
        if not varies.any():
            warn_user(
                "X: all columns are constant over the rows that count, so nothing can be learned"
                " from them."
            )
        if widths != "each" or varies.all():
            return kernel
        scales = np.where(varies, 1.0, CONSTANT_COLUMN_SCALE)
        return replace(kernel, scales=tuple(scales.tolist()))

    def _widths(self) -> Widths:
        """Which kernel widths `gamma` asks to learn."""
        if isinstance(self.gamma, str):
            check_choice(self.gamma, "gamma", tuple(WIDTHS))
            return WIDTHS[self.gamma]
        gamma: Any = self.gamma
        if is_per_column(gamma):
            return "given"
        if isinstance(gamma, bool) or not isinstance(gamma, Real) or not 0 < float(gamma) < np.inf:
            raise ValueError(
                "gamma must be 'tune', 'columns', 'scale', 'mean-distance' or a number greater than 0, or an array"
                f" of one per column, got {gamma!r}."
            )
        return "given"

    def _keep_parts(self, parts: list[GaussianPart], span: Span) -> None:
        """Set the Gaussians, of which the first is that of the best width, and their mean."""
        self._parts = parts
        expansions = [
            Expansion(replace(span, kernel=part.kernel), part.coefficients, part.weight)
            for part in parts
        ]
        self.function_ = Function(tuple(expansions))

    def _restored_function(self, values: dict[str, Any]) -> Function:
        (best,) = super()._restored_function(values).parts
        self._keep_parts(values.pop("_parts"), best.span)
        return self.function_

    def update_comparisons(
        self,
        X: Any,
        winners: Any,
        losers: Any,
        *,
        margins: Any = None,
        weights: Any = None,
        qid: Any = None,
    ) -> Self:
        """Add comparisons to a model that was fitted on comparisons; kernel, amplitude and noise
        stay.

        Parameters
        ----------
        X : (n, d) items; those with the very features of items of the model are those items
        winners, losers : (p,) row numbers of this X, or labels of its index
        margins, weights : (p,) as in `fit_comparisons`
        qid : (n,) as in `fit_comparisons`, needed where the model was fitted with it

        Returns
        -------
        self
        """
        return self._add(X, winners, losers, margins, weights, qid)

    def _add(
        self, X: Any, winners: Any, losers: Any, margins: Any, weights: Any, qid: Any, **more: Any
    ) -> Self:
        self._check_answers(margins, weights)
        check_is_fitted(self)
        if self._kernel.precomputed:
            raise ValueError(PRECOMPUTED)
        if self._kind == "score":
            raise ValueError("update_comparisons: this model was fitted on scores; use update.")
        if (qid is not None) != self._with_queries:
            how = "with" if self._with_queries else "without"
            raise ValueError(
                f"qid must be given to update_comparisons as it was to fit: {how} qid."
            )
        features = self._read(X)
        n = features.shape[0]
        first, second, size, weight = read_comparisons(winners, losers, margins, weights, n, X)
        comparison_groups(first, second, n, qid)  # refuses those between two queries
        n_added = self._extend(features, first, second, size, weight, **more)
        self._n_seen += n_added
        self._n_scored += n_added
        self._fitted_rows = None
        return self

    def _check_answers(self, margins: Any, weights: Any) -> None:
        """Refuse margins or weights that the likelihood has no place for."""

    def _extend(
        self,
        features: Array,
        winners: Index,
        losers: Index,
        margins: FloatArray,
        weights: FloatArray,
        **more: Any,
    ) -> int:
        """Add comparisons between items, and solve again; the number of items that are new."""
        raise AssertionError("a Gaussian process says how comparisons are added")

    def _why_fixed(self) -> str:
        if self._kernel.precomputed:
            return PRECOMPUTED
        return (
            "update adds scored rows, but this model was fitted on comparisons; use"
            " update_comparisons."
        )

    def _warn_of_bounds(self, names: tuple[str, ...]) -> None:
        """Say which parameters the search would have driven further."""
        for name in names:
            warn_user(
                f"{name} was tuned to the end of its range: the data do not determine it. Give"
                f" {name} a number, or give more data."
            )

    # ---------------------------------------------------------------- what follows from the posterior

    @property
    def knows_uncertainty(self) -> bool:
        """Whether it says so of new rows, which a precomputed kernel does not compare."""
        return not self._kernel.precomputed

    @property
    def _answer_noise(self) -> float:
        """The noise variance of one observed difference."""
        raise AssertionError("a Gaussian process says how noisy answers are")

    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False) -> Any:
        """Scores of the rows of X: the mean of the posterior, higher is better.

        Parameters
        ----------
        X : (n, d), as in `fit`; for the scores alone also a `corank.scan`
        return_std : whether to return the standard deviation of each score too
        return_cov : whether to return the covariance of all scores too

        Returns
        -------
        (n,), or a tuple of it and (n,) or (n, n), in the library, on the device and with the
        precision of X. The level of the scores is not determined by comparisons, so much of a
        standard deviation may be that of the level: for two items see `predict_comparison`.
        """
        if return_std and return_cov:
            raise ValueError(
                "return_std and return_cov: ask for one of them; the first is the root of the"
                " diagonal."
            )
        if not return_std and not return_cov:
            return super().predict(X)
        posterior, features = self.posterior_at(X, "return_cov" if return_cov else "return_std")
        if return_cov:
            mean, spread = posterior.covariance(features)
        else:
            mean, variance = posterior.moments(features)
            spread = namespace(variance).sqrt(variance)
        return self._scores(mean, features), with_precision_of(features, spread)

    def _words(self) -> dict[str, Any]:
        return {"items_are": "compared item" if self._kind == "comparison" else "item"}

    @property
    def _posterior(self) -> Posterior:
        processes = zip(self._parts, self.function_.parts, strict=True)
        step = BLOCK_ENTRIES // max(1, int(self._parts[0].coefficients.shape[0]))
        return Posterior(
            [KernelProcess(part, mean) for part, mean in processes],
            [part.weight for part in self._parts],
            self._answer_noise,
            block_rows=max(MIN_BLOCK_ROWS, step),
            answers_measure=self.knows_margins,
        )

    def posterior_at(self, X: Any, asked: str = "posterior_at") -> tuple[Posterior, Array]:
        """What is believed about the function, and the rows of X as it takes them.

        Parameters
        ----------
        X : (n, d), as in `predict`
        asked : what asks, for the error where the kernel is precomputed
        """
        features = self._read(X)
        if self._kernel.precomputed:
            raise ValueError(
                f"{asked} needs kernel values of the new rows with each other, which a precomputed"
                " kernel does not hand over; fit on the rows themselves with a kernel function."
            )
        return self._posterior, features

    def predict_comparison(self, X_a: Any, X_b: Any, observed: bool = False) -> Array:
        """The probability that row i of X_a beats row i of X_b.

        Parameters
        ----------
        X_a, X_b : (n, d)
        observed : whether to ask for the outcome of one more noisy comparison; else for the order
            of the true scores

        Returns
        -------
        (n,) between 0 and 1, as `predict` returns scores
        """
        posterior, first, second = self._both(X_a, X_b, "predict_comparison")
        chances = posterior.chances(first, second, observed=observed)
        return with_precision_of(first, like(chances, first))

    def _both(self, X_a: Any, X_b: Any, asked: str) -> tuple[Posterior, Array, Array]:
        """What is believed, and the rows of which row i is compared with row i."""
        posterior, first = self.posterior_at(X_a, asked)
        second = self._read(X_b)
        n = first.shape[0]
        if n != second.shape[0]:
            raise ValueError(
                f"X_a has {n} rows and X_b {second.shape[0]}; row i is compared with row i."
            )
        if is_foreign(first) != is_foreign(second):
            raise ValueError("X_a and X_b must come from one library: both tensors, or neither.")
        return posterior, first, second

    def suggest(self, X_pool: Any, n: int = 1, kind: str | None = None) -> Index:
        """What to ask next about the rows of a pool: the questions whose answers say most about the
        function.

        Comparisons are those about which the model is unsure because it knows too little, not
        because the two are equally good (BALD); scores are those that leave least uncertainty about
        all rows of the pool. Every question is picked as if those before it had been answered. The
        same pool gives the same questions. Of a large pool not all rows are looked at: for
        comparisons 1,000 with the largest uncertainty, for scores 2,000 that stand for all.

        Parameters
        ----------
        X_pool : (m, d) rows that could be asked about
        n : how many questions
        kind : "comparison" (which of two is better), "score" (how good is one); None = what the
            model was fitted on

        Returns
        -------
        row numbers of X_pool: (n, 2) for comparisons, (n,) for scores
        """
        posterior, features = self.posterior_at(X_pool, "suggest")
        return ask(posterior, features, self._kind if kind is None else kind, n)


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
    gamma : "tune", "columns", "scale", "mean-distance", float or array, default="tune"
        Kernel width; an array has one per column, as in `RLS`. "columns" learns one per column,
        which says which columns matter; for an exponential or laplacian kernel as `RankRLS` does.
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
    amplitude_, noise_, gamma_ : the values used; ``gamma_`` is (d,) where every column has a width
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
        (view,) = system.views
        view = replace(view, basis=replace(view.basis), groups=problem.groups)
        chosen = ChosenViews([view], Settings(alpha), alpha, dual=isinstance(system, DualSystem))
        self._fitted_rows = FittedRows(training, chosen)
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
        **more: Any,
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
