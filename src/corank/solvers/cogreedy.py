"""Semi-supervised ranking pursuit (003 sect. 3.1, Fig. 2): every step adds one atom to each of M views.

    F = Σ_v ‖J_v (s_v − f_v)‖² + 2·agreement Σ_{u<v} ‖J̄ (f_v − f_u)‖²,   f_v = Σ_p a_p k(·, atom p)     (003 eq. 3)

Unscored rows enter as sums, gathered once (math.md E-P3-2: the same functions on scored and unscored rows). What is
chosen by held-out error is chosen elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Literal, TypeAlias

import numpy as np

from corank._backend import Array, device, in_order, like, namespace, take, to_numpy
from corank.basis import FeatureMap, KernelBasis, Whitening
from corank.kernels import checked
from corank.problem import FloatArray, ScoredRows
from corank.solvers.agreement import JointFeatures, Unscored, ViewData
from corank.solvers.cosearch import Costs, Mask, Search, Step, make_search
from corank.statistics import N_TARGETS, Accumulator, Index
from corank.views import SideBySide

Objective: TypeAlias = Literal["exact", "paper"]
SearchKind: TypeAlias = Literal["full", "tied"]
Refit: TypeAlias = Literal["back", "basic", "final"]

DEPENDENT = 1e-12  # of a column's length: less of it outside of the others is rounding
CUT = 1e-10  # relative singular values below this are dropped when weights are fitted again
ROUNDING = 1e-14  # eigenvalues of sums below this share of the largest are zero but for rounding
CONSTANT = 1e-24  # squared: less of an atom's values that varies within queries is rounding
NOTHING = 1e-20  # of the loss at the start: a step that gains less adds nothing

AS_THEY_ARE = Whitening(np.empty((0, 0)), 1.0, trivial=True)  # atoms are summed one by one, not whitened


@dataclass(frozen=True)
class Rules:
    """How atoms enter.

    objective : "exact" decreases F; "paper" steps as Fig. 2 prints (math.md E-P3-1)
    search : "full", all combinations of two views; "tied", the same atom in every view
    refit : "back", all weights fitted again after every step; "basic", never; "final", once at the end
    """

    objective: Objective = "exact"
    search: SearchKind = "full"
    refit: Refit = "back"


@dataclass(frozen=True)
class Atoms:
    """The dictionaries of all views on what is scored and, as sums, on what is not.

    scored : (n_v, N_v) a view, D_v
    numbers : (N_v,) a view, row numbers of its atoms
    unscored : (Σ N_v, Σ N_v), D̄ᵀ L̄ D̄ of all dictionaries side by side; None where nothing couples the views
    """

    views: Sequence[ViewData]
    scored: Sequence[Array]
    unscored: Array | None
    numbers: Sequence[Index]

    @classmethod
    def of(cls, views: Sequence[ViewData], unscored: Unscored | None, numbers: Sequence[Index]) -> Atoms:
        """One pass over each set of rows: O(Σ n_v N_v d + m (Σ N_v)²) for m unscored rows, held a block at a time."""
        scored = [checked(view.basis.features(view.problem.features)) for view in views]
        if unscored is None or unscored.rows.n_rows == 0 or len(views) == 1:
            return cls(views, scored, None, numbers)
        return cls(views, scored, unscored_sums(views, unscored), numbers)

    @property
    def problems(self) -> list[ScoredRows]:
        """What is scored in every view."""
        return [view.problem for view in self.views if isinstance(view.problem, ScoredRows)]

    @cached_property
    def sizes(self) -> list[int]:
        """N_v."""
        return [int(own.shape[1]) for own in self.scored]

    @cached_property
    def ends(self) -> Index:
        """Where each view's atoms begin among those of all views, and the end."""
        return np.cumsum([0, *self.sizes])

    @cached_property
    def largest(self) -> list[float]:
        """The size of kernel values, a view."""
        return [float(namespace(own).max(namespace(own).abs(own))) for own in self.scored]

    def costs(self, sizes: Sequence[Array], floors: Sequence[float], agreement: float) -> Costs:
        """What steps cost, for atoms of those sizes kᵀLk on the scored rows."""
        if self.unscored is None or agreement == 0:
            return Costs(sizes, None, {}, 0.0, floors)
        spans = [slice(int(b), int(e)) for b, e in pairwise(self.ends)]
        diagonal = namespace(self.unscored).linalg.diagonal(self.unscored)
        m = len(spans)
        shared = {(v, u): self.unscored[spans[v], spans[u]] for v in range(m) for u in range(v + 1, m)}
        return Costs(sizes, [diagonal[span] for span in spans], shared, agreement, floors)


