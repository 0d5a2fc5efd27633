"""Semi-supervised ranking pursuit of two views (003 Fig. 2) for many people at once.

A view is a dictionary: kernels at half of the scored and half of the unscored items, or kernels at the scored items as
half of the reference people see them; both views are fitted to all scored items and agree on all unscored ones. The rules are those of `solvers.cogreedy` and `solvers.cosearch`. With both views'
atoms as columns of one least-squares problem on stacked rows, scored once a view and unscored times √(2·agreement),

    F = ‖ [J s; J s; 0] − [J D₁ a₁; J D₂ a₂; √(2·agreement)·J̄ (D̄₁ a₁ − D̄₂ a₂)] ‖²     (003 eq. 3).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from corank._arrays import FloatArray, Index
from corank.solvers.atom_search import MIN_DETERMINANT
from corank.solvers.co_pursuit import MIN_SINGULAR_SHARE
from corank.solvers.column_path import NEGLIGIBLE_SHARE
from corank.solvers.pursuit import GAIN_TIE, NEGLIGIBLE_GAIN
from studies.batched_fits.batches import Batch, Kernels, Mask, Root
from studies.batched_fits.pursuit import Directions, Pursued


@dataclass(frozen=True)
class Views:
    """Two dictionaries on one kernel, an atom a row.

    scored, unscored, test : per view (u, atoms, items), J D, J̄ D̄ and D
    shared : (u, atoms of view 1, atoms of view 2), D̄₁ᵀ L̄ D̄₂
    target : (u, n), J s
    """

    scored: tuple[FloatArray, FloatArray]
    unscored: tuple[FloatArray, FloatArray]
    test: tuple[FloatArray, FloatArray]
    shared: FloatArray
    target: FloatArray


def two_views(kernels: Kernels, loss: Root, agreeing: Root, targets: FloatArray, *, of: str = "items") -> Views:
    """Dictionaries of two views.

    of : "items", every second scored and unscored item is an atom of the first view, the others of the second;
        "people", all scored items are atoms of both, in kernels of one half of the reference people each
    """
    batch = kernels.batch
    rows = (batch.scored, batch.scored_known), (batch.unscored, batch.unscored_known), (batch.test, batch.test_known)

    def values(items: tuple[Index, Mask], side: int, root: Root | None) -> FloatArray:
        if of == "items":
            block = kernels.between(items, _every_second(batch, side))
        else:
            block = kernels.half(side).between(items, rows[0])
        return np.ascontiguousarray(np.swapaxes(block if root is None else root.apply(block, items[1]), 1, 2))

    scored, unscored, test = (
        (values(items, 0, root), values(items, 1, root))
        for items, root in zip(rows, (loss, agreeing, None), strict=True)
    )
    shared = unscored[0] @ np.swapaxes(unscored[1], 1, 2)
    return Views(scored, unscored, test, shared, loss.apply(targets, batch.scored_known))


def _every_second(batch: Batch, first: int) -> tuple[Index, Mask]:
    """Every second item from the first or second on, the scored ones before the unscored ones."""
    items = np.concatenate([batch.scored[:, first::2], batch.unscored[:, first::2]], axis=1)
    return items, np.concatenate([batch.scored_known[:, first::2], batch.unscored_known[:, first::2]], axis=1)


class _Costs:
    """What pairs of atoms cost, (B + C) of every one of them; it stays while atoms enter."""

    def __init__(self, views: Views, agreement: float) -> None:
        lengths = zip(views.scored, views.unscored, strict=True)
        self.diagonal = [np.sum(a * a, axis=2) + 2 * agreement * np.sum(b * b, axis=2) for a, b in lengths]
        self.live = [own > NEGLIGIBLE_SHARE * own.max(axis=1, keepdims=True) for own in self.diagonal]
        pairs = zip(self.diagonal, self.live, strict=True)
        self.scale = [np.where(live, 1 / np.sqrt(np.where(live, own, 1.0)), 0.0) for own, live in pairs]
        self.rho = -2 * agreement * views.shared * self.scale[0][:, :, None] * self.scale[1][:, None, :]
        self.apart = 1 - self.rho**2
        self._one = self.apart <= MIN_DETERMINANT
        self._inverse = 1 / np.where(self._one, 1.0, self.apart)

    def best(self, promised: list[FloatArray], allowed: list[Mask]) -> tuple[Index, Index, FloatArray, FloatArray]:
        """The pair of everyone with the largest gain: atoms (u,) of both views, weights (u, 2) and gain (u,)."""
        first, second = (e * scale for e, scale in zip(promised, self.scale, strict=True))
        rest = first[:, :, None] - self.rho * second[:, None, :]
        rest *= rest
        rest *= self._inverse
        if self._one.any():
            lead = np.maximum(first[:, :, None] ** 2 - second[:, None, :] ** 2, 0.0)
            rest = np.where(self._one, lead, rest)
        rest += second[:, None, :] ** 2
        mine, others = (own & live for own, live in zip(allowed, self.live, strict=True))
        rest[np.broadcast_to(~others[:, None, :], rest.shape)] = -np.inf
        row = _first_greatest(np.where(mine, rest.max(axis=2), -np.inf))
        people = np.arange(len(row))
        column = _first_greatest(rest[people, row])
        return row, column, *self._weights(promised, row, column)

    def _weights(self, promised: list[FloatArray], row: Index, column: Index) -> tuple[FloatArray, FloatArray]:
        people = np.arange(len(row))
        scale = np.stack([self.scale[0][people, row], self.scale[1][people, column]], axis=1)
        u = scale * np.stack([promised[0][people, row], promised[1][people, column]], axis=1)
        rho, one = self.rho[people, row, column], self._one[people, row, column]
        apart = np.where(one, 1.0, self.apart[people, row, column])
        joint = np.stack([u[:, 0] - rho * u[:, 1], u[:, 1] - rho * u[:, 0]], axis=1) / apart[:, None]
        alone = np.where(np.arange(2) == np.argmax(u**2, axis=1)[:, None], u, 0.0)
        solved = np.where(one[:, None], alone, joint)
        return scale * solved, np.sum(solved * u, axis=1)


def copursuit_paths(views: Views, agreement: float, n_steps: int, *, objective: str, refit: str) -> Pursued:
    """Greedy steps of both views; predictions are the mean of the views. O(u N₁ N₂) a step and person.

    objective : "exact", each step makes F least; "paper", one residual for both views (math.md E-P3-1)
    refit : "basic", weights stay as they entered; "back", all weights fitted again after every step
    """
    costs, (people, n) = _Costs(views, agreement), views.target.shape
    everyone, bond = np.arange(people), np.sqrt(2 * agreement)
    nothing = np.zeros((people, views.unscored[0].shape[2]))
    residual = np.concatenate([views.target, views.target, nothing], axis=1)
    first_loss = np.sum(residual * residual, axis=1)
    directions = Directions(residual, views.test[0].shape[2], 2 * n_steps if refit == "back" else 0)
    fit = np.zeros((people, views.test[0].shape[2]))
    entered = [np.zeros(own.shape, dtype=bool) for own in costs.diagonal]
    predictions, n_atoms = np.zeros((n_steps, *fit.shape)), np.zeros((n_steps, people), dtype=np.int64)
    going = np.ones(people, dtype=bool)
    for step in range(n_steps):
        promised = _promised(views, residual, n, bond, objective)
        allowed = [~own if refit == "back" else np.ones_like(own) for own in entered]
        row, column, weights, gain = costs.best(promised, allowed)
        going &= gain > NEGLIGIBLE_GAIN * first_loss
        chosen = (row, column)
        if refit == "back":
            for view, atom in enumerate(chosen):
                directions.add(
                    _stacked(views, view, atom, bond) * going[:, None],
                    views.test[view][everyone, atom] / 2,
                    MIN_SINGULAR_SHARE**2,
                )
            residual, fit = directions.residual, directions.fit
        else:
            weights = weights * going[:, None]
            for view, atom in enumerate(chosen):
                residual -= weights[:, view, None] * _stacked(views, view, atom, bond)
                fit = fit + weights[:, view, None] * views.test[view][everyone, atom] / 2
        for own, atom in zip(entered, chosen, strict=True):
            own[everyone[going], atom[going]] = True
        predictions[step], n_atoms[step] = fit, sum(own.sum(axis=1) for own in entered)
    return Pursued(np.swapaxes(predictions, 0, 1), n_atoms.T)


def _promised(views: Views, residual: FloatArray, n: int, bond: float, objective: str) -> list[FloatArray]:
    """What a step with each atom promises, e (math.md E-P3-1): (u, atoms) a view."""
    own, other, between = residual[:, :n], residual[:, n : 2 * n], residual[:, 2 * n :]
    if objective == "paper":
        mean = (own + other) / 2
        return [(block @ mean[:, :, None])[:, :, 0] for block in views.scored]
    parts = zip(views.scored, views.unscored, (own, other), (bond, -bond), strict=True)
    return [
        (block @ rest[:, :, None])[:, :, 0] + sign * (far @ between[:, :, None])[:, :, 0]
        for block, far, rest, sign in parts
    ]


def _stacked(views: Views, view: int, atom: Index, bond: float) -> FloatArray:
    """The column of an atom of everyone in the stacked problem: (u, 2 n + l)."""
    people = np.arange(len(atom))
    own, far = views.scored[view][people, atom], views.unscored[view][people, atom]
    parts = [own, np.zeros_like(own)] if view == 0 else [np.zeros_like(own), own]
    return np.concatenate([*parts, (bond if view == 0 else -bond) * far], axis=1)


def _first_greatest(gains: FloatArray) -> Index:
    """The first of everyone's gains (u, k) that no other exceeds."""
    best = gains.max(axis=1, keepdims=True)
    return np.asarray(np.argmax(gains >= best - GAIN_TIE * np.abs(best), axis=1))
