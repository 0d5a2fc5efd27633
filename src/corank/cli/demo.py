"""`corank demo`: fit, rank and report on 736 built-in items, ten of them marked.

The items are Python Enhancement Proposals, the truth is a topic that the model does not see.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.text import Text

from corank.cli.console import (
    check_model_output,
    check_report_output,
    command,
    show,
    show_json,
    size_of,
    typed_command,
    working,
)
from corank.cli.options import AsJson, File, Force, Quiet, option
from corank.core.arrays import FloatArray, Index, Mask
from corank.datasets import ProposalData, load_peps
from corank.display import Table
from corank.encode.encoder import TableEncoder
from corank.learners.average.auto import AutoRegressor
from corank.links import read_links
from corank.metrics import disagreement_error

TOPIC, SUBJECT = "Typing", "type hints"  # what proposals call it, and people
N_MARKS, N_QUESTIONS = 10, 5
N_FIRST, N_SHOWN = 20, 10  # places that are counted, and that are listed on the terminal
COMMANDS = (
    "corank fit items.csv --score mark --id item --links links.csv --out items.corank",
    "corank rank items.corank items.csv --links links.csv --out ranked.csv",
    "corank suggest items.corank items.csv --links links.csv --out questions.csv",
)
OWN_FILE = (
    "items.csv has a row per item: text, numbers, dates, categories, and a mark or rating that is"
    " empty for most items. links.csv has two columns of items that belong together; if you have"
    " none, leave out --links."
)


def demo(
    out: File = option("Save the model here."),
    report: File = option("Also write everything as one HTML page, NAME.html."),
    force: Force = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Mark ten built-in items and rank hundreds of others, from their columns, text and links.

    Takes some seconds, and writes nothing unless --out or --report is given.
    """
    if out is not None:
        check_model_output(out, force=force)
    check_report_output(report, force=force)
    began = time.perf_counter()
    with working(quiet=quiet) as step:
        step("ranking")
        ranking = DemoRanking.of(load_peps())
        if out is not None:
            ranking.model.save(out, overwrite=force)
        if report is not None:
            _write_page(report, ranking, force=force)
    seconds = time.perf_counter() - began
    if as_json:
        files = {"model": out, "report": report, "seconds": round(seconds, 3)}
        show_json(ranking.result() | files)
    elif not quiet:
        _show_ranking(ranking, out, report, seconds)


# ---- fit and rank


