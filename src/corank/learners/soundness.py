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
    check_shared(learner)
    points, columns = learner.basis_points_, learner.n_features_in_
    size = check_expansion(learner.coef_, learner._kernel, points, learner.basis_, columns)
    check_gamma(learner.gamma_, learner._kernel)
    demand(learner.path_ is None or learner.path_.agreement is None, "path")
    if learner._rows is not None:
        check_rows(learner._rows, columns)
        demand(is_finite(learner._rows.scores) and not learner._kernel.precomputed, "rows")
    if learner._statistics is not None:
        width = _check_statistics(learner._statistics, learner._comparison(), size)
        _check_whitening(learner._whitening, None if points is None else (size, width))


def check_components(learner: Any) -> None:
    """The same for a learner on components."""
    check_shared(learner, least_alpha=0.0)
    check_expansion(learner.coef_, learner._kernel, learner.basis_points_, learner.basis_, learner.n_features_in_)
    demand(learner.gamma_ is None or is_number(learner.gamma_), "gamma_")
    demand(learner.path_ is None or learner.path_.n_components is not None, "path")
    values = learner.eigenvalues_
    demand(is_array(values, 1) and is_finite(values), "eigenvalues")
    demand(type(learner.n_components_) is int and 0 < learner.n_components_ <= len(values), "number of components")


def check_several(learner: Any) -> None:
    """The same for a learner with several views."""
    check_shared(learner)
    demand(type(learner.agreement_) is float and 0 <= learner.agreement_ < np.inf, "agreement")
    demand(type(learner._compared) is bool, "note on comparisons")
    for name, least in (("n_iter_", 1), ("_n_unscored", 0)):
        demand(type(getattr(learner, name)) is int and getattr(learner, name) >= least, "number of rows or sweeps")
    demand(learner.path_ is None or learner.path_.agreement is not None, "path")
    _check_effect(learner._effect)
    n_views = len(learner.views_) if isinstance(learner.views_, list) else 0
    demand(n_views > 0, "views")
    parts = (learner.coef_, learner._kernels, learner.basis_points_, learner.basis_, learner.gamma_)
    demand(all(is_list(part, n_views) for part in parts), "views")
    sizes = []
    for view, coefficients, kernel, points, index, gamma in zip(learner.views_, *parts, strict=True):
        check_view(view, learner.n_features_in_)
        sizes.append(check_expansion(coefficients, kernel, points, index, len(view.columns)))
        demand(gamma == kernel.gamma, "gamma_")
    if learner._rows is not None:
        features = (points is not None and not k.precomputed for k, points in zip(*parts[1:3], strict=True))
        demand(is_list(learner._rows, n_views) and all(features), "rows")
        _check_rows_of_views(learner._rows, learner.coef_, learner.views_)
    if learner._statistics is not None:
        demand(is_list(learner._statistics, n_views) and is_list(learner._whitenings, n_views), "sums")
        comparison = learner._comparison()
        widths = [
            _check_statistics(own, comparison, size) for own, size in zip(learner._statistics, sizes, strict=True)
        ]
        for v, points in enumerate(learner.basis_points_):
            _check_whitening(learner._whitenings[v], None if points is None else (sizes[v], widths[v]))
        demand(is_matrix(learner._disagreement, (sum(widths), sum(widths))), "sums")


def check_shared(learner: Any, least_alpha: float = np.nextafter(0.0, 1.0)) -> None:
    """What every learner with an alpha has: what all have, and the path it was chosen on."""
    check_counts(learner)
    demand(is_number(learner.alpha_) and learner.alpha_ >= least_alpha, "alpha_")
    check_path(learner.path_)


def check_counts(learner: Any) -> None:
    """What every learner has: numbers of rows, level, names of columns."""
    for name in ("intercept_", "_level"):
        demand(is_number(getattr(learner, name)), name)
    demand(type(learner._with_queries) is bool, "note on queries")
    for name in ("n_features_in_", "_n_seen", "_n_scored", "_n_queries"):
        number = getattr(learner, name)
        demand(type(number) is int and 0 < number < 2**62, "number of rows or columns")
    names = getattr(learner, "feature_names_in_", None)
    sound = names is None or (isinstance(names, np.ndarray) and names.shape == (learner.n_features_in_,))
    demand(sound, "names of columns")
    learner._comparison()


