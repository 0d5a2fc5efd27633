"""Semi-supervised ranking pursuit (003 sect. 3.1, Fig. 2): every step adds one atom to each of M views.

    F = Σ_v ‖J_v (s_v − f_v)‖² + 2·agreement Σ_{u<v} ‖J̄ (f_v − f_u)‖²,   f_v = Σ_p a_p k(·, atom p)     (003 eq. 3)

Unscored rows enter as sums, gathered once (math.md E-P3-2: the same functions on scored and unscored rows). What is
chosen by held-out error is chosen elsewhere.

How many atoms a pursuit on several views takes and how much its views must agree: by held-out error.

What is held out leaves, as scores and as atoms; what unscored rows say stays. All folds of an agreement advance one
atom at a time, until more atoms have not helped for a while.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, TypeAlias

import numpy as np

from corank._arrays import Array, FloatArray, Index, Mask, device, in_order, like, namespace, take, to_numpy
from corank.basis import FeatureMap, KernelBasis, Whitening
from corank.gram import N_TARGETS, Accumulator
from corank.kernels import finite_values
from corank.problem import ScoredRows
from corank.solvers.atom_search import AtomSearch, Costs, Step, make_search
from corank.solvers.folds import Folding, Splits, default_folding, given_folding, row_numbers, same_scores, split_units
from corank.solvers.holdout import FoldErrors, HeldOut, Scoring, pooled, view_errors
from corank.solvers.least_squares import JointFeatures, Unscored, ViewData
from corank.solvers.tuning import AGREEMENTS, Path, constant_error
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
class ViewAtoms:
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
    def of(cls, views: Sequence[ViewData], unscored: Unscored | None, numbers: Sequence[Index]) -> ViewAtoms:
        """One pass over each set of rows: O(Σ n_v N_v d + m (Σ N_v)²) for m unscored rows, held a block at a time."""
        scored = [finite_values(view.basis.features(view.problem.features)) for view in views]
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
    columns: list[Any] = [view.columns for view in views]
    left = unscored.rows.n_rows
    for piece in unscored.rows.pieces():
        left -= len(piece.queries)
        rows, zeros = SideBySide.of(piece.features, columns), xp.zeros(len(piece.queries), **place)
        sums.add(rows, zeros, piece.queries, piece.weights, whole=left == 0)  # no query is open after the last
    return finite_values(sums.result().total().matrix[:-N_TARGETS, :-N_TARGETS])


class Scores:
    """What is scored, or the part of it that a fold keeps: `kept` (n_v,) units a view, None for all.

    left : (m,) row numbers that are held out; they are no atoms either
    """

    def __init__(self, atoms: ViewAtoms, kept: Sequence[Index] | None = None, left: Index | None = None) -> None:
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

    def __init__(self, scores: Scores, rules: Rules, agreement: float, search: AtomSearch | None = None) -> None:
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


PATIENCE = 10  # steps without a lower held-out error after which no more atoms are tried
MOST_ATOMS = 100  # that "tune" tries
FEW_ATOMS = 10  # where there is nothing to choose by


@dataclass(frozen=True)
class Wishes:
    """What a learner was asked for, checked.

    agreement : candidates, or "tune"; n_atoms : candidates, or "tune"
    splits : of the rows scored in any view, where the learner's own folds will not do
    compared : held-out errors are wanted although nothing is chosen by them here
    """

    agreement: float | str | tuple[float, ...]
    n_atoms: int | str | tuple[int, ...]
    rules: Rules
    splits: Index | Splits | None = None
    scoring: Scoring = "squared"
    seed: int = 0
    compared: bool = False
    n_solutions: int = 1

    @property
    def tunes(self) -> bool:
        """Whether anything is chosen by held-out error."""
        return self.compared or not (isinstance(self.agreement, float) and isinstance(self.n_atoms, int))


@dataclass(frozen=True)
class Pursued:
    """A fitted pursuit: its steps, those of its alternatives, and how the parameters came about.

    asked : the number of steps that were wanted
    """

    atoms: ViewAtoms
    model: GreedyPath
    others: Sequence[GreedyPath]
    asked: int
    agreement: float
    path: Path | None


def pursue(atoms: ViewAtoms, wishes: Wishes) -> Pursued:
    """Choose what is to be tuned by held-out error, then pursue on everything that is scored."""
    scores = Scores(atoms)
    agreements = _agreements(scores, wishes)
    n_atoms, agreement, path = _unproven(atoms, wishes), float(agreements[-1]), None
    if isinstance(wishes.agreement, str):
        agreement = 0.0  # no proof, no agreement
    if wishes.tunes and (path := _tried(atoms, wishes, agreements)) is not None:
        assert path.agreement is not None
        assert path.n_atoms is not None
        n_atoms, agreement = int(path.n_atoms[path.best]), float(path.agreement[path.best])
    model = GreedyPath(scores, wishes.rules, agreement)
    _run(model, n_atoms)
    return Pursued(atoms, model, alternatives(model, n_atoms, wishes.n_solutions), n_atoms, agreement, path)


def _run(path: GreedyPath, n_atoms: int) -> None:
    while len(path.labels) < n_atoms and path.advance():
        pass


def alternatives(model: GreedyPath, n_atoms: int, n_solutions: int) -> list[GreedyPath]:
    """More near-optimal models, by their F: each is started by the best first step with an atom that none before has."""
    found = [model]
    while len(found) < n_solutions:
        path = GreedyPath(model.scores, model.rules, model.agreement, model.search)
        right = path.right()
        steps = []
        for view in range(len(right)):
            masks = path.allowed()
            masks[view][[labels[view] for other in found for labels in other.labels]] = False
            steps.append(path.search.best(right, masks))
        known = [step for step in steps if step is not None]
        if not known:
            break
        path.advance(max(known, key=lambda step: step.gain))
        _run(path, n_atoms)
        found.append(path)
    return sorted(found[1:], key=lambda path: path.losses[-1])


# ---------------------------------------------------------------- which to try


def most_atoms(sizes: Sequence[int]) -> int:
    """The limit of "tune"."""
    return min(MOST_ATOMS, *sizes)


def _agreements(scores: Scores, wishes: Wishes) -> FloatArray:
    """Those that were given, or a grid around where disagreement weighs as much as the loss on the scored rows."""
    unscored = scores.atoms.unscored
    if unscored is None:
        return np.zeros(1)
    if not isinstance(wishes.agreement, str):
        return np.atleast_1d(wishes.agreement)
    xp = namespace(unscored)
    spread = 2 * (len(scores.sizes) - 1) * float(xp.linalg.trace(unscored))
    scale = sum(float(xp.sum(own)) for own in scores.sizes) / spread if spread > 0 else 0.0
    return AGREEMENTS * scale if scale > 0 else np.zeros(1)


def _unproven(atoms: ViewAtoms, wishes: Wishes) -> int:
    """The number of atoms where nothing can be held out."""
    if isinstance(wishes.n_atoms, str):
        return min(FEW_ATOMS, most_atoms(atoms.sizes))
    return int(np.atleast_1d(wishes.n_atoms)[-1])


# ---------------------------------------------------------------- held-out errors


class _CoPursuitFold:
    """What a fold keeps and what it holds out."""

    def __init__(self, atoms: ViewAtoms, kept: Sequence[Index], left: Sequence[Index], *, together: bool) -> None:
        index = row_numbers(atoms.problems)
        rows = np.concatenate([own[units] for own, units in zip(index, left, strict=True)])
        self.scores, self.together = Scores(atoms, kept, rows), together
        self.told = [v for v, units in enumerate(left) if len(units)]
        self.left = left
        self.problems = [atoms.problems[v].take(left[v]) for v in self.told]
        self._one = Folding([np.zeros(len(left[v]), dtype=np.int64) for v in self.told])

    def errors(self, path: GreedyPath, scoring: Scoring) -> list[FoldErrors]:
        """Errors of the model so far: of the mean of the views, or of each where scores are its own."""
        predictions = [self._predictions(path, v) for v in self.told]
        return view_errors(self.problems, self._one, predictions, np.zeros(1), scoring, together=self.together)

    def _predictions(self, path: GreedyPath, view: int) -> Array:
        """A view's function on its units that are held out: (n_left, 1)."""
        values = path.scores.atoms.scored[view]
        labels = like([labels[view] for labels in path.labels], values, "int64")
        columns = namespace(values).take(values, labels, axis=1)
        return take(columns @ like(path.weights[:, view : view + 1], values), self.left[view])


