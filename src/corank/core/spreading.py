"""Features that spread along links: A the weights of the links (n, n), D the diagonal of the sums of
its rows and one, P the spread matrix, W the features (n, d), as in docs/mathematics.md, section
3.16.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from corank.core.arrays import FloatArray, in_order, is_sparse

# that are spread together: their rows are 256 bytes, and a few blocks are small beside a result
COLUMNS_AT_A_TIME = 32


def spread_matrix(matrix: Any) -> Any:
    """P = D^-1/2 (A + I) D^-1/2 as (n, n) CSR, whose largest singular value is one.

    D holds the sums of the rows of A + I to its left and those of the columns to its right, which
    are the same where links are mutual. An item without links keeps what it has: its row is that of
    the identity.

    Parameters
    ----------
    matrix : (n, n) CSR of weights >= 0 without self-loops
    """
    n = matrix.shape[0]
    looped = sparse.csr_array(matrix + sparse.eye_array(n, format="csr"))
    left = 1.0 / np.sqrt(looped.sum(axis=1))
    right = 1.0 / np.sqrt(looped.sum(axis=0))
    looped.data *= np.repeat(left, np.diff(looped.indptr))
    looped.data *= right[looped.indices]
    return looped


def propagated(P: Any, W: Any, hops: Sequence[int], kept: float) -> dict[int, FloatArray]:
    """F_h = mean over k = 1 … h of ((1 - kept) Pᵏ W + kept W), for each number of hops h.

    All come from one run of products, of max(hops) nnz(P) d operations. Columns are spread a few at
    a time, in as many threads as BLAS may use, so that little is held beside the results, each of
    which is as large as a dense W.

    Parameters
    ----------
    P : (n, n) CSR, as of `spread_matrix`
    W : (n, d) float64 array or CSR
    hops : numbers of hops, at least 1 each
    kept : share of an item's own features, 0 to 1

    Returns
    -------
    (n, d) float64 array for each of `hops`
    """
    n, d = W.shape
    results = {h: np.zeros((n, d)) for h in sorted(set(hops))}
    largest = max(results)
    columns = W.tocsc() if is_sparse(W) else W

    def block_of(columns_in: slice) -> FloatArray:
        block = columns[:, columns_in]
        return np.ascontiguousarray(
            block.toarray() if is_sparse(block) else block, dtype=np.float64
        )

    def spread(start: int) -> None:
        block = slice(start, min(start + COLUMNS_AT_A_TIME, d))
        total = results[largest][:, block]
        current = block_of(block)
        for h in range(1, largest + 1):
            current = P @ current
            total += current
            if h in results:
                np.multiply(total, (1.0 - kept) / h, out=results[h][:, block])
        current = kept * block_of(block)
        for result in results.values():
            result[:, block] += current

    for _ in in_order(spread, range(0, d, COLUMNS_AT_A_TIME), results[largest]):
        pass
    return results
