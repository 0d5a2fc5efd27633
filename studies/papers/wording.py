"""Numbers, tables and findings as they are shown, everywhere alike."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from studies.papers.study import CANNOT_BE_TESTED, DOES_NOT_HOLD, HOLDS, Cell, Finding, Measured, Table

NOTHING = "–"


PAPERS = {
    "000": "Sparse Co-RankRLS",
    "001": "coRLSR",
    "002": "KPCRank and its Gaussian process",
    "003": "ranking pursuit",
    "004": "transductive RankRLS",
}


def shown(cell: Cell, digits: int) -> str:
    """A cell as text; what is not there or not a number is a dash."""
    if cell is None or (isinstance(cell, float) and not math.isfinite(cell)):
        return NOTHING
    if isinstance(cell, str):
        return cell
    if isinstance(cell, Measured):
        spread = "" if cell.error is None or not math.isfinite(cell.error) else f" ± {cell.error:.{digits}f}"
        return shown(cell.value, digits) + spread
    if isinstance(cell, int):
        return f"{cell:,}"
    return f"{cell:,.{digits}f}".replace("-", "−")


def rows_shown(table: Table) -> list[list[str]]:
    """All cells as text."""
    return [[shown(cell, table.digits) for cell in row] for row in table.rows]


def columns_of_words(table: Table) -> list[int]:
    """The columns that hold words."""
    return [at for at in range(len(table.columns)) if any(isinstance(row[at], str) for row in table.rows)]


def summed_up(findings: Sequence[Finding]) -> str:
    """How many findings hold, in a sentence."""
    times = Counter(finding.verdict for finding in findings)
    words = {HOLDS: "hold", DOES_NOT_HOLD: "do not hold", CANNOT_BE_TESTED: CANNOT_BE_TESTED}
    one = {HOLDS: "holds", DOES_NOT_HOLD: "does not hold", CANNOT_BE_TESTED: CANNOT_BE_TESTED}
    parts = [f"{times[v]} {(one if times[v] == 1 else words)[v]}" for v in words if times[v]]
    many = "1 finding" if len(findings) == 1 else f"{len(findings)} findings"
    return f"Of {many}, {', '.join(parts)}." if parts else "No finding was looked at."


def duration(seconds: float) -> str:
    """A time in words."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
