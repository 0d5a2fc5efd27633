"""PreferenceGP: a Gaussian process on comparisons, by expectation propagation ([Tsivtsivadze2009]
section 5).
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field, replace
from numbers import Real
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from corank.core.arrays import (
    Array,
    FloatArray,
    Index,
    masked_as_nan,
    to_numpy,
)
from corank.core.basis import KernelBasis
from corank.core.messages import warn_user
from corank.core.observations import TIED, ComparedRows, ScoredRows
from corank.core.storable import ADDED_LATER
from corank.inputs import compared_rows, read_features, read_rows
from corank.learners.base import RankerMixin
from corank.learners.comparisons import ComparisonMixin
from corank.learners.gaussian_process import EvidenceParameters
from corank.learners.judges import JudgedLearner, VoteColumns
from corank.learners.parameters import check_choice, is_whole, seed
from corank.learners.update import Kept
from corank.model_files.schema import PREFERENCE_PROCESS
from corank.solve.expectation_propagation import PairData, untied_pairs
from corank.solve.function import Span
from corank.solve.posterior import GaussianPart
from corank.solve.preference import (
    EvidenceSearch,
    FittedKernel,
    PreferenceTask,
    average,
    fit_kernel,
    habits_learned,
    learn,
    learn_votes,
    with_shares,
)
from corank.solve.tuning import Training
from corank.solve.votes import (
    RESPONSES,
    SIDE,
    VoteLikelihood,
    Votes,
    first_habits,
)

MARGINS = (
    "margins of PreferenceGP are 0 for a tie and 1 for a win: it learns from who won alone; for by how"
    " much use DifferenceGP."
)
SETTLED_RESIDUAL = 1e-5  # standard deviations: sites that still move by less have settled


@dataclass(eq=False, repr=False)
class PreferenceGP(RankerMixin, ComparisonMixin, EvidenceParameters, JudgedLearner):
    r"""A Gaussian process on comparisons: who beats whom, how sure that is, and what to ask next.

    .. math:: P(a \text{ beats } b) = \Phi\big(f(a) - f(b)\big), \qquad f \sim N(0,
              \texttt{amplitude} \cdot k)

    with Φ the distribution function of the standard normal. The posterior is found by expectation
    propagation; kernel width and amplitude are those of largest evidence, with a wide prior on the
    amplitude. After the section on Gaussian processes of Tsivtsivadze, Cseke and Heskes, "Kernel
    Principal Component Ranking".

    Parameters
    ----------
    amplitude : "tune" or float, default="tune"
        Variance of the function: how decided comparisons are. A wide prior (around 4, with a factor
        of e² either way) stands beside the evidence, as a few answers that agree would make it
        infinite.
    gamma : "tune", "columns", "scale", "mean-distance", float or array, default="tune"
        Kernel width; an array has one per column, as in `RLS`. "columns" learns one per column,
        which says which columns matter; for an exponential or laplacian kernel as `RankRLS` does,
        from comparisons as differences of 1.
    basis : "auto", "all", int or row indices, default="auto"
        The items whose kernels span the function. "auto": all that were compared up to 2,000, else
        500 of them.
    max_pairs : int, default=5000
        The most pairs that `fit` takes from scores.
    average_width : bool, default=False
        Average over kernel widths by their evidence instead of taking the best one (needs
        gamma="tune").
    response : "probit" or "logit", default="probit"
        The noise of an answer: normal, or logistic.
    ties : "tune" or float, default="tune"
        How close two items are that make a tie, in units of the noise; "tune" learns it where there
        are ties.
    lapse : "tune" or float, default="tune"
        The share of answers that have nothing to do with the items; "tune" learns it where there
        are ties or judges, else it is 0.
    kernel, degree, coef0, kernel_params, basis_selection, random_state
        As in `RLS`.

    Attributes
    ----------
    judges_ : list of Judge, what is known of each `person`; empty without
    coef_ : (r,) coefficients of the basis functions; with average_width those of the best width,
        one of several
    basis_, basis_points_ : row numbers of the basis in X, and those rows
    amplitude_, gamma_ : the values used; ``gamma_`` is (d,) where every column has a width
    log_evidence_ : float
    n_iter_ : int, sweeps of expectation propagation, over all kernels that were tried

    Notes
    -----
    A sweep costs O(n r² + N r) for N comparisons between n items and a basis of r, and holds O(n r
    + N) numbers. The likelihood has no margin: for "by how much" see `DifferenceGP`. A comparison
    made several times counts as often, in both directions too. The `weights` of comparisons are whole
    numbers that say how often each was made; `margins` are 0 for a tie, else 1. Votes of judges:
    docs/judges.md.

    Examples
    --------
    >>> import numpy as np
    >>> from corank import PreferenceGP
    >>> X = np.linspace(0, 1, 6)[:, None]
    >>> model = PreferenceGP(gamma=1.0).fit_comparisons(X, [1, 2, 3, 4, 5], [0, 1, 2, 3, 4])
    >>> bool(model.predict_comparison([[0.9]], [[0.1]])[0] > 0.9)
    True
    """

    amplitude: Any = "tune"
    gamma: Any = "tune"
    basis: Any = "auto"
    max_pairs: int = 5_000
    _: KW_ONLY
    average_width: bool = False
    response: Any = field(default="probit", metadata={ADDED_LATER: True})
    ties: Any = field(default="tune", metadata={ADDED_LATER: True})
    lapse: Any = field(default="tune", metadata={ADDED_LATER: True})

    knows_margins = False
    answer_columns = frozenset({"person", "first"})
    contents = PREFERENCE_PROCESS
    _no_closed_form = "the posterior is found by iteration"

    @property
    def _answer_noise(self) -> float:
        return 1.0  # that of the probit

    def fit(self, X: Any, y: Any = None, *, qid: Any = None, **not_taken: Any) -> Self:
        """Fit on the comparisons that scores imply: every pair of rows of a query with different
        scores, once.

        Parameters
        ----------
        X : (n, d) array, frame, CSR or tensor
        y : (n,) scores, NaN = unscored (left out)
        qid : (n,) query labels, any hashable, in any order; None = one query
        **not_taken : `sample_weight` is refused, as a comparison is seen or not

        Returns
        -------
        self
        """
        _refuse_weights(not_taken, "fit")
        everything, rows = read_rows(self, X, y, qid, None)
        winners, losers = self._pairs_of(rows)
        ones = np.ones(len(winners))
        named = rows.queries is not None and len(winners) > 0
        problem = ComparedRows(
            rows.features, winners, losers, ones, ones, _query_codes(rows)[winners], named=named
        )
        index = to_numpy(rows.index)
        with_queries = qid is not None
        self._fit_training(Training(problem, index, everything, with_queries=with_queries))
        self._n_queries = rows.n_queries
        self._kind = "score"
        self._kept = None if self._kernel.precomputed else Kept(rows=[rows])
        return self

    def _check_answers(self, margins: Any, weights: Any) -> None:
        if margins is not None and not np.isin(to_numpy(masked_as_nan(margins)), (0, 1)).all():
            raise ValueError(MARGINS)
        if weights is None:
            return
        try:
            values: FloatArray = np.asarray(to_numpy(masked_as_nan(weights)), dtype=np.float64)
        except (TypeError, ValueError):
            return  # refused where weights are read, as are other faults
        if np.any(np.isfinite(values) & (values != np.floor(values))):
            raise ValueError(
                "weights must be whole numbers that say how often each comparison was made."
            )

    def fit_comparisons(
        self,
        X: Any,
        winners: Any,
        losers: Any,
        *,
        margins: Any = None,
        weights: Any = None,
        qid: Any = None,
        person: Any = None,
        first: Any = None,
    ) -> Self:
        """Fit on explicit comparisons: rows `winners` of X beat rows `losers`.

        Parameters
        ----------
        X : (n, d) items
        winners, losers : (p,) row numbers of X, or labels of the index of a pandas frame (not whole
            numbers)
        margins : (p,) 0 for a tie, 1 for a win; default 1
        weights : (p,) whole numbers, how often each comparison was made
        qid : (n,) one label per row of X, within which rows were compared
        person : (p,) who answered, any hashable: the habits of each judge are learned
        first : (p,) whether the row in `winners` was shown first, on the left: the side that judges
            favour is learned. A pair that was shown in both orders is two comparisons

        Returns
        -------
        self
        """
        self._check_answers(margins, weights)
        everything = read_features(self, X, reset=True)
        problem, used = compared_rows(everything, X, winners, losers, margins, weights, qid)
        columns = VoteColumns.read(len(winners), weights, person, first)
        training = Training(problem, used, everything, with_queries=qid is not None)
        return self._fit_training(training, columns)

    def _pairs_of(self, rows: ScoredRows, first_new: int = 0) -> tuple[Index, Index]:
        """Winners and losers among scored rows, at most `max_pairs`, without those of two rows
        before `first_new`.
        """
        most = self.max_pairs
        if not is_whole(most):
            raise ValueError(f"max_pairs must be a whole number greater than 0, got {most!r}.")
        return untied_pairs(
            to_numpy(rows.scores), _query_codes(rows), int(most), seed(self.random_state), first_new
        )

    def _fit_training(self, training: Training, columns: VoteColumns | None = None) -> Self:
        problem = training.problem
        assert isinstance(problem, ComparedRows)
        columns = columns or VoteColumns()
        amplitude = self._variance("amplitude")
        check_choice(self.response, "response", tuple(RESPONSES))
        basis, rows, widths = self._start(training)
        if not isinstance(self.average_width, bool | np.bool_) or (
            self.average_width and widths != "one"
        ):
            raise ValueError(
                "average_width must be False, or True with gamma='tune' and a kernel that has a"
                f" width; got {self.average_width!r} with gamma={self.gamma!r} and"
                f" kernel={self.kernel!r}."
            )
        data, likelihood = self._read_votes(problem, columns)
        if not len(data):
            warn_user(TIED)
            amplitude = amplitude or 1.0
            widths = "given"
        self._whole = len(rows) == len(training.index) and isinstance(self.basis, str)
        task = PreferenceTask(data, basis, self._whole, likelihood)
        search = EvidenceSearch(amplitude, widths)
        learned = learn(task, search) if likelihood is None else learn_votes(task, search)
        task = replace(task, likelihood=learned.likelihood)
        kernels = [(1.0, learned.fitted)]
        if self.average_width and widths == "one":
            kernels = average(task, learned.fitted)
        self._keep_counts(training)
        self._kept = None
        self._kind = "comparison"
        self.n_iter_ = learned.sweeps
        self._items = training.index
        self._keep_posterior(data, kernels, rows)
        self._keep_judges(learned.fitted, task.likelihood, columns.names)
        self._warn_of_bounds(learned.at_bounds)
        n_parts = data.n_parts
        # an update that asks about new items would say so again and again
        if n_parts > 1 and not training.with_queries:
            warn_user(
                f"the comparisons fall into {n_parts} parts that are not compared with each other:"
                " how items of one part stand to those of another comes from their features alone."
            )
        return self

    def _read_votes(
        self, problem: ComparedRows, columns: VoteColumns
    ) -> tuple[PairData, VoteLikelihood | None]:
        """The comparisons and, unless only who won counts under a probit response, the likelihood
        with the habits to begin with.
        """
        tie, lapse = (
            self._number("ties", np.inf),
            self._number("lapse", 1.0),
        )
        given = problem.winners, problem.losers, problem.margins, problem.weights
        data = columns.votes(problem.features, *given)
        tied = not data.outcomes.all()
        if tied and tie == 0:
            raise ValueError("ties=0 says that there are none, but margins has ties; use 'tune'.")
        if not (columns.known or tied or tie or lapse or self.response != "probit"):
            return PairData.merged(problem.features, *given[:2], problem.weights), None
        habits = first_habits(
            data,
            self.response,
            with_judges=columns.names is not None,
            with_sides=columns.first is not None,
            tie=tie,
            lapse=lapse,
        )
        return data, VoteLikelihood(data, habits)

    def _number(self, name: str, end: float) -> float | None:
        """The parameter of that name, from 0 to below an end, None to learn it."""
        value = getattr(self, name)
        if isinstance(value, str):
            check_choice(value, name, ("tune",))
            return None
        if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) < end:
            reach = "0 or more" if end == np.inf else f"from 0 to below {end:g}"
            raise ValueError(f"{name} must be 'tune' or a number {reach}, got {value!r}.")
        return float(value)

    def _keep_posterior(
        self, data: PairData, kernels: list[tuple[float, FittedKernel]], rows: Index | None
    ) -> None:
        """Set the fitted attributes from kernels with their shares, of which the first is the best
        width; `rows` are the row numbers of the basis.
        """
        parts = [
            GaussianPart(share, fitted.kernel, fitted.amplitude, fitted.coefficients, fitted.spread)
            for share, fitted in kernels
        ]
        _, best = kernels[0]
        self._keep_parts(parts, Span(best.kernel, best.basis.points, rows=rows))
        self.n_iter_ += sum(fitted.posterior.sweeps for _, fitted in kernels[1:])
        self._n_comparisons = int(data.counts.sum())
        # the matrix cannot grow, and stays out of files
        self._data = None if best.kernel.precomputed else data
        self.amplitude_ = best.amplitude
        self.log_evidence_ = best.posterior.log_evidence
        worst = max(
            (fitted.posterior for _, fitted in kernels), key=lambda posterior: posterior.residual
        )
        if worst.residual > SETTLED_RESIDUAL:
            warn_user(
                f"expectation propagation stopped after {worst.sweeps} sweeps, still moving by"
                f" {worst.residual:.2g} of a standard deviation; the result can be used, but"
                " probabilities are no more exact than that.",
                ConvergenceWarning,
            )

    def update(self, X: Any, y: Any, *, qid: Any = None, **not_taken: Any) -> Self:
        """Add newly scored rows to a model that was fitted on scores; kernel and amplitude stay.

        Rows with a qid form queries of their own; without one they join the one query of a model
        fitted without qid. The comparisons so far stay; at most `max_pairs` are added, all of them
        with a new row.

        Parameters
        ----------
        X, y, qid : as in `fit`
        **not_taken : `sample_weight` is refused

        Returns
        -------
        self
        """
        _refuse_weights(not_taken, "update")
        return super().update(X, y, qid=qid)

    def _grow(self, X: Any, y: Any, qid: Any, sample_weight: Any) -> None:
        everything, rows = read_rows(self, self._as_features(X), y, qid, None, reset=False)
        rows = rows.beside(self.coef_)
        self._warn_of_nothing_new([rows])
        kept = self._rows
        if self._with_queries and kept.queries is None:  # fitted on one query, which had a name
            kept = replace(kept, queries=kept.index * 0)
        merged = kept.extended(
            rows if self._with_queries else replace(rows, queries=None), self._n_seen
        )
        data = self._data
        winners, losers = self._pairs_of(merged, len(kept))
        assert data is not None
        all_winners = np.concatenate([data.winners, winners])
        all_losers = np.concatenate([data.losers, losers])
        counts = np.concatenate([data.counts, np.ones(len(winners))])
        self._items = to_numpy(merged.index)
        points = self._items if self._whole else self.basis_
        grown = PairData.merged(merged.features, all_winners, all_losers, counts)
        likelihood = None
        if self._habits is not None:
            grown = VoteColumns().votes(
                merged.features, all_winners, all_losers, counts * 0 + 1, counts
            )
            likelihood = VoteLikelihood(grown, self._habits)
        self._solve_again(grown, points, likelihood)
        self._kept = Kept(rows=[merged])
        self._n_seen += everything.shape[0]
        self._n_scored += len(rows)
        self._n_queries += rows.n_queries if self._with_queries else 0

    def update_comparisons(
        self,
        X: Any,
        winners: Any,
        losers: Any,
        *,
        margins: Any = None,
        weights: Any = None,
        qid: Any = None,
        person: Any = None,
        first: Any = None,
    ) -> Self:
        """Add comparisons to a model that was fitted on comparisons; kernel and amplitude stay, what
        is known of judges is learned from all answers.

        Parameters
        ----------
        X : (n, d) items; those with the very features of items of the model are those items
        winners, losers : (p,) row numbers of this X, or labels of its index
        margins, weights, person, first : (p,) as in `fit_comparisons`, where they were given there;
            judges may be new
        qid : (n,) as in `fit_comparisons`, needed where the model was fitted with it

        Returns
        -------
        self
        """
        check_is_fitted(self)
        known = [judge.name for judge in self.judges_]
        if (person is not None) != bool(known):
            how = "with" if known else "without"
            raise ValueError(f"person must be given as it was to fit_comparisons: {how} person.")
        if first is None and self._habits is not None and self._habits.learned[SIDE]:
            raise ValueError("first must be given as it was to fit_comparisons: with first.")
        columns = VoteColumns.read(np.size(winners), weights, person, first, known)
        return self._add(X, winners, losers, margins, weights, qid, columns=columns)

    def _extend(
        self,
        features: Array,
        winners: Index,
        losers: Index,
        margins: FloatArray,
        weights: FloatArray,
        **more: Any,
    ) -> int:
        data = self._data
        assert data is not None
        columns = more["columns"]
        habits, names = self._habits, columns.names
        votes = columns.votes(features, winners, losers, margins, weights)
        grown: PairData
        if habits is None and not votes.outcomes.all():  # the first ties
            old = np.ones(len(data), dtype=np.int64), np.zeros(len(data), dtype=np.int64)
            data = Votes.gathered(data.features, (data.winners, data.losers), *old, data.counts)
        if isinstance(data, Votes):
            grown = data.with_votes(votes)
            if habits is None or (habits.n_outcomes == 2 and not grown.outcomes.all()):
                how = {"with_judges": names is not None, "with_sides": columns.first is not None}
                tie, lapse = self._number("ties", np.inf), self._number("lapse", 1.0)
                habits = first_habits(grown, self.response, **how, tie=tie, lapse=lapse)
            likelihood = VoteLikelihood(grown, habits.extended(grown.n_judges))
        else:
            grown, likelihood = data.extended(features, winners, losers, weights), None
        added = grown.n_items - data.n_items
        rows = self.basis_
        new = self._n_seen + np.arange(added)  # items of an update come after those of `fit`
        if self._whole:
            rows = np.concatenate([rows, new])
        self._items = None if self._items is None else np.concatenate([self._items, new])
        self._solve_again(grown, rows, likelihood, names)
        return added

    def _solve_again(
        self,
        data: PairData,
        rows: Index | None,
        likelihood: VoteLikelihood | None = None,
        names: list[Any] | None = None,
    ) -> None:
        """Find the posterior on other comparisons, for the kernels that were learned."""
        points = data.features if self._whole else self.basis_points_
        task = PreferenceTask(data, KernelBasis(self._kernel, points), self._whole, likelihood)
        if likelihood is not None:
            task = habits_learned(task, self.amplitude_)
        kernels = [
            fit_kernel(task, gaussian.kernel, gaussian.amplitude) for gaussian in self._parts
        ]
        self.n_iter_ += kernels[0].posterior.sweeps
        self._keep_posterior(data, with_shares(kernels), rows)
        self._keep_judges(kernels[0], task.likelihood, names)


def _query_codes(rows: ScoredRows) -> Index:
    """The query of every row (n,), zeros where there is one."""
    return np.zeros(len(rows), dtype=np.int64) if rows.queries is None else to_numpy(rows.queries)


def _refuse_weights(not_taken: dict[str, Any], act: str) -> None:
    if not_taken.pop("sample_weight", None) is not None:
        raise ValueError(
            "sample_weight does not go with PreferenceGP: a comparison is seen or not. Use"
            " fit_comparisons with weights, which say how often each comparison was made."
        )
    if not_taken:
        raise TypeError(
            f"PreferenceGP.{act}() got an unexpected keyword argument {next(iter(not_taken))!r}"
        )
