"""What was tried while tuning, with its held-out error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeAlias, TypeVar

import numpy as np

from corank.core.arrays import FloatArray, Index
from corank.core.storable import storable
from corank.core.stored_fields import any_floats
from corank.solve.holdout import HeldOut

if TYPE_CHECKING:
    from matplotlib.axes import Axes

P = TypeVar("P", bound="Path")
Tried: TypeAlias = Annotated[FloatArray, any_floats("p")]  # one number per choice


@storable("Path")
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
    scoring : what the error is: "squared" (held-out loss), "rescaled" (the same under the best
        factor) or "disagreement"
    constant : the same error of a function that is constant: what any model should beat
    agreement : (a,) that go with them, for learners with several views
    n_components, n_atoms : (a,) numbers that go with them, for learners on components or atoms
    """

    alpha: Tried
    gamma: Tried
    error: Tried
    standard_error: Tried
    best: int
    scoring: str
    constant: float
    agreement: Tried | None = None
    n_components: Tried | None = None
    n_atoms: Tried | None = None

    def is_sound(self) -> bool:
        """Whether the chosen one was tried."""
        return self.best < max(len(self.error), 1)

    @classmethod
    def of(
        cls,
        errors: HeldOut,
        best: int,
        scoring: str,
        constant: float,
        *,
        alpha: FloatArray | float,
        gamma: float | None,
        **numbers: FloatArray,
    ) -> Self:
        """The path of held-out errors (a,); alpha may be one for all, gamma is None where the
        kernel has no width.
        """
        count = errors.errors.shape[1]
        return cls(
            alpha=np.full(count, alpha),
            gamma=np.full(count, np.nan if gamma is None else gamma),
            error=errors.mean,
            standard_error=errors.standard_error,
            best=best,
            scoring=scoring,
            constant=constant,
            **numbers,
        )

    @property
    def least(self) -> float:
        """The error of what was chosen."""
        return float(self.error[self.best])

    def of_atoms(self, numbers: Index) -> FloatArray:
        """The error of numbers of atoms, all else as it was chosen; NaN where one was not tried."""
        assert self.n_atoms is not None
        alike = np.isclose(self.gamma, self.gamma[self.best], equal_nan=True)
        if self.agreement is not None:
            alike &= self.agreement == self.agreement[self.best]
        pairs = zip(self.n_atoms[alike].tolist(), self.error[alike].tolist(), strict=True)
        errors = dict(pairs)
        return np.asarray([errors.get(float(number), np.nan) for number in numbers])

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
        from corank.report.plots import draw_path  # plots are above everything that computes

        return draw_path(self, ax)


@storable("PullPath")
@dataclass(frozen=True)
class PullPath(Path):
    """Everything that was tried, with one pull per entry (a,): infinite for RankRLS on the scored
    queries.
    """

    pull: Tried | None = None


def joined_path(paths: Sequence[P], best: int) -> P | None:
    """The paths of several kernel widths as one; None for no paths. best : number of the path to
    take.
    """
    if not paths:
        return None
    arrays = [name for name, value in vars(paths[best]).items() if isinstance(value, np.ndarray)]
    joined: Any = {name: np.concatenate([vars(path)[name] for path in paths]) for name in arrays}
    before = sum(len(path.error) for path in paths[:best])
    return replace(paths[best], **joined, best=before + paths[best].best)
