"""Sites and rounds over Flower, for those who run its SuperLink and SuperNodes already:
`corank-federated[flower]`.

Flower may start a process for every message, so a site remembers its rounds in its state file, and
every round brings the terms along. Names are what nodes say they are: use Flower's own TLS and node
authentication.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from flwr.app import ConfigRecord, Context, MessageType, RecordDict
from flwr.app import Message as FlowerMessage
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid

from corank_federated.channel import Fault, answered, refused
from corank_federated.messages import Message, MessageError, decoded, note
from corank_federated.site import Site

RECORD = "corank"
PAUSE = 1.0  # seconds between looks for nodes that are still to come


def client_app(
    make_site: Callable[[Context], Site], keep: Callable[[Context, Site], None]
) -> ClientApp:
    """A ClientApp that answers for a site.

    Parameters
    ----------
    make_site : makes the site from the node's context, the same every time; its `state` must be a
        file
    keep : is called with the site when the run is over, to save its model
    """
    app = ClientApp()

    @app.query()  # type: ignore[untyped-decorator]
    def answer(message: FlowerMessage, context: Context) -> FlowerMessage:
        site = make_site(context)
        if site.state is None:
            raise ValueError(
                "make_site: a site needs a state file, as every message may meet a new process."
            )
        reply = site.hello()
        for content in message.content[RECORD]["messages"]:
            asked = decoded(content)
            reply = answered(site, asked)
            if asked.kind == "finish" and reply.kind == "saved":
                keep(context, site)
        return FlowerMessage(_record(reply=reply.encoded()), reply_to=message)

    return app


def _record(**fields: Any) -> RecordDict:
    return RecordDict({RECORD: ConfigRecord(fields)})


class FlowerChannel:
    """`Channel` over the grid of a Flower ServerApp.

    Parameters
    ----------
    grid : as given to the ServerApp's main function
    join_timeout, answer_timeout : seconds to wait for all sites, and for one answer
    """

    def __init__(
        self, grid: Grid, *, join_timeout: float = 600.0, answer_timeout: float = 600.0
    ) -> None:
        self.sent = self.received = 0
        self._grid, self._timeouts = grid, (join_timeout, answer_timeout)
        self._nodes: dict[str, int] = {}
        self._hellos: dict[str, Message] = {}
        self._terms: dict[str, Message] = {}

    def hello(self, sites: Sequence[str]) -> dict[str, Message | Fault]:
        """Ask nodes that are new for their names until all sites are there."""
        deadline, met = time.monotonic() + self._timeouts[0], set()
        while missing := [name for name in sites if name not in self._nodes]:
            if time.monotonic() > deadline:
                break
            new = [node for node in self._grid.get_node_ids() if node not in met]
            for node, reply in self._exchanged({node: [] for node in new}).items():
                if isinstance(reply, Message) and reply.kind == "hello":
                    met.add(node)
                    self._nodes[str(reply["site"])], self._hellos[str(reply["site"])] = node, reply
                    note("joined", site=reply["site"])
            if not new:
                time.sleep(PAUSE)
        late = dict.fromkeys(missing, Fault(f"it was not there within {self._timeouts[0]:.0f} s"))
        return {name: late.get(name) or self._hellos[name] for name in sites}

    def ask(self, questions: Mapping[str, Message]) -> dict[str, Message | Fault]:
        """All at the same time; a round comes with the terms, for a process that has not heard
        them.
        """
        asked: dict[int, list[bytes]] = {}
        for name, question in questions.items():
            if question.kind == "terms":
                self._terms[name] = question
            before = (
                [self._terms[name]]
                if name in self._terms and question.kind in ("round", "finish")
                else []
            )
            asked[self._nodes[name]] = [message.encoded() for message in (*before, question)]
        replies = self._exchanged(asked)
        return {name: _judged(replies[self._nodes[name]]) for name in questions}

    def tell(self, sites: Iterable[str], message: Message) -> None:
        """Nodes that wait for nothing need not be told."""

    def _exchanged(self, contents: Mapping[int, list[bytes]]) -> dict[int, Message | Fault]:
        """The replies of nodes to encoded messages."""
        messages = [
            FlowerMessage(
                _record(messages=content), dst_node_id=node, message_type=MessageType.QUERY
            )
            for node, content in contents.items()
        ]
        replies: dict[int, Message | Fault] = {
            node: Fault(f"it did not answer within {self._timeouts[1]:.0f} s") for node in contents
        }
        self.sent += sum(len(message) for content in contents.values() for message in content)
        for reply in (
            self._grid.send_and_receive(messages, timeout=self._timeouts[1]) if messages else []
        ):
            node = int(reply.metadata.src_node_id)
            if reply.has_error():
                replies[node] = Fault(f"Flower says: {reply.error.reason}")
                continue
            content = reply.content[RECORD]["reply"]
            self.received += len(content)
            try:
                replies[node] = decoded(content)
            except MessageError as error:
                replies[node] = Fault(str(error))
        return replies


def _judged(reply: Message | Fault) -> Message | Fault:
    """A refusal is a fault."""
    if isinstance(reply, Message) and reply.kind == "refusal":
        return refused(reply["reason"], too_far=reply["too_far"])
    return reply
