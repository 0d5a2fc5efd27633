"""How well a model foretells who wins, and what it expects of each pair: the part of `corank evaluate` on comparisons."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from rich.text import Text

from corank.cli.columns import features_of, queries_of, text_columns
from corank.cli.console import count, grid, show
from corank.cli.evidence import is_compared
from corank.cli.inputs import title_of
from corank.cli.items import Items
from corank.cli.pairs import FIRST, LOSER, SECOND, WINNER, Outcomes, PairColumns, read_outcomes
from corank.metrics import calibration_error
from corank.tables import read_table

SMALLEST = 1e-300  # a probability that has a logarithm
MOST_SHOWN = 20
READING = {
    "right_order": (
        "right order",
        "share of comparisons that the model orders as they came out: 1 is perfect, 0.5 chance",
    ),
    "log_loss": ("log loss", "how surprising the outcomes are: 0 is perfect, a coin toss has 0.6931"),
    "calibration_error": (
        "calibration error",
        "how far the probability of the favourite lies from how often it wins, on average: 0 is perfect",
    ),
}


@dataclass(frozen=True)
class Foretold:
    """A table of comparisons beside what a model expects.

    Attributes
    ----------
    differences : (n_rows,) score of the first less that of the second
    chances : (n_rows,) probability that the first wins one more comparison, or None
    """

    found: Outcomes
    differences: NDArray[np.float64]
    chances: NDArray[np.float64] | None

    def written(self) -> pa.Table:
        """The table with what the model expects beside it."""
        table = self.found.table
        chance = f"{FIRST if self.found.are_questions else WINNER}_wins"
        parts = {**({} if self.chances is None else {chance: self.chances}), "difference": self.differences}
        for name, values in parts.items():
            taken = name in table.column_names
            table = table.append_column(f"predicted_{name}" if taken else name, pa.array(values))
        return table

    def measured(self) -> dict[str, Any]:
        """The measures, each with its standard error over comparisons; none where no comparison has an outcome.

        Ties have no winner and are left out. A difference of 0 is right by half.
        """
        won, rows = self.found.won.copy(), self.found.rows
        if self.found.margins is not None:
            won[(self.found.margins == 0) & ~np.isnan(won)] = 0.5
        decided = rows[won[rows] != 0.5]
        times = self.found.times(decided)
        at = decided if times is None else np.repeat(decided, times.astype(np.int64))
        result: dict[str, Any] = {
            "comparisons": len(at),
            "ties": len(rows) - len(decided),
            "unanswered": len(won) - len(rows),
        }
        if not len(at):
            return result
        ahead = np.where(won[at] == 1, self.differences[at], -self.differences[at])
        result["right_order"] = _mean((np.sign(ahead) + 1) / 2)
        if self.chances is not None:
            chance = np.where(won[at] == 1, self.chances[at], 1 - self.chances[at])
            result["log_loss"] = _mean(-np.log(np.maximum(chance, SMALLEST)))
            result["calibration_error"] = {"value": self._calibration_error(won[at], at)}
        return result

    def _calibration_error(self, won: NDArray[np.float64], at: NDArray[np.int64]) -> float:
        """Of the favourites: which of two is named first may depend on who won. Even ones are ordered by their rows."""
        assert self.chances is not None
        chance = self.chances[at]
        earlier = self.found.first[at] < self.found.second[at]
        favoured = (chance > 0.5) | ((chance == 0.5) & earlier)
        return calibration_error(np.where(favoured, won, 1 - won), np.where(favoured, chance, 1 - chance))


def _mean(values: NDArray[np.float64]) -> dict[str, float | None]:
    error = float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None
    return {"value": float(values.mean()), "standard_error": error}


def compares(model: Any, file: Path, items: Path | None, score: str | None, told: PairColumns) -> bool:
    """Whether a table is one of comparisons: where its columns are told, where the model was fitted on some, and where
    a row names two items and has no score.
    """
    if told != PairColumns():
        return True
    if score is not None:
        return False
    if is_compared(model) or items is None:
        return is_compared(model)
    there = set(read_table(file).column_names)
    pairs = {FIRST, SECOND} <= there or {WINNER, LOSER} <= there
    return pairs and (model.table_ or {}).get("score") not in there


def foretell(
    model: Any,
    file: Path,
    items: Path | None,
    names: dict[str, str | None],
    told: PairColumns,
    doing: Callable[[str], None],
) -> Foretold:
    """What a model expects of the comparisons of a table; `names` of the id and query columns, None where nobody says."""
    remembered = model.table_ or {}
    if items is None:
        raise ValueError(f"{file} compares items: say which table describes them with --items")
    item = names["id"] or remembered.get("id")
    if item is None:
        raise ValueError("the model does not remember which column names the items: say which with --item")
    by = names["query"] or remembered.get("query")
    table = read_table(items, text=text_columns(model, item, by))
    by, codes = queries_of(table, items, by, asked=names["query"] is not None, otherwise="any two items are compared")
    before = PairColumns(*(remembered.get(key) for key in ("winner", "loser", "margin", "count")))
    query = None if by is None else (by, codes)
    found = read_outcomes(file, Items(items, item, table), told, before, query=query, to_learn=False)
    doing(f"evaluating on {count(len(found.won), 'comparison')}")
    features = features_of(model, table)
    scores = np.asarray(model.predict(features))
    chances = None
    if hasattr(model, "predict_comparison"):
        chances = np.asarray(model.predict_comparison(features[found.first], features[found.second], observed=True))
    return Foretold(found, scores[found.first] - scores[found.second], chances)


# ---- what is shown


def show_foretold(result: dict[str, Any], foretold: Foretold, file: Path, out: Path | None) -> None:
    """The measures, or what is expected of each pair where there is nothing to measure."""
    left = [count(result["ties"], "tie")] if result["ties"] else []
    left += [f"{result['unanswered']:,} not answered"] if result["unanswered"] else []
    if result["comparisons"]:
        without = f", without {' and '.join(left)}" if left else ""
        title = f"{result['method']} on {count(result['comparisons'], 'comparison')} of {title_of(file)}{without}"
        table = grid("", ("measure", "value", "±"), right=("value", "±"), last="how to read it")
        for measure, (name, words) in READING.items():
            if measure in result:
                value, error = result[measure]["value"], result[measure].get("standard_error")
                table.add_row(name, f"{value:.4f}", "" if error is None else f"{error:.4f}", words)
        show(Text(title, style="bold"), table)
    elif out is None:
        _show_pairs(foretold, result["method"], file)
    if out is not None:
        show(Text(f"{count(len(foretold.found.won), 'pair')} written: {out}"))


def _show_pairs(foretold: Foretold, method: str, file: Path) -> None:
    written, names = foretold.written(), foretold.found.names
    sides = [FIRST, SECOND] if names.loser is None else [names.winner or WINNER, names.loser]
    own = written.column_names[-1 if foretold.chances is None else -2 :]
    table = grid(
        "", [*sides, *(name.replace("_", " ") for name in own)], right=[name.replace("_", " ") for name in own]
    )
    for row in written.slice(0, MOST_SHOWN).to_pylist():
        cells = [f"{row[name]:.0%}" if name.endswith("_wins") else f"{row[name]:.4g}" for name in own]
        table.add_row(*(Text(cell) for cell in [*(str(row[side]) for side in sides), *cells]))
    n = len(written)
    rest = f"and {n - MOST_SHOWN:,} more; " if n > MOST_SHOWN else ""
    title = f"What {method} expects of {count(n, 'pair')} of {title_of(file)}"
    show(Text(title, style="bold"), table, Text(f"{rest}--out FILE writes them", style="dim"))
