"""KPCR and KPCRank: least squares on kernel principal components, of scores and of their
differences within queries.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field, replace
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from corank.core.arrays import Array, like, namespace, with_precision_of
from corank.core.kernels import MEAN_LENGTH, inverse_length
from corank.core.messages import warn_user
from corank.core.observations import ScoredRows
from corank.core.storable import ADDED_LATER
from corank.learners.base import OneViewLearner, R2Mixin, RankerMixin
from corank.learners.comparisons import ComparisonMixin
from corank.learners.parameters import BasisParameters, candidates, check_choice, whole_numbers
from corank.learners.update import FittedRows
from corank.model_files.schema import COMPONENTS
from corank.solve.components import (
    ComponentSettings,
    ComponentSolution,
    solve_components,
    weights_of,
)
from corank.solve.function import Function, Span
from corank.solve.systems import ViewData
from corank.solve.tuning import Training


class ComponentLearner(OneViewLearner):
    """Least squares on components. A learner adds its loss, its intercept and its score."""

    contents = COMPONENTS
    cut: Any = "components"  # what `n_components` counts
    # whether the level of the function has a meaning, as it has in regression
    _has_level: ClassVar[bool] = True
    _path_steps: tuple[Array, Array] | None = None  # stays behind when a model is saved

    def _fit_training(self, training: Training) -> Self:
        """Fit a checked problem, whose scores had a level taken out."""
        settings = self._settings(training)
        if settings.tunes:
            settings = replace(settings, splits=self._splits(training))
        solution = solve_components(training, settings)
        self._keep_counts(training)
        self._keep(solution)
        self._fitted_rows = FittedRows(training, solution.held, self.cv)
        self._warn_of(training, settings, solution)
        return self

    def _settings(self, training: Training) -> ComponentSettings:
        """The parameters, checked against the rows."""
        alpha = candidates(self.alpha, "alpha", (MEAN_LENGTH,), zero=True)
        if isinstance(alpha, str):
            alpha = inverse_length(training.problem.features, weights_of(training.problem))
        check_choice(self.cut, "cut", ("components", "spectral"))
        basis = self._basis_rows(training)
        return ComponentSettings(
            **self._shared_settings(training),
            alpha=(alpha,) if isinstance(alpha, float) else alpha,
            n_components=_read_numbers(self.n_components, training, basis),
            basis=basis,
            selection=self.basis_selection,
            centred=self.fit_intercept,
            turned=self.cut == "spectral",
        )

    def _keep(self, solution: ComponentSolution) -> None:
        """Set the fitted attributes."""
        steps, number = solution.steps, solution.n_components
        xp = namespace(steps)
        levels = self._level + solution.offset + xp.cumulative_sum(solution.shifts)
        if not self._has_level:
            levels = 0.0 * levels
        span = Span.of(ViewData(None, solution.components.basis, rows=solution.rows))
        coefficients = xp.sum(steps[:, :number], axis=1)
        self.function_ = Function.mean([span], [coefficients], float(levels[number - 1]))
        self.n_components_ = number
        self.eigenvalues_ = solution.components.explained
        self.alpha_ = solution.alpha
        self.path_ = solution.path
        self._path_steps = steps, levels

    def _warn_of(
        self, training: Training, settings: ComponentSettings, solution: ComponentSolution
    ) -> None:
        """Say what came out otherwise than asked for."""
        problem = training.problem
        tied = isinstance(problem, ScoredRows) and problem.is_tied
        if solution.limit == 0 and not tied:
            warn_user(
                "X: no component tells apart the rows that are compared; the model is constant."
            )
        if settings.tunes and solution.path is None:
            warn_user(
                "nothing was tuned: too little to hold anything out. n_components was set to "
                f"{solution.n_components}, alpha to {solution.alpha:g}."
            )
        asked = 0 if isinstance(settings.n_components, str) else int(settings.numbers[-1])
        if asked > max(solution.limit, 1):
            warn_user(
                f"n_components = {asked} is more than these rows carry: from {solution.limit} on"
                " (the rows less the queries, or what the kernel tells apart) more components"
                " change nothing."
            )

    def predict_path(self, X: Any) -> Array:
        """Scores of the rows of X for every number of components, from one to as many as were made
        in `fit`.

        Parameters
        ----------
        X : as in `predict`

        Returns
        -------
        (n, p); column `n_components_ - 1` is `predict(X)`. A model that was loaded from a file has
        only the latter.
        """
        features = self._read(X)
        if self._path_steps is None:
            raise ValueError(
                "predict_path needs the factorisation that fit made, which a model file does not"
                " hold; fit again, or use predict."
            )
        steps, shifts = self._path_steps
        (part,) = self.function_.parts
        values = replace(part, coefficients=steps).values(features)
        sums = namespace(values).cumulative_sum(values, axis=1)
        return with_precision_of(features, sums + like(shifts, values)[None, :])

    def _why_fixed(self) -> str:
        check_is_fitted(self)
        return (
            "update cannot add to components, which change with the rows; fit again with all rows."
        )


def _read_numbers(asked: Any, training: Training, basis: Any) -> int | str | tuple[int, ...]:
    """`n_components`: a number, "tune", or a list of numbers, none of them above what the basis can
    have.
    """
    numbers = whole_numbers(asked, "n_components")
    if isinstance(basis, str):
        limit = training.everything.shape[1] if basis == "features" else len(training.index)
    else:
        limit = basis if isinstance(basis, int) else len(basis)
    largest = 1 if isinstance(numbers, str) else int(np.max(numbers))
    if largest > limit:
        raise ValueError(
            f"n_components = {largest} must lie between 1 and {limit}, what these rows can carry at"
            " most."
        )
    return numbers


@dataclass(eq=False, repr=False)
class KPCR(R2Mixin, RegressorMixin, BasisParameters, ComponentLearner):  # type: ignore[misc]
    r"""Regression on the leading kernel principal components, meant for noisy scores.

    .. math:: \min_{f \in \mathrm{span}(\psi_1, \dots, \psi_p)} \sum_i w_i (s_i - \bar s - f(x_i))^2
              + \alpha \|f\|^2

    with the components ψ of the kernel centred on the scored rows, largest first.

    Parameters
    ----------
    n_components : "tune", int or list of int, default="tune"
        How many components. "tune" looks at 1 to 200, but no more than half the number of rows, all
        from one factorisation, and takes the one with the least held-out error; a list is looked at
        instead.
    alpha : float, "mean-length" or list, default=0.0
        Weight of the norm, on top of the cut; "mean-length" as in `RLS`.
    fit_intercept : bool, default=True
        Take the weighted mean score out and put it back.
    basis : "auto", "all", "scored", "features", int or row indices, default="auto"
        The rows on which components are made. "auto": all up to 5,000, else 1,000 of them.
        "features": those of the columns themselves (linear kernel), principal component regression.
    kernel, gamma, degree, coef0, kernel_params, basis_selection, random_state
        As in `RLS`.
    cv : splitter or list of splits, default=None
        None: leave-one-out (leave-query-out with qid) in closed form; ten folds where the basis is
        a subset. The components stay, the regression on them is made anew.
    scoring : None, "squared", "rescaled" or "disagreement", default=None
        As in `RLS`.

    Attributes
    ----------
    coef_ : (r,) coefficients of the basis functions
    intercept_ : float
    n_components_ : int, the number used
    eigenvalues_ : (p,) of the components that were looked at: their sums of squares over the rows
    basis_, basis_points_, alpha_, gamma_ : as in `RLS`
    path_ : what was tried: ``n_components``, ``alpha``, ``gamma``, ``error``, ``standard_error``,
        ``best``; None when nothing was tuned

    Notes
    -----
    O(n³) once for all numbers of components, or O(n² p) a step of an iteration for few of many; n²
    numbers of memory. On a basis of r rows: O(n r (r + d)).

    Examples
    --------
    >>> import numpy as np
    >>> from corank import KPCR
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> y = np.sin(X[:, 0]) + X[:, 1]
    >>> bool(KPCR().fit(X, y).score(X, y) > 0.9)
    True
    """

    n_components: Any = "tune"
    alpha: Any = 0.0
    fit_intercept: bool = True
    _: KW_ONLY
    basis: Any = "auto"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # components are made without the scores: a few of them, or of a few rows, may miss what
        # scores depend on
        tags.regressor_tags.poor_score = isinstance(self.n_components, Integral) or isinstance(
            self.basis, Integral
        )
        return tags


@dataclass(eq=False, repr=False)
class KPCRank(RankerMixin, ComparisonMixin, BasisParameters, ComponentLearner):
    r"""Ranking on the leading kernel principal components, meant for noisy scores.

    .. math:: \min_{f \in \mathrm{span}(\psi_1, \dots, \psi_p)} \sum_q c_q \sum_{i<j \in q} w_i w_j
              \big((s_i - s_j) - (f(x_i) - f(x_j))\big)^2 + \alpha \|f\|^2

    with the components ψ of the kernel centred on the scored rows, largest first, and c as in
    `RankRLS`; all numbers of components at once. With one query it is the same as `KPCR` but for a
    constant. After Tsivtsivadze, Cseke and Heskes, "Kernel Principal Component Ranking: Robust
    Ranking on Noisy Data".

    Parameters
    ----------
    n_components, alpha, basis
        As in `KPCR`. More components than rows less queries change nothing.
    weighting : "size", "unit" or "query", default="size"
        Every item counts the same, every pair, or every query.
    cut : "components" or "spectral", default="components"
        What is cut: the components of the kernel, or the eigenvectors of the kernel under the loss,
        that is of the components' Gram matrix Ψᵀ L Ψ, as section 4.2 of the paper has it: the
        spectral cut-off of RankRLS. `n_components` is then the number of these.
    kernel, gamma, degree, coef0, kernel_params, basis_selection, random_state
        As in `RLS`.
    cv : splitter or list of splits, default=None
        None: leave-query-out in closed form (ten folds of queries where the basis is a subset, ten
        folds of items where there is one query). The components stay, the regression on them is
        made anew.
    scoring : None, "squared", "rescaled" or "disagreement", default=None
        As in `RankRLS`.

    Attributes
    ----------
    coef_ : (r,) coefficients of the basis functions
    n_components_, eigenvalues_, path_ : as in `KPCR`
    basis_, basis_points_, alpha_, gamma_ : as in `RankRLS`

    Notes
    -----
    As in `KPCR`; leave-query-out of p numbers of components costs O(n m p) more for queries of m
    rows. cut="spectral" takes all components, so O(n³).

    Examples
    --------
    >>> from corank import KPCRank
    >>> from corank.datasets import make_ranking
    >>> data = make_ranking(n_queries=20, random_state=0)
    >>> model = KPCRank().fit(data.X, data.y, qid=data.qid)
    >>> bool(model.score(data.X, data.y, qid=data.qid) > 0.8)
    True
    """

    n_components: Any = "tune"
    alpha: Any = 0.0
    weighting: Any = "size"
    _: KW_ONLY
    basis: Any = "auto"
    cut: Any = field(default="components", metadata={ADDED_LATER: True})

    _has_level = False
