"""README's Python runs as it stands."""

import re
from pathlib import Path

import pytest
from sklearn import config_context

README = Path(__file__).parents[1] / "README.md"


def test_readme_python_runs(tmp_path, monkeypatch, capsys):
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(blocks) >= 2
    monkeypatch.chdir(tmp_path)
    with config_context():  # the example turns metadata routing on
        exec(compile("\n".join(blocks), str(README), "exec"), {})  # noqa: S102
    first = float(capsys.readouterr().out.split()[0])
    assert first > 0.8
    assert (tmp_path / "model.corank").exists()


@pytest.mark.parametrize("name", ["CHANGELOG.md", "CITATION.cff", "LICENSE"])
def test_what_readme_points_to_is_there(name):
    assert (README.parent / name).is_file()


def test_the_example_of_chunks_in_the_docs_runs():
    page = README.parent / "docs" / "views.md"
    [block] = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    names = {}
    exec(compile(block, str(page), "exec"), names)  # noqa: S102
    assert names["model"]._n_unscored == 400
    assert names["model"].agreement_ >= 0


def test_the_example_of_scans_in_the_docs_runs(capsys):
    page = README.parent / "docs" / "big-data.md"
    [block] = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    names = {}
    exec(compile(block, str(page), "exec"), names)  # noqa: S102
    assert float(capsys.readouterr().out) > 0.8
    assert (names["folder"] / "predictions.parquet").exists()


def test_the_examples_of_other_rankers_in_the_docs_run(capsys):
    import numpy as np

    page = README.parent / "docs" / "rankers.md"
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    names = {"np": np}
    exec(compile("\n".join(blocks), str(page), "exec"), names)  # noqa: S102
    assert names["model"].transduction_.shape == (50,)
    assert "row" in capsys.readouterr().out


def test_the_examples_of_comparisons_in_the_docs_run(capsys):
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    page = README.parent / "docs" / "uncertainty.md"
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    names = {}
    exec(compile("\n".join(blocks), str(page), "exec"), names)  # noqa: S102
    plt.close("all")
    assert names["model"].gamma_[0] > 10 * names["model"].gamma_[1:].max()
    assert capsys.readouterr().out


def test_the_example_of_comparing_in_the_docs_runs(tmp_path, monkeypatch, capsys):
    page = README.parent / "docs" / "compare.md"
    [block] = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(block, str(page), "exec"), {})  # noqa: S102
    assert "RankRLS" in capsys.readouterr().out
    assert (tmp_path / "report.html").stat().st_size > 10_000