def _folds(atoms: ViewAtoms, wishes: Wishes) -> list[_CoPursuitFold]:
    """At most ten folds of whole queries (rows, items of the only query), or the splits that were given."""
    problems = atoms.problems
    groups = [view.groups for view in atoms.views if view.groups is not None] or None
    folds: Folding | Splits | None
    if wishes.splits is None:
        folds = default_folding(problems, groups, wishes.seed, n_features=0)
    else:
        folds = given_folding(problems, wishes.splits, items=groups is None)
    if folds is None:
        return []
    together = same_scores(problems)
    if isinstance(folds, Folding):
        parts = [folds.units(np.asarray([fold])) for fold in range(folds.n_folds)]
    else:
        parts = [(split_units(problems, train), split_units(problems, test)) for train, test in folds]
    sound = [(kept, left) for kept, left in parts if all(len(units) for units in kept)]
    if wishes.splits is not None and len(sound) < len(parts):
        raise ValueError("cv leaves a view without scored rows to train on.")
    return [_CoPursuitFold(atoms, kept, left, together=together) for kept, left in sound]


def _tried(atoms: ViewAtoms, wishes: Wishes, agreements: FloatArray) -> Path | None:
    """The held-out errors of every agreement and number of atoms; None where there is nothing to hold out."""
    folds = _folds(atoms, wishes)
    if not folds:
        return None
    numbers: list[Index] = []
    errors: list[FloatArray] = []
    sizes = np.zeros(0)
    for agreement in agreements:
        tried, found = _held_out(folds, wishes, float(agreement))
        if len(found.sizes) == 0:  # nothing that was held out can be told apart
            return None
        numbers.append(tried)
        errors.append(found.errors)
        sizes = found.sizes
    every, n_atoms = HeldOut(np.concatenate(errors, axis=1), sizes), np.concatenate(numbers).astype(np.float64)
    problems: list[ScoredRows] = atoms.problems[:1] if same_scores(atoms.problems) else atoms.problems
    return Path(
        alpha=np.zeros(len(n_atoms)),
        gamma=np.full(len(n_atoms), np.nan),
        error=every.mean,
        standard_error=every.standard_error,
        best=_best(every.mean, n_atoms),
        scoring=wishes.scoring,
        constant=constant_error(problems, 0.0, wishes.scoring),
        agreement=np.repeat(agreements, [len(own) for own in numbers]),
        n_atoms=n_atoms,
    )


