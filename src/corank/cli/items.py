"""A model and the tables that a command applies it to: opened, read with the columns that the model
remembers from fit, and linked; and tables that name items which another table describes:
comparisons and scores, also those of a file of answers, and links.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import typer

from corank.cli.columns import features_of, remembered, text_columns, unlabelled_score
from corank.cli.console import DASH, check_model_and_table, check_single, note, readable
from corank.core.arrays import FloatArray, Index, Mask, NumpyArray
from corank.core.messages import count, did_you_mean, listed, near_names
from corank.core.queries import encode_queries
from corank.links import Links, read_links
from corank.model_files import load
from corank.model_files.known_answers import row_marks
from corank.tables import (
    TableError,
    TableFile,
    column,
    columns_of,
    is_text,
    numbers,
    plain,
    query_column,
    score_column,
)
from corank.tables.answer_log import (
    COLUMNS,
    PERSON,
    SCORE,
    SKIP,
    AnswerLog,
    is_answers_file,
    mean_scores,
    pair_outcomes,
    read_answers,
    running_scores,
)
from corank.tables.comparisons import (
    FIRST,
    SECOND,
    UNNAMED,
    WINNER,
    Outcomes,
    PairColumns,
    ReadPairs,
    read_comparisons,
)
from corank.tables.names import TIE, NamedItems, names_in

if TYPE_CHECKING:
    from corank.cli.options import CommonOptions, LinkOptions, RoleOptions

Step = Callable[[str], None]  # is called with the step that begins
MUTUAL, DIRECTED = "mutual", "directed"  # what a model remembers of the links it was fitted with
SHOWN_COLUMNS = 5
WEIGHT_NAMES = ("weight", "weights", "count", "times", "strength")
# questions → in words
LEFT_OUT = {"unanswered": "not answered", "skipped": "skipped", "undone": "taken back"}


@dataclass(frozen=True)
class AppliedModel:
    """A model and what a command applies it to: the table `file`, perhaps one that describes the
    `items`, and one of links.
    """

    path: Path
    file: TableFile
    items: TableFile | None
    links: LinkTable | None

    @classmethod
    def opened(
        cls,
        context: typer.Context,
        path: Path,
        file: Path,
        common: CommonOptions,
        links: LinkOptions,
        items: Path | None = None,
    ) -> AppliedModel:
        """The tables that a command names; the model is loaded when it is used."""
        check_model_and_table(str(context.info_name), path, file)
        table = readable(context, file, common.format, is_first=True)
        described_in = None if items is None else readable(context, items)
        linked = links.opened(context)
        if linked is not None:
            check_single(table.path, "links")
        return cls(path, table, described_in, linked)

    @cached_property
    def model(self) -> Any:
        """The fitted learner."""
        return load(self.path)

    @property
    def sources(self) -> tuple[TableFile | None, ...]:
        """All tables that are read, which must not be overwritten."""
        return self.file, self.items, None if self.links is None else self.links.file

    def named_by(self, item: str | None) -> str:
        """The column that names the items: the given one, else that of the fit."""
        column = item or remembered(self.model, "id")
        if column is None:
            raise ValueError(
                "the model does not remember which column names the items: name it with --id"
            )
        return str(column)

    def linked(
        self, table: pa.Table, item: str | None, file: TableFile, *, needed: bool = False
    ) -> dict[str, Any]:
        """Links between the rows of a table as the argument of a model's methods; empty where there
        are none.

        The table must hold every item that links should lead to. Direction is that of the fit.
        `needed`: whether a model that was fitted with links cannot do without.
        """
        kind = remembered(self.model, "links")
        has_links = kind is not None or self.model.with_links
        if self.links is None:
            if has_links and needed:
                raise ValueError(
                    "the model was fitted with links: give --links, and a table of all linked items"
                )
            if has_links:
                note(
                    "the model was fitted with links, but --links is not given: only the columns of"
                    " each item are used"
                )
            return {}
        if not has_links:
            raise ValueError(
                "--links: the model was fitted without links; leave it out, or give it to corank"
                " fit"
            )
        item = check_named(item or remembered(self.model, "id"))
        links = replace(self.links, directed=kind == DIRECTED).between(
            table, item, file, may_be_empty=True
        )
        if links.matrix.nnz == 0:
            note(
                f"no link of {self.links.file} joins two items of {file}: only the columns of each"
                " item are used"
            )
        return {"links": links}

    def compared_items(
        self, query: str | None, item: str, otherwise: str
    ) -> tuple[ItemTable, NamedItems]:
        """The table that describes the items of comparisons, and its rows by name."""
        assert self.items is not None
        items = ItemTable.read(self, self.items, query, item, otherwise=otherwise)
        queries = None if items.query is None else (items.query, items.queries)
        return items, NamedItems(self.items, item, items.table, queries)

    @property
    def pair_columns(self) -> PairColumns:
        """Names of the columns of comparisons in fit."""
        return PairColumns.remembered(self.model)


@dataclass(frozen=True)
class ItemTable:
    """A table of items as a model sees it.

    Attributes
    ----------
    applied : the model
    file, table : where the items stand
    query, queries : the query column, and the numbers of the queries (n_rows,), all 0 without such
        a column
    """

    applied: AppliedModel
    file: TableFile
    table: pa.Table
    query: str | None
    queries: Index

    @classmethod
    def read(
        cls,
        applied: AppliedModel,
        file: TableFile,
        query: str | None,
        *names: str | None,
        otherwise: str = "",
        person: str | None = None,
    ) -> ItemTable:
        """Read a table, with the query column of the fit if none is given; the columns `names` stay
        text.

        The column of the fit may be missing, which is noted, with what is done `otherwise`. Without
        queries the rows of a person are a query, unless all are for one `person`.
        """
        by = query or remembered(applied.model, "query")
        table = file.read(text_columns(applied.model, by, *names))
        if by is not None and query is None and by not in table.column_names:
            near = near_names(by, table.column_names)
            guess = f"; did you mean --query {shlex.quote(near[0])}?" if near else ""
            if otherwise:
                note(
                    f"{file} has no column {by!r}, which held the queries in fit:"
                    f" {otherwise}{guess}"
                )
            by = None
        if by is None and person is None:
            by = _there(applied.model, "person", table)
        queries = np.zeros(len(table), dtype=np.int64) if by is None else query_column(table, by)
        codes = np.asarray(encode_queries(queries, len(table))[0])
        return cls(applied, file, table, by, codes)

    @cached_property
    def features(self) -> FloatArray:
        """What the model learns from: (n_rows, n_features)."""
        return features_of(self.applied.model, self.table)

    def linked(
        self, item: str | None, person: str | None = None, *, needed: bool = False
    ) -> dict[str, Any]:
        """Links between the rows, as in `AppliedModel`, and labels as in `role_labels`."""
        linked = self.applied.linked(self.table, item, self.file, needed=needed)
        return linked | role_labels(self.applied.model, self.table, person)

    def without(self, answered: Collection[str], item: str) -> ItemTable:
        """The table without the rows of some items."""
        kept = np.array(
            [name not in answered for name in names_in(self.table, item, "id", self.file)]
        )
        queries = np.asarray(encode_queries(self.queries[kept], int(kept.sum()))[0])
        return replace(self, table=self.table.filter(pa.array(kept)), queries=queries)

    def names(
        self, column: str | None, *, asked: bool
    ) -> tuple[str | None, list[str | None] | None]:
        """The column that names the items, and the names; a column that was not `asked` for may be
        missing, which is noted.
        """
        if column is not None and not asked and column not in self.table.column_names:
            note(
                f"{self.file} has no column {column!r}, which named the items in fit: row numbers"
                " are used instead"
            )
            column = None
        return column, None if column is None else names_in(self.table, column, "item", self.file)


def _there(model: Any, role: str, table: pa.Table) -> str | None:
    """The column that had a role in fit, where a table has it."""
    name: str | None = remembered(model, role)
    return name if name in table.column_names else None


def role_labels(
    model: Any, table: pa.Table, person: str | None = None, column_of: str | None = None
) -> dict[str, Any]:
    """Who answered and about which item, as arguments of a model's methods, as far as it knows them
    and the table says it.

    person : the one for whom all rows are; column_of : that names the persons, by default as in fit
    """
    labels: dict[str, Any] = {}
    for role in ("person", "item") if model.is_average else ():
        name = column_of if role == "person" and column_of else _there(model, role, table)
        if name is not None and remembered(model, role) is not None:
            labels[role] = plain(column(table, name, role)).to_pylist()
    return labels if person is None else labels | {"person": person}


def labels_at(labels: dict[str, Any], rows: Index) -> dict[str, Any]:
    """The labels of some rows."""

    def chosen(names: Any) -> Any:
        if isinstance(names, str | pa.Table):  # of all rows, about all persons
            return names
        return [names[row] for row in rows.tolist()]

    return {role: chosen(names) for role, names in labels.items()}


def labels_of_pairs(labels: dict[str, Any], first: Index, second: Index) -> dict[str, Any]:
    """The labels of comparisons between rows: who answers about the first ones, and both items."""
    ends = labels_at(labels, first), labels_at(labels, second)
    return ends[0] | ({"item": (ends[0]["item"], ends[1]["item"])} if "item" in labels else {})


def table_of_persons(file: TableFile, person: str) -> pa.Table:
    """A table about persons, the column that names them first."""
    table = file.read([person])
    column(table, person, "person")
    return table.select([person, *(name for name in table.column_names if name != person)])


def known_person(model: Any, name: str | None, more: Sequence[str | None] = ()) -> str | None:
    """The name of a person of the model, or of some more; others are refused."""
    if name is None:
        return None
    persons = model.persons_ if model.is_average else None
    if persons is None:
        raise ValueError(
            "--for needs a model that knows persons: corank fit --person COLUMN, with the default"
            " method"
        )
    if (name := name.strip()) not in [*persons, *more]:
        raise ValueError(
            f"--for {name!r} is none of the {count(len(persons), 'person')} of the model"
            f"{did_you_mean(name, persons) or '; without --for the order is that of all'}"
        )
    return name


@dataclass(frozen=True)
class ScoredItems:
    """Rows with scores as a model sees them; with links all rows, as others resemble them.

    Attributes
    ----------
    table : the rows
    scores : (n_rows,), NaN where unscored
    queries : (n_rows,) labels, or None
    features : (n_rows, n_features)
    linked : links between the rows, as in `AppliedModel`, and labels as in `role_labels`
    marks : of the scored rows, by which they are recognised
    """

    table: pa.Table
    scores: FloatArray
    queries: NumpyArray | None
    features: FloatArray
    linked: dict[str, Any]
    marks: list[str]

    @classmethod
    def of(
        cls,
        applied: AppliedModel,
        table: pa.Table,
        score: str,
        query: str | None,
        item: str | None,
        person: str | None,
        *,
        needed: bool = False,
    ) -> ScoredItems:
        """The rows of a table; links that are `needed` must be there."""
        model = applied.model
        scores = score_column(table, score, unlabelled_score(applied.model))
        file = applied.items or applied.file
        linked = applied.linked(table, item, file, needed=needed)
        if not linked:
            scored = ~np.isnan(scores)
            table = table.filter(pa.array(scored))
            scores = scores[scored]
        queries = None if query is None else query_column(table, query)
        features = features_of(model, table)
        names = None
        if item is not None and item in table.column_names:
            names = names_in(table, item, "item", applied.file)
        labels = role_labels(model, table, column_of=person)
        marks = row_marks(names, features, scores, asked_of(queries, labels.get("person")))
        return cls(table, scores, queries, features, linked | labels, marks)

    @property
    def scored(self) -> Mask:
        """Which rows have a score."""
        return ~np.isnan(self.scores)


def asked_of(queries: NumpyArray | None, persons: Sequence[Any] | None) -> NumpyArray | None:
    """What tells scores of one item apart: queries and persons (n_rows,), None without either."""
    if persons is None:
        return queries
    whose = queries if queries is not None else [""] * len(persons)
    return np.array([f"{query}\t{name}" for query, name in zip(whose, persons, strict=True)])


def read_scored(
    applied: AppliedModel, score: str, query: str | None, item: str | None, *, empty: str
) -> pa.Table:
    """A table with scores, with the columns of the items that it names; `empty`: what is said where
    no row has a score.
    """
    if applied.items is not None:
        item = applied.named_by(item)
    text = text_columns(applied.model, query, item)
    every_item = applied.links is not None
    table = read_scored_items(applied.file, applied.items, item, score, text, every_item=every_item)
    if np.isnan(score_column(table, score, unlabelled_score(applied.model))).all():
        raise TableError(empty)
    return table


# ---- tables that name items: comparisons


def read_outcomes(
    file: TableFile,
    items: NamedItems,
    given: PairColumns = UNNAMED,
    remembered: PairColumns = UNNAMED,
    *,
    person: str | None = None,
    to_learn: bool = True,
) -> Outcomes:
    """Read comparisons of a table or a file of answers, with or without answers; parameters as in
    `read_comparisons`.
    """
    if is_answers_file(file):
        return _outcomes_of_answers(file, items, given, with_persons=person is not None)
    return read_comparisons(file, items, given, remembered, person=person, to_learn=to_learn)


def place_of(file: TableFile) -> str:
    """Where a row of a file of answers stands, which has other lines too; nothing for a table."""
    return f"an answer of {file}" if is_answers_file(file) else ""


def column_names_of(file: TableFile) -> list[str]:
    """Names of the columns of a table of comparisons or a file of answers."""
    return list(COLUMNS) if is_answers_file(file) else file.read().column_names


def holds_comparisons(file: TableFile) -> bool:
    """Whether a file of answers compares items, rather than scoring them."""
    return any(answer.kind != SCORE for answer in read_answers(file).answers)


def read_scores(
    file: TableFile, items: TableFile | None, item: str | None, score: str, text: Iterable[str]
) -> pa.Table:
    """Read a table with scores; of a file of answers the columns `item` and `score`, one row per
    item: the mean of the last scores that people gave it, or where its column of persons is among
    those in `text`, one row for each of them.

    `items` and `item`: the table that describes the items, and what their names are called, None
    where not given.
    """
    if not is_answers_file(file):
        return file.read(text)
    if items is None or item is None:
        raise TableError(
            f"{file} holds answers about items: name the table that describes them with --items,"
            " and its column of names with --id"
        )
    answers = _log_of(file).answers
    by_person = {
        (answer.items[0].strip(), answer.person or None): answer.score
        for answer in answers
        if answer.score is not None
    }
    scores = mean_scores(answers)
    if scores and PERSON in text:
        names, persons = zip(*by_person, strict=True)
        return pa.table({item: names, PERSON: persons, score: list(by_person.values())})
    if not scores:
        raise TableError(f"{file} has comparisons but no scores: give it as --comparisons {file}")
    return pa.table({item: [name.strip() for name in scores], score: list(scores.values())})


def _outcomes_of_answers(
    file: TableFile, items: NamedItems, given: PairColumns, *, with_persons: bool
) -> Outcomes:
    """The comparisons that answers imply, the better item first; what was skipped or taken back is
    left out.
    """
    if given.first_given is not None:
        raise ValueError(
            f"--{given.first_given} does not go with {file}: the columns of a file of answers are"
            " known"
        )
    log = _log_of(file)
    answers = [answer for answer in log.answers if answer.kind != SCORE and answer.answer != SKIP]
    if not answers:
        raise TableError(
            f"{file} has scores but no comparisons: use corank fit {file} --items TABLE --id COLUMN"
            " --score score"
        )
    outcomes = pair_outcomes(answers)
    who = [answer.person or None for answer in answers for _ in pair_outcomes([answer])]
    persons = who if with_persons else ()
    left = [name.strip() for name, _, _ in outcomes]
    right = [name.strip() for _, name, _ in outcomes]
    won = np.array([value for _, _, value in outcomes])
    first, second = items.pairs_of((left, right), file, (FIRST, SECOND), place_of(file))
    winners = [TIE if tied else name for name, tied in zip(left, won == 0.5, strict=True)]
    questions = {
        "answers": len(answers),
        "ties": sum(answer.answer == TIE for answer in answers),
        "skipped": sum(answer.answer == SKIP for answer in log.answers),
        "undone": log.undone,
        "broken": len(log.broken),
    }
    table = pa.table({FIRST: left, SECOND: right, WINNER: winners})
    names = PairColumns(WINNER)
    return Outcomes(file, table, names, first, second, won, questions=questions, persons=persons)


def pairs_taken_back(file: TableFile, items: NamedItems, *, with_margins: bool) -> list[ReadPairs]:
    """What each answer that was taken back had said, as a model would have learned it; items that
    are gone are left out.
    """
    if not is_answers_file(file):
        return []
    taken_back = []
    for answer in read_answers(file).taken_back:
        pairs = []
        for first, second, won in pair_outcomes([answer]):
            first = first.strip()
            second = second.strip()
            if first not in items or second not in items:
                continue
            tied = won == 0.5
            pairs.append((first, second, 0.0 if tied and with_margins else 1.0))
            if tied and not with_margins:
                pairs.append((second, first, 1.0))
        winners = items.rows_of([first for first, _, _ in pairs], file, FIRST)
        losers = items.rows_of([second for _, second, _ in pairs], file, SECOND)
        taken_back.append(ReadPairs(winners, losers, np.array([margin for _, _, margin in pairs])))
    return taken_back


def scores_taken_back(file: TableFile) -> list[tuple[str, float]]:
    """Names and scores of items that a file of answers has given at some time and gives no more."""
    if not is_answers_file(file):
        return []
    log = read_answers(file)
    now = set(mean_scores(log.answers).items())
    everything = sorted([*log.answers, *log.taken_back], key=lambda answer: answer.number)
    gone = {pair for answers in (log.answers, everything) for pair in running_scores(answers)} - now
    return sorted((name.strip(), score) for name, score in gone)


def _log_of(file: TableFile) -> AnswerLog:
    """A file of answers, with notes about what is left out of it."""
    log = read_answers(file)
    note_broken_lines(log, file)
    if not log.answers:
        undone = " that were not taken back" if log.undone else ""
        raise TableError(f"{file} has no answers{undone}: collect some with corank ask")
    if len({answer.kind == SCORE for answer in log.answers}) > 1:
        note(f"{file} holds both scores and comparisons: only one of them is used at a time")
    return log


def note_broken_lines(log: AnswerLog, file: TableFile) -> None:
    """Say how many lines of a file of answers are left out because they cannot be read."""
    if log.broken:
        lines = count(len(log.broken), "line")
        note(
            f"left out: {lines} of {file} that cannot be read, such as line {log.broken[0]},"
            " perhaps cut off while writing"
        )


def answers_in_words(questions: dict[str, int], tie: str = "") -> str:
    """How many questions were answered, and what was left out; `tie` says what a tie counts for."""
    words = count(questions["answers"], "answer")
    if questions["ties"]:
        words += f" ({count(questions['ties'], 'tie')}{tie})"
    left_out = [
        f"{questions[key]:,} {meaning}" for key, meaning in LEFT_OUT.items() if questions.get(key)
    ]
    return ", ".join([words, *left_out])


# ---- tables that name items: links


@dataclass(frozen=True)
class LinkTable:
    """A table of links.

    Attributes
    ----------
    file : the table
    columns : names of its two columns of items and perhaps that of weights; empty = the first two
    directed : whether directions are kept
    """

    file: TableFile
    columns: tuple[str, ...]
    directed: bool

    @property
    def kind(self) -> str:
        """What a model remembers of it."""
        return DIRECTED if self.directed else MUTUAL

    def between(
        self, table: pa.Table, item: str, file: TableFile, *, may_be_empty: bool = False
    ) -> Links:
        """The links between the rows of a table from `file`, whose column `item` names the rows.

        may_be_empty : whether it is fine that no link joins two of the rows
        """
        ids = NamedItems(file, item, table).labels
        names = list(self.columns)
        edges = self.file.read(names[:2])
        if not names:
            names = edges.column_names[:2]
            if len(names) < 2:
                raise TableError(
                    f"--links {self.file} has only one column, {names[0]!r}, but a link takes two"
                )
            if not all(is_text(edges.schema.field(name).type) for name in names):
                edges = self.file.read(names)  # labels such as 007 stay as they are
            unused = [name for name in edges.column_names[2:] if name.lower() in WEIGHT_NAMES]
            if unused:
                columns = ",".join([*names, unused[0]])
                note(
                    f"all links count equally: --link-columns {columns} takes column {unused[0]!r}"
                    " as weights"
                )
        ends = {str(at): _trimmed(column(edges, name, "link")) for at, name in enumerate(names[:2])}
        if len(names) == 3:
            ends["weight"] = pa.array(numbers(column(edges, names[2], "weight"), names[2]))
        try:
            links = read_links(
                ends, len(table), ids=ids, directed=self.directed, may_be_empty=may_be_empty
            )
        except ValueError as error:
            message = str(error).removeprefix("links: ").removesuffix(".")
            raise TableError(f"--links {self.file}: {message}") from error
        if links.n_unknown:
            note(links.remark())
        return replace(links, n_unknown=0)  # it is said once


def _trimmed(values: Any) -> Any:
    values = plain(values)
    return pc.utf8_trim_whitespace(values) if is_text(values.type) else values


def links_option(links: Path | None) -> str:
    """The option --links of a command to run next, as it was given to this one."""
    return "" if links is None else f" --links {'LINKS' if links == DASH else links}"


def check_named(item: str | None) -> str:
    """The column that names the items; an error where nothing says what they are called."""
    if item is None:
        raise ValueError("--links needs --id, the column that names the items")
    return item


# ---- tables that name items: scores


def read_scored_items(
    file: TableFile,
    items: TableFile | None,
    item: str | None,
    score: str,
    text: Sequence[str],
    *,
    every_item: bool,
) -> pa.Table:
    """Read a table with scores, joined by the names in column `item` with the table that describes
    the `items`, if any.

    There is a row per score or, for `every_item`, as links need it, a row per item, scored or not.
    """
    answers = read_scores(file, items, item, score, text)
    if items is None:
        return answers
    assert item is not None
    table = items.read([*text, item])
    named = names_in(answers, item, "item", file)
    rows = NamedItems(items, item, table).rows_of(named, file, item, place_of(file))
    if not every_item:
        columns: dict[str, Any] = {}
        # of columns that both have, that of the answers
        for source in (table.take(pa.array(rows)), answers):
            columns |= columns_of(source)
        return pa.table(columns)
    values = score_column(answers, score)
    given = ~np.isnan(values)
    repeated = np.flatnonzero(np.bincount(rows[given], minlength=len(table)) > 1)
    if repeated.size:
        name = table[item][int(repeated[0])].as_py()
        raise TableError(
            f"{name!r} has several scores in {file}: with --links every item is one row, with one"
            " score"
        )
    scores = np.full(len(table), np.nan)
    scores[rows[given]] = values[given]
    if score in table.column_names:
        table = table.drop_columns([score])
    return table.append_column(score, pa.array(scores, from_pandas=True))


# ---- tables of further rows


def with_unscored(
    file: TableFile, table: pa.Table, more: TableFile, unscored: pa.Table, roles: RoleOptions
) -> pa.Table:
    """A table with further rows, which have no scores; of these, columns that the table does not
    have are left out.
    """
    score, query = roles.score, roles.query
    if query is not None:
        query_column(unscored, query)  # refuses a table without it
    if score in unscored.column_names and unscored[score].null_count < len(unscored):
        note(f"the scores in {more} are not learned from: --unscored takes its rows as unscored")
    known = set(table.column_names)
    common = [name for name in unscored.column_names if name in known and name != score]
    others = known.difference(common, [score])
    if absent := [name for name in table.column_names if name in others]:
        note(
            f"{more} has no column {listed(absent, SHOWN_COLUMNS)}: its cells there count as"
            " missing"
        )
    try:
        return pa.concat_tables([table, unscored.select(common)], promote_options="permissive")
    except pa.ArrowTypeError as error:
        raise TableError(
            f"--unscored {more} does not have the same kinds of columns as {file}: {error}"
        ) from None
