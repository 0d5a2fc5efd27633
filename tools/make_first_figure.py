"""The figure at the top of the README, from the results of the studies: `python
tools/make_first_figure.py`.

Every bar is a figure that docs/results/items.md or docs/results/default.md states, read from the
files beside them: the error of what one gets by default, over that of what people usually take on
the same data.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import matplotlib.pyplot as plt

DOCS = Path(__file__).parent.parent / "docs"
TARGET = DOCS / "first-sight.png"
BARS = (  # study, beginning of the claim, what was ranked, beside what
    (
        "items",
        "proposals on Typing",
        "proposals on typing, 10 to 40 marked: text and links",
        "tf-idf and logistic regression",
    ),
    (
        "items",
        "proposals on Packaging",
        "proposals on packaging, 10 to 40 marked",
        "tf-idf and logistic regression",
    ),
    (
        "items",
        "Cora, 50 labels",
        "papers of a topic, 50 labelled: words and citations",
        "better of linear model, label spreading",
    ),
    (
        "items",
        "Cora, 20 labels",
        "papers of a topic, 20 labelled",
        "better of linear model, label spreading",
    ),
    (
        "items",
        "proposals on Governance",
        "proposals on governance, 10 to 40 marked",
        "tf-idf and logistic regression",
    ),
    (
        "default",
        "regression, over LightGBM",
        "32 tables of numbers, 20 to 100 scores",
        "tuned LightGBM",
    ),
    (
        "default",
        "ranking, over tuned LightGBM",
        "search results, 4 to 16 judged queries",
        "tuned LightGBM",
    ),
    (
        "items",
        "proposals on Release",
        "proposals on releases, 10 to 40 marked",
        "tf-idf and logistic regression",
    ),
    (
        "default",
        "regression, over the better of extra trees and GP: geometric",
        "32 tables of numbers, 20 to 100 scores",
        "better of forest, Gaussian process",
    ),
)
BLUE, DARK = "#2a6f97", "#1f2933"


def ratio(study: str, claim: str) -> float:
    """The figure that a study states for a claim."""
    findings = json.loads((DOCS / "results" / f"{study}.json").read_text())["findings"]
    (evidence,) = (
        finding["evidence"] for finding in findings if finding["claim"].startswith(claim)
    )
    return float(re.findall(r"[\d.]*\d", evidence)[0])


def main() -> None:
    """Draw the figure."""
    figure, axis = plt.subplots(figsize=(9.6, 4.2), dpi=160)
    for place, (study, claim, what, peer) in enumerate(BARS):
        value = ratio(study, claim)
        axis.barh(place, 1.0, height=0.62, color="#eef1f4")
        axis.barh(place, value, height=0.62, color=BLUE)
        inside = value > 0.9
        axis.text(
            value + (-0.012 if inside else 0.012),
            place,
            f"{value:.2f}",
            va="center",
            ha="right" if inside else "left",
            fontsize=9,
            color="white" if inside else DARK,
            fontweight="bold",
        )
        axis.text(1.015, place, f"1 = {peer}", va="center", fontsize=8.5, color="#616e7c")
        axis.text(-0.015, place, what, va="center", ha="right", fontsize=9, color=DARK)
    axis.set_xlim(0, 1.0)
    axis.set_ylim(len(BARS) - 0.4, -0.6)
    axis.set_yticks([])
    axis.set_xticks(
        [0, 0.25, 0.5, 0.75, 1.0], ["0", "¼", "½", "¾", "1"], fontsize=9, color="#616e7c"
    )
    for side in ("top", "right", "left", "bottom"):
        axis.spines[side].set_visible(False)
    axis.tick_params(length=0)
    axis.set_title(
        "Errors that are left with corank's default, where the usual tool leaves 1",
        fontsize=11,
        color=DARK,
        loc="left",
        pad=10,
    )
    figure.savefig(TARGET, bbox_inches="tight", facecolor="white")
    print(TARGET)


if __name__ == "__main__":
    main()
