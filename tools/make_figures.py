"""Make the figures of the documentation from the examples: `python tools/make_figures.py`."""

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt

ROOT = Path(__file__).parents[1]
FIGURES = {"plot_ten_jokes": "ten-jokes.png"}


def main() -> None:
    """Run every example and save the figure it makes."""
    plt.ion()  # show() does not wait
    for example, picture in FIGURES.items():
        path = ROOT / "examples" / f"{example}.py"
        exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), {"__name__": "__main__"})  # noqa: S102
        plt.savefig(ROOT / "docs" / picture, dpi=110)
        plt.close("all")


if __name__ == "__main__":
    main()
