"""What the papers say of costs, and never measured: time against the size of the data, one method
beside another, sweeps and numbers sent.

All data are made up. A claim of O(nᵏ) is that of a fitted power: it holds where the 95 % interval of
the exponent over repetitions lies below k and a little more. Ratios have generous limits: what
counts is whether something is about as dear, or far cheaper.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import linalg

from corank import (
    KPCR,
    RLS,
    CoRankingPursuit,
    CoRankRLS,
    CoRLS,
    KPCRank,
    MatchingPursuit,
    RankingPursuit,
    RankRLS,
    TransductiveRankRLS,
    View,
)
from corank_federated import Coordinator, InProcess, Limits, Plan, SharedItems, Site
from studies.data import Floats
from studies.papers import PAPERS
from studies.study import Finding, Outcome, Part, Result, Settings, Study, Table
from studies.verdicts import at_most, growths

TIMES, QUICK_TIMES = 7, 5  # repetitions
SPARE = 0.5  # that an exponent may exceed the claimed one by
AS_LONG = 2.0  # "equal", "no increase": at most twice the time
CHEAP = 0.1  # a further parameter: at most a tenth of the first
FASTER = 0.5  # "faster": at most half the time
EVEN = 1.5  # sweeps per power of ten late in the run, beside those early in it
COLUMNS, QUERY = 8, 10
EPSILONS = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)

Fit = Callable[[], Any]


def rows(n: int, rng: np.random.Generator) -> tuple[Floats, Floats, Any]:
    """Rows in queries of ten with noisy scores."""
    X = rng.standard_normal((n, COLUMNS))
    y = np.sin(X[:, 0]) + X[:, 1] + 0.3 * rng.standard_normal(n)
    return X, y, np.arange(n) // QUERY


def seconds_of(fits: Sequence[Fit], times: int) -> list[list[float]]:
    """Processor seconds of every fit, in repetitions (repetitions, fits); one before them does not
    count.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fits[0]()
        return [[_seconds(fit) for fit in fits] for _ in range(times)]


def _seconds(fit: Fit) -> float:
    begin = time.process_time()
    fit()
    return time.process_time() - begin


# ---- how time grows: fits of growing size


def two_views(rng: np.random.Generator, size: int, *, n: int = 500, r: int = 100) -> Fit:
    """Sparse Co-RankRLS with `size` unscored rows."""
    X, y, qid = rows(n, rng)
    U, _, groups = rows(size, rng)
    views = [View(basis=np.sort(rng.permutation(n)[:r]), gamma=0.1) for _ in range(2)]
    model = CoRankRLS(views, alpha=1.0, agreement=0.1)
    return lambda: model.fit(X, y, qid=qid, unscored=U, unscored_qid=groups)


def co_rls(rng: np.random.Generator, size: int, *, vary: str, basis: str) -> Fit:
    """coRLSR where labelled rows, unlabelled rows or views grow."""
    n, m, count = 100, 1000, 2
    if vary == "labelled":
        n, m = size, 4000
    elif vary == "views":
        count, m = size, 300 if basis == "all" else 1000
        n = 100 if basis == "all" else 200
    X, y, _ = rows(n, rng)
    U, *_ = rows(m, rng)
    views = [View(columns, gamma=0.2) for columns in np.array_split(np.arange(COLUMNS), count)]
    model = CoRLS(views, alpha=1.0, agreement=0.1, basis=basis)
    return lambda: model.fit(X, y, unscored=U)


def components(rng: np.random.Generator, size: int, *, basis: Any) -> Fit:
    """KPCRank with 50 components."""
    X, y, qid = rows(size, rng)
    model = KPCRank(n_components=50, gamma=0.1, basis=basis)
    return lambda: model.fit(X, y, qid=qid)


def pursuit(rng: np.random.Generator, size: int, *, vary: str) -> Fit:
    """Ranking pursuit where the rows, which are the dictionary too, or the steps grow."""
    X, y, qid = rows(size if vary == "rows" else 2000, rng)
    steps = 20 if vary == "rows" else size
    model = RankingPursuit(n_atoms=steps, gamma=0.1, refit="basic")
    return lambda: model.fit(X, y, qid=qid)


