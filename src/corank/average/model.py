"""The fitted average as one model: what goes into a file, predictions, their uncertainty."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.linalg
from scipy import sparse
from scipy.special import ndtr

from corank._arrays import Array, FloatArray, Index, is_sparse, take
from corank.average.candidates import Candidate, check_candidates, default_candidates
from corank.average.closed_form import LEAST_SCALE, Units
from corank.average.encoding import QUERY_RANKS, STANDARD, Encoding, fit_encoding, rows_over_links
from corank.average.fitting import (
    BLOCK_ENTRIES,
    FittedAverage,
    FittedCandidate,
    base_score,
    basis_factor,
    dual_factor,
    fit_average,
    sees,
    side_of,
)
from corank.average.similarity import Distances, Encoded, Space, row_products, unit_rows, view_positions
from corank.links import propagated, spread_matrix
from corank.model_files.packing import storable
from corank.views import View

MAX_AGREEING = 1_000  # unscored rows on which views agree: more say little more
MAX_KEPT = 20_000  # scored rows that are kept for an update
MAX_POSTERIORS = 8  # heaviest candidates whose posteriors make up the uncertainty
MIN_BLOCK_ROWS = 64
LEAST_TARGET = 1e-12  # of the size of the scores: smaller differences between them are rounding
LIKELY_LINKS, UNLIKELY_LINKS = 1.0, 0.05  # priors of candidates over links: where linked rows are alike, and where not
ALIKE = 4.0  # standard errors by which linked rows must be more alike than others
MAX_JUDGED_LINKS = 20_000
KEPT = 0.05  # the share of its own columns that a row keeps when it sees those of others over links
MAX_SPREAD_ENTRIES = 2e8  # of a sparse matrix that becomes dense over links
LEAST_DEVIATION = 0.1  # of the held-out error is what a standard deviation is at least


@dataclass(frozen=True)
class ScoredTable:
    """Rows with their scores.

    features : (n, d) float64 or CSR; scores : (n,), NaN = unscored; queries : (n,) codes or None; weights : (n,) or None
    links : (n, n) CSR, or None
    """

    features: Array
    scores: FloatArray
    queries: Index | None = None
    weights: FloatArray | None = None
    links: sparse.csr_array | None = None

    @property
    def scored(self) -> Index:
        """Numbers of the rows that have a score and a weight above 0."""
        counted = ~np.isnan(self.scores)
        if self.weights is not None:
            counted &= self.weights > 0
        return np.flatnonzero(counted)

    def take(self, rows: Index) -> ScoredTable:
        """The chosen rows, without links; the table itself where they are all of them."""
        if np.array_equal(rows, np.arange(len(self.scores))):
            return self
        return ScoredTable(
            take(self.features, rows),
            self.scores[rows],
            None if self.queries is None else self.queries[rows],
            None if self.weights is None else self.weights[rows],
        )


@dataclass(frozen=True)
class AverageSettings:
    """What an average is made of.

    ranks : whether only the order within queries counts
    views : with columns as numbers; kinds : what each of them holds, where they were found and not declared
    groups : numbers of the columns that share one scale
    candidates : None for the default list
    """

    ranks: bool
    fit_intercept: bool = True
    views: Sequence[View] = ()
    kinds: Sequence[str] = ()
    groups: Sequence[Index] = ()
    candidates: Sequence[Candidate] | None = None
    seed: int = 0


@storable("AverageModel")
@dataclass(frozen=True)
class AverageModel:
    """A fitted average.

    encodings : what columns become
    points : encoded rows of the functions, by the name of the encoding; unscored : those on which views agree
    view_columns : by the name of the encoding, the encoded columns of every view
    candidates : those that carry weight, heaviest first; none where there is nothing to learn
    base, low, high : mean score, and between what predictions lie
    factor : by which standard deviations are multiplied; least_deviation : what they are at least
    units : what was fitted, None where the rows are too many to keep
    scored : encoded scored rows, as `points` where those are all rows
    hops : numbers of links over which rows see each other, none without links
    """

    encodings: list[Encoding]
    points: Mapping[str, Array]
    unscored: Mapping[str, Array]
    view_columns: Mapping[str, Sequence[Index]]
    candidates: list[FittedCandidate]
    base: float
    low: float
    high: float
    factor: float
    least_deviation: float
    units: Units | None
    scored: Mapping[str, Array] | None
    hops: list[int]

    # ---------------------------------------------------------------- predictions

    def predict(self, features: Array, queries: Index | None, links: sparse.csr_array | None = None) -> FloatArray:
        """Predictions (n,). O(n r d), in blocks."""
        side = self._side(queries=queries is not None, links=links is not None)
        result = np.full(int(features.shape[0]), self.base)
        if not self.candidates:
            return result
        used = [candidate for candidate in self.candidates if candidate.weights[side] > 0]
        for rows, encoded in self._blocks(features, queries, links):
            values = self._values(encoded, used, side)
            weights = np.asarray([candidate.weights[side] for candidate in used])
            result[rows] = weights @ values
        return result

    def _side(self, *, queries: bool, links: bool) -> int:
        """The side of rows that come with query labels or links; an error where no candidate can be had from such rows."""
        side = side_of(queries=queries, links=links)
        blind = [
            c for c in self.candidates if c.weights[side] > 0 and not sees(c.candidate, queries=queries, links=links)
        ]
        if blind:
            missing = "links" if blind[0].candidate.hops else "qid"
            raise ValueError(f"{missing} must be given: no candidate of this model can do without.")
        return side

    def _values(self, encoded: Encoded, used: Sequence[FittedCandidate], side: int) -> FloatArray:
        """The prediction of every candidate, within the bounds: (C, n)."""
        points, unscored = Distances(encoded, self.points), Distances(encoded, self.unscored)
        values = [candidate.multipliers[side] * candidate.values(points, unscored) for candidate in used]
        return np.clip(self.base + np.asarray(values), self.low, self.high)

    def encode(self, features: Array, queries: Index | None, links: sparse.csr_array | None = None) -> dict[str, Array]:
        """Rows by name: by every encoding, those within queries only with query codes, those over links only with links."""
        encoded = {
            encoding.name: encoding.encode(features, queries)
            for encoding in self.encodings
            if queries is not None or encoding.name != QUERY_RANKS
        }
        return encoded | rows_beyond(encoded, self._travels, links)

    @property
    def _travels(self) -> set[tuple[str, int]]:
        """Encodings, and the number of links over which rows see them."""
        names = [encoding.name for encoding in self.encodings]
        return {(name, hops) for name in names for hops in self.hops if rows_over_links(name, hops) in self.points}

    def _blocks(
        self, features: Array, queries: Index | None, links: sparse.csr_array | None = None, width: int = 0
    ) -> Iterator[tuple[slice, Encoded]]:
        """Encoded rows in runs whose kernel values fit into a block."""
        whole: dict[str, Array] = {
            e.name: e.encode(features, queries) for e in self.encodings if e.name == QUERY_RANKS and queries is not None
        }
        used = {(f.candidate.encoding, f.candidate.hops) for f in self.candidates if f.candidate.hops}
        if links is not None:
            spread = {name for name, _ in used}
            encoded_whole = {e.name: e.encode(features, None) for e in self.encodings if e.name in spread}
            whole |= rows_beyond(encoded_whole, used, links)
        others = [encoding for encoding in self.encodings if encoding.name != QUERY_RANKS]
        n = int(features.shape[0])
        step = width or max(MIN_BLOCK_ROWS, BLOCK_ENTRIES // 4 // max(1, self._n_points))
        for begin in range(0, n, step):
            rows = slice(begin, min(begin + step, n))
            block = take(features, rows)
            encoded = {encoding.name: encoding.encode(block, None) for encoding in others}
            yield rows, encoded | {name: matrix[rows] for name, matrix in whole.items()}

    @property
    def _n_points(self) -> int:
        return len(self.candidates[0].coefficients)

    # ---------------------------------------------------------------- uncertainty

    @cached_property
    def _space(self) -> Space:
        return Space(self.points, self.unscored, self.view_columns)

    @cached_property
    def _posteriors(self) -> dict[int, CandidatePosterior]:
        return {}

    def _posterior(self, number: int) -> CandidatePosterior:
        if number not in self._posteriors:
            self._posteriors[number] = CandidatePosterior.of(self.candidates[number], self._space, self.units)
        return self._posteriors[number]

    def _heaviest(self, side: int) -> tuple[list[int], FloatArray]:
        """The candidates whose posteriors make up the uncertainty, and their weights, which sum to 1."""
        order = sorted(range(len(self.candidates)), key=lambda number: -self.candidates[number].weights[side])
        chosen = [number for number in order[:MAX_POSTERIORS] if self.candidates[number].weights[side] > 0]
        weights = np.asarray([self.candidates[number].weights[side] for number in chosen])
        return chosen, weights / weights.sum()

    def deviations(self, features: Array, queries: Index | None, links: sparse.csr_array | None = None) -> FloatArray:
        """Standard deviations (n,) of new scores of the rows, noise included."""
        n = int(features.shape[0])
        if not self.candidates:
            return np.full(n, self.least_deviation / LEAST_DEVIATION)
        side = self._side(queries=queries is not None, links=links is not None)
        chosen, weights = self._heaviest(side)
        result = np.empty(n)
        for rows, encoded in self._blocks(features, queries, links):
            values = self._values(encoded, [self.candidates[number] for number in chosen], side)
            between = weights @ (values - weights @ values) ** 2
            within = np.zeros(values.shape[1])
            for number, weight in zip(chosen, weights, strict=True):
                candidate = self.candidates[number]
                scale = candidate.amplitude * candidate.multipliers[side] ** 2
                within += weight * scale * (self._posterior(number).variances(encoded) + candidate.alpha)
            result[rows] = self.factor * np.sqrt(within + between)
        return np.maximum(result, self.least_deviation)

    def belief(
        self, features: Array, rows: Index, links: sparse.csr_array | None = None
    ) -> tuple[FloatArray, FloatArray, float]:
        """Mean (n,) and covariance (n, n) of the function at the chosen rows, and the noise variance of a score."""
        n = len(rows)
        side = self._side(queries=False, links=links is not None)
        if not self.candidates:
            return np.full(n, self.base), np.eye(n), 1.0
        chosen, weights = self._heaviest(side)
        if links is None:
            encoded = self.encode(take(features, rows), None)
        else:
            encoded = {name: take(matrix, rows) for name, matrix in self.encode(features, None, links).items()}
        values = self._values(encoded, [self.candidates[number] for number in chosen], side)
        mean = weights @ values
        covariance = (values - mean).T @ ((values - mean) * weights[:, None])
        noise = 0.0
        for number, weight in zip(chosen, weights, strict=True):
            candidate = self.candidates[number]
            scale = weight * candidate.amplitude * candidate.multipliers[side] ** 2
            covariance = covariance + scale * self._posterior(number).covariance(encoded)
            noise += scale * candidate.alpha
        return mean, self.factor**2 * covariance, self.factor**2 * noise

    def chances(self, first: Array, second: Array, *, observed: bool) -> FloatArray:
        """The probability (n,) that rows of `first` are above those of `second`, row by row."""
        n = int(first.shape[0])
        result = np.full(n, 0.5)
        if not self.candidates:
            return result
        side = self._side(queries=False, links=False)
        chosen, weights = self._heaviest(side)
        used = [self.candidates[number] for number in chosen]
        pairs = zip(
            self._blocks(first, None, width=MIN_BLOCK_ROWS),
            self._blocks(second, None, width=MIN_BLOCK_ROWS),
            strict=True,
        )
        for (rows, left), (_, right) in pairs:
            gaps = self._values(left, used, side) - self._values(right, used, side)
            mean = weights @ gaps
            variance = weights @ (gaps - mean) ** 2
            for number, weight in zip(chosen, weights, strict=True):
                candidate = self.candidates[number]
                scale = weight * candidate.amplitude * candidate.multipliers[side] ** 2
                variance += scale * self._posterior(number).difference_variances(left, right)
                variance += scale * 2 * candidate.alpha * observed
            deviation = self.factor * np.sqrt(np.maximum(variance, LEAST_SCALE))
            result[rows] = ndtr(mean / deviation)
        return result


@dataclass(frozen=True)
class CandidatePosterior:
    """The posterior of the function of a candidate, in units of its amplitude, around its mean over the units.

    root : (k, r) turns kernel values with the points into what the units explain, by its squares
    mean : (r,) the shares of points in the level that is taken out; kernel_mean : (r,) K mean; mean_square : meanᵀ K mean
    """

    fitted: FittedCandidate
    space: Space
    root: FloatArray
    kernel_mean: FloatArray
    mean: FloatArray
    mean_square: float
    basis_root: FloatArray | None = None

    @classmethod
    def of(cls, fitted: FittedCandidate, space: Space, units: Units | None) -> CandidatePosterior:
        """Factorise the system of a fitted candidate again. O(r³)."""
        kernel = space.kernel(fitted.candidate, fitted.similarities)
        r = len(kernel)
        identity = np.eye(r)
        if fitted.basis is not None:
            gram, directions = fitted.basis
            basis_root = directions.T
            lower = basis_factor(gram, fitted.alpha)[0]
            root = np.sqrt(fitted.alpha) * scipy.linalg.solve_triangular(lower, basis_root, lower=True)
            has_level = units is None or units.groups is not None or units.second is not None
            mean = np.full(r, 1 / r if has_level else 0.0)
            return cls(fitted, space, root, kernel @ mean, mean, float(mean @ kernel @ mean), basis_root)
        assert units is not None
        lower = dual_factor(kernel, units, fitted.alpha)[0]
        root = scipy.linalg.solve_triangular(np.tril(lower), units.root(identity), lower=True)
        mean = np.zeros(r)
        if units.second is not None:
            mean = np.full(r, 1 / r)
        elif units.groups is not None:
            np.add.at(mean, units.first, units.roots**2 / np.sum(units.roots**2))
        kernel_mean = kernel @ mean
        return cls(fitted, space, root, kernel_mean, mean, float(mean @ kernel_mean))

    def _cross(self, encoded: Encoded) -> FloatArray:
        return self.space.cross_kernel(self.fitted.candidate, self.fitted.similarities, encoded)

    def variances(self, encoded: Encoded) -> FloatArray:
        """(n,)."""
        cross = self._cross(encoded)
        prior = self.space.variances(self.fitted.candidate, self.fitted.similarities, encoded)
        prior = prior - 2 * cross @ self.mean + self.mean_square
        return np.maximum(self._explained(prior, cross - self.kernel_mean), 0.0)

    def _explained(self, prior: FloatArray, cross: FloatArray) -> FloatArray:
        squares: FloatArray = np.sum((cross @ self.root.T) ** 2, axis=1)
        if self.basis_root is None:
            return prior - squares
        outside = np.maximum(prior - np.sum((cross @ self.basis_root.T) ** 2, axis=1), 0.0)
        return np.asarray(outside + squares)

    def covariance(self, encoded: Encoded) -> FloatArray:
        """(n, n)."""
        cross = self._cross(encoded)
        prior = self.space.square_kernel(self.fitted.candidate, self.fitted.similarities, encoded)
        levels = cross @ self.mean
        prior = prior - levels[:, None] - levels[None, :] + self.mean_square
        roots = (cross - self.kernel_mean) @ self.root.T
        if self.basis_root is None:
            return prior - roots @ roots.T
        inner = cross @ self.basis_root.T
        return prior - inner @ inner.T + roots @ roots.T

    def difference_variances(self, left: Encoded, right: Encoded) -> FloatArray:
        """Variances of the differences between rows of two blocks, row by row: (n,)."""
        candidate, similarities = self.fitted.candidate, self.fitted.similarities
        joined = {name: stacked_rows(left[name], right[name]) for name in left}
        square = self.space.square_kernel(candidate, similarities, joined)
        n = len(square) // 2
        diagonal = np.diag(square)
        prior = diagonal[:n] + diagonal[n:] - 2 * np.diagonal(square[:n, n:])
        cross = self._cross(left) - self._cross(right)
        return np.maximum(self._explained(prior, cross), 0.0)


def stacked_rows(first: Array, second: Array) -> Array:
    """Rows of one matrix and then those of another, both dense or both CSR."""
    if is_sparse(first):
        return sparse.csr_array(sparse.vstack([first, second]))
    return np.vstack([first, second])


# ---------------------------------------------------------------- from rows to a model


def score_units(
    scores: FloatArray, queries: Index | None, weights: FloatArray | None, settings: AverageSettings
) -> Units:
    """Scored rows as units.

    Rankers: the level of every query is free and queries are held out; rows of the only query are held out one by one.
    Regressors: one level is free, unless there is no intercept; rows are held out one by one, or with their queries.
    """
    n = len(scores)
    roots = np.ones(n) if weights is None else np.sqrt(weights)
    groups: Index | None = np.zeros(n, dtype=np.int64)
    folds: Index = np.arange(n)
    whole = False
    codes = None if queries is None else np.unique(queries, return_inverse=True)[1]
    several = codes if codes is not None and int(codes.max()) > 0 else None
    if settings.ranks and several is not None:
        groups, folds, whole = several, several, True
    elif not settings.ranks:
        groups = groups if settings.fit_intercept else None
        folds = folds if several is None else several
    return Units(scores, roots, np.arange(n), None, groups, folds, whole, n, codes)


def compared_units(
    winners: Index, losers: Index, margins: FloatArray, weights: FloatArray, groups: Index, n_items: int
) -> Units:
    """Comparisons as units; `groups` (p,) are held out together."""
    folds = np.unique(groups, return_inverse=True)[1]
    return Units(margins, np.sqrt(weights), winners, losers, None, folds, True, n_items)


def comparable(scores: FloatArray, queries: Index | None) -> Index:
    """The rows that can be compared with another one of their query; all rows where there is none."""
    if queries is None:
        return np.arange(len(scores))
    codes = np.unique(queries, return_inverse=True)[1]
    chosen = np.flatnonzero(np.bincount(codes)[codes] > 1)
    return chosen if len(chosen) else np.arange(len(scores))


def fit_table(table: ScoredTable, settings: AverageSettings) -> tuple[AverageModel, FittedAverage | None]:
    """Fit the average to the scored rows of a table, with encodings from all its rows.

    The second value is None where there is nothing to learn: one scored row, or scores that are all tied.
    """
    scored = table.scored
    if settings.ranks and table.queries is not None:
        scored = scored[comparable(table.scores[scored], table.queries[scored])]
    unscored = np.flatnonzero(np.isnan(table.scores))
    queries = table.queries if settings.ranks else None
    prior = prior_of_links(table.features, table.links, settings)
    has_queries = queries is not None
    candidates = _candidates(
        table.features, settings, has_queries=has_queries, agree=len(unscored) > 0, links_prior=prior
    )
    space, encodings = _space(table, scored, unscored, candidates, settings)
    chosen = table.take(scored)
    units = score_units(chosen.scores, chosen.queries, chosen.weights, settings)
    return fit_space(space, encodings, candidates, units, settings)


def fit_items(
    features: Array, compared: Index, links: sparse.csr_array | None, units: Units, settings: AverageSettings
) -> tuple[AverageModel, FittedAverage | None]:
    """Fit the average to comparisons of some items, with encodings from all of them; units number the compared items."""
    others = np.setdiff1d(np.arange(int(features.shape[0])), compared)
    prior = prior_of_links(features, links, settings)
    candidates = _candidates(features, settings, has_queries=False, agree=len(others) > 0, links_prior=prior)
    table = ScoredTable(features, np.empty(0), links=links)
    space, encodings = _space(table, compared, others, candidates, settings)
    return fit_space(space, encodings, candidates, units, settings)


def _space(
    table: ScoredTable, scored: Index, unscored: Index, candidates: Sequence[Candidate], settings: AverageSettings
) -> tuple[Space, list[Encoding]]:
    """Encoded rows, with encodings learned from all rows of a table."""
    queries = table.queries if settings.ranks else None
    names = dict.fromkeys(candidate.encoding for candidate in candidates)
    centred = settings.fit_intercept
    fitted = [fit_encoding(name, table.features, queries, centred=centred, groups=settings.groups) for name in names]
    encodings = [encoding for encoding in fitted if encoding is not None]
    encoded = {encoding.name: encoding.encode(table.features, queries) for encoding in encodings}
    travels = {(c.encoding, c.hops) for c in candidates if c.hops and c.encoding in encoded}
    encoded |= rows_beyond(encoded, travels, table.links)
    if len(unscored) > MAX_AGREEING:
        rng = np.random.default_rng([settings.seed, 3])
        unscored = np.sort(rng.choice(unscored, MAX_AGREEING, replace=False))
    agreeing = {candidate.rows for candidate in candidates if candidate.needs_unscored}
    everything = np.array_equal(scored, np.arange(int(table.features.shape[0])))
    space = Space(
        {name: matrix if everything else take(matrix, scored) for name, matrix in encoded.items()},
        {name: take(encoded[name], unscored) for name in agreeing & set(encoded)} if len(unscored) else {},
        {encoding.name: view_positions(encoding, settings.views) for encoding in encodings},
    )
    return space, encodings


def fit_space(
    space: Space,
    encodings: Sequence[Encoding],
    candidates: Sequence[Candidate],
    units: Units,
    settings: AverageSettings,
) -> tuple[AverageModel, FittedAverage | None]:
    """Fit the average to units between encoded rows."""
    usable = [candidate for candidate in candidates if space.can_build(candidate)]
    constant = AverageModel(
        encodings=list(encodings),
        points=space.scored,
        unscored=space.unscored,
        view_columns=space.view_columns,
        candidates=[],
        base=base_score(units),
        low=-np.inf,
        high=np.inf,
        factor=1.0,
        least_deviation=LEAST_DEVIATION * max(float(units.scores.std()), 0.0),
        units=units if units.n_points <= MAX_KEPT else None,
        scored=space.scored if units.n_points <= MAX_KEPT else None,
        hops=sorted({candidate.hops for candidate in usable if candidate.hops}),
    )
    spread = float(np.max(np.abs(units.targets), initial=0.0))
    tied = spread <= LEAST_TARGET * max(float(np.max(np.abs(units.scores))), LEAST_SCALE)
    if not usable or units.n_free < 1 or int(units.folds.max()) < 1 or tied:
        return constant, None
    average = fit_average(space, usable, units, ranks=settings.ranks, seed=settings.seed)
    judged = average.residuals[np.isfinite(average.residuals)]  # and one as large as the spread, should all be zero
    size = float(np.sqrt((np.sum(judged**2) + np.var(units.scores)) / (len(judged) + 1)))
    model = replace(
        constant,
        candidates=average.candidates,
        low=average.low,
        high=average.high,
        factor=average.residual_factor,
        least_deviation=LEAST_DEVIATION * size,
        points=space.scored
        if len(average.points) == units.n_points
        else {name: take(matrix, average.points) for name, matrix in space.scored.items()},
    )
    return model, average


def rows_beyond(
    encoded: Encoded, travels: Collection[tuple[str, int]], links: sparse.csr_array | None
) -> dict[str, Array]:
    """Encoded rows that see the columns of others over links, by name.

    travels : the names of encodings, and over how many links
    """
    if links is None:
        return {}
    spread = spread_matrix(links)
    seen: dict[str, Array] = {}
    for name in dict.fromkeys(name for name, _ in travels):
        rows = encoded[name]
        if is_sparse(rows) and rows.shape[0] * rows.shape[1] > MAX_SPREAD_ENTRIES:
            raise ValueError(
                f"links make a sparse X dense, and {rows.shape[0]:,} rows x {rows.shape[1]:,} columns are too many for that: "
                "reduce the columns first, for instance with scikit-learn's TruncatedSVD."
            )
        hops = sorted(number for other, number in travels if other == name)
        for number, matrix in propagated(spread, rows, hops, KEPT).items():
            seen[rows_over_links(name, number)] = matrix
    return seen


def prior_of_links(features: Array, links: sparse.csr_array | None, settings: AverageSettings) -> float:
    """The prior of candidates over links, before scores are seen.

    Links that join rows which are no more alike than any two are probably noise: the mean cosine between linked rows is
    compared with that between the same rows at random.
    """
    if links is None:
        return 0.0
    pairs = sparse.coo_array(sparse.triu(links + links.T))
    if pairs.nnz == 0:
        return UNLIKELY_LINKS
    rng = np.random.default_rng([settings.seed, 4])
    chosen = rng.choice(pairs.nnz, min(pairs.nnz, MAX_JUDGED_LINKS), replace=False)
    first, second = pairs.row[chosen], pairs.col[chosen]
    used, ends = np.unique(np.concatenate([first, second]), return_inverse=True)
    encoding = fit_encoding(STANDARD, take(features, used), None, groups=settings.groups)
    if encoding is None:
        return UNLIKELY_LINKS
    rows = unit_rows(encoding.encode(take(features, used), None))
    left, right = take(rows, ends[: len(chosen)]), take(rows, ends[len(chosen) :])
    linked, random = row_products(left, right), row_products(left, take(right, rng.permutation(len(chosen))))
    error = np.sqrt((linked.var() + random.var()) / len(chosen))
    return LIKELY_LINKS if linked.mean() - random.mean() > ALIKE * error else UNLIKELY_LINKS


def _candidates(
    features: Array, settings: AverageSettings, *, has_queries: bool, agree: bool, links_prior: float = 0.0
) -> list[Candidate]:
    if settings.candidates is not None:
        check_candidates(settings.candidates, len(settings.views))
        if not links_prior and all(candidate.hops for candidate in settings.candidates):
            raise ValueError("candidates: all of them see columns over links, but links= is not given.")
        return list(settings.candidates)
    kernels = [view.kernel if isinstance(view.kernel, str) else "rbf" for view in settings.views]
    return default_candidates(
        is_csr=is_sparse(features),
        has_queries=has_queries,
        view_kernels=kernels,
        kinds=settings.kinds,
        agree=agree,
        links_prior=links_prior,
    )


def extended(
    model: AverageModel, table: ScoredTable, settings: AverageSettings
) -> tuple[AverageModel, FittedAverage | None]:
    """The average fitted anew to the rows that a model has kept and those of a table; encodings stay."""
    assert model.units is not None
    assert model.scored is not None
    units = model.units
    rows = table.scored
    encoded = model.encode(table.features, table.queries if settings.ranks else None, table.links)
    scored = {name: stacked_rows(matrix, take(encoded[name], rows)) for name, matrix in model.scored.items()}
    new = table.take(rows)
    n_queries = 0 if units.queries is None else int(units.queries.max()) + 1
    queries = None
    if units.queries is not None and new.queries is not None:
        queries = np.concatenate([units.queries, n_queries + new.queries])
    weights = np.concatenate([units.roots**2, np.ones(len(rows)) if new.weights is None else new.weights])
    joined = score_units(np.concatenate([units.scores, new.scores]), queries, weights, settings)
    space = Space(scored, model.unscored, model.view_columns)
    candidates = _candidates(
        table.features,
        settings,
        has_queries=QUERY_RANKS in scored,
        agree=bool(model.unscored),
        links_prior=prior_of_links(table.features, table.links, settings),
    )
    return fit_space(space, model.encodings, candidates, joined, settings)
