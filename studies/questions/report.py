"""A study's results as people read them and as programs do: Markdown on the screen and in a file, JSON beside it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.machine import machine, sources
from benchmarks.report import VERDICT

from studies.questions.study import Method, Record, Study, Summary, Table

VERSION = 1  # of the file


@dataclass(frozen=True)
class Circumstances:
    """How the results came about."""

    command: str
    quick: bool
    processes: int
    run_now: int
    wall_seconds: float


def document(
    study: Study, methods: Sequence[Method], summary: Summary, records: Sequence[Record], how: Circumstances
) -> dict[str, Any]:
    """Everything that is worth keeping, as JSON."""
    return {
        "version": VERSION,
        "study": study.name,
        "title": study.title,
        "about": study.about,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        **asdict(how),
        "fits": sum(int(record.result.get("fits", 1)) for record in records),
        "fit_seconds": round(sum(record.seconds for record in records), 1),
        "code": dict(Counter(record.sources for record in records)),
        "warnings": dict(Counter(text for record in records for text in record.warnings)),
        "machine": {key: value for key, value in machine().items() if key != "blas"},  # this process fitted nothing
        "sources": sources(),
        "tables": [asdict(table) for table in summary.tables],
        "targets": [asdict(target) | ({"met": None} if how.quick else {}) for target in summary.targets],
        "notes": list(summary.notes),
        "methods": [asdict(method) for method in methods],
        "draw_names": study.draw_names,
        "results": [
            {"draw": record.draw, "method": record.method, "seconds": record.seconds, **record.result}
            for record in records
        ],
    }


def markdown(found: dict[str, Any]) -> str:
    """The report of a study."""
    here, state = found["machine"], found["sources"]
    versions = ", ".join(f"{name} {version}" for name, version in here["versions"].items())
    commit = (state["commit"] or "unknown")[:9] + (" with uncommitted changes" if state["dirty"] else "")
    lines = [f"# {found['title']}", "", found["about"], ""]
    if found["quick"]:
        lines += ["**Quick: too few draws to judge anything by.**", ""]
    for table in found["tables"]:
        lines += [*table_lines(Table(**table)), ""]
    lines += [f"- {VERDICT[target['met']]}: {target['text']} ({target['shown']})" for target in found["targets"]]
    lines += [f"- {note}" for note in found["notes"]]
    lines += [f"- warned in {count} fits: {text}" for text, count in sorted(found["warnings"].items())]
    state_of_things = (
        f"{found['date'][:10]}, commit {commit}; {found['fits']:,} fits in {found['fit_seconds']:,.0f} s of fitting on "
        f"one thread each, {found['processes']} at a time ({found['run_now']:,} of {len(found['results']):,} results "
        f"made in this run of {found['wall_seconds']:,.0f} s). {here['cpu']}, {here['cores']} cores; "
        f"Python {here['python']}, {versions}."
    )
    lines += ["", f"Command: `{found['command']}`", "", state_of_things]
    if sum(name.startswith("corank ") for name in found["code"]) > 1:
        lines += ["", "Results of different states of the sources stand side by side here (--reuse)."]
    return "\n".join(lines) + "\n"


def table_lines(table: Table) -> list[str]:
    """A Markdown table whose columns are also aligned as plain text: the first to the left, the others to the right."""
    rows = [list(table.head), *(list(row) for row in table.rows)]
    widths = [max(3, *(len(row[column]) for row in rows)) for column in range(len(table.head))]
    lines = [
        "| " + " | ".join(_cell(cell, width, k) for k, (cell, width) in enumerate(zip(row, widths, strict=True))) + " |"
        for row in rows
    ]
    rule = "|" + "|".join("-" * (w + 2) if k == 0 else "-" * (w + 1) + ":" for k, w in enumerate(widths)) + "|"
    return [f"**{table.title}**", "", lines[0], rule, *lines[1:]]


def _cell(text: str, width: int, position: int) -> str:
    return text.ljust(width) if position == 0 else text.rjust(width)


def save(found: dict[str, Any], text: str, folder: Path, stem: str) -> Path:
    """Both files, each whole or not at all; the results one a line."""
    head = json.dumps({key: value for key, value in found.items() if key != "results"}, indent=1)
    results = ",\n  ".join(json.dumps(result) for result in found["results"])
    _write(folder / f"{stem}.json", f'{head[:-2]},\n "results": [\n  {results}\n ]\n}}\n')
    _write(folder / f"{stem}.md", text)
    return folder / f"{stem}.md"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(path.suffix + ".new")
    new.write_text(text)
    new.replace(path)
