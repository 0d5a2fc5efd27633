"""The public estimators."""

from corank.learners.co_pursuit import CoRankingPursuit
from corank.learners.co_rls import CoRankRLS, CoRLS
from corank.learners.components import KPCR, KPCRank
from corank.learners.gp_difference import DifferenceGP
from corank.learners.gp_preference import PreferenceGP
from corank.learners.pursuit import MatchingPursuit, RankingPursuit
from corank.learners.rls import RLS, RankRLS
from corank.learners.transductive import TransductiveRankRLS
from corank.model_files.schema import load

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
