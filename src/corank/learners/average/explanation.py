"""Why an average puts one item above another: the weighted sum of what its candidates say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from corank.core.arrays import Array, FloatArray, Index, Mask, is_sparse, take
from corank.core.kernels import UNIT_KERNELS, Kernel, column_shares
from corank.core.messages import count
from corank.learners.average.candidates import Candidate, WeighedCandidate
from corank.learners.average.coefficients import FittedCandidate
from corank.learners.average.encoding import (
    IDENTITY,
    PERSON,
    PERSONS,
    WITHIN_QUERIES,
    rows_over_links,
)
from corank.learners.average.model import AverageModel
from corank.learners.average.posterior import EncodedBlock
from corank.learners.average.similarity import (
    Encoded,
    Similarity,
    Space,
    second_order_features,
)
from corank.learners.pair_explanation import (
    ALL_COLUMNS,
    LIMITED,
    SUM,
    UNSCORED,
    ColumnOwners,
    Contribution,
    Pair,
    PairExplanation,
    PartTerms,
    column_contributions,
    explain_terms,
    matched_rows,
    mixed_rows,
)

MAX_ANSWERS = 400  # scores or comparisons whose parts are worked out one by one
MAX_REASONS = 3  # candidates that `reason_` names
LEAST_SIZE = 1e-9  # of the largest: what is smaller is rounding


def explain_average(
    model: AverageModel,
    pair: Pair,
    columns: ColumnOwners,
    view_names: Sequence[str],
    items_are: str,
    queries: Index | None,
    links: sparse.csr_array | None,
) -> PairExplanation:
    """Explain the difference between two items.

    Parameters
    ----------
    pair : with row numbers of `pair.items` where there are queries or links, which are those of its
        items
    columns : of the table that features come from
    view_names : of the views of the model
    items_are : what its points are called
    """
    if not model.candidates:
        return PairExplanation(*pair.labels, 0.0, [], [], [], SUM, ([], []), items_are)
    terms = _PairTerms.of(model, pair, queries, links)
    raw = terms.functions(terms.encoded)
    clipped = model.limited(raw)
    difference = float(terms.weights @ (clipped[:, 0] - clipped[:, 1]))
    limited = difference - float(terms.weights @ (raw[:, 0] - raw[:, 1]))
    explanation = explain_terms(
        pair,
        difference,
        list(terms.parts(view_names, items_are)),
        terms.by_column(columns, pair.rows),
        find=lambda _: terms.matches(pair),
        items_are=items_are,
        limits=[]
        if np.array_equal(clipped, model.base + raw)
        else [Contribution(LIMITED, limited)],
        answers=terms.by_answer,
    )
    shares, weight = shares_of_distance(model, len(columns.owners))
    return replace(explanation, distance=columns.distance(shares, weight))


def reason_of(candidates: Sequence[WeighedCandidate], n_carrying: int, error: str) -> str:
    """What an average is made of and how good it is, in at most six lines."""
    lines = [(f"An average of {count(n_carrying, 'model')} out of {len(candidates)}.")]
    largest = [f"{line.weight:.0%} {line.what}" for line in candidates[:MAX_REASONS]]
    others = "; less for each of the others" if len(candidates) > MAX_REASONS else ""
    lines.append(f"{'; '.join(largest)}{others}.")
    lines.append(error)
    if any(line.candidate.views == "agreement" for line in candidates):
        share = sum(line.weight for line in candidates if line.candidate.views == "agreement")
        lines.append(
            f"Models whose views agree on unscored rows have {share:.0%} of the weight."
            if share > 0
            else "Agreement between the views does not fit the scores, so it has no weight."
        )
    if any(line.candidate.hops for line in candidates):
        share = sum(line.weight for line in candidates if line.candidate.hops)
        lines.append(f"Models that use linked rows have {share:.0%} of the weight.")
    return "\n".join(lines)


def shares_of_distance(model: AverageModel, n_features: int) -> tuple[FloatArray | None, float]:
    """How much of the distance between rows every feature makes (d,), by widths that candidates
    learned per column, and the weight of these; None where they have none.
    """
    learned = [fitted for fitted in model.candidates if fitted.candidate.per_column]
    weight = sum(fitted.weights[0] for fitted in learned)
    if weight == 0:
        return None, 0.0
    features = {encoding.name: encoding.columns for encoding in model.encodings}
    last = max(int(columns.max(initial=0)) for columns in features.values())
    shares = np.zeros(max(n_features, last + 1))
    for fitted in learned:
        similarity = fitted.similarities[0]
        power = Kernel(similarity.kernel).width_power
        by_column = column_shares(similarity.sight.rows(model.points), power)
        shares[features[similarity.sight.encoding]] += fitted.weights[0] / weight * by_column
    return shares, weight


@dataclass(frozen=True)
class _PairTerms:
    """Two encoded items and the candidates that tell them apart.

    encoded : (2, k) by name; context : names of those that depend on other rows, by query or by
        link
    used : candidates that carry weight; weights : (C,) theirs; side : what rows come with
    functions : of encoded rows, predictions by every candidate, around the base: (C, n)
    """

    model: AverageModel
    encoded: Encoded
    context: Mapping[str, Index]
    used: Sequence[FittedCandidate]
    weights: FloatArray
    side: int
    space: Space
    functions: Callable[[Encoded], FloatArray]

    @property
    def n_points(self) -> int:
        """Number of points of the model."""
        return len(self.used[0].coefficients)

    def share(self, fitted: FittedCandidate) -> float:
        """What the function of a candidate is multiplied by."""
        return fitted.weights[self.side] * fitted.multipliers[self.side]

    @classmethod
    def of(
        cls, model: AverageModel, pair: Pair, queries: Index | None, links: sparse.csr_array | None
    ) -> _PairTerms:
        """Encode two items, with the queries and links of all items where there are any."""
        side = model.side(queries=queries is not None, links=links is not None)
        used = [candidate for candidate in model.candidates if candidate.weights[side] > 0]
        weights = np.asarray([candidate.weights[side] for candidate in used])
        encoded: dict[str, Array] = model.encode(pair.rows, None)
        context: dict[str, Index] = {}
        if queries is not None or links is not None:
            rows_beyond = model.encode(pair.items, queries, links)
            for encoding in model.encodings:
                for hops in (0, *model.hops):
                    name = rows_over_links(encoding.name, hops)
                    if name in rows_beyond and (hops or encoding.name in WITHIN_QUERIES):
                        context[name] = encoding.columns
                        encoded[name] = take(rows_beyond[name], pair.numbers)
        functions = model.functions(used, side)
        # that of the model would stay in memory
        space = Space(model.points, model.unscored, model.view_columns)
        return cls(model, encoded, context, used, weights, side, space, functions)

    def parts(self, view_names: Sequence[str], items_are: str) -> Iterator[PartTerms]:
        """What every kernel of every candidate contributes, by point, or by all unscored rows."""
        block = EncodedBlock(self.encoded, 2, self.space)
        numbers = np.arange(self.n_points)
        labels = [f"{items_are} {number}" for number in numbers]
        if self.model.rows is not None:
            labels = [f"row {row}" for row in self.model.rows]
        for fitted, weight in zip(self.used, self.weights, strict=True):
            share = self.share(fitted)
            similarities = fitted.similarities
            of_unscored = fitted.view_coefficients
            views = [self._view_name(fitted.candidate, each, view_names) for each in similarities]
            if fitted.means is not None and of_unscored is not None:
                first, second = second_order_features(similarities, fitted.means, block.to_unscored)
                values = share * (first - second) * of_unscored[0]
                yield PartTerms(views[0], np.zeros(self.n_points), numbers, labels)
                yield PartTerms(views[0], values, None, [UNSCORED])
                continue
            n_agreeing = 1 if of_unscored is None else len(similarities)
            for number, (similarity, view) in enumerate(zip(similarities, views, strict=True)):
                kernel = block.to_points.kernel(similarity)
                values = share / n_agreeing**2 * fitted.coefficients * (kernel[0] - kernel[1])
                knows = similarity.kernel in UNIT_KERNELS
                alike = kernel / similarity.scale
                yield PartTerms(view, values, numbers, labels, alike, weight if knows else 0.0)
                if of_unscored is not None:
                    first, second = block.to_unscored.kernel(similarity)
                    values = share * (first - second) * of_unscored[number]
                    yield PartTerms(view, values, None, [UNSCORED])

    def by_answer(self, points: Sequence[Contribution]) -> list[Contribution]:
        """What the scores, or comparisons, contribute; none where they are too many, or are not
        kept.

        A candidate is k(x)ᵀ c = k(x)ᵀ Aᵀ g(M) t for answers t, the comparison A, M = A K Aᵀ and a
        shrinkage g of its eigenvalues: one alpha, or the mean over several. Along an eigenvector u
        of M, g is uᵀ v / uᵀ t where Aᵀ v = c. All of this is seen in an orthonormal basis Q of the
        range of A = Q S Vᵀ. O(N³) per candidate.

        points : parts of the points, by which they are called
        """
        units = self.model.units
        if units is None or len(units) > MAX_ANSWERS or units.n_points != len(points):
            return []
        range_basis, sizes, transposed = np.linalg.svd(
            units.root(np.eye(units.n_points)), full_matrices=False
        )
        kept = sizes > LEAST_SIZE * sizes[0]
        range_basis = range_basis[:, kept]
        sizes = sizes[kept]
        transposed = transposed[kept]
        comparison = sizes[:, None] * transposed  # QᵀA
        total = np.zeros(len(units))
        block = EncodedBlock(self.encoded, 2, self.space)
        for fitted in self.used:
            kernel = self.space.new_kernel(fitted)
            first, second = self.space.kernel_to_scored(fitted, block.to_points, block.to_unscored)
            values, vectors = np.linalg.eigh(comparison @ kernel @ comparison.T)
            answers = vectors.T @ (range_basis.T @ units.targets)
            dual = vectors.T @ (transposed @ fitted.coefficients / sizes)
            telling = np.abs(answers) > LEAST_SIZE * np.linalg.norm(answers)
            shrinkage = 1 / (np.maximum(values, 0.0) + fitted.alpha)
            shrinkage[telling] = dual[telling] / answers[telling]
            weights = vectors @ (shrinkage * (vectors.T @ (comparison @ (first - second))))
            total += self.share(fitted) * (range_basis @ weights) * units.targets
        contributions: dict[str, Contribution] = {}
        for number, value in enumerate(total.tolist()):
            winner = points[units.first[number]]
            name = winner.name
            row = winner.row
            if units.second is not None:
                name = f"{name} over {points[units.second[number]].name}"
                row = None
            contributions[name] = Contribution(
                name, value + (contributions[name].value if name in contributions else 0.0), row
            )
        return list(contributions.values())

    def _view_name(self, candidate: Candidate, similarity: Similarity, names: Sequence[str]) -> str:
        """The views that a kernel sees, whether over links, and whose they are."""
        sight, times = similarity.sight, similarity.times
        if times is not None:
            name = self._view_name(candidate, replace(similarity, times=None), names)
            own = times.kernel == PERSON
            return f"{name}, {'of this person alone' if own else 'by columns of the person'}"
        if sight.encoding == PERSON:
            return "the level of the person"
        if sight.encoding == IDENTITY:
            return "the item itself"
        views = self.model.view_columns.get(candidate.encoding, ())
        seen: Sequence[int] = []
        if sight.columns is not None:
            same = [
                number
                for number, columns in enumerate(views)
                if np.array_equal(sight.columns, columns)
            ]
            seen = same[:1] or candidate.of or range(len(views))
        name = " with ".join(names[number] for number in seen) or ALL_COLUMNS
        return f"{name} over links" if sight.encoding != candidate.encoding else name

    def matches(self, pair: Pair) -> tuple[Index, Index] | None:
        """Rows of `pair.items` that are encoded as the points are."""
        if pair.items is None:
            return None
        encoded = self.model.encode(pair.items, None)
        points = []
        items = []
        for name, rows in encoded.items():
            # points are answers of persons about items
            about = name in self.model.points and name not in (PERSON, PERSONS)
            if about and name not in self.context:
                at_points = self.model.points[name]
                if name == IDENTITY:  # codes whose last digits count
                    both = np.maximum(np.vstack([at_points, rows]), -1.0)
                    numbers = (
                        np.unique(both, axis=0, return_inverse=True)[1]
                        .reshape(-1, 1)
                        .astype(np.float64)
                    )
                    at_points, rows = numbers[: len(at_points)], numbers[len(at_points) :]
                points.append(at_points)
                items.append(rows)
        return matched_rows(points, items)

    def by_column(self, columns: ColumnOwners, rows: Array) -> tuple[list[Contribution], str]:
        """Shapley values of the columns in which the items differ, and how they were computed."""
        differs = _differing(rows)
        for name, numbers in self.context.items():
            differs = np.union1d(differs, numbers[_differing(self.encoded[name])])
        players = np.unique(columns.owners[differs])
        additive = all(
            similarity.kernel in ("linear", IDENTITY)
            and similarity.times is None
            and fitted.means is None
            for fitted in self.used
            for similarity in fitted.similarities
        )

        def value(chosen: Mask) -> FloatArray:
            mixed = self.model.encode(mixed_rows(rows, chosen), None)
            mixed |= {
                name: mixed_rows(self.encoded[name], chosen[:, numbers])
                for name, numbers in self.context.items()
            }
            values = self.functions(mixed)
            return self.weights @ (values if additive else self.model.limited(values))

        width = max(rows.shape[1], self.n_points)
        return column_contributions(columns, players, value, width, additive=additive)


def _differing(pair: Array) -> Index:
    """Numbers of the columns in which two rows (2, k) differ."""
    if is_sparse(pair):
        return np.unique((pair[[0]] - pair[[1]]).nonzero()[1])
    return np.flatnonzero(pair[0] != pair[1])
