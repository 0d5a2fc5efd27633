"""What a pursuit on several views keeps and says: every view's sparse solution, alternatives to it, its path, its file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from corank._backend import Array, like, namespace, take
from corank.basis import KernelBasis
from corank.learners.explanation import Explanation
from corank.learners.files import Contents
from corank.learners.learner import Expansion
from corank.learners.several import CoLearner
from corank.learners.soundness import (
    check_expansion,
    check_path,
    check_view,
    demand,
    is_array,
    is_finite,
    is_index,
    is_list,
    is_number,
)
from corank.problem import FloatArray
from corank.solvers.agreement import ViewData
from corank.solvers.cochoice import Pursued
from corank.solvers.cogreedy import GreedyPath
from corank.statistics import Index


@dataclass(frozen=True)
class SparseSolution:
    """One view's function Σ c_i k(x, z_i).

    Attributes
    ----------
    name : of the view
    atoms : (p,) row numbers in X, then in `unscored`, in order of entry, each once
    coefficients : (p,)
    points : (p, d_v) the rows themselves, as the view sees them
    """

    name: str
    atoms: Index
    coefficients: Array
    points: Array


@dataclass(frozen=True)
class SparseModel:
    """One sparse model: a solution a view, and the value of the stated objective that they have together."""

    objective: float
    solutions: tuple[SparseSolution, ...]


def check_sparse(learner: Any) -> None:
    """Refuse fitted attributes that do not fit each other."""
    n_views = len(learner.views_) if isinstance(learner.views_, list) else 0
    demand(n_views > 0, "views")
    for name in ("intercept_", "agreement_"):
        demand(type(getattr(learner, name)) is float and is_number(getattr(learner, name)), name)
    demand(type(learner._with_queries) is bool and learner.agreement_ >= 0, "note on queries or agreement")
    for name, least in (("n_features_in_", 1), ("_n_seen", 1), ("_n_scored", 1), ("_n_queries", 1), ("_n_unscored", 0)):
        demand(type(getattr(learner, name)) is int and getattr(learner, name) >= least, "number of rows or columns")
    names = getattr(learner, "feature_names_in_", None)
    demand(names is None or getattr(names, "shape", None) == (learner.n_features_in_,), "names of columns")
    check_path(learner.path_)
    path = learner.path_
    demand(path is None or (path.agreement is not None and path.n_atoms is not None), "path")
    p = learner.n_atoms_
    demand(type(p) is int and p > 0 and is_array(learner.objective_, 1) and len(learner.objective_) == p + 1, "steps")
    demand(is_array(learner._history, 3) and learner._history.shape == (p, p, n_views), "steps")
    demand(is_finite(learner.objective_) and is_finite(learner._history), "steps")
    _check_functions(learner, learner.coef_, learner.basis_points_, learner.basis_)
    demand(all(is_list(own, n_views) for own in (learner.atoms_, learner.steps_, learner.gamma_)), "atoms")
    for v, (atoms, basis, steps) in enumerate(zip(learner.atoms_, learner.basis_, learner.steps_, strict=True)):
        demand(np.array_equal(atoms, basis) and len(np.unique(atoms)) == len(atoms), "atoms")
        demand(is_index(steps, p) and np.array_equal(np.unique(steps), np.unique(atoms)), "steps")
        demand(learner.gamma_[v] == learner._kernels[v].gamma, "gamma_")
    words = learner._names
    demand(is_list(words, p * n_views) and all(isinstance(word, str) for word in words), "names of atoms")
    demand(isinstance(learner._others, list), "other solutions")
    for other in learner._others:
        demand(isinstance(other, dict) and set(other) == {"objective", "atoms", "coefficients", "points"}, "solution")
        demand(is_number(other["objective"]), "solution")
        _check_functions(learner, other["coefficients"], other["points"], other["atoms"])
    learner._comparison()


def _check_functions(learner: Any, coefficients: Any, points: Any, index: Any) -> None:
    """One function a view."""
    parts = (learner._kernels, coefficients, points, index)
    demand(all(is_list(part, len(learner.views_)) for part in parts), "views")
    for view, kernel, own, at, rows in zip(learner.views_, *parts, strict=True):
        check_view(view, learner.n_features_in_)
        demand(at is not None, "basis")
        check_expansion(own, kernel, at, rows, len(view.columns))


class SparseViews(CoLearner):
    """What is kept of a pursuit on several views, and what it says. A learner adds how atoms are chosen."""

    _contents = Contents(
        {
            "coefficients": "coef_",
            "intercept": "intercept_",
            "gamma": "gamma_",
            "path": "path_",
            "basis": "basis_",
            "basis_points": "basis_points_",
            "n_columns": "n_features_in_",
            "column_names": "feature_names_in_",
            "with_queries": "_with_queries",
            "rows_seen": "_n_seen",
            "rows_scored": "_n_scored",
            "queries": "_n_queries",
            "rows_unscored": "_n_unscored",
            "kernels": "_kernels",
            "views": "views_",
            "agreement": "agreement_",
            "n_atoms": "n_atoms_",
            "atoms": "atoms_",
            "steps": "steps_",
            "names": "_names",
            "history": "_history",
            "objective": "objective_",
            "others": "_others",
        },
        check_sparse,
    )
    _rows = _statistics = None  # nothing is kept that rows could be added to

    def _why_fixed(self) -> str:
        return "update cannot add to a pursuit, whose atoms were chosen for the rows it has seen; fit it again with all rows."

    @property
    def unscored_effect_(self) -> None:
        """None: a pursuit does not keep what it takes to tell; compare the errors of `path_` at agreement 0 and more."""
        check_is_fitted(self)

    def _keep_pursued(self, pursued: Pursued, index: Sequence[Index]) -> None:
        """Set the fitted attributes."""
        model, data = pursued.model, pursued.atoms.views
        rows, self.coef_, self.basis_points_ = _functions(model, data, index)
        self.atoms_, self.basis_ = rows, list(rows)
        labels = np.asarray(model.labels, dtype=np.int64)
        self.steps_ = [own[labels[:, v]] for v, own in enumerate(index)]
        self.n_atoms_, self.agreement_, self.intercept_ = len(labels), pursued.agreement, 0.0
        self.objective_ = np.asarray(model.losses)
        self._history: FloatArray = np.zeros((len(labels), len(labels), len(data)))
        for step, weights in enumerate(model.history):
            self._history[step, : len(weights)] = weights
        self._kernels = [view.basis.kernel for view in data if isinstance(view.basis, KernelBasis)]
        self.gamma_ = [kernel.gamma for kernel in self._kernels]
        self._others: list[dict[str, Any]] = []
        for path in pursued.others:
            parts = zip(("atoms", "coefficients", "points"), _functions(path, data, index), strict=True)
            self._others.append({"objective": path.losses[-1], **dict(parts)})
        self.encoder_ = self.table_ = None  # those of a loaded model belong to what it was fitted on before

    def _name_atoms(self, labels: Any, n_rows: int) -> None:
        """What to call the atoms of every step and view: rows by their label or number, then those of `unscored`."""
        self._names = [
            f"unscored row {row - n_rows}" if row >= n_rows else f"row {row}" if labels is None else str(labels[row])
            for row in np.stack(self.steps_, axis=1).ravel().tolist()
        ]

    # ---------------------------------------------------------------- what a fitted model says

    @property
    def models_(self) -> list[SparseModel]:
        """The model itself and, where `n_solutions` asks for them, other near-optimal ones."""
        check_is_fitted(self)
        own = {"atoms": self.atoms_, "coefficients": self.coef_, "points": self.basis_points_}
        found = []
        for model in ({"objective": float(self.objective_[-1]), **own}, *self._others):
            parts = zip(self.views_, model["atoms"], model["coefficients"], model["points"], strict=True)
            solutions = tuple(SparseSolution(str(view.name), *own) for view, *own in parts)
            found.append(SparseModel(model["objective"], solutions))
        return found

    @property
    def solutions_(self) -> list[SparseSolution]:
        """Every view's own solution."""
        return list(self.models_[0].solutions)

    def predict_path(self, X: Any) -> Array:
        """The mean of the views after every step.

        Parameters
        ----------
        X : as in `predict`

        Returns
        -------
        (n, steps) in the library, on the device and with the precision of X; the last column is `predict`
        """
        features, parts = self._read(X), []
        for v, function in enumerate(self._expansions()):
            steps = self.atoms_[v][:, None] == self.steps_[v][None, :]
            path = steps.astype(np.float64) @ self._history[:, :, v].T
            parts.append(replace(function, coefficients=like(path, function.coefficients)).values(features))
        return self._scores(sum(parts[1:], parts[0]) / len(parts), features)

    def predict_solutions(self, X: Any) -> Array:
        """What every view of every one of `models_` says.

        Parameters
        ----------
        X : as in `predict`

        Returns
        -------
        (n, n_models, n_views); the first model is that of `predict_views`
        """
        features, models = self._read(X), []
        for model in self.models_:
            parts = [
                Expansion(own.coefficients, kernel, own.points, view.columns).values(features)
                for own, kernel, view in zip(model.solutions, self._kernels, self.views_, strict=True)
            ]
            models.append(namespace(parts[0]).stack(parts, axis=1))
        return self._scores(namespace(models[0]).stack(models, axis=1), features)

    def explain(self) -> Explanation:
        """The atoms in order of entry, one line a step and view: weight, share of F taken away and left.

        Returns
        -------
        Explanation
            Print or plot it. Atoms of one step enter together: the first of their lines says what they added.
        """
        check_is_fitted(self)
        m, start = len(self.views_), float(self.objective_[0])
        left = self.objective_[1:] / start if start > 0 else np.zeros(self.n_atoms_)
        held_out = None
        path: Any = self.path_  # with numbers of atoms, which other learners' paths lack
        if path is not None:
            best = path.best
            same = (path.agreement == path.agreement[best]) & np.isclose(path.gamma, path.gamma[best], equal_nan=True)
            known = dict(zip(path.n_atoms[same].astype(int).tolist(), path.error[same].tolist(), strict=True))
            held_out = np.repeat([known.get(p + 1, np.nan) for p in range(self.n_atoms_)], m)
        atoms = np.stack(self.steps_, axis=1).ravel()
        return Explanation(
            names=tuple(self._names),
            atoms=atoms,
            weights=self._history[-1].ravel(),
            left=np.repeat(left, m),
            held_out=held_out,
            views=tuple(str(view.name) for view in self.views_) * self.n_atoms_,
        )


def _functions(
    path: GreedyPath, views: Sequence[ViewData], index: Sequence[Index]
) -> tuple[list[Index], list[Array], list[Array]]:
    """Every view's distinct atoms in order of entry: row numbers (p,), weights (p,) and points."""
    rows, weights, points = [], [], []
    for v, (view, own) in enumerate(zip(views, index, strict=True)):
        assert isinstance(view.basis, KernelBasis)
        labels = [step[v] for step in path.labels]
        distinct = list(dict.fromkeys(labels))
        sums = np.zeros(len(distinct))
        np.add.at(sums, [distinct.index(label) for label in labels], path.weights[:, v])
        rows.append(own[distinct])
        weights.append(like(sums, view.problem.reference))
        points.append(take(view.basis.points, np.asarray(distinct)))
    return rows, weights, points
