"""What candidates weigh: by held-out errors and evidence (regression), or mostly by held-out errors
(ranking).

Errors are those of bootstraps over what is held out, so that a few rows that are hard to predict do
not decide alone. The more rows there are, the less the evidence counts: its noise is that of a
Gaussian process, and with many rows it would be sure of the wrong candidate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.special import logsumexp, softmax

from corank.core.arrays import FloatArray, Index, Mask, in_order
from corank.core.folds import fold_blocks
from corank.learners.average.candidates import Candidate
from corank.learners.average.closed_form import (
    ALPHAS,
    ClosedForm,
    Observations,
    predict_of_kernel,
    solve_kernel,
)
from corank.learners.average.similarity import CandidateKernel, Space, relevance
from corank.solve.spectrum import LEAST

# folds in which relevance is computed without the rows that it is judged by: few rows, many
N_CROSS_FITS = (5, 3)
MANY_UNITS = 150
LEAST_SLOPE = 0.1  # of the spread of the scores is what predictions of a ranker spread at least
# of the variance of the scores: an error with which the order is right; what is below it is chance
ALMOST_RIGHT = 0.2
ALMOST_ORDERED = 0.02  # and the share of misordered pairs that is
# queries up to which held-out errors of orders are mostly chance, and from which they are mostly
# counted as shares of misordered pairs
FEW_FOLDS, MANY_FOLDS = 30, 60
N_BOOTSTRAPS = 100
ROUNDING = 1e-9  # relative difference of errors that says nothing
MOST_BY_EVIDENCE = 0.5  # share of the weights that follows from the evidence, with few units
EVIDENT_UNITS = 25  # over their number, the share with more
FEW_ERRORS = 300  # held-out errors of regression up to which they are mostly chance
BELIEF = 0.5  # least weight of agreement between declared views, unless scores speak against it


@dataclass(frozen=True)
class LeftOutUnits:
    """How units are predicted that a fit to all rows leaves out, each with its fold.

    residuals : (N,); variances : (N,) of them, in units of the kernel
    """

    residuals: FloatArray
    variances: FloatArray


@dataclass(frozen=True)
class Judged(CandidateKernel):
    """A candidate with its closed form, and held-out predictions that took no part in making it.

    held_out : (N, a) as in `Observations.left_out`, cut to the range of the scores and one spread beyond
    errors : (a,) mean squared held-out errors
    """

    form: ClosedForm
    held_out: FloatArray
    errors: FloatArray

    @property
    def best(self) -> int:
        """The alpha of least held-out error; the middle one of several, as where no two comparisons
        share an item.
        """
        least = np.flatnonzero(~(self.errors > (1 + ROUNDING) * self.errors.min()))
        return int(least[len(least) // 2])

    def without(self, fold: Index, units: Observations) -> Judged:
        """Judged by the other units; the evidence is less what it says of the fold."""
        kept = np.setdiff1d(np.arange(len(units)), fold)
        held_out, variances = self.held_out[kept], np.maximum(self.form.variance[fold], LEAST)
        squares = (units.truth[fold, None] - self.form.held_out[fold]) ** 2
        of_fold = -0.5 * np.sum(squares / variances + np.log(variances), axis=0)
        form = replace(self.form, log_evidence=self.form.log_evidence - of_fold)
        errors = mean_squares(held_out, units.take(kept))
        return replace(self, form=form, held_out=held_out, errors=errors)

    def again(
        self, alpha: float, amplitude: float, left: LeftOutUnits, units: Observations
    ) -> Judged:
        """Judged by how units were predicted, each left out of a fit to all rows at one alpha."""
        held_out = _cut((units.truth - left.residuals)[:, None], units)
        form = ClosedForm(
            alphas=np.asarray([alpha]),
            log_evidence=np.asarray([2 * logsumexp(self.form.log_evidence / 2)]),
            amplitude=np.asarray([amplitude]),
            held_out=held_out,
            variance=amplitude * left.variances[:, None],
            duals=np.zeros((len(units), 1)),
        )
        errors = mean_squares(held_out, units)
        return Judged(self.candidate, self.similarities, form, held_out, errors)


@dataclass(frozen=True)
class Mixture:
    """The weights of candidates.

    shares : (C, a) of every alpha of every candidate; they sum to 1
    multipliers : (C,) what the predictions of a candidate are multiplied by
    errors : (C,) held-out errors that the weights come from
    """

    shares: FloatArray
    multipliers: FloatArray
    errors: FloatArray

    @property
    def weights(self) -> FloatArray:
        """(C,), their sum is 1."""
        return np.asarray(self.shares.sum(axis=1))


def bounds(units: Observations, trust: float = 0.0) -> tuple[float, float]:
    """The range of the scores and one standard deviation beyond, two for a model that explains
    everything.

    trust : share of the variance of held-out scores that is explained. Comparisons have no bounds.
    """
    if units.second is not None:
        return -np.inf, np.inf
    reach = (1 + trust) * float(units.scores.std())
    return float(units.scores.min()) - reach, float(units.scores.max()) + reach


def trust_in(mixture: Mixture, units: Observations) -> float:
    """The share of the variance of held-out scores that the best candidate explains, 0 to 1."""
    return float(np.clip(1 - np.min(mixture.errors) / max(_variance(units), LEAST), 0.0, 1.0))


def _variance(units: Observations) -> float:
    """The variance of the scores, within queries where their levels are free."""
    return float(np.sum(units.targets**2) / np.sum(units.roots**2))


def judge(
    space: Space,
    candidates: Sequence[Candidate],
    units: Observations,
    *,
    with_variances: bool = True,
    done: Callable[[float], None] = lambda share: None,
) -> list[Judged]:
    """The closed form and the held-out errors of every candidate. O(C N³).

    with_variances : as in `solve_kernel`; done : called with the share of every candidate
    """
    judged = []
    cross_fitted = _cross_fitted(space, candidates, units)
    factors = _learned_factors(space, candidates, units)
    built = [space.built(candidate, factors.get(candidate)) for candidate in candidates]
    solve = partial(solve_kernel, observations=units, with_variances=with_variances)
    forms = in_order(solve, map(space.kernel, built), units.scores)
    for kernel, form in zip(built, forms, strict=True):
        held_out = _cut(cross_fitted.get(kernel.candidate, form.held_out), units)
        errors = mean_squares(held_out, units)
        if kernel.candidate.per_column and kernel.candidate in cross_fitted:
            form = _without_optimism(form, errors, units)
        judged.append(Judged(kernel.candidate, kernel.similarities, form, held_out, errors))
        done(1 / len(candidates))
    return judged


def _without_optimism(form: ClosedForm, errors: FloatArray, units: Observations) -> ClosedForm:
    """The evidence less what a kernel gains on the rows that it was learned from, by its errors
    there and on rows that it was not learned from: (a,) of both.
    """
    own = mean_squares(_cut(form.held_out, units), units)
    gain = np.log(np.maximum(errors, LEAST) / np.maximum(own, LEAST))
    return replace(form, log_evidence=form.log_evidence - units.n_free / 2 * np.maximum(gain, 0.0))


def _learned_factors(
    space: Space, candidates: Sequence[Candidate], units: Observations, fold: int | None = None
) -> dict[Candidate, FloatArray]:
    """What columns are multiplied by, for the candidates that learn it from the units.

    fold : of widths, that did not teach; None for the one that is missing among the units
    """
    relevances = {
        name: relevance(units, space.scored[name])
        for name in {candidate.rows for candidate in candidates if candidate.relevance}
    }
    widths: Mapping[str, FloatArray] = {}
    if space.widths is not None:
        learned = space.widths
        widths = learned.learned_without(units) if fold is None else learned.without[fold]
    return {
        candidate: (relevances if candidate.relevance else widths)[candidate.rows]
        for candidate in candidates
        if candidate.learns_factors
    }


def mean_squares(held_out: FloatArray, units: Observations) -> FloatArray:
    """Mean squared errors (a,) of held-out predictions (N, a)."""
    squares = np.sum((units.truth[:, None] - held_out) ** 2, axis=0)
    return np.asarray(squares / float(np.sum(units.roots**2)))


def _cut(held_out: FloatArray, units: Observations) -> FloatArray:
    """Held-out predictions within the bounds; of whole queries none farther from 0 than the range
    of the scores.
    """
    low, high = bounds(units)
    if units.whole or units.has_levels:
        low, high = low - high, high - low
    return np.clip(held_out, units.roots[:, None] * low, units.roots[:, None] * high)


def _cross_fitted(
    space: Space, candidates: Sequence[Candidate], units: Observations
) -> dict[Candidate, FloatArray]:
    """Held-out predictions (N, a) of candidates whose factors are learned from the units, without
    those that are predicted.
    """
    by_widths = [candidate for candidate in candidates if candidate.per_column]
    by_relevance = [candidate for candidate in candidates if candidate.relevance]
    predictions: dict[Candidate, FloatArray] = {}
    if by_relevance:
        coarse = coarse_folds(units, N_CROSS_FITS[len(units) > MANY_UNITS])
        blocks = [(None, block) for block in coarse]
        predictions |= _cross_fitted_by(space, by_relevance, units, blocks)
    if by_widths and space.widths is not None:
        folds = space.widths.blocks(units)
        taught = [(fold, np.flatnonzero(folds == fold)) for fold in np.unique(folds).tolist()]
        if len(taught) > 1:
            predictions |= _cross_fitted_by(space, by_widths, units, taught)
    return predictions


def _cross_fitted_by(
    space: Space,
    candidates: Sequence[Candidate],
    units: Observations,
    blocks: Sequence[tuple[int | None, Index]],
) -> dict[Candidate, FloatArray]:
    predictions = {candidate: np.zeros((len(units), len(ALPHAS))) for candidate in candidates}
    for fold, block in blocks:
        train = units.take(np.setdiff1d(np.arange(len(units)), block))
        factors = _learned_factors(space, candidates, train, fold)
        built = [space.built(candidate, factors[candidate]) for candidate in candidates]
        values = in_order(
            partial(predict_of_kernel, observations=train), map(space.kernel, built), units.scores
        )
        for candidate, of_points in zip(candidates, values, strict=True):
            predictions[candidate][block] = units.without(block, of_points)
    return predictions


def coarse_folds(units: Observations, n_folds: int) -> list[Index]:
    """At most so many unions of folds, neighbours by score kept apart, each the numbers of its
    units.
    """
    count = _n_folds(units)
    n_folds = min(n_folds, count)
    means = np.bincount(units.folds, units.scores) / np.bincount(units.folds)
    ranks = np.argsort(np.argsort(means, kind="stable"), kind="stable")
    return [block for block in fold_blocks((ranks % n_folds)[units.folds], n_folds) if len(block)]


def mix(
    judged: Sequence[Judged], units: Observations, *, ranks: bool, allowed: Mask | None = None
) -> Mixture:
    """The weights of the candidates that are allowed.

    ranks : whether only the order within queries counts: then predictions are divided by their
        spread, and evidence, whose noise is not that of grades, has a say on item effects alone;
        none where scores are marks, of two values
    """
    mask = np.ones(len(judged), dtype=bool) if allowed is None else allowed
    if ranks:
        return _mix_by_order(judged, units, mask)
    least = np.asarray([c.errors[c.best] for c in judged])
    marks = len(np.unique(units.scores)) <= 2  # yes and no: their noise is not that of the evidence
    floor = ALMOST_RIGHT * _variance(units) if marks else 0.0
    held_out = np.stack([c.held_out[:, c.best] for c in judged])
    squares = (units.truth - held_out) ** 2
    m = _n_folds(units)
    # half the number of folds, as in a likelihood, where they are many
    exponent = max(np.sqrt(m), m / 2 * m / (m + FEW_ERRORS))
    by_error = _bootstrapped_weights(judged, squares, floor, exponent, units, mask)
    log_evidence = np.stack([c.form.log_evidence for c in judged])
    log_evidence[~mask] = -np.inf
    share = 0.0 if marks else min(MOST_BY_EVIDENCE, EVIDENT_UNITS / len(units))
    shares = share * softmax(log_evidence / 2 + _log_priors(judged)[:, None])
    for number, candidate in enumerate(judged):
        shares[number, candidate.best] += (1 - share) * by_error[number]
    shares *= _belief(judged, squares, least, units, shares.sum(axis=1), mask)[:, None]
    return Mixture(shares, np.ones(len(judged)), least)


def _mix_by_order(judged: Sequence[Judged], units: Observations, mask: Mask) -> Mixture:
    truth = units.targets
    held_out = units.centred(np.stack([c.held_out[:, c.best] for c in judged], axis=1)).T
    spreads = np.sqrt(np.mean(held_out**2, axis=1))
    usable = mask & (spreads > 1e-8 * spreads.max(initial=0.0)) & (spreads > 0)
    if not usable.any():
        usable, spreads = mask, np.ones(len(judged))
    scaled = held_out / np.where(usable, spreads, 1.0)[:, None]
    slopes = np.maximum(scaled @ truth / np.maximum(np.sum(scaled**2, axis=1), LEAST), 0.0)
    squares = (truth - slopes[:, None] * scaled) ** 2
    errors = squares.sum(axis=1) / float(np.sum(units.roots**2))
    shares = _misordered(scaled / units.roots, units) if units.whole else None
    n_folds, floor = _n_folds(units), ALMOST_RIGHT * _variance(units)
    # half the number of residuals, as in a likelihood, where folds are many
    exponent = units.n_free / 2 * n_folds / (n_folds + FEW_FOLDS)
    weights = _bootstrapped_weights(judged, squares, floor, exponent, units, usable, shares)
    weights = _items_by_evidence(judged, weights)
    weights = weights * _belief(judged, squares, errors, units, weights, usable)
    combined = weights @ scaled
    square = float(np.mean(combined**2))
    slope = float(np.mean(combined * truth)) / max(square, LEAST)
    least = LEAST_SLOPE * np.sqrt(np.mean(truth**2) / max(square, LEAST))
    # nothing is predicted of any unit that is held out
    size = max(slope, least) if square > 0 else 1.0
    multipliers = np.where(usable, size / np.where(usable, spreads, 1.0), 0.0)
    of_alphas = np.zeros((len(judged), len(judged[0].errors)))
    of_alphas[np.arange(len(judged)), [c.best for c in judged]] = weights
    return Mixture(of_alphas, multipliers, errors)


def _misordered(predictions: FloatArray, units: Observations) -> FloatArray:
    """The share of the pairs of every fold, which is a query, that predictions (C, N) put in the
    wrong order, or of its comparisons: (C, m), 0 where there is none. O(C Σ_B |B|²).
    """
    shares = np.zeros((len(predictions), len(units.blocks)))
    for number, block in enumerate(units.blocks):
        scores, values = units.scores[block], predictions[:, block]
        if units.second is None:
            better, worse = np.nonzero(scores[:, None] > scores)
            gaps = values[:, better] - values[:, worse]
        else:
            gaps = values[:, scores > 0]
        if gaps.size:
            shares[:, number] = np.mean((gaps < 0) + 0.5 * (gaps == 0), axis=1)
    return shares


def _bootstrapped_weights(
    judged: Sequence[Judged],
    squares: FloatArray,
    floor: float,
    exponent: float,
    units: Observations,
    mask: Mask,
    shares: FloatArray | None = None,
) -> FloatArray:
    """Weights (C,), 0 where not allowed, whose sum is 1: the mean over Bayesian bootstraps of the
    folds of prior · (error + floor)^(−exponent) [Rubin1981].

    With shares, the logarithm of the error lies between that of the squared error and that of the
    share of misordered pairs, the nearer to the latter the more folds there are.

    squares : (C, N) held-out errors; shares : (C, m) of misordered pairs
    """
    n_folds = _n_folds(units)
    sizes = np.bincount(units.folds, units.roots**2, minlength=n_folds)
    sums = np.stack([np.bincount(units.folds, each, minlength=n_folds) for each in squares])
    # drawn for folds in the order of their errors, so that the order of rows does not matter
    counts = np.empty((n_folds, N_BOOTSTRAPS))
    by_error = np.argsort(sums[mask].sum(axis=0), kind="stable")
    counts[by_error] = np.random.default_rng(0).standard_exponential(counts.shape)
    logarithms = np.log(np.maximum(sums @ counts / (sizes @ counts) + floor, LEAST))
    if shares is not None:
        misordered = shares @ counts / counts.sum(axis=0) + ALMOST_ORDERED
        of_order = n_folds / (n_folds + MANY_FOLDS)
        logarithms = (1 - of_order) * logarithms + of_order * np.log(misordered)
    logarithms = _log_priors(judged)[:, None] - exponent * logarithms
    return np.asarray(softmax(np.where(mask[:, None], logarithms, -np.inf), axis=0).mean(axis=1))


def _n_folds(units: Observations) -> int:
    return int(units.folds.max()) + 1


def _log_priors(judged: Sequence[Judged]) -> FloatArray:
    return np.log([judgement.candidate.prior for judgement in judged])


def _items_by_evidence(judged: Sequence[Judged], weights: FloatArray) -> FloatArray:
    """Weights (C,) of which that of item effects alone is multiplied by their evidence over that of
    the others.

    Held-out errors say too little about them: of few answers, most are about items that no other
    answer is about.
    """
    alone = np.asarray([c.candidate.identity == 1 for c in judged]) & (weights > 0)
    others = ~alone & (weights > 0)
    if not alone.any() or not others.any():
        return weights
    evidence = logsumexp([c.form.log_evidence for c in judged], axis=1)
    mean = logsumexp(evidence[others], b=weights[others] / weights[others].sum())
    logarithms = np.log(np.maximum(weights, LEAST)) + np.where(alone, evidence - mean, 0.0)
    return softmax(np.where(weights > 0, logarithms, -np.inf))


def _belief(
    judged: Sequence[Judged],
    squares: FloatArray,
    errors: FloatArray,
    units: Observations,
    weights: FloatArray,
    mask: Mask,
) -> FloatArray:
    """What weights are multiplied by, because declared views are believed: (C,).

    Agreement has half of the weight at least, unless its best candidate is worse than the best
    without agreement by more than one standard error of the difference between folds; then it has
    none.
    """
    agreeing = np.asarray([c.candidate.views == "agreement" for c in judged]) & mask
    plain = ~agreeing & mask
    if not agreeing.any() or not plain.any():
        return np.ones(len(judged))
    first = int(np.flatnonzero(agreeing)[np.argmin(errors[agreeing])])
    second = int(np.flatnonzero(plain)[np.argmin(errors[plain])])
    gaps = np.bincount(units.folds, squares[first] - squares[second])
    rounding = ROUNDING * squares[second].sum()
    against = gaps.sum() > max(np.sqrt(len(gaps)) * gaps.std(), rounding)
    total = float(weights[agreeing].sum())
    share = 0.0 if against else max(total, BELIEF)
    return np.where(agreeing, share / max(total, LEAST), (1 - share) / max(1 - total, LEAST))
