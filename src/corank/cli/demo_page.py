"""The page that `corank demo` writes: what was compared, for whom it pays, and the model of the last user."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from corank.cli.console import typed
from corank.cli.taste import POPULARITY, Results
from corank.report.model_parts import model_parts, parameters
from corank.report.origins import origins
from corank.report.page import Cell, Html, Section, code, facts, figure, page, table, text, verdict, write

OWN = """\
# one person's taste, as here
corank fit ratings_of_one_person.csv --score rating --out mine.corank
# one ranking for all users, the unscored rows used where they help
corank fit items.csv --score rating --query user --out items.corank
corank rank items.corank new_items.csv --out ranked.csv
# which method is best on a table, and do the unscored rows help?
corank compare items.csv --score rating --query user --report report.html"""


def write_demo_page(
    path: Path, done: str, finding: str, results: Results, model: Any, about: dict[str, str], *, overwrite: bool
) -> None:
    """Write the page; `done` and `finding` say what was done and what came out, `about` is the model in words."""
    from corank.experiments.methods import chosen_parameters

    sections = [
        Section("Ways to guess", [_curves(results), _table(results), *_for_whom(results)]),
        Section(
            "The model of the last user",
            [facts("What it is", about), parameters(chosen_parameters(model)), *model_parts(model)],
        ),
        Section("With a table of your own", [code(OWN)]),
        Section("How it was made", origins(typed("demo"))),
    ]
    lead = [*([verdict(finding, [])] if finding else []), text(done)]
    title = "Which jokes will you like?" if POPULARITY in results.errors else "What will they like?"
    write(page(title, lead, sections), path, overwrite=overwrite)


def _curves(results: Results) -> Html:
    def draw(ax: Any) -> None:
        for at, method in enumerate(results.errors):
            steps = np.arange(len(results.scored)) + 0.06 * (at - len(results.errors) / 2)
            mean, spread = results.mean(method), results.standard_error(method)
            ax.errorbar(steps, mean, 2 * spread, marker="o", markersize=4, capsize=3, linewidth=1.2, label=method)
        ax.set_xticks(np.arange(len(results.scored)), [str(number) for number in results.scored])
        ax.set(xlabel="scored items of a user", ylabel="share of pairs in the wrong order")
        ax.legend(frameon=False)

    words = "; ".join(f"{name}: {', '.join(f'{v:.3f}' for v in results.mean(name))}" for name in results.errors)
    return figure(
        draw,
        f"Disagreement by number of scored items. {words}",
        "Lower is better, 0.5 is chance. Bars are two standard errors over the users.",
    )


def _table(results: Results) -> Html:
    rows: list[list[str | Cell]] = []
    for method in results.errors:
        cells = zip(results.mean(method), results.standard_error(method), strict=True)
        rows.append(
            [
                method,
                *(
                    Cell(f"{value:.3f}", f"± {error:.3f}", "good" if method in results.best(at) else "")
                    for at, (value, error) in enumerate(cells)
                ),
            ]
        )
    head = ["disagreement with", *(f"{number} scored" for number in results.scored)]
    return table("Share of pairs in the wrong order, the mean over users", head, rows)


def _for_whom(results: Results) -> list[Html]:
    """Users one by one: does their own taste beat what everybody likes?"""
    if POPULARITY not in results.errors:
        return []
    popular, own = (results.errors[name][:, -1] for name in (POPULARITY, "RankRLS"))
    better, most = float(np.mean(own < popular)), results.scored[-1]

    def draw(ax: Any) -> None:
        low, high = min(popular.min(), own.min()) - 0.02, max(popular.max(), own.max()) + 0.02
        ax.plot([low, high], [low, high], color="0.6", linewidth=1)
        ax.scatter(popular, own, s=14, alpha=0.8)
        ax.set(xlabel="disagreement of popularity", ylabel=f"of RankRLS with {most} ratings", aspect="equal")

    words = f"For {better:.0%} of the users {most} ratings of their own beat what everybody likes."
    return [figure(draw, words, f"One dot a user. {words} Those below the line gain.", (4.6, 4.4))]
