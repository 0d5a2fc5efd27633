"""Both ends of the network, over gRPC with mutual TLS: the coordinator's `Channel`, and a site's
connection.

Sites dial in and hold one stream each. A site is known by the name in its certificate; a second
stream in its name is refused, and both ends are warned. One question at a time is open for a site;
when its stream breaks, the question waits and is put again once the site is back.
"""

from __future__ import annotations

import hashlib
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import grpc
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from corank_federated.certificates import COORDINATOR, Identity, key_pem, pem
from corank_federated.channel import Fault, Party, answered, refused
from corank_federated.messages import MAX_HEADER, Message, MessageError, decoded, note

METHOD = "/corank.Federated/Join"
KEEPALIVE = [  # a cut link is noticed within a quarter of a minute
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
]
SECOND = (
    "two connections in the name of site {name!r}: the first is kept and the second refused. After"
    " a cut link that passes within a minute; else someone else may hold the key of {name!r}: make"
    " a new certificate for it"
)
REPLIES = {
    "compare": "digest",
    "terms": "accepted",
    "round": "answer",
    "finish": "saved",
    "predict": "prediction",
}


def size_limits(max_items: int) -> list[tuple[str, int]]:
    """Options that refuse longer messages than one with that many numbers."""
    most = 8 * max_items + MAX_HEADER
    return [("grpc.max_receive_message_length", most), ("grpc.max_send_message_length", most)]


def connection_limits(handshake_timeout: float, max_connections: int) -> list[tuple[str, int]]:
    """Options that keep strangers, and sites that open more than they need, from using up threads
    and open files.
    """
    return [
        ("grpc.so_reuseport", 0),
        ("grpc.server_handshake_timeout_ms", int(1000 * handshake_timeout)),
        ("grpc.max_allowed_incoming_connections", max_connections),
        ("grpc.max_connection_idle_ms", 60_000),  # without a stream
        ("grpc.max_concurrent_streams", 4),  # of one connection
    ]


class Line:
    """What connects one site: its streams, one after the other, and the question that is open.

    `changed` is told of every change; the lines of a channel have it in common. `hello` is that of
    the open stream.
    """

    def __init__(
        self,
        name: str,
        record: Callable[[str, str, bytes], None],
        changed: threading.Condition | None = None,
    ) -> None:
        self.name, self._record = name, record
        self.changed = changed or threading.Condition()
        self.hello: Message | None = None
        self._stream: queue.Queue[bytes | None] | None = None
        self._warned = False  # the stream, of a second one
        self._terms: Message | None = None
        self._question: Message | None = None
        self._reply: Message | Fault | None = None

    def ask(self, question: Message) -> None:
        """Open a question."""
        with self.changed:
            self._question, self._reply = question, None
            if question.kind == "terms":
                self._terms = question
            self._send(question)

    def _send(self, message: Message) -> None:
        if self._stream is not None and self.hello is not None:
            content = message.encoded()
            self._record("to", self.name, content)
            self._stream.put(content)

    def reply(self, deadline: float) -> Message | Fault:
        """Wait for the answer to the open question."""
        with self.changed:
            began = time.monotonic()
            while self._reply is None:
                left = deadline - time.monotonic()
                if left <= 0:
                    where = (
                        "it is connected, but slow"
                        if self.hello is not None
                        else "it is not connected"
                    )
                    return Fault(
                        f"it did not answer within {time.monotonic() - began:.0f} s: {where}"
                    )
                self.changed.wait(left)
            self._question = None
            return self._reply

    def tell(self, message: Message) -> None:
        """Send without expecting anything."""
        with self.changed:
            self._send(message)

    def hang_up(self) -> None:
        """End the stream once all was sent."""
        with self.changed:
            if self._stream is not None:
                self._stream.put(None)

    def open(self, stream: queue.Queue[bytes | None]) -> bool:
        """Take the place of the site's only stream; where that is taken, both ends are warned."""
        with self.changed:
            if self._stream is None:
                self._stream, self._warned = stream, False
                return True
            if not self._warned:
                self._warned = True
                reason = SECOND.format(name=self.name)
                note("refused", level=logging.WARNING, site=self.name, why=reason)
                self._send(Message("warning", {"reason": reason}))
            return False

    def attach(self, stream: queue.Queue[bytes | None], hello: Message) -> None:
        """A site has joined, perhaps again: what it missed is sent once more."""
        with self.changed:
            if self._stream is not stream:
                return  # broken off meanwhile
            self.hello = hello
            note("joined", site=self.name)
            if self._question is not None and self._reply is None:
                if self._terms is not None and self._question.kind not in ("terms", "compare"):
                    self._send(self._terms)
                self._send(self._question)
            self.changed.notify_all()

    def detach(self, stream: queue.Queue[bytes | None], why: str) -> None:
        """A stream has ended: no matter, unless it was the current one and an answer is due."""
        with self.changed:
            if self._stream is stream:
                self._stream = self.hello = None
                self.changed.notify_all()
                if self._question is not None and self._reply is None:
                    note("disconnected", level=logging.WARNING, site=self.name, why=why)

    def heard(self, message: Message | Fault) -> None:
        """A message of the site, or why it cannot be understood."""
        with self.changed:
            question = self._question
            if question is None or self._reply is not None:
                note(
                    "ignored",
                    site=self.name,
                    why="nothing was asked",
                    kind=getattr(message, "kind", "?"),
                )
                return
            if isinstance(message, Message):
                if message.kind == "refusal":
                    message = refused(message["reason"], too_far=message["too_far"])
                elif message.kind == "accepted" and question.kind != "terms":
                    return  # of a site that came back
                elif (
                    message.kind == "answer"
                    and question.kind == "round"
                    and message["round"] < question["round"]
                ):
                    note(
                        "ignored",
                        level=logging.WARNING,
                        site=self.name,
                        why="old round",
                        round=message["round"],
                    )
                    return
                elif message.kind == "prediction" and message["request"] != question.fields.get(
                    "request"
                ):
                    note("ignored", level=logging.WARNING, site=self.name, why="old request")
                    return
                elif message.kind == "digest" and message["upto"] != question.fields.get("upto"):
                    return  # of a question that was put twice
                elif message.kind != REPLIES.get(question.kind):
                    message = Fault(f"it answered with {message.kind} to a {question.kind}")
            self._reply = message
            self.changed.notify_all()


