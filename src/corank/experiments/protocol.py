"""The protocol of a comparison: the training, unscored and test rows of every draw, all from one
seed, and the one place where scores are hidden from methods and come back after the predictions.

Test queries take turns: in every five repeats (for a fifth of test queries) each query is a test
query once, so that averages over repeats weigh all queries alike. Scores are looked at only to find
queries with two different ones. The data come last: features, scores and queries, checked once;
their counts and oddities; and how features become numbers in a run.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeAlias

import narwhals as nw
import numpy as np
from scipy import sparse
from sklearn.base import clone

from corank.core.arrays import (
    FloatArray,
    Index,
    Mask,
    digest,
    masked_as_nan,
    refuse_masked,
    take,
    to_numpy,
)
from corank.core.messages import ArgumentError
from corank.core.observations import spreads
from corank.core.queries import encode_queries, query_codes
from corank.core.views import encoded_views, random_bases, random_split, read_views
from corank.encode.encoder import TableEncoder
from corank.links import Links, read_links

Judge: TypeAlias = Literal["disagreement", "ndcg", "rmse"]
JUDGES: tuple[Judge, ...] = ("disagreement", "ndcg", "rmse")
WITHIN = ", each query less its mean"  # how RMSE is meant where there are queries
FEWEST_QUERIES, FEWEST_ROWS, FEWEST_SCORED = 6, 20, 2
AUTOMATIC_SHARE = 0.1
SCORED_MULTIPLES = (0.25, 0.5, 2.0, 4.0)  # of the scored rows, for curves


@dataclass(frozen=True)
class Protocol:
    """How methods are compared.

    Attributes
    ----------
    scored_share : share of the training queries (rows, without queries) that keep their scores;
        those of the others are hidden. None: all of them where most rows have no score anyway, else
        a tenth
    repeats : draws of test, scored and unscored queries
    test_share : share of the queries (rows) that are tested on
    curves : also fit on fewer and on more scored rows, and on none and a quarter of the unscored
        ones
    max_scored, max_unscored : most rows of each kind in one fit; whole queries are left out, drawn
        at random
    measure : by which methods are judged. None: disagreement with queries, root mean squared error
        without
    seed : all draws follow from it
    """

    scored_share: float | None = None
    repeats: int = 20
    test_share: float = 0.2
    curves: bool = True
    max_scored: int = 300
    max_unscored: int = 600
    measure: Judge | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.scored_share is not None and not 0.0 < self.scored_share <= 1.0:
            raise ArgumentError(
                "scored_share", f" must be above 0 and at most 1, got {self.scored_share}."
            )
        if not 0.0 < self.test_share < 1.0:
            raise ValueError(f"test_share must lie between 0 and 1, got {self.test_share}.")
        least = {"repeats": 2, "max_scored": 10, "max_unscored": 0, "seed": 0}
        for name, smallest in least.items():
            if getattr(self, name) < smallest:
                raise ArgumentError(
                    name, f" must be at least {smallest}, got {getattr(self, name)}."
                )
        if self.measure is not None and self.measure not in JUDGES:
            raise ArgumentError(
                "measure", f"={self.measure!r} is unknown; give one of {', '.join(JUDGES)}."
            )

    def share(self, items: Items) -> float:
        """The share of scores that are kept."""
        if self.scored_share is not None:
            return self.scored_share
        return AUTOMATIC_SHARE if items.scored.mean() > 0.5 else 1.0

    def judge(self, items: Items) -> Judge:
        """The measure that decides."""
        return self.measure or ("rmse" if items.qid is None else "disagreement")

    @property
    def rounds(self) -> int:
        """Repeats in which every query is a test query once."""
        return max(2, round(1 / self.test_share))


class Draw(NamedTuple):
    """The rows of one fit: a repeat, and multiples of its numbers of scored and unscored rows."""

    repeat: int
    scored: float = 1.0
    unscored: float = 1.0


@dataclass(frozen=True)
class Split:
    """Row numbers of a draw."""

    scored: Index
    unscored: Index
    test: Index

    @property
    def train(self) -> Index:
        """Scored rows first."""
        return np.concatenate([self.scored, self.unscored])


def check_enough(items: Items) -> None:
    """Refuse data on which no test could say anything."""
    n_units = len(testable(items))
    if items.qid is None and n_units < FEWEST_ROWS:
        raise ValueError(f"y has {n_units} scores; comparing methods takes at least {FEWEST_ROWS}.")
    if items.qid is not None and n_units < FEWEST_QUERIES:
        raise ValueError(
            f"only {n_units} queries have two rows with different scores; comparing methods"
            f" takes at least {FEWEST_QUERIES}. Leave qid out if all rows compete with each other."
        )
    if items.qid is None and len(np.unique(items.y[items.scored])) < 2:
        raise ValueError("y holds the same score everywhere: there is nothing to learn.")


def draws_of(items: Items, protocol: Protocol) -> list[Draw]:
    """Every draw, those of the comparison itself first. Parts of the scored rows that come to the
    same are one.
    """
    draws = list(map(Draw, range(protocol.repeats)))
    draws += [Draw(repeat, unscored=0.0) for repeat in range(protocol.repeats)]  # did they help?
    if not protocol.curves:
        return draws
    few = range(min(protocol.repeats, protocol.rounds))
    sizes = {len(split(items, protocol, Draw(0)).scored)}
    for multiple in SCORED_MULTIPLES:
        size = len(split(items, protocol, Draw(0, scored=multiple)).scored)
        if size not in sizes:
            sizes.add(size)
            draws += [Draw(repeat, scored=multiple) for repeat in few]
    return draws + [Draw(repeat, unscored=0.25) for repeat in few]


def split(items: Items, protocol: Protocol, draw: Draw) -> Split:
    """The rows of a draw. A part of the scored or unscored rows is always the first of the same
    order: draws nest.
    """
    units = testable(items)
    unit_of_row = np.arange(len(items)) if items.qid is None else items.qid
    n_units = int(unit_of_row.max()) + 1
    rng = np.random.default_rng([protocol.seed, draw.repeat])
    test = _test_units(units, protocol, draw.repeat)
    others = np.setdiff1d(np.unique(unit_of_row), test)
    candidates = rng.permutation(np.intersect1d(units, others))
    least = FEWEST_SCORED if items.qid is not None else 2 * FEWEST_SCORED
    n_scored = max(least, round(protocol.share(items) * len(candidates)))
    sizes = np.bincount(unit_of_row[items.scored], minlength=n_units)
    allowed = _within(candidates, sizes, protocol.max_scored, least)
    n_kept = round(draw.scored * min(n_scored, len(allowed)))
    kept = allowed[: max(least, n_kept)]
    is_scored = np.isin(unit_of_row, kept) & items.scored
    # Unscored: rows of training queries whose scores are hidden or missing, query by query in a
    # fixed order.
    # queries without two different scores
    without_order = rng.permutation(np.setdiff1d(others, candidates))
    # from the far end: scored ones last, so that draws nest
    order = np.concatenate([candidates[::-1], without_order])
    is_usable = np.isin(unit_of_row, others) & ~is_scored
    sizes = np.bincount(unit_of_row[is_usable], minlength=n_units)
    usable = order[sizes[order] > 0]
    chosen = _within(usable, sizes, protocol.max_unscored, 1)
    n_chosen = int(np.ceil(draw.unscored * len(chosen)))
    is_unscored = np.isin(unit_of_row, chosen[:n_chosen]) & is_usable
    is_tested = np.isin(unit_of_row, test) & items.scored
    return Split(np.flatnonzero(is_scored), np.flatnonzero(is_unscored), np.flatnonzero(is_tested))


def _test_units(units: Index, protocol: Protocol, repeat: int) -> Index:
    """One fold of a round of folds."""
    rounds, share = protocol.rounds, protocol.test_share
    round_, place = divmod(repeat, rounds)
    order = np.random.default_rng([protocol.seed, round_, 1]).permutation(units)
    if 1 / rounds - 1e-9 <= share <= 0.5:
        return order[place::rounds]
    # not a fold: so many, in turn
    size = max(1, round(share * len(units)))
    return np.take(order, np.arange(size) + place * size, mode="wrap")


def _within(units: Index, sizes: Index, most: int, least: int) -> Index:
    """The first units that hold at most so many rows together, but not fewer than `least` of them."""
    if most == 0:
        return units[:0]
    n_within = int(np.searchsorted(np.cumsum(sizes[units]), most, side="right"))
    return units[: max(least, n_within)]


def testable(items: Items) -> Index:
    """What can be tested on: queries with two different scores; scored rows where there are no
    queries.
    """
    if items.qid is None:
        return np.flatnonzero(items.scored)
    return np.flatnonzero(spreads(items.y[items.scored], items.qid[items.scored]))


@dataclass(frozen=True)
class Task:
    """Everything that a method gets to see.

    Attributes
    ----------
    X : training rows, those with a score first
    y : (n,) their scores, NaN where hidden or missing
    qid : (n,) query numbers, or None
    X_test, qid_test : rows to predict; there are no scores of them here
    views : as methods with views take them
    judge : the measure that decides, for tuning
    seed : for the method's random draws
    links : links between the training rows and, after them, the test rows; None without
    encoder : what made numbers of the columns of a table, or None
    """

    X: Any
    y: FloatArray
    qid: Index | None
    X_test: Any
    qid_test: Index | None
    views: Any
    judge: str
    seed: int
    links: Links | None = None
    encoder: TableEncoder | None = None

    @property
    def n_scored(self) -> int:
        """Number of scored rows; they come first."""
        return int(np.count_nonzero(~np.isnan(self.y)))

    @property
    def scored(self) -> tuple[Any, FloatArray, Index | None]:
        """Features, scores and queries of the scored rows, for methods that know no others."""
        n = self.n_scored
        return self.X[:n], self.y[:n], take(self.qid, slice(n))

    @property
    def training_links(self) -> Links | None:
        """Links between the training rows."""
        return None if self.links is None else self.links.take(np.arange(len(self.y)))


@dataclass(frozen=True, eq=False, repr=False)
class HiddenScores:
    """Scores of the test rows, locked away until predictions for all of them are handed over."""

    _scores: FloatArray
    qid: Index | None
    least: float

    def unlock(self, predictions: Any) -> FloatArray:
        """The scores, in exchange for finite predictions: (n_test,)."""
        given = np.asarray(predictions)
        if given.shape != self._scores.shape:
            raise ValueError(
                f"predictions have shape {given.shape} for {len(self._scores)} test rows."
            )
        if not np.isfinite(given).all():
            raise ValueError("predictions have NaN or infinite values.")
        return self._scores


def masked(items: Items, rows: Split, *, judge: str, seed: int) -> tuple[Task, HiddenScores]:
    """The rows of a draw as a method sees them, and the test scores that it does not see."""
    hidden = np.full(len(rows.unscored), np.nan)
    y = np.concatenate([items.y[rows.scored], hidden])
    X, X_test, views, encoder = items.features(rows.train, rows.test)
    qid, qid_test = take(items.qid, rows.train), take(items.qid, rows.test)
    links = None
    if items.links is not None:
        links = items.links.take(np.concatenate([rows.train, rows.test]))
    least = float(items.y[items.scored].min())
    task = Task(X, y, qid, X_test, qid_test, views, judge, seed, links, encoder)
    return task, HiddenScores(items.y[rows.test], qid_test, least)


# ---- the data of a comparison


@dataclass(frozen=True, eq=False)
class Items:
    """Items to compare methods on, one per row.

    Parameters
    ----------
    X : (n, d) array or CSR of numbers, taken as they are; or a table (pandas, polars, pyarrow)
        The columns of a table are encoded by a `TableEncoder`, fitted in every run on its training
        rows alone.
    y : (n,) scores, higher is better; NaN = unscored
    qid : (n,) query labels, or None: all rows compete
    views : list of View, or a number of random parts, for methods with views; columns of a table by
        their names
    encoder : TableEncoder whose parameters the encoders of a table have, or None for the defaults
    links : links between the rows, for methods that use them: a SciPy sparse matrix, or an array
        (m, 2) of row numbers. A fit sees those between its training rows; a prediction for test
        rows those between all rows of the draw
    """

    X: Any
    y: Any
    qid: Any = None
    views: Any = 2
    encoder: TableEncoder | None = field(default=None, kw_only=True)
    links: Any = field(default=None, kw_only=True)
    query_names: tuple[str, ...] = field(init=False, default=())  # of the queries by their number

    def __post_init__(self) -> None:
        n = self.X.shape[0] if hasattr(self.X, "shape") else len(self.X)
        y = np.asarray(to_numpy(masked_as_nan(self.y)), dtype=np.float64)
        if y.shape != (n,):
            raise ValueError(
                f"y has shape {y.shape} for {n} rows of X; give one score per row, NaN where there"
                " is none."
            )
        if np.isinf(y).any():
            raise ValueError(
                "y has infinite values; give finite scores, and NaN where a row has none."
            )
        if np.isnan(y).all():
            raise ValueError("y has no scored row: every score is NaN.")
        object.__setattr__(self, "y", y)
        if self.qid is not None:
            codes = np.asarray(to_numpy(encode_queries(self.qid, n)[0]), dtype=np.int64)
            labels = to_numpy(self.qid).ravel() if hasattr(self.qid, "shape") else list(self.qid)
            first = np.unique(codes, return_index=True)[1]
            names = tuple(str(labels[row]) for row in first)
            object.__setattr__(self, "query_names", names)
            object.__setattr__(self, "qid", codes)
        if self.links is not None:
            object.__setattr__(self, "links", read_links(self.links, n))
        if not self.is_table and not sparse.issparse(self.X):
            refuse_masked(self.X, "X", "fill them in, or give a table, which is encoded")
            X = to_numpy(self.X)
            if X.ndim != 2 or X.dtype.kind not in "biuf":
                raise ValueError(
                    f"X has shape {X.shape} and dtype {X.dtype}; give a table, or a matrix of"
                    " numbers."
                )
            if not np.isfinite(X).all():
                raise ValueError(
                    "X has NaN or infinite values; fill them in, or give a table, which is encoded."
                )
            object.__setattr__(self, "X", X)

    def __len__(self) -> int:
        return len(self.y)

    @property
    def n_queries(self) -> int:
        """Number of queries, 1 where all rows compete."""
        return max(1, len(self.query_names))

    @property
    def is_table(self) -> bool:
        """Whether the features are columns of any kind, still to be encoded."""
        return hasattr(self.X, "columns") or hasattr(self.X, "column_names")

    @cached_property
    def scored(self) -> Mask:
        """Which rows have a score: (n,)."""
        return np.asarray(~np.isnan(self.y))

    @cached_property
    def digest(self) -> str:
        """A digest of the data and views: it changes when any number changes."""
        parameters = None if self.encoder is None else self.encoder.get_params()
        links = None if self.links is None else self.links.matrix
        rows = hashlib.sha256(_as_arrow_bytes(self.X)).hexdigest() if self.is_table else self.X
        return digest(self.views, parameters, self.y, self.qid, links, rows)[:16]

    def features(self, fitted_on: Index, rows: Index) -> tuple[Any, Any, Any, TableEncoder | None]:
        """Numbers of both sets of rows, the views of their columns, and the encoder, which sees the
        first set only.
        """
        if not self.is_table:
            return self.X[fitted_on], self.X[rows], self.views, None
        key = (fitted_on.tobytes(), rows.tobytes())
        # methods see one draw after the other, and texts take long
        if key not in self._last_encoded:
            encoder = TableEncoder() if self.encoder is None else clone(self.encoder)
            table = nw.from_native(self.X, eager_only=True)
            training = encoder.fit_transform(table[fitted_on].to_native())
            test = encoder.transform(table[rows].to_native())
            self._last_encoded.clear()
            self._last_encoded[key] = (training, test, _encoded(self.views, encoder), encoder)
        training, test, views, encoder = self._last_encoded[key]
        return training.copy(), test.copy(), views, encoder

    @cached_property
    def _last_encoded(self) -> dict[tuple[bytes, bytes], tuple[Any, ...]]:
        """The features of the last two sets of rows that were asked for."""
        return {}


def _encoded(views: Any, encoder: TableEncoder) -> Any:
    """Views of a table's columns as views of the matrix: what one column became stays together."""
    names = np.asarray(encoder.feature_names_in_, dtype=object)
    if isinstance(views, int):
        fits = len(np.unique(encoder.attributes_)) >= views
        return random_split(views, attributes=encoder.attributes_) if fits else random_bases(views)
    if isinstance(views, list | tuple):
        views = read_views(views, len(names), names, np.random.default_rng(0))
    return encoded_views(views, encoder.attributes_)


