"""Pursuit: atoms enter one by one, each the one that lowers ‖J (s − f)‖² most, and how many of them
there shall be.

`PursuitRun` is one greedy run over a set of rows, whatever the way of refitting
(docs/mathematics.md, section 3.9; [Tsivtsivadze2013] fig. 1, [Vincent2002]). `pursue` goes from
training data and settings to a sparse solution: all folds are run side by side with the run on all
rows, whose beginning is the model for any number of atoms. Rows that are held out are no atoms
either: an atom at a held-out row would say nothing about new rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeAlias

import numpy as np
import scipy.linalg

from corank.core.arrays import (
    Array,
    FloatArray,
    Index,
    device,
    like,
    namespace,
    take,
    zeros_beside,
)
from corank.core.folds import default_codes, fold_splits
from corank.core.kernels import Kernel
from corank.core.observations import Problem, ScoredRows
from corank.solve.column_path import NEGLIGIBLE_SHARE, UNTUNED_COLUMNS, GrowingColumns
from corank.solve.dictionary import Atoms, Dictionary, RowSet
from corank.solve.holdout import FoldErrors, HeldOut, Scoring, errors_of, pooled
from corank.solve.tuning import (
    KernelSettings,
    Path,
    Training,
    best_of,
    chosen_position,
    constant_error,
    is_open,
    kernels_to_try,
    untuned_width,
)

Refit: TypeAlias = Literal["back", "basic", "final", "pre"]
REFITS: tuple[Refit, ...] = ("back", "basic", "final", "pre")

# share of a gain: others that fall short of it by less are equal, and the first atom enters
GAIN_TIE = 1e-10
NEGLIGIBLE_GAIN = 1e-20  # share of the loss at the start: a step that takes less away fits rounding
# without a lower held-out error, after which a search for the number of atoms ends
PATIENCE_STEPS = 10
MAX_TUNED_STEPS = 1_000  # that such a search tries at most
RUNS_PER_SOLUTION = 10  # that a search for near-optimal models makes at most
LOSS_TIE = 1e-12  # share of a loss: others that differ by less are equal
# share of the loss at the start: models that leave less of it all fit exactly, but for rounding
NEGLIGIBLE_LOSS = 1e-20
NOTHING = np.zeros(0, dtype=np.int64)
# share of the level of the scores: scores that spread by less are alike but for rounding
NO_SPREAD = 1e-14


# ---------------------------------------------------------------- from training data to a model


@dataclass(frozen=True, kw_only=True)
class PursuitSettings(KernelSettings):
    """What a learner was asked for, checked.

    n_atoms : steps, candidates in increasing order, or "tune"
    """

    n_atoms: int | tuple[int, ...] | str
    refit: Refit
    wanted: Wanted

    @property
    def tunes(self) -> bool:
        """Whether anything is chosen by held-out error."""
        return is_open(self.n_atoms) or is_open(self.gamma)


@dataclass(frozen=True)
class PursuitSolution:
    """A sparse model's numbers, and those of others that are near-optimal.

    steps : (p,) atoms in order of entry; atoms : (k,) the distinct ones
    weights : (k, p) of the distinct atoms after 1, 2, … steps
    losses : (p + 1,) of 0, 1, … steps
    asked : the number of steps that was to be taken; path : None where nothing was tuned
    others : what the others have after the last step: atoms, weights and loss
    """

    kernel: Kernel
    steps: Index
    atoms: Index
    weights: FloatArray
    losses: FloatArray
    others: Sequence[tuple[Index, FloatArray, float]]
    intercept: float
    asked: int
    path: Path | None


@dataclass(frozen=True)
class _PursuitTrial:
    """One kernel: the run on all rows, and how many steps it shall have."""

    kernel: Kernel
    run: PursuitRun
    asked: int
    path: Path | None


def pursue(training: Training, settings: PursuitSettings, atoms: Atoms) -> PursuitSolution:
    """Choose by held-out error what is to be tuned; the model is the beginning of the run on all
    rows.
    """
    whole = _whole(training.problem, centred=settings.centred)
    folds = []
    if settings.tunes and not nothing_to_learn(whole.problem, centred=settings.centred):
        folds = _folds(training.problem, settings)
    kernels = _kernels(training, settings, atoms, tuned=bool(folds))
    trials = (_trial(training, settings, atoms, whole, folds, kernel) for kernel in kernels)
    best, path = best_of(trials)
    run = best.run
    used = min(best.asked, len(run.steps))
    others: list[PursuitRun] = []
    if settings.wanted.n_solutions > 1:
        dictionary = atoms.dictionary(best.kernel, training.problem)

        def take_step(run: PursuitRun, barred: Sequence[Index]) -> None:
            (run.barred,) = barred
            advance(dictionary, [run], len(run.steps) + 1)

        greedy = run.again()
        advance(dictionary, [greedy], used)
        run, *others = near_optimal(greedy, run.again, take_step, settings.wanted)
        used = len(run.steps)
    n_distinct = len(set(run.steps[:used]))
    return PursuitSolution(
        kernel=best.kernel,
        steps=np.asarray(run.steps[:used], dtype=np.int64),
        atoms=np.asarray(run.entered[:n_distinct], dtype=np.int64),
        weights=run.weights()[:n_distinct, :used],
        losses=np.asarray(run.losses[: used + 1]),
        others=[(np.asarray(own.entered), own.weights()[:, -1], own.losses[-1]) for own in others],
        intercept=whole.offset,
        asked=best.asked,
        path=path,
    )


def nothing_to_learn(problem: ScoredRows, *, centred: bool) -> bool:
    """Whether scores are alike, but for rounding, wherever they are compared."""
    if problem.is_tied:
        return True
    xp = namespace(problem.reference)
    largest = float(xp.max(xp.abs(problem.reference)))
    return largest <= NO_SPREAD * abs(problem.level) if centred else largest == 0


def _whole(compared: Problem, *, centred: bool) -> PursuitFold:
    """All rows, none held out."""
    problem = compared.unit_rows
    offset = problem.mean_score if centred else 0.0
    target = _target(problem, offset)
    if nothing_to_learn(problem, centred=centred):
        target = 0.0 * target
    return PursuitFold(
        problem=problem,
        n_rows=len(problem),
        target=target,
        offset=offset,
        left=NOTHING,
        absent=NOTHING,
        held_out=problem,
    )


def _kernels(
    training: Training, settings: PursuitSettings, atoms: Atoms, *, tuned: bool
) -> list[Kernel]:
    """The kernel with every width to try; with one that needs no tuning where nothing can be held
    out.
    """
    if atoms.points is None:
        return [Kernel("linear")]
    gamma = settings.gamma if tuned else untuned_width(settings.gamma)
    return kernels_to_try(training, settings.kernel, gamma, "all", settings.seed)


def _trial(
    training: Training,
    settings: PursuitSettings,
    atoms: Atoms,
    whole: PursuitFold,
    folds: Sequence[PursuitFold],
    kernel: Kernel,
) -> _PursuitTrial:
    """The runs of one kernel, on all rows and on every fold, taken as far as they must go."""
    problem = whole.problem
    n_atoms = settings.n_atoms
    dictionary = atoms.dictionary(kernel, training.problem)
    lengths = dictionary.squared_lengths([whole, *folds])
    runs = []
    for number, fold in enumerate([whole, *folds]):
        free = np.ones(atoms.size)
        free[atoms.at(training.index[fold.absent])] = 0.0  # such atoms may not enter
        own_lengths = lengths[number, ...] * like(free, lengths)
        runs.append(PursuitRun(fold, own_lengths, settings.refit, alike=atoms.points is not None))
    carried = min(dictionary.size, problem.freedom())
    if not folds:
        asked = min(UNTUNED_COLUMNS, carried)
        if not isinstance(n_atoms, str):
            asked = int(np.min(n_atoms))
        advance(dictionary, runs, asked)
        return _PursuitTrial(kernel, runs[0], asked, None)

    def go_on(begin: int, end: int) -> tuple[HeldOut, int]:
        advance(dictionary, runs, end)
        errors = _errors(folds, runs[1:], begin, end, settings.scoring)
        return errors, max(len(run.steps) for run in runs[1:])

    if not isinstance(n_atoms, str):
        limit = int(np.max(n_atoms))
    elif settings.refit in ("basic", "final"):  # an atom may come again
        limit = MAX_TUNED_STEPS
    else:  # as many as rows and dictionary carry
        limit = min(MAX_TUNED_STEPS, carried)
    numbers, errors = search_steps(n_atoms, limit, PATIENCE_STEPS, go_on)
    advance(dictionary, runs[:1], int(numbers[-1]))
    # the fewest steps among equals
    best = chosen_position(errors, -numbers.astype(np.float64), settings.scoring)
    path = Path.of(
        errors,
        best,
        settings.scoring,
        constant_error([problem], whole.offset, settings.scoring),
        alpha=np.nan,
        gamma=kernel.gamma,
        n_atoms=numbers.astype(np.float64),
    )
    return _PursuitTrial(kernel, runs[0], int(numbers[best]), path)


def _errors(
    folds: Sequence[PursuitFold],
    runs: Sequence[PursuitRun],
    begin: int,
    end: int,
    scoring: Scoring,
) -> HeldOut:
    """Held-out errors after steps begin + 1 … end; a run that has ended stays as it is."""
    predictions = []
    for fold, run in zip(folds, runs, strict=True):
        steps = np.minimum(np.arange(begin, end) + 1, len(run.steps))
        values = [run.predictions[step] for step in steps]
        predictions.append(namespace(values[0]).stack(values, axis=1) + fold.offset)
    return _pooled(folds, predictions, scoring)


# ---------------------------------------------------------------- the number of atoms


def search_steps(
    n_atoms: int | str | Sequence[int],
    limit: int,
    stride: int,
    go_on: Callable[[int, int], tuple[HeldOut, int]],
) -> tuple[Index, HeldOut]:
    """The numbers of atoms to try, and their held-out errors.

    A search for them ends where PATIENCE_STEPS more have not helped, or where no run goes on.

    Parameters
    ----------
    n_atoms : candidates in increasing order, or "tune"
    limit : how many steps are taken at most
    stride : how many steps are taken at once
    go_on : takes all runs from so many steps to so many; gives the errors after every one of them,
        and how many steps the longest run has now
    """
    tables: list[HeldOut] = []
    tried = longest = 0
    end: int | None = None
    while tried == longest and tried < limit and end is None:
        begin = tried
        tried = min(tried + stride, limit)
        table, longest = go_on(begin, tried)
        tables.append(table)
        if isinstance(n_atoms, str):
            means = np.concatenate([table.mean for table in tables])
            end = _end_of_search(means)
    if isinstance(n_atoms, str):
        last = min(end or tried, longest)
        numbers = np.arange(1, max(1, last) + 1)
    else:
        numbers = np.atleast_1d(np.asarray(n_atoms))
    errors = np.concatenate([table.errors for table in tables], axis=1)
    errors = errors[:, np.minimum(numbers, tried) - 1]
    return numbers, HeldOut(errors, tables[0].sizes)


def _end_of_search(means: FloatArray) -> int | None:
    """The number of steps after which PATIENCE_STEPS have not lowered the error; None where it
    still may fall.
    """
    best, since = means[0], 0
    for step, error in enumerate(means[1:], start=2):
        since = 0 if error < best * (1 - 1e-12) else since + 1  # less is rounding
        best = min(best, error)
        if since == PATIENCE_STEPS:
            return step
    return None


# ---------------------------------------------------------------- several near-optimal models


@dataclass(frozen=True)
class Wanted:
    """How many models are wanted, the best included, and by which share of the least loss that of
    the others may be larger.
    """

    n_solutions: int
    tolerance: float


# A pursuit on the way, of one view or several: its `losses` of 0, 1, … steps, whether it has `ended`
# because no step gains anything, and the atoms of every view in order of entry, `chosen`.
Run: TypeAlias = Any


def near_optimal(
    greedy: Run,
    again: Callable[[], Run],
    take_step: Callable[[Run, Sequence[Index]], None],
    wanted: Wanted,
) -> list[Run]:
    """Greedy models whose losses are near that of the best, the least first.

    Each one begins, in every view, with an atom that none before it began with, and shares at most
    half as many atoms as there are steps with any of them (docs/mathematics.md, section 3.9).

    Parameters
    ----------
    again : makes a run without steps
    take_step : takes one step of a run with other atoms than those barred, one array per view
    """
    runs = [greedy]
    n_steps = len(greedy.losses) - 1
    most = RUNS_PER_SOLUTION * wanted.n_solutions
    while len(_within(runs, wanted)) < wanted.n_solutions and len(runs) < most:
        run = again()
        while len(run.losses) <= n_steps and not run.ended:
            take_step(run, _barred(run, runs, n_steps // 2))
        if len(run.losses) == 1:
            break  # no atom is left to begin with
        runs.append(run)
    return _within(runs, wanted)[: wanted.n_solutions]


def _barred(run: Run, others: Sequence[Run], most: int) -> list[Index]:
    """Atoms, per view, that may not enter next: none may begin as another model did, or share more
    than `most` atoms with it.
    """
    barred = []
    for v, entered in enumerate(run.chosen):
        atoms = []
        for other in others:
            theirs = other.chosen[v]
            if len(set(entered) & set(theirs)) >= most:
                atoms += [atom for atom in theirs if atom not in entered]
            elif not entered:
                atoms.append(theirs[0])
        barred.append(np.asarray(atoms, dtype=np.int64))
    return barred


def _within(runs: Sequence[Run], wanted: Wanted) -> list[Run]:
    """The runs whose losses are near the least, in their order; the first found of equal ones leads."""
    # what is left of a loss where it is no more than rounding is alike
    negligible = NEGLIGIBLE_LOSS * runs[0].losses[0]
    losses = np.asarray([max(run.losses[-1], negligible) for run in runs])
    least = losses.min()
    ranks = np.where(losses <= least * (1 + LOSS_TIE), least, losses)
    order = np.argsort(ranks, kind="stable")
    return [runs[k] for k in order if losses[k] <= (1 + wanted.tolerance) * least * (1 + LOSS_TIE)]


# ---------------------------------------------------------------- what is held out


@dataclass(frozen=True, kw_only=True)
class PursuitFold(RowSet):
    """The rows that a run fits, all or those of a fold, and the rows that are held out.

    target : (k,) = J s, with the offset taken out of the scores
    left : (m,) numbers of the rows, or comparisons, held out; held_out : these, without features
    absent : numbers of the rows that are no atoms
    """

    target: Array
    offset: float
    left: Index
    absent: Index
    held_out: Problem

    @classmethod
    def of(cls, compared: Problem, train: Index, test: Index, *, centred: bool) -> PursuitFold:
        """A split of a problem."""
        problem = compared.unit_rows
        kept = problem.take(train)
        offset = kept.mean_score if centred else 0.0
        return cls(
            problem=kept,
            n_rows=len(problem),
            rows=train,
            cut=_cuts(problem, train),
            target=_target(kept, offset),
            offset=offset,
            left=test,
            absent=compared.rows_without(train, test),
            held_out=compared.take(test),
        )

    def errors(self, predictions: Array, scoring: Scoring) -> FoldErrors:
        """Errors of predictions (m, k) of the rows held out."""
        fold = np.zeros(len(self.left), dtype=np.int64)
        return errors_of(self.held_out, predictions, fold, scoring, np.full(1, self.offset))


def _target(problem: ScoredRows, offset: float) -> Array:
    """J s, with an offset taken out of the scores: (k,)."""
    return problem.targets[:, 0] - offset * problem.targets[:, 1]


def _cuts(problem: ScoredRows, rows: Index) -> bool:
    """Whether the loss on these rows is made of blocks of the loss on all: whole queries, or rows
    one by one.
    """
    if not problem.comparison.needs_queries:
        return True
    if problem.groups is None:
        return False
    sizes = np.bincount(problem.groups, minlength=problem.n_queries)
    counts = np.bincount(problem.groups[rows], minlength=problem.n_queries)
    whole = (counts == 0) | (counts == sizes)
    return len(np.unique(rows)) == len(rows) and bool(np.all(whole))


def _folds(problem: Problem, settings: PursuitSettings) -> list[PursuitFold]:
    """Every split as what is kept and what is held out; none where no error can be told on what is
    held out.
    """
    given = settings.splits
    if given is None:  # at most ten folds of queries, items or rows
        given = default_codes(problem, settings.seed, n_features=0)
    if given is None:
        return []
    nothing = zeros_beside((problem.features.shape[0], 0), problem.reference)
    bare = replace(problem, features=nothing)  # kernels come from the dictionary
    folds = [
        PursuitFold.of(bare, train, test, centred=settings.centred)
        for train, test in fold_splits(given)
    ]
    constants = [zeros_beside((len(fold.left), 1), problem.reference) for fold in folds]
    return folds if len(_pooled(folds, constants, settings.scoring).sizes) else []


def _pooled(
    folds: Sequence[PursuitFold], predictions: Sequence[Array], scoring: Scoring
) -> HeldOut:
    """The errors of predictions of every fold."""
    pairs = zip(folds, predictions, strict=True)
    return pooled([fold.errors(values, scoring) for fold, values in pairs])


# ---------------------------------------------------------------- one greedy run


class PursuitRun:
    """One greedy run over a set of rows.

    "basic" gives a weight to the atom that enters and may pick it again; "final" picks the same
    atoms and refits all weights at the end; "back" refits after every step; "pre" picks the atom
    that is best after refitting. Correlations Dᵀ L (s − f) are kept up to date by one product with
    D per step, and so is what the chosen atoms leave of every atom's length.

    Parameters
    ----------
    fold : the k rows that it fits, and those of which predictions are kept
    lengths : (N,) = diag(Dᵀ L D) over these rows
    alike : whether atoms are values of one kernel, so that one much shorter than the others is
        nothing

    Attributes
    ----------
    steps : atoms, in order of entry
    entered : the distinct ones
    losses : ‖J (s − f)‖² of 0, 1, … steps
    predictions : (m,) at the rows held out, of 0, 1, … steps
    barred : numbers of atoms that may not enter next
    """

    def __init__(self, fold: PursuitFold, lengths: Array, refit: Refit, *, alike: bool) -> None:
        xp = namespace(fold.target)
        target = fold.target
        self.again = partial(PursuitRun, fold, lengths, refit, alike=alike)  # a run without steps
        self.barred = NOTHING
        self._fold = fold
        self._refit = refit
        self._lengths = self._lengths_left = lengths
        self._numbers = xp.arange(lengths.shape[0], device=device(lengths))
        self._shortest = NEGLIGIBLE_SHARE * float(xp.max(lengths)) if alike else 0.0
        self._residual = self._refitted = target
        self._correlations = xp.zeros_like(lengths)
        # c −= amount · Dᵀ Jᵀ direction, not yet done
        self._pending: tuple[Array, float] | None = (target, -1.0)
        self._columns = GrowingColumns(target, len(fold.left))
        self.steps: list[int] = []
        self.entered: list[int] = []
        self._amounts: list[float] = []  # of the steps ("basic") or of the directions
        self._bearers: list[int] = []  # which entered atom each direction came with
        self._n_directions: list[int] = []  # after each step
        self.losses = [float(xp.sum(target * target))]
        self.predictions = [zeros_beside(len(fold.left), target)]
        self.ended = False

    @property
    def chosen(self) -> list[list[int]]:
        """The atoms in order of entry."""
        return [self.entered]

    @property
    def pending(self) -> Array | None:
        """The vector over all n rows whose product with D is needed before the next step."""
        if self._pending is None:
            return None
        direction, _ = self._pending
        return self._fold.root_transposed(direction)

    def absorb(self, product: Array) -> None:
        """Take in that product (N,): correlations with the new residual, and what is left of every
        atom.
        """
        assert self._pending is not None
        _, amount = self._pending
        self._correlations = self._correlations - amount * product
        if self._refit in ("back", "pre") and self.steps:
            self._lengths_left = self._lengths_left - product * product
            self._bar(self.steps[-1])
        self._pending = None

    def _bar(self, atom: int) -> None:
        """Let an atom never enter again."""
        lengths = self._lengths_left
        self._lengths_left = namespace(lengths).where(self._numbers == atom, 0.0 * lengths, lengths)

    def choose(self) -> int | None:
        """The atom to enter next, that of the largest gain (dᵀ L (s − f))² / dᵀ L d; None where
        none gains anything.
        """
        xp = namespace(self._lengths)
        correlations = self._correlations
        left = self._lengths_left > NEGLIGIBLE_SHARE * self._lengths
        live = (self._lengths > self._shortest) & left
        if len(self.barred):
            free = np.ones(len(self._numbers))
            free[self.barred] = 0.0
            live = live & (like(free, correlations) > 0)
        lengths = self._lengths_left if self._refit == "pre" else self._lengths
        ones = xp.ones_like(lengths)
        gains = correlations * correlations / xp.where(live, lengths, ones)
        gains = xp.where(live, gains, -ones)
        best = float(xp.max(gains))
        if not best > NEGLIGIBLE_GAIN * self.losses[0]:
            self.ended = True
            return None
        equal = gains >= (1 - GAIN_TIE) * best
        return int(xp.argmax(xp.astype(equal, xp.int8)))

    def enter(self, atom: int, column: Array) -> None:
        """Take in an atom, given its values (n,) at all rows. O(n k)."""
        values = take(column, self._fold.left)
        root_column = self._fold.root(column[:, None])[:, 0]
        is_new = atom not in self.entered
        xp = namespace(root_column)
        if self._refit in ("basic", "final"):  # the weight of the atom, all others as they are
            square = float(xp.sum(root_column * root_column))
            amount = float(xp.sum(root_column * self._residual)) / square
            self._residual = self._residual - amount * root_column
            self._pending = root_column, amount
        if self._refit == "basic":
            self._amounts.append(amount)
            self._refitted = self._residual
            predictions = self.predictions[-1] + amount * values
        else:
            predictions = self.predictions[-1]
            if is_new:
                added = self._add_direction(root_column, values)
                if added is not None:
                    predictions = predictions + added
                elif self._refit != "final":
                    self._bar(atom)  # rounding hid that it adds nothing
                    return
        if is_new:
            self.entered.append(atom)
        self.steps.append(atom)
        self._n_directions.append(len(self._bearers))
        self.losses.append(float(xp.sum(self._refitted * self._refitted)))
        self.predictions.append(predictions)

    def _add_direction(self, root_column: Array, values: Array) -> Array | None:
        """Refit on one more direction: what that adds to the predictions; None where the column
        brings none.
        """
        added = self._columns.add(root_column, values)
        if added is None:
            return None
        q, elsewhere = added
        amount = float(namespace(q).sum(q * self._refitted))
        self._refitted = self._refitted - amount * q
        self._amounts.append(amount)
        self._bearers.append(len(self.entered))
        if self._refit != "final":
            self._pending = q, amount
        return amount * elsewhere

    def weights(self) -> FloatArray:
        """Weights of the entered atoms after 1, 2, … steps: (k, steps), all of them from one R⁻¹.
        O(k² steps).
        """
        weights = np.zeros((len(self.entered), len(self.steps)))
        if self._refit == "basic":
            for step, (atom, amount) in enumerate(zip(self.steps, self._amounts, strict=True)):
                weights[self.entered.index(atom), step:] += amount
            return weights
        upper = self._columns.upper[:, self._columns.leading]
        k = len(upper)
        inverse = scipy.linalg.solve_triangular(upper, np.eye(k)) if k else upper
        amounts = np.asarray(self._amounts)
        sums = np.zeros((k, k + 1))
        sums[:, 1:] = np.cumsum(inverse * amounts, axis=1)
        weights[self._bearers] = sums[:, self._n_directions]
        return weights


def advance(dictionary: Dictionary, runs: Sequence[PursuitRun], n_steps: int) -> None:
    """Take every run to `n_steps` steps, or to its end. One product with D per step: O(n N) for all
    runs together.
    """
    while active := [run for run in runs if not run.ended and len(run.steps) < n_steps]:
        vectors = {run: vector for run in active if (vector := run.pending) is not None}
        if vectors:
            stacked = list(vectors.values())
            products = dictionary.products(namespace(stacked[0]).stack(stacked))
            for number, run in enumerate(vectors):
                run.absorb(products[number, ...])
        atoms = {run: atom for run in active if (atom := run.choose()) is not None}
        if atoms:
            columns = dictionary.columns(np.asarray(list(atoms.values())))
            for number, (run, atom) in enumerate(atoms.items()):
                run.enter(atom, columns[number, ...])
