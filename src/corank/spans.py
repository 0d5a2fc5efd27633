"""Sums over a stretch of rows that add up to those of longer stretches, wherever a query was cut.

What chunks, files and workers hand on: the sums of whole queries, and the moments of the two at the ends. Two stretches
that follow each other make one; how many they came from does not matter beyond rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from corank._backend import Array, like, to_numpy
from corank.comparison import Comparison
from corank.statistics import Accumulator, End, Gram, Moments, Statistics

Arrays = dict[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class Spans:
    """Sums over rows that follow each other.

    between : of whole queries, and of the parts of the nameless one
    head, tail : queries at the ends, by their ids; no tail where all rows are one query, neither where none are compared
    """

    between: Statistics
    head: End | None = None
    tail: End | None = None

    @classmethod
    def of(cls, sums: Accumulator, ids: np.ndarray[Any, Any]) -> Spans:
        """What was added to an accumulator that keeps ends; `ids` (n_codes,) are the ids of its query codes."""
        between, *ends = sums.ends()
        head, tail = (None if end is None else replace(end, query=int(ids[end.query])) for end in ends)
        return cls(between, head, tail)

    def merged(self, other: Spans) -> Spans:
        """These rows and those that follow them. O(folds · r²)."""
        between = self.between.merged(other.between)
        if self.head is None or other.head is None:
            return Spans(between, self.head or other.head, self.tail or other.tail)
        left, right = self.tail or self.head, other.head
        inner: list[End] = []  # queries that lie between the ends now
        if left.query == right.query:
            joined = replace(left, moments=right.moments.merge(left.moments))
            head = joined if self.tail is None else self.head
            tail = joined if other.tail is None else other.tail
            if self.tail is None and other.tail is None:
                return Spans(between, joined)
            if self.tail is not None and other.tail is not None:
                inner = [joined]
        else:
            head, tail = self.head, other.tail or right
            inner = [end for end, ends in ((self.tail, True), (right, other.tail is not None)) if end and ends]
        for end in inner:
            between = _with(between, end)
        return Spans(between, head, tail)

    def closed(self) -> Statistics:
        """The sums, all queries taken as complete."""
        result = self.between
        for end in (self.head, self.tail):
            result = result if end is None else _with(result, end)
        return result

    # ---------------------------------------------------------------- to disk and back

    def packed(self) -> tuple[dict[str, Any], Arrays]:
        """JSON and arrays."""
        grams, parts = self.between.queries, self.between.parts
        arrays: Arrays = {
            "sums": np.stack([to_numpy(gram.matrix) for gram in grams]),
            "weights": np.asarray([gram.weight for gram in grams]),
            "freedoms": np.asarray([gram.freedom for gram in grams], dtype=np.int64),
        }
        header: dict[str, Any] = {"parts": [], "ends": []}
        for fold, part in enumerate(parts):
            if part is not None:
                header["parts"].append([fold, part.count])
                arrays |= _packed_moments(f"part{fold}", part)
        for name, end in self._ends():
            header["ends"].append([name, end.query, end.fold, end.moments.count])
            arrays |= _packed_moments(name, end.moments)
        return header, arrays

    def _ends(self) -> Iterator[tuple[str, End]]:
        for name, end in (("head", self.head), ("tail", self.tail)):
            if end is not None:
                yield name, end

    @classmethod
    def unpacked(cls, header: dict[str, Any], arrays: Arrays, comparison: Comparison, reference: Array) -> Spans:
        """What `packed` gave, beside a reference."""
        numbers = zip(arrays["sums"], arrays["weights"], arrays["freedoms"], strict=True)
        grams = tuple(Gram(like(matrix, reference), float(weight), int(free)) for matrix, weight, free in numbers)
        parts: list[Moments | None] = [None] * len(grams)
        for fold, count in header["parts"]:
            parts[fold] = _unpacked_moments(f"part{fold}", count, arrays, reference)
        ends = {
            name: End(query, fold, _unpacked_moments(name, count, arrays, reference))
            for name, query, fold, count in header["ends"]
        }
        return cls(Statistics(comparison, grams, tuple(parts)), ends.get("head"), ends.get("tail"))


def _with(between: Statistics, end: End) -> Statistics:
    grams = list(between.queries)
    grams[end.fold] = grams[end.fold] + end.moments.gram(between.comparison)
    return replace(between, queries=tuple(grams))


def _packed_moments(name: str, moments: Moments) -> Arrays:
    return {
        f"{name}.weight": np.asarray([moments.weight]),
        f"{name}.mean": to_numpy(moments.mean),
        f"{name}.scatter": to_numpy(moments.scatter),
    }


def _unpacked_moments(name: str, count: int, arrays: Arrays, reference: Array) -> Moments:
    mean, scatter = (like(arrays[f"{name}.{part}"], reference) for part in ("mean", "scatter"))
    return Moments(float(arrays[f"{name}.weight"][0]), count, mean, scatter)
