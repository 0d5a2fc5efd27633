"""The page over HTTP, on this machine: Starlette routes around a `Page`, and what keeps strangers
out.

Other web pages, open in the same browser, are the danger: they can send requests to 127.0.0.1. They
know neither the token nor may they use its cookie, and Host and Origin tell them apart.
"""

from __future__ import annotations

import asyncio
import io
import ipaddress
import json
import logging
import re
import secrets
import socket
from collections import Counter
from typing import Any
from urllib.parse import urlsplit

import h11
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request, cookie_parser
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from corank.interview.page import PICTURE_TYPES, Page, page_file
from corank.tables import spreadsheet_safe, write_to

MAX_BODY = 64_000  # bytes of a message
STRANGER_SECONDS = 10.0  # after which a connection ends on which the token was not shown
MAX_STRANGERS = 400  # connections on which the token was not shown yet
MAX_PER_ADDRESS = 300  # of them, from one address
# connections that begin at a time: far fewer, so that the owner shows the token before giving way
BACKLOG = 100
ADMIT = "corank.admit"  # of the state of a request: what to call when it has the token
SILENT = logging.getLogger("corank.strangers")  # nobody else may write to the terminal of the owner
SILENT.setLevel(logging.CRITICAL + 1)
FILES = {"page.js": "text/javascript", "page.css": "text/css"}
NUMBER = re.compile("[0-9]{1,9}")  # of a row or a column
HTTP_PORT = 80  # is not named in addresses
EVERYWHERE = ("0.0.0.0", "::", "")
LOCAL = ("127.0.0.1", "localhost", "::1")
ENTRY = (
    '<!DOCTYPE html><html lang="en"><meta http-equiv="refresh"'
    ' content="0;url=/"><title>corank</title><link rel="icon" href="data:,"></html>'
)
STRANGER = "This page needs the address that corank ask printed, with its token.\n"


