"""The studies there are, by name. A module is imported when its study is asked for."""

from __future__ import annotations

from importlib import import_module

from corank._messages import near_names
from studies.papers.study import Study

MODULES = {  # name → module
    "parses": "parses",
    "uci": "uci",
    "donations": "donations",
    "sinc": "sinc",
    "jester": "jester",
    "movielens": "movielens",
    "transduction": "transduction",
}


def known_studies() -> tuple[str, ...]:
    """Names of all studies, in the order of the papers."""
    return tuple(MODULES)


def study_named(name: str) -> Study:
    """A study by its name."""
    if name not in MODULES:
        near = near_names(name, MODULES)
        guess = f"; did you mean {near[0]}?" if near else "."
        raise ValueError(f"there is no study {name!r}{guess} The studies are {', '.join(MODULES)}")
    study: Study = import_module(f"studies.papers.{MODULES[name]}").STUDY
    return study
