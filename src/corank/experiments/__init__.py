"""Comparing methods on data: which is best, by how much, and whether unscored rows helped."""

from corank.experiments.compare import compare
from corank.experiments.methods import (
    FittedMethod,
    Method,
    estimator_method,
    known_methods,
    register_method,
)
from corank.experiments.protocol import Items, Protocol, Task
from corank.experiments.result import ComparisonResult

__all__ = [
    "ComparisonResult",
    "FittedMethod",
    "Items",
    "Method",
    "Protocol",
    "Task",
    "compare",
    "estimator_method",
    "known_methods",
    "register_method",
]
