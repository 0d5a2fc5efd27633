"""Are the probabilities of comparisons right? Held-out users' comparisons of sushi, beside
BoTorch's PairwiseGP.

Protocol: each of 5,000 users put ten of 100 kinds of sushi in order. Ten folds of users; the 45
comparisons of every user are predicted once, by a model that saw other users only: five comparisons
(the ten kinds paired at random) of each of so many users. The function is one for all users:
"items" knows the columns of an item, "items and users" also gender, age and region of the user, so
that a row is an item as seen by a user.

A prediction counts for the side that it favours, p >= ½. Expected calibration error: in ten bins of
p, each 0.05 wide,
|share of favourites that won − mean p|, weighted by the comparisons in the bin. Intervals are over users, drawn again
with all their comparisons. As the error is never 0, even for right probabilities, "if right" says what these very
probabilities would get on average if every answer were drawn by them. What is wrong one way in one fold and the other
way in another cancels when all are taken together, so the mean of the errors of single folds stands beside.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from scipy.special import ndtr

from corank import PreferenceGP
from studies.data import SUSHI, Floats, Integers, sushi, sushi_orders, unconnected_comparisons
from studies.questions.methods import (
    Draw,
    DrawMethod,
    Results,
    by_draw,
    draw_parts,
    fit_count,
    method_titles,
)
from studies.study import Figure, Outcome, Panel, Part, Result, Series, Settings, Study, Table

N_FOLDS, N_BINS, N_RESAMPLES, N_PAIRS = 10, 10, 1000, 5
N_BATCHES = 25  # of the held-out users, predicted one after the other to save memory
FEWEST_SHOWN = 100  # comparisons of a bin below which the figure leaves it out
ANSWER_NOISE = 2.0  # BoTorch's PairwiseProbitLikelihood divides a difference by √2
SETTINGS: tuple[Draw, ...] = (("items", 40), ("items", 400), ("items and users", 60))
ONE_WIDTH, WIDTHS, PEER = "PreferenceGP", "PreferenceGP, a width per column", "BoTorch PairwiseGP"
# rows, row numbers a, b → P(a is said to beat b)
Chances: TypeAlias = Callable[[Floats, Integers, Integers], Floats]


def methods() -> list[DrawMethod]:
    """The learners; BoTorch only where it is installed."""
    learners = [
        DrawMethod(ONE_WIDTH, "PreferenceGP"),
        DrawMethod(WIDTHS, "PreferenceGP", {"gamma": "columns"}),
    ]
    return learners + ([DrawMethod(PEER, "botorch")] if installed() else [])


def parts(settings: Settings) -> list[Part]:
    """One part per setting and method: all ten folds."""
    return draw_parts(run, SETTINGS[:1] if settings.quick else SETTINGS, methods())


# ---- ten folds of users


@dataclass(frozen=True)
class SeenComparisons:
    """Rows, and who beat whom among them."""

    X: Floats
    winners: Integers
    losers: Integers


def run(settings: Settings, rng: np.random.Generator, draw: Draw, method: DrawMethod) -> Result:
    """All folds of one setting, and what they say together."""
    name, n_users = str(draw[0]), int(draw[1])
    n_all, n_folds = (200, 2) if settings.quick else (len(sushi_orders(settings.folder)), N_FOLDS)
    users = np.random.default_rng([0, 31]).permutation(len(sushi_orders(settings.folder)))[:n_all]
    chances: list[Floats] = []
    for fold, held_out in enumerate(np.array_split(users, n_folds)):
        rng = np.random.default_rng([fold, n_users, 32])
        seen = rng.permutation(np.setdiff1d(users, held_out))[:n_users]
        predict = _fit(method, _answers(settings, name, seen, rng))
        batches = [
            _chances(predict, settings, name, batch)
            for batch in np.array_split(held_out, N_BATCHES)
        ]
        chances.append(np.concatenate(batches))
    by_fold = [measures_of(fold_chances) for fold_chances in chances]
    folds = {
        name: [round(measures[name], 6) for measures in by_fold]
        for name in ("calibration", "log_loss")
    }
    return measures_of(np.concatenate(chances)) | {"folds": folds, "fits": n_folds}


def _rows(settings: Settings, name: str, user: int) -> Floats:
    """The ten rows of a user, the best first."""
    data, order = sushi(settings.folder), sushi_orders(settings.folder)[user]
    if name == "items":
        return np.asarray(data.items[order])
    assert data.users is not None
    return np.hstack([data.items[order], np.repeat(data.users[user][None, :], len(order), axis=0)])


def _answers(
    settings: Settings, name: str, users: Integers, rng: np.random.Generator
) -> SeenComparisons:
    """Five comparisons of each user: the ten kinds paired at random."""
    rows, winners, losers = [], [], []
    for position, user in enumerate(users):
        pairs = (
            np.sort(rng.permutation(2 * N_PAIRS).reshape(N_PAIRS, 2), axis=1)
            + 2 * N_PAIRS * position
        )
        rows.append(_rows(settings, name, int(user)))
        winners.append(pairs[:, 0])
        losers.append(pairs[:, 1])
    # an item seen twice is one item
    X, places = np.unique(np.concatenate(rows), axis=0, return_inverse=True)
    return SeenComparisons(X, places[np.concatenate(winners)], places[np.concatenate(losers)])


def _fit(method: DrawMethod, seen: SeenComparisons) -> Chances:
    if method.learner == "botorch":
        return fit_pairwise_gp(seen)
    with unconnected_comparisons():
        model = PreferenceGP(**method.settings).fit_comparisons(seen.X, seen.winners, seen.losers)
    return partial(_preference_chances, model)


def _preference_chances(
    model: PreferenceGP, rows: Floats, first: Integers, second: Integers
) -> Floats:
    return np.asarray(model.predict_comparison(rows[first], rows[second], observed=True))


def _chances(predict: Chances, settings: Settings, name: str, users: Integers) -> Floats:
    """The probabilities given to what the users said, (users, 45)."""
    first, second = np.triu_indices(2 * N_PAIRS, 1)
    begin = 2 * N_PAIRS * np.arange(len(users))[:, None]
    rows = np.concatenate([_rows(settings, name, int(user)) for user in users])
    chances = predict(rows, (begin + first).ravel(), (begin + second).ravel())
    return chances.reshape(len(users), -1)


# ---- BoTorch, imported only where it is installed


def installed() -> bool:
    """Whether BoTorch can be imported."""
    return importlib.util.find_spec("botorch") is not None


def fit_pairwise_gp(compared: SeenComparisons) -> Chances:
    """BoTorch's PairwiseGP as its tutorial uses it: inputs scaled to the unit cube, its own priors,
    one width per column.

    Fitted by its own marginal likelihood (Laplace), on one thread.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of torch, when GPyTorch is imported
        import torch
        from botorch.fit import fit_gpytorch_mll
        from botorch.models.pairwise_gp import PairwiseGP, PairwiseLaplaceMarginalLogLikelihood
        from botorch.models.transforms.input import Normalize

    torch.set_num_threads(1)
    pairs = torch.as_tensor(np.stack([compared.winners, compared.losers], axis=1))
    model = PairwiseGP(
        torch.as_tensor(compared.X), pairs, input_transform=Normalize(d=compared.X.shape[1])
    )
    fit_gpytorch_mll(PairwiseLaplaceMarginalLogLikelihood(model.likelihood, model))
    return partial(_peer_chances, model)


