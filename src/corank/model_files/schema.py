"""Whether what a model file says fits together: shapes, types, finite numbers. What passes can be computed with.

How a fitted learner becomes a model file and back: `save` for every learner, and `load`.

A kind of learner says what its file holds and how that is checked; `packing` turns values into JSON and arrays,
`persistence` writes those.

Whether what a file says of a Gaussian process fits together.

What the file of a pursuit holds, and whether it fits together.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from importlib import import_module
from numbers import Integral
from typing import Any, ClassVar, get_args, get_type_hints

import numpy as np
from sklearn.utils.validation import check_is_fitted

from corank._arrays import is_sparse
from corank.basis import Whitening
from corank.encoder import TableEncoder
from corank.gram import N_TARGETS, Gram, Moments, Statistics
from corank.kernels import WITH_GAMMA, Kernel, is_registered, kernel_names, registered_name
from corank.model_files.container import ModelFileError, read_model, write_model
from corank.model_files.packing import Packer, Unpacker
from corank.problem import ComparedRows
from corank.rows import Rows
from corank.solvers.gp_posterior import GaussianPart
from corank.solvers.holdout import SCORINGS
from corank.solvers.pair_data import PairData
from corank.solvers.pursuit import REFITS
from corank.solvers.tuning import Path
from corank.solvers.unscored_effect import UnscoredEffect
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


# The only classes that a file can name, and where they live: they are built on this module.
LEARNERS = {
    "RLS": "corank.learners.rls",
    "RankRLS": "corank.learners.rls",
    "CoRLS": "corank.learners.co_rls",
    "CoRankRLS": "corank.learners.co_rls",
    "KPCR": "corank.learners.components",
    "KPCRank": "corank.learners.components",
    "MatchingPursuit": "corank.learners.pursuit",
    "RankingPursuit": "corank.learners.pursuit",
    "CoRankingPursuit": "corank.learners.co_pursuit",
    "TransductiveRankRLS": "corank.learners.transductive",
    "PreferenceGP": "corank.learners.gp_preference",
    "DifferenceGP": "corank.learners.gp_difference",
}

# What every learner's file holds; lists of one entry a view where there are several.
SHARED = {
    "coefficients": "coef_",
    "intercept": "intercept_",
    "level": "_level",
    "alpha": "alpha_",
    "gamma": "gamma_",
    "path": "path_",
    "basis": "basis_",
    "basis_points": "basis_points_",
    "n_columns": "n_features_in_",
    "column_names": "feature_names_in_",
    "with_queries": "_with_queries",
    "rows_seen": "_n_seen",
    "rows_scored": "_n_scored",
    "queries": "_n_queries",
    "rows": "_rows",
    "statistics": "_statistics",
}


@dataclass(frozen=True)
class Contents:
    """What the file of a kind of learner holds.

    fitted : in the file: on the learner. Basis points come before the rows, which may be the same array: it is stored
        once
    check : refuses fitted attributes that do not fit each other
    """

    fitted: Mapping[str, str]
    check: Callable[[Any], None]


class Saveable:
    """`save` for learners.

    Attributes
    ----------
    encoder_ : TableEncoder or None
        What turns a table into the features of this model: set by `load` where the file holds one, None after `fit`.
    table_ : dict or None
        What `corank fit` remembers of its table: the names of the score and query columns, numbers of rows.
    """

    _contents: ClassVar[Contents]
    encoder_: TableEncoder | None = None
    table_: dict[str, str | int | None] | None = None

    def save(
        self, path: str | os.PathLike[str], *, overwrite: bool = False, encoder: TableEncoder | None = None
    ) -> None:
        """Save the model as one file of arrays and JSON, which `corank.load` reads on any machine.

        The file holds what `predict` and `update` need: parameters, coefficients, basis rows and, for a model on all
        its rows, their scores, queries and weights. Models on tensors are saved, and load, as NumPy. A `cv` splitter,
        a random state that is no number and the `dictionary` that atoms were picked from are for training only and
        load as None. `unscored_effect_` is saved where it was asked for before.

        Parameters
        ----------
        path : path
            By custom `name.corank`.
        overwrite : bool
            Whether a file that is already there may be replaced; else that is a FileExistsError.
        encoder : TableEncoder, default=None
            Fitted; stored with the model and found as `encoder_` after loading. None keeps the `encoder_` of a model
            that was loaded with one. Of any other preprocessing, such as a scikit-learn Pipeline, only the learner at
            its end can be saved here; for the whole of it see skops (https://skops.readthedocs.io).
        """
        check_is_fitted(self)
        name = type(self).__name__
        if _learner(name) is not type(self):
            raise TypeError(f"save knows {', '.join(LEARNERS)}, not {name}; see skops for other estimators.")
        encoder = self.encoder_ if encoder is None else encoder
        packer = Packer()
        header: dict[str, Any] = {"learner": name}
        header["parameters"], training_only = _packed_parameters(self, packer)
        header["fitted"] = {
            word: packer.pack(getattr(self, attribute, None), word) for word, attribute in self._contents.fitted.items()
        }
        header["summary"] = {**self._summary(), **training_only}
        header["encoder"] = None if encoder is None else _packed_encoder(encoder, self, packer)
        header["table"] = None if self.table_ is None else dict(self.table_)
        write_model(path, header, packer.arrays, overwrite=overwrite)

    def _summary(self) -> dict[str, int]:
        """The rows behind the model, for whoever looks into the file."""
        raise AssertionError("a learner says what it was fitted on")


def load(path: str | os.PathLike[str]) -> Any:
    """Load a model that was saved with `save`.

    Nothing in the file is executed. A model with a kernel of your own needs `register_kernel` to be called first.

    Parameters
    ----------
    path : path

    Returns
    -------
    RLS, RankRLS, CoRLS, CoRankRLS, …
        The fitted learner, with NumPy arrays; `encoder_` is the TableEncoder that was saved with it, or None.

    Raises
    ------
    FileNotFoundError, IsADirectoryError
        There is no such file.
    ModelFileError
        A ValueError that says what is wrong with the file.
    """
    header, arrays = read_model(path)
    try:
        return _rebuilt(header, arrays)
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from error
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError, MemoryError) as error:
        raise ModelFileError(f"{path}: the model file does not make sense: {error}") from error


def _learner(name: object) -> Any:
    """The class of this name, if a file may name it."""
    known = isinstance(name, str) and name in LEARNERS
    return getattr(import_module(LEARNERS[str(name)]), str(name)) if known else None


# ---- to the file


def _packed_parameters(learner: Any, packer: Packer) -> tuple[dict[str, Any], dict[str, str]]:
    """The parameters, and in words those that matter for training only and do not go into a file."""
    parameters, in_words = learner.get_params(deep=False), {}
    for name in ("cv", "random_state", "dictionary"):
        value = parameters.get(name)
        if name == "dictionary" and (registered := registered_name(value)) is not None:
            parameters[name] = registered
        elif value is not None and not isinstance(value, Integral | str) and not _is_rows(name, value):
            splits = name == "cv" and isinstance(value, list | tuple)
            in_words[name] = f"{len(value)} splits" if splits else " ".join(repr(value).split())[:200]
            parameters[name] = None
    return {name: packer.pack(value, name) for name, value in parameters.items()}, in_words


def _is_rows(name: str, value: Any) -> bool:
    """Whether a dictionary is a list of row numbers, which a file can hold."""
    return name == "dictionary" and isinstance(value, list | np.ndarray) and np.ndim(value) == 1


def _packed_encoder(encoder: Any, learner: Any, packer: Packer) -> Any:
    if not isinstance(encoder, TableEncoder):
        raise TypeError(
            f"encoder must be a corank.TableEncoder, got {type(encoder).__name__}; a model file holds no other "
            "preprocessing: save a whole pipeline with skops (https://skops.readthedocs.io)."
        )
    header, arrays = encoder.to_state()
    if len(encoder.attributes_) != learner.n_features_in_:
        raise ValueError(
            f"encoder makes {len(encoder.attributes_)} columns, but the model was fitted on {learner.n_features_in_}."
        )
    packer.arrays.update({f"encoder.{name}": array for name, array in arrays.items()})
    return header


# ---- from the file


def _rebuilt(header: dict[str, Any], arrays: dict[str, Any]) -> Any:
    kind = _learner(header.get("learner"))
    if kind is None:
        raise ModelFileError(
            f"the model is a {str(header.get('learner'))[:40]!r}; this corank knows {', '.join(LEARNERS)}"
        )
    parameters: Any = header.get("parameters")
    fitted: Any = header.get("fitted")
    contents: Contents = kind._contents
    demand(isinstance(parameters, dict) and isinstance(fitted, dict) and set(fitted) == set(contents.fitted), "header")
    demand(set(parameters) == set(kind().get_params()), "list of parameters")
    unpacker = Unpacker(arrays)
    learner = kind(**{key: unpacker.unpack(value) for key, value in parameters.items()})
    for word, attribute in contents.fitted.items():
        value = unpacker.unpack(fitted[word])
        if value is not None or attribute != "feature_names_in_":
            setattr(learner, attribute, value)
    contents.check(learner)
    for note in (header.get("summary"), header.get("table") or {}):
        demand(
            isinstance(note, dict) and all(isinstance(v, str | int | None) for v in note.values()), "note on the data"
        )
    learner.table_ = header.get("table")
    learner.encoder_ = _unpacked_encoder(header.get("encoder"), arrays, learner)
    return learner


def _unpacked_encoder(header: Any, arrays: dict[str, Any], learner: Any) -> TableEncoder | None:
    if header is None:
        return None
    prefix = "encoder."
    own = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
    encoder = TableEncoder.from_state(header, own)
    demand(len(encoder.attributes_) == learner.n_features_in_, "table encoder")
    return encoder


PARTS = {
    "kernel": "_kernel",
    "parts": "_parts",
    "amplitude": "amplitude_",
    "log_evidence": "log_evidence_",
    "kind": "_kind",
    "n_comparisons": "_n_comparisons",
}


def check_preference(learner: Any) -> None:
    """Refuse fitted attributes of a PreferenceGP that do not fit each other."""
    check_counts(learner)
    check_expansion(learner.coef_, learner._kernel, learner.basis_points_, learner.basis_, learner.n_features_in_)
    check_gamma(learner.gamma_, learner._kernel)
    _check_parts(learner)
    demand(type(learner._whole) is bool and type(learner.n_iter_) is int and learner.n_iter_ > 0, "note on the fit")
    data = learner._data
    demand((data is None) == learner._kernel.precomputed, "comparisons")
    if data is None:
        demand(learner._rows is None, "rows")
        return
    demand(isinstance(data, PairData) and is_array(data.counts, 1), "comparisons")
    rows = _check_items(data, learner.n_features_in_, len(data.counts))
    sound = is_finite(data.counts) and bool(((data.counts > 0) & (data.counts == np.floor(data.counts))).all())
    demand(sound, "comparisons")
    demand(not learner._whole or rows == len(learner.coef_), "compared items")
    demand((learner._rows is None) == (learner._kind == "comparison"), "rows")
    if learner._rows is not None:
        check_rows(learner._rows, learner.n_features_in_)
        demand(is_finite(learner._rows.scores) and len(learner._rows) == rows, "rows")


def check_difference(learner: Any) -> None:
    """The same for a DifferenceGP."""
    check_single(learner)
    _check_parts(learner)
    demand(is_number(learner.noise_) and learner.noise_ > 0, "noise")
    demand(bool(np.isclose(learner.alpha_ * learner.amplitude_, learner.noise_, rtol=1e-9, atol=0)), "noise")
    data = learner._compared
    if data is None:
        demand(learner._kind == "score" or learner._kernel.precomputed, "comparisons")
        return
    demand(learner._kind == "comparison", "comparisons")
    demand(learner._rows is None and learner._statistics is None, "comparisons")
    demand(isinstance(data, ComparedRows) and is_array(data.margins, 1) and len(data.margins) > 0, "comparisons")
    size = len(data.margins)
    _check_items(data, learner.n_features_in_, size)
    demand(is_index(data.groups, size) and type(data.named) is bool, "comparisons")
    demand(is_array(data.weights, 1) and data.weights.shape == (size,), "comparisons")
    demand(is_finite(data.margins) and bool((data.margins >= 0).all()), "comparisons")
    demand(is_finite(data.weights) and bool((data.weights > 0).all()), "comparisons")


def _check_parts(learner: Any) -> None:
    """The belief: at least one part, whose shares add up to 1."""
    parts, size = learner._parts, len(learner.coef_)
    demand(isinstance(parts, list) and len(parts) > 0, "belief")
    demand(is_number(learner.amplitude_) and learner.amplitude_ > 0 and is_number(learner.log_evidence_), "belief")
    for part in parts:
        demand(isinstance(part, GaussianPart) and is_number(part.weight) and part.weight >= 0, "belief")
        check_kernel(part.kernel)
        demand(part.kernel.precomputed == learner._kernel.precomputed, "belief")
        demand(part.kernel.scales is None or len(part.kernel.scales) == learner.n_features_in_, "belief")
        demand(is_number(part.amplitude) and part.amplitude > 0, "belief")
        demand(is_array(part.coefficients, 1) and part.coefficients.shape == (size,), "belief")
        demand(is_finite(part.coefficients) and is_matrix(part.spread, (size, size)), "belief")
        demand(
            bool(np.allclose(part.spread, part.spread.T, rtol=1e-6, atol=1e-6 * np.abs(part.spread).max())), "belief"
        )
    demand(bool(np.isclose(sum(part.weight for part in parts), 1.0)), "belief")
    first = parts[0]
    demand(np.array_equal(first.coefficients, learner.coef_) and first.amplitude == learner.amplitude_, "belief")
    demand(first.kernel == learner._kernel, "belief")
    demand(learner._kind in ("score", "comparison"), "note on the fit")
    demand(type(learner._n_comparisons) is int and 0 <= learner._n_comparisons < 2**62, "note on the fit")


def _check_items(data: Any, columns: int, size: int) -> int:
    """Items of so many comparisons; returns how many."""
    shape: Any = getattr(data.features, "shape", ())
    demand(len(shape) == 2 and is_features(data.features, shape[0], columns), "compared items")
    ends = (data.winners, data.losers)
    demand(all(is_index(end, size, shape[0]) for end in ends) and bool((ends[0] != ends[1]).all()), "comparisons")
    return int(shape[0])


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
