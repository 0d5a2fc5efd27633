"""`corank fit`: a table and the name of its score column, or a table of comparisons beside it → a model file."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corank.cli.console import check_model_output, check_report_output, is_big, is_several, working
from corank.cli.methods import (
    AGREEING,
    BY_EVIDENCE,
    LEARNERS,
    RANKERS,
    Method,
    Weighting,
    check_goes_with,
    number_or_word,
    own_options,
)
from corank.cli.outcome import note_no_better, result_of, show_outcome, write_page

if TYPE_CHECKING:
    from corank.cli.training import Training

WHO_BEAT_WHOM = "Comparisons"  # a panel of the help
MANY_ROWS = "Unscored rows, and more rows than memory"


def fit(
    file: Annotated[
        Path,
        typer.Argument(
            help="Table of items: .csv, .tsv or .parquet; or a folder or pattern of such files, or of svmlight ones, "
            "which need not fit into memory.",
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
            help="rankrls, kpcrank (for noisy scores) and pursuit (a handful of items) rank; rls, kpcr and matching "
            "predict the scores themselves; corankrls and corls learn from unscored rows too; preference and difference (from who wins, or by how much) rank, say how "
            "sure they are and what to ask next."
        ),
    ] = Method.rankrls,
    features: Annotated[
        list[str] | None,
        typer.Option(help="Columns to learn from, such as a,b,'text_*'. Default: all others.", show_default=False),
    ] = None,
    drop: Annotated[list[str] | None, typer.Option(help="Columns to leave out.", show_default=False)] = None,
    id: Annotated[
        str | None,
        typer.Option("--id", "--item", help="Column that names the items; it is left out.", show_default=False),
    ] = None,
    items: Annotated[
        Path | None,
        typer.Option(
            help="Table that describes the items which FILE scores, by the names in --id.", show_default=False
        ),
    ] = None,
    kernel: Annotated[str, typer.Option(help="How alike two rows are: rbf, linear, poly, cosine, …")] = "rbf",
    gamma: Annotated[
        str,
        typer.Option(
            help="Kernel width: tune, scale or a number. auto is tune for up to 1,500 scored rows, else scale. "
            "preference and difference also know columns: one width for each."
        ),
    ] = "auto",
    basis: Annotated[
        str | None,
        typer.Option(help="Rows that span the model: auto, all, features or a number.", show_default="auto"),
    ] = None,
    alpha: Annotated[
        str | None,
        typer.Option(help="Strength of smoothing: tune, a number, or several to try.", show_default="tune"),
    ] = None,
    components: Annotated[
        str | None,
        typer.Option(help="Number of components of kpcrank and kpcr, or tune.", show_default="tune"),
    ] = None,
    atoms: Annotated[
        str | None,
        typer.Option(help="Number of items that make up a pursuit's model, or tune.", show_default="tune"),
    ] = None,
    amplitude: Annotated[
        str | None,
        typer.Option(help="Variance of the scores in preference and difference, or tune.", show_default="tune"),
    ] = None,
    noise: Annotated[
        str | None,
        typer.Option(help="Variance of the noise in difference, or tune.", show_default="tune"),
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="Where to compute: cuda for a GPU (needs PyTorch).", show_default="CPU")
    ] = None,
    weighting: Annotated[
        Weighting | None, typer.Option(help="What counts the same: items (size), pairs (unit) or queries (query).")
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
    view: Annotated[
        list[str] | None,
        typer.Option(
            help="Columns of one view of corankrls and corls, such as 'text_*'; once a view.",
            show_default="two random halves",
            rich_help_panel=MANY_ROWS,
        ),
    ] = None,
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
    report: Annotated[
        Path | None, typer.Option(help="Also write a page about the model, NAME.html.", show_default=False)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is already there.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Learn from a table and save the model.

    All queries share one scoring function, learned from the features.
    The query column says which rows compete and is not a feature.
    To learn one person's taste, fit on that person's rows, without --query.
    In place of scores, --comparisons takes a second table: who beat whom.
    """
    pairs = {"winner": winner, "loser": loser, "margin": margin, "count": times}
    _check_what_to_learn_from(score, id, items, comparisons, pairs, method)
    for source_file in (file, items, comparisons):
        check_model_output(out, source_file, force=force)
    if report is not None:
        check_report_output(report, file, force=force)
    given = {"weighting": weighting, "basis": basis, "alpha": alpha, "components": components, "atoms": atoms}
    given |= {"amplitude": amplitude, "noise": noise}
    options = {"kernel": kernel, "gamma": number_or_word(gamma), **own_options(method, given)}
    if kernel == "precomputed":
        raise ValueError("--kernel precomputed needs a kernel matrix, not a table: use Python for it")
    passes = {"unscored": unscored, "checkpoint": checkpoint, "dask": dask}
    streamed = _is_streamed(file, {"items": items, "comparisons": comparisons}, passes)
    for name, value in {"view": view or None, **passes}.items():
        if value is not None:
            check_goes_with(name, method)
    if device is not None:
        from corank._backend import check_device

        check_device(device)
    began = time.perf_counter()
    with working(quiet=quiet, status=not streamed) as doing:
        doing(f"reading {file.name}")
        from corank.cli.pairs import PairColumns
        from corank.cli.training import Source, read_training

        columns = {"score": score, "query": query, "id": id}
        source = Source(
            file,
            items,
            columns,
            features or [],
            drop or [],
            comparisons,
            PairColumns(**pairs),
            with_margins=method is not Method.preference,
            notes_margins=method is Method.difference,
        )
        if streamed:
            from corank.cli.bigger import fit_in_passes

            model = fit_in_passes(source, method, options, view or [], {**passes, "device": device}, doing)
        else:
            model = _fitted(read_training(source, doing).on(device), method, options, view or [], doing)
        seconds = time.perf_counter() - began
        doing(f"writing {out.name}")
        model.save(out, overwrite=force)
        result = result_of(model, out, seconds)
        note_no_better(result)
        if report is not None:
            doing(f"writing {report.name}")
            write_page(model, result, file, comparisons, report, force=force)
    if as_json:
        typer.echo(json.dumps(result, indent=2))
    elif not quiet:
        show_outcome(result, file, items, comparisons, out)