def _peer_chances(model: Any, rows: Floats, first: Integers, second: Integers) -> Floats:
    """Probabilities of noisy answers, from the joint posterior of all rows."""
    import torch

    with torch.no_grad():
        posterior = model.posterior(torch.as_tensor(rows))
        mean = posterior.mean[:, 0].numpy()
        covariance = posterior.distribution.covariance_matrix.numpy()
    variances = np.diag(covariance)
    variance = np.maximum(variances[first] + variances[second] - 2 * covariance[first, second], 0.0)
    return np.asarray(ndtr((mean[first] - mean[second]) / np.sqrt(ANSWER_NOISE + variance)))


# ---- what probabilities are worth


def measures_of(chances: Floats) -> Result:
    """Errors of probabilities (users, comparisons) given to what was answered, as they are and over
    resampled users.
    """
    favoured = np.maximum(chances, 1 - chances)
    won = (chances > 0.5) + 0.5 * (chances == 0.5)
    bins = np.minimum(((favoured - 0.5) * 2 * N_BINS).astype(int), N_BINS - 1)
    # (users, bins, comparisons)
    inside = np.stack([bins == number for number in range(N_BINS)], axis=1)
    counts = inside.sum(axis=2).astype(float)
    said, came = (np.einsum("ubc,uc->ub", inside, values) for values in (favoured, won))
    losses = -np.log(np.maximum(chances, 1e-300)).mean(axis=1)
    rng = np.random.default_rng(0)
    again = rng.multinomial(
        len(chances), np.full(len(chances), 1 / len(chances)), size=N_RESAMPLES
    ).astype(float)
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
            round(float(x), 6)
            for x in calibration_error(again @ counts, again @ said, again @ came)
        ],
        "log_loss_again": [round(float(x), 6) for x in again @ losses / len(losses)],
    }


def calibration_error(counts: Floats, said: Floats, came: Floats) -> Any:
    """Σ_b |Σ won − Σ p| / n over bins (..., bins): sums of comparisons, of probabilities and of
    wins.
    """
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
    """95 % intervals of the share that won, one per bin; [0, 1] for a bin without comparisons."""
    shares = np.where(counts > 0, came / np.maximum(counts, 1), np.nan)
    bands = []
    for column in shares.T:
        defined = column[~np.isnan(column)]
        ends = np.quantile(defined, [0.025, 0.975]) if len(defined) else np.asarray([0.0, 1.0])
        bands.append([round(float(end), 6) for end in ends])
    return bands


# ---- what all of it says


