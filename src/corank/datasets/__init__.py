"""Data to try corank on: joke ratings, and made-up problems."""

from corank.datasets.jokes import load_jokes
from corank.datasets.shop import ShopData, make_shop
from corank.datasets.synthetic import RankingData, TwoViewData, make_ranking, make_two_views

__all__ = ["RankingData", "ShopData", "TwoViewData", "load_jokes", "make_ranking", "make_shop", "make_two_views"]
