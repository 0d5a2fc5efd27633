"""Write one small model file per learner and kind of fit, with what each of them predicts.

    python tests/models/write_models.py FOLDER

The files in `0.1.0` were written so by version 0.1.0 and stay as they are: later versions must read
them. After a change of the format, write a folder for the new version beside them;
`tests/model_files/test_old_models.py` reads every folder here.
"""

import json
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import sparse
from typer.testing import CliRunner

from corank import (
    KPCR,
    RLS,
    AutoRanker,
    AutoRegressor,
    CoRankingPursuit,
    CoRankRLS,
    CoRLS,
    DifferenceGP,
    KPCRank,
    MatchingPursuit,
    PreferenceGP,
    RankingPursuit,
    RankRLS,
    TransductiveRankRLS,
    View,
    load,
    random_bases,
)
from corank.cli import app

rng = np.random.default_rng(20240)
N_ROWS = 18
X = rng.normal(size=(N_ROWS, 4)).round(3)
Y = (X[:, 0] + np.sin(2 * X[:, 1]) - 0.5 * X[:, 2] + 0.1 * rng.normal(size=N_ROWS)).round(3)
QID = np.repeat(np.arange(6), 3)
HALF = np.where(np.arange(N_ROWS) % 3 == 2, np.nan, Y)  # one row per query is unscored
PER_VIEW = np.stack([np.where(np.arange(N_ROWS) % 3 == 0, np.nan, Y), HALF], axis=1)
PAIRS = np.array([(k, (k + step) % N_ROWS) for k in range(N_ROWS) for step in (1, 4)])
FIRST_WINS = Y[PAIRS[:, 0]] > Y[PAIRS[:, 1]]
WINNERS = np.where(FIRST_WINS, PAIRS[:, 0], PAIRS[:, 1])
LOSERS = np.where(FIRST_WINS, PAIRS[:, 1], PAIRS[:, 0])
SPARSE = np.where(np.abs(X) > 0.5, X, 0.0)
NAMES = ["text_a", "text_b", "image_a", "image_b"]
NEW = rng.normal(size=(5, 4)).round(3)
NEW_SPARSE = np.where(np.abs(NEW) > 0.5, NEW, 0.0)
NEW_Y, NEW_QID = np.array([0.3, -0.2, 1.1, 0.4, 0.0]), np.array([0, 0, 0, 1, 1])
TWO_VIEWS = [View([0, 1], gamma=0.4), View([2, 3], gamma=0.3)]
LINEAR_VIEWS = [View([0, 1], kernel="linear"), View([2, 3], kernel="linear")]
NAMED_VIEWS = [View("text_*", gamma=0.4, name="text"), View("image_*", gamma=0.3, name="image")]
WIDTHS = {"amplitude": 2.0, "gamma": 0.4}

SINGLE = {
    "all-rows": {"alpha": 0.5, "gamma": 0.4},
    "tuned": {"alpha": [0.1, 1.0, 10.0], "gamma": [0.1, 0.4]},
    "subset": {"alpha": 0.5, "gamma": 0.4, "basis": [0, 4, 7, 12]},
    "features": {"alpha": 0.5, "kernel": "linear", "basis": "features"},
}
SEVERAL = {
    "all-rows": {"alpha": 0.5, "agreement": 0.3, "views": TWO_VIEWS},
    "tuned": {"alpha": [0.1, 1.0], "agreement": [0.0, 0.3], "views": TWO_VIEWS},
    "subset": {"alpha": 0.5, "agreement": 0.3, "views": TWO_VIEWS, "basis": [0, 4, 7, 12]},
    "features": {"alpha": 0.5, "agreement": 0.3, "views": LINEAR_VIEWS, "basis": "features"},
    "random-bases": {
        "alpha": 0.5,
        "agreement": 0.3,
        "views": random_bases(2),
        "gamma": 0.4,
        "random_state": 3,
    },
    "coordinate": {"alpha": 0.5, "agreement": 0.3, "views": TWO_VIEWS, "solver": "coordinate"},
}


