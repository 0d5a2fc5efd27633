"""Small files that are nested, repeat themselves or are wide, with random sizes at random places,
through `read_table` and the commands: each is read or refused, in little time and memory.

Every case runs in a process of its own, whose memory counts from its own start.
"""

from __future__ import annotations

import gzip
import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from fuzz.mutations import Rng

MAX_SECONDS = 5  # of processor time, until a file is refused
MAX_READ_SECONDS = 60  # until one that is not refused has gone through a command
MAX_BYTES = 500_000_000  # above the start of the process, until a file is refused
LARGER_BYTES = 1_500_000
ACTS: dict[str, tuple[str, ...]] = {
    "read": (),
    "fit": ("fit", "FILE", "--score", "score", "--method", "rls", "--out", "new.corank"),
    "ask": ("ask", "FILE", "--id", "missing", "--out", "answers.csv"),
    "inspect": ("inspect", "FILE"),
}
PROGRAM = """
import json, resource, sys, time
from corank.cli import app
from corank.tables import read_table
usage = lambda: resource.getrusage(resource.RUSAGE_SELF)
before, begin = usage().ru_maxrss, time.process_time()
said = ""
try:
    if len(sys.argv) == 2:
        read_table(sys.argv[1])
    else:
        app(sys.argv[1:], standalone_mode=False)
except (ValueError, TypeError) as error:
    said = str(error)
except SystemExit as stop:
    said = "refused" if stop.code == 2 else ""
    if stop.code not in (0, 2, None):
        raise
used = (usage().ru_maxrss - before) * 1024
print(json.dumps([said, time.process_time() - begin, used]))
"""


def run(rng_seed: int, count: int) -> list[str]:
    """Findings of so many files."""
    findings = []
    for seed in range(rng_seed, rng_seed + count):
        with tempfile.TemporaryDirectory() as name:
            rng = np.random.default_rng(seed)
            kind = str(rng.choice(sorted(KINDS)))
            path = KINDS[kind](rng, Path(name))
            act = str(rng.choice(sorted(ACTS), p=(0.2, 0.2, 0.1, 0.5)))
            finding = examined(path, act)
            if finding is not None:
                findings.append(
                    f"growth {seed} ({kind}, {act}, {path.stat().st_size:,} bytes): {finding}"
                )
    return findings


def examined(path: Path, act: str) -> str | None:
    """What is wrong with how an act on a file ended, None where nothing is."""
    words = [str(path) if word == "FILE" else word for word in ACTS[act]] or [str(path)]
    try:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, *words],
            check=False,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=10 * MAX_READ_SECONDS,
            cwd=path.parent,
            preexec_fn=_limited,
        )
    except subprocess.TimeoutExpired:
        return "hangs"
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [""])[-1]
        return f"ended with code {done.returncode}: {last[:200]}"
    said, seconds, n_bytes = json.loads(done.stdout.splitlines()[-1])
    if "\n" in said.strip() or "Traceback" in done.stderr:
        return f"said {said[:200]!r}"
    if seconds > (MAX_SECONDS if said else MAX_READ_SECONDS):
        return f"took {seconds:.1f} s"
    if n_bytes > MAX_BYTES and (said or act == "read"):
        return f"took {n_bytes / 1e6:.0f} MB"
    return None


def _limited() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (2 * MAX_READ_SECONDS, 2 * MAX_READ_SECONDS + 5))


# ---- files


def _size(rng: Rng, low: float, high: float) -> int:
    """A whole number, of any order of size between two."""
    return int(np.exp(rng.uniform(np.log(low), np.log(high))))


def _text_file(rng: Rng, path: Path, text: str) -> Path:
    if rng.random() < 0.3:
        path = path.with_name(f"{path.name}.gz")
        path.write_bytes(gzip.compress(text.encode(), 1))
    else:
        path.write_text(text)
    return path


def _nested(rng: Rng, folder: Path) -> Path:
    """Brackets inside each other, after rows that have none."""
    opening = ("[", '{"a":', '["]",', '[{"b":"}\\"{","a":', "[ ", "[\n", "[{},\n")
    pieces = rng.choice(len(opening), size=int(rng.integers(1, 4)), replace=False)
    start = "".join(opening[piece] for piece in pieces)
    end = "".join("]" if mark == "[" else "}" for mark in reversed(_open_brackets(start)))
    depth = _size(rng, 1, 50_000)
    is_closed = rng.random() < 0.7
    row = f'{{"score":1,"b":{start * depth}1{end * depth if is_closed else ""}}}\n'
    n_before, n_after = (_size(rng, 1, 400_000) - 1 for _ in range(2))
    rows = f'{{"score":{rng.integers(9)},"b":[1,2]}}\n'
    return _text_file(rng, folder / "rows.jsonl", rows * n_before + row + rows * n_after)


def _open_brackets(text: str) -> list[str]:
    """The brackets that a text opens and does not close."""
    brackets: list[str] = []
    is_text = is_escape = False
    for mark in text:
        if is_escape:
            is_escape = False
        elif mark == "\\":
            is_escape = True
        elif mark == '"':
            is_text = not is_text
        elif not is_text and mark in "[{":
            brackets.append(mark)
        elif not is_text and mark in "]}":
            brackets.pop()
    return brackets


