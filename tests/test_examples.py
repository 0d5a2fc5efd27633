"""Every example runs from its first line to its last."""

from pathlib import Path

import matplotlib as mpl
import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("plot_*.py"))


def test_there_are_examples():
    assert EXAMPLES


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore:FigureCanvasAgg is non-interactive:UserWarning")
def test_the_example_runs(path):
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), {"__name__": "__main__"})  # noqa: S102
    assert plt.get_fignums()
    plt.close("all")
