"""Sums up what became of every finding of the papers: docs/results/*.json → the second half of docs/results/papers.md."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from studies.papers.wording import PAPERS

RESULTS = Path(__file__).parents[1] / "docs" / "results"
PAGE, MARK = RESULTS / "papers.md", "<!-- from here on made by tools/make_findings.py -->\n"
ABOUT = (
    "Each claim of a paper, on every data set and protocol it was tried on here, also such as the paper did not use."
)


def summed_up(studies: list[dict[str, Any]]) -> str:
    """One section a paper, one line a finding."""
    findings = [finding | {"study": study["study"]} for study in studies for finding in study["findings"]]
    parts = [MARK, f"\n## Every finding\n\n{ABOUT} {_counted(findings)}\n"]
    for number, name in PAPERS.items():
        own = [finding for finding in findings if finding["source"].startswith(number)]
        if own:
            parts.append(f"\n### {number}: {name}\n\n{_counted(own)}\n\n{_table(own)}")
    return "".join(parts)


def _counted(findings: list[dict[str, Any]]) -> str:
    counts = Counter(finding["verdict"] for finding in findings)
    words = {"holds": "hold", "does not hold": "do not hold"}
    told = ", ".join(f"{n} {words.get(verdict, verdict) if n > 1 else verdict}" for verdict, n in counts.most_common())
    return f"Of {len(findings)} findings, {told}."


def _table(findings: list[dict[str, Any]]) -> str:
    lines = ["| where | finding | verdict | what came out | study |", "|---|---|---|---|---|"]
    for finding in findings:
        where = finding["source"].split(" ", 1)[1] if " " in finding["source"] else ""
        cells = [where, finding["claim"], f"**{finding['verdict']}**", finding["evidence"], _link(finding["study"])]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _link(study: str) -> str:
    return f"[{study}]({study}.md)"


def page(old: str) -> str:
    """The page with its second half made anew."""
    studies = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(RESULTS.glob("*.json"))]
    return old.split(MARK)[0].rstrip() + "\n\n" + summed_up([study for study in studies if "findings" in study])


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
