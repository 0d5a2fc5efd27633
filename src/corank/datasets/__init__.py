"""Data to try corank on: joke ratings, and made-up problems."""

from corank.datasets.jokes import load_jokes
from corank.datasets.synthetic import RankingData, TwoViewData, make_ranking, make_two_views

__all__ = ["RankingData", "TwoViewData", "load_jokes", "make_ranking", "make_two_views"]
