"""Semi-supervised ranking pursuit ([Tsivtsivadze2013] section 3.1, fig. 2): every step adds one
atom to each of M views.

    F = Σ_v ‖J_v (s_v − f_v)‖² + 2·agreement Σ_{u<v} ‖J̄ (f_v − f_u)‖²,   f_v = Σ_p a_p k(·, atom p)

Unscored rows enter as sums, gathered once. `GreedyPath` takes steps (docs/mathematics.md, sections
1.5, 1.6 and 3.9); `pursue_views` chooses by held-out error how many there are and how much the
views must agree. What is held out leaves as scores and as atoms; unscored rows stay. All folds
advance one atom at a time, until more atoms have not helped for a while.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Literal, TypeAlias

import numpy as np

from corank.core.arrays import (
    Array,
    FloatArray,
    Index,
    Mask,
    in_order,
    inverse_where,
    like,
    namespace,
    sum_of,
    take,
    take_columns,
    to_numpy,
)
from corank.core.basis import KernelBasis, Whitening
from corank.core.folds import (
    Folding,
    Splits,
    default_folding,
    given_folding,
    row_numbers,
    same_scores,
    split_units,
)
from corank.core.kernels import finite_values
from corank.core.observations import ScoredRows
from corank.solve.atom_search import AtomSearch, Costs, Step, make_search
from corank.solve.column_path import UNTUNED_COLUMNS, GrowingColumns
from corank.solve.holdout import FoldErrors, HeldOut, Scoring, best_position, pooled, view_errors
from corank.solve.path import Path
from corank.solve.pursuit import NEGLIGIBLE_GAIN, PATIENCE_STEPS, scattered_sums
from corank.solve.systems import JointFeatures, Unscored, ViewData, sum_unscored
from corank.solve.tuning import AGREEMENTS, constant_error

Objective: TypeAlias = Literal["exact", "paper"]
SearchKind: TypeAlias = Literal["full", "tied"]
CoRefit: TypeAlias = Literal["back", "basic", "final"]

# that "tune" tries per view: a sparse model with more is no longer read by anybody
MAX_TUNED_ATOMS = 100
# Weights are fitted by least squares with a cut of its own, so a column brings a direction unless
# all that it adds to the others is rounding: 1e-12 of its length.
DEPENDENT_SHARE = 1e-24  # of the squared length of a column
# of the largest singular value: smaller ones are dropped when weights are fitted again
MIN_SINGULAR_SHARE = 1e-10
# share of the largest eigenvalue of sums: smaller ones are zero but for rounding
EIGENVALUE_ROUNDING = 1e-14
# share of F at the start: models that leave less of it all fit exactly, but for rounding
NEGLIGIBLE_LOSS = 1e-20
# of squared kernel values: an atom that varies by less within queries is constant there
CONSTANT_SHARE = 1e-24

UNWHITENED = Whitening(np.empty((0, 0)), 1.0, trivial=True)  # atoms are summed one by one


@dataclass(frozen=True)
class CoPursuitSettings:
    """What a learner was asked for, checked.

    agreement, n_atoms : a number, candidates, or "tune"
    objective : "exact" decreases F; "paper" steps as [Tsivtsivadze2013] fig. 2 prints
    search : "full", all combinations of two views; "tied", the same atom in every view
    refit : "back", all weights fitted again after every step; "basic", never; "final", once at the
        end
    splits : of the rows scored in any view; None for the folds of the learner
    compared : held-out errors are needed although nothing is chosen by them here
    """

    agreement: float | str | tuple[float, ...]
    n_atoms: int | str | tuple[int, ...]
    objective: Objective
    search: SearchKind
    refit: CoRefit
    splits: Index | Splits | None
    scoring: Scoring
    seed: int
    n_solutions: int
    compared: bool = False

    @property
    def tunes(self) -> bool:
        """Whether held-out errors are needed."""
        return self.compared or not (
            isinstance(self.agreement, float) and isinstance(self.n_atoms, int)
        )


# ---------------------------------------------------------------- dictionaries and scores


@dataclass(frozen=True)
class ViewAtoms:
    """The dictionaries of all views at the scored rows and, as sums, at the unscored ones.

    scored : (n_v, N_v) per view, D_v
    numbers : (N_v,) per view, row numbers of its atoms
    unscored : (Σ N_v, Σ N_v), D̄ᵀ L̄ D̄ of all dictionaries side by side; None where nothing
        couples the views
    """

    views: Sequence[ViewData]
    scored: Sequence[Array]
    unscored: Array | None
    numbers: Sequence[Index]

    @classmethod
    def of(
        cls, views: Sequence[ViewData], unscored: Unscored | None, numbers: Sequence[Index]
    ) -> ViewAtoms:
        """One pass over each set of rows: O(Σ n_v N_v d + m (Σ N_v)²) for m unscored rows, held one
        block at a time.
        """
        scored = [finite_values(view.basis.features(view.problem.features)) for view in views]
        if unscored is None or unscored.rows.n_rows == 0 or len(views) == 1:
            return cls(views, scored, None, numbers)
        bases = [
            replace(view.basis, own_whitening=UNWHITENED)
            for view in views
            if isinstance(view.basis, KernelBasis)
        ]
        columns = [view.columns for view in views]
        sums = sum_unscored(unscored, JointFeatures(bases), columns, views[0].problem.reference)
        return cls(views, scored, finite_values(sums.features), numbers)

    @property
    def problems(self) -> list[ScoredRows]:
        """The scored rows of every view."""
        return [view.problem for view in self.views if isinstance(view.problem, ScoredRows)]

    @cached_property
    def sizes(self) -> list[int]:
        """N_v."""
        return [values.shape[1] for values in self.scored]

    @cached_property
    def ends(self) -> Index:
        """Where each view's atoms begin among those of all views, and the end."""
        return np.cumsum([0, *self.sizes])

    @cached_property
    def largest(self) -> list[float]:
        """The largest absolute kernel value of every view."""
        return [
            float(namespace(values).max(namespace(values).abs(values))) for values in self.scored
        ]


