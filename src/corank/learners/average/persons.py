"""What is learned of persons and items: the shares of the parts of a kernel between their answers, and
vectors of both where answers are very many.

Candidates for answers have kernels whose parts have the shares under which the scores have the largest
evidence. Very many answers become

    score = level + ⟨u_p, v_i⟩ + noise,   u_p ~ N(A z_p, 1/a),   v_i ~ N(B c_i, 1/b)

with columns z of persons and c of items. One entry of v is 1, so that u holds a level of the person;
one entry of u is 1, so that v holds an effect of the item. It is what kernels between answers become
where persons differ in a few directions that the answers tell. Vectors are found by variational
Bayes: every step has a closed form, and all variances are learned [Lim2007].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any

import numpy as np
import scipy.linalg
from scipy import sparse
from scipy.optimize import minimize

from corank.core.arrays import (
    Array,
    FloatArray,
    Index,
    first_appearance,
    in_one_thread,
    in_order,
    is_sparse,
    take,
)
from corank.core.messages import count
from corank.core.storable import LARGEST_NUMBER, Finite, floats, storable, whole
from corank.display import progress_bar, say
from corank.learners.average.candidates import (
    BASES,
    BASES_OF_TEXT,
    COLUMNS,
    FACTORS,
    PARTS,
    Candidate,
    Combination,
)
from corank.learners.average.closed_form import Observations
from corank.learners.average.encoding import (
    IDENTITY,
    PERSON,
    PERSONS,
    STANDARD,
    Encoding,
    dense_columns,
)
from corank.learners.average.fitting import FittedAverage, sample_of, some, split
from corank.learners.average.scored_table import AverageSettings, EncodedTable
from corank.learners.average.similarity import Encoded, Space
from corank.learners.average.weighing import bounds
from corank.solve.spectrum import LEAST

MAX_LEARNED = 800  # answers from which shares are learned
LOG_SHARE, LOG_SPREAD = -2.0, 3.0  # of a part over the noise, before any score is seen
MAX_STEPS = 15
LEAST_SHARE = 0.002  # of the kernel: a part with less is left out
N_LEARNED = 30  # directions in which persons may differ
LEVEL, EFFECT = 0, 1  # the entry of v, and of u, that is 1
MAX_SWEEPS = 40
SETTLED = 1e-4  # change of the noise in a sweep, relative to its size, that is small
START = 0.1  # spread of the vectors at first, in units of that of the scores
LAST_SWEEPS = 5  # with the answers that were held out
FEWEST_ANSWERS = 4  # of a person, of which some are held out
JUDGING_PERSONS, MOST_JUDGED = 1_000, 10  # of whom answers are held out, and how many of each
STRENGTH = 1.0  # of the prior of a variance, in answers


def with_roles(
    space: Space, candidates: Sequence[Candidate], units: Observations, settings: AverageSettings
) -> Sequence[Candidate]:
    """Candidates, and those for who answered and about which item, where that was said.

    Plain ones, those that know items, those that know persons too, and those that know columns of
    persons have the same prior.
    """
    if not settings.has_roles or settings.candidates is not None:
        return candidates
    parts = _parts(space, units, settings)
    shared = [part for part in parts if part[1] == "" or part[0] == ""]
    own = [part for part in parts if part not in shared]
    bases = _bases(space, settings)
    if own:  # few, as each of them is fitted to all answers
        candidates = bases
    if len(parts) == 1:
        return candidates
    if not bases:
        bases = [Candidate(identity=1.0)]
        parts = [part for part in parts if part[0] != COLUMNS]
    alone = [part for part in parts if part[1] != PERSONS]
    learned = _with_shares(space, bases, units, alone, settings.seed)
    groups = [[_only(each, shared) for each in learned]]
    if (IDENTITY, "") in parts:
        groups[0].append(Candidate(identity=1.0))
    if own:
        groups.append(learned)
    if len(alone) < len(parts):
        groups.append(_with_shares(space, bases, units, parts, settings.seed))
    total = sum(candidate.prior for candidate in candidates) or 1.0
    found = list(candidates)
    for group in groups:
        unique = [each for each in dict.fromkeys(group) if each not in found]
        found += [replace(each, prior=total / len(unique)) for each in unique]
    return found


def _bases(space: Space, settings: AverageSettings) -> list[Candidate]:
    """What columns are compared by."""
    sees_text = is_sparse(space.scored.get(STANDARD, np.empty(0)))
    views: Combination = "sum" if len(settings.views) else "all"
    listed = [
        Candidate(encoding, kernel, width, views)
        for encoding, kernel, width in (BASES_OF_TEXT if sees_text else BASES)
    ]
    return [candidate for candidate in listed if space.can_build(candidate)]


def _parts(space: Space, units: Observations, settings: AverageSettings) -> list[tuple[str, str]]:
    """The parts that answers can tell apart."""
    is_compared = units.second is not None
    items = space.scored.get(IDENTITY, np.empty((0, 1)))
    persons = space.scored.get(PERSON, np.empty((0, 1)))
    whats = [COLUMNS]
    if is_compared or len(np.unique(items, axis=0)) < len(items):
        whats += [IDENTITY] * len(settings.identity[:1])
    whose = [""]
    if len(np.unique(persons[persons >= 0])) > 1:
        whose.append(PERSON)
        if len(settings.of_persons) and space.scored[PERSONS].any():
            whose.append(PERSONS)
    possible = {(what, who) for what in whats for who in whose}
    if not is_compared:  # nobody answers about an item twice
        possible.discard((IDENTITY, PERSON))
    if PERSON in whose and not settings.ranks:
        possible.add(("", PERSON))
    return [part for part in PARTS if part in possible]


def _only(candidate: Candidate, parts: Sequence[tuple[str, str]]) -> Candidate:
    """A candidate with some of its parts."""
    kept = [share * (part in parts) for part, share in zip(PARTS, candidate.shares, strict=True)]
    total = sum(kept)
    if total == 0:
        return replace(candidate, shares=())
    return replace(candidate, shares=tuple(share / total for share in kept))


def _with_shares(
    space: Space,
    bases: Sequence[Candidate],
    units: Observations,
    parts: Sequence[tuple[str, str]],
    seed: int,
) -> list[Candidate]:
    """Bases with the shares of parts, learned from answers of all persons or of some of them."""
    weighing, teaching = split(units, seed)
    rows = teaching if len(teaching) else weighing
    rows = rows[some(units.take(rows), MAX_LEARNED, [seed, 7])]
    sample, sample_space = sample_of(space, units, rows)
    learn = partial(_learned, sample_space, sample, parts)
    with in_one_thread(units.scores, with_jobs=len(rows) >= 150):
        return list(in_order(learn, bases, units.scores))


def _learned(
    space: Space, units: Observations, parts: Sequence[tuple[str, str]], base: Candidate
) -> Candidate:
    matrices = []
    for part in parts:
        alone = replace(base, shares=tuple(float(each == part) for each in PARTS))
        matrices.append(units.matrix(space.new_kernel(space.built(alone))))
    sizes = evidence_shares(matrices, units.targets, units.n_free)
    sizes[sizes < LEAST_SHARE * sizes.sum()] = 0.0
    by_part = dict(zip(parts, (sizes / sizes.sum()).tolist(), strict=True))
    return replace(base, shares=tuple(by_part.get(part, 0.0) for part in PARTS))


def evidence_shares(matrices: Sequence[FloatArray], targets: FloatArray, n_free: int) -> FloatArray:
    """The variances (m,) of functions, over that of the noise, under which targets (N,) have the
    largest evidence, for kernels J K_m Jᵀ (N, N). O(N³ + m N²) per step.
    """
    identity = np.eye(len(targets))

    def loss(logarithms: FloatArray) -> tuple[float, FloatArray]:
        sizes = np.exp(logarithms)
        matrix = identity + sum(size * each for size, each in zip(sizes, matrices, strict=True))
        factor, failed = scipy.linalg.lapack.dpotrf(matrix, lower=1, clean=0, overwrite_a=1)
        if failed:
            return LARGEST_NUMBER, np.zeros(len(sizes))
        half_log = np.sum(np.log(np.diag(factor)))
        dual = scipy.linalg.cho_solve((factor, True), targets, check_finite=False)
        energy = float(targets @ dual)
        inverse = scipy.linalg.lapack.dpotri(factor, lower=1, overwrite_c=1)[0]
        inverse = np.tril(inverse)
        diagonal = np.diag(inverse)
        slopes = np.empty(len(sizes))
        for number, (size, each) in enumerate(zip(sizes, matrices, strict=True)):
            trace = 2 * np.einsum("ij,ij->", inverse, each) - diagonal @ np.diag(each)
            slopes[number] = 0.5 * size * (trace - n_free / energy * (dual @ each @ dual))
        apart = (logarithms - LOG_SHARE) / LOG_SPREAD
        value = 0.5 * n_free * np.log(energy) + half_log + 0.5 * float(apart @ apart)
        return value, slopes + apart / LOG_SPREAD

    start = np.full(len(matrices), LOG_SHARE)
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": MAX_STEPS})
    return np.asarray(np.exp(found.x))


# ---------------------------------------------------------------- very many answers


@storable("Side")
@dataclass(frozen=True)
class Side:
    """The vectors of persons, or of items.

    means : (p, k); precision : (k,) of their priors; slopes : (c + 1, k) of the means of the priors,
        by columns and a constant
    codes : (p,) in ascending order, by which they are found
    """

    means: Annotated[FloatArray, floats(".p", ".k")]
    precision: Annotated[FloatArray, floats(".k")]
    slopes: Annotated[FloatArray, floats("_", ".k")]
    codes: Annotated[Index, whole(".p")]

    def expected(self, columns: FloatArray) -> FloatArray:
        """The means of the priors for columns (n, c): (n, k)."""
        return np.asarray(columns @ self.slopes[:-1] + self.slopes[-1])

    def only(self, codes: Index) -> Side:
        """With the codes (p,) by which vectors are found, without those below 0."""
        order = np.argsort(codes)
        known = order[codes[order] >= 0]
        return replace(self, means=self.means[known], codes=codes[known])

    def at(self, codes: Index, columns: FloatArray) -> FloatArray:
        """Vectors (n, k) by code, where it is known, else by columns (n, c)."""
        places = np.searchsorted(self.codes, codes).clip(max=len(self.codes) - 1)
        known = self.codes[places] == codes
        return np.where(known[:, None], self.means[places], self.expected(columns))


@storable("Factors")
@dataclass(frozen=True)
class Factors:
    """What persons and items are, and how large the noise is.

    level : of all scores; noise : variance
    """

    persons: Side
    items: Side
    level: Finite
    noise: Finite

    def predict(
        self,
        persons: Index,
        items: Index,
        of_persons: FloatArray,
        of_items: FloatArray,
    ) -> FloatArray:
        """Predictions (n,) by codes, below 0 for those who are not known, and columns."""
        u = self.persons.at(persons, of_persons)
        v = self.items.at(items, of_items)
        return np.asarray(self.level + np.einsum("ij,ij->i", u, v))

    def of_rows(self, encoded: Encoded) -> FloatArray:
        """Predictions of encoded rows: (n,)."""
        persons, items = (encoded[name][:, 0].astype(np.int64) for name in (PERSON, IDENTITY))
        return self.predict(persons, items, *columns_of_sides(encoded, len(persons)))

    def with_persons(self, encoded: Encoded, scores: FloatArray) -> Factors:
        """With the vectors of further persons, by scores (n,) of encoded rows. O(n k² + k³) each."""
        persons, items = (encoded[name][:, 0].astype(np.int64) for name in (PERSON, IDENTITY))
        of_persons, of_items = columns_of_sides(encoded, len(persons))
        side, vectors = self.persons, self.items.at(items, of_items)
        means, codes = [side.means], np.unique(persons)
        for person in codes.tolist():
            rows = np.flatnonzero(persons == person)
            gram = vectors[rows].T @ vectors[rows] / self.noise
            right = vectors[rows].T @ (scores[rows] - self.level) / self.noise
            prior = side.expected(of_persons[rows[:1]])
            means.append(_posterior(gram[None], right[None], side.precision, prior, EFFECT)[0])
        joined = replace(side, means=np.vstack(means), codes=np.append(side.codes, codes))
        return replace(self, persons=joined.only(joined.codes))


def _posterior(
    grams: FloatArray, rights: FloatArray, precision: FloatArray, prior: FloatArray, fixed: int
) -> tuple[FloatArray, FloatArray]:
    """Means (p, k) and covariances (p, k, k) of vectors whose entry `fixed` is 1. O(p k³).

    grams : (p, k, k) and rights : (p, k), what answers say, over the noise
    """
    k = len(precision)
    free = np.delete(np.arange(k), fixed)
    inner = grams[:, free[:, None], free].copy()
    inner[:, np.arange(k - 1), np.arange(k - 1)] += precision[free]
    covariances = np.zeros(grams.shape)
    inverse = np.linalg.inv(inner)
    right = rights[:, free] - grams[:, free, fixed] + precision[free] * prior[:, free]
    means = np.ones((len(grams), k))
    means[:, free] = np.einsum("pij,pj->pi", inverse, right)
    covariances[:, free[:, None], free] = inverse
    return means, covariances


def _slopes(means: FloatArray, columns: FloatArray) -> FloatArray:
    """Ridge regression of vectors (p, k) on columns (p, c) and a constant: (c + 1, k)."""
    design = np.column_stack([columns, np.ones(len(columns))])
    gram = design.T @ design
    penalty = np.append(np.ones(columns.shape[1]), 1e-6 * len(columns))
    return np.asarray(scipy.linalg.solve(gram + np.diag(penalty), design.T @ means, assume_a="pos"))


@dataclass
class _Estimate:
    """One side while it is learned.

    answers : (p, q) weights of the answers to the other side, sparse; scores : the same times scores
    """

    columns: FloatArray
    fixed: int
    means: FloatArray
    covariances: FloatArray
    precision: FloatArray
    slopes: FloatArray
    answers: Any = None
    scores: Any = None

    @classmethod
    def start(cls, columns: FloatArray, fixed: int, spread: float, seed: int) -> _Estimate:
        """Vectors that say next to nothing, at random."""
        n, k = len(columns), N_LEARNED + 2
        rng = np.random.default_rng([seed, 8])
        means = START * np.sqrt(spread) * rng.standard_normal((n, k))
        means[:, :2] = 0.0
        means[:, fixed] = 1.0
        slopes = np.zeros((columns.shape[1] + 1, k))
        slopes[-1, fixed] = 1.0
        return cls(columns, fixed, means, np.zeros((n, k, k)), np.full(k, 1 / spread), slopes)

    def moments(self) -> FloatArray:
        """What the other side needs: E[v vᵀ] as rows of a triangle (q, k (k + 1) / 2)."""
        k = self.means.shape[1]
        rows, columns = np.triu_indices(k)
        return self.means[:, rows] * self.means[:, columns] + self.covariances[:, rows, columns]

    def learn(self, other: _Estimate, noise: float) -> float:
        """One step; the squared residuals that are expected then, without those of scores alone."""
        k = self.means.shape[1]
        rows, columns = np.triu_indices(k)
        grams = np.empty((len(self.means), k, k))
        grams[:, rows, columns] = self.answers @ other.moments()
        grams[:, columns, rows] = grams[:, rows, columns]
        rights = self.scores @ other.means
        prior = self.columns @ self.slopes[:-1] + self.slopes[-1]
        self.means, self.covariances = _posterior(
            grams / noise, rights / noise, self.precision, prior, self.fixed
        )
        self.slopes = _slopes(self.means, self.columns)
        prior = self.columns @ self.slopes[:-1] + self.slopes[-1]
        apart = np.sum((self.means - prior) ** 2, axis=0)
        apart += np.einsum("pii->i", self.covariances)
        free = np.arange(k) != self.fixed
        count = len(self.means) + STRENGTH
        typical = STRENGTH * noise
        self.precision[free] = count / (apart[free] + typical)
        squares = np.einsum("pi,pij,pj->", self.means, grams, self.means, optimize=True)
        squares += np.einsum("pij,pij->", grams, self.covariances)
        return float(squares - 2 * np.sum(rights * self.means))


def fit_factors(
    persons: Index,
    items: Index,
    units: Observations,
    of_persons: FloatArray,
    of_items: FloatArray,
    seed: int,
    done: Callable[[float], None] = lambda share: None,
) -> tuple[Factors, Index, FloatArray]:
    """Learn vectors from answers; and numbers of some of these, with predictions that were made
    before they were learned from. O(n k² + (p + q) k³) per sweep, in memory O((p + q) k²).

    persons, items : (n,) codes from 0, all of which occur; of_persons : (p, c); of_items : (q, c)
    """
    scores, weights = units.scores, units.roots**2
    level = float(np.average(scores, weights=weights))
    spread = float(np.sqrt(np.average((scores - level) ** 2, weights=weights)))
    held_out = _some_answers(persons, seed)
    kept = weights.copy()
    kept[held_out] = 0.0
    first = _Estimate.start(of_persons, EFFECT, spread, seed)
    second = _Estimate.start(of_items, LEVEL, spread, seed + 1)
    noise, predictions = spread**2, np.empty(0)
    for counted, sweeps in ((kept, MAX_SWEEPS), (weights, LAST_SWEEPS)):
        left = scores - level
        shape = len(of_persons), len(of_items)
        first.answers = sparse.csr_array((counted, (persons, items)), shape=shape)
        first.scores = sparse.csr_array((counted * left, (persons, items)), shape=shape)
        second.answers, second.scores = first.answers.T.tocsr(), first.scores.T.tocsr()
        total = float(counted @ left**2)
        for _ in range(sweeps):
            before = noise
            second.learn(first, noise)
            noise = (total + first.learn(second, noise)) / float(counted.sum())
            done(1 / (MAX_SWEEPS + LAST_SWEEPS))
            if abs(before - noise) < SETTLED * noise:
                break
        if counted is kept:
            u, v = first.means[persons[held_out]], second.means[items[held_out]]
            predictions = level + np.einsum("ij,ij->i", u, v)
    learned = [
        Side(side.means, side.precision, side.slopes, np.arange(len(side.means)))
        for side in (first, second)
    ]
    return Factors(learned[0], learned[1], level, noise), held_out, predictions


def _some_answers(persons: Index, seed: int) -> Index:
    """Numbers of some answers, a tenth of those of some persons with many, in ascending order."""
    rng = np.random.default_rng([seed, 9])
    counts = np.bincount(persons)
    many = np.flatnonzero(counts >= FEWEST_ANSWERS)
    chosen = rng.permutation(many)[:JUDGING_PERSONS]
    rows = rng.permutation(np.flatnonzero(np.isin(persons, chosen)))
    order = rows[np.argsort(persons[rows], kind="stable")]
    sizes = counts[np.sort(chosen)]
    starts = np.cumsum(sizes) - sizes
    places = np.arange(len(order)) - np.repeat(starts, sizes)
    held_out = places < np.repeat(np.clip(sizes // 10, 2, MOST_JUDGED), sizes)
    return np.sort(order[held_out])


# ---------------------------------------------------------------- of a table


def columns_of_sides(encoded: Encoded, n: int) -> tuple[FloatArray, FloatArray]:
    """Encoded columns of persons, and of items, of n rows, about 1 long; none where they are sparse."""
    first, second = (
        np.empty((n, 0)) if is_sparse(rows) else rows / np.sqrt(max(1, rows.shape[1]))
        for rows in (encoded.get(name, np.empty((n, 0))) for name in (PERSONS, STANDARD))
    )
    return first, second


def factors_of_table(
    rows: EncodedTable, learned: Index, units: Observations
) -> tuple[list[Encoding], Factors, FittedAverage]:
    """Encodings, vectors of persons and items from the rows that are `learned` from, and how answers
    were predicted that they were not learned from.

    Of columns that differ between the rows of an item, those of one of its rows count.
    """
    settings = rows.settings
    names = [STANDARD, *settings.names_of_roles]
    encodings = [encoding for encoding in map(rows.encoding, names) if encoding is not None]
    features = take(rows.features, learned)

    def encoded(chosen: Index) -> dict[str, Array]:
        some = take(features, chosen)
        return {encoding.name: encoding.encode(some, None) for encoding in encodings}

    codes = dense_columns(features, [*settings.person, *settings.identity[:1]]).astype(np.int64)
    whose, which = (first_appearance(each)[0] for each in codes.T)
    first = np.unique(whose, return_index=True)[1]
    of_persons, _ = columns_of_sides(encoded(first), len(first))
    persons = codes[first, 0]
    first = np.unique(which, return_index=True)[1]
    _, of_items = columns_of_sides(encoded(first), len(first))
    items = codes[first, 1]
    people, about = count(len(persons), "person"), count(len(items), "item")
    say(f"corank: learning from {count(len(units), 'answer')} of {people} about {about}")
    with progress_bar("fitting", 1.0, of_rows=False) as advance:
        factors, held_out, predictions = fit_factors(
            whose, which, units, of_persons, of_items, settings.seed, advance
        )
    known_persons, known_items = factors.persons.only(persons), factors.items.only(items)
    factors = replace(factors, persons=known_persons, items=known_items)
    if not len(held_out):  # nobody answered often enough
        held_out, predictions = np.arange(1), np.full(1, np.nan)
    judged = units.take(held_out).renumbered(held_out)
    predictions = judged.roots * predictions
    if judged.has_levels:
        predictions = judged.centred(predictions)
    low, high = bounds(units)
    error = float(np.sum((judged.truth - predictions) ** 2) / max(np.sum(judged.roots**2), LEAST))
    line, nothing = (Candidate(kernel=FACTORS), 1.0, error), np.zeros(0, dtype=np.int64)
    average = FittedAverage(
        candidates=[],
        table=[line],
        points=nothing,
        low=low,
        high=high,
        residual_factor=1.0,
        held_out=predictions,
        judged_units=judged,
        judged=held_out,
    )
    return encodings, factors, average
