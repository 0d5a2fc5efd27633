"""The report of a study of the papers as one HTML file that opens anywhere."""

from __future__ import annotations

from collections.abc import Sequence

from corank.report.page import Cell, Html, Section, bullets, facts, folded, origins, page, picture, table, text, verdict
from studies.papers.running import Reproduction
from studies.papers.study import CANNOT_BE_TESTED, DOES_NOT_HOLD, HOLDS, Figure, Finding, Table
from studies.papers.wording import columns_of_words, duration, rows_shown, summed_up
from studies.plots_of_papers import draw_panels, size_of

COLOURS = {HOLDS: "good", DOES_NOT_HOLD: "bad", CANNOT_BE_TESTED: ""}
QUICK = "A quick run: a small sample of the protocol, to see that everything works. Its verdicts are not the study's."


def study_page(found: Reproduction, command: str | None) -> Html:
    """The page of one study."""
    outcome = found.outcome
    lead = [verdict(summed_up(outcome.findings), [QUICK] if found.settings.quick else [])]
    tables = [part for one in outcome.tables for part in _table(one)]
    sections = [
        Section("Findings", [findings_table(outcome.findings)]),
        Section("Tables", tables),
        Section("Figures", [_figure(one) for one in outcome.figures]),
        Section("Notes", [bullets(outcome.notes)] if outcome.notes else []),
        Section("How it was done", [text(found.study.about), *_protocol(found), *origins(command)]),
    ]
    return page(found.study.title, lead, [section for section in sections if section.contents])


def summary_page(found: Sequence[Reproduction], skipped: dict[str, str], command: str | None) -> Html:
    """The findings of several studies on one page."""
    findings = [finding for one in found for finding in one.outcome.findings]
    rest = [f"{name} was not run: {why}" for name, why in skipped.items()]
    if found and found[0].settings.quick:
        rest.append(QUICK)
    sections = [Section(one.study.title, [findings_table(one.outcome.findings), *_protocol(one)]) for one in found]
    sections.append(Section("How it was made", origins(command)))
    return page("What the five papers found, tried again", [verdict(summed_up(findings), rest)], sections)


def findings_table(findings: Sequence[Finding]) -> Html:
    """Claims with their verdicts."""
    rows = [(one.source, one.claim, Cell(one.verdict, kind=COLOURS[one.verdict]), one.evidence) for one in findings]
    return table(
        "What the papers say, and what came out",
        ("source", "claim", "verdict", "evidence"),
        rows,
        text_columns=(1, 2, 3),
    )


def _table(one: Table) -> list[Html]:
    parts = [table(one.title, one.columns, rows_shown(one), text_columns=columns_of_words(one))]
    parts += [text(one.note, "soft")] if one.note else []
    return [folded(one.title, *parts)] if one.details else parts


def _figure(one: Figure) -> Html:
    about = one.about or "; ".join(f"{panel.title}: {panel.y_label} against {panel.x_label}" for panel in one.panels)
    return picture(lambda whole: draw_panels(one, whole), about, one.caption, size_of(one))


def _protocol(found: Reproduction) -> list[Html]:
    pairs = {
        "makes again": ", ".join(found.study.sources),
        "fits": f"{found.outcome.n_fits:,}, in {found.n_parts:,} parts, {found.run_now:,} of them made now",
        "time": f"{duration(found.seconds)} of computing; {duration(found.wall_seconds)} by the clock for what was made now, "
        f"{found.processes} at a time",
        "seed": str(found.settings.seed),
        "size": "quick" if found.settings.quick else "full",
    }
    parts = [facts("Protocol", pairs)]
    if found.warnings:
        parts.append(
            folded("What fits warned of", bullets([f"{words} ({n} parts)" for words, n in found.warnings.items()]))
        )
    return parts
