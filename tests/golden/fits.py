"""The golden fits: small, seeded, and stating every parameter, so that a changed default does not
touch them.

They use what users use (`from corank import ...`) and nothing else, so that they survive moved
modules, and can be run on the sources of any commit:

    PYTHONPATH=src python tests/golden/fits.py FILE.npz

More than half of them bring their folds. The others, marked `default_folds`, take the hold-out of the
learner itself, which may be changed deliberately; write them anew then (`tools/golden.py write`).
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import sparse

import corank
from corank import (
    KPCR,
    RLS,
    AutoRanker,
    AutoRegressor,
    Candidate,
    CoRankingPursuit,
    CoRankRLS,
    CoRLS,
    DifferenceGP,
    KPCRank,
    MatchingPursuit,
    PreferenceGP,
    RankingPursuit,
    RankRLS,
    TableEncoder,
    TransductiveRankRLS,
    View,
    random_bases,
    random_split,
)

try:
    import torch
except ImportError:
    torch = None  # type: ignore[assignment]

GOLDEN_FILE = Path(__file__).parent / "golden.npz"
N_ROWS, N_QUERIES = 32, 8

rng = np.random.default_rng(71)
X = rng.normal(size=(N_ROWS, 5))
Y = X[:, 0] + np.sin(2 * X[:, 1]) - 0.7 * X[:, 3] + 0.2 * rng.normal(size=N_ROWS)
QID = np.repeat(np.arange(N_QUERIES), N_ROWS // N_QUERIES)
POSITION = np.arange(N_ROWS) % (N_ROWS // N_QUERIES)
HALF = np.where(POSITION == 3, np.nan, Y)  # one unscored row per query
WHOLE = np.where(QID >= 6, np.nan, Y)  # two unscored queries
PER_VIEW = np.stack(
    [np.where(POSITION == 0, np.nan, HALF), np.where(POSITION == 1, np.nan, HALF)], axis=1
)
WEIGHTS = rng.uniform(0.5, 2.0, size=N_ROWS)
MORE, MORE_QID = rng.normal(size=(9, 5)), np.repeat(np.arange(3), 3)
NEW = rng.normal(size=(12, 5))
PAIRS = np.array([(k, (k + step) % N_ROWS) for k in range(N_ROWS) for step in (1, 5)])
FIRST_WINS = Y[PAIRS[:, 0]] > Y[PAIRS[:, 1]]
WINNERS = np.where(FIRST_WINS, PAIRS[:, 0], PAIRS[:, 1])
LOSERS = np.where(FIRST_WINS, PAIRS[:, 1], PAIRS[:, 0])
MARGINS = np.abs(Y[WINNERS] - Y[LOSERS])
SUBSET = [0, 5, 9, 14, 18, 23, 27, 31]


def thinned(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows with zeros, for CSR."""
    return np.where(np.abs(rows) > 0.4, rows, 0.0)