class KeptScores:
    """The scored rows that a pursuit fits: all of them, or those that a fold keeps.

    Parameters
    ----------
    kept : (n_v,) rows per view, None for all
    held_out : (m,) row numbers in X; they are no atoms either
    """

    def __init__(
        self, atoms: ViewAtoms, kept: Sequence[Index] | None = None, held_out: Index | None = None
    ) -> None:
        self.atoms, self.kept = atoms, kept
        self.barred = [
            np.isin(numbers, [] if held_out is None else held_out) for numbers in atoms.numbers
        ]
        self.problems = atoms.problems
        if kept is not None:
            self.problems = [
                problem.take(rows) for problem, rows in zip(atoms.problems, kept, strict=True)
            ]
        self.targets = [problem.targets[:, :1] for problem in self.problems]
        rooted = (self._rooted(view, values) for view, values in enumerate(atoms.scored))
        self.lengths = [
            namespace(values).sum(values * values, axis=0) for values in rooted
        ]  # dᵀ L d of every atom: (N_v,)

    def _rooted(self, view: int, values: Array) -> Array:
        """J of the kept rows, for values of all rows (n_v, c)."""
        kept = values if self.kept is None else take(values, self.kept[view])
        return self.problems[view].operator.root(kept)

    def column(self, view: int, atom: int) -> Array:
        """J d of one atom: (n_kept, 1)."""
        return self._rooted(view, self.atoms.scored[view][:, atom : atom + 1])

    def products(self, view: int, residual: Array) -> Array:
        """Dᵀ Jᵀ z of every atom, for z (n_kept, 1): (N_v,). O(n_v N_v); D is not copied for a fold."""
        values, dictionary = (
            self.problems[view].operator.root_transposed(residual)[:, 0],
            self.atoms.scored[view],
        )
        if self.kept is not None:
            values = scattered_sums(values, self.kept[view], dictionary.shape[0])
        return dictionary.T @ values

    def costs(self, agreement: float) -> Costs:
        """The costs of steps."""
        floors = []
        for problem, largest in zip(self.problems, self.atoms.largest, strict=True):
            within = problem.operator.within
            floors.append(
                CONSTANT_SHARE
                * largest**2
                * problem.operator.weight
                * float(namespace(within).max(within))
            )
        unscored = self.atoms.unscored
        if unscored is None or agreement == 0:
            return Costs(self.lengths, None, {}, 0.0, floors)
        spans = [slice(int(begin), int(end)) for begin, end in pairwise(self.atoms.ends)]
        diagonal = namespace(unscored).linalg.diagonal(unscored)
        m = len(spans)
        shared = {(v, u): unscored[spans[v], spans[u]] for v in range(m) for u in range(v + 1, m)}
        return Costs(self.lengths, [diagonal[span] for span in spans], shared, agreement, floors)

    @property
    def loss(self) -> float:
        """F of functions that are zero."""
        return sum(float(namespace(target).sum(target * target)) for target in self.targets)


