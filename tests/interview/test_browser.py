"""The page in a real browser: keys and clicks, texts that want to be scripts, and answers that
survive a killed process.
"""

import csv
import io
import os
import re
import signal
import subprocess
import threading
from contextlib import contextmanager
from itertools import pairwise

import pyarrow as pa
import pytest
from chromium import CHROMIUM, FLAGS
from command_line import COMMAND, run
from small_interview import small_page

from corank.datasets import load_peps
from corank.interview import read_answers
from corank.interview.page import page_file
from corank.interview.server import PageServer
from corank.tables import write_table

KILLED = "ERR_CONNECTION_REFUSED"  # what a browser says of a server that is no more
ADDRESS = re.compile(r"http://\S+/\?token=\S+")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as browsers:
        chromium = browsers.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@contextmanager
def tab_of(browser, address, width=1200, scheme="light"):
    """A tab with the page, which must not complain about anything."""
    complaints, asked = [], []
    tab = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    tab.on("console", lambda message: complaints.append(message.text))
    tab.on("pageerror", lambda problem: complaints.append(str(problem)))
    tab.on("dialog", lambda dialog: complaints.append(dialog.message))
    tab.on("request", lambda request: asked.append(request.url))
    tab.goto(address)
    tab.wait_for_selector(".card")
    yield tab
    tab.close()
    origin = address.partition("/?")[0]
    assert [complaint for complaint in complaints if KILLED not in complaint] == []
    assert [url for url in asked if not url.startswith((origin, "data:"))] == []


@contextmanager
def served(page):
    """The address of a page, served by a thread of this process."""
    server = PageServer(page)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield server.address
    finally:
        server.stop()
        thread.join()


def titles(tab):
    return [
        title.inner_text() for title in tab.locator(".card h2 span:not(.number):not(.mark)").all()
    ]


def after(tab, act):
    """The titles after something that brings another question."""
    # what follows changes with the ranking too
    answers = "document.querySelector('.count').innerText.split(' · ')[0]"
    count = tab.evaluate(answers)
    act()
    tab.wait_for_function(f"before => {answers} !== before", arg=count)
    return titles(tab)


# ---- a page about a small interview


def test_keys_answer_and_take_back(browser):
    page = small_page()
    with served(page) as address, tab_of(browser, address) as tab:
        assert "token" not in tab.url
        assert titles(tab) == ["ape", "bee"]
        for key in ("ArrowLeft", "2", "ArrowDown", " "):
            after(tab, lambda key=key: tab.keyboard.press(key))
        assert [answer[1] for answer in page.interview.log.answers] == [
            "first",
            "second",
            "tie",
            "skip",
        ]
        after(tab, lambda: tab.keyboard.press("u"))
        after(tab, lambda: tab.keyboard.press("Backspace"))
        assert [answer[1] for answer in page.interview.log.answers] == ["first", "second"]
        after(tab, lambda: tab.locator(".card").nth(1).click())
        after(tab, lambda: tab.get_by_role("button", name="Tie").click())
        # skips, and does not press the button again
        after(tab, lambda: tab.keyboard.press("Space"))
        assert [answer[1] for answer in page.interview.log.answers][2:] == ["second", "tie", "skip"]
        tab.keyboard.press("?")
        assert tab.get_by_role("dialog").is_visible()


def test_the_best_and_the_worst_of_four(browser):
    page = small_page(kind="best-worst")
    with served(page) as address, tab_of(browser, address) as tab:
        tab.keyboard.press("3")
        tab.keyboard.press("Escape")
        tab.keyboard.press("4")
        after(tab, lambda: tab.keyboard.press("2"))
        tab.locator(".card").nth(0).click()
        after(tab, lambda: tab.get_by_role("button", name="3 is worst").click())
        assert [answer[1:3] for answer in page.interview.log.answers] == [
            ("fourth", "second"),
            ("first", "third"),
        ]


def test_scores_are_typed_or_slid(browser):
    page = small_page(kind="score")
    with served(page) as address, tab_of(browser, address) as tab:
        after(tab, lambda: [tab.keyboard.press(key) for key in ("7", ".", "5", "Enter")])
        tab.get_by_label("Score from 0 to 10").fill("3")
        after(tab, lambda: tab.get_by_role("button", name="Save").click())
        assert [answer[3] for answer in page.interview.log.answers] == [7.5, 3.0]


