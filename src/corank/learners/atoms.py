"""What `dictionary=` and `n_atoms=` may be, read and checked, and the function that chosen atoms make up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from corank._backend import Array, dtype_name, is_foreign, is_sparse, like, namespace, take, to_numpy
from corank.kernels import Kernel, is_registered, registered_function, rows_of
from corank.learners.learner import Expansion
from corank.rows import is_frame, read_features
from corank.solvers.dictionary import Atoms
from corank.solvers.fit import Training
from corank.statistics import CHUNK_ROWS, Index

KINDS = "None, row indices, a matrix with the columns of X, 'features' or a function"


# ---------------------------------------------------------------- n_atoms


def read_counts(n_atoms: Any) -> int | tuple[int, ...] | str:
    """A number of steps, candidates in increasing order, or "tune"."""
    if isinstance(n_atoms, str):
        if n_atoms != "tune":
            raise ValueError(f"n_atoms {n_atoms!r} is not known; use 'tune', a number or a list of numbers.")
        return n_atoms
    if isinstance(n_atoms, Integral) and not isinstance(n_atoms, bool):
        counts = np.asarray([int(n_atoms)])
    else:
        try:
            counts = np.asarray(to_numpy(n_atoms))
        except (TypeError, ValueError):
            counts = np.empty(0)
        if counts.ndim != 1 or counts.size == 0 or counts.dtype.kind not in "iu":
            raise ValueError(f"n_atoms must be 'tune', a whole number or a list of whole numbers, got {n_atoms!r}.")
    if counts.min() < 1:
        raise ValueError(f"n_atoms must be 1 or more, got {n_atoms!r}.")
    if isinstance(n_atoms, Integral):
        return int(n_atoms)
    return tuple(int(count) for count in np.unique(counts))


def check_counts(counts: int | tuple[int, ...] | str, size: int, why: str) -> None:
    """Refuse more atoms than there are, where each enters once; `why` there are so many."""
    most = 0 if isinstance(counts, str) else counts if isinstance(counts, int) else counts[-1]
    if most > size:
        raise ValueError(
            f"n_atoms = {most} is more than the dictionary holds: {size} ({why}), each of which "
            "enters once with refit='back' and 'pre'; use a smaller number."
        )


# ---------------------------------------------------------------- dictionary


def read_dictionary(estimator: Any, dictionary: Any, training: Training, kernel: Kernel) -> Atoms:
    """The dictionary of a fit, checked against X, whose columns the estimator knows."""
    everything, features = training.everything, training.problem.features
    if dictionary is None:
        points = rows_of(kernel, features, training.index) if kernel.precomputed else features
        return Atoms(points, training.index)
    if isinstance(dictionary, str) and dictionary == "features":
        if kernel.name != "linear":
            raise ValueError(f"dictionary='features' needs kernel='linear', got kernel={kernel.name!r}.")
        return Atoms(values=features)
    if callable(dictionary) or isinstance(dictionary, str):
        function = function_of(dictionary)
        return Atoms(values=function_values(function, features, None), function=function)
    if not is_sparse(dictionary) and not is_frame(dictionary):
        dictionary = dictionary if is_foreign(dictionary) else _as_array(dictionary)
        if dictionary.ndim == 1:
            index = read_atom_rows(to_numpy(dictionary), int(everything.shape[0]))
            return Atoms(rows_of(kernel, everything, index), index)
    if kernel.precomputed:
        raise ValueError("dictionary must be None or row indices for kernel='precomputed': its atoms are columns of X.")
    return Atoms(read_points(estimator, dictionary, features))


def _as_array(dictionary: Any) -> np.ndarray[Any, Any]:
    try:
        array = np.asarray(dictionary)
    except ValueError as error:
        raise ValueError(f"dictionary must be {KINDS}: {error}.") from error
    if array.ndim not in (1, 2):
        raise ValueError(f"dictionary must be {KINDS}, got {dictionary!r:.80} of shape {array.shape}.")
    return array


def read_atom_rows(rows: np.ndarray[Any, Any], n_rows: int) -> Index:
    """Row numbers of X, each once."""
    if rows.size == 0 or rows.dtype.kind not in "iu":
        raise ValueError(
            "dictionary with one dimension must be row indices of X (whole numbers), got "
            f"{rows.size} values of type {rows.dtype}."
        )
    if rows.min() < 0 or rows.max() >= n_rows:
        wrong = int(rows.min() if rows.min() < 0 else rows.max())
        raise ValueError(f"dictionary holds row {wrong}, but X has rows 0 to {n_rows - 1}.")
    if len(np.unique(rows)) != len(rows):
        raise ValueError("dictionary holds the same row index twice; list every row once.")
    return rows.astype(np.int64)


def read_points(estimator: Any, points: Any, features: Array) -> Array:
    """Points (N, d) in the library and on the device of the features (n, d)."""
    reader = BaseEstimator()
    try:
        found = read_features(reader, points, reset=True)
    except ValueError as error:
        raise ValueError(f"dictionary: {error}") from error
    if found.shape[1] != features.shape[1]:
        raise ValueError(
            f"dictionary has {found.shape[1]} columns, but X has {features.shape[1]}; one row an atom with the columns "
            "of X is needed."
        )
    names, own = getattr(estimator, "feature_names_in_", None), getattr(reader, "feature_names_in_", None)
    if names is not None and own is not None and list(names) != list(own):
        raise ValueError("dictionary has other column names than X; give the same columns in the same order.")
    if is_sparse(found):
        if is_foreign(features):
            raise ValueError("dictionary is a CSR matrix, but X is a tensor; make the dictionary a tensor too.")
        return found
    return found if is_sparse(features) else like(found, features, dtype_name(found))


def function_of(function: Any) -> Callable[[Any], Any]:
    """A function, or the one that was registered under a name."""
    if callable(function):
        return function  # type: ignore[no-any-return]
    if not is_registered(function):
        raise ValueError(f"dictionary {function!r} is not known; use {KINDS}.")
    return registered_function(function)


def function_values(function: Callable[[Any], Any], features: Array, size: int | None) -> Array:
    """Dictionary values (n, N) that a function gives at rows; N must be `size` where that is known."""
    values, n = function(features), int(features.shape[0])
    if not is_sparse(values):
        values = like(values, np.empty(0) if is_sparse(features) else features)
    shape, wanted = tuple(values.shape), "N" if size is None else str(size)
    if len(shape) != 2 or shape[0] != n or shape[1] == 0 or (size is not None and shape[1] != size):
        raise ValueError(f"dictionary must return a matrix of shape ({n}, {wanted}) for {n} rows, got {shape}.")
    xp = namespace(values)
    if not bool(xp.all(xp.isfinite(values.data if is_sparse(values) else values))):
        raise ValueError("dictionary gives NaN or infinity on these rows.")
    return values


# ---------------------------------------------------------------- the function that atoms make up


@dataclass(frozen=True)
class AtomExpansion(Expansion):
    """Σ c_i k(x, z_i), Σ c_i x_i or Σ c_i f_i(x); a constant without atoms.

    coefficients : (k,), or (k, p) for p functions at once
    function : f, of whose `size` values `columns` are the atoms
    """

    function: Callable[[Any], Any] | None = None
    size: int = 0

    def values(self, features: Array) -> Array:
        """For the rows of X: (n,) or (n, p)."""
        n = int(features.shape[0])
        if self.coefficients.shape[0] == 0:
            zeros = np.zeros((n, *self.coefficients.shape[1:]))
            return like(zeros, np.empty(0) if is_sparse(features) else features)
        if self.function is None:
            return super().values(features)
        coefficients = like(self.coefficients, np.empty(0) if is_sparse(features) else features)
        parts = []
        for begin in range(0, n, CHUNK_ROWS):
            block = take(features, slice(begin, min(begin + CHUNK_ROWS, n)))
            values = function_values(self.function, block, self.size)
            assert self.columns is not None
            if is_sparse(values):
                parts.append(values.tocsc()[:, self.columns] @ coefficients)
            else:
                chosen = namespace(values).take(values, like(self.columns, values, "int64"), axis=1)
                parts.append(chosen @ coefficients)
        return namespace(coefficients).concat(parts)
