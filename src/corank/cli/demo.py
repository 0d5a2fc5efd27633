"""What `corank demo` measures: how well a few ratings of one user order the rest of that user's items.

The page that `corank demo` writes: what was compared, for whom it pays, and the model of the last user.

`corank demo`: four ways of guessing which jokes a user likes, from the user's first few ratings.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from corank._messages import count
from corank.cli.console import grid, note, show, size_of, typed
from corank.cli.files import check_model_output, check_report_output
from corank.cli.options import AsJson, Force, Quiet
from corank.datasets import RankingData, load_jokes, make_ranking
from corank.learners import RLS, RankRLS
from corank.metrics import disagreement_error
from corank.report.model import model_parts, parameters
from corank.report.page import Cell, Html, Section, code, facts, figure, origins, page, table, text, verdict, write

FEWEST_RATINGS = 70
POPULARITY = "popularity"


@dataclass(frozen=True)
class Taste:
    """Users to test on, each with the rows of the items they rated, and what every learner is told.

    Attributes
    ----------
    items : (n_items, d) standardised features
    popularity : (n_items,) what everybody thinks of an item, or None
    users : for each user the item numbers (m,) and the scores (m,)
    gamma : kernel width
    table : (n_items, d) features as they came, with `names`
    """

    items: NDArray[np.float64]
    popularity: NDArray[np.float64] | None
    users: list[tuple[NDArray[np.int64], NDArray[np.float64]]]
    gamma: float
    table: NDArray[np.float64]
    names: tuple[str, ...]
    is_made_up: bool = False

    @property
    def learners(self) -> dict[str, Callable[[int, int], Any]]:
        """Each learner, given the number of scored items and a seed. Parameters were chosen on other users."""
        told: dict[str, Any] = {"kernel": "rbf", "gamma": self.gamma, "alpha": 1.0}
        return {
            "RLS": lambda n, seed: RLS(**told),
            "RankRLS": lambda n, seed: RankRLS(weighting="size", **told),
            "Sparse RankRLS": lambda n, seed: RankRLS(
                weighting="size", basis=n // 2, basis_selection="random", random_state=seed, **told
            ),
        }


@dataclass(frozen=True)
class Results:
    """Disagreement of every method: (users, numbers of scored items), the mean over seeds."""

    scored: tuple[int, ...]
    errors: dict[str, NDArray[np.float64]] = field(default_factory=dict)

    def mean(self, method: str) -> NDArray[np.float64]:
        """Over the users: one value for each number of scored items."""
        return np.asarray(self.errors[method].mean(axis=0))

    def standard_error(self, method: str) -> NDArray[np.float64]:
        """Of the mean, over the users."""
        errors = self.errors[method]
        return np.asarray(errors.std(axis=0, ddof=1) / np.sqrt(len(errors)))

    def best(self, at: int) -> set[str]:
        """The methods with the least error, to the three digits that are shown."""
        shown = {method: round(float(self.mean(method)[at]), 3) for method in self.errors}
        return {method for method, value in shown.items() if value == min(shown.values())}


def jokes(n_users: int = 100) -> Taste:
    """The last `n_users` of the 200 users of the jokes with at least 70 ratings, in order of first appearance.

    The 100 users before them were used to choose the parameters. Made-up data where the ratings are not installed.
    """
    try:
        data = load_jokes()
    except FileNotFoundError:
        return _made_up(n_users)
    n_items = int(data.item.max())
    raw = np.empty((n_items, data.X.shape[1]))
    raw[data.item - 1] = data.X
    keen = [rows for rows in _rows_of_queries(data) if len(rows) >= FEWEST_RATINGS][:200]
    return Taste(
        items=_standardised(raw),
        popularity=raw.mean(axis=1),
        users=[(data.item[rows] - 1, data.y[rows]) for rows in keen[-n_users:]],
        gamma=0.001,
        table=raw,
        names=data.feature_names,
    )


def _made_up(n_users: int) -> Taste:
    data = make_ranking(n_queries=n_users, query_size=FEWEST_RATINGS, noise=0.5, random_state=0)
    users = [(data.item[rows], data.y[rows]) for rows in _rows_of_queries(data)]
    return Taste(_standardised(data.X), None, users, 0.1, data.X, data.feature_names, is_made_up=True)


def _rows_of_queries(data: RankingData) -> Iterable[NDArray[np.int64]]:
    """The rows of every query, in order of first appearance."""
    labels, first = np.unique(data.qid, return_index=True)
    return (np.flatnonzero(data.qid == label) for label in labels[np.argsort(first)])


def _standardised(X: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray((X - X.mean(axis=0)) / X.std(axis=0))


def compare(taste: Taste, scored: tuple[int, ...], seeds: int, tick: Callable[[], None] = lambda: None) -> Results:
    """Score a few items of each user, rank the rest, and compare with what the user thinks of them.

    Parameters
    ----------
    taste : Taste
    scored : numbers of scored items
    seeds : how often to draw them; each seed permutes the items of every user once, for all numbers
    tick : called once a user and seed
    """
    methods = [*([POPULARITY] if taste.popularity is not None else []), *taste.learners]
    errors = {method: np.zeros((len(taste.users), len(scored))) for method in methods}
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        for user, (items, scores) in enumerate(taste.users):
            order = rng.permutation(len(items))
            for at, n in enumerate(scored):
                known, rest = order[:n], order[n:]
                for method in methods:
                    predicted = _predicted(taste, method, seed, items, scores, known, rest)
                    errors[method][user, at] += disagreement_error(scores[rest], predicted) / seeds
            tick()
    return Results(scored, errors)


def _predicted(
    taste: Taste,
    method: str,
    seed: int,
    items: NDArray[np.int64],
    scores: NDArray[np.float64],
    known: NDArray[np.int64],
    rest: NDArray[np.int64],
) -> NDArray[np.float64]:
    if method == POPULARITY:
        assert taste.popularity is not None
        return taste.popularity[items[rest]]
    learner = taste.learners[method](len(known), seed).fit(taste.items[items[known]], scores[known])
    return np.asarray(learner.predict(taste.items[items[rest]]))


OWN = """\
# one person's taste, as here
corank fit ratings_of_one_person.csv --score rating --out mine.corank
# one ranking for all users, the unscored rows used where they help
corank fit items.csv --score rating --query user --out items.corank
corank rank items.corank new_items.csv --out ranked.csv
# which method is best on a table, and do the unscored rows help?
corank compare items.csv --score rating --query user --report report.html"""


def write_demo_page(
    path: Path, done: str, finding: str, results: Results, model: Any, about: dict[str, str], *, overwrite: bool
) -> None:
    """Write the page; `done` and `finding` say what was done and what came out, `about` is the model in words."""
    from corank.experiments.methods import chosen_parameters

    sections = [
        Section("Ways to guess", [_curves(results), _table(results), *_for_whom(results)]),
        Section(
            "The model of the last user",
            [facts("What it is", about), parameters(chosen_parameters(model)), *model_parts(model)],
        ),
        Section("With a table of your own", [code(OWN)]),
        Section("How it was made", origins(typed("demo"))),
    ]
    lead = [*([verdict(finding, [])] if finding else []), text(done)]
    title = "Which jokes will you like?" if POPULARITY in results.errors else "What will they like?"
    write(page(title, lead, sections), path, overwrite=overwrite)


def _curves(results: Results) -> Html:
    def draw(ax: Any) -> None:
        for at, method in enumerate(results.errors):
            steps = np.arange(len(results.scored)) + 0.06 * (at - len(results.errors) / 2)
            mean, spread = results.mean(method), results.standard_error(method)
            ax.errorbar(steps, mean, 2 * spread, marker="o", markersize=4, capsize=3, linewidth=1.2, label=method)
        ax.set_xticks(np.arange(len(results.scored)), [str(number) for number in results.scored])
        ax.set(xlabel="scored items of a user", ylabel="share of pairs in the wrong order")
        ax.legend(frameon=False)

    words = "; ".join(f"{name}: {', '.join(f'{v:.3f}' for v in results.mean(name))}" for name in results.errors)
    return figure(
        draw,
        f"Disagreement by number of scored items. {words}",
        "Lower is better, 0.5 is chance. Bars are two standard errors over the users.",
    )


def _table(results: Results) -> Html:
    rows: list[list[str | Cell]] = []
    for method in results.errors:
        cells = zip(results.mean(method), results.standard_error(method), strict=True)
        rows.append(
            [
                method,
                *(
                    Cell(f"{value:.3f}", f"± {error:.3f}", "good" if method in results.best(at) else "")
                    for at, (value, error) in enumerate(cells)
                ),
            ]
        )
    head = ["disagreement with", *(f"{number} scored" for number in results.scored)]
    return table("Share of pairs in the wrong order, the mean over users", head, rows)


def _for_whom(results: Results) -> list[Html]:
    """Users one by one: does their own taste beat what everybody likes?"""
    if POPULARITY not in results.errors:
        return []
    popular, own = (results.errors[name][:, -1] for name in (POPULARITY, "RankRLS"))
    better, most = float(np.mean(own < popular)), results.scored[-1]

    def draw(ax: Any) -> None:
        low, high = min(popular.min(), own.min()) - 0.02, max(popular.max(), own.max()) + 0.02
        ax.plot([low, high], [low, high], color="0.6", linewidth=1)
        ax.scatter(popular, own, s=14, alpha=0.8)
        ax.set(xlabel="disagreement of popularity", ylabel=f"of RankRLS with {most} ratings", aspect="equal")

    words = f"For {better:.0%} of the users {most} ratings of their own beat what everybody likes."
    return [figure(draw, words, f"One dot a user. {words} Those below the line gain.", (4.6, 4.4))]


SCORED, SEEDS = (10, 20, 40), 5
FILE = Path("corank-demo.corank")
READING = "Lower is better, ± is the standard error over users."


def demo(
    out: Annotated[
        Path | None, typer.Option(help="Where to save the model. Default: corank-demo.corank.", show_default=False)
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Where to write the page. Default: beside the model.", show_default=False)
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Rank the built-in jokes for a hundred users, save a model and write a page about it. Takes some seconds."""
    target = _target(out, report, force=force, quiet=quiet)
    page = report or target.with_suffix(".html")
    check_model_output(target, force=force)
    check_report_output(page, force=force)
    began = time.perf_counter()
    from threadpoolctl import threadpool_limits

    taste = jokes()
    if taste.is_made_up and not quiet:
        note("the joke ratings are not part of this installation (they are in the sources): made-up data instead")
    with _progress(quiet=quiet) as progress, threadpool_limits(1):  # many small systems: threads would only wait
        task = progress.add_task("ranking", total=SEEDS * len(taste.users))
        results = compare(taste, SCORED, SEEDS, tick=lambda: progress.advance(task))
    model = _save_last_user(taste, target, force=force)
    about = {
        "method": "RankRLS",
        "fitted on": f"the {len(taste.users[-1][0])} ratings of one user",
        "file": target.name,
    }
    write_demo_page(
        page, f"{_done(taste, results)} {READING}", _finding(results), results, model, about, overwrite=force
    )
    seconds = time.perf_counter() - began
    if as_json:
        typer.echo(json.dumps(_result(taste, results, target, page, seconds), indent=2))
    elif not quiet:
        show(*_story(taste, results, seconds), *_next(target, page))


