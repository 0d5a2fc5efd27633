"""The learners: one record each, read by everything that lists learners.

`corank` exports them, model files may name them, `corank fit --method` and `compare` offer them,
summaries quote their sentence. `declare` adds a learner of your own. Nothing is imported before a
class is asked for, so that `corank --help` does not wait for scikit-learn, and every room may read
the registry.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class LearnerRecord:
    """One learner.

    Attributes
    ----------
    name : name of the class
    module : module that defines it
    method : what `corank fit --method` and `compare` call it
    sentence : what it does, without a full stop
    ranks : whether it learns an order within queries; else it predicts scores
    views : whether it takes `views=`
    unscored : whether it learns from unscored rows
    comparisons : whether it has `fit_comparisons`
    scans : whether it learns from a `corank.scan`
    options : options of `corank fit` that it takes: agreement, alpha, amplitude, atoms, basis, beta,
        components, noise, pull, refit, solver, weighting
    keeps_scale : whether predictions are on the scale of the scores, for a ranker up to the level
        of a query
    in_files : whether model files hold it; else it saves another learner
    in_fit : whether `corank fit --method` offers it
    by_default : whether `compare` takes it when nobody says what to compare
    """

    name: str
    module: str
    method: str
    sentence: str
    ranks: bool = True
    views: bool = False
    unscored: bool = False
    comparisons: bool = False
    scans: bool = False
    options: tuple[str, ...] = ()
    keeps_scale: bool = True
    in_files: bool = True
    in_fit: bool = True
    by_default: bool = False


RECORDS: dict[str, LearnerRecord] = {}  # by the names of the classes


def declare(record: LearnerRecord) -> None:
    """Make a learner known everywhere: to model files, the command line and `compare`; twice is as
    good as once.
    """
    if RECORDS.get(record.name) == record:
        return
    if record.name in RECORDS or record.method in [other.method for other in RECORDS.values()]:
        raise ValueError(
            f"a learner called {record.name!r} or {record.method!r} is declared already."
        )
    RECORDS[record.name] = record


def learner_records() -> list[LearnerRecord]:
    """Every learner, in the order in which lists show them."""
    return list(RECORDS.values())


def stored_learners() -> list[str]:
    """Names of the classes that a model file may hold."""
    return [record.name for record in RECORDS.values() if record.in_files]


def learner_record(name: str) -> LearnerRecord:
    """The record of a declared class."""
    return RECORDS[name]


def learner_class(name: str) -> Any:
    """The class of a declared learner."""
    return getattr(import_module(RECORDS[name].module), name)


for _record in (
    LearnerRecord(
        "AutoRanker",
        "corank.learners.average.auto",
        "auto",
        "ranks items within a query, by an average of many models",
        views=True,
        unscored=True,
        comparisons=True,
        scans=True,
        in_fit=False,
        by_default=True,
    ),
    LearnerRecord(
        "AutoRegressor",
        "corank.learners.average.auto",
        "autoregressor",
        "predicts scores, by an average of many models",
        ranks=False,
        views=True,
        unscored=True,
        scans=True,
        in_fit=False,
        by_default=True,
    ),
    LearnerRecord(
        "RankRLS",
        "corank.learners.rls",
        "rankrls",
        "ranks items within a query",
        comparisons=True,
        scans=True,
        by_default=True,
        options=("alpha", "basis", "beta", "weighting"),
    ),
    LearnerRecord(
        "RLS",
        "corank.learners.rls",
        "rls",
        "predicts scores",
        ranks=False,
        scans=True,
        by_default=True,
        options=("alpha", "basis"),
    ),
    LearnerRecord(
        "CoRankRLS",
        "corank.learners.co_rls",
        "corankrls",
        "ranks items within a query, by views that agree on unscored rows",
        views=True,
        unscored=True,
        comparisons=True,
        scans=True,
        by_default=True,
        options=("agreement", "alpha", "basis", "beta", "solver", "weighting"),
    ),
    LearnerRecord(
        "CoRLS",
        "corank.learners.co_rls",
        "corls",
        "predicts scores, by views that agree on unscored rows",
        ranks=False,
        views=True,
        unscored=True,
        scans=True,
        by_default=True,
        options=("agreement", "alpha", "basis", "solver"),
    ),
    LearnerRecord(
        "KPCRank",
        "corank.learners.components",
        "kpcrank",
        "ranks items within a query, on the leading components",
        comparisons=True,
        options=("alpha", "basis", "components", "weighting"),
    ),
    LearnerRecord(
        "KPCR",
        "corank.learners.components",
        "kpcr",
        "predicts scores, on the leading components",
        ranks=False,
        options=("alpha", "basis", "components"),
    ),
    LearnerRecord(
        "RankingPursuit",
        "corank.learners.pursuit",
        "pursuit",
        "ranks items within a query, by a handful of atoms",
        comparisons=True,
        options=("atoms", "beta", "refit", "weighting"),
    ),
    LearnerRecord(
        "MatchingPursuit",
        "corank.learners.pursuit",
        "matching",
        "predicts scores, by a handful of atoms",
        ranks=False,
        options=("atoms", "refit"),
    ),
    LearnerRecord(
        "CoRankingPursuit",
        "corank.learners.co_pursuit",
        "copursuit",
        "ranks items within a query, by a handful of atoms per view that agree on unscored rows",
        views=True,
        unscored=True,
        comparisons=True,
        options=("agreement", "atoms", "beta", "refit", "weighting"),
    ),
    LearnerRecord(
        "TransductiveRankRLS",
        "corank.learners.transductive",
        "transductive",
        "ranks items within a query, with the scores of unscored rows filled in",
        unscored=True,
        options=("alpha", "basis", "pull", "weighting"),
    ),
    LearnerRecord(
        "PreferenceGP",
        "corank.learners.gp_preference",
        "preference",
        "ranks items by who beats whom, and says how sure it is",
        comparisons=True,
        keeps_scale=False,
        options=("amplitude", "basis"),
    ),
    LearnerRecord(
        "DifferenceGP",
        "corank.learners.gaussian_process",
        "difference",
        "ranks items by differences of scores, and says how sure it is",
        comparisons=True,
        options=("amplitude", "basis", "noise"),
    ),
):
    declare(_record)