def unscored_sums(views: Sequence[ViewData], unscored: Unscored) -> Array:
    """D̄ᵀ L̄ D̄ of all dictionaries side by side, in one pass over any number of rows. O(m (Σ N_v)²)."""
    reference = views[0].problem.reference
    xp, place = namespace(reference), {"dtype": namespace(reference).float64, "device": device(reference)}
    bases = [replace(view.basis, own_whitening=AS_THEY_ARE) for view in views if isinstance(view.basis, KernelBasis)]
    features = JointFeatures([FeatureMap(basis) for basis in bases])
    sums = Accumulator(unscored.comparison, features, features.size, xp.zeros(1, **place))
    columns = [view.columns for view in views]
    left = unscored.rows.n_rows
    for piece in unscored.rows.pieces():
        left -= len(piece.queries)
        rows, zeros = SideBySide.of(piece.features, columns), xp.zeros(len(piece.queries), **place)
        sums.add(rows, zeros, piece.queries, piece.weights, whole=left == 0)  # no query is open after the last
    return checked(sums.result().total().matrix[:-N_TARGETS, :-N_TARGETS])


class Scores:
    """What is scored, or the part of it that a fold keeps: `kept` (n_v,) units a view, None for all.

    left : (m,) row numbers that are held out; they are no atoms either
    """

    def __init__(self, atoms: Atoms, kept: Sequence[Index] | None = None, left: Index | None = None) -> None:
        self.atoms, self.kept = atoms, kept
        self.barred = [np.zeros(len(own), dtype=bool) if left is None else np.isin(own, left) for own in atoms.numbers]
        whole = atoms.problems
        self.problems = whole if kept is None else [p.take(own) for p, own in zip(whole, kept, strict=True)]
        self.targets = [problem.targets[:, :1] for problem in self.problems]
        self.sizes = [self._sizes(v) for v in range(len(whole))]
        self._places = None if kept is None else [_places(own, len(p.rows)) for own, p in zip(kept, whole, strict=True)]

    def _sizes(self, view: int) -> Array:
        """kᵀLk of every atom: (N_v,). O(n_v N_v)."""
        rooted = self._rooted(view, self.atoms.scored[view])
        return namespace(rooted).sum(rooted * rooted, axis=0)

    def _rooted(self, view: int, values: Array) -> Array:
        """J of what is kept, for values of all rows (n_v, c)."""
        kept = values if self.kept is None else take(values, self.kept[view])
        return self.problems[view].operator.root(kept)

    def column(self, view: int, atom: int) -> Array:
        """J d of one atom: (n_kept, 1)."""
        return self._rooted(view, self.atoms.scored[view][:, atom : atom + 1])

    def products(self, view: int, residual: Array) -> Array:
        """Dᵀ Jᵀ z of every atom, for z (n_kept, 1): (N_v,). O(n_v N_v); no part of D is copied for a fold."""
        spread = self.problems[view].operator.root_transposed(residual)
        if self._places is not None:
            xp = namespace(spread)
            spread = take(xp.concat([spread, xp.zeros_like(spread[:1, :])], axis=0), self._places[view])
        return self.atoms.scored[view].T @ spread[:, 0]

    def costs(self, agreement: float) -> Costs:
        """What steps cost."""
        floors = []
        for problem, largest in zip(self.problems, self.atoms.largest, strict=True):
            within = problem.operator.within
            floors.append(CONSTANT * largest**2 * problem.operator.weight * float(namespace(within).max(within)))
        return self.atoms.costs(self.sizes, floors, agreement)

    @property
    def loss(self) -> float:
        """F of functions that are zero."""
        return sum(float(namespace(own).sum(own * own)) for own in self.targets)


