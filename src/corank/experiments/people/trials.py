"""Parameters chosen once on hold-out people, then one error a test person: never chosen on anybody who is tested."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from corank.experiments.intervals import standard_error
from corank.experiments.items import Floats, Integers
from corank.experiments.people.batches import Batch, Kernels, batches, squared_distances
from corank.experiments.people.drawing import Answers, Cast, Person, Protocol, cast, halved
from corank.experiments.people.errors import all_pair_errors, pair_errors, squared_errors
from corank.experiments.people.methods import Method
from corank.experiments.people.ratings import Ratings

Measure = Callable[[Answers, Floats], Floats]
MEASURES: dict[str, Measure] = {"pairs": pair_errors, "squared": squared_errors}
WIDTHS = tuple(range(-15, 16))  # gamma = 2^width (003 sect. 6.1)
DIGITS = 6  # of errors that are kept


@dataclass(frozen=True)
class Trial:
    """People with their scores, items as reference people see them, and the answers.

    features : (items, reference people)
    """

    features: Floats
    people: Sequence[Person]
    answers: Sequence[Answers]

    @cached_property
    def _distances(self) -> tuple[Floats, Floats, Floats]:
        """Between items, to all reference people, every second one from the first on, and the others."""
        first, second = (squared_distances(self.features[:, side::2]) for side in range(2))
        return first + second, first, second

    def kernels(self, batch: Batch, width: int) -> Kernels:
        """With gamma = 2^width."""
        whole, *halves = self._distances
        return batch.kernels(whole, 2.0**width, (halves[0], halves[1]))


@dataclass(frozen=True)
class Tuning:
    """What hold-out people say.

    errors : by measure (people, widths, candidates); n_atoms : the same of kernel functions in a model
    """

    method: Method
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


def tried(method: Method, choice: dict[str, Any], trial: Trial) -> tuple[dict[str, list[float | None]], Floats, int]:
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


def _plain(values: Floats) -> list[float | None]:
    return [None if np.isnan(value) else round(float(value), DIGITS) for value in values]


def run_method(
    stage: Stage, holdout: Trial, method: Method, measures: Sequence[str], widths: Sequence[int]
) -> dict[str, Any]:
    """Choose on hold-out people by each of the measures, and test with each choice. Plain JSON.

    Returns
    -------
    by measure: ``choice``, ``errors`` over the test people of all repetitions, ``people``, ``repetition``, ``curve``
    (mean error, its standard error and the candidate, for all candidates around the choice); and ``fits``
    """
    tuning = tune(method, holdout, widths)
    found: dict[str, Any] = {"fits": tuning.n_fits}
    for measure in measures:
        choice = tuning.choice(measure)
        errors: dict[str, list[float | None]] = {}
        curves = []
        for trial in stage.repetitions():
            own, around, n_fits = tried(method, choice, trial)
            for name, values in own.items():
                errors.setdefault(name, []).extend(values)
            curves.append(around)
            found["fits"] += n_fits
        whole = np.concatenate(curves)
        curve = [
            {**candidate, "error": float(np.nanmean(column)), "spread": standard_error(column[~np.isnan(column)])}
            for candidate, column in zip(method.around(choice["candidate"]).candidates, whole.T, strict=True)
        ]
        found[measure] = {"choice": choice, "errors": errors, "curve": curve}
    return found
