"""How the packages are built: class names, what they import, what they offer. The layers are in
pyproject.toml.
"""

import ast
import importlib
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest
from tools.mutants import MUTANTS, ROOT

import corank
import corank_federated

PACKAGES = [Path(package.__file__).parent for package in (corank, corank_federated)]
TREES = {
    path.relative_to(folder.parent).as_posix(): ast.parse(path.read_text())
    for folder in PACKAGES
    for path in folder.rglob("*.py")
}


def classes(tree):
    return [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]


def imported(tree):
    """The modules that a file names in its imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def has_exports(tree):
    """Whether a file assigns `__all__`."""
    targets = [
        target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets
    ]
    return any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets)


def test_no_class_name_is_defined_twice():
    counts = Counter(name for tree in TREES.values() for name in classes(tree))
    twice = {name for name, count in counts.items() if count > 1}
    assert not twice, "another class has this name: choose one that says more"


def test_the_packages_import_nothing_that_is_not_installed_with_them():
    outside = ("studies", "benchmarks", "tests", "tools")
    strangers = {
        (file, name)
        for file, tree in TREES.items()
        for name in imported(tree)
        if name.partition(".")[0] in outside
    }
    assert strangers == set()


@pytest.mark.parametrize("file", [file for file, tree in TREES.items() if has_exports(tree)])
def test_what_is_offered_exists(file):
    module = importlib.import_module(
        file.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
    )
    names = module.__all__
    assert len(set(names)) == len(names)
    assert [name for name in names if not hasattr(module, name)] == []


# what users may import, and from where
PUBLIC = {
    "corank": """
        AutoRanker AutoRegressor Candidate CoRLS CoRankRLS CoRankingPursuit ColumnEffect
        DifferenceGP Explanation KPCR KPCRank LinkEncoder MatchingPursuit PairExplanation Path
        PreferenceGP RLS RankRLS RankUncertainty RankingPursuit Summary TableEncoder
        TransductiveRankRLS UnscoredEffect View WeighedCandidate __version__ ask column_effects
        load random_bases random_split rank_uncertainty register_kernel scan side_by_side
    """,
    "corank.datasets": """
        ProposalData RankingData ShopData TwoViewData load_jokes load_peps make_ranking
        make_shop make_two_views
    """,
    "corank.experiments": """
        ComparisonResult FittedMethod Items Method Protocol Task compare known_methods
        register_method
    """,
    "corank.interview": """
        Answer AnswerLog AnswersFile AnswersInUse Interview ask is_answers_file pair_outcomes
        read_answers
    """,
    "corank.metrics": """
        average_precision calibration_error disagreement_error ndcg reliability scorer
    """,
    "corank.report": """
        plot_atoms plot_comparison plot_judges plot_learning_curve plot_path plot_posterior
        plot_reliability plot_views write_model_report write_report
    """,
    "corank_federated": """
        Channel Coordinator Fault InProcess Limits Message MessageError Plan Refused Report
        Round RunStopped SharedItems SharedItemsError Site StateError Terms synthetic_table
    """,
}


@pytest.mark.parametrize("module", PUBLIC)
def test_public_names_are_where_they_were(module):
    offered = importlib.import_module(module)
    assert [name for name in PUBLIC[module].split() if not hasattr(offered, name)] == []


def test_the_layers_of_imports_can_be_kept_in_mind():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    assert len(settings["contracts"][0]["layers"]) <= 12


MATHEMATICS = sorted(
    f"corank.{room}.{path.stem}"
    for room in ("core", "solve")
    for path in (PACKAGES[0] / room).glob("*.py")
    if path.stem != "__init__"
)


def test_the_mathematics_imports_nothing_but_itself():
    """No tables, files, scans or plots, and neither scikit-learn nor pyarrow."""
    program = f"""
import importlib, sys
for name in {MATHEMATICS}:
    importlib.import_module(name)
rooms = {{name for name in sys.modules if name.startswith("corank.")}}
others = {{"corank._version", "corank.core", "corank.solve", *{MATHEMATICS}}}
print(sorted(rooms - others), [name for name in ("sklearn", "pyarrow", "matplotlib", "pandas") if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[] []\n"


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.describe())
def test_every_mutant_changes_one_place(mutant):
    """Formulas that move take their line of tools/mutants.py with them."""
    ast.parse(mutant.applied((ROOT / mutant.path).read_text()))
