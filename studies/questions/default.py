"""What users get by default, beside tuned peers: AutoRegressor and AutoRanker with few scores.

Protocol: scored rows (queries) are drawn at random; of the others some are unscored and others are
tested on, which are never among the unscored ones. Every method sees the same draws; peers are
tuned over 200 settings each by held-out error on the scored rows (`corank.experiments`), forests
and scikit-learn's Gaussian process as they are recommended. Errors of a setting (a set and a number
of scores) are means over draws; settings are compared by ratios of those, and ratios are summed up
by geometric means, with the worst setting beside them.

* regression: 32 small sets, 20, 50 and 100 scored rows, where a set has twice as many and 30 rows
  more; root mean squared error. Columns are standardised over training rows.
* ranking: LightGBM's own ranking data, 4, 8 and 16 scored queries, 60 unscored ones, 50 test
  queries; disagreement.
* orders: Jester, sushi and Cora (words only) as in `headline`; disagreement.
* views: Cora with words and links declared as views; `make_two_views` with linear views and no
  intercept, also with noise in the place of the second view.
* honesty: of the same fits, whether 95 % intervals hold the scores they should, the error that a
  model states beside the true one, and whether unscored rows did what `unscored_effect_` says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias
from zlib import crc32

import numpy as np
from scipy import stats
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.svm import SVR

from corank import AutoRanker, AutoRegressor, CoRankRLS, RankRLS, View, random_split
from corank.datasets import make_two_views
from corank.experiments import Task
from corank.experiments.methods import Family, MethodRows, fit_tuned, widths
from corank.metrics import disagreement_error
from studies.data import (
    CORA,
    JESTER,
    RANKING,
    REGRESSION,
    SUSHI,
    Floats,
    cora,
    regression_names,
    regression_set,
)
from studies.peers import fit_method
from studies.questions.cora import labelled
from studies.questions.headline import SIZES, UNSCORED, query_task
from studies.questions.methods import Draw, DrawMethod, Results, by_draw, draw_parts, fit_count
from studies.questions.two_views import with_noise
from studies.study import Cell, Finding, Outcome, Part, Result, Settings, Study, Table, target
from studies.verdicts import mean_interval

N_SCORES, N_TEST, N_REPEATS, N_DRAWS = (20, 50, 100), 500, 5, 20
QUERY_COUNTS = (4, 8, 16)
FIRST_SEED = 1000  # of the generated data: seeds on which nothing was developed
QUICK_SETS = ("baskball", "pollution", "sleep")
AUTO, GP, TREES = "the default", "Gaussian process (evidence)", "extra trees"
TUNED_RANKER, SIDE_BY_SIDE, CO_REGULARISED = (
    'RankRLS(gamma="tune")',
    "one linear model",
    "CoRankRLS (cosine)",
)
REGRESSION_PEERS = {
    "kernel ridge": "kernelridge",
    "ridge": "ridge",
    "support vectors": "svr",
    "LightGBM": "lightgbm",
}
ORDER_PEERS = {
    "RankRLS": "rankrls",
    "CoRankRLS": "corankrls",
    "views averaged": "averaged",
    "pursuit": "pursuit",
    "LightGBM": "lightgbm",
}
METHODS: dict[str, dict[str, str]] = {
    "regression": {AUTO: "auto", GP: "gp", TREES: "trees", **REGRESSION_PEERS},
    "ranking": {AUTO: "auto", TUNED_RANKER: "tuned", "LightGBM": "lightgbm"},
    "jester": {AUTO: "auto", **ORDER_PEERS},
    "sushi": {AUTO: "auto", **ORDER_PEERS},
    "cora": {AUTO: "auto", **ORDER_PEERS},
    "words and links": {AUTO: "auto", SIDE_BY_SIDE: "linear", CO_REGULARISED: "cosine"},
    "two views": {AUTO: "auto", "RLS": "rls", "CoRLS": "corls"},
    "noise view": {AUTO: "auto", "RLS": "rls", "CoRLS": "corls"},
}
Setting: TypeAlias = tuple[str, str, int]  # kind, set, number of scores


def parts(settings: Settings) -> list[Part]:
    """One part per draw and method."""
    found: list[Part] = []
    for kind, methods in METHODS.items():
        draws: list[Draw] = [
            (kind, name, size, number)
            for name, size in _settings(settings, kind)
            for number in range(
                1 if settings.quick else N_REPEATS if kind == "regression" else N_DRAWS
            )
        ]
        found += draw_parts(
            run, draws, [DrawMethod(title, method) for title, method in methods.items()]
        )
    return found


def _settings(settings: Settings, kind: str) -> list[tuple[str, int]]:
    """Sets and numbers of scores."""
    if kind == "regression":
        names = QUICK_SETS if settings.quick else regression_names(settings.folder)
        rows = {name: len(regression_set(settings.folder, name).y) for name in names}
        found = [(name, size) for name in names for size in N_SCORES if rows[name] >= 2 * size + 30]
    elif kind in ("two views", "noise view"):
        found = [(kind, 20)]
    elif kind == "words and links":
        found = [("cora", size) for size in SIZES["cora"]]
    else:
        found = [(kind, size) for size in (QUERY_COUNTS if kind == "ranking" else SIZES[kind])]
    return (
        found[:3]
        if settings.quick and kind == "regression"
        else found[:1]
        if settings.quick
        else found
    )


def run(settings: Settings, rng: np.random.Generator, draw: Draw, method: DrawMethod) -> Result:
    """The test error of a method on a draw; for the default also what it says about itself."""
    kind, name, size, number = str(draw[0]), str(draw[1]), int(draw[2]), int(draw[3])
    folder, learner = settings.data, method.learner
    if kind == "regression":
        return _regression(settings.folder, name, size, number, learner)
    if kind in ("two views", "noise view"):
        return _generated(number, learner, noise=kind == "noise view")
    assert folder is not None
    task, truth = order_task(folder, kind, size, number)
    if learner == "auto":
        return _ranker(task, truth)
    if learner == "tuned":
        X, y, qid = task.scored
        predicted = RankRLS(gamma="tune").fit(X, y, qid=qid).predict(task.X_test)
    elif learner == "linear":
        predicted = RankRLS(kernel="linear").fit(*task.scored[:2]).predict(task.X_test)
    elif learner == "cosine":
        views = [View(view.columns, kernel="cosine", name=view.name) for view in task.views]
        predicted = CoRankRLS(views, random_state=number).fit(task.X, task.y).predict(task.X_test)
    else:
        predicted = fit_method(learner, task).predict(task.X_test)
    return {"error": _disagreement(truth, predicted, task.qid_test)}


def _disagreement(truth: Floats, predicted: Any, qid: Any) -> float:
    return float(disagreement_error(truth, predicted, qid=qid))


# ---- rows of a draw


def order_task(folder: Path, kind: str, size: int, number: int) -> tuple[Task, Floats]:
    """The rows of a draw of queries or papers, and the scores of the test rows."""
    if kind in ("ranking", "jester", "sushi"):
        return query_task(folder, kind, size, number)
    data = cora(folder)
    truth = (data.label == number % 7).astype(float)
    order = np.random.default_rng([number, 13]).permutation(len(truth))
    scored = labelled(order, truth, size, half=True)
    others = order[::-1][~np.isin(order[::-1], scored)]
    unscored, test = others[: UNSCORED["cora"]], others[UNSCORED["cora"] :]
    rows = np.concatenate([scored, unscored])
    y = np.concatenate([truth[scored], np.full(len(unscored), np.nan)])
    X: Any = data.words
    views: Any = random_split(2)
    if kind == "words and links":
        from scipy import sparse

        X, n_words = (
            sparse.csr_array(sparse.hstack([data.words, data.links], format="csr")),
            data.words.shape[1],
        )
        views = [View(slice(0, n_words), name="words"), View(slice(n_words, None), name="links")]
    return Task(X[rows], y, None, X[test], None, views, "disagreement", number), truth[test]


def regression_task(folder: Path, name: str, size: int, number: int) -> tuple[Task, Floats]:
    """The rows of a draw of a regression set, and the scores of the test rows."""
    data = regression_set(folder, name)
    order = np.random.default_rng([number, size, crc32(name.encode())]).permutation(len(data.y))
    scored, others = order[:size], order[size:]
    test, unscored = (
        others[: min(N_TEST, len(others) // 2)],
        others[min(N_TEST, len(others) // 2) :][:1000],
    )
    rows = np.concatenate([scored, unscored])
    X, X_test = standardised(data.X[rows], data.X[test])
    y = np.concatenate([data.y[scored], np.full(len(unscored), np.nan)])
    return Task(X, y, None, X_test, None, None, "rmse", number), data.y[test]


def standardised(X: Floats, X_test: Floats) -> tuple[Floats, Floats]:
    """Columns of mean 0 and variance 1 over the rows of X; constant ones dropped."""
    centre, spread = X.mean(axis=0), X.std(axis=0)
    varies = spread > 1e-12 * np.maximum(1, np.abs(X).max(axis=0))
    centre, spread = centre[varies], spread[varies]
    return (X[:, varies] - centre) / spread, (X_test[:, varies] - centre) / spread


# ---- fits


def _regression(folder: Path, name: str, size: int, number: int, learner: str) -> Result:
    task, truth = regression_task(folder, name, size, number)
    X, y, _ = task.scored
    if learner == "auto":
        model = AutoRegressor(random_state=number).fit(task.X, task.y)
        mean, deviation = model.predict(task.X_test, return_std=True)
        without = AutoRegressor(random_state=number).fit(X, y).predict(task.X_test)
        return {
            **_scored_by(truth, mean, deviation),
            "stated": float(model.held_out_error_),
            "variance": float(regression_set(folder, name).y.var()),
            **_effect(model, float(np.mean((truth - without) ** 2) - np.mean((truth - mean) ** 2))),
        }
    if learner == "gp":
        kernel = ConstantKernel(1.0) * RBF(np.sqrt(X.shape[1])) + WhiteKernel(0.1)
        gp = GaussianProcessRegressor(
            kernel, normalize_y=True, n_restarts_optimizer=2, random_state=number
        ).fit(X, y)
        return _scored_by(truth, *gp.predict(task.X_test, return_std=True))
    if learner == "trees":
        predicted = ExtraTreesRegressor(200, random_state=number).fit(X, y).predict(task.X_test)
    elif learner == "svr":
        predicted = _support_vectors(task).predict(task.X_test)
    else:
        predicted = fit_method(learner, task).predict(task.X_test)
    return {"error": rmse(truth, predicted)}


def rmse(truth: Floats, predicted: Any) -> float:
    """The root mean squared error."""
    return float(np.sqrt(np.mean((truth - np.asarray(predicted)) ** 2)))


def _scored_by(truth: Floats, mean: Any, deviation: Any) -> Result:
    """Error, share within 95 % intervals, and mean log density of predictions that have standard
    deviations.
    """
    deviation = np.maximum(deviation, 1e-12)
    inside = np.abs(truth - mean) <= stats.norm.ppf(0.975) * deviation
    density = stats.norm.logpdf(truth, mean, deviation)
    return {
        "error": rmse(truth, mean),
        "inside": float(inside.mean()),
        "density": float(density.mean()),
    }


def _effect(model: Any, gain: float) -> Result:
    """What the model says of unscored rows, and what they brought on test rows (below 0: they did
    harm).
    """
    effect = model.unscored_effect_
    if effect is None:
        return {"gain": gain}
    numbers = (
        effect.error_with,
        effect.error_without,
        effect.difference,
        effect.standard_error,
        effect.n_held_out,
    )
    return {"verdict": effect.verdict, "effect": numbers, "gain": gain}


def _support_vectors(task: Task) -> Any:
    """Support vector regression with an rbf kernel: ten widths by ten costs by two tubes."""
    level, spread = float(task.scored[1].mean()), float(task.scored[1].std()) or 1.0

    def family(gamma: float) -> Family:
        grid = [
            {"gamma": gamma, "C": float(cost), "epsilon": tube}
            for cost in np.logspace(-1.5, 3, 10)
            for tube in (0.02, 0.2)
        ]

        def fit(
            rows: MethodRows, seed: int
        ) -> tuple[Callable[[Any], Floats], Callable[[int], int]]:
            models = [SVR(**setting).fit(rows.X, (rows.y - level) / spread) for setting in grid]
            return (
                lambda X: level + spread * np.stack([model.predict(X) for model in models], axis=1),
                lambda at: 0,
            )

        return Family(grid, fit)

    return fit_tuned([family(float(gamma)) for gamma in widths(task.scored[0])], task)


def _ranker(task: Task, truth: Floats) -> Result:
    views = task.views if isinstance(task.views, list) and task.views[0].name == "words" else None
    X, y, qid = task.scored
    model, plain = (AutoRanker(views, random_state=task.seed) for _ in range(2))
    model.fit(task.X, task.y, qid=task.qid)
    plain.fit(X, y, qid=qid)
    error, without = (
        _disagreement(truth, m.predict(task.X_test, qid=task.qid_test), task.qid_test)
        for m in (model, plain)
    )
    return {
        "error": error,
        "stated": float(model.held_out_error_),
        **_effect(model, without - error),
    }


def _generated(number: int, learner: str, *, noise: bool) -> Result:
    """`make_two_views`: the test error of a method, with a second view of signal or of noise."""
    from corank import RLS, CoRLS

    data = make_two_views(random_state=FIRST_SEED + number)
    if noise:
        data = with_noise(data, np.random.default_rng([FIRST_SEED + number, 1]))
    views = [View(columns, kernel="linear") for columns in data.views]
    linear: dict[str, Any] = {"kernel": "linear", "basis": "features", "fit_intercept": False}
    if learner == "rls":
        model: Any = RLS(**linear)
    elif learner == "corls":
        model = CoRLS(views, **linear, random_state=number)
    else:
        model = AutoRegressor(views, fit_intercept=False, random_state=number)
    error = rmse(data.y_test, model.fit(data.X, data.y).predict(data.X_test))
    if learner != "auto":
        return {"error": error}
    known = ~np.isnan(data.y)
    plain = AutoRegressor(views, fit_intercept=False).fit(data.X[known], data.y[known])
    return {
        "error": error,
        **_effect(model, rmse(data.y_test, plain.predict(data.X_test)) ** 2 - error**2),
    }


# ---- what the errors say

Errors: TypeAlias = dict[str, dict[Setting, float]]  # method → setting → mean error over draws


def conclude(settings: Settings, results: Results) -> Outcome:
    """Ratios of errors, what was to be reached, and whether the default's words are true."""
    draws = by_draw(results)
    tables: list[Table] = []
    findings: list[Finding] = []
    for kinds, compare in (
        (("regression",), _regression_findings),
        (("ranking",), _ranking_findings),
        (("jester", "sushi", "cora"), _order_findings),
        (("words and links",), _view_findings),
    ):
        errors = _mean_errors(draws, kinds)
        tables.append(_ratio_table(", ".join(kinds), errors))
        tables.append(_detail_table(", ".join(kinds), errors))
        findings += compare(errors)
    for kind in ("two views", "noise view"):
        table, finding = _generated_finding(draws, kind)
        tables.append(table)
        findings.append(finding)
    table, honest = _honesty(draws)
    return Outcome([*tables, table], [*findings, *honest], n_fits=fit_count(results))