def leave_out(
    groups: NDArray[np.int64], n_folds: int
) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Splits that leave out whole groups."""
    fold = groups % n_folds
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(n_folds)]


BY_QUERY = leave_out(QID, 4)
BY_ROW = leave_out(np.arange(N_ROWS), 4)
BY_PAIR = leave_out(np.arange(len(PAIRS)), 4)

# ---------------------------------------------------------------- every parameter of every learner

KERNEL = {
    "kernel": "rbf",
    "gamma": 0.3,
    "degree": 3,
    "coef0": 1,
    "kernel_params": None,
    "random_state": 5,
}
HOLD_OUT = {"cv": BY_QUERY, "scoring": "squared"}
BASIS = {"basis": "all", "basis_selection": "pivoted"}
SOLVER = {"solver": "direct", "max_iter": 1000, "tol": 1e-8}
LINEAR = {"kernel": "linear", "basis": "features"}
DEFAULT = {"cv": None}
ALPHAS = [0.1, 1.0, 10.0]
VIEW = {"kernel": "rbf", "gamma": 0.3, "basis": None, "penalty": 1.0, "name": None}
TWO_VIEWS = [View([0, 1, 2], **VIEW), View([3, 4], **{**VIEW, "gamma": 0.5, "penalty": 2.0})]
THREE_VIEWS = [View([0, 1], **VIEW), View([2, 3], **VIEW), View([4], **VIEW)]
LINEAR_VIEWS = [
    View([0, 1, 2], **{**VIEW, "kernel": "linear"}),
    View([3, 4], **{**VIEW, "kernel": "linear"}),
]

EVERY: dict[Any, dict[str, Any]] = {
    RLS: {**KERNEL, **HOLD_OUT, **BASIS, "alpha": ALPHAS, "fit_intercept": True},
    RankRLS: {**KERNEL, **HOLD_OUT, **BASIS, "alpha": ALPHAS, "weighting": "size", "beta": 0.0},
    CoRLS: {
        **KERNEL,
        **HOLD_OUT,
        **BASIS,
        **SOLVER,
        "views": TWO_VIEWS,
        "alpha": ALPHAS,
        "agreement": [0.0, 0.1, 1.0],
        "fit_intercept": True,
    },
    CoRankRLS: {
        **KERNEL,
        **HOLD_OUT,
        **BASIS,
        **SOLVER,
        "views": TWO_VIEWS,
        "alpha": ALPHAS,
        "agreement": [0.0, 0.1, 1.0],
        "weighting": "size",
        "beta": 0.0,
    },
    KPCR: {
        **KERNEL,
        **HOLD_OUT,
        **BASIS,
        "n_components": [2, 4, 6],
        "alpha": 0.0,
        "fit_intercept": True,
    },
    KPCRank: {
        **KERNEL,
        **HOLD_OUT,
        **BASIS,
        "n_components": [2, 4, 6],
        "alpha": 0.0,
        "weighting": "size",
        "cut": "components",
    },
    MatchingPursuit: {
        **KERNEL,
        **HOLD_OUT,
        "n_atoms": [1, 3, 5],
        "refit": "back",
        "dictionary": None,
        "fit_intercept": True,
    },
    RankingPursuit: {
        **KERNEL,
        **HOLD_OUT,
        "n_atoms": [1, 3, 5],
        "refit": "back",
        "beta": 0.0,
        "weighting": "size",
        "dictionary": None,
        "n_solutions": 1,
        "tolerance": 0.1,
        "combine": "best",
    },
    CoRankingPursuit: {
        **KERNEL,
        **HOLD_OUT,
        "views": TWO_VIEWS,
        "n_atoms": [1, 3],
        "agreement": [0.0, 0.5],
        "objective": "exact",
        "search": "full",
        "refit": "back",
        "n_solutions": 1,
        "tolerance": 0.1,
        "combine": "best",
        "agree_on": "unscored",
        "beta": 0.0,
        "weighting": "size",
    },
    TransductiveRankRLS: {
        **KERNEL,
        **HOLD_OUT,
        **BASIS,
        "alpha": ALPHAS,
        "pull": 1.0,
        "weighting": "query",
        "folds": "queries",
    },
    PreferenceGP: {
        **KERNEL,
        **BASIS,
        "amplitude": 2.0,
        "max_pairs": 5000,
        "average_width": False,
        "response": "probit",
        "ties": "tune",
        "lapse": "tune",
    },
    DifferenceGP: {**KERNEL, **BASIS, "amplitude": 2.0, "noise": 0.2},
    AutoRanker: {"views": TWO_VIEWS, "candidates": None, "random_state": 0, "encoder": None},
    AutoRegressor: {
        "views": TWO_VIEWS,
        "candidates": None,
        "fit_intercept": True,
        "random_state": 0,
        "encoder": None,
    },
}


@dataclass(frozen=True)
class GoldenFit:
    """A named fit.

    changes : parameters other than those in `EVERY`
    given : arguments of the method
    rows : "array", "csr", "torch" or "scan"
    method : "fit" or "fit_comparisons"
    table : rows to fit, in place of X
    asks : what else to ask the fitted model
    """

    name: str
    learner: Any
    changes: dict[str, Any]
    given: dict[str, Any]
    rows: str = "array"
    method: str = "fit"
    table: Any = None
    asks: Callable[[Any], dict[str, Any]] | None = None

    @property
    def parameters(self) -> dict[str, Any]:
        """Every parameter of the constructor."""
        return {**EVERY[self.learner], **self.changes}

    @property
    def default_folds(self) -> bool:
        """Whether the hold-out of the learner itself chooses something."""
        return self.parameters.get("cv", "no such parameter") is None or self.learner in (
            AutoRanker,
            AutoRegressor,
        )

    def results(self) -> dict[str, NDArray[Any]]:
        """Fit, and collect what is kept: by name, arrays of numbers."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if self.rows == "scan":
                with tempfile.TemporaryDirectory() as folder:
                    return self._results(
                        _scan(Path(folder), self.given["y"], self.given.get("qid")), {}
                    )
            table = X if self.table is None else self.table
            return self._results(_converted(table, self.rows), self.given)

    def _results(self, training: Any, given: dict[str, Any]) -> dict[str, NDArray[Any]]:
        model = self.learner(**self.parameters)
        fit: Callable[..., Any] = getattr(model, self.method)
        fit(training, **given)
        results = self._predictions(model) if self.asks is None else self.asks(model)
        return {
            name: numbers
            for name, values in results.items()
            for name, numbers in _flat(name, values)
            if numbers.size
        }

    def _predictions(self, model: Any) -> dict[str, Any]:
        new = _converted(NEW, "array" if self.rows == "scan" else self.rows)
        results = {"predict": model.predict(new)}
        if self.learner in (PreferenceGP, DifferenceGP):
            results["std"] = model.predict(new, return_std=True)[1]
        if hasattr(model, "predict_views"):
            results["predict_views"] = model.predict_views(new)
        results |= {name: getattr(model, name) for name in ATTRIBUTES if hasattr(model, name)}
        path = getattr(model, "path_", None)
        if path is not None:
            results |= {f"path_.{name}": getattr(path, name, None) for name in ON_THE_PATH}
        return results


