"""The alpha path: which alphas to try, what was found, which one to take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from corank._backend import namespace
from corank.drawing import draw_path
from corank.problem import FloatArray, Problem

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
    scoring : what the error is: "squared" (held-out loss), "rescaled" (the same under the best factor) or
        "disagreement"
    constant : the same error of a function that is constant: what any model should beat
    agreement : (a,) that go with them, for learners with several views
    n_components, n_atoms : (a,) numbers that go with them, for learners on components or atoms
    """

    alpha: FloatArray
    gamma: FloatArray
    error: FloatArray
    standard_error: FloatArray
    best: int
    scoring: str
    constant: float
    agreement: FloatArray | None = None
    n_components: FloatArray | None = None
    n_atoms: FloatArray | None = None

    def plot(self, ax: Axes | None = None) -> Axes:
        """Held-out error against what was tuned, as `corank.report.plot_path` draws it.

        Parameters
        ----------
        ax : matplotlib axis, default=None
            None makes a figure.

        Returns
        -------
        ax
        """
        return draw_path(self, ax)


def alpha_grid(scale: float) -> FloatArray:
    """Twenty alphas around what the data ask for (math.md section 3)."""
    return np.asarray(GRID * (scale if scale > 0 else 1.0))


def best_position(error: FloatArray, alpha: FloatArray) -> int:
    """The smallest error; among equals the largest alpha, the simplest model."""
    least = np.nanmin(error)
    ties = np.flatnonzero(error <= least + 1e-12 * abs(least))
    return int(ties[np.argmax(alpha[ties])])


def constant_error(problems: Sequence[Problem], offset: float, scoring: str) -> float:
    """The error of a constant: ‖J (s − mean)‖² over the rank of the loss, or one half of the pairs."""
    if scoring == "disagreement":
        return 0.5
    loss = size = 0.0
    for problem in problems:
        targets = problem.targets
        loss += float(namespace(targets).sum((targets[:, 0] - offset * targets[:, 1]) ** 2))
        size += problem.freedom(np.arange(int(targets.shape[0])))
    return loss / max(size, 1.0)
