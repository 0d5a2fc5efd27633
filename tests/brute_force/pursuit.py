"""Pursuit, literally: for every candidate atom the model with it is made and its objective
evaluated; the best enters.

Nothing here uses a formula of corank's; it is slow on purpose and fit for a few dozen rows.
"""

from dataclasses import dataclass

import numpy as np

from brute_force import laplacian, misordered, rescaled_losses, symmetric_root

SAME = 1e-9  # objectives that differ by less, beside the one of no atoms, are tied


@dataclass(frozen=True)
class Pursued:
    """Atoms in order of entry, weights (steps, N) of all atoms after each step, objective of 0, 1,
    … steps.
    """

    steps: list
    weights: np.ndarray
    losses: np.ndarray


def objective(L, scores, predictions):
    """The stated objective of predictions at the scored rows."""
    return (scores - predictions) @ L @ (scores - predictions)


def refitted(phi, scores, L, atoms):
    """Weights (N,) of the atoms that make the objective least, by least squares on the dense root
    of L.
    """
    atoms, weights = list(dict.fromkeys(atoms)), np.zeros(phi.shape[1])
    root = symmetric_root(L)
    weights[atoms] = np.linalg.lstsq(root @ phi[:, atoms], root @ scores, rcond=1e-12)[0]
    return weights


def with_one_more(phi, scores, L, weights, atom):
    """The same weights, but for one atom's, which makes the objective least."""
    root = symmetric_root(L)
    amount = np.linalg.lstsq(
        (root @ phi[:, atom])[:, None], root @ (scores - phi @ weights), rcond=None
    )[0][0]
    changed = weights.copy()
    changed[atom] += amount
    return changed


def pursue(phi, scores, L, n_steps, refit):
    """Every way of refitting on a dictionary phi (n, N), one candidate after the other."""
    n_atoms = phi.shape[1]
    lengths = np.einsum("ij,ik,kj->j", phi, L, phi)
    alive = [j for j in range(n_atoms) if lengths[j] > 1e-10 * lengths.max()]
    start = objective(L, scores, 0.0)
    steps, current, path = [], np.zeros(n_atoms), []
    for _ in range(n_steps):
        found = []
        for atom in alive:
            if refit in ("back", "pre") and atom in steps:
                continue
            if refit == "pre":
                weights = refitted(phi, scores, L, [*steps, atom])
            else:
                weights = with_one_more(phi, scores, L, current, atom)
            found.append((objective(L, scores, phi @ weights), atom, weights))
        least = min(value for value, _, _ in found)
        # the smallest number
        _, atom, current = next(each for each in found if each[0] <= least + SAME * start)
        steps.append(atom)
        if refit == "back":
            current = refitted(phi, scores, L, steps)
        path.append(refitted(phi, scores, L, steps) if refit == "final" else current)
    weights = np.asarray(path)
    losses = [start, *(objective(L, scores, phi @ own) for own in path)]
    return Pursued(steps, weights, np.asarray(losses))


def held_out(
    phi,
    scores,
    splits,
    n_steps,
    refit,
    loss,
    *,
    qid=None,
    weights=None,
    intercept=False,
    score="loss",
):
    """Mean held-out error after 1, 2, … steps: the pursuit is redone on the rows kept, from the
    same dictionary.

    Where it is one kernel a row, as many as rows, those at the rows left out are left out of it
    too. What is left out is compared among itself; `score` as in `brute_force.held_out`.
    """
    n = len(scores)
    qid = np.zeros(n) if qid is None else np.asarray(qid)
    w = np.ones(n) if weights is None else weights
    errors, sizes, compared = [], [], []
    for train, test in splits:
        offset = np.average(scores[train], weights=w[train]) if intercept else 0.0
        kept = laplacian(qid[train], loss, w[train])
        atoms = np.setdiff1d(np.arange(n), test) if phi.shape == (n, n) else np.arange(phi.shape[1])
        run = pursue(phi[np.ix_(train, atoms)], scores[train] - offset, kept, n_steps, refit)
        own = run.weights @ phi[np.ix_(test, atoms)].T + offset
        left = laplacian(qid[test], loss, w[test])
        rank = np.linalg.matrix_rank(left)
        if score == "disagreement":
            for query in dict.fromkeys(qid[test]):
                rows = np.flatnonzero(qid[test] == query)
                shares = [misordered(scores[test][rows], f[rows], w[test][rows]) for f in own]
                if np.isfinite(shares).all():
                    errors.append(shares)
                    sizes.append(1)
        elif rank:
            errors.append([objective(left, scores[test], f) for f in own])
            sizes.append(rank)
            root = symmetric_root(left)
            compared.append(
                np.column_stack(
                    [root @ (scores[test] - offset), *(root @ (f - offset) for f in own)]
                )
            )
    total = (
        rescaled_losses(np.concatenate(compared)) if score == "rescaled" else np.sum(errors, axis=0)
    )
    return total / np.sum(sizes)


def stopped_after(errors, patience=10):
    """How many steps are looked at before the error has not fallen for so many of them."""
    best, at = np.inf, 0
    for step, error in enumerate(errors, start=1):
        if error < best:
            best, at = error, step
        elif step - at == patience:
            return step
    return len(errors)
