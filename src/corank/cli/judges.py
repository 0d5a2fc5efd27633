"""`corank judges`: who of those who compared items can be trusted, how far they agree, what they
disagree on, and whom to ask next.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pyarrow as pa
import typer

from corank.cli.columns import remembered
from corank.cli.console import DASH, note, readable, show, show_json
from corank.cli.options import File, ModelFile, TableOutput, option
from corank.core.messages import listed
from corank.display import Table
from corank.model_files import load
from corank.solve.votes import Judge
from corank.tables import TableError
from corank.tables.names import names_in

SHOWN_JUDGES, SHOWN_ITEMS = 20, 5
MOST_ASKED = 3  # judges that are named as those to ask next
RESULTS = ("reliability", "from", "to", "ties", "side", "lapses", "agreement", "bits")


def judges(
    context: typer.Context,
    *,
    model: ModelFile,
    items: File = option("Table of items of the fit, to call them by their names."),
    out: File = option("Where to write the table of judges; - prints it."),
    output: TableOutput,
) -> None:
    """Say how far those who compared items can be trusted, and whom to ask next.

    Reliability is 1 for a usual judge, 0 for answers at random and below 0
    for the opposite of what all others say; it lies with 95 % between from
    and to. ties is the probability of a tie between equally good items, side
    by how much the first of these wins more often, lapses the share of
    answers that have nothing to do with the items, agreement that with all
    others beyond chance, bits what one more answer says.
    """
    output.check(out, model, items)
    learner = load(model)
    if not learner.has_judges or not learner.judges_:
        raise ValueError(
            f"{model} does not know who answered: corank fit ITEMS --comparisons ANSWERS --person"
            " COLUMN --method preference"
        )
    ordered = sorted(learner.judges_, key=lambda judge: -judge.reliability)
    entries = [_entry(judge) for judge in ordered]
    agreed = learner.agreement()
    names = _names(context, learner, items)
    disputed = [
        {"item": names[row] if names else int(row) + 1, "dispute": float(share)}
        for row, share in zip(agreed.items.tolist(), agreed.disputes.tolist(), strict=True)
        if share > 0
    ]
    if out is not None:
        output.write(pa.Table.from_pylist(entries), out)
    if output.as_json:
        alpha = {"alpha": agreed.alpha, "from": agreed.low, "to": agreed.high}
        alpha["pairs"] = agreed.n_pairs
        ask = [judge.name for judge in _to_ask(ordered)]
        result = {"model": str(model), "judges": entries, "agreement": alpha}
        show_json({**result, "disputed": disputed, "ask_next": ask})
    elif out != DASH and not output.quiet:
        _show(entries, agreed, disputed, ordered)


def _entry(judge: Judge) -> dict[str, Any]:
    """A judge as a row of a table."""
    values = asdict(judge)
    values["judge"] = str(values.pop("name"))
    values["from"], values["to"] = values.pop("low"), values.pop("high")
    values["bits"] = values.pop("information")
    return {name: values[name] for name in ("judge", "answers", *RESULTS)}


def _to_ask(judges: list[Judge]) -> list[Judge]:
    """Those whose next answer says most, the first of them most."""
    return sorted(judges, key=lambda judge: -judge.information)[:MOST_ASKED]


def _names(context: typer.Context, learner: Any, items: Any) -> list[str | None]:
    """The names of the items by their rows in fit; none where no table is given."""
    column = remembered(learner, "id")
    if items is None or column is None:
        return []
    file = readable(context, items)
    table = file.read([column])
    if len(table) != remembered(learner, "rows"):
        raise TableError(f"--items {file} has {len(table):,} rows: it is not the table of the fit")
    return names_in(table, column, "id", file)


def _show(
    entries: list[dict[str, Any]],
    agreed: Any,
    disputed: list[dict[str, Any]],
    judges: list[Judge],
) -> None:
    habits = [name for name in ("ties", "side") if any(entry[name] for entry in entries)]
    rest = [*habits, "agreement", "bits"]
    rows = []
    for entry in entries[:SHOWN_JUDGES]:
        interval = f"{entry['from']:.2f} to {entry['to']:.2f}"
        numbers = [f"{entry[name]:.2f}" for name in ("reliability", *rest)]
        rows.append([entry["judge"], f"{entry['answers']:,}", numbers[0], interval, *numbers[1:]])
    columns = ["judge", "answers", "reliability", "from … to", *rest]
    more = len(entries) - len(rows)
    remark = f"and {more:,} more: --out FILE writes them all" if more else ""
    table = Table("Judges, the most reliable first", rows, columns, columns[1:], remark=remark)
    facts = {"ask next": ", ".join(str(judge.name) for judge in _to_ask(judges))}
    if agreed.n_pairs:
        facts["agreement"] = (
            f"Krippendorff's alpha {agreed.alpha:.2f}, from {agreed.low:.2f} to {agreed.high:.2f},"
            f" over {agreed.n_pairs:,} pairs with several answers: 1 for all alike, 0 for chance"
        )
    if disputed:
        named = [str(entry["item"]) for entry in disputed]
        facts["most disputed"] = listed(named, SHOWN_ITEMS)
    if contrary := [str(judge.name) for judge in judges if judge.contrary]:
        note(f"the opposite of what all others say is meant by {listed(contrary)}")
    show(table, Table.of_facts("All judges", facts))
