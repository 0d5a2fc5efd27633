"""The built-in Python Enhancement Proposals: items with titles, words, dates, counts and links.
Origin: `peps/NOTICE`.
"""

from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import sparse

from corank.core.arrays import Index, Mask

_FOLDER = resources.files("corank.datasets") / "peps"
_COUNTS = ("authors", "words", "code_blocks", "sections")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ProposalData:
    """Python Enhancement Proposals.

    Attributes
    ----------
    X : pyarrow.Table of n rows
        `title`; `abstract_words`: the words of the abstract in alphabetical order, as often as they
        occur; `type`; `created`, a date; and the counts `authors`, `words`, `code_blocks` and
        `sections`.
    ids : ndarray of shape (n,)
        Numbers of the proposals.
    topic : ndarray of shape (n,)
        "Packaging", "Typing", "Governance", "Release", several of them between commas, or "", as
        mostly.
    links : pyarrow.Table
        `pep` and `cites`: numbers of a proposal and of one that it mentions.
    word_counts : CSR of shape (n, n_words)
        How often which word occurs in an abstract.
    vocabulary : ndarray of shape (n_words,)
        The words.
    """

    X: pa.Table
    ids: Index
    topic: NDArray[np.str_]
    links: pa.Table
    word_counts: Any
    vocabulary: NDArray[np.str_]

    @property
    def table(self) -> pa.Table:
        """The columns of X behind `pep`, the number of a proposal."""
        return self.X.add_column(0, "pep", pa.array(self.ids))

    def has_topic(self, topic: str) -> Mask:
        """Which proposals have a topic, perhaps among others: (n,)."""
        return np.array([topic in topics.split(", ") for topics in self.topic])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.ids)} proposals, {len(self.links):,} links)"


def load_peps() -> ProposalData:
    """Load 736 Python Enhancement Proposals with their titles, words, dates, counts and 1,653
    citations.

    Which proposals somebody cares about stands in none of the columns; `topic`, which is not one of
    them, can be the truth to judge a ranking by. Abstracts are given as their words in alphabetical
    order.

    Returns
    -------
    ProposalData
    """
    with (_FOLDER / "peps.npz").open("rb") as stream, np.load(stream, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    vocabulary, row_ends, numbers = (
        arrays[name] for name in ("vocabulary", "row_ends", "word_numbers")
    )
    shape = (len(arrays["pep"]), len(vocabulary))
    word_counts = sparse.csr_array(
        (arrays["word_counts"].astype(np.int64), numbers.astype(np.int32), row_ends), shape
    )
    repeated = np.repeat(vocabulary[numbers], arrays["word_counts"])
    n_words = np.asarray(word_counts.sum(axis=1))
    texts = [" ".join(row) for row in np.split(repeated, np.cumsum(n_words)[:-1])]
    columns = {
        "title": pa.array(arrays["title"]),
        "abstract_words": pa.array(texts),
        "type": pa.array(arrays["type"], mask=arrays["type"] == ""),
        "created": pa.array(arrays["created"]).cast(pa.date32()),
        **{name: pa.array(arrays[name].astype(np.int64)) for name in _COUNTS},
    }
    links = arrays["links"].astype(np.int64)
    return ProposalData(
        X=pa.table(columns),
        ids=arrays["pep"].astype(np.int64),
        topic=arrays["topic"],
        links=pa.table({"pep": links[:, 0], "cites": links[:, 1]}),
        word_counts=word_counts,
        vocabulary=vocabulary,
    )
