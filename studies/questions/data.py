"""The real data sets as the studies use them: those of corank's own studies of the papers, and Cora."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from scipy import sparse

from studies.papers.data_sets import (
    JESTER,
    RANKING,
    REGRESSION,
    SUSHI,
    Floats,
    Integers,
    Rankings,
    Ratings,
    jester,
    rankings,
    regression_names,
    regression_set,
    sushi,
)

__all__ = [
    "CORA",
    "JESTER",
    "RANKING",
    "REGRESSION",
    "SUSHI",
    "Cora",
    "Floats",
    "Integers",
    "Rankings",
    "Ratings",
    "cora",
    "jester",
    "rankings",
    "regression_names",
    "regression_set",
    "sushi",
]
CORA = ("cora/cora.npz",)


@dataclass(frozen=True)
class Cora:
    """Papers: their words and their citations as rows of unit length (cosine kernel = linear kernel), their class."""

    words: sparse.csr_array
    links: sparse.csr_array
    label: Integers


@lru_cache(maxsize=1)
def cora(folder: Path) -> Cora:
    """Words are binary; a row of links is that of the adjacency matrix, with a one for the paper itself."""
    with np.load(folder / CORA[0]) as data:
        indices, starts = data["word_indices"].astype(np.int32), data["word_indptr"]
        words = sparse.csr_array((np.ones(len(indices)), indices, starts), shape=tuple(data["shape"]))
        first, second = data["edges"].T.astype(np.int64)
        label = data["label"].astype(np.int64)
    n, itself = len(label), np.arange(len(label))
    places = np.concatenate([first, second, itself]), np.concatenate([second, first, itself])
    links = sparse.csr_array((np.ones(len(places[0])), places), shape=(n, n))
    return Cora(words, links, label)
