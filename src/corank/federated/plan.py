"""How a run is to go, and how it went."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from corank.federated.messages import FloatArray

SCHEDULES = ("sequential", "parallel")


@dataclass(frozen=True)
class Plan:
    """How a run goes.

    Parameters
    ----------
    run : its name
    sites : names of at least two sites, in the order of their turns
    agreement : weight of the disagreement on shared items, as in `CoRLS`
    schedule : "sequential": one site after the other, each seeing the latest answers (Algorithm 1 of Brefeld
        and others, 2006); "parallel": all
        at once, less waiting but up to twice the rounds
    accelerate : whether to extrapolate from past rounds
    report : whether sites tell loss, norm and gradient norm; else predictions are all that leaves them
    tol : when to stop: estimated error of the predictions and, where sites report, the joint gradient, both relative
    max_rounds : when to give up
    on_missing : "stop" or "continue", when a site is lost; with "continue" at least `min_sites` must remain
    """

    run: str
    sites: tuple[str, ...]
    agreement: float
    schedule: str = "sequential"
    accelerate: bool = True
    report: bool = True
    tol: float = 1e-10
    max_rounds: int = 200
    on_missing: str = "stop"
    min_sites: int = 2

    def __post_init__(self) -> None:
        if not self.run:
            raise ValueError("run needs a name.")
        if len(self.sites) < 2 or len(set(self.sites)) < len(self.sites):
            raise ValueError(f"sites must name two sites or more, each once; got {', '.join(self.sites) or 'none'}.")
        if not 0 < self.agreement < np.inf:
            raise ValueError(f"agreement must be greater than 0, got {self.agreement!r}.")
        if self.schedule not in SCHEDULES:
            raise ValueError(f"schedule must be 'sequential' or 'parallel', got {self.schedule!r}.")
        if self.on_missing not in ("stop", "continue"):
            raise ValueError(f"on_missing must be 'stop' or 'continue', got {self.on_missing!r}.")
        if not 0 < self.tol < 1:
            raise ValueError(f"tol must lie between 0 and 1, got {self.tol!r}.")
        if self.max_rounds < 2:
            raise ValueError(f"max_rounds must be at least 2, got {self.max_rounds!r}.")
        if not 2 <= self.min_sites <= len(self.sites):
            raise ValueError(f"min_sites must lie between 2 and the {len(self.sites)} sites, got {self.min_sites!r}.")

    @property
    def fixed(self) -> dict[str, Any]:
        """What must not change between the parts of a run."""
        return {
            "sites": list(self.sites),
            "agreement": self.agreement,
            "report": self.report,
            "schedule": self.schedule,
        }


@dataclass(frozen=True)
class Round:
    """What a round brought.

    error : estimated relative error of the predictions; gradient : of the joint objective relative to its value at zero,
    None where it is not known; disagreement : root mean square between the sites' predictions
    reports : loss, norm and gradient norm by site, where sites tell them
    """

    number: int
    error: float
    gradient: float | None
    disagreement: float
    sent: int
    received: int
    seconds: float
    reports: dict[str, list[float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Report:
    """How a run went."""

    run: str
    sites: tuple[str, ...]
    lost: dict[str, str]
    converged: bool
    n_rounds: int  # the number of the last complete one, also where that was before a restart
    rounds: list[Round]  # since the last start
    predictions: FloatArray  # (M, m), as sites answered last

    @property
    def bytes(self) -> int:
        """Of all rounds since the last start, both ways."""
        return sum(own.sent + own.received for own in self.rounds)
