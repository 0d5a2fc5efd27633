"""Semi-supervised ranking pursuit ([Tsivtsivadze2013] section 3.1, fig. 2): every step adds one
atom to each of M views.

    F = Σ_v ‖J_v (s_v − f_v)‖² + 2·agreement Σ_{u<v} ‖J̄ (f_v − f_u)‖²,   f_v = Σ_p a_p k(·, atom p)

Unscored rows enter as sums, gathered once. `GreedyPath` takes steps (docs/mathematics.md, sections
1.5, 1.6 and 3.9); `pursue_views` chooses by held-out error how many there are and how much the
views must agree. What is held out leaves as scores and as atoms; unscored rows stay. All folds
advance one atom at a time, until more atoms have not helped for a while.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
from corank.solve.atom_search import Costs, SearchKind, Step, best_step
from corank.solve.column_path import UNTUNED_COLUMNS, GrowingColumns
from corank.solve.dictionary import RowSet
from corank.solve.holdout import FoldErrors, HeldOut, Scoring, best_position, pooled, view_errors
from corank.solve.path import Path
from corank.solve.pursuit import NEGLIGIBLE_GAIN, search_steps
from corank.solve.systems import JointFeatures, Unscored, ViewData, sum_unscored
from corank.solve.tuning import AGREEMENTS, TuningSettings, best_of, constant_error, is_open

Objective: TypeAlias = Literal["exact", "paper"]
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


@dataclass(frozen=True, kw_only=True)
class CoPursuitSettings(TuningSettings):
    """What a learner was asked for, checked.

    agreement, n_atoms : a number, candidates, or "tune"
    objective : "exact" decreases F; "paper" steps as [Tsivtsivadze2013] fig. 2 prints
    search : "full", all combinations of two views; "tied", the same atom in every view
    refit : "back", all weights fitted again after every step; "basic", never; "final", once at the
        end
    splits : of the rows scored in any view
    """

    agreement: float | str | tuple[float, ...]
    n_atoms: int | str | tuple[int, ...]
    objective: Objective
    search: SearchKind
    refit: CoRefit
    n_solutions: int

    @property
    def tunes(self) -> bool:
        """Whether held-out errors are needed."""
        return self.compared or is_open(self.agreement) or is_open(self.n_atoms)


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


@dataclass(frozen=True)
class _CoPursuitTrial:
    """One choice of kernel widths: the number of atoms and the agreement to take."""

    scores: KeptScores
    n_atoms: int
    agreement: float
    path: Path | None


def pursue_views(
    choices: Iterable[Sequence[ViewData]], unscored: Unscored | None, settings: CoPursuitSettings
) -> CoPursuitSolution:
    """Choose by held-out error what is to be tuned, then pursue on all scored rows."""
    best, path = best_of(_trial(ViewAtoms.of(views, unscored), settings) for views in choices)
    greedy = GreedyPath(best.scores, settings, best.agreement)
    greedy.advance_to(best.n_atoms)
    model, *others = alternatives(greedy, best.n_atoms, settings.n_solutions)
    return CoPursuitSolution(best.scores.atoms, model, others, best.n_atoms, best.agreement, path)


def _trial(atoms: ViewAtoms, settings: CoPursuitSettings) -> _CoPursuitTrial:
    """Kernels of one width: held-out errors where they are needed and can be found."""
    scores = KeptScores(atoms)
    agreements = _agreements(scores, settings)
    path = _path(atoms, settings, agreements) if settings.tunes else None
    if path is not None and path.n_atoms is not None and path.agreement is not None:
        n_atoms = path.n_atoms[path.best]
        agreement = path.agreement[path.best]
        return _CoPursuitTrial(scores, int(n_atoms), float(agreement), path)
    if isinstance(settings.n_atoms, str):
        number = min(UNTUNED_COLUMNS, *atoms.sizes)
    else:
        number = int(np.max(settings.n_atoms))
    # where nothing shows that agreement helps there is none
    agreement = 0.0 if isinstance(settings.agreement, str) else float(agreements[-1])
    return _CoPursuitTrial(scores, number, agreement, None)


def alternatives(greedy: GreedyPath, n_atoms: int, n_solutions: int) -> list[GreedyPath]:
    """Near-optimal models, the least F first: each is found from the best first step whose atom is
    in none before it.
    """
    paths = [greedy]
    while len(paths) < n_solutions:
        path = GreedyPath(greedy.scores, greedy.settings, greedy.agreement, greedy.costs)
        promises = path.promises()
        steps = []
        for view in range(len(promises)):
            masks = path.allowed()
            masks[view][[labels[view] for other in paths for labels in other.labels]] = False
            steps.append(path.best_step(promises, masks))
        first_steps = [step for step in steps if step is not None]
        if not first_steps:
            break
        path.enter(max(first_steps, key=lambda step: step.gain))
        path.advance_to(n_atoms)
        paths.append(path)
    # what is left of F where it is no more than rounding is alike
    negligible = NEGLIGIBLE_LOSS * greedy.losses[0]
    left = np.asarray([max(path.losses[-1], negligible) for path in paths])
    model = paths[int(np.argmax(left <= left.min() * (1 + 1e-12)))]
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


# ---------------------------------------------------------------- held-out errors


class _CoPursuitFold:
    """What a fold keeps and what it holds out: `kept` and `left` are (n_v,) rows per view."""

    def __init__(
        self, atoms: ViewAtoms, kept: Sequence[Index], left: Sequence[Index], *, together: bool
    ) -> None:
        index = row_numbers(atoms.problems)
        rows = np.concatenate([numbers[units] for numbers, units in zip(index, left, strict=True)])
        self.scores = KeptScores(atoms, kept, rows)
        self.together = together
        # views with anything held out
        self.judged = [v for v, units in enumerate(left) if len(units)]
        self.left = left
        self.problems = [atoms.problems[v].take(left[v]) for v in self.judged]
        self._folding = Folding([np.zeros(len(left[v]), dtype=np.int64) for v in self.judged])

    def predictions(self, path: GreedyPath, begin: int, end: int) -> list[Array]:
        """Those of the models after steps begin + 1 … end: (m, end − begin) per view."""
        weights = path.weights(begin, end)
        predictions = []
        for v in self.judged:
            values = self.scores.atoms.scored[v]
            columns = take_columns(values, [labels[v] for labels in path.labels])
            columns = take(columns, self.left[v])
            predictions.append(columns @ like(weights[:, :, v].T, columns))
        return predictions

    def errors(self, predictions: Sequence[Array], scoring: Scoring) -> list[FoldErrors]:
        """Errors of predictions: of the mean of the views, or of each where scores are its own."""
        offsets = np.zeros(1)
        together = self.together
        return view_errors(
            self.problems, self._folding, predictions, offsets, scoring, together=together
        )


def _folds(atoms: ViewAtoms, settings: CoPursuitSettings) -> list[_CoPursuitFold]:
    """At most ten folds of whole queries (rows, items of the only query), or the splits that were
    given; none where no error can be told on what is held out.
    """
    problems = atoms.problems
    groups = [view.groups for view in atoms.views if view.groups is not None] or None
    folding: Folding | Splits | None
    if settings.splits is None:
        folding = default_folding(problems, groups, settings.seed, n_features=0)
    else:
        folding = given_folding(problems, settings.splits, items=groups is None)
    if folding is None:
        return []
    if isinstance(folding, Folding):
        units = [folding.units(np.asarray([fold])) for fold in range(folding.n_folds)]
    else:
        units = [
            (split_units(problems, train), split_units(problems, test)) for train, test in folding
        ]
    sound = [(kept, left) for kept, left in units if all(len(rows) for rows in kept)]
    if settings.splits is not None and len(sound) < len(units):
        raise ValueError("cv leaves a view without scored rows to train on.")
    together = same_scores(problems)
    folds = [_CoPursuitFold(atoms, kept, left, together=together) for kept, left in sound]
    constants: list[FoldErrors] = []
    for fold in folds:
        zeros = [0.0 * problem.reference[:, None] for problem in fold.problems]
        constants += fold.errors(zeros, settings.scoring)
    return folds if constants and len(pooled(constants).sizes) else []


def _path(atoms: ViewAtoms, settings: CoPursuitSettings, agreements: FloatArray) -> Path | None:
    """The held-out errors of every agreement and number of atoms; None where there is nothing to
    hold out.
    """
    folds = _folds(atoms, settings)
    if not folds:
        return None
    tried = [_held_out(folds, settings, float(agreement)) for agreement in agreements]
    n_atoms = np.concatenate([numbers for numbers, _ in tried]).astype(np.float64)
    errors = np.concatenate([held_out.errors for _, held_out in tried], axis=1)
    every = HeldOut(errors, tried[0][1].sizes)
    basis = atoms.views[0].basis
    assert isinstance(basis, KernelBasis)
    return Path.of(
        every,
        best_position(every.mean, -n_atoms),
        settings.scoring,
        constant_error(atoms.problems, 0.0, settings.scoring),
        alpha=0.0,
        gamma=basis.kernel.gamma,
        agreement=np.repeat(agreements, [len(numbers) for numbers, _ in tried]),
        n_atoms=n_atoms,
    )


def _held_out(
    folds: Sequence[_CoPursuitFold], settings: CoPursuitSettings, agreement: float
) -> tuple[Index, HeldOut]:
    """The numbers of atoms tried and their errors at one agreement; all folds advance together."""
    paths = [GreedyPath(fold.scores, settings, agreement) for fold in folds]
    if isinstance(settings.n_atoms, str):
        limit = min(MAX_TUNED_ATOMS, *folds[0].scores.atoms.sizes)
        stride = 1
    else:
        limit = stride = int(np.max(settings.n_atoms))

    def go_on(begin: int, end: int) -> tuple[HeldOut, int]:
        def errors(k: int) -> list[FoldErrors]:
            paths[k].advance_to(end)
            predictions = folds[k].predictions(paths[k], begin, end)
            return folds[k].errors(predictions, settings.scoring)

        tables = list(in_order(errors, range(len(folds)), folds[0].scores.targets[0]))
        longest = max(len(path.labels) for path in paths)
        return pooled([table for fold in tables for table in fold]), longest

    return search_steps(settings.n_atoms, limit, stride, go_on)


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
    history : weights (p, M) of the model after every step, fitted again where the settings say so
    losses : F after 0, 1, … steps
    ended : whether no step gains anything
    """

    def __init__(
        self,
        scores: KeptScores,
        settings: CoPursuitSettings,
        agreement: float,
        costs: Costs | None = None,
    ) -> None:
        self.scores = scores
        self.settings = settings
        self.agreement = agreement
        self.costs = costs or scores.costs(agreement)
        self.labels: list[tuple[int, ...]] = []
        self.losses = [scores.loss]
        self.history: list[FloatArray] = []
        self.ended = False
        self._entered = [EnteredAtoms(target) for target in scores.targets]
        # weights with which the next step is found
        self._running: FloatArray = np.zeros((0, len(self._entered)))

    def weights(self, begin: int, end: int) -> FloatArray:
        """Weights of the models after steps begin + 1 … end, of all atoms so far: (end − begin, p,
        M). After the last step they stay.
        """
        last = len(self.history) - 1
        weights = np.zeros((end - begin, len(self.labels), len(self._entered)))
        for place, step in enumerate(range(begin, end)):
            entered = self.history[min(step, last)]
            weights[place, : len(entered)] = entered
        return weights

    @property
    def _coupling(self) -> tuple[Array, FloatArray] | None:
        """Sums between the entered atoms and all (M p, Σ N_v), and those of the disagreement among
        the entered.
        """
        atoms = self.scores.atoms
        if atoms.unscored is None or self.agreement == 0:
            return None
        m = len(self._entered)
        p = len(self.labels)
        labels = np.reshape(self.labels, (p, m)) + atoms.ends[:-1]
        places = labels.T.ravel().astype(np.int64)
        rows = take(atoms.unscored, places)
        signs = np.kron(m * np.eye(m) - 1, np.ones((p, p)))
        return rows, np.asarray(signs * to_numpy(take_columns(rows, places)), dtype=np.float64)

    def promises(self) -> list[Array]:
        """χ: what a step with each atom promises, (N_v,) per view (docs/mathematics.md, section
        1.5).
        """
        residuals = self._residuals()
        views = range(len(residuals))

        def products(view: int) -> Array:
            return self.scores.products(view, residuals[view])

        promises = list(in_order(products, views, residuals[0]))
        exact = self.settings.objective == "exact"
        coupling = self._coupling if exact and self.labels else None
        if coupling is None:
            return promises
        (p, m), (rows, _) = self._running.shape, coupling
        sums = [like(self._running[:, v], rows) @ rows[v * p : (v + 1) * p, :] for v in views]
        total = sum_of(sums)
        for v, (begin, end) in enumerate(pairwise(self.scores.atoms.ends)):
            # d̄ᵀ L̄ Σ_u (h_v − h_u) of every atom
            gaps = m * sums[v][begin:end] - total[begin:end]
            promises[v] = promises[v] - 2 * self.agreement * gaps
        return promises

    def _residuals(self) -> list[Array]:
        """J (s − f): (n_v, 1) per view."""
        fitted = [entered.fitted(self._running[:, v]) for v, entered in enumerate(self._entered)]
        if self.settings.objective == "paper":  # one for all views, whatever they disagree about
            fitted = [sum_of(fitted) / len(fitted)] * len(fitted)
        pairs = zip(self._entered, fitted, strict=True)
        return [entered.target - values for entered, values in pairs]

    def allowed(self) -> list[Mask]:
        """Which atoms of every view may enter: where weights are fitted again, none comes twice."""
        masks = [~barred for barred in self.scores.barred]
        if self.settings.refit == "back":
            for v, mask in enumerate(masks):
                mask[[labels[v] for labels in self.labels]] = False
        return masks

    def best_step(self, promises: Sequence[Array], allowed: Sequence[Mask]) -> Step | None:
        """The best step with allowed atoms; None where nothing is allowed."""
        return best_step(self.costs, self.settings.search, promises, allowed)

    def advance_to(self, n_atoms: int) -> None:
        """Take steps until there are `n_atoms`, or none gains anything.

        The first step is always taken: a model has at least one atom per view, if need be with
        weight zero.
        """
        while len(self.labels) < n_atoms and not self.ended:
            step = self.best_step(self.promises(), self.allowed())
            if step is None and not self.labels:  # no atom tells rows apart
                m = len(self._entered)
                step = Step((0,) * m, np.zeros(m), 0.0)
            negligible = NEGLIGIBLE_GAIN * self.losses[0]
            if step is None or (self.labels and step.gain <= negligible):
                self.ended = True
            else:
                self.enter(step)

    def enter(self, step: Step) -> None:
        """Take a step."""
        self.labels.append(step.labels)
        for v, (entered, label) in enumerate(zip(self._entered, step.labels, strict=True)):
            column = self.scores.column(v, label)
            entered.add(column if self.costs.live[v][label] else 0.0 * column)
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
    m = len(triangles)
    p = triangles[0].shape[1]
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


