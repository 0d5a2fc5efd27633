"""Semi-supervised ranking pursuit ([Tsivtsivadze2013] section 3.1, fig. 2): every step adds one
atom to each of M views.

    F = Σ_v ‖J_v (s_v − f_v)‖² + 2·agreement Σ_{u<v} ‖J̄ (f_v − f_u)‖²,   f_v = Σ_p a_p k(·, atom p)

Unscored rows enter as sums, gathered once. `GreedyPath` takes steps (docs/mathematics.md, sections
1.5, 1.6 and 3.9); `pursue_views` chooses by held-out error how many there are and how much the
views must agree. What is held out leaves as scores and as atoms; unscored rows stay. All folds
advance one atom at a time, until more atoms have not helped for a while.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import combinations, pairwise, product
from math import prod
from typing import Literal, TypeAlias

import numpy as np
from scipy.linalg import block_diag

from corank.core.arrays import (
    Array,
    FloatArray,
    Index,
    Mask,
    block_of,
    in_order,
    inverse_where,
    like,
    namespace,
    sum_of,
    take,
    take_columns,
    to_numpy,
    zeros_beside,
)
from corank.core.basis import KernelBasis, Whitening
from corank.core.folds import (
    Folding,
    Splits,
    default_folding,
    given_folding,
    same_scores,
    split_units,
)
from corank.core.kernels import finite_values
from corank.core.observations import Problem, ScoredRows
from corank.core.unscored import UnscoredRows
from corank.core.views import JointFeatures, disagreements
from corank.solve.atom_search import Costs, SearchKind, Step, best_step
from corank.solve.column_path import UNTUNED_COLUMNS, GrowingColumns
from corank.solve.dictionary import RowSet
from corank.solve.holdout import FoldErrors, HeldOut, pooled, view_errors
from corank.solve.pursuit import NEGLIGIBLE_GAIN, Wanted, near_optimal, search_steps
from corank.solve.systems import ViewData, sum_unscored
from corank.solve.tuning import (
    AGREEMENTS,
    Path,
    TuningSettings,
    best_of,
    best_position,
    constant_error,
    is_open,
)

Objective: TypeAlias = Literal["exact", "paper"]
CoRefit: TypeAlias = Literal["back", "basic", "final"]

# that "tune" tries per view: a sparse model with more is no longer read by anybody
MAX_TUNED_ATOMS = 100
# of atoms of three views or more that a step tries: 50 atoms per view of three
MAX_COMBINATIONS = 2**17
# Weights are fitted by least squares with a cut of its own, so a column brings a direction unless
# all that it adds to the others is rounding: 1e-12 of its length.
DEPENDENT_SHARE = 1e-24  # of the squared length of a column
# of the largest singular value: smaller ones are dropped when weights are fitted again
MIN_SINGULAR_SHARE = 1e-10
# share of the largest eigenvalue of sums: smaller ones are zero but for rounding
EIGENVALUE_ROUNDING = 1e-14
# of squared kernel values: an atom that varies by less within queries is constant there
CONSTANT_SHARE = 1e-24

UNWHITENED = Whitening(np.empty((0, 0)), 1.0, trivial=True)  # atoms are summed one by one


@dataclass(frozen=True, kw_only=True)
class CoPursuitSettings(TuningSettings):
    """What a learner was asked for, checked.

    agreement, n_atoms : a number, candidates, or "tune"
    objective : "exact" decreases F; "paper" steps as [Tsivtsivadze2013] fig. 2 prints
    search : "full", all combinations where they are not too many; "tied", the same atom in every
        view; "coordinate", one view after the other
    refit : "back", all weights fitted again after every step; "basic", never; "final", once at the
        end
    splits : of the rows scored in any view
    shares : (M,) of the views in their mean, None for equal ones
    """

    agreement: float | str | tuple[float, ...]
    n_atoms: int | str | tuple[int, ...]
    objective: Objective
    search: SearchKind
    refit: CoRefit
    wanted: Wanted
    shares: FloatArray | None = None

    @property
    def tunes(self) -> bool:
        """Whether held-out errors are needed."""
        return self.compared or is_open(self.agreement) or is_open(self.n_atoms)


@dataclass(frozen=True)
class CoPursuitSolution:
    """A fitted pursuit: its steps, those of its alternatives, and how the parameters came about.

    model : the one with the least F of all that were found
    asked : the number of steps that were to be taken
    """

    atoms: ViewAtoms
    model: GreedyPath
    others: Sequence[GreedyPath]
    asked: int
    agreement: float
    path: Path | None


@dataclass(frozen=True)
class _CoPursuitTrial:
    """One choice of kernel widths: the number of atoms and the agreement to take."""

    scores: KeptScores
    n_atoms: int
    agreement: float
    path: Path | None


def pursue_views(
    choices: Iterable[Sequence[ViewData]],
    index: Sequence[Index],
    unscored: UnscoredRows | None,
    settings: CoPursuitSettings,
) -> CoPursuitSolution:
    """Choose by held-out error what is to be tuned, then pursue on all scored rows.

    Parameters
    ----------
    index : (n_v,) per view, row numbers in X of the rows of its problem
    """
    atoms = (ViewAtoms.of(views, index, unscored) for views in choices)
    best, path = best_of(_trial(of_choice, settings) for of_choice in atoms)
    greedy = GreedyPath(best.scores, settings, best.agreement)
    greedy.advance_to(best.n_atoms)
    again = partial(GreedyPath, best.scores, settings, best.agreement, greedy.costs)
    model, *others = near_optimal(greedy, again, GreedyPath.take_step, settings.wanted)
    return CoPursuitSolution(best.scores.atoms, model, others, best.n_atoms, best.agreement, path)


def _trial(atoms: ViewAtoms, settings: CoPursuitSettings) -> _CoPursuitTrial:
    """Kernels of one width: held-out errors where they are needed and can be found."""
    scores = KeptScores(atoms)
    agreements = _agreements(scores, settings)
    path = _path(atoms, settings, agreements) if settings.tunes else None
    if path is not None and path.n_atoms is not None and path.agreement is not None:
        best = int(path.n_atoms[path.best]), float(path.agreement[path.best])
        return _CoPursuitTrial(scores, *best, path)
    if isinstance(settings.n_atoms, str):
        number = min(UNTUNED_COLUMNS, *atoms.sizes)
    else:
        number = int(np.max(settings.n_atoms))
    agreement = float(agreements[-1])
    if isinstance(settings.agreement, str):
        agreement = 0.0  # nothing shows that agreement helps
    return _CoPursuitTrial(scores, number, agreement, None)


def _agreements(scores: KeptScores, settings: CoPursuitSettings) -> FloatArray:
    """The given agreements, or a grid around where disagreement weighs as much as the loss on the
    scored rows.
    """
    unscored = scores.atoms.unscored
    if unscored is None:
        return np.zeros(1)
    if not isinstance(settings.agreement, str):
        return np.atleast_1d(settings.agreement)
    xp = namespace(unscored)
    disagreement = 2 * float(xp.linalg.trace(unscored))
    loss = sum(float(xp.sum(view.lengths)) for view in scores.views)
    scale = loss / disagreement if disagreement > 0 else 0.0
    return AGREEMENTS * scale if scale > 0 else np.zeros(1)


# ---------------------------------------------------------------- held-out errors


class _CoPursuitFold:
    """What a fold keeps and what it holds out: `kept` and `left` are (n_v,) rows per view."""

    def __init__(self, atoms: ViewAtoms, kept: Sequence[Index], left: Sequence[Index]) -> None:
        problems = atoms.problems
        splits = zip(atoms.index, problems, kept, left, strict=True)
        rows = [index[problem.rows_without(*units)] for index, problem, *units in splits]
        self.scores = KeptScores(atoms, kept, np.concatenate(rows))
        self.left = left
        self.together = same_scores(problems)
        # views with anything held out
        self.judged = [v for v, units in enumerate(left) if len(units)]
        self.problems = [problems[v].take(left[v]) for v in self.judged]
        codes = [np.zeros(len(left[v]), dtype=np.int64) for v in self.judged]
        self._folding = Folding(codes)

    def predictions(self, path: GreedyPath, begin: int, end: int) -> list[Array]:
        """Those of the models after steps begin + 1 … end: (m, end − begin) per view."""
        weights = path.weights(begin, end)
        predictions = []
        for v in self.judged:
            atoms = [labels[v] for labels in path.labels]
            columns = block_of(self.scores.views[v].dictionary, self.left[v], atoms)
            predictions.append(columns @ like(weights[:, :, v].T, columns))
        return predictions

    def errors(self, predictions: Sequence[Array], settings: CoPursuitSettings) -> list[FoldErrors]:
        """Errors of predictions: of the mean of the views, or of each where scores are its own."""
        if settings.shares is not None and self.together:
            m = len(predictions)
            pairs = zip(settings.shares.tolist(), predictions, strict=True)
            predictions = [m * share * values for share, values in pairs]
        return view_errors(
            self.problems,
            self._folding,
            predictions,
            np.zeros(1),
            settings.scoring,
            together=self.together,
        )


def _folds(atoms: ViewAtoms, settings: CoPursuitSettings) -> list[_CoPursuitFold]:
    """Every split as what is kept and what is held out; none where no error can be told on what is
    held out.
    """
    folds = [_CoPursuitFold(atoms, kept, left) for kept, left in _splits(atoms, settings)]
    constants: list[FoldErrors] = []
    for fold in folds:
        zeros = [zeros_beside((len(fold.left[v]), 1), atoms.rows[v].scores) for v in fold.judged]
        constants += fold.errors(zeros, settings)
    return folds if constants and len(pooled(constants).sizes) else []


def _splits(atoms: ViewAtoms, settings: CoPursuitSettings) -> list[tuple[list[Index], list[Index]]]:
    """Rows that are kept and rows that are held out, per view: at most ten folds of whole queries
    (rows, items of the only query), or the splits that were given.
    """
    problems = atoms.rows
    groups = [view.groups for view in atoms.views if view.groups is not None] or None
    folding: Folding | Splits | None
    if settings.splits is None:
        folding = default_folding(problems, groups, settings.seed, n_features=0)
    else:
        folding = given_folding(problems, settings.splits, items=groups is None)
    if folding is None:
        return []
    splits = []
    if isinstance(folding, Folding):
        for fold in range(folding.n_folds):
            splits.append(folding.units(np.asarray([fold])))
    else:
        for train, test in folding:
            kept = split_units(problems, train)
            splits.append((kept, split_units(problems, test)))
    sound = [split for split in splits if all(len(rows) for rows in split[0])]
    if settings.splits is not None and len(sound) < len(splits):
        raise ValueError("cv leaves a view without scored rows to train on.")
    return sound


def _path(atoms: ViewAtoms, settings: CoPursuitSettings, agreements: FloatArray) -> Path | None:
    """The held-out errors of every agreement and number of atoms; None where there is nothing to
    hold out.
    """
    folds = _folds(atoms, settings)
    if not folds:
        return None
    found = [_held_out(folds, settings, agreement) for agreement in agreements.tolist()]
    numbers, tables = zip(*found, strict=True)
    n_atoms = np.concatenate(numbers).astype(np.float64)
    errors = np.concatenate([table.errors for table in tables], axis=1)
    every = HeldOut(errors, tables[0].sizes)
    basis = atoms.views[0].basis
    assert isinstance(basis, KernelBasis)
    return Path.of(
        every,
        best_position(every.mean, -n_atoms),
        settings.scoring,
        constant_error(atoms.problems, 0.0, settings.scoring),
        alpha=0.0,
        gamma=basis.kernel.gamma,
        agreement=np.repeat(agreements, [len(tried) for tried in numbers]),
        n_atoms=n_atoms,
    )


def _held_out(
    folds: Sequence[_CoPursuitFold], settings: CoPursuitSettings, agreement: float
) -> tuple[Index, HeldOut]:
    """The numbers of atoms tried and their errors at one agreement; all folds advance together."""
    paths = [GreedyPath(fold.scores, settings, agreement) for fold in folds]
    if isinstance(settings.n_atoms, str):
        limit = min(MAX_TUNED_ATOMS, *folds[0].scores.atoms.sizes)
        stride = 1
    else:
        limit = stride = int(np.max(settings.n_atoms))

    def go_on(begin: int, end: int) -> tuple[HeldOut, int]:
        def errors(k: int) -> list[FoldErrors]:
            paths[k].advance_to(end)
            return folds[k].errors(folds[k].predictions(paths[k], begin, end), settings)

        tables = in_order(errors, range(len(folds)), folds[0].scores.views[0].target)
        every = pooled([table for fold in tables for table in fold])
        return every, max(len(path.labels) for path in paths)

    return search_steps(settings.n_atoms, limit, stride, go_on)


# ---------------------------------------------------------------- steps


class EnteredAtoms:
    """The atoms of one view that have entered: J D = Q R, and the target in the directions of Q."""

    def __init__(self, view: KeptView) -> None:
        self.view = view
        self.columns = GrowingColumns(view.target, negligible=DEPENDENT_SHARE)
        self.projected: list[float] = []

    def add(self, atom: int, *, live: bool) -> None:
        """One more atom, which counts as zero where it is not live. O(n p)."""
        column = self.view.column(atom)
        added = self.columns.add(column if live else 0.0 * column)
        if added is not None:
            direction, _ = added
            products = direction * self.view.target
            self.projected.append(float(namespace(products).sum(products)))

    def fitted(self, weights: FloatArray) -> Array:
        """J f for the weights of the atoms (p,): (n,)."""
        coordinates = self.columns.upper @ weights
        return like(coordinates, self.view.target) @ self.columns.directions


class GreedyPath:
    """A pursuit on the way: atoms and weights so far.

    A step is O(Σ n_v N_v) for the scored rows, O(N_1 N_2) for the search (O(N M²) tied) and O((M
    p)³) for the weights.

    Attributes
    ----------
    labels : one tuple per step, with one atom per view
    history : weights (p, M) of the model after every step, fitted again where the settings say so
    losses : F after 0, 1, … steps
    ended : whether no step gains anything
    search : what is done to find a step
    """

    def __init__(
        self,
        scores: KeptScores,
        settings: CoPursuitSettings,
        agreement: float,
        costs: Costs | None = None,
    ) -> None:
        self.scores = scores
        self.settings = settings
        self.agreement = agreement
        sizes = scores.atoms.sizes
        too_many = len(sizes) > 2 and prod(sizes) > MAX_COMBINATIONS
        self.search: SearchKind = settings.search
        if settings.search == "full" and too_many:
            self.search = "coordinate"
        self.costs = costs or scores.costs(agreement)
        self.labels: list[tuple[int, ...]] = []
        self.losses = [sum(_square(view.target) for view in scores.views)]
        self.history: list[FloatArray] = []
        self.ended = False
        self._entered = [EnteredAtoms(view) for view in scores.views]
        # weights with which the next step is found
        self._running: FloatArray = np.zeros((0, len(self._entered)))

    def weights(self, begin: int, end: int) -> FloatArray:
        """Weights of the models after steps begin + 1 … end, of all atoms so far: (end − begin, p,
        M). After the last step they stay.
        """
        last = len(self.history) - 1
        weights = np.zeros((end - begin, len(self.labels), len(self._entered)))
        for place, step in enumerate(range(begin, end)):
            entered = self.history[min(step, last)]
            weights[place, : len(entered)] = entered
        return weights

    @property
    def chosen(self) -> list[list[int]]:
        """The atoms of every view, in order of entry."""
        return [[labels[v] for labels in self.labels] for v in range(len(self._entered))]

    @property
    def _coupling(self) -> tuple[Array, FloatArray] | None:
        """Sums between the entered atoms and all (M p, Σ N_v), and those of the disagreement among
        the entered.
        """
        atoms = self.scores.atoms
        if atoms.unscored is None or self.agreement == 0:
            return None
        starts = [span.start for span in atoms.spans]
        labels = np.reshape(self.labels, (-1, len(starts))) + np.asarray(starts)
        places = labels.T.ravel().astype(np.int64)
        rows = take(atoms.unscored, places)
        among = to_numpy(take_columns(rows, places))
        return rows, np.asarray(among, dtype=np.float64)

    def promises(self) -> list[Array]:
        """χ: what a step with each atom promises, (N_v,) per view (docs/mathematics.md, section
        1.5).
        """
        views, pairs = self.scores.views, zip(self._entered, self._running.T, strict=True)
        fitted = [own.fitted(column) for own, column in pairs]
        if self.settings.objective == "paper":  # one for all views, whatever they disagree about
            fitted = [sum_of(fitted) / len(fitted)] * len(fitted)

        def promised(v: int) -> Array:
            return views[v].products(views[v].target - fitted[v])

        promises = list(in_order(promised, range(len(views)), fitted[0]))
        coupling = self._coupling if self.labels and self.settings.objective == "exact" else None
        if coupling is None:
            return promises
        rows, _ = coupling
        gaps = like(self._running.T.ravel(), rows) @ rows  # d̄ᵀ L̄ Σ_u θ_uv (h_v − h_u) of every atom
        for v, span in enumerate(self.scores.atoms.spans):
            promises[v] = promises[v] - 2 * self.agreement * gaps[span]
        return promises

    def allowed(self) -> list[Mask]:
        """Which atoms of every view may enter: where weights are fitted again, none comes twice."""
        masks = [~view.barred for view in self.scores.views]
        if self.settings.refit == "back":
            for v, mask in enumerate(masks):
                mask[[labels[v] for labels in self.labels]] = False
        return masks

    def best_step(self, promises: Sequence[Array], allowed: Sequence[Mask]) -> Step | None:
        """The best step with allowed atoms; None where nothing is allowed."""
        return best_step(self.costs, self.search, promises, allowed)

    def advance_to(self, n_atoms: int) -> None:
        """Take steps until there are `n_atoms`, or none gains anything."""
        while len(self.labels) < n_atoms and not self.ended:
            self.take_step()

    def take_step(self, barred: Sequence[Index] | None = None) -> None:
        """Take the best step with other atoms than those barred (one array per view), if any gains
        anything.

        Where nothing is barred the first step is always taken: a model has at least one atom per
        view, if need be with weight zero.
        """
        allowed = self.allowed()
        for mask, atoms in zip(allowed, barred or (), strict=False):
            mask[atoms] = False
        step = self.best_step(self.promises(), allowed)
        if step is None and not self.labels and barred is None:  # no atom tells rows apart
            m = len(self._entered)
            step = Step((0,) * m, np.zeros(m), 0.0)
        negligible = NEGLIGIBLE_GAIN * self.losses[0]
        if step is None or (self.labels and step.gain <= negligible):
            self.ended = True
        else:
            self.enter(step)

    def enter(self, step: Step) -> None:
        """Take a step."""
        self.labels.append(step.labels)
        atoms = zip(self._entered, step.labels, self.costs.live, strict=True)
        for entered, label, live in atoms:
            entered.add(label, live=bool(live[label]))
        self._running = np.vstack([self._running, step.weights])
        coupling = self._coupling
        among = None if coupling is None else coupling[1]
        model = self._running
        if self.settings.refit != "basic":
            model = joint_weights(self._entered, among, self.agreement)
        if self.settings.refit == "back":
            self._running = model
        self.history.append(model)
        loss = 0.0
        for entered, own in zip(self._entered, model.T, strict=True):
            loss += _square(entered.view.target - entered.fitted(own))
        if among is not None:
            stacked = model.T.ravel()
            loss += 2 * self.agreement * max(float(stacked @ among @ stacked), 0.0)
        self.losses.append(loss)


def _square(values: Array) -> float:
    """The sum of squares."""
    return float(namespace(values).sum(values * values))


def joint_weights(
    entered: Sequence[EnteredAtoms], among: FloatArray | None, agreement: float
) -> FloatArray:
    """The weights (p, M) of all entered atoms that make F least: stacked least squares, no normal
    equations. O((M p)³).

    among : (M p, M p) the disagreement between entered atoms, view by view
    """
    triangles = [atoms.columns.upper for atoms in entered]
    m = len(triangles)
    p = triangles[0].shape[1]
    rows = block_diag(*triangles)
    target = np.concatenate([atoms.projected for atoms in entered])
    if among is not None:
        values, vectors = np.linalg.eigh((among + among.T) / 2)
        values = np.where(values > EIGENVALUE_ROUNDING * values[-1], values, 0.0)
        roots = np.sqrt(2 * agreement * values)
        rows = np.concatenate([rows, roots[:, None] * vectors.T])
        target = np.concatenate([target, np.zeros(len(roots))])
    size = np.linalg.norm(rows, axis=0)
    scale = inverse_where(size > 0, size)
    solved, *_ = np.linalg.lstsq(rows * scale, target, rcond=MIN_SINGULAR_SHARE)
    weights = np.reshape(scale * solved, (m, p))
    return np.asarray(weights.T)


# ---------------------------------------------------------------- dictionaries and scores


@dataclass(frozen=True)
class ViewAtoms:
    """The dictionaries of all views at the scored rows and, as sums, at the unscored ones.

    index : (n_v,) per view, row numbers in X of the rows of its problem
    scored : (n_v, N_v) per view, D_v; of comparisons its differences
    unscored : (Σ N_v, Σ N_v), their disagreement: D̄ᵀ L̄ D̄ of all dictionaries side by side, times
        the bonds of the views; None where nothing couples them
    """

    views: Sequence[ViewData]
    index: Sequence[Index]
    scored: Sequence[Array]
    unscored: Array | None

    @classmethod
    def of(
        cls, views: Sequence[ViewData], index: Sequence[Index], unscored: UnscoredRows | None
    ) -> ViewAtoms:
        """One pass over each set of rows: O(Σ n_v N_v d + m (Σ N_v)²) for m unscored rows, held one
        block at a time.
        """
        scored = []
        for view in views:
            values = view.basis.features(view.problem.features)
            scored.append(view.problem.per_unit(finite_values(values)))
        if unscored is None or unscored.n_rows == 0 or len(views) == 1:
            return cls(views, index, scored, None)
        bases = [
            replace(view.basis, own_whitening=UNWHITENED)
            for view in views
            if isinstance(view.basis, KernelBasis)
        ]
        columns = [view.columns for view in views]
        sums = sum_unscored(unscored, JointFeatures(bases), columns, views[0].problem.reference)
        matrix = finite_values(sums.features)
        atoms = cls(views, index, scored, matrix)
        factors = disagreements(len(views), unscored.bonds)
        for (v, left), (u, right) in product(enumerate(atoms.spans), repeat=2):
            matrix[left, right] *= float(factors[v, u])
        return atoms

    @property
    def problems(self) -> list[Problem]:
        """The scored rows of every view, or the comparisons."""
        return [view.problem for view in self.views]

    @cached_property
    def rows(self) -> list[ScoredRows]:
        """What every view is fitted to: its scored rows, or the comparisons as rows."""
        return [problem.unit_rows for problem in self.problems]

    @property
    def numbers(self) -> list[Index]:
        """The row numbers of the atoms of every view: (N_v,)."""
        return [view.rows for view in self.views if view.rows is not None]

    @cached_property
    def sizes(self) -> list[int]:
        """N_v."""
        return [values.shape[1] for values in self.scored]

    @cached_property
    def spans(self) -> list[slice]:
        """Each view's atoms among those of all views."""
        ends = np.cumsum([0, *self.sizes]).tolist()
        return [slice(begin, end) for begin, end in pairwise(ends)]

    @cached_property
    def largest(self) -> list[float]:
        """The largest absolute kernel value of every view."""
        largest = []
        for values in self.scored:
            xp = namespace(values)
            largest.append(float(xp.max(xp.abs(values))))
        return largest


