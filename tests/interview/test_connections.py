"""Connections to the page on this machine: strangers neither keep the owner out nor write to the
owner's terminal.
"""

import contextlib
import http.client
import json
import re
import socket
import threading

import pytest
from small_interview import small_page

from corank.interview import server as served
from corank.interview.server import PageServer

HALF = b"GET / HTTP/1.1\r\nHost: "
PATIENCE = 20  # seconds, after which a test fails


@pytest.fixture
def limits(monkeypatch):
    """`limits(seconds=…, strangers=…, per_address=…)`: those of connections without the token."""

    def set_limits(**values):
        names = {
            "seconds": "STRANGER_SECONDS",
            "strangers": "MAX_STRANGERS",
            "per_address": "MAX_PER_ADDRESS",
        }
        for name, value in values.items():
            monkeypatch.setattr(served, names[name], value)

    return set_limits


@contextlib.contextmanager
def serving():
    """The port of a page that a thread of this process serves; its token is in `TOKENS`."""
    server = PageServer(small_page())
    thread = threading.Thread(target=server.run)
    thread.start()
    number = int(re.search(r":(\d+)/", server.address)[1])
    TOKENS[number] = server.address.partition("token=")[2]
    try:
        yield number
    finally:
        server.stop()
        thread.join()


@pytest.fixture
def port():
    with serving() as number:
        yield number


TOKENS = {}


@pytest.fixture
def connect(port):
    """`connect(sent, address)`: a connection from an address of this machine on which so much was
    sent.
    """
    with contextlib.ExitStack() as open_until_the_end:

        def connected(sent=b"", address="127.0.0.1"):
            connection = socket.create_connection(
                ("127.0.0.1", port), PATIENCE, source_address=(address, 0)
            )
            open_until_the_end.enter_context(connection)
            connection.sendall(sent)
            return connection

        yield connected


class Owner:
    """A browser with one connection that stays open, and the cookie."""

    def __init__(self, port):
        self._port = port
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        self.get(f"/?token={TOKENS[port]}")
        self.socket = self._connection.sock

    def get(self, path):
        self._connection.request("GET", path, headers=self._headers())
        return self._replied()

    def say(self, message):
        origin = {"Origin": f"http://127.0.0.1:{self._port}"}
        self._connection.request("POST", "/messages", json.dumps(message), self._headers() | origin)
        return json.loads(self._replied())

    def _headers(self):
        return {"Cookie": f"corank_{self._port}={TOKENS[self._port]}"}

    def _replied(self):
        response = self._connection.getresponse()
        assert response.status == 200
        return response.read()

    def close(self):
        self._connection.close()


@pytest.fixture
def owner(port):
    with contextlib.closing(Owner(port)) as browser:
        yield browser


def ended(connection):
    """What was still sent on a connection, once the server has closed it."""
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := connection.recv(10_000):
            received += piece
    return received


# ---- who is kept out, and who is not


@pytest.mark.parametrize(
    "sent", [b"", HALF, b"POST /messages HTTP/1.1\r\nContent-Length: 9000\r\n"]
)
def test_strangers_with_half_a_request_do_not_keep_the_owner_out(port, connect, owner, sent):
    before = owner.socket
    for number in range(210):
        connect(sent)
        if number % 30 == 0:  # the server has kept pace
            assert owner.say({"action": "start"})["about"]["items"] == 5
    assert owner.say({"action": "start"})["about"]["items"] == 5
    assert owner.socket is before  # the connection that was open stays open
    with contextlib.closing(Owner(port)) as another:
        assert b"data-corank-page" in another.get("/")


def test_a_request_without_the_token_must_be_whole_in_time(limits, connect, owner):
    limits(seconds=0.05)
    for sent in (b"", HALF):
        assert ended(connect(sent)) == b""
    assert owner.say({"action": "start"})["about"]["items"] == 5


