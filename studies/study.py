"""What a study is made of: parts that are computed apart, and what their results say together.
Plain data only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

Result: TypeAlias = dict[str, Any]  # what a part gave, as JSON
Verdict: TypeAlias = Literal[
    "holds", "holds partly", "does not hold", "cannot be tested with the data at hand"
]
HOLDS: Verdict = "holds"
PARTLY: Verdict = "holds partly"
DOES_NOT_HOLD: Verdict = "does not hold"
CANNOT_BE_TESTED: Verdict = "cannot be tested with the data at hand"
Kind: TypeAlias = Literal["own", "elsewhere", "not claimed"]
OWN: Kind = "own"
ELSEWHERE: Kind = "elsewhere"
NOT_CLAIMED: Kind = "not claimed"


@dataclass(frozen=True)
class Settings:
    """What the caller asks for.

    data : the folder with one folder per data set, None where there is none
    quick : a small sample of the same protocol
    seed : all draws follow from it, but for studies with fixed draws
    """

    data: Path | None = None
    quick: bool = False
    seed: int = 0

    @property
    def folder(self) -> Path:
        """The folder of data sets, for studies that need one."""
        if self.data is None:
            raise ValueError("this study needs a folder with data sets.")
        return self.data


@dataclass(frozen=True)
class Part:
    """A piece of a study that is computed in one go, by one process, and kept.

    key : its name in the study; `conclude` finds its result under it
    run : function of a module, called as ``run(settings, rng, **arguments)``; gives a dict as JSON
        has them
    arguments : together with the key, the seed and the data all that the result depends on
    draw : what its random numbers follow from beside the seed; parts with the same draw see the
        same numbers. None: the key
    alone : not beside other parts, as its time is measured
    libraries : where another library does the work, the names of its distributions; kept results
        then expire with that library's version, not with corank's sources
    """

    key: str
    run: Callable[..., Result]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    draw: str | None = None
    alone: bool = False
    libraries: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.key


@dataclass(frozen=True)
class Measured:
    """A mean with its standard error, in a cell of a table."""

    value: float
    error: float | None = None


Cell: TypeAlias = str | int | float | Measured | None


@dataclass(frozen=True)
class Table:
    """A table whose cells are text or numbers; numbers are shown with `digits` digits behind the
    point.

    Columns named "paper", "ours" and "s.e." hold what the paper prints, what came out and its
    standard error. A table of details is not shown on a terminal.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    digits: int = 3
    note: str = ""
    details: bool = False


@dataclass(frozen=True)
class Finding:
    """A claim, and what became of it here.

    source : where the claim stands, such as "Brefeld2006 fig. 1"; TARGET for what corank itself set
        out to reach
    claim : the claim in a sentence
    verdict : HOLDS, PARTLY, DOES_NOT_HOLD or CANNOT_BE_TESTED
    evidence : our numbers, or why it cannot be tested
    case : which of the comparisons that make up the claim this is, such as a pair of methods
    kind : OWN, a paper's claim on its own kind of data and by its protocol; ELSEWHERE, the claim on
        other data or by another protocol; NOT_CLAIMED, what the paper does not say, which no count
        of verdicts includes
    interval : mean, low and high end of the number that decides, where there is one
    """

    source: str
    claim: str
    verdict: Verdict
    evidence: str
    case: str = ""
    kind: Kind = OWN
    interval: tuple[float, float, float] | None = None

    @property
    def sentence(self) -> str:
        """The claim with its case."""
        return f"{self.claim}: {self.case}" if self.case else self.claim


TARGET = "corank"


def target(claim: str, evidence: str, reached: bool) -> Finding:
    """What corank itself set out to reach, and whether it did."""
    return Finding(TARGET, claim, HOLDS if reached else DOES_NOT_HOLD, evidence)


@dataclass(frozen=True)
class Series:
    """Points of a plot. `low` and `high`: a band around a line, bars at points. `kind`: "line",
    "points", "dashed".

    colour_of : name of another series of the panel that has the same colour
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    kind: str = "line"
    colour_of: str | None = None


@dataclass(frozen=True)
class Panel:
    """One set of axes.

    log : the axes that are logarithmic, such as "xy"
    diagonal : show where x equals y
    ticks : places on the x axis that get a number; None leaves them to the plot
    """

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    log: str = ""
    diagonal: bool = False
    ticks: Sequence[float] | None = None


@dataclass(frozen=True)
class Figure:
    """Panels side by side. `key`: the name of its file; `about`: what it shows in words, for those
    who do not see it.
    """

    key: str
    caption: str
    panels: Sequence[Panel]
    about: str = ""


@dataclass(frozen=True)
class Outcome:
    """What a study says."""

    tables: Sequence[Table]
    findings: Sequence[Finding] = ()
    figures: Sequence[Figure] = ()
    notes: Sequence[str] = ()
    n_fits: int = 0


@dataclass(frozen=True)
class Study:
    """A study.

    name : what it is called on the command line
    title : a heading
    about : its protocol in a few sentences, with what the paper leaves open and how it was decided
    parts : what is to be computed
    conclude : what the results say, by the keys of the parts
    files : what it needs under the data folder, such as "jester/jester_part1.npz"
    sources : the tables and figures it makes again, such as "Brefeld2006 fig. 1"
    fixed_draws : its draws follow from fixed seeds, whatever the seed of the settings
    with_results : the results of all parts are written too, so that others can go on from them
    protocol : to be raised when the data of a draw or the meaning of a result change, so that kept
        results expire also where they are taken whatever the sources
    optional : distributions without which the rest is worth running: where one is missing, the
        parts that need it and are not kept are left out, and a note says how many
    """

    name: str
    title: str
    about: str
    parts: Callable[[Settings], list[Part]]
    conclude: Callable[[Settings, Mapping[str, Result]], Outcome]
    files: Sequence[str] = ()
    sources: Sequence[str] = ()
    fixed_draws: bool = False
    with_results: bool = False
    protocol: int = 1
    optional: Sequence[str] = ()

    @property
    def folders(self) -> tuple[str, ...]:
        """The data folders it needs."""
        return tuple(dict.fromkeys(name.split("/")[0] for name in self.files))
