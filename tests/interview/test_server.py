"""The page over HTTP: who is let in, what is refused, and what messages say."""

import asyncio
import json
import re
from functools import partialmethod

import httpx
import pyarrow as pa
import pytest
from small_interview import small_page

from corank.interview.server import MAX_BODY, build_app

PORT, TOKEN = 8123, "a-token-that-nobody-knows"
ORIGIN = f"http://127.0.0.1:{PORT}"


class Browser:
    """Sends requests to an application, and keeps its cookies."""

    def __init__(self, app, base_url):
        self._client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=base_url)

    def request(self, method, path, **more):
        return asyncio.run(self._client.request(method, path, **more))

    get, post = partialmethod(request, "GET"), partialmethod(request, "POST")


def client_of(page, host="127.0.0.1", base=ORIGIN):
    return Browser(build_app(page, TOKEN, host, PORT), base)


@pytest.fixture
def page():
    return small_page()


@pytest.fixture
def client(page):
    """A browser that has opened the address with the token."""
    browser = client_of(page)
    assert browser.get("/", params={"token": TOKEN}).status_code == 200
    return browser


def send(client, message, **headers):
    return client.post("/messages", json=message, headers={"Origin": ORIGIN, **headers})


def answer(client, number, word="first", **more):
    return send(client, {"action": "answer", "number": number, "answer": word, **more})


# ---- who is let in


def test_the_token_opens_the_page_and_leaves_the_address(page):
    browser = client_of(page)
    entry = browser.get("/", params={"token": TOKEN})
    assert 'content="0;url=/"' in entry.text
    assert TOKEN not in entry.text
    (cookie,) = entry.headers.get_list("set-cookie")
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
    assert "data-corank-page" in browser.get("/").text


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/page.js",
        "/page.css",
        "/ranking.csv",
        "/picture/0/0",
        "/nothing",
        "/?token=",
        "/?token=é",
    ],
)
def test_without_the_token_there_is_nothing(page, path):
    refusal = client_of(page).get(path)
    assert refusal.status_code == 403
    assert "cookie" not in refusal.headers


def test_a_wrong_token_or_cookie_is_refused(page):
    browser = client_of(page)
    assert browser.get("/", params={"token": TOKEN[:-1]}).status_code == 403
    assert browser.get("/", headers={"Cookie": f"corank_{PORT}=wrong"}).status_code == 403
    # the token counts at the entry alone
    assert browser.get("/page.js", params={"token": TOKEN}).status_code == 403
    assert send(browser, {"action": "start"}).status_code == 403
    assert page.interview.log.answers == []


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        f"evil.example:{PORT}",
        "127.0.0.1",
        "127.0.0.1:80",
        f"127.0.0.1.evil.example:{PORT}",
        f"x@127.0.0.1:{PORT}",
        f"192.168.0.7:{PORT}",
        "",
        "127.0.0.1:port",
        "[::1",
    ],
)
def test_another_host_is_refused(client, page, host):
    assert client.get("/", headers={"Host": host}).status_code == 421
    assert client.get("/", params={"token": TOKEN}, headers={"Host": host}).status_code == 421
    assert (
        send(client, {"action": "answer", "number": 1, "answer": "first"}, Host=host).status_code
        == 421
    )
    assert page.interview.log.answers == []


@pytest.mark.parametrize("host", [f"localhost:{PORT}", f"LOCALHOST:{PORT}", f"[::1]:{PORT}"])
def test_this_machine_has_several_names(client, host):
    assert client.get("/", params={"token": TOKEN}, headers={"Host": host}).status_code == 200


def test_in_a_network_addresses_are_hosts_and_names_of_others_are_not(page):
    browser = client_of(page, host="0.0.0.0", base=f"http://192.168.0.7:{PORT}")
    assert browser.get("/", params={"token": TOKEN}).status_code == 200
    assert (
        browser.get(
            "/", params={"token": TOKEN}, headers={"Host": f"evil.example:{PORT}"}
        ).status_code
        == 421
    )


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Origin": "http://127.0.0.1:9999"},
        {"Origin": f"https://127.0.0.1:{PORT}"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_another_origin_cannot_answer(client, page, headers):
    refusal = send(client, {"action": "answer", "number": 1, "answer": "first"}, **headers)
    assert refusal.status_code == 403
    assert page.interview.log.answers == []


def test_a_message_without_an_origin_is_refused(client):
    assert client.post("/messages", json={"action": "start"}).status_code == 403


@pytest.mark.parametrize("path", ["/", "/page.js", "/messages", "/nothing", "/?token=wrong"])
def test_every_reply_is_guarded(client, path):
    headers = client.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http:" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"


def test_pictures_of_other_servers_are_allowed_where_items_have_them():
    table = pa.table({"name": ["a", "b"], "photo": ["https://example.org/a.png", ""]})
    policy = client_of(small_page(table)).get("/").headers["content-security-policy"]
    assert "img-src 'self' data: https: http:" in policy
    assert "script-src 'self';" in policy


# ---- what is refused


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "GET"])
def test_messages_are_posted(client, method):
    assert client.request(method, "/messages", headers={"Origin": ORIGIN}).status_code == 405
    if method != "GET":
        assert client.request(method, "/", headers={"Origin": ORIGIN}).status_code == 405


