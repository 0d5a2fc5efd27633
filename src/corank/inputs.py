"""User input → checked rows: arrays, frames, CSR matrices and torch tensors become features, scores
and query codes.

Everything is checked here, once, before any long work. Which rows are compared with which is the
subject of `loss`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from importlib import import_module
from numbers import Number
from typing import Any

import narwhals as nw
import numpy as np
from scipy import sparse
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.validation import validate_data

from corank.core.arrays import (
    Array,
    Index,
    Mask,
    NumpyArray,
    dtype_name,
    first_appearance,
    float64,
    is_foreign,
    is_sparse,
    like,
    masked_as_nan,
    namespace,
    refuse_masked,
    take,
    to_numpy,
)
from corank.core.messages import warn_user
from corank.core.observations import ComparedRows, ScoredRows, refuse_lost_differences
from corank.core.queries import as_labels, encode_queries
from corank.core.unscored import HeldRows, Part, StreamedRows
from corank.core.views import View, takes_objects

LARGEST_SIZE = 1e60  # squares of squares of features and scores must stay finite numbers …
SMALLEST_SIZE = 1e-60  # … and must not become zero
# rows by which ranges of columns are known; how much they may differ
SCALE_ROWS, MAX_SCALE_RATIO = 1_000, 1e3
MASKED_FEATURES = (
    "fill in or drop such entries first; AutoRanker, AutoRegressor and TableEncoder take them as"
    " the missing cells of a table, as in pandas.DataFrame(X)"
)


def as_numbers(features: Array) -> Array:
    """Features as float64 in NumPy, or CSR."""
    return (
        float64(features)
        if is_sparse(features)
        else np.asarray(to_numpy(features), dtype=np.float64)
    )


def read_features(estimator: Any, X: Any, *, reset: bool) -> Array:
    """Check features (n, d); their number and names are kept on the estimator (`reset`) or compared
    with those there.

    NumPy arrays, frames and CSR go through scikit-learn; arrays of other libraries stay in their
    library.
    """
    if is_scan(X) or is_collection(X):
        raise TypeError(
            f"{type(estimator).__name__} needs its rows in memory here; a scan or a Dask collection"
            " goes to fit, predict, predict_to and score of AutoRegressor, AutoRanker, RLS, RankRLS,"
            " CoRLS and CoRankRLS, and to unscored= of the last two."
        )
    refuse_masked(X, "X", MASKED_FEATURES)
    if not isinstance(X, np.ndarray) or (X.dtype.kind in "OU" and X.ndim):
        objects = _read_objects(estimator, X, reset=reset)
        if objects is not None:
            return objects
        if isinstance(X, list | tuple | np.ndarray) and len(X) and isinstance(X[0], str):
            raise ValueError(
                "X holds texts, which need a kernel function of two lists of them; or a table with a"
                " column of texts and corank.TableEncoder."
            )
    if is_foreign(X):
        return _read_foreign_features(estimator, X, reset=reset)
    if is_frame(X):
        _refuse_text_columns(X)
    features = validate_data(
        estimator,
        X,
        reset=reset,
        accept_sparse="csr",
        dtype=[np.float64, np.float32],
        order=None,
        ensure_all_finite=False,
    )
    _refuse_non_numbers(features, vars(estimator).get("feature_names_in_"))
    refuse_extreme_size(features.data if is_sparse(features) else features, "X", small=reset)
    return features


def warn_of_scales(features: Array, kernel: Any) -> None:
    """Warn where columns of numbers have scales so different that a kernel sees only some of them."""
    if (
        not isinstance(features, np.ndarray)
        or not isinstance(kernel, str)
        or kernel == "precomputed"
        or features.dtype == object
    ):
        return
    ranges = np.ptp(features[:SCALE_ROWS].astype(np.float64), axis=0)
    wide = ranges.max(initial=0.0)
    narrow = ranges[ranges > 0].min(initial=np.inf)
    if wide > MAX_SCALE_RATIO * narrow:
        warn_user(
            f"The columns of X have ranges from {narrow:.3g} to {wide:.3g}, so those of the"
            " smallest hardly count: put StandardScaler or corank.TableEncoder before, or use"
            " AutoRanker or AutoRegressor, which scale columns."
        )


def refuse_extreme_size(values: Array, name: str, *, small: bool = True) -> None:
    """Refuse finite numbers whose squares overflow; or, where `small`, numbers that are all so
    small that they vanish.
    """
    xp = namespace(values)
    if 0 in values.shape:
        return
    largest = max(float(xp.max(values)), -float(xp.min(values)))
    if largest > LARGEST_SIZE or (small and 0 < largest < SMALLEST_SIZE):
        act = "divide" if largest > 1 else "multiply"
        raise ValueError(
            f"{name} holds numbers of size {largest:.3g}, whose squares are too"
            f" {'large' if largest > 1 else 'small'} to compute with; {act} all of them by the same"
            f" number, so that they lie between {SMALLEST_SIZE:g} and {LARGEST_SIZE:g}."
        )


def read_unscored(estimator: Any, features: Array, unscored: Any, check: bool = True) -> Array:
    """Check unscored rows beside X, whose features are (n, d): (m, d), dense or CSR as X is.

    `check` may be False for chunks that were checked before.
    """
    shape: tuple[int, ...] = tuple(getattr(unscored, "shape", ()))
    fits = len(shape) == 2 and shape[1] == features.shape[1]
    if fits and shape[0] == 0:
        return take(features, slice(0, 0))
    if (
        not check
        and fits
        and isinstance(unscored, np.ndarray)
        and unscored.dtype in (np.float64, np.float32)
    ):
        rows: Any = unscored
    else:
        try:
            rows = read_features(estimator, unscored, reset=False)
        except ValueError as error:
            raise ValueError(f"unscored does not fit X: {error}") from error
    if features.dtype == object:
        return rows
    if is_sparse(features):
        return rows if is_sparse(rows) else sparse.csr_array(rows)
    if is_sparse(rows):
        raise ValueError("unscored is a CSR matrix but X is not; hand over both in the same form.")
    return like(
        rows,
        features,
        dtype_name(rows) if dtype_name(rows) in ("float32", "float64") else "float64",
    )


def _read_objects(estimator: Any, X: Any, *, reset: bool) -> NumpyArray | None:
    """Objects for a kernel function as an object array (n, d): one per entry of a list or a series,
    or the cells of an array. None where X is something else, or a table of numbers.
    """
    parameters = vars(estimator)
    views = parameters.get("views")
    of_views = (
        [each.kernel for each in views if isinstance(each, View)]
        if isinstance(views, list | tuple)
        else []
    )
    may_take = any(map(takes_objects, [parameters.get("kernel"), *of_views]))
    if may_take:
        series = nw.from_native(X, series_only=True, pass_through=True)
        X = series.to_list() if isinstance(series, nw.Series) else X
        if isinstance(X, str | bytes | dict | set) or X is None:
            raise ValueError(f"X must be a list of objects, or rows of numbers, got {X!r:.80}.")
    if not may_take or not isinstance(X, list | tuple | np.ndarray):
        return None
    try:
        if np.asarray(X, dtype=np.float64).ndim == 2:
            return None
    except (TypeError, ValueError):
        pass
    cells: NumpyArray = np.empty(len(X), dtype=object)
    if isinstance(X, np.ndarray):
        cells = X.astype(object)
    else:
        for number, item in enumerate(X):
            cells[number] = item
    cells = cells[:, None] if cells.ndim == 1 else cells
    if cells.ndim != 2 or cells.size == 0:
        raise ValueError(
            "X must be a list of objects, or an object array with one or two dimensions, and not"
            f" empty; got shape {cells.shape}."
        )
    if reset:
        estimator.n_features_in_ = cells.shape[1]
        vars(estimator).pop("feature_names_in_", None)
    elif cells.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"X has {cells.shape[1]} objects per row, but {type(estimator).__name__} was fitted on"
            f" {estimator.n_features_in_}."
        )
    return cells


def _read_foreign_features(estimator: Any, X: Array, *, reset: bool) -> Array:
    xp = namespace(X)
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions (rows, columns), got shape {tuple(X.shape)}.")
    if 0 in X.shape:
        raise ValueError(f"X is empty: shape {tuple(X.shape)}.")
    if reset:
        estimator.n_features_in_ = X.shape[1]
        vars(estimator).pop("feature_names_in_", None)
    elif X.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"X has {X.shape[1]} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input."
        )
    if hasattr(X, "requires_grad") and X.requires_grad:
        X = X.detach()
    if not xp.isdtype(X.dtype, "real floating"):
        if xp.isdtype(X.dtype, "complex floating"):
            raise ValueError("X holds complex numbers; only real ones can be learned from.")
        X = xp.astype(X, xp.float64)
    if X.dtype not in (xp.float32, xp.float64):
        X = xp.astype(X, xp.float32)
    if not xp.all(xp.isfinite(X)):
        raise ValueError("X contains NaN or infinity; fill in or drop those entries first.")
    refuse_extreme_size(X, "X", small=reset)
    return X


def _refuse_non_numbers(features: Array, names: Array | None) -> None:
    """Name the first entry that is NaN or infinite."""
    values = features.data if is_sparse(features) else features
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(np.sum(values)) or np.isfinite(values).all():
            return
    if is_sparse(features):
        features = features.tocoo()
        first = int(np.argmin(np.isfinite(features.data)))
        row = int(features.row[first])
        column = int(features.col[first])
        value = features.data[first]
    else:
        row, column = (int(numbers[0]) for numbers in np.nonzero(~np.isfinite(features)))
        value = features[row, column]
    where = f"column {column}" if names is None else f"column {names[column]!r}"
    raise ValueError(
        f"X contains {'NaN' if np.isnan(value) else 'infinity'}, first in row {row}, {where}; fill"
        " in or drop such entries first, for instance with corank.TableEncoder."
    )


def _holds_numbers(column: Any) -> bool:
    if column.dtype.is_numeric() or column.dtype == nw.Boolean:
        return True
    if column.dtype != nw.Object:
        return False
    try:
        column.to_numpy().astype(np.float64)
    except (TypeError, ValueError):
        return False
    return True


def is_collection(X: Any) -> bool:
    """Whether X is a Dask array or frame."""
    return type(X).__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(X, "dask")


def is_frame(X: Any) -> bool:
    """Whether X is a table with named columns: pandas, polars, pyarrow."""
    return isinstance(nw.from_native(X, eager_only=True, pass_through=True), nw.DataFrame)


def is_matrix_of_numbers(X: Any) -> bool:
    """Whether all columns of a frame hold numbers, and all of its cells."""
    columns = list(nw.from_native(X, eager_only=True).iter_columns())
    return all(
        _holds_numbers(column) and column.null_count() == 0 for column in columns
    ) and not any(column.dtype.is_float() and column.is_nan().any() for column in columns)


def _refuse_text_columns(X: Any) -> None:
    """Name the columns of a frame that hold no numbers, before a conversion fails with less to say."""
    frame = nw.from_native(X, eager_only=True)
    texts = [str(column.name) for column in frame.iter_columns() if not _holds_numbers(column)]
    if texts:
        raise ValueError(
            "X has columns without numbers:"
            f" {', '.join(texts[:5])}{' …' if len(texts) > 5 else ''}. Turn them into numbers"
            " first, for instance with corank.TableEncoder."
        )


def read_scores(y: Any, n_rows: int, reference: Array) -> Array:
    """Check scores: (n,) float64 beside `reference`, NaN = unscored, as masked ones are."""
    y = masked_as_nan(y)
    values = y if is_foreign(y) else _as_floats(y, "y")
    if values.ndim == 2 and values.shape[1] == 1:
        warn_user(
            "A column-vector y was passed when a 1d array was expected; it is used as one column of"
            " scores.",
            DataConversionWarning,
        )
        values = values[:, 0]
    if values.ndim != 1:
        raise ValueError(
            f"y should be a 1d array with one score per row, got an array of shape {values.shape};"
            " RLS and RankRLS take several columns."
        )
    if values.shape[0] != n_rows:
        raise ValueError(
            f"y has {values.shape[0]} scores but X has {n_rows} rows; inconsistent lengths."
        )
    scores = like(values, reference)
    xp = namespace(scores)
    if xp.any(xp.isinf(scores)):
        raise ValueError("y contains infinity; use NaN for a row without a score.")
    given = scores[~xp.isnan(scores)]
    refuse_extreme_size(given, "y")
    refuse_lost_differences(given, None)
    return scores


def _as_floats(values: Any, name: str) -> NumpyArray:
    if is_sparse(values):
        raise TypeError(f"Sparse data was passed for {name}, but dense data is required.")
    try:
        if hasattr(values, "to_numpy") and hasattr(
            values, "isna"
        ):  # pandas, which has several marks for missing values
            values = values.to_numpy(dtype=float, na_value=np.nan)
        array = np.asarray(values)
        if not np.iscomplexobj(array):
            return array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold numbers: {error}.") from error
    raise ValueError(f"Complex data not supported: {name} holds complex numbers.")


def read_weights(
    sample_weight: Any, n_rows: int, reference: Array, *, name: str = "sample_weight"
) -> Array | None:
    """Check weights: (n,) float64 >= 0 beside `reference`, or None for ones."""
    if sample_weight is None:
        return None
    if isinstance(sample_weight, Number):
        sample_weight = np.full(n_rows, sample_weight)
    refuse_masked(sample_weight, name, "give a number for each of them, or drop them")
    values = sample_weight if is_foreign(sample_weight) else _as_floats(sample_weight, name)
    if values.ndim != 1:
        need = (
            "sample weights must be 1D array or scalar"
            if name == "sample_weight"
            else "one number each is needed"
        )
        raise ValueError(f"{name}: {need}, got shape {tuple(values.shape)}.")
    if values.shape[0] != n_rows:
        raise ValueError(f"{name} has {values.shape[0]} values, but {n_rows} are needed.")
    weights = like(values, reference)
    xp = namespace(weights)
    if not xp.all(xp.isfinite(weights)):
        raise ValueError(f"{name} contains NaN or infinity.")
    if xp.any(weights < 0):
        raise ValueError(f"{name} contains negative values; they must be 0 or more.")
    refuse_extreme_size(weights, name)
    return weights


def read_rows(
    estimator: Any, X: Any, y: Any, qid: Any, sample_weight: Any, *, reset: bool = True
) -> tuple[Array, ScoredRows]:
    """Check the arguments of `fit`: features of all rows, and the scored rows with a positive
    weight.

    The rows of the only query have no query codes.
    """
    features = read_features(estimator, X, reset=reset)
    rows = scored_rows(read_score_columns(features, y, qid, sample_weight), 0)
    return features, rows if rows.n_queries > 1 else replace(rows, queries=None)


def read_score_columns(
    features: Array, y: Any, qid: Any, sample_weight: Any, *, several: bool = False
) -> ScoredRows:
    """Check what came with the features: all rows, with scores (n, 1); NaN = unscored.

    several : whether there may be several columns of scores, of targets or of views: (n, t)
    """
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None.")
    n = features.shape[0]
    columns = score_columns(y) if several else [y]
    scores = [read_scores(column, n, features) for column in columns]
    weights = read_weights(sample_weight, n, features)
    rows = ScoredRows.of(features, namespace(scores[0]).stack(scores, axis=1), qid, weights)
    if np.isnan(to_numpy(rows.scores)).all():
        raise ValueError("y has no scored row: every score is NaN.")
    if not given_scores(rows).any():
        raise ValueError("sample_weight leaves no scored row: all of them have weight zero.")
    return rows


def score_columns(y: Any, fitted: int | None = None) -> list[Any]:
    """The columns of y, or y itself where it has one; as many as a model was `fitted` on."""
    y = masked_as_nan(y)
    array = y if is_foreign(y) else _as_floats(y, "y")
    columns = [y]
    if array.ndim == 2 and array.shape[1] > 1:
        columns = [array[:, column] for column in range(array.shape[1])]
    if fitted not in (None, len(columns)):
        raise ValueError(f"y has {len(columns)} columns, but the model was fitted on {fitted}.")
    return columns


def mean_over_targets(measure: Callable[..., float], y: Any, predictions: Array) -> float:
    """The mean over the columns of y of what a measure says of scores and predictions."""
    if predictions.ndim == 1:
        return float(measure(y, predictions))
    columns = score_columns(y, predictions.shape[1])
    return float(np.mean([measure(own, predictions[:, j]) for j, own in enumerate(columns)]))


def given_scores(rows: ScoredRows) -> Mask:
    """Where there is a score that counts, for scores (n, t): (n, t)."""
    given = ~np.isnan(to_numpy(rows.scores))
    if rows.weights is not None:
        given &= to_numpy(rows.weights)[:, None] > 0
    return given


def scored_rows(rows: ScoredRows, column: int) -> ScoredRows:
    """The rows that have a score in a column, with those scores (n,)."""
    given = given_scores(rows)[:, column]
    rows = replace(rows, scores=rows.scores[:, column])
    return rows if given.all() else rows.take(np.flatnonzero(given))


def row_labels(table: Any) -> Any:
    """The index of a pandas frame, None where it only counts the rows."""
    index = getattr(table, "index", None)
    counts = type(index).__name__ == "RangeIndex" and (index.start, index.step) == (0, 1)  # type: ignore[union-attr]
    return index if hasattr(index, "dtype") and not counts else None


def read_comparisons(
    winners: Any, losers: Any, margins: Any, weights: Any, n_rows: int, table: Any = None
) -> tuple[NumpyArray, ...]:
    """Check comparisons: winners, losers (p,) int64, margins, weights (p,) float64; zero weights
    are dropped.

    table : X as it was given; winners and losers may be labels where it is a pandas frame with an
        index
    """
    first, second = (
        _as_indices(v, n_rows, name, table)
        for v, name in ((winners, "winners"), (losers, "losers"))
    )
    if len(first) != len(second):
        raise ValueError(
            f"winners has {len(first)} rows and losers {len(second)}; a comparison needs one of"
            " each."
        )
    if len(first) == 0:
        raise ValueError("winners and losers are empty: at least one comparison is needed.")
    if np.any(first == second):
        row = int(first[np.argmax(first == second)])
        raise ValueError(f"winners and losers hold a comparison of row {row} of X with itself.")
    size, weight = (
        np.asarray(
            read_weights(1.0 if values is None else values, len(first), np.empty(0), name=name)
        )
        for values, name in ((margins, "margins"), (weights, "weights"))
    )
    keep = weight > 0
    if not keep.any():
        raise ValueError("weights leaves no comparison: all weights are zero.")
    return first[keep], second[keep], size[keep], weight[keep]


def read_edges(edges: Any, n_rows: int, table: Any) -> tuple[NumpyArray, ...]:
    """Check preferences beside scores as comparisons: rows (winner, loser[, margin[, weight]]), or a
    sparse matrix (n, n) of weights, winners by row.
    """
    columns: list[Any]
    graph: Any = edges
    refuse_masked(edges, "edges", "drop such preferences")
    if sparse.issparse(edges):
        graph = graph.tocoo()
        if graph.shape != (n_rows, n_rows):
            raise ValueError(
                f"edges is a matrix of shape {graph.shape}, but X has {n_rows} rows; it needs a row"
                " and a column for each of them."
            )
        stored = graph.data != 0
        columns = [graph.row[stored], graph.col[stored], None, graph.data[stored]]
    else:
        try:
            array = np.asarray(to_numpy(edges))
        except ValueError as error:
            raise ValueError(f"edges must be rows of the same length: {error}") from error
        if array.ndim != 2 or not 2 <= array.shape[1] <= 4:
            raise ValueError(
                "edges must be rows (winner, loser), (winner, loser, margin) or (winner, loser,"
                f" margin, weight), or a sparse matrix of weights; got shape {array.shape}."
            )
        columns = [*array.T, None, None][:4]
        with np.errstate(invalid="ignore"):  # NaN is refused below
            ends = array[:, :2].astype(np.int64) if array.dtype.kind in "iuf" else array[:, :2]
        if array.dtype.kind == "f" and np.any(ends != array[:, :2]):
            raise ValueError("edges: winners and losers must be row numbers of X.")
        columns[:2] = ends.T
    try:
        winners, losers, margins, weights = columns
        return read_comparisons(winners, losers, margins, weights, n_rows, table)
    except ValueError as error:
        raise ValueError(f"edges: {error}") from error


def compared_rows(
    features: Array,
    X: Any,
    winners: Any,
    losers: Any,
    margins: Any,
    weights: Any,
    qid: Any,
    groups: Any = None,
) -> tuple[ComparedRows, Index]:
    """Checked comparisons between rows of X, whose features were read, and the numbers of the rows
    in any of them.
    """
    n = features.shape[0]
    first, second, size, weight = read_comparisons(winners, losers, margins, weights, n, X)
    groups = comparison_groups(first, second, n, qid, groups, weights)
    used, ends = np.unique(np.concatenate([first, second]), return_inverse=True)
    items = features if len(used) == n else take(features, used)
    split = len(first)
    problem = ComparedRows(
        items, ends[:split], ends[split:], size, weight, groups, named=qid is not None
    )
    return problem, used


def comparison_groups(
    winners: Array, losers: Array, n_rows: int, qid: Any, groups: Any = None, weights: Any = None
) -> Array:
    """What is held out together: the comparisons of a query, else those of one of the `groups` that
    are given, without those of zero `weights`, else those of the same two items.
    """
    if qid is None and groups is not None:
        labels = as_labels(groups, "groups")
        kept = np.ones(len(labels), bool) if weights is None else to_numpy(weights) > 0
        if len(labels) != len(kept) or kept.sum() != len(winners):
            raise ValueError(
                f"groups has {len(labels)} labels; one label per comparison is needed."
            )
        return to_numpy(encode_queries(labels[kept], len(winners), "groups")[0])
    if qid is None:
        low = np.minimum(winners, losers)
        high = np.maximum(winners, losers)
        groups, _ = first_appearance(low * n_rows + high)
        return groups
    queries = to_numpy(encode_queries(qid, n_rows)[0])
    if np.any(queries[winners] != queries[losers]):
        row = int(np.argmax(queries[winners] != queries[losers]))
        raise ValueError(
            f"comparison {row} is between rows of two queries: {winners[row]} and {losers[row]}"
            " of X."
        )
    groups, _ = first_appearance(queries[winners])
    return groups


def _as_indices(values: Any, n_rows: int, name: str, table: Any) -> NumpyArray:
    refuse_masked(values, name, "drop such comparisons")
    array = to_numpy(values)
    labels = row_labels(table)
    if labels is not None and array.ndim == 1 and array.size and array.dtype.kind not in "iuf":
        return _rows_of_labels(array, labels, name)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ValueError(
            f"{name} must be row numbers of X (whole numbers, one dimension), or labels of its"
            f" index where X is a pandas frame that has one; got {array.dtype} values."
        )
    if array.size and (array.min() < 0 or array.max() >= n_rows):
        wrong = int(array.min() if array.min() < 0 else array.max())
        raise ValueError(f"{name} points at row {wrong}, but X has rows 0 to {n_rows - 1}.")
    return array.astype(np.int64)


def _rows_of_labels(array: NumpyArray, labels: Any, name: str) -> NumpyArray:
    """Row numbers of labels in an index."""
    if not labels.is_unique:
        label = labels[labels.duplicated()][0]
        raise ValueError(
            f"{name} are labels, but the index of X has {label!r} twice; give row numbers instead."
        )
    rows = np.asarray(labels.get_indexer(array), dtype=np.int64)
    if np.any(rows < 0):
        raise ValueError(
            f"{name} holds {array.tolist()[int(np.argmin(rows))]!r}, which is not a label of the"
            " index of X."
        )
    return rows


# ---------------------------------------------------------------- rows that are not in memory


def scans() -> Any:
    """What learners do with scans, imported with the first scan or Dask collection: scans know
    learners, not the other way round.
    """
    return import_module("corank.streaming.models")


def is_scan(X: Any) -> bool:
    """Whether rows are in files, or in partitions: see `corank.scan`."""
    return getattr(X, "is_scan", False)


def read_scanned_features(estimator: Any, scan: Any) -> None:
    """Keep the number and names of the features of a scan on the estimator; what an encoder gives
    is an array, which has no names.
    """
    estimator.n_features_in_ = scan.n_features
    names = scan.feature_names
    if names is None or scan.encoder is not None:
        vars(estimator).pop("feature_names_in_", None)
    else:
        estimator.feature_names_in_ = np.asarray(names, dtype=object)


def as_scan(X: Any, y: Any = None, qid: Any = None) -> tuple[Any, Any, Any]:
    """X, y and qid; where X is a Dask collection, as one scan that brings the others."""
    if is_collection(X):
        return import_module("corank.streaming.dask").collection_scan(X, y, qid), None, None
    for value, name in ((y, "y"), (qid, "qid")):
        if is_collection(value):
            raise TypeError(
                f"{name} is a Dask collection but X is not; give both as Dask collections, or"
                " neither."
            )
    return X, y, qid


def is_stream(unscored: Any) -> bool:
    """Whether unscored rows come in chunks; an iterator, which can be read only once, is refused."""
    if (
        is_sparse(unscored)
        or is_foreign(unscored)
        or is_frame(unscored)
        or hasattr(unscored, "__array__")
    ):
        return False
    if isinstance(unscored, list | tuple):
        if not unscored:
            return True  # no chunk
        first = unscored[0]
        if (
            isinstance(unscored, tuple)
            and len(unscored) == 2
            and np.ndim(first) == 2
            and np.ndim(unscored[1]) == 1
        ):
            raise TypeError(
                "unscored is a pair (X, qid); hand over X and unscored_qid=qid, or chunks: [(X,"
                " qid)]."
            )
        return isinstance(first, tuple) or getattr(first, "ndim", 1) == 2 or is_frame(first)
    if isinstance(unscored, str | bytes) or not isinstance(unscored, Iterable):
        raise TypeError(f"unscored must be rows or chunks of rows, got {type(unscored).__name__}.")
    if iter(unscored) is unscored:
        raise TypeError(
            "unscored is an iterator, which can be read only once; hand over a list of chunks, or"
            " an object whose __iter__ starts again."
        )
    return True


def unscored_parts(
    estimator: Any, features: Array, unscored: Any, labels: Any, *, with_queries: bool, first: int
) -> list[Part]:
    """Rows of `unscored=` in memory, or in chunks that are read again for every pass.

    features : (n, d) of X; first : the number of the first row
    """
    if unscored is None:
        if labels is not None:
            raise ValueError("unscored_qid was given without unscored.")
        return []
    if is_stream(unscored):
        if labels is not None:
            raise ValueError(
                "unscored_qid does not go with chunks; each chunk brings its own: (X, qid)."
            )
        read = partial(read_unscored, estimator, features)
        return [StreamedRows(unscored, read, with_queries, first=first)]
    more = read_unscored(estimator, features, unscored)
    codes = None if labels is None else encode_queries(labels, more.shape[0], "unscored_qid")[0]
    return [HeldRows(more, None if codes is None else to_numpy(codes), first=first)]