def _target(out: Path | None, report: Path | None, *, force: bool, quiet: bool) -> Path:
    """Where to save: as told, or a name that is still free, also for the page."""

    def is_free(path: Path) -> bool:
        return not path.exists() and (report is not None or not path.with_suffix(".html").exists())

    if out is not None or force or is_free(FILE):
        return out or FILE
    names = (FILE.with_stem(f"{FILE.stem}-{number}") for number in range(2, 1_000_000))
    target = next(name for name in names if is_free(name))
    if not quiet:
        taken = FILE if FILE.exists() else FILE.with_suffix(".html")
        note(f"{taken} is already there, so the model will be {target}; --force replaces it")
    return target


def _result(taste: Taste, results: Results, target: Path, page: Path, seconds: float) -> dict[str, Any]:
    return {
        "model": str(target),
        "report": str(page),
        "made_up": taste.is_made_up,
        "users": len(taste.users),
        "scored": list(results.scored),
        "disagreement": {
            method: [
                {"value": float(value), "standard_error": float(error)}
                for value, error in zip(results.mean(method), results.standard_error(method), strict=True)
            ]
            for method in results.errors
        },
        "seconds": round(seconds, 3),
    }


def _progress(*, quiet: bool) -> Progress:
    errors = Console(stderr=True)
    parts = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    return Progress(*parts, console=errors, transient=True, disable=quiet or not errors.is_terminal)


