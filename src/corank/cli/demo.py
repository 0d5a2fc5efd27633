"""`corank demo`: ten marked items out of 736, and what corank makes of the others.

The items are Python Enhancement Proposals, the truth is a topic that no model sees. The file says what is learned from,
measures how well the unmarked items are ranked, and shows it on the terminal and as a page.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from corank.auto import AutoRegressor
from corank.cli.console import command, grid, show, show_json, size_of, typed_command
from corank.cli.files import check_model_output, check_report_output
from corank.cli.options import AsJson, DemoOut, DemoReport, Force, Quiet
from corank.datasets import ProposalData, load_peps
from corank.encoder import TableEncoder
from corank.links import Links, read_links
from corank.metrics import disagreement_error

TOPIC, SUBJECT = "Typing", "type hints"  # what proposals call it, and people
N_MARKS, N_DRAWS, N_QUESTIONS = 10, 3, 5
N_FIRST, N_SHOWN = 20, 10  # places that are counted, and that are listed on the terminal
TEXTS = ("title", "abstract_words")
PLAIN, MARKED, ALL, LINKED = "type, date, counts", "+ their text", "+ the text of all others", "+ who cites whom"
USUAL = "tf-idf and logistic regression"
COMMANDS = (
    "corank fit items.csv --score mark --id item --links links.csv --out items.corank",
    "corank rank items.corank items.csv --links links.csv --out ranked.csv",
    "corank suggest items.corank items.csv --links links.csv --out questions.csv",
)
OWN_FILE = (
    "items.csv has a row per item: text, numbers, dates, categories, and a mark or rating that is empty for most. "
    "links.csv has two columns of items that belong together; leave out --links without it."
)


def demo(
    out: DemoOut = None,
    report: DemoReport = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Mark ten built-in items and rank hundreds of others: from plain columns, from text, from links.

    Takes some seconds, and writes nothing unless --out or --report is given.
    """
    if out is not None:
        check_model_output(out, force=force)
    check_report_output(report, force=force)
    began = time.perf_counter()
    with _progress(quiet=quiet) as progress, threadpool_limits(1):  # many small systems: threads would only wait
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
        files = {"model": None if out is None else str(out), "report": None if report is None else str(report)}
        show_json(story.result() | files | {"seconds": round(seconds, 3)})
    elif not quiet:
        _show_story(story, out, report, seconds)


