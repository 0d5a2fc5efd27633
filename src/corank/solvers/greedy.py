"""Pursuit: atoms enter one by one, each the one that lowers ‖J (s − f)‖² most (003 fig. 1; Vincent & Bengio 2002).

Every way of refitting is the same loop. Correlations c = Dᵀ L r are kept up to date by one product with D a step, and
so is what the atoms chosen so far leave of every atom's length. Runs over several sets of rows go side by side, so that
all folds cost little more than one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np
import scipy.linalg

from corank._backend import Array, device, like, namespace, segment_sum, take, to_numpy
from corank.problem import FloatArray
from corank.solvers.dictionary import Dictionary
from corank.solvers.lengths import RowSet
from corank.statistics import Index

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


class Run:
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
) -> list[Run]:
    """A run over each set of rows, of which the first is all of them; `barred` atoms may not enter. One pass over D."""
    n, lengths = sets[0].operator.n_rows, dictionary.squared_lengths(sets)
    open_ = np.ones((len(sets), dictionary.size))
    for number, atoms in enumerate(barred):
        if atoms is not None:
            open_[number, atoms] = 0.0
    lengths = lengths * like(open_, lengths)
    return [
        Run(rows, n, target, lengths[number, ...], refit, seen, alike=alike)
        for number, (rows, target, seen) in enumerate(zip(sets, targets, watched, strict=True))
    ]


def advance(dictionary: Dictionary, runs: Sequence[Run], n_steps: int) -> None:
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
