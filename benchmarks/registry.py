"""What a benchmark is: contenders on the same data, the work they do at least, and the targets to
meet.

A case is one function that builds its contenders; `@case(name, targets=...)` puts it on the list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

MB = 1e6


@dataclass(frozen=True)
class Rates:
    """What the machine can do with all cores in float64: flops a second in GEMM, seconds for one
    exp.
    """

    gemm: float
    exp: float


@dataclass(frozen=True)
class Work:
    """What a computation cannot do without (design.md, "How we know it is right")."""

    flops: float
    exps: float = 0.0

    def bound(self, rates: Rates) -> float:
        """Seconds that this takes at least."""
        return self.flops / rates.gemm + self.exps * rates.exp


def fit_work(n: int, r: int, d: int) -> Work:
    """One pass over n rows of d columns with r kernels: their values, then half of the r x r
    products.
    """
    return Work(flops=n * r * (r + 2 * d), exps=n * r)


def predict_work(n: int, r: int, d: int) -> Work:
    """The values of r kernels at n rows of d columns."""
    return Work(flops=n * r * 2 * d, exps=n * r)


def linear_work(n: int, d: int) -> Work:
    """Half of the d x d products of n rows."""
    return Work(flops=n * d * d)


def cholesky_work(n: int, d: int) -> Work:
    """The n x n kernel matrix of rows of d columns, and its Cholesky factor."""
    return Work(flops=n * n * 2 * d + n**3 / 3, exps=n * n)


@dataclass(frozen=True)
class Contender:
    """One way to do what a case asks.

    run : the timed call; its result goes to `error`
    work : what gives the bound, None where there is none
    beside : the contender whose time this one's is divided by; None for the first of the case
    needs : a module without which it is left out
    error : result → held-out error, so that speed is not bought with a worse model
    profiled : whether to note where its time goes
    """

    name: str
    run: Callable[[], Any]
    work: Work | None = None
    beside: str | None = None
    needs: str | None = None
    error: Callable[[Any], float] | None = None
    profiled: bool = False


@dataclass(frozen=True)
class Target:
    """A figure that a contender should reach.

    quantity
        "share" of the bound; "time" of another as a multiple of this one's (`than` / `of`: how much
        faster); "cost" as a multiple of another's (`of` / `than`); "delay": seconds above that of
        another; "memory" in MB; "growth": MB above that of another
    """

    quantity: Literal["share", "time", "cost", "delay", "memory", "growth"]
    of: str
    limit: float
    than: str | None = None

    @property
    def at_least(self) -> bool:
        """Whether more is better."""
        return self.quantity in ("share", "time")

    def value(self, contenders: Mapping[str, Mapping[str, Any]]) -> float | None:
        """What was measured; None where a contender is missing."""
        own, other = contenders.get(self.of, {}), contenders.get(self.than or self.of, {})
        key = {"share": "share_of_bound", "time": "best", "cost": "best", "delay": "best"}.get(
            self.quantity, "memory_mb"
        )
        a, b = own.get(key), other.get(key)
        if a is None or b is None:
            return None
        if self.quantity == "time":
            return float(b / a)
        if self.quantity == "cost":
            return float(a / b)
        return float(a - b) if self.quantity in ("growth", "delay") else float(a)

    def met(self, value: float | None) -> bool | None:
        """Whether that is enough; None where nothing was measured."""
        if value is None:
            return None
        return value >= self.limit if self.at_least else value <= self.limit

    def __str__(self) -> str:
        limit = self.show(self.limit)
        return {
            "share": f"{self.of}: at least {limit} of the bound",
            "time": f"{self.of}: at least {limit} faster than {self.than}",
            "cost": f"{self.of}: at most {limit} the time of {self.than}",
            "delay": f"{self.of}: at most {limit} above the time of {self.than}",
            "memory": f"{self.of}: at most {limit} above that before",
            "growth": f"{self.of}: at most {limit} more than {self.than}",
        }[self.quantity]

    def show(self, value: float) -> str:
        """A value with its unit."""
        if self.quantity == "share":
            return f"{value:.0%}"
        if self.quantity == "delay":
            return f"{value:.2f} s"
        return f"{value:.2f}x" if self.quantity in ("time", "cost") else f"{value:.0f} MB"


@dataclass(frozen=True)
class Case:
    """A benchmark: `build(quick)` makes the data and the contenders; quick is a size that takes no
    time.
    """

    name: str
    about: str
    build: Callable[[bool], list[Contender]]
    targets: tuple[Target, ...]


CASES: dict[str, Case] = {}

Build = Callable[[bool], list[Contender]]


def case(name: str, *targets: Target) -> Callable[[Build], Build]:
    """Put a case on the list; its docstring says what it measures and what its bound counts."""

    def enter(build: Build) -> Build:
        if name in CASES:
            raise ValueError(f"there are two cases {name!r}.")
        CASES[name] = Case(name, " ".join((build.__doc__ or "").split()), build, targets)
        return build

    return enter
