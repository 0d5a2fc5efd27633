"""Did the unscored rows help? The whole choice of parameters, with and without them, on folds that took no part in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from corank._arrays import FloatArray, Index, in_order, namespace
from corank.model_files.packing import storable
from corank.solvers.co_kernel import CoKernel
from corank.solvers.folds import N_FOLDS, Folding, Grid, balanced_folds, blocks_of
from corank.solvers.holdout import (
    HeldOut,
    Scoring,
    best_slope,
    chosen_pair,
    held_out_views,
    left_out,
    means_without,
    raw_sums,
    scored,
)
from corank.solvers.least_squares import AgreementSystem, mean_score, same_scores


@dataclass(frozen=True)
class Nested:
    """Errors of procedures on folds that chose nothing: one HeldOut of a single column a procedure."""

    results: dict[str, HeldOut]

    def difference(self, first: str, second: str) -> tuple[float, float]:
        """Error of `first` minus that of `second`, paired by what was held out, and its standard error."""
        return difference(self.results[first], self.results[second])


def difference(first: HeldOut, second: HeldOut) -> tuple[float, float]:
    """The mean paired difference of two errors on the same folds, and its standard error."""
    gap = HeldOut(first.errors - second.errors, first.sizes)
    return float(gap.mean[0]), float(gap.standard_error[0])


@dataclass(frozen=True)
class Evidence:
    """What a fit leaves behind to judge its choices: the scored rows' kernel, the errors found, or the system itself."""

    source: CoKernel | AgreementSystem | None
    found: HeldOut | None
    folding: Folding | None
    grid: Grid
    scoring: Scoring
    centred: bool
    seed: int

    @cached_property
    def cokernel(self) -> CoKernel | None:
        """The kernel between what is scored, where there are few scored rows."""
        if self.source is None or isinstance(self.source, CoKernel):
            return self.source
        return self.source.cokernel if self.source.few else None

    @property
    def judge(self) -> Scoring:
        """By what error procedures are judged: rankers by order, unless they chose by another one.

        Many scored rows leave only the error that was chosen by.
        """
        if self.scoring != "rescaled" or self.cokernel is None:
            return self.scoring
        comparison = getattr(self.cokernel.problems[0], "comparison", None)
        return "rescaled" if comparison is not None and not comparison.needs_queries else "disagreement"

    def nested(self, agreements: dict[str, FloatArray], judge: Scoring | None = None) -> Nested | None:
        """Every procedure chooses an alpha and one of its agreements on some folds, and is judged on the others.

        `judge` says by which error where that is not the one of the choice; many scored rows leave no such freedom.

        With few scored rows the choice is made anew without the outer fold. With many, where one row more or less
        says little, it is made on the errors of the other folds. None where there is too little to hold anything out.
        """
        if self.folding is None or self.folding.n_folds < 3:
            return None
        grid = self.grid
        if self.source is not None:
            grid = Grid(grid.alphas, np.unique(np.concatenate([grid.agreements, *agreements.values()])))
        procedures = {name: grid.pairs_at(own) for name, own in agreements.items()}
        if any(len(pairs) == 0 for pairs in procedures.values()):  # not tried, and nothing was kept to try it with
            return None
        if self.cokernel is not None:
            return self._nested(self.cokernel, self.folding, grid, procedures, judge or self.scoring)
        found = self.found
        if self.source is not None and not isinstance(self.source, CoKernel):
            known = {"scoring": self.scoring, "centred": self.centred, "seed": self.seed}
            found = held_out_views(self.source, self.folding, grid, **known)  # type: ignore[arg-type]
        if found is None or len(found.sizes) < 2:
            return None
        others = (grid, self.scoring, self.seed)
        return Nested({name: _chosen_on_others(found, pairs, *others) for name, pairs in procedures.items()})

    def _nested(
        self, cokernel: CoKernel, folding: Folding, grid: Grid, procedures: dict[str, Index], judge: Scoring
    ) -> Nested | None:
        n = folding.n_folds
        outer = balanced_folds(n, min(N_FOLDS, n), np.random.default_rng([self.seed, 1]))
        cokernel.matrix(0.0)  # made once, before threads need it
        rounds = [folds for folds in blocks_of(outer, int(outer.max()) + 1) if len(folds)]

        def one(folds: Index) -> dict[str, HeldOut]:
            return _judged(cokernel, folding, folds, grid, procedures, self.scoring, judge, self.centred)

        results = [part for part in in_order(one, rounds, cokernel.targets) if part]
        if not results:
            return None
        joined = {
            name: HeldOut(
                np.concatenate([part[name].errors for part in results]),
                np.concatenate([part[name].sizes for part in results]),
            )
            for name in procedures
        }
        return Nested(joined) if all(len(part.sizes) > 1 for part in joined.values()) else None


