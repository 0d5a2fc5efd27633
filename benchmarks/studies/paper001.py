"""001 Fig. 1 on its own protocol: RLSR, semi-parametric and non-parametric coRLSR on regression sets.

Protocol (001 sect. 5; math.md section 5): raw attributes and targets, no intercept. k(x, z) = exp(-|x - z|² / sigma),
sigma the mean squared distance of the labelled rows, norm weight 1 / (their mean length), both from a view's own
attributes; disagreement weight 0.1. One fold of ten is labelled, nine are unlabelled and tested on; random halves of
the attributes. 20 runs, here two divisions into ten folds with every fold labelled once. Errors are divided by the
greatest target tested on, as printed. One-sided Wilcoxon signed rank tests over the sets, on the mean errors of the
runs.

The paper does not name its 32 sets; these are 32 of the same kind. Halves in which the labelled rows are all alike,
where sigma is 0, are drawn again. Nothing is tuned and nothing scaled: see the study `regression` for what a careful
user would do.
"""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

import numpy as np
from scipy.stats import wilcoxon
from sklearn.metrics import root_mean_squared_error
from sklearn.metrics.pairwise import euclidean_distances

from benchmarks.studies.data import REGRESSION, Floats, RegressionSet, regression_names, regression_set
from benchmarks.studies.study import (
    Job,
    Method,
    Options,
    Record,
    Result,
    Study,
    Summary,
    Table,
    Target,
    all_jobs,
    by_draw,
    method_titles,
)
from corank import RLS, CoRLS, View, random_split

N_RUNS, N_FOLDS, AGREEMENT = 20, 10, 0.1
QUICK = ("baskball", "pollution", "sleep")
SINGLE, SEMI, FULL = "RLSR", "semi-parametric", "non-parametric"
METHODS = (
    Method(SINGLE, "RLS"),
    Method(SEMI, "CoRLS", {"basis": "scored", "agreement": AGREEMENT}),
    Method(FULL, "CoRLS", {"basis": "all", "agreement": AGREEMENT}),
)
FINDINGS = ((FULL, SINGLE, 54), (SEMI, SINGLE, 66), (FULL, SEMI, 63))  # with the paper's statistics
LEVEL = 0.005  # the paper's
MAX_SPLITS = 1000


def jobs(options: Options) -> list[Job]:
    names = QUICK if options.quick else regression_names(options.folder)
    runs = N_FOLDS if options.quick else N_RUNS
    return all_jobs([(name, run) for name in names for run in range(runs)], METHODS)


def run(options: Options, job: Job) -> Result:
    name, number = str(job.draw[0]), int(job.draw[1])
    data, seed = regression_set(options.folder, name), crc32(name.encode())
    division, fold = divmod(number, N_FOLDS)
    folds = np.array_split(np.random.default_rng([division, seed]).permutation(len(data.y)), N_FOLDS)
    scored = folds.pop(fold)
    unscored = np.concatenate(folds)
    if job.method.learner == "RLS":
        sigma, norm_weight = heuristics(data.X[scored])
        single = RLS(alpha=norm_weight, kernel="rbf", gamma=1 / sigma, fit_intercept=False)
        predicted = single.fit(data.X[scored], data.y[scored]).predict(data.X[unscored])
    else:
        views = _views(data, data.X[scored], np.random.default_rng([number, seed, 1]))
        model = CoRLS(views, alpha=1.0, fit_intercept=False, **job.method.settings)
        model.fit(data.X[scored], data.y[scored], unscored=data.X[unscored])
        predicted = model.predict(data.X[unscored])
    truth = data.y[unscored]
    return {"error": float(root_mean_squared_error(truth, predicted) / truth.max())}


def heuristics(labelled: Floats) -> tuple[float, float]:
    """Sigma and the norm weight of 001 sect. 5, from the labelled rows (n, d)."""
    return float(euclidean_distances(labelled, squared=True).mean()), float(1 / np.linalg.norm(labelled, axis=1).mean())


def _views(data: RegressionSet, labelled: Floats, rng: np.random.Generator) -> list[View]:
    """Random halves of the attributes, each with its own kernel width and norm weight."""
    for _ in range(MAX_SPLITS):
        halves = [half.columns for half in random_split(2, data.attributes).views(data.X.shape[1], rng)]
        if all(np.ptp(labelled[:, half], axis=0).any() for half in halves):
            break
    else:
        raise ValueError("no halves of the attributes tell the labelled rows apart.")
    views = []
    for half in halves:
        sigma, norm_weight = heuristics(labelled[:, half])
        views.append(View(half, kernel="rbf", gamma=1 / sigma, penalty=norm_weight))
    return views


def summarise(records: Sequence[Record]) -> Summary:
    sets: dict[str, list[dict[str, Result]]] = {}
    for (name, _), results in by_draw(records).items():
        sets.setdefault(str(name), []).append(results)
    titles = method_titles(records)
    errors = {m: np.asarray([np.mean([own[m]["error"] for own in runs]) for runs in sets.values()]) for m in titles}
    rows, targets = [], []
    for better, worse, published in FINDINGS:
        a, b = errors[better], errors[worse]
        test = wilcoxon(
            a, b, alternative="less"
        )  # its statistic: the ranks of the sets where `better` is the worse one
        p, wins = float(test.pvalue), int((a < b).sum())
        rows.append((f"{better} < {worse}", f"{wins} of {len(a)}", f"{test.statistic:.0f}", str(published), f"{p:.1g}"))
        targets.append(Target(f"{better} has smaller errors than {worse}, p < {LEVEL}", p, f"p = {p:.1g}", p < LEVEL))
    means = [(method, f"{own.mean():.4f}", f"{np.median(own):.4f}") for method, own in errors.items()]
    single = [(name, *(f"{errors[m][k]:.4f}" for m in titles)) for k, name in enumerate(sets)]
    return Summary(
        [
            Table(f"Scaled rmse over {len(sets)} sets", ("method", "mean", "median"), means),
            Table("One-sided Wilcoxon tests", ("finding", "sets", "statistic", "in the paper", "p"), rows),
            Table("Set by set, scaled rmse", ("set", *titles), single),
        ],
        targets,
    )


STUDY = Study(
    name="paper001",
    title="001 Fig. 1: coRLSR on regression sets, on the paper's own protocol",
    about=(
        "32 sets (of the paper's kind; the paper does not name its own), raw attributes, uncentred targets, fixed "
        f"heuristics, disagreement weight {AGREEMENT}, random halves of the attributes as views, one fold of ten "
        f"labelled, {N_RUNS} runs."
    ),
    draw_names=("set", "run"),
    protocol=1,
    jobs=jobs,
    run=run,
    summarise=summarise,
    needs=REGRESSION,
)
