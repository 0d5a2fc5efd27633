"""Views: several looks at the same items (other columns, kernels or basis rows) that should agree on unscored ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from itertools import pairwise
from numbers import Integral, Real
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse

from corank._arrays import Array, is_foreign, is_sparse, like, namespace, take, to_numpy
from corank._messages import warn_user
from corank.model_files.packing import storable

Columns: TypeAlias = Any  # names, globs, indices, a slice, or None for all


@storable("View")
@dataclass(frozen=True)
class View:
    """One look at the items.

    Parameters
    ----------
    columns : names, globs ("text_*"), indices, a slice or a list of those; None for all columns
    kernel, gamma : as in `RankRLS`
    basis : as in `RankRLS`; None takes the learner's
    penalty : float > 0, weight of this view's norm
    name : what to call it
    """

    columns: Columns = None
    kernel: Any = "rbf"
    gamma: Any = "scale"
    basis: Any = None
    penalty: float = 1.0
    name: str | None = None


@storable("random_split")
@dataclass(frozen=True)
class random_split:
    """Divide the columns at random into views of equal size.

    Parameters
    ----------
    n_views : int
    attributes : (n_columns,) the attribute each column stems from; columns of one attribute stay together
    """

    n_views: int = 2
    attributes: Any = None

    def views(self, n_columns: int, rng: np.random.Generator) -> list[View]:
        """The views of a table with that many columns."""
        owner = np.arange(n_columns) if self.attributes is None else np.asarray(self.attributes)
        if owner.shape != (n_columns,):
            raise ValueError(f"attributes must name one attribute for each of {n_columns} columns, got {owner.shape}.")
        attributes = np.unique(owner)
        if len(attributes) < self.n_views:
            raise ValueError(
                f"{len(attributes)} columns cannot be divided into {self.n_views} views; see random_bases."
            )
        parts = np.array_split(rng.permutation(attributes), self.n_views)
        return [
            View(columns=np.flatnonzero(np.isin(owner, part)), name=f"part {k + 1}") for k, part in enumerate(parts)
        ]


@storable("random_bases")
@dataclass(frozen=True)
class random_bases:
    """Views that see all columns but span their functions with different rows.

    Parameters
    ----------
    n_views : int
    """

    n_views: int = 2

    def views(self, n_columns: int, rng: np.random.Generator) -> list[View]:
        """The views; which rows each one gets is drawn when the rows are known."""
        return [View(name=f"basis {k + 1}") for k in range(self.n_views)]


def read_views(views: Any, n_columns: int, names: Array | None, rng: np.random.Generator) -> list[View]:
    """The list of views that a learner was asked for, with their columns as indices."""
    if isinstance(views, Integral) and not isinstance(views, bool):
        if views < 1:
            raise ValueError(f"views must be at least 1, got {views}.")
        views = random_split(int(views)) if n_columns >= views else random_bases(int(views))
    if isinstance(views, random_split | random_bases):
        views = views.views(n_columns, rng)
    if not isinstance(views, Sequence) or not views or not all(isinstance(view, View) for view in views):
        raise TypeError(
            "views must be a number, random_split(n), random_bases(n) or a list of View, as in [View('a_*')]."
        )
    read = [_read_view(view, position, n_columns, names) for position, view in enumerate(views)]
    _warn_of_overlap(read, n_columns)
    return read


def of_encoded(views: Any, attributes: Any) -> Any:
    """Views of the columns of a table, by their numbers, as views of what an encoder makes of them.

    Parameters
    ----------
    views : list of View, or anything else, which comes back as it is
    attributes : (n_features,) the column that each feature comes from, as `TableEncoder.attributes_`
    """
    if not isinstance(views, list | tuple):
        return views
    owners = np.asarray(attributes)
    own = [replace(view, columns=np.flatnonzero(np.isin(owners, view.columns))) for view in views]
    for view in own:
        if len(view.columns) == 0:
            raise ValueError(
                f"view {view.name!r}: none of its columns is learned from, as all are constant, empty or names."
            )
    return own


def _read_view(view: View, position: int, n_columns: int, names: Array | None) -> View:
    name = view.name or f"view {position + 1}"
    if not isinstance(view.penalty, Real) or not 0 < view.penalty < np.inf:
        raise ValueError(f"penalty of {name} must be greater than 0, got {view.penalty!r}.")
    columns = _column_numbers(view.columns, n_columns, names, name)
    return View(columns, view.kernel, view.gamma, view.basis, float(view.penalty), name)


def _column_numbers(columns: Columns, n_columns: int, names: Array | None, view: str) -> np.ndarray[Any, Any]:
    """Columns as sorted numbers without repetition."""
    if columns is None:
        return np.arange(n_columns)
    if isinstance(columns, slice):
        chosen = np.arange(n_columns)[columns]
    elif isinstance(columns, str):
        chosen = _matching(columns, names, view)
    elif isinstance(columns, Integral):
        chosen = np.asarray([columns])
    else:
        parts = [
            _matching(part, names, view)
            if isinstance(part, str)
            else np.arange(n_columns)[part]
            if isinstance(part, slice)
            else np.atleast_1d(to_numpy(part))
            for part in list(columns)
        ]
        chosen = np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)
    if chosen.dtype.kind not in "iu":
        raise ValueError(f"columns of {view} must be names, globs, indices or a slice, got {columns!r}.")
    if len(chosen) == 0:
        raise ValueError(f"columns of {view} are empty: {columns!r}.")
    if chosen.min() < -n_columns or chosen.max() >= n_columns:
        raise ValueError(f"columns of {view} lie outside X, which has {n_columns} columns: {columns!r}.")
    return np.unique(chosen % n_columns).astype(np.int64)


def _matching(pattern: str, names: Array | None, view: str) -> np.ndarray[Any, Any]:
    if names is None:
        raise ValueError(
            f"columns of {view} are given by name ({pattern!r}), but X has no column names; "
            "hand over a frame (after a scikit-learn transformer: .set_output(transform='pandas')), or use numbers."
        )
    exact = np.flatnonzero([str(name) == pattern for name in names])  # a name may look like a glob
    found = exact if len(exact) else np.flatnonzero([fnmatchcase(str(name), pattern) for name in names])
    if len(found) == 0:
        raise ValueError(f"columns of {view}: nothing in X matches {pattern!r}{_hint(pattern, names)}")
    return found


def _hint(pattern: str, names: Array) -> str:
    """What may have been meant."""
    known = [str(name) for name in names]
    if any(name.startswith(f"{pattern}=") for name in known):  # categories of an encoded column
        return f"; its categories do: {pattern + '=*'!r}."
    close = get_close_matches(pattern, known, n=2)
    return f"; did you mean {' or '.join(map(repr, close))}?" if close else "."


def _warn_of_overlap(views: list[View], n_columns: int) -> None:
    if all(len(view.columns) == n_columns for view in views):
        return  # on purpose: other kernels or basis rows
    for position, view in enumerate(views):
        for other in views[:position]:
            if len(shared := np.intersect1d(view.columns, other.columns)):
                warn_user(
                    f"views {other.name!r} and {view.name!r} share {len(shared)} columns; agreement is then cheap."
                )


def select(X: Array, columns: np.ndarray[Any, Any]) -> Array:
    """The columns of a view, CSR where X is CSR; nothing is copied where they lie together."""
    if len(columns) == X.shape[1]:
        return X
    if is_sparse(X):
        return X.tocsc()[:, columns].tocsr()
    if columns[-1] - columns[0] == len(columns) - 1:  # they are sorted
        return X[:, int(columns[0]) : int(columns[-1]) + 1]
    return namespace(X).take(X, like(columns, X, "int64"), axis=1)


@dataclass(frozen=True)
class SideBySide:
    """The same rows as every view sees them: (rows, columns or None for all) a view. Columns are cut block by block."""

    parts: tuple[tuple[Array, np.ndarray[Any, Any] | None], ...]

    @classmethod
    def of(cls, X: Array, columns: Sequence[np.ndarray[Any, Any]]) -> SideBySide:
        """The rows X under views of those columns; CSR is cut once."""
        if is_sparse(X):
            by_column = X.tocsc()
            return cls(tuple((by_column[:, own].tocsr(), None) for own in columns))
        return cls(tuple((X, own) for own in columns))

    @property
    def shape(self) -> tuple[int, int]:
        """Rows, and the columns of all views."""
        widths = [int(X.shape[1]) if own is None else len(own) for X, own in self.parts]
        return int(self.parts[0][0].shape[0]), sum(widths)

    def take_rows(self, rows: Any) -> SideBySide:
        """Some of the rows."""
        first, _ = self.parts[0]
        if all(X is first for X, _ in self.parts):
            taken = take(first, rows)
            return SideBySide(tuple((taken, own) for _, own in self.parts))
        return SideBySide(tuple((take(X, rows), own) for X, own in self.parts))

    __getitem__ = take_rows

    def features(self) -> list[Array]:
        """Each view's columns."""
        return [X if own is None else select(X, own) for X, own in self.parts]


