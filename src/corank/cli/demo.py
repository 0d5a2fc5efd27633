"""`corank demo`: ten marked items out of 736, and what corank makes of the others.

The items are Python Enhancement Proposals, the truth is a topic that no model sees. The file says
what is learned from, measures how well the unmarked items are ranked, and shows it on the terminal
and as a page.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from corank.cli.console import command, grid, show, show_json, size_of, typed_command
from corank.cli.files import check_model_output, check_report_output
from corank.cli.options import AsJson, File, Force, Quiet, option
from corank.core.arrays import FloatArray, Index
from corank.datasets import ProposalData, load_peps
from corank.encode.encoder import TableEncoder
from corank.learners.average.auto import AutoRegressor
from corank.links import Links, read_links
from corank.metrics import disagreement_error
from corank.report.axes import axis

TOPIC, SUBJECT = "Typing", "type hints"  # what proposals call it, and people
N_MARKS, N_DRAWS, N_QUESTIONS = 10, 3, 5
N_FIRST, N_SHOWN = 20, 10  # places that are counted, and that are listed on the terminal
TEXTS = ("title", "abstract_words")
PLAIN, MARKED, ALL, LINKED = (
    "type, date, counts",
    "+ their text",
    "+ the text of all others",
    "+ who cites whom",
)
USUAL = "tf-idf and logistic regression"
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
    """Mark ten built-in items and rank hundreds of others: from plain columns, from text, from
    links.

    Takes some seconds, and writes nothing unless --out or --report is given.
    """
    if out is not None:
        check_model_output(out, force=force)
    check_report_output(report, force=force)
    began = time.perf_counter()
    errors = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    bar = Progress(
        *columns, console=errors, transient=True, disable=quiet or not errors.is_terminal
    )
    with bar as progress, threadpool_limits(1):  # many small systems: threads would only wait
        task = progress.add_task("ranking", total=N_DRAWS)
        items = DemoItems.load()
        draws = []
        for draw in marked_draws(items):
            draws.append(draw)
            progress.advance(task)
        story = DemoStory(items, draws, next_questions(items, draws[0]))
    if out is not None:
        draws[0].model.save(out, overwrite=force)
    if report is not None:
        _write_page(report, story, force=force)
    seconds = time.perf_counter() - began
    if as_json:
        files = {
            "model": None if out is None else str(out),
            "report": None if report is None else str(report),
        }
        show_json(story.result() | files | {"seconds": round(seconds, 3)})
    elif not quiet:
        _show_story(story, out, report, seconds)


# ---- the items


@dataclass(frozen=True)
class DemoItems:
    """Proposals as each way of ranking takes them.

    Attributes
    ----------
    data : the proposals
    truth : (n,) 1 where a proposal has the topic, else 0
    links : who cites whom
    encoder, features : of all columns, learned from all rows, and what it makes of them
    plain_encoder, plain_features : of all columns but the texts
    tfidf : CSR of the words of all texts
    """

    data: ProposalData
    truth: FloatArray
    links: Links
    encoder: TableEncoder
    features: FloatArray
    plain_encoder: TableEncoder
    plain_features: FloatArray
    tfidf: Any

    @classmethod
    def load(cls) -> DemoItems:
        """Read and encode the proposals."""
        data = load_peps()
        encoder, plain_encoder = TableEncoder(), TableEncoder(ignore=TEXTS)
        texts = [
            " ".join(pair)
            for pair in zip(*(data.X[name].to_pylist() for name in TEXTS), strict=True)
        ]
        return cls(
            data=data,
            truth=data.has_topic(TOPIC).astype(np.float64),
            links=read_links(data.links, len(data.ids), ids=data.ids),
            encoder=encoder,
            features=encoder.fit_transform(data.X),
            plain_encoder=plain_encoder,
            plain_features=plain_encoder.fit_transform(data.X),
            tfidf=TfidfVectorizer().fit_transform(texts),
        )

    def with_marks(self, rows: Index) -> FloatArray:
        """Scores of all items: the truth where they are marked, else NaN."""
        scores = np.full(len(self.truth), np.nan)
        scores[rows] = self.truth[rows]
        return scores

    def fit(self, rows: Index) -> AutoRegressor:
        """A model that knows everything about all items, and the marks of some."""
        model = AutoRegressor(encoder=self.encoder).fit(
            self.features, self.with_marks(rows), links=self.links
        )
        model.table_ = {"score": "mark", "id": "pep", "links": "mutual"}
        return model

    def predict(self, model: AutoRegressor) -> FloatArray:
        """Scores of all items by a model of `fit`."""
        return np.asarray(model.predict(self.features, links=self.links))

    def error(self, predictions: FloatArray, marked: Index) -> float:
        """Share of pairs in the wrong order among the items that are not marked."""
        others = np.setdiff1d(np.arange(len(self.truth)), marked)
        return float(disagreement_error(self.truth[others], predictions[others]))

    def first(self, predictions: FloatArray, marked: Index) -> Index:
        """The items that come first among those that are not marked."""
        order = np.argsort(-predictions, kind="stable")
        return order[~np.isin(order, marked)][:N_FIRST]

    def titles(self, rows: Sequence[int] | Index) -> list[tuple[str, str, str]]:
        """Number, whether it has the topic, and title of some items."""
        return [
            (
                str(self.data.ids[row]),
                "yes" if self.truth[row] else "no",
                self.data.X["title"][int(row)].as_py(),
            )
            for row in rows
        ]


# ---- ranking them


@dataclass(frozen=True)
class MarkedDraw:
    """Ten marked items, and what was made of them.

    Attributes
    ----------
    marked : (10,) rows, those with the topic first
    predictions : scores (n,) of all items by each way of ranking
    model : what was learned from text and links
    """

    marked: Index
    predictions: dict[str, FloatArray]
    model: AutoRegressor


@dataclass(frozen=True)
class DemoQuestions:
    """What the model of a draw would ask next.

    Attributes
    ----------
    asked : (5,) rows
    n_pairs : pairs of one item with the topic and one without, neither marked nor asked about
    error_before, error_after : share of them that is in the wrong order without and with the
        answers
    """

    asked: Index
    n_pairs: int
    error_before: float
    error_after: float


def marked_draws(items: DemoItems, n_draws: int = N_DRAWS) -> Iterator[MarkedDraw]:
    """Mark ten items at random, half of them of the topic, several times over."""
    inside, outside = np.flatnonzero(items.truth > 0), np.flatnonzero(items.truth == 0)
    for number in range(n_draws):
        rng = np.random.default_rng([number, N_MARKS])
        marked = np.concatenate(
            [rng.choice(rows, N_MARKS // 2, replace=False) for rows in (inside, outside)]
        )
        model = items.fit(marked)
        usual = LogisticRegression(max_iter=2000).fit(items.tfidf[marked], items.truth[marked])
        predictions = {**_plain_predictions(items, marked), LINKED: items.predict(model)}
        predictions[USUAL] = np.asarray(usual.decision_function(items.tfidf))
        yield MarkedDraw(marked, predictions, model)


def next_questions(items: DemoItems, draw: MarkedDraw) -> DemoQuestions:
    """Ask what the model of a draw asks, and fit again with the answers."""
    rows = draw.model.suggest(items.features, N_MARKS + N_QUESTIONS, links=items.links)
    asked = rows[~np.isin(rows, draw.marked)][:N_QUESTIONS]
    answered = np.concatenate([draw.marked, asked])
    after = items.predict(items.fit(answered))
    n_inside, n_outside = (
        int(np.sum(np.delete(items.truth, answered) == value)) for value in (1, 0)
    )
    error_before, error_after = (
        items.error(draw.predictions[LINKED], answered),
        items.error(after, answered),
    )
    return DemoQuestions(asked, n_inside * n_outside, error_before, error_after)


def _plain_predictions(items: DemoItems, marked: Index) -> dict[str, FloatArray]:
    """What is learned without text, from the text of the marked items alone, and from that of all."""
    scores, rows = items.with_marks(marked), items.data.X.take(marked)
    plain = AutoRegressor(encoder=items.plain_encoder).fit(items.plain_features, scores)
    few = TableEncoder(text=TEXTS).fit(rows)
    alone = AutoRegressor(encoder=few).fit(few.transform(rows), scores[marked])
    everything = AutoRegressor(encoder=items.encoder).fit(items.features, scores)
    return {
        PLAIN: np.asarray(plain.predict(items.plain_features)),
        MARKED: np.asarray(alone.predict(few.transform(items.data.X))),
        ALL: np.asarray(everything.predict(items.features)),
    }


# ---- what came out


@dataclass(frozen=True)
class DemoTable:
    """A table under a heading, and a remark below it."""

    title: str
    head: list[str]
    rows: Sequence[Sequence[str]]
    remark: str = ""


@dataclass(frozen=True)
class DemoStory:
    """The outcome of all draws in sentences and figures; lists are those of the first draw."""

    items: DemoItems
    draws: Sequence[MarkedDraw]
    questions: DemoQuestions

    @property
    def n_others(self) -> int:
        """Number of items that are not marked."""
        return len(self.items.truth) - N_MARKS

    @property
    def errors(self) -> dict[str, list[float]]:
        """Share of pairs in the wrong order by each way of ranking, per draw."""
        return {
            name: [self.items.error(draw.predictions[name], draw.marked) for draw in self.draws]
            for name in self.draws[0].predictions
        }

    @property
    def hits(self) -> dict[str, list[int]]:
        """How many of the items that come first have the topic, by each way of ranking, per draw."""
        truth = self.items.truth
        return {
            name: [
                int(truth[self.items.first(draw.predictions[name], draw.marked)].sum())
                for draw in self.draws
            ]
            for name in self.draws[0].predictions
        }

    def tables(self, n_first: int) -> list[DemoTable]:
        """Marks, the first items, errors and questions, as a terminal and a page show them."""
        draw, items, hits, about = self.draws[0], self.items, self.hits, f"about {SUBJECT}"
        first = items.titles(items.first(draw.predictions[LINKED], draw.marked)[:n_first])
        errors = [
            (name, _percent(errors), f"{np.mean(hits[name]):.1f}")
            for name, errors in self.errors.items()
        ]
        head = [f"learned from {N_MARKS} marks and", "wrong pairs", f"in the first {N_FIRST}"]
        ranked = [(str(at), *row) for at, row in enumerate(first, 1)]
        return [
            DemoTable("What you marked", ["pep", "you care", "title"], items.titles(draw.marked)),
            DemoTable(
                f"The other {self.n_others}, best first", ["", "pep", about, "title"], ranked
            ),
            DemoTable("What each kind of column adds", head, errors, self.reading()),
            DemoTable(
                "What to ask next",
                ["pep", about, "title"],
                items.titles(self.questions.asked),
                self.asking(),
            ),
        ]

    def opening(self) -> str:
        """What was done."""
        return (
            f"Suppose you care about {SUBJECT}. Of {len(self.items.truth)} Python Enhancement"
            f" Proposals you marked {N_MARKS}: {N_MARKS // 2} that you care about and as many that"
            f" you do not. corank ranks the other {self.n_others}. How well is measured by the"
            " topic that their authors gave them, which no model sees."
        )

    def reading(self) -> str:
        """How the table is to be read."""
        return (
            f"Wrong pairs: of all pairs of a proposal about {SUBJECT} and another one, the share in"
            f" the wrong order (50 % is chance). Last column: how many of the first {N_FIRST} are"
            f" about {SUBJECT}. Means over {len(self.draws)} random sets of {N_MARKS} marks. Text"
            " and citations of all proposals were known to the model, as they are when you rank a"
            " table of items."
        )

    def asking(self) -> str:
        """What the answers to the questions are worth."""
        questions = self.questions
        before, after = (
            error * questions.n_pairs for error in (questions.error_before, questions.error_after)
        )
        return (
            f"Marking these items would teach the model most. With these {N_QUESTIONS} answers"
            f" {after:,.0f} of {questions.n_pairs:,} pairs are in the wrong order, without them"
            f" {before:,.0f}."
        )

    def finding(self) -> str:
        """What the table shows."""
        errors = {name: _percent(values) for name, values in self.errors.items()}
        hits = float(np.mean(self.hits[LINKED]))
        return (
            f"With {N_MARKS} marks, {hits:.0f} of the first {N_FIRST} proposals are about"
            f" {SUBJECT}. The text of unmarked items lowers the share of wrong pairs from"
            f" {errors[MARKED]} to {errors[ALL]}, citations lower it to {errors[LINKED]}."
        )

    def result(self) -> dict[str, Any]:
        """Everything as JSON."""
        draw = self.draws[0]
        lists = {
            "marked": draw.marked,
            "ranked": self.items.first(draw.predictions[LINKED], draw.marked),
            "asked": self.questions.asked,
        }
        return {
            "topic": TOPIC,
            "items": len(self.items.truth),
            "links": len(self.items.data.links),
            "draws": len(self.draws),
            "wrong_pairs": self.errors,
            f"of_first_{N_FIRST}": self.hits,
            **{
                name: [
                    {"pep": int(pep), "title": title, "about": about}
                    for pep, about, title in self.items.titles(rows)
                ]
                for name, rows in lists.items()
            },
            "wrong_pairs_after": {
                "before": self.questions.error_before,
                "after": self.questions.error_after,
            },
        }


def _percent(errors: Sequence[float]) -> str:
    """The mean of shares."""
    return f"{100 * np.mean(errors):.1f} %"


def _show_story(story: DemoStory, out: Path | None, report: Path | None, seconds: float) -> None:
    """What was done, what came out, and which commands do the same with another table."""
    styles = {LINKED: "bold green", USUAL: "dim"}
    show(Text(f"{story.opening()}\n"))
    for table in story.tables(N_SHOWN):
        last = "title" if "title" in table.head else None
        head = table.head if last is None else table.head[:-1]
        rows = [[Text(cell, style=styles.get(row[0], "")) for cell in row] for row in table.rows]
        shown = grid("", head, rows, right=["pep", *(head[1:] if last is None else [])], last=last)
        show(Text(f"{table.title}:"), shown, *([Text(f"{table.remark}\n")] if table.remark else []))
    show(
        Text(f"The same with a table of your own. {OWN_FILE}"),
        *(command(line, "  ") for line in COMMANDS),
    )
    show(Text(f"({seconds:.0f} s)"))
    if out is not None:
        show(Text(f"The model is saved as {out} ({size_of(out)})."))
    if report is None:
        show(command("corank demo --report demo.html", "As a page, with figures: "))
    else:
        show(Text.assemble("The page, to open in a browser: ", (str(report), "bold")))


# ---- the page


def _write_page(path: Path, story: DemoStory, *, force: bool) -> None:
    from corank.report.model import model_parts  # with matplotlib, which is slow to import
    from corank.report.page import Section, code, origins, page, table, text, verdict, write

    sections = []
    for shown in story.tables(N_FIRST):
        text_columns = [
            at for at, name in enumerate(shown.head) if name not in ("pep", *shown.head[:1])
        ]
        figures = [] if "wrong pairs" not in shown.head else [_error_figure(story)]
        listed = table(
            shown.title, shown.head, shown.rows, text_columns=[] if figures else text_columns
        )
        sections.append(
            Section(
                shown.title, [*figures, listed, *([text(shown.remark)] if shown.remark else [])]
            )
        )
    sections += [
        Section("The model", model_parts(story.draws[0].model)),
        Section("With a table of your own", [text(OWN_FILE), code("\n".join(COMMANDS))]),
        Section("How it was made", origins(typed_command("demo"))),
    ]
    lead = [verdict(story.finding(), []), text(story.opening())]
    write(
        page("You marked ten; here are the others you will care about", lead, sections),
        path,
        overwrite=force,
    )


def _error_figure(story: DemoStory) -> str:
    from corank.report.page import figure

    errors = story.errors

    def draw(ax: Any) -> None:
        ax = axis(ax)
        places = np.arange(len(errors))[::-1]
        colours = ["#a0aec0" if name == USUAL else "#2b6cb0" for name in errors]
        means = [100 * np.mean(values) for values in errors.values()]
        ax.barh(places, means, height=0.6, color=colours)
        for place, mean, values in zip(places, means, errors.values(), strict=True):
            ax.plot(
                100 * np.array(values),
                np.full(len(values), place),
                "o",
                markersize=4,
                color="#dd6b20",
            )
            ax.annotate(
                _percent(values), (mean, place), (4, 8), textcoords="offset points", fontsize=9
            )
        ax.set_yticks(places, list(errors))
        ax.set_xlabel("pairs in the wrong order, %")

    listed = "; ".join(f"{name}: {_percent(values)}" for name, values in errors.items())
    about = f"Share of pairs in the wrong order. {listed}"
    return figure(
        draw,
        about,
        f"Shorter is better, 50 % is chance. Dots are draws of {N_MARKS} marks.",
        (8.0, 3.2),
    )
