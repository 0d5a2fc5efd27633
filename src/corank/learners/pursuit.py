"""MatchingPursuit and RankingPursuit: functions of a handful of atoms, picked greedily.

First `SparseLearner`, which is what learners with few atoms are, in several views too, then
`PursuitLearner`, which is what both learners are, what chosen atoms make up (`AtomSpan`,
`SparseModel`), and the `Explanation` that a person reads: the atoms in order of entry, their
weights, and what each of them added.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from numbers import Real
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from corank.core.arrays import (
    Array,
    FloatArray,
    Index,
    is_sparse,
    like,
    namespace,
    runs_of_rows,
    take,
    take_columns,
    to_numpy,
)
from corank.core.kernels import Kernel
from corank.core.messages import warn_user
from corank.core.storable import ADDED_LATER
from corank.core.sums import CHUNK_ROWS
from corank.inputs import row_labels
from corank.learners.base import Learner, OneViewLearner, R2Mixin, RankerMixin
from corank.learners.comparisons import ComparisonMixin
from corank.learners.parameters import (
    KernelParameters,
    check_choice,
    check_no_blend,
    function_of,
    function_values,
    is_whole,
    read_dictionary,
    whole_numbers,
)
from corank.model_files.schema import PURSUIT
from corank.solve.dictionary import Atoms
from corank.solve.function import Expansion, Function, Span
from corank.solve.pursuit import (
    REFITS,
    PursuitSettings,
    PursuitSolution,
    Wanted,
    nothing_to_learn,
    pursue,
)
from corank.solve.tuning import Training

if TYPE_CHECKING:
    from corank.learners.pair_explanation import PairExplanation

# ---------------------------------------------------------------- the learners

COMBINATIONS = ("best", "mean", "median")
# of the loss without atoms: a model that leaves less matches the scores exactly
EXACT_SHARE = 1e-16


class SparseLearner(Learner):
    """A learner whose function has few atoms, and which may find several near-optimal ones: how
    they are told, and how they make one prediction.
    """

    has_atoms = True
    _no_closed_form = "other atoms would be picked without a fold"
    n_solutions: int = 1
    tolerance: float = 0.1
    combine: Any = "best"
    views_: Any
    atoms_: Any
    objective_: FloatArray
    training_loss_: FloatArray
    _others: list[dict[str, Any]]  # near-optimal models beside the one of `function_`, as in files
    _combine: Any  # of the fit

    def _wanted(self) -> Wanted:
        """How many models are wanted, checked."""
        if not is_whole(self.n_solutions):
            raise ValueError(
                f"n_solutions must be a whole number from 1, got {self.n_solutions!r}."
            )
        if not isinstance(self.tolerance, Real) or not 0 <= self.tolerance < np.inf:
            raise ValueError(f"tolerance must be a number from 0, got {self.tolerance!r}.")
        return Wanted(int(self.n_solutions), float(self.tolerance))

    def _keep_others(self, others: list[dict[str, Any]]) -> None:
        """Keep the models beside the one of `function_`, and say so where there are too few."""
        self._others = others
        if len(self.models_) < self.n_solutions:
            warn_user(
                f"n_solutions: only {len(self.models_)} of {self.n_solutions} models were found"
                f" that differ in half of their atoms and have an objective within"
                f" tolerance={self.tolerance:g} of the least; raise tolerance for more."
            )

    def _restore(self, values: dict[str, Any]) -> None:
        values["_others"] = values["_others"] or []
        super()._restore(values)

    @property
    def models_(self) -> list[SparseModel]:
        """The model itself and, where `n_solutions` asks for them, other near-optimal ones, the
        least objective first.
        """
        check_is_fitted(self)
        views = [str(view.name) for view in self.views_] if self.has_views else ["all columns"]
        losses = self.objective_ if self.has_views else self.training_loss_
        first = stored(self.function_, self._listed(self.atoms_), float(losses[-1]))
        models = []
        for model in (first, *self._others):
            parts = model["atoms"], model["coefficients"], model["points"]
            solutions = tuple(map(SparseSolution, views, *parts))
            models.append(SparseModel(model["objective"], solutions))
        return models

    def predict_solutions(self, X: Any) -> Array:
        """Predictions of each of `models_`, of every view where there are several.

        Parameters
        ----------
        X : as in `predict`

        Returns
        -------
        (n, n_models), or (n, n_models, n_views); the first model is the one with the least
        objective
        """
        features = self._read(X)
        values = self._of_solutions(features)
        return self._scores(values if self.has_views else values[:, :, 0], features)

    def _of_solutions(self, features: Array) -> Array:
        """Values of every model and view: (n, n_models, n_views)."""
        models = []
        for model in self.models_:
            values = []
            for part, own in zip(self.function_.parts, model.solutions, strict=True):
                changed = {"columns": own.atoms} if own.points is None else {"points": own.points}
                span = replace(part.span, **changed)
                values.append(Expansion(span, own.coefficients).values(features))
            models.append(namespace(values[0]).stack(values, axis=1))
        return namespace(models[0]).stack(models, axis=1) + self.function_.level

    def predicted(self, features: Array) -> Array:
        """Scores of checked features, by all models together where they are combined."""
        if not self._combines:
            return super().predicted(features)
        values = self._of_solutions(features)
        xp = namespace(values)
        values = xp.reshape(values, (values.shape[0], -1))
        if self._combine == "mean":
            return self._scores(xp.mean(values, axis=1), features)
        middle, ordered = values.shape[1] // 2, xp.sort(values, axis=1)
        return self._scores((ordered[:, middle] + ordered[:, -1 - middle]) / 2, features)

    @property
    def _combines(self) -> bool:
        """Whether all models predict together."""
        return isinstance(self._combine, str) and self._combine != "best"

    def explain_pair(self, a: Any, b: Any, **items: Any) -> PairExplanation:  # noqa: D102
        if self._combines:
            raise ValueError(
                "explain_pair explains the best model alone, but all of them predict with"
                f" combine={self._combine!r}; fit with combine='best'."
            )
        return super().explain_pair(a, b, **items)


def stored(function: Function, atoms: Sequence[Any], objective: float) -> dict[str, Any]:
    """A model as files hold it: its objective, and what each view's function is made of."""
    return {
        "objective": objective,
        "atoms": list(atoms),
        "coefficients": [part.coefficients for part in function.parts],
        "points": [part.span.points for part in function.parts],
    }


