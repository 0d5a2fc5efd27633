"""Mutated tables through every command, in one process: an answer, or exit code 2 and one sentence; nothing half-written."""

from __future__ import annotations

import gzip
import io
import itertools
import json
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet
from typer.testing import CliRunner

from corank.cli import app
from corank.tables import write_table
from fuzz.mutations import Rng, changed_bytes
from fuzz.watch import finding_of

INNER = ("went wrong inside", "Traceback", "does not go together")  # its models are sound
COMMANDS = ("fit", "rank", "evaluate", "suggest", "update", "inspect", "compare")
SHARES = (0.34, 0.2, 0.14, 0.1, 0.1, 0.06, 0.06)
METHODS = ("auto", "rankrls", "rls", "corankrls", "kpcrank", "pursuit", "difference", "preference")
METHOD_SHARES = (0.05, 0.3, 0.15, 0.1, 0.15, 0.1, 0.1, 0.05)
ENDINGS = (".csv", ".tsv", ".jsonl", ".parquet", ".csv.gz", ".svm", ".txt")
NAMES = ("item", "user", "kind", "width", "when", "note", "rating")
CELLS: list[Any] = [
    None, "", "NA", "nan", "inf", "-inf", "1e999", "1e308", "-1e308", "1e-320", "1e155", "1e15", "0", "-0", "007", "1,5",
    "1_000", "٣", "½", "=1+1", "\x1b[31m", "\x00", "a\nb", 'a"b', "[/red]", "\ud83d\udc69", "é" * 400, "x" * 20_000, "true",
    "2024-02-30", "0001-01-01", "9999-12-31", "31.12.2020", "12:61", "{}", "[1, 2]", "--", "\u202e", " ", "\t",
]  # fmt: skip


def run(rng_seed: int, count: int) -> list[str]:
    """Findings of so many commands."""
    findings = []
    with tempfile.TemporaryDirectory() as name:
        for seed in range(rng_seed, rng_seed + count):
            folder = Path(name) / "case"
            folder.mkdir()
            words = make(seed, folder)
            findings += [f"tables {seed} (corank {' '.join(words)}): {finding}" for finding in examined(folder, words)]
            shutil.rmtree(folder)
    return findings


def make(seed: int, folder: Path) -> list[str]:
    """Write the files of a seed into a folder; gives the command that is to be run on them."""
    rng = np.random.default_rng(seed)
    command = str(rng.choice(COMMANDS, p=SHARES))
    path = _written(rng, folder)
    model = folder / "m.corank"
    models = _models()
    method = str(rng.choice(sorted(models)))
    model.write_bytes(models[method])
    table, quick = path.name, rng.random() < 0.5
    if command == "fit":
        words = ["fit", table, "--score", _column(rng, "rating"), "--out", "new.corank"]
        words += ["--method", str(rng.choice(METHODS, p=METHOD_SHARES))]
        words += _sometimes(rng, 0.6, ["--query", _column(rng, "user")]) + _sometimes(
            rng, 0.5, ["--id", _column(rng, "item")]
        )
        return words + _sometimes(rng, 0.1, ["--report", "page.html"]) + _sometimes(rng, 0.2, ["--json"])
    if command == "compare":
        words = ["compare", table, "--score", _column(rng, "rating"), "--methods", "ridge,rankrls", "--repeats", "3"]
        words += ["--no-curves", "--jobs", "1", "--keep", "kept"]
        return words + _sometimes(rng, 0.5, ["--query", _column(rng, "user")])
    if command == "inspect":
        return ["inspect", "m.corank" if quick else table]
    words = [command, "m.corank", table]
    if command == "update":
        return [*words, "--out", "new.corank"]
    words += _sometimes(rng, 0.3, ["--query", _column(rng, "user")])
    if command == "rank":
        words += ["--json"] if quick else ["--out", str(rng.choice(["o.csv", "o.jsonl", "o.parquet"]))]
    elif command == "suggest" and quick:
        words += ["--out", "asked.csv"]
    return words


def examined(folder: Path, words: list[str]) -> list[str]:
    """Findings about one command in a folder."""
    before = {path.name for path in folder.iterdir()}
    options = [str(folder / word) if (folder / word).exists() or _is_target(word) else word for word in words]
    finding = finding_of(lambda: _ended(options))
    findings = [] if finding is None else [finding]
    left = sorted(path.name for path in folder.iterdir() if path.name.endswith(".part"))
    if left:
        findings.append(f"leaves {left[0]} behind")
    if finding is not None and {path.name for path in folder.iterdir()} - before - {"kept"}:
        findings.append("leaves files behind though it failed")
    return findings


def _is_target(word: str) -> bool:
    return word in ("new.corank", "page.html", "kept", "o.csv", "o.jsonl", "o.parquet", "asked.csv")


