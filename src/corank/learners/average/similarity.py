"""Kernels of candidates between encoded rows: of all columns, of one view, of sums and products of
views, of agreement.

Views that agree on unscored rows are one kernel too. Let F = (f_1 … f_M) be independent Gaussian
processes, one per view, and f their mean. Observing that all f_v are equal on the unscored rows,
with noise of variance 1/strength, gives f the covariance

    k(x, x') = Σ_v k_v(x, x') / M² − r(x)ᵀ (P + I/strength)⁻¹ r(x'),

where P is the covariance of the contrasts between views on the unscored rows and r that of f with
them [Sindhwani2008].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, TypeAlias

import numpy as np
from scipy import sparse

from corank.core.arrays import Array, FloatArray, Index, is_sparse, sum_of, take
from corank.core.kernels import NORMS, Kernel, distances, product, squared_norms, unit_rows
from corank.core.loss import Pointwise, WithinQueries
from corank.core.observations import ScoredRows
from corank.core.storable import ADDED_LATER, Finite, floats, storable, whole
from corank.learners.average.candidates import PARTS, Candidate
from corank.learners.average.closed_form import Observations
from corank.learners.average.encoding import IDENTITY, PERSON, PERSONS, WIDE_KERNELS, Encoding
from corank.solve.systems import contrasts
from corank.solve.widths import STARTS, ColumnWidths, learn_widths

Encoded: TypeAlias = Mapping[str, Array]  # rows by the name of their encoding

METRICS = {
    "linear": "product",
    "cosine": "cosine",
    "rbf": "squared distance",
    "exponential": "Euclidean distance",
    "laplacian": "distance",
    IDENTITY: "same item",
    PERSON: "same person",
}
LEAST_DISTANCE = 1e-150  # stands for 0 where widths are divided by it
LEAST_RELEVANCE = 1e-9  # of a column: less is rounding, as where there are two scored rows
MAX_MEDIAN_ROWS = 400  # whose distances to each other are looked at for widths


@storable("Sight")
@dataclass(frozen=True)
class Sight:
    """Encoded columns as a kernel sees them.

    name : differs between sights of one model
    encoding : name of the encoding
    columns : (k,) numbers of encoded columns, None for all
    factors : (k,) what they are multiplied by, None for ones
    """

    name: str
    encoding: str
    columns: Annotated[Index | None, whole("_") | None] = None
    factors: Annotated[FloatArray | None, floats("_") | None] = None

    def rows(self, encoded: Encoded) -> Array:
        """The columns that are seen of encoded rows: (n, k)."""
        rows = encoded[self.encoding]
        if self.columns is not None:
            rows = (
                sparse.csr_array(rows.tocsc()[:, self.columns])
                if is_sparse(rows)
                else rows[:, self.columns]
            )
        if self.factors is None:
            return rows
        return (
            sparse.csr_array(rows @ sparse.diags_array(self.factors))
            if is_sparse(rows)
            else rows * self.factors
        )


@storable("Similarity")
@dataclass(frozen=True)
class Similarity:
    """A kernel on a sight: scale · k(x, x'), about 1 for a row with itself, or its product with
    another one, as for rows of the same person.
    """

    sight: Sight
    kernel: str
    gamma: Finite
    scale: Finite
    times: Similarity | None = field(default=None, metadata={ADDED_LATER: True})

    @property
    def factors(self) -> list[Similarity]:
        """The kernels that it is a product of."""
        return [self, *([] if self.times is None else self.times.factors)]


@dataclass(frozen=True)
class CandidateKernel:
    """A candidate, and the kernels that it is made of: one, or one per view."""

    candidate: Candidate
    similarities: Sequence[Similarity]


class Distances:
    """Products and distances between two sets of encoded rows, each computed once for all widths."""

    def __init__(self, left: Encoded, right: Encoded) -> None:
        self.left, self.right = left, right
        self._seen: dict[tuple[str, str], FloatArray] = {}

    def values(self, sight: Sight, kernel: str) -> FloatArray:
        """What the kernel is a function of: products, cosines, distances, or whether rows are the
        same item (n, r).
        """
        key = (sight.name, METRICS[kernel])
        if key not in self._seen:
            left = sight.rows(self.left)
            right = left if self.left is self.right else sight.rows(self.right)
            self._seen[key] = _metric(kernel, left, right)
        return self._seen[key]

    def kernel(self, similarity: Similarity) -> FloatArray:
        """Kernel values (n, r)."""
        values = self._alone(similarity)
        if similarity.times is not None:
            values *= self.kernel(similarity.times)
        return values

    def _alone(self, similarity: Similarity) -> FloatArray:
        values = self.values(similarity.sight, similarity.kernel)
        if similarity.kernel in WIDE_KERNELS:
            scaled = values * -similarity.gamma
            np.exp(scaled, out=scaled)
            return scaled if similarity.scale == 1 else similarity.scale * scaled
        return similarity.scale * values


def _metric(kernel: str, left: Array, right: Array) -> FloatArray:
    if kernel in NORMS:
        return np.asarray(distances(left, right, NORMS[kernel]))
    if kernel == PERSON:
        same_person = np.equal.outer(left[:, 0], right[:, 0]) & (left >= 0)
        return np.asarray(same_person, dtype=np.float64)
    if kernel == IDENTITY:
        columns = [
            np.equal.outer(first, second) for first, second in zip(left.T, right.T, strict=True)
        ]
        return np.asarray(np.logical_and.reduce(columns), dtype=np.float64)
    if kernel == "cosine":
        same = left is right
        left = unit_rows(left)
        right = left if same else unit_rows(right)
    values: FloatArray = product(left, right)
    if kernel == "rbf":
        values *= -2
        values += np.add.outer(squared_norms(left), squared_norms(right))
        np.maximum(values, 0.0, out=values)
    return values


def row_products(left: Array, right: Array) -> FloatArray:
    """Inner products of the rows of two matrices, row by row: (n,)."""
    if is_sparse(left):
        return np.asarray(left.multiply(right).sum(axis=1)).ravel()
    return np.asarray(np.sum(left * right, axis=1))


def own_kernel(similarity: Similarity, rows: Encoded) -> FloatArray:
    """The kernel of every row with itself: (n,)."""
    seen = similarity.sight.rows(rows)
    if similarity.kernel == IDENTITY:
        values = np.ones(seen.shape[0])
    elif similarity.kernel == PERSON:
        values = (seen[:, 0] >= 0).astype(np.float64)
    else:
        values = np.asarray(Kernel(similarity.kernel, similarity.gamma).diagonal(seen))
    others = 1.0 if similarity.times is None else own_kernel(similarity.times, rows)
    return similarity.scale * values * others


@dataclass(frozen=True)
class Agreement:
    """What unscored rows say about views, with one strength: k is Σ_v k_v / M² less `roots`(x)
    `roots`(x')ᵀ.

    similarities : one per view; contrasts : (M, M − 1) orthonormal, each summing to 0
    vectors : (k, k) eigenvectors of P; shrinkage : (k,) 1 / (eigenvalue + 1/strength)
    """

    similarities: Sequence[Similarity]
    contrasts: FloatArray
    vectors: FloatArray
    shrinkage: FloatArray

    def roots(self, unscored: Distances) -> FloatArray:
        """(n, k), for distances between n rows and the unscored rows."""
        return self._mean_contrast(unscored) @ (self.vectors * np.sqrt(self.shrinkage))

    def _mean_contrast(self, unscored: Distances) -> FloatArray:
        kernels = [
            unscored.kernel(similarity) / len(self.similarities) for similarity in self.similarities
        ]
        return np.hstack([_mixed(kernels, contrast) for contrast in self.contrasts.T])

    def view_coefficients(self, coefficients: FloatArray, unscored: Distances) -> FloatArray:
        """Coefficients of the unscored rows in every view: (M, u), for those of the scored rows
        (n,).

        unscored : distances between the scored and the unscored rows
        """
        cross = self._mean_contrast(unscored)
        answer = self.vectors @ (self.shrinkage * (self.vectors.T @ (cross.T @ coefficients)))
        per_contrast = answer.reshape(self.contrasts.shape[1], -1)
        return -self.contrasts @ per_contrast / len(self.similarities)


def _mixed(kernels: Sequence[FloatArray], shares: FloatArray) -> FloatArray:
    return np.asarray(
        np.sum([share * kernel for share, kernel in zip(shares, kernels, strict=True)], axis=0)
    )


@dataclass(frozen=True)
class LearnedWidths:
    """What columns are multiplied by so that each has its width: (k,) by the name of their encoding.

    all : learned from all rows that were to be learned from
    without : learned without every fold of them; none where no candidate is weighed by those rows
    folds : (n_points,) the fold of every scored row
    """

    all: Mapping[str, FloatArray]
    without: Sequence[Mapping[str, FloatArray]] = ()
    folds: Index | None = None

    def take(self, rows: Index) -> LearnedWidths:
        """The widths for some of the scored rows."""
        return replace(self, folds=take(self.folds, rows))

    def learned_without(self, units: Observations) -> Mapping[str, FloatArray]:
        """The widths for units of which a fold may be missing, learned without that fold."""
        missing = np.setdiff1d(np.arange(len(self.without)), self.blocks(units))
        return self.without[missing[0]] if len(missing) else self.all

    def blocks(self, units: Observations) -> Index:
        """The folds (n_units,) of units, none where no candidate is weighed by rows that taught."""
        return np.zeros(0, dtype=np.int64) if self.folds is None else self.folds[units.first]


@dataclass
class Space:
    """Encoded scored rows (or items) and unscored rows, and the kernels of candidates between them.

    scored, unscored : by the name of the encoding; of unscored rows those on which views agree
    view_columns : by the name of the encoding, the encoded columns of every view
    widths : of every column, None where none were learned
    """

    scored: Encoded
    unscored: Encoded = field(default_factory=dict)
    view_columns: Mapping[str, Sequence[Index]] = field(default_factory=dict)
    widths: LearnedWidths | None = None

    def __post_init__(self) -> None:
        self.distances = Distances(self.scored, self.scored)
        self.to_unscored = Distances(self.scored, self.unscored)
        self._among_unscored = Distances(self.unscored, self.unscored)
        self._kernels: dict[Candidate, FloatArray] = {}
        self._medians: dict[tuple[str, str], float] = {}
        self._eigensystems: dict[Any, tuple[FloatArray, FloatArray]] = {}
        self._scaled: dict[str, tuple[FloatArray, Space]] = {}

    def take(self, rows: Index) -> Space:
        """The space with some of the scored rows."""
        space = self._with_scored(
            {name: take(matrix, rows) for name, matrix in self.scored.items()}
        )
        space.widths = None if self.widths is None else self.widths.take(rows)
        return space

    def emptied(self) -> Space:
        """The space without the distances and kernels between scored rows that it keeps."""
        return self._with_scored(self.scored)

    def _with_scored(self, scored: Encoded) -> Space:
        space = Space(scored, self.unscored, self.view_columns, self.widths)
        space._among_unscored, space._eigensystems = self._among_unscored, self._eigensystems
        return space

    def can_build(self, candidate: Candidate) -> bool:
        """Whether the rows have what the candidate is made of."""
        if candidate.rows not in self.scored:
            return False
        if candidate.relevance and is_sparse(self.scored[candidate.rows]):
            return False
        if candidate.per_column and (self.widths is None or candidate.rows not in self.widths.all):
            return False
        if candidate.needs_unscored and candidate.rows not in self.unscored:
            return False
        if candidate.identity and IDENTITY not in self.scored:
            return False
        if not self.encodings_of_parts(candidate) <= set(self.scored):
            return False
        if candidate.views == "all":
            return True
        columns = self.view_columns[candidate.encoding]
        chosen = self._chosen_views(candidate)
        return len(chosen) > 0 and all(len(columns[number]) for number in chosen)

    def _chosen_views(self, candidate: Candidate) -> list[int]:
        """Numbers of the views that the candidate is made of; sums and products leave out those
        without a column.
        """
        columns = self.view_columns[candidate.encoding]
        chosen = candidate.of or range(len(columns))
        joins = candidate.views in ("sum", "product")
        return [number for number in chosen if len(columns[number]) or not joins]

    def similarities(
        self, candidate: Candidate, factors: FloatArray | None = None
    ) -> list[Similarity]:
        """The kernels that the candidate is made of: one, or one per view.

        factors : (k,) what the encoded columns are multiplied by, for candidates that learn it
        """
        if candidate.shares:
            return self._parts(candidate)
        if candidate.identity:
            same_item = Similarity(Sight(IDENTITY, IDENTITY), IDENTITY, 0.0, candidate.identity)
            if candidate.identity == 1:
                return [same_item]
            parts = self.similarities(replace(candidate, identity=0.0), factors)
            share = (1 - candidate.identity) / len(parts)
            return [*(replace(part, scale=share * part.scale) for part in parts), same_item]
        if candidate.beside:
            own = replace(candidate, hops=0, beside=False)
            return [*self.similarities(own), *self.similarities(replace(candidate, beside=False))]
        name, kernel = candidate.rows, candidate.kernel
        if candidate.relevance:
            return [self._similarity(Sight(f"{name}, relevance", name, None, factors), candidate)]
        if candidate.per_column:
            sight = Sight(f"{name}, widths", name, None, factors)
            power = 2 if kernel == "rbf" else 1
            return [Similarity(sight, kernel, candidate.width**-power, 1.0)]
        if candidate.views == "all":
            return [self._similarity(Sight(name, name), candidate)]
        columns = self.view_columns[candidate.encoding]
        chosen = self._chosen_views(candidate)
        sights = [Sight(f"{name}, view {number}", name, columns[number]) for number in chosen]
        if candidate.views == "product":
            return [self._similarity(self._joined(sights, kernel), candidate)]
        return [self._similarity(sight, candidate) for sight in sights]

    def encodings_of_parts(self, candidate: Candidate) -> set[str]:
        """What the parts of a candidate see of items and persons."""
        seen = {each for part in candidate.parts for each in part}
        return seen & {IDENTITY, PERSON, PERSONS}

    def _parts(self, candidate: Candidate) -> list[Similarity]:
        """The kernels of the parts of a candidate, times their shares."""
        linear = Candidate(kernel="linear")
        parts = []
        for (what, whose), share in zip(PARTS, candidate.shares, strict=True):
            if not share:
                continue
            times = None
            if whose == PERSONS:
                times = self._similarity(Sight(PERSONS, PERSONS), linear)
            elif whose:
                times = Similarity(Sight(PERSON, PERSON), PERSON, 0.0, 1.0)
            bases: Sequence[Similarity | None] = [times]
            if what == IDENTITY:
                bases = [Similarity(Sight(IDENTITY, IDENTITY), IDENTITY, 0.0, 1.0)]
            elif what:
                bases = self.similarities(replace(candidate, shares=()))
            for base in bases:
                assert base is not None
                scale = share / len(bases) * base.scale
                parts.append(replace(base, scale=scale, times=times if what else None))
        return parts

    def _joined(self, sights: Sequence[Sight], kernel: str) -> Sight:
        """The columns of all views, scaled so that every view has the same median distance: a
        product of kernels.
        """
        columns = np.concatenate([sight.columns for sight in sights if sight.columns is not None])
        medians = [
            self._median(sight, kernel) ** (0.5 if kernel == "rbf" else 1.0) for sight in sights
        ]
        factors = np.concatenate(
            [
                np.full(len(sight.columns), 1 / median)
                for sight, median in zip(sights, medians, strict=True)
                if sight.columns is not None
            ]
        )
        names = " and ".join(sight.name for sight in sights)
        return Sight(
            f"product of {METRICS[kernel]} of {names}", sights[0].encoding, columns, factors
        )

    def _similarity(self, sight: Sight, candidate: Candidate) -> Similarity:
        kernel = candidate.kernel
        space = self._scaled_space(sight) if candidate.relevance else self
        if kernel in WIDE_KERNELS:
            power = 2 if kernel == "rbf" else 1
            gamma = 1 / (candidate.width**power * space._median(sight, kernel))
            return Similarity(sight, kernel, gamma, 1.0)
        mean = float(np.mean(squared_norms(sight.rows(self.scored)))) if kernel == "linear" else 1.0
        return Similarity(sight, kernel, 0.0, 1 / max(mean, LEAST_DISTANCE))

    def _scaled_space(self, sight: Sight) -> Space:
        """A space for the factors of a sight that were asked for last: they differ between folds, and
        distances with them.
        """
        assert sight.factors is not None
        factors, space = self._scaled.get(sight.name, (None, self))
        if factors is None or not np.array_equal(factors, sight.factors):
            space = Space(self.scored)
            self._scaled[sight.name] = sight.factors, space
        return space

    def _median(self, sight: Sight, kernel: str) -> float:
        """The median distance (rbf: squared) between scored rows that differ."""
        key = (sight.name, kernel)
        if key not in self._medians:
            values = self.distances.values(sight, kernel)[:MAX_MEDIAN_ROWS, :MAX_MEDIAN_ROWS]
            apart = values[values > 1e-12 * np.max(values, initial=0.0)]
            self._medians[key] = max(float(np.median(apart)), LEAST_DISTANCE) if len(apart) else 1.0
        return self._medians[key]

    def built(self, candidate: Candidate, factors: FloatArray | None = None) -> CandidateKernel:
        """The candidate with its kernels; factors : as in `similarities`."""
        return CandidateKernel(candidate, self.similarities(candidate, factors))

    def agreement(self, built: CandidateKernel) -> Agreement:
        """What unscored rows say, at the strength of the candidate. O(u³ M³) once per encoding,
        kernel and width.
        """
        similarities = built.similarities
        m = len(similarities)
        across = contrasts(m).T
        key = tuple(
            (similarity.sight.name, similarity.kernel, similarity.gamma)
            for similarity in similarities
        )
        if key not in self._eigensystems:
            kernels = [self._among_unscored.kernel(similarity) for similarity in similarities]
            blocks = [[_mixed(kernels, a * b) for b in across.T] for a in across.T]
            self._eigensystems[key] = np.linalg.eigh(np.block(blocks))
        values, vectors = self._eigensystems[key]
        shrinkage = 1 / (
            np.maximum(values, 0.0) + 1 / max(built.candidate.strength, LEAST_DISTANCE)
        )
        return Agreement(similarities, across, vectors, shrinkage)

    def unscored_means(self, similarities: Sequence[Similarity]) -> FloatArray:
        """The mean similarity of every unscored row to all of them: (u,)."""
        kernel = np.sum(
            [self._among_unscored.kernel(similarity) for similarity in similarities], axis=0
        )
        return np.asarray(kernel.mean(axis=0))

    def kernel(self, built: CandidateKernel) -> FloatArray:
        """The kernel of the candidate between scored rows: (n, n)."""
        candidate = built.candidate
        if candidate.learns_factors:  # which differ from fold to fold
            return self.new_kernel(built)
        if candidate not in self._kernels:
            self._kernels[candidate] = self.new_kernel(built)
        return self._kernels[candidate]

    def new_kernel(self, built: CandidateKernel) -> FloatArray:
        """The kernel of the candidate between scored rows, which is not kept: (n, n)."""
        space = (
            self._scaled_space(built.similarities[0].sight)
            if built.candidate.learns_factors
            else self
        )
        return self._between(built, space.distances, self.to_unscored, self.to_unscored)

    def kernel_to_scored(
        self, built: CandidateKernel, distances: Distances, to_unscored: Distances
    ) -> FloatArray:
        """The kernel of the candidate between other rows and the scored rows: (m, n).

        distances, to_unscored : between the other rows and the scored and unscored rows
        """
        return self._between(built, distances, to_unscored, self.to_unscored)

    def square_kernel(self, built: CandidateKernel, rows: Encoded) -> FloatArray:
        """The kernel of the candidate between other rows: (m, m)."""
        to_unscored = Distances(rows, self.unscored)
        return self._between(built, Distances(rows, rows), to_unscored, to_unscored)

    def _between(
        self,
        built: CandidateKernel,
        distances: Distances,
        left_to_unscored: Distances,
        right_to_unscored: Distances,
    ) -> FloatArray:
        similarities = built.similarities
        if built.candidate.second_order:
            means = self.unscored_means(similarities)
            left = second_order_features(similarities, means, left_to_unscored)
            if left_to_unscored is right_to_unscored:
                return left @ left.T
            return left @ second_order_features(similarities, means, right_to_unscored).T
        kernel = sum_of([distances.kernel(similarity) for similarity in similarities])
        if built.candidate.views != "agreement":
            return np.asarray(kernel)
        agreement = self.agreement(built)
        roots = agreement.roots(left_to_unscored)
        right = (
            roots if left_to_unscored is right_to_unscored else agreement.roots(right_to_unscored)
        )
        return np.asarray(kernel / len(similarities) ** 2 - roots @ right.T)

    def variances(self, built: CandidateKernel, rows: Encoded) -> FloatArray:
        """The kernel of every row with itself: (m,)."""
        similarities = built.similarities
        if built.candidate.second_order:
            return np.ones(len(own_kernel(similarities[0], rows)))
        total: FloatArray = np.sum(
            [own_kernel(similarity, rows) for similarity in similarities], axis=0
        )
        if built.candidate.views != "agreement":
            return total
        roots = self.agreement(built).roots(Distances(rows, self.unscored))
        return np.asarray(total / len(similarities) ** 2 - np.sum(roots**2, axis=1))


def second_order_features(
    similarities: Sequence[Similarity], means: FloatArray, unscored: Distances
) -> FloatArray:
    """Rows as what they are similar to: centred similarities to the unscored rows, of length 1: (n,
    u).

    means : (u,) mean similarity of every unscored row to all of them
    """
    values = np.sum([unscored.kernel(similarity) for similarity in similarities], axis=0)
    values = values - values.mean(axis=1, keepdims=True) - means + means.mean()
    lengths = np.sqrt(np.sum(values**2, axis=1, keepdims=True))
    return np.asarray(values / np.maximum(lengths, LEAST_DISTANCE))


def relevance(units: Observations, rows: FloatArray) -> FloatArray:
    """How well encoded columns (n_points, k) go with the scores: max(r² − 1/N, 0), for correlations
    r over N units.
    """
    columns = units.root(rows)
    lengths = np.sqrt(np.sum(columns**2, axis=0)) * np.sqrt(np.sum(units.targets**2))
    correlations = (columns.T @ units.targets) / np.maximum(lengths, LEAST_DISTANCE)
    beyond_chance = correlations**2 - 1 / max(units.n_free, 1)
    factors = np.where(beyond_chance > LEAST_RELEVANCE, beyond_chance, 0.0)
    return factors if factors.any() else np.ones(len(factors))


def widths_per_column(
    units: Observations,
    rows: FloatArray,
    starts: Sequence[tuple[float, float]] = STARTS,
    known: ColumnWidths | None = None,
) -> ColumnWidths:
    """The width of every encoded column (n_points, k) in an rbf kernel under which scored rows, in
    random order, have the largest evidence.

    starts, known : as in `learn_widths`
    """
    weights = units.roots**2 / np.mean(units.roots**2)
    observed = ScoredRows.of(rows[units.first], units.scores, None, weights)
    # a free level is a query whose mean costs nothing
    loss = Pointwise() if units.groups is None else WithinQueries()
    return learn_widths(observed.under(loss, units.base), starts=starts, known=known)


def view_positions(encoding: Encoding, views: Sequence[Any]) -> list[Index]:
    """The encoded columns of every view."""
    return [np.flatnonzero(np.isin(encoding.columns, view.columns)) for view in views]
