"""One draw of the federated study as folders for real processes, and what their models reach.

`python -m studies.questions.three_sites make FOLDER --data DIR` makes what `corank federated init` makes, filled in; then run
`corank federated coordinate` and `join`, or examples/flower/run.py; then `python -m studies.questions.three_sites check FOLDER`.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from corank import CoRLS, load
from corank.tables import read_table, write_table
from studies.questions.federated import NAMES, parts

LEVEL, TOL = 0.3, 1e-6  # one of the agreements of the study; precise enough to compare by


def make(folder: Path, data: Path, name: str) -> None:
    """Rows, shared items and settings of three sites, and a table to test on."""
    from corank.cli import app

    words = ["federated", "init", str(folder), *(word for site in NAMES for word in ("--site", site))]
    try:
        app(words, prog_name="corank")
    except SystemExit as end:
        if end.code:
            raise
    sites, items, test = parts(data, name, 0, "random")
    columns = [f"x{number + 1}" for number in range(items.shape[1])]
    shared = {"id": [f"item-{row + 1}" for row in range(len(items))], **_named(columns, items)}
    agreement = LEVEL * min(len(y) for _, y in sites) / (len(items) * (len(sites) - 1))
    settings = folder / "coordinator/coordinator.toml"
    text = settings.read_text().replace("agreement = 0.01 ", f"tol = {TOL}\nagreement = {agreement:.6g} ")
    settings.write_text(text)
    for site, (X, y) in zip(NAMES, sites, strict=True):
        write_table(pa.table({**_named(columns, X), "score": y}), folder / site / "rows.csv")
        write_table(pa.table(shared), folder / site / "shared.csv")
    write_table(pa.table({**_named(columns, test[0]), "score": test[1]}), folder / "test.csv")


def _named(columns: list[str], X: Any) -> dict[str, Any]:
    return dict(zip(columns, X.T, strict=True))


def check(folder: Path) -> None:
    """Root mean squared test errors, in standard deviations of the test scores."""
    test = read_table(folder / "test.csv")
    y = test["score"].to_numpy()
    X = np.stack([test[name].to_numpy() for name in test.column_names if name != "score"], axis=1)
    alone, together, rows = [], [], []
    for site in NAMES:
        own, shared = read_table(folder / site / "rows.csv"), read_table(folder / site / "shared.csv")
        names = [name for name in own.column_names if name != "score"]
        features = [np.stack([table[name].to_numpy() for name in names], axis=1) for table in (own, shared)]
        rows.append((features[0], own["score"].to_numpy()))
        alone.append(CoRLS(views=1, agreement=0.0).fit(*rows[-1], unscored=features[1]).predict(X))
        model = load(folder / site / f"{site}.corank")
        together.append(np.asarray(model.predict(X if model.encoder_ is None else test.drop_columns("score"))))
    both = [np.concatenate(own) for own in zip(*rows, strict=True)]
    pooled = CoRLS(views=1, agreement=0.0).fit(*both, unscored=features[1]).predict(X)

    def error(values: Any) -> float:
        return float(np.sqrt(np.mean((values - y) ** 2)) / y.std())

    for what, found in (("alone", alone), ("federated", together)):
        mean = error(np.mean(found, axis=0))
        print(f"{what}: {np.mean([error(own) for own in found]):.4f} a site, {mean:.4f} the mean of the sites' models")
    print(f"pooled: {error(pooled):.4f}")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m studies.questions.three_sites", description=__doc__)
    parser.add_argument("what", choices=("make", "check"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, help="folder with the data sets")
    parser.add_argument("--set", default="autompg")
    given = parser.parse_args(arguments)
    if given.what == "make":
        if given.data is None:
            parser.error("make needs --data.")
        make(given.folder, given.data, given.set)
    else:
        check(given.folder)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
