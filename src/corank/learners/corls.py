"""CoRLS and CoRankRLS: several views of the same items that must agree on the unscored ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from corank._backend import Array, dtype_name, is_foreign, is_sparse, like, namespace, take, to_numpy
from corank._warnings import warn_user
from corank.basis import (
    Basis,
    BasisNotice,
    FeatureBasis,
    KernelBasis,
    candidate_rows,
    check_basis,
    choose_rows,
    resolve_basis,
)
from corank.comparison import Comparison, Pointwise, Queries
from corank.kernels import WITH_GAMMA, Kernel, rows_of, scale_gamma
from corank.learners.parameters import (
    candidates,
    check_choice,
    check_weights,
    read_comparison,
    read_kernel,
    seed,
)
from corank.learners.scoring import R2Mixin, RankerMixin
from corank.problem import ScoredRows
from corank.rows import Rows, encode_queries, read_features, read_scores, read_weights
from corank.solvers.agreement import Unscored, ViewData
from corank.solvers.cofit import CoSettings, solve_views
from corank.solvers.fit import read_splits
from corank.solvers.holdout import splits_of_folds
from corank.solvers.predict import predict_in_blocks
from corank.statistics import Index
from corank.views import View, random_bases, read_views, select


@dataclass(frozen=True)
class CoRows:
    """What `fit` was given, checked: rows with scores (n, t), t = 1 or one column a view, and rows without.

    Row numbers count X first, then `unscored=`.
    """

    features: Array  # (n, d) of X
    scores: Array  # (n, t), NaN = unscored
    queries: Array | None
    weights: Array | None
    plain: Index  # rows of X without any score
    more: Array | None  # (m', d) rows of `unscored=`
    plain_queries: Index | None  # codes of the unscored rows, those of X first
    n_plain_queries: int

    @property
    def n_unscored(self) -> int:
        """Rows without any score."""
        return len(self.plain) + (0 if self.more is None else int(self.more.shape[0]))

    def unscored_features(self, columns: Index) -> Array:
        """A view's look at the unscored rows: (m, d_v)."""
        own = select(take(self.features, self.plain), columns)
        return own if self.more is None else _stacked([own, select(self.more, columns)])