class PursuitLearner(SparseLearner, OneViewLearner):
    """Greedy least squares on a dictionary. A learner adds its loss, its intercept and its score."""

    contents = PURSUIT
    _statistics = None  # nothing that `update` could add to
    _rows = None

    def fit(self, X: Any, y: Any = None, *, qid: Any = None, sample_weight: Any = None) -> Self:  # noqa: D102
        super().fit(X, y, qid=qid, sample_weight=sample_weight)
        self._names = self._atom_names(X)
        return self

    def _fit_comparisons(self, X: Any, *given: Any) -> Self:
        check_no_blend(self.beta)
        super()._fit_comparisons(X, *given)
        self._names = self._atom_names(X)
        return self

    def _fit_training(self, training: Training) -> Self:
        """Fit a checked problem, whose scores had a level taken out."""
        settings = self._settings(training)
        atoms = read_dictionary(self, self.dictionary, training, settings.kernel)
        self._check_size(atoms, settings, training)
        if settings.tunes:
            settings = replace(settings, splits=self._splits(training))
        solution = pursue(training, settings, atoms)
        self._keep_counts(training)
        self._keep(training, atoms, solution)
        self._warn_of(training, settings, solution)
        return self

    def _settings(self, training: Training) -> PursuitSettings:
        """The parameters, checked against the rows."""
        check_choice(self.refit, "refit", REFITS)
        check_choice(self.combine, "combine", COMBINATIONS)
        return PursuitSettings(
            **self._shared_settings(training),
            n_atoms=whole_numbers(self.n_atoms, "n_atoms"),
            refit=self.refit,
            wanted=self._wanted(),
            centred=self.fit_intercept,
        )

    def _check_size(self, atoms: Atoms, settings: PursuitSettings, training: Training) -> None:
        """Refuse more atoms than the dictionary holds, where none may enter twice."""
        largest = 0 if isinstance(settings.n_atoms, str) else int(np.max(settings.n_atoms))
        if settings.refit in ("back", "pre") and largest > atoms.size:
            rows, columns = training.problem.features.shape
            are_columns = atoms.points is None and atoms.function is None
            why = f"n_features = {columns}" if are_columns else f"n_samples = {rows}"
            raise ValueError(
                f"n_atoms = {largest} is more than the dictionary holds: {atoms.size} ({why}), each"
                " of which enters once with refit='back' and 'pre'; use a smaller number."
            )

    def _keep(self, training: Training, atoms: Atoms, solution: PursuitSolution) -> None:
        """Set the fitted attributes: the atoms that were chosen, and nothing of the others."""
        self.path_ = solution.path
        self.n_atoms_ = len(solution.steps)
        self.training_loss_ = solution.losses
        self._refit, self._combine = self.refit, self.combine
        self._weights = solution.weights
        self.atoms_ = atoms.numbers(solution.atoms)
        self.steps_ = atoms.numbers(solution.steps)
        level = self._level + solution.intercept

        def function_on(chosen: Index, weights: FloatArray) -> Function:
            span = AtomSpan.on(chosen, atoms, solution.kernel)
            return Function((Expansion(span, like(weights, training.problem.reference)),), level)

        weights = solution.weights[:, -1] if self.n_atoms_ else np.zeros(0)
        self.function_ = function_on(solution.atoms, weights)
        self._keep_others(
            [
                stored(function_on(chosen, own_weights), [atoms.numbers(chosen)], loss)
                for chosen, own_weights, loss in solution.others
            ]
        )

    def _warn_of(
        self, training: Training, settings: PursuitSettings, solution: PursuitSolution
    ) -> None:
        """Say what came out otherwise than asked for."""
        problem = training.problem.unit_rows
        used = self.n_atoms_
        if problem.is_tied:
            return  # said already
        if used == 0:
            reason = "dictionary: no atom tells the rows apart that are compared"
            if nothing_to_learn(problem, centred=self.fit_intercept):
                reason = "y: all scores, or margins, are the same"
            warn_user(f"{reason}, so the model is constant, without atoms.")
            return
        if settings.tunes and solution.path is None:
            warn_user(
                "n_atoms was not tuned: too little to hold anything out. It was set to"
                f" {solution.asked}."
            )
        if used < solution.asked:
            reason = "no other atom lowers the loss"
            if self.training_loss_[-1] <= EXACT_SHARE * self.training_loss_[0]:
                reason = "these atoms match the scores exactly"
            warn_user(
                f"n_atoms = {solution.asked}, but the model stopped at {used}: {reason}. The rows"
                f" carry {problem.freedom()} at most."
            )

    def name_atoms(self, names: Sequence[str]) -> None:
        """Give the atoms the names that `explain` calls them by, in the order of `atoms_`.

        Parameters
        ----------
        names : (k,) text, one per atom
        """
        check_is_fitted(self)
        if len(names) != len(self.atoms_):
            raise ValueError(
                f"names has {len(names)} entries for {len(self.atoms_)} atoms; where it names all"
                " rows, hand over names[model.atoms_]."
            )
        self._names = [str(name) for name in names]

    def _atom_names(self, X: Any) -> list[str]:
        """Names of the atoms: of columns, or the labels of rows where X or the dictionary has them,
        else numbers.
        """
        labels, kind = None, "atom"
        if self._span.of_columns:
            labels, kind = self.feature_names, "column"
        elif self.basis_ is not None:
            labels, kind = row_labels(X), "row"
        elif self._function is None:
            labels, kind = row_labels(self.dictionary), "point"
        if labels is None:
            return [f"{kind} {atom}" for atom in self.atoms_]
        return [str(labels[int(atom)]) for atom in self.atoms_]

    @property
    def _span(self) -> AtomSpan:
        (part,) = self.function_.parts
        assert isinstance(part.span, AtomSpan)
        return part.span

    @property
    def _function(self) -> Callable[[Any], Any] | None:
        return self._span.function

    @property
    def _size(self) -> int:
        return self._span.size

    @property
    def _calls_functions(self) -> bool:
        return super()._calls_functions or self._function is not None

    def _restored_function(self, values: dict[str, Any]) -> Function:
        function = values.pop("_function")
        size = values.pop("_size")
        restored = super()._restored_function(values)
        (part,) = restored.parts
        span = AtomSpan(
            part.span.kernel,
            part.span.points,
            values["atoms_"] if part.span.points is None else None,
            part.span.rows,
            function=None if function is None else function_of(function),
            size=size,
        )
        return replace(restored, parts=(replace(part, span=span),))

    def _words(self) -> dict[str, Any]:
        return {"item_names": self._names}

    def predict_path(self, X: Any) -> Array:
        """Scores of the rows of X for every number of atoms.

        Parameters
        ----------
        X : (n, d), as in `predict`

        Returns
        -------
        (n, steps), column p − 1 with the first p steps of the best model; the last one is `predict`
        with combine="best". O(n k (d + p)).
        """
        features = self._read(X)
        function = self.function_.with_coefficients([like(self._weights, features)])
        return self._scores(function.values(features), features)

    def _why_fixed(self) -> str:
        return (
            "update cannot add rows to a pursuit, whose atoms are chosen again with every row; fit"
            " again with all rows."
        )

    def explain(self) -> Explanation:
        """The atoms in order of entry, their weights and what each of them added; print it, or plot
        it.

        With refit="basic" there is one line per step: an atom that was picked again has several,
        whose weights add up.

        Returns
        -------
        Explanation
        """
        check_is_fitted(self)
        entries = np.arange(self.n_atoms_)
        if self._refit != "basic":  # the steps at which an atom came in
            entries = np.sort(np.unique(self.steps_, return_index=True)[1])
        place = {int(atom): number for number, atom in enumerate(self.atoms_)}
        lines = [place[int(atom)] for atom in self.steps_[entries]]
        if self._refit == "basic":
            weights = np.diff(self._weights, axis=1, prepend=0.0)[lines, entries]
        else:
            weights = to_numpy(self.coef_)[lines]
        start = self.training_loss_[0] or 1.0
        return Explanation(
            names=tuple(self._names[line] for line in lines),
            atoms=self.steps_[entries],
            weights=weights,
            left=self.training_loss_[1:][entries] / start,
            held_out=None if self.path_ is None else self.path_.of_atoms(entries + 1),
        )