def test_a_large_body_is_refused_before_it_is_read(client, page):
    sent = []

    async def body():
        for _ in range(100):
            sent.append(100_000)
            yield b"x" * 100_000

    assert client.post("/messages", content=body(), headers={"Origin": ORIGIN}).status_code == 413
    assert sum(sent) <= 200_000
    assert send(client, {"action": "start", "more": "x" * MAX_BODY}).status_code == 413
    assert page.interview.log.answers == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no json",
        b"[]",
        b"3",
        b'"start"',
        b"{}",
        b"\xff",
        b"[" * 50_000,
        b'{"action": "explode"}',
        b'{"action": "answer"}',
    ]
    + [
        json.dumps({"action": "answer", "number": 1, "answer": "first", **wrong}).encode()
        for wrong in (
            {"number": "1"},
            {"number": True},
            {"answer": 5},
            {"answer": "fifth"},
            {"worst": []},
            {"score": "9"},
        )
    ]
    + [
        b'{"action": "answer", "number": 1, "answer": "score", "score": NaN}',
        b'{"action": "answer", "number": 1, "answer": "score", "score": 1e999}',
        b'{"action": "why", "first": 0, "second": 0}',
        b'{"action": "why", "first": 0, "second": 99}',
        b'{"action": "why", "first": -1, "second": 2}',
    ],
)
def test_nonsense_is_refused_in_one_sentence(client, page, body):
    refusal = client.post("/messages", content=body, headers={"Origin": ORIGIN})
    assert refusal.status_code == 400
    assert refusal.json()["error"]
    assert page.interview.log.answers == []


def test_a_connection_that_ends_within_a_message_is_no_error_of_the_server(page):
    events = [
        {"type": "http.request", "body": b'{"action": "ans', "more_body": True},
        {"type": "http.disconnect"},
    ]
    sent = []

    async def receive():
        return events.pop(0)

    async def send(event):
        sent.append(event)

    headers = {"host": f"127.0.0.1:{PORT}", "origin": ORIGIN, "cookie": f"corank_{PORT}={TOKEN}"}
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/messages",
        "query_string": b"",
        "root_path": "",
    }
    scope["headers"] = [(name.encode(), value.encode()) for name, value in headers.items()]
    asyncio.run(build_app(page, TOKEN, "127.0.0.1", PORT)(scope, receive, send))
    assert sent[0]["status"] == 400


@pytest.mark.parametrize(
    "path",
    [
        "/../secret.png", "/%2e%2e/secret.png", "/picture/../../secret.png", "/picture/%2e%2e%2fsecret.png",
        "/picture/0/../../../secret.png", "/picture/-1/0", "/picture/9/0", "/picture/0/9", "/picture/0/0/", "/picture/1/1",
        "/picture", "/picture/", "/page.html", "/server.py", "/secret.png", "/table/inner/a.png", "/..%5csecret.png",
        "/picture/99999999999999999999999/0", "//etc/passwd", "/page.js/../../secret.png", "/picture/0/1",
        pytest.param(f"/picture/{'9' * 5000}/0", id="a number of 5,000 digits"),
    ],
)  # fmt: skip
def test_nothing_else_is_served(tmp_path, path):
    (tmp_path / "table").mkdir()
    for name in ("secret.png", "table/a.png"):
        (tmp_path / name).write_bytes(b"secret" if "secret" in name else b"picture")
    (tmp_path / "table" / "link.png").symlink_to(tmp_path / "secret.png")
    table = pa.table({"name": ["a", "b", "c"], "photo": ["a.png", "link.png", "../secret.png"]})
    browser = client_of(small_page(table, folder=tmp_path / "table"))
    browser.get("/", params={"token": TOKEN})
    picture = browser.get("/picture/0/0")
    assert (picture.content, picture.headers["content-type"]) == (b"picture", "image/png")
    assert [browser.get(f"/picture/{row}/0").status_code for row in (1, 2)] == [404, 404]
    found = browser.get(path)
    assert found.status_code in (404, 307)
    assert b"secret" not in found.content


