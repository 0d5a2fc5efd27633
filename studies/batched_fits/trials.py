"""Methods on people: parameters are chosen once on hold-out people, then there is one error per
test person.

The methods are those of the tables of [Tsivtsivadze2013]. Nothing is chosen on anybody who is
tested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from studies.batched_fits.batches import (
    Batch,
    Halves,
    Kernels,
    batches,
    loss_root,
    squared_distances,
)
from studies.batched_fits.co_pursuit import SHARED, co_pursuit_paths, two_views
from studies.batched_fits.protocol import (
    Answers,
    Cast,
    Person,
    RatingLists,
    SampleSizes,
    draw_casts,
    split_people,
)
from studies.batched_fits.pursuit import pursuit_paths
from studies.batched_fits.ridge_and_svm import ranksvm_paths, ridge_paths, subset_paths
from studies.data import Floats, Integers
from studies.verdicts import standard_error

ALPHAS = tuple(float(alpha) for alpha in np.logspace(-4, 6, 21))
COSTS = tuple(float(cost) for cost in np.logspace(-5, 1, 7))
STEPS = (*range(1, 11), 12, 15, 20, 25, 30, 40, 50, 70, 100, 200)
CO_STEPS = (*range(1, 9), 10, 12, 15, 20, 30)
AGREEMENTS = (0.0, 0.001, 0.01, 0.03, 0.1, 0.3, 1.0, 10.0)
WIDTHS = tuple(range(-15, 16))  # gamma = 2^width ([Tsivtsivadze2013] sect. 6.1)
DIGITS = 6  # of errors that are kept

Candidate = dict[str, float]


# ---- methods


@dataclass(frozen=True)
class Paths:
    """Predictions (u, candidates, test items) and numbers of kernel functions in the models (u,
    candidates).
    """

    predictions: Floats
    n_atoms: Integers


class BatchedMethod(Protocol):
    """A method, for any number of people and one kernel width."""

    @property
    def candidates(self) -> list[Candidate]:
        """What there is to choose from beside the width."""
        ...

    def paths(self, kernels: Kernels) -> Paths:
        """Predictions for all candidates, in their order."""
        ...

    def around(self, candidate: Candidate) -> BatchedMethod:
        """The method with that candidate, and others that come at no cost, left to choose from."""
        ...


@dataclass(frozen=True)
class Ridge:
    """RLS (beta = 1) and RankRLS (beta = 0), the latter also sparse.

    centred : take a person's mean score out and put it back
    size, share : how many, or which share, of a person's scored items are the basis, the first ones
    """

    beta: float
    centred: bool = False
    size: int | None = None
    share: float = 1.0
    alphas: Sequence[float] = ALPHAS

    @property
    def candidates(self) -> list[Candidate]:
        """Alphas."""
        return [{"alpha": alpha} for alpha in self.alphas]

    def paths(self, kernels: Kernels) -> Paths:
        """All alphas from one factorisation."""
        batch, alphas = kernels.batch, np.asarray(self.alphas)
        targets, offset = _targets(kernels, centred=self.centred)
        loss = loss_root(self.beta, batch.counts)
        sizes = np.ceil(self.share * batch.counts).astype(np.int64)
        if self.size is not None:
            sizes = np.minimum(sizes, self.size)
        if (sizes == batch.counts).all():
            predictions = ridge_paths(kernels, loss, targets, alphas)
        else:
            predictions = subset_paths(kernels, loss, targets, alphas, sizes)
        return Paths(
            predictions + offset[:, :, None], np.repeat(sizes[:, None], len(alphas), axis=1)
        )

    def around(self, candidate: Candidate) -> Ridge:
        """One alpha."""
        return replace(self, alphas=(candidate["alpha"],))


@dataclass(frozen=True)
class Pursuit:
    """Matching pursuit (beta = 1), ranking pursuit (beta = 0) and the blend of both (CRRP)."""

    beta: float
    refit: str
    centred: bool = False
    weighting: str = "unit"
    steps: Sequence[int] = STEPS

    @property
    def candidates(self) -> list[Candidate]:
        """Numbers of steps."""
        return [{"steps": steps} for steps in self.steps]

    def paths(self, kernels: Kernels) -> Paths:
        """One greedy run."""
        targets, offset = _targets(kernels, centred=self.centred)
        loss = loss_root(self.beta, kernels.batch.counts, weighting=self.weighting)
        most = self.steps[-1]
        if self.refit == "back":  # every atom enters once
            most = min(most, kernels.batch.scored.shape[1])
        run = pursuit_paths(kernels, loss, targets, most, refit=self.refit)
        at = np.minimum(np.asarray(self.steps), most) - 1
        return Paths(run.predictions[:, at] + offset[:, :, None], run.n_atoms[:, at])

    def around(self, candidate: Candidate) -> Pursuit:
        """All numbers of steps: they come along."""
        return self


@dataclass(frozen=True)
class CoPursuit:
    """Semi-supervised ranking pursuit of two views, of "items" or of reference "people".

    fitted : which items each view is fitted to, and on which the views agree; as of `two_views`
    """

    objective: str
    refit: str
    views: str = "items"
    fitted: str = SHARED
    agreements: Sequence[float] = AGREEMENTS
    steps: Sequence[int] = CO_STEPS

    @property
    def candidates(self) -> list[Candidate]:
        """Weights of the agreement and numbers of steps."""
        return [
            {"agreement": agreement, "steps": steps}
            for agreement in self.agreements
            for steps in self.steps
        ]

    def paths(self, kernels: Kernels) -> Paths:
        """A greedy run for every weight of the agreement."""
        at = np.asarray(self.steps) - 1
        views = two_views(kernels, kernels.batch.scores, of=self.views, fitted=self.fitted)
        runs = [
            co_pursuit_paths(
                views, agreement, self.steps[-1], objective=self.objective, refit=self.refit
            )
            for agreement in self.agreements
        ]
        return Paths(
            np.concatenate([run.predictions[:, at] for run in runs], axis=1),
            np.concatenate([run.n_atoms[:, at] for run in runs], axis=1),
        )

    def around(self, candidate: Candidate) -> CoPursuit:
        """All numbers of steps of one weight."""
        return replace(self, agreements=(candidate["agreement"],))


@dataclass(frozen=True)
class RankSVM:
    """RankSVM with the squared hinge loss. Its kernel functions are the items with a weight."""

    costs: Sequence[float] = COSTS

    @property
    def candidates(self) -> list[Candidate]:
        """Costs C."""
        return [{"cost": cost} for cost in self.costs]

    def paths(self, kernels: Kernels) -> Paths:
        """From the smallest cost to the largest, each from the solution before."""
        predictions, n_atoms = ranksvm_paths(kernels, kernels.batch.scores, np.asarray(self.costs))
        return Paths(predictions, n_atoms)

    def around(self, candidate: Candidate) -> RankSVM:
        """One cost."""
        return replace(self, costs=(candidate["cost"],))


def _targets(kernels: Kernels, *, centred: bool) -> tuple[Floats, Any]:
    """Scores, less everyone's mean if `centred`, and what is to be put back: (u, n) and (u, 1)."""
    batch = kernels.batch
    if not centred:
        return batch.scores, np.zeros((len(batch.people), 1))
    offset = batch.means[:, None]
    return (batch.scores - offset) * batch.scored_mask, offset


