"""`corank demo`: four ways of guessing which jokes a user likes, from the user's first few ratings.

The comparison is that of `corank.experiments.compare`, once per user and number of ratings; this file says what is
compared, and shows what came out as a table and as a page.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text
from threadpoolctl import threadpool_limits

from corank._messages import count
from corank.cli.console import grid, note, show, show_json, size_of, typed_command
from corank.cli.files import check_model_output, check_report_output
from corank.cli.options import AsJson, DemoOut, DemoReport, Force, Quiet
from corank.datasets import load_jokes, make_ranking
from corank.describe import chosen_parameters
from corank.encoder import TableEncoder
from corank.experiments import FittedMethod, Items, Method, Protocol, Task, compare
from corank.learners.rls import RLS, RankRLS
from corank.report.model import model_parts, parameters
from corank.report.page import Cell, Html, Section, code, facts, figure, origins, page, table, text, verdict, write

N_USERS, MIN_RATINGS = 100, 70
SCORED, REPEATS, TEST_SHARE = (10, 20, 40), 3, 0.4  # 0.4 of 70 ratings leaves 42 to score
POPULARITY = "popularity"
FILE = Path("corank-demo.corank")
READING = "Lower is better, ± is the standard error over users."
FIT_ONE = "corank fit ratings_of_one_person.csv --score rating --out mine.corank"
FIT_ALL = "corank fit items.csv --score rating --query user --out items.corank"
NEXT_COMMANDS = f"""\
# one person's taste, as here
{FIT_ONE}
# one ranking for all users, the unscored rows used where they help
{FIT_ALL}
corank rank items.corank new_items.csv --out ranked.csv
# which method is best on a table, and do the unscored rows help?
corank compare items.csv --score rating --query user --report report.html"""


def demo(
    out: DemoOut = None,
    report: DemoReport = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Rank the built-in jokes for a hundred users, save a model and write a page about it.

    Takes some seconds.
    """
    target = _target(out, report, force=force, quiet=quiet)
    page_file = report or target.with_suffix(".html")
    check_model_output(target, force=force)
    check_report_output(page_file, force=force)
    began = time.perf_counter()
    ratings = read_ratings()
    if ratings.is_made_up and not quiet:
        note("the joke ratings are not part of this installation (they are in the sources): made-up data instead")
    with _progress(quiet=quiet) as progress, threadpool_limits(1):  # many small systems: threads would only wait
        task = progress.add_task("ranking", total=len(ratings.users))
        errors = compare_guesses(ratings, after_user=lambda: progress.advance(task))
    model = _save_last_user(ratings, target, force=force)
    _write_page(page_file, ratings, errors, model, target, force=force)
    seconds = time.perf_counter() - began
    if as_json:
        show_json(_result(ratings, errors, target, page_file, seconds))
    elif not quiet:
        _show_result(ratings, errors, target, page_file, seconds)


def _target(out: Path | None, report: Path | None, *, force: bool, quiet: bool) -> Path:
    """Where to save: the given file, or a name that is still free, also for the page."""

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


def _progress(*, quiet: bool) -> Progress:
    errors = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    return Progress(*columns, console=errors, transient=True, disable=quiet or not errors.is_terminal)


# ---- the data


@dataclass(frozen=True)
class UserRatings:
    """Users to test on, each with the items they rated.

    Attributes
    ----------
    table : (n_items, d) features, with `names`
    users : for each user the item numbers (m,) and the scores (m,)
    gamma : kernel width
    """

    table: NDArray[np.float64]
    names: tuple[str, ...]
    users: list[tuple[NDArray[np.int64], NDArray[np.float64]]]
    gamma: float
    is_made_up: bool = False

    @property
    def features(self) -> NDArray[np.float64]:
        """Standardised columns: (n_items, d)."""
        return np.asarray((self.table - self.table.mean(axis=0)) / self.table.std(axis=0))

    @property
    def methods(self) -> list[Method]:
        """Ways to guess. Their parameters were chosen on other users."""
        settings: dict[str, Any] = {"kernel": "rbf", "gamma": self.gamma, "alpha": 1.0}
        learners = {"RLS": RLS, "RankRLS": RankRLS, "Sparse RankRLS": RankRLS}
        fits = {name: partial(_fit_learner, learner, settings, name) for name, learner in learners.items()}
        if not self.is_made_up:
            fits = {POPULARITY: partial(_rank_by_mean, self.table.std(axis=0)), **fits}
        return [Method(name, name, "", fit) for name, fit in fits.items()]


