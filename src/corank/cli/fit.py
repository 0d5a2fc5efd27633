"""`corank fit`: a table and the name of its score column, or a table of comparisons beside it → a
model file.

In the order of the file: the command, its options, what is fitted on what, the rows it learns from,
and what it tells about the model. Files that do not fit into memory are fitted by `large_files`.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import typer
from rich.text import Text

from corank.cli.columns import (
    check_scores,
    learned_columns,
    note_kinds,
    note_repeated_ids,
    note_sparse_numbers,
    views_of,
)
from corank.cli.console import (
    DASH,
    check_model_output,
    check_report_output,
    check_single,
    command,
    dim,
    is_big,
    note,
    readable,
    show,
    show_json,
    size_of,
    title_of,
    typed_command,
    working,
)
from corank.cli.items import (
    LinkTable,
    Step,
    answers_in_words,
    asked_of,
    check_named,
    column_names_of,
    links_option,
    read_outcomes,
    read_scored_items,
    table_of_persons,
    with_unscored,
)
from corank.cli.options import (
    AGREEING,
    AUTO,
    LEARNERS,
    RANKERS,
    STREAMED,
    AnsweredRoles,
    CommonOptions,
    Directed,
    File,
    KindOptions,
    LearnerOptions,
    LinkOptions,
    MethodName,
    PairOptions,
    PassOptions,
    TrainingFiles,
    check_goes_with,
    check_views,
    option,
)
from corank.core.arrays import FloatArray, Index, NumpyArray, check_device, take
from corank.core.messages import count
from corank.core.queries import encode_queries
from corank.core.registry import learner_class
from corank.describe import (
    COIN_TOSSES,
    Facts,
    columns_table,
    describe,
    in_words,
    widths_table,
)
from corank.display import Table
from corank.encode.encoder import TableEncoder
from corank.model_files.known_answers import MARKS, pair_marks, row_marks
from corank.tables import (
    TableError,
    TableFile,
    column,
    is_number,
    plain,
    query_column,
    score_column,
)
from corank.tables.answer_log import is_answers_file
from corank.tables.answers import Answers, pairs_of, read_answers
from corank.tables.comparisons import FIRST, LOSER, SECOND, UNNAMED, WINNER, PairColumns, ReadPairs
from corank.tables.names import NamedItems, names_in

if TYPE_CHECKING:
    from corank.interpretation import ColumnEffect

SHOWN_COLUMNS = 5
NO_BETTER = 0.98  # share of the error of a constant above which a model has learned nothing
CHECKS_EFFECT = "checking whether unscored rows help"
FACTS = (  # of the description that the result has too
    "queries_without_scores",
    "features",
    "feature_names",
    "distance_shares",
    "average",
    "candidates",
    "gamma_chosen",
    "gammas_tried",
    "alpha",
    "agreement",
    "pull",
    "n_components",
    "n_atoms",
    "amplitude",
    "noise",
    "log_evidence",
    COIN_TOSSES,
    "held_out_error",
    "held_out_standard_error",
    "held_out_constant",
)


# ---- the command


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
    With --person everybody gets an own order beside what all have in common.
    Instead of scores, --comparisons takes a second table: who beat whom.
    """
    name = title_of(request.files.file)
    job = FitJob.opened(context, request, common)
    links = None if job.links is None else job.links.file
    sources = (job.file, job.items, *job.comparisons, links, job.more_rows)
    check_model_output(out, *sources, force=common.force)
    check_report_output(report, job.file, force=common.force)
    job.check()
    began = time.perf_counter()
    with working(quiet=common.quiet, status=not job.is_streamed) as step:
        step(f"reading {name}")
        job = job.with_method()
        model, effects = _fitted(job, step, wants_effects=report is not None)
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
        show(*_next_commands(result, request, out))