def _progress(*, quiet: bool) -> Progress:
    errors = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    return Progress(*columns, console=errors, transient=True, disable=quiet or not errors.is_terminal)


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
    truth: NDArray[np.float64]
    links: Links
    encoder: TableEncoder
    features: NDArray[np.float64]
    plain_encoder: TableEncoder
    plain_features: NDArray[np.float64]
    tfidf: Any

    @classmethod
    def load(cls) -> DemoItems:
        """Read and encode the proposals."""
        data = load_peps()
        encoder, plain_encoder = TableEncoder(), TableEncoder(ignore=TEXTS)
        texts = [" ".join(pair) for pair in zip(*(data.X[name].to_pylist() for name in TEXTS), strict=True)]
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

    def with_marks(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Scores of all items: the truth where they are marked, else NaN."""
        scores = np.full(len(self.truth), np.nan)
        scores[rows] = self.truth[rows]
        return scores

    def fit(self, rows: NDArray[np.int64]) -> AutoRegressor:
        """A model that knows everything about all items, and the marks of some."""
        model = AutoRegressor(encoder=self.encoder).fit(self.features, self.with_marks(rows), links=self.links)
        model.table_ = {"score": "mark", "id": "pep", "links": "mutual"}
        return model

    def predict(self, model: AutoRegressor) -> NDArray[np.float64]:
        """Scores of all items by a model of `fit`."""
        return np.asarray(model.predict(self.features, links=self.links))

    def error(self, predictions: NDArray[np.float64], marked: NDArray[np.int64]) -> float:
        """Share of pairs in the wrong order among the items that are not marked."""
        others = np.setdiff1d(np.arange(len(self.truth)), marked)
        return float(disagreement_error(self.truth[others], predictions[others]))

    def first(self, predictions: NDArray[np.float64], marked: NDArray[np.int64]) -> NDArray[np.int64]:
        """The items that come first among those that are not marked."""
        order = np.argsort(-predictions, kind="stable")
        return order[~np.isin(order, marked)][:N_FIRST]

    def titles(self, rows: Sequence[int] | NDArray[np.int64]) -> list[tuple[str, str, str]]:
        """Number, title and whether it has the topic, of some items."""
        about = ("no", "yes")
        return [
            (str(self.data.ids[row]), self.data.X["title"][int(row)].as_py(), about[int(self.truth[row])])
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

    marked: NDArray[np.int64]
    predictions: dict[str, NDArray[np.float64]]
    model: AutoRegressor


@dataclass(frozen=True)
class DemoQuestions:
    """What the model of a draw would ask next.

    Attributes
    ----------
    asked : (5,) rows
    n_pairs : pairs of one item with the topic and one without, neither marked nor asked about
    error_before, error_after : share of them that is in the wrong order without and with the answers
    """

    asked: NDArray[np.int64]
    n_pairs: int
    error_before: float
    error_after: float


def marked_draws(items: DemoItems, n_draws: int = N_DRAWS) -> Iterator[MarkedDraw]:
    """Mark ten items at random, half of them of the topic, several times over."""
    inside, outside = np.flatnonzero(items.truth > 0), np.flatnonzero(items.truth == 0)
    for number in range(n_draws):
        rng = np.random.default_rng([number, N_MARKS])
        picked = [rng.choice(rows, N_MARKS // 2, replace=False) for rows in (inside, outside)]
        marked = np.concatenate(picked)
        model = items.fit(marked)
        predictions = {**_plain_predictions(items, marked), LINKED: items.predict(model)}
        predictions[USUAL] = _usual_predictions(items, marked)
        yield MarkedDraw(marked, predictions, model)


def next_questions(items: DemoItems, draw: MarkedDraw) -> DemoQuestions:
    """Ask what the model of a draw asks, and fit again with the answers."""
    rows = draw.model.suggest(items.features, N_MARKS + N_QUESTIONS, links=items.links)
    asked = rows[~np.isin(rows, draw.marked)][:N_QUESTIONS]
    answered = np.concatenate([draw.marked, asked])
    after = items.predict(items.fit(answered))
    n_inside, n_outside = (int(np.sum(np.delete(items.truth, answered) == value)) for value in (1, 0))
    error_before, error_after = items.error(draw.predictions[LINKED], answered), items.error(after, answered)
    return DemoQuestions(asked, n_inside * n_outside, error_before, error_after)


def _plain_predictions(items: DemoItems, marked: NDArray[np.int64]) -> dict[str, NDArray[np.float64]]:
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


def _usual_predictions(items: DemoItems, marked: NDArray[np.int64]) -> NDArray[np.float64]:
    model = LogisticRegression(max_iter=2000).fit(items.tfidf[marked], items.truth[marked])
    return np.asarray(model.decision_function(items.tfidf))


# ---- what came out


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
            name: [int(truth[self.items.first(draw.predictions[name], draw.marked)].sum()) for draw in self.draws]
            for name in self.draws[0].predictions
        }

    def rows(self) -> list[tuple[str, str, str]]:
        """One row per way of ranking: its error and its hits, means over draws."""
        hits = self.hits
        return [(name, _percent(errors), f"{np.mean(hits[name]):.1f}") for name, errors in self.errors.items()]

    def opening(self) -> str:
        """What was done."""
        return (
            f"Say you care about {SUBJECT}. Of {len(self.items.truth)} Python Enhancement Proposals you marked "
            f"{N_MARKS}: {N_MARKS // 2} that you care about and as many that you do not. corank ranks the other "
            f"{self.n_others}. The topic that their authors gave them, which no model sees, says how well."
        )

    def reading(self) -> str:
        """How the table is to be read."""
        return (
            f"Wrong pairs: the share of pairs of one about {SUBJECT} and one not that are in the wrong order (50 % is "
            f"chance); then how many of the {N_FIRST} on top are about {SUBJECT}. Means of {len(self.draws)} draws of "
            f"{N_MARKS} marks. Text and citations of all proposals were known when the model was fitted, as they are "
            "when a table of items is ranked."
        )

    def asking(self) -> str:
        """What the answers to the questions are worth."""
        questions = self.questions
        before, after = (error * questions.n_pairs for error in (questions.error_before, questions.error_after))
        return (
            f"These are the items whose marks say most about all others. With the {N_QUESTIONS} answers {after:,.0f} of "
            f"{questions.n_pairs:,} pairs are in the wrong order, without them {before:,.0f}."
        )

    def finding(self) -> str:
        """What the table shows."""
        errors = {name: _percent(values) for name, values in self.errors.items()}
        hits = float(np.mean(self.hits[LINKED]))
        return (
            f"With {N_MARKS} marks, {hits:.0f} of the {N_FIRST} proposals on top are about {SUBJECT}. The text of items "
            f"without a mark takes the share of wrong pairs from {errors[MARKED]} to {errors[ALL]}, citations to "
            f"{errors[LINKED]}."
        )

    def result(self) -> dict[str, Any]:
        """Everything as JSON."""
        draw, hits = self.draws[0], self.hits
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
            f"of_first_{N_FIRST}": hits,
            **{
                name: [
                    {"pep": int(pep), "title": title, "about": about} for pep, title, about in self.items.titles(rows)
                ]
                for name, rows in lists.items()
            },
            "wrong_pairs_after": {"before": self.questions.error_before, "after": self.questions.error_after},
        }


def _percent(errors: Sequence[float]) -> str:
    """The mean of shares."""
    return f"{100 * np.mean(errors):.1f} %"


def _show_story(story: DemoStory, out: Path | None, report: Path | None, seconds: float) -> None:
    """What was done, what came out, and which commands do the same with another table."""
    draw, items = story.draws[0], story.items
    head = ["wrong pairs", f"of the first {N_FIRST}"]
    errors = grid("", [f"learned from {N_MARKS} marks and", *head], right=head)
    for name, error, hits in story.rows():
        style = "bold green" if name == LINKED else "dim" if name == USUAL else ""
        errors.add_row(Text(name, style=style), Text(error, style=style), Text(hits, style=style))
    first = items.first(draw.predictions[LINKED], draw.marked)[:N_SHOWN]
    about = f"about {SUBJECT}"
    show(
        Text(story.opening()),
        _titles(["you care", "pep"], [(care, pep, title) for pep, title, care in items.titles(draw.marked)]),
        Text(f"The other {story.n_others}, best first:"),
        _titles(["", "pep", about], [(str(at), *row) for at, row in enumerate(_turned(items.titles(first)), 1)]),
        Text("What each kind of column adds:"),
        errors,
        Text(story.reading()),
        Text(),
        Text("What to ask next:"),
        _titles(["pep", about], _turned(items.titles(story.questions.asked))),
        Text(f"{story.asking()} ({seconds:.0f} s)"),
        Text(),
        Text(f"The same with a table of your own. {OWN_FILE}"),
        *(command(line, "  ") for line in COMMANDS),
    )
    if out is not None:
        show(Text(f"The model is saved as {out} ({size_of(out)})."))
    if report is None:
        show(command("corank demo --report demo.html", "As a page, with figures: "))
    else:
        show(Text.assemble("The page, to open in a browser: ", (str(report), "bold")))


def _turned(titles: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Rows with the title last."""
    return [(pep, about, title) for pep, title, about in titles]


def _titles(head: list[str], rows: Sequence[Sequence[str]]) -> Any:
    table = grid("", head, right=["pep"], last="title")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


# ---- the page


def _write_page(path: Path, story: DemoStory, *, force: bool) -> None:
    from corank.report.model import model_parts  # with matplotlib, which is slow to import
    from corank.report.page import Section, code, origins, page, table, text, verdict, write

    draw, items = story.draws[0], story.items
    about = f"about {SUBJECT}"
    head = [f"learned from {N_MARKS} marks and", "wrong pairs", f"of the first {N_FIRST}"]
    first = items.titles(items.first(draw.predictions[LINKED], draw.marked))
    ranked = [[str(at), *row] for at, row in enumerate(first, 1)]
    sections = [
        Section("What you marked", [_title_table("Marks of the first draw", "you care", items.titles(draw.marked))]),
        Section(
            "What comes first",
            [
                table(
                    f"The first of the other {story.n_others}", ["", "pep", "title", about], ranked, text_columns=(2, 3)
                )
            ],
        ),
        Section(
            "What each kind of column adds",
            [_error_figure(story), table("Means over draws", head, story.rows()), text(story.reading())],
        ),
        Section(
            "What to ask next",
            [_title_table("Questions", about, items.titles(story.questions.asked)), text(story.asking())],
        ),
        Section("The model", model_parts(draw.model)),
        Section("With a table of your own", [text(OWN_FILE), code("\n".join(COMMANDS))]),
        Section("How it was made", origins(typed_command("demo"))),
    ]
    lead = [verdict(story.finding(), []), text(story.opening())]
    write(page("You marked ten; here are the others you will care about", lead, sections), path, overwrite=force)


def _title_table(caption: str, about: str, titles: list[tuple[str, str, str]]) -> str:
    from corank.report.page import table

    return table(caption, ["pep", "title", about], titles, text_columns=(1, 2))


def _error_figure(story: DemoStory) -> str:
    from corank.report.page import figure

    errors = story.errors

    def draw(ax: Any) -> None:
        places = np.arange(len(errors))[::-1]
        colours = ["#a0aec0" if name == USUAL else "#2b6cb0" for name in errors]
        means = [100 * np.mean(values) for values in errors.values()]
        ax.barh(places, means, height=0.6, color=colours)
        for place, mean, values in zip(places, means, errors.values(), strict=True):
            ax.plot(100 * np.array(values), np.full(len(values), place), "o", markersize=4, color="#dd6b20")
            ax.annotate(_percent(values), (mean, place), (4, 8), textcoords="offset points", fontsize=9)
        ax.set_yticks(places, list(errors))
        ax.set_xlabel("pairs in the wrong order, %")
        ax.spines[["top", "right"]].set_visible(False)

    listed = "; ".join(f"{name}: {_percent(values)}" for name, values in errors.items())
    about = f"Share of pairs in the wrong order. {listed}"
    return figure(draw, about, f"Shorter is better, 50 % is chance. Dots are draws of {N_MARKS} marks.", (8.0, 3.2))
