"""corank: learn to rank and score items when only a few of them are scored."""

from corank.kernels import register_kernel
from corank.learners import RLS, RankRLS

__version__ = "0.1.0"
__all__ = ["RLS", "RankRLS", "__version__", "register_kernel"]
