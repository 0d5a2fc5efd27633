"""SVMlight and LETOR: `score qid:3 1:0.5 2:0.1 # note`, one row a line. Features that are not named are 0."""

from __future__ import annotations

import gzip
import io
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.datasets import load_svmlight_file

from corank.scans.chunks import Place, Runs, check_finite, one_run, runs_of
from corank.scans.files import File
from corank.scans.sources import Raw, Unit, Wanted
from corank.tables import TableError

LAST_FEATURE = re.compile(rb"(\d+):[^\s:#]+\s*(?:#[^\n]*)?(?:\n|\Z)")
SCORE, QUERY = "score", "qid"


class SvmlightSource:
    """Lines of numbers; a unit is a file. Features count from 1 and are named so.

    Parameters
    ----------
    n_features : how many there are; None reads all files once to find out
    """

    def __init__(self, files: Sequence[File], n_features: int | None) -> None:
        self.files = files
        self.units = [Unit(file) for file in files]
        self.has_queries = {self._first_line(file) for file in files}
        if len(self.has_queries) > 1:
            raise TableError("some files have qid: and others have not; all or none")
        self.n_features = max(map(self._last_feature, files)) if n_features is None else n_features

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
        for lines in self._lines(unit.file, chunk_rows):
            raw = self._parsed(lines, wanted, Place(unit.file.path, row))
            row += raw.n_rows
            if raw.n_rows:
                yield raw

    def _parsed(self, lines: list[bytes], wanted: Wanted, place: Place) -> Raw:
        n_features = self.n_features
        try:
            X, scores, labels = load_svmlight_file(
                io.BytesIO(b"".join(lines)), n_features=n_features, query_id=True, zero_based=False
            )
        except (ValueError, OverflowError) as error:
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

    def _lines(self, file: File, chunk_rows: int) -> Iterator[list[bytes]]:
        """Lines that hold a row, so many at a time."""
        lines: list[bytes] = []
        with _reading(file) as opened:
            for line in opened:
                if line.split(b"#", 1)[0].strip():
                    lines.append(line)
                if len(lines) == chunk_rows:
                    yield lines
                    lines = []
        if lines:
            yield lines

    def _first_line(self, file: File) -> bool:
        """Whether it has queries."""
        for lines in self._lines(file, 1):
            words = lines[0].split()
            try:
                float(words[0])
            except ValueError:
                raise TableError(f"{file.path} is no svmlight file: it begins with {lines[0][:40]!r}") from None
            return len(words) > 1 and words[1].startswith(b"qid:")
        raise TableError(f"{file.path} has no rows")

    def _last_feature(self, file: File) -> int:
        highest = 0
        with _reading(file) as opened:
            while block := opened.read(2**24):
                block += opened.readline()
                highest = max(highest, *map(int, LAST_FEATURE.findall(block)), 0)
        return highest


@contextmanager
def _reading(file: File) -> Iterator[Any]:
    """The lines of a file; what breaks meanwhile names it."""
    try:
        with gzip.open(file.path, "rb") if file.path.lower().endswith(".gz") else Path(file.path).open("rb") as opened:
            yield opened
    except (OSError, EOFError, zlib.error) as error:
        raise TableError(f"{file.path} cannot be read, it may be damaged or cut off: {error}") from error
