"""Real regression sets divided over three sites: what each reaches alone, together without showing
its rows, and pooled.

Protocol: columns standardised over all rows. A repeat divides the rows at random: 30 % scored, a
tenth at each of three sites, 40 % shared items without scores, 30 % test. "random": sites are
alike; "apart": the scored rows are sorted along their first principal direction and cut in three,
so that every site has seen another part of the world. rbf kernels; alpha tuned by each site on its
own rows. The agreement is one of five levels (0 among them), in units of scored rows / (items ·
other sites), chosen by the sites' held-out errors: each leaves out a third of its scored rows in
turn and all run the rounds on the rest. Sets of 150 rows and more, of those that share their rows
one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from corank import CoRLS
from corank_federated import Coordinator, InProcess, Limits, Plan, SharedItems, Site
from studies.data import REGRESSION, Floats, regression_names, regression_set
from studies.questions.methods import Draw, DrawMethod, Results, by_draw, draw_parts, fit_count
from studies.study import Outcome, Part, Result, Settings, Study, Table
from studies.verdicts import mean_interval, standard_error

ALONE, TOGETHER, POOLED = "alone", "federated", "pooled"
METHODS = (DrawMethod(ALONE, "Site"), DrawMethod(TOGETHER, "Site"), DrawMethod(POOLED, "CoRLS"))
SPLITS = ("random", "apart")
LEVELS = (0.0, 0.03, 0.3, 3.0, 30.0)
N_SITES, N_REPEATS, N_FOLDS, FEWEST = 3, 3, 3, 150
TWICE = ("machine_cpu", "cholesterol")  # the rows of cpu and cleveland
QUICK = ("autohorse", "bodyfat")
NAMES = tuple(f"site-{number + 1}" for number in range(N_SITES))

SiteRows = tuple[Floats, Floats]  # features and scores


def parts(settings: Settings) -> list[Part]:
    """One part per set, repeat, kind of split and method."""
    names = [name for name in regression_names(settings.folder) if name not in TWICE]
    if settings.quick:
        names = list(QUICK)
    else:
        names = [name for name in names if len(regression_set(settings.folder, name).y) >= FEWEST]
    repeats = range(1 if settings.quick else N_REPEATS)
    return draw_parts(
        run,
        [(name, repeat, split) for name in names for repeat in repeats for split in SPLITS],
        METHODS,
    )


def run(settings: Settings, rng: np.random.Generator, draw: Draw, method: DrawMethod) -> Result:
    """Errors of the sites' models and of their mean, in standard deviations of the test scores."""
    name, repeat, split = str(draw[0]), int(draw[1]), str(draw[2])
    sites, items, (X, y) = divided(settings.folder, name, repeat, split)
    rng = np.random.default_rng([repeat, crc32(name.encode()), 1])
    agreement = 0.0
    if method.title == POOLED:
        pooled = [np.concatenate(columns) for columns in zip(*sites, strict=True)]
        models = [CoRLS(views=1, agreement=0.0).fit(*pooled, unscored=items)]
    else:
        agreement = _best_agreement(sites, items, rng) if method.title == TOGETHER else 0.0
        models = _models_after_rounds(_parties(sites, items), agreement)
    predictions = np.stack([model.predict(X) for model in models])
    site = np.sqrt(np.mean((predictions - y) ** 2, axis=1)).mean()
    joint = np.sqrt(np.mean((predictions.mean(axis=0) - y) ** 2))
    return {"site": float(site / y.std()), "joint": float(joint / y.std()), "agreement": agreement}


def divided(
    folder: Path, name: str, repeat: int, split: str
) -> tuple[list[SiteRows], Floats, SiteRows]:
    """A draw: the sites' rows, the shared items, the test rows."""
    data = regression_set(folder, name).standardised()
    order = np.random.default_rng([repeat, crc32(name.encode())]).permutation(len(data.y))
    scored, shared, test = np.split(order, [round(0.3 * len(order)), round(0.7 * len(order))])
    if split == "apart":
        direction = np.linalg.svd(
            data.X[scored] - data.X[scored].mean(axis=0), full_matrices=False
        )[2][0]
        scored = scored[np.argsort(data.X[scored] @ direction)]
    sites = [(data.X[rows], data.y[rows]) for rows in np.array_split(scored, N_SITES)]
    return sites, data.X[shared], (data.X[test], data.y[test])


def _parties(sites: Sequence[SiteRows], items: Floats) -> list[Site]:
    shared, limits = SharedItems(items), Limits(rounds=10_000, norm=1e9)
    return [
        Site(name, CoRLS(), X, y, shared, limits=limits)
        for name, (X, y) in zip(NAMES, sites, strict=True)
    ]


