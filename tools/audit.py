"""Licences of the package and of everything it depends on, known vulnerabilities, and a bill of
materials.

    python tools/audit.py [--bill FILE]

Licences come from the metadata of what is installed; vulnerabilities from pip-audit, where that is
installed and can reach an index. `--bill` writes a software bill of materials in the JSON of
CycloneDX 1.5.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import subprocess
import sys
import uuid
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

PACKAGE = "corank"
ROOT = Path(__file__).resolve().parents[1]
SOURCES = (ROOT / "src" / PACKAGE, ROOT / "federated" / "src")
FREE = re.compile(
    r"\b(MIT|BSD|Apache|PSF|Python Software"
    r" Foundation|ISC|MPL|Mozilla|Unlicense|Zlib|HPND|0BSD|CC0|Boost)\b",
    re.IGNORECASE,
)
REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][\w.-]*)\s*(?:\[([^\]]*)\])?")
EXTRA = re.compile(r"extra\s*==\s*['\"]([^'\"]+)['\"]")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bill", type=Path, help="where to write the bill of materials")
    given = parser.parse_args(arguments)
    parts, absent = dependencies(PACKAGE)
    doubtful = []
    for name, part in parts.items():
        text = licence(part)
        doubtful += [] if FREE.search(text) else [name]
        print(f"{name:24} {part.version:12} {text}")
    files = [
        path for folder in SOURCES for path in folder.rglob("*.*") if path.parent.name != "jokes"
    ]  # not in the wheel
    others = sorted({path.name for path in files if path.suffix not in (".py", ".pyc")})
    print(f"in the package beside its own code, under its licence: {', '.join(others)}")
    if absent:
        print(f"not installed, so not looked at: {', '.join(sorted(absent))}")
    if given.bill is not None:
        given.bill.write_text(
            json.dumps(bill_of_materials(parts), indent=1) + "\n", encoding="utf-8"
        )
        print(f"bill of materials: {given.bill}")
    vulnerable = known_vulnerabilities(parts)
    if doubtful:
        print(f"licences to look at: {', '.join(doubtful)}")
    return 1 if doubtful or vulnerable else 0


def dependencies(root: str) -> tuple[dict[str, Distribution], set[str]]:
    """The installed distributions that a package needs, extras included, by name; and the names of
    the others.
    """
    parts: dict[str, Distribution] = {}
    absent: set[str] = set()
    extras = distribution(root).metadata.get_all("Provides-Extra") or []
    waiting = [(root, frozenset(extras))]
    while waiting:
        name, wanted = waiting.pop()
        try:
            part = distribution(name)
        except PackageNotFoundError:
            absent.add(name)
            continue
        parts[name] = part
        for requirement in part.requires or []:
            needed = REQUIREMENT.match(requirement)
            extra = EXTRA.search(requirement)
            if needed is None or (extra is not None and extra[1] not in wanted):
                continue
            inner = canonical(needed[1])
            if inner not in parts and inner not in absent:
                waiting.append((inner, frozenset((needed[2] or "").replace(" ", "").split(","))))
    return dict(sorted(parts.items())), absent


def canonical(name: str) -> str:
    """The name of a distribution as indexes write it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def licence(part: Distribution) -> str:
    """The licence of a distribution, by its metadata."""
    about: Any = part.metadata
    if about.get("License-Expression"):
        return str(about["License-Expression"])
    marks = [
        mark.rpartition(" :: ")[2]
        for mark in about.get_all("Classifier") or []
        if mark.startswith("License ::")
    ]
    first_line = (about.get("License") or "").strip().partition("\n")[0][:60]
    text = "; ".join(marks) or first_line
    return text or "not said"


def bill_of_materials(parts: dict[str, Distribution]) -> dict[str, Any]:
    """What the package is made of, as CycloneDX has it; the same parts give the same bill."""
    root = parts[PACKAGE]
    components = [component(name, part) for name, part in parts.items() if name != PACKAGE]
    names = "\n".join(f"{name} {part.version}" for name, part in parts.items())
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, names)}",
        "version": 1,
        "metadata": {"component": component(PACKAGE, root)},
        "components": components,
    }


def component(name: str, part: Distribution) -> dict[str, Any]:
    """One part of the bill."""
    place = f"pkg:pypi/{name}@{part.version}"
    return {
        "type": "library",
        "bom-ref": place,
        "name": name,
        "version": part.version,
        "purl": place,
        "licenses": [{"license": {"name": licence(part)}}],
    }


def known_vulnerabilities(parts: dict[str, Distribution]) -> bool:
    """Whether pip-audit knows a vulnerability of any part; says so where it cannot tell."""
    if importlib.util.find_spec("pip_audit") is None:
        print("known vulnerabilities: not looked for, as pip-audit is not installed")
        return False
    listed = "".join(f"{name}=={part.version}\n" for name, part in parts.items() if name != PACKAGE)
    words = [
        sys.executable,
        "-m",
        "pip_audit",
        "--disable-pip",
        "--no-deps",
        "--requirement",
        "/dev/stdin",
    ]
    done = subprocess.run(words, check=False, input=listed, capture_output=True, text=True)
    if done.returncode == 0:
        print("known vulnerabilities: none")
        return False
    if "found" in done.stderr.lower() and "vulnerabilit" in done.stderr.lower():
        print(done.stdout or done.stderr)
        return True
    print("known vulnerabilities: not looked for, as no index could be reached")
    return False


if __name__ == "__main__":
    raise SystemExit(main())