def scores_fits():
    """(name, unfitted learner, kind of rows, arguments of fit)."""
    for learner in (RLS, RankRLS):
        for kind, parameters in SINGLE.items():
            yield kind, learner(**parameters), "dense", {"y": Y, "qid": QID}
        yield "csr", learner(0.5, gamma=0.4), "csr", {"y": Y, "qid": QID}
        yield "csr-subset", learner(0.5, basis=[0, 4, 7], gamma=0.4), "csr", {"y": Y, "qid": QID}
        yield "names", learner(0.5, gamma=0.4), "names", {"y": Y, "qid": QID}
        yield (
            "weights",
            learner(0.5, gamma=0.4),
            "dense",
            {"y": Y, "qid": QID, "sample_weight": 1 + QID / 4},
        )
    yield "blend", RankRLS(0.5, beta=0.3, gamma=0.4), "dense", {"y": Y, "qid": QID}
    for learner in (CoRLS, CoRankRLS):
        for kind, parameters in SEVERAL.items():
            yield kind, learner(**parameters), "dense", {"y": HALF, "qid": QID}
        settled = {"alpha": 0.5, "agreement": 0.3}
        yield "scores-per-view", learner(TWO_VIEWS, **settled), "dense", {"y": PER_VIEW, "qid": QID}
        yield "csr", learner(TWO_VIEWS, **settled), "csr", {"y": HALF, "qid": QID}
        yield "names", learner(NAMED_VIEWS, **settled), "names", {"y": HALF, "qid": QID}
    for learner in (KPCR, KPCRank):
        yield "all-rows", learner(4, gamma=0.4), "dense", {"y": Y, "qid": QID}
        yield (
            "tuned",
            learner("tune", gamma=0.4, basis=[0, 4, 7, 9, 12]),
            "dense",
            {"y": Y, "qid": QID},
        )
        yield "csr", learner(4, 0.1, gamma=0.4), "csr", {"y": Y, "qid": QID}
    for learner in (MatchingPursuit, RankingPursuit):
        yield "rows", learner(4, gamma=0.4), "dense", {"y": Y, "qid": QID}
        yield "tuned", learner([1, 2, 4], "final", gamma=0.4), "dense", {"y": Y, "qid": QID}
        yield (
            "features",
            learner(2, kernel="linear", dictionary="features"),
            "dense",
            {"y": Y, "qid": QID},
        )
        yield "dictionary", learner(2, dictionary=X[:6], gamma=0.4), "dense", {"y": Y, "qid": QID}
        yield "csr", learner(3, gamma=0.4), "csr", {"y": Y, "qid": QID}
    settled = {"n_atoms": 3, "agreement": 0.3}
    yield "views", CoRankingPursuit(TWO_VIEWS, **settled), "dense", {"y": HALF, "qid": QID}
    yield (
        "solutions",
        CoRankingPursuit(TWO_VIEWS, **settled, n_solutions=2, tolerance=9.0),
        "dense",
        {"y": HALF, "qid": QID},
    )
    yield (
        "paper",
        CoRankingPursuit(TWO_VIEWS, **settled, objective="paper"),
        "dense",
        {"y": HALF, "qid": QID},
    )
    yield "csr", CoRankingPursuit(TWO_VIEWS, **settled), "csr", {"y": HALF, "qid": QID}
    completed = {"y": HALF, "qid": QID}
    yield "all-rows", TransductiveRankRLS(0.5, 1.0, gamma=0.4), "dense", completed
    yield "subset", TransductiveRankRLS(0.5, 1.0, [0, 4, 7, 12], gamma=0.4), "dense", completed
    yield "csr", TransductiveRankRLS(0.5, 1.0, gamma=0.4), "csr", completed
    for learner in (PreferenceGP, DifferenceGP):
        yield "scores", learner(**WIDTHS), "dense", {"y": Y, "qid": QID}
        yield "subset", learner(**WIDTHS, basis=[0, 4, 7, 12]), "dense", {"y": Y, "qid": QID}
        yield "csr", learner(**WIDTHS), "csr", {"y": Y, "qid": QID}
        yield "tuned", learner(gamma=0.4), "dense", {"y": Y, "qid": QID}
    yield "widths", PreferenceGP(2.0, average_width=True), "dense", {"y": Y, "qid": QID}
    yield "columns", DifferenceGP(2.0, "columns", 0.1), "dense", {"y": Y, "qid": QID}
    for learner in (AutoRanker, AutoRegressor):
        yield "views", learner(TWO_VIEWS), "dense", {"y": HALF, "qid": QID}
        yield "one-view", learner(random_state=1), "dense", {"y": HALF, "qid": QID}
        yield "csr", learner(TWO_VIEWS), "csr", {"y": HALF, "qid": QID}


def comparison_fits():
    """(learner, arguments of fit_comparisons besides winners and losers)."""
    yield RankRLS(0.5, gamma=0.4), {"margins": np.ones(len(WINNERS))}
    yield CoRankRLS(TWO_VIEWS, 0.5, 0.3), {"unscored": NEW}
    yield KPCRank(4, gamma=0.4), {}
    yield PreferenceGP(**WIDTHS), {}
    yield DifferenceGP(**WIDTHS, noise=0.2), {}