def read_items(data: Any) -> Items:
    """Items as they are, anything with `X`, `y` and `qid` (as loaders give), or (X, y) or (X, y,
    qid).
    """
    if isinstance(data, Items):
        return data
    if hasattr(data, "X") and hasattr(data, "y"):
        return Items(data.X, data.y, getattr(data, "qid", None))
    if isinstance(data, tuple) and len(data) in (2, 3):
        return Items(*data)
    raise TypeError(
        f"data is {type(data).__name__}; give Items, what a loader gives, (X, y) or (X, y, qid)."
    )


def _as_arrow_bytes(table: Any) -> bytes:
    import pyarrow as pa

    arrow = table if isinstance(table, pa.Table) else nw.from_native(table).to_arrow()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, arrow.schema) as writer:
        writer.write_table(arrow.combine_chunks())
    return bytes(sink.getvalue())


@dataclass(frozen=True)
class Intake:
    """The data in numbers.

    query_sizes : rows of each query, None without queries
    tied : share of the pairs of scored rows of a query that have the same score
    problems : oddities that a user should know of, in sentences
    """

    rows: int
    scored: int
    query_sizes: Index | None
    tied: float
    lowest: float
    highest: float
    problems: tuple[str, ...]


def intake(items: Items) -> Intake:
    """Count rows, queries and ties, and look for problems."""
    y = items.y[items.scored]
    codes = query_codes(items.qid, len(items))
    sizes = np.bincount(codes)
    scored_codes = codes[items.scored]
    n_together = np.bincount(scored_codes)
    n_alike = np.unique(np.stack([scored_codes, y]), axis=1, return_counts=True)[1]
    n_pairs, n_tied = (float((counts * (counts - 1.0)).sum()) for counts in (n_together, n_alike))
    return Intake(
        rows=len(items),
        scored=len(y),
        query_sizes=None if items.qid is None else sizes,
        tied=n_tied / n_pairs if n_pairs else 0.0,
        lowest=float(y.min()),
        highest=float(y.max()),
        problems=tuple(_problems(items, codes, sizes)),
    )


def _problems(items: Items, codes: Index, sizes: Index) -> list[str]:
    problems = []
    if items.qid is not None:
        scored = np.bincount(codes[items.scored])
        spread = spreads(items.y[items.scored], codes[items.scored])
        oddities = {
            "no scored row.": len(sizes) - np.count_nonzero(scored),
            "one scored row: it competes with none.": np.count_nonzero(scored == 1),
            "the same score throughout: nothing to learn there.": np.count_nonzero(
                (scored > 1) & (spread == 0)
            ),
        }
        problems += [
            f"{number:,} of {len(sizes):,} queries have {what}"
            for what, number in oddities.items()
            if number
        ]
    if not items.is_table and not sparse.issparse(items.X):
        constant = np.count_nonzero(np.ptp(items.X, axis=0) == 0)
        if constant:
            problems.append(f"{constant:,} of {items.X.shape[1]:,} columns are constant.")
        rows = np.column_stack([items.X, codes])
        repeated = len(rows) - len(np.unique(rows, axis=0))
        if repeated:
            problems.append(f"{repeated:,} rows repeat another row of the same query.")
    return problems