@dataclass(eq=False, repr=False)
class MatchingPursuit(R2Mixin, RegressorMixin, KernelParameters, PursuitLearner):  # type: ignore[misc]
    r"""Regression on a few atoms, picked greedily: kernel matching pursuit.

    .. math:: \min \sum_i w_i \Big(s_i - \bar s - \sum_{p=1}^P a_p k(x_i, z_p)\Big)^2

    atom by atom, each the one that lowers it most. After Vincent and Bengio, "Kernel Matching
    Pursuit" (2002).

    Parameters
    ----------
    n_atoms : "tune", int or list, default="tune"
        How many steps are taken. "tune": as many as have the least held-out error in at most ten
        folds, in which atoms are picked anew among the rows that are kept; the search ends when ten
        steps in a row did not lower it. A list tries those numbers.
    refit : "back", "basic", "final" or "pre", default="back"
        "back": all weights are refitted after every step (orthogonal matching pursuit). "basic":
        only the atom that enters gets a weight, and may be picked again. "final": as "basic", with
        all weights refitted at the end. "pre": the atom enters that is best after refitting.
    dictionary : None, row indices, matrix, "features" or callable, default=None
        What is picked from: kernels at the scored rows, at these rows of X (which may be unscored),
        or at the rows of a matrix with the columns of X; the columns of X themselves (linear
        kernel); or ``f(X) -> (n, N)`` values.
    fit_intercept : bool, default=True
        Take the weighted mean score out and put it back. Atoms are taken as they are: with
        dictionary="features" centre the columns first.
    kernel, gamma, degree, coef0, kernel_params
        As in `RLS`.
    cv : splitter or list of splits, default=None
        None: at most ten folds of rows, or of whole queries with qid.
    scoring : None, "squared", "rescaled" or "disagreement", default=None
        What the held-out error is, as in `RLS`; None is "squared".
    random_state : int, default=None
        For the folds; None makes the same ones every time.

    Attributes
    ----------
    coef_ : (k,) weights of the distinct atoms, in order of entry
    atoms_ : (k,) which they are: rows of X, rows of the matrix, columns of X, or values of the
        function
    steps_ : (steps,) the same for every step; with "basic" and "final" an atom may come again
    n_atoms_ : int, the number of steps
    intercept_ : float
    basis_ : (k,) row numbers of the atoms in X, None where they are no rows of it
    basis_points_ : (k, d) those rows or points, None for columns and functions
    training_loss_ : (steps + 1,) the loss above with 0, 1, … steps
    gamma_ : float, the kernel width used
    path_ : what was tried: ``n_atoms``, ``gamma``, ``error``, ``standard_error``, ``best``; None
        when nothing was tuned

    Notes
    -----
    A step is one product with the n x N matrix of dictionary values, all folds together. Matrices
    over 512 MB are not kept but computed anew in each step.

    Examples
    --------
    >>> import numpy as np
    >>> from corank import MatchingPursuit
    >>> X = np.linspace(0, 6, 30)[:, None]
    >>> model = MatchingPursuit(n_atoms=5).fit(X, np.sin(X[:, 0]))
    >>> bool(model.score(X, np.sin(X[:, 0])) > 0.99)
    True
    >>> len(model.explain())
    5
    """

    n_atoms: Any = "tune"
    refit: Any = "back"
    dictionary: Any = None
    fit_intercept: bool = True


