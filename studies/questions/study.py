"""What a study is: draws, methods, one fit of a method on a draw, and what all of them say together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

Draw: TypeAlias = tuple[int | str, ...]  # what the data of a fit follow from: seeds, sizes, the name of a set
Result: TypeAlias = dict[str, Any]  # what a fit gave, as JSON


@dataclass(frozen=True)
class Options:
    """What was asked for on the command line."""

    data: Path | None = None
    quick: bool = False

    @property
    def folder(self) -> Path:
        """The folder of data sets, for studies that need one."""
        if self.data is None:
            raise ValueError("this study needs --data.")
        return self.data


@dataclass(frozen=True)
class Method:
    """A learner with its settings.

    title : its name in the tables
    learner : a class of corank, or "lightgbm", "xgboost"
    settings : what it is called with besides what a draw gives it; plain JSON
    """

    title: str
    learner: str
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Job:
    """One method on one draw."""

    draw: Draw
    method: Method


@dataclass(frozen=True)
class Record:
    """A finished job. `sources`: the state of the code that did it."""

    draw: Draw
    method: str
    result: Result
    seconds: float
    warnings: tuple[str, ...]
    sources: str


@dataclass(frozen=True)
class Table:
    """Cells as they are printed."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Target:
    """A figure that was asked for, and what came out."""

    text: str
    value: float
    shown: str
    met: bool


@dataclass(frozen=True)
class Summary:
    """What a study says."""

    tables: Sequence[Table]
    targets: Sequence[Target]
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Study:
    """A study.

    about : its protocol, for the report
    draw_names : what the parts of a draw are
    protocol : to be raised when the data of a draw or the meaning of a result change, so that kept results expire
    needs : files under --data
    run : the only part that computes; called in other processes
    """

    name: str
    title: str
    about: str
    draw_names: tuple[str, ...]
    protocol: int
    jobs: Callable[[Options], list[Job]]
    run: Callable[[Options, Job], Result]
    summarise: Callable[[Sequence[Record]], Summary]
    needs: tuple[str, ...] = ()


def all_jobs(draws: Sequence[Draw], methods: Sequence[Method]) -> list[Job]:
    """Every method on every draw."""
    return [Job(draw, method) for draw in draws for method in methods]


def by_draw(records: Sequence[Record]) -> dict[Draw, dict[str, Result]]:
    """The results of every method on each draw, in the order of the draws."""
    found: dict[Draw, dict[str, Result]] = {}
    for record in sorted(records, key=lambda record: record.draw):
        found.setdefault(record.draw, {})[record.method] = record.result
    return found


def method_titles(records: Sequence[Record]) -> list[str]:
    """The methods in the order in which they were asked for."""
    return list(dict.fromkeys(record.method for record in records))
