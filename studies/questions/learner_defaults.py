"""What the single learners should tune by default: the width of the kernel, and by which held-out
error.

Protocol: draws of scored rows or queries as in `default`, errors on rows or queries that were never
seen. Every learner is fitted with the width "scale" and with "tune", and by different held-out
errors, on the same draws. Errors of a setting (a set and a number of scores) are means over draws;
settings are compared by ratios to the first variant, and ratios are summed up by geometric means,
with the worst setting and the time of the fits beside them.
"""

from __future__ import annotations

import json
import time
from typing import Any, TypeAlias

import numpy as np

from corank import KPCR, RLS, CoRankRLS, CoRLS, KPCRank, RankRLS, View, random_split
from corank.experiments import Task
from corank.metrics import disagreement_error
from studies.data import CORA, RANKING, REGRESSION, Floats, regression_names, regression_set
from studies.questions.default import N_SCORES, QUERY_COUNTS, order_task, regression_task, rmse
from studies.questions.methods import Results
from studies.study import Cell, Finding, Outcome, Part, Result, Settings, Study, Table, target
from studies.verdicts import mean_interval

N_DRAWS = {
    "regression": 5,
    "one query": 5,
    "halves": 3,
    "queries": 10,
    "papers": 7,
    "words and links": 7,
}
N_UNSCORED = 200
QUICK_SETS = ("baskball", "bodyfat")
Variant: TypeAlias = tuple[str, dict[str, Any]]

SCALE: Variant = ("as it is", {"gamma": "scale"})
TUNED: Variant = ("width", {"gamma": "tune"})
RANKED: tuple[Variant, ...] = (
    SCALE,
    ("rescaled error", {"gamma": "scale", "scoring": "rescaled"}),
    TUNED,
    ("width, rescaled error", {"gamma": "tune", "scoring": "rescaled"}),
    ("width, disagreement", {"gamma": "tune", "scoring": "disagreement"}),
)
LEARNERS: dict[str, dict[Any, tuple[Variant, ...]]] = {  # by the kind of data
    "regression": {RLS: (SCALE, TUNED), KPCR: (SCALE, TUNED)},
    "one query": {RankRLS: RANKED},
    "halves": {CoRLS: (SCALE, TUNED)},
    "queries": {RankRLS: RANKED, KPCRank: RANKED},
    "papers": {RankRLS: (SCALE, TUNED)},
    "words and links": {CoRankRLS: (SCALE, TUNED)},
}
TITLES = {
    "regression": "Regression, 32 small sets",
    "one query": "The same sets, ranked",
    "halves": f"The same sets, random halves of the columns as views, {N_UNSCORED} unscored rows",
    "queries": "LightGBM's ranking data",
    "papers": "Papers of one class above the others (Cora), by their words",
    "words and links": f"The same papers, words and links as views, {N_UNSCORED} unscored papers",
}


def parts(settings: Settings) -> list[Part]:
    """One part per kind of data, set and number of scores."""
    found = []
    for kind in LEARNERS:
        for name, size in _settings(settings, kind):
            found.append(
                Part(
                    json.dumps([kind, name, size]), run, {"kind": kind, "name": name, "size": size}
                )
            )
    return found


def _settings(settings: Settings, kind: str) -> list[tuple[str, int]]:
    """Sets and numbers of scores."""
    if kind == "queries":
        return [("ranking", size) for size in QUERY_COUNTS[: 1 if settings.quick else None]]
    if kind in ("papers", "words and links"):
        return [("cora", size) for size in N_SCORES[: 1 if settings.quick else None]]
    names = QUICK_SETS if settings.quick else regression_names(settings.folder)
    sizes = (50,) if kind == "halves" else N_SCORES
    rows = {name: len(regression_set(settings.folder, name).y) for name in names}
    return [(name, size) for name in names for size in sizes if rows[name] >= 2 * size + 30]


def run(settings: Settings, rng: np.random.Generator, kind: str, name: str, size: int) -> Result:
    """Test errors and seconds of every learner and variant on every draw."""
    result: Result = {}
    for number in range(1 if settings.quick else N_DRAWS[kind]):
        task, truth = _task(settings, kind, name, size, number)
        for learner, variants in LEARNERS[kind].items():
            for title, parameters in variants:
                error, seconds = _fit(learner, parameters, task, truth)
                lines = result.setdefault(learner.__name__, {}).setdefault(
                    title, {"error": [], "seconds": []}
                )
                lines["error"].append(error)
                lines["seconds"].append(seconds)
    return result


def _task(settings: Settings, kind: str, name: str, size: int, number: int) -> tuple[Task, Floats]:
    if kind == "queries":
        return order_task(settings.folder, "ranking", size, number)
    if kind in ("papers", "words and links"):
        return order_task(settings.folder, "cora" if kind == "papers" else kind, size, number)
    return regression_task(settings.folder, name, size, number)