def _mean_errors(draws: Mapping[Draw, Mapping[str, Result]], kinds: Sequence[str]) -> Errors:
    lists: dict[str, dict[Setting, list[float]]] = {}
    for (kind, name, size, _), by_method in draws.items():
        if kind in kinds:
            for method, result in by_method.items():
                setting = (str(kind), str(name), int(size))
                lists.setdefault(method, {}).setdefault(setting, []).append(result["error"])
    return {
        method: {setting: float(np.mean(values)) for setting, values in errors.items()}
        for method, errors in lists.items()
    }


def _ratios(errors: Errors, peers: Iterable[str]) -> Floats:
    """Of the default to the best of the peers, by setting."""
    peers = list(peers)
    return np.asarray(
        [
            errors[AUTO][setting] / min(errors[peer][setting] for peer in peers)
            for setting in errors[AUTO]
        ]
    )


def _geometric(ratios: Floats) -> float:
    return float(np.exp(np.log(ratios).mean()))


def _others(errors: Errors) -> list[str]:
    return [method for method in errors if method != AUTO]


def _ratio_table(title: str, errors: Errors) -> Table:
    rows: list[tuple[Cell, ...]] = []
    groups = [[peer] for peer in _others(errors)]
    if GP in errors:
        groups.insert(0, [TREES, GP])
    groups.append(_others(errors))
    for peers in groups:
        ratios = _ratios(errors, peers)
        low, high = (float(np.exp(end)) for end in mean_interval(np.log(ratios)))
        name = (
            peers[0]
            if len(peers) == 1
            else "the best of " + ("all" if peers == _others(errors) else " and ".join(peers))
        )
        rows.append(
            (
                name,
                f"{_geometric(ratios):.3f} ({low:.3f} to {high:.3f})",
                f"{ratios.max():.3f}",
                f"{int((ratios < 1).sum())} of {len(ratios)}",
            )
        )
    head = (
        "error of the default over that of",
        "geometric mean (95 % interval)",
        "worst setting",
        "settings better",
    )
    return Table(f"{title.capitalize()}: the default beside others", head, rows)