@dataclass(eq=False, repr=False)
class RankingPursuit(RankerMixin, ComparisonMixin, KernelParameters, PursuitLearner):
    r"""Ranking by a few atoms, picked greedily for the score differences within queries.

    .. math:: \min \sum_q c_q \sum_{i<j \in q} w_i w_j \big((s_i - s_j) - (f(x_i) - f(x_j))\big)^2,
              \quad f(x) = \sum_{p=1}^P a_p k(x, z_p)

    atom by atom, each the one that lowers it most; c = 1/m ("size"), 1 ("unit") or 1/binom(m, 2)
    ("query") for a query of m rows. `beta` blends in the plain squared error: combined ranking and
    regression pursuit. After Tsivtsivadze and Heskes, "Semi-supervised Ranking Pursuit".

    Parameters
    ----------
    n_atoms, refit, dictionary
        As in `MatchingPursuit`.
    beta : float in [0, 1], default=0.0
        Share of the plain squared error in the loss: 0 ranks, 1 regresses (without intercept).
    weighting : "size", "unit" or "query", default="size"
        Every item counts the same, every pair, or every query.
    kernel, gamma, degree, coef0, kernel_params, random_state
        As in `RLS`.
    cv : splitter or list of splits, default=None
        None: at most ten folds of whole queries, of items where there is one query.
    scoring : None, "squared", "rescaled" or "disagreement", default=None
        What the held-out error is, as in `RankRLS`; None is "squared", the loss above.
    n_solutions : int, default=1
        How many near-optimal models to find; the one with the least loss is the model. See
        `models_`.
    tolerance : float, default=0.1
        Near-optimal are models whose loss is at most this share above the least one.
    combine : "best", "mean" or "median", default="best"
        Who predicts: the best model, or the mean or median of all `models_`.

    Attributes
    ----------
    coef_ : (k,) weights of the distinct atoms, in order of entry
    atoms_ : (k,) which they are: rows of X, rows of the matrix, columns of X, or values of the
        function
    steps_ : (steps,) the same for every step; with "basic" and "final" an atom may come again
    n_atoms_ : int, the number of steps
    basis_ : (k,) row numbers of the atoms in X, None where they are no rows of it
    basis_points_ : (k, d) those rows or points, None for columns and functions
    training_loss_ : (steps + 1,) the loss above with 0, 1, … steps
    gamma_ : float, the kernel width used
    path_ : what was tried: ``n_atoms``, ``gamma``, ``error``, ``standard_error``, ``best``; None
        when nothing was tuned. Errors are those of greedy pursuits, without what `n_solutions` adds
    models_ : list of SparseModel: ``objective`` (the loss) and ``solutions`` (one SparseSolution:
        ``atoms``, ``coefficients``, ``points``), in the order of their loss; the first is the model
        itself. The first one found is greedy from the best atom on; each of the others begins with
        the best atom that none before it began with, and shares at most half of its `n_atoms_` with
        any of them

    Notes
    -----
    As for `MatchingPursuit`. n rows in q queries carry at most n − q atoms.

    Examples
    --------
    >>> from corank import RankingPursuit
    >>> from corank.datasets import make_ranking
    >>> data = make_ranking(n_queries=20, random_state=0)
    >>> model = RankingPursuit(n_atoms=10).fit(data.X, data.y, qid=data.qid)
    >>> bool(model.score(data.X, data.y, qid=data.qid) > 0.8)
    True
    """

    n_atoms: Any = "tune"
    refit: Any = "back"
    beta: float = 0.0
    weighting: Any = "size"
    dictionary: Any = None
    n_solutions: int = field(default=1, metadata={ADDED_LATER: True})
    tolerance: float = field(default=0.1, metadata={ADDED_LATER: True})
    combine: Any = field(default="best", metadata={ADDED_LATER: True})


