"""Build the wheel and the source archive, install each in a clean environment, and drive the installed `corank`.

    python tools/release_check.py [--python python3.12] [--quick]

`--quick` walks through the commands once; without it every test of the command line, bad input included, drives the
installed command. Needs the environment of `make test` to run the tests in, and an index to install from.
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
from pathlib import Path

CLEAN = {
    name: value for name, value in os.environ.items() if name != "PYTHONPATH"
}  # no sources beside what is installed
ROOT = Path(__file__).resolve().parents[1]
TESTS = ["tests/cli/test_journey.py", "tests/cli/test_bad_input.py"]
MUST_BE_IN_WHEEL = (
    "corank/py.typed",
    "corank/report/page.css",
    "corank/cli/__init__.py",
    "corank/datasets/peps/peps.npz",
    "corank/datasets/peps/NOTICE",
)
MUST_NOT_BE_IN_WHEEL = (
    "corank/datasets/jokes/",
    "tests/",
    "studies/",
    "benchmarks/",
)  # the jokes are not under the BSD licence
MUST_BE_IN_SOURCES = ("src/corank/py.typed", "tests/cli/test_commands.py", "LICENSE", "README.md", "pyproject.toml")


def main() -> None:
    given = _arguments()
    with tempfile.TemporaryDirectory(prefix="corank-release-") as name:
        folder = Path(name)
        wheel, sources = built(folder, given.python)
        check_contents(wheel, sources)
        for archive in (wheel, sources):
            command = installed(archive, folder / archive.suffix[1:], given.python)
            smoke(command, folder)
            print(f"{archive.name}: installs and runs")
        command = folder / wheel.suffix[1:] / "bin" / "corank"
        tests = [*TESTS[:1], "-k", "update"] if given.quick else TESTS
        environment = {**os.environ, "CORANK_COMMAND": str(command), "OPENBLAS_NUM_THREADS": "1"}
        run([sys.executable, "-m", "pytest", "-q", *tests], cwd=ROOT, env=environment)
    print("ready to release")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
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
    install: list[str | Path] = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    run([*install, "--constraint", ROOT / "constraints.txt", *words])


def built(folder: Path, python: str) -> tuple[Path, Path]:
    """The wheel and the source archive."""
    builder = environment(folder / "builder", python)
    pip(builder, "hatchling")
    run([builder, "-m", "hatchling", "build", "-d", folder / "dist"], cwd=ROOT)
    (wheel,), (sources,) = (list((folder / "dist").glob(pattern)) for pattern in ("*.whl", "*.tar.gz"))
    return wheel, sources


def check_contents(wheel: Path, sources: Path) -> None:
    """Refuse archives that lack a file, or hold one that they must not."""
    names = zipfile.ZipFile(wheel).namelist()
    with tarfile.open(sources) as archive:
        inside = [name.split("/", 1)[-1] for name in archive.getnames()]
    missing = [name for name in MUST_BE_IN_WHEEL if name not in names]
    missing += [name for name in MUST_BE_IN_SOURCES if name not in inside]
    wrong = [name for name in names if name.startswith(MUST_NOT_BE_IN_WHEEL)]
    if missing or wrong:
        sys.exit(f"missing: {missing}; must not be there: {wrong}")
    print(
        f"{wheel.name}: {len(names)} files, {wheel.stat().st_size / 1000:.0f} kB; {sources.name}: {len(inside)} files"
    )


def installed(archive: Path, folder: Path, python: str) -> Path:
    """The command `corank` of a clean environment with nothing but the archive and what it needs."""
    own = environment(folder, python)
    pip(own, archive)
    run([own, "-m", "pip", "--disable-pip-version-check", "check"], stdout=subprocess.DEVNULL)
    return folder / "bin" / "corank"


def smoke(command: Path, folder: Path) -> None:
    """The version is that of the sources, and the demo runs."""
    expected = f"corank {_version()}"
    said = subprocess.run([command, "--version"], capture_output=True, text=True, check=True, env=CLEAN).stdout.strip()
    if said != expected:
        sys.exit(f"{command} --version says {said!r}, not {expected!r}")
    run([command, "demo", "--quiet", "--out", folder / "demo.corank", "--force"], cwd=folder)
    run([command, "inspect", folder / "demo.corank"], stdout=subprocess.DEVNULL)


def _version() -> str:
    text = (ROOT / "src" / "corank" / "_version.py").read_text(encoding="utf-8")
    return text.split('__version__ = "', 1)[1].split('"', 1)[0]


if __name__ == "__main__":
    main()
