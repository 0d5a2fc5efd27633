"""What `corank fit` learns from: files as features, scores or comparisons, and queries, checked in the words of their
columns."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from corank.cli.columns import feature_columns, note_ids
from corank.cli.console import count, note
from corank.cli.items import Items, joined
from corank.cli.pairs import FIRST, LOSER, SECOND, WINNER, PairColumns, Pairs, read_pairs
from corank.encoder import TableEncoder
from corank.kernels import WITH_GAMMA
from corank.rows import encode_queries
from corank.tables import TableError, column, is_number, query_column, read_table, score_column

TUNED_UP_TO = 1_500  # scored rows or comparisons for which seven kernel widths are tried in some seconds


@dataclass(frozen=True)
class Compared:
    """A second table, of comparisons: what is in it and what its columns are called."""

    file: Path
    columns: PairColumns
    pairs: Pairs


@dataclass(frozen=True)
class Training:
    """A table to learn from.

    Attributes
    ----------
    columns : names of the score, query and id columns, None where there is none
    features : (n_rows, n_features)
    scores : (n_rows,), NaN where unscored; None where comparisons take their place
    queries : (n_rows,) numbers of the queries, or None
    names : what the id column calls the rows, or None
    compared : the comparisons, or None
    """

    file: Path
    columns: dict[str, str | None]
    encoder: TableEncoder
    features: NDArray[np.float64]
    scores: NDArray[np.float64] | None
    queries: NDArray[np.int64] | None
    names: Sequence[str] | None = None
    compared: Compared | None = None

    @property
    def n_scored(self) -> int:
        """Number of rows with a score, or in a comparison."""
        if self.compared is not None:
            return self.compared.pairs.n_items
        assert self.scores is not None
        return int(np.count_nonzero(~np.isnan(self.scores)))

    @property
    def n_unscored(self) -> int:
        """Number of the other rows."""
        return len(self.features) - self.n_scored

    @property
    def size(self) -> str:
        """What there is to learn from, in words."""
        if self.compared is not None:
            return count(self.compared.pairs.number, "comparison")
        return count(self.n_scored, "scored row")

    @property
    def remembered(self) -> dict[str, str | int | None]:
        """What a model file keeps of the table."""
        queries = None if self.queries is None else len(np.unique(self.queries))
        kept = {**self.columns, "rows": len(self.features), "scored": self.n_scored, "queries": queries}
        if self.compared is None:
            return kept
        return {**kept, **asdict(self.compared.columns), "comparisons": self.compared.pairs.number}

    def automatic_gamma(self, kernel: str) -> str:
        """How to choose the kernel width where nobody says and held-out errors choose."""
        size = self.n_scored if self.compared is None else max(self.n_scored, len(self.compared.pairs.winners))
        return "tune" if kernel in WITH_GAMMA and size <= TUNED_UP_TO else "scale"

    def on(self, device: str | None) -> Training:
        """The same with its numbers on a device."""
        if device is None:
            return self
        from torch import as_tensor

        return replace(self, features=as_tensor(np.asarray(self.features), device=device))

    def fit(self, model: Any) -> None:
        """Fit a model on it."""
        if self.compared is not None:
            model.fit_comparisons(self.features, **self.compared.pairs.given(), qid=self.queries)
        else:
            model.fit(self.features, self.scores, qid=self.queries)

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


@dataclass(frozen=True)
class Source:
    """What to read.

    Attributes
    ----------
    file : path of a table of items
    items : path of a table that describes the items which `file` scores, or None where that does it
    columns : names of the score, query and id columns, None where there is none
    wanted, dropped : names and patterns of features, as in `feature_columns`
    comparisons : path of a table of comparisons, which takes the place of a score column, or None
    pairs : names of its columns
    with_margins : whether the method learns from margins
    notes_margins : whether to say so where it could and there are none
    """

    file: Path
    items: Path | None
    columns: dict[str, str | None]
    wanted: Sequence[str]
    dropped: Sequence[str]
    comparisons: Path | None
    pairs: PairColumns
    with_margins: bool
    notes_margins: bool = False


def read_training(source: Source, doing: Callable[[str], None]) -> Training:
    """Read what there is to learn from and encode the features; `doing` is told what is being done."""
    columns, file = source.columns, source.file
    score, query, id_column = columns["score"], columns["query"], columns["id"]
    text = [name for name in (query, id_column) if name is not None]
    table = read_table(file, text=text)
    if source.items is not None:
        assert id_column is not None
        table = joined(table, file, source.items, id_column, text)
    if query is not None and source.comparisons is not None:
        _check_who_answered(table, file, source.comparisons, query)
    scores = None if score is None else score_column(table, score)
    queries = None if query is None else np.asarray(encode_queries(query_column(table, query), len(table))[0])
    compared = None if source.comparisons is None else _compared(source, table, queries)
    names_of_rows = None if id_column is None else [str(name) for name in column(table, id_column, "id").to_pylist()]
    names = feature_columns(table, columns, source.wanted, source.dropped)
    doing(f"encoding {count(len(table), 'row')}")
    encoder = TableEncoder()
    features = encoder.fit_transform(table.select(names))
    note_ids(table, [name for name in names if name not in encoder.dropped_])
    return Training(file, columns, encoder, features, scores, queries, names_of_rows, compared)


def _check_who_answered(table: pa.Table, file: Path, comparisons: Path, query: str) -> None:
    if query not in table.column_names and query in read_table(comparisons).column_names:
        raise TableError(
            f"column {query!r} is in {comparisons}, but --query must be a column of the items, {file}: it says which items "
            "compete; who answered cannot be learned from"
        )


def _compared(source: Source, table: pa.Table, queries: NDArray[np.int64] | None) -> Compared:
    assert source.comparisons is not None
    item, query = source.columns["id"], source.columns["query"]
    assert item is not None
    items = Items(source.file, item, table)
    pairs = read_pairs(
        source.comparisons,
        items,
        source.pairs,
        with_margins=source.with_margins,
        query=None if query is None or queries is None else (query, queries),
    )
    names = replace(source.pairs, winner=source.pairs.winner or WINNER, loser=source.pairs.loser or LOSER)
    if source.notes_margins and names.margin is None:
        _note_margins(source.comparisons, names)
    return Compared(source.comparisons, names, pairs)


def _note_margins(file: Path, names: PairColumns) -> None:
    """Say that all wins count the same, and which columns could say by how much."""
    table, known = read_table(file), {names.winner, names.loser, names.count, FIRST, SECOND}
    others = [one.name for one in table.schema if one.name not in known and is_number(one.type)]
    could = f"; --margin {shlex.quote(others[0])} would take column {others[0]!r}" if others else ""
    note(f"no --margin: every win counts as 1{could}")