def _detail_table(title: str, errors: Errors) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (f"{name}, {size}", *(errors[method][kind, name, size] for method in errors))
        for kind, name, size in errors[AUTO]
    ]
    return Table(f"{title.capitalize()}: mean errors", ("set, scores", *errors), rows, details=True)


def _limit(errors: Errors, peers: Sequence[str], limit: float, claim: str) -> Finding:
    ratio = _geometric(_ratios(errors, peers))
    return target(f"{claim}: geometric mean at most {limit:.2f}", f"{ratio:.3f}.", ratio <= limit)


def _worst(errors: Errors, peers: Sequence[str], limit: float, claim: str) -> Finding:
    ratios = _ratios(errors, peers)
    _, name, size = list(errors[AUTO])[int(np.argmax(ratios))]
    evidence = f"{ratios.max():.3f} ({name}, {size} scores)."
    return target(f"{claim}: no setting above {limit:.2f}", evidence, float(ratios.max()) <= limit)


def _regression_findings(errors: Errors) -> list[Finding]:
    return [
        _limit(errors, [TREES, GP], 1.01, "regression, over the better of extra trees and GP"),
        _limit(errors, [GP], 0.98, "regression, over GP"),
        _limit(errors, [TREES], 0.92, "regression, over extra trees"),
        *(_limit(errors, [peer], 1.00, f"regression, over {peer}") for peer in REGRESSION_PEERS),
        _worst(errors, [TREES, GP], 1.3, "regression, over the better of extra trees and GP"),
    ]


