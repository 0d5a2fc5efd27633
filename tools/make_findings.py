"""Sums up the papers: docs/results/*.json (what became of every claim) and
docs/results/paper-items.toml (what of the papers corank has) → the second half of
docs/results/papers.md.

The table of items names tests, and each of them must be there.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
PAGE, MARK = RESULTS / "papers.md", "<!-- from here on made by tools/make_findings.py -->\n"
ITEMS = RESULTS / "paper-items.toml"
GROUNDS = {  # kind of a finding → how a table calls it
    "own": "the paper's",
    "elsewhere": "elsewhere",
    "not claimed": "not claimed",
}
WORKS, DECLINED = "works", "declined"
COSTS = "costs"
Entry = Mapping[str, Any]


def page(old: str) -> str:
    """The page with its second half made again."""
    sys.path.insert(0, str(ROOT))  # the studies are not installed
    from studies.papers import PAPERS

    studies = [
        json.loads(path.read_text(encoding="utf-8")) for path in sorted(RESULTS.glob("*.json"))
    ]
    of_papers = [study for study in studies if _of_papers(study, PAPERS)]
    told = [study for study in of_papers if _says_whose(study)]
    items = tomllib.loads(ITEMS.read_text(encoding="utf-8"))["items"]
    check_items(items, ROOT)
    sections = [
        *claim_sections(told, PAPERS),
        *_left_out([study for study in of_papers if not _says_whose(study)]),
        *item_sections(items, PAPERS),
        *run_section(told),
    ]
    return old.split(MARK)[0].rstrip() + "\n\n" + MARK + "\n" + "\n".join(sections) + "\n"


def _of_papers(study: Entry, papers: Iterable[str]) -> bool:
    return any(source.split()[0].rstrip(",") in papers for source in study["sources"])


def _says_whose(study: Entry) -> bool:
    """Whether the results say on whose ground a claim is tested; those of before do not."""
    return all("kind" in finding for finding in study["findings"])


def _left_out(studies: Sequence[Entry]) -> list[str]:
    names = [
        f"[{study['study']}]({study['study']}.md) ({study['seconds_of_computing'] / 60:.0f} min of"
        " computing)"
        for study in studies
    ]
    told = (
        "Not in these tables until they are run again, since their results do not say on whose ground"
        f" a claim is tested: {', '.join(names)}."
    )
    return [told, ""] if names else []


# ---- claims


def claim_sections(studies: Sequence[Entry], papers: Mapping[str, str]) -> list[str]:
    """How many claims hold, and one table per paper with a row per claim."""
    claims = grouped(studies)
    lines = ["## Every claim", "", _counted(claims), ""]
    for key, proposal in papers.items():
        of_paper = {claim: cases for claim, cases in claims.items() if claim[0] == key}
        if of_paper:
            rows = [_row(claim, cases) for claim, cases in of_paper.items()]
            rows.sort(key=lambda row: list(GROUNDS.values()).index(row[2]))
            head = ("where", "claim", "ground", "verdict", "what came out", "study")
            lines += [f"### {key}: {proposal}", "", *_grid(head, rows), ""]
    return lines


def grouped(studies: Sequence[Entry]) -> dict[tuple[str, str, str, str], list[Entry]]:
    """(paper, claim, ground, study) → the findings on its cases."""
    claims: dict[tuple[str, str, str, str], list[Entry]] = {}
    for study in studies:
        for finding in study["findings"]:
            paper = finding["source"].split()[0].rstrip(",")
            claim = paper, finding["claim"], finding["kind"], study["study"]
            claims.setdefault(claim, []).append(finding)
    return claims


def _counted(claims: Mapping[tuple[str, str, str, str], list[Entry]]) -> str:
    from studies.verdicts import joint_verdict
    from studies.write import count_verdicts

    by_ground: dict[str, list[str]] = {ground: [] for ground in (*GROUNDS, COSTS)}
    for (_, _, ground, study), cases in claims.items():
        of_costs = study == COSTS or cases[0]["source"].endswith("times")
        place = COSTS if of_costs and ground == "own" else ground
        by_ground[place].append(joint_verdict([case["verdict"] for case in cases]))
    counted = {
        ground: count_verdicts(verdicts).replace("finding", "claim")
        for ground, verdicts in by_ground.items()
    }
    others = len(by_ground["not claimed"])
    rest = "One further row is no claim" if others == 1 else f"{others} further rows are no claims"
    return (
        "A claim is a sentence or a table of a paper; its cases are the comparisons in it, which"
        " the pages of the studies list one by one. It holds where it does in all cases and partly"
        " where it does in some; where it does in none, it does not hold if most cases say so, and"
        f" cannot be tested otherwise. *On the paper's own ground*: {counted['own']} *What the"
        f" papers say of costs*: {counted[COSTS]} *Elsewhere*: {counted['elsewhere']} {rest} of the"
        " papers; nothing counts them."
    )


def _row(claim: tuple[str, str, str, str], cases: Sequence[Entry]) -> tuple[str, ...]:
    from studies.verdicts import joint_verdict

    _, text, ground, study = claim
    places = dict.fromkeys(case["source"].split(" ", 1)[-1] for case in cases)
    where = ", ".join(place for place in places if place != claim[0]) or "–"
    verdict = joint_verdict([case["verdict"] for case in cases])
    return (
        where,
        text,
        GROUNDS[ground],
        f"**{verdict}**",
        evidence_of(cases),
        f"[{study}]({study}.md)",
    )


def evidence_of(cases: Sequence[Entry]) -> str:
    """The evidence of a single case; of several, how many are how, and the extremes."""
    if len(cases) == 1:
        case, evidence = cases[0]["case"], str(cases[0]["evidence"])
        return f"{case}: {evidence}" if case else evidence
    verdicts = [case["verdict"] for case in cases]
    counts = [
        f"{verdicts.count(verdict)} {words}"
        for verdict, words in (
            ("holds", "hold"),
            ("holds partly", "partly"),
            ("does not hold", "do not"),
            ("cannot be tested with the data at hand", "cannot be told"),
        )
        if verdict in verdicts
    ]
    told = f"{len(cases)} cases: {', '.join(counts)}"
    measured = [case for case in cases if case["interval"]]
    if not measured:
        return f"{told}. {cases[0]['evidence']}"
    measured.sort(key=lambda case: case["interval"][0])
    ends = measured if len(measured) <= 3 else (measured[0], measured[-1])
    word = "; " if len(measured) <= 3 else " to "
    return f"{told}; {word.join(_shown(case) for case in ends)}."


def _shown(case: Entry) -> str:
    is_difference = "difference" in str(case["evidence"])
    mean, low, high = (_number(value, is_difference) for value in case["interval"])
    return f"{mean} ({low} to {high}) {case['case']}".rstrip()


def _number(value: float | None, is_difference: bool) -> str:
    if value is None:
        return "–"
    if is_difference and abs(value) < 1:
        return f"{value:+.4f}"
    return f"{value:+.2f}" if is_difference else f"{value:.2f}"


# ---- items


def check_items(items: Sequence[Entry], root: Path) -> None:
    """Raise where an item is there twice, says too little, or names a test that is not there."""
    numbers = [item["number"] for item in items]
    if sorted(numbers) != list(range(1, len(numbers) + 1)):
        raise ValueError(f"items must be numbered 1 to {len(numbers)}, each once.")
    for item in items:
        asked = {WORKS: ("call", "test"), DECLINED: ("reason",)}
        if item["status"] not in asked:
            raise ValueError(f"item {item['number']} is {item['status']!r}: {', '.join(asked)}.")
        for name in asked[item["status"]]:
            if not item.get(name):
                raise ValueError(f"item {item['number']} {item['status']}, but names no {name}.")
        if item["status"] == WORKS:
            check_test(item["test"], root)


def check_test(test: str, root: Path) -> None:
    """Raise where there is no such test; `test` is file::name."""
    file, _, name = test.partition("::")
    path = root / file
    if not path.is_file():
        raise ValueError(f"{test}: there is no file {file}.")
    if not re.search(
        rf"^\s*def {re.escape(name)}\(", path.read_text(encoding="utf-8"), re.MULTILINE
    ):
        raise ValueError(f"{test}: {file} has no test {name}.")


def item_sections(items: Sequence[Entry], papers: Mapping[str, str]) -> list[str]:
    """One table per paper."""
    lines = [
        "## What of the papers corank has",
        "",
        (
            "Each line: what a paper describes, the call that does it, and the test that holds it to a"
            " brute-force minimiser of the stated objective, to literal refitting, or to what the"
            " paper says it is."
        ),
        "",
    ]
    for key, proposal in (*papers.items(), ("several", "across the papers")):
        rows = [_item_row(item) for item in items if item["paper"] == key]
        if rows:
            title = f"**{key}**: {proposal}" if key in papers else f"**{proposal.capitalize()}**"
            lines += [title, "", *_grid(("#", "what", "call", "test"), rows), ""]
    return lines


def _item_row(item: Entry) -> tuple[str, ...]:
    if item["status"] == DECLINED:
        return str(item["number"]), item["words"], "declined", item["reason"]
    return str(item["number"]), item["words"], f"`{item['call']}`", f"`{item['test']}`"


# ---- runs


def run_section(studies: Sequence[Entry]) -> list[str]:
    """How the numbers were made."""
    rows = [
        (
            f"[{study['study']}]({study['study']}.md)",
            f"`{study['command']}`",
            f"{study['seconds_of_computing'] / 60:.0f} min",
            f"{study['machine']['cpu']}, {study['machine']['cores']} cores",
            study["date"][:10],
        )
        for study in studies
    ]
    head = ("study", "command", "computing", "machine", "date")
    return ["## How it was run", "", *_grid(head, rows)]


def _grid(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    from studies.write import markdown_grid

    return markdown_grid(columns, rows)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    entries = tomllib.loads(ITEMS.read_text(encoding="utf-8"))["items"]
    statuses = [entry["status"] for entry in entries]
    print(", ".join(f"{statuses.count(name)} {name}" for name in (WORKS, DECLINED)))
