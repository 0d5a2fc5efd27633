"""The public estimators: thin compositions of comparison, basis and solver."""

from corank.learners.files import load
from corank.learners.rls import RLS, RankRLS

__all__ = ["RLS", "RankRLS", "load"]
