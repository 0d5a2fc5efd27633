"""Mutated tables through every command, in one process: an answer, or exit code 2 and one sentence;
nothing half-written.

Tables of items with odd numbers, dates and texts, of links between them and of who beat whom. The
page and the answers of `corank ask` are the subject of `ask`.
"""

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

from corank import load
from corank.cli import app
from corank.tables import write_table
from fuzz.mutations import Rng, changed_bytes
from fuzz.watch import finding_of

INNER = ("went wrong inside", "Traceback", "does not go together")  # its models are sound
COMMANDS = (
    "fit",
    "rank",
    "predict",
    "explain",
    "evaluate",
    "suggest",
    "update",
    "inspect",
    "compare",
)
SHARES = (0.32, 0.12, 0.08, 0.08, 0.1, 0.08, 0.1, 0.06, 0.06)
LINKED = "linked"  # the model that was fitted with links
METHODS: tuple[str, ...] = (
    "auto",
    "rankrls",
    "rls",
    "corankrls",
    "kpcrank",
    "pursuit",
    "difference",
    "preference",
)
METHOD_SHARES: tuple[float, ...] = (0.05, 0.3, 0.15, 0.1, 0.15, 0.1, 0.1, 0.05)
PAIR_METHODS: tuple[str, ...] = ("auto", "rankrls", "preference", "difference")
PAIR_METHOD_SHARES: tuple[float, ...] = (0.3, 0.4, 0.15, 0.15)
LINK_METHODS: tuple[str, ...] = ("auto", "rankrls")
LINK_METHOD_SHARES: tuple[float, ...] = (0.9, 0.1)
SUGGESTING = ("auto", "difference", LINKED)  # models that say what to ask
SOUND_ENDINGS = (".csv", ".jsonl", ".parquet")
ENDINGS = (".csv", ".tsv", ".jsonl", ".parquet", ".csv.gz", ".svm", ".txt")
NAMES = ("item", "user", "kind", "width", "when", "note", "rating")
CELLS: list[Any] = [
    None, "", "NA", "nan", "inf", "-inf", "1e999", "1e308", "-1e308", "1e-320", "1e155", "1e15", "0", "-0", "007", "1,5",
    "1_000", "٣", "½", "=1+1", "\x1b[31m", "\x00", "a\nb", 'a"b', "[/red]", "\ud83d\udc69", "é" * 400, "x" * 20_000, "true",
    "2024-02-30", "0001-01-01", "9999-12-31", "31.12.2020", "12:61", "{}", "[1, 2]", "--", "\u202e", " ", "\t",
]  # fmt: skip
WORDS = (
    "a", "good", "long", "tale", "\u0130stanbul", "stra\u00dfe", "\ufb01ne", "e\u0301", "\u1100\u1161", "\u6771\u4eac\u90fd", "\u0e44\u0e17\u0e22",
    "\u0645\u0631\u062d\u0628\u0627", "\u05e9\u05dc\u05d5\u05dd", "\ufdfa", "\u200d", "\ufeff", "\U0001f469\u200d\U0001f52c", "\U000e0041", "\ufffe", "\u0000", "\u2028",
    "<b>x</b>", "<", "&#x110000;", "&amp;lt;", "z" + "\u0301" * 300, "w" * 3000, "\u00bd", "1e5",
)  # fmt: skip


def run(rng_seed: int, count: int) -> list[str]:
    """Findings of so many commands."""
    findings = []
    with tempfile.TemporaryDirectory() as name:
        for seed in range(rng_seed, rng_seed + count):
            folder = Path(name) / "case"
            folder.mkdir()
            words = make(seed, folder)
            findings += [
                f"tables {seed} (corank {' '.join(words)}): {finding}"
                for finding in examined(folder, words)
            ]
            shutil.rmtree(folder)
    return findings


def make(seed: int, folder: Path) -> list[str]:
    """Write the files of a seed into a folder; gives the command that is to be run on them."""
    rng = np.random.default_rng(seed)
    command = str(rng.choice(COMMANDS, p=SHARES))
    items = sound_items(rng)
    learned_from = (
        str(rng.choice(("scores", "links", "comparisons"), p=(0.6, 0.2, 0.2)))
        if command == "fit"
        else "scores"
    )
    models = _models()
    method = str(
        rng.choice(SUGGESTING if command == "suggest" and rng.random() < 0.8 else sorted(models))
    )
    (folder / "m.corank").write_bytes(models[method])
    with_links = method == LINKED and rng.random() < 0.7
    # then the other table is not
    is_sound = rng.random() < (0.6 if with_links or learned_from != "scores" else 0.1)
    table = written(rng, folder, "t", items, is_sound=is_sound)
    quick = rng.random() < 0.5
    if command == "fit":
        return _fit(rng, folder, table, items, learned_from)
    if command == "compare":
        words = [
            "compare",
            table,
            "--score",
            _column(rng, "rating"),
            "--repeats",
            "3",
            "--no-curves",
            "--jobs",
            "1",
        ]
        words += ["--keep", "kept", "--methods"]
        return [
            *words,
            *(["ridge,rankrls", "--query", _column(rng, "user")] if quick else ["ridge,rls"]),
        ]
    if command == "inspect":
        return ["inspect", "m.corank" if quick else table]
    words = [command, "m.corank", table]
    if with_links:
        words += _links(rng, folder, items)
    if command == "update":
        return [*words, "--out", "new.corank"]
    words += _sometimes(rng, 0.3, ["--query", _column(rng, "user")])
    if command in ("rank", "predict"):
        words += (
            ["--json"] if quick else ["--out", str(rng.choice(["o.csv", "o.jsonl", "o.parquet"]))]
        )
    elif command == "explain":
        words += ["--id", _item(rng, items), "--id", _item(rng, items)]
        words += ["--json"] if quick else _sometimes(rng, 0.2, ["--report", "page.html"])
    elif command == "suggest" and quick:
        words += ["--out", "asked.csv"]
    return words


