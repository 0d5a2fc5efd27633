"""The alpha path: which alphas to try, what was found, which one to take."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from corank.problem import FloatArray

GRID = np.logspace(-6, 3, 20)  # in units of the mean eigenvalue of the loss


@dataclass(frozen=True)
class Path:
    """Everything that was tried.

    Attributes
    ----------
    alpha : (a,) candidates
    gamma : (a,) kernel widths that go with them, NaN where the kernel has none
    error : (a,) held-out error
    standard_error : (a,) of that error, over what was held out
    best : position of the chosen one
    scoring : what the error is: "squared" (held-out loss) or "disagreement"
    """

    alpha: FloatArray
    gamma: FloatArray
    error: FloatArray
    standard_error: FloatArray
    best: int
    scoring: str


def alpha_grid(scale: float) -> FloatArray:
    """Twenty alphas around what the data ask for (math.md section 3)."""
    return np.asarray(GRID * (scale if scale > 0 else 1.0))


def best_position(error: FloatArray, alpha: FloatArray) -> int:
    """The smallest error; among equals the largest alpha, the simplest model."""
    least = np.nanmin(error)
    ties = np.flatnonzero(error <= least + 1e-12 * abs(least))
    return int(ties[np.argmax(alpha[ties])])
