"""`compare`: which method is best on these data, by how much, and is that more than chance?"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np

from corank.core.arrays import FloatArray, Index, first_appearance
from corank.core.messages import ArgumentError
from corank.core.queries import query_codes
from corank.experiments.jobs import (
    JobsFailed,
    Keep,
    attempt_jobs,
    sources_of_corank,
    version_of,
    written,
)
from corank.experiments.methods import (
    BASELINE,
    FittedMethod,
    Method,
    chosen_methods,
    default_methods,
)
from corank.experiments.protocol import (
    JUDGES,
    Draw,
    Items,
    Protocol,
    Task,
    check_enough,
    draws_of,
    masked,
    read_items,
    split,
)
from corank.experiments.result import ComparisonResult, Record
from corank.metrics import disagreement_error, ndcg

# of every result
COUNTS = ("fit_seconds", "predict_seconds", "seed", "n_scored", "n_unscored", "n_test")
N_PAIRS = 400  # whose probabilities are looked at in a run
Job = tuple[Method, Draw]


def compare(
    data: Any,
    methods: Sequence[str | Method] | None = None,
    protocol: Protocol | None = None,
    *,
    baseline: str | None = None,
    processes: int = 1,
    keep: str | Path | None = None,
    fresh: bool = False,
    progress: Callable[[int, int], Any] | None = None,
) -> ComparisonResult:
    """Compare methods on data whose scores are partly hidden from them.

    Parameters
    ----------
    data : Items, what a loader gives, (X, y) or (X, y, qid)
        NaN in y = unscored. With qid, rows of a query compete and whole queries are tested on.
    methods : names of methods (see `known_methods`) or Method, default=None
        None: a baseline, corank's main learners, and LightGBM where it is installed.
    protocol : Protocol, default=None
        Share of scores that are kept, repeats, measure, seed.
    baseline : str, default=None
        The method the others are tested against. None: ridge regression, or the first of `methods`
        where that is not among them.
    processes : int, default=1
        Fits at a time. More than one starts processes: call it under ``if __name__ == "__main__":``
        then.
    keep : folder, default=None
        Where finished fits are kept: the same call continues an interrupted one.
    fresh : bool, default=False
        Leave kept fits aside.
    progress : default=None
        Called with the number of fits and of those that are there already; gives a context of a
        function to call after each fit, such as `corank.experiments.jobs.shown_on(console, name)`.

    Returns
    -------
    ComparisonResult
        `rows()`, `verdict()`, `effects()`, `curves()`; print it.

    Examples
    --------
    >>> from corank.datasets import make_ranking
    >>> from corank.experiments import Protocol, compare
    >>> data = make_ranking(n_queries=30, query_size=8, random_state=0)
    >>> result = compare(data, ["ridge", "rankrls"], Protocol(repeats=5, curves=False, scored_share=0.5))
    >>> [row.method for row in result.rows()]
    ['ridge', 'rankrls']
    """
    items = read_items(data)
    protocol = protocol or Protocol()
    check_enough(items)
    kind: Any = {"queries": items.qid is not None, "judge": protocol.judge(items)}
    chosen = default_methods(**kind) if methods is None else chosen_methods(methods, **kind)
    name = _baseline(chosen, baseline)
    if isinstance(processes, bool) or processes < 1:
        raise ValueError(f"processes must be a whole number of at least 1, got {processes!r}.")
    begin = time.perf_counter()
    jobs = {
        _key(items, protocol, (method, draw)): (method, draw)
        for draw in draws_of(items, protocol)
        for method in chosen
        # to other methods their number does not matter
        if draw.unscored == 1 or method.uses_unscored
    }
    is_whole = partial(_is_whole, n_queries=items.n_queries)
    kept = None if keep is None else Keep(Path(keep), fresh=fresh, is_whole=is_whole)
    finished, failures = attempt_jobs(
        run,
        (items, protocol),
        list(jobs.items()),
        keep=kept,
        processes=processes,
        progress=progress,
    )
    failed = _failed(chosen, jobs, failures, name)
    records = [
        Record(method.name, draw, **vars(finished[key][0]))
        for key, (method, draw) in jobs.items()
        if method.name not in failed
    ]
    return ComparisonResult(
        items,
        protocol,
        tuple(method for method in chosen if method.name not in failed),
        name,
        tuple(records),
        processes,
        run_now=sum(ran_now for _, ran_now in finished.values()),
        seconds=round(time.perf_counter() - begin, 2),
        failed=failed,
    )


def _failed(
    methods: Sequence[Method], jobs: Mapping[str, Job], failures: Mapping[str, str], baseline: str
) -> dict[str, str]:
    """Methods that are left out because a fit of theirs failed, and why; an error where too little
    is left.
    """
    failed: dict[str, str] = {}
    for method in methods:
        keys = [key for key, job in jobs.items() if job[0] is method]
        errors = [failures[key] for key in keys if key in failures]
        if errors:
            failed[method.name] = (
                f"{len(errors)} of {len(keys)} fits failed; the first: {errors[0]}"
            )
    if baseline in failed or len(methods) - len(failed) < 2:
        raise JobsFailed("; ".join(f"{name}: {why}" for name, why in failed.items()))
    return failed


def run(shared: tuple[Items, Protocol], job: Job) -> dict[str, Any]:
    """One method on one draw: fit, predict, and only then look at the answers."""
    items, protocol = shared
    method, draw = job
    seed = int(np.random.default_rng([protocol.seed, draw.repeat, 4]).integers(2**31))
    rows = split(items, protocol, draw)
    task, answers = masked(items, rows, judge=protocol.judge(items), seed=seed)
    begin = time.perf_counter()
    fitted = method.fit(task)
    fit_seconds = time.perf_counter() - begin
    begin = time.perf_counter()
    predicted = np.asarray(fitted.predict(task.X_test), dtype=np.float64)
    predict_seconds = time.perf_counter() - begin
    pairs = _probabilities(fitted, task)
    scores = answers.unlock(predicted)
    on_scale = method.on_scale(queries=items.qid is not None)
    result = measured(scores, predicted, answers.qid, answers.least, on_scale=on_scale)
    if pairs is not None:  # those of equal scores are left out
        first, second, chance = pairs
        gaps = scores[first] - scores[second]
        result["said"] = [round(float(p), 5) for p in chance[gaps != 0]]
        result["came"] = [int(gap > 0) for gap in gaps[gaps != 0]]
    return {
        **result,
        "fit_seconds": round(fit_seconds, 4),
        "predict_seconds": round(predict_seconds, 5),
        "size": fitted.size,
        "tried": fitted.tried,
        "chosen": fitted.chosen,
        "seed": seed,
        "n_scored": len(rows.scored),
        "n_unscored": len(rows.unscored) if method.uses_unscored else 0,
        "n_test": len(rows.test),
    }


def _is_whole(result: dict[str, Any], n_queries: int) -> bool:
    """Whether a result that was kept has everything that `run` gives."""
    try:
        queries = np.asarray(result["queries"], dtype=np.int64)
        measures = np.asarray([result[name] for name in JUDGES], dtype=np.float64)
        numbers = np.asarray([result[name] for name in COUNTS], dtype=np.float64)
        pairs = np.asarray([result.get("said", []), result.get("came", [])], dtype=np.float64)
    except (KeyError, TypeError, ValueError, OverflowError):
        return False
    return (
        {"size", "tried", "chosen"} <= result.keys()
        and queries.ndim == 1
        and queries.size > 0
        and measures.shape == (len(JUDGES), queries.size)
        and pairs.ndim == 2
        and bool(np.isfinite(numbers).all())
        and bool(np.all((queries >= 0) & (queries < n_queries)))
    )


def _probabilities(fitted: FittedMethod, task: Task) -> tuple[Index, Index, FloatArray] | None:
    """Pairs of test rows of a query, and with what probability the first beats the second, for
    models that say so.
    """
    model = fitted.model
    # probabilities of pairs know nothing of links
    if model is None or not model.has_posterior or model.with_links:
        return None
    n = task.X_test.shape[0]
    qid = query_codes(task.qid_test, n)
    rng = np.random.default_rng([task.seed, 5])
    first = rng.integers(n, size=N_PAIRS)
    second = np.asarray([rng.choice(np.flatnonzero(qid == qid[row])) for row in first])
    chance = model.predict_comparison(task.X_test[first], task.X_test[second], observed=True)
    return first, second, np.asarray(chance, dtype=np.float64)


def measured(
    scores: FloatArray, predicted: FloatArray, qid: Index | None, least: float, *, on_scale: bool
) -> dict[str, Any]:
    """Every measure for every test query, in order of first appearance; NaN where undefined.

    Parameters
    ----------
    least : the least score there is: gains of NDCG start there where it is negative
    on_scale : whether predictions are on the scale of the scores; else there is no RMSE

    Returns
    -------
    queries : labels; disagreement, ndcg, rmse : one value each, as lists
    """
    labels = query_codes(qid, len(scores))
    codes, _ = first_appearance(labels)
    queries = labels[np.unique(codes, return_index=True)[1]]
    rmse = np.full(len(queries), np.nan)
    if on_scale:
        sizes, residuals = np.bincount(codes), scores - predicted
        if qid is not None:  # the level of a ranking means nothing
            residuals -= (np.bincount(codes, weights=residuals) / sizes)[codes]
        rmse = np.sqrt(np.bincount(codes, weights=residuals**2) / sizes)
    gains = scores - min(least, 0.0)
    return {
        "queries": queries.tolist(),
        "disagreement": _plain(disagreement_error(scores, predicted, qid=labels, average=False)),
        "ndcg": _plain(ndcg(gains, predicted, qid=labels, k=10, average=False)),
        "rmse": _plain(rmse),
    }


def _plain(values: FloatArray) -> list[float | None]:
    return [None if np.isnan(value) else round(float(value), 9) for value in values]


def _key(items: Items, protocol: Protocol, job: Job) -> str:
    """Everything that a result depends on."""
    method, draw = job
    asked = asdict(protocol)
    del asked["repeats"], asked["curves"]  # they say how many results there are
    library = version_of("lightgbm") if method.name == "lightgbm" else None
    below = list(map(version_of, ("numpy", "scipy", "scikit-learn")))
    flags = [method.name, method.scale, method.uses_unscored]
    return written(
        [items.digest, asked, sources_of_corank(), library, flags, below, _named(method.fit), draw]
    )


def _named(fit: Any) -> list[Any]:
    """A fit function by name, code and arguments, so that a changed function is not mistaken for
    the old one.
    """
    if isinstance(fit, partial):
        return [*_named(fit.func), fit.args, fit.keywords]
    if inspect.ismethod(fit):
        return [*_named(fit.__func__), _state(fit.__self__)]
    if not inspect.isfunction(fit):  # an object that can be called
        return [type(fit).__module__, type(fit).__qualname__, _state(fit)]
    closure = [cell.cell_contents for cell in fit.__closure__ or ()]
    defaults = [fit.__defaults__, fit.__kwdefaults__]
    return [fit.__module__, fit.__qualname__, _body(fit.__code__), closure, defaults]


def _state(owner: Any) -> Any:
    """What an object holds that tells it from others of its class."""
    try:
        return vars(owner)
    except TypeError:
        return repr(owner)


def _body(code: CodeType) -> list[Any]:
    """Code as a value that changes with what it does, including functions defined inside it."""
    constants = [_body(each) if isinstance(each, CodeType) else each for each in code.co_consts]
    return [code.co_code.hex(), code.co_names, constants]


def _baseline(methods: Sequence[Method], asked: str | None) -> str:
    names = [method.name for method in methods]
    if len(names) < 2:
        raise ArgumentError(
            "methods", ": there must be at least two of them, one being the baseline."
        )
    if asked is None:
        return BASELINE if BASELINE in names else names[0]
    if asked not in names:
        raise ArgumentError("baseline", f"={asked!r} is not among the methods {', '.join(names)}.")
    return asked