def _fit_learner(learner: Any, settings: dict[str, Any], name: str, task: Task) -> FittedMethod:
    X, y, _ = task.scored
    if name.startswith("Sparse"):
        settings = {**settings, "basis": len(y) // 2, "basis_selection": "random", "random_state": task.seed}
    model = learner(**settings).fit(X, y)
    return FittedMethod(lambda rows: np.asarray(model.predict(rows)), {}, None, 0)


def _rank_by_mean(spread: NDArray[np.float64], task: Task) -> FittedMethod:
    """Mean of the columns as they were before they were standardised, up to a constant."""
    return FittedMethod(lambda rows: np.asarray(rows @ spread), {}, None, 0)


def read_ratings(n_users: int = N_USERS) -> UserRatings:
    """The last `n_users` of the first 200 users of the jokes with at least 70 ratings, in order of first appearance.

    The 100 users before them were used to choose the parameters. Made-up data where the ratings are not installed.
    """
    try:
        data, gamma, is_made_up = load_jokes(), 0.001, False
    except FileNotFoundError:
        data = make_ranking(n_queries=n_users, query_size=MIN_RATINGS, noise=0.5, random_state=0)
        gamma, is_made_up = 0.1, True
    items = data.item - data.item.min()
    features = np.empty((int(items.max()) + 1, data.X.shape[1]))
    features[items] = data.X  # one row per rating: an item has the same columns each time
    labels, first_rows = np.unique(data.qid, return_index=True)
    rows_of_users = [np.flatnonzero(data.qid == label) for label in labels[np.argsort(first_rows)]]
    keen = [rows for rows in rows_of_users if len(rows) >= MIN_RATINGS][:200][-n_users:]
    users = [(items[rows], data.y[rows]) for rows in keen]
    return UserRatings(features, data.feature_names, users, gamma, is_made_up)


def _save_last_user(ratings: UserRatings, target: Path, *, force: bool) -> Any:
    """A model on everything the last user rated, smoothed as these ratings say, with the encoder of the columns."""
    items, scores = ratings.users[-1]
    columns = pa.table({name: ratings.table[:, at] for at, name in enumerate(ratings.names)})
    encoder = TableEncoder()
    features = encoder.fit_transform(columns)
    model = RankRLS(gamma=ratings.gamma).fit(features[items], scores)
    model.save(target, overwrite=force, encoder=encoder)
    return model


# ---- the comparison


@dataclass(frozen=True)
class GuessErrors:
    """Disagreement of every way to guess: (users, numbers of scored items), the mean over draws."""

    scored: tuple[int, ...]
    errors: dict[str, NDArray[np.float64]] = field(default_factory=dict)

    def mean(self, method: str) -> NDArray[np.float64]:
        """Mean over the users: one value for each number of scored items."""
        return np.asarray(self.errors[method].mean(axis=0))

    def standard_error(self, method: str) -> NDArray[np.float64]:
        """Standard error of the mean over the users."""
        errors = self.errors[method]
        return np.asarray(errors.std(axis=0, ddof=1) / np.sqrt(len(errors)))

    def best(self, at: int) -> set[str]:
        """The methods with the least error, to the three digits that are shown."""
        shown = {method: round(float(self.mean(method)[at]), 3) for method in self.errors}
        return {method for method, value in shown.items() if value == min(shown.values())}

    def cells(self, method: str) -> list[tuple[str, str, bool]]:
        """For each number of scored items the error, its standard error, and whether it is the best."""
        pairs = zip(self.mean(method), self.standard_error(method), strict=True)
        return [(f"{mean:.3f}", f"± {se:.3f}", method in self.best(at)) for at, (mean, se) in enumerate(pairs)]


def compare_guesses(
    ratings: UserRatings, scored: tuple[int, ...] = SCORED, after_user: Callable[[], None] = lambda: None
) -> GuessErrors:
    """Score a few items of each user, rank others, and compare with what the user thinks of them."""
    features, methods = ratings.features, ratings.methods
    errors = {method.name: np.zeros((len(ratings.users), len(scored))) for method in methods}
    for user, (items, scores) in enumerate(ratings.users):
        data = Items(features[items], scores)
        for at, number in enumerate(scored):
            limits: Any = {"scored_share": 1.0, "max_scored": number, "max_unscored": 0, "test_share": TEST_SHARE}
            protocol = Protocol(repeats=REPEATS, curves=False, measure="disagreement", seed=user, **limits)
            comparison = compare(data, methods, protocol)
            for name, values in errors.items():
                values[user, at] = comparison.values("disagreement", name).mean()
        after_user()
    return GuessErrors(scored, errors)


# ---- what is printed


def _procedure(ratings: UserRatings, errors: GuessErrors) -> str:
    """What was done."""
    numbers = ", ".join(map(str, errors.scored[:-1])) + f" or {errors.scored[-1]}"
    sparse = "Sparse RankRLS spans its function with a random half of the scored"
    users, item, remark = count(len(ratings.users), "made-up user"), "item", f"{sparse} items"
    if not ratings.is_made_up:
        users = f"{count(len(ratings.users), 'user')} with {MIN_RATINGS} ratings or more, who had no part in choosing "
        users += "parameters,"
        item = "joke"
        remark = f"a joke is described by the ratings of 100 other people, popularity is their mean, and {sparse} jokes"
    return (
        f"For each of {users} we score {numbers} {item}s at random and rank {TEST_SHARE:.0%} of the others. The table shows "
        f"the share of pairs in the wrong order (0.5 is chance), the mean of {REPEATS} draws; {remark}."
    )


def _finding(errors: GuessErrors) -> str:
    """What the table shows, where it shows what it does for the jokes."""
    few, many = errors.scored[0], errors.scored[-1]
    sentences = []
    if POPULARITY in errors.best(0) and POPULARITY not in errors.best(-1):
        sentences.append(
            f"With {few} ratings what everybody likes is the best guess, with {many} it is a user's own taste."
        )
    if abs(errors.mean("RLS") - errors.mean("RankRLS")).max() < 0.005:
        sentences.append("RLS and RankRLS coincide here, because one user is one query.")
    return " ".join(sentences)


def _result(ratings: UserRatings, errors: GuessErrors, target: Path, page: Path, seconds: float) -> dict[str, Any]:
    return {
        "model": str(target),
        "report": str(page),
        "made_up": ratings.is_made_up,
        "users": len(ratings.users),
        "scored": list(errors.scored),
        "disagreement": {
            method: [
                {"value": float(mean), "standard_error": float(se)}
                for mean, se in zip(errors.mean(method), errors.standard_error(method), strict=True)
            ]
            for method in errors.errors
        },
        "seconds": round(seconds, 3),
    }


def _show_result(ratings: UserRatings, errors: GuessErrors, target: Path, page: Path, seconds: float) -> None:
    """What was done, what came out, how to read it, and which commands do the same with another table."""
    head = [f"{number} scored" for number in errors.scored]
    disagreements = grid("", ["disagreement with", *head], right=head)
    for method in errors.errors:
        cells = [
            Text.assemble((mean, "bold green" if best else ""), (f" {se}", "dim"))
            for mean, se, best in errors.cells(method)
        ]
        disagreements.add_row(method, *cells)
    show(
        Text(_procedure(ratings, errors)),
        disagreements,
        Text(f"{READING} {_finding(errors)} ({seconds:.0f} s)"),
        Text(),
        Text(f"Each user was fitted alone. The model of the last one is saved as {target} ({size_of(target)})."),
        Text.assemble("Next: ", (f"corank inspect {target}", "bold"), ", or with a table of your own"),
        Text("  one person's taste, as here:"),
        Text(f"    {FIT_ONE}", style="bold"),
        Text("  one ranking for all users:"),
        Text(f"    {FIT_ALL}", style="bold"),
        Text.assemble("The page with figures, to open in a browser: ", (str(page), "bold")),
    )


# ---- the page


def _write_page(
    path: Path, ratings: UserRatings, errors: GuessErrors, model: Any, target: Path, *, force: bool
) -> None:
    fitted_on = f"the {len(ratings.users[-1][0])} ratings of one user"
    about = {"method": "RankRLS", "fitted on": fitted_on, "file": target.name}
    model_section = [facts("What it is", about), parameters(chosen_parameters(model)), *model_parts(model)]
    sections = [
        Section("Ways to guess", [_curves(errors), _error_table(errors), *_users_figure(errors)]),
        Section("The model of the last user", model_section),
        Section("With a table of your own", [code(NEXT_COMMANDS)]),
        Section("How it was made", origins(typed_command("demo"))),
    ]
    finding = _finding(errors)
    lead = [*([verdict(finding, [])] if finding else []), text(f"{_procedure(ratings, errors)} {READING}")]
    title = "What will they like?" if ratings.is_made_up else "Which jokes will you like?"
    write(page(title, lead, sections), path, overwrite=force)


def _curves(errors: GuessErrors) -> Html:
    def draw(ax: Any) -> None:
        for at, method in enumerate(errors.errors):
            steps = np.arange(len(errors.scored)) + 0.06 * (at - len(errors.errors) / 2)
            bars = 2 * errors.standard_error(method)
            ax.errorbar(
                steps, errors.mean(method), bars, marker="o", markersize=4, capsize=3, linewidth=1.2, label=method
            )
        ax.set_xticks(np.arange(len(errors.scored)), [str(number) for number in errors.scored])
        ax.set(xlabel="scored items of a user", ylabel="share of pairs in the wrong order")
        ax.legend(frameon=False)

    curves = "; ".join(f"{name}: {', '.join(mean for mean, _, _ in errors.cells(name))}" for name in errors.errors)
    return figure(
        draw,
        f"Disagreement by number of scored items. {curves}",
        "Lower is better, 0.5 is chance. Bars are two standard errors over the users.",
    )


def _error_table(errors: GuessErrors) -> Html:
    rows: list[list[str | Cell]] = [
        [method, *(Cell(mean, se, "good" if best else "") for mean, se, best in errors.cells(method))]
        for method in errors.errors
    ]
    head = ["disagreement with", *(f"{number} scored" for number in errors.scored)]
    return table("Share of pairs in the wrong order, the mean over users", head, rows)


def _users_figure(errors: GuessErrors) -> list[Html]:
    """Users one by one: does their own taste beat what everybody likes?"""
    if POPULARITY not in errors.errors:
        return []
    popular, personal = (errors.errors[name][:, -1] for name in (POPULARITY, "RankRLS"))
    better, most = float(np.mean(personal < popular)), errors.scored[-1]

    def draw(ax: Any) -> None:
        low, high = min(popular.min(), personal.min()) - 0.02, max(popular.max(), personal.max()) + 0.02
        ax.plot([low, high], [low, high], color="0.6", linewidth=1)
        ax.scatter(popular, personal, s=14, alpha=0.8)
        ax.set(xlabel="disagreement of popularity", ylabel=f"of RankRLS with {most} ratings", aspect="equal")

    finding = f"For {better:.0%} of the users {most} ratings of their own beat what everybody likes."
    return [figure(draw, finding, f"One dot per user. {finding} Those below the line gain.", (4.6, 4.4))]
