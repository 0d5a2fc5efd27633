"""`compare`: which method is best on these data, by how much, and is that more than chance?"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from corank.core.arrays import FloatArray, Index
from corank.core.labels import query_codes
from corank.experiments.data import Items, read_items
from corank.experiments.jobs import (
    JobsFailed,
    Keep,
    attempt_jobs,
    sources_of_corank,
    version_of,
    written,
)
from corank.experiments.measures import JUDGES, measured
from corank.experiments.methods import BASELINE, Method, chosen_methods, default_methods
from corank.experiments.peers import FittedMethod
from corank.experiments.protocol import Draw, Protocol, Task, check_enough, draws_of, masked, split
from corank.experiments.result import ComparisonResult, Record

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
    items, protocol = read_items(data), protocol or Protocol()
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
    finished, failures = attempt_jobs(
        run,
        (items, protocol),
        list(jobs.items()),
        keep=(
            None
            if keep is None
            else Keep(Path(keep), fresh=fresh, is_whole=partial(_is_whole, items=items))
        ),
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
        sum(ran_now for _, ran_now in finished.values()),
        round(time.perf_counter() - begin, 2),
        failed,
    )


def _failed(
    methods: Sequence[Method], jobs: Mapping[str, Job], failures: Mapping[str, str], baseline: str
) -> dict[str, str]:
    """Methods that are left out because a fit of theirs failed, and why; an error where too little
    is left.
    """
    failed: dict[str, str] = {}
    for method in methods:
        keys = [key for key, (other, _) in jobs.items() if other.name == method.name]
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
    (items, protocol), (method, draw) = shared, job
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
    scale = method.on_scale(queries=items.qid is not None)
    return {
        **measured(scores, predicted, answers.qid, answers.least, scale=scale),
        **_came_true(scores, pairs),
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


def _is_whole(result: dict[str, Any], items: Items) -> bool:
    """Whether a result that was kept has everything that `run` gives."""
    n_queries = 1 if items.qid is None else int(items.qid.max()) + 1
    try:
        queries = np.asarray(result["queries"] or [0], dtype=np.int64)
        numbers = np.asarray([result[name] for name in COUNTS], dtype=np.float64)
        lengths = {np.asarray(result[name], dtype=np.float64).shape for name in JUDGES}
        pairs = np.asarray([result.get("said", []), result.get("came", [])], dtype=np.float64)
    except (KeyError, TypeError, ValueError, OverflowError):
        return False
    inside = queries.ndim == 1 and bool(np.all((queries >= 0) & (queries < n_queries)))
    sound = bool(np.all(np.isfinite(numbers))) and {"size", "tried", "chosen"} <= result.keys()
    return inside and sound and lengths == {queries.shape} and pairs.ndim == 2


def _probabilities(fitted: FittedMethod, task: Task) -> tuple[Index, Index, FloatArray] | None:
    """Pairs of test rows of a query, and with what probability the first beats the second, for
    models that say so.
    """
    if not hasattr(fitted.model, "predict_comparison") or getattr(
        fitted.model, "_with_links", False
    ):
        return None  # probabilities of pairs know nothing of links
    n = task.X_test.shape[0]
    qid = query_codes(task.qid_test, n)
    rng = np.random.default_rng([task.seed, 5])
    first = rng.integers(n, size=N_PAIRS)
    second = np.asarray([rng.choice(np.flatnonzero(qid == qid[a])) for a in first])
    observed = fitted.model.predict_comparison(
        task.X_test[first], task.X_test[second], observed=True
    )
    return first, second, np.asarray(observed, dtype=np.float64)


def _came_true(
    scores: FloatArray, pairs: tuple[Index, Index, FloatArray] | None
) -> dict[str, list[Any]]:
    """Probabilities and whether they came true; pairs of equal scores are left out."""
    if pairs is None:
        return {}
    first, second, chance = pairs
    differ = scores[first] != scores[second]
    won = scores[first][differ] > scores[second][differ]
    return {"said": [round(float(p), 5) for p in chance[differ]], "came": [int(w) for w in won]}


def _key(items: Items, protocol: Protocol, job: Job) -> str:
    """Everything that a result depends on."""
    method, draw = job
    asked = {
        key: value for key, value in asdict(protocol).items() if key not in ("repeats", "curves")
    }
    library = version_of("lightgbm") if method.name == "lightgbm" else None
    below = [version_of(name) for name in ("numpy", "scipy", "scikit-learn")]
    flags = [method.name, method.scale, method.uses_unscored]
    return written(
        [items.digest, asked, sources_of_corank(), library, flags, below, _named(method.fit), draw]
    )


def _named(fit: Any) -> list[Any]:
    """A fit function by name, code and arguments, so that a changed function is not mistaken for
    the old one.
    """
    inner = getattr(fit, "func", fit)
    name = [
        getattr(inner, "__module__", ""),
        getattr(inner, "__qualname__", type(inner).__qualname__),
    ]
    given = [cell.cell_contents for cell in getattr(inner, "__closure__", None) or ()]
    defaults = [getattr(inner, "__defaults__", None), getattr(inner, "__kwdefaults__", None)]
    owner = getattr(inner, "__self__", inner)
    state = (
        []
        if isinstance(owner, type(_named))
        else vars(owner)
        if hasattr(owner, "__dict__")
        else repr(owner)
    )
    return [
        *name,
        _body(getattr(inner, "__code__", None)),
        given,
        defaults,
        state,
        getattr(fit, "args", ()),
        getattr(fit, "keywords", {}),
    ]


def _body(code: Any) -> list[Any]:
    """Code as a value that changes with what it does, including functions defined inside it."""
    if code is None:
        return []
    constants = [
        _body(constant) if hasattr(constant, "co_code") else constant for constant in code.co_consts
    ]
    return [code.co_code.hex(), code.co_names, constants]


def _baseline(methods: Sequence[Method], asked: str | None) -> str:
    names = [method.name for method in methods]
    if len(names) < 2:
        raise ValueError("methods: there must be at least two of them, one being the baseline.")
    if asked is None:
        return BASELINE if BASELINE in names else names[0]
    if asked not in names:
        raise ValueError(f"baseline={asked!r} is not among the methods {', '.join(names)}.")
    return asked
