"""What `corank fit` learns from: a file as features, scores and queries, checked in the words of its columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corank.cli.columns import feature_columns, note_ids
from corank.cli.console import count
from corank.encoder import TableEncoder
from corank.kernels import WITH_GAMMA
from corank.rows import encode_queries
from corank.tables import TableError, column, query_column, read_table, score_column

TUNED_UP_TO = 1_500  # scored rows for which seven kernel widths are tried in some seconds


@dataclass(frozen=True)
class Training:
    """A table to learn from.

    Attributes
    ----------
    columns : names of the score, query and id columns, None where there is none
    features : (n_rows, n_features)
    scores : (n_rows,), NaN where unscored
    queries : (n_rows,) numbers of the queries, or None
    names : what the id column calls the rows, or None
    """

    file: Path
    columns: dict[str, str | None]
    encoder: TableEncoder
    features: NDArray[np.float64]
    scores: NDArray[np.float64]
    queries: NDArray[np.int64] | None
    names: Sequence[str] | None = None

    @property
    def n_scored(self) -> int:
        """Number of rows with a score."""
        return int(np.count_nonzero(~np.isnan(self.scores)))

    @property
    def remembered(self) -> dict[str, str | int | None]:
        """What a model file keeps of the table."""
        queries = None if self.queries is None else len(np.unique(self.queries))
        return {**self.columns, "rows": len(self.scores), "scored": self.n_scored, "queries": queries}

    def automatic_gamma(self, kernel: str) -> str:
        """How to choose the kernel width where nobody says."""
        return "tune" if kernel in WITH_GAMMA and self.n_scored <= TUNED_UP_TO else "scale"

    def check_scores(self, *, ranks: bool) -> None:
        """Refuse scores from which nothing can be learned: where it `ranks`, two rows of a query must differ."""
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


def read_training(
    file: Path,
    columns: dict[str, str | None],
    wanted: Sequence[str],
    dropped: Sequence[str],
    doing: Callable[[str], None],
) -> Training:
    """Read a file and encode its features.

    Parameters
    ----------
    file : path of a table
    columns : names of the score, query and id columns
    wanted, dropped : names and patterns of features, as in `feature_columns`
    doing : is told what is being done
    """
    score, query, id_column = columns["score"], columns["query"], columns["id"]
    assert score is not None
    table = read_table(file, text=[name for name in (query, id_column) if name is not None])
    scores = score_column(table, score)
    queries = None if query is None else encode_queries(query_column(table, query), len(table))[0]
    names_of_rows = None if id_column is None else [str(name) for name in column(table, id_column, "id").to_pylist()]
    names = feature_columns(table, columns, wanted, dropped)
    note_ids(table, names)
    doing(f"encoding {count(len(table), 'row')}")
    encoder = TableEncoder()
    return Training(file, columns, encoder, encoder.fit_transform(table.select(names)), scores, queries, names_of_rows)
