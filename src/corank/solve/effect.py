"""Did the unscored rows help? The whole choice of parameters, with and without them, on folds that
took no part in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np
from scipy.special import stdtrit

from corank.core.arrays import FloatArray, Index, in_order
from corank.core.folds import N_FOLDS, Folding, balanced_folds, fold_blocks, same_scores
from corank.core.storable import storable
from corank.solve.co_kernel import CoKernel
from corank.solve.holdout import (
    HeldOut,
    Scoring,
    best_slope,
    held_out,
    kept_means,
    left_out,
    pooled,
    view_errors,
)
from corank.solve.systems import DualSystem, PrimalSystem, mean_score
from corank.solve.tuning import Grid, Settings, chosen_pair


def difference(first: HeldOut, second: HeldOut) -> tuple[float, float]:
    """The mean paired difference of two errors on the same folds, and its standard error."""
    gap = HeldOut(first.errors - second.errors, first.sizes)
    return float(gap.mean[0]), float(gap.standard_error[0])


@dataclass(frozen=True)
class Evidence:
    """What a fit leaves behind to judge its choices: the kernel between units, the errors found, or
    the system itself.
    """

    source: CoKernel | DualSystem | PrimalSystem | None
    found: HeldOut | None
    folding: Folding | None
    grid: Grid
    settings: Settings

    @cached_property
    def cokernel(self) -> CoKernel | None:
        """The kernel between units, where there are few."""
        if self.source is None or isinstance(self.source, CoKernel):
            return self.source
        return self.source.cokernel if self.source.few_units else None

    @property
    def judge(self) -> Scoring:
        """The error by which procedures are judged: rankers by order, unless they chose by another
        one.

        Many scored rows leave only the error that was chosen by.
        """
        if self.settings.scoring != "rescaled" or self.cokernel is None:
            return self.settings.scoring
        comparison = getattr(self.cokernel.problems[0], "comparison", None)
        ranks = comparison is None or comparison.needs_queries
        return "disagreement" if ranks else "rescaled"

    def nested(
        self, agreements: dict[str, FloatArray], judge: Scoring | None = None
    ) -> dict[str, HeldOut] | None:
        """Every procedure chooses an alpha and one of its agreements on some folds, and is judged
        on the others.

        `judge` is the error to judge by where that is not the one of the choice; many scored rows
        leave no such freedom. With few scored rows the choice is made again without the outer fold.
        With many, where one row more or less says little, it is made on the errors of the other
        folds. None where there is too little to hold anything out.
        """
        if self.folding is None or self.folding.n_folds < 3:
            return None
        grid = self.grid
        if self.source is not None:
            every = np.concatenate([grid.agreements, *agreements.values()])
            grid = Grid(grid.alphas, np.unique(every))
        procedures = {name: grid.pairs_at(values) for name, values in agreements.items()}
        # not tried, and nothing was kept to try it with
        if any(len(pairs) == 0 for pairs in procedures.values()):
            return None
        if self.cokernel is not None:
            return self._chosen_without_outer_fold(
                self.cokernel, self.folding, grid, procedures, judge or self.settings.scoring
            )
        errors = self.found
        if self.source is not None and not isinstance(self.source, CoKernel):
            errors = held_out(
                self.source,
                self.folding,
                grid,
                scoring=self.settings.scoring,
                centred=self.settings.centred,
            )
        if errors is None or len(errors.sizes) < 2:
            return None
        return {
            name: self._chosen_on_others(errors, pairs, grid) for name, pairs in procedures.items()
        }

    def _chosen_without_outer_fold(
        self,
        cokernel: CoKernel,
        folding: Folding,
        grid: Grid,
        procedures: dict[str, Index],
        judge: Scoring,
    ) -> dict[str, HeldOut] | None:
        cokernel.matrix(0.0)  # made once, before threads need it

        rounds = [folds for folds in fold_blocks(self._rounds(folding.n_folds)) if len(folds)]
        every_round = in_order(
            lambda folds: self._round_errors(cokernel, folding, folds, grid, procedures, judge),
            rounds,
            cokernel.targets,
        )
        results = [errors for errors in every_round if errors]
        if not results:
            return None
        joined = {}
        for name in procedures:
            tables = [(errors[name].errors, errors[name].sizes) for errors in results]
            joined[name] = HeldOut(*map(np.concatenate, zip(*tables, strict=True)))
        return joined if all(len(errors.sizes) > 1 for errors in joined.values()) else None

    def _round_errors(
        self,
        cokernel: CoKernel,
        folding: Folding,
        folds: Index,
        grid: Grid,
        procedures: dict[str, Index],
        judge: Scoring,
    ) -> dict[str, HeldOut]:
        """One round: choose without the folds, predict them."""
        kept, left = folding.units(folds)
        if any(len(units) == 0 for units in (*kept, *left)):
            return {}
        inner = folding.take(kept)
        outer = folding.take(left)
        if inner.n_folds < 2:
            return {}
        # a view would lose all its scores
        if folding.items and any(np.ptp(codes) == 0 for codes in inner.codes):
            return {}
        part = cokernel.take(kept)
        together = same_scores(cokernel.problems)
        offset = mean_score(part.problems) if self.settings.centred else 0.0
        offsets = kept_means(part.targets, inner.blocks(), centred=self.settings.centred)
        predictions = left_out(part, inner, grid, offsets)
        tables = view_errors(
            part.problems, inner, predictions, offsets, self.settings.scoring, together=together
        )
        errors = pooled(tables)
        if len(errors.sizes) == 0:
            return {}
        problems = [own.take(units) for own, units in zip(cokernel.problems, left, strict=True)]
        if folding.items:  # compared within their folds
            regrouped = zip(problems, outer.codes, strict=True)
            problems = [own.regrouped(codes) for own, codes in regrouped]
        result = {}
        for name, pairs in procedures.items():
            best = chosen_pair(errors, grid, pairs, self.settings.scoring)
            alpha, agreement = grid.pairs[best].tolist()
            slope = 1.0
            if judge == "rescaled":  # the factor that fits the inner held-out predictions best
                chosen = [values[:, best : best + 1] for values in predictions]
                tables = view_errors(
                    part.problems, inner, chosen, offsets, "rescaled", together=together
                )
                cross = np.concatenate([np.asarray(table.cross) for table in tables])
                square = np.concatenate([np.asarray(table.square) for table in tables])
                slope += float(best_slope(cross, square, least=-1.0)[0])
            values = cokernel.predictions(kept, left, np.full(1, alpha), agreement / alpha, offset)
            values = [slope * (own - offset) + offset for own in values]
            judged = view_errors(
                problems,
                Folding(outer.codes),
                values,
                np.full(outer.n_folds, offset),
                "squared" if judge == "rescaled" else judge,
                together=together,
            )
            result[name] = pooled(judged)
        return result

    def _rounds(self, n: int) -> Index:
        """The outer fold of each of n folds."""
        return balanced_folds(n, min(N_FOLDS, n), np.random.default_rng([self.settings.seed, 1]))

    def _chosen_on_others(self, held: HeldOut, pairs: Index, grid: Grid) -> HeldOut:
        """The error of each fold at the pair that was best on the folds outside its round."""
        n = len(held.sizes)
        rounds = self._rounds(n)
        errors = np.zeros((n, 1))
        for number in range(int(rounds.max()) + 1):
            inside = rounds == number
            others = HeldOut(held.errors[~inside], held.sizes[~inside])
            best = chosen_pair(others, grid, pairs, self.settings.scoring)
            errors[inside, 0] = held.errors[inside, best]
        return HeldOut(errors, held.sizes)


Verdict: TypeAlias = Literal[
    "helped", "hurt", "cannot tell with this many scores", "made no difference"
]
FEWEST_HELD_OUT = 4  # queries, rows, comparisons or folds: fewer say nothing
# of the error without unscored rows: less is no help and no harm worth a word
MATERIAL_SHARE = 0.05
HELPED_LEVEL, HURT_LEVEL = 0.05, 0.002


@storable("UnscoredEffect")
@dataclass(frozen=True)
class UnscoredEffect:
    """Whether the unscored rows helped, on folds that chose no parameter.

    Attributes
    ----------
    verdict : "helped", "hurt", "cannot tell with this many scores" or, where every fold chose to do
        without them, "made no difference"
    error_with, error_without : held-out error with agreement chosen as it was asked for, and
        without any: the share of misordered pairs for rankers, the squared error for regressors, or
        what `scoring` says
    difference : error_without − error_with, paired by what was held out; above 0 where they helped
    standard_error : of the difference; there is a verdict where the difference is at least a
        twentieth of `error_without` and its interval (95 % for "helped", 99.8 % for "hurt")
        excludes 0
    n_held_out : number of queries (rows, comparisons, folds of items) behind it
    """

    verdict: Verdict
    error_with: float
    error_without: float
    difference: float
    standard_error: float
    n_held_out: int

    def __str__(self) -> str:
        return (
            f"unscored rows: {self.verdict} (held-out error {self.error_without:.3g} without them,"
            f" {self.error_with:.3g} with them, settings chosen again each time; difference"
            f" {self.difference:.2g} with a standard error of {self.standard_error:.2g}, over"
            f" {self.n_held_out} held-out parts)"
        )


def unscored_effect(evidence: Evidence) -> UnscoredEffect | None:
    """The effect of agreement, alpha chosen anew on both sides; None where there is too little to
    tell anything.
    """
    nested = evidence.nested(
        {"with": evidence.grid.agreements, "without": np.zeros(1)}, evidence.judge
    )
    if nested is None:
        return None
    agreeing, plain = nested["with"], nested["without"]
    gap, spread = difference(plain, agreeing)
    return judged_effect(
        float(agreeing.mean[0]), float(plain.mean[0]), gap, spread, len(agreeing.sizes)
    )


def unscored_effect_of(with_rows: FloatArray, without: FloatArray) -> UnscoredEffect | None:
    """The verdict on errors per unit, with and without unscored rows."""
    both = np.isfinite(with_rows) & np.isfinite(without)
    gaps = (without - with_rows)[both]
    if len(gaps) < 2:
        return None
    gap = float(gaps.mean())
    error = float(gaps.std(ddof=1) / np.sqrt(len(gaps)))
    return judged_effect(
        float(with_rows[both].mean()), float(without[both].mean()), gap, error, len(gaps)
    )


def judged_effect(
    error_with: float,
    error_without: float,
    difference: float,
    standard_error: float,
    n_held_out: int,
) -> UnscoredEffect:
    """The effect with its verdict.

    There is one where the difference is no trifle and its interval excludes 0: that of 95 % for
    "helped", of 99.8 % for "hurt", which is so much rarer that weaker signs of it are mostly chance
    (the study `default` counts both).
    """
    verdict: Verdict = "cannot tell with this many scores"
    if difference == 0 and standard_error == 0:
        verdict = "made no difference"
    elif n_held_out >= FEWEST_HELD_OUT and abs(difference) >= MATERIAL_SHARE * error_without:
        level = HELPED_LEVEL if difference > 0 else HURT_LEVEL
        if abs(difference) > stdtrit(n_held_out - 1, 1 - level / 2) * standard_error:
            verdict = "helped" if difference > 0 else "hurt"
    return UnscoredEffect(
        verdict, error_with, error_without, difference, standard_error, n_held_out
    )
