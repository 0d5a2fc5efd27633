"""How long a person waits on the page of `corank ask`: `python -m benchmarks.clicks [--items N ...]
[--memory]`.

A server is started as a person would start it, on a table with ten columns and an answers file that
is there already, and is sent clicks with two seconds between them. Times are those of an HTTP
client on this machine: from the start of the process to the first question, from a click to the
next question, and from a click to a ranking that has learned from it. `--memory` answers 1,000
questions as fast as they come and says how much memory the process has after 100 of them and at the
end.
"""

from __future__ import annotations

import argparse
import http.client
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from corank.interview import AnswersFile

N_COLUMNS, N_BEFORE, N_CLICKS = 10, 200, 30
PAUSE = 2.0  # seconds between clicks
POLL = 0.2  # seconds between two looks at the ranking
# items → seconds from a click to the next question, 95th percentile
LIMITS = {2_000: 0.1, 100_000: 0.3}
ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)/\?token=(\S+)")


class Judge:
    """Who clicks: prefers items by a function of two columns, and errs in one of ten answers."""

    def __init__(self, n_items: int) -> None:
        rng = np.random.default_rng(0)
        self.columns = rng.normal(size=(n_items, N_COLUMNS)).round(4)
        self.values = self.columns[:, 0] + np.sin(2 * self.columns[:, 1])
        self._rng = rng

    def answer(self, first: int, second: int) -> str:
        """Which of two rows is better."""
        better = self.values[first] > self.values[second]
        return "first" if better != (self._rng.random() < 0.1) else "second"

    def write_table(self, path: Path) -> None:
        """The items as CSV."""
        names = ",".join(["name", *(f"c{at}" for at in range(N_COLUMNS))])
        lines = [
            f"item {row}," + ",".join(map(str, values))
            for row, values in enumerate(self.columns.tolist())
        ]
        path.write_text("\n".join([names, *lines]) + "\n")

    def write_answers(self, path: Path, count: int) -> None:
        """Answers to questions at random, as an earlier interview would have left them."""
        with AnswersFile(path) as file:
            for _ in range(count):
                first, second = (
                    int(row) for row in self._rng.choice(len(self.values), 2, replace=False)
                )
                file.append(
                    "compare", (f"item {first}", f"item {second}"), self.answer(first, second)
                )


class Page:
    """A running server, and what is said to it."""

    def __init__(self, folder: Path) -> None:
        words = ["ask", "items.csv", "--id", "name", "--out", "answers.csv", "--no-browser"]
        begin = time.perf_counter()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "corank", *words],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self.process.stdout is not None
        address = None
        while address is None:
            line = self.process.stdout.readline()
            if not line:
                raise RuntimeError("corank ask has ended without an address")
            address = ADDRESS.search(line)
        self._host = f"127.0.0.1:{address[1]}"
        self._connection = http.client.HTTPConnection(self._host)
        self._connection.request("GET", f"/?token={address[2]}")
        response = self._connection.getresponse()
        response.read()
        self._cookie = (response.getheader("Set-Cookie") or "").partition(";")[0]
        self.question = self.say(action="start")["question"]
        self.seconds_to_start = time.perf_counter() - begin

    def say(self, **message: Any) -> dict[str, Any]:
        """The reply to a message."""
        headers = {
            "Cookie": self._cookie,
            "Origin": f"http://{self._host}",
            "Content-Type": "application/json",
        }
        self._connection.request("POST", "/messages", json.dumps(message), headers)
        reply: dict[str, Any] = json.loads(self._connection.getresponse().read())
        if "error" in reply:
            raise RuntimeError(reply["error"])
        return reply

    def click(self, judge: Judge) -> None:
        """Answer the open question."""
        first, second = (int(name.split()[1]) for name in self._names())
        self.question = self.say(
            action="answer", number=self.question["number"], answer=judge.answer(first, second)
        )["question"]

    def _names(self) -> list[str]:
        return [card["title"] for card in self.question["cards"]]

    def ranked(self) -> int:
        """How many answers the ranking has learned from."""
        ranking = self.say(action="news", version=-1)["news"]["ranking"]
        return 0 if ranking is None else int(ranking["answers"])

    @property
    def resident(self) -> float:
        """Memory of the process in MB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) / 1024

    def end(self) -> None:
        """Stop the server."""
        self.process.terminate()
        self.process.wait()


def clicks(n_items: int, folder: Path) -> dict[str, float]:
    """Seconds that a person waits."""
    judge = Judge(n_items)
    judge.write_table(folder / "items.csv")
    judge.write_answers(folder / "answers.csv", N_BEFORE)
    page = Page(folder)
    to_question: list[float] = []
    to_ranking: list[float] = []
    try:
        while page.ranked() < N_BEFORE:
            time.sleep(POLL)
        for number in range(1, N_CLICKS + 1):
            begin = time.perf_counter()
            page.click(judge)
            to_question.append(time.perf_counter() - begin)
            while time.perf_counter() - begin < PAUSE:
                if len(to_ranking) < number and page.ranked() >= N_BEFORE + number:
                    to_ranking.append(time.perf_counter() - begin)
                time.sleep(POLL)
            while len(to_ranking) < number:
                if page.ranked() >= N_BEFORE + number:
                    to_ranking.append(time.perf_counter() - begin)
                time.sleep(POLL)
    finally:
        page.end()
    return {
        "start": page.seconds_to_start,
        "question, median": float(np.median(to_question)),
        "question, 95 %": float(np.percentile(to_question, 95)),
        "ranking, median": float(np.median(to_ranking)),
        "ranking, 95 %": float(np.percentile(to_ranking, 95)),
    }


def memory(folder: Path, n_items: int = 2_000) -> tuple[float, float]:
    """Resident memory in MB after 100 and after 1,000 answers."""
    judge = Judge(n_items)
    judge.write_table(folder / "items.csv")
    page = Page(folder)
    try:
        sizes = {}
        for number in range(1, 1_001):
            page.click(judge)
            if number in (100, 1_000):
                while page.ranked() < number:
                    time.sleep(0.2)
                sizes[number] = page.resident
    finally:
        page.end()
    return sizes[100], sizes[1_000]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.clicks", description=__doc__)
    parser.add_argument(
        "--items", type=int, nargs="*", default=list(LIMITS), help="sizes of the table"
    )
    parser.add_argument(
        "--memory", action="store_true", help="1,000 answers and the memory of the process"
    )
    options = parser.parse_args()
    if options.memory:
        with tempfile.TemporaryDirectory() as folder:
            before, after = memory(Path(folder))
        print(
            f"resident memory after 100 answers {before:.0f} MB, after 1,000 {after:.0f} MB:"
            f" {after - before:+.0f} (limit +50)"
        )
        return
    for n_items in options.items:
        with tempfile.TemporaryDirectory() as folder:
            seconds = clicks(n_items, Path(folder))
        limit = f", limit {LIMITS[n_items]} s" if n_items in LIMITS else ""
        print(f"{n_items:,} items, {N_BEFORE} answers before, {N_CLICKS} clicks:")
        print(f"  first question {seconds['start']:.2f} s after the start (limit 4 s)")
        print(
            f"  next question {seconds['question, median']:.3f} s, 95 %"
            f" {seconds['question, 95 %']:.3f} s{limit}"
        )
        print(
            f"  ranking {seconds['ranking, median']:.2f} s, 95 % {seconds['ranking, 95 %']:.2f} s"
            " (limit 2 s)"
        )


if __name__ == "__main__":
    main()
