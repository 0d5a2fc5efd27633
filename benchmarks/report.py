"""Results as people read them: tables in the terminal, Markdown for the documentation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

Record = Mapping[str, Any]

COLUMNS = ("", "best", "slowest", "times the time of", "of the bound", "memory", "error")
MARKDOWN_PROFILE = 5
VERDICT = {True: "met", False: "MISSED", None: "not judged"}


def show(console: Console, name: str, case: Record) -> None:
    """Print one case."""
    if "failed" in case:
        console.print(f"[bold]{name}[/bold]: failed, {case['failed']}\n")
        return
    title = f"{name} (quick)" if case["quick"] else name
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        caption=case["about"],
        caption_justify="left",
    )
    for position, column in enumerate(COLUMNS):
        table.add_column(column, justify="left" if position in (0, 3) else "right")
    for row in _rows(case):
        table.add_row(*row)
    console.print(table)
    rates = case["rates"]
    console.print(
        f"GEMM {rates['gemm'] / 1e9:.1f} GFLOP/s, exp {rates['exp'] * 1e9:.2f} ns, load before"
        f" {case['load_before']:.1f}"
    )
    for line in _targets(case):
        console.print(line, style="red" if line.startswith(VERDICT[False]) else "green")
    console.print()


def markdown(results: Record) -> str:
    """Everything but the full profiles."""
    machine = results["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    about = (
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gb']:.0f} GB;"
        f" {machine['system']}; Python {machine['python']}, {versions}; BLAS:"
        f" {'; '.join(machine['blas'])}."
    )
    lines = [about, ""]
    for name, case in results["cases"].items():
        lines += [f"## {name}", "", *_markdown_case(case), ""]
    return "\n".join(lines)


def _markdown_case(case: Record) -> list[str]:
    if "failed" in case:
        return [f"Failed: {case['failed']}"]
    sources, rates = case["sources"], case["rates"]
    state = " with uncommitted changes" if sources["dirty"] else ""
    size = " Quick: sizes too small to judge anything by." if case["quick"] else ""
    how = (
        f"Best of {case['repeats']}, {case['date'][:10]}, commit"
        f" {(sources['commit'] or 'unknown')[:9]}{state}; GEMM {rates['gemm'] / 1e9:.1f} GFLOP/s,"
        f" exp {rates['exp'] * 1e9:.2f} ns.{size}"
    )
    lines = [
        case["about"],
        "",
        how,
        "",
        "| " + " | ".join(COLUMNS) + " |",
        "|" + "---|" * len(COLUMNS),
        *("| " + " | ".join(row) + " |" for row in _rows(case)),
        "",
        *(f"- {line}" for line in _targets(case)),
    ]
    for name, record in case["contenders"].items():
        if record.get("profile"):
            rows = record["profile"]["lines"][:MARKDOWN_PROFILE]
            lines += ["", f"Where the time of {name} goes:", "", "```", *rows, "```"]
    return lines


def _rows(case: Record) -> list[tuple[str, ...]]:
    """The cells of the table, one row a contender."""
    contenders, rows = case["contenders"], []
    for name, record in contenders.items():
        if "missing" in record:
            rows.append((name, record["missing"], *[""] * (len(COLUMNS) - 2)))
            continue
        beside = record["beside"]
        reference = contenders[beside].get("best")
        ratio = (
            ""
            if reference is None or beside == name
            else f"{record['best'] / reference:.2f}x {beside}"
        )
        rows.append(
            (
                name,
                _time(record["best"]),
                _time(max(record["seconds"])),
                ratio,
                _cell(record.get("share_of_bound"), "{:.0%}".format),
                _cell(record.get("memory_mb"), "{:.0f} MB".format),
                _cell(record.get("error"), "{:.4f}".format),
            )
        )
    return rows


def _targets(case: Record) -> list[str]:
    return [
        f"{VERDICT[target['met']]}: {target['text']}"
        + (f" ({target['shown']})" if target["shown"] else "")
        for target in case["targets"]
    ]


def _time(value: float) -> str:
    return f"{value:.2f} s" if value >= 1 else f"{value * 1e3:.3g} ms"


def _cell(value: float | None, write: Callable[[float], str]) -> str:
    return "" if value is None else write(value)
