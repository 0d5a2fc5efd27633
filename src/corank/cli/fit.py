"""`corank fit`: a table and the name of its score column, or a table of comparisons beside it → a model file.

In the order of the file: the command, the rows it learns from, the learner that it fits to them, and what it tells about
the model. Files that do not fit into memory are fitted by `large_files`.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import typer
from numpy.typing import NDArray
from rich.text import Text

from corank._arrays import check_device
from corank._messages import count
from corank.cli.columns import AskedKinds, feature_columns, note_ids, note_kinds, note_sparse_numbers, views_of
from corank.cli.comparisons import FIRST, LOSER, SECOND, WINNER, NamedItems, PairColumns, ReadPairs, joined, read_pairs
from corank.cli.console import command, facts, note, show, show_json, size_of, typed_command, working
from corank.cli.files import (
    DASH,
    check_model_output,
    check_report_output,
    readable,
    readable_or_none,
    svmlight_columns,
    title_of,
)
from corank.cli.links import LinkTable, as_argument, check_named, file_of, link_table, with_scores
from corank.cli.options import (
    AGREEING,
    AUTO,
    BY_EVIDENCE,
    LEARNERS,
    RANKERS,
    Alpha,
    Amplitude,
    AsJson,
    Atoms,
    BasisRows,
    CategoryColumns,
    CheckpointFolder,
    Comparisons,
    Components,
    CountColumn,
    DaskAddress,
    Device,
    Directed,
    DroppedColumns,
    Effect,
    FeatureColumns,
    FitItems,
    FitOut,
    FitReport,
    FitTable,
    Force,
    Gamma,
    InputFormat,
    ItemColumn,
    Kernel,
    LinkColumns,
    LinksFile,
    LoserColumn,
    MarginColumn,
    MethodName,
    MethodOption,
    Noise,
    NumberColumns,
    QueryColumn,
    Quiet,
    ScoreColumn,
    ShuffleQueries,
    TextColumns,
    UnscoredRows,
    ViewColumns,
    WeightingOption,
    WinnerColumn,
    check_goes_with,
    check_views,
    check_what_to_learn_from,
    is_streamed,
    method_options,
    number_or_text,
)
from corank.cli.show import columns_table, widths_table
from corank.describe import COIN_TOSSES, describe, in_words
from corank.encoder import TableEncoder
from corank.kernels import WITH_GAMMA
from corank.learners.registry import learner_class
from corank.links import Links
from corank.rows import encode_queries
from corank.tables import TableError, column, is_number, query_column, read_table, score_column

MAX_ROWS_TO_TUNE_GAMMA = 1_500  # scored rows or comparisons for which seven kernel widths are tried in seconds
NO_BETTER = 0.98  # share of the error of a constant above which a model has learned nothing
CHECKS_EFFECT = "checking whether unscored rows help"
FUNCTION_FACTS = ("features", "feature_names", "average", "candidates")
TUNING_FACTS = ("gamma_chosen", "gammas_tried")
SIZE_FACTS = ("alpha", "agreement", "n_components", "n_atoms", "amplitude", "noise", "log_evidence", COIN_TOSSES)
HELD_OUT_FACTS = ("held_out_error", "held_out_standard_error", "held_out_constant")

Step = Callable[[str], None]  # is called with the step that begins


# ---- the command


def fit(
    context: typer.Context,
    file: FitTable,
    out: FitOut,
    score: ScoreColumn = None,
    query: QueryColumn = None,
    method: MethodOption = MethodName.auto,
    features: FeatureColumns = None,
    drop: DroppedColumns = None,
    text: TextColumns = None,
    category: CategoryColumns = None,
    number: NumberColumns = None,
    id: ItemColumn = None,
    items: FitItems = None,
    kernel: Kernel = "rbf",
    gamma: Gamma = "auto",
    basis: BasisRows = None,
    alpha: Alpha = None,
    components: Components = None,
    atoms: Atoms = None,
    amplitude: Amplitude = None,
    noise: Noise = None,
    device: Device = None,
    weighting: WeightingOption = None,
    comparisons: Comparisons = None,
    winner: WinnerColumn = None,
    loser: LoserColumn = None,
    margin: MarginColumn = None,
    times: CountColumn = None,
    links: LinksFile = None,
    link_columns: LinkColumns = None,
    directed: Directed = False,
    view: ViewColumns = None,
    unscored: UnscoredRows = None,
    checkpoint: CheckpointFolder = None,
    dask: DaskAddress = None,
    shuffle_queries: ShuffleQueries = False,
    effect: Effect = True,
    report: FitReport = None,
    format: InputFormat = None,
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
    pair_columns = {"winner": winner, "loser": loser, "margin": margin, "count": times}
    table = readable(context, file, format)
    score, query = svmlight_columns(table, score, query, compared=comparisons is not None)
    check_what_to_learn_from(score, id, items, comparisons, pair_columns, method)
    items_table, comparisons_table = readable_or_none(context, items), readable_or_none(context, comparisons)
    linked = link_table(context, links, link_columns, directed=directed)
    if linked is not None:
        check_named(id)
    check_model_output(out, table, items_table, comparisons_table, file_of(linked), force=force)
    check_report_output(report, table, force=force)
    if kernel == "precomputed":
        raise ValueError("--kernel precomputed needs a kernel matrix, not a table: use Python for it")
    passes = {"unscored": unscored, "checkpoint": checkpoint, "dask": dask}
    for name, value in {"view": view or None, **passes}.items():
        if value is not None:
            check_goes_with(name, method)
    check_views(view or [])
    if device is not None:
        check_device(device)
    request = FitRequest(
        table=table,
        items=items_table,
        comparisons=comparisons_table,
        links=linked,
        columns={"score": score, "query": query, "id": id},
        pair_columns=PairColumns(**pair_columns),
        features=features or [],
        dropped=drop or [],
        kinds=AskedKinds(text or [], category or [], number or []),
        views=view or [],
        method=method,
        automatic=kernel == "rbf" and gamma == "auto" and not any((basis, alpha, weighting)),
        streamed=is_streamed(table, {"items": items, "comparisons": comparisons, "links": links}, passes),
        passes={**passes, "shuffle_queries": shuffle_queries},
        device=device,
        checks_effect=effect,
    )
    limited = {"weighting": weighting, "basis": basis, "alpha": alpha, "components": components, "atoms": atoms}
    limited |= {"amplitude": amplitude, "noise": noise}

    began = time.perf_counter()
    with working(quiet=quiet, status=not request.streamed) as step:
        step(f"reading {title_of(file)}")
        request = request.with_method()
        request.check_links()
        options = method_options(request.method, limited, request.plain_method)
        request = replace(request, settings={"kernel": kernel, "gamma": number_or_text(gamma), **options})
        model = _fitted(request, step)
        description = describe(model)
        result = _result(model, description, out, time.perf_counter() - began)
        _note_no_better(result)
        title = f"{result['method']} fitted on {title_of(file)}"
        sentences = _sentences(description, result)
        if report is not None:
            from corank.report import write_model_report  # slow to import

            step(f"writing {report.name}")
            about = {"summary": sentences, "columns": result["columns"], "command": typed_command("fit")}
            write_model_report(model, report, title=title, overwrite=force, **about)
        step(f"writing {out.name}")
        try:
            model.save(out, overwrite=force)
        except BaseException:
            if report is not None:
                report.unlink()
            raise
    if as_json:
        show_json(result)
    elif not quiet:
        columns = [columns_table(result["columns"])] if result["columns"] else []
        saved = {"saved as": f"{out} ({size_of(out)})"}
        show(facts(title, sentences | saved), *columns, *widths_table(result))
        show(*_next_commands(result, items or file, out, links, joined=items is not None))


@dataclass(frozen=True)
class FitRequest:
    """What is to be fitted, on what.

    Attributes
    ----------
    table : path of a table of items
    items : path of a table that describes the items which `table` scores, or None where that does it
    comparisons : path of a table of comparisons, which takes the place of a score column, or None
    links : table of links between the items, or None
    columns : names of the score, query and id columns, None where there is none
    pair_columns : names of the columns of the table of comparisons
    features, dropped, views : names and patterns of columns, as in `feature_columns` and `views_of`
    kinds : names of columns whose kind is given
    method : the learner; auto is the average of many models
    automatic : whether no setting is given that belongs to a single learner
    streamed : whether rows are read in passes
    passes : unscored rows, checkpoint, Dask scheduler and whether queries are brought together, for rows in passes
    device : where to compute, or None
    checks_effect : whether to find out if unscored rows helped
    settings : parameters of the learner
    """

    table: Path
    items: Path | None
    comparisons: Path | None
    links: LinkTable | None
    columns: dict[str, str | None]
    pair_columns: PairColumns
    features: Sequence[str]
    dropped: Sequence[str]
    kinds: AskedKinds
    views: Sequence[str]
    method: MethodName
    automatic: bool
    streamed: bool
    passes: dict[str, Any]
    device: str | None
    checks_effect: bool
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def ranks(self) -> bool:
        """Whether the order counts, with queries or comparisons; else scores are predicted."""
        return self.columns["query"] is not None or self.comparisons is not None

    @property
    def plain_method(self) -> MethodName:
        """The learner for scored rows alone."""
        return MethodName.rankrls if self.ranks else MethodName.rls

    @property
    def has_views(self) -> bool:
        """Whether views or more unscored rows are given, which asks for a learner with views."""
        return bool(self.views) or self.passes["unscored"] is not None

    def with_method(self) -> FitRequest:
        """The request with its learner: auto is one learner where rows are read in passes or its settings are given."""
        if self.method is not AUTO or (self.automatic and not self.streamed):
            return self
        agreeing = MethodName.corankrls if self.ranks else MethodName.corls
        method = agreeing if self.has_views else self.plain_method
        if self.streamed:
            other = "" if self.has_views else f"; --method {agreeing} learns from unscored rows too"
            note(f"rows are read in passes, so no models are averaged: this is --method {method}{other}")
        else:
            note(f"settings of a single learner are given, so no models are averaged: this is --method {method}")
        return replace(self, method=method)

    def check_links(self) -> None:
        """Refuse links where models are not averaged: a single learner has no place for them."""
        if self.links is not None and self.method is not AUTO:
            raise ValueError(
                f"--links is used by the default method, not by --method {self.method}: leave out its options, or put "
                "corank.LinkEncoder in a pipeline in Python"
            )


# ---- rows to learn from


@dataclass(frozen=True)
class TrainingTable:
    """A table to learn from.

    Attributes
    ----------
    file : path of the table
    columns : names of the score, query and id columns, None where there is none
    features : (n_rows, n_features)
    scores : (n_rows,), NaN where unscored; None where comparisons take their place
    queries : (n_rows,) numbers of the queries, or None
    names : what the id column calls the rows, or None
    pairs, pair_columns : the comparisons and the names of their columns, or None
    links, link_kind : links between the rows, and whether they are mutual, or None
    """

    file: Path
    columns: dict[str, str | None]
    encoder: TableEncoder
    features: NDArray[np.float64]
    scores: NDArray[np.float64] | None
    queries: NDArray[np.int64] | None
    names: Sequence[str] | None
    pairs: ReadPairs | None
    pair_columns: PairColumns | None
    links: Links | None = None
    link_kind: str | None = None

    @property
    def n_scored(self) -> int:
        """Number of rows with a score, or in a comparison."""
        if self.pairs is not None:
            return self.pairs.n_items
        assert self.scores is not None
        return int(np.count_nonzero(~np.isnan(self.scores)))

    @property
    def size(self) -> str:
        """What there is to learn from, such as `12 scored rows`."""
        return count(self.n_scored, "scored row") if self.pairs is None else count(self.pairs.number, "comparison")

    @property
    def remembered(self) -> dict[str, str | int | None]:
        """What a model file keeps of the table."""
        queries = None if self.queries is None else len(np.unique(self.queries))
        counts = {**self.columns, "rows": len(self.features), "scored": self.n_scored, "queries": queries}
        if self.link_kind is not None:
            counts["links"] = self.link_kind
        if self.pairs is None or self.pair_columns is None:
            return counts
        return {**counts, **asdict(self.pair_columns), "comparisons": self.pairs.number}

    def automatic_gamma(self, method: MethodName, kernel: str) -> str:
        """How a learner chooses its kernel width where none is given."""
        if method in BY_EVIDENCE:
            return "tune"
        size = self.n_scored if self.pairs is None else max(self.n_scored, len(self.pairs.winners))
        tunes = kernel in WITH_GAMMA and size <= MAX_ROWS_TO_TUNE_GAMMA and method not in AGREEING
        return "tune" if tunes else "scale"

    def fit(self, model: Any) -> None:
        """Fit a model on the table."""
        more = as_argument(self.links)
        if self.pairs is not None:
            model.fit_comparisons(self.features, **self.pairs.arguments(), qid=self.queries, **more)
        else:
            model.fit(self.features, self.scores, qid=self.queries, **more)

    def check_scores(self, *, ranks: bool) -> None:
        """Refuse scores from which nothing can be learned: where it `ranks`, two rows of a query must differ."""
        if self.scores is None:
            return
        score, query = self.columns["score"], self.columns["query"] if ranks else None
        if self.n_scored == 0:
            raise TableError(f"score column {score!r} of {self.file} is empty: there is nothing to learn from")
        if self.n_scored == 1:
            raise TableError(f"score column {score!r} of {self.file} has a single score: at least two are needed")
        queries = np.zeros(len(self.scores)) if query is None or self.queries is None else self.queries
        scored = ~np.isnan(self.scores)
        order = np.lexsort((self.scores[scored], queries[scored]))
        compete = np.diff(queries[scored][order]) == 0
        if not compete.any():
            raise TableError(
                f"no two rows of one {query!r} have a score in {score!r}, so none can be compared: "
                "leave out --query to compare all rows"
            )
        if not np.any(compete & (np.diff(self.scores[scored][order]) != 0)):
            within = "" if query is None else f" within every {query!r}"
            raise TableError(f"all scores in {score!r} are the same{within}: there is nothing to learn")


def _read_training(request: FitRequest, step: Step) -> TrainingTable:
    """Read what there is to learn from and encode the features."""
    columns, file = request.columns, request.table
    score, query, item = columns["score"], columns["query"], columns["id"]
    text = [*(name for name in (query, item) if name is not None), *request.kinds.read_as_text]
    table = read_table(file, text=text)
    if request.items is not None:
        assert item is not None
        if request.links is None:
            table = joined(table, file, request.items, item, text)
        else:
            assert score is not None
            table = with_scores(table, file, request.items, item, score, text)
    scores = None if score is None else score_column(table, score)
    if request.comparisons is not None and query is not None:
        _check_query_column(table, request.comparisons, query, file)
    queries = None if query is None else np.asarray(encode_queries(query_column(table, query), len(table))[0])
    pairs, pair_columns = (None, None) if request.comparisons is None else _read_comparisons(request, table, queries)
    names = None if item is None else [str(name) for name in column(table, item, "id").to_pylist()]
    features = feature_columns(table, columns, request.features, request.dropped)
    step(f"encoding {count(len(table), 'row')}")
    encoder = request.kinds.encoder(table, features)
    numbers: Any = encoder.fit_transform(table.select(features))
    note_kinds(encoder)
    note_ids(table, encoder)
    if pairs is not None:
        note_sparse_numbers(table, encoder)
    if request.device is not None:
        from torch import as_tensor

        numbers = as_tensor(np.asarray(numbers), device=request.device)
    links, kind = None, None
    if request.links is not None:
        assert item is not None
        step(f"reading {request.links.file.name}")
        links, kind = request.links.between(table, item, request.items or file), request.links.kind
    return TrainingTable(file, columns, encoder, numbers, scores, queries, names, pairs, pair_columns, links, kind)


def _check_query_column(table: pa.Table, comparisons: Path, query: str, file: Path) -> None:
    if query not in table.column_names and query in read_table(comparisons).column_names:
        raise TableError(
            f"column {query!r} is in {comparisons}, but --query must be a column of the items, {file}: it says which items "
            "compete; who answered cannot be learned from"
        )


def _read_comparisons(
    request: FitRequest, table: pa.Table, queries: NDArray[np.int64] | None
) -> tuple[ReadPairs, PairColumns]:
    """The comparisons, and what their columns are called."""
    file, item, query = request.comparisons, request.columns["id"], request.columns["query"]
    assert file is not None
    assert item is not None
    pairs = read_pairs(
        file,
        NamedItems(request.table, item, table),
        request.pair_columns,
        with_margins=request.method is not MethodName.preference,
        query=None if query is None or queries is None else (query, queries),
    )
    given = request.pair_columns
    names = replace(given, winner=given.winner or WINNER, loser=given.loser or LOSER)
    if request.method is MethodName.difference and names.margin is None:
        taken = {names.winner, names.loser, names.count, FIRST, SECOND}
        schema = read_table(file).schema
        numeric = [entry.name for entry in schema if entry.name not in taken and is_number(entry.type)]
        remedy = f"; --margin {shlex.quote(numeric[0])} would take column {numeric[0]!r}" if numeric else ""
        note(f"no --margin: every win counts as 1{remedy}")
    return pairs, names


# ---- the learner


def _fitted(request: FitRequest, step: Step) -> Any:
    """The fitted model."""
    if request.streamed:
        from corank.cli.large_files import fit_in_passes

        return fit_in_passes(request, step)
    training = _read_training(request, step)
    views = views_of(request.views, training.encoder, list(training.encoder.get_feature_names_out()))
    method = request.method
    training.check_scores(ranks=(request.plain_method if method is AUTO else method) in RANKERS)
    if method is AUTO:
        model = _fit_average(training, request, views, step)
    else:
        model = _fit_learner(training, method, request, views, step)
    model = with_effect(model, step, wanted=request.checks_effect)
    model.encoder_ = training.encoder
    model.table_ = training.remembered
    if training.names is not None and hasattr(model, "atoms_"):
        model.name_atoms([training.names[row] for row in model.atoms_])
    return model


def _fit_learner(training: TrainingTable, method: MethodName, request: FitRequest, views: Any, step: Step) -> Any:
    settings = dict(request.settings)
    if settings["gamma"] == "auto":
        settings["gamma"] = training.automatic_gamma(method, settings["kernel"])
    if method in AGREEING:
        settings["views"] = views
    model = learner_class(LEARNERS[method])(**settings)
    step(f"fitting {type(model).__name__} on {training.size}")
    training.fit(model)
    return model


def with_effect(model: Any, step: Step, *, wanted: bool) -> Any:
    """The model with whether unscored rows helped, which takes several fits; or a model that does not look for it."""
    if not wanted:
        return model._at_a_glance()
    if hasattr(model, "agreement_") or hasattr(model, "reason_"):
        step(CHECKS_EFFECT)
        _ = model.unscored_effect_  # is kept in the model
    return model


def _fit_average(training: TrainingTable, request: FitRequest, views: Any, step: Step) -> Any:
    """The average of many models; declared views have a place in it, random ones do not."""
    declared = list(views) if isinstance(views, list | tuple) else None
    learner = learner_class("AutoRanker" if request.ranks else "AutoRegressor")
    model = learner(views=declared, encoder=training.encoder, random_state=0)
    step(f"fitting an average of models on {training.size}")
    training.fit(model)
    return model


# ---- what is printed


def _result(model: Any, description: dict[str, Any], out: Path, seconds: float) -> dict[str, Any]:
    """Everything that is worth knowing, as JSON has it."""
    functions = description.get("views", [description])
    effect = getattr(model, "unscored_effect_", None)
    effects = {} if effect is None else {"unscored_effect": asdict(effect)}

    def selected(names: Sequence[str]) -> dict[str, Any]:
        return {name: description[name] for name in names if name in description}

    return {
        "model": str(out),
        "method": description["method"],
        **model.table_,
        "queries_without_scores": description["queries_without_scores"],
        **effects,
        "columns": [] if model.encoder_ is None else model.encoder_.summary(),
        **selected(FUNCTION_FACTS),
        "kernel": functions[0]["kernel"],  # with views that of the first stands for all
        "gamma": functions[0]["gamma"],
        **selected(TUNING_FACTS),
        "basis": sum(function["basis"] for function in functions),
        **selected(SIZE_FACTS),
        "tried": description["tried"] // description["gammas_tried"],
        **selected(HELD_OUT_FACTS),
        "seconds": round(seconds, 3),
    }


def _note_no_better(result: dict[str, Any]) -> None:
    """Say so where the model has learned nothing that helps on rows it has not seen."""
    error, constant = result["held_out_error"], result["held_out_constant"]
    by_errors = error is not None and constant is not None and error > NO_BETTER * constant
    if not by_errors and not (COIN_TOSSES in result and result["log_evidence"] <= result[COIN_TOSSES]):
        return
    subject = "who wins" if result.get("comparisons") else repr(result["score"])
    reasons = f"perhaps the features say nothing about {subject}"
    if result["query"] is not None:
        query = repr(result["query"])
        reasons += f", what is good differs from {query} to {query}, as all share one function, or too few of {query} "
        reasons += "have several different scores to tell"
    note(f"held out, the model is no better than {'a constant' if by_errors else 'coin tosses'}: {reasons}")


def _sentences(description: dict[str, Any], result: dict[str, Any]) -> dict[str, str]:
    """The model in words."""
    sentences = in_words(description)
    del sentences["what"]
    if result["queries"] is not None:
        sentences["queries"] = (
            f"all share one scoring function; {result['query']} says which rows compete and is not a feature"
        )
    return sentences | {"time": f"{result['seconds']:.1f} s"}


def _next_commands(result: dict[str, Any], file: Path, out: Path, links: Path | None, *, joined: bool) -> list[Text]:
    """What to run next; a table that is `joined` describes more items than those with scores."""
    linked = "" if links is None else f" --links {'LINKS' if links == DASH else links}"
    lines = [command(f"corank rank {out} {'NEW_FILE' if links is None else 'ALL_ITEMS'}{linked} --out ranked.csv")]
    if "log_evidence" in result:
        all_scored = result["score"] is not None and result["scored"] == result["rows"]
        pool = "NEW_FILE" if (all_scored and not joined) or file == DASH else file
        lines.append(command(f"corank suggest {out} {pool} --out questions.csv", "  or: "))
    elif result.get("comparisons"):
        hint = "--method preference can be updated with answers to what corank suggest asks"
        lines.append(Text(hint, style="dim"))
    return lines