TABLE = pd.DataFrame(X[:, :3].round(2), columns=NAMES[:3]).assign(
    genre=np.array(["crime", "poetry", "travel"])[np.arange(N_ROWS) % 3],
    score=HALF,
    user=QID,
    item=range(N_ROWS),
)
NEW_TABLE = pd.DataFrame(
    {
        "text_a": [0.1, -1.0, None],
        "text_b": [0.5, 0.2, 1.4],
        "image_a": [0.0, 0.7, -0.3],
        "genre": ["crime", "new", None],
    }
)
VIEWS = ("--view", "text_*", "--view", "image_a,genre")
COMMANDS = {
    "auto": ("--score", "score", "--query", "user", *VIEWS),
    "auto-regression": ("--score", "score", "--drop", "user"),
    **{
        method: ("--method", method, "--score", "score", "--query", "user")
        for method in ("rankrls", "rls", "kpcrank", "kpcr", "pursuit", "matching", "preference")
    },
    **{
        method: ("--method", method, "--score", "score", "--query", "user", *VIEWS)
        for method in ("corankrls", "corls")
    },
    "difference": (
        "--method",
        "difference",
        "--score",
        "score",
        "--query",
        "user",
        "--gamma",
        "0.4",
    ),
    "comparisons": ("--method", "preference", "--comparisons", "wins.csv", "--drop", "user,score"),
}


def rows_of(kind, dense, thin):
    """The rows as a learner got them."""
    if kind == "csr":
        return sparse.csr_array(thin)
    return pd.DataFrame(dense, columns=NAMES) if kind == "names" else dense


def said(model, X):
    """What a model says of rows, by the name of the method."""
    answers = {"predict": model.predict(X)}
    if isinstance(model, PreferenceGP | DifferenceGP):
        answers["std"] = model.predict(X, return_std=True)[1]
    if hasattr(model, "predict_views"):
        answers["predict_views"] = model.predict_views(X)
    return answers


def fitted_models():
    """(file name, kind of rows, fitted model)."""
    for kind, learner, rows, given in scores_fits():
        model = learner.fit(rows_of(rows, X, SPARSE), **given)
        yield f"{type(learner).__name__}-{kind}", rows, model
    for learner, given in comparison_fits():
        yield (
            f"{type(learner).__name__}-comparisons",
            "dense",
            learner.fit_comparisons(X, WINNERS, LOSERS, **given),
        )


def write_commands(folder):
    """Models of the command line, with an encoder inside."""
    work = folder / "work"
    work.mkdir()
    TABLE.to_csv(work / "items.csv", index=False)
    pd.DataFrame({"winner": WINNERS, "loser": LOSERS}).to_csv(work / "wins.csv", index=False)
    for name, options in COMMANDS.items():
        words = [str(work / word) if word == "wins.csv" else word for word in options]
        out = folder / f"command-{name}.safetensors"
        result = CliRunner().invoke(
            app,
            ["fit", str(work / "items.csv"), "--id", "item", *words, "--out", str(out), "--quiet"],
        )
        if result.exit_code != 0:
            raise SystemExit(f"{name}: {result.output}")
        yield out.stem
    for path in work.iterdir():
        path.unlink()
    work.rmdir()


def listed(answers):
    return {name: np.asarray(values).tolist() for name, values in answers.items()}


def write(folder):
    """Model files, and `predictions.json`: the rows, and what every model says of them."""
    folder.mkdir(parents=True)
    models = {}
    for name, rows, model in fitted_models():
        path = folder / f"{name}.safetensors"
        model.save(path)
        loaded = load(path)
        new = rows_of(rows, NEW, NEW_SPARSE)
        models[name] = {
            "rows": rows,
            "learner": type(loaded).__name__,
            "says": listed(said(loaded, new)),
        }
        if name == "PreferenceGP-widths":
            continue  # widths of little weight make its update depend on the last digits
        try:
            loaded.update(new, NEW_Y, qid=NEW_QID)
        except ValueError:
            continue  # a learner that has to be fitted again
        models[name]["says_after_update"] = listed(said(loaded, new))
    for name in write_commands(folder):
        loaded = load(folder / f"{name}.safetensors")
        says = listed(said(loaded, loaded.encoder_.transform(NEW_TABLE)))
        models[name] = {"rows": "table", "learner": type(loaded).__name__, "says": says}
    kept = {
        "dense": NEW.tolist(),
        "csr": NEW_SPARSE.tolist(),
        "names": NAMES,
        "table": {
            name: column.replace({np.nan: None}).tolist()
            for name, column in NEW_TABLE.astype(object).items()
        },
        "update": {"y": NEW_Y.tolist(), "qid": NEW_QID.tolist()},
        "models": models,
    }
    (folder / "predictions.json").write_text(json.dumps(kept, indent=1) + "\n")
    print(f"{len(models)} models in {folder}")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    write(Path(sys.argv[1]))
