"""Whom to trust: PreferenceGP with judges beside itself without them and beside tuned peers, on votes
of people and language models, and on votes that were made up.

Protocol
--------
* votes: 8,931 votes (left, tie, right) of 124 people on pairs of 750 answers; an item is known by
  the model that gave it and by itself, no texts. Five folds over votes, five seeds; and five folds
  over judges. Log loss of the three outcomes, and how many untied votes were expected the other way
  round. Intervals draw votes and seeds again.
* peers know no judges but NoisyBT; each chooses among equally many settings by three folds of the
  training votes, and comes to probabilities of ties by Davidson's formula, learned on held-out votes
  (`votes_peers`).
* machines: 100, 300 or 1,000 votes of people with 4,278 verdicts of two language models, tested on
  all other votes of people; 20 draws.
* planted: 100 items with 5 columns, 20 judges of 30 comparisons each: eleven err on 20 % of random
  pairs, four answer at random, one is contrary, two say tie when in doubt, two favour the left.
* equal: 20 judges alike, 100 seeds. ties: one kind of judge, 20 and 40 % of the votes are ties.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from benchmarks.measure import peak_memory_mb
from scipy import optimize
from scipy.special import logit
from scipy.stats import norm

from corank import PreferenceGP
from corank.core.messages import count
from corank.metrics import disagreement_error
from studies.data import (
    LEFT,
    MACHINES,
    RIGHT,
    TIE,
    VOTES,
    Floats,
    Integers,
    Votes,
    joined,
    language_votes,
    unconnected_comparisons,
)
from studies.questions.methods import Draw, DrawMethod, Results, by_draw, draw_parts, fit_count
from studies.questions.votes_peers import (
    N_SETTINGS,
    frequencies,
    log_losses,
    outcomes,
    predict_peer,
    tie_link,
    wrong_among_untied,
)
from studies.study import (
    CANNOT_BE_TESTED,
    DOES_NOT_HOLD,
    HOLDS,
    TARGET,
    Cell,
    Figure,
    Finding,
    Outcome,
    Panel,
    Part,
    Result,
    Series,
    Settings,
    Study,
    Table,
    Verdict,
)
from studies.verdicts import gap_between, student_interval

N_FOLDS, N_SEEDS = 5, 5
SIZES, N_DRAWS = (100, 300, 1000), 20
N_PLANTED, N_EQUAL, N_TIED, TIE_SHARES = 20, 100, 20, (20, 40)
N_ITEMS, N_COLUMNS, N_JUDGES, N_EACH = 100, 5, 20, 30
GOOD, RANDOM, CONTRARY, TIES, LEFTS = range(5)
KINDS = (GOOD,) * 11 + (RANDOM,) * 4 + (CONTRARY,) + (TIES,) * 2 + (LEFTS,) * 2
ERRS = 0.2  # share of random pairs that a good judge puts the wrong way round
DOUBT, LEANING = 1.0, 1.0  # threshold of ties and side, over the noise, of those who have them
LARGE = (100_000, 2_000, 1_000)  # votes, items and judges
N_BINS = 10
CLOSE, LIMIT_MEAN, LIMIT_ANY = 0.005, 0.03, 0.06

JUDGED, PLAIN = "judges", "no judges"
HALVES, DROPPED, SHARES = "a tie is one win each", "ties left out", "frequencies"
PEERS = {"Davidson": "davidson", "NoisyBT": "noisy-bt", "choix": "choix", "evalica": "evalica"}
OWN = {JUDGED: "judged", PLAIN: "plain", HALVES: "halves", DROPPED: "dropped"}
ALONE, POOLED, BOTH = "people alone", "all pooled", "machines as judges"
AT_ONCE: dict[str, int] = {"planted": N_PLANTED, "equal": N_EQUAL}


def parts(settings: Settings) -> list[Part]:
    """One part per draw and method, the first seeds first; what runs alone comes last."""
    quick = settings.quick
    found: list[Part] = []
    methods = [DrawMethod(title, learner) for title, learner in {**OWN, **PEERS}.items()]
    methods.append(DrawMethod(SHARES, "frequencies"))
    for seed in range(1 if quick else N_SEEDS):
        for fold in range(1 if quick else N_FOLDS):
            found += draw_parts(folded, [("votes", seed, fold)], methods)
            found += draw_parts(folded, [("judges", seed, fold)], methods[:2])
    ways = [DrawMethod(title, title) for title in (ALONE, POOLED, BOTH)]
    for number in range(1 if quick else N_DRAWS):
        for size in SIZES[:1] if quick else SIZES:
            found += draw_parts(with_machines, [("machines", size, number)], ways)
    both = [DrawMethod(JUDGED, "judged")]
    found += draw_parts(side_of_machines, [("side", 0, 0)], both)
    for kind, n_seeds in AT_ONCE.items():
        draws: list[Draw] = [(kind, seed, 0) for seed in range(1 if quick else n_seeds)]
        found += draw_parts(planted, draws, both)
    for share in TIE_SHARES:
        draws = [("ties", share, seed) for seed in range(1 if quick else N_TIED)]
        found += draw_parts(tied, draws, [DrawMethod(PLAIN, "plain")])
    for kind in () if quick else ("time", "large"):
        found += [
            Part(part.key, part.run, part.arguments, alone=True)
            for part in draw_parts(timed, [(kind, 0, 0)], both)
        ]
    return found


# ---- PreferenceGP


def fitted(votes: Votes, learner: str, seed: int) -> Any:
    """PreferenceGP on votes: with judges and the side that each item was shown on, without them,
    with ties as one win each, or without ties.
    """
    with unconnected_comparisons():
        if learner in ("halves", "dropped"):
            ends = wins(votes, halves=learner == "halves")
            return PreferenceGP(random_state=seed).fit_comparisons(votes.items, *ends)
        on_left = votes.winner != RIGHT
        ends = (
            np.where(on_left, votes.left, votes.right),
            np.where(on_left, votes.right, votes.left),
        )
        judges = {"person": votes.judge, "first": on_left} if learner == "judged" else {}
        return PreferenceGP(random_state=seed).fit_comparisons(
            votes.items, *ends, margins=(votes.winner != TIE).astype(float), **judges
        )


def wins(votes: Votes, *, halves: bool) -> tuple[Integers, Integers]:
    """Winners and losers, with ties as one win each or left out."""
    untied, tied = votes.take(votes.winner != TIE), votes.take(votes.winner == TIE)
    won = untied.winner == LEFT
    winners = np.where(won, untied.left, untied.right)
    losers = np.where(won, untied.right, untied.left)
    if not halves:
        return winners, losers
    ends = [winners, tied.left, tied.right], [losers, tied.right, tied.left]
    return np.concatenate(ends[0]), np.concatenate(ends[1])


def chances_of(model: Any, train: Votes, test: Votes, learner: str) -> Floats:
    """Probabilities (n, 3) of left, tie and right; of a judge who is not known those of a usual one."""
    if learner in ("halves", "dropped"):
        return with_ties(model, train, test, learner)
    known = np.isin(test.judge, np.unique(train.judge)) & (learner == "judged")
    chances = np.empty((len(test), 3))
    for rows in (known, ~known):
        if rows.any():
            asked = test.take(rows)
            ends = asked.items[asked.left], asked.items[asked.right]
            judges = {"person": asked.judge} if rows is known else {}
            chances[rows] = model.predict_outcome(*ends, **judges)
    return chances


def with_ties(model: Any, train: Votes, test: Votes, learner: str) -> Floats:
    """From a model that knows no ties: Davidson's formula, whose numbers are learned on a third of the
    training votes by a model of the others.
    """
    held_out = np.random.default_rng(101).permutation(len(train)) % 3 == 0
    others = fitted(train.take(~held_out), learner, model.random_state)
    gaps = log_odds(others, train.take(held_out))
    return outcomes(log_odds(model, test), tie_link(gaps, train.winner[held_out]))


def log_odds(model: Any, votes: Votes) -> Floats:
    """Of left against right: (n,)."""
    ends = votes.items[votes.left], votes.items[votes.right]
    chance = np.asarray(model.predict_comparison(*ends))
    return np.asarray(logit(np.clip(chance, 1e-9, 1 - 1e-9)))


# ---- votes of people and machines


def fold_of(votes: Votes, kind: str, seed: int) -> Integers:
    """The fold of every vote: over votes, or whole judges."""
    rng = np.random.default_rng([seed, 83])
    if kind == "votes":
        return rng.permutation(len(votes)) % N_FOLDS
    names, judge = np.unique(votes.judge, return_inverse=True)
    return (rng.permutation(len(names)) % N_FOLDS)[judge]


def folded(settings: Settings, rng: np.random.Generator, draw: Draw, method: DrawMethod) -> Result:
    """What a method expected of the votes of one fold, with their row numbers."""
    kind, seed, number = str(draw[0]), int(draw[1]), int(draw[2])
    humans, _ = language_votes(settings.folder)
    fold = fold_of(humans, kind, seed)
    train, test = humans.take(fold != number), humans.take(fold == number)
    begin = time.process_time()
    if method.learner == "frequencies":
        chances = frequencies(train, test)
    elif method.learner in OWN.values():
        model = fitted(train, method.learner, seed)
        chances = chances_of(model, train, test, method.learner)
    else:
        chances = predict_peer(method.learner, train, test, seed, quick=settings.quick)
    return {
        "rows": np.flatnonzero(fold == number).tolist(),
        "left": chances[:, LEFT].round(5).tolist(),
        "tie": chances[:, TIE].round(5).tolist(),
        "winner": test.winner.tolist(),
        "seconds": time.process_time() - begin,
    }


def with_machines(
    settings: Settings, rng: np.random.Generator, draw: Draw, method: DrawMethod
) -> Result:
    """The log loss on other votes of people, by a few of them with or without verdicts of machines."""
    size, number = int(draw[1]), int(draw[2])
    humans, machines = language_votes(settings.folder)
    order = np.random.default_rng([number, size, 89]).permutation(len(humans))
    few, test = humans.take(order[:size]), humans.take(order[size:])
    train = few if method.title == ALONE else joined(few, machines)
    learner = "plain" if method.title == POOLED else "judged"
    chances = chances_of(fitted(train, learner, number), train, test, learner)
    return {"error": float(log_losses(chances, test.winner).mean())}


def side_of_machines(
    settings: Settings, rng: np.random.Generator, draw: Draw, method: DrawMethod
) -> Result:
    """Which side the machines favour, by the model of all votes, and by counting theirs."""
    humans, machines = language_votes(settings.folder)
    model = fitted(joined(humans, machines), "judged", 0)
    found = {}
    for name in MACHINES:
        own = machines.winner[machines.judge == name]
        counted = int((own == LEFT).sum() - (own == RIGHT).sum())
        found[name] = {"counted": counted, **about_judges(model)[name]}
    return found


def about_judges(model: Any) -> dict[str, Result]:
    """What a model says of each judge."""
    return {
        judge.name: {
            "reliability": float(judge.reliability),
            "interval": (float(judge.low), float(judge.high)),
            "side": float(judge.side),
            "contrary": bool(judge.contrary),
        }
        for judge in model.judges_
    }


# ---- votes that were made up


def made_votes(
    seed: int, kinds: Sequence[int], n_each: int, threshold: float = 0.0
) -> tuple[Votes, Floats]:
    """Votes of judges of these kinds on random pairs, and how good the items are: (N_ITEMS,)."""
    rng = np.random.default_rng([seed, 97])
    X = rng.standard_normal((N_ITEMS, N_COLUMNS))
    worth = X @ rng.standard_normal(N_COLUMNS) + 2 * np.sin(X @ rng.standard_normal(N_COLUMNS))
    worth = (worth - worth.mean()) / worth.std()
    return votes_on(X, worth, rng, kinds, n_each, threshold), worth


def noise_of(worth: Floats) -> float:
    """The noise with which one random pair in five is put the wrong way round."""
    first, second = np.triu_indices(len(worth[:N_ITEMS]), 1)
    gaps = np.abs(worth[first] - worth[second])

    def surplus(noise: float) -> float:
        return float(norm.cdf(-gaps / noise).mean()) - ERRS

    return float(optimize.brentq(surplus, 1e-3, 1e3))


def votes_on(
    X: Floats,
    worth: Floats,
    rng: np.random.Generator,
    kinds: Sequence[int],
    n_each: int,
    threshold: float,
) -> Votes:
    """Votes on random pairs of items; `threshold` of ties, over the noise, of every judge."""
    noise = noise_of(worth)
    kind = np.repeat(np.asarray(kinds), n_each)
    n = len(kind)
    left = rng.integers(len(X), size=n)
    right = (left + rng.integers(1, len(X), size=n)) % len(X)
    gap = (worth[left] - worth[right]) * np.where(kind == CONTRARY, -1.0, 1.0)
    gap = np.where(kind == RANDOM, 0.0, gap) + noise * LEANING * (kind == LEFTS)
    seen = gap + noise * rng.standard_normal(n)
    doubt = noise * np.where(kind == TIES, DOUBT, threshold)
    winner = np.where(seen > doubt, LEFT, np.where(seen < -doubt, RIGHT, TIE))
    judge = np.asarray([f"judge {number}" for number in range(len(kinds))]).repeat(n_each)
    return Votes(X, np.zeros(len(X), dtype=np.int64), left, right, winner, judge)


def planted(settings: Settings, rng: np.random.Generator, draw: Draw, method: DrawMethod) -> Result:
    """Misordered pairs of the consensus with judges and without, and what was said of the judges."""
    kind, seed = str(draw[0]), int(draw[1])
    kinds = KINDS if kind == "planted" else (GOOD,) * N_JUDGES
    votes, worth = made_votes(seed if kind == "planted" else 1000 + seed, kinds, N_EACH)
    model, plain = (fitted(votes, learner, seed) for learner in ("judged", "plain"))
    errors = [float(disagreement_error(worth, m.predict(votes.items))) for m in (model, plain)]
    about = about_judges(model)
    judges = [about[f"judge {number}"] for number in range(len(kinds))]
    return {"misordered": errors[0], "without": errors[1], "judges": judges, "fits": 2}


def tied(settings: Settings, rng: np.random.Generator, draw: Draw, method: DrawMethod) -> Result:
    """Log losses on new votes of a judge who says tie that often, by three ways to take ties."""
    share, seed = int(draw[1]) / 100, int(draw[2])
    threshold = tie_threshold(share)
    everything, _ = made_votes(2000 + seed, (GOOD,) * 2 * N_JUDGES, N_EACH, threshold)
    first = np.arange(len(everything)) < len(everything) // 2
    train, test = everything.take(first), everything.take(~first)
    losses = {}
    for title, learner in list(OWN.items())[1:]:
        chances = chances_of(fitted(train, learner, seed), train, test, learner)
        losses[title] = float(log_losses(chances, test.winner).mean())
    return {"losses": losses, "fits": len(losses)}


def tie_threshold(share: float) -> float:
    """Over the noise, below which differences are ties; as if items were normal."""
    signal = np.tan((0.5 - ERRS) * np.pi)  # deviation of a difference, over the noise
    return float(norm.ppf(0.5 + share / 2) * np.sqrt(1 + signal**2))


def timed(settings: Settings, rng: np.random.Generator, draw: Draw, method: DrawMethod) -> Result:
    """Seconds of the processor and by the clock, and memory, of a fit with judges."""
    if draw[0] == "time":
        votes, _ = language_votes(settings.folder)
    else:
        n_votes, n_items, n_judges = LARGE
        X = rng.standard_normal((n_items, N_COLUMNS))
        worth = X @ rng.standard_normal(N_COLUMNS)
        kinds = np.resize(KINDS, n_judges).tolist()
        votes = votes_on(X, worth / worth.std(), rng, kinds, n_votes // n_judges, 0.2)
    begin, processor = time.perf_counter(), time.process_time()
    memory = peak_memory_mb(lambda: fitted(votes, "judged", 0))
    return {
        "seconds": time.process_time() - processor,
        "wall_seconds": time.perf_counter() - begin,
        "memory_mb": memory,
    }


# ---- what came out

Losses: TypeAlias = dict[str, Floats]  # method → (seeds, votes)


def conclude(settings: Settings, results: Results) -> Outcome:
    """Log losses with judges and without, few people and many machines, judges that are known."""
    draws = by_draw(results)
    tables: list[Table] = []
    findings: list[Finding] = []
    figures: list[Figure] = []
    by_votes, by_judges = (_folds(draws, kind) for kind in ("votes", "judges"))
    if by_votes:
        tables.append(_loss_table(by_votes))
    findings += _vote_findings(by_votes)
    findings += _tie_findings(by_votes, draws)
    findings += _judge_fold_finding(by_judges)
    calibration = _calibration(by_votes.get(JUDGED, {}))
    findings += calibration[0]
    tables += calibration[1]
    figures += calibration[2]
    machines = {draw: found for draw, found in draws.items() if draw[0] == "machines"}
    if any(_machine_losses(machines, size) for size in SIZES):
        tables.append(_machine_table(machines))
    findings += _machine_findings(machines)
    findings += _side_finding(draws)
    table, about = _planted(draws)
    tables += table
    findings += about
    findings += _time_findings(draws)
    return Outcome(tables, findings, figures, n_fits=fit_count(results))


def _folds(draws: Mapping[Draw, Mapping[str, Result]], kind: str) -> dict[str, Any]:
    """Of every method: winner, chances of left and tie, and loss (seeds, votes); of the folds that
    all methods were run on, and the seeds that have most of them.
    """
    titles = {title for draw, found in draws.items() if draw[0] == kind for title in found}
    seeds: dict[int, list[Mapping[str, Result]]] = {}
    for draw, found in draws.items():
        if draw[0] == kind and set(found) == titles:
            seeds.setdefault(int(draw[1]), []).append(found)
    n_folds = max((len(folds) for folds in seeds.values()), default=0)
    whole = [folds for _, folds in sorted(seeds.items()) if len(folds) == n_folds]
    methods: dict[str, Any] = {}
    for title in sorted(titles) if whole else ():
        columns: dict[str, list[Floats]] = {"left": [], "tie": [], "winner": []}
        for folds in whole:
            order = np.argsort(np.concatenate([found[title]["rows"] for found in folds]))
            for name, column in columns.items():
                values = np.concatenate([np.asarray(found[title][name]) for found in folds])
                column.append(values[order])
        stacked = {name: np.stack(column) for name, column in columns.items()}
        if len({len(row) for row in columns["winner"]}) == 1:
            methods[title] = stacked | _measures(stacked)
    return methods


def _measures(columns: Mapping[str, Floats]) -> dict[str, Floats]:
    losses, wrong = [], []
    for left, tie, winner in zip(columns["left"], columns["tie"], columns["winner"], strict=True):
        chances = np.stack([left, tie, 1 - left - tie], axis=1)
        losses.append(log_losses(chances, winner.astype(int)))
        wrong.append(wrong_among_untied(chances, winner.astype(int)))
    return {"loss": np.stack(losses), "wrong": np.asarray([row.mean() for row in wrong])} | (
        {"each": np.stack(wrong)} if len({len(row) for row in wrong}) == 1 else {}
    )


def _judged(claim: str, evidence: str, *, reached: bool, interval: Any = None) -> Finding:
    verdict: Verdict = HOLDS if reached else DOES_NOT_HOLD
    return Finding(TARGET, claim, verdict, evidence, interval=interval)


def _untested(claim: str) -> Finding:
    return Finding(TARGET, claim, CANNOT_BE_TESTED, "Not run.")


def _ratio(claim: str, ours: Floats, others: Floats, limit: float, units: str) -> Finding:
    """The finding that the mean of ours (seeds, units) is at most limit x that of others."""
    if not others.any():
        return _untested(claim)
    ratio = float(ours.mean() / others.mean())
    gap = gap_between(ours, others)
    low, high = (1 + end / float(others.mean()) for end in (gap.low, gap.high))
    evidence = f"{ratio:.3f} ({low:.3f} to {high:.3f}) {gap.over(units)}."
    return _judged(claim, evidence, reached=ratio <= limit, interval=(ratio, low, high))


def _vote_findings(methods: Mapping[str, Any]) -> list[Finding]:
    claims = (
        "folds over votes: log loss at most 0.815",
        f"folds over votes: log loss at most 0.865 x that with {PLAIN}",
        f"folds over votes: wrong among untied at most 0.95 x that with {PLAIN}",
        "folds over votes: log loss at most that of the best peer",
    )
    if JUDGED not in methods:
        return [_untested(claim) for claim in claims]
    judged, plain = methods[JUDGED], methods[PLAIN]
    mean = float(judged["loss"].mean())
    peer = min(PEERS, key=lambda title: float(methods[title]["loss"].mean()))
    return [
        _judged(
            claims[0], f"{mean:.4f}, {count(len(judged['loss']), 'seed')}.", reached=mean <= 0.815
        ),
        _ratio(claims[1], judged["loss"], plain["loss"], 0.865, "votes"),
        _ratio(claims[2], judged["each"], plain["each"], 0.95, "votes"),
        _ratio(claims[3], judged["loss"], methods[peer]["loss"], 1.0, f"votes, {peer}"),
    ]


def _tie_findings(
    methods: Mapping[str, Any], draws: Mapping[Draw, Mapping[str, Result]]
) -> list[Finding]:
    """Ties against one win each, and against none."""
    found = []
    for other in (HALVES, DROPPED):
        claim = f"ties, llmfao: log loss below that where {other}, by an interval without 0"
        if PLAIN not in methods or other not in methods:
            found.append(_untested(claim))
            continue
        gap = gap_between(methods[PLAIN]["loss"], methods[other]["loss"])
        evidence = f"{gap.mean:+.4f} ({gap.low:+.4f} to {gap.high:+.4f}) {gap.over('votes')}."
        found.append(_judged(claim, evidence, reached=gap.high < 0, interval=gap.interval))
    for share in TIE_SHARES:
        losses = [
            by_method[PLAIN]["losses"]
            for draw, by_method in draws.items()
            if draw[:2] == ("ties", share)
        ]
        for other in (HALVES, DROPPED):
            claim = f"{share} % ties, made up: log loss below that where {other}"
            if not losses:
                found.append(_untested(claim))
                continue
            gaps = [entry[PLAIN] - entry[other] for entry in losses]
            mean, low, high = student_interval(gaps)
            evidence = f"{mean:+.4f} ({low:+.4f} to {high:+.4f}), {len(gaps)} seeds."
            found.append(_judged(claim, evidence, reached=high < 0, interval=(mean, low, high)))
    return found


def _judge_fold_finding(methods: Mapping[str, Any]) -> list[Finding]:
    claim = f"folds over judges: log loss at most 1.005 x that with {PLAIN}"
    if JUDGED not in methods or PLAIN not in methods:
        return [_untested(claim)]
    return [_ratio(claim, methods[JUDGED]["loss"], methods[PLAIN]["loss"], 1.005, "votes")]


def _calibration(judged: Mapping[str, Any]) -> tuple[list[Finding], list[Table], list[Figure]]:
    """Probabilities of ties in ten bins of equally many votes."""
    claims = (
        f"P(tie) is off by at most {LIMIT_MEAN:.2f} in the mean of ten bins",
        f"P(tie) is off by at most {LIMIT_ANY:.2f} in any of ten bins",
    )
    if not judged:
        return [_untested(claim) for claim in claims], [], []
    chance, is_tie = judged["tie"].ravel(), (judged["winner"] == TIE).ravel()
    bins = np.array_split(np.argsort(chance, kind="stable"), N_BINS)
    expected = [float(chance[rows].mean()) for rows in bins]
    seen = [float(is_tie[rows].mean()) for rows in bins]
    off = np.abs(np.subtract(expected, seen))
    findings = [
        _judged(claims[0], f"{off.mean():.3f}.", reached=bool(off.mean() <= LIMIT_MEAN)),
        _judged(claims[1], f"{off.max():.3f}.", reached=bool(off.max() <= LIMIT_ANY)),
    ]
    rows = [
        (str(number + 1), *values) for number, values in enumerate(zip(expected, seen, strict=True))
    ]
    table = Table("Probabilities of ties", ("bin", "expected", "came out"), rows, details=True)
    series = [Series("ten bins of votes", expected, seen, kind="points")]
    panel = Panel("P(tie)", "expected", "came out", series, diagonal=True)
    return findings, [table], [Figure("ties", "Probabilities of ties, and how many came.", [panel])]


def _machine_losses(machines: Mapping[Draw, Mapping[str, Result]], size: int) -> dict[str, Floats]:
    there = [
        found
        for draw, found in machines.items()
        if draw[1] == size and len(found) == len((ALONE, POOLED, BOTH))
    ]
    return {
        title: np.asarray([found[title]["error"] for found in there])
        for title in (ALONE, POOLED, BOTH)
        if len(there) > 1
    }


def _machine_findings(machines: Mapping[Draw, Mapping[str, Result]]) -> list[Finding]:
    found = []
    for size in SIZES:
        claim = (
            f"{size:,} votes of people and all of machines: log loss at most {CLOSE} above the"
            f" better of {ALONE} and {POOLED}"
        )
        losses = _machine_losses(machines, size)
        if not losses:
            found.append(_untested(claim))
            continue
        better = min((ALONE, POOLED), key=lambda title: float(losses[title].mean()))
        mean, low, high = student_interval(losses[BOTH] - losses[better])
        evidence = f"{mean:+.4f} ({low:+.4f} to {high:+.4f}), {len(losses[BOTH])} draws, {better}."
        interval = mean, low, high
        found.append(_judged(claim, evidence, reached=mean <= CLOSE, interval=interval))
    size = SIZES[0]
    losses = _machine_losses(machines, size)
    claim = f"{size} votes of people: lower than {ALONE} and {POOLED}, by intervals without 0"
    if not losses:
        return [*found, _untested(claim)]
    gaps = {title: student_interval(losses[BOTH] - losses[title]) for title in (ALONE, POOLED)}
    shown = "; ".join(
        f"{title} {mean:+.4f} ({low:+.4f} to {high:+.4f})"
        for title, (mean, low, high) in gaps.items()
    )
    reached = all(high < 0 for _, _, high in gaps.values())
    return [*found, _judged(claim, f"{shown}.", reached=reached)]


def _side_finding(draws: Mapping[Draw, Mapping[str, Result]]) -> list[Finding]:
    claim = "the side that gpt3 favours is found, with its sign"
    result = draws.get(("side", 0, 0), {}).get(JUDGED)
    if result is None:
        return [_untested(claim)]
    about = result["gpt3"]
    reached = about["side"] * about["counted"] > 0
    evidence = (
        f"{about['side']:+.2f} (gpt4: {result['gpt4']['side']:+.2f}), of −1 to 1, above 0 is left; of"
        f" its verdicts {about['counted']:+,} more are left than right."
    )
    return [_judged(claim, evidence, reached=reached)]


def _planted(
    draws: Mapping[Draw, Mapping[str, Result]],
) -> tuple[list[Table], list[Finding]]:
    """Judges of known kinds."""
    claims = (
        "planted: area under the curve of reliability of {random, contrary} at least 0.97",
        "planted: the contrary judge is named in 19 of 20",
        f"planted: misordered pairs of the consensus at most 0.85 x those with {PLAIN}",
        "planted: 95 % intervals of reliability hold 90 to 99 %",
        f"20 equal judges: misordered pairs at most 1.02 x those with {PLAIN}",
    )
    found = [by[JUDGED] for draw, by in draws.items() if draw[0] == "planted"]
    equal = [by[JUDGED] for draw, by in draws.items() if draw[0] == "equal"]
    findings: list[Finding] = []
    rows: list[tuple[Cell, ...]] = []
    for title, these in (("planted", found), ("equal", equal)):
        if these:
            values = [[entry[name] for entry in these] for name in ("misordered", "without")]
            rows.append((title, *(float(np.mean(value)) for value in values), len(these)))
    if found:
        bad = np.isin(KINDS, (RANDOM, CONTRARY))
        areas, named, inside = [], 0, []
        for entry in found:
            reliability = np.asarray([judge["reliability"] for judge in entry["judges"]])
            pairs = reliability[~bad][:, None] - reliability[bad]
            areas.append(float(np.mean(pairs > 0) + 0.5 * np.mean(pairs == 0)))
            named += _contrary(entry["judges"])
            inside += _inside(entry["judges"])
        area = student_interval(areas)
        findings += [
            _judged(
                claims[0],
                f"{area[0]:.3f} ({area[1]:.3f} to {area[2]:.3f}), {len(areas)} seeds.",
                reached=area[0] >= 0.97,
                interval=area,
            ),
            _judged(claims[1], f"{named} of {len(found)}.", reached=named >= 0.95 * len(found)),
            _consensus(claims[2], found, 0.85),
            _judged(
                claims[3],
                f"{np.mean(inside):.3f} of {len(inside)} judges.",
                reached=bool(0.9 <= np.mean(inside) <= 0.99),
            ),
        ]
    else:
        findings += [_untested(claim) for claim in claims[:4]]
    findings.append(_consensus(claims[4], equal, 1.02) if equal else _untested(claims[4]))
    head = ("judges", f"misordered, {JUDGED}", f"misordered, {PLAIN}", "seeds")
    return [Table("Judges that were made up", head, rows, digits=4)] if rows else [], findings


def _consensus(claim: str, found: Sequence[Result], limit: float) -> Finding:
    values = [np.asarray([entry[name] for entry in found]) for name in ("misordered", "without")]
    ratio = float(values[0].mean() / values[1].mean())
    _, low, high = student_interval(values[0] - values[1])
    ends = [1 + end / float(values[1].mean()) for end in (low, high)]
    evidence = f"{ratio:.3f} ({ends[0]:.3f} to {ends[1]:.3f}), {len(found)} seeds."
    return _judged(claim, evidence, reached=ratio <= limit, interval=(ratio, *ends))


def _contrary(judges: Sequence[Result]) -> bool:
    """Whether the contrary judge is named, and nobody else."""
    named = [judge["contrary"] for judge in judges]
    return named == [kind == CONTRARY for kind in KINDS]


def _inside(judges: Sequence[Result]) -> list[bool]:
    """Whether the intervals hold the reliabilities: those of judges alike are the median of theirs,
    of random ones 0, and of the contrary one minus that of the good ones.
    """
    values = np.asarray([judge["reliability"] for judge in judges])
    good = float(np.median(values[np.isin(KINDS, (GOOD, TIES, LEFTS))]))
    truth = {RANDOM: 0.0, CONTRARY: -good}
    return [
        bool(judge["interval"][0] <= truth.get(kind, good) <= judge["interval"][1])
        for kind, judge in zip(KINDS, judges, strict=True)
    ]


def _time_findings(draws: Mapping[Draw, Mapping[str, Result]]) -> list[Finding]:
    found = []
    for kind, claim, seconds, memory in (
        ("time", "8,931 votes with judges: at most 15 s of processor time", 15.0, np.inf),
        (
            "large",
            "100,000 votes on 2,000 items by 1,000 judges: at most 90 s of processor time, 1 GB",
            90.0,
            1000.0,
        ),
    ):
        result = draws.get((kind, 0, 0), {}).get(JUDGED)
        if result is None:
            found.append(_untested(claim))
            continue
        taken, used = result["seconds"], result["memory_mb"] or 0.0
        evidence = f"{taken:.1f} s ({result['wall_seconds']:.1f} s by the clock), {used:,.0f} MB."
        found.append(_judged(claim, evidence, reached=taken <= seconds and used <= memory))
    return found


def _loss_table(methods: Mapping[str, Any]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for title in (*OWN, *PEERS, SHARES):
        if title in methods:
            found = methods[title]
            rows.append((title, float(found["loss"].mean()), float(found["wrong"].mean())))
    seeds, n_votes = next(iter(methods.values()))["loss"].shape
    note = f"{n_votes:,} votes held out, {count(seeds, 'seed')}; each peer chose among {N_SETTINGS} settings."
    head = ("method", "log loss", "wrong among untied")
    return Table("Votes of 124 people, five folds over votes", head, rows, digits=4, note=note)


def _machine_table(machines: Mapping[Draw, Mapping[str, Result]]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for size in SIZES:
        losses = _machine_losses(machines, size)
        if losses:
            means = [float(losses[title].mean()) for title in (ALONE, POOLED, BOTH)]
            rows.append((f"{size:,}", *means, len(losses[BOTH])))
    head = ("votes of people", ALONE, POOLED, BOTH, "draws")
    return Table("Log loss on other votes of people", head, rows, digits=4)


STUDY = Study(
    name="votes",
    title="Whom to trust: judges, human and machine",
    about=(
        "PreferenceGP with judges, without them, with ties as one win each and without ties, beside"
        " Davidson's model, NoisyBT, choix and evalica on 8,931 votes of 124 people about answers of"
        " language models (CC BY 4.0, D. Ustalov): an item is known by its model and by itself."
        f" Peers choose among {N_SETTINGS} settings each by three folds of the training votes and"
        " come to probabilities of ties by Davidson's formula, learned on held-out votes. Then a few"
        " votes of people with all verdicts of two language models, judges of planted kinds, and"
        " made-up votes with 20 and 40 % ties. The tables and findings say how many of the"
        f" {N_SEEDS} seeds of folds, {N_DRAWS} draws of machines, {N_PLANTED} and {N_EQUAL} of made-up"
        " judges were run."
    ),
    parts=parts,
    conclude=conclude,
    files=VOTES,
    fixed_draws=True,
    optional=("choix", "evalica"),
)
STUDIES = (STUDY,)
