"""Joint predictions over the network: every site scores the same items with its own model, the mean
is the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from corank.core.arrays import FloatArray
from corank.tables import is_number, numbers
from corank_federated.channel import Channel, Fault
from corank_federated.coordinator import RunStopped
from corank_federated.messages import MAX_HEADER, VERSION, Message
from corank_federated.site import Refused

BATCH = 5_000  # items per question
MOST_NUMBERS = 500_000  # in one: half of what sites take unless they say otherwise


class ModelServer:
    """A site with a finished model: it scores items that it is sent, or finds by their ids.

    Parameters
    ----------
    name : of the site
    score : from a table of items to scores (n,); raises ValueError where it cannot
    comparison : as in `Site`
    rows : how many items it scores in all
    """

    def __init__(
        self, name: str, score: Callable[[pa.Table], Any], comparison: str, rows: int
    ) -> None:
        self.name, self.comparison = name, comparison
        self._score, self._left = score, rows

    def hello(self) -> Message:
        """Without shared items: nothing is learned."""
        return Message(
            "hello",
            {
                "version": VERSION,
                "site": self.name,
                "comparison": self.comparison,
                "items": 0,
                "digest": "",
            },
        )

    def handle(self, message: Message) -> Message:
        """Scores of the items of a predict."""
        if message.kind != "predict":
            raise Refused(f"{self.name!r} has its model already and only predicts with it.")
        try:
            table = items_of(message)
            if len(table) > self._left:
                raise Refused(
                    f"{self.name!r} scores {self._left:,} more items at most; raise rows in its"
                    " [predict]."
                )
            scores = np.asarray(self._score(table), dtype=np.float64)
        except (ValueError, pa.ArrowException) as error:
            return Message("prediction", {"request": message["request"], "reason": str(error)})
        self._left -= len(table)
        return Message("prediction", {"request": message["request"], "reason": None}, scores)


def question(table: pa.Table, request: str) -> Message:
    """Items as a message: columns of numbers as numbers, others as text."""
    names = [name for name in table.column_names if is_number(table[name].type)]
    texts = {
        name: table[name].cast(pa.string()).to_pylist()
        for name in table.column_names
        if name not in names
    }
    values = [numbers(table[name], name) for name in names]
    wide = np.stack(values, axis=1).ravel() if values else None
    return Message(
        "predict", {"request": request, "columns": names, "texts": texts, "rows": len(table)}, wide
    )


def questions(table: pa.Table) -> Iterator[Message]:
    """All items in messages that no site finds too long."""
    numeric = sum(is_number(kind) for kind in table.schema.types)
    begin, size = 0, max(1, min(BATCH, MOST_NUMBERS // max(numeric, 1)))
    while begin < len(table):
        batch = table.slice(begin, size)
        asked = question(batch, f"rows {begin + 1} to {begin + len(batch)}")
        if len(batch) > 1 and asked.header_size > MAX_HEADER:
            size = len(batch) // 2
            continue
        yield asked
        begin += len(batch)


def items_of(message: Message) -> pa.Table:
    """The table that a message holds."""
    names, texts, rows = message["columns"], message["texts"], int(message["rows"])
    sound = all(isinstance(name, str) for name in [*names, *texts]) and not set(names) & set(texts)
    sizes = {len(text) if isinstance(text, list) else -1 for text in texts.values()}
    cells = (cell for text in texts.values() if isinstance(text, list) for cell in text)
    given = 0 if message.numbers is None else len(message.numbers)
    sound = sound and all(isinstance(cell, str | None) for cell in cells)
    if not sound or rows < 1 or sizes - {rows} or given != rows * len(names):
        raise ValueError("the items to predict do not make a table.")
    columns: dict[str, Any] = {}
    if message.numbers is not None:
        columns = dict(zip(names, message.numbers.reshape(rows, len(names)).T, strict=True))
    return pa.table(
        {name: pa.array(values, from_pandas=True) for name, values in {**columns, **texts}.items()}
    )


def joint_prediction(
    channel: Channel, sites: Sequence[str], table: pa.Table
) -> dict[str, FloatArray]:
    """The scores that every site gives to the items: (n,) each."""
    for name, hello in channel.hello(sites).items():
        if isinstance(hello, Fault):
            raise RunStopped(
                f"site {name!r} is not there to predict: {hello.reason}; does it run join --serve?"
            )
    batches: dict[str, list[FloatArray]] = {name: [] for name in sites}
    for asked in questions(table):
        for name, scores in _scores(
            channel.ask(dict.fromkeys(sites, asked)), asked["rows"]
        ).items():
            batches[name].append(scores)
    return {name: np.concatenate(scores) for name, scores in batches.items()}


def _scores(replies: Mapping[str, Message | Fault], rows: int) -> dict[str, FloatArray]:
    scores: dict[str, FloatArray] = {}
    for name, reply in replies.items():
        why = reply.reason if isinstance(reply, Fault) else reply["reason"]
        if why is None and isinstance(reply, Message):
            if (
                reply.numbers is not None
                and len(reply.numbers) == rows
                and np.isfinite(reply.numbers).all()
            ):
                scores[name] = reply.numbers
                continue
            why = "it did not send one number for each item"
        raise RunStopped(f"site {name!r} does not predict: {why}")
    return scores