# ---- errors of many predictions for the same person


def pair_errors(answers: Answers, predictions: Floats) -> Floats:
    """`metrics.disagreement_error` of each of many predictions (c, m) for one person: (c,), NaN
    without a pair.

    Pairs with equal ratings are left out; a pair that only the prediction ties costs one half.
    """
    scores = answers.unlock(predictions)
    order = np.argsort(-scores, kind="stable")
    falling, columns = scores[order], np.ascontiguousarray(predictions[:, order].T)
    # where the items with a lower rating begin
    worse = np.searchsorted(-falling, -falling, side="right")
    n_pairs = int(np.sum(len(scores) - worse))
    if n_pairs == 0:
        return np.full(len(predictions), np.nan)
    twice = np.zeros(len(predictions), dtype=np.int64)
    for item, begin in enumerate(worse):
        others = columns[begin:]
        twice += np.add.reduce(columns[item] < others, axis=0, dtype=np.int16)
        twice += np.add.reduce(columns[item] <= others, axis=0, dtype=np.int16)
    return np.asarray(twice / (2 * n_pairs))


def all_pair_errors(answers: Answers, predictions: Floats) -> Floats:
    """The share of all pairs in the wrong order, for each of many predictions (c, m): (c,).

    Pairs with equal ratings count too: a pair that is tied on one side only costs one half
    ([Pahikkala2007]).
    """
    scores = answers.unlock(predictions)
    truth = np.sign(scores[:, None] - scores[None, :])
    pairs = len(scores) * (len(scores) - 1)
    if pairs == 0:
        return np.full(len(predictions), np.nan)
    signs = [np.sign(values[:, None] - values[None, :]) for values in predictions]
    return np.asarray([np.abs(truth - sign).sum() / (2 * pairs) for sign in signs])


