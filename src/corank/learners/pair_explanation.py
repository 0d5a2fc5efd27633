"""Why one item is above another: the difference of two predictions as a sum over items, over views
and over columns.

`PairExplanation` is what people see. `explain_terms` makes one of what the parts of a function
contribute: those of functions of spans here, those of an average in `average/explanation.py`.
Columns share the difference by Shapley values where it is no sum over columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from itertools import pairwise, starmap
from numbers import Integral
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from scipy import sparse
from scipy.special import comb

from corank.core.arrays import (
    Array,
    FloatArray,
    Index,
    Mask,
    first_appearance,
    float64,
    is_foreign,
    is_sparse,
    like,
    namespace,
    refuse_masked,
    runs_of_rows,
    stack_rows,
    take,
    to_numpy,
)
from corank.core.messages import count, distance_in_words
from corank.inputs import is_frame, row_labels
from corank.solve.function import Expansion, Function, Span

Reader: TypeAlias = Callable[[Any], Array]  # of the features of rows

MAX_ENUMERATED = 8  # columns whose 2^p combinations are all looked at
# rows with columns of both items, of which predictions are made for sampled orders of columns
MAX_MIXED_ROWS = 8_192
MIN_ORDERS, MAX_ORDERS = 2, 200
# in which more columns than that are exchanged, which then share what a step changes
MAX_STEPS = 256
BLOCK_ENTRIES = 2**22
# of the sizes of all parts: what is missing of a sum and less than that is rounding
ROUNDING = 1e-6
NOTHING = 1e-15  # of these sizes: a part that is no larger is left out
MATCHED_DIGITS = 7  # of the largest number of a column, by which two rows are the same
MAX_ALIKE = 3
ALL_COLUMNS, OTHERWISE = "all columns", "everything else"
LIMITED, UNSCORED = "limited to the range of scores", "unscored rows"
# how a difference is shared out to columns
SUM, ALL_ORDERS, SAMPLED = "sum", "all orders", "sampled orders"


# ---------------------------------------------------------------- what people see


@dataclass(frozen=True)
class Contribution:
    """A part of a difference.

    Attributes
    ----------
    name : the item, view or column
    value : above 0 where it speaks for the first item
    row : of an item: its row in `items`, where it was found there
    """

    name: str
    value: float
    row: int | None = None


@dataclass(frozen=True)
class PairExplanation:
    """Why one item is above another. Print it; notebooks show it as tables.

    Each list of parts sums to `difference`, and begins with the largest part.

    Attributes
    ----------
    first, second : what the items are called
    difference : prediction of the first less that of the second
    by_item : parts of the items that the model consists of: coefficient times how much more the
        first item is like it. They may be far larger than the difference, and cancel out
    by_answer : of an average that keeps up to 400 of them, parts of the scores (less their mean) or
        comparisons that it learned from; else empty
    by_view : parts of its views; "all columns" where it has none
    by_column : parts of the columns in which the two items differ
    columns_by : "sum" where the prediction is a sum over columns; else Shapley values, the mean
        effect of exchanging a column over "all orders" in which columns can be exchanged, or over
        "sampled orders"
    alike : names of items of the model that are most like the first item, and like the second
    distance : which columns make the distance between any two rows, by widths per column, in words;
        empty where there are none
    items_are : "scored item", "compared item" or "item"
    """

    first: str
    second: str
    difference: float
    by_item: list[Contribution]
    by_view: list[Contribution]
    by_column: list[Contribution]
    columns_by: str
    alike: tuple[list[str], list[str]]
    items_are: str = "item"
    by_answer: list[Contribution] = field(default_factory=list)
    distance: str = ""

    @property
    def columns_exact(self) -> bool:
        """Whether the parts of columns are exact: not estimated from a sample of orders."""
        return self.columns_by != SAMPLED

    def folded(
        self, contributions: Sequence[Contribution], most: int, what: str = "item"
    ) -> list[Contribution]:
        """The largest parts, and the sum of the others as one.

        Parameters
        ----------
        contributions : one of the lists
        most : how many parts are shown, besides that of all others
        what : what the others are called

        Returns
        -------
        list of Contribution
        """
        if len(contributions) <= most + 1:
            return list(contributions)
        others = math.fsum(each.value for each in contributions[most:])
        name = f"the other {count(len(contributions) - most, what)}"
        return [*contributions[:most], Contribution(name, others)]

    def sentences(self, most: int = 3) -> list[str]:
        """The explanation in words.

        Parameters
        ----------
        most : how many columns and items are named, at most

        Returns
        -------
        list of str
        """
        above, below, gap = self.first, self.second, self.difference
        if gap < 0:
            above, below, gap = below, above, -gap
        lines = [f"The score of {above} is {gap:.3g} higher than that of {below}."]
        if not gap:
            lines = [f"{above} and {below} have the same prediction."]
        if self.by_column:
            pros, cons = (self._listed(sign, most) for sign in (1, -1))
            about = "" if self.columns_exact else " (approximate)"
            lines.append(f"What speaks for {self.first}{about}: {pros}; for {self.second}: {cons}.")
        groups = {"By view": self.by_view} if len(self.by_view) > 1 else {}
        for title, contributions in (groups | self._learned_from(most)).items():
            listed = ", ".join(f"{each.name} {each.value:+.3g}" for each in contributions)
            lines.append(f"{title}: {listed}.")
        for name, alike in zip((self.first, self.second), self.alike, strict=True):
            if alike:
                lines.append(f"{name} is most like {', '.join(alike)}.")
        return [*lines, self.distance] if self.distance else lines

    def _learned_from(self, most: int) -> dict[str, list[Contribution]]:
        """Title and largest parts of what the model learned from: answers where they are known,
        else its items.
        """
        what, contributions = self.items_are, self.by_item
        if self.by_answer:
            what = "comparison" if what == "compared item" else "score"
            contributions = self.by_answer
        shown = self.folded(contributions, most, what)
        return {f"By {what}": shown} if len(contributions) > 1 else {}

    def _listed(self, sign: int, most: int) -> str:
        """The columns whose parts have a sign, in words."""
        columns = [each for each in self.by_column if sign * each.value > 0]
        shown = self.folded(columns, most, "column")
        return ", ".join(f"{each.name} {abs(each.value):.3g}" for each in shown) or "nothing"

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    def as_dict(self) -> dict[str, Any]:
        """Everything, as JSON has it."""
        lists = ("by_item", "by_answer", "by_view", "by_column")
        return {
            "first": self.first,
            "second": self.second,
            "difference": self.difference,
            "columns_by": self.columns_by,
            "columns_exact": self.columns_exact,
            **{
                name: [{"name": each.name, "value": each.value} for each in getattr(self, name)]
                for name in lists
            },
            "alike": {"first": self.alike[0], "second": self.alike[1]},
            "sentences": self.sentences(),
        }

    def tables(self, most: int = 8) -> dict[str, list[Contribution]]:
        """Title and parts of every table that is worth showing.

        Parameters
        ----------
        most : how many parts a table shows, besides that of all others

        Returns
        -------
        dict
        """
        about = "" if self.columns_exact else ", approximately"
        tables = {f"By column{about}": self.folded(self.by_column, most, "column")}
        if len(self.by_view) > 1:
            tables["By view"] = self.folded(self.by_view, most, "view")
        tables |= self._learned_from(most)
        return {title: contributions for title, contributions in tables.items() if contributions}

    def _repr_html_(self) -> str:
        text = "".join(f"<p>{escape(sentence)}</p>" for sentence in self.sentences()[:2])
        for title, contributions in self.tables().items():
            rows = "".join(
                f"<tr><td>{escape(each.name)}</td><td>{each.value:+.4g}</td></tr>"
                for each in contributions
            )
            text += f"<table><caption>{escape(title)}</caption>{rows}</table>"
        return text


# ---------------------------------------------------------------- the two items


@dataclass(frozen=True)
class Pair:
    """Two items to explain.

    rows : (2, d) features; labels : what they are called; numbers : their rows in `items`, None
        where they are not there
    items : (n, d) features of items that the model may have learned from, or None; names : (n,)
        what they are called
    """

    rows: Array
    labels: tuple[str, str]
    numbers: Index | None = None
    items: Array | None = None
    names: Sequence[str] | None = None


def read_pair(read: Reader, a: Any, b: Any, items: Any, names: Any) -> Pair:
    """Two items as `explain_pair` takes them, checked; `read` gives the features of rows."""
    item_rows = None if items is None else float64(read(items))
    if names is not None:
        if item_rows is None:
            raise ValueError("names are those of items; hand over items= too.")
        if len(names) != item_rows.shape[0]:
            raise ValueError(
                f"names has {len(names)} entries for {item_rows.shape[0]} rows of items."
            )
    elif item_rows is not None:
        names = row_labels(items)
    names = None if names is None else [str(name) for name in names]
    given = {"a": a, "b": b}
    numbers = [isinstance(row, Integral) for row in given.values()]
    if any(numbers):
        if item_rows is None or not all(numbers):
            raise ValueError(
                "a and b must be two rows, or two row numbers with items=, the rows that they"
                " number."
            )
        n = item_rows.shape[0]
        for name, row in given.items():
            if not 0 <= row < n:
                raise ValueError(f"{name} is row {row}, but items has rows 0 to {n - 1}.")
        rows = take(item_rows, np.asarray([a, b]))
        labels = (f"row {a}", f"row {b}") if names is None else (names[a], names[b])
        return Pair(rows, labels, np.asarray([a, b]), item_rows, names)
    first, second = (_read_row(read, row, name) for name, row in given.items())
    rows = stack_rows([first[0], second[0]])
    return Pair(rows, (first[1], second[1]), None, item_rows, names)


def _read_row(read: Reader, row: Any, name: str) -> tuple[Array, str]:
    """The features of one item (1, d), and what it is called."""
    label = getattr(row, "name", None)
    # a row of a pandas frame
    if isinstance(row, Mapping) or (hasattr(row, "to_dict") and not is_frame(row)):
        row = pa.Table.from_pylist([dict(row.items())])
    elif is_frame(row):
        labels = row_labels(row)
        label = None if labels is None or len(labels) != 1 else labels[0]
    elif is_foreign(row):
        row = row if row.ndim == 2 else namespace(row).reshape(row, (1, -1))
    elif not is_sparse(row):
        refuse_masked(row, name, "fill in or leave out such entries")
        row = np.atleast_2d(np.asarray(row))
        if row.dtype.kind == "U":
            raise ValueError(f"{name} is an object: explain_pair speaks of columns of numbers.")
    features = float64(read(row))
    if features.shape[0] != 1:
        raise ValueError(f"{name} must be one row, got {features.shape[0]}.")
    return features, label if isinstance(label, str) else name


def matched_rows(points: Sequence[Array], items: Sequence[Array]) -> tuple[Index, Index]:
    """The first row of the items that is the same as each point, −1 where none is, and how many
    rows are: (r,) each.

    points, items : matrices of the same columns each, side by side
    """
    keys = []
    item_keys = []
    for left, right in zip(points, items, strict=True):
        largest = (
            abs(right).max(axis=0).toarray()
            if is_sparse(right)
            else np.abs(to_numpy(right)).max(axis=0)
        )
        scale = 1 / np.where(largest > 0, largest, 1.0).ravel()
        keys.append(_row_keys(left, scale))
        item_keys.append(_row_keys(right, scale))
    seen: dict[tuple[bytes, ...], list[int]] = {}
    for row, key in enumerate(zip(*item_keys, strict=True)):
        seen.setdefault(key, []).append(row)
    matches = [seen.get(key, []) for key in zip(*keys, strict=True)]
    first = [rows[0] if rows else -1 for rows in matches]
    return np.asarray(first, dtype=np.int64), np.asarray(list(map(len, matches)))


def _row_keys(rows: Array, scale: FloatArray) -> list[bytes]:
    """Rows as bytes, which are the same for rows whose numbers are."""
    if not is_sparse(rows):
        return [row.tobytes() for row in np.round(to_numpy(rows) * scale, MATCHED_DIGITS) + 0.0]
    cells = np.round(rows.data * scale[rows.indices], MATCHED_DIGITS) + 0.0
    runs = [slice(*ends) for ends in pairwise(rows.indptr)]
    return [rows.indices[run].tobytes() + cells[run].tobytes() for run in runs]


def summed(contributions: Sequence[Contribution], difference: float) -> list[Contribution]:
    """Parts in order of size, which sum to the difference: rounding goes into the largest part."""

    def by_size(parts: Iterable[Contribution]) -> list[Contribution]:
        return sorted(parts, key=lambda part: -abs(part.value))

    sizes = abs(difference) + math.fsum(abs(part.value) for part in contributions)
    parts = by_size(part for part in contributions if abs(part.value) > NOTHING * sizes)
    missing = difference - math.fsum(part.value for part in parts)
    if not missing:
        return parts
    if not parts or abs(missing) > ROUNDING * sizes:
        return by_size([*parts, Contribution(OTHERWISE, missing)])
    largest, *others = parts
    return [replace(largest, value=largest.value + missing), *others]


# ---------------------------------------------------------------- columns


@dataclass(frozen=True)
class ColumnOwners:
    """The columns of a table that features come from; those of a vector count as one.

    names : (q,); owners : (d,) number of the column that each feature comes from
    """

    names: Sequence[str]
    owners: Index

    @classmethod
    def of(cls, model: Any) -> ColumnOwners:
        """The columns of a fitted model."""
        if model.encoder_ is None:
            d = model.n_features_in_
            names = model.feature_names
            names = [f"column {at}" for at in range(d)] if names is None else list(map(str, names))
            return cls(names, np.arange(d)).followed_by(model.columns_of_roles)
        columns = model.encoder_.columns_
        called = [f"{column.vector}*" if column.vector else column.name for column in columns]
        numbers = {name: number for number, name in enumerate(dict.fromkeys(called))}
        groups = np.asarray([numbers[name] for name in called])
        owners = cls(list(numbers), groups[model.encoder_.attributes_])
        return owners.followed_by(model.columns_of_roles)

    def followed_by(self, names: Sequence[str]) -> ColumnOwners:
        """With further columns, those with the same name as one."""
        called = [*self.names, *dict.fromkeys(names)]
        places = [called.index(name, len(self.names)) for name in names]
        return ColumnOwners(called, np.concatenate([self.owners, places]).astype(np.int64))

    def distance(self, shares: FloatArray | None, weight: float = 1.0) -> str:
        """How much of the distance between rows the columns make, as a sentence, by the shares of
        features (d,); empty for None.
        """
        if shares is None:
            return ""
        totals = np.bincount(self.owners, shares, len(self.names)).tolist()
        text = distance_in_words(self.names, totals, weight)
        return f"{text[0].upper()}{text[1:]}."


def mixed_rows(pair: Array, chosen: Mask) -> Array:
    """Rows whose chosen columns (m, d) are those of the first of two rows, the others those of the
    second: (m, d).

    pair : (2, d), dense or CSR
    """
    if not is_sparse(pair):
        first, second = to_numpy(pair)
        rows = np.where(chosen, first, second)
        return like(rows, pair) if is_foreign(pair) else rows
    used = np.unique(pair.indices)
    first, second = pair[:, used].toarray()
    cells = np.where(chosen[:, used], first, second)
    bounds = np.arange(len(cells) + 1) * len(used)
    columns = np.tile(used, len(cells))
    rows = sparse.csr_array((cells.ravel(), columns, bounds), shape=chosen.shape)
    rows.eliminate_zeros()
    return rows


def shapley_values(
    value: Callable[[Mask], FloatArray], n: int, *, additive: bool = False
) -> tuple[FloatArray, str]:
    """Shapley values (n,) of n players, and how they were computed.

    value : of coalitions, one per row of a mask (m, n): (m,)
    additive : whether the value is a sum over players, so that one order says it all
    """
    if not additive and n <= MAX_ENUMERATED:
        masks = (np.arange(2**n)[:, None] >> np.arange(n)) % 2 == 1
        values = value(masks)
        sizes = masks.sum(axis=1)
        shares = np.empty(n)
        for player in range(n):
            without = np.flatnonzero(~masks[:, player])
            weights = 1 / (n * comb(n - 1, sizes[without]))
            shares[player] = weights @ (values[without + 2**player] - values[without])
        return shares, ALL_ORDERS
    rng = np.random.default_rng(0)
    n_pairs = int(np.clip(MAX_MIXED_ROWS // (n + 1), MIN_ORDERS, MAX_ORDERS)) // 2
    orders = [rng.permutation(n) for _ in range(1 if additive else n_pairs)]
    shares = np.zeros(n)
    # less noise than two
    both_ways = orders if additive else [*orders, *(order[::-1] for order in orders)]
    n_steps = n if n <= MAX_MIXED_ROWS else MAX_STEPS
    # players enter one by one, or very many in groups
    steps = np.linspace(0, n, n_steps + 1).astype(np.int64)
    sizes = np.diff(steps)
    for order in both_ways:
        places = np.argsort(order)
        values = value(places[None, :] < steps[:, None])
        shares[order] += np.repeat(np.diff(values) / sizes, sizes)
    return shares / len(both_ways), SUM if additive and n_steps == n else SAMPLED


def column_contributions(
    columns: ColumnOwners,
    players: Index,
    value: Callable[[Mask], FloatArray] | None,
    width: int,
    *,
    additive: bool = False,
    linear: FloatArray | None = None,
) -> tuple[list[Contribution], str]:
    """What columns of a table contribute, by Shapley values, and how these were computed.

    players : numbers of the columns in which the items differ
    value : of rows by which features (m, d) they have of the first item; with `width` columns they
        fit into a block. None where nothing is left to share out
    additive : whether it is a sum over columns
    linear : (q,) what all columns contribute beside that
    """
    shares = np.zeros(len(players))
    columns_by = SUM
    if value is not None and len(players):
        places = np.searchsorted(players, columns.owners).clip(max=len(players) - 1)
        step = max(16, BLOCK_ENTRIES // max(width, 1))

        def values(masks: Mask) -> FloatArray:
            runs = runs_of_rows(len(masks), step)
            return np.concatenate([value(masks[run][:, places]) for run in runs])

        shares, columns_by = shapley_values(values, len(players), additive=additive)
    if linear is not None:
        shares = shares + linear[players]
    names = [columns.names[player] for player in players]
    return list(map(Contribution, names, shares.tolist())), columns_by


# ---------------------------------------------------------------- from parts of a function to an explanation


@dataclass(frozen=True)
class PartTerms:
    """What a part of a function contributes to a difference.

    view : what the part sees
    values : (r,) terms, one per item that it consists of
    items : (r,) numbers by which parts know the same item, None where they count as one
    labels : what they are called
    alike : (2, r) how alike the two items are to them, 1 for the same, 0 where that is not known
    weight : of what the part says about that
    """

    view: str
    values: FloatArray
    items: Index | None
    labels: Sequence[str]
    alike: FloatArray | float = 0.0
    weight: float = 0.0


def item_sums(parts: Sequence[PartTerms]) -> tuple[Index, list[str], FloatArray, FloatArray]:
    """Numbers and labels of the items that parts consist of, in order of first appearance, the sums
    of their terms (k,), and how alike the two items are to them (2, k).
    """
    parts = [part for part in parts if part.items is not None]
    rows = [np.zeros((3, 0))]
    for part in parts:
        alike = np.broadcast_to(part.weight * part.alike, (2, len(part.values)))
        rows.append(np.vstack([part.values, alike]))
    numbers = np.concatenate([np.zeros(0, np.int64), *(part.items for part in parts)])
    codes, n = first_appearance(numbers)
    sums = np.asarray([np.bincount(codes, row, n) for row in np.hstack(rows)])
    labels = [label for part in parts for label in part.labels]
    first = np.unique(codes, return_index=True)[1]
    return numbers[first], [labels[place] for place in first], sums[0], sums[1:]


def most_alike(similarity: FloatArray, contributions: Sequence[Contribution]) -> list[str]:
    """Names of the items that are most like one, other than itself; similarity (k,) is 1 for the
    same.
    """
    order = np.argsort(-similarity, kind="stable")
    return [contributions[at].name for at in order if 0 < similarity[at] < 1 - 1e-9][:MAX_ALIKE]


def explain_terms(
    pair: Pair,
    difference: float,
    parts: Sequence[PartTerms],
    by_column: tuple[list[Contribution], str],
    *,
    find: Callable[[Index], tuple[Index, Index] | None],
    items_are: str,
    limits: Sequence[Contribution] = (),
    answers: Callable[[Sequence[Contribution]], list[Contribution]] | None = None,
) -> PairExplanation:
    """The explanation of a difference by what the parts of a function contribute.

    Parameters
    ----------
    by_column : what columns contribute, and how that was computed
    find : rows of `pair.items` that are items of some numbers, and how many are alike
    limits : what is no part of the function
    answers : what the answers behind the items contribute, for the contributions of items
    """
    numbers, labels, values, alike = item_sums(parts)
    alike = alike / (sum(part.weight for part in parts) or 1.0)
    by_item = list(map(Contribution, labels, values.tolist()))
    for number, (row, n_alike) in enumerate(zip(*(find(numbers) or ((), ())), strict=True)):
        if row >= 0:  # the item has a name in `pair.items`
            name = f"row {row}" if pair.names is None else pair.names[row]
            name = name if n_alike == 1 else f"{name} (one of {n_alike} alike)"
            by_item[number] = Contribution(name, by_item[number].value, int(row))
    views: dict[str, float] = {}
    together: dict[str, float] = {}
    for part in parts:
        value = math.fsum(part.values)
        views[part.view] = views.get(part.view, 0.0) + value
        if part.items is None:
            (label,) = part.labels
            together[label] = together.get(label, 0.0) + value
    others, by_view = (list(starmap(Contribution, sums.items())) for sums in (together, views))
    of_columns, columns_by = by_column
    by_answer = [] if answers is None else answers(by_item)
    return PairExplanation(
        *pair.labels,
        difference,
        summed([*by_item, *others, *limits], difference),
        summed([*by_view, *limits], difference),
        summed([*of_columns, *(limits if columns_by == SUM else ())], difference),
        columns_by,
        (most_alike(alike[0], by_item), most_alike(alike[1], by_item)),
        items_are,
        summed([*by_answer, *limits], difference) if by_answer else [],
    )


# ---------------------------------------------------------------- functions of spans


def explain_function(
    function: Function,
    pair: Pair,
    columns: ColumnOwners,
    *,
    view_names: Sequence[str] | None = None,
    item_names: Sequence[str] | None = None,
    items_are: str = "item",
) -> PairExplanation:
    """Explain the difference between two items.

    Parameters
    ----------
    view_names : one per part of the function, None where these are no views
    item_names : (r,) what the points of the function are called, None for their row numbers
    items_are : what they are, as in `PairExplanation`
    """

    def values(rows: Array, parts: Sequence[Expansion] = function.parts) -> FloatArray:
        shares = [part.share * to_numpy(part.values(rows)) for part in parts]
        return np.asarray(np.sum(shares, axis=0))

    def value(chosen: Mask) -> FloatArray:
        return values(mixed_rows(pair.rows, chosen), others)

    # linear functions are shared out to columns exactly, the others by Shapley values
    gap = np.subtract(*_dense(pair.rows))
    linear, others = np.zeros(len(columns.names)), []
    for part in function.parts:
        slopes = part.slopes(len(gap))
        if slopes is None:
            others.append(part)
            continue
        seen = slice(None) if part.span.columns is None else part.span.columns
        np.add.at(linear, columns.owners[seen], part.share * to_numpy(slopes) * gap[seen])
    players = np.unique(columns.owners[gap != 0])
    shared = value if others else None
    by_column = column_contributions(columns, players, shared, len(gap), linear=linear)
    first, second = values(pair.rows)
    parts, known = _function_terms(function, pair, view_names, item_names)
    explanation = explain_terms(
        pair,
        float(first - second),
        parts,
        by_column,
        find=lambda numbers: _find_points(numbers, known, pair),
        items_are=items_are,
    )
    return replace(explanation, distance=columns.distance(function.parts[0].span.column_shares))


def _function_terms(
    function: Function, pair: Pair, view_names: Sequence[str] | None, names: Sequence[str] | None
) -> tuple[list[PartTerms], list[tuple[Span, Index]]]:
    """What every part contributes, and the points of the views with the numbers of their items."""
    parts: list[PartTerms] = []
    known: list[tuple[Span, Index]] = []
    unnumbered = 0
    for number, part in enumerate(function.parts):
        span = part.span
        view = ALL_COLUMNS if view_names is None else view_names[number]
        phi = _dense(part.features(pair.rows))
        terms = part.share * to_numpy(part.coefficients) * (phi[0] - phi[1])
        if span.of_columns:
            parts.append(PartTerms(view, terms, None, ["weights of columns"], 0.0, part.share))
            continue
        items = span.rows
        labels = names
        if items is None:  # points of one view are the same items whatever the kernel width
            items = -1 - unnumbered - np.arange(len(terms))
            unnumbered += 0 if view_names is None else len(terms)
            labels = labels or [f"basis row {at}" for at in range(len(terms))]
        labels = labels or [f"row {row}" for row in items]
        has_points = span.points is not None and not span.kernel.precomputed
        alike = _likeness(span, pair.rows, phi) if has_points else 0.0
        parts.append(PartTerms(view, terms, items, labels, alike, part.share))
        if has_points and (view_names is not None or not known):
            known.append((span, items))
    return parts, known


def _likeness(span: Span, rows: Array, phi: FloatArray) -> FloatArray:
    """How alike two rows, with kernel values phi, are to the points, 1 for the same: (2, r)."""
    sizes = to_numpy(span.kernel.diagonal(span.seen(rows)))
    point_sizes = to_numpy(span.kernel.diagonal(span.points))
    sizes = np.sqrt(np.maximum(sizes[:, None] * point_sizes[None, :], 0.0))
    return phi / np.where(sizes > 0, sizes, np.inf)


def _find_points(
    numbers: Index, known: Sequence[tuple[Span, Index]], pair: Pair
) -> tuple[Index, Index] | None:
    """Rows of `pair.items` that are the same as items in all views in which these are points.

    known : points of every view, with the numbers of their items
    """
    if pair.items is None:
        return None
    rows = np.full(len(numbers), -1)
    counts = np.ones(len(numbers), dtype=np.int64)
    held = np.asarray([np.isin(numbers, items) for _, items in known]).reshape(len(known), -1)
    for in_views in np.unique(held, axis=1).T:
        if not in_views.any():
            continue
        chosen = np.flatnonzero((held == in_views[:, None]).all(axis=0))
        points, others = [], []
        for (span, items), is_in in zip(known, in_views, strict=True):
            if is_in:
                order = np.argsort(items, kind="stable")
                places = order[np.searchsorted(items, numbers[chosen], sorter=order)]
                points.append(take(span.points, places))
                others.append(span.seen(pair.items))
        rows[chosen], counts[chosen] = matched_rows(points, others)
    return rows, counts


def _dense(rows: Array) -> FloatArray:
    """Rows as a NumPy array."""
    return np.asarray(rows.toarray() if is_sparse(rows) else to_numpy(rows), dtype=np.float64)
