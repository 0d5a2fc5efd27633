"""Comparing methods on data: which is best, by how much, and whether unscored rows helped."""

from corank.experiments.compare import compare
from corank.experiments.items import Items
from corank.experiments.masking import Task
from corank.experiments.methods import Method, known_methods, register_method
from corank.experiments.outcome import Comparison
from corank.experiments.protocol import Protocol
from corank.experiments.tuning import Fitted

__all__ = ["Comparison", "Fitted", "Items", "Method", "Protocol", "Task", "compare", "known_methods", "register_method"]