# ---------------------------------------------------------------- what atoms make up


@dataclass(frozen=True)
class SparseSolution:
    """One view's function Σ c_i k(x, z_i).

    Attributes
    ----------
    name : of the view
    atoms : (p,) which they are, as in `atoms_`, in order of entry, each once
    coefficients : (p,)
    points : (p, d_v) the rows themselves, as the view sees them; None for columns and functions
    """

    name: str
    atoms: Index
    coefficients: Array
    points: Array | None


@dataclass(frozen=True)
class SparseModel:
    """One sparse model: one solution per view, and the value of the stated objective that they have
    together.
    """

    objective: float
    solutions: tuple[SparseSolution, ...]


@dataclass(frozen=True)
class AtomSpan(Span):
    """The atoms of a pursuit: kernels at points, columns of X in order of entry, or values of a
    function.

    function : of whose `size` values `columns` are the atoms, None for kernels and columns of X
    """

    function: Callable[[Any], Any] | None = None
    size: int = 0

    @classmethod
    def on(cls, chosen: Index, atoms: Atoms, kernel: Kernel) -> AtomSpan:
        """The chosen atoms of a dictionary."""
        numbers = atoms.numbers(chosen)
        return cls(
            kernel=kernel,
            points=take(atoms.points, chosen),
            columns=numbers if atoms.points is None else None,
            rows=None if atoms.index is None else numbers,
            function=atoms.function,
            size=atoms.size,
        )

    @property
    def of_columns(self) -> bool:
        """Whether atoms are columns of X."""
        return self.points is None and self.function is None

    def seen(self, features: Array) -> Array:
        """The columns of X that are atoms, in their order; all where atoms are none."""
        return _columns_of(features, self.columns) if self.of_columns else features

    def features(self, X: Array) -> Array:
        """Values of the atoms at the rows of X: (n, k), CSR where the function gives that."""
        if self.function is None:
            return super().features(X)
        return _columns_of(function_values(self.function, X, self.size), self.columns)

    def values(self, X: Array, coefficients: Array) -> Array:
        """Values at the rows of X: (n,), or (n, p) for coefficients (k, p)."""
        if self.function is None:
            return super().values(X, coefficients)
        runs = runs_of_rows(X.shape[0], CHUNK_ROWS)
        blocks = [self.features(take(X, run)) @ coefficients for run in runs]
        return namespace(coefficients).concat(blocks)

    def slopes(self, coefficients: Array, n_columns: int) -> Array | None:
        """Slopes along the columns that it sees; None where it is no linear function."""
        return None if self.function is not None else super().slopes(coefficients, n_columns)


