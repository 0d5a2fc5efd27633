"""Who may join: certificates of this run's authority, valid, in the right name, and no others."""

import stat
import threading
from datetime import UTC, datetime, timedelta

import pytest
from tests.federated.site_processes import corank, make_run

from corank_federated import Fault, Message, Refused
from corank_federated.certificates import (
    CertificateError,
    Identity,
    fingerprint,
    issued,
    key_pem,
    new_authority,
    pem,
)
from corank_federated.messages import VERSION
from corank_federated.network import METHOD, Connection, GrpcChannel, JoinError, Line
from corank_federated.settings import read_coordinator, read_site

grpc = pytest.importorskip("grpc")

HELLO = {"version": VERSION, "comparison": "regression", "items": 3, "digest": "d"}


@pytest.fixture(scope="module")
def authority():
    return new_authority(days=2)


@pytest.fixture(scope="module")
def north(authority):
    return issued(authority, "north", days=1)


@pytest.fixture(scope="module")
def server(authority, north):
    coordinator = issued(authority, "coordinator", days=1)
    pins = {"north": fingerprint(north.certificate), "south": None}
    channel = GrpcChannel(
        "127.0.0.1:0",
        coordinator,
        authority.certificate,
        pins,
        join_timeout=5,
        answer_timeout=5,
        max_items=100,
    )
    yield channel
    channel.close()


def refused(server, authority, identity, *, site="north", name="coordinator"):
    """How a raw client with this certificate fares."""
    key, chain = (
        (None, None) if identity is None else (key_pem(identity), pem(identity.certificate))
    )
    credentials = grpc.ssl_channel_credentials(pem(authority.certificate), key, chain)
    options = [("grpc.ssl_target_name_override", name), ("grpc.enable_retries", 0)]
    with grpc.secure_channel(f"127.0.0.1:{server.port}", credentials, options=options) as channel:
        hello = Message("hello", {**HELLO, "site": site}).encoded()
        call = channel.stream_stream(METHOD)(iter([hello]), timeout=10)
        with pytest.raises(grpc.RpcError) as error:
            list(call)
    return error.value.code().name, error.value.details()


def test_no_certificate_is_refused(server, authority):
    assert refused(server, authority, None)[0] == "UNAVAILABLE"


def test_a_certificate_of_another_authority_is_refused(server, authority):
    assert refused(server, authority, issued(new_authority(1), "north", 1))[0] == "UNAVAILABLE"


def test_an_expired_certificate_is_refused(server, authority):
    then = datetime.now(UTC) - timedelta(days=9)
    assert refused(server, authority, issued(authority, "north", 1, then))[0] == "UNAVAILABLE"


def test_a_name_that_is_not_of_the_run_is_refused(server, authority):
    code, why = refused(server, authority, issued(authority, "east", 1), site="east")
    assert (code, why) == ("PERMISSION_DENIED", "'east' is not a site of this run")


def test_a_site_cannot_speak_for_another(server, authority, north):
    code, why = refused(server, authority, north, site="south")
    assert (code, why) == (
        "PERMISSION_DENIED",
        "the certificate is of 'north', but the hello is not",
    )


def test_another_certificate_of_the_same_name_is_refused_where_one_is_pinned(server, authority):
    code, why = refused(server, authority, issued(authority, "north", 1))
    assert code == "PERMISSION_DENIED"
    assert "another one than the coordinator expects" in why


def test_a_site_does_not_take_another_site_for_the_coordinator(authority, north):
    fake = GrpcChannel(
        "127.0.0.1:0", issued(authority, "south", 1), authority.certificate, {"north": None}
    )
    try:
        with pytest.raises(
            JoinError, match="no certificate of this run's authority in the name 'coordinator'"
        ):
            Connection(f"127.0.0.1:{fake.port}", north, authority.certificate, patience=3).answer(
                Silent()
            )
    finally:
        fake.close()


def test_a_site_does_not_take_a_coordinator_of_another_authority(server, north):
    with pytest.raises(JoinError, match="no certificate of this run's authority"):
        Connection(
            f"127.0.0.1:{server.port}", north, new_authority(1).certificate, patience=3
        ).answer(Silent())


def test_a_site_gives_up_on_a_coordinator_that_is_not_there(authority, north):
    with pytest.raises(
        JoinError, match=r"no connection to the coordinator at 127.0.0.1:1 for 0 s: unavailable"
    ):
        Connection("127.0.0.1:1", north, authority.certificate, patience=0.1).answer(Silent())


def test_a_site_says_that_its_certificate_has_expired(server, authority):
    late = issued(authority, "south", 1, datetime.now(UTC) - timedelta(days=1))
    with pytest.raises(
        JoinError,
        match=r"certificates of this site have expired at .* what it answered so far is kept",
    ):
        Connection(f"127.0.0.1:{server.port}", late, authority.certificate).answer(Silent())


class Silent:
    name = "south"

    def hello(self):
        return Message("hello", {**HELLO, "site": self.name})

    def handle(self, message):
        return Message("answer", {"run": "r", "round": 1, "report": None}, range(200))


def test_a_message_that_is_too_long_is_a_fault(server, authority):
    south = issued(authority, "south", 1)
    line = Connection(f"127.0.0.1:{server.port}", south, authority.certificate, patience=1)
    thread = threading.Thread(target=lambda: line.answer(Silent()), daemon=True)
    thread.start()
    assert isinstance(server.hello(["south"])["south"], Message)
    fault = server.ask({"south": Message("round", {"run": "r", "round": 1, "sites": 2})})["south"]
    assert isinstance(fault, Fault)
    assert "200 numbers, more than the 100 that are welcome" in fault.reason
    server.tell(["south"], Message("stop", {"reason": "enough", "row": None}))
    thread.join(5)
    assert not thread.is_alive()