@dataclass(frozen=True, kw_only=True)
class FitRequest:
    """What is to be fitted, on what: the options of `corank fit`."""

    roles: AnsweredRoles
    method: MethodName = option(
        "auto averages many models, weighted by their held-out errors; it ranks with --query,"
        " --person or --comparisons and predicts scores without. rankrls, kpcrank (for noisy scores) and"
        " pursuit (a handful of items) rank; rls, kpcr and matching predict scores; corankrls,"
        " corls and copursuit make several views agree on unscored rows; transductive ranks items"
        " that are known in advance; preference and difference (from who won, or by how much) say"
        " how certain they are and what to ask next.",
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

    def check(self, roles: AnsweredRoles) -> None:
        """Refuse options that do not say what to learn from."""
        files = self.files
        roles.check_persons(compared=bool(files.compared))
        if files.comparisons and files.answers:
            raise ValueError("--answers reads comparisons, too: give them all to --answers")
        if files.items is not None and files.compared:
            raise ValueError(
                "--items is for scores: with --comparisons the first table describes the items"
            )
        if (files.items is not None or files.compared) and roles.id is None:
            option = "--answers" if files.answers else "--items"
            option = "--comparisons" if files.comparisons else option
            raise ValueError(f"{option} needs --id, the column that names the items")
        if not files.comparisons and self.pairs.first_given is not None:
            raise ValueError(
                f"--{self.pairs.first_given} needs a table of comparisons: name it with"
                " --comparisons"
            )
        if not files.compared:
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


@dataclass(frozen=True)
class FitJob:
    """A learner and the tables that it is fitted on.

    Attributes
    ----------
    request : the options
    roles : columns that are not learned from
    file, items, comparisons, links, persons : the tables, opened
    second_table : which option names a table that is read into memory with the first, if any
    more_rows : the file of --unscored where it is read whole, for an average of models that are
        fitted in memory
    is_streamed : whether rows are read in passes
    plain_method : the learner for scored rows alone
    method, settings : the learner and its parameters
    """

    request: FitRequest
    roles: AnsweredRoles
    file: TableFile
    items: TableFile | None
    comparisons: Sequence[TableFile]
    links: LinkTable | None
    persons: TableFile | None
    second_table: str | None
    more_rows: TableFile | None
    is_streamed: bool
    plain_method: MethodName
    method: MethodName
    settings: dict[str, Any]

    @classmethod
    def opened(cls, context: typer.Context, request: FitRequest, common: CommonOptions) -> FitJob:
        """The tables that a request names; it must say what to learn from."""
        files, compared, passes = request.files, request.files.compared, request.passes
        file = readable(context, files.file, common.format, is_first=True)
        roles = request.roles.in_file(file, compared=bool(compared))
        request.check(roles)
        items = None if files.items is None else readable(context, files.items)
        comparisons = [readable(context, path) for path in files.comparisons or []]
        comparisons += map(TableFile, files.answers or [])
        links = request.link_options.opened(context, directed=request.directed)
        persons = None if roles.persons is None else readable(context, roles.persons)
        tables = {"items": items, "comparisons": comparisons, "links": links, "persons": persons}
        second = next((name for name, value in tables.items() if value), None)
        more, streamed = None, is_big(file.path)
        is_average = request.method is AUTO and not request.learner.are_of_one_learner
        in_memory = is_average or request.method not in STREAMED
        if in_memory and set(passes.given) == {"unscored"} and not streamed:
            unscored = Path(str(passes.unscored))
            more = None if is_big(unscored) else TableFile(unscored)
        streamed = second is None and (streamed or (bool(passes.given) and more is None))
        ranks = roles.query is not None or roles.person is not None or comparisons
        if comparisons:
            roles = replace(roles, person=None)  # it is a column of theirs
        plain = MethodName.rankrls if ranks else MethodName.rls
        return cls(
            request,
            roles,
            file,
            items,
            comparisons,
            links,
            persons,
            second,
            more,
            streamed,
            plain,
            request.method,
            {},
        )

    def check(self) -> None:
        """Refuse options that do not go together; second tables are read into memory, so not in
        passes.
        """
        request, given = self.request, self.request.passes.given
        if self.links is not None:
            check_named(self.roles.id)
        if request.learner.kernel == "precomputed":
            raise ValueError(
                "--kernel precomputed needs a kernel matrix, not a table: use corank from Python"
            )
        for name in [*(["view"] if request.chosen.view else []), *given]:
            check_goes_with(name, self.method)
        check_views(request.chosen.view)
        if request.learner.device is not None:
            check_device(request.learner.device)
        second = self.second_table
        if second is not None and given:
            raise ValueError(
                f"--{next(iter(given))} does not go with --{second}, which is read into memory"
            )
        if second is not None:
            check_single(self.file.path, second)
        if self.is_streamed and request.files.unlabelled is not None:
            raise ValueError(
                "--unlabelled does not go with rows that are read in passes: write nan for such"
                " scores"
            )

    def with_method(self) -> FitJob:
        """The job with its learner: auto is one learner where its settings are given, or further
        unscored rows are read in passes.
        """
        request, method, streamed = self.request, self.method, self.is_streamed
        has_unscored = request.passes.unscored is not None
        if method is AUTO and (request.learner.are_of_one_learner or (streamed and has_unscored)):
            agreeing = MethodName.corankrls if self.plain_method in RANKERS else MethodName.corls
            has_views = bool(request.chosen.view) or has_unscored or request.learner.are_of_views
            method = agreeing if has_views else self.plain_method
            why = "settings of a single learner are given"
            if streamed and has_unscored:
                why = "rows of --unscored are read in passes"
            note(f"{why}, so models are not averaged: this is --method {method}")
        if self.links is not None and method is not AUTO:
            raise ValueError(
                f"--links goes with the default method, not with --method {method}: leave"
                " out settings of a single learner, or use corank.LinkEncoder in a pipeline in"
                " Python"
            )
        if self.person is not None:
            if streamed:
                raise ValueError("--person does not go with rows that are read in passes")
            judges = self.comparisons and self.persons is None
            if method is not AUTO and not (judges and method is MethodName.preference):
                raise ValueError(
                    f"--person{'s' * (self.persons is not None)} goes with the default method or,"
                    " of --comparisons without --persons, with --method preference, not with"
                    f" --method {method}"
                )
        settings = request.learner.for_method(method, self.plain_method)
        return replace(self, method=method, settings=settings)

    @property
    def item(self) -> str | None:
        """The column that identifies the items."""
        return self.roles.columns["id"]

    @property
    def person(self) -> str | None:
        """The column that says who answered, of rows with scores or of comparisons."""
        return self.request.roles.person

    @property
    def read_as_text(self) -> list[str]:
        """Columns that stay text when a file is read."""
        return [*self.roles.read_as_text, *self.request.chosen.read_as_text]

    def learner(self, encoder: TableEncoder | None, names: Sequence[str]) -> Any:
        """The learner, not fitted; `names` are those of the features.

        Views are those that are given, in a single learner with its kernel; else two halves of the
        columns, which have no place in an average.
        """
        views = self.request.chosen.view or []
        if self.method is AUTO:
            declared = list(views_of(views, encoder, names)) if views else None
            ranks = self.plain_method in RANKERS
            average = learner_class("AutoRanker" if ranks else "AutoRegressor")
            return average(views=declared, encoder=encoder, random_state=0)
        settings = self.settings
        if self.method in AGREEING:
            kernel = {name: settings[name] for name in ("kernel", "gamma") if name in settings}
            settings = {**settings, "views": views_of(views, encoder, names, **kernel)}
        return learner_class(LEARNERS[self.method])(**settings)


# ---- rows to learn from


@dataclass(frozen=True)
class TrainingTable:
    """A table to learn from.

    Attributes
    ----------
    encoder, features : (n_rows, n_features) and what made them
    scores : (n_rows,), NaN where unscored; None where comparisons take their place
    queries : (n_rows,) numbers of the queries, or None
    names : what the id column calls the rows, or None
    pairs : the comparisons, or None
    linked : links between the rows, as an argument of the learner
    labels : who gave scores and about which item, likewise, and what is known of these persons
    scored_rows : the rows with a score before they were encoded, for an average of models; or None
    remembered : what a model file keeps of the table
    """

    encoder: TableEncoder
    features: FloatArray
    scores: FloatArray | None
    queries: Index | None
    names: Sequence[str | None] | None
    pairs: ReadPairs | None
    linked: dict[str, Any]
    labels: dict[str, Any]
    scored_rows: pa.Table | None
    remembered: dict[str, str | int | None]

    def fit(self, model: Any) -> None:
        """Fit a model on the table."""
        more = self.linked | self.labels
        if self.pairs is not None:
            pairs = self.pairs.arguments()
            model.fit_comparisons(
                self.features, **pairs, qid=self.queries, **self.pairs.more, **more
            )
        else:
            model.fit(self.features, self.scores, qid=self.queries, **more)
            if self.scored_rows is not None:
                model.keep_scored_rows(self.scored_rows)
        model.encoder_, model.table_ = self.encoder, self.remembered
        if self.names is not None and model.has_atoms:
            rows = model.atoms_ if model.has_views else [model.atoms_]
            names = [[str(self.names[row]) for row in atoms] for atoms in rows]
            model.name_atoms(names if model.has_views else names[0])


def _read_training(job: FitJob, step: Step) -> TrainingTable:
    """Read what there is to learn from and encode the features."""
    table, query_labels, queries = _read_rows(job)
    score, item, unlabelled = job.roles.score, job.item, job.request.files.unlabelled
    scores = None if score is None else score_column(table, score, unlabelled)
    pairs, pair_columns = None, UNNAMED
    if job.comparisons:
        read = _read_answers if job.request.files.answers else _read_comparisons
        pairs, pair_columns = read(job, table, queries)
    names = None if item is None else names_in(table, item, "id", job.file)
    if pairs is not None:
        learner = "AutoRanker" if job.method is AUTO else LEARNERS[job.method]
        known = learner_class(learner).answer_columns & pairs.more.keys()
        pairs = replace(pairs, more={name: pairs.more[name] for name in known})
    labels = _labels(job, table, names, queries, pairs)
    by_item = pairs is not None and job.method is AUTO and "item" not in labels
    identity = job.item if by_item else None
    learned, encoder, numbers = _encoded(job, table, identity, step)
    n_queries = None if queries is None else len(np.unique(queries))
    remembered = {**job.roles.columns, "rows": len(table), "queries": n_queries}
    if job.person is not None or (pairs is not None and "person" in pairs.more):
        remembered["person"] = job.person or "person"
    remembered |= {"item": item} if "item" in labels else {}
    if unlabelled is not None:
        remembered["unlabelled"] = repr(unlabelled)
    rows = None
    if pairs is not None:
        marks = pair_marks(names or [], **pairs.arguments(), person=pairs.more.get("person"))
        remembered |= {**asdict(pair_columns), "comparisons": pairs.number}
        remembered["scored"] = pairs.n_items
    else:
        assert scores is not None
        told_apart = asked_of(query_labels, labels.get("person"))
        marks, scored = row_marks(names, numbers, scores, told_apart), ~np.isnan(scores)
        remembered["scored"] = int(scored.sum())
        compared = queries
        if queries is None and "person" in labels:
            names_of = np.array(list(map(str, labels["person"])))
            compared = np.asarray(np.unique(names_of, return_inverse=True)[1])
        ranks = (job.plain_method if job.method is AUTO else job.method) in RANKERS
        within = (job.roles.query or job.person) if ranks else None
        check_scores(job.file, job.roles.score, scores[scored], within, take(compared, scored))
        if job.method is AUTO and not scored.all():
            rows = table.select(learned).filter(pa.array(scored))
    remembered[MARKS] = "".join(marks) or None
    linked = {}
    if job.links is not None:
        step(f"reading {job.links.file.path.name}")
        linked["links"] = job.links.between(table, check_named(item), job.items or job.file)
        remembered["links"] = job.links.kind
    device = job.request.learner.device
    if device is not None:
        from torch import as_tensor

        numbers = as_tensor(np.asarray(numbers), device=device)
    about = linked, labels, rows, remembered
    return TrainingTable(encoder, numbers, scores, queries, names, pairs, *about)


def _labels(
    job: FitJob,
    table: pa.Table,
    names: Sequence[str | None] | None,
    queries: Index | None,
    pairs: ReadPairs | None,
) -> dict[str, Any]:
    """Who gave the scores of a table, about which items, and what is known of the persons, as
    arguments of a learner: items where they come back, or persons compare them.
    """
    labels: dict[str, Any] = {}
    are_items = job.method is AUTO
    if pairs is not None:
        if are_items and "person" in pairs.more:
            labels["item"] = names
    elif names is not None and job.item is not None:
        come_back = note_repeated_ids(names, queries, job.item, are_items=are_items)
        labels |= {"item": names} if come_back and are_items else {}
    if job.roles.person is not None:
        labels["person"] = plain(column(table, job.roles.person, "person")).to_pylist()
    if job.persons is not None:
        labels["persons"] = table_of_persons(job.persons, str(job.person))
    return labels


def _read_rows(job: FitJob) -> tuple[pa.Table, NumpyArray | None, Index | None]:
    """The table of items, with their scores where there are any, and the labels (n_rows,) and
    numbers (n_rows,) of their queries.
    """
    score, query, text = job.roles.score, job.roles.query, job.read_as_text
    if score is None:
        table = job.file.read(text)
    else:
        every_item = job.links is not None or (is_answers_file(job.file) and job.person is None)
        table = read_scored_items(job.file, job.items, job.item, score, text, every_item=every_item)
    n_rows = len(table)
    if job.more_rows is not None:
        table = with_unscored(job.file, table, job.more_rows, job.more_rows.read(text), job.roles)
    if query is None:
        return table, None, None
    _check_query_column(job, table, query)
    labels = query_column(table, query)
    queries = np.asarray(encode_queries(labels, len(table))[0])
    queries[n_rows:] += queries.max() + 1  # rows of --unscored are in queries of their own
    return table, labels, queries


def _encoded(
    job: FitJob, table: pa.Table, identity: str | None, step: Step
) -> tuple[list[str], TableEncoder, FloatArray]:
    """The columns that are learned from, their encoder, and what it makes of them; parameters as in
    `feature_columns`.
    """
    names, encoder = learned_columns(table, job.roles.columns, job.request.chosen, identity)
    step(f"encoding {count(len(table), 'row')}")
    features = encoder.fit_transform(table.select(names))
    note_kinds(encoder)
    if job.comparisons:
        note_sparse_numbers(table, encoder)
    return names, encoder, features


def _check_query_column(job: FitJob, table: pa.Table, query: str) -> None:
    if query in table.column_names:
        return
    for other in [] if job.request.files.answers else job.comparisons:
        if query in column_names_of(other):
            raise TableError(
                f"--query {query!r}: this column is in {other}, but it must be in the table of"
                f" items, {job.file}, as it says which items compete; who gave an answer is not"
                " learned from"
            )


def _read_comparisons(
    job: FitJob, table: pa.Table, queries: Index | None
) -> tuple[ReadPairs, PairColumns]:
    """The comparisons of all tables, and what their columns are called, in the first of them that
    is no file of answers.
    """
    item, query, given = job.item, job.roles.query, job.request.pairs
    assert item is not None
    within = None if query is None or queries is None else (query, queries)
    items = NamedItems(job.file, item, table, within)
    with_margins = job.method is not MethodName.preference or job.person is not None
    tables, all_names = [], []
    for file in job.comparisons:
        columns = PairColumns(**vars(given))
        if len(job.comparisons) > 1:
            columns = given.among([] if is_answers_file(file) else file.read().column_names)
        outcomes = read_outcomes(file, items, columns, person=job.person)
        pairs = outcomes.to_learn(with_margins=with_margins)
        tables.append(pairs)
        if is_answers_file(file):
            assert pairs.questions is not None
            note(f"{title_of(file.path)}: {answers_in_words(pairs.questions)}")
            continue
        columns = replace(columns, winner=columns.winner or WINNER, loser=columns.loser or LOSER)
        all_names.append(columns)
        if job.method is MethodName.difference and columns.margin is None:
            _note_no_margin(file, columns)
    names = all_names[0] if all_names else PairColumns(WINNER, LOSER)
    return ReadPairs.joined(tables), names


def _read_answers(
    job: FitJob, table: pa.Table, queries: Index | None
) -> tuple[ReadPairs, PairColumns]:
    """The comparisons that the answers of all files imply."""
    item, query = job.item, job.roles.query
    assert item is not None
    columns = None if job.person is None else {job.person: "person"}
    judgements = [
        said
        for file in job.comparisons
        for said in read_answers(file.path, columns=columns).judgements
    ]
    labels = None if query is None else names_in(table, query, "query", job.file)
    names = names_in(table, item, "id", job.file)
    if labels is None:
        names = NamedItems(job.file, item, table).labels  # refuses names that repeat
    answered = Answers(judgements).at_rows(names, labels)
    pairs = pairs_of(answered, margins=job.method is not MethodName.preference)
    note(f"{count(len(answered), 'answer')} imply {count(len(pairs.winners), 'comparison')}")
    return pairs, PairColumns()


def _note_no_margin(file: TableFile, columns: PairColumns) -> None:
    """Say that wins count alike, and which column of the table may hold margins."""
    taken = {columns.winner, columns.loser, columns.count, FIRST, SECOND}
    schema = file.read().schema
    free = [field.name for field in schema if field.name not in taken and is_number(field.type)]
    remedy = ""
    if free:
        remedy = f"; --margin {shlex.quote(free[0])} would take column {free[0]!r}"
    note(f"no --margin: every win counts as 1{remedy}")


# ---- the model


def _fitted(job: FitJob, step: Step, *, wants_effects: bool) -> tuple[Any, list[ColumnEffect]]:
    """The fitted model and, where they are wanted and the rows at hand, the effects of its columns."""
    if job.is_streamed:
        from corank.cli.large_files import fit_in_passes

        return fit_in_passes(job, step), []
    training = _read_training(job, step)
    model = job.learner(training.encoder, list(training.encoder.get_feature_names_out()))
    what = "an average of models" if job.method is AUTO else type(model).__name__
    n_scored: Any = training.remembered["scored"]
    rows = count(n_scored, "scored row")
    if training.pairs is not None:
        rows = count(training.pairs.number, "comparison")
    step(f"fitting {what} on {rows}")
    training.fit(model)
    model = with_effect(model, step, wanted=job.request.passes.effect)
    has_rows = not training.linked and not training.labels and job.request.learner.device is None
    if not wants_effects or not has_rows or training.scores is None:
        return model, []
    from corank.interpretation import FEWEST_UNITS, column_effects  # slow to import

    if n_scored < FEWEST_UNITS:
        return model, []
    step("shuffling columns")
    return model, column_effects(model, training.features, training.scores, qid=training.queries)


def with_effect(model: Any, step: Step, *, wanted: bool) -> Any:
    """The model with whether unscored rows helped, which takes several fits; or a model that does
    not look for it.
    """
    if not wanted:
        return model.at_a_glance()
    if model.has_views or model.is_average:
        step(CHECKS_EFFECT)
        _ = model.unscored_effect_  # is kept in the model
    return model


# ---- what is printed


def _result(model: Any, description: Facts, out: Path, seconds: float) -> Facts:
    """Everything that is worth knowing, as JSON has it."""
    functions = description.get("views", [description])
    result = {
        "model": str(out),
        "method": description["method"],
        **{name: value for name, value in model.table_.items() if name != MARKS},
        **{name: description[name] for name in FACTS if name in description},
        "columns": [] if model.encoder_ is None else model.encoder_.summary(),
        "kernel": functions[0]["kernel"],  # with views that of the first stands for all
        "gamma": functions[0]["gamma"],
        "basis": sum(function["basis"] for function in functions),
        "tried": description["tried"] // description["gammas_tried"],
        "seconds": round(seconds, 3),
    }
    effect = description.get("unscored_effect")
    if effect is not None:
        result["unscored_effect"] = {name: effect[name] for name in effect if name != "words"}
    return result


def _note_no_better(result: Facts) -> None:
    """Say so where the model has learned nothing that helps on rows it has not seen."""
    error, constant = result["held_out_error"], result["held_out_constant"]
    by_errors = error is not None and constant is not None and error > NO_BETTER * constant
    by_tosses = COIN_TOSSES in result and result["log_evidence"] <= result[COIN_TOSSES]
    if not by_errors and not by_tosses:
        return
    subject = "who wins" if result.get("comparisons") else repr(result["score"])
    reasons = f"perhaps the features say nothing about {subject}"
    if result["query"] is not None:
        query = repr(result["query"])
        reasons += (
            f", what is good differs between values of {query} (all share one function), or too few"
            " of them have several different scores"
        )
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


def _next_commands(result: Facts, request: FitRequest, out: Path) -> list[Text]:
    """What to run next; a table of --items describes more items than those with scores."""
    links, items = request.link_options.links, request.files.items
    new_items = "NEW_FILE" if links is None else "ALL_ITEMS"
    lines = [command(f"corank rank {out} {new_items}{links_option(links)} --out ranked.csv")]
    if "log_evidence" in result:
        all_scored = result["score"] is not None and result["scored"] == result["rows"]
        pool = items or request.files.file
        unknown = (all_scored and items is None) or pool == DASH
        asked = "NEW_FILE" if unknown else pool
        lines.append(command(f"corank suggest {out} {asked} --out questions.csv", "  or: "))
    elif result.get("comparisons"):
        lines.append(
            dim(
                "a model of --method preference can be updated with answers to what corank suggest"
                " asks"
            )
        )
    return lines
