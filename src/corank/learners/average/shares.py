"""Candidates for answers of persons about items: kernels between answers, whose parts have the shares
under which the scores have the largest evidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import scipy.linalg
from scipy.optimize import minimize

from corank.core.arrays import FloatArray, in_one_thread, in_order, is_sparse
from corank.core.storable import LARGEST_NUMBER
from corank.learners.average.candidates import (
    BASES,
    BASES_OF_TEXT,
    COLUMNS,
    PARTS,
    Candidate,
    Combination,
)
from corank.learners.average.closed_form import Observations
from corank.learners.average.encoding import IDENTITY, PERSON, PERSONS, STANDARD
from corank.learners.average.fitting import sample_of, some, split
from corank.learners.average.scored_table import AverageSettings
from corank.learners.average.similarity import Space

MAX_LEARNED = 800  # answers from which shares are learned
LOG_SHARE, LOG_SPREAD = -2.0, 3.0  # of a part over the noise, before any score is seen
MAX_STEPS = 15
LEAST_SHARE = 0.002  # of the kernel: a part with less is left out


def with_roles(
    space: Space, candidates: Sequence[Candidate], units: Observations, settings: AverageSettings
) -> Sequence[Candidate]:
    """Candidates, and those for who answered and about which item, where that was said.

    Plain ones, those that know items and those that know persons too have the same prior.
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
    learned = _with_shares(space, bases, units, parts, settings.seed)
    groups = [list(candidates), [_only(each, shared) for each in learned]]
    if own:
        groups.append(learned)
    if (IDENTITY, "") in parts:
        groups[1].append(Candidate(identity=1.0))
    total = sum(candidate.prior for candidate in candidates) or 1.0
    for number, group in enumerate(groups[1:], 1):
        unique = list(dict.fromkeys(each for each in group if each not in candidates))
        groups[number] = [replace(each, prior=total / len(unique)) for each in unique]
    return [candidate for group in groups for candidate in group]


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
