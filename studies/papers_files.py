"""Studies of the papers as files: Markdown, JSON, figures as PNG and the HTML page, all of them or none."""

from __future__ import annotations

import io
import json
import math
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

from corank.report.page import versions
from corank.tables import check_target
from studies.papers.running import Reproduction
from studies.papers.study import Figure, Finding, Measured, Table
from studies.papers.wording import columns_of_words, duration, rows_shown, summed_up
from studies.papers_page import QUICK, study_page, summary_page
from studies.plots_of_papers import draw_panels, size_of

ENDINGS = (".md", ".html", ".json")
DOTS_PER_INCH = 110


def targets(folder: Path, names: Sequence[str]) -> list[Path]:
    """Files of these studies that would be written, figures apart."""
    return [folder / f"{name}{ending}" for name in names for ending in ENDINGS]


def write_studies(
    found: Sequence[Reproduction],
    folder: Path,
    commands: Mapping[str, str],
    *,
    skipped: Mapping[str, str] | None = None,
    overwrite: bool = False,
) -> list[Path]:
    """Write studies into a folder, all of them or none.

    Parameters
    ----------
    found : what came out
    folder : where to; made where it is not there
    commands : what to type for each study, by name, and for "all"
    skipped : why others were not run; None writes no summary of the findings
    overwrite : whether files that are already there may be replaced
    """
    with _staged(folder, overwrite=overwrite) as stage:
        for one in found:
            _write_study(one, stage, commands.get(one.study.name))
        if skipped is not None:
            _write_summary(found, skipped, stage, commands.get("all"))
        names = sorted(path.name for path in stage.iterdir())
    return [folder / name for name in names]


@contextmanager
def _staged(folder: Path, *, overwrite: bool) -> Iterator[Path]:
    """A folder beside the given one; what is in it after the block is moved there, or thrown away if the block raises."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    stage = folder.parent / f".corank-{secrets.token_hex(8)}.part"
    stage.mkdir()
    try:
        yield stage
        folder.mkdir(exist_ok=True)
        paths = sorted(stage.iterdir())
        for path in paths:
            check_target(folder / path.name, overwrite=overwrite)
        for path in paths:
            path.replace(folder / path.name)
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def _write_study(found: Reproduction, folder: Path, command: str | None) -> None:
    name = found.study.name
    for one in found.outcome.figures:
        (folder / f"{name}-{one.key}.png").write_bytes(png(one))
    markdown, page, data = targets(folder, [name])
    markdown.write_text(as_markdown(found, command), encoding="utf-8")
    page.write_text(study_page(found, command), encoding="utf-8")
    data.write_bytes(as_json(as_dict(found, command)))


def _write_summary(
    found: Sequence[Reproduction], skipped: Mapping[str, str], folder: Path, command: str | None
) -> None:
    markdown, page, data = targets(folder, ["all"])
    lines = ["# What the five papers found, tried again", ""]
    lines += [QUICK, ""] if found and found[0].settings.quick else []
    lines += [summed_up([finding for one in found for finding in one.outcome.findings]), ""]
    lines += [f"- {name} was not run: {why}" for name, why in skipped.items()]
    for one in found:
        lines += ["", f"## {one.study.title}", "", *_findings(one.outcome.findings), "", _effort(one), ""]
    markdown.write_text("\n".join([*lines, *_origin(command)]), encoding="utf-8")
    page.write_text(summary_page(found, dict(skipped), command), encoding="utf-8")
    entries = {one.study.name: as_dict(one, None) for one in found}
    data.write_bytes(
        as_json({"command": command, "versions": versions(), "skipped": dict(skipped), "studies": entries})
    )


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
