"""How many functions a walk through corank enters: those that a warm second call runs.

    python tools/walks.py [NAME ...]

A function is a code object of `src/corank`; comprehensions, lambdas and module bodies, whose names
begin with `<`, do not count, and those of threads do. The first call fills caches and imports. Each
number is printed beside that of commit f616e8a and a limit; the status is 1 where one is above it.
"""

from __future__ import annotations

import argparse
import sys
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType, FrameType
from typing import Any

import numpy as np
import pyarrow as pa
from typer.testing import CliRunner

import corank
from corank.cli import app
from corank.interview.interview import Interview

PACKAGE = Path(corank.__file__).parent
FILMS = Path(__file__).resolve().parent.parent / "examples" / "films.csv"
N_ITEMS, N_ANSWERS = 24, 5


def ranking_data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows (96, 6), scores (96,) and the labels (96,) of 12 queries."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((96, 6))
    scores = rows[:, 0] - rows[:, 3] + 0.3 * rng.standard_normal(96)
    return rows, scores, np.repeat(np.arange(12), 8)


def fit_rank_rls() -> None:
    rows, scores, queries = ranking_data()
    corank.RankRLS().fit(rows, scores, qid=queries)


def fit_co_rank_rls() -> None:
    rows, scores, queries = ranking_data()
    views = [corank.View(columns=[0, 1, 2]), corank.View(columns=[3, 4, 5])]
    corank.CoRankRLS(views).fit(rows, scores, qid=queries)


def fit_auto_ranker() -> None:
    rows, scores, queries = ranking_data()
    corank.AutoRanker().fit(rows, scores, qid=queries)


def fit_films() -> None:
    with TemporaryDirectory() as folder:
        words = ["fit", FILMS, "--score", "rating", "--id", "title", "--out", Path(folder) / "m"]
        done = CliRunner().invoke(app, [str(word) for word in words])
    if done.exit_code:
        raise SystemExit(done.output)


def answer_five_questions() -> None:
    size = np.random.default_rng(0).standard_normal(N_ITEMS).round(3)
    table = {
        "name": [f"item {number:02d}" for number in range(N_ITEMS)],
        "size": size.tolist(),
        "kind": ["a", "b", "c"] * (N_ITEMS // 3),
    }
    with Interview(pa.table(table), id="name") as interview:
        for _ in range(N_ANSWERS):
            question = interview.next()
            assert question is not None
            first, second = question.rows
            interview.answer("first" if size[first] > size[second] else "second")
            interview.refresh(ranks=False)
        interview.refresh()
        interview.ranking()
        interview.settled()


@dataclass(frozen=True)
class Walk:
    """A call, the functions that it entered at the start, and how many it may enter."""

    run: Callable[[], None]
    start: int
    limit: int


# at f616e8a, by this script under Python 3.11
WALKS = {
    "RankRLS().fit": Walk(fit_rank_rls, 217, 145),
    "CoRankRLS(views).fit": Walk(fit_co_rank_rls, 234, 170),
    "AutoRanker().fit": Walk(fit_auto_ranker, 159, 140),
    "corank fit films.csv": Walk(fit_films, 389, 303),
    "five answers": Walk(answer_five_questions, 317, 247),
}


def entered(run: Callable[[], None]) -> set[CodeType]:
    """The functions of the package that a second call enters, in whatever thread."""
    run()
    seen: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            seen.add(frame.f_code)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return {code for code in seen if counts(code)}


def counts(code: CodeType) -> bool:
    """Whether a code object is a named function of the package."""
    return Path(code.co_filename).is_relative_to(PACKAGE) and not code.co_name.startswith("<")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", help="walks to take, by the beginning of their names")
    parser.add_argument("--list", action="store_true", help="also list the functions")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    too_long = False
    print(f"{'walk':24} functions  at f616e8a  limit")
    for name, walk in WALKS.items():
        if arguments.names and not name.startswith(tuple(arguments.names)):
            continue
        codes = entered(walk.run)
        too_long |= len(codes) > walk.limit
        print(f"{name:24} {len(codes):9}  {walk.start:10}  {walk.limit:5}")
        if arguments.list:
            places = ((Path(code.co_filename), code.co_qualname) for code in codes)
            for path, function in sorted(places):
                print(f"    {path.relative_to(PACKAGE)}: {function}")
    raise SystemExit(1 if too_long else 0)


if __name__ == "__main__":
    main()
