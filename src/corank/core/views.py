"""Views: the same items seen through other columns, kernels or basis rows, which should agree on
unscored items; and kernels that are products or sums of kernels of views.

Here views are declared and their columns are found; how they are fitted is the subject of
`solve.systems`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import reduce
from itertools import combinations, pairwise, permutations
from numbers import Integral, Real
from operator import mul
from typing import Annotated, Any, ClassVar, TypeAlias

import numpy as np
from scipy import sparse

from corank.core.arrays import (
    Array,
    FloatArray,
    Index,
    NumpyArray,
    block_diagonal,
    float64,
    is_foreign,
    is_sparse,
    like,
    namespace,
    refuse_masked,
    sum_of,
    take,
    take_columns,
    to_numpy,
)
from corank.core.basis import Basis, FeatureMap
from corank.core.kernels import MEAN_DISTANCE, Kernel, is_registered, kernel_names
from corank.core.messages import did_you_mean, warn_user
from corank.core.sampling import row_digests
from corank.core.storable import ANYTHING, TEXT, Finite, several, storable, stored, whole
from corank.core.sums import Statistics

MAX_GRID_ENTRIES = 10**7  # of kernel values between parts of new rows and those of a grid
Columns: TypeAlias = Any  # names, globs, indices, a slice, or None for all


@storable("View")
@dataclass(frozen=True)
class View:
    """One view of the items.

    Parameters
    ----------
    columns : names, globs ("text_*"), indices, a slice or a list of those; None for all columns
    kernel, gamma : as in `RankRLS`, but with one width for all columns
    basis : as in `RankRLS`; None takes the learner's
    penalty : float > 0, weight of this view's norm
    name : for messages and results; None counts the views
    """

    columns: Annotated[Columns, whole("d")] = None
    kernel: Annotated[Any, TEXT | stored("ProductKernel", "SumKernel")] = "rbf"
    gamma: Any = "scale"
    basis: Any = None
    penalty: Finite = 1.0
    name: Annotated[str | None, TEXT] = None

    def is_sound(self) -> bool:
        """Whether a fitted model can have such a view."""
        columns = np.asarray(self.columns)
        return self.penalty > 0 and len(columns) > 0 and bool((np.diff(columns) > 0).all())


@storable("random_split")
@dataclass(frozen=True)
class random_split:
    """Divide the columns at random into views of about equal size.

    Parameters
    ----------
    n_views : int
    attributes : (n_columns,) the attribute each column stems from; columns of one attribute stay
        together
    """

    n_views: int = 2
    attributes: Any = None

    def views(self, n_columns: int, rng: np.random.Generator) -> list[View]:
        """The views of a table with that many columns."""
        owners = np.arange(n_columns) if self.attributes is None else np.asarray(self.attributes)
        if owners.shape != (n_columns,):
            raise ValueError(
                f"attributes must name one attribute for each of {n_columns} columns, got"
                f" {owners.shape}."
            )
        attributes = np.unique(owners)
        if len(attributes) < self.n_views:
            raise ValueError(
                f"{len(attributes)} columns cannot be divided into {self.n_views} views; see"
                " random_bases."
            )
        shares = np.array_split(rng.permutation(attributes), self.n_views)
        return [
            View(columns=np.flatnonzero(np.isin(owners, share)), name=f"part {number}")
            for number, share in enumerate(shares, 1)
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
        """The views; their basis rows are drawn later, when the rows are known."""
        return [View(name=f"basis {number + 1}") for number in range(self.n_views)]


def read_views(
    views: Any, n_columns: int, names: Array | None, rng: np.random.Generator
) -> list[View]:
    """The views that the parameter `views` of a learner means, with their columns as indices."""
    if isinstance(views, Integral) and not isinstance(views, bool):
        if views < 1:
            raise ValueError(f"views must be at least 1, got {views}.")
        views = random_split(int(views)) if n_columns >= views else random_bases(int(views))
    if isinstance(views, random_split | random_bases):
        views = views.views(n_columns, rng)
    with_indices = numbered_views(views, n_columns, names)
    if all(len(view.columns) == n_columns for view in with_indices):
        return with_indices  # on purpose: other kernels or basis rows
    for other, view in combinations(with_indices, 2):
        if len(shared := np.intersect1d(view.columns, other.columns)):
            warn_user(
                f"views {other.name!r} and {view.name!r} share {len(shared)} columns; agreement"
                " is then cheap."
            )
    return with_indices


def numbered_views(views: Any, n_columns: int, names: Array | None) -> list[View]:
    """A list of views, with their columns as indices."""
    is_list = isinstance(views, Sequence) and len(views) > 0
    if not is_list or not all(isinstance(view, View) for view in views):
        raise TypeError(
            "views must be a list of View, as in [View('a_*')]; those of a learner also a number,"
            " random_split(n) or random_bases(n)."
        )
    with_indices: list[View] = []
    view: View
    for position, view in enumerate(views, start=1):
        name = view.name or f"view {position}"
        if not isinstance(view.penalty, Real) or not 0 < view.penalty < np.inf:
            raise ValueError(f"penalty of {name} must be greater than 0, got {view.penalty!r}.")
        columns = _column_numbers(view.columns, n_columns, names, name)
        with_indices.append(replace(view, columns=columns, penalty=float(view.penalty), name=name))
    return with_indices


def encoded_views(views: Any, attributes: Any) -> Any:
    """Views of the columns of a table, given by their numbers, as views of the encoded features.

    Parameters
    ----------
    views : list of View, or anything else, which comes back as it is
    attributes : (n_features,) the column that each feature comes from, as
        `TableEncoder.attributes_`
    """
    if not isinstance(views, list | tuple):
        return views
    owners = np.asarray(attributes)
    encoded = [
        replace(view, columns=np.flatnonzero(np.isin(owners, view.columns))) for view in views
    ]
    for view in encoded:
        if len(view.columns) == 0:
            raise ValueError(
                f"view {view.name!r}: none of its columns is learned from, as all are constant,"
                " empty or names."
            )
    return encoded


def _column_numbers(columns: Columns, n_columns: int, names: Array | None, view: str) -> NumpyArray:
    """Columns as sorted numbers without repetition."""
    if columns is None:
        return np.arange(n_columns)
    items = [columns] if isinstance(columns, slice | str | Integral) else list(columns)
    numbers = []
    for item in items:
        if isinstance(item, str):
            numbers.append(_named_columns(item, names, view))
        elif isinstance(item, slice):
            numbers.append(np.arange(n_columns)[item])
        else:
            numbers.append(np.atleast_1d(to_numpy(item)))
    chosen = np.concatenate(numbers) if numbers else np.zeros(0, dtype=np.int64)
    if chosen.dtype.kind not in "iu":
        raise ValueError(
            f"columns of {view} must be names, globs, indices or a slice, got {columns!r}."
        )
    if len(chosen) == 0:
        raise ValueError(f"columns of {view} are empty: {columns!r}.")
    if chosen.min() < -n_columns or chosen.max() >= n_columns:
        raise ValueError(
            f"columns of {view} lie outside X, which has {n_columns} columns: {columns!r}."
        )
    return np.unique(chosen % n_columns).astype(np.int64)


def match_columns(pattern: str, names: Sequence[Any]) -> list[int]:
    """Positions of the columns that a name or a glob ("text_*") means; none where nothing matches.

    A column of exactly that name is taken before the pattern is read as a glob.
    """
    exact = [position for position, name in enumerate(names) if str(name) == pattern]
    return exact or [
        position for position, name in enumerate(names) if fnmatchcase(str(name), pattern)
    ]


def _named_columns(pattern: str, names: Array | None, view: str) -> NumpyArray:
    if names is None:
        raise ValueError(
            f"columns of {view} are given by name ({pattern!r}), but X has no column names; hand"
            " over a frame (after a scikit-learn transformer: .set_output(transform='pandas')), or"
            " use numbers."
        )
    positions = match_columns(pattern, names)
    if not positions:
        texts = [str(name) for name in names]
        hint = did_you_mean(pattern, texts) or "."
        if any(name.startswith(f"{pattern}=") for name in texts):  # categories of an encoded column
            hint = f"; its categories do: {pattern + '=*'!r}."
        raise ValueError(f"columns of {view}: nothing in X matches {pattern!r}{hint}")
    return np.asarray(positions)


# ---------------------------------------------------------------- agreement of pairs of views


def scale_and_pairs(agreement: Any) -> tuple[Any, Any]:
    """The parameter `agreement` as a number, still open, and the weights of pairs of views that it
    multiplies, None for 1.
    """
    if isinstance(agreement, tuple) and len(agreement) == 2 and _are_pairs(agreement[0]):
        return agreement[1], agreement[0]
    return (1.0, agreement) if _are_pairs(agreement) else (agreement, None)


def _are_pairs(value: Any) -> bool:
    """Whether it is a mapping or a matrix, not a number, a word or a list of numbers."""
    if isinstance(value, list | tuple):
        return any(isinstance(row, list | tuple | np.ndarray) for row in value)
    return isinstance(value, Mapping) or (isinstance(value, np.ndarray) and value.ndim == 2)


def read_bonds(pairs: Any, names: Sequence[str]) -> FloatArray:
    """The weights of pairs of views, a matrix or a mapping of pairs of names, as a matrix (M, M)."""
    m = len(names)
    if isinstance(pairs, Mapping):
        known = list(permutations(names, 2))
        if unknown := [pair for pair in pairs if pair not in known]:
            raise ValueError(
                f"agreement: {unknown[0]!r} is no pair of views; these are {', '.join(names)}."
            )
        bonds = np.asarray(
            [[pairs.get((a, b), pairs.get((b, a), 0)) for b in names] for a in names]
        )
    else:
        is_square = all(np.shape(row) == (m,) for row in pairs)
        bonds = np.asarray(pairs if is_square else ())
    is_sound = bonds.shape == (m, m) and bonds.dtype.kind in "iuf" and 0 < bonds.max() < np.inf
    if not is_sound or (bonds < 0).any() or (bonds != bonds.T).any() or np.diag(bonds).any():
        raise ValueError(
            "agreement must have a number of 0 or more for each pair of views, in a mapping or a"
            f" symmetric matrix ({m}, {m}) with 0 on the diagonal, and not only 0; got {pairs!r}."
        )
    return bonds.astype(np.float64)


def disagreements(n_views: int, bonds: FloatArray | None = None) -> FloatArray:
    """The matrix (M, M) of Σ_{u<v} bonds_uv (f_v − f_u)² as a function of f; None: all bonds are 1."""
    if bonds is None:
        bonds = 1 - np.eye(n_views)
    return np.diag(bonds.sum(axis=1)) - bonds


# ---------------------------------------------------------------- columns of views


def are_by_name(views: Any) -> bool:
    """Whether views, where there are any, name their columns."""
    if not isinstance(views, list | tuple):
        return False
    columns = [view.columns for view in views if isinstance(view, View)]
    return any(
        isinstance(column, str)
        for chosen in columns
        for column in np.ravel(np.asarray(chosen, dtype=object))
    )


def select(X: Array, columns: NumpyArray | None) -> Array:
    """The columns of a view, None for all, CSR where X is CSR; nothing is copied where they lie
    together.
    """
    if columns is None or len(columns) == X.shape[1]:
        return X
    if is_sparse(X):
        return X.tocsc()[:, columns].tocsr()
    if columns[-1] - columns[0] == len(columns) - 1:  # they are sorted
        return X[:, int(columns[0]) : int(columns[-1]) + 1]
    return take_columns(X, columns)


# ---------------------------------------------------------------- kernels of several views


@dataclass(frozen=True)
class JointKernel:
    """A kernel that is made of kernels of views."""

    views: Annotated[Sequence[View], ANYTHING]  # whose columns are those of nobody yet
    name: ClassVar[str]

    def kernel(self, **settings: Any) -> BlockKernel:
        """The kernel, its columns and widths still open; settings : of all kernels without a width."""
        return BlockKernel(self.name, views=self.views, **settings)


def takes_objects(kernel: Any) -> bool:
    """Whether a parameter `kernel` stands for a function, which may take objects."""
    if isinstance(kernel, JointKernel):
        return any(takes_objects(view.kernel) for view in kernel.views)
    return callable(kernel) or (isinstance(kernel, str) and is_registered(kernel))


@storable("ProductKernel")
@dataclass(frozen=True)
class ProductKernel(JointKernel):
    """The product of kernels of views, as of pairs: k((x, y), (x', y')) = k₁(x, x') k₂(y, y').

    A value for `kernel=`. On a complete grid of pairs, every x with every y, RLS, and RankRLS with
    one query per x or per y, learn from millions of pairs by the eigenvectors of the two kernels
    (docs/mathematics.md, section 3.19); of more than 5,000 x or y with basis="all" only.

    Parameters
    ----------
    views : list of View, of which columns, kernel and gamma count; kernels may be products again.
        The learner's `gamma` multiplies all widths: "scale" leaves them as they are, "tune" tries
        seven factors

    Examples
    --------
    >>> import numpy as np
    >>> from corank import ProductKernel, RLS, View
    >>> X = np.random.default_rng(0).normal(size=(30, 3))
    >>> kernel = ProductKernel([View([0, 1]), View([2], kernel="linear")])
    >>> bool(RLS(kernel=kernel).fit(X, X[:, 0] * X[:, 2]).score(X, X[:, 0] * X[:, 2]) > 0.9)
    True
    """

    name = "product"


@storable("SumKernel")
@dataclass(frozen=True)
class SumKernel(JointKernel):
    """The sum of kernels of views: a function of each of them. A value for `kernel=`.

    Parameters
    ----------
    views : as in `ProductKernel`
    """

    name = "sum"


@dataclass(frozen=True)
class PairGrid:
    """Rows that are all pairs of a left and a right part, each once.

    left, right : (a, _), (b, _) the parts
    order : (a b,) row numbers: that of left part i with right part j at i b + j
    is_turned : whether left parts are what the second kernel sees
    """

    left: Array
    right: Array
    order: Index
    is_turned: bool = False

    @classmethod
    def of(cls, lefts: Array, rights: Array) -> PairGrid | None:
        """The grid that rows with these parts are, (n, _) each; None where they are none."""
        (first, codes), (second, others) = map(distinct_rows, (lefts, rights))
        n, (a, b) = len(codes), (len(first), len(second))
        places = codes * b + others
        if a * b != n or (np.bincount(places, minlength=n) != 1).any():
            return None
        return cls(take(lefts, first), take(rights, second), np.argsort(places))

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of left and right parts."""
        return int(self.left.shape[0]), int(self.right.shape[0])

    def transposed(self) -> PairGrid:
        """The same pairs, by their right parts."""
        order = self.order.reshape(self.shape).T.ravel()
        return PairGrid(self.right, self.left, order, not self.is_turned)