def squared_errors(answers: Answers, predictions: Floats) -> Floats:
    """The mean squared error of each of many predictions (c, m): (c,)."""
    residuals = predictions - answers.unlock(predictions)
    return np.asarray(np.mean(residuals * residuals, axis=-1))


Measure = Callable[[Answers, Floats], Floats]
MEASURES: dict[str, Measure] = {"pairs": pair_errors, "squared": squared_errors}


# ---- people, chosen on and tested


@dataclass(frozen=True)
class Trial:
    """People with their scores, items as reference people see them, and the answers.

    features : (items, reference people)
    """

    features: Floats
    people: Sequence[Person]
    answers: Sequence[Answers]

    @cached_property
    def _distances(self) -> Floats:
        """Between items, as all reference people see them."""
        return squared_distances(self.features)

    @cached_property
    def _halves(self) -> Halves:
        """Between items, as every second reference person from the first on sees them, and as the
        others do.
        """
        return squared_distances(self.features[:, ::2]), squared_distances(self.features[:, 1::2])

    def kernels(self, batch: Batch, width: int) -> Kernels:
        """The kernels with gamma = 2^width."""
        return batch.kernels(self._distances, 2.0**width, lambda: self._halves)


class Stage:
    """The ratings, the sizes and a group of reference people; trials are set up when asked for.

    scored_share : of a person's training items, the share whose scores are seen
    missing : what stands for a rating that is missing, as in `RatingLists.features`
    """

    def __init__(
        self,
        ratings: RatingLists,
        sizes: SampleSizes,
        group: tuple[int, int],
        *,
        scored_share: float = 1.0,
        missing: str = "person",
    ) -> None:
        self._ratings, self._seed, self._share, self._missing = (
            ratings,
            sizes.seed,
            scored_share,
            missing,
        )
        self.holdout_cast, self.casts = draw_casts(ratings, sizes, group)

    def holdout(self) -> Trial:
        """The people on whom parameters are chosen."""
        return self._trial(self.holdout_cast, [self._seed, 2])

    def repetitions(self) -> Iterator[Trial]:
        """The people who are tested, repetition by repetition."""
        for repetition, cast in enumerate(self.casts):
            yield self._trial(cast, [self._seed, 3, repetition])

    def _trial(self, cast: Cast, seed: Sequence[int]) -> Trial:
        features = self._ratings.features(cast.reference, missing=self._missing)
        return Trial(
            features, *split_people(self._ratings, cast.people, seed, scored_share=self._share)
        )


@dataclass(frozen=True)
class Tuning:
    """What hold-out people say.

    errors : by measure (people, widths, candidates)
    n_atoms : kernel functions in a model, (people, widths, candidates)
    """

    method: BatchedMethod
    widths: Sequence[int]
    errors: dict[str, Floats]
    n_atoms: Integers

    @property
    def n_fits(self) -> int:
        """Models that were fitted."""
        return int(self.n_atoms.size)

    def place(self, measure: str) -> tuple[int, int]:
        """Width and candidate of the least mean error; the first of equals."""
        means = np.nanmean(self.errors[measure], axis=0)
        width, candidate = np.unravel_index(np.argmin(means), means.shape)
        return int(width), int(candidate)

    def choice(self, measure: str) -> dict[str, Any]:
        """The chosen parameters, the hold-out error they have, and the mean number of kernel
        functions.
        """
        width, candidate = self.place(measure)
        return {
            "width": self.widths[width],
            "candidate": self.method.candidates[candidate],
            "error": float(np.nanmean(self.errors[measure][:, width, candidate])),
            "atoms": float(self.n_atoms[:, width, candidate].mean()),
        }


@dataclass(frozen=True)
class ChosenMethod:
    """A method with the parameters that hold-out people chose, by measure."""

    method: BatchedMethod
    choices: dict[str, dict[str, Any]]
    n_fits: int


def choose(
    method: BatchedMethod, holdout: Trial, measures: Sequence[str], widths: Sequence[int] = WIDTHS
) -> ChosenMethod:
    """Choose on hold-out people, by each of the measures."""
    tuning = tune(method, holdout, widths)
    return ChosenMethod(
        method, {measure: tuning.choice(measure) for measure in measures}, tuning.n_fits
    )


