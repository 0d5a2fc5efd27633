"""Parameters that learners share: their fields, and what they may be.

Every check here looks at one parameter and knows no rows, but for `read_splits`, which turns `cv`
into folds of the rows, and `read_dictionary`, which finds the atoms of a pursuit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from corank.core.arrays import (
    Array,
    Index,
    NumpyArray,
    dtype_name,
    is_foreign,
    is_sparse,
    like,
    namespace,
    to_numpy,
)
from corank.core.basis import checked_rows
from corank.core.folds import Splits
from corank.core.kernels import (
    MEAN_DISTANCE,
    Kernel,
    basis_points,
    is_named,
    is_registered,
    kernel_names,
)
from corank.core.loss import WEIGHTINGS, Loss, blend
from corank.core.observations import Problem, ScoredRows
from corank.core.storable import NAMED_FUNCTIONS
from corank.core.views import JointKernel
from corank.inputs import is_frame, read_features
from corank.solve.dictionary import Atoms
from corank.solve.tuning import Training

MAX_LEARNED_WIDTHS = 500  # one per column: the search has as many parameters
GAMMA_RULES = ("scale", MEAN_DISTANCE, "tune")
# what searches hand on to `fit`
WITH_UNSCORED: dict[str, str | bool] = {"unscored": True, "unscored_qid": True}


class BriefRequest:
    """scikit-learn's `set_fit_request` and its like, with one line of help instead of forty."""

    def __init__(self, request: Any) -> None:
        self.request = request

    def __get__(self, instance: Any, owner: Any) -> Any:
        method = self.request.__get__(instance, owner)
        method.__doc__ = (
            "Say which metadata searches and pipelines hand on: see scikit-learn's metadata"
            " routing."
        )
        return method


@dataclass(eq=False, repr=False, kw_only=True)
class KernelParameters:
    """Parameters of learners that choose by held-out errors; a learner declares its own before
    them.
    """

    _gamma_words: ClassVar[tuple[str, ...]] = GAMMA_RULES

    kernel: Any = "rbf"
    gamma: Any = "scale"
    degree: float = 3
    coef0: float = 1
    kernel_params: Any = None
    cv: Any = None
    scoring: Any = None
    random_state: Any = None


@dataclass(eq=False, repr=False, kw_only=True)
class BasisParameters(KernelParameters):
    """Parameters of learners whose basis may be a number of rows."""

    basis_selection: Any = "pivoted"


@dataclass(eq=False, repr=False, kw_only=True)
class WidthParameters(BasisParameters):
    """Parameters of learners with one view, which choose the width of their kernel where scored
    rows are few.
    """

    _gamma_words: ClassVar[tuple[str, ...]] = ("auto", *GAMMA_RULES, "columns")

    gamma: Any = "auto"


# ---------------------------------------------------------------- checks


def read_kernel(kernel: Any, degree: Any, coef0: Any, kernel_params: Any) -> Kernel:
    """The kernel, its width still open."""
    if isinstance(kernel, str) and kernel not in kernel_names():
        raise ValueError(
            f"kernel {kernel!r} is not known; choose from {', '.join(kernel_names())}."
        )
    if not isinstance(kernel, str | JointKernel) and not callable(kernel):
        raise TypeError(f"kernel must be a name or a function, got {kernel!r}.")
    if kernel_params and isinstance(kernel, str) and not is_registered(kernel):
        raise ValueError(f"kernel_params go with a kernel function, not with kernel={kernel!r}.")
    for name, value in (("degree", degree), ("coef0", coef0)):
        if not isinstance(value, Real) or not math.isfinite(value):
            raise ValueError(f"{name} must be a number, got {value!r}.")
    params = dict(kernel_params or {})
    if isinstance(kernel, JointKernel):
        return kernel.kernel(degree=degree, coef0=coef0, params=params)
    return Kernel(kernel, None, degree, coef0, params)