# ---------------------------------------------------------------- dictionaries and scores


@dataclass(frozen=True)
class ViewAtoms:
    """The dictionaries of all views at the scored rows and, as sums, at the unscored ones.

    scored : (n_v, N_v) per view, D_v
    unscored : (Σ N_v, Σ N_v), D̄ᵀ L̄ D̄ of all dictionaries side by side; None where nothing
        couples the views
    """

    views: Sequence[ViewData]
    scored: Sequence[Array]
    unscored: Array | None

    @classmethod
    def of(cls, views: Sequence[ViewData], unscored: Unscored | None) -> ViewAtoms:
        """One pass over each set of rows: O(Σ n_v N_v d + m (Σ N_v)²) for m unscored rows, held one
        block at a time.
        """
        scored = [finite_values(view.basis.features(view.problem.features)) for view in views]
        if unscored is None or unscored.rows.n_rows == 0 or len(views) == 1:
            return cls(views, scored, None)
        bases = [
            replace(view.basis, own_whitening=UNWHITENED)
            for view in views
            if isinstance(view.basis, KernelBasis)
        ]
        columns = [view.columns for view in views]
        sums = sum_unscored(unscored, JointFeatures(bases), columns, views[0].problem.reference)
        return cls(views, scored, finite_values(sums.features))

    @property
    def problems(self) -> list[ScoredRows]:
        """The scored rows of every view."""
        return [view.problem for view in self.views if isinstance(view.problem, ScoredRows)]

    @property
    def numbers(self) -> list[Index]:
        """The row numbers of the atoms of every view: (N_v,)."""
        return [view.rows for view in self.views if view.rows is not None]

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

        largest = []
        for values in self.scored:
            xp = namespace(values)
            largest.append(float(xp.max(xp.abs(values))))
        return largest