def tune(method: BatchedMethod, trial: Trial, widths: Sequence[int] = WIDTHS) -> Tuning:
    """Errors of every hold-out person for every width and candidate."""
    shape = len(trial.people), len(widths), len(method.candidates)
    errors = {name: np.full(shape, np.nan) for name in MEASURES}
    n_atoms = np.zeros(shape, dtype=np.int64)
    for batch in batches(trial.people):
        paths = [method.paths(trial.kernels(batch, width)) for width in widths]
        predictions = np.stack([path.predictions for path in paths], axis=1)
        n_atoms[batch.people] = np.stack([path.n_atoms for path in paths], axis=1)
        for row, person in enumerate(batch.people):
            of_person = predictions[row].reshape(-1, predictions.shape[-1])[:, batch.test_mask[row]]
            for name, measure in MEASURES.items():
                errors[name][person] = measure(trial.answers[person], of_person).reshape(shape[1:])
    return Tuning(method, widths, errors, n_atoms)


def errors_of_tested(
    method: BatchedMethod, choice: dict[str, Any], trial: Trial
) -> tuple[dict[str, list[float | None]], Floats]:
    """Errors of the chosen model for every test person, and those of all candidates around it.

    Returns
    -------
    errors : "pairs", "all pairs", "squared" and "share" (kernel functions per scored item),
        (people,) each
    around : (people, candidates) share of pairs in the wrong order
    """
    narrow = method.around(choice["candidate"])
    at = narrow.candidates.index(choice["candidate"])
    n_people = len(trial.people)
    around = np.full((n_people, len(narrow.candidates)), np.nan)
    errors = {
        name: np.full(n_people, np.nan) for name in ("pairs", "all pairs", "squared", "share")
    }
    for batch in batches(trial.people):
        paths = narrow.paths(trial.kernels(batch, choice["width"]))
        for row, person in enumerate(batch.people):
            predictions, answers = (
                paths.predictions[row][:, batch.test_mask[row]],
                trial.answers[person],
            )
            around[person] = pair_errors(answers, predictions)
            chosen = predictions[at : at + 1]
            errors["pairs"][person] = around[person, at]
            errors["all pairs"][person] = all_pair_errors(answers, chosen)[0]
            errors["squared"][person] = squared_errors(answers, chosen)[0]
            errors["share"][person] = paths.n_atoms[row, at] / batch.counts[row]
    return {name: _plain(values) for name, values in errors.items()}, around


def _plain(values: Floats) -> list[float | None]:
    return [None if np.isnan(value) else round(float(value), DIGITS) for value in values]


def results_of(chosen: Mapping[str, ChosenMethod], stage: Stage) -> dict[str, Any]:
    """Test methods, by name, in all repetitions with each of their choices. Plain JSON.

    Returns
    -------
    by name and measure: ``choice``, ``errors`` of all test people, repetition after repetition, and
    ``curve`` (mean error and its standard error for all candidates around the choice); by name also
    ``fits``
    """
    tested: dict[str, Any] = {name: {"fits": method.n_fits} for name, method in chosen.items()}
    errors: dict[tuple[str, str], dict[str, list[float | None]]] = {}
    curves: dict[tuple[str, str], list[Floats]] = {}
    for trial in stage.repetitions():
        for name, method in chosen.items():
            for measure, choice in method.choices.items():
                by_kind, around = errors_of_tested(method.method, choice, trial)
                kept = errors.setdefault((name, measure), {})
                for kind, values in by_kind.items():
                    kept.setdefault(kind, []).extend(values)
                curves.setdefault((name, measure), []).append(around)
                tested[name]["fits"] += around.size
    for (name, measure), kept in errors.items():
        choice = chosen[name].choices[measure]
        curve = _curve(
            chosen[name].method.around(choice["candidate"]), np.concatenate(curves[name, measure])
        )
        tested[name][measure] = {"choice": choice, "errors": kept, "curve": curve}
    return tested


def _curve(method: BatchedMethod, errors: Floats) -> list[dict[str, float]]:
    """Mean errors of all candidates, from those of all test people (people, candidates)."""
    return [
        {
            **candidate,
            "error": float(np.nanmean(column)),
            "spread": standard_error(column[~np.isnan(column)]),
        }
        for candidate, column in zip(method.candidates, errors.T, strict=True)
    ]
