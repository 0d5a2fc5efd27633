"""Whether what a model file says fits together: shapes, types, finite numbers. What passes can be computed with."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, get_args, get_type_hints

import numpy as np

from corank._backend import is_sparse
from corank.basis import Whitening
from corank.kernels import WITH_GAMMA, Kernel, kernel_names
from corank.persistence import ModelFileError
from corank.rows import Rows
from corank.solvers.effect import UnscoredEffect
from corank.solvers.holdout import SCORINGS
from corank.solvers.path import Path
from corank.statistics import N_TARGETS, Gram, Moments, Statistics
from corank.views import View

VERDICTS = get_args(get_type_hints(UnscoredEffect)["verdict"])


def demand(sound: bool, what: str) -> None:
    """Raise unless sound."""
    if not sound:
        raise ModelFileError(f"the model file is damaged: unusable {what}")


def check_single(learner: Any) -> None:
    """Refuse fitted attributes of a learner with one view that do not fit each other.

    What follows may rely on every shape and type.
    """
    _check_shared(learner)
    points, columns = learner.basis_points_, learner.n_features_in_
    size = _check_expansion(learner.coef_, learner._kernel, points, learner.basis_, columns)
    demand(learner.gamma_ is None or _is_number(learner.gamma_), "gamma_")
    demand(learner.path_ is None or learner.path_.agreement is None, "path")
    if learner._rows is not None:
        _check_rows(learner._rows, columns)
        demand(_is_finite(learner._rows.scores) and not learner._kernel.precomputed, "rows")
    if learner._statistics is not None:
        width = _check_statistics(learner._statistics, learner._comparison(), size)
        _check_whitening(learner._whitening, None if points is None else (size, width))


def check_several(learner: Any) -> None:
    """The same for a learner with several views."""
    _check_shared(learner)
    demand(type(learner.agreement_) is float and 0 <= learner.agreement_ < np.inf, "agreement")
    demand(type(learner._compared) is bool, "note on comparisons")
    for name, least in (("n_iter_", 1), ("_n_unscored", 0)):
        demand(type(getattr(learner, name)) is int and getattr(learner, name) >= least, "number of rows or sweeps")
    demand(learner.path_ is None or learner.path_.agreement is not None, "path")
    _check_effect(learner._effect)
    n_views = len(learner.views_) if isinstance(learner.views_, list) else 0
    demand(n_views > 0, "views")
    parts = (learner.coef_, learner._kernels, learner.basis_points_, learner.basis_, learner.gamma_)
    demand(all(_is_list(part, n_views) for part in parts), "views")
    sizes = []
    for view, coefficients, kernel, points, index, gamma in zip(learner.views_, *parts, strict=True):
        _check_view(view, learner.n_features_in_)
        sizes.append(_check_expansion(coefficients, kernel, points, index, len(view.columns)))
        demand(gamma == kernel.gamma, "gamma_")
    if learner._rows is not None:
        features = (points is not None and not k.precomputed for k, points in zip(*parts[1:3], strict=True))
        demand(_is_list(learner._rows, n_views) and all(features), "rows")
        _check_rows_of_views(learner._rows, learner.coef_, learner.views_)
    if learner._statistics is not None:
        demand(_is_list(learner._statistics, n_views) and _is_list(learner._whitenings, n_views), "sums")
        comparison = learner._comparison()
        widths = [
            _check_statistics(own, comparison, size) for own, size in zip(learner._statistics, sizes, strict=True)
        ]
        for v, points in enumerate(learner.basis_points_):
            _check_whitening(learner._whitenings[v], None if points is None else (sizes[v], widths[v]))
        demand(_is_matrix(learner._disagreement, (sum(widths), sum(widths))), "sums")


def _check_shared(learner: Any) -> None:
    for name in ("intercept_", "_level", "alpha_"):
        demand(_is_number(getattr(learner, name)), name)
    demand(learner.alpha_ > 0, "alpha_")
    demand(type(learner._with_queries) is bool, "note on queries")
    for name in ("n_features_in_", "_n_seen", "_n_scored", "_n_queries"):
        demand(type(getattr(learner, name)) is int and getattr(learner, name) > 0, "number of rows or columns")
    names = getattr(learner, "feature_names_in_", None)
    sound = names is None or (isinstance(names, np.ndarray) and names.shape == (learner.n_features_in_,))
    demand(sound, "names of columns")
    _check_path(learner.path_)
    learner._comparison()


def _check_expansion(coefficients: Any, kernel: Any, points: Any, index: Any, columns: int) -> int:
    """One function on that many columns; returns the number of its coefficients."""
    demand(_is_array(coefficients, 1) and _is_finite(coefficients), "coefficients")
    size = len(coefficients)
    _check_kernel(kernel)
    if points is None:
        demand(index is None and size == columns, "basis")
    elif kernel.precomputed:
        demand(_is_index(points, size, columns) and _is_index(index, size), "basis")
    else:
        demand(_is_features(points, size, columns) and _is_index(index, size), "basis")
    return size


def _check_view(view: Any, columns: int) -> None:
    demand(isinstance(view, View) and isinstance(view.name, str) and isinstance(view.kernel, str), "view")
    size = len(view.columns) if isinstance(view.columns, np.ndarray) and view.columns.ndim == 1 else 0
    demand(size > 0 and _is_index(view.columns, size, columns) and bool((np.diff(view.columns) > 0).all()), "view")
    demand(_is_number(view.penalty) and view.penalty > 0, "penalty of a view")


def _check_effect(effect: Any) -> None:
    if effect is None:
        return
    demand(isinstance(effect, UnscoredEffect) and effect.verdict in VERDICTS, "effect of unscored rows")
    numbers = [getattr(effect, field.name) for field in fields(effect) if field.name != "verdict"]
    demand(all(type(number) in (int, float) for number in numbers), "effect of unscored rows")


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
    demand(isinstance(path, Path) and type(path.best) is int and path.scoring in SCORINGS, "path")
    demand(_is_number(path.constant), "path")
    length = len(path.alpha) if _is_array(path.alpha, 1) else 0
    parts = [path.alpha, path.gamma, path.error, path.standard_error]
    optional = (path.agreement, path.n_components, path.n_atoms)
    parts += [part for part in optional if part is not None]
    demand(all(_is_array(part, 1) and len(part) == length for part in parts) and 0 <= path.best < length, "path")


def _check_rows(rows: Any, columns: int) -> None:
    demand(isinstance(rows, Rows) and _is_array(rows.scores, 1), "scores")
    n = len(rows.scores)
    demand(n > 0 and _is_features(rows.features, n, columns) and _is_index(rows.index, n), "rows")
    demand(type(rows.n_queries) is int and 0 < rows.n_queries <= n, "queries")
    demand(rows.n_queries == 1 if rows.queries is None else _is_index(rows.queries, n, rows.n_queries), "queries")
    weights = rows.weights
    sound = weights is None or (_is_array(weights, 1) and weights.shape == (n,) and bool((weights > 0).all()))
    demand(sound and (weights is None or _is_finite(weights)), "weights")


def _check_rows_of_views(rows: Any, coefficients: Any, views: Any) -> None:
    """Every view's scored rows, then the same number of unscored ones, whose scores are NaN."""
    unscored = []
    for own, coefficient, view in zip(rows, coefficients, views, strict=True):
        _check_rows(own, len(view.columns))
        missing = np.isnan(own.scores)
        n = len(missing) - int(missing.sum())
        demand(n > 0 and _is_finite(own.scores[:n]) and len(own) == len(coefficient), "scores")
        demand(own.queries is not None, "queries")
        unscored.append(len(missing) - n)
    demand(len(set(unscored)) == 1, "unscored rows")


def _check_whitening(whitening: Any, shape: tuple[int, int] | None) -> None:
    if shape is None:
        demand(whitening is None, "whitening")
    else:
        demand(isinstance(whitening, Whitening) and _is_matrix(whitening.matrix, shape), "whitening")
        demand(_is_number(whitening.condition) and whitening.trivial is False, "whitening")


def _check_statistics(statistics: Any, comparison: Any, size: int) -> int:
    """Returns the number of features that were summed."""
    demand(isinstance(statistics, Statistics) and statistics.comparison == comparison, "sums")
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


def _is_list(value: Any, length: int) -> bool:
    return isinstance(value, list) and len(value) == length


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
