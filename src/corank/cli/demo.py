"""`corank demo`: four ways of guessing which jokes a user likes, from the user's first few ratings."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from corank.cli.console import count, grid, note, show, size_of
from corank.cli.options import AsJson, Force, Quiet
from corank.cli.outputs import check_model_output, check_report_output

if TYPE_CHECKING:
    from corank.cli.taste import Results, Taste

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

    from corank.cli.demo_page import write_demo_page
    from corank.cli.taste import compare, jokes

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
    from corank.cli.taste import FEWEST_RATINGS

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
    from corank.cli.taste import POPULARITY

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