ATTRIBUTES = (
    "alpha_",
    "agreement_",
    "gamma_",
    "pull_",
    "n_components_",
    "n_atoms_",
    "atoms_",
    "amplitude_",
    "noise_",
    "intercept_",
    "log_evidence_",
    "transduction_",
)
ON_THE_PATH = (
    "alpha",
    "agreement",
    "gamma",
    "pull",
    "n_components",
    "n_atoms",
    "error",
    "standard_error",
    "best",
    "constant",
)


def _flat(name: str, values: Any) -> Iterator[tuple[str, NDArray[Any]]]:
    """An array, or one per view; nothing for None."""
    if isinstance(values, list):
        for position, own_values in enumerate(values):
            yield from _flat(f"{name}[{position}]", own_values)
    elif values is not None:
        yield name, np.asarray(values)


def _converted(rows: NDArray[np.float64], kind: str) -> Any:
    if kind == "csr":
        return sparse.csr_array(thinned(rows))
    return torch.asarray(rows) if kind == "torch" else rows


def _scan(folder: Path, y: NDArray[np.float64], qid: Any) -> Any:
    """The rows as two CSV files, read in chunks that cut through queries."""
    names = [f"x{k}" for k in range(X.shape[1])]
    for number, rows in enumerate(np.array_split(np.arange(N_ROWS), 2)):
        lines = [",".join([*names, "y", "q"])]
        for row in rows:
            score = "" if np.isnan(y[row]) else repr(float(y[row]))
            lines.append(
                ",".join([*(repr(float(value)) for value in X[row]), score, str(QID[row])])
            )
        (folder / f"part-{number}.csv").write_text("\n".join(lines) + "\n")
    return corank.scan(
        str(folder / "*.csv"),
        features=names,
        score="y",
        query=None if qid is None else "q",
        format="csv",
        device=None,
        chunk_rows=7,
        shuffle_queries=False,
        encoder=None,
        client=None,
    )