def _fit(
    rng: Rng, folder: Path, table: str, items: dict[str, list[Any]], learned_from: str
) -> list[str]:
    """Words of a fit to scores, with links or without, or to comparisons."""
    words = ["fit", table, "--out", "new.corank"]
    methods, shares = METHODS, METHOD_SHARES
    if learned_from == "comparisons":
        pairs = written(
            rng, folder, "c", _pairs(rng, items, "winner", "loser"), is_sound=rng.random() < 0.3
        )
        words += ["--comparisons", pairs, "--id", _column(rng, "item")]
        words += _sometimes(rng, 0.2, [str(rng.choice(["--margin", "--count"])), "weight"])
        methods, shares = PAIR_METHODS, PAIR_METHOD_SHARES
    elif learned_from == "links":
        words += [
            "--score",
            _column(rng, "rating"),
            "--id",
            _column(rng, "item"),
            *_links(rng, folder, items),
        ]
        words += _sometimes(rng, 0.5, ["--query", _column(rng, "user")]) + _sometimes(
            rng, 0.3, ["--directed"]
        )
        methods, shares = LINK_METHODS, LINK_METHOD_SHARES
    else:
        words += ["--score", _column(rng, "rating")]
        words += _sometimes(rng, 0.6, ["--query", _column(rng, "user")])
        words += _sometimes(rng, 0.5, ["--id", _column(rng, "item")])
    words += [
        "--method",
        str(rng.choice(methods, p=shares)),
        *_sometimes(rng, 0.2, ["--text", _column(rng, "note")]),
    ]
    return (
        words + _sometimes(rng, 0.1, ["--report", "page.html"]) + _sometimes(rng, 0.2, ["--json"])
    )


def examined(folder: Path, words: list[str]) -> list[str]:
    """Findings about one command in a folder."""
    before = {path.name for path in folder.iterdir()}
    options = [str(folder / word) if word in before or _is_target(word) else word for word in words]
    finding = finding_of(lambda: _ended(options))
    findings = [] if finding is None else [finding]
    if (folder / "new.corank").exists():
        unreadable = finding_of(lambda: load(folder / "new.corank"), ())
        findings += (
            [] if unreadable is None else [f"saves a model that cannot be loaded: {unreadable}"]
        )
    left = sorted(path.name for path in folder.iterdir() if path.name.endswith(".part"))
    if left:
        findings.append(f"leaves {left[0]} behind")
    if finding is not None and {path.name for path in folder.iterdir()} - before - {"kept"}:
        findings.append("leaves files behind though it failed")
    return findings


def _is_target(word: str) -> bool:
    return word in (
        "new.corank",
        "page.html",
        "kept",
        "o.csv",
        "o.jsonl",
        "o.parquet",
        "asked.csv",
        "answers.csv",
    )


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
    if "--json" in words:
        try:
            json.loads(result.stdout, parse_constant=refuse)
        except ValueError as error:
            return f"prints {error}"
    return None


def refuse(constant: str) -> Any:
    """Refuse NaN and infinity in JSON."""
    raise ValueError(f"{constant} in its JSON")


# ---- tables


def _sometimes(rng: Rng, share: float, words: list[str]) -> list[str]:
    return words if rng.random() < share else []


def _column(rng: Rng, usual: str) -> str:
    return usual if rng.random() < 0.9 else str(rng.choice([*NAMES, "gone", ""]))


def sound_items(rng: Rng, n: int | None = None) -> dict[str, list[Any]]:
    """A table of items, n or a few of them, with sound cells."""
    n = n or int(rng.choice([1, 2, 5, 12, 30], p=[0.05, 0.05, 0.1, 0.4, 0.4]))
    kinds, users = ["poetry", "travel", "crime"], int(rng.integers(1, 8))
    ratings = [None if rng.random() < 0.2 else round(float(rng.normal()), 2) for _ in range(n)]
    return {
        "item": [f"i{number}" for number in range(n)],
        "user": [f"u{rng.integers(users)}" for _ in range(n)],
        "kind": [str(rng.choice(kinds)) for _ in range(n)],
        "width": [round(float(rng.normal()), 3) for _ in range(n)],
        "when": [
            f"20{rng.integers(10, 25)}-0{rng.integers(1, 10)}-1{rng.integers(10)}" for _ in range(n)
        ],
        "note": [" ".join(_words(rng)) for _ in range(n)],
        "rating": ratings,
    }


