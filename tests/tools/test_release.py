"""What a release rests on: one version, and marks that say which Pythons it is for."""

import json
import tomllib
from importlib import resources
from pathlib import Path

from tools import audit

import corank

ROOT = Path(__file__).parents[2]


def test_the_version_is_said_once():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" in project["project"]["dynamic"]
    assert (ROOT / project["tool"]["hatch"]["version"]["path"]).read_text().count(
        corank.__version__
    ) == 1
    assert f"\nversion: {corank.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"\n## {corank.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_types_come_along():
    assert resources.files("corank").joinpath("py.typed").is_file()


def test_pythons_are_named():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = {line.rsplit(" ", 1)[-1] for line in project["classifiers"] if "Python :: 3." in line}
    assert named == {"3.11", "3.12", "3.13"}
    assert project["requires-python"] == ">=3.11"


def test_the_bill_of_materials_names_every_dependency_with_its_licence(tmp_path, capsys):
    assert audit.main(["--bill", str(tmp_path / "bill.json")]) == 0
    bill = json.loads((tmp_path / "bill.json").read_text())
    parts = {part["name"]: part for part in [bill["metadata"]["component"], *bill["components"]]}
    assert bill["bomFormat"] == "CycloneDX"
    assert {"corank", "numpy", "scipy", "scikit-learn", "pyarrow", "typer"} <= parts.keys()
    assert all(part["licenses"][0]["license"]["name"] != "not said" for part in parts.values())
    assert "numpy" in capsys.readouterr().out