def _chosen_on_others(found: HeldOut, pairs: Index, grid: Grid, scoring: Scoring, seed: int) -> HeldOut:
    """The error of each fold at the pair that was best on the folds outside its round."""
    n = len(found.sizes)
    rounds = balanced_folds(n, min(N_FOLDS, n), np.random.default_rng([seed, 1]))
    errors = np.zeros((n, 1))
    for number in range(int(rounds.max()) + 1):
        inside = rounds == number
        others = HeldOut(found.errors[~inside], found.sizes[~inside])
        errors[inside, 0] = found.errors[inside][:, chosen_pair(others, grid, pairs, scoring)]
    return HeldOut(errors, found.sizes)


def _judged(
    cokernel: CoKernel,
    folding: Folding,
    folds: Index,
    grid: Grid,
    procedures: dict[str, Index],
    scoring: Scoring,
    judge: Scoring,
    centred: bool,
) -> dict[str, HeldOut]:
    """One round: choose without the folds, predict them."""
    kept, left = folding.units(folds)
    inner, outside = folding.take(kept), folding.take(left)
    if inner.n_folds < 2 or any(len(units) == 0 for units in (*kept, *left)):
        return {}
    if folding.items and any(np.ptp(codes) == 0 for codes in inner.codes):  # a view would lose all its scores
        return {}
    part, together = cokernel.take(kept), same_scores(cokernel.problems)
    offset = mean_score(part.problems) if centred else 0.0
    offsets = means_without(part.problems, inner) if centred else np.zeros(inner.n_folds)
    residuals = left_out(part, inner, grid, offsets)
    errors = scored(part.problems, inner, residuals, offsets, scoring, together=together)
    if len(errors.sizes) == 0:
        return {}
    problems: list[Any] = [problem.take(units) for problem, units in zip(cokernel.problems, left, strict=True)]
    if folding.items:  # compared within their folds
        problems = [problem.regrouped(codes) for problem, codes in zip(problems, outside.codes, strict=True)]
    result = {}
    for name, pairs in procedures.items():
        best = chosen_pair(errors, grid, pairs, scoring)
        alpha, agreement = grid.pair(best)
        predictions = cokernel.predictions(kept, left, np.asarray([alpha]), agreement / alpha, offset)
        slope = 1.0
        if judge == "rescaled":
            slope = _slope(part.problems, inner, residuals[:, best : best + 1], offsets, together)
        parts = [p.residuals(slope * (f - offset) + offset) for p, f in zip(problems, predictions, strict=True)]
        result[name] = scored(
            problems,
            Folding(outside.codes, items=False),
            namespace(parts[0]).concat(parts, axis=0),
            np.full(outside.n_folds, offset),
            "squared" if judge == "rescaled" else judge,
            together=together,
        )
    return result


def _slope(problems: Sequence[Any], inner: Folding, residuals: Any, offsets: FloatArray, together: bool) -> float:
    """The factor that fits the inner held-out predictions best."""
    _, cross, own, _ = raw_sums(problems, inner, residuals, offsets, "rescaled", together=together)
    return float(best_slope(cross, own)[0])


@storable("UnscoredEffect")
@dataclass(frozen=True)
class UnscoredEffect:
    """Whether the unscored rows helped, on folds that chose no parameter.

    Attributes
    ----------
    verdict : "helped", "hurt", "cannot tell with this many scores" or, where every fold chose to do without them,
        "made no difference"
    error_with, error_without : held-out error with agreement chosen as it was asked for, and without any: the share of
        misordered pairs for rankers, the squared error for regressors, or what `scoring` says
    difference : error_without − error_with, paired by what was held out; above 0 where they helped
    standard_error : of the difference; from two of them on there is a verdict
    n_held_out : number of queries (rows, comparisons, folds of items) behind it
    """

    verdict: Literal["helped", "hurt", "cannot tell with this many scores", "made no difference"]
    error_with: float
    error_without: float
    difference: float
    standard_error: float
    n_held_out: int

    def __str__(self) -> str:
        return (
            f"unscored rows: {self.verdict} (held-out error {self.error_without:.4g} without them, "
            f"{self.error_with:.4g} with them, agreement chosen anew each time; difference {self.difference:.2g} ± "
            f"{self.standard_error:.2g}, one standard error, {self.n_held_out} parts held out)"
        )


def unscored_effect(evidence: Evidence) -> UnscoredEffect | None:
    """The effect of agreement, alpha chosen anew on both sides; None where there is too little to tell anything."""
    found = evidence.nested({"with": evidence.grid.agreements, "without": np.zeros(1)}, evidence.judge)
    if found is None:
        return None
    gap, spread = found.difference("without", "with")
    sure = abs(gap) > 2 * spread
    verdict: Any = ("helped" if gap > 0 else "hurt") if sure else "cannot tell with this many scores"
    if gap == 0 and spread == 0:
        verdict = "made no difference"
    own, other = found.results["with"], found.results["without"]
    return UnscoredEffect(verdict, float(own.mean[0]), float(other.mean[0]), gap, spread, len(own.sizes))
