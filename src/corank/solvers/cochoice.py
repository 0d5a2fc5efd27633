"""How many atoms a pursuit on several views takes and how much its views must agree: by held-out error.

What is held out leaves, as scores and as atoms; what unscored rows say stays. All folds of an agreement advance one
atom at a time, until more atoms have not helped for a while.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from corank._backend import Array, in_order, like, namespace, take
from corank.problem import FloatArray, ScoredRows
from corank.solvers.agreement import ViewData, same_scores
from corank.solvers.cofit import AGREEMENTS
from corank.solvers.cogreedy import Atoms, GreedyPath, Rules, Scores
from corank.solvers.coheldout import raw_sums
from corank.solvers.folding import Folding, own_folds, row_numbers
from corank.solvers.holdout import N_FOLDS, HeldOut, Scoring, Splits
from corank.solvers.path import Path, constant_error
from corank.statistics import Index

PATIENCE = 10  # steps without a lower held-out error after which no more atoms are tried
MOST_ATOMS = 100  # that "tune" tries
FEW_ATOMS = 10  # where there is nothing to choose by


@dataclass(frozen=True)
class Wishes:
    """What a learner was asked for, checked.

    agreement : candidates, or "tune"; n_atoms : candidates, or "tune"
    splits : of the rows scored in any view, where the learner's own folds will not do
    compared : held-out errors are wanted although nothing is chosen by them here
    """

    agreement: float | str | tuple[float, ...]
    n_atoms: int | str | tuple[int, ...]
    rules: Rules
    splits: Splits | None = None
    scoring: Scoring = "squared"
    seed: int = 0
    compared: bool = False
    n_solutions: int = 1

    @property
    def tunes(self) -> bool:
        """Whether anything is chosen by held-out error."""
        return self.compared or not (isinstance(self.agreement, float) and isinstance(self.n_atoms, int))


@dataclass(frozen=True)
class Pursued:
    """A fitted pursuit: its steps, those of its alternatives, and how the parameters came about.

    asked : the number of steps that were wanted
    """

    atoms: Atoms
    model: GreedyPath
    others: Sequence[GreedyPath]
    asked: int
    agreement: float
    path: Path | None


def pursue(atoms: Atoms, wishes: Wishes) -> Pursued:
    """Choose what is to be tuned by held-out error, then pursue on everything that is scored."""
    scores = Scores(atoms)
    agreements = _agreements(scores, wishes)
    n_atoms, agreement, path = _unproven(atoms, wishes), float(agreements[-1]), None
    if isinstance(wishes.agreement, str):
        agreement = 0.0  # no proof, no agreement
    if wishes.tunes and (path := _tried(atoms, wishes, agreements)) is not None:
        assert path.agreement is not None
        assert path.n_atoms is not None
        n_atoms, agreement = int(path.n_atoms[path.best]), float(path.agreement[path.best])
    model = GreedyPath(scores, wishes.rules, agreement)
    _run(model, n_atoms)
    return Pursued(atoms, model, alternatives(model, n_atoms, wishes.n_solutions), n_atoms, agreement, path)


def _run(path: GreedyPath, n_atoms: int) -> None:
    while len(path.labels) < n_atoms and path.advance():
        pass


def alternatives(model: GreedyPath, n_atoms: int, n_solutions: int) -> list[GreedyPath]:
    """More near-optimal models, by their F: each is started by the best first step with an atom that none before has."""
    found = [model]
    while len(found) < n_solutions:
        path = GreedyPath(model.scores, model.rules, model.agreement, model.search)
        right = path.right()
        steps = []
        for view in range(len(right)):
            masks = path.allowed()
            masks[view][[labels[view] for other in found for labels in other.labels]] = False
            steps.append(path.search.best(right, masks))
        known = [step for step in steps if step is not None]
        if not known:
            break
        path.advance(max(known, key=lambda step: step.gain))
        _run(path, n_atoms)
        found.append(path)
    return sorted(found[1:], key=lambda path: path.losses[-1])


# ---------------------------------------------------------------- which to try


def most_atoms(sizes: Sequence[int]) -> int:
    """The limit of "tune"."""
    return min(MOST_ATOMS, *sizes)


def _agreements(scores: Scores, wishes: Wishes) -> FloatArray:
    """Those that were given, or a grid around where disagreement weighs as much as the loss on the scored rows."""
    unscored = scores.atoms.unscored
    if unscored is None:
        return np.zeros(1)
    if not isinstance(wishes.agreement, str):
        return np.atleast_1d(wishes.agreement)
    xp = namespace(unscored)
    spread = 2 * (len(scores.sizes) - 1) * float(xp.linalg.trace(unscored))
    scale = sum(float(xp.sum(own)) for own in scores.sizes) / spread if spread > 0 else 0.0
    return AGREEMENTS * scale if scale > 0 else np.zeros(1)


def _unproven(atoms: Atoms, wishes: Wishes) -> int:
    """The number of atoms where nothing can be held out."""
    if isinstance(wishes.n_atoms, str):
        return min(FEW_ATOMS, most_atoms(atoms.sizes))
    return int(np.atleast_1d(wishes.n_atoms)[-1])


# ---------------------------------------------------------------- held-out errors


class _Fold:
    """What a fold keeps and what it holds out."""

    def __init__(self, atoms: Atoms, kept: Sequence[Index], left: Sequence[Index], *, together: bool) -> None:
        index = row_numbers(atoms.views)
        rows = np.concatenate([own[units] for own, units in zip(index, left, strict=True)])
        self.scores, self.together = Scores(atoms, kept, rows), together
        self.told = [v for v, units in enumerate(left) if len(units)]
        self.left = left
        judged = self.told[:1] if together else self.told
        self.problems = [atoms.problems[v].take(left[v]) for v in judged]
        self._one = Folding([np.zeros(len(left[v]), dtype=np.int64) for v in judged], items=False)

    def sums(self, path: GreedyPath, scoring: Scoring) -> tuple[FloatArray, ...]:
        """What `raw_sums` says of the model so far: of the mean of the views, or of each where scores are its own."""
        predictions = [self._predictions(path, v) for v in self.told]
        if self.together:
            predictions = [sum(predictions[1:], predictions[0]) / len(predictions)]
        residuals = [p.residuals(own) for p, own in zip(self.problems, predictions, strict=False)]
        stacked = namespace(residuals[0]).concat(residuals, axis=0)
        return raw_sums(self.problems, self._one, stacked, np.zeros(1), scoring, together=False)

    def _predictions(self, path: GreedyPath, view: int) -> Array:
        """A view's function on its units that are held out: (n_left, 1)."""
        values = path.scores.atoms.scored[view]
        labels = like([labels[view] for labels in path.labels], values, "int64")
        columns = namespace(values).take(values, labels, axis=1)
        return take(columns @ like(path.weights[:, view : view + 1], values), self.left[view])