def _words(rng: Rng) -> list[str]:
    return [
        WORDS[int(number)]
        for number in rng.integers(4 if rng.random() < 0.7 else len(WORDS), size=3)
    ]


def _item(rng: Rng, items: dict[str, list[Any]]) -> str:
    names = items["item"]
    return str(names[int(rng.integers(len(names)))]) if rng.random() < 0.9 else odd_text(rng)


def odd_text(rng: Rng) -> str:
    """A text that nobody would expect, as the shell may hand it over."""
    text = str(CELLS[int(rng.integers(len(CELLS)))]).replace("\0", "")
    return text.encode("utf-8", "replace").decode()


def _pairs(rng: Rng, items: dict[str, list[Any]], first: str, second: str) -> dict[str, list[Any]]:
    """A table of sound pairs of items: who beat whom, or what is linked with what."""
    n = int(rng.choice([1, 5, 40, 200], p=[0.1, 0.2, 0.5, 0.2]))
    names = items["item"]
    rows = rng.integers(len(names), size=n)
    others = (rows + rng.integers(1, max(len(names), 2), size=n)) % len(names)
    ends = {first: [names[row] for row in rows], second: [names[row] for row in others]}
    return {
        **ends,
        "weight": [float(rng.choice([0, 1, 1, 2, 0.5, 1e-300, 1e50])) for _ in range(n)],
    }


def _links(rng: Rng, folder: Path, items: dict[str, list[Any]]) -> list[str]:
    links = _pairs(rng, items, "from", "to")
    columns = str(
        rng.choice(
            ["from,to", "from,to,weight", "to,from", "from,gone", "from"],
            p=[0.3, 0.5, 0.1, 0.05, 0.05],
        )
    )
    words = ["--links", written(rng, folder, "l", links, is_sound=rng.random() < 0.3)]
    return words + _sometimes(rng, 0.6, ["--link-columns", columns])


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
                table[name] = [
                    value * scale if isinstance(value, float) else value for value in table[name]
                ]
            case _:
                rows = rng.integers(max(len(table[name]), 1), size=int(rng.choice([0, 1, 3, 40])))
                table = {
                    key: [values[row] for row in rows] if values else []
                    for key, values in table.items()
                }
    return table


def written(
    rng: Rng, folder: Path, name: str, table: dict[str, list[Any]], *, is_sound: bool
) -> str:
    """Write a table into a file, mutated unless it is to stay sound, and so may be its bytes; gives
    the name of the file.
    """
    ending = str(rng.choice(SOUND_ENDINGS if is_sound else ENDINGS))
    path = folder / f"{name}{ending}"
    if not is_sound:
        table = _mutated(rng, {column: list(cells) for column, cells in table.items()})
    if ending == ".svm":
        path.write_text(_svmlight(rng), encoding="utf-8")
    else:
        path.write_bytes(_content(table, ending))
    if not is_sound and rng.random() < 0.3:
        path.write_bytes(changed_bytes(rng, path.read_bytes()))
    return path.name


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
    text = "".join(
        separator.join(_quoted(cell, separator) for cell in line) + "\n" for line in lines
    )
    content = text.encode("utf-8", "surrogatepass")
    return gzip.compress(content) if ending.endswith(".gz") else content


def _arrow(values: list[Any]) -> Any:
    try:
        return pa.array(values)
    except (pa.ArrowException, UnicodeEncodeError):
        return pa.array([None if value is None else ascii(value) for value in values], pa.string())


def _quoted(cell: Any, separator: str) -> str:
    text = "" if cell is None else str(cell)
    return (
        '"' + text.replace('"', '""') + '"'
        if any(mark in text for mark in (separator, '"', "\n"))
        else text
    )


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
        while len((table := sound_items(np.random.default_rng(next(seeds))))["item"]) < 30:
            pass
        write_table(table, path)
        links = Path(name) / "l.csv"
        write_table({"from": table["item"][:-1], "to": table["item"][1:]}, links)
        options = {
            method: ["--method", method]
            for method in ("auto", "rankrls", "corankrls", "difference", "pursuit")
        }
        options[LINKED] = ["--links", str(links)]
        for method, own in options.items():
            words = ["fit", str(path), "--score", "rating", "--query", "user", "--id", "item", *own]
            result = CliRunner().invoke(app, [*words, "--out", str(out), "--force", "--quiet"])
            if result.exit_code:
                raise AssertionError(result.output)
            models[method] = out.read_bytes()
    return models
