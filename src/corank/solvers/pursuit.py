"""Pursuit: atoms enter one by one, each the one that lowers ‖J (s − f)‖² most (003 fig. 1; Vincent & Bengio 2002).

Every way of refitting is the same loop. Correlations c = Dᵀ L r are kept up to date by one product with D a step, and
so is what the atoms chosen so far leave of every atom's length. Runs over several sets of rows go side by side, so that
all folds cost little more than one.

From training data and settings to one sparse solution: kernel width and number of atoms chosen, weights solved.

Folds are redone greedily, side by side with the run on all rows: the model of any number of atoms is the beginning of
that run. Rows that are left out are no atoms either: an atom of their own would say nothing about new rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import scipy.linalg

from corank._arrays import Array, FloatArray, Index, device, like, namespace, segment_sum, take, to_numpy
from corank.kernels import Kernel
from corank.problem import ScoredRows
from corank.solvers.dictionary import Atoms, Dictionary, RowSet
from corank.solvers.folds import Splits, default_folding, fold_splits, read_splits
from corank.solvers.holdout import HeldOut, Scoring, chosen_position, errors_of, pooled
from corank.solvers.tuning import Path, Training, constant_error, kernels_to_try

Refit: TypeAlias = Literal["back", "basic", "final", "pre"]
REFITS: tuple[Refit, ...] = ("back", "basic", "final", "pre")

DEAD = 1e-10  # squared length of an atom, beside the longest one's or its own at the start, that counts as nothing
TIE = 1e-10  # gains that differ by less are equal: the smallest number enters
NOTHING = 1e-20  # share of the loss at the start that is no gain any more


class Directions:
    """Root columns made orthonormal one after the other, A = Q R, and what they are at rows that are only watched.

    Gram–Schmidt, twice: O(n k) for the k-th column.
    """

    def __init__(self, reference: Array, n_watched: int) -> None:
        xp = namespace(reference)
        place = {"dtype": xp.float64, "device": device(reference)}
        self._unit = xp.zeros((8, reference.shape[0]), **place)  # Qᵀ, filled from above
        self._watched = xp.zeros((8, n_watched), **place)
        self.upper: list[FloatArray] = []  # the columns of R

    def add(self, column: Array, watched: Array) -> tuple[Array, Array] | None:
        """The next direction (n,) and its values at the watched rows; None where the column adds none."""
        xp, k = namespace(column), len(self.upper)
        q, known = column, self._unit[:k, :]
        size = float(xp.sum(column * column))
        projection = 0.0 * known[:, 0]
        for _ in range(2 if k else 0):
            again = known @ q
            q = q - again @ known
            projection = projection + again
        length = float(xp.sum(q * q))
        if length <= DEAD * size:
            return None
        length **= 0.5
        q = q / length
        elsewhere = (watched - projection @ self._watched[:k, :]) / length
        if k == self._unit.shape[0]:
            self._unit, self._watched = (
                xp.concat([rows, xp.zeros_like(rows)], axis=0) for rows in (self._unit, self._watched)
            )
        self._unit[k, :] = q
        self._watched[k, :] = elsewhere
        self.upper.append(np.append(to_numpy(projection), length))
        return q, elsewhere

    def inverse(self) -> FloatArray:
        """R⁻¹: (k, k)."""
        k = len(self.upper)
        factor = np.zeros((k, k))
        for column, entries in enumerate(self.upper):
            factor[: column + 1, column] = entries
        return np.asarray(scipy.linalg.solve_triangular(factor, np.eye(k)) if k else factor)


class PursuitRun:
    """One greedy run over a set of rows.

    "basic" gives a weight to the atom that enters and may pick it again; "final" picks the same atoms and refits all
    weights at the end; "back" refits after every step; "pre" picks the atom that is best after refitting.

    Parameters
    ----------
    rows : RowSet of k out of n rows
    target : (k,) = J s
    lengths : (N,) = diag(Dᵀ L D) over these rows
    watched : numbers of rows whose predictions are kept, None for none
    alike : whether atoms are values of one kernel, so that one much shorter than the others is nothing

    Attributes
    ----------
    steps : atoms, in order of entry
    losses : ‖J (s − f)‖² of 0, 1, … steps
    predictions : (m,) at the watched rows, one entry a step
    """

    def __init__(
        self,
        rows: RowSet,
        n_rows: int,
        target: Array,
        lengths: Array,
        refit: Refit,
        watched: Index | None = None,
        *,
        alike: bool = True,
    ) -> None:
        xp = namespace(target)
        self._rows, self._n_rows, self._refit, self._watched = rows, n_rows, refit, watched
        self._start = self._left = lengths
        self._numbers = xp.arange(lengths.shape[0], device=device(lengths))
        self._floor = DEAD * float(xp.max(lengths)) if alike else 0.0
        self._residual = self._refitted = target
        self._correlations = xp.zeros_like(lengths)
        self._pending: tuple[Array, float] | None = (target, -1.0)  # c −= amount · Dᵀ Jᵀ direction, not yet done
        n_watched = 0 if watched is None else len(watched)
        self._values = xp.zeros(n_watched, dtype=xp.float64, device=device(target))
        self.directions = Directions(target, n_watched)
        self.steps: list[int] = []
        self.entered: list[int] = []  # distinct atoms
        self._amounts: list[float] = []  # of the steps ("basic") or of the directions
        self._bearers: list[int] = []  # which entered atom each direction came with
        self._widths: list[int] = []  # directions after each step
        self.losses = [float(xp.sum(target * target))]
        self.predictions: list[Array] = []
        self.ended = False

    @property
    def pending(self) -> Array | None:
        """The vector over all n rows whose product with D is needed before the next step."""
        if self._pending is None:
            return None
        direction, _ = self._pending
        return _spread(self._rows.operator.root_transposed(direction[:, None])[:, 0], self._rows.rows, self._n_rows)

    def absorb(self, product: Array) -> None:
        """Take in that product (N,): correlations with the new residual, and what is left of every atom."""
        assert self._pending is not None
        _, amount = self._pending
        self._correlations = self._correlations - amount * product
        if self._refit in ("back", "pre") and self.steps:
            self._left = self._left - product * product
            self._drop(self.steps[-1])
        self._pending = None

    def _drop(self, atom: int) -> None:
        self._left = namespace(self._left).where(self._numbers == atom, 0.0 * self._left, self._left)

    def choose(self) -> int | None:
        """The atom to enter next: the largest gain (kᵀ L r)² / kᵀ L k; None where there is none to be had."""
        xp, c = namespace(self._left), self._correlations
        live = (self._start > self._floor) & (self._left > DEAD * self._start)
        lengths = self._left if self._refit == "pre" else self._start
        gains = xp.where(live, c * c / xp.where(live, lengths, xp.ones_like(lengths)), -xp.ones_like(lengths))
        best = float(xp.max(gains))
        if not best > NOTHING * self.losses[0]:
            self.ended = True
            return None
        return int(xp.argmax(xp.astype(gains >= (1 - TIE) * best, xp.int8)))

    def enter(self, atom: int, column: Array) -> None:
        """Take in an atom, whose values at all n rows are given. O(n k)."""
        rows, watched = self._rows.rows, self._watched
        xp = namespace(column)
        values = self._values if watched is None else take(column, watched)
        own = self._rows.operator.root((column if rows is None else take(column, rows))[:, None])[:, 0]
        new = atom not in self.entered
        if self._refit in ("basic", "final"):
            amount = float(xp.sum(own * self._residual)) / float(xp.sum(own * own))
            self._residual = self._residual - amount * own
            self._pending = own, amount
        if self._refit == "basic":
            self._amounts.append(amount)
            self._values, self._refitted = self._values + amount * values, self._residual
        elif new and not self._add_direction(own, values) and self._refit != "final":
            self._drop(atom)  # rounding hid that it adds nothing
            return
        if new:
            self.entered.append(atom)
        self.steps.append(atom)
        self._widths.append(len(self._bearers))
        self.losses.append(float(xp.sum(self._refitted * self._refitted)))
        self.predictions.append(self._values)

    def _add_direction(self, own: Array, values: Array) -> bool:
        """Refit on one more direction; False where the column adds none."""
        added = self.directions.add(own, values)
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
        """Weights of the entered atoms after 1, 2, … steps: (k, steps), all of them from one R⁻¹. O(k² steps)."""
        found = np.zeros((len(self.entered), len(self.steps)))
        if self._refit == "basic":
            for step, (atom, amount) in enumerate(zip(self.steps, self._amounts, strict=True)):
                found[self.entered.index(atom), step:] += amount
            return found
        sums = np.cumsum(self.directions.inverse() * np.asarray(self._amounts), axis=1)
        sums = np.concatenate([np.zeros((len(self._bearers), 1)), sums], axis=1)
        found[self._bearers] = sums[:, self._widths]
        return found


def start_runs(
    dictionary: Dictionary,
    sets: Sequence[RowSet],
    targets: Sequence[Array],
    watched: Sequence[Index | None],
    refit: Refit,
    barred: Sequence[Index | None],
    *,
    alike: bool,
) -> list[PursuitRun]:
    """A run over each set of rows, of which the first is all of them; `barred` atoms may not enter. One pass over D."""
    n, lengths = sets[0].operator.n_rows, dictionary.squared_lengths(sets)
    open_ = np.ones((len(sets), dictionary.size))
    for number, atoms in enumerate(barred):
        if atoms is not None:
            open_[number, atoms] = 0.0
    lengths = lengths * like(open_, lengths)
    return [
        PursuitRun(rows, n, target, lengths[number, ...], refit, seen, alike=alike)
        for number, (rows, target, seen) in enumerate(zip(sets, targets, watched, strict=True))
    ]


def advance(dictionary: Dictionary, runs: Sequence[PursuitRun], n_steps: int) -> None:
    """Take every run to that many steps, or to its end. One product with D a step: O(n N) for all runs together."""
    while active := [run for run in runs if not run.ended and len(run.steps) < n_steps]:
        waiting = [(run, vector) for run in active if (vector := run.pending) is not None]
        if waiting:
            products = dictionary.products(namespace(waiting[0][1]).stack([vector for _, vector in waiting]))
            for number, (run, _) in enumerate(waiting):
                run.absorb(products[number, ...])
        chosen = [(run, atom) for run in active if (atom := run.choose()) is not None]
        if chosen:
            columns = dictionary.columns(np.asarray([atom for _, atom in chosen]))
            for number, (run, atom) in enumerate(chosen):
                run.enter(atom, columns[number, ...])


def _spread(values: Array, rows: Index | None, n: int) -> Array:
    """Values (k,) of some rows among n, zeros elsewhere; rows that come twice are added."""
    if rows is None:
        return values
    if isinstance(values, np.ndarray):
        return np.bincount(rows, values, minlength=n)
    return segment_sum(values[:, None], like(rows, values, "int64"), n)[:, 0]


PATIENCE = 10  # steps without a lower held-out error after which a search ends
MOST_STEPS = 1_000  # that are tried
UNTUNED = 10  # atoms where nothing can be held out


@dataclass(frozen=True)
class PursuitSettings:
    """What a learner was asked for, checked.

    kernel : with gamma still open; gamma : candidates, or "scale"/"tune"
    n_atoms : steps, candidates in increasing order, or "tune"
    centred : the mean score of the rows at hand is taken out first (an intercept)
    """

    kernel: Kernel
    gamma: float | str | tuple[float, ...]
    n_atoms: int | tuple[int, ...] | str
    refit: Refit
    cv: Any = None
    scoring: Scoring = "squared"
    centred: bool = False
    seed: int = 0

    @property
    def tunes(self) -> bool:
        """Whether anything is chosen by held-out error."""
        return not isinstance(self.n_atoms, int) or self.gamma == "tune" or isinstance(self.gamma, tuple)


@dataclass(frozen=True)
class PursuitSolution:
    """A sparse model's numbers.

    steps : (p,) atoms in order of entry; atoms : (k,) the distinct ones
    weights : (k, p) of the distinct atoms after 1, 2, … steps
    losses : (p + 1,) of 0, 1, … steps
    asked : the number of steps that was wanted; path : None where nothing was tuned
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
    """Rows that are kept and rows that are left out. The features are not needed: kernels come from the dictionary."""

    kept: RowSet
    target: Array
    left: ScoredRows
    rows: Index
    offset: float


