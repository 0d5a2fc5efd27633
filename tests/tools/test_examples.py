"""Every example is a page of the gallery: a title, some sentences, a figure. `make docs` runs them
all; so does `-m slow`.
"""

import ast
from pathlib import Path

import matplotlib as mpl
import pytest
from sklearn import config_context

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("plot_*.py"))


def test_there_are_examples():
    assert len(EXAMPLES) >= 10


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_is_a_page(path):
    text = path.read_text(encoding="utf-8")
    title, line, *rest = ast.get_docstring(ast.parse(text)).splitlines()
    assert set(line) == {"="}
    assert len(line) == len(title)
    assert len(" ".join(rest).split(". ")) >= 2
    assert "\n# %%\n# " in text
    assert "plt.show()" in text


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore:FigureCanvasAgg is non-interactive:UserWarning")
def test_the_example_runs(path):
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    with config_context():
        exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), {"__name__": "__main__"})  # noqa: S102
    assert plt.get_fignums()
    plt.close("all")
