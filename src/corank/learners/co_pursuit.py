"""CoRankingPursuit: sparse ranking functions of several views that agree on unscored rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from corank.core.arrays import Array, FloatArray, first_appearance, like, take, to_numpy
from corank.core.folds import same_scores
from corank.core.kernels import is_named
from corank.core.messages import warn_user
from corank.core.observations import ComparedRows, Problem, ScoredRows
from corank.core.storable import ADDED_LATER
from corank.core.unscored import HeldRows, UnscoredRows
from corank.inputs import is_scan, read_features, row_labels
from corank.learners.base import RankerMixin
from corank.learners.co_rls import ComparisonsWithUnscored, ViewLearner
from corank.learners.parameters import (
    KernelParameters,
    check_choice,
    read_splits,
    whole_numbers,
)
from corank.learners.pursuit import COMBINATIONS, Explanation, SparseLearner, SparseSolution, stored
from corank.learners.training import AskedBases, TrainingData, ViewBases
from corank.model_files.schema import CO_PURSUIT
from corank.solve.co_pursuit import (
    MAX_COMBINATIONS,
    CoPursuitSettings,
    CoPursuitSolution,
    GreedyPath,
    ViewAtoms,
    pursue_views,
)
from corank.solve.function import Function, Span
from corank.solve.holdout import SCORINGS
from corank.solve.systems import ViewData
from corank.solve.tuning import Settings


@dataclass(eq=False, repr=False)
class CoRankingPursuit(
    RankerMixin, ComparisonsWithUnscored, KernelParameters, SparseLearner, ViewLearner
):
    r"""Semi-supervised ranking pursuit: every step adds one atom to each view, and views agree on
    unscored rows.

    .. math:: F = \sum_v \|J (s - f_v)\|^2 + 2\,\text{agreement} \sum_{u<v} \|\bar J (f_v -
              f_u)\|^2, \qquad f_v = \sum_p a_p^{(v)} k_v(\cdot, x_{\gamma_p^{(v)}})

    The atoms of a view are kernels at its scored rows, or at the rows of `View.basis`. What is
    found is a few items a view whose weighted kernels rank: read them with `explain`. There is no
    norm penalty: the number of atoms is what keeps a model simple, and `View.penalty` plays no
    part. After Tsivtsivadze and Heskes, "Semi-supervised Ranking Pursuit".

    Parameters
    ----------
    views : int, random_split, random_bases or list of View, default=2
        The views. A number divides the columns at random; natural views, such as text and image
        columns, are better: ``[View("text_*"), View("image_*")]``. `View.basis` says which rows may
        be atoms: row indices, a number of rows chosen from all, "all" or "scored".
    n_atoms : "tune", int or list, default="tune"
        Steps, each of which adds an atom to every view. "tune" tries up to 100, and stops when ten
        more have not helped; a list tries those numbers.
    agreement : "tune", float, list, matrix or mapping of pairs, default="tune"
        Weight of the disagreement between views on unscored rows. "tune" tries 0 and nine values
        around the point where the disagreement weighs as much as the loss on the scored rows. A
        matrix or mapping has a weight per pair of views, as in `CoRankRLS`.
    objective : "exact" or "paper", default="exact"
        "exact": a step is the one that makes F least. "paper": as the paper prints it, with one
        residual for all views, that of their mean, and no regard to how much the views disagree
        already; F may grow.
    search : "full", "coordinate" or "tied", default="full"
        "full": all combinations of atoms, as long as three views or more have at most 131,072 of
        them, else as "coordinate". "coordinate": from the best atom of every view by itself on, one
        view after the other takes its best atom beside those of the others, until none changes.
        "tied": the same row in every view, for views over the same rows.
    refit : "back", "basic" or "final", default="back"
        "back": after every step all weights are fitted again, so no atom comes twice. "basic":
        weights stay as they entered, and an atom may enter again. "final": basic, with the weights
        fitted again at the end.
    n_solutions : int, default=1
        How many near-optimal sparse models to find; that with the least F is the model. See
        `models_`.
    tolerance : float, default=0.1
        Near-optimal are models whose F is at most this share above the least one.
    combine : "best", "mean", "median" or one weight per view, default="best"
        Who predicts: the mean of the views of the best model; the mean or median of all views of
        all `models_`; or the weighted mean of the views of the best model.
    agree_on : "unscored" or "all", default="unscored"
        The rows on which views agree. "all": on the scored ones (among themselves), too. Scored
        rows that are held out stay among them, without their scores.
    beta : float in [0, 1], default=0.0
        Share of the plain squared error in the loss on scored rows.
    weighting : "size", "unit" or "query", default="size"
        Every item counts the same, every pair, or every query; on unscored rows too.
    kernel, gamma : as in `RankRLS`
        For views that were not given as `View`, which have their own. gamma="tune" tries widths
        around "scale" for all views together.
    degree, coef0, kernel_params, random_state
        As in `RankRLS`.
    cv : splitter or list of splits, default=None
        None: at most ten folds of whole queries, or of items where there is one query. What is held
        out is no atom either.
    scoring : None, "squared", "rescaled" or "disagreement", default=None
        What the held-out error of the mean of the views is; None is "rescaled": the squared loss
        after the one factor that fits best, since agreement shrinks functions and the scale of a
        ranking function does not matter. The least error is taken, among equals the fewest atoms.

    Attributes
    ----------
    views_ : list of View, with their columns as numbers
    atoms_ : list of arrays, one a view: row numbers of its distinct atoms in order of entry; they
        count X, then `unscored`
    steps_ : list of (steps,) arrays, one a view: the same for every step; unless refit="back" an
        atom may come again
    coef_, basis_, basis_points_, gamma_ : one entry per view: the weights of its distinct atoms,
        their row numbers, the rows themselves, and the kernel width
    solutions_ : list of SparseSolution, one a view: ``name``, ``atoms``, ``coefficients``,
        ``points``
    models_ : list of SparseModel: ``objective`` (F) and ``solutions``, in the order of F. The first
        is the model itself. The first one found is greedy from the best step on; each of the others
        begins with the best step whose atoms, in every view, none before it began with, and shares
        at most half of its `n_atoms_` with any of them, in every view
    search_ : "full", "coordinate" or "tied", what was done
    agreement_ : float, the value used
    n_atoms_ : int, the number of steps
    objective_ : (steps + 1,) F after every step
    path_ : what was tried: ``agreement``, ``n_atoms``, ``gamma``, ``error``, ``standard_error``,
        ``best``. Errors are those of greedy pursuits, without the alternatives that `n_solutions`
        adds
    intercept_ : 0.0

    Notes
    -----
    One pass over the m unscored rows, O(m (M N)²) for N atoms a view, in memory that does not
    depend on m; then every step is O(M n N) for n scored rows and O(N²) for the search over all
    pairs, O(N^M M²) over all combinations, O(N M⁴) per round of the coordinate-wise search, O(N M²)
    for tied atoms.

    Examples
    --------
    >>> from corank import CoRankingPursuit, View
    >>> from corank.datasets import make_two_views
    >>> data = make_two_views(n_scored=40, queries=8, random_state=0)
    >>> views = [View(columns, kernel="linear") for columns in data.views]
    >>> model = CoRankingPursuit(views, n_atoms=5, agreement=0.1).fit(data.X, data.y, qid=data.qid)
    >>> [len(solution.atoms) for solution in model.solutions_]
    [5, 5]
    """

    views: Any = 2
    n_atoms: Any = "tune"
    agreement: Any = "tune"
    objective: Any = "exact"
    search: Any = "full"
    refit: Any = "back"
    n_solutions: int = 1
    beta: float = 0.0
    weighting: Any = "size"
    tolerance: float = field(default=0.1, metadata={ADDED_LATER: True})
    combine: Any = field(default="best", metadata={ADDED_LATER: True})
    agree_on: Any = field(default="unscored", metadata={ADDED_LATER: True})

    _own_scoring = "rescaled"
    contents = CO_PURSUIT
    # what learners with a norm penalty ask of their users, and this one does not
    alpha: ClassVar[float] = 1.0
    basis: ClassVar[str] = "scored"
    basis_selection: ClassVar[str] = "pivoted"

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
        """Fit on scored rows, with the views agreeing on unscored ones.

        Parameters
        ----------
        X : (n, d) array, frame, CSR or tensor
        y : (n,) scores, NaN = unscored; or, with objective="exact", (n, n_views), each view's own
            scores
        qid : (n,) query labels, any hashable, in any order; None = one query
        sample_weight : (n,) weights, of unscored rows too
        unscored : (m, d) more rows without scores, or chunks of them that can be read again: a
            list, or an object whose iterator starts anew, of X or (X, qid). Only a chunk is held at
            a time; a query may go on in the next one but not come back later
        unscored_qid : (m,) their query labels, which are never the same queries as those of `qid`

        Returns
        -------
        self
        """
        if is_scan(X):
            read_features(self, X, reset=True)  # refuses: atoms are rows of X
        self._fit(X, y, qid, sample_weight, unscored, unscored_qid)
        return self._named(X)

    def _fit_comparisons(self, X: Any, *given: Any) -> Self:
        super()._fit_comparisons(X, *given)
        return self._named(X)

    def _named(self, X: Any) -> Self:
        """The model, its atoms called as the rows of X are."""
        labels = row_labels(X)
        n_rows = self._n_seen - self._n_apart
        self._names = []
        for row in np.stack(self.steps_, axis=1).ravel().tolist():
            name = f"row {row}" if row < n_rows else f"unscored row {row - n_rows}"
            self._names.append(name if labels is None or row >= n_rows else str(labels[row]))
        return self

    def _settings(self) -> Settings:
        check_choice(self.objective, "objective", ("exact", "paper"))
        check_choice(self.search, "search", ("full", "coordinate", "tied"))
        check_choice(self.refit, "refit", ("back", "basic", "final"))
        check_choice(self.scoring, "scoring", (None, *SCORINGS))
        check_choice(self.agree_on, "agree_on", ("unscored", "all"))
        whole_numbers(self.n_atoms, "n_atoms")
        self._wanted()
        return super()._settings()

    def _asked_bases(self, n_columns: int, settings: Settings, names: Any = None) -> AskedBases:
        asked = super()._asked_bases(n_columns, settings, names)
        for view in self.views_:
            if is_named(view.basis, "features"):
                raise ValueError(
                    f"basis='features' of {view.name}: atoms are rows; give row indices, a number,"
                    " 'all' or 'scored'."
                )
        if any(view.penalty != 1 for view in self.views_):
            warn_user("penalty of a view plays no part: a pursuit has no norm penalty.")
        return asked

    def _fit_data(self, data: TrainingData, asked: AskedBases, settings: Settings) -> Self:
        """Fit checked rows."""
        if self.objective == "paper" and not same_scores(data.problems):
            raise ValueError(
                "objective='paper' has one residual for all views, so y must have one column."
            )
        bases = ViewBases.of(asked, data, auto_width="scale")
        shared = data.unscored
        if self.agree_on == "all":
            unscored = () if shared is None else shared.parts
            shared = UnscoredRows(
                (*unscored, scored_part(data.problem)), self.unscored_loss(), self._bonds
            )
        if shared is None or len(self.views_) == 1:
            settings = replace(settings, agreement=0.0)
        pursuit = self._pursuit_settings(data, settings, compared=len(bases.choices) > 1)
        views = map(self._checked, bases.view_data())
        coupled = shared if pursuit.agreement != 0.0 else None
        solution = pursue_views(views, data.numbers, coupled, pursuit)
        self._compared = isinstance(data.problem, ComparedRows)
        self._keep_pursuit(solution, pursuit)
        self.keep_counts(
            seen=data.everything.shape[0] + data.n_apart,
            scored=data.n_scored,
            queries=data.problems[0].n_queries,
            with_queries=data.with_queries,
        )
        self._n_unscored = data.n_unscored
        self._n_apart = data.n_apart
        self._warn_of_agreement(0 if shared is None else shared.n_rows)
        self._warn_of(solution, tuned=pursuit.tunes)
        return self

    def _pursuit_settings(
        self, data: TrainingData, settings: Settings, *, compared: bool
    ) -> CoPursuitSettings:
        """The parameters, checked against the rows."""
        n_rows = data.everything.shape[0]
        return CoPursuitSettings(
            agreement=settings.agreement,
            n_atoms=whole_numbers(self.n_atoms, "n_atoms"),
            objective=self.objective,
            search=self.search,
            refit=self.refit,
            splits=read_splits(self.cv, data.problem, data.index, n_rows),
            scoring=settings.scoring,
            seed=settings.seed,
            compared=compared,
            wanted=self._wanted(),
            shares=self._shares(),
        )

    def _shares(self) -> FloatArray | None:
        """The share of every view in the mean, None where `combine` gives no weights."""
        if isinstance(self.combine, str):
            check_choice(self.combine, "combine", COMBINATIONS)
            return None
        weights = np.asarray(self.combine)
        m = len(self.views_)
        are_numbers = weights.dtype.kind in "iuf" and weights.shape == (m,)
        if not are_numbers or not (weights >= 0).all() or not 0 < weights.sum() < np.inf:
            raise ValueError(
                f"combine must be one of {', '.join(map(repr, COMBINATIONS))} or {m} weights, one per"
                f" view, from 0 and not all 0; got {self.combine!r}."
            )
        return np.asarray(weights / weights.sum())

    def _checked(self, views: Sequence[ViewData]) -> Sequence[ViewData]:
        """The views, refused where the search or the number of atoms cannot use their dictionaries."""
        index = [view.rows for view in views if view.rows is not None]
        same_rows = all(np.array_equal(numbers, index[0]) for numbers in index)
        if self.search == "tied" and not same_rows:
            why = ""
            if all(len(view.columns) == self.n_features_in_ for view in self.views_):
                why = f": all of them see the n_features = {self.n_features_in_} columns of X"
            raise ValueError(
                "search='tied' takes the same row as atom in every view, but the views have"
                f" different rows to choose from{why}; give them the same View.basis, or use"
                " search='full'."
            )
        sizes = [len(numbers) for numbers in index]
        largest = 0 if isinstance(self.n_atoms, str) else int(np.max(self.n_atoms))
        if self.refit == "back" and largest > min(sizes):
            raise ValueError(
                f"n_atoms = {largest} is more than there are rows to choose from in"
                f" {self.views_[int(np.argmin(sizes))].name}: with refit='back' it is at most their"
                f" number (n_samples = {min(sizes)})."
            )
        return views

    def _warn_of(self, solution: CoPursuitSolution, *, tuned: bool) -> None:
        """Say what came out otherwise than asked for."""
        if self.search_ != self.search:
            warn_user(
                f"search='full' would try more than {MAX_COMBINATIONS:,} combinations of atoms per"
                " step: one view after the other took its best atom instead (search_)."
            )
        if tuned and self.path_ is None:
            warn_user(
                "nothing was tuned: too little to hold anything out. n_atoms was set to"
                f" {self.n_atoms_}, agreement to {self.agreement_:.3g}."
            )
        if self.n_atoms_ < solution.asked:
            warn_user(
                f"the pursuit stopped after {self.n_atoms_} of {solution.asked} atoms: nothing is"
                " left that another atom could fit."
            )

    def _keep_pursuit(self, solution: CoPursuitSolution, settings: CoPursuitSettings) -> None:
        """Set the fitted attributes."""
        model, atoms = solution.model, solution.atoms
        labels = np.asarray(model.labels)
        self._combine = self.combine if settings.shares is None else settings.shares
        self.function_ = self._weighed(_function(model, atoms))
        self.search_ = model.search
        self.atoms_ = self.basis_
        self.steps_ = [numbers[labels[:, v]] for v, numbers in enumerate(atoms.numbers)]
        self.n_atoms_ = len(labels)
        self.agreement_ = solution.agreement
        self.objective_ = np.asarray(model.losses)
        self.path_ = solution.path
        self._history = model.weights(0, len(labels))
        others = [(_function(path, atoms), path.losses[-1]) for path in solution.others]
        self._keep_others(
            [stored(own, [part.span.rows for part in own.parts], loss) for own, loss in others]
        )
        # those of a loaded model belong to what it was fitted on before
        self.encoder_ = self.table_ = None

    def _why_fixed(self) -> str:
        return (
            "update cannot add to a pursuit, whose atoms were chosen for the rows it has seen; fit"
            " it again with all rows."
        )

    @property
    def unscored_effect_(self) -> None:
        """None: a pursuit does not keep what it takes to tell; compare the errors of `path_` at
        agreement 0 and more.
        """
        check_is_fitted(self)

    def _weighed(self, function: Function) -> Function:
        """The function with the share of every view."""
        if isinstance(self._combine, str | None):
            return function
        pairs = zip(function.parts, self._combine.tolist(), strict=True)
        return replace(function, parts=tuple(replace(part, share=share) for part, share in pairs))

    def _restored_function(self, values: dict[str, Any]) -> Function:
        self._combine = values["_combine"]
        return self._weighed(super()._restored_function(values))

    @property
    def solutions_(self) -> list[SparseSolution]:
        """Every view's own solution."""
        return list(self.models_[0].solutions)

    def predict_path(self, X: Any) -> Array:
        """The mean of the views of the best model after every step.

        Parameters
        ----------
        X : as in `predict`

        Returns
        -------
        (n, steps) in the library, on the device and with the precision of X; the last column is
        `predict`, unless `combine` asks all models
        """
        features = self._read(X)
        weights = []
        for v, (atoms, labels) in enumerate(zip(self.atoms_, self.steps_, strict=True)):
            steps = atoms[:, None] == labels[None, :]
            path = steps.astype(np.float64) @ self._history[:, :, v].T
            weights.append(like(path, self.coef_[v]))
        return self._scores(self.function_.with_coefficients(weights).values(features), features)

    def name_atoms(self, names: Sequence[Sequence[str]]) -> None:
        """Give the atoms the names that `explain` calls them by.

        Parameters
        ----------
        names : one list per view, (k,) text in the order of its `atoms_`
        """
        check_is_fitted(self)
        if [len(own) for own in names] != [len(atoms) for atoms in self.atoms_]:
            raise ValueError("names must have one list per view, with one name per atom of it.")
        known = [dict(zip(*view, strict=True)) for view in zip(self.atoms_, names, strict=True)]
        steps = np.stack(self.steps_, axis=1)
        self._names = [
            str(own[row]) for step in steps for own, row in zip(known, step, strict=True)
        ]

    def explain(self) -> Explanation:
        """The atoms in order of entry, one line per step and view: weight, share of F taken away
        and left.

        Returns
        -------
        Explanation
            Print or plot it. Atoms of one step enter together: the first of their lines says what
            they added.
        """
        check_is_fitted(self)
        m = len(self.views_)
        start = float(self.objective_[0])
        left = self.objective_[1:] / start if start > 0 else np.zeros(self.n_atoms_)
        held_out = None
        if self.path_ is not None:
            held_out = np.repeat(self.path_.of_atoms(np.arange(self.n_atoms_) + 1), m)
        return Explanation(
            names=tuple(self._names),
            atoms=np.stack(self.steps_, axis=1).ravel(),
            weights=self._history[-1].ravel(),
            left=np.repeat(left, m),
            held_out=held_out,
            views=tuple(str(view.name) for view in self.views_) * self.n_atoms_,
        )


def _function(path: GreedyPath, atoms: ViewAtoms) -> Function:
    """The mean of the views, each on its distinct atoms in order of entry."""
    spans, coefficients = [], []
    for v, view in enumerate(atoms.views):
        labels = np.asarray([step[v] for step in path.labels])
        codes, _ = first_appearance(labels)
        distinct = labels[np.unique(codes, return_index=True)[1]]
        weights = np.bincount(codes, path.history[-1][:, v])
        span = Span.of(view)
        points = take(span.points, distinct)
        spans.append(replace(span, points=points, rows=take(span.rows, distinct)))
        coefficients.append(like(weights, view.problem.reference))
    return Function.mean(spans, coefficients, 0.0)


def scored_part(problem: Problem) -> HeldRows:
    """The scored rows, or those in any comparison, as rows on which views agree."""
    if isinstance(problem, ScoredRows):
        queries = None if problem.queries is None else to_numpy(problem.queries)
        return HeldRows(problem.features, queries, weights=problem.weights)
    codes = np.zeros(problem.features.shape[0], dtype=np.int64)
    codes[problem.winners] = codes[problem.losers] = problem.groups
    return HeldRows(problem.features, codes if problem.named else None)
