"""The registry: everything that lists learners lists those, and a learner declared once is known
everywhere.
"""

import ast
import os
import subprocess
import sys
from dataclasses import replace
from inspect import signature
from pathlib import Path

import numpy as np
import pytest
import small_learner
from edited_files import round_trip
from sklearn.base import is_regressor
from sklearn.utils.estimator_checks import parametrize_with_checks

import corank
from corank.core import registry
from corank.core.registry import declare, learner_class, learner_record, learner_records
from corank.datasets import make_ranking
from corank.experiments import Protocol, compare, known_methods

ROOT = Path(__file__).parents[2]
DATA = make_ranking(n_queries=8, query_size=6, random_state=0)


@pytest.fixture
def declared(monkeypatch):
    monkeypatch.setattr(registry, "RECORDS", dict(registry.RECORDS))
    declare(small_learner.RECORD)


def test_records_name_classes_that_are_what_they_say():
    for record in learner_records():
        learner = learner_class(record.name)
        assert learner.__module__ == record.module
        assert learner is getattr(corank, record.name)
        assert record.ranks == (not is_regressor(learner()))
        assert record.views == ("views" in learner().get_params())
        assert record.comparisons == hasattr(learner, "fit_comparisons")
        names = {"components": "n_components", "atoms": "n_atoms"}
        assert {names.get(option, option) for option in record.options} <= set(
            learner().get_params()
        )


def test_classes_say_what_they_can():
    methods = {
        "is_average": "reason_",
        "has_posterior": "predict_comparison",
        "has_views": "predict_views",
        "has_atoms": "explain",
        "suggests": "suggest",
        "updates_comparisons": "update_comparisons",
    }
    for record in learner_records():
        learner = learner_class(record.name)
        said = {ability for ability in methods if getattr(learner, ability)}
        assert said == {ability for ability, name in methods.items() if hasattr(learner, name)}
        assert learner.takes == set(signature(learner.predict).parameters) - {"self", "X"}


def test_the_documentation_lists_every_learner():
    listed = {
        line.strip()
        for line in (ROOT / "docs" / "api.rst").read_text(encoding="utf-8").splitlines()
    }
    assert {record.name for record in learner_records()} <= listed


def test_type_checkers_see_everything_that_is_exported():
    tree = ast.parse(Path(corank.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {alias.name for statement in block.body for alias in statement.names}
    assert seen == set(corank.__all__) - {"__version__"}


def test_names_are_declared_once():
    record = learner_record("RankRLS")
    declare(record)
    for other in (replace(record, method="other"), replace(record, name="Other")):
        with pytest.raises(ValueError, match=r"'RankRLS'|'rankrls'"):
            declare(other)


# ---- a learner of 40 lines


def test_a_learner_fits_in_forty_lines():
    tree = ast.parse(Path(small_learner.__file__).read_text(encoding="utf-8"))
    learner = next(node for node in tree.body if isinstance(node, ast.ClassDef))
    assert learner.end_lineno - learner.lineno < 40


@parametrize_with_checks([small_learner.KernelMean()])
def test_scikit_learn_contract_of_a_learner_of_ones_own(estimator, check):
    check(estimator)


def test_a_declared_learner_is_exported_saved_and_loaded(declared, tmp_path):
    model = corank.KernelMean(sharpness=2.0).fit(DATA.X, DATA.y, qid=DATA.qid)
    assert model.score(DATA.X, DATA.y, qid=DATA.qid) > 0.6
    loaded = round_trip(model, tmp_path / "model.corank")
    assert isinstance(loaded, small_learner.KernelMean)
    assert loaded.get_params() == model.get_params()
    np.testing.assert_array_equal(loaded.predict(DATA.X), model.predict(DATA.X))
    assert small_learner.RECORD.sentence in str(loaded.summary())


def test_a_learner_that_was_not_declared_is_not_saved(tmp_path):
    with pytest.raises(TypeError, match="KernelMean"):
        small_learner.KernelMean().fit(DATA.X, DATA.y).save(tmp_path / "model.corank")


def test_a_declared_learner_is_compared(declared):
    assert known_methods()["kernelmean"].about == small_learner.RECORD.sentence
    result = compare((DATA.X, DATA.y, DATA.qid), ["ridge", "kernelmean"], Protocol(repeats=2))
    assert "KernelMean" in str(result)


COMMANDS = """
import small_learner
from corank.core.registry import declare
declare(small_learner.RECORD)
from command_line import run
columns = ("--score", "score", "--query", "query")
assert "KernelMean" in run("fit", "items.csv", *columns, "--method", "kernelmean", "--out", "m.corank").stdout
assert "KernelMean" in run("inspect", "m.corank").stdout
methods = ("--methods", "ridge,kernelmean", "--repeats", "2", "--json")
assert "kernelmean" in run("compare", "items.csv", *columns, *methods).stdout
"""


def test_the_command_line_fits_and_compares_a_declared_learner(tmp_path):
    """In a process of its own: the command line lists the methods when it is imported."""
    header = ",".join(f"c{column}" for column in range(DATA.X.shape[1]))
    table = np.column_stack([DATA.X, DATA.y, DATA.qid])
    np.savetxt(
        tmp_path / "items.csv", table, delimiter=",", header=f"{header},score,query", comments=""
    )
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")]),
    }
    command = [sys.executable, "-c", COMMANDS]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
