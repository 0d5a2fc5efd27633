"""The methods of 003's tables, each with the parameters to choose from and its predictions for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from corank._arrays import FloatArray, Index
from studies.batched_fits.batches import Kernels, root
from studies.batched_fits.copursuit import copursuit_paths, two_views
from studies.batched_fits.pursuit import pursuit_paths
from studies.batched_fits.ranksvm import ranksvm_paths
from studies.batched_fits.ridge import ridge_paths, subset_paths

ALPHAS = tuple(float(alpha) for alpha in np.logspace(-4, 6, 21))
COSTS = tuple(float(cost) for cost in np.logspace(-5, 1, 7))
STEPS = (*range(1, 11), 12, 15, 20, 25, 30, 40, 50, 70, 100, 200)
CO_STEPS = (*range(1, 9), 10, 12, 15, 20, 30)
AGREEMENTS = (0.0, 0.001, 0.01, 0.03, 0.1, 0.3, 1.0, 10.0)

Candidate = dict[str, float]


@dataclass(frozen=True)
class Paths:
    """Predictions (u, candidates, test items) and numbers of kernel functions in the models (u, candidates)."""

    predictions: FloatArray
    n_atoms: Index


class Method(Protocol):
    """A method, for any number of people and one kernel width."""

    @property
    def candidates(self) -> list[Candidate]:
        """What there is to choose from beside the width."""
        ...

    def paths(self, kernels: Kernels) -> Paths:
        """Predictions for all candidates, in their order."""
        ...

    def around(self, candidate: Candidate) -> Method:
        """The same method with that candidate, and whatever costs nothing more, left to choose from."""
        ...


@dataclass(frozen=True)
class Ridge:
    """RLS (beta = 1) and RankRLS (beta = 0), the latter also sparse.

    centred : take a person's mean score out and put it back
    size, share : how many, or which share, of a person's scored items are the basis, the first ones
    """

    beta: float
    centred: bool = False
    size: int | None = None
    share: float = 1.0
    alphas: Sequence[float] = ALPHAS

    @property
    def candidates(self) -> list[Candidate]:
        """Alphas."""
        return [{"alpha": alpha} for alpha in self.alphas]

    def paths(self, kernels: Kernels) -> Paths:
        """All alphas from one factorisation."""
        batch, alphas = kernels.batch, np.asarray(self.alphas)
        targets, offset = _targets(kernels, centred=self.centred)
        loss = root(self.beta, batch.counts)
        sizes = np.ceil(self.share * batch.counts).astype(np.int64)
        if self.size is not None:
            sizes = np.minimum(sizes, self.size)
        if (sizes == batch.counts).all():
            found = ridge_paths(kernels, loss, targets, alphas)
        else:
            found = subset_paths(kernels, loss, targets, alphas, sizes)
        return Paths(found + offset[:, :, None], np.repeat(sizes[:, None], len(alphas), axis=1))

    def around(self, candidate: Candidate) -> Ridge:
        """One alpha."""
        return replace(self, alphas=(candidate["alpha"],))


@dataclass(frozen=True)
class Pursuit:
    """Matching pursuit (beta = 1), ranking pursuit (beta = 0) and the blend of both (CRRP)."""

    beta: float
    refit: str
    centred: bool = False
    weighting: str = "unit"
    steps: Sequence[int] = STEPS

    @property
    def candidates(self) -> list[Candidate]:
        """Numbers of steps."""
        return [{"steps": steps} for steps in self.steps]

    def paths(self, kernels: Kernels) -> Paths:
        """One greedy run."""
        targets, offset = _targets(kernels, centred=self.centred)
        loss = root(self.beta, kernels.batch.counts, weighting=self.weighting)
        most = self.steps[-1]
        if self.refit == "back":  # every atom enters once
            most = min(most, kernels.batch.scored.shape[1])
        run = pursuit_paths(kernels, loss, targets, most, refit=self.refit)
        at = np.minimum(np.asarray(self.steps), most) - 1
        return Paths(run.predictions[:, at] + offset[:, :, None], run.n_atoms[:, at])

    def around(self, candidate: Candidate) -> Pursuit:
        """All numbers of steps: they come along."""
        return self


@dataclass(frozen=True)
class CoPursuit:
    """Semi-supervised ranking pursuit of two views, of "items" or of reference "people"."""

    objective: str
    refit: str
    views: str = "items"
    agreements: Sequence[float] = AGREEMENTS
    steps: Sequence[int] = CO_STEPS

    @property
    def candidates(self) -> list[Candidate]:
        """Weights of the agreement and numbers of steps."""
        return [{"agreement": own, "steps": steps} for own in self.agreements for steps in self.steps]

    def paths(self, kernels: Kernels) -> Paths:
        """A greedy run for every weight of the agreement."""
        batch, at = kernels.batch, np.asarray(self.steps) - 1
        agreeing = root(0.0, batch.unscored_known.sum(axis=1))
        views = two_views(kernels, root(0.0, batch.counts), agreeing, batch.scores, of=self.views)
        runs = [
            copursuit_paths(views, own, self.steps[-1], objective=self.objective, refit=self.refit)
            for own in self.agreements
        ]
        return Paths(
            np.concatenate([run.predictions[:, at] for run in runs], axis=1),
            np.concatenate([run.n_atoms[:, at] for run in runs], axis=1),
        )

    def around(self, candidate: Candidate) -> CoPursuit:
        """All numbers of steps of one weight."""
        return replace(self, agreements=(candidate["agreement"],))


@dataclass(frozen=True)
class RankSVM:
    """RankSVM with the squared hinge loss. Its kernel functions are the items with a weight."""

    costs: Sequence[float] = COSTS

    @property
    def candidates(self) -> list[Candidate]:
        """Costs C."""
        return [{"cost": cost} for cost in self.costs]

    def paths(self, kernels: Kernels) -> Paths:
        """From the smallest cost to the largest, each from the solution before."""
        found, atoms = ranksvm_paths(kernels, kernels.batch.scores, np.asarray(self.costs))
        return Paths(found, atoms)

    def around(self, candidate: Candidate) -> RankSVM:
        """One cost."""
        return replace(self, costs=(candidate["cost"],))


def _targets(kernels: Kernels, *, centred: bool) -> tuple[FloatArray, Any]:
    """Scores, less everyone's mean where wanted, and what is to be put back: (u, n) and (u, 1)."""
    batch = kernels.batch
    if not centred:
        return batch.scores, np.zeros((len(batch.people), 1))
    offset = batch.means[:, None]
    return (batch.scores - offset) * batch.scored_known, offset
