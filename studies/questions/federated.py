"""Real regression sets divided over three sites: what each reaches alone, together without showing its rows, and pooled.

Protocol: columns standardised over all rows. A repeat divides the rows at random: 30 % scored, a tenth at each of three
sites, 40 % shared items without scores, 30 % test. "random": sites are alike; "apart": the scored rows are sorted along
their first principal direction and cut in three, so that every site has seen another part of the world. rbf kernels;
alpha tuned by each site on its own rows. The agreement is one of five levels (0 among them), in units of
scored rows / (items · other sites), chosen by the sites' held-out errors: each leaves out a third of its scored rows in
turn and all run the rounds on the rest. Sets of 150 rows and more, of those that share their rows one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from corank import CoRLS
from corank.experiments.uncertainty import mean_interval, standard_error
from corank.federated import Coordinator, InProcess, Limits, Plan, SharedItems, Site
from studies.questions.data import REGRESSION, Floats, regression_names, regression_set
from studies.questions.study import Job, Method, Options, Record, Result, Study, Summary, Table, all_jobs, by_draw

ALONE, TOGETHER, POOLED = "alone", "federated", "pooled"
METHODS = (Method(ALONE, "Site"), Method(TOGETHER, "Site"), Method(POOLED, "CoRLS"))
SPLITS = ("random", "apart")
LEVELS = (0.0, 0.03, 0.3, 3.0, 30.0)
N_SITES, N_REPEATS, N_FOLDS, FEWEST = 3, 3, 3, 150
TWICE = ("machine_cpu", "cholesterol")  # the rows of cpu and cleveland
QUICK = ("autohorse", "bodyfat")
NAMES = tuple(f"site-{v + 1}" for v in range(N_SITES))

Rows = tuple[Floats, Floats]


def jobs(options: Options) -> list[Job]:
    sizes = {name: len(regression_set(options.folder, name).y) for name in regression_names(options.folder)}
    names = QUICK if options.quick else [n for n, size in sizes.items() if size >= FEWEST and n not in TWICE]
    repeats = 1 if options.quick else N_REPEATS
    return all_jobs([(n, repeat, split) for n in names for repeat in range(repeats) for split in SPLITS], METHODS)


def run(options: Options, job: Job) -> Result:
    sites, items, (X, y) = parts(options.folder, str(job.draw[0]), int(job.draw[1]), str(job.draw[2]))
    rng = np.random.default_rng([int(job.draw[1]), crc32(str(job.draw[0]).encode()), 1])
    agreement = 0.0
    if job.method.title == POOLED:
        both = [np.concatenate(own) for own in zip(*sites, strict=True)]
        models = [CoRLS(views=1, agreement=0.0).fit(*both, unscored=items)]
    else:
        agreement = _chosen(sites, items, rng) if job.method.title == TOGETHER else 0.0
        models = _agreed(_parties(sites, items), agreement)
    predictions = np.stack([model.predict(X) for model in models])
    site = np.sqrt(np.mean((predictions - y) ** 2, axis=1)).mean()
    joint = np.sqrt(np.mean((predictions.mean(axis=0) - y) ** 2))
    return {"site": float(site / y.std()), "joint": float(joint / y.std()), "agreement": agreement}


def parts(folder: Path, name: str, repeat: int, split: str) -> tuple[list[Rows], Floats, Rows]:
    """A draw: the sites' rows, the shared items, the test rows."""
    data = regression_set(folder, name).standardised()
    order = np.random.default_rng([repeat, crc32(name.encode())]).permutation(len(data.y))
    scored, shared, test = np.split(order, [round(0.3 * len(order)), round(0.7 * len(order))])
    if split == "apart":
        direction = np.linalg.svd(data.X[scored] - data.X[scored].mean(axis=0), full_matrices=False)[2][0]
        scored = scored[np.argsort(data.X[scored] @ direction)]
    sites = [(data.X[own], data.y[own]) for own in np.array_split(scored, N_SITES)]
    return sites, data.X[shared], (data.X[test], data.y[test])


def _parties(sites: Sequence[Rows], items: Floats) -> list[Site]:
    shared, limits = SharedItems(items), Limits(rounds=10_000, norm=1e9)
    return [Site(name, CoRLS(), X, y, shared, limits=limits) for name, (X, y) in zip(NAMES, sites, strict=True)]


