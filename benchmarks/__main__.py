"""The command `python -m benchmarks`: every case in its own process, results printed and saved as
they come.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console

import benchmarks.atom_cases
import benchmarks.cases
import benchmarks.comparison_cases
import benchmarks.link_cases
import benchmarks.precision_cases
import benchmarks.scan_cases
import benchmarks.view_cases
import benchmarks.waiting_cases  # noqa: F401  (they enter the cases)
from benchmarks import report, worker
from benchmarks.machine import RESULTS, ROOT, file_name, machine, sources
from benchmarks.measure import CLOCK
from benchmarks.registry import CASES

VERSION = 1  # of the file


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"cases to run; all of them: {', '.join(CASES)}"
    )
    parser.add_argument(
        "--quick", action="store_true", help="sizes that take no time, to see that everything runs"
    )
    parser.add_argument("--repeats", type=int, default=3, help="the best of so many (default 3)")
    parser.add_argument(
        "--processor-time",
        action="store_true",
        help="for a busy machine: processor time, which is only fair on one core (taskset -c 0)",
    )
    parser.add_argument(
        "--out", type=Path, help=f"JSON to write or add to (default: a file in {RESULTS})"
    )
    parser.add_argument(
        "--table",
        type=Path,
        metavar="FILE.json",
        help="print saved results as Markdown, run nothing",
    )
    parser.add_argument("--worker", metavar="NAME", choices=CASES, help=argparse.SUPPRESS)
    parser.add_argument("--memory", metavar="CONTENDER", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.processor_time:
        os.environ[CLOCK] = "1"
    if given.table is not None:
        print(report.markdown(json.loads(given.table.read_text())))
        return 0
    if given.repeats < 1:
        parser.error("--repeats must be at least 1.")
    if given.worker is not None:
        _work(given.worker, given.memory, given.out, quick=given.quick, repeats=given.repeats)
        return 0
    unknown = [name for name in given.names if name not in CASES]
    if unknown:
        parser.error(f"no case {', '.join(unknown)}; there are {', '.join(CASES)}.")
    return _run(given.names or list(CASES), given.out, quick=given.quick, repeats=given.repeats)


def _work(name: str, contender: str | None, out: Path, *, quick: bool, repeats: int) -> None:
    """Inside the process of a case."""
    found = (
        worker.time_case(name, quick=quick, repeats=repeats)
        if contender is None
        else worker.memory_of(name, contender, quick=quick)
    )
    out.write_text(json.dumps(found))


def _run(names: list[str], out: Path | None, *, quick: bool, repeats: int) -> int:
    """Run cases one after the other; 1 where a process failed."""
    console, here, state = Console(width=None if sys.stdout.isatty() else 130), machine(), sources()
    if out is None and not quick:
        out = ROOT / RESULTS / file_name(here, state)
    results = _resumed(out, here)
    for name in names:
        case = run_case(name, quick=quick, repeats=repeats) | {"sources": state}
        results["cases"][name] = case
        if out is not None:
            _save(results, out)
        report.show(console, name, case)
    if out is not None:
        console.print(f"Saved in {out}", soft_wrap=True)
    return int(any("failed" in results["cases"][name] for name in names))


def run_case(name: str, *, quick: bool, repeats: int) -> dict[str, Any]:
    """Time a case in one process, then measure the memory of each contender in a process of its
    own.
    """
    size = ["--quick"] if quick else []
    try:
        case: dict[str, Any] = _child(["--worker", name, "--repeats", str(repeats), *size])
        for contender, record in case["contenders"].items():
            if "missing" not in record:
                record["memory_mb"] = _child(["--worker", name, "--memory", contender, *size])
    except subprocess.CalledProcessError as error:
        return {"failed": f"its process ended with status {error.returncode}"}
    case["targets"] = []
    for target in CASES[name].targets:
        value = target.value(case["contenders"])
        case["targets"].append(
            {
                "text": str(target),
                "limit": target.limit,
                "value": value,
                "shown": None if value is None else target.show(value),
                "met": None if quick else target.met(value),  # a quick size says nothing
            }
        )
    return case


def _child(arguments: list[str]) -> Any:
    """Run this program again and read what it writes."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.json"
        command = [sys.executable, "-m", "benchmarks", *arguments, "--out", str(out)]
        subprocess.run(command, check=True, cwd=ROOT)
        return json.loads(out.read_text())


def _resumed(out: Path | None, here: dict[str, Any]) -> dict[str, Any]:
    """What the file holds already, if it is of this machine: a run of some cases leaves the others
    in place.
    """
    if out is not None and out.exists():
        old: dict[str, Any] = json.loads(out.read_text())
        if old.get("version") == VERSION and old.get("machine") == here:
            return old
    return {"version": VERSION, "machine": here, "cases": {}}


def _save(results: dict[str, Any], out: Path) -> None:
    """Whole or not at all: an interrupted run keeps the cases before."""
    out.parent.mkdir(parents=True, exist_ok=True)
    new = out.with_suffix(".new")
    new.write_text(json.dumps(results, indent=1) + "\n")
    new.replace(out)


if __name__ == "__main__":
    sys.exit(main())
