"""federated as a distribution of its own: what it brings to corank, what it takes from it, and
corank without it.
"""

import ast
import subprocess
import sys
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest

import corank
import corank_federated
import corank_federated.cli
from corank_federated.state import read_state

ROOT = Path(__file__).parents[2]
SOURCES = Path(corank_federated.__file__).parent
WITHOUT = "import sys, importlib.metadata; sys.modules['corank_federated'] = None\n"
NO_PLUGINS = "importlib.metadata.entry_points = lambda **group: ()\n"


def python(*lines, cwd):
    words = [sys.executable, "-c", "".join(lines)]
    return subprocess.run(words, cwd=cwd, capture_output=True, text=True, timeout=120, check=False)


def corank_command(*words):
    return f"sys.argv = {['corank', *words]}; import corank.cli; corank.cli.main()"


def test_it_is_released_with_corank():
    project = tomllib.loads((ROOT / "federated" / "pyproject.toml").read_text())["project"]
    whole = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == corank.__version__
    assert f"corank=={corank.__version__}" in project["dependencies"]
    for field in ("license", "requires-python", "classifiers"):
        assert project[field] == whole[field]
    assert (ROOT / "federated" / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    assert (SOURCES / "py.typed").is_file()


def test_the_list_of_commands_says_what_the_help_of_the_command_says():
    assert (
        distribution("corank-federated").metadata["Summary"]
        == corank_federated.cli.federated.info.help
    )


def test_the_list_of_commands_does_not_wait_for_it(tmp_path):
    program = (
        "import sys; sys.argv = ['corank', '--help']; import corank.cli\n"
        "try: corank.cli.main()\n"
        "except SystemExit: print({'corank_federated', 'grpc', 'numpy'} & set(sys.modules))"
    )
    *listed, imported = python(program, cwd=tmp_path).stdout.splitlines()
    assert any("federated" in line for line in listed)
    assert imported == "set()"


def test_names_are_where_they_were():
    import corank.federated

    assert all(
        getattr(corank.federated, name) is getattr(corank_federated, name)
        for name in corank_federated.__all__
    )


def test_modules_that_it_takes_from_corank_are_those_that_its_docstring_lists():
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in SOURCES.glob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    imported = {node.module for node in nodes if node.module.partition(".")[0] == "corank"}
    words = corank_federated.__doc__.replace("`", " ").replace(",", " ").split()
    assert {word for word in words if word.startswith("corank.")} == imported


def test_corank_without_it_says_what_to_install(tmp_path):
    done = python(
        WITHOUT,
        NO_PLUGINS,
        corank_command("federated", "init", "party", "--site", "a"),
        cwd=tmp_path,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        done.stderr
        == "corank: federated is a distribution of its own: pip install corank-federated\n"
    )
    listed = python(WITHOUT, NO_PLUGINS, corank_command("--help"), cwd=tmp_path)
    assert listed.returncode == 0
    assert "federated" not in listed.stdout


@pytest.mark.parametrize(
    "line", ["import corank.federated", "from corank.federated import Site", "corank.federated"]
)
def test_names_of_old_without_it_say_what_to_install(line, tmp_path):
    done = python(
        WITHOUT, "import corank; assert 'federated' not in dir(corank)\n", line, cwd=tmp_path
    )
    assert done.stderr.splitlines()[-1].startswith(
        "ModuleNotFoundError: corank.federated is a distribution of its own"
    )
    assert "pip install corank-federated" in done.stderr


def test_what_it_lacks_is_named(tmp_path):
    done = python(
        "import sys; sys.modules['grpc'] = None\n",
        corank_command("federated", "init", "party", "--site", "a"),
        cwd=tmp_path,
    )
    assert done.returncode == 2
    assert done.stderr == "corank: federated needs grpc: pip install corank-federated\n"


@pytest.mark.parametrize("whose", ["coordinator", "north"])
def test_states_of_before_are_read(whose):
    facts, arrays = read_state(ROOT / "tests" / "federated" / "states" / f"{whose}.state")
    assert facts["run"] == "before"
    assert arrays