def test_the_oldest_stranger_of_an_address_gives_way(limits, connect, owner):
    limits(per_address=3, strangers=6)
    rest = f"127.0.0.1:{owner.socket.getpeername()[1]}\r\n\r\n".encode()
    other = connect(HALF, "127.0.0.2")
    crowd = [connect(HALF) for _ in range(8)]
    assert [ended(connection) for connection in crowd[:5]] == [b""] * 5
    for connection in (*crowd[5:], other):
        connection.sendall(rest)
        assert ended(connection).startswith(b"HTTP/1.1 403")
    assert owner.say({"action": "start"})["about"]["items"] == 5


def test_strangers_of_many_addresses_are_few_together(limits, connect, owner):
    limits(per_address=3, strangers=6)
    crowd = [connect(HALF, f"127.0.0.{number}") for number in range(2, 12)]
    assert [ended(connection) for connection in crowd[:4]] == [b""] * 4
    assert owner.say({"action": "start"})["about"]["items"] == 5


def test_the_owner_may_have_more_connections_than_strangers(limits, port):
    limits(per_address=3, strangers=6, seconds=0.05)
    with contextlib.ExitStack() as open_until_the_end:
        owners = [
            open_until_the_end.enter_context(contextlib.closing(Owner(port))) for _ in range(8)
        ]
        sockets = [owner.socket for owner in owners]
        for owner in owners:
            owner.say({"action": "start"})
        assert [owner.socket for owner in owners] == sockets


def test_a_stranger_has_one_answer_per_connection(port, connect):
    request = f"GET /page.js HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode()
    received = ended(connect(request + request))
    assert received.startswith(b"HTTP/1.1 403")
    assert received.count(b"HTTP/1.1") == 1


# ---- what is on the terminal

REQUESTS = {
    "WebSocket": (
        b"GET / HTTP/1.1\r\nHost: HERE\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    ),
    "another protocol": (
        b"GET / HTTP/1.1\r\nHost: HERE\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
    ),
    "no HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "a control character": b"GET /\x1b[31m HTTP/1.1\r\nHost: HERE\r\n\r\n",
    "endless headers": b"GET / HTTP/1.1\r\nHost: HERE\r\nX: " + b"x" * 200_000,
    "two hosts": b"GET / HTTP/1.1\r\nHost: HERE\r\nHost: HERE\r\n\r\n",
    "chunks that are none": (
        b"POST / HTTP/1.1\r\nHost: HERE\r\nTransfer-Encoding: chunked\r\n\r\nZZZ\r\n"
    ),
    "chunks of a request that has no body": (
        b"HEAD / HTTP/1.1\r\nHost: HERE\r\nTransfer-Encoding: chunked\r\n\r\nZZZ\r\n"
    ),
    "a length that is none": b"POST / HTTP/1.1\r\nHost: HERE\r\nContent-Length: -1\r\n\r\n",
    "something after an answer": b"GET / HTTP/1.1\r\nHost: HERE\r\n\r\n\x00\x00\x00\r\n\r\n",
    "continue?": (
        b"POST / HTTP/1.1\r\nHost: HERE\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
    ),
    "HTTP/1.0": b"GET / HTTP/1.0\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}


def test_nothing_that_a_stranger_sends_is_on_the_terminal(capfd, caplog, limits):
    limits(seconds=0.2)
    with serving() as port:
        for sent in REQUESTS.values():
            with socket.create_connection(("127.0.0.1", port), PATIENCE) as connection:
                connection.sendall(sent.replace(b"HERE", f"127.0.0.1:{port}".encode()))
                ended(connection)
    assert capfd.readouterr() == ("", "")
    assert caplog.messages == []  # of asyncio, which are on the terminal outside of tests


def test_a_mistake_of_the_page_is_on_the_terminal(capfd, monkeypatch):
    def reply(self, message):
        raise RuntimeError("no luck")

    monkeypatch.setattr("corank.interview.page.Page.reply", reply)
    with serving() as port, contextlib.closing(Owner(port)) as owner, pytest.raises(AssertionError):
        owner.say({"action": "start"})
    assert "no luck" in capfd.readouterr().err
