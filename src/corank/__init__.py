"""corank: learn to rank and score items when only a few of them are scored."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from corank._version import __version__

if TYPE_CHECKING:
    from corank.auto import AutoRanker, AutoRegressor
    from corank.encoder import TableEncoder
    from corank.kernels import register_kernel
    from corank.learners import (
        KPCR,
        RLS,
        CoRankingPursuit,
        CoRankRLS,
        CoRLS,
        DifferenceGP,
        KPCRank,
        MatchingPursuit,
        PreferenceGP,
        RankingPursuit,
        RankRLS,
        TransductiveRankRLS,
        load,
    )
    from corank.streaming import scan
    from corank.views import View, random_bases, random_split, side_by_side

__all__ = [
    "KPCR",
    "RLS",
    "AutoRanker",
    "AutoRegressor",
    "CoRLS",
    "CoRankRLS",
    "CoRankingPursuit",
    "DifferenceGP",
    "KPCRank",
    "MatchingPursuit",
    "PreferenceGP",
    "RankRLS",
    "RankingPursuit",
    "TableEncoder",
    "TransductiveRankRLS",
    "View",
    "__version__",
    "load",
    "random_bases",
    "random_split",
    "register_kernel",
    "scan",
    "side_by_side",
]

# Names are looked up when first used: `corank --help` should not wait for scikit-learn.
_PLACES = {
    "AutoRanker": "corank.auto",
    "AutoRegressor": "corank.auto",
    "CoRLS": "corank.learners",
    "CoRankRLS": "corank.learners",
    "CoRankingPursuit": "corank.learners",
    "DifferenceGP": "corank.learners",
    "KPCR": "corank.learners",
    "KPCRank": "corank.learners",
    "MatchingPursuit": "corank.learners",
    "PreferenceGP": "corank.learners",
    "RLS": "corank.learners",
    "RankRLS": "corank.learners",
    "RankingPursuit": "corank.learners",
    "TableEncoder": "corank.encoder",
    "TransductiveRankRLS": "corank.learners",
    "View": "corank.views",
    "load": "corank.learners",
    "random_bases": "corank.views",
    "random_split": "corank.views",
    "register_kernel": "corank.kernels",
    "scan": "corank.streaming",
    "side_by_side": "corank.views",
}
_MODULES = ("datasets", "experiments", "federated", "metrics", "report")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"corank.{name}")
    if name not in _PLACES:
        raise AttributeError(f"module 'corank' has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return sorted({*__all__, *_MODULES})
