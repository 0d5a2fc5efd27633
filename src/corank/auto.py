"""Choosing between learners: AutoRanker and AutoRegressor use unscored rows where the scores show that they help."""

from __future__ import annotations

import os
import warnings
from copy import copy
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from corank._arrays import Array, take, to_numpy
from corank.describe import Summary
from corank.encoder import TableEncoder
from corank.learners._learner import QueryEstimator, R2Mixin, RankerMixin, read_comparison, seed
from corank.learners.co_rls import CoRankRLS, CoRLS
from corank.learners.rls import RLS, RankRLS
from corank.rows import encode_queries, read_features, read_scores, read_weights
from corank.solvers.holdout import HeldOut
from corank.solvers.unscored_effect import UnscoredEffect, difference
from corank.views import View

CAUTION = 1.0  # standard errors by which a less simple model must be better


@dataclass(frozen=True)
class Candidate:
    """One way to learn, judged on folds that chose none of its parameters.

    Attributes
    ----------
    name : "supervised" (one model on all columns), "average" (of one model a view) or "agreement" (views that agree)
    error, standard_error : held-out
    gain : error of the model it was compared with minus its own, paired by what was held out
    gain_error : the standard error of that
    beside : the model it was compared with: the one kept so far
    """

    name: str
    error: float
    standard_error: float
    gain: float = float("nan")
    gain_error: float = float("nan")
    beside: str = ""