def check_expansion(coefficients: Any, kernel: Any, points: Any, index: Any, columns: int) -> int:
    """One function on that many columns; returns the number of its coefficients."""
    demand(is_array(coefficients, 1) and is_finite(coefficients), "coefficients")
    size = len(coefficients)
    check_kernel(kernel)
    demand(kernel.scales is None or len(kernel.scales) == columns, "kernel")
    if points is None:
        demand(index is None and size == columns, "basis")
    elif kernel.precomputed:
        demand(is_index(points, size, columns) and is_index(index, size), "basis")
    else:
        demand(is_features(points, size, columns) and is_index(index, size), "basis")
    return size


def check_view(view: Any, columns: int) -> None:
    """A view of that many columns."""
    demand(isinstance(view, View) and isinstance(view.name, str) and isinstance(view.kernel, str), "view")
    size = len(view.columns) if isinstance(view.columns, np.ndarray) and view.columns.ndim == 1 else 0
    demand(size > 0 and is_index(view.columns, size, columns) and bool((np.diff(view.columns) > 0).all()), "view")
    demand(is_number(view.penalty) and view.penalty > 0, "penalty of a view")


def _check_effect(effect: Any) -> None:
    if effect is None:
        return
    demand(isinstance(effect, UnscoredEffect) and effect.verdict in VERDICTS, "effect of unscored rows")
    numbers = [getattr(effect, field.name) for field in fields(effect) if field.name != "verdict"]
    demand(all(type(number) in (int, float) for number in numbers), "effect of unscored rows")


def check_kernel(kernel: Any) -> None:
    """A kernel that can be computed here."""
    demand(isinstance(kernel, Kernel) and isinstance(kernel.name, str), "kernel")
    if kernel.name not in kernel_names():
        raise ModelFileError(
            f"the model uses the kernel {kernel.name[:80]!r}, which has no function here: call "
            f"corank.register_kernel({kernel.name[:80]!r}, function) before loading"
        )
    sound = is_number(kernel.gamma) and kernel.gamma > 0 if kernel.name in WITH_GAMMA else kernel.gamma is None
    demand(bool(sound), "gamma of the kernel")
    demand(is_number(kernel.degree) and is_number(kernel.coef0) and isinstance(kernel.params, dict), "kernel")
    scales = kernel.scales
    sound = scales is None or (isinstance(scales, tuple) and all(is_number(scale) for scale in scales))
    demand(sound and (scales is None or kernel.name == "rbf"), "kernel")


def check_gamma(gamma: Any, kernel: Kernel) -> None:
    """One width, or one a column."""
    if kernel.scales is None:
        demand(gamma == kernel.gamma, "gamma_")
    else:
        own = kernel.gamma * np.asarray(kernel.scales) ** 2
        demand(is_array(gamma, 1) and gamma.shape == own.shape and bool(np.allclose(gamma, own)), "gamma_")


def check_path(path: Any) -> None:
    """What was tried, or None."""
    if path is None:
        return
    demand(isinstance(path, Path) and type(path.best) is int and path.scoring in SCORINGS, "path")
    demand(is_number(path.constant), "path")
    length = len(path.alpha) if is_array(path.alpha, 1) else 0
    parts = [path.alpha, path.gamma, path.error, path.standard_error]
    optional = (path.agreement, path.n_components, path.n_atoms)
    parts += [part for part in optional if part is not None]
    demand(all(is_array(part, 1) and len(part) == length for part in parts) and 0 <= path.best < length, "path")


