"""What a model file holds: for every name in the file the attribute of the learner, the kind of its
value and its shape.

A learner declares its contents as `{name in the file: (attribute, kind)}`, made of the blocks below
and lines of its own. Shapes are written with symbols, as in `floats("r")` or `features("r", "d") |
None`. A symbol stands for one size throughout a file, and for one size per view inside `per_view`;
"_" stands for any size. The symbols: d columns, r basis rows or distinct atoms, n kept rows, p
candidates of a path, w summed features, i compared items, c comparisons, u unscored rows, s steps
of a pursuit, k columns of a table, t terms of a text, e units and f points of an average, M views.

The checksum of a file finds damage; whether values make sense is checked as far as a forged file
could do harm: numbers are finite, and numbers of rows, columns and queries are numbers of some that
are there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from corank.core.arrays import is_sparse
from corank.core.storable import BUILT_IN_KERNELS, NAMED_FUNCTIONS, STORABLE, type_name
from corank.encode.encoder import OPTIONS, SCALING
from corank.model_files.container import ModelFileError

LARGEST_NUMBER = 1e150  # its square is a number too
LARGEST_COUNT = 2**53
MAX_HOPS = 1_000  # links that rows of an average see each other over
ENCODINGS = ("ScaledColumns", "NormalScores", "QueryNormalScores", "EncodingBeside", "ItemIdentity")


@dataclass(frozen=True)
class Sizes:
    """The sizes that symbols stand for in one file, remembered when a symbol is met for the first
    time.

    view : the view inside which symbols are read, None outside of views
    """

    known_sizes: dict[tuple[str, int | None], int] = field(default_factory=dict)
    view: int | None = None

    def agree(self, shape: tuple[int, ...], symbols: tuple[str, ...]) -> bool:
        """Whether a shape has the sizes of its symbols."""
        if len(shape) != len(symbols):
            return False
        pairs = [
            (symbol, size) for symbol, size in zip(symbols, shape, strict=True) if symbol != "_"
        ]
        return all(
            self.known_sizes.setdefault((symbol, self.view), size) == size for symbol, size in pairs
        )


@dataclass(frozen=True)
class Kind:
    """A kind of value: `fits` says whether a value is of this kind, with the sizes that are known
    so far.
    """

    fits: Callable[[Any, Sizes], bool]

    def __or__(self, other: Kind | None) -> Kind:
        if other is None:
            return Kind(lambda value, sizes: value is None or self.fits(value, sizes))
        return Kind(lambda value, sizes: self.fits(value, sizes) or other.fits(value, sizes))


Contents: TypeAlias = Mapping[str, tuple[str, Kind]]

NUMBER = Kind(lambda value, _: type(value) in (int, float))
# NaN is not less
FINITE = Kind(lambda value, _: type(value) in (int, float) and abs(value) < LARGEST_NUMBER)
COUNT = Kind(lambda value, _: type(value) is int and 0 <= value < LARGEST_COUNT)
FLAG = Kind(lambda value, _: type(value) is bool)
TEXT = Kind(lambda value, _: isinstance(value, str))


def size(symbol: str) -> Kind:
    """The number that a symbol stands for."""
    return Kind(lambda value, sizes: COUNT.fits(value, sizes) and sizes.agree((value,), (symbol,)))


def floats(*symbols: str) -> Kind:
    """An array of float64 without NaN and infinity."""
    return finite("float64", *symbols)


def any_floats(*symbols: str) -> Kind:
    """An array of float64 in which NaN and infinity have a meaning."""
    return _array("float64", *symbols)


def whole(*symbols: str) -> Kind:
    """An array of int64 from 0: row numbers, column numbers or codes."""
    array = _array("int64", *symbols)
    return Kind(
        lambda value, sizes: array.fits(value, sizes) and (value.size == 0 or int(value.min()) >= 0)
    )


def features(rows: str, columns: str) -> Kind:
    """Features of rows: a matrix of float64 or float32, or CSR, without NaN and infinity."""
    dense = floats(rows, columns) | finite("float32", rows, columns)

    def fits(value: Any, sizes: Sizes) -> bool:
        if not is_sparse(value):
            return dense.fits(value, sizes)
        known = value.dtype.name in ("float64", "float32") and bool(np.isfinite(value.data).all())
        return known and sizes.agree(value.shape, (rows, columns))

    return Kind(fits)


def _array(type_name: str, *symbols: str) -> Kind:
    return Kind(
        lambda value, sizes: (
            isinstance(value, np.ndarray)
            and value.dtype.name == type_name
            and sizes.agree(value.shape, symbols)
        )
    )


def finite(type_name: str, *symbols: str) -> Kind:
    """An array of one type without NaN and infinity."""
    array = _array(type_name, *symbols)
    return Kind(lambda value, sizes: array.fits(value, sizes) and bool(np.isfinite(value).all()))


def names(symbol: str) -> Kind:
    """An array of text, as scikit-learn keeps the names of columns."""
    return _array("object", symbol)


def several(kind: Kind, symbol: str = "_") -> Kind:
    """A list or a tuple of values of one kind."""
    return Kind(
        lambda value, sizes: (
            isinstance(value, list | tuple)
            and sizes.agree((len(value),), (symbol,))
            and all(kind.fits(item, sizes) for item in value)
        )
    )


def per_view(kind: Kind) -> Kind:
    """A list with one value per view, in which symbols stand for sizes of that view."""
    return Kind(
        lambda value, sizes: (
            isinstance(value, list)
            and len(value) > 0
            and sizes.agree((len(value),), ("M",))
            and all(
                kind.fits(item, Sizes(sizes.known_sizes, view)) for view, item in enumerate(value)
            )
        )
    )


def by_name(kind: Kind) -> Kind:
    """A dict from any names to values of one kind."""
    return Kind(
        lambda value, sizes: (
            isinstance(value, dict)
            and all(isinstance(key, str) and kind.fits(item, sizes) for key, item in value.items())
        )
    )


def entries(**kinds: Kind) -> Kind:
    """A dict with these keys."""
    return Kind(
        lambda value, sizes: (
            isinstance(value, dict)
            and set(value) == set(kinds)
            and all(kind.fits(value[key], sizes) for key, kind in kinds.items())
        )
    )


def stored(*type_names: str) -> Kind:
    """An object of one of these storable types, or of a type derived from one, whose fields fit
    `FIELDS`.
    """

    def fits(value: Any, sizes: Sizes) -> bool:
        allowed = tuple(STORABLE[name] for name in type_names if name in STORABLE)
        if not isinstance(value, allowed):
            return False
        name = type_name(value) or ""
        if not all(
            kind.fits(getattr(value, key), sizes) for key, kind in FIELDS.get(name, {}).items()
        ):
            return False
        return name not in SOUND or SOUND[name](value)

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


def check_contents(values: Mapping[str, Any], contents: Contents) -> None:
    """Refuse values of attributes that are not of the kinds and shapes which the contents declare."""
    sizes = Sizes()
    for name, (attribute, kind) in contents.items():
        demand(kind.fits(values[attribute], sizes), name)
    for view in values.get("views_", ()):
        demand(_below(np.asarray(view.columns), values["n_features_in_"]), "views")


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
# row numbers where the kernel is precomputed; None: columns of X
POINTS = features("r", "d") | whole("r") | None

CHOSEN_COLUMNS = {"name": TEXT, "columns": whole("_")}  # of an encoding

FIELDS: dict[str, dict[str, Kind]] = {
    "Kernel": {
        "name": function("kernel", (*BUILT_IN_KERNELS, "precomputed")),
        "gamma": FINITE | None,
        "degree": FINITE,
        "coef0": FINITE,
        "scales": several(FINITE, "d") | None,
    },
    "View": {"columns": whole("d"), "kernel": TEXT, "penalty": FINITE, "name": TEXT},
    "Rows": {
        "features": features("n", "d"),
        "scores": any_floats("n"),
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
    "Candidate": {
        **dict.fromkeys(("encoding", "kernel", "views"), TEXT),
        **dict.fromkeys(("width", "strength", "prior", "identity"), FINITE),
        **dict.fromkeys(("relevance", "second_order", "beside"), FLAG),
        "of": several(COUNT),
        "hops": COUNT,
    },
    "Sight": {
        "name": TEXT,
        "encoding": TEXT,
        "columns": whole("_") | None,
        "factors": floats("_") | None,
    },
    "Similarity": {"sight": stored("Sight"), "kernel": TEXT, "gamma": FINITE, "scale": FINITE},
    "ScaledColumns": {
        **CHOSEN_COLUMNS,
        **dict.fromkeys(("low", "high"), any_floats("_")),
        **dict.fromkeys(("centre", "scale"), floats("_")),
    },
    "NormalScores": {**CHOSEN_COLUMNS, "knots": floats("_", "_"), "quantiles": floats("_", "_")},
    "QueryNormalScores": CHOSEN_COLUMNS,
    "ItemIdentity": CHOSEN_COLUMNS,
    "EncodingBeside": {
        "name": TEXT,
        "plain": whole("_"),
        "ranked": stored("NormalScores", "QueryNormalScores"),
        "grouped": stored("ScaledColumns"),
    },
    "Units": {
        **dict.fromkeys(("scores", "roots"), floats("e")),
        **dict.fromkeys(("first", "folds"), whole("e")),
        **dict.fromkeys(("second", "groups", "queries"), whole("e") | None),
        "whole": FLAG,
        "n_points": COUNT,
    },
    "FittedCandidate": {
        "candidate": stored("Candidate"),
        "similarities": several(stored("Similarity")),
        **dict.fromkeys(("weights", "multipliers"), several(FINITE)),
        **dict.fromkeys(("alpha", "amplitude", "level"), FINITE),
        "coefficients": floats("f"),
        "view_coefficients": floats("_", "_") | None,
        "basis": several(floats("_", "_")) | None,
        "means": floats("_") | None,
    },
    "AverageModel": {
        "encodings": several(stored(*ENCODINGS)),
        "points": by_name(features("f", "_")),
        "unscored": by_name(features("_", "_")),
        "view_columns": by_name(several(whole("_"))),
        "candidates": several(stored("FittedCandidate")),
        **dict.fromkeys(("low", "high"), NUMBER),
        **dict.fromkeys(("base", "factor", "least_deviation"), FINITE),
        "units": stored("Units") | None,
        "scored": by_name(features("_", "_")) | None,
        "hops": several(COUNT),
    },
    "WeighedCandidate": {
        "candidate": stored("Candidate"),
        "what": TEXT,
        "weight": NUMBER,
        "error": NUMBER,
    },
    "Path": {
        **{name: any_floats("p") for name in ("alpha", "gamma", "error", "standard_error")},
        **{name: any_floats("p") | None for name in ("agreement", "n_components", "n_atoms")},
        "best": COUNT,
        "scoring": TEXT,
        "constant": NUMBER,
    },
}
FIELDS["PullPath"] = {**FIELDS["Path"], "pull": any_floats("p") | None}


def _sound_rows(rows: Any) -> bool:
    below = rows.queries is None or _below(rows.queries, rows.n_queries)
    weighted = rows.weights is None or bool((rows.weights > 0).all())
    return (
        1 <= rows.n_queries <= max(len(rows.scores), 1)
        and below
        and weighted
        and not np.isinf(rows.scores).any()
    )


def _sound_comparisons(compared: Any) -> bool:
    n_items = compared.features.shape[0]
    return _below(compared.winners, n_items) and _below(compared.losers, n_items)


def _below(numbers: Any, end: int) -> bool:
    return numbers.size == 0 or int(numbers.max()) < end


def _sound_view(view: Any) -> bool:
    columns = np.asarray(view.columns)
    return view.penalty > 0 and len(columns) > 0 and bool((np.diff(columns) > 0).all())


def _sound_candidate(candidate: Any) -> bool:
    positive = candidate.width > 0 and candidate.prior > 0 and candidate.strength >= 0
    return bool(positive and candidate.hops <= MAX_HOPS and 0 <= candidate.identity <= 1)


def _sound_units(units: Any) -> bool:
    codes = [units.folds, units.groups, units.queries]
    points = [units.first, units.second]
    return (
        len(units.scores) > 0
        and bool((units.roots > 0).all())
        and all(code is None or _below(code, len(units.scores)) for code in codes)
        and all(numbers is None or _below(numbers, units.n_points) for numbers in points)
    )


def _sound_columns(encoding: Any) -> bool:
    same = {len(getattr(encoding, name)) for name in ("columns", "low", "high", "centre", "scale")}
    return len(same) == 1 and bool(
        (encoding.scale > 0).all() and (encoding.low <= encoding.high).all()
    )


def _sound_scores(encoding: Any) -> bool:
    knots, quantiles = encoding.knots.shape, encoding.quantiles.shape
    return bool(knots == quantiles and knots[0] == len(encoding.columns))


def _sound_fit(fitted: Any) -> bool:
    if fitted.basis is None:
        return True
    shapes = [matrix.shape for matrix in fitted.basis]
    return len(shapes) == 2 and shapes == [
        (shapes[1][1],) * 2,
        (len(fitted.coefficients), shapes[1][1]),
    ]


def _sound_average(model: Any) -> bool:
    kept = model.scored
    fits = (
        kept is None
        or model.units is None
        or all(m.shape[0] == model.units.n_points for m in kept.values())
    )
    return fits and max(model.hops, default=0) <= MAX_HOPS


# What the fields of an object must be beside each other.
SOUND: dict[str, Callable[[Any], bool]] = {
    "Rows": _sound_rows,
    "ComparedRows": (
        lambda rows: _sound_comparisons(rows) and _below(rows.groups, max(len(rows.groups), 1))
    ),
    "Compared": _sound_comparisons,
    "View": _sound_view,
    "Kernel": lambda kernel: kernel.gamma is None or kernel.gamma > 0,
    "Candidate": _sound_candidate,
    "Units": _sound_units,
    "ScaledColumns": _sound_columns,
    "NormalScores": _sound_scores,
    "FittedCandidate": _sound_fit,
    "AverageModel": _sound_average,
    "Path": lambda path: path.best < max(len(path.error), 1),
}

# The table encoder that may stand beside a learner: what `TableEncoder.to_state` gives, k columns
# of a table.
_TERMS = several(TEXT) | COUNT | None
ENCODER = entries(
    max_categories=COUNT,
    scale=FLAG,
    columns=several(
        entries(
            **dict.fromkeys(("name", "kind", "dropped", "format", "vector"), TEXT),
            **dict.fromkeys(("values", "missing", "other", "year", "season", "clips"), FLAG),
            categories=several(TEXT),
            words=_TERMS,
            characters=_TERMS,
        ),
        "k",
    ),
    **dict.fromkeys(OPTIONS, several(TEXT)),
)
ENCODER_ARRAYS = entries(**dict.fromkeys(SCALING, floats("k")))
TEXT_ARRAYS = entries(idf=floats("t"), components=finite("float32", "_", "t"))
VECTOR_ARRAYS = entries(centres=floats("_"))

# ---------------------------------------------------------------- contents of files, by kind of learner

TRAINING: Contents = {
    "intercept": ("intercept_", FINITE),
    "n_columns": ("n_features_in_", size("d")),
    "column_names": ("feature_names_in_", names("d") | None),
    "with_queries": ("_with_queries", FLAG),
    "rows_seen": ("_n_seen", COUNT),
    "rows_scored": ("_n_scored", COUNT),
    "queries": ("_n_queries", COUNT),
}
# Basis points come before rows, which may be the same array: it is stored once, under the name that
# comes first.
FUNCTION_OF_ONE_VIEW: Contents = {
    **TRAINING,
    "coefficients": ("coef_", floats("r")),
    "kernel": ("_kernel", KERNEL),
    "gamma": ("gamma_", NUMBER | floats("d") | None),
    "basis": ("basis_", whole("r") | None),
    "basis_points": ("basis_points_", POINTS),
    "level": ("_level", FINITE),
}
FUNCTIONS_OF_VIEWS: Contents = {
    **TRAINING,
    "views": ("views_", per_view(stored("View"))),
    "coefficients": ("coef_", per_view(floats("r"))),
    "kernels": ("_kernel", per_view(KERNEL)),
    "gamma": ("gamma_", per_view(NUMBER | None)),
    "basis": ("basis_", per_view(whole("r") | None)),
    "basis_points": ("basis_points_", per_view(POINTS)),
    "agreement": ("agreement_", NUMBER),
    "rows_unscored": ("_n_unscored", COUNT),
}
TUNED: Contents = {"alpha": ("alpha_", FINITE), "path": ("path_", PATH)}
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
    "level": ("_level", FINITE),
    "sweeps": ("n_iter_", COUNT),
    "compared": ("_compared", FLAG),
    "rows": ("_rows", per_view(stored("Rows")) | None),
    "statistics": ("_statistics", per_view(stored("Statistics")) | None),
    "whitenings": ("_whitening", per_view(WHITENING) | None),
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