def _folds(atoms: Atoms, wishes: Wishes) -> list[_Fold]:
    """At most ten folds of whole queries (rows, items of the only query), or the splits that were given."""
    found = own_folds(atoms.views, wishes.splits, wishes.seed)
    if found is None:
        return []
    together = same_scores(atoms.problems)
    if isinstance(found, Folding):
        coarse = found if wishes.splits is not None else found.coarser(N_FOLDS, wishes.seed)
        parts = [coarse.units(np.asarray([fold])) for fold in range(coarse.n_folds)]
    else:
        parts = [(_units(atoms.views, train), _units(atoms.views, test)) for train, test in found]
    sound = [(kept, left) for kept, left in parts if all(len(units) for units in kept)]
    if wishes.splits is not None and len(sound) < len(parts):
        raise ValueError("cv leaves a view without scored rows to train on.")
    return [_Fold(atoms, kept, left, together=together) for kept, left in sound]


def _units(views: Sequence[ViewData], units: Index) -> list[Index]:
    """Units of every view, from numbers among the rows scored in any view."""
    index = row_numbers(views)
    rows = np.unique(np.concatenate(index))[units]
    return [np.flatnonzero(np.isin(own, rows)) for own in index]


def _tried(atoms: Atoms, wishes: Wishes, agreements: FloatArray) -> Path | None:
    """The held-out errors of every agreement and number of atoms; None where there is nothing to hold out."""
    folds = _folds(atoms, wishes)
    if not folds:
        return None
    numbers: list[Index] = []
    errors: list[FloatArray] = []
    sizes = np.zeros(0)
    for agreement in agreements:
        tried, found = _held_out(folds, wishes, float(agreement))
        if len(found.sizes) == 0:  # nothing that was held out can be told apart
            return None
        numbers.append(tried)
        errors.append(found.errors)
        sizes = found.sizes
    every, n_atoms = HeldOut(np.concatenate(errors, axis=1), sizes), np.concatenate(numbers).astype(np.float64)
    problems: list[ScoredRows] = atoms.problems[:1] if same_scores(atoms.problems) else atoms.problems
    return Path(
        alpha=np.zeros(len(n_atoms)),
        gamma=np.full(len(n_atoms), np.nan),
        error=every.mean,
        standard_error=every.standard_error,
        best=_best(every.mean, n_atoms),
        scoring=wishes.scoring,
        constant=constant_error(problems, 0.0, wishes.scoring),
        agreement=np.repeat(agreements, [len(own) for own in numbers]),
        n_atoms=n_atoms,
    )