@dataclass(frozen=True)
class _Candidate:
    """One kernel: the run on all rows, the numbers of steps tried and their held-out errors."""

    kernel: Kernel
    run: PursuitRun
    numbers: Index
    errors: HeldOut | None = None


def pursue(training: Training, settings: PursuitSettings, atoms: Atoms) -> PursuitSolution:
    """Choose what is to be tuned by held-out error; the model is the beginning of the run on all rows."""
    problem = training.problem
    assert isinstance(problem, ScoredRows)
    tied = nothing_to_learn(problem, centred=settings.centred)
    splits = _splits(training, settings) if settings.tunes and not tied else None
    offset = problem.mean_score if settings.centred else 0.0
    bare = without_features(problem)
    folds = [] if splits is None else [_fold(bare, train, test, settings.centred) for train, test in splits]
    if folds and not _tell_apart(folds, settings.scoring):
        folds = []
    whole = RowSet(problem.operator)
    target = (problem.targets[:, 0] - offset * problem.targets[:, 1]) * (0.0 if tied else 1.0)

    def candidate(kernel: Kernel) -> _Candidate:
        dictionary = atoms.dictionary(kernel, problem.features)
        runs = start_runs(
            dictionary,
            [whole, *(fold.kept for fold in folds)],
            [target, *(fold.target for fold in folds)],
            [None, *(fold.rows for fold in folds)],
            settings.refit,
            [None, *(atoms.at(training.index[fold.rows]) for fold in folds)],
            alike=atoms.points is not None,
        )
        return _tried(dictionary, runs, folds, kernel, settings, problem.freedom(np.arange(len(problem.rows))))

    constant = constant_error([problem], offset, settings.scoring) if folds else np.nan
    kernels = _kernels(training, settings, atoms, tuned=bool(folds))
    chosen, asked, path = _choose([candidate(kernel) for kernel in kernels], settings.scoring, constant)
    used = min(asked, len(chosen.run.steps))
    steps = np.asarray(chosen.run.steps[:used], dtype=np.int64)
    distinct = len(dict.fromkeys(steps.tolist()))
    return PursuitSolution(
        kernel=chosen.kernel,
        steps=steps,
        atoms=np.asarray(chosen.run.entered[:distinct], dtype=np.int64),
        weights=chosen.run.weights()[:distinct, :used],
        losses=np.asarray(chosen.run.losses[: used + 1]),
        intercept=offset,
        asked=asked,
        path=path,
    )


