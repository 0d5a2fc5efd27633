"""Learning from comparisons, and from answers of every kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import narwhals as nw
import numpy as np

from corank.core.arrays import take
from corank.core.messages import ArgumentError, did_you_mean
from corank.inputs import is_frame, row_labels
from corank.model_files.container import all_or_nothing


class AnswersMixin:
    """`fit_answers` for learners that have `fit_comparisons`."""

    knows_margins: ClassVar[bool]
    # what else `fit_comparisons` takes: person, first, groups; and whether `fit` takes person
    answer_columns: ClassVar[frozenset[str]] = frozenset({"groups"})
    scores_have_persons: ClassVar[bool] = False
    fit: Callable[..., Self]
    fit_comparisons: Callable[..., Self]

    def fit_answers(
        self, X: Any, answers: Any, *, items: Any = None, qid: Any = None, **more: Any
    ) -> Self:
        """Fit on answers of every kind: comparisons, ties, orders of several, best and worst, scores.

        Orders become the comparisons that they imply, weighted as choices (`Judgement.pairs`);
        those of one answer are held out together, as they tell each other. A win is by its strength
        (0.5 for slightly, 2 for much), a tie by 0; where a learner knows no margins, only who won
        counts, and a tie is a win for both. Scores are compared within persons: by `fit`, with
        persons as queries, where there is nothing else. A learner that takes `person=` is told who
        gave each answer, where several persons did.

        Parameters
        ----------
        X : (n, d) items
        answers : Answers, or what `read_answers` takes
        items : (n,) what the answers call the rows, or the column of a frame that says so, which is
            not learned from; None for the index of a pandas frame
        qid : (n,) one label per row; answers are then about the items of their query, and those of
            one query are held out together
        more : what `fit_comparisons` takes besides

        Returns
        -------
        self
        """
        # files of answers are not needed to fit anything else
        from corank.tables.answers import Answers, pairs_of, read_answers

        given = answers if isinstance(answers, Answers) else read_answers(answers)
        X, names = _named_rows(X, items)
        answered = given.at_rows(names, qid)
        if any(said.score is None for said, _ in answered):
            pairs = pairs_of(answered, margins=self.knows_margins)
            known = {name: pairs.more[name] for name in self.answer_columns & pairs.more.keys()}
            return self.fit_comparisons(X, **pairs.arguments(), qid=qid, **known, **more)
        rows = [row for _, at in answered for row in at.values()]
        scores = np.array([said.score for said, _ in answered])
        persons = [said.person for said, _ in answered]
        places = persons if qid is None else [(said.person, said.query) for said, _ in answered]
        if len(set(persons)) > 1 and self.scores_have_persons:
            more["person"] = persons
        if qid is not None or ("person" not in more and len(set(places)) > 1):
            more["qid"] = places
        return self.fit(_rows_of(X, rows), scores, **more)


class ComparisonMixin(AnswersMixin):
    """`fit_comparisons` for learners with one view."""

    _fit_comparisons: Callable[..., Any]

    @all_or_nothing
    def fit_comparisons(
        self,
        X: Any,
        winners: Any,
        losers: Any,
        *,
        margins: Any = None,
        weights: Any = None,
        qid: Any = None,
        groups: Any = None,
    ) -> Self:
        r"""Fit on explicit comparisons: rows `winners` of X beat rows `losers`.

        .. math:: \min_f \sum_k w_k \big(\text{margin}_k - (f(x_{win}) - f(x_{lose}))\big)^2 +
                  \alpha \|f\|^2

        on the components of the rows that are compared, where the learner makes any.

        Parameters
        ----------
        X : (n, d) items
        winners, losers : (p,) row numbers of X, or labels of the index of a pandas frame (not whole
            numbers)
        margins : (p,) >= 0, by how much; default 1, 0 = a tie
        weights : (p,) >= 0; the noise variance of a Gaussian process is divided by them
        qid : (n,) one label per row of X; comparisons of one query are held out together
        groups : (p,) without qid, one label per comparison: those of one group are held out
            together; None for those of the same two items

        Returns
        -------
        self
        """
        fitted: Self = self._fit_comparisons(X, winners, losers, margins, weights, qid, groups)
        return fitted


def _named_rows(X: Any, items: Any) -> tuple[Any, list[Any]]:
    """The rows without the column that names them, and their names."""
    labels = row_labels(X) if items is None else items
    if labels is None:
        raise ArgumentError("items", " must say what the answers call the rows of X")
    if isinstance(items, str):
        if not is_frame(X):
            raise ArgumentError("items", f" is the name of a column, {items!r}, but X has none")
        frame = nw.from_native(X, eager_only=True)
        if items not in frame.columns:
            near = did_you_mean(items, map(str, frame.columns))
            raise ArgumentError("items", f"={items!r} is no column of X{near}.")
        return frame.drop(items).to_native(), frame[items].to_list()
    return X, np.asarray(labels).tolist()


def _rows_of(X: Any, rows: list[int]) -> Any:
    if is_frame(X):
        return nw.from_native(X, eager_only=True)[rows].to_native()
    return [X[row] for row in rows] if isinstance(X, list) else take(X, np.array(rows))