def _ranking_findings(errors: Errors) -> list[Finding]:
    return [
        _limit(errors, [TUNED_RANKER], 0.95, f"ranking, over {TUNED_RANKER}"),
        _worst(errors, [TUNED_RANKER], 0.98, f"ranking, over {TUNED_RANKER}"),
        _limit(errors, ["LightGBM"], 0.92, "ranking, over tuned LightGBM"),
    ]


def _order_findings(errors: Errors) -> list[Finding]:
    return [
        _limit(
            errors,
            _others(errors),
            1.01,
            "Jester, sushi, Cora, over the best method of each setting",
        ),
        *(
            _limit(errors, [peer], 0.99, f"Jester, sushi, Cora, over {peer}")
            for peer in _others(errors)
        ),
        _worst(errors, _others(errors), 1.05, "Jester, sushi, Cora, over the best method"),
    ]


def _view_findings(errors: Errors) -> list[Finding]:
    peers = [SIDE_BY_SIDE, CO_REGULARISED]
    return [
        _limit(
            errors,
            peers,
            1.00,
            "words and links, over the better of one linear model and CoRankRLS",
        )
    ]


def _generated_finding(
    draws: Mapping[Draw, Mapping[str, Result]], kind: str
) -> tuple[Table, Finding]:
    found = [by_method for (name, *_), by_method in draws.items() if name == kind]
    errors = {
        method: np.asarray([result[method]["error"] for result in found])
        for method in METHODS[kind]
    }
    rows = [
        (method, f"{values.mean():.4f}", f"{values.min():.4f} to {values.max():.4f}")
        for method, values in errors.items()
    ]
    table = Table(
        f"{kind.capitalize()}, {len(found)} seeds",
        ("method", "mean test rmse", "least to greatest"),
        rows,
    )
    if kind == "two views":
        mean = float(errors[AUTO].mean())
        return table, target("two views: mean RMSE at most 0.06", f"{mean:.4f}.", mean <= 0.06)
    ratio = errors[AUTO] / errors["RLS"]
    within = int((ratio <= 1.02).sum())
    evidence = f"{within} of {len(ratio)}, worst {ratio.max():.3f}."
    return table, target(
        "noise view: at most 2 % above supervised in every seed", evidence, within == len(ratio)
    )


