"""Asking a person: which of two items is better, the best and the worst of four, or the score of
one.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corank.tables.answer_log import (
    Answer,
    AnswerLog,
    AnswersChanged,
    AnswersFile,
    AnswersInUse,
    is_answers_file,
    pair_outcomes,
    read_answers,
)

if TYPE_CHECKING:
    from corank.interview.interview import Interview
    from corank.interview.widget import AskWidget

__all__ = [
    "Answer",
    "AnswerLog",
    "AnswersChanged",
    "AnswersFile",
    "AnswersInUse",
    "Interview",
    "ask",
    "is_answers_file",
    "pair_outcomes",
    "read_answers",
]


def __getattr__(name: str) -> Any:
    if name != "Interview":  # its imports are slow, and files of answers are read without it
        raise AttributeError(f"module 'corank.interview' has no attribute {name!r}")
    from corank.interview.interview import Interview

    return Interview


def ask(
    items: Any,
    *,
    id: str,
    answers: str | PathLike[str] | None = None,
    kind: str = "compare",
    question: str | None = None,
    person: str = "",
    repeat: float = 0.0,
    features: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    show: Sequence[str] | None = None,
    random_state: int = 0,
) -> AskWidget:
    """Ask a person about items, in a notebook: `corank ask` as a widget.

    Parameters
    ----------
    items : table of pandas, polars or pyarrow
    id : column that names the items
    answers : path of the file of answers, CSV, which is taken up where it ends; None keeps answers
        in memory only
    kind : "compare" (which of two is better), "best-worst" (of four) or "score" (a number for one
        item)
    question : the question in your words
    person : name of who answers, where several do
    repeat : share of questions that are asked again, to see how consistent the answers are
    features, drop : columns to learn from, and to leave out; None for all
    show : columns to show, in this order; None for all
    random_state : what is drawn at random follows from it

    Returns
    -------
    AskWidget
        Has `ranking()`, `save(path)`, `close()` and `interview`.
    """
    try:
        from corank.interview.widget import AskWidget
    except ModuleNotFoundError as error:
        raise ImportError(
            f"corank.ask needs {error.name}: pip install 'corank[notebook]'"
        ) from error
    from corank.interview.interview import Interview
    from corank.interview.page import Cards

    path = None if answers is None else Path(answers)
    try:
        interview = Interview(
            items,
            id=id,
            answers=path,
            kind=kind,
            person=person,
            repeat=repeat,
            features=features,
            drop=drop,
            random_state=random_state,
        )
    except AnswersInUse as error:
        raise AnswersInUse(f"{error}; a widget lets go of it by widget.close()") from None
    try:
        cards = Cards(interview.table, interview.names, id, show)
    except BaseException:
        interview.close()
        raise
    return AskWidget(interview, cards, question, "" if path is None else str(path))