def test_texts_that_want_to_be_scripts_are_shown_as_texts(browser):
    attacks = [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(2)>",
        "</title><svg onload=alert(3)>",
        "${alert(4)}",
    ]
    table = pa.table({"name": attacks, "text": [attack * 20 for attack in attacks]})
    page = small_page(table)
    with served(page) as address, tab_of(browser, address) as tab:
        assert titles(tab) == attacks[:2]
        assert titles_after_answer(tab) == attacks[2:]
        tab.wait_for_selector(".ranking li")
        assert {entry.inner_text() for entry in tab.locator(".ranking .name").all()} == set(attacks)
        assert tab.locator(".corank-ask script, .corank-ask svg, .corank-ask img").count() == 0


def titles_after_answer(tab):
    return after(tab, lambda: tab.keyboard.press("1"))


def test_two_ranked_items_are_explained_and_the_end_says_what_next(browser):
    page = small_page(questions=2)
    with served(page) as address, tab_of(browser, address) as tab:
        titles_after_answer(tab)
        tab.wait_for_selector(".ranking li")
        for at in (3, 1):
            tab.locator(".ranking button").nth(at).click()
        tab.wait_for_selector(".why h3")
        assert "Mostly because of words." in tab.locator(".why").inner_text()
        tab.get_by_role("button", name="Finish").click()
        assert "corank fit items.csv" in tab.locator(".finish").inner_text()
        tab.get_by_role("button", name="Go on").click()
        tab.keyboard.press("2")
        tab.wait_for_selector(".finish")
        with tab.expect_download() as download:
            tab.get_by_role("link", name="Download").click()
        assert download.value.path().read_text().startswith('"rank","name"')


@pytest.mark.parametrize("kind", ["compare", "best-worst", "score"])
@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (360, "dark")])
def test_it_fits_and_buttons_stay_where_they_are(browser, kind, width, scheme):
    words = [" ".join(["word"] * length) for length in (1, 300, 2, 400, 900, 5, 20, 1000)]
    table = pa.table(
        {"name": [f"{'long name ' * n}{n}" for n in range(8)], "text": words, "price": range(8)}
    )
    with served(small_page(table, kind)) as address, tab_of(browser, address, width, scheme) as tab:
        boxes = []
        for _ in range(3):
            boxes.append([button.bounding_box() for button in tab.locator(".actions button").all()])
            after(tab, lambda: tab.get_by_role("button", name="Skip").click())
        assert all(before == now for before, now in pairwise(boxes))
        assert all(box["y"] + box["height"] <= 800 and box["height"] >= 40 for box in boxes[0])
        assert tab.evaluate("document.querySelector('.corank-ask').scrollWidth") <= width