def _columns_of(values: Array, columns: Index | None) -> Array:
    """The given columns in their order, CSR where the values are."""
    if is_sparse(values):
        return values.tocsc()[:, columns].tocsr()
    return take_columns(values, columns)


@dataclass(frozen=True)
class Explanation:
    """The atoms of a sparse model, one line each, in order of entry. Print it, or `plot` it.

    Attributes
    ----------
    names : (p,) what the atoms are: rows of X, or columns
    atoms : (p,) their numbers
    weights : (p,) in the fitted function
    left : (p,) share of the training loss that is left once the atom has entered
    added : (p,) share of the training loss that the atom took away
    held_out : (p,) held-out error with that many atoms, NaN where it was not looked at; None where
        nothing was tuned
    views : (p,) the view that each atom belongs to, None where there is one
    """

    names: tuple[str, ...]
    atoms: Index
    weights: FloatArray
    left: FloatArray
    held_out: FloatArray | None = None
    views: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.names)

    @property
    def added(self) -> FloatArray:
        """Share of the training loss that each atom took away; of atoms that enter together the
        first line says it.
        """
        shares = 0.0 - np.diff(self.left, prepend=1.0)
        shares[np.arange(len(self)) % self._together != 0] = np.nan
        return shares

    @property
    def _together(self) -> int:
        """Number of atoms that enter in one step: one per view."""
        return 1 if self.views is None else len(set(self.views))

    def to_dict(self) -> dict[str, list[Any]]:
        """Columns of a table, as `pandas.DataFrame` and `polars.DataFrame` take them."""
        table = {
            "step": [1 + line // self._together for line in range(len(self))],
            "view": None if self.views is None else list(self.views),
            "atom": list(self.names),
            "weight": self.weights.tolist(),
            "added": self.added.tolist(),
            "left": self.left.tolist(),
            "held_out_error": None if self.held_out is None else self.held_out.tolist(),
        }
        return {name: column for name, column in table.items() if column is not None}

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        """The table as text: names of the columns, and one list of cells per line."""
        formats = {"weight": "+.4g", "added": ".1%", "left": ".1%", "held_out_error": ".4g"}
        table = self.to_dict()
        columns = [
            ["" if value != value else format(value, formats.get(key, "")) for value in column]  # noqa: PLR0124
            for key, column in table.items()
        ]
        lines = list(map(list, zip(*columns, strict=True)))
        return [key.replace("_", " ") for key in table], lines

    def __str__(self) -> str:
        head, lines = self._cells()
        widths = [max(map(len, column)) for column in zip(head, *lines, strict=True)]
        text = ["  ".join(map(str.rjust, line, widths)) for line in [head, *lines]]
        return "\n".join([text[0], "  ".join("-" * width for width in widths), *text[1:]])

    def _repr_html_(self) -> str:
        head, lines = self._cells()

        def row(tag: str, cells: Sequence[str]) -> str:
            return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"

        return f"<table>{row('th', head)}{''.join(row('td', line) for line in lines)}</table>"

    def plot(self, ax: Any = None) -> Any:
        """Weights as bars in order of entry, on a matplotlib axis.

        Parameters
        ----------
        ax : matplotlib axis, default=None
            None makes a new figure.

        Returns
        -------
        the axis
        """
        import matplotlib.pyplot as plt

        if ax is None:
            _, ax = plt.subplots(figsize=(6, 0.5 + 0.32 * len(self)), layout="constrained")
        at = np.arange(len(self))[::-1]
        colours = np.where(self.weights >= 0, "#2b6cb0", "#c05621")
        ax.barh(at, self.weights, color=colours)
        labels = list(self.names)
        if self.views is not None:
            labels = [f"{n} ({v})" for n, v in zip(self.names, self.views, strict=True)]
        ax.set_yticks(at, labels)
        ax.axvline(0, color="0.4", linewidth=0.8)
        ax.set_xlabel("weight")
        for y, share in zip(at, self.added, strict=True):
            if share == share:  # noqa: PLR0124
                beside = ("axes fraction", "data")
                ax.annotate(f"{share:.0%}", (1.01, y), xycoords=beside, va="center", color="0.5")
        ax.spines[["top", "right"]].set_visible(False)
        return ax