# ---------------------------------------------------------------- steps


class EnteredAtoms:
    """The atoms of one view that have entered: J D = Q R, and the target (n, 1) in the directions
    of Q.
    """

    def __init__(self, target: Array) -> None:
        self.target = target
        self.columns = GrowingColumns(target[:, 0], negligible=DEPENDENT_SHARE)
        self.projected: list[float] = []

    def add(self, column: Array) -> None:
        """One more column (n, 1). O(n p)."""
        added = self.columns.add(column[:, 0])
        if added is not None:
            direction, _ = added
            self.projected.append(float(namespace(direction).sum(direction * self.target[:, 0])))

    def fitted(self, weights: FloatArray) -> Array:
        """J f for the weights of the atoms (p,): (n, 1)."""
        coordinates = like(self.columns.upper @ weights, self.target)
        return (coordinates @ self.columns.directions)[:, None]


class GreedyPath:
    """A pursuit on the way: atoms and weights so far.

    A step is O(Σ n_v N_v) for the scored rows, O(N_1 N_2) for the search (O(N M²) tied) and O((M
    p)³) for the weights.

    Attributes
    ----------
    labels : one tuple per step, with one atom per view
    weights : (p, M) of the model after p steps, fitted again where the settings say so
    history : `weights` after every step
    losses : F after 0, 1, … steps
    """

    def __init__(
        self,
        scores: KeptScores,
        settings: CoPursuitSettings,
        agreement: float,
        search: AtomSearch | None = None,
    ) -> None:
        self.scores, self.settings, self.agreement = scores, settings, agreement
        self.search = search or make_search(scores.costs(agreement), settings.search)
        self.labels: list[tuple[int, ...]] = []
        self.losses = [scores.loss]
        self.history: list[FloatArray] = []
        self._entered = [EnteredAtoms(target) for target in scores.targets]
        # weights with which the next step is found
        self._running: FloatArray = np.zeros((0, len(self._entered)))

    @property
    def weights(self) -> FloatArray:
        """Weights of the model so far: (p, M)."""
        return self.history[-1] if self.history else self._running

    @property
    def _coupling(self) -> tuple[Array, FloatArray] | None:
        """Sums between the entered atoms and all (M p, Σ N_v), and those of the disagreement among
        the entered.
        """
        atoms = self.scores.atoms
        if atoms.unscored is None or self.agreement == 0:
            return None
        m, p = len(self._entered), len(self.labels)
        places = (np.reshape(self.labels, (p, m)) + atoms.ends[:-1]).T.ravel().astype(np.int64)
        rows = take(atoms.unscored, places)
        among = to_numpy(take_columns(rows, places))
        return rows, np.asarray(
            np.kron(m * np.eye(m) - 1, np.ones((p, p))) * among, dtype=np.float64
        )

    def promises(self) -> list[Array]:
        """χ: what a step with each atom promises, (N_v,) per view (docs/mathematics.md, section
        1.5).
        """
        fitted = [entered.fitted(self._running[:, v]) for v, entered in enumerate(self._entered)]
        exact = self.settings.objective == "exact"
        if not exact:  # one residual for all views, whatever they disagree about already
            fitted = [sum_of(fitted) / len(fitted)] * len(fitted)
        residuals = [
            entered.target - values for entered, values in zip(self._entered, fitted, strict=True)
        ]
        views = range(len(residuals))
        promises = list(
            in_order(lambda v: self.scores.products(v, residuals[v]), views, residuals[0])
        )
        coupling = self._coupling if exact and self.labels else None
        if coupling is None:
            return promises
        (p, m), (rows, _) = self._running.shape, coupling
        products = [like(self._running[:, v], rows) @ rows[v * p : (v + 1) * p, :] for v in views]
        total = sum_of(products)
        for v, (begin, end) in enumerate(pairwise(self.scores.atoms.ends)):
            # d̄ᵀ L̄ Σ_u (h_v − h_u) of every atom
            gaps = m * products[v][begin:end] - total[begin:end]
            promises[v] = promises[v] - 2 * self.agreement * gaps
        return promises

    def allowed(self) -> list[Mask]:
        """Which atoms of every view may enter: where weights are fitted again, none comes twice."""
        masks = [~barred for barred in self.scores.barred]
        if self.settings.refit == "back":
            for v, mask in enumerate(masks):
                mask[[labels[v] for labels in self.labels]] = False
        return masks

    def advance(self, step: Step | None = None) -> bool:
        """Take the best step, or a given one; False where no step gains anything.

        The first step is always taken: a model has at least one atom per view, if need be with
        weight zero.
        """
        is_first = not self.labels
        step = step or self.search.best(self.promises(), self.allowed())
        if step is None and is_first:  # no atom tells rows apart
            step = Step((0,) * len(self._entered), np.zeros(len(self._entered)), 0.0)
        if step is None or (not is_first and step.gain <= NEGLIGIBLE_GAIN * self.losses[0]):
            return False
        self.labels.append(step.labels)
        for v, (entered, label) in enumerate(zip(self._entered, step.labels, strict=True)):
            column = self.scores.column(v, label)
            entered.add(column if self.search.costs.live[v][label] else 0.0 * column)
        self._running = np.vstack([self._running, step.weights])
        coupling = self._coupling
        among = None if coupling is None else coupling[1]
        model = self._running
        if self.settings.refit != "basic":
            model = joint_weights(self._entered, among, self.agreement)
        if self.settings.refit == "back":
            self._running = model
        self.history.append(model)
        self.losses.append(self._loss(model, among))
        return True

    def advance_to(self, n_atoms: int) -> None:
        """Take steps until there are `n_atoms`, or none gains anything."""
        while len(self.labels) < n_atoms and self.advance():
            pass

    def _loss(self, weights: FloatArray, among: FloatArray | None) -> float:
        """F of the model with these weights (p, M)."""
        total = 0.0
        for v, entered in enumerate(self._entered):
            residual = entered.target - entered.fitted(weights[:, v])
            total += float(namespace(residual).sum(residual * residual))
        if among is not None:
            stacked = weights.T.ravel()
            total += 2 * self.agreement * max(float(stacked @ among @ stacked), 0.0)
        return total


