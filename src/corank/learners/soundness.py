"""Whether what a model file says fits together: shapes, types, finite numbers. What passes can be computed with."""

from __future__ import annotations

from typing import Any

import numpy as np

from corank._backend import is_sparse
from corank.basis import Whitening
from corank.kernels import WITH_GAMMA, Kernel, kernel_names
from corank.persistence import ModelFileError
from corank.rows import Rows
from corank.solvers.path import Path
from corank.statistics import N_TARGETS, Gram, Moments, Statistics


def demand(sound: bool, what: str) -> None:
    """Raise unless sound."""
    if not sound:
        raise ModelFileError(f"the model file is damaged: unusable {what}")


def check_fitted(learner: Any) -> None:
    """Refuse fitted attributes that do not fit each other: what follows may rely on every shape and type."""
    coefficients, kernel, points = learner.coef_, learner._kernel, learner.basis_points_
    demand(_is_array(coefficients, 1) and _is_finite(coefficients), "coefficients")
    size = len(coefficients)
    for name in ("intercept_", "_level", "alpha_"):
        demand(_is_number(getattr(learner, name)), name)
    demand(learner.gamma_ is None or _is_number(learner.gamma_), "gamma_")
    demand(type(learner._with_queries) is bool, "note on queries")
    for name in ("n_features_in_", "_n_seen", "_n_scored", "_n_queries"):
        demand(type(getattr(learner, name)) is int and getattr(learner, name) > 0, "number of rows or columns")
    columns = learner.n_features_in_
    names = getattr(learner, "feature_names_in_", None)
    demand(names is None or (isinstance(names, np.ndarray) and names.shape == (columns,)), "names of columns")
    _check_kernel(kernel)
    if points is None:
        demand(learner.basis_ is None and size == columns, "basis")
    elif kernel.precomputed:
        demand(_is_index(points, size, columns) and _is_index(learner.basis_, size), "basis")
    else:
        demand(_is_features(points, size, columns) and _is_index(learner.basis_, size), "basis")
    _check_path(learner.path_)
    comparison = learner._comparison()
    if learner._rows is not None:
        _check_rows(learner._rows, columns)
    if learner._statistics is not None:
        demand(isinstance(learner._statistics, Statistics) and learner._statistics.comparison == comparison, "sums")
        width = _check_statistics(learner._statistics, size)
        _check_whitening(learner._whitening, None if points is None else (size, width))


def _check_kernel(kernel: Any) -> None:
    demand(isinstance(kernel, Kernel) and isinstance(kernel.name, str), "kernel")
    if kernel.name not in kernel_names():
        raise ModelFileError(
            f"the model uses the kernel {kernel.name[:80]!r}, which has no function here: call "
            f"corank.register_kernel({kernel.name[:80]!r}, function) before loading"
        )
    demand(_is_number(kernel.gamma) if kernel.name in WITH_GAMMA else kernel.gamma is None, "gamma of the kernel")
    demand(_is_number(kernel.degree) and _is_number(kernel.coef0) and isinstance(kernel.params, dict), "kernel")


def _check_path(path: Any) -> None:
    if path is None:
        return
    demand(isinstance(path, Path) and type(path.best) is int and path.scoring in ("squared", "disagreement"), "path")
    demand(_is_number(path.constant) and (path.agreement is None or _is_array(path.agreement, 1)), "path")
    length = len(path.alpha) if _is_array(path.alpha, 1) else 0
    parts = (path.alpha, path.gamma, path.error, path.standard_error)
    demand(all(_is_array(part, 1) and len(part) == length for part in parts) and 0 <= path.best < length, "path")


def _check_rows(rows: Any, columns: int) -> None:
    demand(isinstance(rows, Rows) and _is_array(rows.scores, 1) and _is_finite(rows.scores), "scores")
    n = len(rows.scores)
    demand(n > 0 and _is_features(rows.features, n, columns) and _is_index(rows.index, n), "rows")
    demand(type(rows.n_queries) is int and 0 < rows.n_queries <= n, "queries")
    demand(rows.n_queries == 1 if rows.queries is None else _is_index(rows.queries, n, rows.n_queries), "queries")
    weights = rows.weights
    sound = weights is None or (_is_array(weights, 1) and weights.shape == (n,) and bool((weights > 0).all()))
    demand(sound and (weights is None or _is_finite(weights)), "weights")


def _check_whitening(whitening: Any, shape: tuple[int, int] | None) -> None:
    if shape is None:
        demand(whitening is None, "whitening")
    else:
        demand(isinstance(whitening, Whitening) and _is_matrix(whitening.matrix, shape), "whitening")
        demand(_is_number(whitening.condition) and whitening.trivial is False, "whitening")


def _check_statistics(statistics: Statistics, size: int) -> int:
    """Returns the number of features that were summed."""
    demand(_is_one(statistics.queries) and isinstance(statistics.queries[0], Gram), "sums")
    demand(_is_one(statistics.parts) and isinstance(statistics.parts[0], Moments | None), "sums")
    gram, part = statistics.queries[0], statistics.parts[0]
    demand(_is_array(gram.matrix, 2) and _is_number(gram.weight) and type(gram.freedom) is int, "sums")
    width = len(gram.matrix)
    demand(N_TARGETS < width <= size + N_TARGETS and _is_matrix(gram.matrix, (width, width)), "sums")
    if part is not None:
        demand(_is_number(part.weight) and type(part.count) is int and _is_array(part.mean, 1), "sums")
        demand(
            part.mean.shape == (width,) and _is_finite(part.mean) and _is_matrix(part.scatter, (width, width)), "sums"
        )
    return width - N_TARGETS


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and bool(np.isfinite(value))


def _is_one(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 1


def _is_array(value: Any, dimensions: int) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == np.float64 and value.ndim == dimensions


def _is_matrix(value: Any, shape: tuple[int, int]) -> bool:
    """Whether a value is a matrix of finite numbers of that shape."""
    return _is_array(value, 2) and value.shape == shape and _is_finite(value)


def _is_finite(values: Any) -> bool:
    return bool(np.isfinite(values).all())


def _is_index(value: Any, size: int, end: int | None = None) -> bool:
    sound = isinstance(value, np.ndarray) and value.dtype == np.int64 and value.shape == (size,)
    return sound and bool((value >= 0).all()) and (end is None or bool((value < end).all()))


def _is_features(value: Any, rows: int, columns: int) -> bool:
    if not (is_sparse(value) or isinstance(value, np.ndarray)) or value.shape != (rows, columns):
        return False
    return value.dtype in (np.float64, np.float32) and _is_finite(value.data if is_sparse(value) else value)
