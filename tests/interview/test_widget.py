"""The page as a widget in a notebook: messages in both directions, and imports that wait until they
are needed.
"""

import subprocess
import sys
import threading

import pandas as pd
import pytest
from small_interview import small_page

import corank
from corank.interview import AnswersInUse
from corank.interview.widget import AskWidget


@pytest.fixture
def widget(monkeypatch):
    """A widget about a small interview; `sent` is what it says, `fresh` is set with the first news."""
    sent, fresh = [], threading.Event()

    def send(self, content, buffers=None):
        sent.append(content)
        if "news" in content and "about" not in content:
            fresh.set()

    monkeypatch.setattr(AskWidget, "send", send)
    page = small_page()
    page.interview.close = lambda: None
    made = AskWidget(page.interview, page.cards, "Which runs faster?", "answers.csv")
    made.sent, made.fresh = sent, fresh
    yield made
    made.close()


def test_messages_are_answered_and_news_are_sent(widget):
    widget._handle_custom_msg({"action": "start"}, [])
    start = next(message for message in widget.sent if "about" in message)
    assert start["about"]["heading"] == "Which runs faster?"
    assert not start["about"]["download"]
    assert widget.fresh.wait(10)
    widget.fresh.clear()
    widget._handle_custom_msg(
        {"action": "answer", "number": start["question"]["number"], "answer": "second"}, []
    )
    assert widget.fresh.wait(10)
    assert widget.interview.log.answers == [((0, 1), "second", "", None)]
    assert [
        card["title"]
        for card in next(m for m in widget.sent if "answers" in m)["question"]["cards"]
    ] == [
        "cat",
        "dog",
    ]
    assert widget.ranking()["name"][0].as_py() == "bee"


def test_nonsense_is_refused_in_words(widget):
    for message in (
        "start",
        {"action": "answer"},
        {"action": "answer", "number": 1, "answer": "fifth"},
    ):
        widget._handle_custom_msg(message, [])
        assert widget.sent[-1]["error"]


def test_a_frame_is_asked_about(tmp_path):
    frame = pd.DataFrame({"name": ["a", "b", "c"], "size": [1, 2, 3]})
    shown = corank.ask(frame, id="name", answers=tmp_path / "answers.csv", show=["size"])
    try:
        assert shown._page.cards.card(0)["fields"] == [("size", "1", False)]
        assert (tmp_path / "answers.csv").exists()
        with pytest.raises(AnswersInUse, match=r"widget\.close\(\)"):
            corank.ask(frame, id="name", answers=tmp_path / "answers.csv")
    finally:
        shown.close()


def test_without_anywidget_there_is_a_sentence(monkeypatch):
    monkeypatch.delitem(sys.modules, "corank.interview.widget", raising=False)
    monkeypatch.setitem(sys.modules, "anywidget", None)
    with pytest.raises(ImportError, match=r"anywidget: pip install 'corank\[notebook\]'"):
        corank.ask(pd.DataFrame({"name": ["a", "b"]}), id="name")


def test_importing_corank_imports_neither_servers_nor_widgets():
    program = (
        "import corank, corank.interview, sys; print({'starlette', 'uvicorn', 'anywidget'} &"
        " set(sys.modules))"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        ).stdout
        == "set()\n"
    )
