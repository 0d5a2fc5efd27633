"""Messages between sites and coordinator: a few kinds, each with fixed fields and at most one array
of numbers; and the log of a run, as text or as one JSON object per line.

A message is JSON and raw bytes; nothing in it can be executed. Anything that does not look exactly
like one is refused.
"""

from __future__ import annotations

import json
import logging
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NoReturn

import numpy as np

from corank.core.arrays import FloatArray

MAGIC = b"CRK1"
PREFIX = struct.Struct("<4sI")
MAX_HEADER = 1 << 22  # bytes of JSON
MAX_FLOAT = 10**308  # a whole number beyond that is no float
VERSION = 2

# The fields of every kind; the second entry: whether it has an array, required (True), absent
# (False) or either (None).
KINDS: dict[str, tuple[dict[str, Any], bool | None]] = {
    # site to coordinator
    "hello": ({"version": int, "site": str, "comparison": str, "items": int, "digest": str}, False),
    "digest": ({"upto": int, "digest": str}, False),
    "accepted": ({"run": str}, False),
    "answer": ({"run": str, "round": int, "report": (list, type(None))}, True),
    "refusal": ({"run": str, "round": int, "reason": str, "too_far": bool}, False),
    "saved": ({"run": str}, False),
    "prediction": ({"request": str, "reason": (str, type(None))}, None),
    # coordinator to site
    "compare": ({"upto": int}, False),
    "terms": (
        {
            "run": str,
            "sites": list,
            "comparison": str,
            "agreement": float,
            "items": int,
            "digest": str,
            "report": bool,
        },
        False,
    ),
    "round": ({"run": str, "round": int, "sites": int}, None),
    "finish": ({"run": str, "round": int, "converged": bool}, False),
    "predict": ({"request": str, "columns": list, "texts": dict, "rows": int}, None),
    "warning": ({"reason": str}, False),
    "stop": ({"reason": str, "row": (int, type(None))}, False),
}


class MessageError(ValueError):
    """Bytes that are not a message of ours; says why."""


@dataclass(frozen=True)
class Message:
    """One message: its kind, its fields and, for some kinds, an array (k,) of numbers."""

    kind: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    numbers: FloatArray | None = None

    def __getitem__(self, name: str) -> Any:
        return self.fields[name]

    def encoded(self) -> bytes:
        """As bytes: a prefix, the JSON header, the numbers as little-endian float64."""
        header = self._header()
        body = (
            b""
            if self.numbers is None
            else np.ascontiguousarray(self.numbers, dtype="<f8").tobytes()
        )
        return PREFIX.pack(MAGIC, len(header)) + header + body

    @property
    def header_size(self) -> int:
        """Bytes of the JSON header."""
        return len(self._header())

    def _header(self) -> bytes:
        length = {} if self.numbers is None else {"length": len(self.numbers)}
        return json.dumps({"kind": self.kind, **length, **self.fields}, allow_nan=False).encode()


def decoded(content: bytes, *, max_values: int | None = None) -> Message:
    """The message that bytes hold; `max_values` is the longest array that is welcome."""
    if len(content) < PREFIX.size:
        _bad("it is too short")
    magic, size = PREFIX.unpack_from(content)
    if magic != MAGIC or size > MAX_HEADER or PREFIX.size + size > len(content):
        _bad("it does not begin like one")
    header = _header(content[PREFIX.size : PREFIX.size + size])
    kind, length = header.pop("kind", None), header.pop("length", None)
    if not isinstance(kind, str) or kind not in KINDS:
        _bad(f"it is of an unknown kind, {str(kind)[:40]!r}")
    fields, with_values = KINDS[kind]
    if set(header) != set(fields):
        _bad(f"a {kind} with other fields than {', '.join(fields)}")
    for name, wanted in fields.items():
        if not _is(header[name], wanted):
            _bad(f"{name} of a {kind} is {str(header[name])[:40]!r}")
    body = len(content) - PREFIX.size - size
    if length is None:
        if with_values or body:
            _bad(
                f"a {kind} without its numbers"
                if with_values
                else f"a {kind} with more than its header"
            )
        return Message(kind, header)
    if with_values is False or type(length) is not int or length < 0 or body != 8 * length:
        _bad(f"a {kind} with {body} bytes of numbers where its header says {length}")
    if max_values is not None and length > max_values:
        _bad(f"a {kind} with {length:,} numbers, more than the {max_values:,} that are welcome")
    numbers = np.frombuffer(content, dtype="<f8", offset=PREFIX.size + size).astype(np.float64)
    return Message(kind, header, numbers)


def _header(content: bytes) -> dict[str, Any]:
    def refuse(word: str) -> NoReturn:
        _bad(f"its header holds {word}")

    try:
        header = json.loads(content.decode(), parse_constant=refuse)
    except MessageError:
        raise
    except (ValueError, RecursionError):
        _bad("its header is not JSON")
    if not isinstance(header, dict):
        _bad("its header is not a JSON object")
    return header


def _is(value: Any, wanted: Any) -> bool:
    if wanted is float:
        return type(value) is float or (type(value) is int and abs(value) < MAX_FLOAT)
    kinds = wanted if isinstance(wanted, tuple) else (wanted,)
    return type(value) in kinds


def _bad(why: str) -> NoReturn:
    raise MessageError(f"not a message of corank: {why}")


@dataclass(frozen=True)
class Terms:
    """What all sites of a run agree on.

    Parameters
    ----------
    run : its name
    sites : names, in the order in which they take their turns
    comparison : "regression", or "ranking" with its weighting: see `Site.comparison`
    agreement : weight of the disagreement between sites on the shared items, over ordered pairs as
        in `CoRLS`
    items : how many shared items; digest : of all of them
    report : whether an answer holds three numbers beside the predictions: loss, norm, gradient norm
    """

    run: str
    sites: tuple[str, ...]
    comparison: str
    agreement: float
    items: int
    digest: str
    report: bool = True

    def message(self) -> Message:
        """As sent to every site."""
        return Message(
            "terms",
            {
                "run": self.run,
                "sites": list(self.sites),
                "comparison": self.comparison,
                "agreement": self.agreement,
                "items": self.items,
                "digest": self.digest,
                "report": self.report,
            },
        )

    @classmethod
    def read(cls, message: Message) -> Terms:
        """From a message, checked."""
        names = message["sites"]
        if not all(isinstance(name, str) for name in names) or len(set(names)) < max(len(names), 2):
            raise MessageError(
                "not a message of corank: terms need the names of two sites or more, each once"
            )
        agreement = float(message["agreement"])
        if not 0 <= agreement < np.inf:
            raise MessageError(f"not a message of corank: agreement of the terms is {agreement}")
        return cls(**{**message.fields, "sites": tuple(names), "agreement": agreement})


NAME = "corank.federated"


def note(event: str, *, level: int = logging.INFO, **facts: Any) -> None:
    """Log an event with its facts. Never rows, scores or predictions."""
    details = " ".join(f"{name}={_short(value)}" for name, value in facts.items())
    logging.getLogger(NAME).log(
        level,
        "%s%s",
        event,
        f" {details}" if details else "",
        extra={"event": event, "facts": facts},
    )


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


class JsonLines(logging.Formatter):
    """One JSON object per record."""

    def format(self, record: logging.LogRecord) -> str:
        """Time, level, event and facts."""
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        about = {
            "time": when,
            "level": record.levelname.lower(),
            "event": getattr(record, "event", record.getMessage()),
        }
        return json.dumps({**about, **getattr(record, "facts", {})}, default=str)
