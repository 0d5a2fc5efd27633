"""The fitted average as one model: what goes into a file, predictions, their uncertainty."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated

import numpy as np
from scipy import sparse

from corank.core.arrays import (
    Array,
    FloatArray,
    Index,
    in_order,
    is_sparse,
    runs_of_rows,
    take,
)
from corank.core.kernels import unit_rows
from corank.core.storable import (
    ADDED_LATER,
    Finite,
    by_name,
    feature_rows,
    several,
    storable,
    whole,
)
from corank.learners.average.candidates import (
    MAX_HOPS,
    Candidate,
    check_candidates,
    default_candidates,
)
from corank.learners.average.closed_form import Observations
from corank.learners.average.coefficients import FittedCandidate, LaterAnswers
from corank.learners.average.encoding import (
    IDENTITY,
    PERSON,
    PERSONS,
    STANDARD,
    WITHIN_QUERIES,
    Encoding,
    NormalScores,
    block_encoder,
    fit_encoding,
    rows_over_links,
)
from corank.learners.average.expansions import Expansions
from corank.learners.average.fitting import (
    FEW_REFITTED,
    FittedAverage,
    fit_average,
    learned_widths,
    sees,
    side_of,
    told,
)
from corank.learners.average.persons import Factors, factors_of_table, with_roles
from corank.learners.average.posterior import (
    CandidateProcess,
    ConstantProcess,
    RowsToEncode,
)
from corank.learners.average.scored_table import (
    AverageSettings,
    EncodedTable,
    RowsOfScan,
    ScoredTable,
)
from corank.learners.average.similarity import (
    Encoded,
    Space,
    row_products,
    view_positions,
)
from corank.links import propagated, spread_matrix
from corank.solve.posterior import Posterior
from corank.solve.spectrum import LEAST

MAX_AGREEING = 1_000  # unscored rows on which views agree: more say little more
MAX_KEPT = 20_000  # scored rows that are kept for an update
MAX_POSTERIORS = 8  # heaviest candidates whose posteriors make up the uncertainty
MAX_POSTERIOR_ENTRIES = 75_000_000  # of their matrices together, 600 MB: three of 5,000 points
BLOCK_ENTRIES = 2**16  # kernel values at a time: 512 KB, which stay in a cache
MIN_BLOCK_ROWS = 64
LEAST_TARGET = 1e-12  # of the size of the scores: smaller differences between them are rounding
# priors of candidates over links: where linked rows are alike, and where not
LIKELY_LINKS, UNLIKELY_LINKS = 1.0, 0.05
ALIKE = 4.0  # standard errors by which linked rows must be more alike than others
MAX_JUDGED_LINKS = 20_000
KEPT = 0.05  # the share of its own columns that a row keeps when it sees those of others over links
MAX_SPREAD_ENTRIES = 2e8  # of a sparse matrix that becomes dense over links
LEAST_REMARK = 0.005  # of the weight is worth a word
FACTOR_ROWS = 10_000  # predicted by factors at a time
# answers of persons about items up to which kernels between all of them fit into memory
MAX_EXACT_ANSWERS = 8_000
LEAST_DEVIATION = 0.1  # of the held-out error is what a standard deviation is at least


@storable("AverageModel")
@dataclass(frozen=True)
class AverageModel:
    """A fitted average.

    encodings : what columns become
    points : encoded rows of the functions, by the name of the encoding; unscored : those on which
        views agree
    view_columns : by the name of the encoding, the encoded columns of every view
    candidates : those that carry weight, heaviest first; none where there is nothing to learn
    base, low, high : mean score, and between what predictions lie
    factor : by which standard deviations are multiplied; least_deviation : what they are at least
    units : what was fitted, None where the rows are too many to keep
    scored : encoded scored rows, as `points` where those are all rows
    hops : numbers of links over which rows see each other, none without links
    rows : (f,) numbers of the points as rows that were given, None where points are all scored rows
    later : answers of persons who came after the fit; None without
    factors : vectors of persons and items in place of candidates, where answers are very many
    """

    encodings: list[Encoding]
    points: Annotated[Mapping[str, Array], by_name(feature_rows("f", "_"))]
    unscored: Annotated[Mapping[str, Array], by_name(feature_rows("_", "_"))]
    view_columns: Annotated[Mapping[str, Sequence[Index]], by_name(several(whole("_")))]
    candidates: list[FittedCandidate]
    base: Finite
    low: float
    high: float
    factor: Finite
    least_deviation: Finite
    units: Observations | None
    scored: Annotated[Mapping[str, Array] | None, by_name(feature_rows("_", "_")) | None]
    hops: list[int]
    rows: Annotated[Index | None, whole("f") | None] = None
    later: LaterAnswers | None = field(default=None, metadata={ADDED_LATER: True})
    factors: Factors | None = field(default=None, metadata={ADDED_LATER: True})

    def is_sound(self) -> bool:
        """Whether what was kept goes together."""
        fits = True
        if self.scored is not None and self.units is not None:
            fits = all(rows.shape[0] == self.units.n_points for rows in self.scored.values())
        if self.later is not None and len(self.later.coefficients) != len(self.candidates):
            return False
        return fits and max(self.hops, default=0) <= MAX_HOPS

    def as_given(self, average: FittedAverage | None, rows: Index, units: Index) -> AverageModel:
        """The model with its points and units in the order of the numbers that they were given
        with.

        average : that the model was made of; rows, units : the numbers of all rows, or items, that
            were fitted, and of the units
        """
        order = np.argsort(rows)
        given = rows if average is None else rows[average.points]
        points = np.argsort(given)
        at_points = {name: take(matrix, points) for name, matrix in self.points.items()}
        fitted = None
        scored: Mapping[str, Array] | None = None
        if self.units is not None and self.scored is not None:
            fitted = self.units.take(np.argsort(units)).renumbered(order)
            scored = at_points  # a file keeps them once
            if self.points is not self.scored:
                scored = {name: take(matrix, order) for name, matrix in self.scored.items()}
        return replace(
            self,
            points=at_points,
            candidates=[candidate.with_points(points) for candidate in self.candidates],
            units=fitted,
            scored=scored,
            rows=None if fitted is not None and len(given) == len(rows) else given[points],
        )

    # ---------------------------------------------------------------- predictions

    def predict(
        self, features: Array, queries: Index | None, links: sparse.csr_array | None = None
    ) -> FloatArray:
        """Predictions (n,). O(n r d), in blocks."""
        side = self.side(queries=queries is not None, links=links is not None)
        return self._means(self._encoder(features, queries, links), features.shape[0], side)

    def predict_encoded(self, table: EncodedTable) -> FloatArray:
        """Predictions (n,) of rows, without queries and links, that are encoded already."""
        rows = {
            each.name: (
                each.limited(table.rows(each.name))
                if isinstance(each, NormalScores)
                else table.rows(each.name)
            )
            for each in self.encodings
        }
        side = self.side(queries=False, links=False)
        return self._means(
            lambda run: {name: matrix[run] for name, matrix in rows.items()}, len(table), side
        )

    def _means(self, encode: Callable[[slice | Index], Encoded], n: int, side: int) -> FloatArray:
        if self.factors is not None:
            runs = runs_of_rows(n, FACTOR_ROWS)
            values = np.concatenate([self.factors.of_rows(encode(run)) for run in runs])
            return np.asarray(np.clip(values, self.low, self.high))
        if not self.candidates:
            return np.full(n, self.base)
        used = [candidate for candidate in self.candidates if candidate.weights[side] > 0]
        weights = np.asarray([candidate.weights[side] for candidate in used])
        functions = self.functions(used, side)
        runs = runs_of_rows(n, self._block_rows)
        blocks = in_order(
            lambda rows: weights @ self.limited(functions(encode(rows))), runs, weights
        )
        return np.concatenate([np.empty(0), *blocks])

    def side(self, *, queries: bool, links: bool) -> int:
        """The side of rows that come with query labels or links; an error where no candidate can be
        had from such rows.
        """
        side = side_of(queries=queries, links=links)
        blind = [
            c
            for c in self.candidates
            if c.weights[side] > 0 and not sees(c.candidate, queries=queries, links=links)
        ]
        if blind:
            missing = "links" if blind[0].candidate.hops else "qid"
            raise ValueError(f"{missing} must be given: no candidate of this model can do without.")
        return side

    def functions(
        self, used: Sequence[FittedCandidate], side: int
    ) -> Callable[[Encoded], FloatArray]:
        """A function of encoded rows: predictions by every candidate, around the base: (C, n)."""
        expansions = Expansions(used, self.points, self.unscored)
        multipliers = np.asarray([[candidate.multipliers[side]] for candidate in used])
        if self.later is None:
            return lambda encoded: multipliers * expansions.values(encoded)
        deviations = Expansions(
            [
                replace(
                    each,
                    similarities=each.own_similarities,
                    coefficients=self.later.coefficients[self._number_of(each)],
                    view_coefficients=None,
                    means=None,
                    level=0.0,
                )
                for each in used
            ],
            self.later.rows,
            {},
        )
        return lambda encoded: (
            multipliers * (expansions.values(encoded) + deviations.values(encoded))
        )

    def _number_of(self, fitted: FittedCandidate) -> int:
        return next(number for number, each in enumerate(self.candidates) if each is fitted)

    def with_newcomers(self, table: ScoredTable, settings: AverageSettings) -> AverageModel | None:
        """The model with deviations of persons who were not there in the fit, by their answers; None
        where others answer, too. O(C m r) for m answers and r points.
        """
        rows = table.take(table.scored)
        persons = settings.persons(rows.features)
        if persons is not None and self.factors is not None:
            if (persons < 0).any() or np.isin(persons, self.factors.persons.codes).any():
                return None
            encoded = self.encode(rows.features, None)
            return replace(self, factors=self.factors.with_persons(encoded, rows.scores))
        if persons is None or not self.candidates or PERSON not in self.points:
            return None
        if (persons < 0).any() or np.isin(persons, self.points[PERSON]).any():
            return None
        weights = np.ones(len(persons)) if rows.weights is None else rows.weights
        encoded = self.encode(rows.features, None)
        later = LaterAnswers(encoded, rows.scores, weights, persons)
        if self.later is not None:
            later = self.later.followed_by(later)
        values = Expansions(self.candidates, self.points, self.unscored).values(later.rows)
        fitted = later.fitted(self.candidates, self.base + values, free_level=settings.ranks)
        return replace(self, later=fitted)

    def limited(self, values: FloatArray) -> FloatArray:
        """Values around the base as predictions within the bounds."""
        return np.clip(self.base + values, self.low, self.high)

    def encode(
        self, features: Array, queries: Index | None, links: sparse.csr_array | None = None
    ) -> dict[str, Array]:
        """Rows by name: by every encoding, those within queries only with query codes, those over
        links only with links.
        """
        travels = {
            (encoding.name, hops)
            for encoding in self.encodings
            for hops in self.hops
            if rows_over_links(encoding.name, hops) in self.points
        }
        return self._encoder(features, queries, links, travels)(slice(None))

    def _encoder(
        self,
        features: Array,
        queries: Index | None,
        links: sparse.csr_array | None = None,
        travels: Collection[tuple[str, int]] | None = None,
    ) -> Callable[[slice | Index], dict[str, Array]]:
        """A function that encodes a run of rows; columns that depend on other rows are encoded
        once, for all rows.

        travels : encodings, and over how many links rows see them; None for those of candidates
        """
        encode = block_encoder(self.encodings, features, queries)
        if links is None:
            return encode
        if travels is None:
            kinds = [fitted.candidate for fitted in self.candidates]
            travels = {(each.encoding, each.hops) for each in kinds if each.hops}
        spread = {name for name, _ in travels}
        encoded = {e.name: e.encode(features, None) for e in self.encodings if e.name in spread}
        beyond = rows_beyond(encoded, travels, links)
        return lambda rows: encode(rows) | {name: matrix[rows] for name, matrix in beyond.items()}

    @property
    def _block_rows(self) -> int:
        """Rows at a time, whose kernel values fit into a block."""
        return max(MIN_BLOCK_ROWS, BLOCK_ENTRIES // max(1, len(self.candidates[0].coefficients)))

    # ---------------------------------------------------------------- uncertainty

    @cached_property
    def _space(self) -> Space:
        return Space(self.points, self.unscored, self.view_columns)

    @cached_property
    def _processes(self) -> dict[int, CandidateProcess]:
        return {}

    def _process(self, number: int, side: int) -> CandidateProcess:
        """The Gaussian process of a candidate; its system is factorised once."""
        if number not in self._processes:
            self._processes[number] = CandidateProcess.of(
                self.candidates[number], self._space, self.units, self.limited
            )
        process = replace(self._processes[number], context=side)
        if self.later is None:
            return process
        return replace(
            process,
            later=self.later.rows,
            later_coefficients=self.later.coefficients[number],
            later_root=self.later.roots[number],
        )

    def remark_in_passes(self, *, queries: bool) -> str:
        """What is left out where rows come without links, and perhaps query labels; empty if nothing
        is.
        """
        share = sum(
            candidate.weights[0]
            for candidate in self.candidates
            if not sees(candidate.candidate, queries=queries, links=False)
        )
        if share < LEAST_REMARK:
            return ""
        compared = "" if queries else "columns are not compared within queries and "
        return (
            f"rows are predicted in passes, where {compared}links are not known: models with"
            f" {share:.0%} of the weight are left out, and others take their place."
        )

    @property
    def compares_within_queries(self) -> bool:
        """Whether columns of rows are compared within queries."""
        return any(encoding.name in WITHIN_QUERIES for encoding in self.encodings)

    def posterior(
        self, features: Array, queries: Index | None = None, links: sparse.csr_array | None = None
    ) -> tuple[Posterior, RowsToEncode]:
        """What is believed about the function, by the heaviest candidates, and rows as it takes
        them.
        """
        side = self.side(queries=queries is not None, links=links is not None)
        encode = self._encoder(features, queries, links)
        rows = RowsToEncode(encode, features.shape, self._space)
        if self.factors is not None:
            raise ValueError(
                "of so many answers the model knows no uncertainty between rows, which suggest and"
                " predict_comparison need; fit some of the persons for that."
            )
        if not self.candidates:
            return Posterior([ConstantProcess(self.base)], [1.0], 2.0, free_level=False), rows
        weights = np.asarray([candidate.weights[side] for candidate in self.candidates])
        has_basis = np.asarray([candidate.basis is not None for candidate in self.candidates])
        if has_basis.any():
            weights = np.where(has_basis, weights, 0.0)
        n_points = len(self.candidates[0].coefficients)
        most = min(MAX_POSTERIORS, max(1, MAX_POSTERIOR_ENTRIES // n_points**2))
        heaviest = np.argsort(-weights, kind="stable")[:most]
        chosen = [int(number) for number in heaviest if weights[number] > 0]
        processes = [self._process(number, side) for number in chosen]
        shares = weights[chosen] / weights[chosen].sum()
        noise = float(shares @ [process.noise for process in processes])
        posterior = Posterior(
            processes,
            shares.tolist(),
            answer_noise=2 * self.factor**2 * noise,
            factor=self.factor,
            block_rows=self._block_rows,
            as_one=True,
            free_level=False,
        )
        return posterior, rows

    def deviations(
        self, features: Array, queries: Index | None, links: sparse.csr_array | None = None
    ) -> FloatArray:
        """Standard deviations (n,) of new scores of the rows, noise included."""
        if not self.candidates:
            return np.full(features.shape[0], self.least_deviation / LEAST_DEVIATION)
        posterior, rows = self.posterior(features, queries, links)
        variances = posterior.moments(rows)[1] + posterior.answer_noise / 2
        return np.asarray(np.maximum(np.sqrt(variances), self.least_deviation))


# ---------------------------------------------------------------- from rows to a model


def score_units(
    scores: FloatArray,
    queries: Index | None,
    weights: FloatArray | None,
    settings: AverageSettings,
    persons: Index | None = None,
) -> Observations:
    """Scored rows as units.

    Rankers: the level of every query is free and queries are held out; rows of the only query are
    held out one by one. Regressors: one level is free, unless there is no intercept; rows are held
    out one by one, or with their queries.

    persons : (n,) codes of who answered, None where nobody knows. What is to be predicted is then
        another answer of the same person: rows are held out one by one, unless persons have several
        queries each
    """
    n = len(scores)
    roots = np.ones(n) if weights is None else np.sqrt(weights)
    groups: Index | None = np.zeros(n, dtype=np.int64)
    folds: Index = np.arange(n)
    whole = False
    codes = None if queries is None else np.unique(queries, return_inverse=True)[1]
    several = codes if codes is not None and int(codes.max()) > 0 else None
    if settings.ranks and several is not None:
        groups = several
        folds = several
        whole = True
    elif not settings.ranks:
        groups = groups if settings.fit_intercept else None
        folds = folds if several is None else several
    if persons is not None:
        persons = np.unique(persons, return_inverse=True)[1]
        if several is None or int(several.max()) < 2 * int(persons.max()) + 1:
            folds, whole = np.arange(n), False
    points = np.arange(n)
    return Observations(scores, roots, points, None, groups, folds, whole, n, codes, persons)


def compared_units(
    winners: Index,
    losers: Index,
    margins: FloatArray,
    weights: FloatArray,
    groups: Index,
    n_items: int,
    persons: Index | None = None,
) -> Observations:
    """Comparisons as units; `groups` (p,) are held out together, `persons` (p,) compared."""
    folds = np.unique(groups, return_inverse=True)[1]
    if persons is not None:
        persons = np.unique(persons, return_inverse=True)[1]
    roots = np.sqrt(weights)
    return Observations(
        margins, roots, winners, losers, None, folds, True, n_items, persons=persons
    )


def comparable(scores: FloatArray, queries: Index | None) -> Index:
    """The rows that can be compared with another one of their query; all rows where there is none."""
    if queries is None:
        return np.arange(len(scores))
    codes = np.unique(queries, return_inverse=True)[1]
    chosen = np.flatnonzero(np.bincount(codes)[codes] > 1)
    return chosen if len(chosen) else np.arange(len(scores))


def fit_table(
    table: ScoredTable, settings: AverageSettings, encoded: EncodedTable | None = None
) -> tuple[AverageModel, FittedAverage | None]:
    """Fit the average to the scored rows of a table, with encodings from all its rows, made before
    or here. Of an ordered table the model has its points as they were given.

    The second value is None where there is nothing to learn: one scored row, or scores that are all
    tied.
    """
    scored = table.scored
    if settings.ranks and table.queries is not None:
        scored = scored[comparable(table.scores[scored], table.queries[scored])]
    unscored = np.flatnonzero(np.isnan(table.scores))
    rows = encoded
    if rows is None:
        queries = table.queries if settings.ranks and not settings.by_person else None
        rows = EncodedTable(table.features, queries, settings)
    chosen = table.take(scored)
    persons = settings.persons(chosen.features)
    units = score_units(chosen.scores, chosen.queries, chosen.weights, settings, persons)
    model, average = fit_encoded(
        rows, scored, unscored, units, table.links, all_rows=table.all_rows
    )
    if table.numbers is None:
        return model, average
    given = table.numbers[scored]
    if average is not None:
        average = replace(average, judged=given[average.judged])
    return model.as_given(average, given, given), average


def fit_encoded(
    rows: EncodedTable,
    learned: Index,
    others: Index,
    units: Observations,
    links: sparse.csr_array | None,
    *,
    honest: bool = True,
    all_rows: RowsOfScan | None = None,
) -> tuple[AverageModel, FittedAverage | None]:
    """Fit the average to units between the rows that are `learned` from, with encodings from all
    rows.

    others : rows on which views agree; honest : as in `fit_average`; all_rows : as in `ScoredTable`
    """
    settings = rows.settings
    is_large = len(units) > MAX_EXACT_ANSWERS and units.second is None and links is None
    if is_large and settings.person and settings.identity and settings.candidates is None:
        return _fit_factors(rows, learned, units)
    has_queries = rows.queries is not None
    candidates = candidates_for(
        rows.features, links, settings, has_queries=has_queries, agree=len(others) > 0
    )
    space, encodings = _space(rows, links, learned, others, candidates, settings)
    return fit_space(
        space, encodings, candidates, units, settings, honest=honest, all_rows=all_rows
    )


def _fit_factors(
    rows: EncodedTable, learned: Index, units: Observations
) -> tuple[AverageModel, FittedAverage]:
    """The model of vectors of persons and items."""
    encodings, factors, average = factors_of_table(rows, learned, units)
    model = AverageModel(
        encodings=encodings,
        points={},
        unscored={},
        view_columns={},
        candidates=[],
        base=factors.level,
        low=average.low,
        high=average.high,
        factor=1.0,
        least_deviation=LEAST_DEVIATION * float(np.sqrt(factors.noise)),
        units=None,
        scored=None,
        hops=[],
        factors=factors,
    )
    return model, average


def _space(
    table: EncodedTable,
    links: sparse.csr_array | None,
    scored: Index,
    unscored: Index,
    candidates: Sequence[Candidate],
    settings: AverageSettings,
) -> tuple[Space, list[Encoding]]:
    """Encoded rows, with encodings learned from all rows of a table."""
    names = dict.fromkeys([*(c.encoding for c in candidates), *settings.names_of_roles])
    encodings = [encoding for encoding in map(table.encoding, names) if encoding is not None]
    encoded = {encoding.name: table.rows(encoding.name) for encoding in encodings}
    travels = {(c.encoding, c.hops) for c in candidates if c.hops and c.encoding in encoded}
    encoded |= rows_beyond(encoded, travels, links)
    if len(unscored) > MAX_AGREEING:
        rng = np.random.default_rng([settings.seed, 3])
        unscored = np.sort(rng.choice(unscored, MAX_AGREEING, replace=False))
    agreeing = {candidate.rows for candidate in candidates if candidate.needs_unscored}
    everything = np.array_equal(scored, np.arange(len(table)))
    space = Space(
        {name: matrix if everything else take(matrix, scored) for name, matrix in encoded.items()},
        (
            {name: take(encoded[name], unscored) for name in agreeing & set(encoded)}
            if len(unscored)
            else {}
        ),
        {encoding.name: view_positions(encoding, settings.views) for encoding in encodings},
    )
    # many scores leave little of a column open: what lies beyond them is as the nearest of them are
    if not settings.ranks and len(scored) >= FEW_REFITTED:
        encodings = [
            each.within(space.scored[each.name]) if isinstance(each, NormalScores) else each
            for each in encodings
        ]
    return space, encodings


def fit_space(
    space: Space,
    encodings: Sequence[Encoding],
    candidates: Sequence[Candidate],
    units: Observations,
    settings: AverageSettings,
    *,
    honest: bool = True,
    all_rows: RowsOfScan | None = None,
) -> tuple[AverageModel, FittedAverage | None]:
    """Fit the average to units between encoded rows; honest : as in `fit_average`; all_rows : as in
    `ScoredTable`.
    """
    rows = None if all_rows is None else all_rows(encodings)
    n, most_points = max(len(units), units.n_points), units.n_points
    if rows is not None:
        n, most_points = rows.n_rows, rows.most_points
    d = max((matrix.shape[1] for matrix in space.scored.values()), default=0)
    spread = float(np.max(np.abs(units.targets), initial=0.0))
    tied = spread <= LEAST_TARGET * max(float(np.max(np.abs(units.scores))), LEAST)
    learnable = units.n_free >= 1 and int(units.folds.max()) >= 1 and not tied
    with told(units, candidates if learnable else (), (n, d), most_points) as done:
        space.widths = learned_widths(space, candidates, units, settings.seed)
        done("widths", 1)
        candidates = with_roles(space, candidates, units, settings) if learnable else candidates
        usable = [candidate for candidate in candidates if space.can_build(candidate)]
        is_kept = all_rows is None and units.n_points <= MAX_KEPT
        constant = AverageModel(
            encodings=list(encodings),
            points=space.scored,
            unscored=space.unscored,
            view_columns=space.view_columns,
            candidates=[],
            base=units.base,
            low=-np.inf,
            high=np.inf,
            factor=1.0,
            least_deviation=LEAST_DEVIATION * float(units.scores.std()),
            units=units if is_kept else None,
            scored=space.scored if is_kept else None,
            hops=sorted({candidate.hops for candidate in usable if candidate.hops}),
        )
        if not usable or not learnable:
            return constant, None
        average = fit_average(
            space,
            usable,
            units,
            ranks=settings.ranks,
            seed=settings.seed,
            honest=honest,
            rows=rows,
            done=done,
        )
    # and one as large as the spread, should all be zero
    judged = average.residuals[np.isfinite(average.residuals)]
    squares = np.sum(judged**2) + np.var(units.scores)
    size = float(np.sqrt(squares / (len(judged) + 1)))
    model = replace(
        constant,
        candidates=average.candidates,
        low=average.low,
        high=average.high,
        factor=average.residual_factor,
        least_deviation=LEAST_DEVIATION * size,
        points=(
            space.scored
            if len(average.points) == units.n_points
            else space.take(average.points).scored
        ),
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
                f"links make a sparse X dense, and {rows.shape[0]:,} rows x {rows.shape[1]:,}"
                " columns are too many for that: reduce the columns first, for instance with"
                " scikit-learn's TruncatedSVD."
            )
        hops = sorted(number for other, number in travels if other == name)
        for number, matrix in propagated(spread, rows, hops, KEPT).items():
            seen[rows_over_links(name, number)] = matrix
    return seen


def prior_of_links(
    features: Array, links: sparse.csr_array | None, settings: AverageSettings
) -> float:
    """The prior of candidates over links, before scores are seen.

    Links that join rows which are no more alike than any two are probably noise: the mean cosine
    between linked rows is compared with that between the same rows at random.
    """
    if links is None:
        return 0.0
    pairs = sparse.coo_array(sparse.triu(links + links.T))
    if pairs.nnz == 0:
        return UNLIKELY_LINKS
    rng = np.random.default_rng([settings.seed, 4])
    chosen = rng.choice(pairs.nnz, min(pairs.nnz, MAX_JUDGED_LINKS), replace=False)
    first = pairs.row[chosen]
    second = pairs.col[chosen]
    used, ends = np.unique(np.concatenate([first, second]), return_inverse=True)
    encoding = fit_encoding(
        STANDARD, settings.without_identity(take(features, used)), None, groups=settings.groups
    )
    if encoding is None:
        return UNLIKELY_LINKS
    rows = unit_rows(encoding.encode(take(features, used), None))
    left = take(rows, ends[: len(chosen)])
    right = take(rows, ends[len(chosen) :])
    linked = row_products(left, right)
    random = row_products(left, take(right, rng.permutation(len(chosen))))
    error = np.sqrt((linked.var() + random.var()) / len(chosen))
    return LIKELY_LINKS if linked.mean() - random.mean() > ALIKE * error else UNLIKELY_LINKS


def candidates_for(
    features: Array,
    links: sparse.csr_array | None,
    settings: AverageSettings,
    *,
    has_queries: bool,
    agree: bool,
) -> list[Candidate]:
    """The candidates that are given, or the default ones for such rows.

    has_queries : whether encodings within queries can be had; agree : whether there are rows on which
        views may agree
    """
    if settings.candidates is not None:
        check_candidates(settings.candidates, len(settings.views))
        if links is None and all(candidate.hops for candidate in settings.candidates):
            raise ValueError(
                "candidates: all of them see columns over links, but links= is not given."
            )
        if not settings.identity and any(candidate.identity for candidate in settings.candidates):
            raise ValueError(
                "candidates: identity needs a column that says which item a row is, as in "
                "encoder=TableEncoder(identity=['name'])."
            )
        needed = {IDENTITY, PERSON, PERSONS} & {
            each for candidate in settings.candidates for part in candidate.parts for each in part
        }
        if not needed <= set(settings.names_of_roles):
            raise ValueError(
                "candidates: shares need what they compare to be given: person=, item=, persons=."
            )
        if not has_queries and all(c.encoding in WITHIN_QUERIES for c in settings.candidates):
            raise ValueError(
                "candidates: all of them compare columns within queries, which takes a ranker and"
                " qid=, or a scan with many queries."
            )
        return list(settings.candidates)
    kernels = [view.kernel if isinstance(view.kernel, str) else "rbf" for view in settings.views]
    return default_candidates(
        is_csr=is_sparse(features),
        has_queries=has_queries,
        view_kernels=kernels,
        kinds=settings.kinds,
        agree=agree,
        links_prior=prior_of_links(features, links, settings),
        identity=len(settings.identity) > 0 and not settings.has_roles,
        per_column=not settings.ranks,
    )
