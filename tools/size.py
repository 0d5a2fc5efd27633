"""The size of the package: files, lines, lines of code and tokens by folder, how many names are
pronouns, and tokens per line of code on a copy formatted at 88 columns; the density as the files
stand; files that are too long.

    python tools/size.py [FOLDER]

Tokens are the names, numbers, strings and operators of `tokenize`, without docstrings. A line of
code is a line on which at least one of them begins. Pronouns are counted among the variables of
functions: targets of assignments, for loops, with statements and comprehensions, each time they are
assigned to. Arguments do not count, nor do single letters, which stand in formulas.
"""

from __future__ import annotations

import argparse
import ast
import shutil
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "corank"
PRONOUNS = frozenset(
    {"own", "found", "one", "some", "part", "parts", "told", "words", "known", "rest"}
)
LONGEST_FILE = 800  # lines
NARROW = (
    shutil.which("ruff") or str(Path(sys.executable).parent / "ruff"),
    "format",
    "--quiet",
    "--isolated",
    "--no-cache",
    "--line-length=88",
    "--config=format.skip-magic-trailing-comma=true",
)
COUNTED = (tokenize.NAME, tokenize.NUMBER, tokenize.STRING, tokenize.OP)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DOCUMENTED = (ast.Module, ast.ClassDef, *FUNCTIONS)


@dataclass(frozen=True)
class Size:
    """The size of some source files."""

    files: int = 0
    lines: int = 0
    code: int = 0
    tokens: int = 0
    variables: int = 0
    pronouns: int = 0

    def __add__(self, other: Size) -> Size:
        return Size(
            self.files + other.files,
            self.lines + other.lines,
            self.code + other.code,
            self.tokens + other.tokens,
            self.variables + other.variables,
            self.pronouns + other.pronouns,
        )

    @property
    def density(self) -> float:
        """Tokens per line of code."""
        return self.tokens / max(1, self.code)


def size_of(source: str) -> Size:
    """The size of one file."""
    tree = ast.parse(source)
    variables = Counter(variables_of(tree))
    places = list(lines_of_tokens(source, docstring_lines(tree)))
    return Size(
        files=1,
        lines=len(source.splitlines()),
        code=len(set(places)),
        tokens=len(places),
        variables=variables.total(),
        pronouns=sum(variables[pronoun] for pronoun in PRONOUNS),
    )


def docstring_lines(tree: ast.Module) -> set[int]:
    """The lines on which docstrings begin."""
    return {
        node.body[0].lineno
        for node in ast.walk(tree)
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None
    }


def lines_of_tokens(source: str, docstrings: set[int]) -> Iterator[int]:
    """The line of each name, number, string and operator; of a docstring's line, the string is left
    out.
    """
    for token in tokenize.generate_tokens(StringIO(source).readline):
        is_docstring = token.type == tokenize.STRING and token.start[0] in docstrings
        if token.type in COUNTED and not is_docstring:
            yield token.start[0]


def variables_of(tree: ast.AST) -> Iterator[str]:
    """Names of more than one letter that functions assign to, once per assignment."""
    for node in ast.iter_child_nodes(tree):
        if not isinstance(node, FUNCTIONS):
            yield from variables_of(node)
            continue
        for inner in ast.walk(node):
            if (
                isinstance(inner, ast.Name)
                and isinstance(inner.ctx, ast.Store)
                and len(inner.id) > 1
            ):
                yield inner.id


def sizes_by_folder(package: Path) -> dict[str, Size]:
    """The files of each folder, those of folders inside it apart."""
    sizes: dict[str, Size] = {}
    for path in sorted(package.rglob("*.py")):
        folder = path.parent.relative_to(package.parent).as_posix()
        sizes[folder] = sizes.get(folder, Size()) + size_of(path.read_text(encoding="utf-8"))
    return sizes


def with_total(sizes: dict[str, Size]) -> dict[str, Size]:
    """The folders, and their sum at the end."""
    return {**sizes, "total": sum(sizes.values(), Size())}


def table(sizes: dict[str, Size], narrow: dict[str, Size]) -> str:
    """One line per folder; `narrow` are the sizes of the copy that is formatted at 88 columns."""
    width = max(map(len, sizes))
    lines = [f"{'folder':{width}}  files   lines    code   tokens  pronouns  at 88"]
    for folder, size in sizes.items():
        share = size.pronouns / size.variables if size.variables else 0.0
        lines.append(
            f"{folder:{width}} {size.files:6,} {size.lines:7,} {size.code:7,}"
            f" {size.tokens:8,} {share:9.1%} {narrow[folder].density:6.2f}"
        )
    return "\n".join(lines)


def formatted_narrowly(package: Path) -> dict[str, Size]:
    """The folders of a copy that is formatted at 88 columns, without magic trailing commas."""
    with TemporaryDirectory() as folder:
        copy = Path(shutil.copytree(package, Path(folder) / package.name))
        subprocess.run([*NARROW, str(copy)], check=True)
        return sizes_by_folder(copy)


def long_files(package: Path) -> dict[str, int]:
    """The files of more than `LONGEST_FILE` lines, and their lines."""
    lines = {
        path.relative_to(package.parent).as_posix(): len(path.read_text("utf-8").splitlines())
        for path in sorted(package.rglob("*.py"))
    }
    return {path: count for path, count in lines.items() if count > LONGEST_FILE}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument(
        "folder", nargs="?", type=Path, default=PACKAGE, help="a package; default: src/corank"
    )
    folder: Path = parser.parse_args().folder
    if not folder.is_dir():
        raise SystemExit(f"{folder} is not a folder")
    folder = folder.resolve()
    sizes = with_total(sizes_by_folder(folder))
    if not sizes["total"].files:
        raise SystemExit(f"{folder} holds no Python file")
    narrow = with_total(formatted_narrowly(folder))
    print(table(sizes, narrow))
    print(f"\ntokens per line of code: {sizes['total'].density:.2f}")
    print(f"tokens per line of code, formatted at 88 columns: {narrow['total'].density:.2f}")
    for path, lines in long_files(folder).items():
        print(f"longer than {LONGEST_FILE} lines: {path}, {lines}")


if __name__ == "__main__":
    main()
