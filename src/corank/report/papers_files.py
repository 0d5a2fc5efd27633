"""A study of the papers as files: Markdown, JSON, figures as PNG and the HTML page, each whole or not there."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

from corank.experiments.papers.running import Reproduction
from corank.experiments.papers.study import Figure, Finding, Measured, Table
from corank.experiments.papers.wording import columns_of_words, duration, rows_shown, summed_up
from corank.report.origins import versions
from corank.report.page import write
from corank.report.papers_page import QUICK, study_page, summary_page
from corank.report.plots_of_papers import draw_panels, size_of
from corank.tables import replacing

ENDINGS = (".md", ".html", ".json")
DOTS_PER_INCH = 110


def targets(folder: Path, names: Sequence[str]) -> list[Path]:
    """Files of these studies that would be written, figures apart."""
    return [folder / f"{name}{ending}" for name in names for ending in ENDINGS]


def write_study(
    found: Reproduction, folder: Path, *, command: str | None = None, overwrite: bool = False
) -> list[Path]:
    """Write a study into a folder; the JSON file comes last."""
    folder.mkdir(parents=True, exist_ok=True)
    name = found.study.name
    figures = {one.key: folder / f"{name}-{one.key}.png" for one in found.outcome.figures}
    for one in found.outcome.figures:
        _put(figures[one.key], png(one), overwrite=overwrite)
    markdown, page, data = targets(folder, [name])
    _put(markdown, as_markdown(found, command).encode(), overwrite=overwrite)
    write(study_page(found, command), page, overwrite=overwrite)
    _put(data, as_json(as_dict(found, command)), overwrite=overwrite)
    return [markdown, page, data, *figures.values()]


def write_summary(
    found: Sequence[Reproduction],
    skipped: Mapping[str, str],
    folder: Path,
    *,
    command: str | None = None,
    overwrite: bool = False,
) -> list[Path]:
    """Write the findings of several studies, and which were skipped and why."""
    folder.mkdir(parents=True, exist_ok=True)
    markdown, page, data = targets(folder, ["all"])
    lines = ["# What the five papers found, tried again", ""]
    lines += [QUICK, ""] if found and found[0].settings.quick else []
    lines += [summed_up([finding for one in found for finding in one.outcome.findings]), ""]
    lines += [f"- {name} was not run: {why}" for name, why in skipped.items()]
    for one in found:
        lines += ["", f"## {one.study.title}", "", *_findings(one.outcome.findings), "", _effort(one), ""]
    lines += _origin(command)
    _put(markdown, "\n".join(lines).encode(), overwrite=overwrite)
    write(summary_page(found, dict(skipped), command), page, overwrite=overwrite)
    entries = {one.study.name: as_dict(one, None) for one in found}
    whole = {"command": command, "versions": versions(), "skipped": dict(skipped), "studies": entries}
    _put(data, as_json(whole), overwrite=overwrite)
    return [markdown, page, data]


def as_dict(found: Reproduction, command: str | None) -> dict[str, Any]:
    """Everything a study says, and how it was made."""
    study, settings, outcome = found.study, found.settings, found.outcome
    return {
        "study": study.name,
        "title": study.title,
        "sources": list(study.sources),
        "about": study.about,
        "command": command,
        "quick": settings.quick,
        "seed": settings.seed,
        "versions": versions(),
        "fits": outcome.n_fits,
        "parts": found.n_parts,
        "parts_made_now": found.run_now,
        "processes": found.processes,
        "seconds_of_computing": found.seconds,
        "seconds_by_the_clock": found.wall_seconds,
        "warnings": found.warnings,
        "findings": [asdict(one) for one in outcome.findings],
        "tables": [_table_as_dict(one) for one in outcome.tables],
        "figures": [asdict(one) for one in outcome.figures],
        "notes": list(outcome.notes),
    }


def as_json(value: Any) -> bytes:
    """Indented; what is not a number is null, as JSON has no NaN."""
    return (json.dumps(_finite(value), indent=1, ensure_ascii=False) + "\n").encode()


def as_markdown(found: Reproduction, command: str | None) -> str:
    """The whole study as text."""
    study, outcome = found.study, found.outcome
    lines = [f"# {study.title}", ""]
    lines += [QUICK, ""] if found.settings.quick else []
    lines += [summed_up(outcome.findings), "", "## Findings", "", *_findings(outcome.findings), "", "## Tables", ""]
    for table in outcome.tables:
        lines += [f"**{table.title}**", "", *_markdown_table(table), ""]
        lines += [table.note, ""] if table.note else []
    if outcome.figures:
        lines += ["## Figures", ""]
    for figure in outcome.figures:
        lines += [f"![{figure.caption}]({study.name}-{figure.key}.png)", "", figure.caption, ""]
    if outcome.notes:
        lines += ["## Notes", "", *(f"- {note}" for note in outcome.notes), ""]
    lines += [
        "## How it was done",
        "",
        study.about,
        "",
        f"Makes again: {', '.join(study.sources)}.",
        "",
        _effort(found),
        "",
    ]
    return "\n".join([*lines, *_origin(command)])


def png(figure: Figure) -> bytes:
    """A figure on white."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Picture

    whole = Picture(figsize=size_of(figure), layout="constrained", dpi=DOTS_PER_INCH)
    FigureCanvasAgg(whole)
    draw_panels(figure, whole)
    file = io.BytesIO()
    whole.savefig(file, format="png", metadata={"Software": None})
    return file.getvalue()


def _findings(findings: Sequence[Finding]) -> list[str]:
    rows = [[one.source, one.claim, f"**{one.verdict}**", one.evidence] for one in findings]
    return _grid(["source", "claim", "verdict", "evidence"], rows, range(4))


def _markdown_table(table: Table) -> list[str]:
    return _grid(table.columns, rows_shown(table), [0, *columns_of_words(table)])


def _grid(columns: Sequence[str], rows: Sequence[Sequence[str]], words: Sequence[int] | range) -> list[str]:
    rule = ["---" if at in words else "---:" for at in range(len(columns))]
    return ["| " + " | ".join(_escaped(cell) for cell in row) + " |" for row in (columns, rule, *rows)]


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|").replace("\n", " ")


def _effort(found: Reproduction) -> str:
    kind = "quick" if found.settings.quick else "full"
    return (
        f"{found.outcome.n_fits:,} fits in {found.n_parts:,} parts ({kind}, seed {found.settings.seed}): "
        f"{duration(found.seconds)} of computing, {found.processes} at a time."
    )


def _origin(command: str | None) -> list[str]:
    said = [f"{name} {number}" for name, number in versions().items()]
    return [*([f"Command: `{command}`", ""] if command else []), f"Made with {', '.join(said)}.", ""]


def _table_as_dict(table: Table) -> dict[str, Any]:
    rows = [[asdict(cell) if isinstance(cell, Measured) else cell for cell in row] for row in table.rows]
    return {"title": table.title, "columns": list(table.columns), "rows": rows, "note": table.note}


def _finite(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return _finite(asdict(value))
    if isinstance(value, dict):
        return {str(key): _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _put(path: Path, content: bytes, *, overwrite: bool) -> None:
    with replacing(path, overwrite=overwrite) as file:
        file.write(content)