def distinct_rows(X: NumpyArray) -> tuple[Index, Index]:
    """The first numbers of rows (n, d) that differ, and for every row which of them it is: (n,).
    O(n d log n).
    """
    if X.dtype == object:
        numbers: dict[Any, int] = {}
        keys: Any = [numbers.setdefault(_key(row), len(numbers)) for row in X.tolist()]
    else:
        keys = row_digests(float64(X), 0)
    _, first, codes = np.unique(keys, return_index=True, return_inverse=True)
    return first, codes


def _key(cell: Any) -> Any:
    """What stands for an object: its value or, where that has no hash, the object itself."""
    if isinstance(cell, dict):
        cell = list(cell.items())
    if isinstance(cell, list | tuple):
        return type(cell), *map(_key, cell)
    try:
        hash(cell)
    except TypeError:
        return id, id(cell)
    return type(cell), cell


@storable("BlockKernel")
@dataclass(frozen=True)
class BlockKernel(Kernel):
    """A product or a sum of kernels of blocks of columns, all widths times gamma.

    parts : one kernel per block; columns : (k,) of each, sorted
    views : from which both are still to be made
    """

    parts: tuple[Kernel, ...] = ()
    columns: Annotated[tuple[Index, ...], several(whole("_"))] = ()
    views: Sequence[Any] = ()
    is_joint: ClassVar[bool] = True

    def is_sound(self) -> bool:
        """Whether there is such a kernel."""
        return len(self.parts) == len(self.columns) > 0 and super().is_sound()

    @property
    def has_width(self) -> bool:
        """Whether one of its kernels has a width."""
        return any(part.has_width for part in self.parts)

    def scale_width(self, X: Array, weights: Array | None = None, rule: str = "scale") -> float:
        """1: its kernels have widths of their own."""
        if rule == MEAN_DISTANCE:
            raise ValueError(
                "gamma='mean-distance' is for the views of a product or sum of kernels; the gamma of"
                " the learner multiplies theirs."
            )
        return 1.0

    @property
    def calls_function(self) -> bool:
        """Whether one of its kernels is a function of the user's own."""
        return any(part.calls_function for part in self.parts)

    def seen_by(self, X: Array, names: Array | None) -> BlockKernel:
        """The kernel of rows X (n, d) with such columns, their names where they have any."""
        views = numbered_views(self.views, X.shape[1], names)
        parts = []
        for view in views:
            seen = select(X, view.columns)
            part = self._asked_part(view)
            if part.is_joint:
                inner = None if names is None else np.asarray(names)[view.columns]
                part = part.seen_by(seen, inner)
            elif part.has_width:
                is_rule = isinstance(view.gamma, str)
                gamma = part.scale_width(seen, rule=view.gamma) if is_rule else view.gamma
                part = replace(part, gamma=gamma)
            parts.append(part)
        columns = tuple(view.columns for view in views)
        return replace(self, parts=tuple(parts), columns=columns, views=())

    def _asked_part(self, view: View) -> Any:
        settings: Any = {"degree": self.degree, "coef0": self.coef0, "params": self.params}
        if isinstance(view.kernel, JointKernel):
            return view.kernel.kernel(**settings)
        if isinstance(view.kernel, str) and view.kernel not in {*kernel_names()} - {"precomputed"}:
            raise ValueError(
                f"kernel {view.kernel!r} of {view.name} cannot be multiplied or added; give another"
                " name, or a function that looks the values up."
            )
        is_width = isinstance(view.gamma, Real) and 0 < float(view.gamma) < np.inf
        is_rule = isinstance(view.gamma, str) and view.gamma in ("scale", MEAN_DISTANCE)
        if not is_width and not is_rule:
            raise ValueError(
                f"gamma of {view.name} must be 'scale', 'mean-distance' or a number greater than 0,"
                f" got {view.gamma!r}; tune the gamma of the learner, which multiplies it."
            )
        return Kernel(view.kernel, None, **settings)

    def widened(self) -> list[Kernel]:
        """Every kernel with its width."""
        factor = self.gamma or 1.0
        return [
            part if part.gamma is None else replace(part, gamma=part.gamma * factor)
            for part in self.parts
        ]

    def blocks(self, X: Array) -> list[tuple[Kernel, Array]]:
        """Every kernel with its width, and the columns of X that it sees."""
        seen = [select(X, columns) for columns in self.columns]
        return list(zip(self.widened(), seen, strict=True))

    def block(self, X: Array, Z: Array) -> Array:
        """Kernel values between the rows of X (n, d) and Z (r, d): (n, r)."""
        left = self.blocks(X)
        right = left if X is Z else self.blocks(Z)
        pairs = zip(left, right, strict=True)
        return self._joined([part.block(own, other) for (part, own), (_, other) in pairs])

    def diagonal(self, X: Array) -> Array:
        """k(x, x) for every row: (n,)."""
        return self._joined([part.diagonal(own) for part, own in self.blocks(X)])

    def grid(self, X: Array) -> PairGrid | None:
        """The grid of pairs that rows X are to a product of two kernels; None where they are none."""
        if self.name != "product" or len(self.parts) != 2 or not isinstance(X, np.ndarray):
            return None
        return PairGrid.of(*(select(X, columns) for columns in self.columns))

    def factors(self, grid: PairGrid) -> list[Array]:
        """Kernel values between the left parts of a grid, and between its right parts."""
        parts = self.widened()[::-1] if grid.is_turned else self.widened()
        pairs = zip(parts, (grid.left, grid.right), strict=True)
        return [part.block(rows, rows) for part, rows in pairs]

    def values_on_grid(self, X: Array, grid: PairGrid, coefficients: FloatArray) -> FloatArray:
        """Σ c_ij k₁(x, x_i) k₂(y, y_j) for rows (x, y), coefficients (n,) of the rows of a grid."""
        (first, left), (second, right) = self.blocks(X)
        (lefts, codes), (rights, others) = map(distinct_rows, (left, right))
        n, n_pairs, (a, b) = len(codes), len(lefts) * len(rights), grid.shape
        by_pairs = n_pairs <= 4 * n
        largest = max(len(lefts) * a, len(rights) * b, 0 if by_pairs else n * b)
        if largest > MAX_GRID_ENTRIES and n > 1:
            halves = (X[: n // 2], X[n // 2 :])
            return np.concatenate([self.values_on_grid(X, grid, coefficients) for X in halves])
        summed = first.block(left[lefts], grid.left) @ coefficients[grid.order].reshape(a, b)
        factors = second.block(right[rights], grid.right)
        if by_pairs:
            return np.asarray((summed @ factors.T)[codes, others])
        return np.asarray(np.einsum("ij,ij->i", summed[codes], factors[others]))

    def _joined(self, values: Sequence[Array]) -> Array:
        return sum_of(values) if self.name == "sum" else reduce(mul, values)


@dataclass(frozen=True)
class SideBySide:
    """Rows as every view sees them.

    parts : (rows, columns) per view, columns None for all; columns are cut when a block of rows is
        needed
    """

    parts: tuple[tuple[Array, NumpyArray | None], ...]

    @classmethod
    def of(cls, X: Array, columns: Sequence[NumpyArray]) -> SideBySide:
        """The rows X under views of those columns; CSR is cut at once, as that is slow."""
        if is_sparse(X):
            by_column = X.tocsc()
            return cls(tuple((by_column[:, chosen].tocsr(), None) for chosen in columns))
        return cls(tuple((X, chosen) for chosen in columns))

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows, and number of columns of all views together."""
        widths = [X.shape[1] if columns is None else len(columns) for X, columns in self.parts]
        return int(self.parts[0][0].shape[0]), sum(widths)

    def take_rows(self, rows: Any) -> SideBySide:
        """The given rows of every view."""
        taken = {id(X): take(X, rows) for X in {id(X): X for X, _ in self.parts}.values()}
        return SideBySide(tuple((taken[id(X)], columns) for X, columns in self.parts))

    __getitem__ = take_rows

    def features(self) -> list[Array]:
        """One array per view, with its columns only."""
        return [select(X, columns) for X, columns in self.parts]


class JointFeatures:
    """The features of all views side by side, from rows as every view sees them."""

    def __init__(self, bases: Sequence[Basis]) -> None:
        self.maps = [FeatureMap(basis) for basis in bases]
        self.ends = np.cumsum([0, *(phi.size for phi in self.maps)])

    @property
    def size(self) -> int:
        """Number of features."""
        return int(self.ends[-1])

    def __call__(self, rows: SideBySide) -> Array:
        """(n, size)."""
        blocks = [phi(features) for phi, features in zip(self.maps, rows.features(), strict=True)]
        return namespace(blocks[0]).concat(blocks, axis=1)

    def write(self, rows: SideBySide, out: Array) -> None:
        """(n, size) into a NumPy array."""
        parts = zip(self.maps, rows.features(), pairwise(self.ends), strict=True)
        for phi, features, (begin, end) in parts:
            phi.write(features, out[:, begin:end])

    def whitened(self, statistics: Statistics) -> Statistics:
        """Sums of these features as sums of whitened ones."""
        if all(phi.whitened or phi.basis.whitening.trivial for phi in self.maps):
            return statistics
        reference = statistics.queries[0].matrix
        blocks = [
            like(np.eye(phi.size), reference) if phi.whitened else phi.basis.whitening.matrix
            for phi in self.maps
        ]
        return statistics.mapped(block_diagonal(blocks))


def side_by_side(arrays: Sequence[Any], **settings: Any) -> tuple[Array, list[View]]:
    """One X and its views, from one array per view.

    Parameters
    ----------
    arrays : list of (n, d_v) arrays or CSR matrices, with the same rows in the same order
    settings : further arguments of every `View`, such as ``kernel="linear"``

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
    arrays = list(arrays)
    for position, X in enumerate(arrays):
        refuse_masked(X, f"arrays[{position}]", "fill in or drop such entries first")
    blocks = [X if is_sparse(X) or is_foreign(X) else np.asarray(X) for X in arrays]
    if not blocks:
        raise ValueError("arrays is empty: give one array per view.")
    n_rows = blocks[0].shape[0]
    for position, X in enumerate(blocks):
        if X.ndim != 2:
            raise ValueError(
                f"arrays[{position}] must have two dimensions, got shape {tuple(X.shape)}."
            )
        if X.shape[0] != n_rows:
            raise ValueError(
                f"arrays[{position}] has {X.shape[0]} rows but arrays[0] has {n_rows}."
            )
    ends = np.cumsum([0, *(X.shape[1] for X in blocks)])
    views = [View(slice(int(begin), int(end)), **settings) for begin, end in pairwise(ends)]
    if any(map(is_sparse, blocks)):
        stacked: Any = sparse.hstack(list(map(sparse.csr_array, blocks)), format="csr")
        return stacked, views
    return namespace(blocks[0]).concat(blocks, axis=1), views
