"""What a model file holds: for every name in the file the attribute of the learner, the kind of its value and its shape.

A learner declares its contents as `{name in the file: (attribute, kind)}`, made of the blocks below and lines of its own.
Shapes are written with symbols, as in `floats("r")` or `features("r", "d") | None`. A symbol stands for one size
throughout a file, and for one size per view inside `per_view`; "_" stands for any size. The symbols: d columns, r basis
rows or distinct atoms, n kept rows, p candidates of a path, w summed features, i compared items, c comparisons, u unscored
rows, s steps of a pursuit, k columns of a table, t terms of a text, M views.

Whether values make sense is hardly checked: the checksum of the file finds damage.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS

from corank._arrays import is_sparse
from corank.model_files.container import ModelFileError
from corank.model_files.packing import NAMED_FUNCTIONS, STORABLE, type_name


@dataclass(frozen=True)
class Sizes:
    """The sizes that symbols stand for in one file, remembered when a symbol is met for the first time.

    view : the view inside which symbols are read, None outside of views
    """

    known_sizes: dict[tuple[str, int | None], int] = field(default_factory=dict)
    view: int | None = None

    def agree(self, shape: tuple[int, ...], symbols: tuple[str, ...]) -> bool:
        """Whether a shape has the sizes of its symbols."""
        if len(shape) != len(symbols):
            return False
        pairs = [(symbol, size) for symbol, size in zip(symbols, shape, strict=True) if symbol != "_"]
        return all(self.known_sizes.setdefault((symbol, self.view), size) == size for symbol, size in pairs)


@dataclass(frozen=True)
class Kind:
    """A kind of value: `fits` says whether a value is of this kind, with the sizes that are known so far."""

    fits: Callable[[Any, Sizes], bool]

    def __or__(self, other: Kind | None) -> Kind:
        if other is None:
            return Kind(lambda value, sizes: value is None or self.fits(value, sizes))
        return Kind(lambda value, sizes: self.fits(value, sizes) or other.fits(value, sizes))


Contents: TypeAlias = Mapping[str, tuple[str, Kind]]

NUMBER = Kind(lambda value, _: type(value) in (int, float))
COUNT = Kind(lambda value, _: type(value) is int)
FLAG = Kind(lambda value, _: type(value) is bool)
TEXT = Kind(lambda value, _: isinstance(value, str))


def size(symbol: str) -> Kind:
    """The number that a symbol stands for."""
    return Kind(lambda value, sizes: COUNT.fits(value, sizes) and sizes.agree((value,), (symbol,)))


def floats(*symbols: str) -> Kind:
    """An array of float64."""
    return _array(("float64",), symbols)


def whole(*symbols: str) -> Kind:
    """An array of int64: row numbers, column numbers or codes."""
    return _array(("int64",), symbols)


def features(rows: str, columns: str) -> Kind:
    """Features of rows: a matrix of float64 or float32, or CSR."""
    dense = _array(("float64", "float32"), (rows, columns))

    def fits(value: Any, sizes: Sizes) -> bool:
        if not is_sparse(value):
            return dense.fits(value, sizes)
        return value.dtype.name in ("float64", "float32") and sizes.agree(value.shape, (rows, columns))

    return Kind(fits)


def _array(types: tuple[str, ...], symbols: tuple[str, ...]) -> Kind:
    def fits(value: Any, sizes: Sizes) -> bool:
        return isinstance(value, np.ndarray) and value.dtype.name in types and sizes.agree(value.shape, symbols)

    return Kind(fits)


def finite(type_name: str, *symbols: str) -> Kind:
    """An array of one type without NaN and infinity."""
    array = _array((type_name,), symbols)
    return Kind(lambda value, sizes: array.fits(value, sizes) and bool(np.isfinite(value).all()))


def names(symbol: str) -> Kind:
    """An array of text, as scikit-learn keeps the names of columns."""
    return _array(("object",), (symbol,))


def several(kind: Kind, symbol: str = "_") -> Kind:
    """A list or a tuple of values of one kind."""

    def fits(value: Any, sizes: Sizes) -> bool:
        if not isinstance(value, list | tuple) or not sizes.agree((len(value),), (symbol,)):
            return False
        return all(kind.fits(item, sizes) for item in value)

    return Kind(fits)


def per_view(kind: Kind) -> Kind:
    """A list with one value per view, in which symbols stand for sizes of that view."""

    def fits(value: Any, sizes: Sizes) -> bool:
        if not isinstance(value, list) or not value or not sizes.agree((len(value),), ("M",)):
            return False
        return all(kind.fits(item, Sizes(sizes.known_sizes, view)) for view, item in enumerate(value))

    return Kind(fits)


def entries(**kinds: Kind) -> Kind:
    """A dict with these keys."""

    def fits(value: Any, sizes: Sizes) -> bool:
        if not isinstance(value, dict) or set(value) != set(kinds):
            return False
        return all(kind.fits(value[key], sizes) for key, kind in kinds.items())

    return Kind(fits)


def stored(*type_names: str) -> Kind:
    """An object of one of these storable types, or of a type derived from one, whose fields fit `FIELDS`."""

    def fits(value: Any, sizes: Sizes) -> bool:
        allowed = tuple(STORABLE[name] for name in type_names if name in STORABLE)
        if not isinstance(value, allowed):
            return False
        kinds = FIELDS.get(type_name(value) or "", {})
        return all(kind.fits(getattr(value, key), sizes) for key, kind in kinds.items())

    return Kind(fits)


def function(role: str, built_in: Collection[str] = ()) -> Kind:
    """The name of a function: a built-in one, or one that was given to `register_kernel` here too."""

    def fits(value: Any, sizes: Sizes) -> bool:
        if not isinstance(value, str):
            return False
        if value not in built_in and value not in NAMED_FUNCTIONS:
            raise ModelFileError(
                f"the model uses the {role} {value[:80]!r}, which has no function here: call "
                f"corank.register_kernel({value[:80]!r}, function) before loading"
            )
        return True

    return Kind(fits)


def check_contents(learner: Any, contents: Contents) -> None:
    """Refuse fitted attributes that are not of the kinds and shapes which the contents declare."""
    sizes = Sizes()
    for name, (attribute, kind) in contents.items():
        demand(kind.fits(getattr(learner, attribute, None), sizes), name)


def demand(sound: bool, name: str) -> None:
    """Refuse the file unless what it holds under a name is sound."""
    if not sound:
        raise ModelFileError(f"the model file is damaged: unusable {name}")


# ---------------------------------------------------------------- objects in files, by the names of their types

KERNEL = stored("Kernel")
PATH = stored("Path") | None
ROWS = stored("Rows") | None
STATISTICS = stored("Statistics") | None
WHITENING = stored("Whitening") | None
POINTS = features("r", "d") | whole("r") | None  # row numbers where the kernel is precomputed; None: columns of X

FIELDS: dict[str, dict[str, Kind]] = {
    "Kernel": {
        "name": function("kernel", (*PAIRWISE_KERNEL_FUNCTIONS, "precomputed")),
        "gamma": NUMBER | None,
        "degree": NUMBER,
        "coef0": NUMBER,
        "scales": several(NUMBER, "d") | None,
    },
    "View": {"columns": whole("d"), "kernel": TEXT, "penalty": NUMBER, "name": TEXT},
    "Rows": {
        "features": features("n", "d"),
        "scores": floats("n"),
        "queries": whole("n") | None,
        "n_queries": COUNT,
        "weights": floats("n") | None,
        "index": whole("n"),
    },
    "Statistics": {
        "comparison": stored("Pointwise", "Queries", "Blend"),
        "queries": several(stored("Gram")),
        "parts": several(stored("Moments") | None),
    },
    "Gram": {"matrix": floats("w", "w"), "weight": NUMBER, "freedom": COUNT},
    "Moments": {"weight": NUMBER, "count": COUNT, "mean": floats("w"), "scatter": floats("w", "w")},
    "Whitening": {"matrix": floats("r", "_"), "condition": NUMBER},
    "ComparedRows": {
        "features": features("i", "d"),
        "winners": whole("c"),
        "losers": whole("c"),
        "margins": floats("c"),
        "weights": floats("c"),
        "groups": whole("c"),
        "named": FLAG,
    },
    "Compared": {
        "features": features("i", "d"),
        "winners": whole("c"),
        "losers": whole("c"),
        "counts": floats("c"),
    },
    "GaussianPart": {
        "weight": NUMBER,
        "kernel": KERNEL,
        "amplitude": NUMBER,
        "coefficients": floats("r"),
        "spread": floats("r", "r"),
    },
    "UnscoredEffect": {
        "verdict": TEXT,
        "error_with": NUMBER,
        "error_without": NUMBER,
        "difference": NUMBER,
        "standard_error": NUMBER,
        "n_held_out": COUNT,
    },
    "Path": {
        **{name: floats("p") for name in ("alpha", "gamma", "error", "standard_error")},
        **{name: floats("p") | None for name in ("agreement", "n_components", "n_atoms")},
        "best": COUNT,
        "scoring": TEXT,
        "constant": NUMBER,
    },
}
FIELDS["PullPath"] = {**FIELDS["Path"], "pull": floats("p") | None}

# The table encoder that may stand beside a learner: what `TableEncoder.to_state` gives, k columns of a table.
KIND_OPTIONS = ("text", "category", "number", "ignore")
_TERMS = several(TEXT) | COUNT | None
ENCODER = entries(
    max_categories=COUNT,
    scale=FLAG,
    columns=several(
        entries(
            **dict.fromkeys(("name", "kind", "dropped", "date_format", "vector"), TEXT),
            **dict.fromkeys(("values", "missing", "other", "year", "season"), FLAG),
            categories=several(TEXT),
            words=_TERMS,
            characters=_TERMS,
        ),
        "k",
    ),
    **dict.fromkeys(KIND_OPTIONS, several(TEXT)),
)
ENCODER_ARRAYS = entries(fill=floats("k"), centre=floats("k"), divisor=floats("k"))
TEXT_ARRAYS = entries(idf=finite("float64", "t"), components=finite("float32", "_", "t"))
VECTOR_ARRAYS = entries(centres=finite("float64", "_"))

# ---------------------------------------------------------------- contents of files, by kind of learner

TRAINING: Contents = {
    "intercept": ("intercept_", NUMBER),
    "n_columns": ("n_features_in_", size("d")),
    "column_names": ("feature_names_in_", names("d") | None),
    "with_queries": ("_with_queries", FLAG),
    "rows_seen": ("_n_seen", COUNT),
    "rows_scored": ("_n_scored", COUNT),
    "queries": ("_n_queries", COUNT),
}
# Basis points come before rows, which may be the same array: it is stored once, under the name that comes first.
FUNCTION_OF_ONE_VIEW: Contents = {
    **TRAINING,
    "coefficients": ("coef_", floats("r")),
    "kernel": ("_kernel", KERNEL),
    "gamma": ("gamma_", NUMBER | floats("d") | None),
    "basis": ("basis_", whole("r") | None),
    "basis_points": ("basis_points_", POINTS),
    "level": ("_level", NUMBER),
}
FUNCTIONS_OF_VIEWS: Contents = {
    **TRAINING,
    "views": ("views_", per_view(stored("View"))),
    "coefficients": ("coef_", per_view(floats("r"))),
    "kernels": ("_kernels", per_view(KERNEL)),
    "gamma": ("gamma_", per_view(NUMBER | None)),
    "basis": ("basis_", per_view(whole("r") | None)),
    "basis_points": ("basis_points_", per_view(POINTS)),
    "agreement": ("agreement_", NUMBER),
    "rows_unscored": ("_n_unscored", COUNT),
}
TUNED: Contents = {"alpha": ("alpha_", NUMBER), "path": ("path_", PATH)}
ONE_VIEW: Contents = {
    **FUNCTION_OF_ONE_VIEW,
    **TUNED,
    "rows": ("_rows", ROWS),
    "statistics": ("_statistics", STATISTICS),
    "whitening": ("_whitening", WHITENING),
}
SEVERAL_VIEWS: Contents = {
    **FUNCTIONS_OF_VIEWS,
    **TUNED,
    "level": ("_level", NUMBER),
    "sweeps": ("n_iter_", COUNT),
    "compared": ("_compared", FLAG),
    "rows": ("_rows", per_view(stored("Rows")) | None),
    "statistics": ("_statistics", per_view(stored("Statistics")) | None),
    "whitenings": ("_whitenings", per_view(WHITENING) | None),
    "disagreement": ("_disagreement", floats("w", "w") | None),
    "effect": ("_effect", stored("UnscoredEffect") | None),
}
TRANSDUCTIVE: Contents = {
    **{name: entry for name, entry in ONE_VIEW.items() if name != "whitening"},
    "pull": ("pull_", NUMBER),
    "transduction": ("transduction_", floats("u")),
    "rows_unscored": ("_n_unscored", size("u")),
}
COMPONENTS: Contents = {
    **FUNCTION_OF_ONE_VIEW,
    **TUNED,
    "n_components": ("n_components_", COUNT),
    "eigenvalues": ("eigenvalues_", floats("_")),
}
PURSUIT: Contents = {
    **FUNCTION_OF_ONE_VIEW,
    "path": ("path_", PATH),
    "atoms": ("atoms_", whole("r")),
    "steps": ("steps_", whole("s")),
    "n_atoms": ("n_atoms_", size("s")),
    "names": ("_names", several(TEXT, "r")),
    "refit": ("_refit", TEXT),
    "dictionary": ("_function", function("dictionary") | None),
    "dictionary_size": ("_size", COUNT),
    "weights": ("_weights", floats("r", "s")),
    "training_loss": ("training_loss_", floats("_")),
}
CO_PURSUIT: Contents = {
    **FUNCTIONS_OF_VIEWS,
    "path": ("path_", PATH),
    "n_atoms": ("n_atoms_", size("s")),
    "atoms": ("atoms_", per_view(whole("r"))),
    "steps": ("steps_", per_view(whole("s"))),
    "names": ("_names", several(TEXT)),
    "history": ("_history", floats("s", "s", "M")),
    "objective": ("objective_", floats("_")),
    "others": (
        "_others",
        several(
            entries(
                objective=NUMBER,
                atoms=per_view(whole("_")),
                coefficients=per_view(floats("_")),
                points=per_view(features("_", "d") | whole("_")),
            )
        ),
    ),
}
GAUSSIAN_PROCESS: Contents = {
    **FUNCTION_OF_ONE_VIEW,
    "rows": ("_rows", ROWS),
    "parts": ("_parts", several(stored("GaussianPart"))),
    "amplitude": ("amplitude_", NUMBER),
    "log_evidence": ("log_evidence_", NUMBER),
    "kind": ("_kind", TEXT),
    "n_comparisons": ("_n_comparisons", COUNT),
}
PREFERENCE_PROCESS: Contents = {
    **GAUSSIAN_PROCESS,
    "compared": ("_data", stored("Compared") | None),
    "whole": ("_whole", FLAG),
    "n_iter": ("n_iter_", COUNT),
}
DIFFERENCE_PROCESS: Contents = {
    **ONE_VIEW,
    **GAUSSIAN_PROCESS,
    "noise": ("noise_", NUMBER),
    "compared": ("_compared", stored("ComparedRows") | None),
}