CONTRAST = """(selector) => {
    const light = (colour) => {
        const parts = colour.match(/[\\d.]+/g).slice(0, 3).map((part) => part / 255);
        const linear = parts.map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
    };
    const element = document.querySelector(selector);
    let behind = element;
    while (getComputedStyle(behind).backgroundColor === "rgba(0, 0, 0, 0)") behind = behind.parentElement;
    const [a, b] = [getComputedStyle(element).color, getComputedStyle(behind).backgroundColor].map(light);
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_stand_out_and_pictures_are_shown(browser, tmp_path, scheme):
    (tmp_path / "dot.gif").write_bytes(
        b"GIF89a\x01\x00\x01\x00\x80\x00\x00\xff\x00\x00\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;"
    )
    table = pa.table({"name": ["a", "b", "c", "d"], "photo": ["dot.gif"] * 4, "size": [1, 2, 3, 4]})
    with (
        served(small_page(table, folder=tmp_path)) as address,
        tab_of(browser, address, scheme=scheme) as tab,
    ):
        titles_after_answer(tab)
        tab.wait_for_selector(".ranking .moved.down")
        shown = (
            "h1",
            ".card h2",
            "dt",
            "dd",
            ".strong",
            ".quiet",
            ".count",
            ".hint",
            ".place",
            ".name",
            ".up",
            ".down",
        )
        assert {
            selector: ratio
            for selector in shown
            if (ratio := tab.evaluate(CONTRAST, selector)) < 4.5
        } == {}
        assert tab.evaluate(
            "[...document.querySelectorAll('.card img')].map((picture) => picture.naturalWidth)"
        ) == [
            1,
            1,
        ]


def test_a_stopped_server_is_said_and_answers_are_safe(browser):
    page = small_page()
    server = PageServer(page)
    thread = threading.Thread(target=server.run)
    thread.start()
    tab = browser.new_page()
    tab.goto(server.address)
    tab.wait_for_selector(".card")
    server.stop()
    thread.join()
    tab.keyboard.press("1")
    tab.wait_for_selector(".notice:visible")
    assert "answers.csv" in tab.locator(".notice").inner_text()
    tab.close()


def test_the_module_keeps_the_contract_of_notebooks(browser):
    """`export default { render({ model, el }) }`, with keys that are heard only inside."""
    message = small_page().reply({"action": "start"})
    tab = browser.new_page()
    tab.evaluate(
        """async ([source, message]) => {
            const address = URL.createObjectURL(new Blob([source], {type: "text/javascript"}));
            const { default: widget } = await import(address);
            const el = document.body.appendChild(document.createElement("div"));
            const listeners = [];
            window.sent = [];
            const model = { on: (name, listener) => listeners.push(listener), off: () => listeners.pop() };
            model.send = (content) => { sent.push(content); if (content.action === "start") listeners.forEach((hear) => hear(message)); };
            window.away = widget.render({ model, el });
            window.left = () => listeners.length;
        }""",
        [page_file("page.js"), message],
    )
    assert titles(tab) == ["ape", "bee"]
    tab.keyboard.press("1")
    assert tab.evaluate("sent.map((message) => message.action)") == ["start"]
    tab.locator(".corank-ask").focus()
    tab.keyboard.press("1")
    assert tab.evaluate("sent[1]") == {"action": "answer", "number": 1, "answer": "first"}
    tab.evaluate("away()")
    assert tab.evaluate("left()") == 0
    tab.close()


# ---- the command, killed and started again


class AskProcess:
    """`corank ask` as a process of its own."""

    def __init__(self, folder, *words):
        command = [
            *COMMAND,
            "ask",
            "items.csv",
            "--id",
            "title",
            "--out",
            "answers.csv",
            "--no-browser",
            *words,
        ]
        self.process = subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, text=True, env={**os.environ}
        )
        self.greeting = ""
        while not ADDRESS.search(self.greeting):
            line = self.process.stdout.readline()
            assert line, "corank ask ended"
            self.greeting += line
        self.address = ADDRESS.search(self.greeting)[0]

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)
        said, _ = self.process.communicate(timeout=60)
        assert self.process.returncode == 0
        return said


def test_thirty_answers_with_undo_and_a_killed_process_rank_as_the_file_does(browser, tmp_path):
    proposals = load_peps().table.slice(0, 40)
    write_table(proposals, tmp_path / "items.csv")
    words = dict(zip(proposals["title"].to_pylist(), proposals["words"].to_pylist(), strict=True))

    def answer(tab, number):
        for _ in range(number):
            first, second = titles(tab)
            after(
                tab,
                lambda first=first, second=second: tab.keyboard.press(
                    "1" if words[first] > words[second] else "2"
                ),
            )

    asked = AskProcess(tmp_path)
    try:
        with tab_of(browser, asked.address) as tab:
            answer(tab, 12)
            undone = titles(tab)
            last = after(tab, lambda: tab.keyboard.press("u"))
            assert last != undone
            after(tab, lambda: tab.keyboard.press("u"))
            answer(tab, 5)
            asked.kill()
            tab.keyboard.press("1")
            tab.wait_for_selector(".notice:visible")
    finally:
        asked.kill()
    log = read_answers(tmp_path / "answers.csv")
    assert (len(log.answers), log.undone, log.broken) == (15, 2, [])

    asked = AskProcess(tmp_path)
    try:
        assert "15 answers" in asked.greeting
        with tab_of(browser, asked.address) as tab:
            answer(tab, 15)
            tab.wait_for_selector(".corank-ask[data-learned='30']")
            ranking = tab.context.request.get(
                asked.address.partition("?")[0] + "ranking.csv"
            ).text()
        said = asked.interrupt()
    finally:
        asked.kill()
    assert "30 answers" in said
    assert len(read_answers(tmp_path / "answers.csv").answers) == 30

    learned = (tmp_path / "items.csv", "--comparisons", tmp_path / "answers.csv", "--id", "title")
    run("fit", *learned, "--out", tmp_path / "model.corank", "--quiet")
    ranked = run("rank", tmp_path / "model.corank", tmp_path / "items.csv", "--out", "-").stdout
    on_page, fitted = (
        [row["title"] for row in csv.DictReader(io.StringIO(text))] for text in (ranking, ranked)
    )
    assert on_page == fitted
    for title in on_page[:5]:
        assert title in said
