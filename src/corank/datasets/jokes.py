"""The built-in joke ratings: a sample of Jester. How it was drawn: `jokes/NOTICE` and
`tools/make_jokes.py`.
"""

from importlib import resources

import numpy as np

from corank.datasets.synthetic import RankingData

_FOLDER = resources.files("corank.datasets") / "jokes"
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
    path = _FOLDER / "jokes.npz"
    if not path.is_file():
        message = (
            "The joke ratings are not part of this installation: they are free for research use and"
            " travel with corank's source repository and the source distribution (sdist), not with"
            " the wheel. Install corank from one of these, or use corank.datasets.make_ranking(),"
            " which gives made-up data of the same form."
        )
        raise FileNotFoundError(message)
    with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
        ratings, users = file["ratings"], file["users"].astype(np.int64)
        reference, reference_users = file["reference_ratings"], file["reference_users"]
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
