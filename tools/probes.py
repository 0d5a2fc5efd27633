"""Where the package asks a model what it is, or reaches into another module's objects; and what an
import loads.

    python tools/probes.py

Counted from the syntax trees of `src/corank`, each place with file and line:

* probes: `hasattr`, `getattr` with a default and comparisons of `type(…).__name__` whose object has
  the name of a learner, and `isinstance` against a class of learners outside the registry;
* private attributes: `x._y` where x is neither `self` nor `cls` and no `_y` is defined in that
  module; those of other packages' modules do not count;
* the words `_several` and `_per_view`.

The status is 1 where there are any, or where an import loads too much.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "corank"
OBJECTS = frozenset(  # variables and attributes that hold a learner
    {
        "model",
        "learner",
        "estimator",
        "fitted",
        "inner",
        "template",
        "owner",
        "reader",
        "ranker",
        "regressor",
    }
)
REGISTRY = "core/registry.py"
OWN = frozenset({"self", "cls"})
WORDS = frozenset({"_several", "_per_view"})
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
MOST_MODULES = 40  # of corank, which `from corank import RankRLS` loads
UNWANTED = ("corank.streaming.dask", "corank.encode.text", "corank.cli")


@dataclass(frozen=True)
class File:
    """A source file: its path below the package, and its tree."""

    path: str
    tree: ast.Module

    @property
    def has_learners(self) -> bool:
        """Whether learners live in it."""
        return self.path.startswith("learners/")


@dataclass(frozen=True)
class Place:
    """A place in the sources."""

    path: str
    line: int
    text: str


def read_files(package: Path) -> list[File]:
    """All sources of a package."""
    return [
        File(path.relative_to(package).as_posix(), ast.parse(path.read_text("utf-8")))
        for path in sorted(package.rglob("*.py"))
    ]


def places(file: File, chosen: Callable[[ast.AST], bool]) -> Iterator[Place]:
    """The chosen nodes of a file."""
    for node in ast.walk(file.tree):
        if chosen(node):
            assert isinstance(node, ast.expr)
            yield Place(file.path, node.lineno, ast.unparse(node))


# ---------------------------------------------------------------- probes


def probes(files: list[File]) -> list[Place]:
    """Where a model is asked what it is."""
    learners = learner_classes(files)
    found: list[Place] = []
    for file in files:
        if file.path != REGISTRY:
            found += places(file, lambda node, file=file: is_probe(node, file, learners))  # type: ignore[misc]
    return found


def is_probe(node: ast.AST, file: File, learners: set[str]) -> bool:
    """Whether a node asks what a learner is."""
    if isinstance(node, ast.Compare):
        return any(is_type_name(part, file) for part in (node.left, *node.comparators))
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return False
    if node.func.id == "hasattr" or (node.func.id == "getattr" and len(node.args) == 3):
        return is_learner(node.args[0], file)
    if node.func.id == "isinstance":
        names = {part.id for part in ast.walk(node.args[1]) if isinstance(part, ast.Name)}
        return not names.isdisjoint(learners)
    return False


def is_type_name(node: ast.AST, file: File) -> bool:
    """Whether a node is `type(model).__name__`."""
    return (
        isinstance(node, ast.Attribute)
        and node.attr == "__name__"
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func) == "type"
        and is_learner(node.value.args[0], file)
    )


def is_learner(node: ast.AST, file: File) -> bool:
    """Whether an expression has the name of a learner; `self` has, where learners live."""
    if isinstance(node, ast.Attribute):
        return node.attr in OBJECTS
    if not isinstance(node, ast.Name):
        return False
    return node.id in OBJECTS or (node.id == "self" and file.has_learners)


def learner_classes(files: list[File]) -> set[str]:
    """Classes that are learners: those with `fit`, which is no class method, in the room of learners,
    and their children.
    """
    classes = [
        node
        for file in files
        if file.has_learners
        for node in file.tree.body
        if isinstance(node, ast.ClassDef)
    ]
    learners = {node.name for node in classes if any(is_fit(part) for part in node.body)}
    while True:
        children = {
            node.name
            for node in classes
            if any(isinstance(base, ast.Name) and base.id in learners for base in node.bases)
        }
        if children <= learners:
            return learners
        learners |= children


def is_fit(node: ast.AST) -> bool:
    """Whether a node of a class is a method `fit` of its objects."""
    if not isinstance(node, FUNCTIONS) or node.name != "fit":
        return False
    return "classmethod" not in {ast.unparse(each) for each in node.decorator_list}


# ---------------------------------------------------------------- private attributes and words


def private_attributes(files: list[File]) -> list[Place]:
    """Where a module reaches into the objects of another one."""
    found: list[Place] = []
    for file in files:
        known = names_defined_in(file.tree) | modules_of_others(file.tree)

        def is_foreign(node: ast.AST, known: set[str] = known) -> bool:
            return (
                isinstance(node, ast.Attribute)
                and node.attr.startswith("_")
                and not node.attr.startswith("__")
                and node.attr not in known
                and not is_own(node)
                and not (isinstance(node.value, ast.Name) and node.value.id in known)
            )

        found += places(file, is_foreign)
    return found


def is_own(node: ast.Attribute) -> bool:
    """Whether a node is an attribute of `self` or `cls`."""
    return isinstance(node.value, ast.Name) and node.value.id in OWN


def names_defined_in(tree: ast.Module) -> set[str]:
    """Private names that a module defines: functions, variables and fields, attributes that it
    assigns to `self` or `cls`.
    """
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Attribute) and is_own(node) and isinstance(node.ctx, ast.Store):
            names.add(node.attr)
    return {name for name in names if name.startswith("_")}


def modules_of_others(tree: ast.Module) -> set[str]:
    """Names of modules of other packages that a module imports."""
    return {
        (alias.asname or alias.name).partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
        if not alias.name.startswith("corank")
    }


def words(files: list[File]) -> list[Place]:
    """Where the words stand that say that a model is of one kind or of several."""

    def is_word(node: ast.AST) -> bool:
        return (isinstance(node, ast.Attribute) and node.attr in WORDS) or (
            isinstance(node, ast.Name) and node.id in WORDS
        )

    return [place for file in files for place in places(file, is_word)]


# ---------------------------------------------------------------- imports


def modules_after(statement: str) -> list[str]:
    """The modules of corank that a fresh process has loaded after a statement."""
    program = f"""
