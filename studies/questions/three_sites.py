"""One draw of the study `federated` as folders for real processes, and what their models reach.

`python -m studies.questions.three_sites make FOLDER --data DIR` makes what `corank federated init`
makes, filled in; then run `corank federated coordinate` and `join`, or examples/flower/run.py; then
`python -m studies.questions.three_sites check FOLDER`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from corank import CoRLS, load
from corank.tables import read_table, write_table
from studies.questions.federated import NAMES, divided

LEVEL, TOL = 0.3, 1e-6  # one of the agreements of the study; precise enough to compare by


def make(folder: Path, data: Path, name: str) -> None:
    """Write rows, shared items and settings of three sites, and a table to test on."""
    from corank.cli import app

    arguments = [
        "federated",
        "init",
        str(folder),
        *(word for site in NAMES for word in ("--site", site)),
    ]
    try:
        app(arguments, prog_name="corank")
    except SystemExit as end:
        if end.code:
            raise
    sites, items, test = divided(data, name, 0, "random")
    columns = [f"x{number + 1}" for number in range(items.shape[1])]
    shared = {"id": [f"item-{row + 1}" for row in range(len(items))], **_named(columns, items)}
    agreement = LEVEL * min(len(y) for _, y in sites) / (len(items) * (len(sites) - 1))
    settings = folder / "coordinator/coordinator.toml"
    toml = settings.read_text().replace(
        "agreement = 0.01 ", f"tol = {TOL}\nagreement = {agreement:.6g} "
    )
    settings.write_text(toml)
    for site, (X, y) in zip(NAMES, sites, strict=True):
        write_table(pa.table({**_named(columns, X), "score": y}), folder / site / "rows.csv")
        write_table(pa.table(shared), folder / site / "shared.csv")
    write_table(pa.table({**_named(columns, test[0]), "score": test[1]}), folder / "test.csv")


def _named(columns: list[str], X: Any) -> dict[str, Any]:
    return dict(zip(columns, X.T, strict=True))


def check(folder: Path) -> str:
    """Root mean squared test errors of the models, in standard deviations of the test scores, as
    text.
    """
    test = read_table(folder / "test.csv")
    columns = [name for name in test.column_names if name != "score"]
    X, y = _features(test, columns), test["score"].to_numpy()
    alone, federated, rows = [], [], []
    for site in NAMES:
        scored = read_table(folder / site / "rows.csv")
        items = _features(read_table(folder / site / "shared.csv"), columns)
        rows.append((_features(scored, columns), scored["score"].to_numpy()))
        alone.append(CoRLS(views=1, agreement=0.0).fit(*rows[-1], unscored=items).predict(X))
        model = load(folder / site / f"{site}.corank")
        federated.append(
            np.asarray(model.predict(X if model.encoder_ is None else test.drop_columns("score")))
        )
    all_rows = [np.concatenate(blocks) for blocks in zip(*rows, strict=True)]
    pooled = CoRLS(views=1, agreement=0.0).fit(*all_rows, unscored=items).predict(X)

    def error(values: Any) -> float:
        return float(np.sqrt(np.mean((values - y) ** 2)) / y.std())

    lines = []
    for name, predictions in (("alone", alone), ("federated", federated)):
        per_site, joint = (
            np.mean([error(values) for values in predictions]),
            error(np.mean(predictions, axis=0)),
        )
        lines.append(f"{name}: {per_site:.4f} per site, {joint:.4f} the mean of the sites' models")
    return "\n".join([*lines, f"pooled: {error(pooled):.4f}"])


def _features(table: pa.Table, columns: list[str]) -> Any:
    return np.stack([table[name].to_numpy() for name in columns], axis=1)


def main(arguments: list[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(
        prog="python -m studies.questions.three_sites", description=__doc__
    )
    parser.add_argument("action", choices=("make", "check"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, help="folder with the data sets")
    parser.add_argument("--set", default="autompg")
    asked = parser.parse_args(arguments)
    if asked.action == "check":
        sys.stdout.write(check(asked.folder) + "\n")
        return 0
    if asked.data is None:
        parser.error("make needs --data.")
    make(asked.folder, asked.data, asked.set)
    return 0


if __name__ == "__main__":
    sys.exit(main())
