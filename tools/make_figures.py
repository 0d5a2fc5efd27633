"""Make the figures of the documentation from examples: `python tools/make_figures.py`.

Those of studies are made by the studies themselves, `python -m studies NAME --out docs/results
--force`.
"""

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
        plt.savefig(ROOT / "docs" / picture, dpi=110)
        plt.close("all")


if __name__ == "__main__":
    main()
