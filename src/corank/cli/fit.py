"""`corank fit`: a table and the name of its score column, or a table of comparisons beside it → a model file."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corank.cli.choice import Asked, fitted
from corank.cli.console import working
from corank.cli.inputs import given, given_too, svmlight_columns, title_of
from corank.cli.methods import (
    Method,
    Weighting,
    check_goes_with,
    check_views,
    check_what_to_learn_from,
    is_streamed,
    number_or_word,
    own_options,
)
from corank.cli.options import (
    MANY_ROWS,
    TABLE,
    WHO_BEAT_WHOM,
    AsJson,
    Drop,
    Effect,
    Features,
    Force,
    IdLeftOut,
    Quiet,
    Read,
    Shuffle,
    View,
)
from corank.cli.outcome import note_no_better, result_of, show_outcome, write_page
from corank.cli.outputs import check_model_output, check_report_output

if TYPE_CHECKING:
    from corank.cli.training import Source

SETTINGS = "How it learns"  # a panel of the help


def fit(
    context: typer.Context,
    file: Annotated[
        Path,
        typer.Argument(
            help=f"Table of items: {TABLE}. A folder or pattern of such files need not fit into memory.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option(help="Where to save the model, by custom NAME.corank.", show_default=False)],
    score: Annotated[
        str | None, typer.Option(help="Column with the scores; empty = unscored.", show_default=False)
    ] = None,
    query: Annotated[
        str | None,
        typer.Option(
            help="Column that says which rows compete with each other; all queries share one scoring function.",
            show_default=False,
        ),
    ] = None,
    method: Annotated[
        Method,
        typer.Option(
            metavar="NAME",
            help="auto learns from unscored rows too where the scores show that it helps; by itself it ranks with --query "
            "or --comparisons and predicts scores without. rankrls, kpcrank (for noisy scores) and pursuit (a handful of "
            "items) rank; rls, kpcr and matching predict scores; corankrls and corls learn from unscored rows; preference "
            "and difference (from who wins, or by how much) say how sure they are and what to ask next.",
        ),
    ] = Method.auto,
    features: Features = None,
    drop: Drop = None,
    id: IdLeftOut = None,
    items: Annotated[
        Path | None,
        typer.Option(
            help="Table that describes the items which FILE scores, by the names in --id.", show_default=False
        ),
    ] = None,
    kernel: Annotated[
        str, typer.Option(rich_help_panel=SETTINGS, help="How alike two rows are: rbf, linear, poly, cosine, …")
    ] = "rbf",
    gamma: Annotated[
        str,
        typer.Option(
            rich_help_panel=SETTINGS,
            help="Kernel width: tune, scale or a number. auto is tune for up to 1,500 scored rows, else scale. "
            "preference and difference also know columns: one width for each.",
        ),
    ] = "auto",
    basis: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=SETTINGS,
            help="Rows that span the model: auto, all, features or a number.",
            show_default="auto",
        ),
    ] = None,
    alpha: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=SETTINGS,
            help="Strength of smoothing: tune, a number, or several to try.",
            show_default="tune",
        ),
    ] = None,
    components: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=SETTINGS, help="Number of components of kpcrank and kpcr, or tune.", show_default="tune"
        ),
    ] = None,
    atoms: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=SETTINGS,
            help="Number of items that make up a pursuit's model, or tune.",
            show_default="tune",
        ),
    ] = None,
    amplitude: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=SETTINGS,
            help="Variance of the scores in preference and difference, or tune.",
            show_default="tune",
        ),
    ] = None,
    noise: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=SETTINGS, help="Variance of the noise in difference, or tune.", show_default="tune"
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=SETTINGS, help="Where to compute: cuda for a GPU (needs PyTorch).", show_default="CPU"
        ),
    ] = None,
    weighting: Annotated[
        Weighting | None,
        typer.Option(
            rich_help_panel=SETTINGS, help="What counts the same: items (size), pairs (unit) or queries (query)."
        ),
    ] = None,
    comparisons: Annotated[
        Path | None,
        typer.Option(
            help="Table of who beat whom, by the names in --item, in place of --score; also the answered questions of "
            "`corank suggest`. A tie: two rows, a win for each, or with difference a margin of 0.",
            show_default=False,
            rich_help_panel=WHO_BEAT_WHOM,
        ),
    ] = None,
    winner: Annotated[
        str | None, typer.Option(help="Its column of winners.", show_default="winner", rich_help_panel=WHO_BEAT_WHOM)
    ] = None,
    loser: Annotated[
        str | None, typer.Option(help="Its column of losers.", show_default="loser", rich_help_panel=WHO_BEAT_WHOM)
    ] = None,
    margin: Annotated[
        str | None,
        typer.Option(
            help="Its column that says by how much, 0 = a tie.", show_default=False, rich_help_panel=WHO_BEAT_WHOM
        ),
    ] = None,
    times: Annotated[
        str | None,
        typer.Option(
            "--count", help="Its column that says how often.", show_default=False, rich_help_panel=WHO_BEAT_WHOM
        ),
    ] = None,
    view: View = None,
    unscored: Annotated[
        str | None,
        typer.Option(
            help="More rows without scores: file, folder or pattern (corankrls, corls).",
            show_default=False,
            rich_help_panel=MANY_ROWS,
        ),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="Folder for what is done so far: the same command goes on from there.",
            show_default=False,
            rich_help_panel=MANY_ROWS,
        ),
    ] = None,
    dask: Annotated[
        str | None,
        typer.Option(
            help="Address of a Dask scheduler whose workers do the work.",
            show_default=False,
            rich_help_panel=MANY_ROWS,
        ),
    ] = None,
    shuffle_queries: Shuffle = False,
    effect: Effect = True,
    report: Annotated[
        Path | None, typer.Option(help="Also write a page about the model, NAME.html.", show_default=False)
    ] = None,
    format: Read = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Learn from a table and save the model.

    All queries share one scoring function, learned from the features.
    The query column says which rows compete and is not a feature.
    To learn one person's taste, fit on that person's rows, without --query.
    In place of scores, --comparisons takes a second table: who beat whom.
    """
    pairs = {"winner": winner, "loser": loser, "margin": margin, "count": times}
    source_file = given(context, file, format)
    score, query = svmlight_columns(source_file, score, query, compared=comparisons is not None)
    check_what_to_learn_from(score, id, items, comparisons, pairs, method)
    items_file, comparisons_file = given_too(context, items), given_too(context, comparisons)
    for read in (source_file, items_file, comparisons_file):
        check_model_output(out, read, force=force)
    if report is not None:
        check_report_output(report, source_file, force=force)
    if kernel == "precomputed":
        raise ValueError("--kernel precomputed needs a kernel matrix, not a table: use Python for it")
    passes = {"unscored": unscored, "checkpoint": checkpoint, "dask": dask}
    for name, value in {"view": view or None, **passes}.items():
        if value is not None:
            check_goes_with(name, method)
    check_views(view or [])
    if device is not None:
        from corank._backend import check_device

        check_device(device)
    streamed = is_streamed(source_file, {"items": items, "comparisons": comparisons}, passes)
    asked = Asked(
        ranks=query is not None or comparisons is not None,
        compared=comparisons is not None,
        views=bool(view) or unscored is not None,
        smoothing=alpha is not None,
        streamed=streamed,
        effect=effect,
    )
    own = {"weighting": weighting, "basis": basis, "alpha": alpha, "components": components, "atoms": atoms}
    own |= {"amplitude": amplitude, "noise": noise}
    began = time.perf_counter()
    with working(quiet=quiet, status=not streamed) as doing:
        doing(f"reading {title_of(file)}")
        from corank.cli.pairs import PairColumns
        from corank.cli.training import Source

        method = asked.settled(method)
        options = {"kernel": kernel, "gamma": number_or_word(gamma), **own_options(method, own, asked.plain)}
        source = Source(
            source_file,
            items_file,
            {"score": score, "query": query, "id": id},
            features or [],
            drop or [],
            comparisons_file,
            PairColumns(**pairs),
            with_margins=method is not Method.preference,
            notes_margins=method is Method.difference,
        )
        more = {"device": device, "shuffle_queries": shuffle_queries}
        model, compared = _fitted(source, method, asked, options, view or [], {**passes, **more}, doing)
        doing(f"writing {out.name}")
        model.save(out, overwrite=force)
        result = result_of(model, out, time.perf_counter() - began, compared)
        note_no_better(result)
        if report is not None:
            doing(f"writing {report.name}")
            write_page(model, result, file, comparisons, report, force=force)
    if as_json:
        typer.echo(json.dumps(result, indent=2))
    elif not quiet:
        show_outcome(result, file, items, comparisons, out)


def _fitted(
    source: Source,
    method: Method,
    asked: Asked,
    options: dict[str, Any],
    views: list[str],
    passes: dict[str, Any],
    doing: Callable[[str], None],
) -> tuple[Any, dict[str, Any] | None]:
    """The model and, where methods were compared, what came of it."""
    if asked.streamed:
        from corank.cli.bigger import fit_in_passes

        return fit_in_passes(source, method, options, views, passes, doing, effect=asked.effect), None
    from corank.cli.training import read_training
    from corank.cli.viewing import views_of

    training = read_training(source, doing)
    agreeing = views_of(views, training.encoder, list(training.encoder.get_feature_names_out()))
    return fitted(training.on(passes["device"]), method, asked, options, agreeing, doing)
