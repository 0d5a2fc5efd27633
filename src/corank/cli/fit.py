"""`corank fit`: a table and the name of its score column, or a table of comparisons beside it → a
model file.

In the order of the file: the command, the rows it learns from, the learner that it fits to them,
and what it tells about the model. Files that do not fit into memory are fitted by `large_files`.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import typer
from rich.text import Text

from corank.cli.columns import (
    learned_columns,
    note_kinds,
    note_repeated_ids,
    note_sparse_numbers,
    views_of,
)
from corank.cli.comparisons import (
    FIRST,
    LOSER,
    SECOND,
    WINNER,
    NamedItems,
    PairColumns,
    ReadPairs,
    answers_in_words,
    column_names_of,
    labels,
    read_pairs,
)
from corank.cli.console import (
    command,
    dim,
    is_big,
    note,
    show,
    show_json,
    size_of,
    typed_command,
    working,
)
from corank.cli.files import (
    DASH,
    check_model_output,
    check_report_output,
    check_single,
    readable,
    readable_or_none,
    title_of,
    with_ending,
)
from corank.cli.items import Step
from corank.cli.known_answers import MARKS, pair_marks, row_marks
from corank.cli.links import LinkTable, as_argument, check_named, links_option, read_scored_items
from corank.cli.options import (
    AGREEING,
    AUTO,
    COMPARISONS,
    LEARNERS,
    RANKERS,
    TABLE,
    CommonOptions,
    Directed,
    File,
    KindOptions,
    LearnerOptions,
    LinkOptions,
    MethodName,
    PairOptions,
    PassOptions,
    RoleOptions,
    Unlabelled,
    argument,
    check_goes_with,
    check_views,
    option,
)
from corank.cli.show import columns_table, widths_table
from corank.core.arrays import FloatArray, Index, check_device
from corank.core.labels import encode_queries
from corank.core.messages import count, listed
from corank.core.registry import learner_class
from corank.describe import COIN_TOSSES, Facts, describe, in_words
from corank.display import Table
from corank.encode.encoder import TableEncoder
from corank.interpretation import FEWEST_UNITS, ColumnEffect, column_effects
from corank.interview.answers import is_answers_file
from corank.links import Links
from corank.tables import TableError, is_number, query_column, read_table, score_column

SHOWN_COLUMNS = 5
NO_BETTER = 0.98  # share of the error of a constant above which a model has learned nothing
CHECKS_EFFECT = "checking whether unscored rows help"
FUNCTION_FACTS = ("features", "feature_names", "average", "candidates")
TUNING_FACTS = ("gamma_chosen", "gammas_tried")
SIZE_FACTS = (
    "alpha",
    "agreement",
    "n_components",
    "n_atoms",
    "amplitude",
    "noise",
    "log_evidence",
    COIN_TOSSES,
)
HELD_OUT_FACTS = ("held_out_error", "held_out_standard_error", "held_out_constant")


# ---- the command


@dataclass(frozen=True)
class TrainingFiles:
    """What is learned from."""

    file: Path = argument(
        f"Table of items: {TABLE}. A folder or pattern of such files does not have to fit into"
        " memory."
    )
    unlabelled: Unlabelled = None
    items: File = option("Table that describes the items that FILE scores, by the names in --id.")
    comparisons: list[Path] | None = option(
        "Table of who beat whom, by the names in --id, instead of --score; also the answered"
        " questions of `corank suggest` and the answers of `corank ask`. Several tables are"
        " combined. A tie: two rows, a win for each, or with --method difference a margin of 0.",
        panel=COMPARISONS,
    )


def fit(
    context: typer.Context,
    *,
    out: Path = option("Where to save the model, usually NAME.corank.", default=...),
    request: FitRequest,
    report: File = option("Also write an HTML page about the model, NAME.html."),
    common: CommonOptions,
) -> None:
    """Learn from a table and save the model.

    All queries share one scoring function, learned from the features.
    The query column says which rows compete and is not a feature.
    To learn one person's taste, fit on that person's rows, without --query.
    Instead of scores, --comparisons takes a second table: who beat whom.
    """
    given, name = request, title_of(request.files.file)
    request = given.opened(context, common.format)
    check_model_output(out, *request.paths, force=common.force)
    check_report_output(report, request.files.file, force=common.force)
    request.check()
    began = time.perf_counter()
    with working(quiet=common.quiet, status=not request.is_streamed) as step:
        step(f"reading {name}")
        request = request.with_method()
        model, effects = _fitted(request, step, wants_effects=report is not None)
        description = describe(model)
        result = _result(model, description, out, time.perf_counter() - began)
        _note_no_better(result)
        title = f"{result['method']} fitted on {name}"
        sentences = _sentences(description, result)
        if report is not None:
            from corank.report import write_model_report  # slow to import

            step(f"writing {report.name}")
            about: Any = {"summary": sentences, "columns": result["columns"], "effects": effects}
            about |= {"command": typed_command("fit"), "overwrite": common.force}
            write_model_report(model, report, title=title, **about)
        step(f"writing {out.name}")
        try:
            model.save(out, overwrite=common.force)
        except BaseException:
            if report is not None:
                report.unlink()
            raise
    if common.as_json:
        show_json(result)
    elif not common.quiet:
        columns = [columns_table(result["columns"])] if result["columns"] else []
        saved = {"saved as": f"{out} ({size_of(out)})"}
        show(Table.of_facts(title, sentences | saved), *columns, *widths_table(result))
        show(*_next_commands(result, given, out))


@dataclass(frozen=True, kw_only=True)
class FitRequest:
    """What is to be fitted, on what: the options of `corank fit`, of which `opened` gives those
    with files to read.
    """

    roles: RoleOptions
    method: MethodName = option(
        "auto averages many models, weighted by their held-out errors; it ranks with --query or"
        " --comparisons and predicts scores without. rankrls, kpcrank (for noisy scores) and"
        " pursuit (a handful of items) rank; rls, kpcr and matching predict scores; corankrls and"
        " corls make several views agree on unscored rows; preference and difference (from who won,"
        " or by how much) say how certain they are and what to ask next.",
        default=AUTO,
        metavar="NAME",
        shown=True,
    )
    chosen: KindOptions
    files: TrainingFiles
    learner: LearnerOptions
    pairs: PairOptions
    link_options: LinkOptions
    directed: Directed = False
    passes: PassOptions

    def opened(self, context: typer.Context, format: Any) -> FitRequest:
        """The request with tables that can be read, and columns of an SVMlight file; options must
        say what to learn.
        """
        file, compared = readable(context, self.files.file, format), self.files.comparisons or []
        request = replace(self, roles=self.roles.in_file(file, compared=bool(compared)))
        request._check_what_to_learn_from()
        items = readable_or_none(context, self.files.items)
        comparisons = [with_ending(context, path) for path in compared]
        files = replace(self.files, file=file, items=items, comparisons=comparisons)
        return replace(request, files=files, link_options=self.link_options.opened(context))

    @property
    def links(self) -> LinkTable | None:
        """The table of links between the items, or None."""
        return self.link_options.table(directed=self.directed)

    @property
    def paths(self) -> list[Path | None]:
        """All tables that are read."""
        files, links = self.files, None if self.links is None else self.links.file
        return [files.file, files.items, *(files.comparisons or []), links, self.more_rows]

    @property
    def columns(self) -> dict[str, str | None]:
        """Names of the columns that are not learned from, as in `RoleOptions`."""
        return self.roles.columns

    @property
    def labelled(self) -> list[str]:
        """Columns that stay text when a file is read."""
        return [*self.roles.read_as_text, *self.chosen.read_as_text]

    @property
    def ranks(self) -> bool:
        """Whether the order counts, with queries or comparisons; else scores are predicted."""
        return self.roles.query is not None or bool(self.files.comparisons)

    @property
    def plain_method(self) -> MethodName:
        """The learner for scored rows alone."""
        return MethodName.rankrls if self.ranks else MethodName.rls

    @property
    def settings(self) -> dict[str, Any]:
        """Parameters of the learner."""
        return self.learner.for_method(self.method, self.plain_method)

    @property
    def second_table(self) -> str | None:
        """Which option names a table that is read into memory with the first, if any."""
        tables = {
            "items": self.files.items,
            "comparisons": self.files.comparisons,
            "links": self.links,
        }
        return next((name for name, value in tables.items() if value), None)

    @property
    def more_rows(self) -> Path | None:
        """The file of --unscored where it is read whole, for an average of models that are fitted
        in memory.
        """
        if (
            self.method is not AUTO
            or self.learner.are_of_one_learner
            or set(self.passes.given) != {"unscored"}
        ):
            return None
        file = Path(str(self.passes.unscored))
        return None if is_big(file) or is_big(self.files.file) else file

    @property
    def is_streamed(self) -> bool:
        """Whether rows are read in passes."""
        in_passes = bool(self.passes.given) and self.more_rows is None
        return self.second_table is None and (in_passes or is_big(self.files.file))

    def _check_what_to_learn_from(self) -> None:
        """Refuse options that do not go together."""
        files, roles = self.files, self.roles
        if files.items is not None and files.comparisons:
            raise ValueError(
                "--items is for scores: with --comparisons the first table describes the items"
            )
        if (files.items is not None or files.comparisons) and roles.id is None:
            option = "--comparisons" if files.comparisons else "--items"
            raise ValueError(f"{option} needs --id, the column that names the items")
        if not files.comparisons:
            if self.pairs.first_given is not None:
                raise ValueError(
                    f"--{self.pairs.first_given} needs a table of comparisons: name it with"
                    " --comparisons"
                )
            if roles.score is None:
                raise ValueError(
                    "missing option '--score', the column with the scores, or '--comparisons', a"
                    " table of who beat whom"
                )
            return
        if roles.score is not None:
            raise ValueError(
                "give --score or --comparisons, not both; --drop leaves a column out of the"
                " features"
            )
        check_goes_with("comparisons", self.method)
        if self.pairs.margin is not None and self.method is MethodName.preference:
            raise ValueError(
                "--margin does not go with --method preference, which learns only from who won; use"
                " --method difference"
            )

    def check(self) -> None:
        """Refuse options that do not go together; second tables are read into memory, so not in
        passes.
        """
        if self.links is not None:
            check_named(self.roles.id)
        if self.learner.kernel == "precomputed":
            raise ValueError(
                "--kernel precomputed needs a kernel matrix, not a table: use corank from Python"
            )
        for name in [*(["view"] if self.chosen.view else []), *self.passes.given]:
            check_goes_with(name, self.method)
        check_views(self.chosen.view)
        if self.learner.device is not None:
            check_device(self.learner.device)
        second, file = self.second_table, self.files.file
        if second is not None and self.passes.given:
            raise ValueError(
                f"--{next(iter(self.passes.given))} does not go with --{second}, which is read into"
                " memory"
            )
        if second is not None:
            check_single(file, second)
        if self.is_streamed and self.files.unlabelled is not None:
            raise ValueError(
                "--unlabelled does not go with rows that are read in passes: write nan for such"
                " scores"
            )

    def with_method(self) -> FitRequest:
        """The request with its learner: auto is one learner where rows are read in passes or its
        settings are given.
        """
        request, streamed = self, self.is_streamed
        if self.method is AUTO and (streamed or self.learner.are_of_one_learner):
            agreeing = MethodName.corankrls if self.ranks else MethodName.corls
            has_views = bool(self.chosen.view) or self.passes.unscored is not None
            request = replace(self, method=agreeing if has_views else self.plain_method)
            why = (
                "rows are read in passes" if streamed else "settings of a single learner are given"
            )
            other = (
                f"; --method {agreeing} learns from unscored rows too"
                if streamed and not has_views
                else ""
            )
            note(f"{why}, so models are not averaged: this is --method {request.method}{other}")
        if self.links is not None and request.method is not AUTO:
            raise ValueError(
                f"--links goes with the default method, not with --method {request.method}: leave"
                " out settings of a single learner, or use corank.LinkEncoder in a pipeline in"
                " Python"
            )
        _ = request.settings  # refuses those of other methods before any work
        return request

    def read_views(self, encoder: TableEncoder | None, names: Sequence[str]) -> Any:
        """The views that are given, else two halves of the columns; those of a single learner have
        its kernel.
        """
        settings = {} if self.method is AUTO else self.settings
        kernel = {name: settings[name] for name in ("kernel", "gamma") if name in settings}
        return views_of(self.chosen.view or [], encoder, names, **kernel)


# ---- rows to learn from


@dataclass(frozen=True)
class TrainingTable:
    """A table to learn from.

    Attributes
    ----------
    request : what it was read for
    encoder, features : (n_rows, n_features) and what made them
    scores : (n_rows,), NaN where unscored; None where comparisons take their place
    queries : (n_rows,) numbers of the queries, or None
    names : what the id column calls the rows, or None
    pairs, pair_columns : the comparisons and the names of their columns, or None
    marks : of the scores or comparisons, by which they are recognised
    links : links between the rows, or None
    scored_rows : the rows with a score before they were encoded, for an average of models; or None
    """

    request: FitRequest
    encoder: TableEncoder
    features: FloatArray
    scores: FloatArray | None
    queries: Index | None
    names: Sequence[str | None] | None
    pairs: ReadPairs | None
    pair_columns: PairColumns | None
    marks: Sequence[str]
    links: Links | None
    scored_rows: pa.Table | None

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
        return (
            count(self.n_scored, "scored row")
            if self.pairs is None
            else count(self.pairs.number, "comparison")
        )

    @property
    def remembered(self) -> dict[str, str | int | None]:
        """What a model file keeps of the table."""
        request, queries = (
            self.request,
            (None if self.queries is None else len(np.unique(self.queries))),
        )
        counts = {
            **request.columns,
            "rows": len(self.features),
            "scored": self.n_scored,
            "queries": queries,
        }
        counts[MARKS] = "".join(self.marks) or None
        if request.files.unlabelled is not None:
            counts["unlabelled"] = repr(request.files.unlabelled)
        if request.links is not None:
            counts["links"] = request.links.kind
        if self.pairs is None or self.pair_columns is None:
            return counts
        return {**counts, **asdict(self.pair_columns), "comparisons": self.pairs.number}

    def fit(self, model: Any) -> None:
        """Fit a model on the table."""
        more = as_argument(self.links)
        if self.pairs is not None:
            model.fit_comparisons(self.features, **self.pairs.arguments(), qid=self.queries, **more)
        else:
            model.fit(self.features, self.scores, qid=self.queries, **more)
            if self.scored_rows is not None:
                model._scored_rows = self.scored_rows

    def check_scores(self, *, ranks: bool) -> None:
        """Refuse scores from which nothing can be learned: where it `ranks`, two rows of a query
        must differ.
        """
        if self.scores is None:
            return
        score, query = (
            self.request.columns["score"],
            (self.request.columns["query"] if ranks else None),
        )
        column = f"score column {score!r} of {self.request.files.file}"
        if self.n_scored == 0:
            raise TableError(f"{column} is empty: there is nothing to learn from")
        if self.n_scored == 1:
            raise TableError(f"{column} has a single score: at least two are needed")
        queries = (
            np.zeros(len(self.scores)) if query is None or self.queries is None else self.queries
        )
        scored = ~np.isnan(self.scores)
        order = np.lexsort((self.scores[scored], queries[scored]))
        compete = np.diff(queries[scored][order]) == 0
        if not compete.any():
            raise TableError(
                f"no two rows with the same {query!r} have a score in {score!r}, so none can be"
                " compared: leave out --query to compare all rows"
            )
        if not np.any(compete & (np.diff(self.scores[scored][order]) != 0)):
            within = "" if query is None else f" within every {query!r}"
            raise TableError(
                f"all scores in {score!r} are the same{within}: there is nothing to learn"
            )


def _read_training(request: FitRequest, step: Step) -> TrainingTable:
    """Read what there is to learn from and encode the features."""
    columns, files, file = request.columns, request.files, request.files.file
    score, query, item = columns["score"], columns["query"], columns["id"]
    if score is None:
        table = read_table(file, text=request.labelled)
    else:
        every_item = request.links is not None or is_answers_file(file)
        table = read_scored_items(
            file, files.items, item, score, request.labelled, every_item=every_item
        )
    n_rows = len(table)
    if request.more_rows is not None:
        table = _with_unscored(table, read_table(request.more_rows, text=request.labelled), request)
    scores = None if score is None else score_column(table, score, files.unlabelled)
    if query is not None:
        _check_query_column(table, files, query)
    query_labels = None if query is None else query_column(table, query)
    queries = (
        None if query_labels is None else np.asarray(encode_queries(query_labels, len(table))[0])
    )
    if queries is not None:
        queries[n_rows:] += queries.max() + 1  # rows of --unscored are in queries of their own
    pairs, pair_columns = (
        _read_comparisons(request, table, queries) if files.comparisons else (None, None)
    )
    names = None if item is None else labels(table, item, "id", file)
    identity = item if pairs is not None and request.method is AUTO else None
    features, encoder = learned_columns(table, columns, request.chosen, identity)
    if names is not None and item is not None and pairs is None:
        note_repeated_ids(names, queries, item)
    step(f"encoding {count(len(table), 'row')}")
    numbers: Any = encoder.fit_transform(table.select(features))
    note_kinds(encoder)
    if pairs is not None:
        note_sparse_numbers(table, encoder)
        marks = pair_marks(names or [], pairs)
    else:
        assert scores is not None
        marks = row_marks(names, numbers, scores, query_labels)
    if request.learner.device is not None:
        from torch import as_tensor

        numbers = as_tensor(np.asarray(numbers), device=request.learner.device)
    links = None
    if request.links is not None:
        step(f"reading {request.links.file.name}")
        links = request.links.between(table, check_named(item), files.items or file)
    rows = None
    if scores is not None and request.method is AUTO and np.isnan(scores).any():
        rows = table.select(features).take(pa.array(np.flatnonzero(~np.isnan(scores))))
    return TrainingTable(
        request, encoder, numbers, scores, queries, names, pairs, pair_columns, marks, links, rows
    )


def _with_unscored(table: pa.Table, unscored: pa.Table, request: FitRequest) -> pa.Table:
    """A table with further rows, which have no scores; of these, columns that the table does not
    have are left out.
    """
    score, query, file = request.columns["score"], request.columns["query"], request.more_rows
    if query is not None:
        query_column(unscored, query)  # refuses a table without it
    if score in unscored.column_names and unscored[score].null_count < len(unscored):
        note(f"the scores in {file} are not learned from: --unscored takes its rows as unscored")
    known = set(table.column_names)
    common = [name for name in unscored.column_names if name in known and name != score]
    others = known.difference(common, [score])
    if absent := [name for name in table.column_names if name in others]:
        note(
            f"{file} has no column {listed(absent, SHOWN_COLUMNS)}: its cells there count as"
            " missing"
        )
    try:
        return pa.concat_tables([table, unscored.select(common)], promote_options="permissive")
    except pa.ArrowTypeError as error:
        raise TableError(
            f"--unscored {file} does not have the same kinds of columns as {request.files.file}:"
            f" {error}"
        ) from None


def _check_query_column(table: pa.Table, files: TrainingFiles, query: str) -> None:
    other = next(
        (other for other in files.comparisons or [] if query in column_names_of(other)), None
    )
    if query not in table.column_names and other is not None:
        raise TableError(
            f"--query {query!r}: this column is in {other}, but it must be in the table of items,"
            f" {files.file}, as it says which items compete; who gave an answer is not learned from"
        )


def _read_comparisons(
    request: FitRequest, table: pa.Table, queries: Index | None
) -> tuple[ReadPairs, PairColumns]:
    """The comparisons of all tables, and what their columns are called, in the first of them that
    is no file of answers.
    """
    item, query = request.columns["id"], request.columns["query"]
    assert item is not None
    items, files = NamedItems(request.files.file, item, table), request.files.comparisons or []
    with_margins = request.method is not MethodName.preference
    within = None if query is None or queries is None else (query, queries)
    tables, all_names = [], []
    for file in files:
        given = (
            PairColumns(**vars(request.pairs)) if len(files) == 1 else request.pairs.in_file(file)
        )
        pairs = read_pairs(file, items, given, with_margins=with_margins, query=within)
        tables.append(pairs)
        names = replace(given, winner=given.winner or WINNER, loser=given.loser or LOSER)
        if is_answers_file(file):
            assert pairs.questions is not None
            note(f"{title_of(file)}: {answers_in_words(pairs.questions)}")
            continue
        all_names.append(names)
        if request.method is MethodName.difference and names.margin is None:
            taken = {names.winner, names.loser, names.count, FIRST, SECOND}
            schema = read_table(file).schema
            numeric = [
                entry.name for entry in schema if entry.name not in taken and is_number(entry.type)
            ]
            remedy = (
                f"; --margin {shlex.quote(numeric[0])} would take column {numeric[0]!r}"
                if numeric
                else ""
            )
            note(f"no --margin: every win counts as 1{remedy}")
    return ReadPairs.joined(tables), next(iter(all_names), PairColumns(WINNER, LOSER))


# ---- the learner


def _fitted(
    request: FitRequest, step: Step, *, wants_effects: bool
) -> tuple[Any, list[ColumnEffect]]:
    """The fitted model and, where they are wanted and the rows at hand, the effects of its columns."""
    if request.is_streamed:
        from corank.cli.large_files import fit_in_passes

        return fit_in_passes(request, step), []
    training = _read_training(request, step)
    views = request.read_views(training.encoder, list(training.encoder.get_feature_names_out()))
    training.check_scores(
        ranks=(request.plain_method if request.method is AUTO else request.method) in RANKERS
    )
    model = _learner(request, training.encoder, views)
    step(
        f"fitting {'an average of models' if request.method is AUTO else type(model).__name__} on"
        f" {training.size}"
    )
    training.fit(model)
    model = with_effect(model, step, wanted=request.passes.effect)
    model.encoder_ = training.encoder
    model.table_ = training.remembered
    if training.names is not None and hasattr(model, "atoms_"):
        model.name_atoms([str(training.names[row]) for row in model.atoms_])
    effects = []
    has_rows = (
        training.links is None and request.learner.device is None and training.scores is not None
    )
    if wants_effects and has_rows and training.n_scored >= FEWEST_UNITS:
        step("shuffling columns")
        effects = column_effects(model, training.features, training.scores, qid=training.queries)
    return model, effects


def _learner(request: FitRequest, encoder: TableEncoder, views: Any) -> Any:
    """The learner, not fitted; declared views have a place in an average, random ones do not."""
    if request.method is AUTO:
        declared = list(views) if isinstance(views, list | tuple) else None
        learner = learner_class("AutoRanker" if request.ranks else "AutoRegressor")
        return learner(views=declared, encoder=encoder, random_state=0)
    more = {"views": views} if request.method in AGREEING else {}
    return learner_class(LEARNERS[request.method])(**request.settings, **more)


def with_effect(model: Any, step: Step, *, wanted: bool) -> Any:
    """The model with whether unscored rows helped, which takes several fits; or a model that does
    not look for it.
    """
    if not wanted:
        return model._at_a_glance()
    if hasattr(model, "agreement_") or hasattr(model, "reason_"):
        step(CHECKS_EFFECT)
        _ = model.unscored_effect_  # is kept in the model
    return model


# ---- what is printed


def _result(model: Any, description: Facts, out: Path, seconds: float) -> Facts:
    """Everything that is worth knowing, as JSON has it."""
    functions = description.get("views", [description])
    effect = getattr(model, "unscored_effect_", None)
    effects = {} if effect is None else {"unscored_effect": asdict(effect)}

    def selected(names: Sequence[str]) -> Facts:
        return {name: description[name] for name in names if name in description}

    return {
        "model": str(out),
        "method": description["method"],
        **{name: value for name, value in model.table_.items() if name != MARKS},
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


def _note_no_better(result: Facts) -> None:
    """Say so where the model has learned nothing that helps on rows it has not seen."""
    error, constant = result["held_out_error"], result["held_out_constant"]
    by_errors = error is not None and constant is not None and error > NO_BETTER * constant
    if not by_errors and not (
        COIN_TOSSES in result and result["log_evidence"] <= result[COIN_TOSSES]
    ):
        return
    subject = "who wins" if result.get("comparisons") else repr(result["score"])
    reasons = f"perhaps the features say nothing about {subject}"
    if result["query"] is not None:
        query = repr(result["query"])
        reasons += (
            f", what is good differs between values of {query} (all share one function), or too few"
            " of them "
        )
        reasons += "have several different scores"
    baseline = "a constant prediction" if by_errors else "coin tosses"
    note(f"on held-out rows the model is no better than {baseline}: {reasons}")


def _sentences(description: Facts, result: Facts) -> dict[str, str]:
    """The model in words."""
    sentences = in_words(description)
    del sentences["what"]
    if result["queries"] is not None:
        sentences["queries"] = (
            f"all share one scoring function; {result['query']} says which rows compete and is not"
            " a feature"
        )
    return sentences | {"time": f"{result['seconds']:.1f} s"}


def _next_commands(result: Facts, given: FitRequest, out: Path) -> list[Text]:
    """What to run next; a table of --items describes more items than those with scores."""
    links, items = given.link_options.links, given.files.items
    new_items = "NEW_FILE" if links is None else "ALL_ITEMS"
    lines = [command(f"corank rank {out} {new_items}{links_option(links)} --out ranked.csv")]
    if "log_evidence" in result:
        all_scored = (
            result["score"] is not None and result["scored"] == result["rows"] and items is None
        )
        pool = items or given.files.file
        lines.append(
            command(
                f"corank suggest {out} {'NEW_FILE' if all_scored or pool == DASH else pool} --out"
                " questions.csv",
                "  or: ",
            )
        )
    elif result.get("comparisons"):
        lines.append(
            dim(
                "a model of --method preference can be updated with answers to what corank suggest"
                " asks"
            )
        )
    return lines
