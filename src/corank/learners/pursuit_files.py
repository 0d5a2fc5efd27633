"""What the file of a pursuit holds, and whether it fits together."""

from __future__ import annotations

from typing import Any

import numpy as np

from corank.kernels import is_registered
from corank.learners.soundness import (
    check_kernel,
    check_path,
    demand,
    is_array,
    is_features,
    is_finite,
    is_index,
    is_matrix,
    is_number,
)
from corank.persistence import ModelFileError
from corank.solvers.greedy import REFITS

FITTED = {
    "coefficients": "coef_",
    "intercept": "intercept_",
    "level": "_level",
    "gamma": "gamma_",
    "path": "path_",
    "atoms": "atoms_",
    "steps": "steps_",
    "n_atoms": "n_atoms_",
    "refit": "_refit",
    "names": "_names",
    "basis": "basis_",
    "basis_points": "basis_points_",
    "dictionary": "_function",
    "dictionary_size": "_size",
    "weights": "_weights",
    "training_loss": "training_loss_",
    "kernel": "_kernel",
    "n_columns": "n_features_in_",
    "column_names": "feature_names_in_",
    "with_queries": "_with_queries",
    "rows_seen": "_n_seen",
    "rows_scored": "_n_scored",
    "queries": "_n_queries",
}


def check_pursuit(learner: Any) -> None:
    """Refuse fitted attributes of a pursuit that do not fit each other. What follows may rely on every shape."""
    _check_counts(learner)
    check_path(learner.path_)
    demand(learner.path_ is None or learner.path_.n_atoms is not None, "path")
    learner._comparison()
    demand(is_array(learner.coef_, 1) and is_finite(learner.coef_), "coefficients")
    size, steps = len(learner.coef_), learner.n_atoms_
    demand(is_matrix(learner._weights, (size, steps)) and size <= steps, "weights")
    demand(learner._refit in REFITS, "way of refitting")
    loss = learner.training_loss_
    demand(is_array(loss, 1) and len(loss) == steps + 1 and is_finite(loss), "training loss")
    names = learner._names
    demand(isinstance(names, list) and len(names) == size and all(isinstance(name, str) for name in names), "names")
    _check_atoms(learner, size)
    demand(is_index(learner.steps_, steps) and set(learner.steps_.tolist()) == set(learner.atoms_.tolist()), "steps")


def _check_counts(learner: Any) -> None:
    for name in ("intercept_", "_level"):
        demand(is_number(getattr(learner, name)), name)
    demand(type(learner._with_queries) is bool, "note on queries")
    for name, least in (
        *((name, 1) for name in ("n_features_in_", "_n_seen", "_n_scored", "_n_queries", "_size")),
        ("n_atoms_", 0),
    ):
        value = getattr(learner, name)
        demand(type(value) is int and value >= least, "number of rows, columns or atoms")
    names = getattr(learner, "feature_names_in_", None)
    sound = names is None or (isinstance(names, np.ndarray) and names.shape == (learner.n_features_in_,))
    demand(sound, "names of columns")


def _check_atoms(learner: Any, size: int) -> None:
    """Atoms are rows or points under a kernel, columns, or values of a function."""
    kernel, points, columns = learner._kernel, learner.basis_points_, learner.n_features_in_
    check_kernel(kernel)
    demand(learner.gamma_ == kernel.gamma, "gamma_")
    demand(learner._function is None or isinstance(learner._function, str), "dictionary")
    if learner._function is not None and not is_registered(learner._function):
        raise ModelFileError(
            f"the model's dictionary is the function {learner._function[:80]!r}, which is not known here: call "
            f"corank.register_kernel({learner._function[:80]!r}, function) before loading"
        )
    demand(is_index(learner.atoms_, size) and len(set(learner.atoms_.tolist())) == size, "atoms")
    demand(learner.basis_ is None or is_index(learner.basis_, size), "basis")
    if points is None:
        end = columns if learner._function is None else learner._size
        demand(learner.basis_ is None and is_index(learner.atoms_, size, end) and kernel.name == "linear", "atoms")
    elif kernel.precomputed:
        demand(is_index(points, size, columns) and learner._function is None, "basis")
    else:
        demand(is_features(points, size, columns) and learner._function is None, "basis")
