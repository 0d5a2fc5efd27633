"""Judges: what is known of comparisons beside who won, and what a Gaussian process on votes says of
those who voted and of their next answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from corank.core.arrays import Array, FloatArray, Index, Mask, like, to_numpy, with_precision_of
from corank.core.messages import did_you_mean, warn_user
from corank.core.queries import as_labels, encode_queries
from corank.learners.gaussian_process import EvidenceLearner
from corank.solve.expectation_propagation import PairData
from corank.solve.posterior import Moments
from corank.solve.preference import FittedKernel
from corank.solve.votes import (
    Habits,
    Judge,
    JudgeAgreement,
    VoteLikelihood,
    Votes,
    agreement,
    table_of_judges,
    usual_habits,
)


@dataclass(frozen=True)
class VoteColumns:
    """What is known of p comparisons beside who won.

    first : (p,) whether the winner was shown first; judges : (p,) numbers; names : of all judges
    """

    first: Mask | None = None
    judges: Index | None = None
    names: list[Any] | None = None

    @classmethod
    def read(
        cls, p: int, weights: Any, person: Any, first: Any, known: Sequence[Any] = ()
    ) -> VoteColumns:
        """Check the columns of comparisons, of which those without weight are dropped; judges that
        are `known` keep their numbers.
        """
        counted: Any = slice(None)
        if weights is not None:
            counted = np.broadcast_to(np.asarray(to_numpy(weights), dtype=np.float64) > 0, (p,))
        if first is not None:
            first = np.asarray(to_numpy(first))
            if first.shape != (p,) or not np.isin(first, (0, 1)).all():
                raise ValueError(
                    f"first must say of each of the {p} comparisons whether its winner was shown"
                    f" first: True or False; got {first.dtype} values of shape {first.shape}."
                )
            first = first.astype(bool)[counted]
        if person is None:
            return cls(first)
        labels = as_labels(person, "person")
        if len(labels) != p:
            raise ValueError(
                f"person has {len(labels)} labels but there are {p} comparisons; one label per"
                " comparison is needed."
            )
        encode_queries(labels, p, "person")  # refuses labels that are missing or have no hash
        names = list(known)
        numbers = {name: number for number, name in enumerate(names)}
        codes = []
        for label in labels[counted].tolist():
            if label not in numbers:
                numbers[label] = len(names)
                names.append(label)
            codes.append(numbers[label])
        _warn_of_names(names, len(codes))
        return cls(first, np.asarray(codes, dtype=np.int64), names)

    @property
    def known(self) -> bool:
        """Whether there is anything."""
        return self.first is not None or self.judges is not None

    def votes(
        self,
        features: Array,
        winners: Index,
        losers: Index,
        margins: FloatArray,
        weights: FloatArray,
    ) -> Votes:
        """The comparisons as votes."""
        first = np.ones(len(winners), dtype=bool) if self.first is None else self.first
        judges = np.zeros(len(winners), dtype=np.int64) if self.judges is None else self.judges
        ends = np.where(first, winners, losers), np.where(first, losers, winners)
        outcomes = np.where(margins == 0, 0, np.where(first, 1, -1))
        return Votes.gathered(features, ends, outcomes, judges, weights)


def _warn_of_names(names: list[Any], p: int) -> None:
    """Say so where names of judges look like the same name, or as if they were none."""
    tidy = Counter(str(name).strip().casefold() for name in names)
    if alike := [name for name in names if tidy[str(name).strip().casefold()] > 1]:
        warn_user(
            f"person: {len(alike)} names differ only by blanks or capitals, such as {alike[0]!r}:"
            " each counts as a judge."
        )
    if len(names) == p > 1:
        warn_user(
            f"person: each of the {p} judges has one answer, so that hardly anything is known of"
            " any of them."
        )


class JudgedLearner(EvidenceLearner):
    """A Gaussian process on votes, with the habits of those who voted."""

    has_judges = True

    response: Any
    judges_: list[Judge]
    _data: PairData | None
    _habits: Habits | None = None
    _items: Index | None = None  # row numbers of the compared items

    @property
    def n_outcomes(self) -> int:
        """How many answers there are to a comparison: 3 where one of them is a tie."""
        return 2 if self._habits is None else self._habits.n_outcomes

    def _without_names(self) -> Self:
        model = copy(self)
        model.judges_ = [
            replace(judge, name=str(number)) for number, judge in enumerate(self.judges_)
        ]
        return model

    def _restore(self, values: dict[str, Any]) -> None:
        values["judges_"] = values["judges_"] or []
        super()._restore(values)

    def _keep_judges(
        self, fitted: FittedKernel, likelihood: VoteLikelihood | None, names: list[Any] | None
    ) -> None:
        """Set the habits that were learned, and what is said of each judge."""
        self._habits = None if likelihood is None else likelihood.habits
        self.judges_ = []
        if likelihood is not None and names is not None:
            votes = likelihood.votes
            self.judges_ = table_of_judges(names, likelihood.habits, fitted.posterior, votes)

    def predict_comparison(self, X_a: Any, X_b: Any, observed: bool = False) -> Array:
        """The probability that row i of X_a beats row i of X_b.

        Parameters
        ----------
        X_a, X_b : (n, d)
        observed : whether to ask for the next answer, as `predict_outcome` without a person; a tie
            counts as half a win; else for the order of the true scores

        Returns
        -------
        (n,) between 0 and 1, as `predict` returns scores
        """
        if not observed or self._habits is None:
            return super().predict_comparison(X_a, X_b, observed)
        chances = self.predict_outcome(X_a, X_b)
        return chances[:, 0] + chances[:, 1] / 2

    def predict_outcome(self, X_a: Any, X_b: Any, person: Any = None) -> Array:
        """The probabilities of the next answer: row i of X_a wins, a tie, row i of X_b wins.

        Parameters
        ----------
        X_a, X_b : (n, d); of known sides X_a is what is shown first
        person : a judge of the model, or (n,) one per row, who answers; None = the mean of what
            all judges would answer, each weighed by its answers so far, if they favoured no side

        Returns
        -------
        (n, 3), whose rows sum to 1
        """
        posterior, first, second = self._both(X_a, X_b, "predict_outcome")
        habits = self._habits or usual_habits(self.response)
        judges = None if person is None else self._known_judges(person, first.shape[0])

        def chance(moments: Moments, run: slice) -> FloatArray:
            mean, variance = (to_numpy(values) for values in moments)
            return habits.probabilities(None if judges is None else judges[run], mean, variance)

        return with_precision_of(first, like(posterior.averaged(chance, first, second), first))

    def _known_judges(self, person: Any, n: int) -> Index:
        """Numbers of judges (n,) of the model, by their names."""
        known = {judge.name: number for number, judge in enumerate(self.judges_)}
        if not known:
            raise ValueError("person: this model was fitted without person; leave it out.")
        is_label = np.ndim(person) == 0 or isinstance(person, tuple)
        labels = [person] * n if is_label else as_labels(person, "person").tolist()
        if len(labels) != n:
            raise ValueError(f"person has {len(labels)} labels, but X_a has {n} rows.")
        if unknown := [label for label in labels if label not in known]:
            raise ValueError(
                f"person: {unknown[0]!r} is no judge of this model; leave it out for the mean of all"
                f"{did_you_mean(str(unknown[0]), [str(name) for name in known]) or '.'}"
            )
        return np.asarray([known[label] for label in labels], dtype=np.int64)

    def agreement(self) -> JudgeAgreement:
        """How far judges, or repeated answers, agree: Krippendorff's alpha, and the items that are
        disputed most, by row numbers of X.
        """
        check_is_fitted(self)
        if self._data is None:
            raise ValueError(
                "agreement: a model with a precomputed kernel does not keep its answers."
            )
        data = self._data
        if not isinstance(data, Votes):
            data = VoteColumns().votes(
                data.features, data.winners, data.losers, np.ones(len(data)), data.counts
            )
        return agreement(data, np.arange(data.n_items) if self._items is None else self._items)
