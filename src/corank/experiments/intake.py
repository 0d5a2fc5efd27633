"""What came in: how many rows, queries and scores there are, how many of them are tied, and what looks wrong."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from corank.experiments.items import Floats, Integers, Items


@dataclass(frozen=True)
class Intake:
    """The data in numbers.

    tied : share of the pairs of scored rows of a query that have the same score
    problems : what a user should know of, in sentences
    """

    rows: int
    scored: int
    queries: int | None
    smallest_query: int | None
    median_query: float | None
    largest_query: int | None
    tied: float
    lowest: float
    highest: float
    problems: tuple[str, ...]


def intake(items: Items) -> Intake:
    """Count, and look for what is wrong."""
    y, codes = items.y[items.scored], np.zeros(len(items), dtype=np.int64) if items.qid is None else items.qid
    sizes = np.bincount(codes)
    with_queries = items.qid is not None
    return Intake(
        rows=len(items),
        scored=len(y),
        queries=len(sizes) if with_queries else None,
        smallest_query=int(sizes.min()) if with_queries else None,
        median_query=float(np.median(sizes)) if with_queries else None,
        largest_query=int(sizes.max()) if with_queries else None,
        tied=_tied(y, codes[items.scored]),
        lowest=float(y.min()),
        highest=float(y.max()),
        problems=tuple(_problems(items, codes, sizes)),
    )


def _tied(y: Floats, codes: Integers) -> float:
    """Share of tied pairs within queries; 0 where there is no pair."""
    together = np.bincount(codes)
    same = np.unique(np.stack([codes, y]), axis=1, return_counts=True)[1]
    pairs = float((together * (together - 1.0)).sum())
    return float((same * (same - 1.0)).sum()) / pairs if pairs else 0.0


def _problems(items: Items, codes: Integers, sizes: Integers) -> list[str]:
    found = []
    if items.qid is not None:
        scored = np.bincount(codes[items.scored], minlength=len(sizes))
        low, high = np.full(len(sizes), np.inf), np.full(len(sizes), -np.inf)
        np.minimum.at(low, codes[items.scored], items.y[items.scored])
        np.maximum.at(high, codes[items.scored], items.y[items.scored])
        none = int((scored == 0).sum())
        if none:
            found.append(f"{none:,} of {len(sizes):,} queries have no scored row.")
        single, flat = int((scored == 1).sum()), int(((scored > 1) & (low == high)).sum())
        if single:
            found.append(f"{single:,} of {len(sizes):,} queries have one scored row: it competes with none.")
        if flat:
            found.append(f"{flat:,} of {len(sizes):,} queries have the same score throughout: nothing to learn there.")
    if not items.is_table and not sparse.issparse(items.X):
        constant = int((np.ptp(items.X, axis=0) == 0).sum()) if len(items) else 0
        if constant:
            found.append(f"{constant:,} of {items.X.shape[1]:,} columns are constant.")
        rows = np.column_stack([items.X, codes])
        repeated = len(rows) - len(np.unique(rows, axis=0))
        if repeated:
            found.append(f"{repeated:,} rows repeat another row of the same query.")
    return found