def _honesty(draws: Mapping[Draw, Mapping[str, Result]]) -> tuple[Table, list[Finding]]:
    """Intervals, stated errors, and what was said of unscored rows."""
    fits = {draw: by_method[AUTO] for draw, by_method in draws.items()}
    regression = {draw: fit for draw, fit in fits.items() if draw[0] == "regression"}
    at_50 = [fit for draw, fit in regression.items() if draw[2] == 50] or list(regression.values())
    inside = float(np.mean([fit["inside"] for fit in at_50]))
    gaps = [
        by_method[AUTO]["density"] - by_method[GP]["density"]
        for draw, by_method in draws.items()
        if draw[0] == "regression"
    ]
    stated = sum(fit["stated"] / fit["variance"] for fit in regression.values())
    true = sum(fit["error"] ** 2 / fit["variance"] for fit in regression.values())
    said = [
        (fit["verdict"], fit["gain"])
        for fit in fits.values()
        if fit.get("verdict") in ("helped", "hurt")
    ]
    right = sum((gain > 0) == (verdict == "helped") for verdict, gain in said)
    helped = [fit["verdict"] == "helped" for draw, fit in fits.items() if draw[0] == "two views"]
    asked = sum("verdict" in fit for fit in fits.values())
    rows: list[tuple[Cell, ...]] = [
        ("share of test scores within 95 % intervals, 50 scores", f"{inside:.3f}"),
        (
            "mean log density above that of the Gaussian process",
            f"{np.mean(gaps):+.3f} (median {np.median(gaps):+.3f})",
        ),
        ("stated over true squared error, summed over fits", f"{stated / true:.3f}"),
        ('"helped" or "hurt" was said', f"{len(said)} of {asked} fits"),
        ("and true on new rows", f"{right} of {len(said)}"),
        ('"helped" on two views that agree', f"{sum(helped)} of {len(helped)}"),
    ]
    findings = [
        target(
            "95 % intervals hold 92 to 97 % of the scores", f"{inside:.3f}.", 0.92 <= inside <= 0.97
        ),
        target(
            "mean log density better than the Gaussian process's",
            f"{np.mean(gaps):+.3f}.",
            float(np.mean(gaps)) > 0,
        ),
        target(
            "stated over true error: 0.97 to 1.10",
            f"{stated / true:.3f}.",
            0.97 <= stated / true <= 1.10,
        ),
        target(
            '"helped" and "hurt" are true in 95 % of the cases',
            f"{right} of {len(said)}.",
            right >= 0.95 * len(said),
        ),
        target(
            '"helped" is said on 18 of 20 seeds of two views',
            f"{sum(helped)} of {len(helped)}.",
            sum(helped) >= 0.9 * len(helped),
        ),
    ]
    return Table("Honesty", ("what", "value"), rows), findings


STUDY = Study(
    name="default",
    title="What users get by default",
    about=(
        "AutoRegressor() and AutoRanker() beside tuned peers, with few scores: error, uncertainty,"
        " and true words."
    ),
    parts=parts,
    conclude=conclude,
    files=(*REGRESSION, *RANKING, *JESTER, *SUSHI, *CORA),
    fixed_draws=True,
)
STUDIES = (STUDY,)
