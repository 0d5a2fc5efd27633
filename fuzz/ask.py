"""Mutated requests, answers and items for `corank ask`: one sentence, nothing lost from the
answers, nothing for strangers.

A case is a visit to the page's server with odd requests, an odd file of answers that an interview
takes up or a command reads, or an odd table of items that is asked about. `fuzz/corpus/ask` keeps
requests (JSON) and answers (CSV).
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
from typer.testing import CliRunner

from corank.cli import app
from corank.interview.interview import Interview
from corank.interview.page import Cards, Page
from corank.interview.server import build_app
from corank.tables import TableError, write_table
from corank.tables.answer_log import (
    COLUMNS,
    HEADER,
    KINDS,
    POSITIONS,
    UNDO,
    AnswersFile,
    AnswersInUse,
    read_answers,
)
from fuzz import tables
from fuzz.mutations import Rng, changed_bytes, changed_json
from fuzz.watch import finding_of

PORT, TOKEN = 8123, "a-token_of-32-characters-or-more"
OWN_HOSTS = ("127.0.0.1", "localhost", "[::1]")
ORIGIN = f"http://127.0.0.1:{PORT}"
SECRET = b"what nobody may see"
SAFE_HEADERS = (
    "content-security-policy",
    "x-content-type-options",
    "x-frame-options",
    "cache-control",
)
REFUSED = (403, 421)
MOST_REQUESTS, MOST_ANSWERS = 12, 30
METHODS = (
    "GET",
    "POST",
    "HEAD",
    "PUT",
    "DELETE",
    "OPTIONS",
    "PATCH",
    "TRACE",
    "CONNECT",
    "get",
    "X" * 300,
)
PATHS = (
    "/", "/messages", "/page.js", "/page.css", "/ranking.csv", "/picture/0/0", "/picture/1/0", "/picture/99999/7", "//",
    "/picture/-1/0", f"/picture/{'9' * 5000}/0", "/picture/0/1e3", "/picture/%D9%A3/0", "/picture/0/0/", "/messages/",
    "/../secret.png", "/%2e%2e/secret.png", "/picture/../../secret.png", "/..%2fsecret.png", "/page.html", "/answers.csv",
    "/%00", "/%ff%fe", "/page.js%00", "/PAGE.JS", "*", "/static/page.js", f"/{'a' * 30_000}", "/?token=", "/;x=1", "/\\..\\",
)  # fmt: skip
PICTURES = (
    "ok.png", "../secret.png", "linked.png", "linked/secret.png", "sub/../../secret.png", "notes.txt", "page.svg", "ok.PNG",
    "secret.png\x00.png", "x" * 5000 + ".png", "https://a.example/b.png", "http://[/b.png", "file:///etc/passwd.png", "", None,
    ".png", "sub.png", "~/a.png", "//secret.png", "\u202e.png",
)  # fmt: skip
HOSTS = (
    "evil.example", f"evil.example:{PORT}", "127.0.0.1", "127.0.0.1:80", f"127.0.0.1.evil.example:{PORT}", "", "[::1", "\xff",
    f"a@127.0.0.1:{PORT}", f"127.0.0.1:{PORT}@evil.example", f"localhost:{PORT}", f"LOCALHOST:{PORT}", f"[::1]:{PORT}",
    f"127.0.0.1:{PORT}/", f"127.0.0.1:{PORT}\t", "127.0.0.1:99999999", "127.0.0.1:-1", f"127.0.0.1:{'1' * 5000}",
    f"[::ffff:1%25]:{PORT}", f"\u2488.example:{PORT}", f"[v1.a]:{PORT}",
)  # fmt: skip
ORIGINS = (
    "null",
    "",
    "http://evil.example",
    "http://127.0.0.1",
    f"https://127.0.0.1:{PORT}",
    ORIGIN + "/",
    "\xff",
)
COOKIES = (
    "",
    "=",
    ";;;",
    "corank_8123",
    f"corank_{PORT}=",
    f"corank_80={TOKEN}",
    f"corank_{PORT}={TOKEN[:-1]}",
    "\xff=\xff",
)
RANGES = (
    "bytes=0-",
    "bytes=0-0,-1",
    "bytes=-",
    "bytes=" + "0-1," * 3000,
    f"bytes={'9' * 5000}-",
    "bytes=5-1",
    "\xff",
)
MESSAGES: tuple[dict[str, Any], ...] = (
    {"action": "start"},
    {"action": "news", "version": 0},
    {"action": "undo"},
    {"action": "why", "first": 0, "second": 1},
    {"action": "answer", "number": 1, "answer": "first"},
    {"action": "answer", "number": 1, "answer": "skip"},
)
BODIES = (
    b"", b"null", b"[]", b'"', b"{", b"NaN", b"\xff\xfe", b"\xef\xbb\xbf{}", b'{"action": "start"', b'{"action": NaN}',
    b'{"action": "answer", "number": 1e999, "answer": "first"}', b'{"action": "answer", "number": ' + b"9" * 5000 + b"}",
    b'{"action": "\\ud800"}', b'{"action": "answer", "number": 1, "answer": "\\ud800", "worst": "\\u0000"}',
    b'{"action": "answer", "number": 1, "answer": "score", "score": NaN}', b"[" * 30_000, b'{"a":' * 12_000, b" " * 200_000,
    b'{"action": "answer", "number": 1, "answer": "score", "score": -Infinity}', b'{"action": {"action": []}}', b"\x00" * 100,
    b'{"action": "answer", "number": 1, "answer": "score", "score": 1' + b"0" * 4000 + b"}", "{\"action\": \"start\"}".encode("utf-16"),
)  # fmt: skip
ODD_FIELDS = (
    "", "0", "-1", "1.5", "nan", "inf", "1e999", "1e308", "1e-320", "9" * 15, "9" * 16, "9" * 5000, "\u0663", "1_0", " 1", "gone",
    "i0", "tie", "skip", "undo", "score", "first", "fourth", "compare", "best-worst", '"', '""', "'", "a\0b", "\r", "\ud800",
    "\x1b[31m", "\u2028", "=1+1", "x" * 20_000, "2024-02-30T25:61:61Z", "2024-01-01T00:00:00Z", "0000-00-00T00:00:00Z",
)  # fmt: skip


# ---- cases


def run(rng_seed: int, count: int) -> list[str]:
    """Findings of so many cases."""
    try:
        return [finding for seed in range(rng_seed, rng_seed + count) for finding in _case(seed)]
    finally:
        if _sound_files.cache_info().currsize:
            shutil.rmtree(_sound_files(), ignore_errors=True)
            _sound_files.cache_clear()


def _case(seed: int) -> list[str]:
    rng = np.random.default_rng(seed)
    act = ACTS[int(rng.choice(len(ACTS), p=ACT_SHARES))]
    with tempfile.TemporaryDirectory(prefix="corank-fuzz-") as name:
        return [f"ask {seed} ({act.__name__}): {finding}" for finding in act(rng, Path(name))]


def visit(rng: Rng, folder: Path) -> list[str]:
    """Odd requests to the server of a page."""
    with visited(rng, folder) as visitor:
        for _ in range(int(rng.integers(1, MOST_REQUESTS))):
            request = _mutated_request(rng, visitor)
            finding = finding_of(partial(visitor.finding_about, request), ())
            if finding is not None:
                return [f"{finding}; {request.as_json()[:2000]}"]
            if rng.random() < 0.2:
                finding = finding_of(visitor.page.interview.refresh)
                if finding is not None:
                    return [f"refresh: {finding}"]
        finding = visitor.finding_at_end()
    return [] if finding is None else [finding]


def take_up(rng: Rng, folder: Path) -> list[str]:
    """An odd file of answers, which an interview takes up."""
    kind = _pick(rng, tuple(KINDS))
    path = folder / "answers.csv"
    path.write_bytes(_answers_content(rng, kind))
    return answers_examined(path, kind if rng.random() < 0.9 else _pick(rng, tuple(KINDS)), rng)


def learn(rng: Rng, folder: Path) -> list[str]:
    """An odd file of answers, from which commands learn."""
    shutil.copytree(_sound_files(), folder, dirs_exist_ok=True)
    answers = folder / "answers.csv"
    kind = _pick(rng, tuple(KINDS))
    answers.write_bytes(content := _answers_content(rng, kind))
    model = (
        ("scores" if kind == "score" else "pairs")
        if rng.random() < 0.9
        else _pick(rng, ("pairs", "scores"))
    )
    method = ["--method", "rankrls"] if rng.random() < 0.5 else []
    words = {
        "fit": [
            "fit",
            "items.csv",
            "--comparisons",
            "answers.csv",
            "--id",
            "item",
            "--out",
            "new.corank",
            *method,
        ],
        "score": [
            "fit",
            "answers.csv",
            "--items",
            "items.csv",
            "--id",
            "item",
            "--score",
            "score",
            "--out",
            "new.corank",
        ],
        "update": [
            "update",
            f"{model}.corank",
            "answers.csv",
            "--items",
            "items.csv",
            "--out",
            "new.corank",
        ],
        "evaluate": ["evaluate", f"{model}.corank", "answers.csv", "--items", "items.csv"],
    }[_pick(rng, ("score" if kind == "score" else "fit", "update", "evaluate", "fit"))]
    findings = tables.examined(folder, words)
    if answers.read_bytes() != content:
        findings.append("changes the file of answers")
    return [f"corank {' '.join(words)}: {finding}" for finding in findings]


def ask_about(rng: Rng, folder: Path) -> list[str]:
    """An odd table of items, about which `corank ask` asks a visitor who answers at random."""
    (folder / "ok.png").write_bytes(b"picture")
    items = tables.sound_items(rng)
    if rng.random() < 0.3:
        items["photo"] = [_pick(rng, PICTURES[:8]) for _ in items["item"]]
    table = tables.written(rng, folder, "t", items, is_sound=rng.random() < 0.2)
    words = [
        "ask",
        table,
        "--out",
        "answers.csv",
        "--no-browser",
        "--id",
        _pick(rng, ("item", "item", "item", "note", "width")),
    ]
    words += ["--kind", _pick(rng, tuple(KINDS)), "--repeat", str(_pick(rng, (0, 0, 0.5)))]
    words += _pick(
        rng,
        (
            [],
            [],
            ["--show", "note,width"],
            ["--drop", "kind"],
            ["--person", tables.odd_text(rng)[:300]],
            ["--question", tables.odd_text(rng)[:300]],
        ),
    )
    words += _pick(rng, ([], ["--model-out", "new.corank"]))
    if rng.random() < 0.2:
        (folder / "answers.csv").write_bytes(_answers_content(rng, _pick(rng, tuple(KINDS))))
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    visits: list[str] = []
    with patch("corank.cli.ask.PageServer", _visitor_of(rng, visits)):
        findings = tables.examined(folder, words) + visits
    lost = [
        name
        for name, content in before.items()
        if not (folder / name).read_bytes().startswith(content)
    ]
    findings += [f"changes what is in {name}" for name in lost]
    return [f"corank {' '.join(words)}: {finding}" for finding in findings]


def disturb(rng: Rng, folder: Path) -> list[str]:
    """Other programs that change the file of answers while it is written to, and disks that are
    full.
    """
    path = folder / "answers.csv"
    with AnswersFile(path) as file:
        for _ in range(int(rng.integers(1, MOST_ANSWERS))):
            if rng.random() < 0.4:
                _change_file(rng, path, file._content)
            finding = finding_of(partial(_finding_at_answer, rng, file), ())
            if finding is not None:
                return [finding]
        with suppress(OSError, AnswersInUse):
            file.ensure_saved()
        said = file._content
    is_kept = any(
        other.read_bytes().startswith(said) for other in folder.iterdir() if other.is_file()
    )
    return [] if is_kept else ["what was confirmed is in no file"]


ACTS: tuple[Callable[[Rng, Path], list[str]], ...] = (visit, take_up, learn, ask_about, disturb)
ACT_SHARES = (0.35, 0.25, 0.15, 0.15, 0.1)


# ---- requests


@dataclass(frozen=True)
class OddRequest:
    """A request as a server hands it on; bytes are written as the characters of their numbers.

    Attributes
    ----------
    method, target : of its first line
    headers : names and values
    body : in how many pieces it comes is `pieces`
    is_cut : whether the connection ends before the body does
    """

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: str = ""
    pieces: int = 1
    is_cut: bool = False

    def as_json(self) -> str:
        """The request as a line of `fuzz/corpus/ask`."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> OddRequest:
        """The request that `as_json` has written."""
        entries = json.loads(text)
        return cls(
            **{**entries, "headers": tuple((name, value) for name, value in entries["headers"])}
        )

    def values(self, name: str) -> list[str]:
        """The values of a header."""
        return [value for header, value in self.headers if header == name]

    def scope(self) -> dict[str, Any]:
        """The request as servers describe it to an application."""
        path, _, query = self.target.partition("?")
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "server": ("127.0.0.1", PORT),
            "client": ("127.0.0.1", 50_000),
            "scheme": "http",
            "root_path": "",
            "method": self.method,
            "path": unquote(path),
            "raw_path": path.encode("latin-1"),
            "query_string": query.encode("latin-1"),
            "headers": [
                (name.encode("latin-1"), value.encode("latin-1", "replace"))
                for name, value in self.headers
            ],
        }

    def is_from_a_stranger(self) -> bool:
        """Whether it lacks the token, names another server or is a message of another page."""
        hosts, origins = self.values("host"), self.values("origin")
        knows = TOKEN in unquote(self.target) or any(
            TOKEN in cookie for cookie in self.values("cookie")
        )
        names_server = len(hosts) == 1 and any(name in hosts[0].lower() for name in OWN_HOSTS)
        is_message = self.method not in ("GET", "HEAD")
        is_of_page = bool(origins) and any(name in origins[0].lower() for name in OWN_HOSTS)
        return not knows or not names_server or (is_message and not is_of_page)


