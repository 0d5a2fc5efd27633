"""Build wheels and source archives, install each in a clean environment, and drive the installed
`corank`.

    python tools/release_check.py [--python python3.12] [--quick]

`--quick` walks through the commands once; without it every test of the command line, bad input
included, drives the installed command. corank is installed alone, then with corank-federated, whose
command the tests drive too. Needs the environment of `make test` to run the tests in, and an index
to install from.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

CLEAN = {
    name: value for name, value in os.environ.items() if name != "PYTHONPATH"
}  # no sources beside what is installed
ROOT = Path(__file__).resolve().parents[1]
TESTS = ["tests/cli/test_journey.py", "tests/cli/test_refusals.py"]


@dataclass(frozen=True)
class Project:
    """A distribution: its folder, and what must be and must not be in its archives."""

    folder: Path
    in_wheel: tuple[str, ...]
    not_in_wheel: tuple[str, ...]
    in_sources: tuple[str, ...]


CORANK = Project(
    ROOT,
    in_wheel=(
        "corank/py.typed",
        "corank/report/page.css",
        "corank/cli/__init__.py",
        "corank/datasets/peps/peps.npz",
        "corank/datasets/peps/NOTICE",
    ),
    not_in_wheel=(  # the jokes are not under the BSD licence
        "corank/datasets/jokes/",
        "corank_federated/",
        "tests/",
        "studies/",
        "benchmarks/",
    ),
    in_sources=(
        "src/corank/py.typed",
        "federated/pyproject.toml",
        "tests/cli/test_commands.py",
        "LICENSE",
        "README.md",
        "pyproject.toml",
    ),
)
FEDERATED = Project(
    ROOT / "federated",
    in_wheel=("corank_federated/py.typed", "corank_federated/cli.py"),
    not_in_wheel=("corank/", "tests/"),
    in_sources=("src/corank_federated/py.typed", "LICENSE", "README.md", "pyproject.toml"),
)


def main() -> None:
    given = _arguments()
    with tempfile.TemporaryDirectory(prefix="corank-release-") as name:
        folder = Path(name)
        builder = environment(folder / "builder", given.python)
        pip(builder, "hatchling")
        archives = built(CORANK, folder / "corank", builder)
        federated_archives = built(FEDERATED, folder / "federated", builder)
        for archive, federated in zip(archives, federated_archives, strict=True):
            place = folder / archive.suffix[1:]
            python = environment(place, given.python)
            install(python, archive)
            smoke(place / "bin" / "corank", folder)
            print(f"{archive.name}: installs and runs")
            install(python, federated)
            run(
                [
                    place / "bin" / "corank",
                    "federated",
                    "init",
                    place / "party",
                    "--site",
                    "north",
                    "--quiet",
                ]
            )
            print(f"{federated.name}: installs and runs")
        command = folder / "whl" / "bin" / "corank"
        tests = [*TESTS[:1], "-k", "update"] if given.quick else TESTS
        variables = {**os.environ, "CORANK_COMMAND": str(command), "OPENBLAS_NUM_THREADS": "1"}
        run([sys.executable, "-m", "pytest", "-q", *tests], cwd=ROOT, env=variables)
    print("ready to release")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", default=sys.executable, help="interpreter to install for")
    parser.add_argument("--quick", action="store_true", help="only one walk through the commands")
    return parser.parse_args()


def run(words: list[str | Path], **options: object) -> None:
    """Run a command, and stop where it fails."""
    options = {"env": CLEAN, **options}
    if subprocess.run([str(word) for word in words], check=False, **options).returncode:  # type: ignore[call-overload]
        sys.exit(f"failed: {' '.join(map(str, words))}")


def environment(folder: Path, python: str) -> Path:
    """A clean environment: its interpreter."""
    if python == sys.executable:
        venv.create(folder, with_pip=True)
    else:
        run([python, "-m", "venv", folder])
    return folder / "bin" / "python"


def pip(python: Path, *words: str | Path) -> None:
    install: list[str | Path] = [
        python,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "install",
        "--quiet",
    ]
    run([*install, "--constraint", ROOT / "constraints.txt", *words])


def built(project: Project, folder: Path, builder: Path) -> tuple[Path, Path]:
    """The wheel and the source archive of a project, their contents checked."""
    run([builder, "-m", "hatchling", "build", "-d", folder], cwd=project.folder)
    (wheel,), (sources,) = (list(folder.glob(pattern)) for pattern in ("*.whl", "*.tar.gz"))
    check_contents(project, wheel, sources)
    return wheel, sources


def check_contents(project: Project, wheel: Path, sources: Path) -> None:
    """Refuse archives that lack a file, or hold one that they must not."""
    names = zipfile.ZipFile(wheel).namelist()
    with tarfile.open(sources) as archive:
        inside = [name.split("/", 1)[-1] for name in archive.getnames()]
    missing = [name for name in project.in_wheel if name not in names]
    missing += [name for name in project.in_sources if name not in inside]
    wrong = [name for name in names if name.startswith(project.not_in_wheel)]
    if missing or wrong:
        sys.exit(f"missing: {missing}; must not be there: {wrong}")
    print(
        f"{wheel.name}: {len(names)} files, {wheel.stat().st_size / 1000:.0f} kB; {sources.name}:"
        f" {len(inside)} files"
    )


def install(python: Path, archive: Path) -> None:
    """Install an archive and what it needs, which must go together."""
    pip(python, archive)
    run([python, "-m", "pip", "--disable-pip-version-check", "check"], stdout=subprocess.DEVNULL)


def smoke(command: Path, folder: Path) -> None:
    """The version is that of the sources, and the demo runs."""
    expected = f"corank {_version()}"
    said = subprocess.run(
        [command, "--version"], capture_output=True, text=True, check=True, env=CLEAN
    ).stdout.strip()
    if said != expected:
        sys.exit(f"{command} --version says {said!r}, not {expected!r}")
    run([command, "demo", "--quiet", "--out", folder / "demo.corank", "--force"], cwd=folder)
    run([command, "inspect", folder / "demo.corank"], stdout=subprocess.DEVNULL)


def _version() -> str:
    text = (ROOT / "src" / "corank" / "_version.py").read_text(encoding="utf-8")
    return text.split('__version__ = "', 1)[1].split('"', 1)[0]


if __name__ == "__main__":
    main()