class KeptView:
    """The dictionary D of one view at the scored rows that a pursuit fits.

    Parameters
    ----------
    dictionary : (n, N) at all scored rows of the view
    rows : the k rows that are fitted
    barred : (N,) the atoms that may not enter
    largest : the largest absolute value in the dictionary

    Attributes
    ----------
    target : (k,) = J s
    lengths : (N,) dᵀ L d of every atom
    floor : of such lengths; smaller ones are rounding
    """

    def __init__(self, dictionary: Array, rows: RowSet, barred: Mask, largest: float) -> None:
        xp = namespace(dictionary)
        self.dictionary = dictionary
        self.barred = barred
        self._rows = rows
        self.target = rows.problem.targets[:, 0]
        columns = rows.root(dictionary)
        self.lengths = xp.sum(columns * columns, axis=0)
        operator = rows.operator
        loss = operator.weight * float(xp.max(operator.within))
        self.floor = CONSTANT_SHARE * largest**2 * loss

    def column(self, atom: int) -> Array:
        """J d of one atom: (k,)."""
        values = self.dictionary[:, atom : atom + 1]
        return self._rows.root(values)[:, 0]

    def products(self, residual: Array) -> Array:
        """Dᵀ Jᵀ z of every atom, for z (k,): (N,). O(n N); D is not copied for a fold."""
        return self.dictionary.T @ self._rows.root_transposed(residual)


