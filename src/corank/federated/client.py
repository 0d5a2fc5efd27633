"""A site's end of the network: it dials out, holds a stream, answers, and dials again when the stream breaks."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import grpc
from cryptography import x509

from corank.federated.certificates import COORDINATOR, Identity, key_pem, pem
from corank.federated.channel import Party, answered
from corank.federated.journal import note
from corank.federated.messages import Message, MessageError, decoded
from corank.federated.server import KEEPALIVE, METHOD, size_limits

FIRST_WAIT, LONGEST_WAIT = 0.2, 10.0
FINAL = {"PERMISSION_DENIED", "UNAUTHENTICATED", "INVALID_ARGUMENT", "RESOURCE_EXHAUSTED", "UNIMPLEMENTED"}


class JoinError(ConnectionError):
    """Why a site does not take part, or no longer."""


class Connection:
    """Dials a coordinator for a site.

    Parameters
    ----------
    address : "host:port" of the coordinator
    identity, authority : this site's certificate, and that of the authority which signed the coordinator's
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
        self._credentials = grpc.ssl_channel_credentials(pem(authority), key_pem(identity), pem(identity.certificate))
        # whatever the host is called, its certificate must be the coordinator's
        name = ("grpc.ssl_target_name_override", COORDINATOR)
        self._options = [*KEEPALIVE, *size_limits(max_items), name, ("grpc.enable_retries", 0)]

    def answer(self, party: Party, *, forever: bool = False) -> Message:
        """Answer until the coordinator says that the run is over; its last message. `forever`: and dial again then."""
        wait, last = FIRST_WAIT, time.monotonic()
        while True:
            try:
                with grpc.secure_channel(self.address, self._credentials, options=self._options) as channel:
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
                raise JoinError(f"no connection to the coordinator at {self.address} for {self.patience:.0f} s: {why}.")
            note("waiting", site=party.name, why=why, seconds=wait)
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
                reply = answered(party, message)
                said.put(reply.encoded())
                if message.kind == "finish":
                    said.put(None)
                    _wait_for_end(call)
                    if reply.kind == "refusal":
                        raise JoinError(f"the run is over, but this site has no part in its end: {reply['reason']}")
                    return message, True
        except grpc.RpcError as error:
            error.heard = heard
            raise
        except MessageError as error:
            raise JoinError(f"the coordinator at {self.address} sent bytes that make no sense: {error}") from error
        finally:
            said.put(None)
        return None, heard

    def _judged(self, error: Any) -> str:
        """Why a connection failed; JoinError where trying again cannot help."""
        code, details = error.code().name, error.details() or ""
        if "CERTIFICATE_VERIFY_FAILED" in details or "Hostname Verification" in details or "not match" in details:
            raise JoinError(
                f"the coordinator at {self.address} has no certificate of this run's authority in the name "
                f"{COORDINATOR!r}: {details.splitlines()[0]:.200}"
            )
        if code in FINAL:
            raise JoinError(f"the coordinator at {self.address} refused: {details}")
        return f"{code.lower()}: {details.splitlines()[0]:.200}" if details else code.lower()


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