class GrpcChannel:
    """Sites over gRPC.

    Parameters
    ----------
    address : "host:port" to listen on; port 0 takes a free one, see `port`
    identity, authority : the coordinator's certificate, and that of the authority which signed the
        sites'
    sites : names and fingerprints (SHA-256) of their certificates; None as fingerprint takes any of
        that name
    max_items : the longest array that is welcome
    join_timeout, answer_timeout : seconds to wait for all sites to join, and for one answer
    handshake_timeout : seconds for the handshake of a connection, and for the hello with which a
        stream begins
    max_connections : open at the same time, also before their handshake; more are closed at once
    """

    def __init__(
        self,
        address: str,
        identity: Identity,
        authority: x509.Certificate,
        sites: Mapping[str, str | None],
        *,
        max_items: int = 1_000_000,
        join_timeout: float = 600.0,
        answer_timeout: float = 600.0,
        handshake_timeout: float = 10.0,
        max_connections: int = 256,
    ) -> None:
        self.sent = self.received = 0
        self.join_timeout, self.answer_timeout, self.max_items = (
            join_timeout,
            answer_timeout,
            max_items,
        )
        self.handshake_timeout = handshake_timeout
        self._pins = dict(sites)
        self._closing = threading.Event()
        self._count = threading.Lock()
        self._changed = threading.Condition()
        self._lines = {name: Line(name, self.record, self._changed) for name in sites}
        handler = grpc.stream_stream_rpc_method_handler(self._joined)
        service, method = METHOD.strip("/").split("/")
        self._server = grpc.server(
            ThreadPoolExecutor(max_workers=2 * len(sites) + 8, thread_name_prefix="corank-site"),
            options=[
                *KEEPALIVE,
                *size_limits(max_items),
                *connection_limits(handshake_timeout, max_connections),
            ],
        )
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(service, {method: handler}),)
        )
        credentials = grpc.ssl_server_credentials(
            [(key_pem(identity), pem(identity.certificate))],
            pem(authority),
            require_client_auth=True,
        )
        try:
            self.port = self._server.add_secure_port(address, credentials)
        except RuntimeError as error:
            raise OSError(
                f"cannot listen on {address}: is something else doing so already?"
            ) from error
        self._server.start()

    # ---------------------------------------------------------------- streams

    def _joined(self, requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        """One stream of a site, from its hello to its end."""
        name, why = self._identified(context)
        if why is not None:
            note("refused", level=logging.WARNING, site=name, why=why)
            context.abort(grpc.StatusCode.PERMISSION_DENIED, why)
        if self._closing.is_set():
            context.abort(grpc.StatusCode.UNAVAILABLE, "the coordinator is about to leave")
        line = self._lines[name]
        stream: queue.Queue[bytes | None] = queue.Queue()
        if not line.open(stream):
            context.abort(grpc.StatusCode.ALREADY_EXISTS, SECOND.format(name=name))
        try:
            hello, code, why = self._introduction(name, requests, context)
            if hello is None:
                note("refused", level=logging.WARNING, site=name, why=why)
                context.abort(code, why)
                return  # abort has raised
            line.attach(stream, hello)
            threading.Thread(
                target=self._listen, args=(line, stream, requests), daemon=True
            ).start()
            while (content := stream.get()) is not None:
                yield content
        finally:
            line.detach(stream, "its stream has ended")

    def _introduction(
        self, name: str, requests: Iterator[bytes], context: Any
    ) -> tuple[Message | None, Any, str]:
        """The hello with which a stream begins; else the code and the sentence with which it is
        refused.
        """
        timer = threading.Timer(self.handshake_timeout, context.cancel)
        timer.start()
        try:
            hello = self._read(name, next(requests))
        except (MessageError, StopIteration, grpc.RpcError) as error:
            why = f"a hello was expected within {self.handshake_timeout:g} s: {error}".rstrip(": ")
            return None, grpc.StatusCode.INVALID_ARGUMENT, why
        finally:
            timer.cancel()
        if hello.kind != "hello" or hello["site"] != name:
            return (
                None,
                grpc.StatusCode.PERMISSION_DENIED,
                f"the certificate is of {name!r}, but the hello is not",
            )
        return hello, grpc.StatusCode.OK, ""

    def _identified(self, context: Any) -> tuple[str, str | None]:
        """The name in the certificate, and why it is not welcome."""
        about = context.auth_context()
        names = [name.decode(errors="replace") for name in about.get("x509_common_name", [])]
        name = names[0] if len(names) == 1 else "?"
        if name not in self._pins:
            return name, f"{name!r} is not a site of this run"
        certificate = x509.load_pem_x509_certificate(about["x509_pem_cert"][0])
        shown = hashlib.sha256(certificate.public_bytes(Encoding.DER)).hexdigest()
        if self._pins[name] not in (None, shown):
            return name, f"the certificate of {name!r} is another one than the coordinator expects"
        return name, None

    def record(self, way: str, site: str, content: bytes) -> None:
        """Count a message "to" or "from" a site."""
        with self._count:
            if way == "to":
                self.sent += len(content)
            else:
                self.received += len(content)

    def _read(self, site: str, content: bytes) -> Message:
        self.record("from", site, content)
        return decoded(content, max_values=self.max_items)

    def _listen(
        self, line: Line, stream: queue.Queue[bytes | None], requests: Iterator[bytes]
    ) -> None:
        """Everything that a site says on one stream."""
        try:
            for content in requests:
                try:
                    line.heard(self._read(line.name, content))
                except MessageError as error:
                    line.heard(Fault(str(error)))
        except Exception as error:  # noqa: BLE001  grpc ends a broken stream with bare exceptions of many kinds
            why = type(error).__name__ if not str(error) else str(error).splitlines()[0]
        else:
            why = "it hung up"
        line.detach(stream, why)
        stream.put(None)

    # ---------------------------------------------------------------- questions

    def hello(self, sites: Sequence[str]) -> dict[str, Message | Fault]:
        """Wait until all sites are connected at the same time: what they say of themselves then."""
        deadline = time.monotonic() + self.join_timeout
        with self._changed:
            while any(self._lines[name].hello is None for name in sites):
                seconds_left = deadline - time.monotonic()
                if seconds_left <= 0:
                    break
                self._changed.wait(seconds_left)
            late = Fault(f"it was not there within {self.join_timeout:.0f} s")
            return {name: self._lines[name].hello or late for name in sites}

    def ask(self, questions: Mapping[str, Message]) -> dict[str, Message | Fault]:
        """All at the same time."""
        for name, question in questions.items():
            self._lines[name].ask(question)
        deadline = time.monotonic() + self.answer_timeout
        return {name: self._lines[name].reply(deadline) for name in questions}

    def tell(self, sites: Iterable[str], message: Message) -> None:
        """To those that are connected."""
        for name in sites:
            self._lines[name].tell(message)

    def close(self) -> None:
        """Let what was said arrive, then hang up."""
        self._closing.set()
        for line in self._lines.values():
            line.hang_up()
        self._server.stop(grace=5.0).wait()


FIRST_WAIT, LONGEST_WAIT = 0.2, 10.0
FINAL = {
    "PERMISSION_DENIED",
    "UNAUTHENTICATED",
    "INVALID_ARGUMENT",
    "RESOURCE_EXHAUSTED",
    "UNIMPLEMENTED",
}


class JoinError(ConnectionError):
    """Why a site does not take part, or no longer."""


class Connection:
    """Dials a coordinator for a site.

    Parameters
    ----------
    address : "host:port" of the coordinator
    identity, authority : this site's certificate, and that of the authority which signed the
        coordinator's
    max_items : the longest array that is welcome
    patience : seconds without any connection after which it gives up
    """

    def __init__(
        self,
        address: str,
        identity: Identity,
        authority: x509.Certificate,
        *,
        max_items: int = 1_000_000,
        patience: float = 600.0,
    ) -> None:
        self.address, self.patience, self.max_items = address, patience, max_items
        self._ends = min(identity.certificate.not_valid_after_utc, authority.not_valid_after_utc)
        self._credentials = grpc.ssl_channel_credentials(
            pem(authority), key_pem(identity), pem(identity.certificate)
        )
        # whatever the host is called, its certificate must be the coordinator's
        name = ("grpc.ssl_target_name_override", COORDINATOR)
        self._options = [*KEEPALIVE, *size_limits(max_items), name, ("grpc.enable_retries", 0)]

    def answer(self, party: Party, *, forever: bool = False) -> Message:
        """Answer until the coordinator says that the run is over; its last message. `forever`: and
        dial again then.
        """
        wait, last = FIRST_WAIT, time.monotonic()
        while True:
            try:
                with grpc.secure_channel(
                    self.address, self._credentials, options=self._options
                ) as channel:
                    ending, heard = self._stream(channel, party)
                if ending is not None and not forever:
                    return ending
                why = "the coordinator hung up"
            except grpc.RpcError as error:
                heard = bool(getattr(error, "heard", False))
                why = self._judged(error)
            if heard:
                wait, last = FIRST_WAIT, time.monotonic()
            if time.monotonic() - last > self.patience and not forever:
                raise JoinError(
                    f"no connection to the coordinator at {self.address} for {self.patience:.0f} s:"
                    f" {why}."
                )
            level = logging.WARNING if why.startswith("already_exists") else logging.INFO
            note("waiting", level=level, site=party.name, why=why, seconds=wait)
            time.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT)

    def _stream(self, channel: Any, party: Party) -> tuple[Message | None, bool]:
        """One stream: the message that ended the run, if any, and whether anything was heard."""
        said: queue.Queue[bytes | None] = queue.Queue()
        said.put(party.hello().encoded())
        call = channel.stream_stream(METHOD)(_spoken(said))
        heard = False
        try:
            for content in call:
                heard = True
                message = decoded(content, max_values=self.max_items)
                if message.kind == "stop":
                    return message, True
                if message.kind == "warning":
                    note("warned", level=logging.WARNING, site=party.name, why=message["reason"])
                    continue
                reply = answered(party, message)
                said.put(reply.encoded())
                if message.kind == "finish":
                    said.put(None)
                    _wait_for_end(call)
                    if reply.kind == "refusal":
                        raise JoinError(
                            "the run is over, but this site has no part in its end:"
                            f" {reply['reason']}"
                        )
                    return message, True
        except grpc.RpcError as error:
            error.heard = heard
            raise
        except MessageError as error:
            raise JoinError(
                f"the coordinator at {self.address} sent bytes that make no sense: {error}"
            ) from error
        finally:
            said.put(None)
        return None, heard

    def _judged(self, error: Any) -> str:
        """Why a connection failed; JoinError where trying again cannot help."""
        code, details = error.code().name, error.details() or ""
        if datetime.now(UTC) > self._ends:
            raise JoinError(
                f"the certificates of this site have expired at {self._ends:%Y-%m-%d %H:%M} UTC:"
                " make new ones with corank federated init, and start it again; what it answered"
                " so far is kept"
            )
        if (
            "CERTIFICATE_VERIFY_FAILED" in details
            or "Hostname Verification" in details
            or "not match" in details
        ):
            raise JoinError(
                f"the coordinator at {self.address} has no certificate of this run's authority in"
                f" the name {COORDINATOR!r}: {details.splitlines()[0]:.200}"
            )
        if code in FINAL:
            raise JoinError(f"the coordinator at {self.address} refused: {details}")
        return f"{code.lower()}: {details.splitlines()[0]:.300}" if details else code.lower()


def _spoken(said: queue.Queue[bytes | None]) -> Iterator[bytes]:
    while (content := said.get()) is not None:
        yield content


def _wait_for_end(call: Any) -> None:
    """Until the last answer has arrived and the other side hangs up, or does not."""
    timer = threading.Timer(5.0, call.cancel)
    timer.start()
    with suppress(grpc.RpcError):
        for _ in call:
            pass
    timer.cancel()