def side_by_side(arrays: Sequence[Any], **settings: Any) -> tuple[Array, list[View]]:
    """One X and its views, from one array a view.

    Parameters
    ----------
    arrays : list of (n, d_v) arrays or CSR matrices, with the same rows in the same order
    settings : what every `View` is given, such as ``kernel="linear"``

    Returns
    -------
    X : (n, Σ d_v), CSR where one of the arrays is
    views : list of View

    Examples
    --------
    >>> import numpy as np
    >>> from corank import side_by_side
    >>> X, views = side_by_side([np.ones((5, 2)), np.zeros((5, 3))])
    >>> X.shape, [view.columns for view in views]
    ((5, 5), [slice(0, 2, None), slice(2, 5, None)])
    """
    parts = [X if is_sparse(X) or is_foreign(X) else np.asarray(X) for X in arrays]
    if not parts:
        raise ValueError("arrays is empty: give one array a view.")
    for position, X in enumerate(parts):
        if X.ndim != 2:
            raise ValueError(f"arrays[{position}] must have two dimensions, got shape {tuple(X.shape)}.")
        if X.shape[0] != parts[0].shape[0]:
            raise ValueError(f"arrays[{position}] has {X.shape[0]} rows but arrays[0] has {parts[0].shape[0]}.")
    ends = np.cumsum([0, *(int(X.shape[1]) for X in parts)])
    views = [View(slice(int(b), int(e)), **settings) for b, e in pairwise(ends)]
    if any(is_sparse(X) for X in parts):
        stacked: Any = sparse.hstack([sparse.csr_array(X) for X in parts], format="csr")
        return stacked, views
    return namespace(parts[0]).concat(parts, axis=1), views