class Guard:
    """Lets only those through who name this server, come from its own page and have the token; sets
    safe headers.

    Parameters
    ----------
    app : what is guarded
    token : the secret in the address
    host, port : where the server listens
    remote_pictures : whether items have pictures on other servers
    """

    def __init__(
        self, app: ASGIApp, token: str, host: str, port: int, *, remote_pictures: bool
    ) -> None:
        self._app = app
        self._token = token
        self._host = host
        self._port = port
        self._cookie = f"corank_{port}"  # cookies do not know ports: one per server
        pictures = " https: http:" if remote_pictures else ""
        self._headers = {
            "Content-Security-Policy": (
                "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';"
                f" img-src 'self' data:{pictures}; form-action 'none'; base-uri 'none';"
                " frame-ancestors 'none'"
            ),
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Opener-Policy": "same-origin",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Cache-Control": "no-store",
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            return

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(self._headers)
            await send(message)

        await self._answering(Request(scope, receive))(scope, receive, send_safely)

    def _answering(self, request: Request) -> ASGIApp:
        """What answers a request: the page, its entry or a refusal."""
        headers = request.headers
        if not self._is_own_host(headers):
            return _refusal("The Host header names another server.\n", 421)
        if request.method not in ("GET", "HEAD"):
            same_origin = headers.get("origin") == f"http://{headers['host']}"
            if not same_origin or headers.get("sec-fetch-site", "same-origin") != "same-origin":
                return _refusal("Only the page itself may send messages.\n", 403)
        token = request.query_params.get("token")
        is_entry = token is not None and request.scope["path"] == "/" and request.method == "GET"
        shown = token if is_entry else cookie_parser(headers.get("cookie", "")).get(self._cookie)
        if not self._is_token(shown or ""):
            return _refusal(STRANGER, 403)
        admit = request.scope.get("state", {}).get(ADMIT)
        if admit is not None:  # the server is a `PageConnection`
            admit()
        return self._entry() if is_entry else self._app

    def _is_token(self, text: str) -> bool:
        return secrets.compare_digest(text.encode("utf-8", "replace"), self._token.encode())

    def _is_own_host(self, headers: Headers) -> bool:
        """Whether one Host header names this server: elsewhere a name may lead here that belongs to
        somebody else.
        """
        hosts = headers.getlist("host")
        try:
            location = urlsplit(f"//{hosts[0]}")
            name = location.hostname or ""
            port = location.port or HTTP_PORT
        except (IndexError, ValueError):
            return False
        if (
            len(hosts) > 1
            or location.netloc != hosts[0]
            or "@" in location.netloc
            or port != self._port
        ):
            return False
        if self._host in LOCAL:
            return name in LOCAL
        return name in (self._host.lower(), socket.gethostname().lower(), *LOCAL) or _is_address(
            name
        )

    def _entry(self) -> Response:
        """Takes the token out of the address and into a cookie.

        A page that goes on by itself, as browsers would not send a strict cookie after a redirect
        from another site, such as the terminal of a notebook server in which the address was
        clicked.
        """
        response = Response(ENTRY, media_type="text/html")
        response.set_cookie(self._cookie, self._token, httponly=True, samesite="strict", path="/")
        return response


def _refusal(text: str, status: int) -> Response:
    """What a stranger is told, as the last thing on a connection."""
    return PlainTextResponse(text, status, {"Connection": "close"})


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _own_address() -> str:
    """The address of this machine in its network; nothing is sent to find it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # an address for documentation, which nobody has
            return str(probe.getsockname()[0])
        except OSError:
            return socket.gethostname()


async def _body(request: Request) -> bytes:
    """The body of a request, which is not read further than it may be long."""
    body = b""
    try:
        async for piece in request.stream():
            body += piece
            if len(body) > MAX_BODY:
                raise HTTPException(
                    413, f"a message may have {MAX_BODY:,} bytes", {"Connection": "close"}
                )
    except ClientDisconnect:
        raise HTTPException(400, "the connection ended within the message") from None
    return body


def build_app(page: Page, token: str, host: str, port: int) -> ASGIApp:
    """The application that shows a page at http://host:port to those who have the token."""
    texts = {name: page_file(name) for name in ("page.html", *FILES)}

    async def index(request: Request) -> Response:
        return Response(texts["page.html"], media_type="text/html")

    async def file(request: Request) -> Response:
        name = request.url.path.removeprefix("/")
        return Response(texts[name], media_type=FILES[name])

    async def messages(request: Request) -> Response:
        try:
            message = json.loads(await _body(request))
            reply = await run_in_threadpool(page.reply, message)
        except (TypeError, ValueError, RecursionError) as error:
            return JSONResponse({"error": " ".join(str(error).split())}, 400)
        return JSONResponse(reply)

    async def picture(request: Request) -> Response:
        place = [request.path_params[name] for name in ("row", "column")]
        path = page.cards.picture(*map(int, place)) if all(map(NUMBER.fullmatch, place)) else None
        if path is None:
            raise HTTPException(404)
        return FileResponse(path, media_type=PICTURE_TYPES[path.suffix.lower()])

    async def ranking(request: Request) -> Response:
        try:
            table = await run_in_threadpool(page.ranking_table)
        except ValueError as error:
            return PlainTextResponse(f"{error}\n", 409)
        file = io.BytesIO()
        write_to(spreadsheet_safe(table), file, ".csv")
        return Response(
            file.getvalue(),
            media_type="text/csv",
            headers={"Content-Disposition": 'attachment; filename="ranking.csv"'},
        )

    routes = [
        Route("/", index),
        *(Route(f"/{name}", file) for name in FILES),
        Route("/messages", messages, methods=["POST"]),
        Route("/picture/{row}/{column}", picture),
        Route("/ranking.csv", ranking),
    ]
    return Guard(
        Starlette(routes=routes), token, host, port, remote_pictures=page.cards.has_remote_pictures
    )


class PageConnection(H11Protocol):
    """A connection to the page. Until the token is shown on it, it is a stranger's: short, silent
    and one of a few.

    On this machine strangers and the owner have the same address, so the oldest stranger gives way
    to a new connection; one on which the token was shown never does.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: Any = None,
    ) -> None:
        super().__init__(config, server_state, {**app_state, ADMIT: self._admit}, _loop)
        self._terminal = self.logger
        self.logger = SILENT
        self._is_stranger = True

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin, and end the oldest of the strangers where they are too many."""
        super().connection_made(transport)
        self._address = "" if self.client is None else self.client[0]
        self._deadline = self.loop.call_later(STRANGER_SECONDS, transport.abort)
        strangers = [
            other
            for other in self.connections
            if isinstance(other, PageConnection) and other._is_open_stranger()
        ]
        strangers.sort(key=lambda stranger: stranger._deadline.when())  # the oldest first
        address, most = Counter(stranger._address for stranger in strangers).most_common(1)[0]
        if most > MAX_PER_ADDRESS or len(strangers) > MAX_STRANGERS:
            next(
                stranger for stranger in strangers if stranger._address == address
            ).transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._deadline.cancel()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Hear what came. An error of uvicorn, where nonsense cannot be answered, would be told on
        the terminal.
        """
        try:
            super().handle_events()
        except h11.LocalProtocolError:
            self.transport.abort()

    def _is_open_stranger(self) -> bool:
        return self._is_stranger and not self.transport.is_closing()

    def _admit(self) -> None:
        """Let the connection stay: the token was shown on it."""
        self._is_stranger = False
        self._deadline.cancel()
        self.logger = self.cycle.logger = self._terminal  # for mistakes of the page


class PageServer:
    """A server for one page. It listens when it is made, and answers while it runs.

    Parameters
    ----------
    page : Page
    host : address to listen on
    port : its port; 0 for any that is free
    """

    def __init__(self, page: Page, host: str = "127.0.0.1", port: int = 0) -> None:
        self._page = page
        try:
            kind, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            self._socket = socket.create_server(address[:2], family=kind)
        except OSError as error:
            where = "" if port == 0 else f" {port}"
            raise ValueError(
                f"--host {host}: cannot listen on port{where}: {error.strerror or error}"
            ) from error
        port = self._socket.getsockname()[1]
        token = secrets.token_urlsafe(24)
        shown = _own_address() if host in EVERYWHERE else f"[{host}]" if ":" in host else host
        self.address = f"http://{shown}:{port}/?token={token}"
        config = uvicorn.Config(
            build_app(page, token, host, port),
            loop="asyncio",
            http=PageConnection,
            lifespan="off",
            log_level="error",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ws="none",
            backlog=BACKLOG,
            timeout_graceful_shutdown=2,
        )
        self._server = uvicorn.Server(config)

    def run(self) -> None:
        """Answer requests until the process is interrupted."""
        self._page.begin()
        try:
            self._server.run(sockets=[self._socket])
        except KeyboardInterrupt:
            pass
        finally:
            self._socket.close()
            self._page.end()

    def stop(self) -> None:
        """End `run`, from another thread."""
        self._server.should_exit = True