@dataclass(eq=False, repr=False, kw_only=True)
class _Auto(QueryEstimator):
    """Fits the candidates, judges them, keeps one."""

    __metadata_request__fit: ClassVar[dict[str, str | bool]] = {"unscored": True, "unscored_qid": True}
    _learned = "best_estimator_"

    kernel: Any = "rbf"
    gamma: Any = "scale"
    degree: float = 3
    coef0: float = 1
    kernel_params: Any = None
    basis_selection: Any = "pivoted"
    scoring: Any = None
    random_state: Any = None

    def _own(self) -> dict[str, Any]:
        """The parameters that regressors or rankers have alone."""
        raise AssertionError("a learner says what its candidates share")

    def _learners(self) -> tuple[Any, Any]:
        """The classes for one view and for several."""
        raise AssertionError("a learner says what its candidates are")

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
        """Fit the candidates and keep one of them.

        Parameters
        ----------
        X : (n, d) array, frame, CSR or tensor
        y : (n,) scores, NaN = unscored
        qid : (n,) query labels; None = one query
        sample_weight : (n,) weights
        unscored : more rows without scores, as in `CoRankRLS.fit`
        unscored_qid : their query labels

        Returns
        -------
        self
        """
        rows: dict[str, Any] = {"qid": qid, "sample_weight": sample_weight}
        unscored_rows = {"unscored": unscored, "unscored_qid": unscored_qid}
        self._compare(X, y, **rows, **unscored_rows)
        self.best_estimator_ = self._fit_chosen(X, y, rows, unscored_rows)
        return self

    def _compare(
        self, X: Any, y: Any, *, qid: Any, sample_weight: Any = None, unscored: Any = None, unscored_qid: Any = None
    ) -> None:
        """Fit and judge the candidates; the chosen one is not fitted yet, unless its views agree."""
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None.")
        features = read_features(self, X, reset=True)
        scores = to_numpy(read_scores(y, int(features.shape[0]), np.empty(0)))
        scored = np.flatnonzero(~np.isnan(scores))
        if len(scored) == 0:
            raise ValueError("y has no scored row: every score is NaN.")
        given = [view.kernel for view in self.views] if isinstance(self.views, list | tuple) else []
        if any(isinstance(kernel, str) and kernel == "precomputed" for kernel in (self.kernel, *given)):
            raise ValueError(
                f"{type(self).__name__} does not take precomputed kernels: there is no model on all columns to compare "
                "with. Fit the learner with several views itself and look at its unscored_effect_."
            )
        _, several = self._learners()
        shared = {**self._own(), **self._kernel_parameters()}
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*nothing to agree on.*")
            together = several(self.views, basis=self.basis, **shared)
            together.fit(X, y, qid=qid, sample_weight=sample_weight, unscored=unscored, unscored_qid=unscored_qid)
            whole = View(kernel=self.kernel, gamma=self.gamma)
            alone = several([whole], agreement=0.0, basis=self._single_basis(len(scored)), **shared)
            queries = None if qid is None else to_numpy(encode_queries(qid, len(scores))[0])[scored]
            weights = read_weights(sample_weight, len(scores), np.empty(0))
            own = {"qid": queries, "sample_weight": None if weights is None else weights[scored]}
            alone.fit(take(features, scored), scores[scored], **own)
        self.candidates_, self.chosen_ = _choose(alone, together)
        self._with_queries = qid is not None
        self._together = together
        self._shared, self._basis_of_single = shared, self._single_basis(len(scored))

    def _fit_chosen(self, X: Any, y: Any, rows: dict[str, Any], unscored_rows: dict[str, Any]) -> Any:
        """The chosen candidate, fitted."""
        if self.chosen_ == "agreement":
            return self._together
        single, several = self._learners()
        if self.chosen_ == "average":
            average = several(self.views, agreement=0.0, basis=self.basis, **self._shared)
            return average.fit(X, y, **rows, **unscored_rows)
        return single(basis=self._basis_of_single, **self._shared).fit(X, y, **rows)

    def _kernel_parameters(self) -> dict[str, Any]:
        names = ("kernel", "gamma", "degree", "coef0", "kernel_params", "basis_selection", "random_state")
        own = {name: getattr(self, name) for name in names} | {"scoring": self.scoring or self._own_scoring}
        if self.random_state is not None and not isinstance(self.random_state, Integral):
            own["random_state"] = seed(self.random_state)  # drawn once: all candidates hold out the same folds
        return own

    def _single_basis(self, n_scored: int) -> Any:
        """What the basis means where only scored rows can be in it."""
        if isinstance(self.basis, int | np.integer) and not isinstance(self.basis, bool):
            return min(int(self.basis), n_scored)
        return self.basis if isinstance(self.basis, str) and self.basis in ("auto", "features") else "all"

    def predict(self, X: Any) -> Array:
        """Scores of the rows of X by the chosen model: (n,), higher is better."""
        check_is_fitted(self)
        read_features(self, X, reset=False)
        return self.best_estimator_.predict(X)

    @property
    def reason_(self) -> str:
        """Why the chosen model was chosen, in words."""
        check_is_fitted(self)
        lines = [f"Chosen: {_WORDS[self.chosen_]}."]
        for candidate in self.candidates_:
            text = f"{_WORDS[candidate.name]}: held-out error {candidate.error:.4g} ± {candidate.standard_error:.2g}"
            if np.isfinite(candidate.gain):
                text += f"; {candidate.gain:+.2g} ± {candidate.gain_error:.2g} better than {_WORDS[candidate.beside]}"
                text += ": enough" if candidate.gain > CAUTION * candidate.gain_error else ": not enough to be sure"
            lines.append(text + ".")
        if not self.candidates_:
            lines.append("There are too few scores to compare anything, so the simplest model was taken.")
        return "\n".join(lines)

    def _at_a_glance(self) -> Self:
        seen = copy(self)
        if hasattr(self, "best_estimator_"):
            seen.best_estimator_, seen._together = self.best_estimator_._at_a_glance(), self._together._at_a_glance()
        return seen

    def summary(self) -> Summary:
        """Which model was chosen and why, and that model in words: see `RankRLS.summary`."""
        check_is_fitted(self)
        chosen = self.best_estimator_.summary()
        first, *others = self.reason_.splitlines()
        return Summary(
            f"{type(self).__name__}: takes unscored rows into account where the scores show that they help",
            {
                "chosen": first.removeprefix("Chosen: "),
                "held out": " ".join(others),
                "model": chosen.title,
                **chosen.facts,
            },
        )

    @property
    def unscored_effect_(self) -> UnscoredEffect | None:
        """What unscored rows do to the model whose views agree, chosen or not: see `CoRankRLS`."""
        check_is_fitted(self)
        effect: UnscoredEffect | None = self._together.unscored_effect_
        return effect

    def save(
        self, path: str | os.PathLike[str], *, overwrite: bool = False, encoder: TableEncoder | None = None
    ) -> None:
        """Save the chosen model, which `corank.load` gives back as the learner that it is."""
        check_is_fitted(self)
        self.best_estimator_.save(path, overwrite=overwrite, encoder=encoder)


_WORDS = {
    "supervised": "one model on all columns, scored rows only",
    "average": "the mean of one model a view, scored rows only",
    "agreement": "views that agree on unscored rows",
}