# ---------------------------------------------------------------- the fits

SCORES = {"y": Y, "qid": QID}
SOME_SCORES = {"y": HALF, "qid": QID}
UNSCORED_TOO = {**SOME_SCORES, "unscored": MORE, "unscored_qid": MORE_QID}
WEIGHTED = {**SCORES, "sample_weight": WEIGHTS}
COMPARED = {"winners": WINNERS, "losers": LOSERS}
MEASURED = {**COMPARED, "margins": MARGINS, "weights": 1.0 + np.arange(len(PAIRS)) % 3}


def _fits() -> Iterator[GoldenFit]:
    single = {
        "dual": ({}, SCORES, "array"),
        "dual-default": ({**DEFAULT}, SCORES, "array"),
        "dual-widths": ({"gamma": [0.1, 0.3, 1.0]}, SCORES, "array"),
        "dual-by-row": ({"cv": BY_ROW, "alpha": 1.0, "gamma": "tune"}, {"y": Y}, "array"),
        "subset": ({"basis": SUBSET}, SCORES, "array"),
        "subset-default": ({"basis": 10, **DEFAULT}, SCORES, "array"),
        "features": (LINEAR, SCORES, "array"),
        "features-default": ({**LINEAR, "alpha": "tune", **DEFAULT}, SCORES, "array"),
        "csr": ({}, SCORES, "csr"),
        "csr-subset": ({"basis": SUBSET}, SCORES, "csr"),
        "weights": ({}, WEIGHTED, "array"),
        "weights-subset": ({"basis": SUBSET}, WEIGHTED, "array"),
        "disagreement": ({"scoring": "disagreement"}, SCORES, "array"),
        "torch": ({}, SCORES, "torch"),
        "torch-subset-default": ({"basis": SUBSET, **DEFAULT}, SCORES, "torch"),
        "scan": ({"basis": 10, **DEFAULT}, SCORES, "scan"),
        "scan-features": ({**LINEAR, "alpha": 1.0}, SCORES, "scan"),
    }
    several = {
        "dual": ({}, SOME_SCORES, "array"),
        "dual-default": ({**DEFAULT}, SOME_SCORES, "array"),
        "dual-unscored": ({}, UNSCORED_TOO, "array"),
        "three-views": ({"views": THREE_VIEWS}, SOME_SCORES, "array"),
        "one-view": (
            {"views": [View([0, 1, 2, 3, 4], **VIEW)], "agreement": 0.0},
            SOME_SCORES,
            "array",
        ),
        "scored": ({"basis": "scored"}, SOME_SCORES, "array"),
        "subset": ({"basis": SUBSET}, SOME_SCORES, "array"),
        "subset-default": ({"basis": SUBSET, **DEFAULT}, UNSCORED_TOO, "array"),
        "features": ({"views": LINEAR_VIEWS, "basis": "features"}, SOME_SCORES, "array"),
        "features-default": (
            {"views": LINEAR_VIEWS, "basis": "features", **DEFAULT},
            SOME_SCORES,
            "array",
        ),
        "scores-per-view": ({}, {"y": PER_VIEW, "qid": QID}, "array"),
        "scores-per-view-default": ({**DEFAULT}, {"y": PER_VIEW, "qid": QID}, "array"),
        "coordinate": (
            {"solver": "coordinate", "alpha": 1.0, "agreement": 0.2, "tol": 1e-13},
            SOME_SCORES,
            "array",
        ),
        "random-split": ({"views": random_split(2)}, SOME_SCORES, "array"),
        "random-bases-widths": (
            {"views": random_bases(2), "gamma": [0.1, 0.5]},
            SOME_SCORES,
            "array",
        ),
        "csr": ({}, SOME_SCORES, "csr"),
        "weights": ({}, {**SOME_SCORES, "sample_weight": WEIGHTS}, "array"),
        "torch": ({}, SOME_SCORES, "torch"),
        "scan-default": ({"basis": 10, **DEFAULT}, SOME_SCORES, "scan"),
    }
    components = {
        "all": ({}, SCORES, "array"),
        "default": ({**DEFAULT}, SCORES, "array"),
        "ridge": ({"alpha": [0.1, 1.0]}, SCORES, "array"),
        "subset": ({"basis": SUBSET}, SCORES, "array"),
        "features": ({**LINEAR, "n_components": [1, 3, 5]}, SCORES, "array"),
        "csr": ({}, SCORES, "csr"),
        "weights": ({}, WEIGHTED, "array"),
        "torch": ({**DEFAULT}, SCORES, "torch"),
    }
    pursuits = {
        "back": ({}, SCORES, "array"),
        "back-default": ({**DEFAULT}, SCORES, "array"),
        "final": ({"refit": "final"}, SCORES, "array"),
        "basic": ({"refit": "basic"}, SCORES, "array"),
        "pre": ({"refit": "pre"}, SCORES, "array"),
        "features": ({"kernel": "linear", "dictionary": "features"}, SCORES, "array"),
        "dictionary": ({"dictionary": MORE, **DEFAULT}, SCORES, "array"),
        "csr": ({}, SCORES, "csr"),
        "weights": ({}, WEIGHTED, "array"),
        "torch": ({}, SCORES, "torch"),
    }
    pursuits_of_views = {
        "back": ({}, SOME_SCORES, "array"),
        "back-default": ({**DEFAULT}, SOME_SCORES, "array"),
        "final-unscored": ({"refit": "final"}, UNSCORED_TOO, "array"),
        "paper": ({"objective": "paper", "refit": "basic"}, SOME_SCORES, "array"),
        "tied": ({"search": "tied"}, SOME_SCORES, "array"),
        "csr": ({"n_solutions": 2, "tolerance": 9.0}, SOME_SCORES, "csr"),
    }
    whole_queries = {"y": WHOLE, "qid": QID}
    transduction = {
        "dual": ({}, whole_queries, "array"),
        "dual-default": ({**DEFAULT}, whole_queries, "array"),
        "pulls-default": ({"pull": [0.1, 1.0], **DEFAULT}, whole_queries, "array"),
        "unscored": ({}, {**SCORES, "unscored": MORE, "unscored_qid": MORE_QID}, "array"),
        "subset": ({"basis": SUBSET}, whole_queries, "array"),
        "features": (LINEAR, whole_queries, "array"),
        "csr": ({}, whole_queries, "csr"),
        "torch": ({}, whole_queries, "torch"),
    }
    processes = {
        "scores": ({}, SCORES, "array"),
        "subset": ({"basis": SUBSET}, SCORES, "array"),
        "csr": ({}, SCORES, "csr"),
        "torch": ({}, SCORES, "torch"),
    }
    choices = {"views": ({}, SOME_SCORES, "array"), "unscored": ({}, UNSCORED_TOO, "array")}
    kinds = {
        (RLS, RankRLS): single,
        (CoRLS, CoRankRLS): several,
        (KPCR, KPCRank): components,
        (MatchingPursuit, RankingPursuit): pursuits,
        (CoRankingPursuit,): pursuits_of_views,
        (TransductiveRankRLS,): transduction,
        (PreferenceGP, DifferenceGP): processes,
        (AutoRanker, AutoRegressor): choices,
    }
    for learners, fits in kinds.items():
        for learner in learners:
            for kind, (changes, given, rows) in fits.items():
                yield GoldenFit(f"{learner.__name__}-{kind}", learner, changes, given, rows)
    yield GoldenFit("RankRLS-unit", RankRLS, {"weighting": "unit", "beta": 0.3}, SCORES)
    yield GoldenFit("RankRLS-query", RankRLS, {"weighting": "query", "basis": SUBSET}, SCORES)
    yield GoldenFit("CoRankRLS-blend", CoRankRLS, {"beta": 0.3, "basis": SUBSET}, SOME_SCORES)
    yield GoldenFit("RankingPursuit-blend", RankingPursuit, {"beta": 0.3}, SCORES)
    yield GoldenFit("DifferenceGP-weights", DifferenceGP, {}, WEIGHTED)
    by_pair = {"cv": BY_PAIR}
    compared = {
        "RankRLS-comparisons": (RankRLS, by_pair, MEASURED),
        "RankRLS-comparisons-subset": (RankRLS, {**by_pair, "basis": SUBSET}, COMPARED),
        "RankRLS-comparisons-default": (RankRLS, DEFAULT, MEASURED),
        "CoRankRLS-comparisons": (CoRankRLS, by_pair, {**MEASURED, "unscored": MORE}),
        "CoRankRLS-comparisons-default": (
            CoRankRLS,
            {**DEFAULT, "basis": SUBSET},
            {**COMPARED, "unscored": MORE},
        ),
        "KPCRank-comparisons": (KPCRank, by_pair, MEASURED),
        "PreferenceGP-comparisons": (PreferenceGP, {}, COMPARED),
        "DifferenceGP-comparisons": (DifferenceGP, {}, MEASURED),
    }
    for name, (learner, changes, given) in compared.items():
        yield GoldenFit(name, learner, changes, given, method="fit_comparisons")
    yield from _averages()