def _models_after_rounds(parties: Sequence[Site], agreement: float) -> list[Any]:
    """Every site's model after the rounds; as they are where agreement is 0."""
    if agreement > 0:
        plan = Plan(f"agreement {agreement}", NAMES, agreement, tol=1e-4, max_rounds=100)
        Coordinator(plan, InProcess(parties)).run()
    return [party.model for party in parties]


def _best_agreement(sites: Sequence[SiteRows], items: Floats, rng: np.random.Generator) -> float:
    """The agreement of least held-out error, summed over sites and folds."""
    folds = [rng.permutation(len(y)) % N_FOLDS for _, y in sites]
    unit = min(len(y) for _, y in sites) / (len(items) * (N_SITES - 1))
    errors = np.zeros(len(LEVELS))
    for fold in range(N_FOLDS):
        kept = [
            (X[numbers != fold], y[numbers != fold])
            for (X, y), numbers in zip(sites, folds, strict=True)
        ]
        parties = _parties(kept, items)
        for at, level in enumerate(LEVELS):  # 0 first: the models alone
            models = _models_after_rounds(parties, level * unit)
            for model, (X, y), numbers in zip(models, sites, folds, strict=True):
                left_out = numbers == fold
                errors[at] += np.sum((y[left_out] - model.predict(X[left_out])) ** 2)
    return LEVELS[int(np.argmin(errors))] * unit


Repeats = list[dict[str, Result]]  # one entry per repeat, by method
KINDS = (("a site's own model", "site"), ("mean of the sites' models", "joint"))


def conclude(settings: Settings, results: Results) -> Outcome:
    """Errors beside those of a site alone, over sets and set by set."""
    draws = by_draw(results)
    sets: dict[tuple[str, str], Repeats] = {}
    for (name, _, split), by_method in draws.items():
        sets.setdefault((str(name), str(split)), []).append(by_method)
    tables = [
        _overall_table(split, [repeats for (_, other), repeats in sets.items() if other == split])
        for split in SPLITS
    ]
    agreed = [by_method[TOGETHER]["agreement"] > 0 for by_method in draws.values()]
    note = f"Sites chose to agree (agreement above 0) in {sum(agreed)} of {len(agreed)} draws."
    return Outcome([*tables, _set_table(sets)], notes=[note], n_fits=fit_count(results))


def _overall_table(split: str, sets: Sequence[Repeats]) -> Table:
    """Errors beside those of a site alone, over sets."""
    rows = []
    for method in (ALONE, TOGETHER, POOLED):
        for title, key in KINDS[:1] if method == POOLED else KINDS:
            ratios, errors = np.zeros(len(sets)), np.zeros(len(sets))
            for at, repeats in enumerate(sets):
                errors[at] = np.mean([by_method[method][key] for by_method in repeats])
                logs = [
                    np.log(by_method[method][key] / by_method[ALONE]["site"])
                    for by_method in repeats
                ]
                ratios[at] = np.mean(logs)
            low, high = mean_interval(ratios)
            rows.append(
                (
                    method if method == POOLED else f"{method}, {title}",
                    f"{errors.mean():.3f}",
                    f"{np.exp(ratios.mean()):.3f}",
                    f"{standard_error(ratios):.3f}",
                    f"{np.exp(low):.3f} to {np.exp(high):.3f}",
                    f"{int((ratios < 0).sum())} of {len(ratios)}",
                )
            )
    head = (
        "",
        "rmse / s.d.",
        "÷ a site alone",
        "s.e. of its log",
        "95 % interval over sets",
        "sets better",
    )
    return Table(
        f"Rows divided {'at random' if split == 'random' else 'so that sites lie apart'}",
        head,
        rows,
    )


def _set_table(sets: dict[tuple[str, str], Repeats]) -> Table:
    """Every set, sites alike and apart: alone, federated (site and mean), pooled."""
    rows = []
    for (name, split), repeats in sorted(sets.items()):
        cells = []
        for method, key in (
            (ALONE, "site"),
            (TOGETHER, "site"),
            (ALONE, "joint"),
            (TOGETHER, "joint"),
            (POOLED, "site"),
        ):
            errors = [by_method[method][key] for by_method in repeats]
            cells.append(f"{np.mean(errors):.3f} ± {standard_error(errors):.3f}")
        rows.append((name, split, *cells))
    head = ("set", "rows", "alone", "federated", "mean of alone", "mean of federated", "pooled")
    return Table("Every set: rmse / s.d. ± s.e. over repeats", head, rows, details=True)


STUDY = Study(
    name="federated",
    title="Three sites: alone, federated, pooled",
    about=__doc__ or "",
    parts=parts,
    conclude=conclude,
    files=REGRESSION,
    fixed_draws=True,
    with_results=True,
)
STUDIES = (STUDY,)
