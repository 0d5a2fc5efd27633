"""Data to try corank on: joke ratings, and made-up problems."""

from corank.datasets._data import RankingData, TwoViewData
from corank.datasets._jokes import load_jokes
from corank.datasets.synthetic import make_ranking, make_two_views

__all__ = ["RankingData", "TwoViewData", "load_jokes", "make_ranking", "make_two_views"]