def co_pursuit(rng: np.random.Generator, size: int, *, vary: str, search: str) -> Fit:
    """Semi-supervised pursuit of two views where scored or unscored rows grow."""
    n, m = (200, size) if vary == "unscored" else (size, 2000)
    X, y, qid = rows(n, rng)
    U, _, groups = rows(m, rng)
    halves = np.array_split(np.arange(COLUMNS), 2)
    views = [View(half, gamma=0.1, basis="scored") for half in halves]
    model = CoRankingPursuit(
        views, n_atoms=10, agreement=0.1, search=search, refit="basic", objective="exact"
    )
    return lambda: model.fit(X, y, qid=qid, unscored=U, unscored_qid=groups)


def transduction(rng: np.random.Generator, size: int) -> Fit:
    """Transductive RankRLS, half of whose rows are scored."""
    X, y, qid = rows(size, rng)
    y[len(y) // 2 :] = np.nan
    model = TransductiveRankRLS(alpha=1.0, gamma=0.1, pull=1.0)
    return lambda: model.fit(X, y, qid=qid)


def run_growth(
    settings: Settings, rng: np.random.Generator, of: str, sizes: list[int], **arguments: Any
) -> Result:
    """Seconds of fits of growing size."""
    fits = [MAKERS[of](rng, size, **arguments) for size in sizes]
    return {"sizes": sizes, "seconds": seconds_of(fits, _times(settings))}


MAKERS: dict[str, Callable[..., Fit]] = {
    "two views": two_views,
    "co_rls": co_rls,
    "components": components,
    "pursuit": pursuit,
    "co_pursuit": co_pursuit,
    "transduction": transduction,
}


def _times(settings: Settings) -> int:
    return QUICK_TIMES if settings.quick else TIMES


# ---- one thing beside another


def further_lambda(rng: np.random.Generator) -> list[Fit]:
    """Sparse Co-RankRLS with one lambda and with 21, fixed nu; held-out errors and all."""
    X, y, qid = rows(1000, rng)
    U, _, groups = rows(5000, rng)
    views = [View(basis=np.sort(rng.permutation(1000)[:200]), gamma=0.1) for _ in range(2)]

    def fit(alpha: Any) -> Fit:
        model = CoRankRLS(views, alpha=alpha, agreement=0.5)
        return lambda: model.fit(X, y, qid=qid, unscored=U, unscored_qid=groups)

    return [fit([1.0]), fit([float(alpha) for alpha in np.logspace(-3, 3, 21)])]


def rankers_and_regressors(kind: str) -> Callable[[np.random.Generator], list[Fit]]:
    """A ranker beside the regressor of its kind."""

    def fits(rng: np.random.Generator) -> list[Fit]:
        X, y, qid = rows(1000, rng)
        if kind == "components":
            ranker, regressor = (
                learner(n_components=50, gamma=0.1, basis="all") for learner in (KPCRank, KPCR)
            )
        elif kind == "pursuit":
            ranker, regressor = (
                learner(n_atoms=30, gamma=0.1, refit="basic")
                for learner in (RankingPursuit, MatchingPursuit)
            )
        else:
            ranker, regressor = (
                learner(alpha=1.0, gamma=0.1, basis="all") for learner in (RankRLS, RLS)
            )
        return [lambda: regressor.fit(X, y), lambda: ranker.fit(X, y, qid=qid)]

    return fits


def all_numbers_of_components(rng: np.random.Generator) -> list[Fit]:
    """KPCRank with 50 components, and with their number chosen among 1 to 200 by held-out errors."""
    X, y, qid = rows(1000, rng)
    fixed, tuned = (KPCRank(n_components=number, gamma=0.1, basis="all") for number in (50, "tune"))
    return [lambda: fixed.fit(X, y, qid=qid), lambda: tuned.fit(X, y, qid=qid)]


def hold_outs(rng: np.random.Generator) -> list[Fit]:
    """One eigendecomposition; RankRLS with all leave-query-out errors of twenty alphas."""
    X, y, qid = rows(1000, rng)
    square = X @ X.T
    alphas = [float(alpha) for alpha in np.logspace(-3, 3, 20)]
    model = RankRLS(alpha=alphas, gamma=0.1, basis="all")
    return [lambda: linalg.eigh(square), lambda: model.fit(X, y, qid=qid)]


def predictions(rng: np.random.Generator) -> list[Fit]:
    """Predictions of RankRLS on all rows and of a pursuit with twenty atoms."""
    X, y, qid = rows(2000, rng)
    new, *_ = rows(5000, rng)
    dense = RankRLS(alpha=1.0, gamma=0.1, basis="all").fit(X, y, qid=qid)
    sparse = RankingPursuit(n_atoms=20, gamma=0.1).fit(X, y, qid=qid)
    return [lambda: dense.predict(new), lambda: sparse.predict(new)]


def near_optimal(rng: np.random.Generator) -> list[Fit]:
    """Pursuit of two views for one solution, and for five."""
    X, y, qid = rows(200, rng)
    U, _, groups = rows(500, rng)
    halves = np.array_split(np.arange(COLUMNS), 2)
    views = [View(half, gamma=0.1, basis="scored") for half in halves]

    def fit(number: int) -> Fit:
        model = CoRankingPursuit(views, n_atoms=8, agreement=0.1, n_solutions=number)
        return lambda: model.fit(X, y, qid=qid, unscored=U, unscored_qid=groups)

    return [fit(1), fit(5)]


PAIRS: dict[str, Callable[[np.random.Generator], list[Fit]]] = {
    "further lambda": further_lambda,
    "ridge": rankers_and_regressors("ridge"),
    "components": rankers_and_regressors("components"),
    "pursuit": rankers_and_regressors("pursuit"),
    "numbers of components": all_numbers_of_components,
    "hold-outs": hold_outs,
    "predictions": predictions,
    "near-optimal": near_optimal,
}


def run_pair(settings: Settings, rng: np.random.Generator, of: str) -> Result:
    """Seconds of both."""
    return {"seconds": seconds_of(PAIRS[of](rng), _times(settings))}


# ---- counted, not timed


def run_sweeps(settings: Settings, rng: np.random.Generator) -> Result:
    """Sweeps that block coordinate descent takes to each accuracy: one list per set of rows."""
    counts = []
    for _ in range(_times(settings)):
        X, y, _ = rows(100, rng)
        U, *_ = rows(300, rng)
        views = [View(half, gamma=0.2) for half in np.array_split(np.arange(COLUMNS), 2)]
        sweeps = []
        for epsilon in EPSILONS:
            model = CoRLS(views, alpha=1.0, agreement=0.3, solver="coordinate", tol=epsilon)
            sweeps.append(int(model.fit(X, y, unscored=U).n_iter_))
        counts.append(sweeps)
    return {"sweeps": counts}


def run_bytes(settings: Settings, rng: np.random.Generator, vary: str, sizes: list[int]) -> Result:
    """Bytes per round that sites and coordinator exchange, by the number of shared items or of
    sites; the first ten rounds say it.
    """
    exchanged = []
    for size in sizes:
        m, count = (size, 3) if vary == "items" else (250, size)
        items, *_ = rows(m, rng)
        shared, limits = SharedItems(items), Limits(rounds=10_000, norm=1e9)
        names = tuple(f"site-{number + 1}" for number in range(count))
        sites = []
        for name in names:
            X, y, _ = rows(40, rng)
            sites.append(Site(name, learner_of_site(), X, y, shared, limits=limits))
        plan = Plan(f"{vary} {size}", names, 0.3, tol=1e-6, max_rounds=10)
        report = Coordinator(plan, InProcess(sites)).run()
        exchanged.append(report.bytes / len(report.rounds))
    return {"sizes": sizes, "bytes": [exchanged]}


def learner_of_site() -> CoRLS:
    """The learner of a site."""
    return CoRLS(alpha=1.0, views=[View(gamma=0.2)])


# ---- the claims


@dataclass(frozen=True)
class Power:
    """A claim that time, or what is sent, grows as a power.

    of, sizes, arguments : of `run_growth`; quick : fewer sizes
    claimed : the exponent; what : of what
    """

    key: str
    source: str
    claim: str
    of: str
    claimed: int
    what: str
    sizes: tuple[int, ...]
    quick: tuple[int, ...]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    case: str = ""


@dataclass(frozen=True)
class Ratio:
    """A claim about one thing beside another; `per`: how many times the second is more of it."""

    key: str
    source: str
    claim: str
    limit: float
    what: str
    per: int = 0


SEMI_ALL = "The full search of semi-supervised pursuit takes O(P n^M (M^3 + M^2 l))"
LINEAR = "The training time of KPCRank scales linearly with the number of data points"
POWERS = (
    Power(
        "unscored, co-rank",
        "Tsivtsivadze2010 theorem 1",
        "Sparse Co-RankRLS is linear in the number of unscored items",
        "two views",
        1,
        "unscored rows",
        (20_000, 40_000, 80_000, 160_000),
        (20_000, 40_000, 80_000),
    ),
    *(
        Power(
            f"{vary}, {basis}",
            f"Brefeld2006 {source}",
            claim,
            "co_rls",
            claimed,
            f"{vary} rows" if vary == "labelled" else vary,
            sizes,
            sizes,
            {"vary": vary, "basis": basis},
            f"in {vary} rows" if vary == "labelled" else f"in {vary}",
        )
        for basis, source, claim, powers in (
            (
                "all",
                "prop. 3.1",
                "Non-parametric coRLSR takes O(M^3 m^3)",
                (("views", 3, (2, 4, 8)),),
            ),
            (
                "scored",
                "prop. 3.2",
                "Semi-parametric coRLSR takes O(M^3 n^2 m)",
                (("views", 3, (2, 4, 8)), ("labelled", 2, (200, 400, 800))),
            ),
        )
        for vary, claimed, sizes in powers
    ),
    *(
        Power(
            f"rows, components, {basis}",
            "Tsivtsivadze2009 abstract",
            LINEAR,
            "components",
            1,
            "rows",
            sizes,
            sizes,
            {"basis": basis},
            case,
        )
        for basis, sizes, case in (
            ("all", (500, 1000, 2000), "components of all rows"),
            (200, (4000, 8000, 16_000), "components of 200 rows"),
        )
    ),
    *(
        Power(
            f"{vary}, pursuit",
            "Tsivtsivadze2013 sect. 3.1",
            "Ranking pursuit takes O(P n^2)",
            "pursuit",
            claimed,
            vary,
            sizes,
            sizes,
            {"vary": vary},
            f"in {vary}",
        )
        for vary, claimed, sizes in (("rows", 2, (1500, 3000, 6000)), ("steps", 1, (20, 40, 80)))
    ),
    *(
        Power(
            f"{vary} rows, co-pursuit, {search}",
            "Tsivtsivadze2013 sect. 3.1",
            SEMI_ALL if search == "full" else "Tied, it takes O(P M^3 n l)",
            "co_pursuit",
            2 if (search, vary) == ("full", "scored") else 1,
            f"{vary} rows",
            sizes,
            sizes,
            {"vary": vary, "search": search},
            f"in {vary} rows, {search}",
        )
        for search in ("full", "tied")
        for vary, sizes in (
            ("unscored", (4000, 8000, 16_000)),
            ("scored", (100, 200, 400)),
        )
    ),
    Power(
        "rows, transduction",
        "Pahikkala2007 sect. 3",
        "Transductive RankRLS takes O(m^3)",
        "transduction",
        3,
        "rows",
        (500, 1000, 2000),
        (500, 1000, 2000),
    ),
)
RATIOS = (
    Ratio(
        "further lambda",
        "Tsivtsivadze2010 sect. 5",
        "A further lambda is cheap beside the first",
        CHEAP,
        "with its held-out errors it takes {} of the time of the first",
        20,
    ),
    Ratio(
        "ridge",
        "Pahikkala2007 sect. 2",
        "The complexity of RankRLS is equal to that of RLS",
        AS_LONG,
        "RankRLS takes {} times as long, 1,000 rows",
    ),
    Ratio(
        "hold-outs",
        "Pahikkala2007 sect. 3.1",
        "Hold-out is O(m^2 + |U|^3) beside the O(m^3) of training",
        AS_LONG,
        "RankRLS with the leave-query-out errors of 20 alphas takes {} times as long as one"
        " eigendecomposition, 1,000 rows in queries of ten",
    ),
    Ratio(
        "components",
        "Tsivtsivadze2009 abstract",
        "The training time of KPCRank is equal to that of principal component regression",
        AS_LONG,
        "KPCRank takes {} times as long as KPCR, 1,000 rows",
    ),
    Ratio(
        "numbers of components",
        "Tsivtsivadze2009 sect. 4.2",
        "The number of components is found by a single decomposition",
        AS_LONG,
        "choosing among 1 to 200 takes {} times as long as 50 components alone, 1,000 rows",
    ),
    Ratio(
        "pursuit",
        "Tsivtsivadze2013 sect. 3.1",
        "Ranking pursuit takes no more time than kernel matching pursuit",
        AS_LONG,
        "it takes {} times as long, 1,000 rows, 30 steps",
    ),
    Ratio(
        "predictions",
        "Tsivtsivadze2013 sect. 1",
        "Sparse models predict notably faster",
        FASTER,
        "20 atoms take {} of the time of RankRLS on 2,000 rows",
    ),
    Ratio(
        "near-optimal",
        "Tsivtsivadze2013 sect. 1",
        "Several near-optimal solutions can be searched for efficiently",
        1.0,
        "each of four further solutions takes {} of the time of the first",
        4,
    ),
)
SENT = {
    "items": ("shared items", (250, 500, 1000)),
    "sites": ("sites", (2, 4, 8)),
}


def parts(settings: Settings) -> list[Part]:
    """What is timed stands alone."""
    made = [
        Part(
            power.key,
            run_growth,
            {
                "of": power.of,
                "sizes": list(power.quick if settings.quick else power.sizes),
                **power.arguments,
            },
            alone=True,
        )
        for power in POWERS
    ]
    made += [Part(ratio.key, run_pair, {"of": ratio.key}, alone=True) for ratio in RATIOS]
    made += [
        Part(f"bytes, {vary}", run_bytes, {"vary": vary, "sizes": list(sizes)})
        for vary, (_, sizes) in SENT.items()
    ]
    return [*made, Part("sweeps", run_sweeps)]


def conclude(settings: Settings, results: Mapping[str, Result]) -> Outcome:
    """What became of every claim."""
    findings = [_power_finding(power, results[power.key]) for power in POWERS]
    findings += [_ratio_finding(ratio, results[ratio.key]) for ratio in RATIOS]
    findings += [_sweep_finding(results["sweeps"])]
    findings += [_sent_finding(vary, results[f"bytes, {vary}"]) for vary in SENT]
    order = list(PAPERS)
    findings.sort(key=lambda finding: order.index(finding.source.split()[0]))
    times = len(next(iter(results.values()))["seconds"])
    n_fits = times * (sum(len(power.sizes) for power in POWERS) + 2 * len(RATIOS))
    return Outcome([_time_table(results), _sweep_table(results["sweeps"])], findings, n_fits=n_fits)


def _power_finding(power: Power, result: Result) -> Finding:
    sizes = result["sizes"]
    evidence = (
        f"time grows to the power {{}} from {sizes[0]:,} to {sizes[-1]:,} {power.what};"
        f" {min(row[-1] for row in result['seconds']):.3f} s with the most"
    )
    exponents = growths(sizes, result["seconds"])
    limit = power.claimed + SPARE
    return at_most(power.source, power.claim, exponents, limit, evidence, case=power.case)


def _ratio_finding(ratio: Ratio, result: Result) -> Finding:
    first, second = np.asarray(result["seconds"]).T
    ratios = (second - first) / ratio.per / first if ratio.per else second / first
    return at_most(ratio.source, ratio.claim, ratios, ratio.limit, ratio.what, digits=3)


def _sweep_finding(result: Result) -> Finding:
    """Sweeps per power of ten of accuracy: as many late in a run as early in it."""
    sweeps, middle = np.asarray(result["sweeps"], dtype=float), len(EPSILONS) // 2
    late = sweeps[:, -1] - sweeps[:, middle]
    early = sweeps[:, middle] - sweeps[:, 0]
    counts = ", ".join(f"{count:.0f}" for count in sweeps.mean(axis=0))
    return at_most(
        "Brefeld2006 sect. 4.3",
        "Algorithm 1 takes O(log 1/eps) iterations to an accuracy of eps",
        late / early,
        EVEN,
        f"{{}} times as many sweeps for the last {middle} powers of ten as for the {middle} before"
        f" them; {counts} sweeps to 1e-2, …, 1e-8",
    )


def _sent_finding(vary: str, result: Result) -> Finding:
    """One exponent: bytes are counted, and the same in every run."""
    what, sizes = SENT[vary][0], result["sizes"]
    exponents = np.repeat(growths(sizes, result["bytes"]), 2)
    return at_most(
        "Brefeld2006 sect. 4.3",
        "O(M m) numbers are sent per iteration",
        exponents,
        1 + SPARE,
        f"bytes of a round grow to the power {{}} from {sizes[0]:,} to {sizes[-1]:,} {what};"
        f" {result['bytes'][0][-1]:,.0f} bytes with the most",
        case=f"in {what}",
    )


def _time_table(results: Mapping[str, Result]) -> Table:
    rows = [
        (
            f"{power.claim} ({power.case})" if power.case else power.claim,
            f"{size:,} {power.what}",
            float(np.median(column)),
            min(column),
            max(column),
        )
        for power in POWERS
        for size, column in zip(
            results[power.key]["sizes"], np.asarray(results[power.key]["seconds"]).T, strict=True
        )
    ]
    head = ("claim", "size", "median", "least", "most")
    return Table("Processor seconds of one fit", head, rows, digits=4, details=True)


def _sweep_table(result: Result) -> Table:
    means = np.asarray(result["sweeps"], dtype=float).mean(axis=0)
    rows = [(f"{epsilon:g}", float(mean)) for epsilon, mean in zip(EPSILONS, means, strict=True)]
    title = "Sweeps of block coordinate descent until the gradient is that share of the first"
    return Table(title, ("share", "sweeps"), rows, digits=1)


STUDY = Study(
    name="costs",
    title="What the papers say of costs",
    sources=(
        "Tsivtsivadze2010 sect. 4, 5",
        "Brefeld2006 sect. 3, 4.3",
        "Tsivtsivadze2009 sect. 4",
        "Tsivtsivadze2013 sect. 3.1",
        "Pahikkala2007 sect. 2, 3",
    ),
    about=(
        "Made-up data of eight columns, queries of ten rows; processor time on one thread,"
        f" {TIMES} repetitions. An exponent is fitted by least squares to the logarithms of size"
        " and time, one per repetition, and has Student's 95 % interval over them; a claim of"
        f" O(n^k) holds where the interval ends below k + {SPARE}, and does not where it begins"
        f" above. Ratios: {AS_LONG:g} counts as equal, {CHEAP:g} as cheap, {FASTER:g} as faster,"
        f" {EVEN:g} as even. Small sizes flatter: below them the time is that of the overhead."
    ),
    parts=parts,
    conclude=conclude,
)
STUDIES = (STUDY,)