import sys
{statement}
print(*(name for name in sys.modules if name.partition(".")[0] == "corank"))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return sorted(done.stdout.split())


def report_imports() -> bool:
    """Print what imports load; whether any loads too much."""
    loaded = modules_after("from corank import RankRLS")
    unwanted = [name for name in loaded if name.startswith(UNWANTED)]
    print(f"from corank import RankRLS: {len(loaded)} modules of corank (at most {MOST_MODULES})")
    for name in unwanted:
        print(f"    {name}")
    too_much = len(loaded) > MOST_MODULES or bool(unwanted)
    solvers = sorted(path.stem for path in (PACKAGE / "solve").glob("[!_]*.py"))
    for statement, rooms in {
        "import corank.core.loss": ("core",),
        "import " + ", ".join(f"corank.solve.{name}" for name in solvers): ("core", "solve"),
    }.items():
        allowed = ("corank", "corank._version", *(f"corank.{room}" for room in rooms))
        beyond = [
            name
            for name in modules_after(statement)
            if name not in allowed
            and not name.startswith(tuple(f"{room}." for room in allowed[2:]))
        ]
        print(f"{statement[:40]}: {len(beyond)} modules beyond {' and '.join(rooms)}", *beyond)
        too_much |= bool(beyond)
    return too_much


def main() -> None:
    files = read_files(PACKAGE)
    counts = {}
    for title, found in {
        "probes for what a learner is": probes(files),
        "private attributes of another module's objects": private_attributes(files),
        "_several and _per_view": words(files),
    }.items():
        counts[title] = len(found)
        for place in sorted(found, key=lambda place: (place.path, place.line)):
            print(f"{place.path}:{place.line}: {place.text[:90]}")
        print()
    for title, count in counts.items():
        print(f"{title}: {count}")
    too_much = report_imports()
    raise SystemExit(1 if too_much or any(counts.values()) else 0)


if __name__ == "__main__":
    main()