class KeptScores:
    """The scored rows that a pursuit fits: all of them, or those that a fold keeps.

    Parameters
    ----------
    kept : (n_v,) rows per view, None for all
    held_out : (m,) row numbers in X; they are no atoms either
    """

    def __init__(
        self, atoms: ViewAtoms, kept: Sequence[Index] | None = None, held_out: Index | None = None
    ) -> None:
        self.atoms = atoms
        self.views = []
        absent = np.zeros(0) if held_out is None else held_out
        for v, problem in enumerate(atoms.rows):
            rows = RowSet(problem, len(problem))
            if kept is not None:
                rows = replace(rows, problem=problem.take(kept[v]), rows=kept[v])
            barred = np.isin(atoms.numbers[v], absent)
            self.views.append(KeptView(atoms.scored[v], rows, barred, atoms.largest[v]))

    def costs(self, agreement: float) -> Costs:
        """The costs of steps."""
        lengths = [view.lengths for view in self.views]
        floors = [view.floor for view in self.views]
        unscored = self.atoms.unscored
        if unscored is None or agreement == 0:
            return Costs(lengths, None, {}, 0.0, floors)
        spans = self.atoms.spans
        diagonal = namespace(unscored).linalg.diagonal(unscored)
        pairs = combinations(range(len(spans)), 2)
        return Costs(
            scored=lengths,
            unscored=[diagonal[span] for span in spans],
            shared={(v, u): unscored[spans[v], spans[u]] for v, u in pairs},
            agreement=agreement,
            floors=floors,
        )