def nothing_to_learn(problem: ScoredRows, *, centred: bool) -> bool:
    """Whether scores are alike, but for rounding, wherever they are compared."""
    if problem.is_tied:
        return True
    size = float(namespace(problem.reference).max(namespace(problem.reference).abs(problem.reference)))
    return size <= 1e-14 * abs(problem.level) if centred else size == 0


def _kernels(training: Training, settings: PursuitSettings, atoms: Atoms, *, tuned: bool) -> list[Kernel]:
    """The widths to try; one that needs no tuning where nothing can be held out."""
    if atoms.points is None:
        return [Kernel("linear")]
    gamma = settings.gamma
    if not tuned:
        gamma = gamma[0] if isinstance(gamma, tuple) else "scale" if gamma == "tune" else gamma
    return kernels_to_try(training, settings.kernel, gamma, "all", settings.seed)


def _choose(found: Sequence[_Candidate], scoring: Scoring, constant: float) -> tuple[_Candidate, int, Path | None]:
    """The candidate of least held-out error and its number of steps; fewer among equals."""
    if found[0].errors is None:
        return found[0], int(found[0].numbers[0]), None
    best, least, chosen, tried = 0, np.inf, found[0], 0
    for candidate in found:
        assert candidate.errors is not None
        position = chosen_position(candidate.errors, -candidate.numbers.astype(np.float64), scoring)
        if candidate.errors.mean[position] < least:
            best, least, chosen = tried + position, float(candidate.errors.mean[position]), candidate
        tried += len(candidate.numbers)
    errors = [candidate.errors for candidate in found if candidate.errors is not None]
    numbers = np.concatenate([candidate.numbers for candidate in found]).astype(np.float64)
    widths = [np.nan if candidate.kernel.gamma is None else candidate.kernel.gamma for candidate in found]
    path = Path(
        alpha=np.full(len(numbers), np.nan),
        gamma=np.repeat(widths, [len(candidate.numbers) for candidate in found]).astype(np.float64),
        error=np.concatenate([own.mean for own in errors]),
        standard_error=np.concatenate([own.standard_error for own in errors]),
        best=best,
        scoring=scoring,
        constant=constant,
        n_atoms=numbers,
    )
    return chosen, int(numbers[best]), path


