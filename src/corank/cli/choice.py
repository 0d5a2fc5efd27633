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
CHECKING = "checking whether unscored rows help"
UNSCORED = "unscored rows"
WORDS = {
    "supervised": "one model on all columns, from the scored rows alone",
    "average": "the mean of one model a view, from the scored rows alone",
    "agreement": "views that agree on unscored rows",
}

SHORT = {name: words.removesuffix(", from the scored rows alone") for name, words in WORDS.items()}


@dataclass(frozen=True)
class Asked:
    """What decides about the method before any row is read.

    ranks : with queries or comparisons; else scores are predicted
    compared : from comparisons
    views : whether views or more unscored rows are given
    smoothing : whether alpha is
    streamed : whether rows are read in passes
    effect : whether to find out if unscored rows helped
    """

    ranks: bool
    compared: bool
    views: bool
    smoothing: bool
    streamed: bool
    effect: bool = True

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
        model, found = _compared(training, asked, options, views, doing)
        if model is None:
            method = asked.plain
    if method is not AUTO:
        model = _one(training, method, options, views, doing)
        if found is None:
            model = with_effect(model, doing, wanted=asked.effect)
    model.encoder_ = training.encoder
    model.table_ = {**training.remembered, **({} if found is None else _remembered(found, ranks=asked.ranks))}
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


def with_effect(model: Any, doing: Callable[[str], None], *, wanted: bool) -> Any:
    """The model with whether unscored rows helped, which takes several fits, or one that does not look for it."""
    if not wanted:
        return model._at_a_glance()
    if hasattr(type(model), "unscored_effect_"):
        doing(CHECKING)
        _ = model.unscored_effect_  # is kept once found
    return model


def _compared(
    training: Training, asked: Asked, options: dict[str, Any], views: Any, doing: Callable[[str], None]
) -> tuple[Any, dict[str, Any]]:
    """The best of the ways that `AutoRanker` or `AutoRegressor` compares, None where that is the plain one, which is
    then fitted with all its rows as basis; and what each came to."""
    from corank.selection import AutoRanker, AutoRegressor

    options = {"basis": min(CANDIDATE_ROWS, len(training.features)), **options, "views": views}
    if options["gamma"] == "auto":
        options["gamma"] = "scale"
    auto = (AutoRanker if asked.ranks else AutoRegressor)(random_state=0, **options)
    training.fit(auto)
    auto = with_effect(auto, doing, wanted=asked.effect)
    effect = auto.unscored_effect_
    found = {
        "chosen": auto.chosen_,
        "candidates": [_without_nan(asdict(candidate)) for candidate in auto.candidates_],
        "unscored_effect": None if effect is None else asdict(effect),
    }
    return None if auto.chosen_ == "supervised" else auto.best_estimator_._at_a_glance(), found


def _remembered(found: dict[str, Any], *, ranks: bool) -> dict[str, str]:
    """What a model file keeps of a comparison: words, for `corank inspect`."""
    effect = found["unscored_effect"]
    kept = {"auto_chosen": WORDS[found["chosen"]], "auto_reason": reason_of(found)}
    if effect is not None:
        kept |= {"auto_verdict": effect["verdict"], "auto_unscored": effect_in_words(effect, ranks=ranks)[UNSCORED]}
    return kept


def _without_nan(candidate: dict[str, Any]) -> dict[str, Any]:
    return {name: None if value != value else value for name, value in candidate.items()}  # noqa: PLR0124


def in_words(found: dict[str, Any]) -> dict[str, str]:
    """What came of a comparison, for people."""
    candidates = found["candidates"]
    of = f", the best of {count(len(candidates), 'way')} to learn" if candidates else ", as there are few scores"
    return {"chosen": f"{WORDS[found['chosen']]}{of}"}


def reason_of(found: dict[str, Any]) -> str:
    """What was compared and why the chosen way was taken."""
    candidates = found["candidates"]
    if not candidates:
        return "nothing, as there are too few scores: the simplest model was taken"
    errors = [f"{_spread(one['error'], one['standard_error'])} for {SHORT[one['name']]}" for one in candidates]
    chosen = next(one for one in candidates if one["name"] == found["chosen"])
    why = "no other is clearly better than the first"
    if chosen["gain"] is not None:
        gain = _spread(chosen["gain"], chosen["gain_error"])
        why = f"{SHORT[chosen['name']]}: clearly better than {SHORT[chosen['beside']]}, by {gain}"
    return f"held-out error {', '.join(errors)}; {why}"


def _spread(value: float, error: float | None) -> str:
    return f"{value:.3g}" + ("" if error is None else f" ± {error:.2g}")


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
    return {UNSCORED: f"{effect['verdict']}: {shares if ranks else squares} (gain {gap})"}
