"""How far a long pass is: rows, rows a second, time left. Nothing is shown where stderr is no terminal.

One pass over a scan: every chunk becomes a partial result, and partial results are merged in the order of the rows.

What is merged with what follows from the files alone, never from where a pass broke or how fast chunks were read, so
that a pass that was taken up again gives the same bits.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, Self

from corank._arrays import Array, Arrays
from corank.model_files.container import ModelFileError
from corank.streaming.checkpoint import Checkpoint
from corank.streaming.chunks import Chunk
from corank.streaming.dask import batches
from corank.streaming.scan import Scan


@contextmanager
def shown(what: str, total: int | None, done: int = 0) -> Iterator[Callable[[int], None]]:
    """Call what this gives with the number of rows that were worked off."""
    if not sys.stderr.isatty():
        yield lambda rows: None
        return
    from rich.console import Console
    from rich.errors import LiveError
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Speed(ProgressColumn):
        """Rows, and rows a second."""

        def render(self, task: Task) -> Text:
            speed = "" if not task.speed else f", {task.speed:,.0f}/s"
            return Text(f"{task.completed:,.0f} rows{speed}")

    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), Speed(), TimeRemainingColumn(), console=Console(stderr=True)
    )
    try:
        bar.start()
    except LiveError:  # something else is being shown
        yield lambda rows: None
        return
    try:
        task = bar.add_task(what, total=total, completed=done)
        yield lambda rows: bar.update(task, advance=rows)
    finally:
        bar.stop()


class Partial(Protocol):
    """A result for rows that follow each other."""

    def merged(self, other: Self) -> Self:
        """The result for these rows and those that follow."""
        ...

    def packed(self) -> tuple[dict[str, Any], Arrays]:
        """JSON and arrays."""
        ...


class Job(Protocol):
    """What is done with a chunk."""

    def __call__(self, chunk: Chunk) -> Partial:
        """Its partial result."""
        ...

    def unpacked(self, header: dict[str, Any], arrays: Arrays, reference: Array) -> Partial:
        """A partial result from what it packed."""
        ...

    def digest(self) -> str:
        """What tells this job from others of its name."""
        ...


@dataclass(frozen=True)
class State:
    """A pass so far: the result for the rows before a cursor."""

    result: Any = None
    cursor: tuple[int, int] = (0, 0)
    rows: int = 0

    def after(self, part: Any, cursor: tuple[int, int], rows: int) -> State:
        """The state with one more part, None where it has no rows."""
        both = self.result is not None and part is not None
        result = self.result.merged(part) if both else part if self.result is None else self.result
        return State(result, cursor, self.rows + rows)


@dataclass
class Passes:
    """Runs passes, and keeps what they have in a checkpoint where one is wanted."""

    checkpoint: Checkpoint | None = None

    def run(self, scan: Scan, job: Job, name: str, what: str, total: int | None = None) -> Any:
        """The merged result of a job over all chunks.

        name : of the pass in the checkpoint; what : is shown while it runs; total : rows, where known
        """
        state, done = self._resumed(scan, job, name)
        if done:
            return state.result
        total = scan.n_rows if total is None else total
        try:
            with shown(what, total, state.rows) as advance:
                steps = _here(scan, job, state) if scan.client is None else batches(scan, job, state.cursor, state.rows)
                with closing(steps):
                    for part, cursor, rows in steps:
                        state = state.after(part, cursor, rows)  # at once: an interruption finds the old or the new
                        advance(rows)
                        if self.checkpoint is not None and self.checkpoint.is_due:
                            self._save(state, job, name)
        except BaseException:
            if self.checkpoint is not None and state.result is not None:
                self._save(state, job, name)
            raise
        if state.result is None:
            raise ValueError("the scan has no rows.")
        if self.checkpoint is not None:
            self._save(state, job, name, done=True)
        return state.result

    def _resumed(self, scan: Scan, job: Job, name: str) -> tuple[State, bool]:
        found = None if self.checkpoint is None else self.checkpoint.load(name)
        if found is None:
            return State(), False
        header, arrays = found
        assert self.checkpoint is not None
        if header.get("job") != job.digest():
            raise ValueError(
                f"the checkpoint in {self.checkpoint.folder} was made with other basis rows or folds ({name}); delete it"
            )
        try:
            result = job.unpacked(header["result"], arrays, scan.reference())
            unit, chunk = header["cursor"]
            return State(result, (int(unit), int(chunk)), int(header["rows"])), bool(header["done"])
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise ModelFileError(
                f"{name} in the checkpoint {self.checkpoint.folder} is damaged; delete the folder to start anew"
            ) from error

    def _save(self, state: State, job: Job, name: str, *, done: bool = False) -> None:
        assert self.checkpoint is not None
        header, arrays = state.result.packed()
        about = {"job": job.digest(), "cursor": list(state.cursor), "rows": state.rows, "done": done}
        self.checkpoint.save(name, {**about, "result": header}, arrays)


def _here(scan: Scan, job: Job, state: State) -> Generator[tuple[Any, tuple[int, int], int], None, None]:
    """The partial results of the chunks that are left, one by one."""
    chunks = scan.chunks(state.cursor, state.rows)
    with closing(chunks):
        for chunk in chunks:
            yield job(chunk), chunk.cursor, chunk.n_rows
