"""The public estimators."""

from corank.learners.corls import CoRankRLS, CoRLS
from corank.learners.files import load
from corank.learners.rls import RLS, RankRLS

__all__ = ["RLS", "CoRLS", "CoRankRLS", "RankRLS", "load"]
