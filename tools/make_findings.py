"""Sums up what became of every finding of the papers: docs/results/*.json → the second half of
docs/results/papers.md.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
PAGE, MARK = RESULTS / "papers.md", "<!-- from here on made by tools/make_findings.py -->\n"
ABOUT = (
    "Each claim of a paper, on every data set and protocol it was tried on here, also such as the"
    " paper did not use."
)


def findings_of_papers(studies: list[dict[str, Any]]) -> str:
    """One section per paper, one line per finding."""
    sys.path.insert(0, str(ROOT))  # the studies are not installed
    from studies.papers import PAPERS
    from studies.write import count_verdicts, markdown_grid

    findings = [
        finding | {"study": study["study"]}
        for study in studies
        for finding in study["findings"]
        if _key(finding) in PAPERS
    ]
    counted = count_verdicts([finding["verdict"] for finding in findings])
    sections = [MARK, f"\n## Every finding\n\n{ABOUT} {counted}\n"]
    for key, proposal in PAPERS.items():
        of_paper = [finding for finding in findings if _key(finding) == key]
        if of_paper:
            counted = count_verdicts([finding["verdict"] for finding in of_paper])
            table = markdown_grid(
                ("where", "finding", "verdict", "what came out", "study"),
                [_row(finding) for finding in of_paper],
            )
            sections.append(f"\n### {key}: {proposal}\n\n{counted}\n\n" + "\n".join(table) + "\n")
    return "".join(sections)


def _key(finding: dict[str, Any]) -> str:
    """The key of the paper that a finding is of."""
    return str(finding["source"].split()[0].rstrip(","))


def _row(finding: dict[str, Any]) -> list[str]:
    where = finding["source"].split(" ", 1)[1] if " " in finding["source"] else ""
    study = finding["study"]
    return [
        where,
        finding["claim"],
        f"**{finding['verdict']}**",
        finding["evidence"],
        f"[{study}]({study}.md)",
    ]


def page(old: str) -> str:
    """The page with its second half made again."""
    studies = [
        json.loads(path.read_text(encoding="utf-8")) for path in sorted(RESULTS.glob("*.json"))
    ]
    return old.split(MARK)[0].rstrip() + "\n\n" + findings_of_papers(studies)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
