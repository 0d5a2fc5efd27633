"""Pursuit: atoms enter one by one, each the one that lowers ‖J (s − f)‖² most, and how many of them
there shall be.

`PursuitRun` is one greedy run over a set of rows, whatever the way of refitting
(docs/mathematics.md, section 3.9; [Tsivtsivadze2013] fig. 1, [Vincent2002]). `pursue` goes from
training data and settings to a sparse solution: all folds are run side by side with the run on all
rows, whose beginning is the model for any number of atoms. Rows that are held out are no atoms
either: an atom at a held-out row would say nothing about new rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
import scipy.linalg

from corank.core.arrays import (
    Array,
    FloatArray,
    Index,
    device,
    like,
    namespace,
    segment_sum,
    take,
    zeros_beside,
)
from corank.core.folds import Splits, default_codes, fold_splits
from corank.core.kernels import Kernel
from corank.core.observations import ScoredRows
from corank.solve.column_path import NEGLIGIBLE_SHARE, UNTUNED_COLUMNS, GrowingColumns
from corank.solve.dictionary import Atoms, Dictionary, RowSet
from corank.solve.holdout import FoldErrors, HeldOut, Scoring, chosen_position, errors_of, pooled
from corank.solve.path import Path, joined_path
from corank.solve.tuning import (
    KernelSettings,
    Training,
    constant_error,
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
# share of the level of the scores: scores that spread by less are alike but for rounding
NO_SPREAD = 1e-14


# ---------------------------------------------------------------- one greedy run


class PursuitRun:
    """One greedy run over a set of rows.

    "basic" gives a weight to the atom that enters and may pick it again; "final" picks the same
    atoms and refits all weights at the end; "back" refits after every step; "pre" picks the atom
    that is best after refitting. Correlations Dᵀ L (s − f) are kept up to date by one product with
    D per step, and so is what the chosen atoms leave of every atom's length.

    Parameters
    ----------
    rows : RowSet of k out of n rows
    target : (k,) = J s
    lengths : (N,) = diag(Dᵀ L D) over these rows
    watched : numbers of rows whose predictions are kept, None for none
    alike : whether atoms are values of one kernel, so that one much shorter than the others is
        nothing

    Attributes
    ----------
    steps : atoms, in order of entry
    entered : the distinct ones
    losses : ‖J (s − f)‖² of 0, 1, … steps
    predictions : (m,) at the watched rows, one entry per step
    """

    def __init__(
        self,
        rows: RowSet,
        n_rows: int,
        target: Array,
        lengths: Array,
        refit: Refit,
        watched: Index | None,
        *,
        alike: bool,
    ) -> None:
        xp = namespace(target)
        self._rows, self._n_rows, self._refit, self._watched = rows, n_rows, refit, watched
        self._lengths = self._lengths_left = lengths
        self._numbers = xp.arange(lengths.shape[0], device=device(lengths))
        self._shortest = NEGLIGIBLE_SHARE * float(xp.max(lengths)) if alike else 0.0
        self._residual = self._refitted = target
        self._correlations = xp.zeros_like(lengths)
        # c −= amount · Dᵀ Jᵀ direction, not yet done
        self._pending: tuple[Array, float] | None = (target, -1.0)
        n_watched = 0 if watched is None else len(watched)
        self._values = zeros_beside(n_watched, target)
        self._columns = GrowingColumns(target, n_watched)
        self.steps: list[int] = []
        self.entered: list[int] = []
        self._amounts: list[float] = []  # of the steps ("basic") or of the directions
        self._bearers: list[int] = []  # which entered atom each direction came with
        self._n_directions: list[int] = []  # after each step
        self.losses = [float(xp.sum(target * target))]
        self.predictions: list[Array] = []
        self.ended = False

    @property
    def pending(self) -> Array | None:
        """The vector over all n rows whose product with D is needed before the next step."""
        if self._pending is None:
            return None
        direction, _ = self._pending
        values = self._rows.operator.root_transposed(direction[:, None])[:, 0]
        return (
            values
            if self._rows.rows is None
            else scattered_sums(values, self._rows.rows, self._n_rows)
        )

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
        xp, correlations = namespace(self._lengths), self._correlations
        live = (self._lengths > self._shortest) & (
            self._lengths_left > NEGLIGIBLE_SHARE * self._lengths
        )
        lengths = self._lengths_left if self._refit == "pre" else self._lengths
        safe_lengths = xp.where(live, lengths, xp.ones_like(lengths))
        gains = xp.where(live, correlations * correlations / safe_lengths, -xp.ones_like(lengths))
        best = float(xp.max(gains))
        if not best > NEGLIGIBLE_GAIN * self.losses[0]:
            self.ended = True
            return None
        return int(xp.argmax(xp.astype(gains >= (1 - GAIN_TIE) * best, xp.int8)))

    def enter(self, atom: int, column: Array) -> None:
        """Take in an atom, given its values (n,) at all rows. O(n k)."""
        rows, watched = self._rows.rows, self._watched
        xp = namespace(column)
        values = self._values if watched is None else take(column, watched)
        root_column = self._rows.operator.root(
            (column if rows is None else take(column, rows))[:, None]
        )[:, 0]
        is_new = atom not in self.entered
        if self._refit in ("basic", "final"):
            amount = float(xp.sum(root_column * self._residual)) / float(
                xp.sum(root_column * root_column)
            )
            self._residual = self._residual - amount * root_column
            self._pending = root_column, amount
        if self._refit == "basic":
            self._amounts.append(amount)
            self._values, self._refitted = self._values + amount * values, self._residual
        elif is_new and not self._add_direction(root_column, values) and self._refit != "final":
            self._bar(atom)  # rounding hid that it adds nothing
            return
        if is_new:
            self.entered.append(atom)
        self.steps.append(atom)
        self._n_directions.append(len(self._bearers))
        self.losses.append(float(xp.sum(self._refitted * self._refitted)))
        self.predictions.append(self._values)

    def _add_direction(self, root_column: Array, values: Array) -> bool:
        """Refit on one more direction; False where the column adds none."""
        added = self._columns.add(root_column, values)
        if added is None:
            return False
        q, elsewhere = added
        amount = float(namespace(q).sum(q * self._refitted))
        self._refitted = self._refitted - amount * q
        self._values = self._values + amount * elsewhere
        self._amounts.append(amount)
        self._bearers.append(len(self.entered))
        if self._refit != "final":
            self._pending = q, amount
        return True

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
        sums = np.cumsum(inverse * np.asarray(self._amounts), axis=1)
        sums = np.concatenate([np.zeros((k, 1)), sums], axis=1)
        weights[self._bearers] = sums[:, self._n_directions]
        return weights


def scattered_sums(values: Array, rows: Index, n: int) -> Array:
    """Values (k,) of some rows at their places among n, zeros elsewhere; those of a row that comes
    twice are added.
    """
    if isinstance(values, np.ndarray):
        return np.bincount(rows, values, minlength=n)
    return segment_sum(values[:, None], like(rows, values, "int64"), n)[:, 0]


def advance(dictionary: Dictionary, runs: Sequence[PursuitRun], n_steps: int) -> None:
    """Take every run to `n_steps` steps, or to its end. One product with D per step: O(n N) for all
    runs together.
    """
    while active := [run for run in runs if not run.ended and len(run.steps) < n_steps]:
        waiting = [(run, vector) for run in active if (vector := run.pending) is not None]
        if waiting:
            products = dictionary.products(
                namespace(waiting[0][1]).stack([vector for _, vector in waiting])
            )
            for number, (run, _) in enumerate(waiting):
                run.absorb(products[number, ...])
        choices = [(run, atom) for run in active if (atom := run.choose()) is not None]
        if choices:
            columns = dictionary.columns(np.asarray([atom for _, atom in choices]))
            for number, (run, atom) in enumerate(choices):
                run.enter(atom, columns[number, ...])


# ---------------------------------------------------------------- the kernel width and the number of atoms


@dataclass(frozen=True)
class PursuitSettings(KernelSettings):
    """What a learner was asked for, checked.

    n_atoms : steps, candidates in increasing order, or "tune"
    centred : the mean score of the rows at hand is taken out first (an intercept)
    """

    n_atoms: int | tuple[int, ...] | str
    refit: Refit
    centred: bool

    @property
    def tunes(self) -> bool:
        """Whether anything is chosen by held-out error."""
        return not isinstance(self.n_atoms, int) or self.tunes_width


@dataclass(frozen=True)
class PursuitSolution:
    """A sparse model's numbers.

    steps : (p,) atoms in order of entry; atoms : (k,) the distinct ones
    weights : (k, p) of the distinct atoms after 1, 2, … steps
    losses : (p + 1,) of 0, 1, … steps
    asked : the number of steps that was to be taken; path : None where nothing was tuned
    """

    kernel: Kernel
    steps: Index
    atoms: Index
    weights: FloatArray
    losses: FloatArray
    intercept: float
    asked: int
    path: Path | None


@dataclass(frozen=True)
class _PursuitFold:
    """Rows that are kept, as a set and its target, and rows that are held out, without their
    features.
    """

    kept: RowSet
    target: Array
    held_out: ScoredRows
    rows: Index
    offset: float

    def errors(self, predictions: Array, scoring: Scoring) -> FoldErrors:
        """Errors of predictions (m, k) of the rows held out."""
        fold = np.zeros(len(self.rows), dtype=np.int64)
        return errors_of(self.held_out, predictions, fold, scoring, np.full(1, self.offset))


@dataclass(frozen=True)
class _PursuitTrial:
    """One kernel: the run on all rows, the numbers of steps tried and their held-out errors."""

    kernel: Kernel
    run: PursuitRun
    numbers: Index
    errors: HeldOut | None = None


def pursue(
    training: Training, settings: PursuitSettings, atoms: Atoms, splits: Index | Splits | None
) -> PursuitSolution:
    """Choose by held-out error what is to be tuned; the model is the beginning of the run on all
    rows.

    splits : None for the default hold-out
    """
    problem = training.problem
    assert isinstance(problem, ScoredRows)
    tied = nothing_to_learn(problem, centred=settings.centred)
    offset = problem.mean_score if settings.centred else 0.0
    folds = _folds(training, settings, splits) if settings.tunes and not tied else []
    target = (problem.targets[:, 0] - offset * problem.targets[:, 1]) * (0.0 if tied else 1.0)
    rank = problem.freedom()

    def trial(kernel: Kernel) -> _PursuitTrial:
        dictionary = atoms.dictionary(kernel, problem.features)
        whole = RowSet(problem.operator)
        lengths = dictionary.squared_lengths([whole, *(fold.kept for fold in folds)])
        free = np.ones(lengths.shape)
        for number, fold in enumerate(folds, start=1):
            free[number, atoms.at(training.index[fold.rows])] = 0.0  # such atoms may not enter
        lengths = lengths * like(free, lengths)

        def start(number: int, rows: RowSet, goal: Array, watched: Index | None) -> PursuitRun:
            n, alike = whole.operator.n_rows, atoms.points is not None
            return PursuitRun(
                rows, n, goal, lengths[number, ...], settings.refit, watched, alike=alike
            )

        runs = [start(0, whole, target, None)]
        runs += [
            start(number, fold.kept, fold.target, fold.rows)
            for number, fold in enumerate(folds, start=1)
        ]
        return _trial(dictionary, runs, folds, kernel, settings, rank)

    trials = [trial(kernel) for kernel in _kernels(training, settings, atoms, tuned=bool(folds))]
    best, asked, path = trials[0], int(trials[0].numbers[0]), None
    if folds:
        constant = constant_error([problem], offset, settings.scoring)
        paths = [_path(candidate, settings.scoring, constant) for candidate in trials]
        best = min(
            zip(trials, paths, strict=True), key=lambda pair: float(pair[1].error[pair[1].best])
        )[0]
        path = joined_path(paths)
        assert path.n_atoms is not None
        asked = int(path.n_atoms[path.best])
    used = min(asked, len(best.run.steps))
    steps = np.asarray(best.run.steps[:used], dtype=np.int64)
    n_distinct = len(dict.fromkeys(steps.tolist()))
    return PursuitSolution(
        kernel=best.kernel,
        steps=steps,
        atoms=np.asarray(best.run.entered[:n_distinct], dtype=np.int64),
        weights=best.run.weights()[:n_distinct, :used],
        losses=np.asarray(best.run.losses[: used + 1]),
        intercept=offset,
        asked=asked,
        path=path,
    )


def nothing_to_learn(problem: ScoredRows, *, centred: bool) -> bool:
    """Whether scores are alike, but for rounding, wherever they are compared."""
    if problem.is_tied:
        return True
    xp = namespace(problem.reference)
    largest = float(xp.max(xp.abs(problem.reference)))
    return largest <= NO_SPREAD * abs(problem.level) if centred else largest == 0


def _kernels(
    training: Training, settings: PursuitSettings, atoms: Atoms, *, tuned: bool
) -> list[Kernel]:
    """The kernel with every width to try; with one that needs no tuning where nothing can be held
    out.
    """
    if atoms.points is None:
        return [Kernel("linear")]
    gamma = settings.gamma
    if not tuned:
        gamma = untuned_width(gamma)
    return kernels_to_try(training, settings.kernel, gamma, "all", settings.seed)


def _trial(
    dictionary: Dictionary,
    runs: Sequence[PursuitRun],
    folds: Sequence[_PursuitFold],
    kernel: Kernel,
    settings: PursuitSettings,
    rank: int,
) -> _PursuitTrial:
    """Runs, the first on all rows and then one per fold, taken as far as they must go."""
    n_atoms, carried = settings.n_atoms, min(dictionary.size, rank)
    tunes = isinstance(n_atoms, str)
    given = np.atleast_1d(np.asarray(0 if tunes else n_atoms, dtype=np.int64))
    if not folds:
        steps = min(UNTUNED_COLUMNS, carried) if tunes else int(given[0])
        advance(dictionary, runs, steps)
        return _PursuitTrial(kernel, runs[0], np.asarray([steps]))
    limit = int(given[-1])
    if tunes:  # with "basic" and "final" an atom may come again
        limit = (
            MAX_TUNED_STEPS
            if settings.refit in ("basic", "final")
            else min(MAX_TUNED_STEPS, carried)
        )
    tables: list[HeldOut] = []
    n_tried = 0
    while n_tried < limit and (n_tried == 0 or not all(run.ended for run in runs[1:])):
        upto = min(n_tried + PATIENCE_STEPS, limit)
        advance(dictionary, runs, upto)
        tables.append(_errors(folds, runs[1:], n_tried, upto, settings.scoring))
        n_tried = upto
        end = _end_of_search(np.concatenate([table.mean for table in tables])) if tunes else None
        if end is not None:
            n_tried = end
            break
    numbers = given
    if tunes:
        longest = max(1, max(len(run.steps) for run in runs[1:]))
        numbers = np.arange(1, min(n_tried, longest) + 1)
    advance(dictionary, runs[:1], int(numbers[-1]))
    errors = np.concatenate([table.errors for table in tables], axis=1)[
        :, np.minimum(numbers, n_tried) - 1
    ]
    return _PursuitTrial(kernel, runs[0], numbers, HeldOut(errors, tables[0].sizes))


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


def _path(trial: _PursuitTrial, scoring: Scoring, constant: float) -> Path:
    """The held-out errors of one kernel; the fewest steps among equals are chosen."""
    errors, numbers = trial.errors, trial.numbers.astype(np.float64)
    assert errors is not None
    best = chosen_position(errors, -numbers, scoring)
    return Path.of(
        errors, best, scoring, constant, alpha=np.nan, gamma=trial.kernel.gamma, n_atoms=numbers
    )


# ---------------------------------------------------------------- what is held out


def _folds(
    training: Training, settings: PursuitSettings, given: Index | Splits | None
) -> list[_PursuitFold]:
    """Every split as what is kept and what is held out; none where no error can be told on what is
    held out.
    """
    problem = training.problem
    assert isinstance(problem, ScoredRows)
    if given is None:  # at most ten folds of queries, items or rows
        given = default_codes(problem, settings.seed, n_features=0)
    if given is None:
        return []
    nothing = zeros_beside((len(problem.rows), 0), problem.reference)
    # kernels come from the dictionary
    bare = replace(problem, rows=replace(problem.rows, features=nothing))
    folds = [_fold(bare, train, test, settings.centred) for train, test in fold_splits(given)]
    constants = [0.0 * fold.held_out.reference[:, None] for fold in folds]
    tables = [
        fold.errors(constant, settings.scoring)
        for fold, constant in zip(folds, constants, strict=True)
    ]
    return folds if len(pooled(tables).sizes) else []


def _fold(problem: ScoredRows, train: Index, test: Index, centred: bool) -> _PursuitFold:
    kept, held_out = problem.take(train), problem.take(test)
    offset = kept.mean_score if centred else 0.0
    target = kept.targets[:, 0] - offset * kept.targets[:, 1]
    return _PursuitFold(
        RowSet(kept.operator, train, _cuts(problem, train)), target, held_out, test, offset
    )


def _cuts(problem: ScoredRows, rows: Index) -> bool:
    """Whether the loss on these rows is made of blocks of the loss on all: whole queries, or rows
    one by one.
    """
    if not problem.comparison.needs_queries:
        return True
    if problem.groups is None:
        return False
    counts, sizes = (
        np.bincount(g, minlength=problem.n_queries) for g in (problem.groups[rows], problem.groups)
    )
    return len(np.unique(rows)) == len(rows) and bool(np.all((counts == 0) | (counts == sizes)))


def _errors(
    folds: Sequence[_PursuitFold],
    runs: Sequence[PursuitRun],
    begin: int,
    end: int,
    scoring: Scoring,
) -> HeldOut:
    """Held-out errors after steps begin + 1 … end; a run that has ended stays as it is."""
    tables = []
    for fold, run in zip(folds, runs, strict=True):
        path = run.predictions or [
            namespace(fold.held_out.reference).zeros_like(fold.held_out.reference)
        ]
        values = [path[min(step, len(path) - 1)] for step in range(begin, end)]
        predictions = namespace(path[0]).stack(values, axis=1) + fold.offset
        tables.append(fold.errors(predictions, scoring))
    return pooled(tables)
