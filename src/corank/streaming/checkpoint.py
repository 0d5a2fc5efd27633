"""Checkpoints: the sums so far of every pass of a fit, in files that are complete or not there.

Sums belong to one set of rows and one set of parameters; a checkpoint of others is refused, and the
difference is named.
"""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from corank.core.arrays import Arrays, digest
from corank.core.storable import ModelFileError
from corank.inputs import is_frame
from corank.model_files.container import read_model, write_model
from corank.tables import replacing

ABOUT = "about.json"
WORK_PER_WRITING = 20  # time between two writings, in units of the time that one takes
SIGTERM_STATUS = 143  # 128 + SIGTERM, by the convention of shells


class Checkpoint:
    """A folder of sums.

    Parameters
    ----------
    folder : path; created where it does not exist
    about : everything that the sums depend on, as JSON: rows, columns, parameters
    """

    def __init__(self, folder: str | os.PathLike[str], about: dict[str, Any]) -> None:
        self.folder = Path(folder)
        if self.folder.exists() and not self.folder.is_dir():
            raise NotADirectoryError(
                f"checkpoint {self.folder} is a file; give the name of a folder"
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        self._next = 0.0
        about = json.loads(json.dumps(about, default=repr))
        file = self.folder / ABOUT
        if file.exists():
            self._compare(file, about)
        else:
            for path in self.folder.iterdir():
                if not path.name.startswith(".corank-"):
                    raise FileExistsError(
                        f"the folder {self.folder} holds other files ({path.name}); give checkpoint"
                        " a folder of its own"
                    )
            self._write(about, overwrite=False)

    def _write(self, about: dict[str, Any], *, overwrite: bool) -> None:
        with replacing(self.folder / ABOUT, overwrite=overwrite) as opened:
            opened.write(json.dumps(about, indent=1).encode())

    def _compare(self, file: Path, about: dict[str, Any]) -> None:
        try:
            before = json.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(
                f"{file} is damaged; delete the folder {self.folder} to start again"
            ) from error
        difference = next(differences(before, about), None)
        if difference is None:
            return
        if any(self.folder.glob("*.sums")):
            raise ValueError(
                f"the checkpoint in {self.folder} belongs to another fit: {difference}. Fit as"
                " before, give another folder, or delete this one"
            )
        self._write(about, overwrite=True)  # of a fit that was refused before it began

    def load(self, name: str) -> tuple[dict[str, Any], Arrays] | None:
        """The JSON and arrays that were saved under a name, None where there are none."""
        path = self.folder / f"{name}.sums"
        if not path.exists():
            return None
        try:
            return read_model(path)
        except ModelFileError as error:
            raise ModelFileError(
                f"{error}; delete the folder {self.folder} to start again"
            ) from error

    @property
    def is_due(self) -> bool:
        """Whether enough work was done since the last writing."""
        return time.monotonic() >= self._next

    def save(self, name: str, header: dict[str, Any], arrays: Arrays) -> None:
        """Save JSON and arrays under a name, in place of earlier ones."""
        began = time.monotonic()
        for stale in self.folder.glob(".corank-*.part"):  # of a process that was killed
            stale.unlink(missing_ok=True)
        # sums hold rows, too
        write_model(self.folder / f"{name}.sums", header, arrays, overwrite=True, private=True)
        now = time.monotonic()
        self._next = now + WORK_PER_WRITING * (now - began)


def differences(before: Any, after: Any, where: str = "") -> Iterator[str]:
    """The differences between two descriptions, in words."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [*before, *(key for key in after if key not in before)]:
            yield from differences(before.get(key), after.get(key), f"{where} {key}".strip())
    elif isinstance(before, list) and isinstance(after, list) and before != after:
        pairs = [(old, new) for old, new in zip(before, after, strict=False) if old != new]
        for old, new in pairs[:1]:
            is_same = isinstance(old, list) and isinstance(new, list) and old[:1] == new[:1]
            change = (
                f"{old[0]} was changed" if is_same else f"{_short(old)} then, {_short(new)} now"
            )
            yield f"{where}: {change}"
        if not pairs:
            yield f"{where}: {len(before)} then, {len(after)} now"
    elif before != after:
        yield f"{where} was {_short(before)} then and is {_short(after)} now"


def _short(value: Any) -> str:
    text = json.dumps(value) if not isinstance(value, str) else value
    return text if len(text) <= 80 else f"{text[:77]}…"


@contextmanager
def stopping_at_sigterm() -> Iterator[None]:
    """SIGTERM ends the block like Ctrl-C does, so that complete sums can be written."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may change what a signal does
        return

    def stop(number: int, frame: Any) -> None:
        raise SystemExit(SIGTERM_STATUS)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def in_words(value: Any) -> str:
    """A parameter without where it lies in memory, which differs from run to run."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def digest_of(values: Any) -> str:
    """Of an array, a frame or a list; of chunks only that they are some."""
    if is_frame(values) or (isinstance(values, Sequence) and np.ndim(values[0]) == 0):
        values = np.asarray(values)
    if not hasattr(values, "shape"):
        return "chunks"
    return digest(values.astype(str) if values.dtype == object else values)
