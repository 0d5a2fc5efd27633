"""Data to try corank on: joke ratings, a sample of Jester (how it was drawn: `jokes/NOTICE` and
`tools/make_jokes.py`); Python Enhancement Proposals, items with titles, words, dates, counts and
links (their origin: `peps/NOTICE`); and made-up problems, in `synthetic`.
"""

from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import sparse

from corank.core.arrays import Index, Mask
from corank.datasets.synthetic import (
    RankingData,
    ShopData,
    TwoViewData,
    make_ranking,
    make_shop,
    make_two_views,
)

__all__ = [
    "ProposalData",
    "RankingData",
    "ShopData",
    "TwoViewData",
    "load_jokes",
    "load_peps",
    "make_ranking",
    "make_shop",
    "make_two_views",
]

FOLDER = resources.files("corank.datasets")
_NOT_RATED = 9900
_CITATION = (
    "Ken Goldberg, Theresa Roeder, Dhruv Gupta and Chris Perkins. Eigentaste: A Constant Time"
    " Collaborative Filtering Algorithm. Information Retrieval 4(2), 133-151, 2001."
)
_DESCRIPTION = (
    "Ratings of 100 jokes (-10 to 10) by 400 users, each of whom rated 36 to 100 of them: a sample"
    " of Jester. A row is a joke that a user rated, its features are the ratings of the joke by 100"
    " reference users, who are none of the 400; a query is a user. Freely available for research"
    " use when acknowledged with the citation."
)
_COUNTS = ("authors", "words", "code_blocks", "sections")


def load_jokes() -> RankingData:
    """Load ratings of 100 jokes by 400 users, a sample of Jester.

    A row is a joke that a user rated. Its 100 features are the ratings of the same joke by 100
    reference users, who rated every joke and are not among the 400. A query is a user; users come
    in random order, so that the first ones are as good a sample as the last.

    Returns
    -------
    RankingData
        `X` of shape (27,919, 100) and `y` in -10 to 10; `qid` numbers the users as in part 1 of
        Jester, `item` the jokes from 1 to 100.

    Raises
    ------
    FileNotFoundError
        If corank was installed without the ratings, as from a wheel.

    Notes
    -----
    The ratings are free for research use when the `citation` is given [1]_; this is why wheels do
    not have them.

    References
    ----------
    .. [1] K. Goldberg, T. Roeder, D. Gupta, C. Perkins, "Eigentaste: A Constant Time Collaborative
       Filtering Algorithm", Information Retrieval 4(2), 133-151, 2001.
    """
    path = FOLDER / "jokes" / "jokes.npz"
    if not path.is_file():
        message = (
            "The joke ratings are not part of this installation: they are free for research use and"
            " travel with corank's source repository and the source distribution (sdist), not with"
            " the wheel. Install corank from one of these, or use corank.datasets.make_ranking(),"
            " which gives made-up data of the same form."
        )
        raise FileNotFoundError(message)
    with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
        ratings = file["ratings"]
        users = file["users"].astype(np.int64)
        reference = file["reference_ratings"]
        reference_users = file["reference_users"]
    user, joke = np.nonzero(ratings != _NOT_RATED)
    return RankingData(
        X=(reference.T / 100.0)[joke],
        y=ratings[user, joke] / 100.0,
        qid=users[user],
        item=joke.astype(np.int64) + 1,
        feature_names=tuple(f"user_{number}" for number in reference_users),
        description=_DESCRIPTION,
        citation=_CITATION,
    )


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
    path = FOLDER / "peps" / "peps.npz"
    with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    vocabulary = arrays["vocabulary"]
    numbers = arrays["word_numbers"].astype(np.int32)
    counts = arrays["word_counts"].astype(np.int64)
    shape = (len(arrays["pep"]), len(vocabulary))
    word_counts = sparse.csr_array((counts, numbers, arrays["row_ends"]), shape)
    words = np.repeat(vocabulary[numbers], counts)
    n_words = np.asarray(word_counts.sum(axis=1))
    ends = np.cumsum(n_words)
    texts = [" ".join(row) for row in np.split(words, ends[:-1])]
    kinds = arrays["type"]
    columns = {
        "title": pa.array(arrays["title"]),
        "abstract_words": pa.array(texts),
        "type": pa.array(kinds, mask=kinds == ""),
        "created": pa.array(arrays["created"]).cast(pa.date32()),
    }
    for name in _COUNTS:
        columns[name] = pa.array(arrays[name].astype(np.int64))
    links = arrays["links"].astype(np.int64)
    return ProposalData(
        X=pa.table(columns),
        ids=arrays["pep"].astype(np.int64),
        topic=arrays["topic"],
        links=pa.table({"pep": links[:, 0], "cites": links[:, 1]}),
        word_counts=word_counts,
        vocabulary=vocabulary,
    )