class CoLearner(BaseEstimator):  # type: ignore[misc]
    """Kernel least squares on several views. A learner adds its comparison, its intercept and its score."""

    __metadata_request__fit = {"qid": "groups"}  # noqa: RUF012
    __metadata_request__score = {"qid": "groups", "sample_weight": True}  # noqa: RUF012

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags

    def _comparison(self) -> Comparison:
        """What is compared with what; checks the learner's own parameters."""
        raise AssertionError("a learner says what it compares")

    @property
    def _centred(self) -> bool:
        return False

    def _unscored_comparison(self) -> Comparison:
        """How views are compared on unscored rows: beta touches the scored loss only."""
        return Pointwise()

    # ---------------------------------------------------------------- fit

    def _fit(self, X: Any, y: Any, qid: Any, sample_weight: Any, unscored: Any, unscored_qid: Any) -> Self:
        comparison = self._comparison()
        check_weights(comparison, sample_weight)
        check_choice(self.scoring, "scoring", (None, "squared", "disagreement"))
        check_choice(self.basis_selection, "basis_selection", ("pivoted", "random"))
        check_choice(self.solver, "solver", ("direct",))
        alpha = candidates(self.alpha, "alpha", ("tune",))
        agreement = candidates(self.agreement, "agreement", ("tune",), zero=True)
        rows = self._read(X, y, qid, sample_weight, unscored, unscored_qid)
        rng = np.random.default_rng(seed(self.random_state))
        self.views_ = self._read_views(int(rows.features.shape[1]), int(rows.scores.shape[1]), rng)
        level = _mean(rows) if self._centred else 0.0
        data, groups, self.basis_ = self._view_data(rows, comparison, level)
        self._warn(rows, agreement)
        settings = CoSettings(
            alpha=alpha,
            agreement=0.0 if rows.n_unscored == 0 or len(data) == 1 else agreement,
            dual=all(self._is_dual(view, position) for position, view in enumerate(data)),
            splits=self._splits(data[0].problem, int(rows.features.shape[0])),
            scoring=self.scoring or "squared",
            centred=self._centred,
            seed=seed(self.random_state),
        )
        shared = Unscored(self._unscored_comparison(), rows.plain_queries, rows.n_plain_queries, rows.n_unscored)
        solution = solve_views(data, shared, groups, settings)
        self.coef_ = solution.coefficients
        self.intercept_ = level + solution.intercept
        self.alpha_, self.agreement_, self.path_ = solution.alpha, solution.agreement, solution.path
        self.basis_points_ = [v.basis.points if isinstance(v.basis, KernelBasis) else None for v in data]
        self._kernels = [v.basis.kernel if isinstance(v.basis, KernelBasis) else Kernel("linear") for v in data]
        self.gamma_ = [kernel.gamma for kernel in self._kernels]
        self._with_queries = qid is not None
        if settings.tunes and solution.path is None:
            warn_user(f"alpha was not tuned: too little to hold anything out. It was set to {self.alpha_:.3g}.")
        return self

    def _read(self, X: Any, y: Any, qid: Any, sample_weight: Any, unscored: Any, unscored_qid: Any) -> CoRows:
        """Check what `fit` was given."""
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None.")
        features = read_features(self, X, reset=True)
        n = int(features.shape[0])
        reference = np.empty(0) if is_sparse(features) else features
        scores = _read_score_columns(y, n, reference)
        weights = read_weights(sample_weight, n, reference)
        queries, _ = (None, 1) if qid is None else encode_queries(qid, n)
        given = ~np.isnan(to_numpy(scores)).all(axis=1)
        used = np.ones(n, dtype=bool) if weights is None else to_numpy(weights) > 0
        if not (given & used).any():
            raise ValueError("y has no scored row: every score is NaN, or the weights of scored rows are zero.")
        plain = np.flatnonzero(~given & used)
        more = None if unscored is None else self._read_unscored(unscored, features)
        codes, count = _unscored_queries(plain, None if queries is None else to_numpy(queries), more, unscored_qid)
        return CoRows(
            features,
            scores,
            None if queries is None else like(queries, reference, "int64"),
            weights,
            plain,
            more,
            codes,
            count,
        )

    def _read_unscored(self, unscored: Any, features: Array) -> Array:
        try:
            more = read_features(self, unscored, reset=False)
        except ValueError as error:
            raise ValueError(f"unscored does not fit X: {error}") from error
        if is_sparse(features):
            return more if is_sparse(more) else sparse.csr_array(more)
        if is_sparse(more):
            raise ValueError("unscored is a CSR matrix but X is not; hand over both in the same form.")
        return like(more, features, dtype_name(features))

    def _read_views(self, n_columns: int, n_scores: int, rng: np.random.Generator) -> list[View]:
        views = read_views(self.views, n_columns, getattr(self, "feature_names_in_", None), rng)
        if not isinstance(self.views, list | tuple):
            views = [replace(view, kernel=self.kernel, gamma=self.gamma) for view in views]
        if n_scores not in (1, len(views)):
            raise ValueError(f"y has {n_scores} columns for {len(views)} views; give one column, or one a view.")
        return views

    def _view_data(
        self, rows: CoRows, comparison: Comparison, level: float
    ) -> tuple[list[ViewData], list[Index] | None, list[Index | None]]:
        """Every view of the data, what is held out together in it, and the row numbers of its basis."""
        used = np.ones(int(rows.features.shape[0]), dtype=bool) if rows.weights is None else to_numpy(rows.weights) > 0
        scores = to_numpy(rows.scores)
        data, groups, bases = [], [], []
        for position, view in enumerate(self.views_):
            own = scores[:, min(position, scores.shape[1] - 1)]
            scored = np.flatnonzero(~np.isnan(own) & used)
            if len(scored) == 0:
                raise ValueError(f"y has no score for {view.name}.")
            problem = _scored_rows(rows, view, own - level, scored, comparison, level)
            unscored = rows.unscored_features(view.columns)
            basis, numbers = self._basis(rows, view, position, problem, unscored, scored)
            data.append(ViewData(problem, unscored, basis, view.penalty))
            bases.append(numbers)
            if rows.queries is not None:
                groups.append(to_numpy(rows.queries)[scored])
            elif not comparison.needs_queries:
                groups.append(scored)
        return data, groups or None, bases

    def _basis(
        self, rows: CoRows, view: View, position: int, problem: ScoredRows, unscored: Array, scored: Index
    ) -> tuple[Basis, Index | None]:
        """A view's basis and its row numbers: X first, then `unscored=`."""
        kernel = read_kernel(view.kernel, self.degree, self.coef0, self.kernel_params)
        if kernel.precomputed:
            raise ValueError(
                f"kernel of {view.name} is precomputed, which learners with several views do not take yet."
            )
        n, m, total = len(scored), int(unscored.shape[0]), int(rows.features.shape[0])
        numbers = np.concatenate([scored, rows.plain, total + np.arange(m - len(rows.plain))])
        asked = self.basis if view.basis is None else view.basis
        spec = resolve_basis(checked := check_basis(asked, total, n + m), n + m)
        if isinstance(checked, str) and checked == "auto" and isinstance(spec, int):
            warn_user(f"basis='auto' takes {spec} of {n + m} rows as basis of {view.name}.", BasisNotice)
        if isinstance(spec, str) and spec == "features":
            if kernel.name != "linear":
                raise ValueError(f"basis='features' needs kernel='linear', got kernel={kernel.name!r} in {view.name}.")
            return FeatureBasis(len(view.columns), problem.reference), None
        if isinstance(self.views, random_bases) and isinstance(spec, str):
            spec = max(1, (n + m) // len(self.views_))
        size = spec if isinstance(spec, int) else n + m if isinstance(spec, str) else len(spec)
        pool = _candidates(n, m, size, np.random.default_rng(seed(self.random_state)))
        features = _stacked([take(problem.features, pool[pool < n]), take(unscored, pool[pool >= n] - n)])
        kernel = _with_width(kernel, view, features, _pool_weights(problem, pool))
        if isinstance(spec, str):
            keep = np.arange(n if spec == "scored" else n + m)
            points = problem.features if spec == "scored" else _stacked([problem.features, unscored])
            return KernelBasis(kernel, points), numbers[keep]
        if isinstance(spec, int):
            rng = np.random.default_rng([seed(self.random_state), position])
            selection: Any = "random" if isinstance(self.views, random_bases) else self.basis_selection
            chosen = choose_rows(kernel, features, min(spec, len(pool)), selection, rng)
            return KernelBasis(kernel, rows_of(kernel, features, chosen)), numbers[pool[chosen]]
        return KernelBasis(kernel, select(take(rows.features, spec), view.columns)), np.asarray(spec)

    def _is_dual(self, view: ViewData, position: int) -> bool:
        """Whether a view's basis is all its scored and all unscored rows."""
        asked = self.views_[position].basis
        name = self.basis if asked is None else asked
        n_all = len(view.problem.rows) + int(view.unscored.shape[0])
        return isinstance(name, str) and name in ("auto", "all") and view.basis.size == n_all

    def _splits(self, problem: ScoredRows, n_rows: int) -> Any:
        """What `cv` says of the first view's scored rows, as splits."""
        given = read_splits(self.cv, problem, to_numpy(problem.rows.index), n_rows)
        return splits_of_folds(given) if isinstance(given, np.ndarray) else given

    def _warn(self, rows: CoRows, agreement: Any) -> None:
        wanted = not (isinstance(agreement, float) and agreement == 0)
        if wanted and len(self.views_) == 1:
            warn_user("views: there is only one view, so there is nothing to agree on; agreement has no effect.")
        elif wanted and rows.n_unscored == 0:
            warn_user(
                "y has no unscored row and unscored= was not given: nothing to agree on; agreement has no effect."
            )

    # ---------------------------------------------------------------- predict

    def predict_views(self, X: Any) -> Array:
        """The score that every view gives: (n, n_views)."""
        check_is_fitted(self)
        features = read_features(self, X, reset=False)
        reference = np.empty(0) if is_sparse(features) else features
        xp = namespace(reference)
        columns = [
            self._predict_view(v, select(features, view.columns), reference) for v, view in enumerate(self.views_)
        ]
        result = xp.stack(columns, axis=1) + self.intercept_
        return xp.astype(result, features.dtype if is_foreign(features) else features.dtype.type, copy=False)

    def predict(self, X: Any) -> Array:
        """The mean of the views' scores: (n,), higher is better."""
        values = self.predict_views(X)
        return namespace(values).mean(values, axis=1)

    def _predict_view(self, v: int, features: Array, reference: Array) -> Array:
        coefficients, points = like(self.coef_[v], reference), self.basis_points_[v]
        if points is not None and not is_sparse(points):
            points = like(points, reference, dtype_name(points))
        basis = FeatureBasis(len(coefficients), reference) if points is None else KernelBasis(self._kernels[v], points)
        return predict_in_blocks(basis, coefficients, features)


def _read_score_columns(y: Any, n: int, reference: Array) -> Array:
    """(n, t): one column, or one a view."""
    array = y if is_foreign(y) else np.asarray(y)
    if array.ndim == 2 and array.shape[1] > 1:
        columns = [read_scores(array[:, k], n, reference, name="y") for k in range(array.shape[1])]
        return namespace(columns[0]).stack(columns, axis=1)
    return read_scores(y, n, reference)[:, None]


def _unscored_queries(plain: Index, queries: Index | None, more: Array | None, labels: Any) -> tuple[Index | None, int]:
    """Codes of the unscored rows of X, then of `unscored=`, whose queries are their own; None for one query in all."""
    n_more = 0 if more is None else int(more.shape[0])
    if labels is not None and more is None:
        raise ValueError("unscored_qid was given without unscored.")
    if queries is None and labels is None and (n_more == 0 or len(plain) == 0):
        return None, 1
    own = np.zeros(len(plain), dtype=np.int64) if queries is None else np.unique(queries[plain], return_inverse=True)[1]
    first = int(own.max()) + 1 if len(own) else 0
    extra = np.zeros(n_more, dtype=np.int64)
    if labels is not None:
        extra = np.asarray(to_numpy(encode_queries(labels, n_more, "unscored_qid")[0]))
    codes = np.concatenate([own, extra + first])
    return codes, int(codes.max()) + 1 if len(codes) else 1


def _scored_rows(
    rows: CoRows, view: View, scores: Any, scored: Index, comparison: Comparison, level: float
) -> ScoredRows:
    reference = rows.scores
    everything = Rows(
        features=select(rows.features, view.columns),
        scores=like(scores, reference),
        queries=rows.queries,
        n_queries=1,
        weights=rows.weights,
        index=like(np.arange(len(scores)), reference, "int64"),
    )
    own = everything.take(like(scored, reference, "int64"))
    return ScoredRows(own if own.n_queries > 1 else replace(own, queries=None), comparison, level)


def _candidates(n: int, m: int, size: int, rng: np.random.Generator) -> Index:
    """All scored rows, and a seeded sample of unscored ones where there are too many: positions, scored first."""
    limit = max(20 * size, 10_000)
    if n + m <= limit:
        return np.arange(n + m)
    if n >= limit:
        return candidate_rows(n, size, rng)
    return np.concatenate([np.arange(n), n + np.sort(rng.choice(m, size=limit - n, replace=False))])


def _pool_weights(problem: ScoredRows, pool: Index) -> Array | None:
    """The weights of scored rows, ones for unscored ones."""
    weights, n = problem.rows.weights, len(problem.rows)
    if weights is None:
        return None
    unscored = like(np.ones(int((pool >= n).sum())), weights)
    return namespace(weights).concat([take(weights, pool[pool < n]), unscored])


def _with_width(kernel: Kernel, view: View, features: Array, weights: Array | None) -> Kernel:
    if not (isinstance(kernel.name, str) and kernel.name in WITH_GAMMA):
        return kernel
    width = candidates(view.gamma, f"gamma of {view.name}", ("scale",))
    if isinstance(width, tuple):
        raise TypeError(f"gamma of {view.name} must be one number or 'scale', got {view.gamma!r}.")
    return replace(kernel, gamma=scale_gamma(features, weights) if isinstance(width, str) else width)


def _stacked(parts: list[Array]) -> Array:
    if is_sparse(parts[0]):
        return sparse.vstack(parts, format="csr")
    return namespace(parts[0]).concat(parts, axis=0)


def _mean(rows: CoRows) -> float:
    """The weighted mean of all given scores."""
    scores = to_numpy(rows.scores)
    weights = np.ones(len(scores)) if rows.weights is None else to_numpy(rows.weights)
    given = ~np.isnan(scores) & (weights > 0)[:, None]
    return float(np.average(scores[given], weights=np.broadcast_to(weights[:, None], scores.shape)[given]))


class CoRLS(R2Mixin, RegressorMixin, CoLearner):  # type: ignore[misc]
    r"""Co-regularised least squares: views that fit the scores and agree on unscored rows (001).

    .. math:: \min \sum_v \sum_i w_i (s_i - f_v(x_i))^2 + \alpha \sum_v \rho_v \|f_v\|^2
              + 2\,\text{agreement} \sum_{u<v} \sum_j (f_v(x_j) - f_u(x_j))^2

    Parameters
    ----------
    views : int, random_split, random_bases or list of View, default=2
    alpha, agreement : "tune", float or list, default="tune"
    basis : "auto", "all", "scored", "features", int or row indices, default="auto"
    fit_intercept : bool, default=True
    """

    def __init__(
        self,
        views: Any = 2,
        alpha: Any = "tune",
        agreement: Any = "tune",
        basis: Any = "auto",
        fit_intercept: bool = True,
        solver: str = "direct",
        *,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 1,
        kernel_params: Any = None,
        basis_selection: Any = "pivoted",
        cv: Any = None,
        scoring: Any = None,
        random_state: Any = None,
    ) -> None:
        self.views = views
        self.alpha = alpha
        self.agreement = agreement
        self.basis = basis
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.basis_selection = basis_selection
        self.cv = cv
        self.scoring = scoring
        self.random_state = random_state

    def _comparison(self) -> Comparison:
        return Pointwise()

    @property
    def _centred(self) -> bool:
        return bool(self.fit_intercept)

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        qid: Any = None,
        sample_weight: Any = None,
        unscored: Any = None,
        unscored_qid: Any = None,
    ) -> Self:
        """Fit on scored rows, with the views agreeing on unscored ones (NaN in y, and `unscored`)."""
        return self._fit(X, y, qid, sample_weight, unscored, unscored_qid)


