"""The golden fits: write their results, or compare two versions of the sources by them, bit for
bit.

    python tools/golden.py write
    python tools/golden.py compare main my-branch
    python tools/golden.py compare main src --tolerance 1e-9

`compare` takes commits, branches or folders of sources. Both run on this machine, in processes of
their own, on the fits of this working tree (`tests/golden/fits.py`). It ends with status 1 where
anything differs by more than the tolerance.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.golden.fits import GOLDEN_FILE, distance

Results = dict[str, NDArray[Any]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    commands = parser.add_subparsers(dest="command", required=True)
    writing = commands.add_parser(
        "write", help="write the golden file from the sources of this working tree"
    )
    writing.add_argument("--out", type=Path, default=GOLDEN_FILE)
    comparing = commands.add_parser("compare", help="run two versions of the sources side by side")
    comparing.add_argument("first", help="commit, branch or folder of sources")
    comparing.add_argument("second", help="commit, branch or folder of sources")
    comparing.add_argument(
        "--tolerance", type=float, default=0.0, help="in units of the spread; default: 0, same bits"
    )
    options = parser.parse_args()
    if options.command == "write":
        return write(options.out)
    return compare(options.first, options.second, options.tolerance)


def write(path: Path) -> int:
    results = results_of(ROOT / "src")
    failed = [
        f"{key.partition('/')[0]}: {values}"
        for key, values in results.items()
        if key.endswith("/raised")
    ]
    if failed:
        print("Nothing was written; these fits failed:", *failed, sep="\n")
        return 1
    np.savez_compressed(path, **results)  # type: ignore[arg-type]
    print(
        f"{len(results)} arrays of {len({key.partition('/')[0] for key in results})} fits in {path}"
    )
    return 0


def compare(first: str, second: str, tolerance: float) -> int:
    with tempfile.TemporaryDirectory() as folder:
        places = [
            sources(name, Path(folder) / str(number)) for number, name in enumerate((first, second))
        ]
        before, after = (results_of(place) for place in places)
    differing = 0
    for key in sorted(before.keys() | after.keys()):
        if key.endswith("/raised"):
            for name, results in ((first, before), (second, after)):
                if key in results:
                    print(f"{key.removesuffix('/raised')}: {name} raised {results[key]}")
        elif key not in before or key not in after:
            print(f"{key}: only in {first if key in before else second}")
        else:
            gap = distance(before[key], after[key])
            if gap <= tolerance:
                continue
            print(f"{key}: {describe(before[key], after[key], gap)}")
        differing += 1
    kind = "bit for bit" if tolerance == 0 else f"within {tolerance:g} of the spread"
    print(
        f"{len(before.keys() | after.keys()) - differing} arrays agree {kind}, {differing} do not."
    )
    return int(differing > 0)


def describe(before: NDArray[Any], after: NDArray[Any], gap: float) -> str:
    if before.shape != after.shape:
        return f"shape {before.shape} became {after.shape}"
    if before.dtype != after.dtype:
        return f"{before.dtype} became {after.dtype}"
    if before.ndim == 0:
        return f"{before} became {after}, {gap:.2g} of its size"
    count = int(np.sum(before != after))
    return f"{count} of {before.size} values differ, by {gap:.2g} of the spread at most"


def sources(name: str, folder: Path) -> Path:
    """The folder that holds the package: as it is, or what a commit has in `src`."""
    for place in (Path(name), Path(name) / "src"):
        if (place / "corank" / "__init__.py").is_file():
            return place.resolve()
    archive = subprocess.run(
        ["git", "-C", str(ROOT), "archive", name, "src"], capture_output=True, check=False
    )
    if archive.returncode != 0:
        raise SystemExit(f"{name} is neither a folder with the sources of corank nor a commit")
    with tarfile.open(fileobj=BytesIO(archive.stdout)) as packed:
        packed.extractall(folder, filter="data")
    return folder / "src"


def results_of(place: Path) -> Results:
    """The results of the golden fits with the sources in a folder."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "results.npz"
        command = [sys.executable, str(ROOT / "tests" / "golden" / "fits.py"), str(path)]
        environment = {**os.environ, "PYTHONPATH": str(place)}
        done = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, text=True, check=False
        )
        if done.returncode != 0:
            raise SystemExit(f"the golden fits could not be run with the sources in {place}")
        used = Path(done.stdout.strip()).resolve()
        if used.parent != place.resolve():
            raise SystemExit(f"the golden fits ran with {used}, not with the sources in {place}")
        with np.load(path) as kept:
            return dict(kept)


if __name__ == "__main__":
    sys.exit(main())
