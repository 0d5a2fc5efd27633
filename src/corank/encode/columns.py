"""One column of a table: what an encoder learns about it, and how its cells become features.

Kinds of columns and their values are found in `kinds.py`; `encoder.py` puts the columns of a table
together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from corank.core.arrays import FloatArray, Mask
from corank.core.messages import in_bytes, warn_user
from corank.core.sampling import in_order_of_contents
from corank.encode.kinds import NumberedColumns, item_codes, labels, quantity, texts, vectors
from corank.encode.text import TextFeatures
from corank.tables import LARGEST

Item = TypeVar("Item")
# with more rows, all with different labels, a column holds names, not a property
MAX_UNREPEATED_ROWS = 20
FAR_OUTSIDE = 1e4  # times the range of the middle half of the numbers
FEWEST_NUMBERS = 20  # by which one can be told to lie far outside
MAX_OUTSIDE_SHARE = 0.02  # of the numbers; more are no slips
MAX_BLOCK_NUMBERS = 2**20  # that are summarised at a time
NO_REPEATS = "no text occurs twice, as in a column of names or labels"
ALL_MISSING, CONSTANT = "all values are missing", "always the same value"
IGNORED = "ignored as asked"
DAYS_PER_YEAR = 365.2425


@dataclass(frozen=True, kw_only=True, slots=True)  # there may be 200,000 of them
class Column:
    """What was learned about one column.

    dropped : why the column is not used; empty if it is
    values : whether its numbers are used; not where only missing values tell rows apart
    missing : whether missing values are marked in an extra feature
    categories : labels with a feature each; other : whether all other labels share one
    year, season : whether a date has features for its year, and for the place of its day in the
        year
    format : how dates are written, empty for that of ISO; the unit of numbers, empty without
    vector : the name of the vector that a numbered column is a component of
    fill : stands for a missing number; a number becomes (number - centre) / divisor
    low, high : between what numbers lie, without those far outside; clips : whether there are such,
        which count as these
    text : features of a column of text
    centres : (n,) the mean of a column of vectors, whose differences from it are divided by
        `divisor`
    """

    name: str
    kind: str
    dropped: str = ""
    values: bool = False
    missing: bool = False
    categories: tuple[str, ...] = ()
    other: bool = False
    year: bool = False
    season: bool = False
    format: str = ""
    clips: bool = False
    vector: str = ""
    fill: float = 0.0
    centre: float = 0.0
    divisor: float = 1.0
    low: float = -LARGEST
    high: float = LARGEST
    text: TextFeatures | None = field(default=None, compare=False)
    centres: FloatArray | None = field(default=None, compare=False)

    def feature_names(self) -> list[str]:
        """Names of the features of this column, in their order."""
        if self.dropped:
            return []
        if self.text is not None:
            return [f"{self.name} component {at}" for at in range(1, len(self.text.components) + 1)]
        if self.centres is not None:
            return [f"{self.name} {at}" for at in range(1, len(self.centres) + 1)]
        names = [f"{self.name}={label}" for label in self.categories]
        if self.values:
            names = [self.name]
        names += [f"{self.name} year"] * self.year
        names += [f"{self.name} season (sine)", f"{self.name} season (cosine)"] * self.season
        return names + [f"{self.name} other"] * self.other + [f"{self.name} missing"] * self.missing

    @property
    def is_single_number(self) -> bool:
        """Whether a number is all that becomes of a cell."""
        is_plain = not self.missing and not self.clips
        return self.kind in ("number", "vector") and self.values and is_plain

    def group(self) -> tuple[str, str]:
        """Kind and name of the group that the features of this column belong to."""
        if self.kind in ("text", "identity"):
            return self.kind, self.name
        if self.kind == "vector":
            return "vector", f"{self.vector}*" if self.vector else self.name
        return "table", ""

    def encode(self, values: pa.ChunkedArray, out: FloatArray) -> None:
        """Fill `out`, zeros of shape (n_rows, n_features of this column)."""
        if self.text is not None:
            self.text.encode(texts(values, self.name), out)
        elif self.centres is not None:
            matrix, rows = vectors(values, self.name, len(self.centres))
            out[rows] = (matrix - self.centres) / self.divisor
        elif self.kind == "category":
            self._encode_labels(values, out)
        elif self.kind == "identity":
            out[:, 0] = item_codes(values, self.name)
        else:
            self._encode_quantity(values, out)

    def _encode_labels(self, values: pa.ChunkedArray, out: FloatArray) -> None:
        distinct, codes = labels(values, self.name)
        positions: dict[str | None, int] = {label: at for at, label in enumerate(self.categories)}
        positions[None] = out.shape[1] - 1 if self.missing else -1
        other = len(self.categories) if self.other else -1
        position_of = [positions.get(label, other) for label in distinct]
        features = np.array(position_of, dtype=np.intp)[codes]
        rows = np.flatnonzero(features >= 0)
        out[rows, features[rows]] = 1.0

    def _encode_quantity(self, values: pa.ChunkedArray, out: FloatArray) -> None:
        amounts = quantity(values, self.name, self.kind, self.format)
        missing = np.isnan(amounts)
        filled = np.where(missing, self.fill, amounts)
        if self.clips:
            filled = np.clip(filled, self.low, self.high)
        if self.values:
            out[:, 0] = (filled - self.centre) / self.divisor
        if self.year or self.season:
            # the first of January, in days since 1970 as the days are
            years = np.floor(filled).astype("datetime64[D]").astype("datetime64[Y]")
            first_days = years.astype("datetime64[D]").astype(np.float64)
        if self.year:
            out[:, 1] = (first_days - self.centre) / self.divisor
        if self.season:
            angle = 2 * np.pi * (filled - first_days) / DAYS_PER_YEAR
            start = 1 + self.year
            out[:, start] = np.sin(angle)
            out[:, start + 1] = np.cos(angle)
        if self.missing:
            out[:, -1] = missing

    def is_unusual(self, values: pa.ChunkedArray) -> Mask:
        """Whether each cell is of a kind that the fitted table has not: (n_rows,).

        A number or date is where it lies farther outside of those than they lie apart, a label
        where it is new.
        """
        if self.kind == "category" and not self.other:
            distinct, codes = labels(values, self.name)
            known = {None, *self.categories}
            is_new = [label not in known for label in distinct]
            return np.array(is_new, dtype=bool)[codes]
        if self.kind not in ("number", "date", "duration") or not self.values:
            return np.zeros(len(values), dtype=bool)
        amounts = quantity(values, self.name, self.kind, self.format)
        width = self.high - self.low
        return (amounts < self.low - width) | (amounts > self.high + width)

    def treatment(self) -> str:
        """How the column becomes features, in plain words."""
        if self.dropped:
            return f"dropped: {self.dropped}"
        if self.text is not None:
            return f"{self.text.treatment()} ({in_bytes(self.text.nbytes)})"
        if self.centres is not None:
            return (
                f"{len(self.centres)} components, minus their means, divided by {self.divisor:.6g}"
            )
        if self.vector:
            return (
                f"component of a vector, {self.vector}*, minus {self.centre:.6g}, divided by"
                f" {self.divisor:.6g}"
            )
        if self.kind == "category":
            steps = [f"one 0/1 column for each of {len(self.categories)} values"]
            steps += ["one for all others"] * self.other + ["one for missing"] * self.missing
            return ", ".join(steps)
        if self.kind == "identity":
            return "says which item it is: one effect per item"
        if not self.values:
            return "always the same where known: only a 0/1 column for missing is kept"
        number = f"as a number of {self.format}" if self.format else "as a number"
        steps = [{"number": number, "date": "as days since 1970", "duration": "in days"}[self.kind]]
        steps += ["its year"] * self.year + ["its season as sine and cosine"] * self.season
        steps += [f"all beyond {self.low:.6g} and {self.high:.6g} as these"] * self.clips
        is_date = self.kind == "date"
        fill = str(np.datetime64(int(self.fill), "D")) if is_date else f"{self.fill:.6g}"
        steps += [f"missing becomes {fill}" + " and is marked in a 0/1 column" * self.missing]
        if (self.centre, self.divisor) != (0.0, 1.0):
            steps += [f"minus {self.centre:.6g}, divided by {self.divisor:.6g}"]
        return ", ".join(steps)


def dropped_column(name: str, kind: str, why: str) -> Column:
    """A column that is not used."""
    return Column(name=name, kind=kind, dropped=why)


def learn_quantities(
    cells: Mapping[str, pa.ChunkedArray], kinds: Mapping[str, tuple[str, str]], scale: bool
) -> dict[str, Column]:
    """What was learned about columns of numbers, dates and durations, many columns at a time.

    `kinds` : the kind of each of these columns, and the format of its dates or the unit of its
        numbers
    """
    learned: dict[str, Column] = {}
    n_rows = len(next(iter(cells.values())))
    for block in in_blocks(list(kinds), n_rows):
        rows = [quantity(cells[name], name, *kinds[name]) for name in block]
        summaries = _summaries(np.stack(rows))
        for name, row, numbers in zip(block, rows, summaries, strict=True):
            learned[name] = _learn_quantity(name, row, *kinds[name], numbers, scale)
    return learned


def in_blocks(columns: list[Item], n_rows: int) -> Iterator[list[Item]]:
    """Columns in blocks of at most MAX_BLOCK_NUMBERS numbers, or of one column."""
    size = max(1, MAX_BLOCK_NUMBERS // max(n_rows, 1))
    for start in range(0, len(columns), size):
        yield columns[start : start + size]


@dataclass(frozen=True, slots=True)
class ColumnNumbers:
    """Numbers of a column: median, mean and spread (with the median in place of missing ones), and
    their ends.
    """

    median: float
    mean: float
    spread: float
    low: float
    high: float
    constant: bool
    missing: bool


def _summaries(amounts: FloatArray) -> list[ColumnNumbers]:
    """What is known of each row (k, n), with NaN for missing numbers."""
    missing = np.isnan(amounts)
    marked = missing.any(axis=1)
    empty = missing.all(axis=1)
    fill = np.zeros(len(amounts))
    fill[~marked] = np.median(amounts[~marked], axis=1)
    for row in np.flatnonzero(marked & ~empty):
        present = amounts[row, ~missing[row]]
        fill[row] = np.median(present)
    # sorted, so that sums do not depend on the order of the rows
    filled = np.sort(np.where(missing, fill[:, None], amounts), axis=1)
    mean = np.mean(filled, axis=1)
    low, high = filled[:, 0], filled[:, -1]
    largest = np.maximum(np.abs(low), np.abs(high))
    largest[largest == 0] = 1.0
    # squares of large numbers would overflow
    spread = np.std(filled / largest[:, None], axis=1) * largest
    rounding = 4 * np.finfo(float).eps * largest
    constant = (low == high) | (spread < np.maximum(rounding, 1 / LARGEST))
    columns = (fill, mean, spread, low, high, constant, marked)
    lists = [column.tolist() for column in columns]
    return [ColumnNumbers(*numbers) for numbers in zip(*lists, strict=True)]


def _learn_quantity(
    name: str, amounts: FloatArray, kind: str, format: str, numbers: ColumnNumbers, scale: bool
) -> Column:
    if numbers.constant and not numbers.missing:
        return dropped_column(name, kind, CONSTANT)
    if numbers.missing and np.isnan(amounts).all():
        return dropped_column(name, kind, ALL_MISSING)
    learned: dict[str, Any] = {
        "values": not numbers.constant,
        "missing": numbers.missing,
        "format": format,
    }
    outside = None
    if scale and kind == "number" and not numbers.constant:
        outside = _far_outside(amounts, numbers)
    if outside is not None:
        [numbers] = _summaries(np.where(outside, np.nan, amounts)[None])
        learned["clips"] = True
        row = int(np.argmax(outside))
        others = f" and {int(outside.sum()) - 1} more" if outside.sum() > 1 else ""
        warn_user(
            f"column {name!r} has {amounts[row]:.4g} in data row {row + 1}{others}, far outside of"
            f" the other numbers, from {numbers.low:.4g} to {numbers.high:.4g}: taken as the"
            " nearest of these"
        )
    learned |= {"fill": numbers.median, "low": numbers.low, "high": numbers.high}
    if scale and learned["values"]:
        learned |= {"centre": numbers.mean, "divisor": numbers.spread}
    if kind == "date" and learned["values"]:
        days = np.floor(amounts[~np.isnan(amounts)]).astype("datetime64[D]")
        learned["year"] = len(np.unique(days.astype("datetime64[Y]"))) > 1
        learned["season"] = len(np.unique(days.astype("datetime64[M]").astype(np.int64) % 12)) > 1
    return Column(name=name, kind=kind, **learned)


def _far_outside(amounts: FloatArray, numbers: ColumnNumbers) -> Mask | None:
    """Which few numbers (n,) lie so far outside that they would crush the others; None where there
    are none.
    """
    n = len(amounts)
    farthest = max(numbers.high - numbers.mean, numbers.mean - numbers.low)
    if n < FEWEST_NUMBERS or farthest < numbers.spread * np.sqrt(n) / 2:
        return None  # a single number that crushes the others makes up nearly all of the variance
    lower, upper = np.nanpercentile(amounts, (25, 75))
    distances = np.abs(amounts - numbers.median)
    outside: Mask = distances > FAR_OUTSIDE * (upper - lower)
    is_few = 0 < outside.sum() <= max(1, MAX_OUTSIDE_SHARE * n)
    return outside if upper > lower and is_few else None


def learn_categories(name: str, values: pa.ChunkedArray, max_categories: int) -> Column:
    """What was learned about a column of labels."""
    distinct, codes = labels(values, name)
    counts: Counter[str] = Counter()
    every_count = np.bincount(codes, minlength=len(distinct)).tolist()
    for label, count in zip(distinct, every_count, strict=True):
        if label is not None:
            counts[label] += count  # different values may have one label, such as 1 and 1.0
    missing = len(codes) > counts.total()
    if not counts:
        return dropped_column(name, "category", ALL_MISSING)
    if len(counts) == 1 and not missing:
        return dropped_column(name, "category", CONSTANT)
    if MAX_UNREPEATED_ROWS < len(counts) == counts.total():
        return dropped_column(name, "category", NO_REPEATS)
    frequent = sorted(counts, key=lambda label: (-counts[label], label))[:max_categories]
    other = len(counts) > max_categories
    return Column(
        name=name, kind="category", categories=tuple(sorted(frequent)), other=other, missing=missing
    )


def learn_text(name: str, values: pa.ChunkedArray) -> tuple[Column, FloatArray | None]:
    """What was learned about a column of text, and its texts encoded where that was a by-product."""
    cells = texts(values, name)
    is_constant = len(cells) > 1 and len(cells.unique()) == 1
    if is_constant and cells[0].as_py():
        return dropped_column(name, "text", CONSTANT), None
    features, encoded = TextFeatures.learn(cells)
    if features is None:
        return dropped_column(name, "text", "all texts are empty, or none has a word"), None
    column = Column(name=name, kind="text", text=features)
    return column, encoded


def learn_vectors(name: str, values: pa.ChunkedArray, scale: bool) -> Column:
    """What was learned about a column of lists of numbers."""
    matrix = in_order_of_contents(vectors(values, name)[0])
    if len(matrix) == 0:
        return dropped_column(name, "vector", ALL_MISSING)
    largest, spread = float(np.abs(matrix).max(initial=0.0)) or 1.0, 0.0
    if matrix.size:
        spread = float(np.sqrt(np.mean(np.var(matrix / largest, axis=0)))) * largest
    rounding = 4 * np.finfo(float).eps * largest
    if spread < max(rounding, 1 / LARGEST):
        return dropped_column(name, "vector", CONSTANT)
    centres = matrix.mean(axis=0)
    if not scale:
        centres, spread = 0 * centres, 1.0
    return Column(name=name, kind="vector", centres=centres, divisor=spread)


def learn_component(name: str, vector: NumberedColumns, position: int, scale: bool) -> Column:
    """What was learned about a numbered column that is a component of a vector."""
    if vector.spreads[position] == 0:
        return dropped_column(name, "vector", CONSTANT)
    mean = float(vector.centres[position])
    centre, divisor = (mean, vector.divisor) if scale else (0.0, 1.0)
    return Column(
        name=name,
        kind="vector",
        vector=vector.prefix,
        values=True,
        fill=mean,
        centre=centre,
        divisor=divisor,
    )