# ---------------------------------------------------------------- folds


def _splits(training: Training, settings: PursuitSettings) -> Splits | None:
    """What is held out: what `cv` says, else at most ten folds of queries, items or rows; None for too little."""
    problem = training.problem
    given = read_splits(settings.cv, problem, training.index, int(training.everything.shape[0]))
    if given is None:
        groups = None if problem.groups is None else [problem.groups]
        folding = default_folding([problem], groups, settings.seed, n_features=0)
        given = None if folding is None else folding.codes[0]
    return fold_splits(given) if isinstance(given, np.ndarray) else given


def without_features(problem: ScoredRows) -> ScoredRows:
    """The same rows, so that folds of them copy no features."""
    xp = namespace(problem.reference)
    nothing = xp.zeros((len(problem.rows), 0), dtype=xp.float64, device=device(problem.reference))
    return replace(problem, rows=replace(problem.rows, features=nothing))


def _fold(problem: ScoredRows, train: Index, test: Index, centred: bool) -> _PursuitFold:
    kept, left = problem.take(train), problem.take(test)
    offset = kept.mean_score if centred else 0.0
    target = kept.targets[:, 0] - offset * kept.targets[:, 1]
    return _PursuitFold(RowSet(kept.operator, train, _cuts(problem, train)), target, left, test, offset)