def _best(error: FloatArray, n_atoms: FloatArray) -> int:
    """The least error; among equals the fewest atoms, then the first."""
    ties = np.flatnonzero(error <= error.min() * (1 + 1e-12))
    return int(ties[np.argmin(n_atoms[ties])])


def _held_out(folds: Sequence[_Fold], wishes: Wishes, agreement: float) -> tuple[Index, HeldOut]:
    """The numbers of atoms tried and their errors at one agreement; all folds advance together."""
    paths = [GreedyPath(fold.scores, wishes.rules, agreement) for fold in folds]
    tunes = isinstance(wishes.n_atoms, str)
    last = most_atoms(folds[0].scores.atoms.sizes) if tunes else int(np.max(wishes.n_atoms))
    wanted = set(range(1, last + 1) if tunes else np.atleast_1d(wishes.n_atoms).tolist())
    numbers: list[int] = []
    columns: list[HeldOut] = []

    def advance(k: int) -> tuple[bool, tuple[FloatArray, ...] | None]:
        moved = len(paths[k].labels) == number - 1 and paths[k].advance()
        return moved, folds[k].sums(paths[k], wishes.scoring) if number in wanted else None

    for number in range(1, last + 1):
        moved, sums = zip(*in_order(advance, range(len(folds)), folds[0].scores.targets[0]), strict=True)
        if tunes and not any(moved):
            break
        if number in wanted:
            numbers.append(number)
            columns.append(_joined(sums, wishes.scoring))
            if len(columns[0].sizes) == 0:
                break
        if tunes and number - numbers[int(np.argmin([own.mean[0] for own in columns]))] >= PATIENCE:
            break
    errors = np.concatenate([own.errors for own in columns], axis=1)
    return np.asarray(numbers), HeldOut(errors, columns[0].sizes)


def _joined(sums: Sequence[tuple[FloatArray, ...]], scoring: Scoring) -> HeldOut:
    """One column of errors, a row a fold."""
    target, cross, own, sizes = (np.concatenate(part) for part in zip(*sums, strict=True))
    if scoring == "rescaled":
        return HeldOut.rescaled(target, cross, own, sizes)
    return HeldOut(target[sizes > 0], sizes[sizes > 0])
