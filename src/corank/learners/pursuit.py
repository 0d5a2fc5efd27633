"""MatchingPursuit and RankingPursuit: functions of a handful of atoms, picked greedily.

First `PursuitLearner`, which is what both learners are, then the parameter `dictionary`, read and
checked, the function that chosen atoms make up (`AtomSpan`), and the `Explanation` that a person
reads: the atoms in order of entry, their weights, and what each of them added.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from corank.core.arrays import (
    Array,
    FloatArray,
    Index,
    NumpyArray,
    dtype_name,
    is_foreign,
    is_sparse,
    like,
    namespace,
    runs_of_rows,
    take,
    take_columns,
    to_numpy,
)
from corank.core.basis import checked_rows
from corank.core.kernels import Kernel, basis_points, is_named, is_registered, registered_function
from corank.core.messages import warn_user
from corank.core.observations import ScoredRows
from corank.core.sums import CHUNK_ROWS
from corank.inputs import is_frame, read_features, row_labels
from corank.learners.base import OneViewLearner, R2Mixin, RankerMixin
from corank.learners.parameters import KernelParameters, check_choice, whole_numbers
from corank.model_files.schema import PURSUIT
from corank.solve.dictionary import Atoms
from corank.solve.function import Expansion, Function, Span
from corank.solve.pursuit import REFITS, PursuitSettings, PursuitSolution, nothing_to_learn, pursue
from corank.solve.tuning import Training

KINDS = "None, row indices, a matrix with the columns of X, 'features' or a function"


# ---------------------------------------------------------------- the learners

# of the loss without atoms: a model that leaves less matches the scores exactly
EXACT_SHARE = 1e-16


class PursuitLearner(OneViewLearner):
    """Greedy least squares on a dictionary. A learner adds its loss, its intercept and its score."""

    has_atoms = True
    contents = PURSUIT
    _no_closed_form = "atoms would be picked anew without every fold"
    _statistics = None  # nothing that `update` could add to
    _rows = None

    def fit(self, X: Any, y: Any = None, *, qid: Any = None, sample_weight: Any = None) -> Self:  # noqa: D102
        super().fit(X, y, qid=qid, sample_weight=sample_weight)
        self._names = self._atom_names(X)
        self._refit = self.refit
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
        return PursuitSettings(
            **self._shared_settings(training),
            n_atoms=whole_numbers(self.n_atoms, "n_atoms"),
            refit=self.refit,
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
        self._weights = solution.weights
        self.atoms_ = solution.atoms
        self.steps_ = solution.steps
        if atoms.index is not None:
            self.atoms_ = atoms.index[solution.atoms]
            self.steps_ = atoms.index[solution.steps]
        span = AtomSpan(
            kernel=solution.kernel,
            points=take(atoms.points, solution.atoms),
            columns=self.atoms_ if atoms.points is None else None,
            rows=None if atoms.index is None else self.atoms_,
            function=atoms.function,
            size=atoms.size,
        )
        weights = np.zeros(len(self.atoms_))
        if self.n_atoms_:
            weights = solution.weights[:, -1]
        coefficients = like(weights, training.problem.reference)
        level = self._level + solution.intercept
        self.function_ = Function((Expansion(span, coefficients),), level)

    def _warn_of(
        self, training: Training, settings: PursuitSettings, solution: PursuitSolution
    ) -> None:
        """Say what came out otherwise than asked for."""
        problem = training.problem
        used = self.n_atoms_
        assert isinstance(problem, ScoredRows)
        if problem.is_tied:
            return  # said already
        if used == 0:
            reason = "dictionary: no atom tells the rows apart that are compared"
            if nothing_to_learn(problem, centred=self.fit_intercept):
                reason = "y: all scores are the same"
            warn_user(f"{reason}, so the model is constant, without atoms.")
            return
        if settings.tunes and solution.path is None:
            warn_user(
                "n_atoms was not tuned: too little to hold anything out. It was set to"
                f" {solution.asked}."
            )
        if used < solution.asked:
            exact = self.training_loss_[-1] <= EXACT_SHARE * self.training_loss_[0]
            reason = (
                "these atoms match the scores exactly" if exact else "no other atom lowers the loss"
            )
            rank = problem.freedom(np.arange(len(problem)))
            warn_user(
                f"n_atoms = {solution.asked}, but the model stopped at {used}: {reason}. The rows"
                f" carry {rank} at most."
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
        labels = None
        kind = "atom"
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
        (n, steps), column p − 1 with the first p steps; the last one is `predict`. O(n k (d + p)).
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
class RankingPursuit(RankerMixin, KernelParameters, PursuitLearner):
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
        when nothing was tuned

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


# ---------------------------------------------------------------- dictionary


def read_dictionary(estimator: Any, dictionary: Any, training: Training, kernel: Kernel) -> Atoms:
    """The dictionary of a fit, checked against X, whose columns the estimator knows."""
    everything = training.everything
    features = training.problem.features
    if dictionary is None:
        points = basis_points(kernel, features, training.index) if kernel.precomputed else features
        return Atoms(points, training.index)
    if is_named(dictionary, "features"):
        if kernel.name != "linear":
            raise ValueError(
                f"dictionary='features' needs kernel='linear', got kernel={kernel.name!r}."
            )
        return Atoms(values=features)
    if callable(dictionary) or isinstance(dictionary, str):
        function = function_of(dictionary)
        return Atoms(values=function_values(function, features, None), function=function)
    if not is_sparse(dictionary) and not is_frame(dictionary):
        dictionary = dictionary if is_foreign(dictionary) else _as_array(dictionary)
        if dictionary.ndim == 1:
            rows = to_numpy(dictionary)
            if rows.size == 0 or rows.dtype.kind not in "iu":
                raise ValueError(
                    "dictionary with one dimension must be row indices of X (whole numbers), got "
                    f"{rows.size} values of type {rows.dtype}."
                )
            index = checked_rows(rows, everything.shape[0], "dictionary")
            return Atoms(basis_points(kernel, everything, index), index)
    if kernel.precomputed:
        raise ValueError(
            "dictionary must be None or row indices for kernel='precomputed': its atoms are columns"
            " of X."
        )
    return Atoms(read_points(estimator, dictionary, features))


def _as_array(dictionary: Any) -> NumpyArray:
    """A dictionary of one or two dimensions."""
    try:
        array = np.asarray(dictionary)
    except ValueError as error:
        raise ValueError(f"dictionary must be {KINDS}: {error}.") from error
    if array.ndim not in (1, 2):
        raise ValueError(
            f"dictionary must be {KINDS}, got {dictionary!r:.80} of shape {array.shape}."
        )
    return array


def read_points(estimator: Any, points: Any, features: Array) -> Array:
    """Points (N, d) in the library and on the device of the features (n, d)."""
    reader = BaseEstimator()
    try:
        rows = read_features(reader, points, reset=True)
    except ValueError as error:
        raise ValueError(f"dictionary: {error}") from error
    if rows.shape[1] != features.shape[1]:
        raise ValueError(
            f"dictionary has {rows.shape[1]} columns, but X has {features.shape[1]}; give one row"
            " per atom, with the columns of X."
        )
    expected = estimator.feature_names
    names = vars(reader).get("feature_names_in_")
    if expected is not None and names is not None and list(expected) != list(names):
        raise ValueError(
            "dictionary has other column names than X; give the same columns in the same order."
        )
    if is_sparse(rows):
        if is_foreign(features):
            raise ValueError(
                "dictionary is a CSR matrix, but X is a tensor; make the dictionary a tensor too."
            )
        return rows
    return rows if is_sparse(features) else like(rows, features, dtype_name(rows))


def function_of(function: Any) -> Callable[[Any], Any]:
    """A function, given as such or by the name under which it was registered."""
    if callable(function):
        return function  # type: ignore[no-any-return]
    if not is_registered(function):
        raise ValueError(f"dictionary {function!r} is not known; use {KINDS}.")
    return registered_function(function)


def function_values(function: Callable[[Any], Any], features: Array, size: int | None) -> Array:
    """Dictionary values (n, N) that a function gives at rows; N must be `size` where that is known."""
    values = function(features)
    n = features.shape[0]
    if not is_sparse(values):
        values = like(values, features)
    shape = tuple(values.shape)
    width = "N" if size is None else str(size)
    if len(shape) != 2 or shape[0] != n or shape[1] == 0 or (size is not None and shape[1] != size):
        raise ValueError(
            f"dictionary must return a matrix of shape ({n}, {width}) for {n} rows, got {shape}."
        )
    xp = namespace(values)
    if not xp.all(xp.isfinite(values.data if is_sparse(values) else values)):
        raise ValueError("dictionary gives NaN or infinity on these rows.")
    return values


# ---------------------------------------------------------------- the function that atoms make up


@dataclass(frozen=True)
class AtomSpan(Span):
    """The atoms of a pursuit: kernels at points, columns of X in order of entry, or values of a
    function.

    function : of whose `size` values `columns` are the atoms, None for kernels and columns of X
    """

    function: Callable[[Any], Any] | None = None
    size: int = 0

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
        values = function_values(self.function, X, self.size)
        return _columns_of(values, self.columns)

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
        table: dict[str, list[Any]] = {
            "step": [1 + line // self._together for line in range(len(self))]
        }
        if self.views is not None:
            table["view"] = list(self.views)
        table |= {
            "atom": list(self.names),
            "weight": self.weights.tolist(),
            "added": self.added.tolist(),
        }
        table["left"] = self.left.tolist()
        if self.held_out is not None:
            table["held_out_error"] = self.held_out.tolist()
        return table

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        """The table as text: names of the columns, and one list of cells per line."""
        shown = {
            "step": "d",
            "weight": "+.4g",
            "added": ".1%",
            "left": ".1%",
            "held_out_error": ".4g",
        }
        table = self.to_dict()
        columns = [
            ["" if value != value else format(value, shown.get(key, "")) for value in column]  # noqa: PLR0124
            for key, column in table.items()
        ]
        return [key.replace("_", " ") for key in table], [
            list(line) for line in zip(*columns, strict=True)
        ]

    def __str__(self) -> str:
        head, lines = self._cells()
        widths = [max(map(len, column)) for column in zip(head, *lines, strict=True)]
        text = [
            "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))
            for line in [head, *lines]
        ]
        return "\n".join([text[0], "  ".join("-" * width for width in widths), *text[1:]])

    def _repr_html_(self) -> str:
        head, lines = self._cells()
        rows = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in line) + "</tr>"
            for line in lines
        )
        return (
            f"<table><tr>{''.join(f'<th>{escape(cell)}</th>' for cell in head)}</tr>{rows}</table>"
        )

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
        labels = (
            self.names
            if self.views is None
            else [f"{n} ({v})" for n, v in zip(self.names, self.views, strict=True)]
        )
        ax.set_yticks(at, labels)
        ax.axvline(0, color="0.4", linewidth=0.8)
        ax.set_xlabel("weight")
        for y, share in zip(at, self.added, strict=True):
            if share == share:  # noqa: PLR0124
                ax.annotate(
                    f"{share:.0%}",
                    (1.01, y),
                    xycoords=("axes fraction", "data"),
                    va="center",
                    color="0.5",
                )
        ax.spines[["top", "right"]].set_visible(False)
        return ax