def _cuts(problem: ScoredRows, rows: Index) -> bool:
    """Whether the loss on these rows is the same as within all of them: whole queries, or rows one by one."""
    if not problem.comparison.needs_queries:
        return True
    if problem.groups is None:
        return False
    counts, sizes = (np.bincount(own, minlength=problem.n_queries) for own in (problem.groups[rows], problem.groups))
    return len(np.unique(rows)) == len(rows) and bool(np.all((counts == 0) | (counts == sizes)))


def _tell_apart(folds: Sequence[_PursuitFold], scoring: Scoring) -> bool:
    """Whether an error can be told on anything that is left out."""
    parts = []
    for fold in folds:
        constant = 0.0 * fold.left.reference[:, None]
        parts.append(errors_of(fold.left, constant, np.zeros(len(fold.rows), dtype=np.int64), scoring, np.zeros(1)))
    return len(pooled(parts).sizes) > 0


def _tried(
    dictionary: Dictionary,
    runs: Sequence[PursuitRun],
    folds: Sequence[_PursuitFold],
    kernel: Kernel,
    settings: PursuitSettings,
    rank: int,
) -> _Candidate:
    """Runs, the first on all rows and one a fold, taken as far as they must go."""
    wanted, carried = settings.n_atoms, min(dictionary.size, rank)
    if not folds:
        steps = min(UNTUNED, carried) if isinstance(wanted, str) else wanted if isinstance(wanted, int) else wanted[0]
        advance(dictionary, runs, steps)
        return _Candidate(kernel, runs[0], np.asarray([steps]))
    most = MOST_STEPS if settings.refit in ("basic", "final") else min(MOST_STEPS, carried)
    limit = most if isinstance(wanted, str) else wanted if isinstance(wanted, int) else wanted[-1]
    parts: list[HeldOut] = []
    done = 0
    while done < limit and (done == 0 or not all(run.ended for run in runs[1:])):
        upto = min(done + PATIENCE, limit)
        advance(dictionary, runs, upto)
        parts.append(_errors(folds, runs[1:], done, upto, settings.scoring))
        done = upto
        if isinstance(wanted, str) and (end := _end(np.concatenate([part.mean for part in parts]))) is not None:
            done = end
            break
    if isinstance(wanted, str):
        reached = max(1, max(len(run.steps) for run in runs[1:]))
        numbers = np.arange(1, min(done, reached) + 1)
    else:
        numbers = np.atleast_1d(np.asarray(wanted, dtype=np.int64))
    advance(dictionary, runs[:1], int(numbers[-1]))
    errors = np.concatenate([part.errors for part in parts], axis=1)
    return _Candidate(kernel, runs[0], numbers, HeldOut(errors[:, np.minimum(numbers, done) - 1], parts[0].sizes))


def _errors(
    folds: Sequence[_PursuitFold], runs: Sequence[PursuitRun], begin: int, end: int, scoring: Scoring
) -> HeldOut:
    """Held-out errors after steps begin + 1 … end; a run that has ended stays as it is."""
    parts = []
    for fold, run in zip(folds, runs, strict=True):
        xp = namespace(fold.left.reference)
        nothing = xp.zeros_like(fold.left.reference)
        values = [
            run.predictions[min(step, len(run.steps) - 1)] if run.steps else nothing for step in range(begin, end)
        ]
        codes = np.zeros(len(fold.rows), dtype=np.int64)
        predictions = xp.stack(values, axis=1) + fold.offset
        parts.append(errors_of(fold.left, predictions, codes, scoring, np.full(1, fold.offset)))
    return pooled(parts)


def _end(means: FloatArray) -> int | None:
    """The number of steps after which the error has not fallen for PATIENCE of them; None where it still may."""
    best, since = means[0], 0
    for step, error in enumerate(means[1:], start=2):
        since = 0 if error < best * (1 - 1e-12) else since + 1
        best = min(best, error)
        if since == PATIENCE:
            return step
    return None
