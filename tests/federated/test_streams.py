"""Streams at the coordinator: one per site, with deadlines, and nothing that outlives its
connection.
"""

import itertools
import logging
import queue
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack, contextmanager

import pytest

grpc = pytest.importorskip("grpc", reason="sites over a network need corank-federated")

from corank_federated import Fault, Message
from corank_federated.certificates import issued, key_pem, new_authority, pem
from corank_federated.messages import VERSION, decoded
from corank_federated.network import METHOD, Connection, GrpcChannel

NAMES = ("north", "south", "west")


@pytest.fixture(scope="module")
def authority():
    return new_authority(days=2)


@pytest.fixture(scope="module")
def identities(authority):
    return {name: issued(authority, name, days=1) for name in NAMES}


@pytest.fixture(scope="module")
def coordinator(authority):
    return issued(authority, "coordinator", days=1)


@contextmanager
def listening(authority, coordinator, **options):
    channel = GrpcChannel(
        "127.0.0.1:0",
        coordinator,
        authority.certificate,
        dict.fromkeys(NAMES),
        **{"join_timeout": 20, "answer_timeout": 20, **options},
    )
    try:
        yield channel
    finally:
        channel.close()


@pytest.fixture
def server(authority, coordinator):
    with listening(authority, coordinator) as channel:
        yield channel


class Client:
    """A raw stream in the name of a site."""

    numbers = itertools.count()

    def __init__(self, server, authority, identity):
        credentials = grpc.ssl_channel_credentials(
            pem(authority.certificate), key_pem(identity), pem(identity.certificate)
        )
        options = [("grpc.ssl_target_name_override", "coordinator"), ("grpc.enable_retries", 0)]
        options.append(("grpc.client", next(self.numbers)))  # a connection of its own
        self.channel = grpc.secure_channel(f"127.0.0.1:{server.port}", credentials, options=options)
        self.said = queue.Queue()
        self.call = self.channel.stream_stream(METHOD)(iter(self.said.get, None), timeout=30)

    def say(self, message):
        self.said.put(message.encoded())
        return self

    def hears(self):
        return decoded(next(self.call))

    def refusal(self):
        """The code and details with which the stream ended."""
        with pytest.raises(grpc.RpcError):
            list(self.call)
        return self.call.code().name, self.call.details()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.said.put(None)
        self.channel.close()


def hello(name, items=3):
    return Message(
        "hello",
        {
            "version": VERSION,
            "site": name,
            "comparison": "regression",
            "items": items,
            "digest": str(items),
        },
    )


COMPARE = Message("compare", {"upto": 2})


def digest(text):
    return Message("digest", {"upto": 2, "digest": text})


def answer_through(client, server, name, reply):
    """What the coordinator hears when a client answers its question."""
    heard = []
    thread = threading.Thread(
        target=lambda: heard.append(server.ask({name: COMPARE})[name]), daemon=True
    )
    thread.start()
    assert client.hears() == COMPARE
    client.say(reply)
    thread.join(20)
    return heard[0]


def test_a_second_stream_of_a_site_is_refused_and_said_to_both(
    server, authority, identities, caplog
):
    caplog.set_level(logging.WARNING, logger="corank.federated")
    with Client(server, authority, identities["north"]).say(hello("north")) as owner:
        assert server.hello(["north"])["north"] == hello("north")
        with Client(server, authority, identities["north"]).say(hello("north", 9)) as thief:
            code, why = thief.refusal()
        assert code == "ALREADY_EXISTS"
        assert "two connections in the name of site 'north'" in why
        warning = owner.hears()
        assert warning.kind == "warning"
        assert "someone else may hold the key of 'north'" in warning["reason"]
        assert "two connections in the name of site 'north'" in caplog.text
        assert answer_through(owner, server, "north", digest("owner's")) == digest("owner's")


class Answering:
    name = "south"

    def hello(self):
        return hello("south")

    def handle(self, message):
        return digest("party")


@contextmanager
def joined(server, authority, identity):
    """The site 'south', which dials until it is let in, and how its run ended."""
    ended = []
    line = Connection(f"127.0.0.1:{server.port}", identity, authority.certificate)
    thread = threading.Thread(
        target=lambda: ended.append(line.answer(Answering()).kind), daemon=True
    )
    thread.start()
    yield ended
    server.tell(["south"], Message("stop", {"reason": "enough", "row": None}))
    thread.join(20)
    assert ended == ["stop"]


def test_a_site_that_is_refused_as_the_second_waits_for_its_turn(
    server, authority, identities, caplog
):
    caplog.set_level(logging.WARNING, logger="corank.federated")
    with ExitStack() as stack:
        with Client(server, authority, identities["south"]).say(hello("south", 9)) as first:
            server.hello(["south"])
            stack.enter_context(joined(server, authority, identities["south"]))
            assert first.hears().kind == "warning"
        assert server.ask({"south": COMPARE})["south"] == digest("party")
    assert "waiting site=south why=already_exists: two connections" in caplog.text