class Visitor:
    """Sends requests to a page and looks whether what comes back, and what is in the file of
    answers, is right.
    """

    def __init__(self, page: Page, answers: Path) -> None:
        self.page, self._answers = page, answers
        self._app = build_app(page, TOKEN, "127.0.0.1", PORT)

    def sound(self, method: str = "GET", target: str = "/", body: bytes = b"") -> OddRequest:
        """A request as the page itself sends it."""
        headers = [("host", f"127.0.0.1:{PORT}"), ("cookie", f"corank_{PORT}={TOKEN}")]
        if method == "POST":
            headers += [
                ("origin", ORIGIN),
                ("content-type", "application/json"),
                ("content-length", str(len(body))),
            ]
        return OddRequest(method, target, tuple(headers), body.decode("latin-1"))

    def finding_about(self, request: OddRequest) -> str | None:
        """What is wrong with how a request was answered, None where nothing is."""
        before = self._answers.read_bytes()
        status, headers, body = asyncio.run(self._answered(request))
        after = self._answers.read_bytes()
        if status is None:
            return None if request.is_cut else "is not answered"
        if status >= 500:
            return f"is answered with {status}"
        if not all(name in headers for name in SAFE_HEADERS):
            return "is answered without safe headers"
        if SECRET in body:
            return "gets what nobody may see"
        if not after.startswith(before):
            return "changes what is in the file of answers"
        if after != before and status != 200:
            return f"is answered with {status}, but writes to the file of answers"
        if request.is_from_a_stranger():
            return (
                None
                if status in REFUSED and "set-cookie" not in headers
                else f"is let in, with {status}"
            )
        if headers.get("content-type") == "application/json":
            return self._finding_in(body)
        return None

    def finding_at_end(self) -> str | None:
        """Whether the file of answers says something else than the interview."""
        said, written = self.page.interview.log.answers, read_answers(self._answers).answers
        return (
            None
            if said == written
            else f"{len(said)} answers were heard, but {len(written)} others are in the file"
        )

    def _finding_in(self, body: bytes) -> str | None:
        try:
            reply = json.loads(body, parse_constant=tables.refuse)
        except ValueError as error:
            return f"is answered with {error}"
        if "answers" not in reply:
            return None
        told, written = (
            reply["answers"] + reply["skipped"],
            len(read_answers(self._answers).answers),
        )
        return (
            None if told == written else f"is told of {told} answers, but {written} are in the file"
        )

    async def _answered(self, request: OddRequest) -> tuple[int | None, dict[str, str], bytes]:
        """Status, headers and body of what is answered; None, where nothing is."""
        body = request.body.encode("latin-1")
        size = max(-(-len(body) // request.pieces), 1)
        pieces = [body[at : at + size] for at in range(0, len(body), size)] or [b""]
        if request.is_cut:
            pieces = pieces[: len(pieces) // 2]
        events = [
            {
                "type": "http.request",
                "body": piece,
                "more_body": request.is_cut or at + 1 < len(pieces),
            }
            for at, piece in enumerate(pieces)
        ]
        sent: list[Any] = []

        async def receive() -> Any:
            return events.pop(0) if events else {"type": "http.disconnect"}

        async def send(event: Any) -> None:
            sent.append(event)

        await self._app(request.scope(), receive, send)
        if not sent:
            return None, {}, b""
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in sent[0]["headers"]
        }
        return (
            int(sent[0]["status"]),
            headers,
            b"".join(event.get("body", b"") for event in sent[1:]),
        )


@contextmanager
def visited(rng: Rng, folder: Path) -> Iterator[Visitor]:
    """A visitor of a page about items with pictures, some of which lead to a file outside of their
    folder.
    """
    place = folder / "items"
    (place / "sub.png").mkdir(parents=True)
    (folder / "secret.png").write_bytes(SECRET)
    (place / "notes.txt").write_bytes(SECRET)
    (place / "page.svg").write_bytes(SECRET)
    (place / "ok.png").write_bytes(b"picture")
    (place / "linked.png").symlink_to(folder / "secret.png")
    (place / "linked").symlink_to(folder)
    table = _items()
    pictures = [_pick(rng, PICTURES) for _ in range(len(table))]
    table = table.add_column(1, "photo", pa.array(pictures, pa.string()))
    answers = folder / "answers.csv"
    kind = _pick(rng, tuple(KINDS))
    with Interview(
        table, id="item", answers=answers, kind=kind, repeat=_pick(rng, (0, 0.3)), drop=["photo"]
    ) as interview:
        yield Visitor(
            Page(interview, Cards(table, interview.names, "item", folder=place), download=True),
            answers,
        )


def _mutated_request(rng: Rng, visitor: Visitor) -> OddRequest:
    if rng.random() < 0.7:
        request = visitor.sound("POST", "/messages", _message(rng, visitor))
    else:
        target = _pick(rng, PATHS)
        target += _pick(
            rng,
            (
                "",
                "",
                "",
                f"?token={TOKEN}",
                "?token=",
                "?token=%ff",
                "?a=b&" * 500,
                "?token=x&token=y",
            ),
        )
        request = visitor.sound(_pick(rng, ("GET", "GET", "GET", "HEAD")), target)
    for _ in range(int(rng.choice([0, 1, 2, 3], p=[0.4, 0.4, 0.15, 0.05]))):
        request = _changed_request(rng, request)
    return request


def _changed_request(rng: Rng, request: OddRequest) -> OddRequest:
    match int(rng.integers(10)):
        case 0:
            return replace(request, method=_pick(rng, METHODS))
        case 1:
            return replace(request, target=_pick(rng, PATHS))
        case 2:
            return _with_header(request, "host", _pick(rng, HOSTS))
        case 3:
            return _with_header(request, "origin", _pick(rng, ORIGINS))
        case 4:
            return _with_header(request, "cookie", _pick(rng, COOKIES))
        case 5:
            name = _pick(
                rng,
                (
                    "range",
                    "content-length",
                    "content-type",
                    "sec-fetch-site",
                    "cookie",
                    "if-range",
                    "host",
                    "origin",
                ),
            )
            return replace(
                request,
                headers=(*request.headers, (name, _pick(rng, (*RANGES, *ORIGINS, *COOKIES)))),
            )
        case 6:
            left_out = _pick(rng, request.headers)
            return replace(
                request, headers=tuple(header for header in request.headers if header != left_out)
            )
        case 7:
            return replace(request, is_cut=True)
        case 8:
            return replace(
                request, body=changed_bytes(rng, request.body.encode("latin-1")).decode("latin-1")
            )
        case _:
            return replace(request, pieces=int(rng.integers(2, 200)))


def _with_header(request: OddRequest, name: str, value: str) -> OddRequest:
    return replace(
        request,
        headers=(*(header for header in request.headers if header[0] != name), (name, value)),
    )


def _message(rng: Rng, visitor: Visitor) -> bytes:
    """The body of a message: a sound answer, an odd one, or bytes that are none."""
    if rng.random() < 0.15:
        return bytes(_pick(rng, BODIES))
    message = _answer_to(rng, visitor.page) if rng.random() < 0.5 else dict(_pick(rng, MESSAGES))
    for _ in range(int(rng.choice([0, 1, 2], p=[0.6, 0.3, 0.1]))):
        message = changed_json(rng, message) or {}
    return json.dumps(message).encode()


def _answer_to(rng: Rng, page: Page) -> dict[str, Any]:
    """A sound answer to the open question of a page; where there is none, the wish to undo."""
    question = page.interview.next()
    if question is None:
        return {"action": "undo"}
    answer: dict[str, Any] = {"action": "answer", "number": question.number}
    if question.kind == "score":
        score = {"answer": "score", "score": _pick(rng, (0, -1.5, 3, 1e60, 1e-300))}
        return answer | (score if rng.random() < 0.8 else {"answer": "skip"})
    best, worst = rng.permutation(POSITIONS[: len(question.rows)])[:2]
    if rng.random() < 0.2:
        return answer | {"answer": _pick(rng, ("tie", "skip"))}
    return (
        answer
        | {"answer": str(best)}
        | ({"worst": str(worst)} if question.kind == "best-worst" else {})
    )


def _visitor_of(rng: Rng, findings: list[str]) -> Any:
    """A stand-in for the server of `corank ask`, which answers a few questions and ends."""

    class VisitedServer:
        def __init__(self, page: Page, host: str, port: int) -> None:
            self.address = ORIGIN
            self._page = page

        def run(self) -> None:
            file = self._page.interview._answers
            assert isinstance(file, AnswersFile)
            visitor = Visitor(self._page, file.path)
            for _ in range(int(rng.integers(8))):
                body = json.dumps(_answer_to(rng, self._page)).encode()
                for request in (
                    visitor.sound("POST", "/messages", body),
                    visitor.sound(target=_pick(rng, PATHS[:8])),
                    visitor.sound("POST", "/messages", json.dumps(_pick(rng, MESSAGES)).encode()),
                ):
                    finding = visitor.finding_about(request)
                    findings.extend(
                        [] if finding is None else [f"{finding}; {request.as_json()[:500]}"]
                    )
                if rng.random() < 0.3:
                    self._page.interview.refresh()
            finding = visitor.finding_at_end()
            findings.extend([] if finding is None else [finding])

    return VisitedServer


# ---- answers


def answers_examined(path: Path, kind: str, rng: Rng) -> list[str]:
    """Findings about one file of answers, which an interview of a kind takes up."""
    old = path.read_bytes()
    finding = finding_of(lambda: _taken_up(path, kind, rng))
    findings = [] if finding is None else [finding]
    if not path.read_bytes().startswith(old):
        findings.append("what was in the file of answers is gone")
    return findings


def _change_file(rng: Rng, path: Path, content: bytes) -> None:
    """What another program may do to the file of answers, which held `content` once."""
    cut = content[: int(rng.integers(len(content) + 1))]
    changed = _pick(
        rng,
        (
            content,
            content,
            content,
            cut,
            changed_bytes(rng, content),
            content + changed_bytes(rng, cut),
        ),
    )
    match int(rng.integers(4)):
        case 0:
            path.unlink(missing_ok=True)
        case 1:
            if path.exists():
                path.rename(path.with_name("moved.csv"))
        case 2:
            path.write_bytes(changed)
            later = path.stat().st_mtime_ns + 10**9  # clocks of file systems tick in milliseconds
            os.utime(path, ns=(later, later))
        case _:
            other = path.with_name("other.csv")
            other.write_bytes(changed)
            other.replace(path)


def _finding_at_answer(rng: Rng, file: AnswersFile) -> str | None:
    """What is wrong after an answer or an undo, for which the disk may be full."""
    before, log = file.path.read_bytes() if file.path.exists() else None, file.log
    is_undo = rng.random() < 0.2
    full = OSError(errno.ENOSPC, "No space left on device")
    try:
        with patch("os.fsync", side_effect=full) if rng.random() < 0.2 else nullcontext():
            if is_undo:
                file.undo()
            else:
                file.append("compare", ("i0", "i1"), _pick(rng, ("first", "tie", "skip")))
    except (OSError, AnswersInUse):
        after = file.path.read_bytes() if file.path.exists() else None
        if file.log is not log:
            return "an answer that was refused is kept"
        return None if after == before else "an answer that was refused changes the file"
    if is_undo and file.log is log:
        return None
    try:
        written = read_answers(file.path).answers
    except TableError:
        written = []
    return (
        None if written == file.log.answers else "an answer that was confirmed is not in the file"
    )


def _taken_up(path: Path, kind: str, rng: Rng) -> str | None:
    with Interview(
        _items(), id="item", answers=path, kind=kind, person=_pick(rng, ("", "ann")), repeat=0.3
    ) as interview:
        before = read_answers(path).answers
        if interview.log.answers != before:
            return (
                f"{len(before)} answers are in the file, but {len(interview.log.answers)} others"
                " were taken up"
            )
        page = Page(interview, Cards(interview.table, interview.names, "item"))
        for _ in range(int(rng.integers(5))):
            page.reply(_answer_to(rng, page) if rng.random() < 0.8 else {"action": "undo"})
        interview.refresh()
        if not interview.settled().sentence:
            return "does not say how settled the order is"
        ranking = interview.ranking()
        if ranking is not None and not (
            np.isfinite(ranking.scores).all() and np.isfinite(ranking.std).all()
        ):
            return "ranks by numbers that are not finite"
        said = interview.log.answers
    written = read_answers(path).answers
    return (
        None
        if said == written
        else f"{len(said)} answers were heard, but {len(written)} others are in the file"
    )


def _answers_content(rng: Rng, kind: str) -> bytes:
    """A file of answers of a kind, with odd lines, fields or bytes."""
    lines: list[list[str]] = []
    for number in range(1, int(rng.integers(1, MOST_ANSWERS))):
        is_undo = rng.random() < 0.1 and bool(lines) and UNDO not in lines[-1]
        lines.append(_undo_fields(lines[-1]) if is_undo else _answer_fields(rng, number, kind))
    texts = [HEADER, *map(_line, lines)]
    for _ in range(int(rng.choice([0, 1, 2, 4], p=[0.2, 0.4, 0.3, 0.1]))):
        place = int(rng.integers(len(texts))) if texts else 0
        match int(rng.integers(9)):
            case 0 | 1 | 2 if lines:
                fields = list(lines[int(rng.integers(len(lines)))])
                fields[int(rng.integers(len(fields)))] = _pick(rng, ODD_FIELDS)
                texts.insert(max(place, 1), _line(fields))
            case 3 if lines:
                texts.insert(
                    max(place, 1),
                    _line(list(rng.permutation(lines[int(rng.integers(len(lines)))]))),
                )
            case 4 if texts:
                texts[place] = texts[place][: int(rng.integers(len(texts[place]) + 1))]
            case 5:
                texts.insert(
                    place,
                    _pick(
                        rng,
                        ("", " ", '"', ",", HEADER, "\ufeff", "x" * 100_000, "," * 11, "\0", "\r"),
                    ),
                )
            case 6:
                texts += texts[place:]
            case 7:
                del texts[place : place + 1]
            case _:
                texts = [text + "\r" for text in texts]
    end = _pick(rng, ("\n", "\n", "\n", "", "\n\n", "\r\n"))
    content: bytes = (_pick(rng, ("", "", "", "\ufeff")) + "\n".join(texts) + end).encode(
        "utf-8", "surrogatepass"
    )
    if rng.random() < 0.3:
        content = changed_bytes(rng, content)
    return content[: int(rng.integers(len(content) + 1))] if rng.random() < 0.1 else content


def _answer_fields(rng: Rng, number: int, kind: str) -> list[str]:
    """The fields of a sound answer."""
    names = [
        str(name)
        for name in rng.permutation(_items()["item"].to_pylist())[: _pick(rng, KINDS[kind].n_items)]
    ]
    best, worst = (*rng.permutation(POSITIONS[: len(names)])[:2], "")[:2]
    fields = dict.fromkeys(COLUMNS, "") | dict(zip(POSITIONS, names, strict=False))
    fields |= {
        "number": str(number),
        "kind": kind,
        "at": "2024-01-01T00:00:00Z",
        "person": _pick(rng, ("", "ann", "bob")),
    }
    if kind == "score":
        fields |= {"answer": "score", "score": str(_pick(rng, (0, 1, -2.5, 7, 1e60, 1e-300)))}
    else:
        fields |= {"answer": str(best), "worst": str(worst) if kind == "best-worst" else ""}
    if rng.random() < 0.1:
        fields |= {"answer": "skip", "worst": "", "score": ""}
    return list(fields.values())


def _undo_fields(undone: list[str]) -> list[str]:
    """The fields of an undo of the answer before it."""
    fields = dict(zip(COLUMNS, undone, strict=True))
    number = int(fields["number"])
    return list(
        {
            **fields,
            "number": str(number + 1),
            "answer": UNDO,
            "worst": "",
            "score": "",
            "undoes": str(number),
        }.values()
    )


def _line(fields: list[str]) -> str:
    return ",".join(
        '"' + field.replace('"', '""') + '"' if {",", '"'} & set(field) else field
        for field in fields
    )


# ---- items


@cache
def _items() -> pa.Table:
    """A sound table of items."""
    rng = np.random.default_rng(0)
    items = tables.sound_items(rng, n=12)
    del items["rating"]
    return pa.table(items)


@cache
def _sound_files() -> Path:
    """A folder with a table of items, and models of answers about them."""
    folder = Path(tempfile.mkdtemp(prefix="corank-fuzz-"))
    write_table(_items(), folder / "items.csv")
    rng = np.random.default_rng(1)
    for kind, name in (("compare", "pairs"), ("score", "scores")):
        lines = [_answer_fields(rng, number, kind) for number in range(1, 40)]
        answers = folder / "answers.csv"
        answers.write_text("\n".join([HEADER, *map(_line, lines)]) + "\n", encoding="utf-8")
        learned = ["items.csv", "--comparisons", "answers.csv", "--method", "difference"]
        if kind == "score":
            learned = ["answers.csv", "--items", "items.csv", "--score", "score"]
        words = [str(folder / word) if word.endswith(".csv") else word for word in learned]
        result = CliRunner().invoke(
            app, ["fit", *words, "--id", "item", "--out", str(folder / f"{name}.corank"), "--quiet"]
        )
        if result.exit_code:
            raise AssertionError(result.output)
    return folder


def _pick(rng: Rng, choices: Any) -> Any:
    return choices[int(rng.integers(len(choices)))]