class CoRankRLS(RankerMixin, CoLearner):
    r"""Co-regularised ranking: views that rank the scored rows and agree on the order of unscored ones (000).

    .. math:: \min \sum_v \|J (s - f_v)\|^2 + \alpha \sum_v \rho_v \|f_v\|^2
              + 2\,\text{agreement} \sum_{u<v} \|\bar J (f_v - f_u)\|^2

    Parameters
    ----------
    views : int, random_split, random_bases or list of View, default=2
    alpha, agreement : "tune", float or list, default="tune"
    basis : "auto", "all", "scored", "features", int or row indices, default="auto"
    weighting : "size", "unit" or "query", default="size"
    beta : float in [0, 1], default=0.0
    """

    def __init__(
        self,
        views: Any = 2,
        alpha: Any = "tune",
        agreement: Any = "tune",
        basis: Any = "auto",
        weighting: Any = "size",
        beta: float = 0.0,
        solver: str = "direct",
        *,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 1,
        kernel_params: Any = None,
        basis_selection: Any = "pivoted",
        cv: Any = None,
        scoring: Any = None,
        random_state: Any = None,
    ) -> None:
        self.views = views
        self.alpha = alpha
        self.agreement = agreement
        self.basis = basis
        self.weighting = weighting
        self.beta = beta
        self.solver = solver
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.basis_selection = basis_selection
        self.cv = cv
        self.scoring = scoring
        self.random_state = random_state

    def _comparison(self) -> Comparison:
        return read_comparison(self.weighting, self.beta)

    def _unscored_comparison(self) -> Comparison:
        return Queries(self.weighting)

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        qid: Any = None,
        sample_weight: Any = None,
        unscored: Any = None,
        unscored_qid: Any = None,
    ) -> Self:
        """Fit on scored rows, with the views agreeing on unscored ones (NaN in y, and `unscored`)."""
        return self._fit(X, y, qid, sample_weight, unscored, unscored_qid)