def joint_weights(
    entered: Sequence[EnteredAtoms], among: FloatArray | None, agreement: float
) -> FloatArray:
    """The weights (p, M) of all entered atoms that make F least: stacked least squares, no normal
    equations. O((M p)³).

    among : (M p, M p) the disagreement between entered atoms, view by view
    """
    triangles = [atoms.columns.upper for atoms in entered]
    m, p = len(triangles), triangles[0].shape[1]
    rows = np.zeros((sum(len(upper) for upper in triangles), m * p))
    begin = 0
    for v, upper in enumerate(triangles):
        rows[begin : begin + len(upper), v * p : (v + 1) * p] = upper
        begin += len(upper)
    target = np.concatenate([atoms.projected for atoms in entered])
    if among is not None:
        values, vectors = np.linalg.eigh((among + among.T) / 2)
        values = np.where(values > EIGENVALUE_ROUNDING * values[-1], values, 0.0)
        rows = np.concatenate([rows, np.sqrt(2 * agreement * values)[:, None] * vectors.T])
        target = np.concatenate([target, np.zeros(m * p)])
    size = np.linalg.norm(rows, axis=0)
    scale = inverse_where(size > 0, size)
    weights = scale * np.linalg.lstsq(rows * scale, target, rcond=MIN_SINGULAR_SHARE)[0]
    return np.asarray(weights.reshape(m, p).T)


# ---------------------------------------------------------------- the number of atoms and the agreement


@dataclass(frozen=True)
class CoPursuitSolution:
    """A fitted pursuit: its steps, those of its alternatives, and how the parameters came about.

    model : the one with the least F of all that were found
    asked : the number of steps that were to be taken
    """

    atoms: ViewAtoms
    model: GreedyPath
    others: Sequence[GreedyPath]
    asked: int
    agreement: float
    path: Path | None


