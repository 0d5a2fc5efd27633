"""`corank update`: a model and new answers, scores or comparisons → a model that has learned from them too."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from corank.cli.console import command, count, facts, show, size_of, working
from corank.cli.inputs import DASH, given, given_too, title_of
from corank.cli.options import (
    TABLE,
    AsJson,
    CountInFit,
    Force,
    IdInFit,
    LoserInFit,
    ModelFile,
    QueryInFit,
    Quiet,
    Read,
    ScoreInFit,
    WinnerInFit,
)
from corank.cli.outputs import check_model_and_table, check_model_output


def update(
    context: typer.Context,
    model: ModelFile,
    answers: Annotated[
        Path,
        typer.Argument(
            help="Table of newly scored rows or, for a model of comparisons, of who beat whom; also the answered "
            f"questions of `corank suggest`: {TABLE}.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option(help="Where to save the new model.", show_default=False)],
    items: Annotated[
        Path | None, typer.Option(help="Table that describes the items which answers name.", show_default=False)
    ] = None,
    id: IdInFit = None,
    score: ScoreInFit = None,
    query: QueryInFit = None,
    winner: WinnerInFit = None,
    loser: LoserInFit = None,
    margin: Annotated[
        str | None, typer.Option(help="Column that says by how much. Default: as in fit.", show_default=False)
    ] = None,
    times: CountInFit = None,
    format: Read = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Add newly scored rows, or comparisons, to a model.

    Its kernel and its other settings stay; to choose them anew, fit again.
    Rows and questions without an answer are left out.
    """
    check_model_and_table("update", model, answers)
    answers_file, items_file = given(context, answers, format), given_too(context, items)
    for read in (answers_file, items_file):
        check_model_output(out, read, force=force)
    began = time.perf_counter()
    with working(quiet=quiet) as doing:
        doing(f"reading {title_of(answers)}")
        from corank.cli.answers import Answers

        told = Answers(answers_file, items_file, id, score, query, winner, loser, margin, times)
        learner, numbers = _updated(model, told, doing)
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
    pool = "POOL" if items in (None, DASH) else items
    after = f"corank suggest {out} {pool}" if can_suggest else f"corank rank {out} NEW_FILE --out ranked.csv"
    show(facts(f"{result['method']} updated by {title_of(answers)}", pairs), command(after))


def _answers(result: dict[str, Any]) -> str:
    """How many questions were answered, in words."""
    ties, unanswered = result["ties"], result["unanswered"]
    both = ": a win for both" if result["method"] == "PreferenceGP" else ""
    words = count(result["answers"], "answer") + (f" ({count(ties, 'tie')}{both})" if ties else "")
    return words + (f", {unanswered:,} not answered" if unanswered else "")
