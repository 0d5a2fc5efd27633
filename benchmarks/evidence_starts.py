"""Is the evidence that PreferenceGP finds the largest? Ten searches from random starts beside its own.

`python -m benchmarks.evidence_starts`: 1,000 items, 2,000 comparisons, the data of the case preference-1000.
"""

from __future__ import annotations

import argparse

import numpy as np

from benchmarks.comparison_cases import make_comparisons
from corank import PreferenceGP
from corank.basis import KernelBasis
from corank.kernels import Kernel, scale_gamma
from corank.solvers.gp_preference import Ascent, EvidenceSearch, PreferenceTask
from corank.solvers.pair_data import PairData

STARTS = 10


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.evidence_starts", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a size that takes no time")
    quick = parser.parse_args().quick
    data = make_comparisons(*((60, 150) if quick else (1_000, 2_000)))
    used = np.unique(np.concatenate([data.winners, data.losers]))
    items, winners, losers = data.X[used], np.searchsorted(used, data.winners), np.searchsorted(used, data.losers)
    compared = PairData.merged(items, winners, losers, np.ones(len(winners)))
    for gamma, widths in (("tune", "one"), ("columns", "each")):
        own = PreferenceGP(gamma=gamma).fit_comparisons(data.X, data.winners, data.losers).log_evidence_
        kernel = Kernel("rbf", scale_gamma(items))
        ascent = Ascent(PreferenceTask(compared, KernelBasis(kernel, items), whole=True), EvidenceSearch(None, widths))
        rng = np.random.default_rng(0)
        found = []
        for _ in range(STARTS):
            start = np.r_[rng.uniform(np.log(0.1), np.log(100.0)), rng.uniform(-3.0, 3.0, ascent.n_widths)]
            ascent.sites = None
            place, _unit = ascent.climb(start, np.ones(ascent.size))
            found.append(ascent.fitted(place).posterior.log_evidence)
        others = ", ".join(f"{value:.2f}" for value in sorted(found, reverse=True))
        print(f"gamma={gamma!r}: {own:.3f}, {max(found) - own:+.3f} to the best of {STARTS} starts ({others})")


if __name__ == "__main__":
    main()