def _done(taste: Taste, results: Results) -> str:
    """What was done."""
    numbers = ", ".join(map(str, results.scored[:-1])) + f" or {results.scored[-1]}"
    half = "Sparse RankRLS spans its function with a random half of the scored"
    who, what, rest = count(len(taste.users), "made-up user"), "item", f"{half} items"
    if not taste.is_made_up:
        who = f"{count(len(taste.users), 'user')} with {FEWEST_RATINGS} ratings or more, who had no part in choosing parameters,"
        what = "joke"
        rest = f"a joke is described by the ratings of 100 other people, popularity is their mean, and {half} jokes"
    return (
        f"For each of {who} we score {numbers} {what}s at random and rank the rest. The table shows the share of pairs in "
        f"the wrong order (0.5 is chance), the mean of {SEEDS} draws; {rest}."
    )


def _story(taste: Taste, results: Results, seconds: float) -> list[Any]:
    """What was done, what came out, how to read it."""
    table = grid(
        "",
        ["disagreement with", *(f"{n} scored" for n in results.scored)],
        right=[f"{n} scored" for n in results.scored],
    )
    for method in results.errors:
        cells = []
        for at, (value, error) in enumerate(zip(results.mean(method), results.standard_error(method), strict=True)):
            style = "bold green" if method in results.best(at) else ""
            cells.append(Text.assemble((f"{value:.3f}", style), (f" ± {error:.3f}", "dim")))
        table.add_row(method, *cells)
    return [Text(_done(taste, results)), table, Text(f"{READING} {_finding(results)} ({seconds:.0f} s)"), Text()]