def _best(error: FloatArray, n_atoms: FloatArray) -> int:
    """The least error; among equals the fewest atoms, then the first."""
    ties = np.flatnonzero(error <= error.min() * (1 + 1e-12))
    return int(ties[np.argmin(n_atoms[ties])])


def _held_out(folds: Sequence[_CoPursuitFold], wishes: Wishes, agreement: float) -> tuple[Index, HeldOut]:
    """The numbers of atoms tried and their errors at one agreement; all folds advance together."""
    paths = [GreedyPath(fold.scores, wishes.rules, agreement) for fold in folds]
    tunes = isinstance(wishes.n_atoms, str)
    last = most_atoms(folds[0].scores.atoms.sizes) if tunes else int(np.max(wishes.n_atoms))
    wanted = set(range(1, last + 1) if tunes else np.atleast_1d(wishes.n_atoms).tolist())
    numbers: list[int] = []
    columns: list[HeldOut] = []

    def advance(k: int) -> tuple[bool, list[FoldErrors]]:
        moved = len(paths[k].labels) == number - 1 and paths[k].advance()
        return moved, folds[k].errors(paths[k], wishes.scoring) if number in wanted else []

    for number in range(1, last + 1):
        moved, tables = zip(*in_order(advance, range(len(folds)), folds[0].scores.targets[0]), strict=True)
        if tunes and not any(moved):
            break
        if number in wanted:
            numbers.append(number)
            columns.append(pooled([table for fold in tables for table in fold]))
            if len(columns[0].sizes) == 0:
                break
        if tunes and number - numbers[int(np.argmin([own.mean[0] for own in columns]))] >= PATIENCE:
            break
    errors = np.concatenate([own.errors for own in columns], axis=1)
    return np.asarray(numbers), HeldOut(errors, columns[0].sizes)