def _places(kept: Index, n_rows: int) -> Index:
    """Where each of the rows stands among the kept ones; one past their end where it is none of them."""
    places = np.full(n_rows, len(kept))
    places[kept] = np.arange(len(kept))
    return places


class Chosen:
    """The atoms of one view that have entered: J D = Q R, column by column (Gram-Schmidt, twice)."""

    def __init__(self, target: Array) -> None:
        self.target = target
        self.basis = target[:, :0]
        self.triangle: FloatArray = np.zeros((0, 0))
        self.projected: FloatArray = np.zeros(0)

    def add(self, column: Array) -> None:
        """One more column (n, 1); what depends on the others adds no direction. O(n p)."""
        xp = namespace(column)
        p, rest, shares = len(self.projected), column, np.zeros(len(self.projected))
        for _ in range(2):
            share = self.basis.T @ rest
            rest, shares = rest - self.basis @ share, shares + to_numpy(share)[:, 0]
        size, left = (float(xp.linalg.vector_norm(own)) for own in (column, rest))
        left = left if left > DEPENDENT * size else 0.0
        rest = rest / left if left > 0 else 0.0 * rest
        self.basis = xp.concat([self.basis, rest], axis=1)
        self.triangle = np.block([[self.triangle, shares[:, None]], [np.zeros((1, p)), np.full((1, 1), left)]])
        self.projected = np.append(self.projected, float(xp.sum(rest * self.target)))

    def fitted(self, weights: FloatArray) -> Array:
        """J f for the weights of the atoms (p,): (n, 1)."""
        return self.basis @ like((self.triangle @ weights)[:, None], self.target)