def test_a_warning_is_no_question_and_no_end(server, authority, identities, caplog):
    caplog.set_level(logging.WARNING, logger="corank.federated")
    with joined(server, authority, identities["south"]) as ended:
        server.hello(["south"])
        with Client(server, authority, identities["south"]) as second:
            assert second.refusal()[0] == "ALREADY_EXISTS"
        assert server.ask({"south": COMPARE})["south"] == digest("party")
        assert not ended
    assert "warned site=south" in caplog.text


def test_silent_streams_of_one_site_lock_nobody_out(authority, coordinator, identities):
    with listening(authority, coordinator, handshake_timeout=0.5) as server, ExitStack() as streams:
        silent = [
            streams.enter_context(Client(server, authority, identities["south"])) for _ in range(30)
        ]
        for name in ("north", "west"):
            streams.enter_context(Client(server, authority, identities[name]).say(hello(name)))
        assert server.hello(["north", "west"]) == {name: hello(name) for name in ("north", "west")}
        assert {client.refusal()[0] for client in silent} <= {
            "ALREADY_EXISTS",
            "CANCELLED",
            "INVALID_ARGUMENT",
        }
        # the time of the silent stream is over
        with joined(server, authority, identities["south"]):
            assert server.hello(["south"]) == {"south": hello("south")}


def wait_for(server, condition):
    with server._changed:
        assert server._changed.wait_for(condition, 20)


def test_a_hello_ends_with_its_connection(server, authority, identities):
    hellos = {}
    waiting = threading.Thread(target=lambda: hellos.update(server.hello(NAMES)), daemon=True)
    with ExitStack() as streams:
        with Client(server, authority, identities["north"]).say(hello("north", 299)):
            assert server.hello(["north"])["north"]["items"] == 299
            waiting.start()
        wait_for(server, lambda: server._lines["north"].hello is None)
        streams.enter_context(Client(server, authority, identities["west"]).say(hello("west", 300)))
        server.hello(["west"])
        streams.enter_context(joined(server, authority, identities["south"]))
        server.hello(["south"])
        assert waiting.is_alive()  # 'north' has left
        streams.enter_context(
            Client(server, authority, identities["north"]).say(hello("north", 300))
        )
        waiting.join(20)
        assert [hellos[name]["items"] for name in NAMES] == [300, 3, 300]


def test_a_site_that_was_there_and_left_has_not_joined(authority, coordinator, identities):
    with listening(authority, coordinator, join_timeout=0.2) as server:
        with Client(server, authority, identities["north"]).say(hello("north")):
            wait_for(server, lambda: server._lines["north"].hello is not None)
        wait_for(server, lambda: server._lines["north"].hello is None)
        assert server.hello(["north"]) == {"north": Fault("it was not there within 0 s")}


FEW_FILES = """
import resource, sys
from pathlib import Path

resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))

from corank_federated import Message
from corank_federated.certificates import Identity, read_certificate
from corank_federated.network import GrpcChannel

folder = Path(sys.argv[1])
identity = Identity.read(folder / "coordinator.pem", folder / "coordinator.key")
limits = {"join_timeout": 20, "handshake_timeout": 0.5, "max_connections": 100}
channel = GrpcChannel("127.0.0.1:0", identity, read_certificate(folder / "authority.pem"), {"south": None}, **limits)
print(channel.port, flush=True)
sys.stdin.readline()
print(channel.hello(["south"])["south"].fields, flush=True)
channel.tell(["south"], Message("stop", {"reason": "enough", "row": None}))
channel.close()
"""


def test_idle_connections_do_not_use_up_the_files_of_the_coordinator(
    authority, coordinator, identities, tmp_path
):
    resource = pytest.importorskip("resource")
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < 600:
        pytest.skip("opens 400 connections")
    (tmp_path / "authority.pem").write_bytes(pem(authority.certificate))
    coordinator.write(tmp_path, "coordinator")
    command = [sys.executable, "-c", FEW_FILES, tmp_path]
    with (
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as server,
        ExitStack() as idle,
    ):
        port = int(server.stdout.readline())
        for _ in range(400):
            idle.enter_context(socket.create_connection(("127.0.0.1", port)))
        line = Connection(f"127.0.0.1:{port}", identities["south"], authority.certificate)
        thread = threading.Thread(target=lambda: line.answer(Answering()), daemon=True)
        thread.start()
        out, _ = server.communicate("all are connected\n", timeout=60)
        thread.join(20)
    assert "'site': 'south'" in out
