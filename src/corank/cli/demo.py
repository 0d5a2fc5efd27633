"""`corank demo`: four ways of guessing which jokes a user likes, from the user's first few ratings."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from corank.cli.console import check_model_output, count, grid, note, show, size_of

if TYPE_CHECKING:
    from corank.cli.taste import Results, Taste

SCORED, SEEDS = (10, 20, 40), 5
FILE = Path("corank-demo.corank")


def demo(
    out: Annotated[
        Path | None, typer.Option(help="Where to save the model. Default: corank-demo.corank.", show_default=False)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is already there.")] = False,
) -> None:
    """Rank the built-in jokes for a hundred users and save a model. Takes some seconds."""
    target = _target(out, force=force)
    began = time.perf_counter()
    from corank.cli.taste import compare, jokes

    taste = jokes()
    if taste.is_made_up:
        note("the joke ratings are not part of this installation (they are in the sources): made-up data instead")
    with _progress() as progress:
        task = progress.add_task("ranking", total=SEEDS * len(taste.users))
        results = compare(taste, SCORED, SEEDS, tick=lambda: progress.advance(task))
    show(*_story(taste, results, time.perf_counter() - began))
    _save_last_user(taste, target, force=force)
    show(*_next(target))


def _target(out: Path | None, *, force: bool) -> Path:
    """Where to save: as told, or a name that is still free."""
    if out is not None or force or not FILE.exists():
        target = out or FILE
    else:
        names = (FILE.with_stem(f"{FILE.stem}-{number}") for number in range(2, 1_000_000))
        target = next(name for name in names if not name.exists())
        note(f"{FILE} is already there, so the model will be {target}; --force replaces it")
    check_model_output(target, force=force)
    return target


def _progress() -> Progress:
    errors = Console(stderr=True)
    parts = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    return Progress(*parts, console=errors, transient=True, disable=not errors.is_terminal)


def _story(taste: Taste, results: Results, seconds: float) -> list[Any]:
    """What was done, what came out, how to read it."""
    from corank.cli.taste import FEWEST_RATINGS

    numbers = ", ".join(map(str, results.scored[:-1])) + f" or {results.scored[-1]}"
    half = "Sparse RankRLS spans its function with a random half of the scored"
    who, what, rest = count(len(taste.users), "made-up user"), "item", f"{half} items"
    if not taste.is_made_up:
        who = f"{count(len(taste.users), 'user')} with {FEWEST_RATINGS} ratings or more, who had no part in choosing parameters,"
        what = "joke"
        rest = f"a joke is described by the ratings of 100 other people, popularity is their mean, and {half} jokes"
    done = (
        f"For each of {who} we score {numbers} {what}s at random and rank the rest. The table shows the share of pairs in "
        f"the wrong order (0.5 is chance), the mean of {SEEDS} draws; {rest}."
    )
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
    return [Text(done), table, Text(f"{_reading(results)} ({seconds:.0f} s)"), Text()]


def _reading(results: Results) -> str:
    """How to read the table, as far as it shows what it shows for the jokes."""
    from corank.cli.taste import POPULARITY

    few, many = results.scored[0], results.scored[-1]
    words = "Lower is better, ± is the standard error over users."
    if POPULARITY in results.best(0) and POPULARITY not in results.best(-1):
        words += f" With {few} ratings what everybody likes is the best guess, with {many} it is a user's own taste."
    if abs(results.mean("RLS") - results.mean("RankRLS")).max() < 0.005:
        words += " RLS and RankRLS coincide here, because one user is one query."
    return words


def _next(target: Path) -> list[Text]:
    """What was saved, and which commands do the same with a table of one's own."""
    return [
        Text(f"Each user was fitted alone. The model of the last one is saved as {target} ({size_of(target)})."),
        Text.assemble("Next: ", (f"corank inspect {target}", "bold"), ", or with a table of your own"),
        Text("  one person's taste, as here:"),
        Text("    corank fit ratings_of_one_person.csv --score rating --out mine.corank", style="bold"),
        Text("  one ranking for all users:"),
        Text("    corank fit items.csv --score rating --query user --out items.corank", style="bold"),
    ]


def _save_last_user(taste: Taste, target: Path, *, force: bool) -> None:
    """A model on everything the last user rated, with the encoder that standardises the columns."""
    import pyarrow as pa

    from corank.encoder import TableEncoder

    items, scores = taste.users[-1]
    columns = pa.table({name: taste.table[:, at] for at, name in enumerate(taste.names)})
    encoder = TableEncoder()
    X = encoder.fit_transform(columns)
    model = taste.learners["RankRLS"](len(items), 0).fit(X[items], scores)
    model.save(target, overwrite=force, encoder=encoder)
