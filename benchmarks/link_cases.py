"""Features that spread along links: one hop and two of a random graph, beside one product of
SciPy's.
"""

from __future__ import annotations

import numpy as np

from benchmarks.cases import ours
from benchmarks.registry import MB, Contender, Target, case

N_ITEMS, LINKS_PER_ITEM, N_FEATURES = 1_000_000, 10, 200
KEPT = 0.05
ONE_HOP, TWO_HOPS, PRODUCT = "corank, one hop", "corank, two hops", "SciPy, one product"
# with the features themselves four times their size
MAX_MEMORY_MB = 3 * N_ITEMS * N_FEATURES * 8 / MB


@case(
    "links-1m",
    Target("cost", ONE_HOP, 1.5, than=PRODUCT),
    Target("cost", TWO_HOPS, 2.0, than=ONE_HOP),
    Target("memory", ONE_HOP, MAX_MEMORY_MB),
)
def links_1m(quick: bool) -> list[Contender]:
    """200 columns of 1,000,000 items spread along 10,000,000 mutual links, at random, the worst for
    caches. No bound.
    """
    from corank.links import propagated, read_links, spread_matrix

    n = 2_000 if quick else N_ITEMS
    rng = np.random.default_rng(0)
    links = read_links(rng.integers(0, n, (n * LINKS_PER_ITEM, 2)), n)
    P = spread_matrix(links.matrix)
    W = rng.standard_normal((n, N_FEATURES))
    return [
        ours(ONE_HOP, lambda: propagated(P, W, [1], KEPT)),
        ours(TWO_HOPS, lambda: propagated(P, W, [2], KEPT), beside=ONE_HOP),
        Contender(PRODUCT, lambda: P @ W, beside=ONE_HOP),
    ]
