"""Studies as text, figures, pages and files: Markdown and JSON beside PNG figures, and one HTML
page that opens anywhere.
"""

from __future__ import annotations

import io
import json
import math
import re
import secrets
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.machine import machine, sources

from corank.display import Cell as ShownCell
from corank.display import Table as ShownTable
from corank.report.page import (
    LIBRARIES,
    Html,
    Section,
    bullets,
    folded,
    origins,
    page,
    picture,
    verdict,
    versions,
)
from corank.report.page import text as paragraph
from corank.report.plots import COLOURS, FAINT, MARKERS, axis
from corank.tables import check_target
from studies.run import StudyRun
from studies.study import (
    CANNOT_BE_TESTED,
    DOES_NOT_HOLD,
    ELSEWHERE,
    HOLDS,
    NOT_CLAIMED,
    OWN,
    PARTLY,
    Cell,
    Figure,
    Finding,
    Measured,
    Panel,
    Series,
    Table,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ENDINGS = (".md", ".html", ".json")
# the files that sum up several studies
SUMMARY, SUMMARY_TITLE = "summary", "What the studies found"
QUICK = (
    "A quick run: a small sample of the protocol, to see that everything works. Its verdicts are"
    " not the study's."
)
NO_VALUE = "–"
DOTS_PER_INCH = 110
PANEL_HEIGHT = 4.0  # inches; widths are in `size_of`
MOST_MARKERS = 60  # points of a line up to which each has a marker
_NUMBER = re.compile(r"[+\-−]?\d")
PEERS = ("torch", "botorch", "gpytorch", "choix", "evalica")


# ---- numbers and sentences


def cell_text(cell: Cell, digits: int) -> str:
    """A cell as text; a dash where there is no finite number."""
    if cell is None or (isinstance(cell, float) and not math.isfinite(cell)):
        return NO_VALUE
    if isinstance(cell, str):
        return cell
    if isinstance(cell, Measured):
        spread = (
            ""
            if cell.error is None or not math.isfinite(cell.error)
            else f" ± {cell.error:.{digits}f}"
        )
        return cell_text(cell.value, digits) + spread
    if isinstance(cell, int):
        return f"{cell:,}"
    return f"{cell:,.{digits}f}".replace("-", "−")


def text_rows(table: Table) -> list[list[str]]:
    """All cells of a table as text."""
    return [[cell_text(cell, table.digits) for cell in row] for row in table.rows]


def text_columns(table: Table) -> list[int]:
    """The columns that hold text, not numbers; a cell such as "0.31 (0.29 to 0.33)" is a number
    too.
    """
    columns = zip(*table.rows, strict=True)
    return [
        at
        for at, cells in enumerate(columns)
        if any(isinstance(cell, str) and _is_text(cell) for cell in cells)
    ]


def _is_text(cell: str) -> bool:
    return cell != "" and not _NUMBER.match(cell)


def count_verdicts(verdicts: Sequence[str]) -> str:
    """How many findings hold, in a sentence."""
    times = Counter(verdicts)
    several = {
        HOLDS: "hold",
        PARTLY: "hold partly",
        DOES_NOT_HOLD: "do not hold",
        CANNOT_BE_TESTED: CANNOT_BE_TESTED,
    }
    counts = [
        f"{times[name]} {name if times[name] == 1 else several[name]}"
        for name in several
        if times[name]
    ]
    total = "1 finding" if len(verdicts) == 1 else f"{len(verdicts)} findings"
    return f"Of {total}, {', '.join(counts)}." if counts else "No finding was looked at."


def summary_of(findings: Sequence[Finding]) -> str:
    """How many of these findings hold, in a sentence; what no paper claims does not count."""
    counted = [finding.verdict for finding in findings if finding.kind != NOT_CLAIMED]
    others = len(findings) - len(counted)
    if not others:
        return count_verdicts(counted)
    left_out = "one that no paper claims" if others == 1 else f"{others} that no paper claims"
    told = f"{count_verdicts(counted)} " if counted else ""
    return f"{told}Not counted: {left_out}."


def duration(seconds: float) -> str:
    """A time in words."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _effort(run: StudyRun) -> str:
    kind = "quick" if run.settings.quick else "full"
    draws = "fixed draws" if run.study.fixed_draws else f"seed {run.settings.seed}"
    return (
        f"{run.outcome.n_fits:,} fits in {run.n_parts:,} parts ({kind}, {draws}): "
        f"{duration(run.seconds)} of computing, {run.processes} at a time."
    )


def _mixed_sources(run: StudyRun) -> str | None:
    """A warning where parts were kept from other states of corank's sources."""
    if sum(name.startswith("corank ") for name in run.code) < 2:
        return None
    return "Results of different states of the sources stand side by side here (--reuse)."


# ---- files


def targets(folder: Path, names: Sequence[str]) -> list[Path]:
    """Files of these studies that would be written, figures apart."""
    return [folder / f"{name}{ending}" for name in names for ending in ENDINGS]


def write_studies(
    runs: Sequence[StudyRun],
    folder: Path,
    commands: Mapping[str, str],
    *,
    skipped: Mapping[str, str] | None = None,
    overwrite: bool = False,
) -> list[Path]:
    """Write studies into a folder, all of them or none.

    Parameters
    ----------
    runs : what came out
    folder : where to; made where it is not there
    commands : what to type for each study, by name, and for SUMMARY
    skipped : why other studies were not run; None writes no summary of the findings
    overwrite : whether files that are already there may be replaced
    """
    with _staged(folder, overwrite=overwrite) as stage:
        for run in runs:
            _write_study(run, stage, commands.get(run.study.name))
        if skipped is not None:
            _write_summary(runs, skipped, stage, commands.get(SUMMARY))
        names = sorted(path.name for path in stage.iterdir())
    return [folder / name for name in names]


@contextmanager
def _staged(folder: Path, *, overwrite: bool) -> Iterator[Path]:
    """A folder beside the given one; its files are moved there after the block, or thrown away if
    the block raises.
    """
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


def _write_study(run: StudyRun, folder: Path, command: str | None) -> None:
    name = run.study.name
    for figure in run.outcome.figures:
        (folder / f"{name}-{figure.key}.png").write_bytes(png(figure))
    markdown, html, data = targets(folder, [name])
    entry = as_dict(run, command)
    markdown.write_text(as_markdown(run, entry), encoding="utf-8")
    html.write_text(study_page(run, command), encoding="utf-8")
    data.write_bytes(as_json(entry))


def _write_summary(
    runs: Sequence[StudyRun], skipped: Mapping[str, str], folder: Path, command: str | None
) -> None:
    markdown, html, data = targets(folder, [SUMMARY])
    lines = [f"# {SUMMARY_TITLE}", ""]
    lines += [QUICK, ""] if runs and runs[0].settings.quick else []
    lines += [summary_of([finding for run in runs for finding in run.outcome.findings]), ""]
    lines += [f"- {name} was not run: {reason}" for name, reason in skipped.items()]
    for run in runs:
        lines += ["", f"## {run.study.title}", ""]
        lines += [*_findings(run.outcome.findings), ""] if run.outcome.findings else []
        lines += [_effort(run), ""]
    lines += _origin({"command": command, "versions": _versions()})
    markdown.write_text("\n".join(lines), encoding="utf-8")
    html.write_text(summary_page(runs, dict(skipped), command), encoding="utf-8")
    entries = {run.study.name: as_dict(run, None) for run in runs}
    data.write_bytes(
        as_json(
            {
                "command": command,
                "versions": _versions(),
                "skipped": dict(skipped),
                "studies": entries,
            }
        )
    )


# ---- JSON


def as_dict(run: StudyRun, command: str | None) -> dict[str, Any]:
    """Everything a study says, and how it was made."""
    study, settings, outcome = run.study, run.settings, run.outcome
    here = machine()
    entry = {
        "study": study.name,
        "title": study.title,
        "sources": list(study.sources),
        "about": study.about,
        "command": command,
        "quick": settings.quick,
        "seed": None if study.fixed_draws else settings.seed,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": sources(),
        "machine": {key: here[key] for key in ("cpu", "cores", "memory_gb", "system")},
        "versions": _versions(),
        "code": run.code,
        "fits": outcome.n_fits,
        "parts": run.n_parts,
        "parts_computed_now": run.n_computed,
        "processes": run.processes,
        "seconds_of_computing": run.seconds,
        "seconds_by_the_clock": run.wall_seconds,
        "warnings": run.warnings,
        "findings": [asdict(finding) for finding in outcome.findings],
        "tables": [_table_as_dict(table) for table in outcome.tables],
        "figures": [asdict(figure) for figure in outcome.figures],
        "notes": list(outcome.notes),
    }
    return entry | ({"results": run.results} if study.with_results else {})


def as_json(entry: dict[str, Any]) -> bytes:
    """Indented, but for results, which take one line each; null for what is not a number, as JSON
    has no NaN.
    """
    entry = _finite(entry)
    results = entry.pop("results", None)
    body = json.dumps(entry, indent=1, ensure_ascii=False)
    if results is not None:
        lines = [
            f"  {json.dumps(key)}: {json.dumps(result, ensure_ascii=False)}"
            for key, result in results.items()
        ]
        body = f'{body[:-2]},\n "results": {{\n' + ",\n".join(lines) + "\n }\n}"
    return (body + "\n").encode()


def _versions() -> dict[str, str]:
    return versions((*LIBRARIES, *PEERS))


def _table_as_dict(table: Table) -> dict[str, Any]:
    rows = [
        [asdict(cell) if isinstance(cell, Measured) else cell for cell in row] for row in table.rows
    ]
    return {"title": table.title, "columns": list(table.columns), "rows": rows, "note": table.note}


def _finite(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return _finite(asdict(value))
    if isinstance(value, dict):
        return {str(key): _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


# ---- Markdown


def as_markdown(run: StudyRun, entry: Mapping[str, Any]) -> str:
    """The whole study as text; `entry` is what `as_dict` gives."""
    study, outcome = run.study, run.outcome
    lines = [f"# {study.title}", ""]
    lines += [QUICK, ""] if run.settings.quick else []
    if outcome.findings:
        lines += [
            summary_of(outcome.findings),
            "",
            "## Findings",
            "",
            *_findings(outcome.findings),
            "",
        ]
    lines += ["## Tables", ""]
    for table in outcome.tables:
        lines += [f"**{table.title}**", "", *_markdown_table(table), ""]
        lines += [table.note, ""] if table.note else []
    if outcome.figures:
        lines += ["## Figures", ""]
    for figure in outcome.figures:
        lines += [f"![{figure.caption}]({study.name}-{figure.key}.png)", "", figure.caption, ""]
    warned = [f"Warned in {count} parts: {message}" for message, count in run.warnings.items()]
    if outcome.notes or warned:
        lines += ["## Notes", "", *(f"- {note}" for note in (*outcome.notes, *warned)), ""]
    lines += ["## How it was done", "", study.about, ""]
    lines += [f"Makes again: {', '.join(study.sources)}.", ""] if study.sources else []
    lines += [_effort(run), ""]
    lines += [mixed, ""] if (mixed := _mixed_sources(run)) else []
    return "\n".join([*lines, *_origin(entry)])


def _findings(findings: Sequence[Finding]) -> list[str]:
    rows = [[*_place(finding), f"**{finding.verdict}**", finding.evidence] for finding in findings]
    return markdown_grid(["source", "claim", "verdict", "evidence"], rows)


KINDS = {OWN: "", ELSEWHERE: "elsewhere", NOT_CLAIMED: "not claimed"}


def _place(finding: Finding) -> tuple[str, str]:
    """Where a claim stands, and the claim; both say where it is not tested as the paper did."""
    kind = KINDS[finding.kind]
    return f"{finding.source} ({kind})" if kind else finding.source, finding.sentence


def _markdown_table(table: Table) -> list[str]:
    return markdown_grid(table.columns, text_rows(table), [0, *text_columns(table)])


def markdown_grid(
    columns: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int] | None = None
) -> list[str]:
    """A Markdown table; `left`: the columns that are aligned to the left, None for all of them."""
    rule = ["---" if left is None or at in left else "---:" for at in range(len(columns))]
    return [
        "| " + " | ".join(_escaped(cell) for cell in row) + " |" for row in (columns, rule, *rows)
    ]


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|").replace("\n", " ")


def _origin(entry: Mapping[str, Any]) -> list[str]:
    lines = [f"Command: `{entry['command']}`", ""] if entry["command"] else []
    made = ", ".join(f"{name} {number}" for name, number in entry["versions"].items())
    if "machine" in entry:
        commit = (entry["commit"]["commit"] or "unknown")[:9]
        dirty = " with uncommitted changes" if entry["commit"]["dirty"] else ""
        where = f"{entry['machine']['cpu']}, {entry['machine']['cores']} cores"
        made += f"; {entry['date'][:10]}, commit {commit}{dirty}; {where}"
    return [*lines, f"Made with {made}.", ""]


# ---- pages

COLOUR_NAMES = {HOLDS: "good", PARTLY: "", DOES_NOT_HOLD: "bad", CANNOT_BE_TESTED: ""}


def study_page(run: StudyRun, command: str | None) -> Html:
    """The page of one study."""
    outcome = run.outcome
    reservations = [QUICK] if run.settings.quick else []
    reservations += [mixed] if (mixed := _mixed_sources(run)) else []
    lead = (
        [verdict(summary_of(outcome.findings), reservations)]
        if outcome.findings or reservations
        else []
    )
    findings = [_findings_table(outcome.findings)] if outcome.findings else []
    sections = [
        Section("Findings", findings),
        Section("Tables", [html for table in outcome.tables for html in _table_html(table)]),
        Section("Figures", [_figure_html(figure) for figure in outcome.figures]),
        Section("Notes", [bullets(outcome.notes)] if outcome.notes else []),
        Section(
            "How it was done", [paragraph(run.study.about), *_protocol(run), *origins(command)]
        ),
    ]
    return page(run.study.title, lead, [section for section in sections if section.contents])


def summary_page(runs: Sequence[StudyRun], skipped: dict[str, str], command: str | None) -> Html:
    """The findings of several studies on one page."""
    findings = [finding for run in runs for finding in run.outcome.findings]
    reservations = [f"{name} was not run: {reason}" for name, reason in skipped.items()]
    if runs and runs[0].settings.quick:
        reservations.append(QUICK)
    sections = []
    for run in runs:
        table = [_findings_table(run.outcome.findings)] if run.outcome.findings else []
        sections.append(Section(run.study.title, [*table, *_protocol(run)]))
    sections.append(Section("How it was made", origins(command)))
    return page(SUMMARY_TITLE, [verdict(summary_of(findings), reservations)], sections)


def _findings_table(findings: Sequence[Finding]) -> Html:
    rows = [
        (
            *_place(finding),
            ShownCell(finding.verdict, kind=COLOUR_NAMES[finding.verdict]),
            finding.evidence,
        )
        for finding in findings
    ]
    head = ("source", "claim", "verdict", "evidence")
    return ShownTable("Claims, and what came out", rows, head).to_html()


def _table_html(table: Table) -> list[Html]:
    texts = {0, *text_columns(table)}
    numbers = [name for at, name in enumerate(table.columns) if at not in texts]
    shown = ShownTable(table.title, text_rows(table), table.columns, numbers, remark=table.note)
    return [folded(table.title, shown.to_html()) if table.details else shown.to_html()]


def _figure_html(figure: Figure) -> Html:
    about = figure.about
    if not about:
        about = "; ".join(
            f"{panel.title}: {panel.y_label} against {panel.x_label}" for panel in figure.panels
        )
    return picture(lambda whole: draw_panels(figure, whole), about, figure.caption, size_of(figure))


def _protocol(run: StudyRun) -> list[Html]:
    pairs = {"makes again": ", ".join(run.study.sources)} if run.study.sources else {}
    pairs |= {
        "fits": (
            f"{run.outcome.n_fits:,}, in {run.n_parts:,} parts, {run.n_computed:,} of them"
            " computed now"
        ),
        "time": (
            f"{duration(run.seconds)} of computing; {duration(run.wall_seconds)} by the clock for"
            f" the parts computed now, {run.processes} at a time"
        ),
        "seed": "fixed draws" if run.study.fixed_draws else str(run.settings.seed),
        "size": "quick" if run.settings.quick else "full",
    }
    html = [ShownTable.of_facts("Protocol", pairs).to_html()]
    if run.warnings:
        messages = [f"{message} ({count} parts)" for message, count in run.warnings.items()]
        html.append(folded("What fits warned of", bullets(messages)))
    return html


# ---- figures


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


def size_of(figure: Figure) -> tuple[float, float]:
    """Width and height in inches."""
    n_panels = len(figure.panels)
    width = 6.5 if n_panels == 1 else max(10.0, 3.5 * n_panels)
    return width, PANEL_HEIGHT


def draw_panels(figure: Figure, whole: Any) -> None:
    """All panels of a figure on a matplotlib figure; several panels with the same series share a
    legend below them.
    """
    axes = whole.subplots(1, len(figure.panels), squeeze=False)[0]
    names = [tuple(series.name for series in panel.series) for panel in figure.panels]
    shared = len(set(names)) == 1 and len(names) > 1
    for panel, ax in zip(figure.panels, axes, strict=True):
        _draw_panel(panel, axis(ax), has_legend=len(panel.series) > 1 and not shared)
    if shared and len(names[0]) > 1:
        handles, labels = axes[0].get_legend_handles_labels()
        place = {"loc": "outside lower center", "ncols": len(labels)}
        whole.legend(handles, labels, frameon=False, fontsize="small", **place)


def _draw_panel(panel: Panel, ax: Axes, *, has_legend: bool) -> None:
    places = {series.name: at for at, series in enumerate(panel.series)}
    for series in panel.series:
        at = places[series.colour_of or series.name]
        _draw_series(series, ax, COLOURS[at % len(COLOURS)], MARKERS[at % len(MARKERS)])
    if "x" in panel.log:
        ax.set_xscale("log")
    if "y" in panel.log:
        ax.set_yscale("log")
    if panel.ticks is not None:
        ax.set_xticks(panel.ticks, [f"{tick:g}" for tick in panel.ticks])
        ax.minorticks_off()
    ax.set(xlabel=panel.x_label, ylabel=panel.y_label)
    ax.set_title(panel.title, fontsize="medium")
    if panel.diagonal:
        low = min(ax.get_xlim()[0], ax.get_ylim()[0])
        high = max(ax.get_xlim()[1], ax.get_ylim()[1])
        ax.plot([low, high], [low, high], color=FAINT, linestyle=":", zorder=0)
        ax.set(xlim=(low, high), ylim=(low, high), aspect="equal")
    if has_legend:
        ax.legend(frameon=False, fontsize="small")


def _draw_series(series: Series, ax: Axes, colour: str, marker: str) -> None:
    band = None if series.low is None or series.high is None else (series.low, series.high)
    if series.kind == "points":
        bars: Any = None
        if band is not None:
            below = [max(y - low, 0.0) for y, low in zip(series.y, band[0], strict=True)]
            above = [max(high - y, 0.0) for y, high in zip(series.y, band[1], strict=True)]
            bars = [below, above]
        ax.errorbar(
            series.x,
            series.y,
            yerr=bars,
            fmt=marker,
            color=colour,
            markersize=4,
            elinewidth=0.8,
            label=series.name,
        )
        return
    if band is not None:
        ax.fill_between(series.x, *band, color=colour, alpha=0.15, linewidth=0)
    if series.kind == "dashed":
        ax.plot(series.x, series.y, color=colour, linestyle="--", label=series.name)
    else:
        symbol = marker if len(series.x) < MOST_MARKERS else None
        ax.plot(series.x, series.y, color=colour, marker=symbol, markersize=4, label=series.name)
