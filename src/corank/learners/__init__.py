"""The public estimators."""

from corank.learners.components import KPCR, KPCRank
from corank.learners.copursuit import CoRankingPursuit
from corank.learners.corls import CoRankRLS, CoRLS
from corank.learners.difference import DifferenceGP
from corank.learners.files import load
from corank.learners.preference import PreferenceGP
from corank.learners.pursuit import MatchingPursuit, RankingPursuit
from corank.learners.rls import RLS, RankRLS
from corank.learners.transductive import TransductiveRankRLS

__all__ = [
    "KPCR",
    "RLS",
    "CoRLS",
    "CoRankRLS",
    "CoRankingPursuit",
    "DifferenceGP",
    "KPCRank",
    "MatchingPursuit",
    "PreferenceGP",
    "RankRLS",
    "RankingPursuit",
    "TransductiveRankRLS",
    "load",
]
