"""Make the figures of the documentation from examples and studies: `python tools/make_figures.py`.

Those of studies are drawn from their results, kept in benchmarks/results.
"""

import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt

ROOT = Path(__file__).parents[1]
FIGURES = {"plot_ten_jokes": "ten-jokes.png"}


def main() -> None:
    """Every figure."""
    plt.ion()  # show() does not wait
    for example, picture in FIGURES.items():
        path = ROOT / "examples" / f"{example}.py"
        exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), {"__name__": "__main__"})  # noqa: S102
        _save(picture)
    study_figures()


def study_figures() -> None:
    """Those of docs/uncertainty.md and docs/compare.md."""
    sys.path.insert(0, str(ROOT))  # the studies are not installed
    from benchmarks.machine import RESULTS

    from studies.questions import figures

    figures.reliability_figure(ROOT / RESULTS)
    _save("reliability.png")
    figures.questions_figure(ROOT / RESULTS)
    _save("questions.png")
    figures.headline_figure(ROOT / RESULTS)
    _save("headline.png")


def _save(picture: str) -> None:
    plt.savefig(ROOT / "docs" / picture, dpi=110)
    plt.close("all")


if __name__ == "__main__":
    main()