def pursue_views(atoms: ViewAtoms, settings: CoPursuitSettings) -> CoPursuitSolution:
    """Choose by held-out error what is to be tuned, then pursue on all scored rows."""
    scores = KeptScores(atoms)
    agreements = _agreements(scores, settings)
    n_atoms, agreement, path = _untuned_number(atoms, settings), float(agreements[-1]), None
    if isinstance(settings.agreement, str):
        agreement = 0.0  # where nothing shows that agreement helps there is none
    if settings.tunes and (path := _path(atoms, settings, agreements)) is not None:
        assert path.agreement is not None
        assert path.n_atoms is not None
        n_atoms, agreement = int(path.n_atoms[path.best]), float(path.agreement[path.best])
    greedy = GreedyPath(scores, settings, agreement)
    greedy.advance_to(n_atoms)
    model, *others = alternatives(greedy, n_atoms, settings.n_solutions)
    return CoPursuitSolution(atoms, model, others, n_atoms, agreement, path)


def alternatives(greedy: GreedyPath, n_atoms: int, n_solutions: int) -> list[GreedyPath]:
    """Near-optimal models, the least F first: each is found from the best first step whose atom is
    in none before it.
    """
    paths = [greedy]
    while len(paths) < n_solutions:
        path = GreedyPath(greedy.scores, greedy.settings, greedy.agreement, greedy.search)
        promises = path.promises()
        steps = []
        for view in range(len(promises)):
            masks = path.allowed()
            masks[view][[labels[view] for other in paths for labels in other.labels]] = False
            steps.append(path.search.best(promises, masks))
        first_steps = [step for step in steps if step is not None]
        if not first_steps:
            break
        path.advance(max(first_steps, key=lambda step: step.gain))
        path.advance_to(n_atoms)
        paths.append(path)
    negligible = NEGLIGIBLE_LOSS * greedy.losses[0]
    model = paths[_first_least([max(path.losses[-1], negligible) for path in paths])]
    others = [path for path in paths if path is not model]
    return [model, *sorted(others, key=lambda path: path.losses[-1])]


def _agreements(scores: KeptScores, settings: CoPursuitSettings) -> FloatArray:
    """The given agreements, or a grid around where disagreement weighs as much as the loss on the
    scored rows.
    """
    unscored = scores.atoms.unscored
    if unscored is None:
        return np.zeros(1)
    if not isinstance(settings.agreement, str):
        return np.atleast_1d(settings.agreement)
    xp = namespace(unscored)
    disagreement = 2 * (len(scores.lengths) - 1) * float(xp.linalg.trace(unscored))
    loss = sum(float(xp.sum(lengths)) for lengths in scores.lengths)
    scale = loss / disagreement if disagreement > 0 else 0.0
    return AGREEMENTS * scale if scale > 0 else np.zeros(1)


def _untuned_number(atoms: ViewAtoms, settings: CoPursuitSettings) -> int:
    """The number of atoms where nothing can be held out: the last of a list."""
    if isinstance(settings.n_atoms, str):
        return min(UNTUNED_COLUMNS, *atoms.sizes)
    return int(np.atleast_1d(settings.n_atoms)[-1])


# ---------------------------------------------------------------- held-out errors


class _CoPursuitFold:
    """What a fold keeps and what it holds out: `kept` and `left` are (n_v,) rows per view."""

    def __init__(
        self, atoms: ViewAtoms, kept: Sequence[Index], left: Sequence[Index], *, together: bool
    ) -> None:
        index = row_numbers(atoms.problems)
        rows = np.concatenate([numbers[units] for numbers, units in zip(index, left, strict=True)])
        self.scores, self.together = KeptScores(atoms, kept, rows), together
        # views with anything held out
        self.judged = [v for v, units in enumerate(left) if len(units)]
        self.left = left
        self.problems = [atoms.problems[v].take(left[v]) for v in self.judged]
        self._folding = Folding([np.zeros(len(left[v]), dtype=np.int64) for v in self.judged])

    def errors(self, path: GreedyPath, scoring: Scoring) -> list[FoldErrors]:
        """Errors of the model so far: of the mean of the views, or of each where scores are its
        own.
        """
        predictions = []
        for v in self.judged:
            values = path.scores.atoms.scored[v]
            columns = take_columns(values, [labels[v] for labels in path.labels])
            predictions.append(
                take(columns @ like(path.weights[:, v : v + 1], values), self.left[v])
            )
        return view_errors(
            self.problems, self._folding, predictions, np.zeros(1), scoring, together=self.together
        )


