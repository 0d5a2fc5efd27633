"""How a coordinator reaches its sites: the protocol of every transport, and the transport inside
one process.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from corank_federated.messages import Message, MessageError, decoded, note
from corank_federated.site import PulledTooFar, Refused, Site


@dataclass(frozen=True)
class Fault:
    """The reason why a site gave no answer; `too_far`: it refused to be pulled as far as the other
    sites' answers would.
    """

    reason: str
    too_far: bool = False


def refused(why: str, *, too_far: bool) -> Fault:
    """The fault of a site that refused a request."""
    return Fault(f"it refused: {why.rstrip('.')}", too_far)


class Channel(Protocol):
    """Questions to sites and their answers, in bytes that are counted."""

    sent: int
    received: int

    def hello(self, sites: Sequence[str]) -> dict[str, Message | Fault]:
        """How the sites introduce themselves."""
        ...

    def ask(self, questions: Mapping[str, Message]) -> dict[str, Message | Fault]:
        """Put one question to each site, all at the same time."""
        ...

    def tell(self, sites: Iterable[str], message: Message) -> None:
        """Say something that needs no answer, to those who can still hear it."""
        ...


class Party(Protocol):
    """The side that answers: a `Site` in a run, or a finished model."""

    name: str

    def hello(self) -> Message:
        """How it introduces itself."""
        ...

    def handle(self, message: Message) -> Message:
        """An answer, or Refused."""
        ...


def answered(party: Party, message: Message) -> Message:
    """The answer, or a refusal."""
    began = time.perf_counter()
    number = int(message.fields.get("round", 0))
    try:
        reply = party.handle(message)
    except (Refused, MessageError) as error:
        note("refused", level=logging.WARNING, site=party.name, kind=message.kind, why=str(error))
        about = {"run": str(message.fields.get("run", "")), "round": number}
        return Message(
            "refusal", {**about, "reason": str(error), "too_far": isinstance(error, PulledTooFar)}
        )
    note(
        "answered",
        site=party.name,
        kind=message.kind,
        round=number,
        seconds=time.perf_counter() - began,
    )
    return reply


class InProcess:
    """Sites in this process; messages still become bytes and back, as on any wire.

    record : called with "to" or "from", the site and the bytes of every message
    """

    def __init__(self, sites: Sequence[Site]) -> None:
        self.sites = {site.name: site for site in sites}
        if len(self.sites) < len(sites):
            raise ValueError("sites: two of them have the same name.")
        self.sent = self.received = 0

    def record(self, way: str, site: str, content: bytes) -> None:
        """Count a message."""
        if way == "to":
            self.sent += len(content)
        else:
            self.received += len(content)

    def hello(self, sites: Sequence[str]) -> dict[str, Message | Fault]:
        """Introductions of all sites."""
        missing = {name: Fault("it is not there") for name in sites if name not in self.sites}
        return {
            **missing,
            **{
                name: self._from(name, self.sites[name].hello())
                for name in sites
                if name in self.sites
            },
        }

    def ask(self, questions: Mapping[str, Message]) -> dict[str, Message | Fault]:
        """Ask the sites in order."""
        return {name: self._asked(name, question) for name, question in questions.items()}

    def _asked(self, name: str, question: Message) -> Message | Fault:
        content = question.encoded()
        self.record("to", name, content)
        try:
            return self._from(name, self.sites[name].handle(decoded(content)))
        except Refused as error:
            return refused(str(error), too_far=isinstance(error, PulledTooFar))
        except MessageError as error:
            return Fault(str(error))

    def _from(self, name: str, message: Message) -> Message:
        content = message.encoded()
        self.record("from", name, content)
        return decoded(content)

    def tell(self, sites: Iterable[str], message: Message) -> None:
        """Sites in this process have nothing to stop."""
        for name in sites:
            self.record("to", name, message.encoded())