def is_per_column(gamma: Any) -> bool:
    """Whether it is "columns", or an array of one width per column and no list of candidates."""
    is_array = not isinstance(gamma, list | tuple | range) and np.ndim(gamma) == 1
    return is_array or is_named(gamma, "columns")


def read_column_widths(kernel: Kernel, gamma: Any, n_columns: int) -> Kernel:
    """The kernel with an array of one width per column; with its widths open for "columns"."""
    learns = isinstance(gamma, str)
    if not kernel.can_have_widths:
        raise ValueError(
            f"{'gamma=' + repr(gamma) if learns else 'an array as gamma'} needs an rbf, exponential"
            f" or laplacian kernel, got kernel={kernel.name!r}."
        )
    if learns and n_columns > MAX_LEARNED_WIDTHS:
        raise ValueError(
            f"gamma='columns' learns one width per column, but X has {n_columns:,}; use"
            f" gamma='tune', or at most {MAX_LEARNED_WIDTHS} columns."
        )
    if learns:
        return kernel
    if len(gamma) != n_columns:
        raise ValueError(
            f"gamma: an array has one width per column, got {len(gamma)} for {n_columns} columns;"
            " candidates are given as a list."
        )
    widths = np.asarray(candidates(gamma, "gamma", (), zero=True))
    if not widths.any():
        raise ValueError("gamma: at least one column must have a width greater than 0.")
    return kernel.with_widths(widths)


def read_comparison(weighting: Any, beta: Any) -> Loss:
    """What a ranker compares."""
    if weighting not in WEIGHTINGS:
        raise ValueError(f"weighting {weighting!r} is not known; use 'size', 'unit' or 'query'.")
    if not isinstance(beta, Real) or not 0 <= float(beta) <= 1:
        raise ValueError(f"beta must lie between 0 (ranking) and 1 (regression), got {beta!r}.")
    return blend(weighting, float(beta))


def check_choice(value: Any, name: str, choices: tuple[Any, ...]) -> None:
    """Refuse a value that is none of the choices."""
    if not any(
        value is choice or (isinstance(value, str) and value == choice) for choice in choices
    ):
        raise ValueError(f"{name} {value!r} is not known; use {' or '.join(map(repr, choices))}.")


def check_weights(comparison: Loss, sample_weight: Any) -> None:
    """Refuse weights where every query counts the same."""
    if sample_weight is not None and getattr(comparison, "weighting", None) == "query":
        raise ValueError(
            "sample_weight does not go with weighting='query', which gives every query the same"
            " weight; use weighting='size' or 'unit'."
        )


