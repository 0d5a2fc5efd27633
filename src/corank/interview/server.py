"""The page over HTTP, on this machine: Starlette routes around a `Page`, and what keeps strangers
out.

Other web pages, open in the same browser, are the danger: they can send requests to 127.0.0.1. They
know neither the token nor may they use its cookie, and Host and Origin tell them apart.
"""

from __future__ import annotations

import io
import ipaddress
import json
import re
import secrets
import socket
from urllib.parse import urlsplit

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request, cookie_parser
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from corank.interview.cards import PICTURE_TYPES
from corank.interview.page import Page, page_file
from corank.tables import spreadsheet_safe, write_to

MAX_BODY = 64_000  # bytes of a message
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
        self._app, self._token, self._host, self._port = app, token, host, port
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

        request = Request(scope, receive)
        refusal = self._refusal(request)
        await (self._app if refusal is None else refusal)(scope, receive, send_safely)

    def _refusal(self, request: Request) -> Response | None:
        """What is answered in place of the page, or None."""
        headers = request.headers
        if not self._is_own_host(headers):
            return PlainTextResponse("The Host header names another server.\n", 421)
        if request.method not in ("GET", "HEAD"):
            same_origin = headers.get("origin") == f"http://{headers['host']}"
            if not same_origin or headers.get("sec-fetch-site", "same-origin") != "same-origin":
                return PlainTextResponse("Only the page itself may send messages.\n", 403)
        token = request.query_params.get("token")
        if token is not None and request.scope["path"] == "/" and request.method == "GET":
            return self._entry() if self._is_token(token) else PlainTextResponse(STRANGER, 403)
        cookies = cookie_parser(headers.get("cookie", ""))
        return (
            None
            if self._is_token(cookies.get(self._cookie, ""))
            else PlainTextResponse(STRANGER, 403)
        )

    def _is_token(self, text: str) -> bool:
        return secrets.compare_digest(text.encode("utf-8", "replace"), self._token.encode())

    def _is_own_host(self, headers: Headers) -> bool:
        """Whether one Host header names this server: elsewhere a name may lead here that belongs to
        somebody else.
        """
        hosts = headers.getlist("host")
        try:
            location = urlsplit(f"//{hosts[0]}")
            name, port = location.hostname or "", location.port or HTTP_PORT
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
            lifespan="off",
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ws="none",
            limit_concurrency=200,
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