# ---- what messages say


def test_an_answer_brings_the_next_question(client, page):
    start = send(client, {"action": "start"}).json()
    assert start["about"]["items"] == 5
    question = start["question"]
    assert [card["title"] for card in question["cards"]] == ["ape", "bee"]
    following = answer(client, question["number"]).json()
    assert following["answers"] == 1
    assert [card["title"] for card in following["question"]["cards"]] == ["cat", "dog"]
    assert page.interview.log.answers == [((0, 1), "first", "", None)]


def test_a_question_is_answered_once(client, page):
    number = send(client, {"action": "start"}).json()["question"]["number"]
    answer(client, number)
    again = answer(client, number).json()
    assert again["note"]
    assert again["question"]["number"] != number
    assert len(page.interview.log.answers) == 1


def test_undo_opens_the_question_again(client, page):
    assert "question" not in send(client, {"action": "undo"}).json()
    answer(client, 1)
    undone = send(client, {"action": "undo"}).json()
    assert [card["title"] for card in undone["question"]["cards"]] == ["ape", "bee"]
    assert page.interview.log.answers == []


def test_nothing_is_left_to_ask():
    page = small_page(questions=1)
    browser = client_of(page)
    browser.get("/", params={"token": TOKEN})
    assert answer(browser, 1).json()["question"] is None
    assert answer(browser, 2).json()["question"] is None


def test_news_come_when_the_ranking_is_new(client, page):
    version = send(client, {"action": "start"}).json()["news"]["version"]
    assert "news" not in send(client, {"action": "news", "version": version}).json()
    answer(client, 1, "second")
    page.begin()
    while page._version == version:
        page._thread.join(0.01)
    news = send(client, {"action": "news", "version": version}).json()["news"]
    assert news["ranking"]["items"][0]["name"] == "bee"
    assert news["settled"]["people"] == [["ann", 5], ["bob", 7]]
    page.end()
    assert client.get("/ranking.csv").text.splitlines()[1].split(",")[:2] == ["1", '"bee"']
    why = send(client, {"action": "why", "first": 1, "second": 0}).json()["why"]
    assert [why["first"], why["second"]] == ["bee", "ape"]
    assert why["groups"] == [
        ["By column", [["words", 0.7], ["type", -0.2]]],
        ["By comparison", [["words", 0.7]]],
    ]


def test_there_is_no_ranking_before_the_first(client):
    assert client.get("/ranking.csv").status_code == 409


def test_a_fit_that_fails_does_not_stop_the_page(client, page):
    def refresh():
        raise RuntimeError("no luck")

    page.interview.refresh = refresh
    page.begin()
    while page._version == 0:
        page._thread.join(0.01)
    page.end()
    assert "no luck" in send(client, {"action": "news", "version": 0}).json()["news"]["problem"]
    assert answer(client, 1).status_code == 200


def test_a_fit_that_fails_is_tried_again(client, page, monkeypatch):
    monkeypatch.setattr("corank.interview.page.RETRY", 0.01)
    luck = iter([RuntimeError("no luck"), RuntimeError("still none")])

    def refresh():
        for error in luck:
            raise error

    page.interview.refresh = refresh
    page.begin()
    while page._version < 3:
        page._thread.join(0.01)
    page.end()
    assert page.news()["problem"] == ""


def test_texts_of_items_reach_the_page_as_json_alone():
    script = "</script><script>alert(1)</script>"
    page = small_page(pa.table({"name": [script, "b"], "text": [script, script]}))
    browser = client_of(page)
    browser.get("/", params={"token": TOKEN})
    start = send(browser, {"action": "start"})
    assert start.headers["content-type"] == "application/json"
    assert start.json()["question"]["cards"][0]["title"] == script
    assert script not in browser.get("/").text
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(",
        browser.get("/page.js").text,
    )


def test_the_page_asks_for_nothing_from_elsewhere(client):
    for path in ("/", "/page.css", "/page.js"):
        text = client.get(path).text
        assert not re.search(r"https?://|@import|url\(|<style|style=|onclick=|<script>", text)