def check_rows(rows: Any, columns: int) -> None:
    """Scored rows with that many columns."""
    demand(isinstance(rows, Rows) and is_array(rows.scores, 1), "scores")
    n = len(rows.scores)
    demand(n > 0 and is_features(rows.features, n, columns) and is_index(rows.index, n), "rows")
    demand(type(rows.n_queries) is int and 0 < rows.n_queries <= n, "queries")
    demand(rows.n_queries == 1 if rows.queries is None else is_index(rows.queries, n, rows.n_queries), "queries")
    weights = rows.weights
    sound = weights is None or (is_array(weights, 1) and weights.shape == (n,) and bool((weights > 0).all()))
    demand(sound and (weights is None or is_finite(weights)), "weights")


def _check_rows_of_views(rows: Any, coefficients: Any, views: Any) -> None:
    """Every view's scored rows, then the same number of unscored ones, whose scores are NaN."""
    unscored = []
    for own, coefficient, view in zip(rows, coefficients, views, strict=True):
        check_rows(own, len(view.columns))
        missing = np.isnan(own.scores)
        n = len(missing) - int(missing.sum())
        demand(n > 0 and is_finite(own.scores[:n]) and len(own) == len(coefficient), "scores")
        demand(own.queries is not None, "queries")
        unscored.append(len(missing) - n)
    demand(len(set(unscored)) == 1, "unscored rows")


def _check_whitening(whitening: Any, shape: tuple[int, int] | None) -> None:
    if shape is None:
        demand(whitening is None, "whitening")
    else:
        demand(isinstance(whitening, Whitening) and is_matrix(whitening.matrix, shape), "whitening")
        demand(is_number(whitening.condition) and whitening.trivial is False, "whitening")


def _check_statistics(statistics: Any, comparison: Any, size: int) -> int:
    """Returns the number of features that were summed."""
    demand(isinstance(statistics, Statistics) and statistics.comparison == comparison, "sums")
    demand(_is_one(statistics.queries) and isinstance(statistics.queries[0], Gram), "sums")
    demand(_is_one(statistics.parts) and isinstance(statistics.parts[0], Moments | None), "sums")
    gram, part = statistics.queries[0], statistics.parts[0]
    demand(is_array(gram.matrix, 2) and is_number(gram.weight) and type(gram.freedom) is int, "sums")
    width = len(gram.matrix)
    demand(N_TARGETS < width <= size + N_TARGETS and is_matrix(gram.matrix, (width, width)), "sums")
    if part is not None:
        demand(is_number(part.weight) and type(part.count) is int and is_array(part.mean, 1), "sums")
        demand(part.mean.shape == (width,) and is_finite(part.mean) and is_matrix(part.scatter, (width, width)), "sums")
    return width - N_TARGETS


def is_number(value: Any) -> bool:
    """Whether a value is a finite number."""
    return type(value) in (int, float) and bool(np.isfinite(value))


def is_list(value: Any, length: int) -> bool:
    """Whether a value is a list of that length."""
    return isinstance(value, list) and len(value) == length


def _is_one(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 1


def is_array(value: Any, dimensions: int) -> bool:
    """Whether a value is an array of float64 with so many dimensions."""
    return isinstance(value, np.ndarray) and value.dtype == np.float64 and value.ndim == dimensions


def is_matrix(value: Any, shape: tuple[int, int]) -> bool:
    """Whether a value is a matrix of finite numbers of that shape."""
    return is_array(value, 2) and value.shape == shape and is_finite(value)


def is_finite(values: Any) -> bool:
    """Whether all values are finite."""
    return bool(np.isfinite(values).all())


def is_index(value: Any, size: int, end: int | None = None) -> bool:
    """Whether a value is an array of `size` row numbers, below `end` where given."""
    sound = isinstance(value, np.ndarray) and value.dtype == np.int64 and value.shape == (size,)
    return sound and bool((value >= 0).all()) and (end is None or bool((value < end).all()))


def is_features(value: Any, rows: int, columns: int) -> bool:
    """Whether a value is a matrix of features of that shape, dense or CSR."""
    if not (is_sparse(value) or isinstance(value, np.ndarray)) or value.shape != (rows, columns):
        return False
    return value.dtype in (np.float64, np.float32) and is_finite(value.data if is_sparse(value) else value)
