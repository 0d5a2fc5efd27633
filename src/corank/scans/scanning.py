"""A scan: more rows than memory, in chunks that are read ahead. How one is made of files is the business of `opening`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from typing import Any, ClassVar

import numpy as np

from corank._backend import is_foreign, is_sparse
from corank.encoder import TableEncoder
from corank.rows import is_frame
from corank.scans.background import read_ahead
from corank.scans.chunks import Chunk, Cursor, check_finite
from corank.scans.sources import Raw, Source, Unit, Wanted
from corank.tables import TableError

CHUNK_BYTES = 2**25  # of the features of one chunk, as float64
CHUNK_ROWS = (2**12, 2**19)  # the least and the most


@dataclass(frozen=True)
class Scan:
    """Rows in files that are read chunk by chunk: see `scan`."""

    is_scan: ClassVar[bool] = True

    source: Source
    wanted: Wanted
    chunk_rows: int
    encoder: TableEncoder | None = None
    maps: tuple[Callable[[Any], Any], ...] = ()
    device: str | None = None
    client: Any = None
    chosen: bool = False  # whether the features were named
    unnamed: bool = False  # whether columns have no names of their own
    kept: Any = field(default=None, repr=False)  # folder that lives as long as the scan

    # ---------------------------------------------------------------- what it holds

    @property
    def columns(self) -> list[str]:
        """The names of all columns of the files."""
        return self.source.names

    @property
    def has_scores(self) -> bool:
        """Whether a score column was named."""
        return self.wanted.score is not None

    @property
    def has_queries(self) -> bool:
        """Whether a query column was named."""
        return self.wanted.query is not None

    @property
    def n_rows(self) -> int | None:
        """Number of rows, None where that is known only by reading (CSV, SVMlight)."""
        counts = [unit.n_rows for unit in self.source.units]
        return None if any(count is None for count in counts) else sum(count or 0 for count in counts)

    @cached_property
    def feature_names(self) -> list[str] | None:
        """The names of the features that a learner sees; None where a map gives none."""
        if self.unnamed and not self.maps:
            return None
        if self.encoder is None and not self.maps:
            return list(self.wanted.features or ())
        if self.encoder is not None and not self.maps:
            return [str(name) for name in self.encoder.get_feature_names_out()]
        return self._first[1]

    @cached_property
    def n_features(self) -> int:
        """The number of features that a learner sees."""
        if self.unnamed and not self.maps:
            return len(self.wanted.features or ())
        names = self.feature_names
        return self._first[0] if names is None else len(names)

    @cached_property
    def _first(self) -> tuple[int, list[str] | None]:
        """Width and names of what the maps make of the first rows."""
        return self._of_first_rows()[1:]

    def _of_first_rows(self) -> tuple[Any, int, list[str] | None]:
        """What encoder and maps make of the first rows."""
        for unit in self.source.units:
            for raw in self.source.read(unit, self.wanted, min(self.chunk_rows, 64)):
                return self._mapped(self._encoded(raw), raw)
        raise TableError("the files have no rows")

    def map(self, f: Callable[[Any], Any]) -> Scan:
        """The same rows, their features (n, d) of every chunk passed through `f` → (n, d′), row by row.

        For instance ``scan(...).map(scaler.transform)``. A function that looks at other rows of the chunk would make
        the model depend on where chunks end.
        """
        if not callable(f):
            raise TypeError(f"map needs a function of the features, got {f!r}")
        return replace(self, maps=(*self.maps, f))

    def seen_by(self, names: Sequence[str] | None, n_features: int, learner: str) -> Scan:
        """The same rows with the features that a model was fitted on, in its order.

        Where the features were not named they are picked by the model's names; else they must be the same.
        """
        if names is not None and not (self.chosen or self.unnamed) and self.encoder is None and not self.maps:
            own = replace(self.wanted, features=tuple(str(name) for name in names))
            self.source.check(own)
            return replace(self, wanted=own)
        found = self.feature_names
        if names is not None and found is not None and list(names) != found:
            missing = [name for name in names if name not in found]
            what = f"{missing[0]!r} is missing" if missing else "their order differs"
            raise ValueError(f"the scan has other features than {learner} was fitted on: {what}.")
        if self.n_features != n_features:
            raise ValueError(f"the scan has {self.n_features} features, but {learner} is expecting {n_features}.")
        return self

    # ---------------------------------------------------------------- reading

    def chunks(
        self, start: Cursor = (0, 0), first_row: int = 0, *, features: bool = True
    ) -> Generator[Chunk, None, None]:
        """The chunks from a cursor on, read ahead; before it lie `first_row` rows."""
        return read_ahead(lambda: self._read(start, first_row, features=features))

    def unit_chunks(
        self, number: int, first_row: int = 0, *, skipped: int = 0, features: bool = True
    ) -> Generator[Chunk, None, None]:
        """The chunks of one unit but for the first few."""
        unit = self.source.units[number]
        return read_ahead(lambda: self._read_unit(number, unit, skipped, first_row, features=features))

    def _read(self, start: Cursor, row: int, *, features: bool) -> Iterator[Chunk]:
        first, skipped = start
        for number in range(first, len(self.source.units)):
            unit = self.source.units[number]
            for chunk in self._read_unit(number, unit, skipped if number == first else 0, row, features=features):
                row += chunk.n_rows
                yield chunk

    def _read_unit(self, number: int, unit: Unit, skipped: int, row: int, *, features: bool) -> Iterator[Chunk]:
        wanted = self.wanted if features else replace(self.wanted, features=None)
        for position, raw in enumerate(self.source.read(unit, wanted, self.chunk_rows)):
            if position < skipped:
                continue
            values = self._features(raw) if features else np.empty((raw.n_rows, 0))
            scores = self._placed(raw.scores)
            yield Chunk(values, scores, raw.runs, row, (number, position + 1), raw.place, raw.extra)
            row += raw.n_rows

    def _features(self, raw: Raw) -> Any:
        values, width, _ = self._mapped(self._encoded(raw), raw)
        if self.maps and width != self._first[0]:
            raise ValueError(f"map gives {width} columns from {raw.place.of(0)} on, and {self._first[0]} at first")
        return self._placed(values)

    def _encoded(self, raw: Raw) -> Any:
        return raw.features if self.encoder is None else self.encoder.transform(raw.features)

    def _mapped(self, values: Any, raw: Raw) -> tuple[Any, int, list[str] | None]:
        """What the maps make of features, checked: (n, d), d, the names of the columns."""
        names: list[str] | None = None
        if self.maps:
            for f in self.maps:
                values = f(values)
            names = [str(name) for name in values.columns] if is_frame(values) else None
            if is_sparse(values) or is_foreign(values):
                raise ValueError("map must give NumPy arrays or frames; for another device use scan(..., device=)")
            values = np.asarray(values)
            if values.ndim != 2 or len(values) != raw.n_rows:
                raise ValueError(f"map must give one row a row ({raw.n_rows}, d), got shape {values.shape}")
            if values.dtype not in (np.float32, np.float64):
                values = values.astype(np.float64)
            check_finite(values, names, raw.place)
        return values, int(values.shape[1]), names

    def _placed(self, values: Any) -> Any:
        """Values on the device."""
        if self.device is None or values is None:
            return values
        return import_module("torch").as_tensor(values, device=self.device)

    def reference(self) -> Any:
        """An empty array of the library and device that is computed on."""
        return self._placed(np.empty(0))

    # ---------------------------------------------------------------- what it is

    def _files(self) -> list[Any]:
        if self.kept is not None:  # a temporary folder, made from these
            return list(self.kept.files)
        return list(dict.fromkeys(unit.file for unit in self.source.units))

    def _about_maps(self) -> list[str]:
        """The names of the maps, and what they make of the first rows: a name says nothing of what a scaler has learned."""
        if not self.maps:
            return []
        values = np.ascontiguousarray(self._of_first_rows()[0])
        names = [getattr(f, "__qualname__", type(f).__qualname__) for f in self.maps]
        return [*names, hashlib.sha256(values.tobytes()).hexdigest()]

    def __repr__(self) -> str:
        files, wanted = self._files(), self.wanted
        rows = "" if self.n_rows is None else f", {self.n_rows:,} rows"
        roles = "".join(
            f", {role} {name!r}" for role, name in (("score", wanted.score), ("query", wanted.query)) if name
        )
        first = files[0].path if files else "files without rows"
        return f"<scan of {first}{' …' if len(files) > 1 else ''}{rows}, {len(wanted.features or ())} columns{roles}>"

    def about(self) -> dict[str, Any]:
        """What a checkpoint remembers of it: other rows or columns would give other sums."""
        return {
            "files": [[file.path, file.size, file.changed, *file.keys] for file in self._files()],
            "shuffle_queries": self.kept is not None,
            "features": list(self.wanted.features or ()),
            "score": self.wanted.score,
            "query": self.wanted.query,
            "chunk_rows": self.chunk_rows,
            "encoder": None if self.encoder is None else _digest(self.encoder),
            "maps": self._about_maps(),
            "device": self.device,
        }


def _digest(encoder: TableEncoder) -> str:
    header, arrays = encoder.to_state()
    text = json.dumps([header, {name: array.tolist() for name, array in arrays.items()}], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