def _escapes(rng: Rng, folder: Path) -> Path:
    """Cells of escaped quotes, backslashes and blanks."""
    piece = str(rng.choice(['\\"', "\\\\", '\\"\\\\', "\\n", ' \\" ', '\\":', "Column(/", " "]))
    cell = piece * _size(rng, 10, 1_000_000)
    name = cell if rng.random() < 0.2 else "t"
    closing = '"}' if rng.random() < 0.8 else ""
    row = f'{{"score":1,"{name}":"{cell}{closing}\n'
    return _text_file(rng, folder / "rows.jsonl", '{"score":2}\n' * _size(rng, 1, 1_000) + row)


def _digits(rng: Rng, folder: Path) -> Path:
    """Long runs of one kind of sign in a CSV or SVMlight file."""
    sign = str(rng.choice(["1", "1:", "a", " ", "docid ", "1 ", ":", "#", ".png?", "-", ",", '"']))
    run = sign * _size(rng, 10, 1_000_000 // len(sign))
    if rng.random() < 0.5:
        where = str(rng.choice(["# {}", "1 1:{}", "1 1:2 # {}", "{}:1", "1 {}:1", "1 qid:{} 1:2"]))
        rows = f"{where.format(run)}\n" + "1 1:2\n2 1:3\n" * _size(rng, 1, 1_000)
        return _text_file(rng, folder / "rows.svm", rows)
    rows = "1,2\n3,4\n" * _size(rng, 1, 1_000)
    begin = str(rng.choice(["", "http://", "+", "2024-"]))
    return _text_file(rng, folder / "rows.csv", f"score,b\n{begin}{run},5\n{rows}{begin}{run}x,6\n")


def _parquet(
    folder: Path, rng: Rng, columns: dict[str, pa.Array], *, writes_all: bool = True
) -> Path:
    path = folder / "rows.parquet"
    n_rows = len(next(iter(columns.values())))
    columns = {"score": pa.array(rng.random(n_rows)), **columns}
    if rng.random() < 0.2:  # of a larger file the footer is believed
        noise = [rng.bytes(LARGER_BYTES // n_rows + 1) for _ in range(n_rows)]
        columns["noise"] = pa.array(noise)
    parquet.write_table(
        pa.table(columns),
        path,
        compression=str(rng.choice(["zstd", "snappy", "gzip", "none"])),
        row_group_size=int(rng.choice([n_rows, max(n_rows // 3, 1)])),
        use_dictionary=bool(rng.random() < 0.8) or not writes_all,
        store_schema=bool(rng.random() < 0.5),
        data_page_version=str(rng.choice(["1.0", "2.0"])),
    )
    return path


def _lists(rng: Rng, folder: Path) -> Path:
    """Few rows with very long lists, which may be inside of others."""
    n_rows, n_values = _size(rng, 1, 200), _size(rng, 10, 30_000_000)
    values = pa.array(np.zeros(n_values, dtype=str(rng.choice(["i1", "f4", "i2"]))))
    for _ in range(int(rng.integers(1, 4))):
        cuts = np.sort(rng.integers(0, len(values) + 1, size=n_rows - 1))
        ends = np.concatenate([[0], cuts, [len(values)]])
        values = pa.LargeListArray.from_arrays(pa.array(ends), values)
    if rng.random() < 0.3:
        values = pa.StructArray.from_arrays([values], names=["a"])
    return _parquet(folder, rng, {"b": values})


def _repeated(rng: Rng, folder: Path) -> Path:
    """One long text, and some short ones, that many rows repeat."""
    n_values, length = _size(rng, 1, 300_000), _size(rng, 1, 1_000_000)
    kind = pa.binary(length) if rng.random() < 0.2 else pa.string()
    long = b"x" * length if kind != pa.string() else "x" * length
    words = [long] if kind != pa.string() else [long, "a", "b"]
    codes = pa.array(rng.integers(len(words), size=n_values).astype(np.int32))
    values = pa.DictionaryArray.from_arrays(codes, pa.array(words, kind))
    column: pa.Array = values
    if rng.random() < 0.3:
        ends = np.linspace(0, n_values, min(n_values, 50) + 1).astype(np.int32)
        column = pa.ListArray.from_arrays(pa.array(ends), values)
    return _parquet(folder, rng, {"b": column}, writes_all=n_values * length < 10**8)


def _wide(rng: Rng, folder: Path) -> Path:
    """Rows of few features with large numbers."""
    n_rows, highest = _size(rng, 1, 20_000), _size(rng, 10, 300_000)
    lines = []
    for _ in range(n_rows):
        numbers = sorted({int(number) for number in rng.integers(1, highest + 1, size=3)})
        lines.append(f"{rng.integers(5)} " + " ".join(f"{number}:1" for number in numbers))
    return _text_file(rng, folder / "rows.svm", "\n".join(lines) + "\n")


KINDS: dict[str, Callable[[Rng, Path], Path]] = {
    "digits": _digits,
    "escapes": _escapes,
    "lists": _lists,
    "nested": _nested,
    "repeated": _repeated,
    "wide": _wide,
}