class GreedyPath:
    """A pursuit on the way: atoms and weights so far.

    A step is O(Σ n_v N_v) for the scored rows, O(N_1 N_2) for the search (O(N M²) tied) and O((M p)³) for the weights.

    Attributes
    ----------
    labels : one tuple a step, an atom a view
    weights : (p, M) of the model after p steps, fitted again where the rules say so
    history : `weights` after every step
    losses : F after 0, 1, … steps
    """

    def __init__(self, scores: Scores, rules: Rules, agreement: float, search: Search | None = None) -> None:
        self.scores, self.rules, self.agreement = scores, rules, agreement
        self.search = search or make_search(scores.costs(agreement), rules.search)
        self.labels: list[tuple[int, ...]] = []
        self.losses = [scores.loss]
        self.history: list[FloatArray] = []
        self._chosen = [Chosen(target) for target in scores.targets]
        self._running: FloatArray = np.zeros((0, len(self._chosen)))  # with which the next step is found

    @property
    def weights(self) -> FloatArray:
        """(p, M)."""
        return self.history[-1] if self.history else self._running

    @property
    def _coupling(self) -> tuple[Array, FloatArray] | None:
        """Sums between the chosen atoms and all (M p, Σ N_v), and those of the disagreement among the chosen."""
        atoms = self.scores.atoms
        if atoms.unscored is None or self.agreement == 0:
            return None
        m, p = len(self._chosen), len(self.labels)
        places = (np.reshape(self.labels, (p, m)) + atoms.ends[:-1]).T.ravel().astype(np.int64)
        rows = take(atoms.unscored, places)
        among = to_numpy(namespace(rows).take(rows, like(places, rows, "int64"), axis=1))
        return rows, np.kron(m * np.eye(m) - 1, np.ones((p, p))) * among

    def right(self) -> list[Array]:
        """e: what a step with each atom promises, (N_v,) a view (math.md E-P3-1)."""
        fitted = [own.fitted(self._running[:, v]) for v, own in enumerate(self._chosen)]
        exact = self.rules.objective == "exact"
        if not exact:  # one residual for all views, whatever they disagree about already
            fitted = [sum(fitted[1:], fitted[0]) / len(fitted)] * len(fitted)
        residuals = [own.target - values for own, values in zip(self._chosen, fitted, strict=True)]
        views = range(len(residuals))
        e = list(in_order(lambda v: self.scores.products(v, residuals[v]), views, residuals[0]))
        coupling = self._coupling if exact and self.labels else None
        if coupling is None:
            return e
        gaps = self._gaps(coupling[0])
        return [own - 2 * self.agreement * gap for own, gap in zip(e, gaps, strict=True)]

    def _gaps(self, rows: Array) -> list[Array]:
        """k̄ᵀ L̄ Σ_u (h_v − h_u) of every atom, from the sums `rows` of `_coupling`: (N_v,) a view."""
        p, m = self._running.shape
        parts = [like(self._running[:, v], rows) @ rows[v * p : (v + 1) * p, :] for v in range(m)]
        total = sum(parts[1:], parts[0])
        spans = pairwise(self.scores.atoms.ends)
        return [m * own[begin:end] - total[begin:end] for own, (begin, end) in zip(parts, spans, strict=True)]

    def allowed(self) -> list[Mask]:
        """Which atoms of every view may enter: where weights are fitted again, none comes twice."""
        masks = [~barred for barred in self.scores.barred]
        if self.rules.refit == "back":
            for v, mask in enumerate(masks):
                mask[[labels[v] for labels in self.labels]] = False
        return masks

    def advance(self, step: Step | None = None) -> bool:
        """Take the best step, or a given one; False where there is none that gains anything.

        The first step is always taken: a model has an atom, if with weight zero.
        """
        first = not self.labels
        step = step or self.search.best(self.right(), self.allowed())
        if step is None and first:  # no atom tells anything apart
            step = Step((0,) * len(self._chosen), np.zeros(len(self._chosen)), 0.0)
        if step is None or (not first and step.gain <= NOTHING * self.losses[0]):
            return False
        self.labels.append(step.labels)
        for v, (own, label) in enumerate(zip(self._chosen, step.labels, strict=True)):
            column = self.scores.column(v, label)
            own.add(column if self.search.costs.live[v][label] else 0.0 * column)
        self._running = np.vstack([self._running, step.weights])
        coupling = self._coupling
        among = None if coupling is None else coupling[1]
        model = self._running if self.rules.refit == "basic" else joint_weights(self._chosen, among, self.agreement)
        self._running = model if self.rules.refit == "back" else self._running
        self.history.append(model)
        self.losses.append(self._loss(model, among))
        return True

    def _loss(self, weights: FloatArray, among: FloatArray | None) -> float:
        """F."""
        total = 0.0
        for v, own in enumerate(self._chosen):
            residual = own.target - own.fitted(weights[:, v])
            total += float(namespace(residual).sum(residual * residual))
        if among is not None:
            stacked = weights.T.ravel()
            total += 2 * self.agreement * max(float(stacked @ among @ stacked), 0.0)
        return total


def joint_weights(chosen: Sequence[Chosen], among: FloatArray | None, agreement: float) -> FloatArray:
    """The weights (p, M) of all chosen atoms that make F least: stacked least squares, no normal equations. O((M p)³).

    among : (M p, M p), the disagreement between chosen atoms, view by view
    """
    m, p = len(chosen), len(chosen[0].projected)
    rows = np.zeros((m * p, m * p))
    for v, own in enumerate(chosen):
        rows[v * p : (v + 1) * p, v * p : (v + 1) * p] = own.triangle
    target = np.concatenate([own.projected for own in chosen])
    if among is not None:
        values, vectors = np.linalg.eigh((among + among.T) / 2)
        values = np.where(values > ROUNDING * values[-1], values, 0.0)
        rows = np.concatenate([rows, np.sqrt(2 * agreement * values)[:, None] * vectors.T])
        target = np.concatenate([target, np.zeros(m * p)])
    size = np.linalg.norm(rows, axis=0)
    scale = np.where(size > 0, 1 / np.where(size > 0, size, 1.0), 0.0)
    solved = scale * np.linalg.lstsq(rows * scale, target, rcond=CUT)[0]
    return np.asarray(solved.reshape(m, p).T)
