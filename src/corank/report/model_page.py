"""The report of one fitted model as an HTML file that opens anywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

from corank.experiments.methods import chosen_parameters
from corank.report.model_parts import model_parts, parameters
from corank.report.origins import origins
from corank.report.page import Section, facts, folded, page, table, text, write


def write_model_report(
    model: Any,
    path: str | PathLike[str],
    *,
    title: str,
    summary: Mapping[str, str],
    verdict: str = "",
    columns: Sequence[Mapping[str, str]] = (),
    command: str | None = None,
    overwrite: bool = False,
) -> None:
    """Write a fitted model as one HTML file: no script, no request, light and dark, fit to print.

    Parameters
    ----------
    model : fitted learner
    path : where to write it
    title : heading of the page
    summary : what it was fitted on and how good it is, by name
    verdict : a sentence at the top
    columns : what became of each column of a table, as `TableEncoder.summary()` says
    command : what was typed to make it, shown at its end
    overwrite : whether a file that is already there may be replaced
    """
    came_in = [facts("The data and the fit", dict(summary))]
    if columns:
        rows = [(column["column"] or "(no name)", column["kind"], column["treatment"]) for column in columns]
        listed = table("Columns", ("column", "kind", "what becomes of it"), rows, words=(1, 2))
        came_in.append(folded(f"{len(columns):,} columns", listed))
    sections = [
        Section("What came in", came_in),
        Section("The model", [parameters(chosen_parameters(model)), *model_parts(model)]),
        Section("How it was made", origins(command)),
    ]
    lead = [text(verdict)] if verdict else []
    write(page(title, lead, sections), path, overwrite=overwrite)