class Forgetful(Silent):
    def handle(self, message):
        raise Refused("the run ended at round 9, but the last one here is 0.")


def test_a_site_that_has_no_part_in_the_end_of_a_run_is_told_so(server, authority):
    line = Connection(
        f"127.0.0.1:{server.port}", issued(authority, "south", 1), authority.certificate, patience=1
    )
    found = []

    def join():
        with pytest.raises(JoinError) as error:
            line.answer(Forgetful())
        found.append(str(error.value))

    thread = threading.Thread(target=join, daemon=True)
    thread.start()
    assert isinstance(server.hello(["south"])["south"], Message)
    fault = server.ask({"south": Message("finish", {"run": "r", "round": 9, "converged": True})})[
        "south"
    ]
    assert isinstance(fault, Fault)
    server._lines["south"].hang_up()
    thread.join(10)
    assert (
        "the run is over, but this site has no part in its end: the run ended at round 9"
        in found[0]
    )


@pytest.mark.parametrize(
    ("asked", "late", "answer"),
    [
        (
            Message(
                "predict",
                {"request": "rows 6 to 9", "columns": [], "texts": {"id": ["a"]}, "rows": 1},
            ),
            Message("prediction", {"request": "rows 1 to 5", "reason": None}, [1.0]),
            Message("prediction", {"request": "rows 6 to 9", "reason": None}, [2.0]),
        ),
        (
            Message("compare", {"upto": 5}),
            Message("digest", {"upto": 9, "digest": "d"}),
            Message("digest", {"upto": 5, "digest": "d"}),
        ),
    ],
)
def test_an_answer_to_an_earlier_question_is_not_taken_for_this_one(asked, late, answer):
    line = Line("south", lambda *what: None)
    line.ask(asked)
    line.heard(late)
    line.heard(answer)
    assert line.reply(0.0) == answer


# ------------------------------------------------------------------ files


def test_init_makes_folders_that_read_back(tmp_path):
    corank("federated", "init", tmp_path / "run", "--site", "north", "--site", "south", "--days", 3)
    given = read_coordinator(tmp_path / "run/coordinator/coordinator.toml")
    identity, _ = read_site(tmp_path / "run/north/site.toml").certificates.load("north")
    assert given.pins["north"] == fingerprint(identity.certificate)
    assert (identity.certificate.not_valid_after_utc - datetime.now(UTC)).days == 2
    given.certificates.load("coordinator")
    for key in (tmp_path / "run").glob("*/*.key"):
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
    corank("federated", "init", tmp_path / "run", "--site", "west")
    assert list(read_coordinator(tmp_path / "run/coordinator/coordinator.toml").pins) == [
        "north",
        "south",
        "west",
    ]
    read_site(tmp_path / "run/west/site.toml").certificates.load("west")


def test_init_writes_any_name_of_a_run(tmp_path):
    corank(
        "federated", "init", tmp_path, "--site", "north", "--site", "south", "--run", 'a "run" \\ é'
    )
    assert read_coordinator(tmp_path / "coordinator/coordinator.toml").plan.run == 'a "run" \\ é'


def test_added_sites_do_not_outlive_their_authority(tmp_path):
    corank("federated", "init", tmp_path / "run", "--site", "north", "--site", "south", "--days", 3)
    corank("federated", "init", tmp_path / "run", "--site", "west", "--days", 100)
    identity, authority = read_site(tmp_path / "run/west/site.toml").certificates.load("west")
    assert identity.certificate.not_valid_after_utc <= authority.not_valid_after_utc


def test_sites_are_added_only_where_the_coordinator_is(tmp_path, capsys):
    corank("federated", "init", tmp_path / "run", "--site", "north", "--site", "south")
    (tmp_path / "run/coordinator").rename(tmp_path / "elsewhere")
    with pytest.raises(AssertionError):
        corank("federated", "init", tmp_path / "run", "--site", "west")
    assert "is not there, to which new sites are added" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "run/west").exists()


def test_init_overwrites_nothing(tmp_path, capsys):
    words = ["federated", "init", tmp_path / "run", "--site", "north", "--site", "south"]
    corank(*words)
    with pytest.raises(AssertionError):
        corank(*words)
    assert "is already there" in capsys.readouterr().err


def test_wrong_certificates_are_said_before_anything_is_connected(tmp_path, authority):
    make_run(tmp_path)
    given = read_site(tmp_path / "north/site.toml").certificates
    with pytest.raises(CertificateError, match="is the certificate of 'north', not of 'south'"):
        given.load("south")
    then = datetime.now(UTC) - timedelta(days=9)
    owner = Identity.read(
        tmp_path / "authority/authority.pem", tmp_path / "authority/authority.key"
    )
    for identity, words in (
        (
            issued(owner, "north", 1, then),
            "has expired on .* make new ones with corank federated init",
        ),
        (issued(authority, "north", 1), "was issued by another authority"),
        (issued(owner, "north", 5, datetime.now(UTC) + timedelta(days=2)), "is the clock right"),
    ):
        for ending in ("pem", "key"):
            (tmp_path / f"north/north.{ending}").unlink()
        identity.write(tmp_path / "north", "north")
        with pytest.raises(CertificateError, match=words):
            given.load("north")
    (tmp_path / "north/north.key").write_bytes((tmp_path / "south/south.key").read_bytes())
    with pytest.raises(CertificateError, match="is not the key of"):
        given.load("north")
    (tmp_path / "north/north.pem").write_text("nonsense")
    with pytest.raises(CertificateError, match="is not a certificate"):
        given.load("north")
