"""Semi-supervised ranking pursuit of two views ([Tsivtsivadze2013] Fig. 2) for many people at once.

A view is a dictionary: kernels at half of the scored and half of the unscored items, or kernels at
the scored items as half of the reference people see them. Both views are fitted to all scored items
and agree on all unscored ones; or each is fitted to its own half of the scored items, and they agree
on the unscored ones or on all. The rules are those of corank's CoRankingPursuit. With both views'
atoms as columns of one least-squares problem on stacked rows, scored once per view and unscored
times √(2·agreement),

    F = ‖ [J s; J s; 0] − [J D₁ a₁; J D₂ a₂; √(2·agreement)·J̄ (D̄₁ a₁ − D̄₂ a₂)] ‖²     ([Tsivtsivadze2013] eq. 3).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from corank.solve.atom_search import MIN_DETERMINANT
from corank.solve.co_pursuit import MIN_SINGULAR_SHARE
from corank.solve.column_path import NEGLIGIBLE_SHARE
from corank.solve.pursuit import GAIN_TIE, NEGLIGIBLE_GAIN
from studies.batched_fits.batches import Batch, Kernels, LossRoot, Mask, loss_root
from studies.batched_fits.pursuit import Directions, PursuitPaths
from studies.data import Floats, Integers


@dataclass(frozen=True)
class TwoViews:
    """Two dictionaries on one kernel, one row per atom.

    scored, unscored, test : per view (u, atoms, items), J D, J̄ D̄ and D
    shared : (u, atoms of view 1, atoms of view 2), D̄₁ᵀ L̄ D̄₂
    target : per view (u, n), J s; rows of items that a view is not fitted to are zero
    """

    scored: tuple[Floats, Floats]
    unscored: tuple[Floats, Floats]
    test: tuple[Floats, Floats]
    shared: Floats
    target: tuple[Floats, Floats]


SHARED, HALVES, HALVES_ON_ALL = "all scored", "own half", "own half, agreeing on all"


def two_views(
    kernels: Kernels, targets: Floats, *, of: str = "items", fitted: str = SHARED
) -> TwoViews:
    """Dictionaries of two views.

    of : "items", every second scored and unscored item is an atom of the first view, the others of
        the second; "people", all scored items are atoms of both, in kernels of one half of the
        reference people each
    fitted : SHARED, both views to all scored items, agreeing on the unscored ones; HALVES, each to
        its half of the scored items; HALVES_ON_ALL, so too, agreeing on the scored items as well
    """
    batch = kernels.batch
    scored_rows, unscored_rows = (
        (batch.scored, batch.scored_mask),
        (batch.unscored, batch.unscored_mask),
    )
    agreeing_rows = unscored_rows
    if fitted == HALVES_ON_ALL:
        agreeing_rows = (
            np.concatenate([scored_rows[0], unscored_rows[0]], axis=1),
            np.concatenate([scored_rows[1], unscored_rows[1]], axis=1),
        )
    masks = [batch.scored_mask] * 2 if fitted == SHARED else _halves(batch.scored_mask)
    losses = [loss_root(0.0, mask.sum(axis=1)) for mask in masks]
    agreeing = loss_root(0.0, agreeing_rows[1].sum(axis=1))

    def values(
        items: tuple[Integers, Mask], side: int, root: LossRoot | None, mask: Mask
    ) -> Floats:
        if of == "items":
            block = kernels.between(items, _every_second(batch, side))
        else:
            block = kernels.half(side).between(items, scored_rows)
        return np.ascontiguousarray(
            np.swapaxes(block if root is None else root.apply(block, mask), 1, 2)
        )

    def both(rows: tuple[Integers, Mask], root: LossRoot | None) -> tuple[Floats, Floats]:
        return values(rows, 0, root, rows[1]), values(rows, 1, root, rows[1])

    scored = (
        values(scored_rows, 0, losses[0], masks[0]),
        values(scored_rows, 1, losses[1], masks[1]),
    )
    unscored, test = both(agreeing_rows, agreeing), both((batch.test, batch.test_mask), None)
    target = losses[0].apply(targets, masks[0]), losses[1].apply(targets, masks[1])
    shared = unscored[0] @ np.swapaxes(unscored[1], 1, 2)
    return TwoViews(scored, unscored, test, shared, target)


def _halves(mask: Mask) -> list[Mask]:
    """Every second scored item, as `_every_second` has them, and the others."""
    even = np.arange(mask.shape[1]) % 2 == 0
    return [mask & even, mask & ~even]


def _every_second(batch: Batch, first: int) -> tuple[Integers, Mask]:
    """Every second item from the first or second on, the scored ones before the unscored ones."""
    items = np.concatenate([batch.scored[:, first::2], batch.unscored[:, first::2]], axis=1)
    return items, np.concatenate(
        [batch.scored_mask[:, first::2], batch.unscored_mask[:, first::2]], axis=1
    )


class _PairCosts:
    """What pairs of atoms cost: B + C of each of them, which stays while atoms enter."""

    def __init__(self, views: TwoViews, agreement: float) -> None:
        blocks = zip(views.scored, views.unscored, strict=True)
        self.diagonal = [
            np.sum(a * a, axis=2) + 2 * agreement * np.sum(b * b, axis=2) for a, b in blocks
        ]
        self.live = [
            lengths > NEGLIGIBLE_SHARE * lengths.max(axis=1, keepdims=True)
            for lengths in self.diagonal
        ]
        pairs = zip(self.diagonal, self.live, strict=True)
        self.scale = [
            np.where(live, 1 / np.sqrt(np.where(live, lengths, 1.0)), 0.0)
            for lengths, live in pairs
        ]
        self.rho = (
            -2 * agreement * views.shared * self.scale[0][:, :, None] * self.scale[1][:, None, :]
        )
        self.apart = 1 - self.rho**2
        self._parallel = self.apart <= MIN_DETERMINANT
        self._inverse = 1 / np.where(self._parallel, 1.0, self.apart)

    def best(
        self, promised: list[Floats], allowed: list[Mask]
    ) -> tuple[Integers, Integers, Floats, Floats]:
        """The pair of everyone with the largest gain: atoms (u,) of both views, weights (u, 2) and
        gain (u,).
        """
        first, second = (e * scale for e, scale in zip(promised, self.scale, strict=True))
        gains = first[:, :, None] - self.rho * second[:, None, :]
        gains *= gains
        gains *= self._inverse
        if self._parallel.any():
            lead = np.maximum(first[:, :, None] ** 2 - second[:, None, :] ** 2, 0.0)
            gains = np.where(self._parallel, lead, gains)
        gains += second[:, None, :] ** 2
        first_allowed, second_allowed = (
            free & live for free, live in zip(allowed, self.live, strict=True)
        )
        gains[np.broadcast_to(~second_allowed[:, None, :], gains.shape)] = -np.inf
        row = _first_greatest(np.where(first_allowed, gains.max(axis=2), -np.inf))
        people = np.arange(len(row))
        column = _first_greatest(gains[people, row])
        return row, column, *self._weights(promised, row, column)

    def _weights(
        self, promised: list[Floats], row: Integers, column: Integers
    ) -> tuple[Floats, Floats]:
        people = np.arange(len(row))
        scale = np.stack([self.scale[0][people, row], self.scale[1][people, column]], axis=1)
        u = scale * np.stack([promised[0][people, row], promised[1][people, column]], axis=1)
        rho, parallel = self.rho[people, row, column], self._parallel[people, row, column]
        apart = np.where(parallel, 1.0, self.apart[people, row, column])
        joint = (
            np.stack([u[:, 0] - rho * u[:, 1], u[:, 1] - rho * u[:, 0]], axis=1) / apart[:, None]
        )
        alone = np.where(np.arange(2) == np.argmax(u**2, axis=1)[:, None], u, 0.0)
        weights = np.where(parallel[:, None], alone, joint)
        return scale * weights, np.sum(weights * u, axis=1)


def co_pursuit_paths(
    views: TwoViews, agreement: float, n_steps: int, *, objective: str, refit: str
) -> PursuitPaths:
    """Greedy steps of both views; predictions are the mean of the views. O(u N₁ N₂) per step.

    objective : "exact", each step makes F least; "paper", one residual for both views
        (docs/mathematics.md, section 1.5)
    refit : "basic", weights stay as they entered; "back", all weights fitted again after every step
    """
    costs, (people, n) = _PairCosts(views, agreement), views.target[0].shape
    everyone, bond = np.arange(people), np.sqrt(2 * agreement)
    nothing = np.zeros((people, views.unscored[0].shape[2]))
    residual = np.concatenate([*views.target, nothing], axis=1)
    first_loss = np.sum(residual * residual, axis=1)
    directions = Directions(residual, views.test[0].shape[2], 2 * n_steps if refit == "back" else 0)
    fit = np.zeros((people, views.test[0].shape[2]))
    entered = [np.zeros(lengths.shape, dtype=bool) for lengths in costs.diagonal]
    predictions, n_atoms = (
        np.zeros((n_steps, *fit.shape)),
        np.zeros((n_steps, people), dtype=np.int64),
    )
    going = np.ones(people, dtype=bool)
    for step in range(n_steps):
        promised = _promised(views, residual, n, bond, objective)
        allowed = [~atoms if refit == "back" else np.ones_like(atoms) for atoms in entered]
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
        for atoms, atom in zip(entered, chosen, strict=True):
            atoms[everyone[going], atom[going]] = True
        predictions[step], n_atoms[step] = fit, sum(atoms.sum(axis=1) for atoms in entered)
    return PursuitPaths(np.swapaxes(predictions, 0, 1), n_atoms.T)


def _promised(
    views: TwoViews, residual: Floats, n: int, bond: float, objective: str
) -> list[Floats]:
    """What a step with each atom promises, e (docs/mathematics.md, section 1.5): (u, atoms) per
    view.
    """
    first, second, between = residual[:, :n], residual[:, n : 2 * n], residual[:, 2 * n :]
    if objective == "paper":
        mean = (first + second) / 2
        return [(block @ mean[:, :, None])[:, :, 0] for block in views.scored]
    per_view = zip(views.scored, views.unscored, (first, second), (bond, -bond), strict=True)
    return [
        (scored @ errors[:, :, None])[:, :, 0] + sign * (unscored @ between[:, :, None])[:, :, 0]
        for scored, unscored, errors, sign in per_view
    ]


def _stacked(views: TwoViews, view: int, atom: Integers, bond: float) -> Floats:
    """The column of everyone's atom in the stacked problem: (u, 2 n + l)."""
    people = np.arange(len(atom))
    scored, unscored = views.scored[view][people, atom], views.unscored[view][people, atom]
    blocks = [scored, np.zeros_like(scored)] if view == 0 else [np.zeros_like(scored), scored]
    return np.concatenate([*blocks, (bond if view == 0 else -bond) * unscored], axis=1)


def _first_greatest(gains: Floats) -> Integers:
    """The first of everyone's gains (u, k) that no other exceeds."""
    best = gains.max(axis=1, keepdims=True)
    return np.asarray(np.argmax(gains >= best - GAIN_TIE * np.abs(best), axis=1))
