"""Bytes that are no requests, or half of one, sent to the page of `corank ask` without its token.

A case is one connection: the bytes of altered requests in pieces, as the network brings them.
Nothing is let in, nothing fails, nothing is told on the terminal, and there is one answer at most.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from corank.interview.interview import Interview
from corank.interview.page import Cards, Page
from corank.interview.server import PageConnection, PageServer
from fuzz.ask import HOSTS, METHODS, PATHS
from fuzz.mutations import Rng, changed_bytes
from fuzz.watch import finding_of

HEADERS = (
    b"PageConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n", b"PageConnection: Upgrade\r\nUpgrade: h2c\r\n",
    b"PageConnection: close\r\n", b"PageConnection: keep-alive\r\n", b"Transfer-Encoding: chunked\r\n", b"Content-Length: 5\r\n",
    b"Content-Length: -1\r\n", b"Content-Length: " + b"9" * 300 + b"\r\n", b"Expect: 100-continue\r\n", b" folded: line\r\n",
    b"X: " + b"x" * 20_000 + b"\r\n", b"Cookie: corank_80=no\r\n", b"\x00: \x1b[31m\r\n", b"X" * 70_000, b"Host: HERE\r\n",
)  # fmt: skip
BODIES = (
    b"",
    b"",
    b"hello",
    b"5\r\nhello\r\n0\r\n\r\n",
    b"ZZZ\r\n",
    b"ffffffffffffffffffff\r\n",
    b"0\r\nX: y\r\n\r\n",
    b"\0" * 2_000,
)
BEGINNINGS = (
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01",
    b"\r\n\r\n",
    b"GET / HTTP/1.0\r\n\r\n",
    b"GET /\r\n",
)


def run(rng_seed: int, count: int) -> list[str]:
    """Findings of so many cases."""
    table = pa.table({"name": ["a", "b", "c"]})
    server = PageServer(
        Page(interview := Interview(table, id="name"), Cards(table, interview.names, "name"))
    )
    findings = []
    try:
        server._server.config.load()
        for seed in range(rng_seed, rng_seed + count):
            finding = finding_of(partial(_finding_in_case, server, seed), ())
            findings += [] if finding is None else [f"connections {seed}: {finding}"]
    finally:
        server._socket.close()
    return findings


class Wire(asyncio.Transport):
    """The server's end of a connection, without a network."""

    def __init__(self, loop: asyncio.AbstractEventLoop, protocol: PageConnection) -> None:
        super().__init__({"peername": ("127.0.0.1", 50_000), "sockname": ("127.0.0.1", 80)})
        self._loop, self._protocol, self._is_closing = loop, protocol, False
        self.sent = b""

    def write(self, data: Any) -> None:
        """Send bytes to the stranger."""
        self.sent += bytes(data)

    def close(self) -> None:
        """End the connection soon."""
        if not self._is_closing:
            self._is_closing = True
            self._loop.call_soon(self._protocol.connection_lost, None)

    def abort(self) -> None:
        """End the connection soon."""
        self.close()

    def is_closing(self) -> bool:
        """Whether the connection is at its end."""
        return self._is_closing

    def pause_reading(self) -> None:
        """Bytes come as before."""

    def resume_reading(self) -> None:
        """Bytes come as before."""


def _finding_in_case(server: PageServer, seed: int) -> str | None:
    rng = np.random.default_rng(seed)
    content = b"".join(
        _request(rng, server._server.config.app) for _ in range(int(rng.integers(1, 4)))
    )
    if rng.random() < 0.5:
        content = changed_bytes(rng, content)
    if rng.random() < 0.2:
        content = content[: int(rng.integers(len(content) + 1))]
    with _records() as told:
        sent = asyncio.run(_answered(server, content, int(rng.integers(1, 6))))
    if told:
        return f"is told on the terminal: {told[0]}; {content[:500]!r}"
    answers = sent.count(b"HTTP/1.1 ") - sent.count(b"HTTP/1.1 100")
    if answers > 1:
        return f"is answered {answers} times; {content[:500]!r}"
    if sent and not sent.startswith((b"HTTP/1.1 4", b"HTTP/1.1 100")):
        return f"is answered with {sent[:100]!r}; {content[:500]!r}"
    return None


async def _answered(server: PageServer, content: bytes, n_pieces: int) -> bytes:
    """What is sent to a stranger who sends something in so many pieces and then goes away."""
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(
        lambda loop, context: logging.getLogger("asyncio").error("%s", context)
    )
    protocol = PageConnection(server._server.config, server._server.server_state, {}, loop)
    wire = Wire(loop, protocol)
    protocol.connection_made(wire)
    size = -(-len(content) // n_pieces)
    for place in range(0, len(content), max(size, 1)):
        if wire.is_closing():
            break
        protocol.data_received(content[place : place + size])
        for _ in range(10):  # the answer is on its way
            await asyncio.sleep(0)
    wire.close()
    for _ in range(10):
        await asyncio.sleep(0)
    return wire.sent


def _request(rng: Rng, app: Any) -> bytes:
    """A request without the token, which may be none."""
    if rng.random() < 0.1:
        return bytes(_pick(rng, BEGINNINGS))
    own = f"127.0.0.1:{app._port}"
    host = own if rng.random() < 0.7 else _pick(rng, HOSTS)
    first = f"{_pick(rng, METHODS)} {_pick(rng, PATHS)} HTTP/1.1\r\nHost: {host}\r\n"
    headers = b"".join(_pick(rng, HEADERS) for _ in range(int(rng.integers(4)))).replace(
        b"HERE", own.encode()
    )
    return first.encode("latin-1", "replace") + headers + b"\r\n" + bytes(_pick(rng, BODIES))


@contextmanager
def _records() -> Iterator[list[str]]:
    """What is written to the log of the server or of asyncio in the block."""
    told: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            told.append(record.getMessage())

    listener = Listener()
    loggers = [logging.getLogger(name) for name in ("uvicorn", "asyncio", "corank")]
    for logger in loggers:
        logger.addHandler(listener)
    try:
        yield told
    finally:
        for logger in loggers:
            logger.removeHandler(listener)


def _pick(rng: Rng, choices: Any) -> Any:
    return choices[int(rng.integers(len(choices)))]
