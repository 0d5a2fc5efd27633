"""The wording of messages: every refusal that tests of the command line provoke, in one file.

`CORANK_WRITE_MESSAGES=1 python -m pytest tests/cli` writes messages.txt again, to be read before it
is committed.
"""

import os
import re
from itertools import count
from pathlib import Path

import pytest
from command_line import error

MESSAGES = Path(__file__).with_name("messages.txt")
WRITES = bool(os.environ.get("CORANK_WRITE_MESSAGES"))
OTHER_LIBRARIES = re.compile(r"(cut off|no scheduler at \S+): .*")  # say why in words of their own


@pytest.fixture(scope="session")
def messages():
    """Messages by the name of the test that provokes them."""
    kept = {}
    if MESSAGES.exists():
        kept = dict(
            line.split(" | ", 1) for line in MESSAGES.read_text(encoding="utf-8").splitlines()
        )
    yield kept
    if WRITES:
        lines = [f"{case} | {message}\n" for case, message in sorted(kept.items())]
        MESSAGES.write_text("".join(lines), encoding="utf-8")


def everything(folder):
    return sorted(folder.rglob("*"))


@pytest.fixture
def refused(request, messages):
    """`refused(*words, mentions=(), given=None)`: a command fails with one sentence, as
    messages.txt has it, that mentions what is wrong, and leaves nothing behind in the working
    folder."""
    number = count(1)

    def check(*words, mentions=(), given=None):
        before = everything(Path.cwd())
        message = error(*words, given=given)
        assert everything(Path.cwd()) == before, "something was left behind"
        for text in [mentions] if isinstance(mentions, str) else mentions:
            assert text in message, message
        assert len(message) < 500
        wording = OTHER_LIBRARIES.sub(r"\1: …", message)
        name = request.node.name.removeprefix("test_")
        case = f"{name} {at}" if (at := next(number)) > 1 else name
        if WRITES:
            messages[case] = wording
        assert wording == messages.get(case)
        return message

    return check