def _fit(
    learner: Any, parameters: dict[str, Any], task: Task, truth: Floats
) -> tuple[float, float]:
    """The test error, and the seconds that the fit took."""
    if learner in (CoRLS, CoRankRLS):
        views: Any = random_split(2)
        if isinstance(task.views, list):
            views = [View(view.columns, **parameters, name=view.name) for view in task.views]
        model = learner(views, **parameters, random_state=task.seed)
        X, y, qid = task.X[: task.n_scored + N_UNSCORED], task.y[: task.n_scored + N_UNSCORED], None
    else:
        model, (X, y, qid) = learner(**parameters), task.scored
    start = time.perf_counter()
    model.fit(X, y, qid=qid)
    seconds = time.perf_counter() - start
    predicted = model.predict(task.X_test)
    if learner in (RLS, KPCR, CoRLS):
        return rmse(truth, predicted), seconds
    return float(disagreement_error(truth, predicted, qid=task.qid_test)), seconds


def conclude(settings: Settings, results: Results) -> Outcome:
    """Ratios to the variant that tunes least, and whether a tuned width pays for its time."""
    tables: list[Table] = []
    findings: list[Finding] = []
    n_fits = 0
    for kind, learners in LEARNERS.items():
        found = {key: result for key, result in results.items() if json.loads(key)[0] == kind}
        rows: list[tuple[Cell, ...]] = []
        for learner, variants in learners.items():
            lines = {
                title: [result[learner.__name__][title] for result in found.values()]
                for title, _ in variants
            }
            base = _means(lines[variants[0][0]], "error")
            for title, parameters in variants:
                errors = _means(lines[title], "error")
                n_fits += sum(len(line["error"]) for line in lines[title])
                rows.append(_row(_call(learner.__name__, parameters), errors, base, lines[title]))
                if (title, parameters) == TUNED and len(errors) > 1:
                    low, high = mean_interval(np.log(errors / base))
                    evidence = (
                        f"{np.exp(np.log(errors / base).mean()):.3f} ({np.exp(low):.3f} to"
                        f" {np.exp(high):.3f})."
                    )
                    claim = f"{TITLES[kind]}: {learner.__name__} has less error with a tuned width"
                    findings.append(target(claim, evidence, high < 0))
        head = (
            "learner",
            "mean error",
            "over the first (95 % interval)",
            "worst setting",
            "settings better",
            "seconds",
        )
        tables.append(Table(f"{TITLES[kind]} ({len(found)} settings)", head, rows))
    return Outcome(tables, findings, n_fits=n_fits)


def _call(name: str, parameters: dict[str, Any]) -> str:
    arguments = ", ".join(f'{key}="{value}"' for key, value in parameters.items())
    return f"{name}({arguments})"


def _means(lines: list[Result], what: str) -> Floats:
    """Over draws, one per setting."""
    return np.asarray([np.mean(line[what]) for line in lines])


def _row(call: str, errors: Floats, base: Floats, lines: list[Result]) -> tuple[Cell, ...]:
    seconds = float(np.median(_means(lines, "seconds")))
    ratios = errors / base
    mean = f"{np.exp(np.log(errors).mean()):.3f}"
    if np.array_equal(errors, base):
        return call, mean, "1", "1", "", f"{seconds:.3f}"
    low, high = (
        (float(np.exp(end)) for end in mean_interval(np.log(ratios)))
        if len(ratios) > 1
        else (np.nan, np.nan)
    )
    ratio = f"{np.exp(np.log(ratios).mean()):.3f} ({low:.3f} to {high:.3f})"
    return (
        call,
        mean,
        ratio,
        f"{ratios.max():.3f}",
        f"{int((ratios < 1).sum())} of {len(ratios)}",
        f"{seconds:.3f}",
    )


STUDY = Study(
    name="learner-defaults",
    title="What single learners should tune by default",
    about=(
        "RLS, RankRLS, KPCR, KPCRank, CoRLS and CoRankRLS with the kernel width 1 / (columns ·"
        ' variance) and with a width chosen by held-out error (`gamma="tune"`), and by different'
        " held-out errors. Mean error: geometric, over settings. What came of it: `RLS` and"
        ' `RankRLS` tune the width by default where scored rows are few (`gamma="auto"`). With'
        " views it takes seconds and the gain is not certain. `KPCR` and `KPCRank` keep theirs:"
        " components of wide kernels, which have no alpha, are lost in rounding, so that CSR and"
        " dense rows give different predictions. No other held-out error is better everywhere."
    ),
    parts=parts,
    conclude=conclude,
    files=(*REGRESSION, *RANKING, *CORA),
    fixed_draws=True,
)
STUDIES = (STUDY,)