def _choose(alone: Any, together: Any) -> tuple[list[Candidate], str]:
    """The candidates from simple to less so, and the name of the last one that was clearly better than those before."""
    own, other = alone._evidence, together._evidence
    alike = (own.cokernel is None) == (other.cokernel is None)  # judged in the same way, on the same parts
    judge: Any = own.judge if alike else own.scoring
    supervised = own.nested({"supervised": np.zeros(1)}, judge)
    joint = other.nested({"average": np.zeros(1), "agreement": other.grid.agreements}, judge)
    if supervised is None or joint is None:
        return [], "supervised"
    found = {**supervised.results, **joint.results}
    if len(other.grid.agreements) == 1 and other.grid.agreements[0] == 0:
        del found["agreement"]
    best = "supervised"
    candidates = [Candidate(best, *_mean(found[best]))]
    for name in list(found)[1:]:
        gap, spread = _gap(found[best], found[name], paired=alike or best != "supervised")
        candidates.append(Candidate(name, *_mean(found[name]), gap, spread, best))
        if gap > CAUTION * spread:
            best = name
    return candidates, best


def _mean(result: HeldOut) -> tuple[float, float]:
    return float(result.mean[0]), float(result.standard_error[0])


def _gap(first: HeldOut, second: HeldOut, *, paired: bool) -> tuple[float, float]:
    """Paired where the same things were held out."""
    if paired and np.array_equal(first.sizes, second.sizes):
        return difference(first, second)
    (a, s), (b, t) = _mean(first), _mean(second)
    return a - b, float(np.hypot(s, t))


@dataclass(eq=False, repr=False)
class AutoRegressor(R2Mixin, RegressorMixin, _Auto):  # type: ignore[misc]
    """Regression that uses unscored rows where they help: `RLS`, or `CoRLS` with or without agreement.

    Three ways are compared by nested cross-validation: one model on all columns, the mean of one model a view, and
    views that agree on unscored rows. A less simple one is taken only where its held-out error is lower by more than one
    standard error of the paired differences.

    Parameters
    ----------
    views, basis, fit_intercept, kernel, gamma, degree, coef0, kernel_params, basis_selection, random_state
        As in `CoRLS`; `kernel` and `gamma` also for the model on all columns.
    scoring : None, "squared", "rescaled" or "disagreement", default=None
        What held-out error means; None is "squared".

    Attributes
    ----------
    chosen_ : "supervised", "average" or "agreement"
    best_estimator_ : the fitted learner
    candidates_ : list of Candidate, with held-out errors and paired gains
    """

    views: Any = 2
    basis: Any = "auto"
    fit_intercept: bool = True

    _own_scoring = "squared"

    def _own(self) -> dict[str, Any]:
        return {"fit_intercept": self.fit_intercept}

    def _learners(self) -> tuple[Any, Any]:
        return RLS, CoRLS


@dataclass(eq=False, repr=False)
class AutoRanker(RankerMixin, _Auto):
    """Ranking that uses unscored rows where they help: `RankRLS`, or `CoRankRLS` with or without agreement.

    Three ways are compared by nested cross-validation over queries: one model on all columns, the mean of one model a
    view, and views that agree on unscored rows. A less simple one is taken only where its held-out error is lower by
    one standard error of the paired differences.

    Parameters
    ----------
    views, basis, weighting, beta, kernel, gamma, degree, coef0, kernel_params, basis_selection, random_state
        As in `CoRankRLS`; `kernel` and `gamma` also for the model on all columns.
    scoring : None, "squared", "rescaled" or "disagreement", default=None
        By what held-out error candidates choose their parameters; None is "rescaled". They are judged by the share of
        misordered pairs, unless another one is asked for.

    Attributes
    ----------
    chosen_ : "supervised", "average" or "agreement"
    best_estimator_ : the fitted learner
    candidates_ : list of Candidate, with held-out errors and paired gains
    """

    views: Any = 2
    basis: Any = "auto"
    weighting: Any = "size"
    beta: float = 0.0

    _own_scoring = "rescaled"

    def _own(self) -> dict[str, Any]:
        read_comparison(self.weighting, self.beta)
        return {"weighting": self.weighting, "beta": self.beta}

    def _learners(self) -> tuple[Any, Any]:
        return RankRLS, CoRankRLS