def _folds(atoms: ViewAtoms, settings: CoPursuitSettings) -> list[_CoPursuitFold]:
    """At most ten folds of whole queries (rows, items of the only query), or the splits that were
    given.
    """
    problems = atoms.problems
    groups = [view.groups for view in atoms.views if view.groups is not None] or None
    folds: Folding | Splits | None
    if settings.splits is None:
        folds = default_folding(problems, groups, settings.seed, n_features=0)
    else:
        folds = given_folding(problems, settings.splits, items=groups is None)
    if folds is None:
        return []
    together = same_scores(problems)
    if isinstance(folds, Folding):
        units = [folds.units(np.asarray([fold])) for fold in range(folds.n_folds)]
    else:
        units = [
            (split_units(problems, train), split_units(problems, test)) for train, test in folds
        ]
    sound = [(kept, left) for kept, left in units if all(len(rows) for rows in kept)]
    if settings.splits is not None and len(sound) < len(units):
        raise ValueError("cv leaves a view without scored rows to train on.")
    return [_CoPursuitFold(atoms, kept, left, together=together) for kept, left in sound]


def _path(atoms: ViewAtoms, settings: CoPursuitSettings, agreements: FloatArray) -> Path | None:
    """The held-out errors of every agreement and number of atoms; None where there is nothing to
    hold out.
    """
    folds = _folds(atoms, settings)
    if not folds:
        return None
    numbers: list[Index] = []
    errors: list[FloatArray] = []
    sizes = np.zeros(0)
    for agreement in agreements:
        tried, held_out = _held_out(folds, settings, float(agreement))
        if len(held_out.sizes) == 0:  # held-out rows cannot be told apart
            return None
        numbers.append(tried)
        errors.append(held_out.errors)
        sizes = held_out.sizes
    every, n_atoms = (
        HeldOut(np.concatenate(errors, axis=1), sizes),
        np.concatenate(numbers).astype(np.float64),
    )
    return Path.of(
        every,
        best_position(every.mean, -n_atoms),
        settings.scoring,
        constant_error(atoms.problems, 0.0, settings.scoring),
        alpha=0.0,
        gamma=None,
        agreement=np.repeat(agreements, [len(tried) for tried in numbers]),
        n_atoms=n_atoms,
    )


def _first_least(errors: Sequence[float]) -> int:
    """Where the least error is met first: what falls below it by no more than rounding is no less."""
    return int(np.argmax(np.asarray(errors) <= min(errors) * (1 + 1e-12)))


def _held_out(
    folds: Sequence[_CoPursuitFold], settings: CoPursuitSettings, agreement: float
) -> tuple[Index, HeldOut]:
    """The numbers of atoms tried and their errors at one agreement; all folds advance together."""
    paths = [GreedyPath(fold.scores, settings, agreement) for fold in folds]
    tunes = isinstance(settings.n_atoms, str)
    last = (
        min(MAX_TUNED_ATOMS, *folds[0].scores.atoms.sizes)
        if tunes
        else int(np.max(settings.n_atoms))
    )
    candidates = set(range(1, last + 1) if tunes else np.atleast_1d(settings.n_atoms).tolist())
    numbers: list[int] = []
    columns: list[HeldOut] = []

    def advance(k: int) -> tuple[bool, list[FoldErrors]]:
        moved = len(paths[k].labels) == number - 1 and paths[k].advance()
        return moved, folds[k].errors(paths[k], settings.scoring) if number in candidates else []

    for number in range(1, last + 1):
        moved, tables = zip(
            *in_order(advance, range(len(folds)), folds[0].scores.targets[0]), strict=True
        )
        if tunes and not any(moved):
            break
        if number in candidates:
            numbers.append(number)
            columns.append(pooled([table for fold in tables for table in fold]))
            if len(columns[0].sizes) == 0:
                break
        if (
            tunes
            and number - numbers[_first_least([column.mean[0] for column in columns])]
            >= PATIENCE_STEPS
        ):
            break
    errors = np.concatenate([column.errors for column in columns], axis=1)
    return np.asarray(numbers), HeldOut(errors, columns[0].sizes)
