"""An interview without a model: it asks about one item after the other and ranks by wins. For tests
of the page.
"""

from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pyarrow as pa

from corank.interview.interview import StaleQuestion
from corank.interview.page import Cards, Page

SHOWN = {"compare": 2, "best-worst": 4, "score": 1}


@dataclass(frozen=True)
class SmallQuestion:
    number: int
    kind: str
    rows: tuple
    repeated: bool = False


@dataclass(frozen=True)
class SmallRanking:
    order: np.ndarray
    scores: np.ndarray
    std: np.ndarray
    low: np.ndarray
    high: np.ndarray
    moved: np.ndarray
    answers: int


@dataclass(frozen=True)
class SmallSettled:
    answers: int
    misordered: float
    top: int = 10
    top_stable: float = 0.8
    more: int | None = 12
    enough: bool = False
    repeated: int = 4
    consistent: int = 3
    people: dict = field(default_factory=lambda: {"ann": 5, "bob": 7})
    agreement: list = field(default_factory=lambda: [("ann", "bob", 4, 3)])
    sentence: str = "About 12 more answers would settle the order."


class SmallLog:
    """Answers, as pairs of a question and a word."""

    def __init__(self):
        self.answers = []

    @property
    def n_told(self):
        return sum(answer[1] != "skip" for answer in self.answers)


class SmallInterview:
    def __init__(self, table, id, kind="compare", person="", questions=1000):
        self.table, self.id, self.kind, self.person = table, id, kind, person
        self.names = [str(name) for name in table[id].to_pylist()]
        self.log = SmallLog()
        self.questions, self.shown, self.refreshed = questions, 1, 0

    def next(self):
        answered = len(self.log.answers)
        if answered >= self.questions:
            return None
        rows = [
            (answered * SHOWN[self.kind] + step) % len(self.names)
            for step in range(SHOWN[self.kind])
        ]
        return SmallQuestion(self.shown, self.kind, tuple(rows))

    def answer(self, answer, worst="", score=None, *, number=None):
        if number is not None and (self.next() is None or number != self.next().number):
            raise StaleQuestion(f"question {number} is not open")
        if answer not in ("first", "second", "third", "fourth", "tie", "skip", "score"):
            raise ValueError(f"answer must be a position word, tie or skip, got {answer!r}")
        self.log.answers.append((self.next().rows, answer, worst, score))
        self.shown += 1
        return self.next()

    def undo(self):
        if not self.log.answers:
            return None
        self.log.answers.pop()
        self.shown += 1
        return self.next()

    def ensure_saved(self):
        pass

    def refresh(self):
        self.refreshed = len(self.log.answers)
        return True

    def ranking(self):
        if not self.refreshed:
            return None
        wins = np.zeros(len(self.names))
        for rows, answer, _, _ in self.log.answers:
            if answer in ("first", "second"):
                wins[rows[("first", "second").index(answer)]] += 1
        order = np.argsort(-wins, kind="stable")
        places = np.argsort(order) + 1
        low, high = np.maximum(places - 4, 1), np.minimum(places + 5, len(wins))
        return SmallRanking(
            order, wins, np.ones_like(wins), low, high, places % 5 - 2, self.refreshed
        )

    def settled(self):
        return SmallSettled(len(self.log.answers), 0.21)

    def explain(self, first, second):
        parts = [SimpleNamespace(name="words", value=0.7), SimpleNamespace(name="type", value=-0.2)]
        return SimpleNamespace(
            sentences=lambda: ["Mostly because of words."],
            tables=lambda most: {"By column": parts, "By comparison": parts[:1]},
        )


def small_page(table=None, kind="compare", id="name", folder=None, show=None, **more):
    """A page about a small interview."""
    if table is None:
        table = pa.table({"name": ["ape", "bee", "cat", "dog", "elk"], "legs": [2, 6, 4, 4, 4]})
    interview = SmallInterview(table, id, kind, **more)
    cards = Cards(table, interview.names, id, show, folder)
    return Page(
        interview, cards, commands=["corank fit items.csv"], place="answers.csv", download=True
    )
