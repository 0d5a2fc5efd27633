"""Are the probabilities of comparisons right? Held-out users' comparisons of sushi, beside BoTorch's PairwiseGP.

Protocol: each of 5,000 users put ten of 100 kinds of sushi in order. Ten folds of users; the 45 comparisons of every
user are predicted once, by a model that saw other users only: five comparisons (the ten kinds paired at random) of
each of so many users. The function is one for all users: "items" knows the columns of an item, "items and users" also
gender, age and region of the user, so that a row is an item as seen by a user.

A prediction counts for the side that it favours, p >= ½. Expected calibration error: in ten bins of p, each 0.05 wide,
|share of favourites that won − mean p|, weighted by the comparisons in the bin. Intervals are over users, drawn again
with all their comparisons. As the error is never 0, even for right probabilities, "if right" says what these very
probabilities would get on average if every answer were drawn by them. What is wrong one way in one fold and the other
way in another cancels when all are taken together, so the mean of the folds' own errors stands beside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from corank import PreferenceGP
from studies.questions.answers import expected_parts, sushi_orders
from studies.questions.data import SUSHI, Floats, Integers, sushi
from studies.questions.pairwise_peer import Chances, fit_pairwise_gp, installed
from studies.questions.study import (
    Job,
    Method,
    Options,
    Record,
    Result,
    Study,
    Summary,
    Table,
    all_jobs,
    by_draw,
    method_titles,
)

N_FOLDS, N_BINS, N_RESAMPLES, N_PAIRS = 10, 10, 1000, 5
N_PARTS = 25  # of the held-out users, predicted one after the other to save memory
SETTINGS = (("items", 40), ("items", 400), ("items and users", 60))
ONE, EACH, PEER = "PreferenceGP", "PreferenceGP, a width a column", "BoTorch PairwiseGP"


def methods() -> list[Method]:
    """BoTorch only where it is installed."""
    own = [Method(ONE, "PreferenceGP"), Method(EACH, "PreferenceGP", {"gamma": "columns"})]
    return own + ([Method(PEER, "botorch")] if installed() else [])


def jobs(options: Options) -> list[Job]:
    return all_jobs(list(SETTINGS[:1] if options.quick else SETTINGS), methods())


# ---------------------------------------------------------------- one job: ten folds


@dataclass(frozen=True)
class Compared:
    """Rows, and who beat whom among them."""

    X: Floats
    winners: Integers
    losers: Integers


def run(options: Options, job: Job) -> Result:
    """All folds of one setting, and what they say together."""
    name, n_users = str(job.draw[0]), int(job.draw[1])
    n_all, n_folds = (200, 2) if options.quick else (len(sushi_orders(options.folder)), N_FOLDS)
    users = np.random.default_rng([0, 31]).permutation(len(sushi_orders(options.folder)))[:n_all]
    folds = np.array_split(users, n_folds)
    chances: list[Floats] = []
    for fold, held_out in enumerate(folds):
        rng = np.random.default_rng([fold, n_users, 32])
        seen = rng.permutation(np.setdiff1d(users, held_out))[:n_users]
        predict = _fit(job.method, _answers(options, name, seen, rng))
        parts = [_of_users(predict, options, name, some) for some in np.array_split(held_out, N_PARTS)]
        chances.append(np.concatenate(parts))
    by_fold = [measured(own) for own in chances]
    found = {name: [round(own[name], 6) for own in by_fold] for name in ("calibration", "log_loss")}
    return measured(np.concatenate(chances)) | {"folds": found, "fits": n_folds}


def _rows(options: Options, name: str, user: int) -> Floats:
    """The ten rows of a user, the best first."""
    data, order = sushi(options.folder), sushi_orders(options.folder)[user]
    if name == "items":
        return np.asarray(data.items[order])
    assert data.users is not None
    return np.hstack([data.items[order], np.repeat(data.users[user][None, :], len(order), axis=0)])


def _answers(options: Options, name: str, users: Integers, rng: np.random.Generator) -> Compared:
    """Five comparisons of each user: the ten kinds paired at random."""
    rows, winners, losers = [], [], []
    for position, user in enumerate(users):
        pairs = np.sort(rng.permutation(2 * N_PAIRS).reshape(N_PAIRS, 2), axis=1) + 2 * N_PAIRS * position
        rows.append(_rows(options, name, int(user)))
        winners.append(pairs[:, 0])
        losers.append(pairs[:, 1])
    X, places = np.unique(np.concatenate(rows), axis=0, return_inverse=True)  # an item seen twice is one item
    return Compared(X, places[np.concatenate(winners)], places[np.concatenate(losers)])


def _fit(method: Method, seen: Compared) -> Chances:
    if method.learner == "botorch":
        return fit_pairwise_gp(seen.X, seen.winners, seen.losers)
    with expected_parts():
        model = PreferenceGP(**method.settings).fit_comparisons(seen.X, seen.winners, seen.losers)
    return partial(_own_chances, model)


def _own_chances(model: Any, rows: Floats, first: Integers, second: Integers) -> Floats:
    return np.asarray(model.predict_comparison(rows[first], rows[second], observed=True))


def _of_users(predict: Chances, options: Options, name: str, users: Integers) -> Floats:
    """The probabilities given to what the users said, (users, 45)."""
    first, second = np.triu_indices(2 * N_PAIRS, 1)
    begin = 2 * N_PAIRS * np.arange(len(users))[:, None]
    rows = np.concatenate([_rows(options, name, int(user)) for user in users])
    chances = predict(rows, (begin + first).ravel(), (begin + second).ravel())
    return chances.reshape(len(users), -1)


# ---------------------------------------------------------------- what probabilities are worth


def measured(chances: Floats) -> Result:
    """Of probabilities (users, comparisons) given to what was answered."""
    favoured = np.maximum(chances, 1 - chances)
    won = (chances > 0.5) + 0.5 * (chances == 0.5)
    bins = np.minimum(((favoured - 0.5) * 2 * N_BINS).astype(int), N_BINS - 1)
    inside = np.stack([bins == b for b in range(N_BINS)], axis=1)  # (users, bins, comparisons)
    counts = inside.sum(axis=2).astype(float)
    said, came = (np.einsum("ubc,uc->ub", inside, values) for values in (favoured, won))
    losses = -np.log(np.maximum(chances, 1e-300)).mean(axis=1)
    rng = np.random.default_rng(0)
    again = rng.multinomial(len(chances), np.full(len(chances), 1 / len(chances)), size=N_RESAMPLES).astype(float)
    total = counts.sum(axis=0)
    return {
        "error": float(1 - won.mean()),
        "log_loss": float(losses.mean()),
        "calibration": float(calibration_error(total, said.sum(axis=0), came.sum(axis=0))),
        "if_right": _if_right(favoured, inside, rng),
        "counts": [int(n) for n in total],
        "said": [round(float(x), 6) for x in said.sum(axis=0) / np.maximum(total, 1)],
        "came": [round(float(x), 6) for x in came.sum(axis=0) / np.maximum(total, 1)],
        "bands": _bands(again @ counts, again @ came),
        "calibration_again": [
            round(float(x), 6) for x in calibration_error(again @ counts, again @ said, again @ came)
        ],
        "log_loss_again": [round(float(x), 6) for x in again @ losses / len(losses)],
    }


def calibration_error(counts: Floats, said: Floats, came: Floats) -> Any:
    """Σ_b |Σ won − Σ p| / n over bins (..., bins): sums of comparisons, of probabilities and of wins."""
    return np.abs(came - said).sum(axis=-1) / counts.sum(axis=-1)


def _if_right(favoured: Floats, inside: Any, rng: np.random.Generator, rounds: int = 20) -> float:
    """The mean calibration error of answers drawn, independently, by these probabilities."""
    counts = inside.sum(axis=(0, 2)).astype(float)
    said = np.einsum("ubc,uc->b", inside, favoured)
    errors = []
    for _ in range(rounds):
        won = (rng.random(favoured.shape) < favoured).astype(float)
        errors.append(calibration_error(counts, said, np.einsum("ubc,uc->b", inside, won)))
    return float(np.mean(errors))


def _bands(counts: Floats, came: Floats) -> list[list[float]]:
    """95 % intervals of the share that won, a bin; of one without comparisons [0, 1]."""
    shares = np.where(counts > 0, came / np.maximum(counts, 1), np.nan)
    bands = []
    for own in shares.T:
        known = own[~np.isnan(own)]
        ends = np.quantile(known, [0.025, 0.975]) if len(known) else np.asarray([0.0, 1.0])
        bands.append([round(float(end), 6) for end in ends])
    return bands


# ---------------------------------------------------------------- what all of it says


def summarise(records: Sequence[Record]) -> Summary:
    draws, titles = by_draw(records), method_titles(records)
    rows, notes = [], []
    for setting in dict.fromkeys(record.draw for record in records):
        for method in titles:
            own = draws[setting][method]
            rows.append((_title(setting), method, *_cells(own)))
        if PEER in titles:
            notes += [_against(setting, method, draws[setting]) for method in (ONE, EACH)]
    if PEER not in titles:
        notes.append("BoTorch is not installed, so it is missing here: `pip install --group peers`.")
    head = (
        "known; users seen",
        "method",
        "calibration error (95 %)",
        "if right",
        "mean of folds",
        "log loss",
        "wrong way round",
    )
    curves = [_curve(setting, draws[setting], titles) for setting in dict.fromkeys(record.draw for record in records)]
    return Summary([Table("Held-out comparisons of 5,000 users", head, rows), *curves], [], notes)


def _title(setting: tuple[int | str, ...]) -> str:
    return f"{setting[0]}; {setting[1]}"


def _cells(own: Result) -> tuple[str, ...]:
    low, high = np.quantile(own["calibration_again"], [0.025, 0.975])
    return (
        f"{own['calibration']:.4f} ({low:.4f} to {high:.4f})",
        f"{own['if_right']:.4f}",
        f"{np.mean(own['folds']['calibration']):.4f}",
        f"{own['log_loss']:.4f}",
        f"{own['error']:.4f}",
    )


def _against(setting: tuple[int | str, ...], method: str, found: dict[str, Result]) -> str:
    """Differences: over the same resamples of users for the models as they are, and from fold to fold."""
    parts = []
    for name, words in (("calibration", "calibration error"), ("log_loss", "log loss")):
        gaps = np.asarray(found[method][f"{name}_again"]) - np.asarray(found[PEER][f"{name}_again"])
        low, high = np.quantile(gaps, [0.025, 0.975])
        gap = found[method][name] - found[PEER][name]
        own, peer = (np.asarray(found[m]["folds"][name]) for m in (method, PEER))
        less = f"less in {int((own < peer).sum())} of {len(own)} folds"
        parts.append(f"{words} {gap:+.4f} ({low:+.4f} to {high:+.4f} over users; {less})")
    return f"{_title(setting)}: {method} minus {PEER}: {', '.join(parts)}."


def _curve(setting: tuple[int | str, ...], found: dict[str, Result], titles: Sequence[str]) -> Table:
    rows = []
    for b in range(N_BINS):
        cells = []
        for method in titles:
            own = found[method]
            n = own["counts"][b]
            cells.append(f"{own['said'][b]:.3f} → {own['came'][b]:.3f} ({n:,})" if n else "none")
        rows.append((f"{0.5 + b / 20:.2f} to {0.55 + b / 20:.2f}", *cells))
    title = f"{_title(setting)}: mean probability of the favourite → share that won (comparisons)"
    return Table(title, ("probability", *titles), rows)


STUDY = Study(
    name="calibration",
    title="Probabilities of held-out comparisons of sushi",
    about=(
        "5,000 users ordered ten of 100 kinds of sushi; ten folds of users, all 45 comparisons of every user predicted "
        "once (225,000), by a model that saw five comparisons of each of 40, 400 or 60 other users. One function for all "
        "users, of the columns of an item, or of those of item and user. Calibration error: ten bins of the probability of "
        'the favourite; intervals over users, for the fitted models as they are; "if right": what the same probabilities '
        'would get if answers were drawn by them; "mean of folds": of the errors of each model alone. BoTorch with its own '
        "priors and one width a column, inputs scaled to the unit cube."
    ),
    draw_names=("known", "users"),
    protocol=2,
    jobs=jobs,
    run=run,
    summarise=summarise,
    needs=SUSHI,
)