def _ended(words: list[str]) -> str | None:
    result = CliRunner().invoke(app, words, env={"COLUMNS": "100"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    said = result.stderr.splitlines()
    if result.exit_code == 2:
        sentence = said[-1] if said else ""
        if not sentence.startswith("corank: ") or any(word in result.stderr for word in INNER):
            return f"said {sentence[:300]!r}"
        return "prints a result though it failed" if result.stdout else None
    if result.exit_code != 0:
        return f"ended with code {result.exit_code}"
    if "\x1b" in result.output:
        return "sends control characters to the terminal"
    if words[0] == "rank" and "--json" in words:
        try:
            json.loads(result.stdout, parse_constant=_refuse)
        except ValueError as error:
            return f"prints {error}"
    return None


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} in its JSON")


# ---- tables


def _sometimes(rng: Rng, share: float, words: list[str]) -> list[str]:
    return words if rng.random() < share else []


def _column(rng: Rng, usual: str) -> str:
    return usual if rng.random() < 0.9 else str(rng.choice([*NAMES, "gone", ""]))


def _table(rng: Rng) -> dict[str, list[Any]]:
    """A table of sound cells."""
    n = int(rng.choice([1, 2, 5, 12, 30], p=[0.05, 0.05, 0.1, 0.4, 0.4]))
    kinds, users = ["poetry", "travel", "crime"], int(rng.integers(1, 8))
    ratings = [None if rng.random() < 0.2 else round(float(rng.normal()), 2) for _ in range(n)]
    return {
        "item": [f"i{number}" for number in range(n)],
        "user": [f"u{rng.integers(users)}" for _ in range(n)],
        "kind": [str(rng.choice(kinds)) for _ in range(n)],
        "width": [round(float(rng.normal()), 3) for _ in range(n)],
        "when": [f"20{rng.integers(10, 25)}-0{rng.integers(1, 10)}-1{rng.integers(10)}" for _ in range(n)],
        "note": [" ".join(rng.choice(["a", "good", "long", "tale"], 3)) for _ in range(n)],
        "rating": ratings,
    }


def _mutated(rng: Rng, table: dict[str, list[Any]]) -> dict[str, list[Any]]:
    for _ in range(int(rng.integers(6))):
        names = list(table)
        if not names:
            break
        name = names[int(rng.integers(len(names)))]
        cell = CELLS[int(rng.integers(len(CELLS)))]
        match int(rng.integers(8)):
            case 0 | 1 | 2 if table[name]:
                table[name][int(rng.integers(len(table[name])))] = cell
            case 3:
                table[name] = [cell for _ in table[name]]
            case 4:
                del table[name]
            case 5:
                table[str(cell)[:200].encode("utf-8", "replace").decode()] = table.pop(name)
            case 6:
                scale = float(rng.choice([0.0, 1e-320, 1e-100, 1e15, 1e59, 1e100, 1e300]))
                table[name] = [value * scale if isinstance(value, float) else value for value in table[name]]
            case _:
                rows = rng.integers(max(len(table[name]), 1), size=int(rng.choice([0, 1, 3, 40])))
                table = {key: [values[row] for row in rows] if values else [] for key, values in table.items()}
    return table


def _written(rng: Rng, folder: Path) -> Path:
    """A mutated table in a file, whose bytes may be mutated too."""
    ending = str(rng.choice(ENDINGS))
    path = folder / f"t{ending}"
    table = _mutated(rng, _table(rng))
    if ending == ".svm":
        path.write_text(_svmlight(rng), encoding="utf-8")
    else:
        path.write_bytes(_content(table, ending))
    if rng.random() < 0.3:
        path.write_bytes(changed_bytes(rng, path.read_bytes()))
    return path


def _content(table: dict[str, list[Any]], ending: str) -> bytes:
    if ending == ".jsonl":
        rows = [dict(zip(table, cells, strict=True)) for cells in zip(*table.values(), strict=True)]
        return "".join(json.dumps(row) + "\n" for row in rows).encode()
    if ending == ".parquet":
        columns = {name: _arrow(values) for name, values in table.items()}
        file = io.BytesIO()
        parquet.write_table(pa.table(columns), file)
        return file.getvalue()
    separator = "\t" if ending in (".tsv", ".txt") else ","
    lines = [list(table), *map(list, zip(*table.values(), strict=True))]
    text = "".join(separator.join(_quoted(cell, separator) for cell in line) + "\n" for line in lines)
    content = text.encode("utf-8", "surrogatepass")
    return gzip.compress(content) if ending.endswith(".gz") else content


def _arrow(values: list[Any]) -> Any:
    try:
        return pa.array(values)
    except (pa.ArrowException, UnicodeEncodeError):
        return pa.array([None if value is None else ascii(value) for value in values], pa.string())


def _quoted(cell: Any, separator: str) -> str:
    text = "" if cell is None else str(cell)
    return '"' + text.replace('"', '""') + '"' if any(mark in text for mark in (separator, '"', "\n")) else text


def _svmlight(rng: Rng) -> str:
    lines = []
    for _ in range(int(rng.integers(1, 30))):
        highest = int(rng.choice([3, 10, 10**5, 10**9], p=[0.7, 0.25, 0.03, 0.02]))
        numbers = sorted({int(number) for number in rng.integers(1, highest + 1, size=3)})
        cells = [
            f"{number}:{rng.choice(['1', '0.5', '-2', 'nan', '1e300', 'x'], p=[0.4, 0.3, 0.2, 0.04, 0.03, 0.03])}"
            for number in numbers
        ]
        lines.append(f"{rng.integers(5)} qid:{rng.integers(4)} {' '.join(cells)}")
    return "\n".join(lines) + "\n"


@cache
def _models() -> dict[str, bytes]:
    """Models of sound tables, by their method."""
    models = {}
    with tempfile.TemporaryDirectory() as name:
        path, out = Path(name) / "t.csv", Path(name) / "m.corank"
        seeds = itertools.count()
        while len((table := _table(np.random.default_rng(next(seeds))))["item"]) < 30:
            pass
        write_table(table, path)
        for method in ("auto", "rankrls", "corankrls", "difference", "pursuit"):
            words = ["fit", str(path), "--score", "rating", "--query", "user", "--id", "item", "--method", method]
            result = CliRunner().invoke(app, [*words, "--out", str(out), "--force", "--quiet"])
            if result.exit_code:
                raise AssertionError(result.output)
            models[method] = out.read_bytes()
    return models