def conclude(settings: Settings, results: Results) -> Outcome:
    """Errors of the probabilities, reliability by bins, and differences from BoTorch."""
    draws, titles = by_draw(results), method_titles(results)
    asked = [setting for setting in SETTINGS if setting in draws]
    rows, notes = [], []
    for setting in asked:
        for method in titles:
            rows.append((_title(setting), method, *_cells(draws[setting][method])))
        if PEER in titles:
            notes += [
                _against_peer(setting, method, draws[setting]) for method in (ONE_WIDTH, WIDTHS)
            ]
    if PEER not in titles:
        notes.append(
            "BoTorch is not installed, so it is missing here: `pip install --group peers`."
        )
    head = (
        "known; users seen",
        "method",
        "calibration error (95 %)",
        "if right",
        "mean of folds",
        "log loss",
        "wrong way round",
    )
    curves = [_reliability_table(setting, draws[setting], titles) for setting in asked]
    tables = [Table("Held-out comparisons of 5,000 users", head, rows), *curves]
    figure = Figure(
        "reliability",
        "How often the favourite won, by the probability it was given, with 95 % bands over users;"
        " in brackets the calibration error. On the diagonal probabilities are right.",
        [_reliability_panel(setting, draws[setting]) for setting in asked],
    )
    return Outcome(tables, figures=[figure], notes=notes, n_fits=fit_count(results))


def _title(setting: Draw) -> str:
    return f"{setting[0]}; {setting[1]}"


def _cells(result: Result) -> tuple[str, ...]:
    low, high = np.quantile(result["calibration_again"], [0.025, 0.975])
    return (
        f"{result['calibration']:.4f} ({low:.4f} to {high:.4f})",
        f"{result['if_right']:.4f}",
        f"{np.mean(result['folds']['calibration']):.4f}",
        f"{result['log_loss']:.4f}",
        f"{result['error']:.4f}",
    )


def _against_peer(setting: Draw, method: str, by_method: Mapping[str, Result]) -> str:
    """Differences: over the same resamples of users for the models as they are, and from fold to
    fold.
    """
    result, peer = by_method[method], by_method[PEER]
    sentences = []
    for name, title in (("calibration", "calibration error"), ("log_loss", "log loss")):
        gaps = np.asarray(result[f"{name}_again"]) - np.asarray(peer[f"{name}_again"])
        low, high = np.quantile(gaps, [0.025, 0.975])
        gap = result[name] - peer[name]
        n_less = int((np.asarray(result["folds"][name]) < np.asarray(peer["folds"][name])).sum())
        less = f"less in {n_less} of {len(result['folds'][name])} folds"
        sentences.append(f"{title} {gap:+.4f} ({low:+.4f} to {high:+.4f} over users; {less})")
    return f"{_title(setting)}: {method} minus {PEER}: {', '.join(sentences)}."


def _reliability_table(
    setting: Draw, by_method: Mapping[str, Result], titles: Sequence[str]
) -> Table:
    rows = []
    for number in range(N_BINS):
        cells = []
        for method in titles:
            result = by_method[method]
            n = result["counts"][number]
            cells.append(
                f"{result['said'][number]:.3f} → {result['came'][number]:.3f} ({n:,})"
                if n
                else "none"
            )
        rows.append((f"{0.5 + number / 20:.2f} to {0.55 + number / 20:.2f}", *cells))
    title = f"{_title(setting)}: mean probability of the favourite → share that won (comparisons)"
    return Table(title, ("probability", *titles), rows, details=True)


def _reliability_panel(setting: Draw, by_method: Mapping[str, Result]) -> Panel:
    series = []
    for method, result in by_method.items():
        bins = [number for number, count in enumerate(result["counts"]) if count >= FEWEST_SHOWN]
        said, came, bands = (
            [result[name][number] for number in bins] for name in ("said", "came", "bands")
        )
        name = f"{method} ({result['calibration']:.3f})"
        series.append(
            Series(name, said, came, [low for low, _ in bands], [high for _, high in bands])
        )
    title = f"{setting[0]}; {setting[1]} users seen"
    return Panel(
        title, "probability of the favourite", "share of favourites that won", series, diagonal=True
    )


STUDY = Study(
    name="calibration",
    title="Probabilities of held-out comparisons of sushi",
    about=(
        "5,000 users ordered ten of 100 kinds of sushi; ten folds of users, all 45 comparisons of"
        " every user predicted once (225,000), by a model that saw five comparisons of each of 40,"
        " 400 or 60 other users. One function for all users, of the columns of an item, or of those"
        " of item and user. Calibration error: ten bins of the probability of the favourite;"
        ' intervals over users, for the fitted models as they are; "if right": what the same'
        ' probabilities would get if answers were drawn by them; "mean of folds": of the errors of'
        " each model alone. BoTorch with its own priors and one width per column, inputs scaled to"
        " the unit cube."
    ),
    parts=parts,
    conclude=conclude,
    files=SUSHI,
    fixed_draws=True,
    with_results=True,
)
STUDIES = (STUDY,)