def _finding(results: Results) -> str:
    """What the table shows, as far as it shows what it shows for the jokes."""
    few, many = results.scored[0], results.scored[-1]
    words = []
    if POPULARITY in results.best(0) and POPULARITY not in results.best(-1):
        words.append(
            f"With {few} ratings what everybody likes is the best guess, with {many} it is a user's own taste."
        )
    if abs(results.mean("RLS") - results.mean("RankRLS")).max() < 0.005:
        words.append("RLS and RankRLS coincide here, because one user is one query.")
    return " ".join(words)


def _next(target: Path, page: Path) -> list[Text]:
    """What was saved, and which commands do the same with a table of one's own."""
    return [
        Text(f"Each user was fitted alone. The model of the last one is saved as {target} ({size_of(target)})."),
        Text.assemble("Next: ", (f"corank inspect {target}", "bold"), ", or with a table of your own"),
        Text("  one person's taste, as here:"),
        Text("    corank fit ratings_of_one_person.csv --score rating --out mine.corank", style="bold"),
        Text("  one ranking for all users:"),
        Text("    corank fit items.csv --score rating --query user --out items.corank", style="bold"),
        Text.assemble("The page with figures, to open in a browser: ", (str(page), "bold")),
    ]


def _save_last_user(taste: Taste, target: Path, *, force: bool) -> Any:
    """A model on everything the last user rated, smoothed as these ratings say, with the encoder of the columns."""
    import pyarrow as pa

    from corank.encoder import TableEncoder
    from corank.learners import RankRLS

    items, scores = taste.users[-1]
    columns = pa.table({name: taste.table[:, at] for at, name in enumerate(taste.names)})
    encoder = TableEncoder()
    X = encoder.fit_transform(columns)
    model = RankRLS(gamma=taste.gamma).fit(X[items], scores)
    model.save(target, overwrite=force, encoder=encoder)
    return model
