"""Matching pursuit, ranking pursuit and their blend of many people at once: predictions after every
number of steps.

The rules are those of corank's RankingPursuit; here every array has one row per person, and people
whose pursuit has ended stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from corank.solve.column_path import NEGLIGIBLE_SHARE
from corank.solve.pursuit import GAIN_TIE, NEGLIGIBLE_GAIN
from studies.batched_fits.batches import Kernels, LossRoot
from studies.data import Floats, Integers


@dataclass(frozen=True)
class PursuitPaths:
    """What pursuits predict after every number of steps.

    predictions : (u, steps, test items) after 1, 2, … steps
    n_atoms : (u, steps) distinct atoms after as many steps
    """

    predictions: Floats
    n_atoms: Integers


class Directions:
    """Columns made orthonormal one after the other (Gram–Schmidt, twice), and their values at
    watched rows.

    fit : the least-squares fit of a target on them, at the watched rows; it grows with every column
    residual : the target less that fit
    """

    def __init__(self, target: Floats, n_watched: int, most: int) -> None:
        people, rows = target.shape
        self.residual = target.copy()
        self.fit = np.zeros((people, n_watched))
        self._unit = np.zeros((people, most, rows))
        self._watched = np.zeros((people, most, n_watched))
        self._used = 0

    def add(self, column: Floats, watched: Floats, tiny: float = NEGLIGIBLE_SHARE) -> Floats:
        """The next direction of everyone (u, rows); zero where a column (u, rows) adds none."""
        earlier, k = self._unit[:, : self._used], self._used
        size = np.sum(column * column, axis=1)
        remainder, shares = column, np.zeros((len(column), k))
        for _ in range(2 if k else 0):
            again = np.matmul(earlier, remainder[:, :, None])
            remainder = remainder - np.matmul(np.swapaxes(again, 1, 2), earlier)[:, 0]
            shares += again[:, :, 0]
        left = np.sum(remainder * remainder, axis=1)
        scale = np.where(left > tiny * size, 1 / np.sqrt(np.where(left > 0, left, 1.0)), 0.0)[
            :, None
        ]
        direction = remainder * scale
        elsewhere = (watched - np.matmul(shares[:, None, :], self._watched[:, :k])[:, 0]) * scale
        self._unit[:, k], self._watched[:, k] = direction, elsewhere
        self._used += 1
        amount = np.sum(direction * self.residual, axis=1, keepdims=True)
        self.residual -= amount * direction
        self.fit += amount * elsewhere
        return direction


def pursuit_paths(
    kernels: Kernels, loss: LossRoot, targets: Floats, n_steps: int, *, refit: str
) -> PursuitPaths:
    """Greedy steps on ‖J (s − f)‖² with kernels at the scored items as atoms ([Tsivtsivadze2013]
    Fig. 1). O(u n² steps).

    refit : "basic", a weight for the atom that enters, which may enter again; "back", all weights
        after every step
    """
    mask = kernels.batch.scored_mask
    # one row per atom
    columns = np.ascontiguousarray(np.swapaxes(loss.apply(kernels.scored, mask), 1, 2))
    watched = np.ascontiguousarray(np.swapaxes(kernels.test, 1, 2))
    target = loss.apply(targets, mask)
    people, n_watched = np.arange(len(target)), watched.shape[2]
    start = np.sum(columns * columns, axis=2)
    left, floor = start.copy(), NEGLIGIBLE_SHARE * start.max(axis=1, keepdims=True)
    first_loss = np.sum(target * target, axis=1)
    directions = Directions(target, n_watched, n_steps if refit == "back" else 0)
    residual, fit = target.copy(), np.zeros((len(target), n_watched))
    entered = np.zeros(start.shape, dtype=bool)
    predictions, n_atoms = (
        np.zeros((n_steps, len(target), n_watched)),
        np.zeros((n_steps, len(target)), dtype=np.int64),
    )
    for step in range(n_steps):
        promised = np.matmul(columns, residual[:, :, None])[:, :, 0]
        live = (start > floor) & (left > NEGLIGIBLE_SHARE * start)
        gains = np.where(live, promised**2 / np.where(live, start, 1.0), -1.0)
        best = gains.max(axis=1)
        atom = np.argmax(gains >= (1 - GAIN_TIE) * best[:, None], axis=1)
        goes_on = best > NEGLIGIBLE_GAIN * first_loss
        column, values = columns[people, atom] * goes_on[:, None], watched[people, atom]
        if refit == "back":
            direction = directions.add(column, values)
            left -= np.matmul(columns, direction[:, :, None])[:, :, 0] ** 2
            left[people[goes_on], atom[goes_on]] = 0.0
            residual, fit = directions.residual, directions.fit
        else:
            weight = np.where(
                goes_on, promised[people, atom] / np.where(goes_on, start[people, atom], 1.0), 0.0
            )
            residual -= weight[:, None] * column
            fit = fit + weight[:, None] * values
        entered[people[goes_on], atom[goes_on]] = True
        predictions[step], n_atoms[step] = fit, entered.sum(axis=1)
    return PursuitPaths(np.swapaxes(predictions, 0, 1), n_atoms.T)