def _agreed(parties: Sequence[Site], agreement: float) -> list[Any]:
    """Every site's model after the rounds; as they are where agreement is 0."""
    if agreement > 0:
        plan = Plan(f"agreement {agreement}", NAMES, agreement, tol=1e-4, max_rounds=100)
        Coordinator(plan, InProcess(parties)).run()
    return [party.model for party in parties]


def _chosen(sites: Sequence[Rows], items: Floats, rng: np.random.Generator) -> float:
    """The agreement of least held-out error, summed over sites and folds."""
    folds = [rng.permutation(len(y)) % N_FOLDS for _, y in sites]
    unit = min(len(y) for _, y in sites) / (len(items) * (N_SITES - 1))
    errors = np.zeros(len(LEVELS))
    for fold in range(N_FOLDS):
        kept = [(X[own != fold], y[own != fold]) for (X, y), own in zip(sites, folds, strict=True)]
        parties = _parties(kept, items)
        for k, level in enumerate(LEVELS):  # 0 first: the models alone
            for model, (X, y), own in zip(_agreed(parties, level * unit), sites, folds, strict=True):
                errors[k] += np.sum((y[own == fold] - model.predict(X[own == fold])) ** 2)
    return LEVELS[int(np.argmin(errors))] * unit


def summarise(records: Sequence[Record]) -> Summary:
    tables = []
    for split in SPLITS:
        sets: dict[str, list[dict[str, Result]]] = {}
        for (name, _, own), results in by_draw(records).items():
            if own == split:
                sets.setdefault(str(name), []).append(results)
        tables.append(_overall(split, sets))
    picked = [results[TOGETHER]["agreement"] > 0 for results in by_draw(records).values()]
    note = f"Sites chose to agree (agreement above 0) in {sum(picked)} of {len(picked)} draws."
    return Summary([*tables, _by_set(records)], [], [note])


WHAT = (("a site's own model", "site"), ("mean of the sites' models", "joint"))


def _overall(split: str, sets: dict[str, list[dict[str, Result]]]) -> Table:
    """Errors beside those of a site alone, over sets."""
    rows = []
    for method in (ALONE, TOGETHER, POOLED):
        for words, key in WHAT[:1] if method == POOLED else WHAT:
            ratios = np.asarray(
                [np.mean([np.log(r[method][key] / r[ALONE]["site"]) for r in own]) for own in sets.values()]
            )
            low, high = mean_interval(ratios)
            error = np.asarray([np.mean([r[method][key] for r in own]) for own in sets.values()])
            rows.append(
                (
                    method if method == POOLED else f"{method}, {words}",
                    f"{error.mean():.3f}",
                    f"{np.exp(ratios.mean()):.3f}",
                    f"{standard_error(ratios):.3f}",
                    f"{np.exp(low):.3f} to {np.exp(high):.3f}",
                    f"{int((ratios < 0).sum())} of {len(ratios)}",
                )
            )
    head = ("", "rmse / s.d.", "÷ a site alone", "s.e. of its log", "95 % interval over sets", "sets better")
    return Table(f"Rows divided {'at random' if split == 'random' else 'so that sites lie apart'}", head, rows)


def _by_set(records: Sequence[Record]) -> Table:
    """Every set, sites alike and apart: alone, federated (site and mean), pooled."""
    found: dict[tuple[str, str], list[dict[str, Result]]] = {}
    for (name, _, split), results in by_draw(records).items():
        found.setdefault((str(name), str(split)), []).append(results)
    rows = []
    for (name, split), own in sorted(found.items()):
        cells = []
        for method, key in (
            (ALONE, "site"),
            (TOGETHER, "site"),
            (ALONE, "joint"),
            (TOGETHER, "joint"),
            (POOLED, "site"),
        ):
            errors = [results[method][key] for results in own]
            cells.append(f"{np.mean(errors):.3f} ± {standard_error(errors):.3f}")
        rows.append((name, split, *cells))
    head = ("set", "rows", "alone", "federated", "mean of alone", "mean of federated", "pooled")
    return Table("Every set: rmse / s.d. ± s.e. over repeats", head, rows)


STUDY = Study(
    name="federated",
    title="Three sites: alone, federated, pooled",
    about=__doc__ or "",
    draw_names=("set", "repeat", "split"),
    protocol=1,
    jobs=jobs,
    run=run,
    summarise=summarise,
    needs=REGRESSION,
)
