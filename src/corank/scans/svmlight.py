"""SVMlight and LETOR: `score qid:3 1:0.5 2:0.1 # note`, one row a line. Features that are not named are 0."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from corank.scans.chunks import Place, Runs, check_finite, one_run, runs_of
from corank.scans.files import File
from corank.scans.sources import Raw, Unit, Wanted
from corank.tables import TableError
from corank.tables.svmlight import QUERY, SCORE, has_queries, last_feature, lines_of, parsed_lines


class SvmlightSource:
    """Lines of numbers; a unit is a file. Features count from 1 and are named so.

    Parameters
    ----------
    n_features : how many there are; None reads all files once to find out
    """

    def __init__(self, files: Sequence[File], n_features: int | None) -> None:
        self.files = files
        self.units = [Unit(file) for file in files]
        self.has_queries = {has_queries(Path(file.path)) for file in files}
        if len(self.has_queries) > 1:
            raise TableError("some files have qid: and others have not; all or none")
        self.n_features = max(last_feature(Path(file.path)) for file in files) if n_features is None else n_features

    @property
    def names(self) -> list[str]:
        """The columns: score, qid where there is one, and the features."""
        queries = [QUERY] if True in self.has_queries else []
        return [SCORE, *queries, *(str(number) for number in range(1, self.n_features + 1))]

    def number_columns(self) -> list[str]:
        """All of them."""
        return self.names

    def check(self, wanted: Wanted) -> None:
        """Refuse columns that such files do not have."""
        if wanted.query is not None and True not in self.has_queries:
            raise TableError(f"{self.files[0].path} has no qid:, so there is no query column {wanted.query!r}")
        for name, known in ((wanted.score, SCORE), (wanted.query, QUERY)):
            if name not in (None, known):
                raise TableError(f"svmlight files have no column {name!r}; the {known} is called {known!r}")
        unknown = set(wanted.features or ()) - set(self.names[1:])
        if unknown or wanted.extra or wanted.as_table:
            raise TableError("svmlight files have features '1', '2', … and no other columns")

    def read(self, unit: Unit, wanted: Wanted, chunk_rows: int) -> Iterator[Raw]:
        """The rows of a file."""
        unit.file.check()
        row = 0
        for lines in lines_of(Path(unit.file.path), chunk_rows):
            raw = self._parsed(lines, wanted, Place(unit.file.path, row))
            row += raw.n_rows
            if raw.n_rows:
                yield raw

    def _parsed(self, lines: list[bytes], wanted: Wanted, place: Place) -> Raw:
        n_features = self.n_features
        try:
            X, scores, labels = parsed_lines(lines, n_features)
        except ValueError as error:
            raise TableError(f"{place.path}, near {place.of(0)}: {error}") from error
        features: Any = None
        if wanted.features is not None:
            own = [int(name) - 1 for name in wanted.features]
            features = (X if own == list(range(n_features)) else X[:, own]).toarray()
            check_finite(features, wanted.features, place)
        if np.isinf(scores).any():
            row = int(np.argmax(np.isinf(scores)))
            raise TableError(f"the score is infinity in {place.of(row)}; write nan where a row is unscored")
        runs: Runs = one_run()
        if wanted.query is not None:
            if len(labels) != len(scores):
                raise TableError(f"{place.path}, near {place.of(0)}: some lines have no qid:")
            runs = runs_of(pa.chunked_array([pa.array(labels)]), QUERY, place)
        return Raw(len(scores), features, None if wanted.score is None else scores, runs, place, None)