def candidates(
    value: Any, name: str, words: tuple[str, ...], *, zero: bool = False
) -> float | str | tuple[float, ...]:
    """A number, one of the words, or a list of numbers; greater than 0, or 0 too where `zero`."""
    if isinstance(value, str):
        if value not in words:
            choices = [*map(repr, words), "a number or a list"]
            elsewhere = value == "columns" and name.startswith("gamma")
            where = "for RLS, RankRLS, DifferenceGP and PreferenceGP" if elsewhere else "not known"
            raise ValueError(f"{name} {value!r} is {where}; use {', '.join(choices)}.")
        return value
    if isinstance(value, Mapping | bool) or value is None:
        expected = ", ".join(["a number", *map(repr, words)])
        raise ValueError(f"{name} must be {expected} or a list of numbers, got {value!r}.")
    try:
        numbers = np.asarray(to_numpy(value), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be a number or a list of numbers, got {value!r}.") from error
    fitting = np.isfinite(numbers) & ((numbers >= 0) if zero else (numbers > 0))
    if numbers.size == 0 or numbers.ndim > 1 or not np.all(fitting):
        raise ValueError(
            f"{name} must be {'0 or more' if zero else 'greater than 0'}, got {value!r}."
        )
    return float(numbers) if numbers.ndim == 0 else tuple(numbers.tolist())


def is_whole(value: Any) -> bool:
    """Whether a value is a whole number from 1."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1


def whole_numbers(value: Any, name: str) -> int | str | tuple[int, ...]:
    """ "tune", a whole number from 1, or several of them in increasing order."""
    if is_named(value, "tune"):
        return "tune"
    if is_whole(value):
        return int(value)
    numbers = value.tolist() if hasattr(value, "tolist") else value
    several = isinstance(numbers, list | tuple | range) and len(numbers) > 0
    if not several or not all(map(is_whole, numbers)):
        raise ValueError(
            f"{name} must be 'tune', a whole number from 1 or a list of them, got {value!r}."
        )
    return tuple(sorted(set(map(int, numbers))))


def seed(random_state: Any) -> int:
    """None means the same choices every time."""
    if random_state is None:
        return 0
    from sklearn.utils import check_random_state

    return int(check_random_state(random_state).randint(2**31 - 1))


# ---------------------------------------------------------------- what is held out


def check_no_blend(beta: Any) -> None:
    """Refuse a share of the plain squared error where there are comparisons only."""
    if beta != 0:
        raise ValueError(
            f"beta must be 0 for comparisons, which have no scores to regress on; got {beta!r}."
        )


def read_splits(cv: Any, problem: Problem, index: Index, n_rows: int) -> Index | Splits | None:
    """What `cv` asks for: fold numbers where it leaves one unit or group out at a time, else
    splits; None for None.

    A splitter is asked about the scored rows (or comparisons); lists of splits speak of the n_rows
    rows of X, of which `index` take part.
    """
    if cv is None:
        return None
    from sklearn.model_selection import LeaveOneGroupOut, LeaveOneOut, check_cv

    scores, groups = problem.labels
    n = problem.targets.shape[0]
    if isinstance(cv, LeaveOneOut):
        return np.arange(n)
    if isinstance(cv, LeaveOneGroupOut) and groups is not None:
        return groups
    units = np.arange(n)
    if not hasattr(cv, "split") and isinstance(cv, Iterable) and not isinstance(cv, str):
        cv = list(cv)
        if any(not isinstance(pair, Sequence | np.ndarray) or len(pair) != 2 for pair in cv):
            raise ValueError(
                "cv must be a number, a splitter or a list of splits (train, test); for a fold number"
                " per scored row PredefinedSplit of scikit-learn."
            )
        if isinstance(problem, ScoredRows):
            units = np.full(n_rows, -1, dtype=np.int64)
            units[index] = np.arange(n)
    splits = []
    for pair in check_cv(cv).split(np.empty((n, 1)), to_numpy(scores), groups):
        train, test = (units[_checked_rows(rows, len(units))] for rows in pair)
        splits.append((train[train >= 0], test[test >= 0]))
    if not splits or any(len(train) == 0 or len(test) == 0 for train, test in splits):
        raise ValueError("cv gives no split, or one without scored rows to train or test on.")
    return splits


def _checked_rows(given: Any, n_rows: int) -> Index:
    rows: NumpyArray = np.asarray(given)
    is_whole = rows.size == 0 or rows.dtype.kind in "iu"
    if rows.ndim != 1 or not is_whole or ((rows < 0) | (rows >= n_rows)).any():
        raise ValueError(
            f"cv must give row numbers from 0 to {n_rows - 1}, where those of a splitter count scored"
            f" rows only; got {rows!r:.80}."
        )
    return rows.astype(np.int64)


# ---------------------------------------------------------------- the dictionary of a pursuit

KINDS = "None, row indices, a matrix with the columns of X, 'features' or a function"


def read_dictionary(estimator: Any, dictionary: Any, training: Training, kernel: Kernel) -> Atoms:
    """The dictionary of a fit, checked against X, whose columns the estimator knows."""
    everything = training.everything
    features = training.problem.features
    if dictionary is None:
        points = like(training.index, features, "int64") if kernel.precomputed else features
        return Atoms(points, training.index)
    if is_named(dictionary, "features"):
        if kernel.name != "linear":
            raise ValueError(
                f"dictionary='features' needs kernel='linear', got kernel={kernel.name!r}."
            )
        return Atoms(values=features)
    if callable(dictionary) or isinstance(dictionary, str):
        function = function_of(dictionary)
        return Atoms(values=function_values(function, features, None), function=function)
    if not is_sparse(dictionary) and not is_frame(dictionary):
        dictionary = dictionary if is_foreign(dictionary) else _as_array(dictionary)
        if dictionary.ndim == 1:
            rows = to_numpy(dictionary)
            if rows.size == 0 or rows.dtype.kind not in "iu":
                raise ValueError(
                    "dictionary with one dimension must be row indices of X (whole numbers), got "
                    f"{rows.size} values of type {rows.dtype}."
                )
            index = checked_rows(rows, everything.shape[0], "dictionary")
            return Atoms(basis_points(kernel, everything, index), index)
    if kernel.precomputed:
        raise ValueError(
            "dictionary must be None or row indices for kernel='precomputed': its atoms are columns"
            " of X."
        )
    return Atoms(read_points(estimator, dictionary, features))


def _as_array(dictionary: Any) -> NumpyArray:
    """A dictionary of one or two dimensions."""
    try:
        array = np.asarray(dictionary)
    except ValueError as error:
        raise ValueError(f"dictionary must be {KINDS}: {error}.") from error
    if array.ndim not in (1, 2):
        raise ValueError(
            f"dictionary must be {KINDS}, got {dictionary!r:.80} of shape {array.shape}."
        )
    return array


def read_points(estimator: Any, points: Any, features: Array) -> Array:
    """Points (N, d) in the library and on the device of the features (n, d)."""
    reader = BaseEstimator()
    try:
        rows = read_features(reader, points, reset=True)
    except ValueError as error:
        raise ValueError(f"dictionary: {error}") from error
    if rows.shape[1] != features.shape[1]:
        raise ValueError(
            f"dictionary has {rows.shape[1]} columns, but X has {features.shape[1]}; give one row"
            " per atom, with the columns of X."
        )
    expected = estimator.feature_names
    names = vars(reader).get("feature_names_in_")
    if expected is not None and names is not None and list(expected) != list(names):
        raise ValueError(
            "dictionary has other column names than X; give the same columns in the same order."
        )
    if is_sparse(rows):
        if is_foreign(features):
            raise ValueError(
                "dictionary is a CSR matrix, but X is a tensor; make the dictionary a tensor too."
            )
        return rows
    return rows if is_sparse(features) else like(rows, features, dtype_name(rows))


def function_of(function: Any) -> Callable[[Any], Any]:
    """A function, given as such or by the name under which it was registered."""
    if callable(function):
        return function  # type: ignore[no-any-return]
    if not is_registered(function):
        raise ValueError(f"dictionary {function!r} is not known; use {KINDS}.")
    return NAMED_FUNCTIONS[function]


def function_values(function: Callable[[Any], Any], features: Array, size: int | None) -> Array:
    """Dictionary values (n, N) that a function gives at rows; N must be `size` where that is known."""
    values = function(features)
    n = features.shape[0]
    if not is_sparse(values):
        values = like(values, features)
    shape = tuple(values.shape)
    width = "N" if size is None else size
    if len(shape) != 2 or shape[0] != n or shape[1] == 0 or size not in (None, shape[1]):
        raise ValueError(
            f"dictionary must return a matrix of shape ({n}, {width}) for {n} rows, got {shape}."
        )
    xp = namespace(values)
    if not xp.all(xp.isfinite(values.data if is_sparse(values) else values)):
        raise ValueError("dictionary gives NaN or infinity on these rows.")
    return values
