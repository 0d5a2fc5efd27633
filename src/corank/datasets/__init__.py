"""Data to try corank on: joke ratings, Python Enhancement Proposals, and made-up problems."""

from corank.datasets.built_in import ProposalData, load_jokes, load_peps
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
