"""`--method auto`: which learner a table gets, and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from corank.cli.console import count, note
from corank.cli.methods import AGREEING, AUTO, BY_EVIDENCE, LEARNERS, RANKERS, Method

if TYPE_CHECKING:
    from corank.cli.training import Training

CANDIDATE_ROWS = 200  # that span each function while methods are compared, which then takes seconds
WORDS = {
    "supervised": "one model on all columns, from the scored rows alone",
    "average": "the mean of one model a view, from the scored rows alone",
    "agreement": "views that agree on unscored rows",
}


@dataclass(frozen=True)
class Asked:
    """What decides about the method before any row is read.

    ranks : with queries or comparisons; else scores are predicted
    compared : from comparisons
    views : whether views or more unscored rows are given
    smoothing : whether alpha is
    streamed : whether rows are read in passes
    """

    ranks: bool
    compared: bool
    views: bool
    smoothing: bool
    streamed: bool

    @property
    def plain(self) -> Method:
        """The learner for scored rows alone."""
        return Method.rankrls if self.ranks else Method.rls

    @property
    def agreeing(self) -> Method:
        """The learner for unscored rows too."""
        return Method.corankrls if self.ranks else Method.corls

    def settled(self, method: Method) -> Method:
        """The method, `auto` only where the rows decide."""
        if method is not AUTO:
            return method
        found = self.agreeing if self.views else self.plain
        if self.streamed:
            other = "" if self.views else f"; --method {self.agreeing} learns from unscored rows too"
            note(f"rows are read in passes, so no methods are compared: this is --method {found}{other}")
            return found
        return found if self.compared or self.smoothing else AUTO


def fitted(
    training: Training, method: Method, asked: Asked, options: dict[str, Any], views: Any, doing: Callable[[str], None]
) -> tuple[Any, dict[str, Any] | None]:
    """A model of rows in memory and, where methods were compared, what came of it."""
    from corank.views import random_bases

    training.check_scores(ranks=(asked.plain if method is AUTO else method) in RANKERS)
    found = None
    if method is AUTO and not asked.views and (not training.n_unscored or isinstance(views, random_bases)):
        method = asked.plain  # nothing to agree on, or a single column that cannot be divided
    if method is AUTO:
        doing(f"comparing ways to learn from {training.size}")
        model, found = _compared(training, asked, options, views)
        if model is None:
            method = asked.plain
    if method is not AUTO:
        model = _one(training, method, options, views, doing)
    model.encoder_ = training.encoder
    model.table_ = training.remembered
    if training.names is not None and hasattr(model, "atoms_"):
        model.name_atoms([training.names[row] for row in model.atoms_])
    return model, found


def _one(training: Training, method: Method, options: dict[str, Any], views: Any, doing: Callable[[str], None]) -> Any:
    from corank import learners

    if options["gamma"] == "auto":
        gamma = training.automatic_gamma(options["kernel"])
        options = {**options, "gamma": "tune" if method in BY_EVIDENCE else "scale" if method in AGREEING else gamma}
    if method in AGREEING:
        options = {**options, "views": views}
    model = getattr(learners, LEARNERS[method])(**options)
    doing(f"fitting {type(model).__name__} on {training.size}")
    training.fit(model)
    return model


def _compared(training: Training, asked: Asked, options: dict[str, Any], views: Any) -> tuple[Any, dict[str, Any]]:
    """The best of the ways that `AutoRanker` or `AutoRegressor` compares, None where that is the plain one, which is
    then fitted with all its rows as basis; and what each came to."""
    from corank.selection import AutoRanker, AutoRegressor

    options = {"basis": min(CANDIDATE_ROWS, len(training.features)), **options, "views": views}
    if options["gamma"] == "auto":
        options["gamma"] = "scale"
    auto = (AutoRanker if asked.ranks else AutoRegressor)(random_state=0, **options)
    training.fit(auto)
    effect = auto.unscored_effect_
    found = {
        "chosen": auto.chosen_,
        "candidates": [_without_nan(asdict(candidate)) for candidate in auto.candidates_],
        "unscored_effect": None if effect is None else asdict(effect),
    }
    return None if auto.chosen_ == "supervised" else auto.best_estimator_, found


def _without_nan(candidate: dict[str, Any]) -> dict[str, Any]:
    return {name: None if value != value else value for name, value in candidate.items()}  # noqa: PLR0124


def in_words(found: dict[str, Any]) -> dict[str, str]:
    """What came of a comparison, for people."""
    candidates = found["candidates"]
    of = f", the best of {count(len(candidates), 'way')} to learn" if candidates else ", as there are few scores"
    return {"chosen": f"{WORDS[found['chosen']]}{of}"}


def effect_in_words(effect: dict[str, Any] | None, *, ranks: bool) -> dict[str, str]:
    """Whether unscored rows helped; rankers are judged by pairs, others by squared errors."""
    if effect is None:
        return {}
    without, with_ = effect["error_without"], effect["error_with"]
    shares = f"{without:.1%} of held-out pairs in the wrong order without them, {with_:.1%} with them"
    squares = f"held-out squared error {without:.4g} without them, {with_:.4g} with them"
    gap = f"{effect['difference']:+.2%} ± {effect['standard_error']:.2%}"
    if not ranks:
        gap = f"{effect['difference']:+.2g} ± {effect['standard_error']:.2g}"
    return {"unscored rows": f"{effect['verdict']}: {shares if ranks else squares} (gain {gap})"}
