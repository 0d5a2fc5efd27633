"""`corank update`: a model and new answers, scores or comparisons → a model that has learned from them too."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from corank.cli.console import (
    check_model_and_table,
    check_model_output,
    command,
    count,
    facts,
    show,
    size_of,
    working,
)


def update(
    model: Annotated[Path, typer.Argument(help="Model that `corank fit` saved.", show_default=False)],
    answers: Annotated[
        Path,
        typer.Argument(
            help="Table of newly scored rows or, for a model of comparisons, of who beat whom; also the answered "
            "questions of `corank suggest`.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option(help="Where to save the new model.", show_default=False)],
    items: Annotated[
        Path | None, typer.Option(help="Table that describes the items which answers name.", show_default=False)
    ] = None,
    id: Annotated[
        str | None,
        typer.Option("--id", "--item", help="Column that names the items. Default: as in fit.", show_default=False),
    ] = None,
    score: Annotated[
        str | None, typer.Option(help="Column with the scores. Default: as in fit.", show_default=False)
    ] = None,
    query: Annotated[
        str | None, typer.Option(help="Column with the queries. Default: as in fit.", show_default=False)
    ] = None,
    winner: Annotated[
        str | None, typer.Option(help="Column of winners. Default: as in fit.", show_default=False)
    ] = None,
    loser: Annotated[str | None, typer.Option(help="Column of losers. Default: as in fit.", show_default=False)] = None,
    margin: Annotated[
        str | None, typer.Option(help="Column that says by how much. Default: as in fit.", show_default=False)
    ] = None,
    times: Annotated[
        str | None, typer.Option("--count", help="Column that says how often.", show_default=False)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is already there.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Add newly scored rows, or comparisons, to a model.

    Its kernel and its other settings stay; to choose them anew, fit again.
    Rows and questions without an answer are left out.
    """
    check_model_and_table("update", model, answers)
    for source in (answers, items):
        check_model_output(out, source, force=force)
    began = time.perf_counter()
    with working(quiet=quiet) as doing:
        doing(f"reading {answers.name}")
        from corank.cli.answers import Answers

        given = Answers(answers, items, id, score, query, winner, loser, margin, times)
        learner, numbers = _updated(model, given, doing)
        doing(f"writing {out.name}")
        learner.save(out, overwrite=force)
    result = {
        "model": str(out),
        "method": type(learner).__name__,
        **numbers,
        **{key: (learner.table_ or {}).get(key) for key in ("rows", "scored", "queries", "comparisons")},
        "seconds": round(time.perf_counter() - began, 3),
    }
    if as_json:
        typer.echo(json.dumps(result, indent=2))
    elif not quiet:
        _show(result, answers, items, out, can_suggest=hasattr(learner, "suggest"))


def _updated(model_file: Path, given: Any, doing: Callable[[str], None]) -> tuple[Any, dict[str, int]]:
    """The model with what was added, and how much that is."""
    from corank.cli.evidence import is_compared
    from corank.learners import load

    model = load(model_file)
    if is_compared(model):
        numbers: dict[str, int] = given.add_comparisons(model, doing)
    else:
        numbers = given.add_scores(model, doing)
    if model.table_ is not None:
        counts = {key: value for key, value in model._summary().items() if model.table_.get(key) is not None}
        model.table_ = {**model.table_, **counts}
    return model, numbers


def _show(result: dict[str, Any], answers: Path, items: Path | None, out: Path, *, can_suggest: bool) -> None:
    compared = result["comparisons"] is not None
    what = "comparison" if compared else "scored row"
    known = result["comparisons"] if compared else result["scored"]
    pairs = {"added": _answers(result) if "answers" in result else count(result["added"], what)}
    if known is not None:
        pairs["now"] = count(known, what) + (f" of {count(result['scored'], 'item')}" if compared else "")
    pairs |= {"time": f"{result['seconds']:.1f} s", "saved as": f"{out} ({size_of(out)})"}
    pool = items or "POOL"
    after = f"corank suggest {out} {pool}" if can_suggest else f"corank rank {out} NEW_FILE --out ranked.csv"
    show(facts(f"{result['method']} updated by {answers.name}", pairs), command(after))


def _answers(result: dict[str, Any]) -> str:
    """How many questions were answered, in words."""
    ties, unanswered = result["ties"], result["unanswered"]
    both = ": a win for both" if result["method"] == "PreferenceGP" else ""
    words = count(result["answers"], "answer") + (f" ({count(ties, 'tie')}{both})" if ties else "")
    return words + (f", {unanswered:,} not answered" if unanswered else "")