def _check_what_to_learn_from(
    score: str | None,
    item: str | None,
    items: Path | None,
    comparisons: Path | None,
    pairs: dict[str, str | None],
    method: Method,
) -> None:
    """Refuse options that do not go together."""
    if items is not None and comparisons is not None:
        raise ValueError("--items is for scores: with --comparisons the first table describes the items")
    if items is not None and item is None:
        raise ValueError("--items needs --id, the column that says what the items are called")
    if comparisons is None:
        for name, value in pairs.items():
            if value is not None:
                raise ValueError(f"--{name} is a column of a table of comparisons: say which with --comparisons")
        if score is None:
            raise ValueError(
                "missing option '--score', the column with the scores, or '--comparisons', a table of who beat whom"
            )
        return
    if score is not None:
        raise ValueError("give --score or --comparisons, not both; --drop leaves a column out of the features")
    if item is None:
        raise ValueError("--comparisons needs --item, the column that says what the items are called")
    check_goes_with("comparisons", method)
    if pairs["margin"] is not None and method is Method.preference:
        raise ValueError(
            "--margin does not go with --method preference, which learns from who won alone; use --method difference"
        )


def _is_streamed(file: Path, beside: dict[str, Path | None], passes: dict[str, Any]) -> bool:
    """Whether rows are read in passes; refuses a second table then, which is read into memory with the first."""
    second = next((name for name, value in beside.items() if value is not None), None)
    asked = next((name for name, value in passes.items() if value is not None), None)
    if second is None:
        return asked is not None or is_big(file)
    if asked is not None:
        raise ValueError(f"--{asked} does not go with --{second}, whose rows must fit into memory")
    if is_several(file):
        raise ValueError(f"--{second} goes with one table, but {file} is a folder or a pattern")
    return False


def _fitted(
    training: Training, method: Method, options: dict[str, Any], views: list[str], doing: Callable[[str], None]
) -> Any:
    from corank import learners

    training.check_scores(ranks=method in RANKERS)
    if options["gamma"] == "auto":
        gamma = training.automatic_gamma(options["kernel"])
        options = {**options, "gamma": "tune" if method in BY_EVIDENCE else "scale" if method in AGREEING else gamma}
    if method in AGREEING:
        from corank.cli.bigger import views_of

        names = list(training.encoder.get_feature_names_out())
        options = {**options, "views": views_of(views, training.encoder, names)}
    model = getattr(learners, LEARNERS[method])(**options)
    doing(f"fitting {type(model).__name__} on {training.size}")
    training.fit(model)
    model.encoder_ = training.encoder
    if training.names is not None and hasattr(model, "atoms_"):
        model.name_atoms([training.names[row] for row in model.atoms_])
    return model
