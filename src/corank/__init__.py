"""corank: learn to rank and score items when only a few of them are scored."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from corank._version import __version__
from corank.core.registry import learner_records

if TYPE_CHECKING:
    from corank.core.kernels import register_kernel as register_kernel
    from corank.core.views import ProductKernel as ProductKernel
    from corank.core.views import SumKernel as SumKernel
    from corank.core.views import View as View
    from corank.core.views import random_bases as random_bases
    from corank.core.views import random_split as random_split
    from corank.core.views import side_by_side as side_by_side
    from corank.describe import Summary as Summary
    from corank.encode.encoder import TableEncoder as TableEncoder
    from corank.interpretation import ColumnEffect as ColumnEffect
    from corank.interpretation import RankUncertainty as RankUncertainty
    from corank.interpretation import column_effects as column_effects
    from corank.interpretation import rank_uncertainty as rank_uncertainty
    from corank.interview import ask as ask
    from corank.learners.average.auto import AutoRanker as AutoRanker
    from corank.learners.average.auto import AutoRegressor as AutoRegressor
    from corank.learners.average.candidates import Candidate as Candidate
    from corank.learners.average.candidates import WeighedCandidate as WeighedCandidate
    from corank.learners.co_pursuit import CoRankingPursuit as CoRankingPursuit
    from corank.learners.co_rls import CoRankRLS as CoRankRLS
    from corank.learners.co_rls import CoRLS as CoRLS
    from corank.learners.components import KPCR as KPCR
    from corank.learners.components import KPCRank as KPCRank
    from corank.learners.gaussian_process import DifferenceGP as DifferenceGP
    from corank.learners.gp_preference import PreferenceGP as PreferenceGP
    from corank.learners.pair_explanation import PairExplanation as PairExplanation
    from corank.learners.pursuit import Explanation as Explanation
    from corank.learners.pursuit import MatchingPursuit as MatchingPursuit
    from corank.learners.pursuit import RankingPursuit as RankingPursuit
    from corank.learners.rls import RLS as RLS
    from corank.learners.rls import RankRLS as RankRLS
    from corank.learners.transductive import TransductiveRankRLS as TransductiveRankRLS
    from corank.links import LinkEncoder as LinkEncoder
    from corank.model_files import load as load
    from corank.solve.effect import UnscoredEffect as UnscoredEffect
    from corank.solve.tuning import Path as Path
    from corank.solve.votes import Judge as Judge
    from corank.solve.votes import JudgeAgreement as JudgeAgreement
    from corank.streaming import scan as scan
    from corank.tables.answers import Answers as Answers
    from corank.tables.answers import read_answers as read_answers

# Names are looked up when first used: `corank --help` should not wait for scikit-learn.
_MODULES = ("datasets", "experiments", "interview", "metrics", "report")
# to a distribution of its own, which need not be installed: not in dir()
_FORWARDED = ("federated",)
_OTHERS = {
    "Answers": "corank.tables.answers",
    "Candidate": "corank.learners.average.candidates",
    "Explanation": "corank.learners.pursuit",
    "LinkEncoder": "corank.links",
    "PairExplanation": "corank.learners.pair_explanation",
    "Path": "corank.solve.tuning",
    "ProductKernel": "corank.core.views",
    "SumKernel": "corank.core.views",
    "Summary": "corank.describe",
    "TableEncoder": "corank.encode.encoder",
    "Judge": "corank.solve.votes",
    "JudgeAgreement": "corank.solve.votes",
    "UnscoredEffect": "corank.solve.effect",
    "View": "corank.core.views",
    "WeighedCandidate": "corank.learners.average.candidates",
    "ask": "corank.interview",
    "ColumnEffect": "corank.interpretation",
    "RankUncertainty": "corank.interpretation",
    "column_effects": "corank.interpretation",
    "load": "corank.model_files",
    "random_bases": "corank.core.views",
    "random_split": "corank.core.views",
    "rank_uncertainty": "corank.interpretation",
    "read_answers": "corank.tables.answers",
    "register_kernel": "corank.core.kernels",
    "scan": "corank.streaming",
    "side_by_side": "corank.core.views",
}


def _modules_by_name() -> dict[str, str]:
    return {record.name: record.module for record in learner_records()} | _OTHERS


__all__ = ["__version__", *sorted(_modules_by_name())]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name in (*_MODULES, *_FORWARDED):
        return import_module(f"corank.{name}")
    module = _modules_by_name().get(name)
    if module is None:
        raise AttributeError(f"module 'corank' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(module), name)
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_MODULES})
