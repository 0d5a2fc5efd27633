"""Answers that a model has learned from already: each has a mark, which its file keeps, so that
none counts twice.

The mark of a scored row is made of its score, its query, and its name or, where nothing names it,
its features; that of a comparison of the two names. An answer that differs in any of them is
another answer.
"""

from __future__ import annotations

from base64 import b64encode
from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from corank.core.arrays import FloatArray, Index, Mask, NumpyArray

MARKS = "marks"  # what the note on its table in a model file calls them
MARK_BYTES, MARK_LETTERS = 6, 8
MAX_MARKED = 200_000  # answers, beyond which none is marked
# of the rows without names: where more are alike, features do not tell rows apart
DISTINCT_SHARE = 0.98
# after the point; sums of texts are not the same to the last digit in every table
FEATURE_DIGITS = 6


def row_marks(
    names: Sequence[str | None] | None,
    features: Any,
    scores: FloatArray,
    queries: NumpyArray | None,
) -> list[str]:
    """Marks of scored rows, in their order; none where the rows cannot be told apart, or are too
    many.

    Parameters
    ----------
    names : (n,) or None
    features : (n, d)
    scores : (n,), NaN where unscored: such rows have no mark
    queries : (n,) labels, or None
    """
    scored = np.flatnonzero(~np.isnan(scores)).tolist()
    if len(scored) > MAX_MARKED:
        return []
    cells = np.round(np.asarray(features, dtype=np.float64)[scored], FEATURE_DIGITS) + 0.0  # no -0
    identities: list[str | bytes] = [row.tobytes() for row in cells]
    if names is not None:
        identities = [names[row] or cell for row, cell in zip(scored, identities, strict=True)]
    elif len(set(identities)) < DISTINCT_SHARE * len(identities):
        return []
    labels = [""] * len(scored) if queries is None else [str(queries[row]) for row in scored]
    return [
        _mark(identity, label, f"{score:.6g}")
        for identity, label, score in zip(identities, labels, scores[scored], strict=True)
    ]


def pair_marks(
    names: Sequence[str | None],
    winners: Index,
    losers: Index,
    margins: FloatArray | None = None,
    weights: FloatArray | None = None,
    person: Sequence[Any] | None = None,
) -> list[str]:
    """Marks of comparisons between items of these names: rows (p,) of the items, by how much the
    winner won and how often, once and by 1 where that is not given, and perhaps who said so.
    """
    n = len(winners)
    if n > MAX_MARKED:
        return []
    if margins is None:
        margins = np.ones(n)
    if weights is None:
        weights = np.ones(n)
    marks = []
    who = [()] * n if person is None else [(str(name),) for name in person]
    columns = winners, losers, margins, weights, who
    for winner, loser, margin, weight, names_of in zip(*columns, strict=True):
        marks.append(_mark(names[winner], names[loser], f"{margin:.6g}", f"{weight:g}", *names_of))
    return marks


def _mark(*parts: str | bytes | None) -> str:
    digest = blake2b(digest_size=MARK_BYTES)
    for part in parts:
        text = part if isinstance(part, bytes) else str(part).encode()
        digest.update(len(text).to_bytes(8, "big") + text)
    return b64encode(digest.digest()).decode()


def are_new(marks: Sequence[str], model: Any) -> Mask:
    """Whether the model has not learned from each answer: (n,). An answer that it knows k times is
    new from then on.
    """
    text = str((model.table_ or {}).get(MARKS) or "")
    known = Counter(text[at : at + MARK_LETTERS] for at in range(0, len(text), MARK_LETTERS))
    new = np.ones(len(marks), dtype=bool)
    for at, mark in enumerate(marks):
        if known[mark] > 0:
            known[mark] -= 1
            new[at] = False
    return new


def with_marks(table: dict[str, Any], marks: Sequence[str]) -> dict[str, Any]:
    """The note on a table with the marks of further answers, where those before have marks."""
    before = table.get(MARKS)
    if before is None:
        return table
    return {**table, MARKS: str(before) + "".join(marks)}