class KeptScores:
    """The scored rows that a pursuit fits: all of them, or those that a fold keeps.

    Parameters
    ----------
    kept : (n_v,) rows per view, None for all
    held_out : (m,) row numbers in X; they are no atoms either

    Attributes
    ----------
    lengths : (N_v,) per view, dᵀ L d of every atom
    """

    def __init__(
        self, atoms: ViewAtoms, kept: Sequence[Index] | None = None, held_out: Index | None = None
    ) -> None:
        self.atoms = atoms
        self.rows = [RowSet(problem, len(problem.rows)) for problem in atoms.problems]
        if kept is not None:
            self.rows = [
                replace(rows, problem=rows.problem.take(units), rows=units)
                for rows, units in zip(self.rows, kept, strict=True)
            ]
        absent = np.zeros(0) if held_out is None else held_out
        self.barred = [np.isin(numbers, absent) for numbers in atoms.numbers]
        self.targets = [rows.problem.targets[:, :1] for rows in self.rows]
        self.lengths = []
        for rows, values in zip(self.rows, atoms.scored, strict=True):
            columns = rows.root(values)
            self.lengths.append(namespace(columns).sum(columns * columns, axis=0))

    def column(self, view: int, atom: int) -> Array:
        """J d of one atom: (n_kept, 1)."""
        return self.rows[view].root(self.atoms.scored[view][:, atom : atom + 1])

    def products(self, view: int, residual: Array) -> Array:
        """Dᵀ Jᵀ z of every atom, for z (n_kept, 1): (N_v,). O(n_v N_v); D is not copied for a fold."""
        return self.atoms.scored[view].T @ self.rows[view].root_transposed(residual[:, 0])

    def costs(self, agreement: float) -> Costs:
        """The costs of steps."""
        floors = []
        for rows, largest in zip(self.rows, self.atoms.largest, strict=True):
            within = rows.operator.within
            loss = rows.operator.weight * float(namespace(within).max(within))
            floors.append(CONSTANT_SHARE * largest**2 * loss)
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
        return sum(float(namespace(target).sum(target**2)) for target in self.targets)
