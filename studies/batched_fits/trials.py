"""Parameters chosen once on hold-out people, then one error a test person: never chosen on anybody who is tested."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from corank._arrays import FloatArray, Index
from corank.experiments.uncertainty import standard_error
from studies.batched_fits.batches import Batch, Halves, Kernels, batches, squared_distances
from studies.batched_fits.drawing import Answers, Cast, Person, Protocol, cast, halved
from studies.batched_fits.errors import all_pair_errors, pair_errors, squared_errors
from studies.batched_fits.methods import Method
from studies.batched_fits.ratings import Ratings

Measure = Callable[[Answers, FloatArray], FloatArray]
MEASURES: dict[str, Measure] = {"pairs": pair_errors, "squared": squared_errors}
WIDTHS = tuple(range(-15, 16))  # gamma = 2^width (003 sect. 6.1)
DIGITS = 6  # of errors that are kept


@dataclass(frozen=True)
class Trial:
    """People with their scores, items as reference people see them, and the answers.

    features : (items, reference people)
    """

    features: FloatArray
    people: Sequence[Person]
    answers: Sequence[Answers]

    @cached_property
    def _distances(self) -> FloatArray:
        """Between items, as all reference people see them."""
        return squared_distances(self.features)

    @cached_property
    def _halves(self) -> Halves:
        """The same for every second one from the first on, and for the others."""
        return squared_distances(self.features[:, ::2]), squared_distances(self.features[:, 1::2])

    def kernels(self, batch: Batch, width: int) -> Kernels:
        """With gamma = 2^width."""
        return batch.kernels(self._distances, 2.0**width, lambda: self._halves)


@dataclass(frozen=True)
class Tuning:
    """What hold-out people say.

    errors : by measure (people, widths, candidates); n_atoms : the same of kernel functions in a model
    """

    method: Method
    widths: Sequence[int]
    errors: dict[str, FloatArray]
    n_atoms: Index

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
        """The chosen parameters, the hold-out error they have, and the mean number of kernel functions."""
        width, candidate = self.place(measure)
        return {
            "width": self.widths[width],
            "candidate": self.method.candidates[candidate],
            "error": float(np.nanmean(self.errors[measure][:, width, candidate])),
            "atoms": float(self.n_atoms[:, width, candidate].mean()),
        }


class Stage:
    """The ratings, the protocol and a group of reference people; trials are set up when asked for.

    scored_share : of a person's training items, the share whose scores are seen
    missing : what stands for a rating that is missing, as in `Ratings.features`
    """

    def __init__(
        self,
        ratings: Ratings,
        protocol: Protocol,
        group: tuple[int, int],
        *,
        scored_share: float = 1.0,
        missing: str = "person",
    ) -> None:
        self._ratings, self._seed, self._share, self._missing = ratings, protocol.seed, scored_share, missing
        self.holdout_cast, self.casts = cast(ratings, protocol, group)

    def holdout(self) -> Trial:
        """Those on whom parameters are chosen."""
        return self._trial(self.holdout_cast, [self._seed, 2])

    def repetitions(self) -> Iterator[Trial]:
        """Those who are tested."""
        for repetition, own in enumerate(self.casts):
            yield self._trial(own, [self._seed, 3, repetition])

    def _trial(self, own: Cast, seed: Sequence[int]) -> Trial:
        features = self._ratings.features(own.reference, missing=self._missing)
        return Trial(features, *halved(self._ratings, own.people, seed, scored_share=self._share))


def tune(method: Method, trial: Trial, widths: Sequence[int] = WIDTHS) -> Tuning:
    """Errors of every hold-out person for every width and candidate."""
    shape = len(trial.people), len(widths), len(method.candidates)
    errors = {name: np.full(shape, np.nan) for name in MEASURES}
    n_atoms = np.zeros(shape, dtype=np.int64)
    for batch in batches(trial.people):
        found = [method.paths(trial.kernels(batch, width)) for width in widths]
        predictions = np.stack([own.predictions for own in found], axis=1)
        n_atoms[batch.people] = np.stack([own.n_atoms for own in found], axis=1)
        for row, person in enumerate(batch.people):
            own = predictions[row].reshape(-1, predictions.shape[-1])[:, batch.test_known[row]]
            for name, measure in MEASURES.items():
                errors[name][person] = measure(trial.answers[person], own).reshape(shape[1:])
    return Tuning(method, widths, errors, n_atoms)


def tried(
    method: Method, choice: dict[str, Any], trial: Trial
) -> tuple[dict[str, list[float | None]], FloatArray, int]:
    """Errors of the chosen model for every test person, those of all candidates around it, and the number of fits.

    Returns
    -------
    errors : "pairs", "all pairs", "squared" and "share" (kernel functions a scored item), (people,) each
    around : (people, candidates) share of pairs in the wrong order
    n_fits : models that were fitted
    """
    narrow = method.around(choice["candidate"])
    at = narrow.candidates.index(choice["candidate"])
    n = len(trial.people)
    around = np.full((n, len(narrow.candidates)), np.nan)
    errors = {name: np.full(n, np.nan) for name in ("pairs", "all pairs", "squared", "share")}
    for batch in batches(trial.people):
        found = narrow.paths(trial.kernels(batch, choice["width"]))
        for row, person in enumerate(batch.people):
            own, answers = found.predictions[row][:, batch.test_known[row]], trial.answers[person]
            around[person] = pair_errors(answers, own)
            chosen = own[at : at + 1]
            errors["pairs"][person] = around[person, at]
            errors["all pairs"][person] = all_pair_errors(answers, chosen)[0]
            errors["squared"][person] = squared_errors(answers, chosen)[0]
            errors["share"][person] = found.n_atoms[row, at] / batch.counts[row]
    return {name: _plain(own) for name, own in errors.items()}, around, around.size


def _plain(values: FloatArray) -> list[float | None]:
    return [None if np.isnan(value) else round(float(value), DIGITS) for value in values]


@dataclass(frozen=True)
class Chosen:
    """A method with the parameters that hold-out people chose, by measure."""

    method: Method
    choices: dict[str, dict[str, Any]]
    n_fits: int


def choose(method: Method, holdout: Trial, measures: Sequence[str], widths: Sequence[int] = WIDTHS) -> Chosen:
    """Choose on hold-out people, by each of the measures."""
    tuning = tune(method, holdout, widths)
    return Chosen(method, {measure: tuning.choice(measure) for measure in measures}, tuning.n_fits)


def all_tested(chosen: Mapping[str, Chosen], stage: Stage) -> dict[str, Any]:
    """Test methods, by name, in all repetitions with each of their choices. Plain JSON.

    Returns
    -------
    by name and measure: ``choice``, ``errors`` of all test people, repetition after repetition, and ``curve`` (mean error
    and its standard error for all candidates around the choice); by name also ``fits``
    """
    found: dict[str, Any] = {name: {"fits": own.n_fits} for name, own in chosen.items()}
    errors: dict[tuple[str, str], dict[str, list[float | None]]] = {}
    curves: dict[tuple[str, str], list[FloatArray]] = {}
    for trial in stage.repetitions():
        for name, own in chosen.items():
            for measure, choice in own.choices.items():
                values, around, n_fits = tried(own.method, choice, trial)
                kept = errors.setdefault((name, measure), {})
                for kind, some in values.items():
                    kept.setdefault(kind, []).extend(some)
                curves.setdefault((name, measure), []).append(around)
                found[name]["fits"] += n_fits
    for (name, measure), kept in errors.items():
        choice = chosen[name].choices[measure]
        curve = _curve(chosen[name].method.around(choice["candidate"]), np.concatenate(curves[name, measure]))
        found[name][measure] = {"choice": choice, "errors": kept, "curve": curve}
    return found


def _curve(method: Method, errors: FloatArray) -> list[dict[str, float]]:
    """Mean errors of all candidates, from those of all test people (people, candidates)."""
    return [
        {**candidate, "error": float(np.nanmean(column)), "spread": standard_error(column[~np.isnan(column)])}
        for candidate, column in zip(method.candidates, errors.T, strict=True)
    ]
