"""Interview: asks a person about items, learns from every answer, and says how settled the order
is. No web in it.

Answers are kept by `answers`, beliefs and questions are the subject of `belief`, the model is the
average that `corank fit` builds from the same file. `answer` never waits for a fit: `refresh`,
which may run in a thread of its own, fits what is new and prepares the next question for every
answer that may come.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import combinations, permutations
from pathlib import Path
from typing import Any, Self, TypeAlias

import numpy as np

from corank.core.arrays import FloatArray, Index, in_one_thread, take
from corank.core.messages import count, did_you_mean
from corank.encode.encoder import TableEncoder
from corank.interview.belief import Belief, Beliefs, Prior, pairs_within
from corank.learners.average.auto import AutoRanker, AutoRegressor, LiveFit
from corank.learners.pair_explanation import PairExplanation
from corank.tables import TableError, to_arrow
from corank.tables.answer_log import (
    COMPARE,
    KINDS,
    MAX_NAME,
    POSITIONS,
    SCORE,
    SKIP,
    Agreement,
    Answer,
    AnswerLog,
    AnswersFile,
    AnswersInMemory,
    fits_an_answer,
    item_names,
    judgements_again,
    mean_scores,
    pair_outcomes,
)
from corank.tables.names import TIE, rows_by_name

MAX_POOL = 400  # items that questions are chosen from at a time
MAX_COMPARED = 150  # of them, items that were asked about
N_TOP = 30  # of them, items that stand first
SHOWN_TOP = 10  # whose stability is told
LEAST_SPREAD = 1e-3  # of believed scores, in units of the noise of an answer
LEAST_NOISE = 1e-9  # of an answer, over the variance of scores
FEWEST_ANSWERS = 3  # from which a model is fitted
REPEAT_DISTANCE = 5  # questions between a question and its repetition
STEP = 20  # answers by whose gain it is judged whether more are worth it
LEAST_GAIN = 0.005  # share of pairs that so many answers must put right to be worth it
MAX_STEPS = 15  # of so many answers that are foreseen
FEWEST_TO_STOP = 15  # answers before which nobody is told to stop, or how many more are worth it
INTERVAL = (5.0, 95.0)  # percentiles of places
# of the items of a question, in the order in which they are shown
Rows: TypeAlias = tuple[int, ...]


class Interview:
    """Ask a person about items, one question after the other, and learn from the answers.

    Parameters
    ----------
    items : table (pandas, polars, pyarrow)
        One row per item.
    id : str
        The column that names the items, each of which needs a name of its own.
    answers : path, default=None
        A file of answers, which is created or taken up; None keeps them in memory.
    kind : "compare" (which of two is better), "best-worst" (of four) or "score" (of one),
        default="compare"
    person : str, default=""
        Who answers.
    repeat : float, default=0.0
        The share of questions that are asked again, to see how consistent answers are.
    features, drop : names of columns that are learned from, and not; default: all but the id
    random_state : int, default=0

    Examples
    --------
    >>> import pandas as pd
    >>> from corank.interview import Interview
    >>> interview = Interview(pd.DataFrame({"name": ["ann", "bob", "eve"], "age": [30, 40, 50]}), id="name")
    >>> question = interview.next()
    >>> [interview.names[row] for row in question.rows]
    ['ann', 'eve']
    """

    def __init__(
        self,
        items: Any,
        *,
        id: str,
        answers: Path | str | None = None,
        kind: str = COMPARE,
        person: str = "",
        repeat: float = 0.0,
        features: Sequence[str] | None = None,
        drop: Sequence[str] = (),
        random_state: int = 0,
    ) -> None:
        if kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}, got {kind!r}")
        if not fits_an_answer(person):
            raise ValueError(
                f"person must be one line of at most {MAX_NAME:,} characters, got {person[:40]!r}"
            )
        if not 0 <= repeat <= 0.5:
            raise ValueError(f"repeat must lie between 0 and 0.5, got {repeat!r}")
        self.table = to_arrow(items)
        self.id = id
        self.kind = kind
        self.person = person
        self.names = item_names(self.table, id)
        self._rows = rows_by_name(self.names, id)
        fewest = max(2, KINDS[kind].n_items[0])
        if len(self.names) < fewest:
            raise TableError(f"items: {kind} needs at least {fewest} items, got {len(self.names)}")
        self._repeat = repeat
        self._seed = random_state
        self.features = self._feature_names(features, drop)
        self._encoder, self._matrix = self._encoded()
        self._lock = threading.RLock()
        self._working = threading.Lock()  # one refresh at a time
        path = None if answers is None else Path(answers)
        self._answers = AnswersInMemory() if path is None else AnswersFile(path)
        try:
            self._check_answers(path)
        except TableError:
            self.close()
            raise
        self._fits = LiveFit(self._learner(), self._matrix)
        self._beliefs = Beliefs(Prior.of(self._fits.standardised, random_state))
        self._asked = self._asked_rows()
        self._n_questions = 0
        self._learned: _Learned | None = None
        # number of answers, and the expected share of misordered pairs then and after further ones
        self._outlook: tuple[int, FloatArray] | None = None
        # the last answer, and the belief without it
        self._before_last: tuple[Answer, Belief] | None = None
        # the rows of the next question, by the number of the open one, its answer and worst item
        self._prepared: dict[tuple[int, str, str], Rows | None] = {}
        self._learned_from: AnswerLog | None = None  # the answers at the last refresh
        with in_one_thread(self._matrix):
            # about the items that questions are chosen from
            self.belief = self._believed(self.log.answers, None, None)
            self._open = self._question(self._choice(self.belief, self._asked))

    # ---------------------------------------------------------------- what is asked

    def next(self) -> Question | None:
        """The open question, the same until it is answered; None where nothing is left to ask."""
        with self._lock:
            return self._open

    def answer(
        self, answer: str, worst: str = "", score: float | None = None, *, number: int | None = None
    ) -> Question | None:
        """Answer the open question; what was said is on the disk when this returns.

        Parameters
        ----------
        answer : position of the better (best) item, "first" to "fourth", or "tie", "skip" or
            "score"
        worst : position of the worst item, for best and worst of four
        score : of the item
        number : of the question that is answered; another one than the open question is refused

        Returns
        -------
        The next question, at once; None where nothing is left to ask
        """
        with self._lock:
            question = self._open
            if question is None:
                raise StaleQuestion("there is no open question: everything was asked")
            if number is not None and number != question.number:
                raise StaleQuestion(
                    f"question {number} is not open any more; the open one is {question.number}"
                )
            names = [self.names[row] for row in question.rows]
            said = self._answers.append(question.kind, names, answer, worst, score, self.person)
            self._asked = self._asked.after([said], self._rows)
            self._before_last = said, self.belief
            self.belief = self._after(self.belief, said)
            key = (question.number, answer, worst)
            if key in self._prepared:
                rows = self._prepared[key]
            else:
                rows = self._choice(self.belief, self._asked)
            self._open = self._question(rows)
            return self._open

    def undo(self) -> Question | None:
        """Take the last answer of this person back: its question is open again; None where there is
        nothing to undo.
        """
        with self._lock:
            undone = self._answers.undo(self.person, self.kind)
            if undone is None:
                return None
            self._asked = self._asked_rows()
            if self._before_last is not None and self._before_last[0] is undone:
                self.belief = self._before_last[1]
            return self.ask_about([self._rows[name] for name in undone.items])

    def ask_about(self, rows: Sequence[int]) -> Question:
        """Make the question about these rows the open one, instead of the one that was chosen."""
        with self._lock:
            self._n_questions += 1
            self._open = Question(self._n_questions, self.kind, tuple(rows))
            return self._open

    def _question(self, rows: Rows | None) -> Question | None:
        """The question about these rows, or an earlier one again where it is time for that."""
        self._n_questions += 1
        n = len(self.log.answers)
        if int((n + 1) * self._repeat) > int(n * self._repeat):
            again = self._earlier(np.random.default_rng([self._seed, n, 19]))
            if again is not None:
                return Question(self._n_questions, self.kind, again, repeated=True)
        if rows is None:
            return None
        return Question(self._n_questions, self.kind, rows)

    def _earlier(self, rng: np.random.Generator) -> Rows | None:
        """An earlier question of this kind, in another order; those of other people first."""
        asked = [answer for answer in self.log.answers if answer.kind == self.kind]
        asked_before = {frozenset(answer.items) for answer in asked if answer.person == self.person}
        judged = [answer for answer in asked if answer.answer != SKIP]
        candidates = [answer for answer in judged if frozenset(answer.items) not in asked_before]
        if not candidates:
            own = [answer for answer in judged if answer.person == self.person]
            candidates = own[:-REPEAT_DISTANCE]
        if not candidates:
            return None
        items = candidates[int(rng.integers(len(candidates)))].items
        return tuple(self._rows[name] for name in reversed(items))

    def _choice(self, belief: Belief, asked: _Asked) -> Rows | None:
        """The rows to ask about next, in the order in which they are shown; None where nothing is
        left.
        """
        rows: Rows | None
        if self.kind == SCORE:
            row = belief.best_row(asked.rows)
            rows = None if row is None else (row,)
        elif self.kind == COMPARE:
            rows = belief.best_pair(asked.pairs)
        else:
            rows = belief.best_four(asked.pairs)
        if rows is None:
            rows = self._any_left(asked)
        if rows is None:
            return None
        rng = np.random.default_rng([self._seed, len(self.log.answers), sum(rows)])
        return tuple(rng.permutation(rows).tolist())

    def _any_left(self, asked: _Asked) -> Rows | None:
        """Rows outside the pool that were not asked about, where the pool has none left."""
        n = len(self.names)
        if n <= MAX_POOL:
            return None
        rng = np.random.default_rng([self._seed, len(self.log.answers), 20])
        size = KINDS[self.kind].n_items[-1]
        for _ in range(100):
            rows = tuple(rng.choice(n, size, replace=False).tolist())
            if self.kind == SCORE:
                is_new = asked.rows.isdisjoint(rows)
            else:
                is_new = asked.pairs.isdisjoint(pairs_within(rows))
            if is_new:
                return rows
        return None

    # ---------------------------------------------------------------- what is learned

    def refresh(self, *, ranks: bool = True) -> bool:
        """Learn from what is new and prepare the next question for every answer that may come.

        This is long work, and may run in a thread beside the other methods.

        Parameters
        ----------
        ranks : whether to fit the model and rank all items too, not only to choose questions

        Returns
        -------
        Whether there was anything to do
        """
        with self._working:
            with in_one_thread(self._matrix):
                worked = self._prepare()  # from what is believed already: a person may answer soon
            with self._lock:
                log, before = self.log, self._learned
            if log is self._learned_from:
                return worked
            self._learn(log.answers, before, ranks=ranks)
            if ranks:
                self._learned_from = log
            return True

    def _learn(self, answers: Sequence[Answer], before: _Learned | None, *, ranks: bool) -> None:
        """Fit and rank, and then renew the belief about a pool with the items that stand first."""
        model = scores = None
        order = None if before is None else before.ranking.order
        if ranks or self.kind == SCORE:
            with in_one_thread(self._matrix):
                model = self._fitted(answers, self._fits)
        if model is not None and ranks:
            scores = self._fits.predict(model)  # of all items, in all threads
            order = np.argsort(-scores, kind="stable")
        with in_one_thread(self._matrix):
            belief = self._believed(answers, model, order)
            learned = None if ranks else before
            if scores is not None:
                learned = self._ranked(model, scores, len(answers), belief, before)
            with self._lock:
                asked = self._asked.pairs
                self._learned = learned
                present = self.log.answers
                if present[: len(answers)] == answers:  # none was taken back
                    self.belief = reduce(self._after, present[len(answers) :], belief)
                    self._prepared = {}
            self._prepare()
            if ranks:
                step = STEP * KINDS[self.kind].n_comparisons
                shares = belief.foreseen(MAX_STEPS, step, asked, scores=self.kind == SCORE)
                with self._lock:
                    self._outlook = len(answers), shares

    def _prepare(self) -> bool:
        """Choose the next question for every answer to the open one."""
        with self._lock:
            question, belief, log, asked = self._open, self.belief, self.log, self._asked
        if question is None or (question.number, SKIP, "") in self._prepared:
            return False
        names = tuple(self.names[row] for row in question.rows)
        positions = POSITIONS[: len(names)]
        if question.kind == SCORE:
            picks = [(SCORE, "")]
        elif question.kind == COMPARE:
            picks = [(better, "") for better in positions] + [(TIE, "")]
        else:
            picks = [*permutations(positions, 2), (TIE, "")]
        prepared = {}
        for answer, worst in [*picks, (SKIP, "")]:
            said = Answer(0, question.kind, names, answer, worst, None, self.person, "")
            rows = self._choice(self._after(belief, said), asked.after([said], self._rows))
            prepared[question.number, answer, worst] = rows
        with self._lock:
            if self.log is log and self._open is question:
                self._prepared = prepared
        return True

    def _learner(self) -> Any:
        """The learner that `corank fit` takes for answers of this kind."""
        learner = AutoRegressor if self.kind == SCORE else AutoRanker
        return learner(encoder=self._encoder, random_state=0)

    def _fitted(self, answers: Sequence[Answer], fits: LiveFit | None = None) -> Any:
        """The model that `corank fit` builds from these answers; None where there is too little to
        learn from.

        fits : leaves out what a ranking does not need
        """
        if self.kind == SCORE:
            scores = self.scores(answers)
            if np.count_nonzero(~np.isnan(scores)) < FEWEST_ANSWERS:
                return None
            if fits is None:
                model = self._learner().fit(self._matrix, scores)
            else:
                model = fits.to_scores(scores)
            return model if model.candidates_ else None
        first, second, won = self._outcomes(answers)
        if np.count_nonzero(won == 1) < FEWEST_ANSWERS:
            return None
        wins = np.where(won == 1, 1.0, 0.0)
        margins = None if wins.all() else wins
        if fits is None:
            model = self._learner().fit_comparisons(self._matrix, first, second, margins=margins)
        else:
            model = fits.to_comparisons(first, second, margins)
        return model if model.candidates_ else None

    def _outcomes(self, answers: Sequence[Answer]) -> tuple[Index, Index, FloatArray]:
        """What answers say about pairs of items: rows (m,) of both, and 1 where the first is better
        or 0.5 for a tie.
        """
        outcomes = pair_outcomes(answers)
        first = [self._rows[name] for name, _, _ in outcomes]
        second = [self._rows[name] for _, name, _ in outcomes]
        won = np.asarray([value for _, _, value in outcomes])
        return np.asarray(first, dtype=np.int64), np.asarray(second, dtype=np.int64), won

    def _believed(self, answers: Sequence[Answer], model: Any, order: Index | None) -> Belief:
        """What is believed about a pool of items after these answers.

        model : fitted to them, None before that; comparisons are believed without it
        order : rows of all items, best first, where there is a ranking
        """
        rows, weights = self._pool(answers, order)
        if model is not None and self.kind == SCORE:
            posterior, items = model.posterior_at(self._matrix)
            mean, covariance = posterior.covariance(take(items, rows))
            mean_variance = float(np.trace(covariance)) / len(rows)
            noise = max(posterior.answer_noise / 2, LEAST_NOISE * mean_variance, 1e-300)
            return Belief(rows, weights, mean / np.sqrt(noise), covariance / noise)
        first, second, won = self._outcomes(answers)
        ends = np.stack([first, second, second, first], axis=1)
        # a tie counts for both
        counts = np.stack([won > 0, won < 1], axis=1)
        outcomes = ends.reshape(-1, 2)[counts.ravel()]
        return self._beliefs.after(outcomes, rows, weights)

    def _pool(self, answers: Sequence[Answer], order: Index | None) -> tuple[Index, FloatArray]:
        """Rows that questions are chosen from, and how many items each stands for: all, or those
        asked about last, those that stand first, and others drawn at random."""
        n = len(self.names)
        if n <= MAX_POOL:
            return np.arange(n), np.ones(n)
        candidates = [] if order is None else order[:N_TOP].tolist()
        for answer in reversed(answers):
            candidates += [self._rows[name] for name in answer.items]
        distinct = list(dict.fromkeys(candidates))
        chosen = np.asarray(distinct[: N_TOP + MAX_COMPARED], dtype=np.int64)
        rng = np.random.default_rng([self._seed, len(answers), 21])
        drawn = rng.choice(n, MAX_POOL, replace=False)
        others = drawn[~np.isin(drawn, chosen)]
        others = others[: MAX_POOL - len(chosen)]
        rows = np.sort(np.concatenate([chosen, others]))
        weight_of_others = (n - len(chosen)) / max(len(others), 1)
        weights = np.where(np.isin(rows, chosen), 1.0, weight_of_others)
        return rows, weights

    def _after(self, belief: Belief, answer: Answer) -> Belief:
        """The belief after an answer; items outside the pool teach nothing about it until the next
        fit.
        """
        for first, second, won in pair_outcomes([answer]):
            places = belief.places((self._rows[first], self._rows[second]))
            if places is not None:
                belief = belief.after_win(*places) if won == 1 else belief.after_tie(*places)
        if answer.answer == SCORE:
            places = belief.places((self._rows[answer.items[0]],))
            belief = belief if places is None else belief.after_score(places[0], 0.0)
        return belief

    # ---------------------------------------------------------------- what came out

    def ranking(self) -> Ranking | None:
        """The latest ranking, None before the first fit."""
        with self._lock:
            return None if self._learned is None else self._learned.ranking

    def _ranked(
        self,
        model: Any,
        scores: FloatArray,
        n_answers: int,
        belief: Belief,
        before: _Learned | None,
    ) -> _Learned:
        """All items in the order of a model, by its scores (n,), with the uncertainty of the belief
        about them.

        Places of items in the pool come from draws around the scores of the model, those of others
        from items of like score.
        """
        order = np.argsort(-scores, kind="stable")
        n = len(scores)
        pool_scores = scores[belief.rows]
        believed_spread = max(float(belief.mean.std()), LEAST_SPREAD)
        spread = believed_spread / max(float(pool_scores.std()), 1e-300)
        drawn = replace(belief, mean=spread * pool_scores).drawn_places(self._seed)
        column_means = np.average(belief.covariance, axis=0, weights=belief.weights)
        centred = belief.covariance - column_means
        row_means = np.average(centred, axis=1, weights=belief.weights)
        centred = centred - row_means[:, None]
        deviations = np.sqrt(np.maximum(np.diag(centred), 0.0)) / spread
        by_score = np.argsort(pool_scores, kind="stable")
        estimates = []
        for values in (deviations, *np.percentile(drawn, INTERVAL, axis=0)):
            estimate = np.interp(scores, pool_scores[by_score], values[by_score])
            estimate[belief.rows] = values
            estimates.append(estimate)
        std, low, high = estimates
        places = np.arange(1, n + 1)
        place = np.empty(n, dtype=np.int64)
        place[order] = places
        moved = np.zeros(n, dtype=np.int64)
        if before is not None:
            moved[before.ranking.order] = places
            moved -= place
        lowest = np.clip(np.floor(low).astype(np.int64), 1, place)
        highest = np.clip(np.ceil(high).astype(np.int64), place, n)
        ranking = Ranking(order, scores, std, lowest, highest, moved, n_answers)
        is_top = np.isin(belief.rows, order[:SHOWN_TOP])
        stable = float(np.mean(drawn[:, is_top] <= SHOWN_TOP))
        return _Learned(model, ranking, stable)

    def settled(self) -> Settled:
        """How settled the order is, and how consistent people are."""
        with self._lock:
            outlook, learned, log = self._outlook, self._learned, self.log
            everything_asked = self._open is None
        misordered, more = 0.5, None
        if outlook is not None:
            n_answers, shares = outlook
            misordered = float(shares[0])
            is_worth_it = shares[:-1] - shares[1:] >= LEAST_GAIN
            if not is_worth_it.all():
                given_since = len(log.answers) - n_answers
                more = max(STEP * int(np.argmin(is_worth_it)) - given_since, 0)
        if log.n_told < FEWEST_TO_STOP:  # so few answers cannot tell
            more = None
        if everything_asked:
            more = 0
        repeated, consistent, agreement = judgements_again(log.answers)
        people = Counter[str]()
        for answer in log.answers:
            people[answer.person] += answer.answer != SKIP
        settled = Settled(
            answers=log.n_told,
            misordered=misordered,
            top=min(SHOWN_TOP, len(self.names)),
            top_stable=0.0 if learned is None else learned.top_stable,
            more=more,
            enough=more == 0,
            repeated=repeated,
            consistent=consistent,
            people=dict(people),
            agreement=agreement,
            sentence="",
        )
        return replace(settled, sentence=_sentence(settled, everything_asked=everything_asked))

    def explain(self, first: int, second: int) -> PairExplanation:
        """Why one item stands above another in the latest model: a `PairExplanation` of two rows of
        the items.
        """
        with self._lock:
            learned, answers = self._learned, self.log.answers
        if learned is None:
            raise ValueError("there is no ranking to explain yet: answer a few questions first")
        asked = (self._rows[name] for answer in answers for name in answer.items)
        rows = list(dict.fromkeys([first, second, *asked]))
        names = [self.names[row] for row in rows]
        model: AutoRanker | AutoRegressor = learned.model
        return model.explain_pair(0, rows.index(second), items=self._matrix[rows], names=names)

    def scores(self, answers: Sequence[Answer] | None = None) -> FloatArray:
        """The score of every item by row, the mean over people, NaN where there is none: (n,), of
        all answers or of some.
        """
        answers = self.log.answers if answers is None else answers
        scores = np.full(len(self.names), np.nan)
        for name, score in mean_scores(answers).items():
            scores[self._rows[name]] = score
        return scores

    def save(
        self,
        path: Path | str,
        overwrite: bool = False,
        *,
        remembered: Mapping[str, Any] | None = None,
    ) -> None:
        """Write the model of all answers, as `corank fit` builds it from the file of answers.

        remembered : what the file keeps of the table beside names of columns and counts
        """
        answers = self.log.answers
        model = self._fitted(answers)
        if model is None:
            raise ValueError("there are too few answers to learn from")
        roles = {"score": SCORE if self.kind == SCORE else None, "query": None, "id": self.id}
        model.encoder_ = self._encoder
        model.table_ = {**roles, **model.counts(), "queries": None}
        if self.kind != SCORE:
            model.table_ |= {"winner": "winner", "loser": "loser", "margin": None, "count": None}
            model.table_["comparisons"] = len(pair_outcomes(answers))
        model.table_ |= remembered or {}
        model.save(path, overwrite=overwrite)

    @property
    def log(self) -> AnswerLog:
        """The answers so far."""
        with self._lock:
            return self._answers.log

    def ensure_saved(self) -> None:
        """Make sure that the file holds every answer: where another program has deleted it, it is
        written again.

        Raises
        ------
        AnswersChanged
            If another program has changed the file, so that it lacks answers; they are in a copy
            beside it, then.
        """
        with self._lock:
            self._answers.ensure_saved()

    def close(self) -> None:
        """Let another process write to the file of answers."""
        self._answers.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---------------------------------------------------------------- items

    def _feature_names(self, features: Sequence[str] | None, drop: Sequence[str]) -> list[str]:
        names = [name for name in self.table.column_names if name != self.id]
        for option, wanted in (("features", features or ()), ("drop", drop)):
            for name in wanted:
                if name not in names:
                    raise ValueError(
                        f"{option}: the items have no column {name!r}{did_you_mean(name, names)}"
                    )
        chosen = names if features is None else list(features)
        return [name for name in chosen if name not in drop]

    def _encoded(self) -> tuple[TableEncoder, FloatArray]:
        """The encoder that `corank fit` makes for these items, and what it makes of them: (n, d)."""
        if self.kind == SCORE:
            if not self.features:
                raise TableError(
                    "score needs a column besides the names to learn from: add one, or compare"
                    " items instead"
                )
            encoder, columns = TableEncoder(), self.features
        else:
            encoder, columns = TableEncoder(identity=[self.id]), [self.id, *self.features]
        return encoder, np.asarray(encoder.fit_transform(self.table.select(columns)))

    def _check_answers(self, path: Path | None) -> None:
        """Refuse answers about other items, or of another kind of question than comparisons can be
        learned from.
        """
        for answer in self.log.answers:
            for name in answer.items:
                if name not in self._rows:
                    raise TableError(
                        f"answers: line number {answer.number} of {path} is about {name!r}, which"
                        f" is no item by column {self.id!r}: choose another file for these items"
                    )
            if (answer.kind == SCORE) != (self.kind == SCORE):
                raise TableError(
                    f"answers: {path} holds answers of kind {answer.kind!r}, which do not go with "
                    f"kind {self.kind!r}: choose another file"
                )

    def _asked_rows(self) -> _Asked:
        """What this person was asked; others may be asked the same."""
        answers = [answer for answer in self.log.answers if answer.person == self.person]
        return _Asked(frozenset(), frozenset()).after(answers, self._rows)


@dataclass(frozen=True)
class Question:
    """A question about items.

    Attributes
    ----------
    number : differs between the questions of an interview
    kind : "compare", "best-worst" or "score"
    rows : rows of the items, in the order in which they are shown
    repeated : whether it was asked before, to see how consistent answers are
    """

    number: int
    kind: str
    rows: Rows
    repeated: bool = False


@dataclass(frozen=True)
class Ranking:
    """The order of all items.

    Attributes
    ----------
    order : (n,) rows, best first
    scores, std : (n,) by row
    low, high : (n,) places, from 1, between which an item lies with 90 %, by row
    moved : (n,) places that an item has moved up since the ranking before, by row
    answers : number of answers that it has learned from
    """

    order: Index
    scores: FloatArray
    std: FloatArray
    low: Index
    high: Index
    moved: Index
    answers: int


@dataclass(frozen=True)
class Settled:
    """How settled the order is.

    Attributes
    ----------
    answers : number of answers
    misordered : expected share of pairs in the wrong order
    top, top_stable : how many items stand first, and the expected share of them that belong there
    more : number of answers until more are not worth it, None where that cannot be told yet
    enough : whether more answers are not worth it: the next twenty would put fewer than one pair in
        200 right
    repeated, consistent : how many judgements were made again, and how many of them came out alike
    people : number of answers by person
    agreement : two people, the pairs that both judged, and the number judged alike
    sentence : all of it in words
    """

    answers: int
    misordered: float
    top: int
    top_stable: float
    more: int | None
    enough: bool
    repeated: int
    consistent: int
    people: dict[str, int]
    agreement: list[Agreement]
    sentence: str


class StaleQuestion(ValueError):
    """The answer is to a question that is not open any more."""


@dataclass(frozen=True)
class _Learned:
    """A model fitted to some answers, the ranking by it, and the expected share of its first ten
    that belong there.
    """

    model: Any
    ranking: Ranking
    top_stable: float


@dataclass(frozen=True)
class _Asked:
    """Rows, and pairs of them, that need not be asked about again."""

    rows: frozenset[int]
    pairs: frozenset[tuple[int, int]]

    def after(self, answers: Sequence[Answer], rows: Mapping[str, int]) -> _Asked:
        """With more answers, each about the pairs that it compares, or all that were shown where it
        was skipped or a tie.

        rows : of the items by their names
        """
        shown = set(self.rows)
        compared = set(self.pairs)
        for answer in answers:
            shown.update(rows[name] for name in answer.items)
            for names in answer.comparisons() or combinations(answer.items, 2):
                pair = [rows[name] for name in names]
                compared.update(pairs_within(pair))
        return _Asked(frozenset(shown), frozenset(compared))


def _sentence(settled: Settled, *, everything_asked: bool) -> str:
    """How settled the order is, in words."""
    if settled.answers == 0 and everything_asked:
        return "Everything was asked, and nothing answered."
    if settled.answers == 0:
        return "No answers yet."
    wrong = (
        f"about {100 * settled.misordered:.0f} % of all pairs are expected to be in the wrong order"
    )
    if everything_asked:
        return f"Everything was asked: {wrong}."
    if settled.enough:
        return (
            f"You can stop: {count(STEP, 'more answer')} would put fewer than one pair in 200"
            f" right; {wrong}."
        )
    if settled.more is None:
        return f"{count(settled.answers, 'answer')} so far: {wrong}."
    return f"About {count(settled.more, 'more answer')} would still help; {wrong}."
