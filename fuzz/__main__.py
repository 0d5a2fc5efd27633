"""`python -m fuzz [--hours H | --count N] [--seed S] [NAMES]`: run the fuzzers in turn, and say
what they found.

Every block of cases runs in a process of its own, so that a crash is a finding too.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

HELPERS = ("__init__", "__main__", "watch", "mutations")
BLOCK = {"models": 500, "messages": 200, "ask": 100, "growth": 20}  # cases per process; others 50
MAX_BLOCK_SECONDS = 1800
DEFAULT_COUNT = 1_000


def fuzzers() -> list[str]:
    """The names of the fuzzers."""
    return sorted(
        path.stem for path in Path(__file__).parent.glob("*.py") if path.stem not in HELPERS
    )


def block(name: str, seed: int, count: int) -> list[str]:
    """Findings of cases that run in a process of their own."""
    program = f"from fuzz import {name}\nprint('\\n'.join({name}.run({seed}, {count})))"
    place = Path(__file__).parent.parent
    try:
        done = subprocess.run(
            [sys.executable, "-c", program],
            check=False,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=MAX_BLOCK_SECONDS,
            cwd=place,
        )
    except subprocess.TimeoutExpired:
        return [f"{name} {seed} to {seed + count - 1}: took more than {MAX_BLOCK_SECONDS} s"]
    findings = [line for line in done.stdout.splitlines() if line.strip()]
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [""])[-1]
        findings.append(
            f"{name} {seed} to {seed + count - 1}: ended with code {done.returncode}: {last}"
        )
    return findings


def main(arguments: list[str] | None = None) -> int:
    """Run the fuzzers until the time or the cases are used up; 1 where anything was found."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    limit = parser.add_mutually_exclusive_group()
    limit.add_argument("--hours", type=float, help="for how long, all fuzzers together")
    limit.add_argument(
        "--count",
        type=int,
        help=f"how many cases of each fuzzer; {DEFAULT_COUNT} unless said otherwise",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the first case")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(fuzzers()))
    options = parser.parse_args(arguments)
    names = options.names or fuzzers()
    for name in set(names) - set(fuzzers()):
        parser.error(f"there is no fuzzer {name!r}; there are {', '.join(fuzzers())}")
    end = None if options.hours is None else time.monotonic() + 3600 * options.hours
    most = None if end is not None else options.count or DEFAULT_COUNT
    done: dict[str, int] = dict.fromkeys(names, 0)
    findings: list[str] = []
    while True:
        open_names = [name for name in names if most is None or done[name] < most]
        if not open_names or (end is not None and time.monotonic() > end):
            break
        for name in open_names:
            size = (
                BLOCK.get(name, 50) if most is None else min(BLOCK.get(name, 50), most - done[name])
            )
            new = block(name, options.seed + done[name], size)
            done[name] += size
            findings += new
            print(*new, sep="\n", end="\n" if new else "", flush=True)
            if end is not None and time.monotonic() > end:
                break
    counts = ", ".join(f"{number:,} {name}" for name, number in done.items())
    print(f"{counts}: {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    raise SystemExit(main())