# ---------------------------------------------------------------- the average and what it is asked

many = np.random.default_rng(72)
LINKS = np.array([(k, (k + step) % N_ROWS) for k in range(N_ROWS) for step in (1, 8)])
ROWS_OF_LINKS = np.where(np.arange(N_ROWS) % 3 == 2, np.nan, Y)
KINDS = ("creamy", "crisp", "sharp", "mild")
SHOP = pa.table(
    {
        "price": np.round(np.exp(X[:, 0]), 2),
        "kind": [KINDS[number] for number in many.integers(0, 4, N_ROWS)],
        "description": [
            " ".join(many.choice(["apple", "pear", "plum", "fresh", "dried", "sweet"], 4))
            + f" from farm {number % 5}"
            for number in range(N_ROWS)
        ],
        "vendor": [f"vendor {number}" for number in many.integers(0, 6, N_ROWS)],
    }
)
CREAMY = np.array([kind == "creamy" for kind in SHOP["kind"].to_pylist()])
ENCODER = {
    "category": (),
    "identity": (),
    "ignore": ("vendor",),
    "max_categories": 50,
    "number": (),
    "scale": True,
    "text": (),
}


def _large(n: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    rows = many.normal(size=(n, 2))
    return rows, np.sin(rows[:, 0]) + 0.5 * rows[:, 1] + 0.3 * many.normal(size=n)


FEW = [
    Candidate(kernel="linear"),
    Candidate(width=1.0),
    Candidate(width=4.0),
    Candidate(kernel="laplacian", width=2.0),
    Candidate(encoding="normal scores", width=2.0),
]
WITHIN_QUERIES = Candidate(encoding="normal scores within queries", kernel="linear")
RELEVANT = [
    Candidate(kernel="laplacian", width=2.0, relevance=True),
    Candidate(width=2.0, relevance=True),
]
OVER_LINKS = [
    Candidate(kernel="linear"),
    Candidate(width=2.0),
    Candidate(kernel="linear", hops=2, prior=0.5),
    Candidate(kernel="rbf", width=2.0, hops=2, beside=True, prior=0.5),
]
OF_VIEWS = [
    Candidate(kernel="linear", views="sum"),
    Candidate(width=2.0, views="product"),
    Candidate(width=1.0, views="one", of=(1,)),
    Candidate(kernel="linear", views="agreement", strength=1.0),
    Candidate(width=2.0, views="agreement", strength=10.0),
    Candidate(kernel="cosine", views="sum", second_order=True),
]


def _average(model: Any) -> dict[str, Any]:
    """What it is made of; candidates in the order of their descriptions."""
    lines = sorted(model.candidates_, key=lambda line: (line.what, -line.weight))
    effect = model.unscored_effect_
    results = {
        "candidates_.weight": np.array([line.weight for line in lines]),
        "candidates_.error": np.array([line.error for line in lines]),
        "held_out_error_": np.array(model.held_out_error_),
    }
    if effect is not None:
        results["unscored_effect_"] = np.array(
            [effect.error_with, effect.error_without, effect.standard_error]
        )
    return results


def _asked(model: Any, new: Any, **given: Any) -> dict[str, Any]:
    """Predictions of new rows with their standard deviations, probabilities and questions."""
    mean, deviations = model.predict(new, return_std=True, **given)
    results = {"predict": mean, "std": deviations}
    for kind in ("score", "comparison"):
        results[f"suggest.{kind}"] = model.suggest(new, 3, kind=kind, **given)
    return results


def _compared(model: Any, first: Any, second: Any) -> dict[str, Any]:
    return {
        "predict_comparison": model.predict_comparison(first, second),
        "predict_comparison.observed": model.predict_comparison(first, second, observed=True),
    }


def _explained(model: Any, items: Any) -> dict[str, Any]:
    """The parts of the difference of the first two items, in the order of their names."""
    explanation = model.explain_pair(0, 1, items=items)
    return {
        f"explain_pair.{name}": np.array(
            [part.value for part in sorted(getattr(explanation, name), key=lambda part: part.name)]
        )
        for name in ("by_item", "by_answer", "by_view", "by_column")
    }


def _of_scores(model: Any) -> dict[str, Any]:
    results = _average(model) | _asked(model, NEW) | _compared(model, NEW[:6], NEW[6:])
    return results | _explained(model, NEW)


def _of_queries(model: Any) -> dict[str, Any]:
    results = _of_scores(model)
    queries = np.arange(len(NEW)) // 4
    mean, deviations = model.predict(NEW, qid=queries, return_std=True)
    model.update(MORE, MORE[:, 0], qid=MORE_QID)
    after = _asked(model, NEW)
    return results | {
        "predict.qid": mean,
        "std.qid": deviations,
        "update.predict": after["predict"],
        "update.std": after["std"],
    }


def _of_links(model: Any) -> dict[str, Any]:
    linked = {"links": LINKS}
    results = _average(model) | _asked(model, X, **linked)
    alone, deviations = model.predict(NEW, return_std=True)
    model.update(X, np.where(np.isnan(ROWS_OF_LINKS), Y, np.nan), **linked)
    return results | {
        "predict.alone": alone,
        "std.alone": deviations,
        "update.predict": model.predict(X, **linked),
    }


def _of_a_table(model: Any) -> dict[str, Any]:
    new = SHOP.slice(0, 9)
    results = _average(model) | _asked(model, new) | _compared(model, new, SHOP.slice(9, 9))
    return results | _explained(model, new)


def _of_many_rows(model: Any) -> dict[str, Any]:
    new = np.column_stack([np.linspace(-2, 2, 9), np.linspace(1, -1, 9)])
    return _average(model) | _asked(model, new) | _compared(model, new[1:], new[:-1])


def _averages() -> Iterator[GoldenFit]:
    few = {"views": None, "candidates": FEW}
    queried = {"views": None, "candidates": [*FEW, WITHIN_QUERIES, *RELEVANT]}
    agreeing = {"views": TWO_VIEWS, "candidates": OF_VIEWS}
    linked = {"views": None, "candidates": OVER_LINKS}
    of_table = {"views": None, "encoder": TableEncoder(**ENCODER)}
    of_items = {
        **of_table,
        "encoder": TableEncoder(**{**ENCODER, "ignore": (), "identity": ("vendor",)}),
    }
    all_scored = {"y": Y}
    some_scored = {"y": HALF}
    some_linked = {"y": ROWS_OF_LINKS, "links": LINKS}
    of_shop = {"y": np.where(np.isnan(HALF), np.nan, Y + 2 * CREAMY)}
    for learner in (AutoRanker, AutoRegressor):
        fits = {
            "of-scores": ({**few, "candidates": None}, all_scored, None, _of_scores),
            "of-queries": (queried, WEIGHTED, None, _of_queries),
            "of-agreeing-views": (agreeing, some_scored, None, _of_scores),
            "of-links": (linked, some_linked, None, _of_links),
            "of-a-table": (of_table, of_shop, SHOP, _of_a_table),
        }
        for n in (320, 2_050, 5_010):
            rows, scores = _large(n)
            given = {"y": scores}
            if learner is AutoRanker and n < 5_000:
                given["qid"] = np.arange(n) // 5
            candidates = {**few, "candidates": FEW if n < 2_000 else [FEW[0], FEW[3]]}
            fits[f"of-{n}-rows"] = (candidates, given, rows, _of_many_rows)
        for kind, (changes, given, table, asks) in fits.items():
            name = f"{learner.__name__}-{kind}"
            yield GoldenFit(name, learner, changes, given, table=table, asks=asks)
    level = {**few, "fit_intercept": False}
    name = "AutoRegressor-without-a-level"
    yield GoldenFit(name, AutoRegressor, level, {"y": Y, "sample_weight": WEIGHTS}, asks=_of_scores)
    by_pair = {"winners": WINNERS[::2], "losers": LOSERS[::2]}
    within = np.flatnonzero(QID[WINNERS] // 4 == QID[LOSERS] // 4)
    compared = {
        "AutoRanker-of-comparisons": (
            {**few, "candidates": None},
            {**by_pair, "unscored": MORE},
            None,
            _of_scores,
        ),
        "AutoRanker-of-margins": (
            few,
            {
                "winners": WINNERS[within],
                "losers": LOSERS[within],
                "margins": MARGINS[within],
                "weights": MEASURED["weights"][within],
                "qid": QID // 4,
            },
            None,
            _of_scores,
        ),
        "AutoRanker-of-items": (of_items, by_pair, SHOP, _of_a_table),
    }
    for name, (changes, given, table, asks) in compared.items():
        yield GoldenFit(
            name, AutoRanker, changes, given, method="fit_comparisons", table=table, asks=asks
        )


FITS = {fit.name: fit for fit in _fits()}


def record(*, keep_errors: bool = False) -> dict[str, NDArray[Any]]:
    """The results of all fits, under `fit/array`; without PyTorch those of its tensors are left
    out.

    keep_errors : what a fit raised stands in place of its results, for sources that lack something
    """
    kept: dict[str, NDArray[Any]] = {}
    for fit in FITS.values():
        if fit.rows == "torch" and torch is None:
            continue
        try:
            kept |= {f"{fit.name}/{name}": values for name, values in fit.results().items()}
        except Exception as error:
            if not keep_errors:
                raise
            kept[f"{fit.name}/raised"] = np.array(f"{type(error).__name__}: {error}")
    return kept


def spread_of(values: NDArray[Any]) -> float:
    """The range of an array; of equal numbers, their size."""
    finite = np.asarray(values, dtype=np.float64)[np.isfinite(values)]
    if finite.size == 0:
        return 1.0
    return float(np.ptp(finite)) or float(np.abs(finite).max()) or 1.0


def distance(expected: NDArray[Any], found: NDArray[Any]) -> float:
    """The largest difference of two arrays in units of the spread of the first; 0 where they are
    the same bits.
    """
    if expected.shape != found.shape or expected.dtype != found.dtype:
        return np.inf
    if expected.tobytes() == found.tobytes():
        return 0.0
    if expected.dtype.kind not in "fiu" or not np.array_equal(np.isnan(expected), np.isnan(found)):
        return np.inf
    gap = np.nanmax(np.abs(np.asarray(expected, dtype=np.float64) - found))
    return float(gap) / spread_of(expected)


if __name__ == "__main__":
    np.savez_compressed(sys.argv[1], **record(keep_errors=True))  # type: ignore[arg-type]
    print(Path(corank.__file__).parent)
