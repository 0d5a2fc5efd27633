"""How far a reader has to walk: which files one fit enters, and how often it changes file."""

import sys
from itertools import pairwise
from pathlib import Path

import numpy as np

import corank
from corank import CoRankRLS, RankRLS, View

ROOT = Path(corank.__file__).parent
RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4))
Y = X[:, 0] + X[:, 2]
QID = np.arange(60) // 6


def walked(fit):
    """The files of `learners` and `solve` that a fit enters, in the order of the calls."""
    fit()  # what is imported, compiled or cached only once is no part of the walk
    files = {"learners": [], "solve": []}

    def note(frame, event, argument):
        place = Path(frame.f_code.co_filename)
        if event == "call" and place.parent.parent == ROOT and place.parent.name in files:
            files[place.parent.name].append(place.name)

    sys.setprofile(note)
    try:
        fit()
    finally:
        sys.setprofile(None)
    return files


def changes(files):
    return sum(before != after for before, after in pairwise(files))


def test_a_fit_of_one_view_is_a_short_walk():
    files = walked(lambda: RankRLS().fit(X, Y, qid=QID))
    assert len(set(files["learners"])) <= 5, set(files["learners"])
    assert len(set(files["solve"])) <= 6, set(files["solve"])
    assert changes(files["learners"]) <= 8, files["learners"]


def test_a_fit_of_two_views_with_unscored_rows_is_a_short_walk():
    y = np.where(np.arange(60) % 3 == 0, np.nan, Y)
    views = [View(slice(0, 2)), View(slice(2, 4))]
    files = walked(lambda: CoRankRLS(views).fit(X, y, qid=QID))
    assert changes(files["learners"]) <= 16, files["learners"]
