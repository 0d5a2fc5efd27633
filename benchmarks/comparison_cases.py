"""Cases on comparisons: Gaussian processes, their sweep on a basis of items, and items with many
columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.cases import ours
from benchmarks.peers import Floats, Integers, Predict
from benchmarks.registry import Contender, Target, Work, case


@dataclass(frozen=True)
class Compared:
    """Items in four columns of which three matter, and noisy comparisons between random ones."""

    X: Floats
    winners: Integers
    losers: Integers
    truth: Floats

    def error(self, predict: Predict) -> float:
        """Share of the pairs of items in the wrong order: (1 − Kendall's tau) / 2."""
        from scipy.stats import kendalltau

        return float(1 - kendalltau(self.truth, predict(self.X)).statistic) / 2


def make_comparisons(n: int, count: int) -> Compared:
    """n items, `count` comparisons that go with the difference of a smooth function plus noise of
    variance 1.
    """
    rng = np.random.default_rng(0)
    X = rng.random((n, 4))
    truth = 3 * np.sin(4 * X[:, 0]) + 3 * np.cos(5 * X[:, 1]) + 4 * (X[:, 2] - 0.5) ** 2
    first = rng.integers(0, n, count)
    second = (first + rng.integers(1, n, count)) % n
    wins = truth[first] - truth[second] + rng.standard_normal(count) > 0
    return Compared(X, np.where(wins, first, second), np.where(wins, second, first), truth)


def preference(data: Compared, **parameters: Any) -> Predict:
    """corank's PreferenceGP, fitted."""
    from corank import PreferenceGP

    predict: Predict = (
        PreferenceGP(**parameters).fit_comparisons(data.X, data.winners, data.losers).predict
    )
    return predict


COLUMNS, ONE, BOTORCH = "corank, a width a column", "corank, one width", "BoTorch PairwiseGP"


@case(
    "preference-1000",
    Target("time", COLUMNS, 3.0, than=BOTORCH),
    Target("time", ONE, 3.0, than=BOTORCH),
)
def preference_1000(quick: bool) -> list[Contender]:
    """PreferenceGP, 1,000 items in four columns, 2,000 comparisons, widths and amplitude learned,
    beside BoTorch's PairwiseGP (which learns one width a column). The error is the share of pairs
    of items in the wrong order, (1 - tau) / 2."""
    data = make_comparisons(*((60, 120) if quick else (1_000, 2_000)))
    peer: Callable[[], Predict] = partial(peers.botorch_pairwise, data.X, data.winners, data.losers)
    return [
        ours(COLUMNS, partial(preference, data, gamma="columns"), error=data.error),
        ours(ONE, partial(preference, data), error=data.error),
        Contender(BOTORCH, peer, beside=COLUMNS, needs="botorch", error=data.error),
    ]


SWEEP, GEMM, WHOLE = (
    "corank, one sweep",
    "the differences' product with themselves (NumPy)",
    "corank, the whole fit",
)


@case("preference-basis", Target("cost", SWEEP, 2.0, than=GEMM), Target("memory", WHOLE, 500.0))
def preference_basis(quick: bool) -> list[Contender]:
    """One sweep of expectation propagation on a basis of 300 out of 20,000 items with 50,000
    comparisons, beside the product of the differences of their features with themselves, and the
    whole fit at a fixed kernel for its memory. Bound: 2 n r² flops for n items, half of the r x r
    products and a triangular solve."""
    from corank.solve.expectation_propagation import PairData, propagate

    n, count, size = (500, 1_000, 30) if quick else (20_000, 50_000, 300)
    data = make_comparisons(n, count)
    features = np.random.default_rng(0).standard_normal((n, size)) / size**0.5
    pairs = PairData.merged(features, data.winners, data.losers, np.ones(count))
    differences = pairs.apply(features)
    fixed = {"gamma": 2.0, "amplitude": 10.0, "basis": size}
    return [
        ours(
            SWEEP, partial(propagate, features, pairs, sweeps=1), Work(flops=2.0 * n * size * size)
        ),
        Contender(GEMM, lambda: differences.T @ differences),
        Contender(WHOLE, partial(preference, data, **fixed), error=data.error),
    ]


WIDE, PLAIN = "corank RankRLS", "kernel, differences and one solve (NumPy)"


@case("comparisons-wide", Target("cost", WIDE, 4.0, than=PLAIN))
def comparisons_wide(quick: bool) -> list[Contender]:
    """RankRLS on 5,000 comparisons of 500 items in 4,000 columns, one alpha, beside the kernel of
    the items, its differences and one solve."""
    from scipy.linalg import solve

    from corank import RankRLS

    n, count, columns = (50, 200, 100) if quick else (500, 5_000, 4_000)
    data = make_comparisons(n, count)
    X = np.random.default_rng(1).standard_normal((n, columns))
    gamma = 1.0 / columns

    def plain() -> Any:
        kernel = peers.kernel_matrix(X, gamma)
        differences = kernel[data.winners] - kernel[data.losers]
        return solve(differences.T @ differences + kernel, differences.sum(axis=0), assume_a="pos")

    model = RankRLS(alpha=1.0, gamma=gamma)
    return [
        ours(WIDE, partial(model.fit_comparisons, X, data.winners, data.losers)),
        Contender(PLAIN, plain),
    ]
