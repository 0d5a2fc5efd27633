"""The tables and figures of the five papers on real data, with a verdict on every published finding.

A study is a module with a `STUDY`. It says which parts it is computed from (`parts`) and what they say together
(`conclude`); `reproduce` runs the parts, keeps every finished one and concludes. Pages and files are made elsewhere.
"""

from studies.papers.registry import known_studies, study_named
from studies.papers.running import Reproduction, missing_data, reproduce
from studies.papers.study import (
    CANNOT_BE_TESTED,
    DOES_NOT_HOLD,
    HOLDS,
    Figure,
    Finding,
    Measured,
    Outcome,
    Panel,
    Part,
    Series,
    Settings,
    Study,
    Table,
)

__all__ = [
    "CANNOT_BE_TESTED",
    "DOES_NOT_HOLD",
    "HOLDS",
    "Figure",
    "Finding",
    "Measured",
    "Outcome",
    "Panel",
    "Part",
    "Reproduction",
    "Series",
    "Settings",
    "Study",
    "Table",
    "known_studies",
    "missing_data",
    "reproduce",
    "study_named",
]
