"""What learners on greedily picked atoms share: checks, fitting, reading the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from corank._backend import Array, is_sparse, like, take, to_numpy
from corank._warnings import warn_user
from corank.learners.atoms import AtomExpansion, check_counts, function_of, read_counts, read_dictionary
from corank.learners.explanation import Explanation
from corank.learners.files import Contents
from corank.learners.parameters import candidates, check_choice, seed
from corank.learners.pursuit_files import FITTED, check_pursuit
from corank.learners.single import SingleLearner
from corank.problem import FloatArray, ScoredRows
from corank.rows import row_labels
from corank.solvers.dictionary import Atoms
from corank.solvers.fit import Training
from corank.solvers.fitpursuit import PursuitSettings, SparseSolution, nothing_to_learn, pursue
from corank.solvers.greedy import REFITS
from corank.statistics import Index

ALIKE = "y: all scores are alike"
NO_ATOM = "dictionary: no atom tells the rows apart that are compared"


class PursuitLearner(SingleLearner):
    """Greedy least squares on a dictionary. A learner adds its comparison, its intercept and its score."""

    _contents = Contents(FITTED, check_pursuit)
    _statistics = None  # nothing that `update` could add to
    _rows = None

    # ---------------------------------------------------------------- fit

    def _fit_labelled(self, X: Any, y: Any, qid: Any, sample_weight: Any) -> Self:
        self._fit_scores(X, y, qid, sample_weight)
        self._names = self._atom_names(X)
        self._refit = self.refit
        return self

    def _fit_training(self, training: Training, *, with_queries: bool, level: float = 0.0) -> Self:
        """Fit a checked problem, whose scores had a level taken out."""
        check_choice(self.refit, "refit", REFITS)
        settings = PursuitSettings(
            kernel=self._read_kernel(training),
            gamma=candidates(self.gamma, "gamma", ("scale", "tune")),
            n_atoms=read_counts(self.n_atoms),
            refit=self.refit,
            cv=self.cv,
            scoring=self.scoring or "squared",
            centred=self._centred,
            seed=seed(self.random_state),
        )
        atoms = read_dictionary(self, self.dictionary, training, settings.kernel)
        if settings.refit in ("back", "pre"):
            rows, columns = training.problem.features.shape
            own_columns = atoms.points is None and atoms.function is None
            check_counts(
                settings.n_atoms, atoms.size, f"n_features = {columns}" if own_columns else f"n_samples = {rows}"
            )
        solution = pursue(training, settings, atoms)
        self._keep_counts(training, with_queries=with_queries, level=level)
        self._keep(training, atoms, solution)
        self._say(training, settings, solution)
        return self

    def _keep(self, training: Training, atoms: Atoms, solution: SparseSolution) -> None:
        """Set the fitted attributes: the atoms that were chosen, and nothing of the others."""
        chosen = solution.atoms
        weights = solution.weights
        reference = training.problem.reference
        self.coef_ = like(weights[:, -1] if weights.shape[1] else np.empty(0), reference)
        self.intercept_ = self._level + solution.intercept
        self.path_ = solution.path
        self.n_atoms_ = len(solution.steps)
        self.training_loss_ = solution.losses
        self._kernel = solution.kernel
        self.gamma_ = solution.kernel.gamma
        self._function = atoms.function
        self._weights = weights
        self._size = atoms.size
        self.basis_points_ = None if atoms.points is None else take(atoms.points, chosen)
        self.basis_ = None if atoms.index is None else atoms.index[chosen]
        self.atoms_ = chosen if self.basis_ is None else self.basis_
        self.steps_ = solution.steps if atoms.index is None else atoms.index[solution.steps]

    def _say(self, training: Training, settings: PursuitSettings, solution: SparseSolution) -> None:
        """Warn of what was not as asked for."""
        problem, used = training.problem, self.n_atoms_
        assert isinstance(problem, ScoredRows)
        if problem.is_tied:
            return  # said already
        if used == 0:
            nothing = ALIKE if nothing_to_learn(problem, centred=self._centred) else NO_ATOM
            warn_user(f"{nothing}, so the model is constant, without atoms.")
            return
        if settings.tunes and solution.path is None:
            warn_user(f"n_atoms was not tuned: too little to hold anything out. It was set to {solution.asked}.")
        if used < solution.asked:
            matched = self.training_loss_[-1] <= 1e-16 * self.training_loss_[0]
            rank = problem.freedom(np.arange(len(problem.rows)))
            warn_user(
                f"n_atoms = {solution.asked}, but the model stopped at {used}: "
                + ("these atoms match the scores exactly. " if matched else "no other atom lowers the loss. ")
                + f"The rows carry {rank} at most."
            )

    def name_atoms(self, names: Sequence[str]) -> None:
        """Call the atoms by names of your own in `explain`, in the order of `atoms_`.

        Parameters
        ----------
        names : (k,) text, one an atom
        """
        check_is_fitted(self)
        if len(names) != len(self.atoms_):
            raise ValueError(
                f"names has {len(names)} entries for {len(self.atoms_)} atoms; where it names all rows, hand over "
                "names[model.atoms_]."
            )
        self._names = [str(name) for name in names]

    def _atom_names(self, X: Any) -> list[str]:
        """What to call the atoms."""
        if self._function is None and self.basis_points_ is None:
            names = getattr(self, "feature_names_in_", None)
            return [f"column {atom}" if names is None else str(names[atom]) for atom in self.atoms_]
        labels = None if self._function is not None else row_labels(X if self.basis_ is not None else self.dictionary)
        if labels is not None:
            return [str(labels[int(atom)]) for atom in self.atoms_]
        word = "row" if self.basis_ is not None else "point" if self._function is None else "atom"
        return [f"{word} {atom}" for atom in self.atoms_]

    # ---------------------------------------------------------------- predict

    def _expansions(self) -> list[AtomExpansion]:  # type: ignore[override]
        return [self._expansion(self.coef_)]

    def _expansion(self, coefficients: Array) -> AtomExpansion:
        """The function with these weights (k,), or several of them (k, p)."""
        if self._function is not None:
            function = function_of(self._function)
            return AtomExpansion(coefficients, self._kernel, None, self.atoms_, function, self._size)
        if self.basis_points_ is not None:
            return AtomExpansion(coefficients, self._kernel, self.basis_points_)
        order = np.argsort(self.atoms_)  # a view's columns are sorted
        return AtomExpansion(take(coefficients, order), self._kernel, None, self.atoms_[order])

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
        weights = like(self._weights, np.empty(0) if is_sparse(features) else features)
        return self._scores(self._expansion(weights).values(features), features)

    def _why_fixed(self) -> str:
        return (
            "update cannot add rows to a pursuit, whose atoms are chosen anew with every row; fit again with all rows."
        )

    # ---------------------------------------------------------------- reading the model

    def explain(self) -> Explanation:
        """The atoms in order of entry, their weights and what each of them added; print it, or plot it.

        With refit="basic" there is one line a step: an atom that was picked again has several, whose weights add up.

        Returns
        -------
        Explanation
        """
        check_is_fitted(self)
        entries = self._entries()
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
            weights=np.asarray(weights),
            left=np.asarray(self.training_loss_[1:][entries] / start),
            held_out=self._held_out(entries + 1),
        )

    def _entries(self) -> Index:
        """The steps that an explanation shows: all, or for "final" those at which an atom came in."""
        if self._refit == "basic":
            return np.arange(self.n_atoms_)
        _, first = np.unique(self.steps_, return_index=True)
        return np.sort(first)

    def _held_out(self, numbers: Index) -> FloatArray | None:
        """The held-out error of each number of steps at the width that was chosen."""
        path = self.path_
        if path is None or path.n_atoms is None:
            return None
        own = np.isnan(path.gamma) if self.gamma_ is None else path.gamma == self.gamma_
        known = dict(zip(path.n_atoms[own].tolist(), path.error[own].tolist(), strict=True))
        return np.asarray([known.get(float(number), np.nan) for number in numbers])
