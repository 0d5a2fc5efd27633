"""Predictions in blocks: memory does not grow with the rows beyond the result."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from corank.core.arrays import (
    Array,
    block_entries,
    dtype_name,
    in_order,
    is_sparse,
    namespace,
    runs_of_rows,
    take,
)
from corank.core.basis import Basis, FeatureBasis
from corank.core.sums import BLOCK_ENTRIES, WRITE_ROWS


def predict_in_blocks(basis: Basis, coefficients: Array, X: Array) -> Array:
    """Φ(X) c for the rows of X (n, d), dense or CSR: (n,) float64. O(n r d)."""
    n = X.shape[0]
    if isinstance(basis, FeatureBasis) and (is_sparse(X) or dtype_name(X) == "float64"):
        return X @ coefficients  # other precisions would be copied whole
    step = max(WRITE_ROWS, BLOCK_ENTRIES // 8 // basis.size)
    if not isinstance(X, np.ndarray):
        step = max(64, block_entries(coefficients, BLOCK_ENTRIES) // basis.size)
    workspace = threading.local()

    def values(run: slice) -> Any:
        block = take(X, run)
        if not isinstance(X, np.ndarray):
            return basis.features(block) @ coefficients
        phi = getattr(workspace, "phi", None)
        if phi is None:
            phi = workspace.phi = np.empty((min(step, n), basis.size))
        basis.write(block, phi[: len(block)])
        return phi[: len(block)] @ coefficients

    return namespace(coefficients).concat(
        list(in_order(values, runs_of_rows(n, step), coefficients))
    )