@dataclass(frozen=True)
class DemoRanking:
    """Ten marked items, and what a model makes of the others.

    Attributes
    ----------
    data : the proposals
    truth : (n,) whether a proposal has the topic
    marked : (10,) rows, those with the topic first
    model : what was learned from all columns, the links and the marks
    scores : (n,) its predictions
    asked : (5,) rows whose marks would teach it most
    """

    data: ProposalData
    truth: Mask
    marked: Index
    model: AutoRegressor
    scores: FloatArray
    asked: Index

    @classmethod
    def of(cls, data: ProposalData) -> DemoRanking:
        """Mark ten items at random, half of them of the topic, and learn from them."""
        truth = data.has_topic(TOPIC)
        rng = np.random.default_rng([0, N_MARKS])
        halves = np.flatnonzero(truth), np.flatnonzero(~truth)
        marked = np.concatenate([rng.choice(rows, N_MARKS // 2, replace=False) for rows in halves])
        marks = np.full(len(truth), np.nan)
        marks[marked] = truth[marked]
        links = read_links(data.links, len(data.ids), ids=data.ids)
        encoder = TableEncoder()
        features = encoder.fit_transform(data.X)
        model = AutoRegressor(encoder=encoder).fit(features, marks, links=links)
        model.table_ = {"score": "mark", "id": "pep", "links": "mutual"}
        scores = np.asarray(model.predict(features, links=links))
        asked = model.suggest(features, N_MARKS + N_QUESTIONS, links=links)
        asked = asked[~np.isin(asked, marked)][:N_QUESTIONS]
        return cls(data, truth, marked, model, scores, asked)

    @property
    def others(self) -> Index:
        """The rows that are not marked, the best first."""
        order = np.argsort(-self.scores, kind="stable")
        return order[~np.isin(order, self.marked)]

    @property
    def wrong_pairs(self) -> float:
        """Share of pairs in the wrong order among the items that are not marked."""
        return float(disagreement_error(self.truth[self.others], self.scores[self.others]))

    @property
    def n_right(self) -> int:
        """How many of the items that come first have the topic."""
        return int(self.truth[self.others[:N_FIRST]].sum())

    def titles(self, rows: Iterable[int]) -> list[tuple[str, str, str]]:
        """Number, whether it has the topic, and title of some items."""
        ids = self.data.ids
        titles = self.data.X["title"].to_pylist()
        return [(str(ids[row]), "yes" if self.truth[row] else "no", titles[row]) for row in rows]

    def tables(self, n_first: int) -> list[Table]:
        """Marks, the first items and questions, as a terminal and a page show them."""
        first = enumerate(self.titles(self.others[:n_first]), start=1)
        ranked = [(str(place), *row) for place, row in first]
        head = ("pep", f"about {SUBJECT}", "title")
        asking = "Marking these items would teach the model most."
        parts: list[tuple[str, Any, Any, str]] = [
            ("What you marked", self.titles(self.marked), ("pep", "you care", "title"), ""),
            (f"The other {len(self.others)}, best first", ranked, ("", *head), self.finding()),
            ("What to ask next", self.titles(self.asked), head, asking),
        ]
        return [
            Table(title, rows, names, numbers=("", "pep"), folds=True, remark=remark)
            for title, rows, names, remark in parts
        ]

    def opening(self) -> str:
        """What was done."""
        return (
            f"Suppose you care about {SUBJECT}. Of {len(self.truth)} Python Enhancement Proposals"
            f" you marked {N_MARKS}: {N_MARKS // 2} that you care about and as many that you do"
            f" not. corank ranks the other {len(self.others)}, from their columns, their text and"
            " who cites whom. How well is measured by the topic that their authors gave them, which"
            " the model does not see."
        )

    def finding(self) -> str:
        """How good the ranking is."""
        return (
            f"With {N_MARKS} marks, {self.n_right} of the first {N_FIRST} proposals are about"
            f" {SUBJECT}. Of all pairs of a proposal about {SUBJECT} and another one,"
            f" {self.wrong_pairs:.1%} are in the wrong order; 50 % is chance."
        )

    def result(self) -> dict[str, Any]:
        """Everything as JSON."""
        lists = {"marked": self.marked, "ranked": self.others[:N_FIRST], "asked": self.asked}
        return {
            "topic": TOPIC,
            "items": len(self.truth),
            "links": len(self.data.links),
            "wrong_pairs": self.wrong_pairs,
            f"of_first_{N_FIRST}": self.n_right,
            **{
                name: [
                    {"pep": int(pep), "title": title, "about": about}
                    for pep, about, title in self.titles(rows)
                ]
                for name, rows in lists.items()
            },
        }


# ---- report


def _show_ranking(
    ranking: DemoRanking, out: Path | None, report: Path | None, seconds: float
) -> None:
    """What was done, what came out, and which commands do the same with another table."""
    show(Text(ranking.opening()))
    for table in ranking.tables(N_SHOWN):
        show(Text(), table)
    show(Text(f"\nThe same with a table of your own. {OWN_FILE}"))
    show(*(command(line, "  ") for line in COMMANDS), Text(f"({seconds:.0f} s)"))
    if out is not None:
        show(Text(f"The model is saved as {out} ({size_of(out)})."))
    if report is None:
        show(command("corank demo --report demo.html", "As a page, with figures: "))
    else:
        show(Text.assemble("The page, to open in a browser: ", (str(report), "bold")))


def _write_page(path: Path, ranking: DemoRanking, *, force: bool) -> None:
    from corank.report.page import (
        Section,
        code,
        model_parts,  # with matplotlib, which is slow to import
        origins,
        page,
        text,
        verdict,
        write,
    )

    sections = [
        *(Section(table.title, [table.to_html()]) for table in ranking.tables(N_FIRST)),
        Section("The model", model_parts(ranking.model)),
        Section("With a table of your own", [text(OWN_FILE), code("\n".join(COMMANDS))]),
        Section("How it was made", origins(typed_command("demo"))),
    ]
    lead = [verdict(ranking.finding(), []), text(ranking.opening())]
    title = "You marked ten; here are the others you will care about"
    write(page(title, lead, sections), path, overwrite=force)
