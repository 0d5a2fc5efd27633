"""What model files may hold: dataclasses and functions, registered under names that outlive those
of the code; and what a field of a stored object, or an attribute of a stored model, must be: its
kind and shape.

The type of a field says its kind; one that does not, such as an array, is `Annotated` with it:
`mean: Annotated[Array, floats("w")]`. Fields without a kind may hold anything.

Shapes are written with symbols, as in `floats("r")` or `feature_rows("r", "d") | None`. A symbol stands
for one size throughout a file, and for one size per view inside `per_view`; one that begins with
a point for one size inside its object; "_" for any size. The symbols: d columns, r basis rows or
distinct atoms, n kept rows, p candidates of a path, w summed features, i compared items, c
comparisons, u unscored rows, J judges, s steps of a pursuit, k columns of a table, t terms of a text, e units
and f points of an average, M views.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache, reduce
from operator import or_
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    Protocol,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    runtime_checkable,
)

import numpy as np

from corank.core.arrays import NumpyArray, is_sparse

AnyType = TypeVar("AnyType", bound=type)

STORABLE: dict[str, type] = {}  # dataclasses by their names in files
# functions by the names under which they were registered
NAMED_FUNCTIONS: dict[str, Callable[..., Any]] = {}
BUILT_IN_KERNELS = (  # scikit-learn's names, and "exponential"
    "additive_chi2",
    "chi2",
    "cosine",
    "exponential",
    "laplacian",
    "linear",
    "poly",
    "polynomial",
    "rbf",
    "sigmoid",
)
# in the metadata of a field with a default, which files of earlier versions lack
ADDED_LATER = "added later"
LARGEST_NUMBER = 1e150  # its square is a number too
LARGEST_COUNT = 2**53


class ModelFileError(ValueError):
    """A file that cannot be read as a model; the message says what is wrong with it."""


def storable(name: str) -> Callable[[AnyType], AnyType]:
    """Class decorator: model files may hold objects of this dataclass, under a name that outlives
    the class name.
    """

    def register(dataclass_type: AnyType) -> AnyType:
        STORABLE[name] = dataclass_type
        return dataclass_type

    return register


def type_name(value: object) -> str | None:
    """The name in files of the type of a value, None where it is not storable."""
    return next((name for name, stored in STORABLE.items() if stored is type(value)), None)


def function_name(function: object) -> str | None:
    """The name under which a function was registered, None where it was not."""
    return next((name for name, known in NAMED_FUNCTIONS.items() if known is function), None)


# ---- kinds


@dataclass(frozen=True)
class Sizes:
    """The sizes that symbols stand for, remembered when a symbol is met for the first time.

    in_file : by symbol and view; in_object : by symbol
    view : the view inside which symbols are read, None outside of views
    """

    in_file: dict[tuple[str, int | None], int] = field(default_factory=dict)
    in_object: dict[str, int] = field(default_factory=dict)
    view: int | None = None

    def of(self, symbol: str, size: int) -> int:
        """The size that a symbol stands for: the given one where it was not met before."""
        if symbol == "_":
            return size
        if symbol.startswith("."):
            return self.in_object.setdefault(symbol, size)
        return self.in_file.setdefault((symbol, self.view), size)

    def agree(self, shape: tuple[int, ...], symbols: tuple[str, ...]) -> bool:
        """Whether a shape has the sizes of its symbols."""
        if len(shape) != len(symbols):
            return False
        return all(
            self.of(symbol, size) == size for symbol, size in zip(symbols, shape, strict=True)
        )


@dataclass(frozen=True)
class Kind:
    """A kind of value: `fits` says whether a value is of this kind, with the sizes that are known
    so far.

    added_later : whether older files may lack it; it is None then
    """

    fits: Callable[[Any, Sizes], bool]
    added_later: bool = False

    def __or__(self, other: Kind | None) -> Kind:
        other = other or NONE
        return Kind(lambda value, sizes: self.fits(value, sizes) or other.fits(value, sizes))


def later(kind: Kind) -> Kind:
    """A kind of value that files of earlier versions lack."""
    return replace(kind | None, added_later=True)


ANYTHING = Kind(lambda value, _: True)
NONE = Kind(lambda value, _: value is None)
NUMBER = Kind(lambda value, _: type(value) in (int, float))
# NaN is not less
FINITE = Kind(lambda value, _: type(value) in (int, float) and abs(value) < LARGEST_NUMBER)
COUNT = Kind(lambda value, _: type(value) is int and 0 <= value < LARGEST_COUNT)
FLAG = Kind(lambda value, _: type(value) is bool)
TEXT = Kind(lambda value, _: isinstance(value, str))

Finite: TypeAlias = Annotated[float, FINITE]


# ---- numbers and arrays


def size(symbol: str) -> Kind:
    """The number that a symbol stands for."""
    return Kind(lambda value, sizes: COUNT.fits(value, sizes) and sizes.of(symbol, value) == value)


def array(type_name: str, *symbols: str) -> Kind:
    """An array of one type."""

    return Kind(
        lambda value, sizes: (
            isinstance(value, np.ndarray)
            and value.dtype.name == type_name
            and sizes.agree(value.shape, symbols)
        )
    )


def finite(type_name: str, *symbols: str) -> Kind:
    """An array of one type without NaN and infinity."""
    values = array(type_name, *symbols)
    return Kind(lambda value, sizes: values.fits(value, sizes) and bool(np.isfinite(value).all()))


def floats(*symbols: str) -> Kind:
    """An array of float64 without NaN and infinity."""
    return finite("float64", *symbols)


def any_floats(*symbols: str) -> Kind:
    """An array of float64 in which NaN and infinity have a meaning."""
    return array("float64", *symbols)


def whole(*symbols: str, below: str = "") -> Kind:
    """An array of int64 from 0: row numbers, column numbers or codes, which lie below the size of a
    symbol where one is named.
    """
    values = array("int64", *symbols)

    def fits(value: Any, sizes: Sizes) -> bool:
        if not values.fits(value, sizes) or (value < 0).any():
            return False
        return not below or are_below(value, sizes.of(below, 0))

    return Kind(fits)


def are_below(numbers: NumpyArray | None, end: int) -> bool:
    """Whether numbers, where there are any, are less than an end."""
    return numbers is None or bool((numbers < end).all())


def feature_rows(rows: str, columns: str) -> Kind:
    """Features of rows: a matrix of float64 or float32, or CSR, without NaN and infinity; or of
    objects.
    """
    shape = rows, columns
    dense = floats(*shape) | finite("float32", *shape) | array("object", *shape)

    def fits(value: Any, sizes: Sizes) -> bool:
        if not is_sparse(value):
            return dense.fits(value, sizes)
        known = value.dtype.name in ("float64", "float32") and bool(np.isfinite(value.data).all())
        return known and sizes.agree(value.shape, shape)

    return Kind(fits)


def names(symbol: str) -> Kind:
    """An array of text, as scikit-learn keeps the names of columns."""
    return array("object", symbol)


# ---- several values


def several(kind: Kind, symbol: str = "_") -> Kind:
    """A list or a tuple of values of one kind."""

    return Kind(
        lambda value, sizes: (
            isinstance(value, list | tuple)
            and sizes.agree((len(value),), (symbol,))
            and all(kind.fits(item, sizes) for item in value)
        )
    )


def pair(first: Kind, second: Kind) -> Kind:
    """A list or a tuple of two values."""

    return Kind(
        lambda value, sizes: (
            isinstance(value, list | tuple)
            and len(value) == 2
            and first.fits(value[0], sizes)
            and second.fits(value[1], sizes)
        )
    )


def per_view(kind: Kind) -> Kind:
    """A list with one value per view, in which symbols stand for sizes of that view."""

    def fits(value: Any, sizes: Sizes) -> bool:
        if not isinstance(value, list) or not value or not sizes.agree((len(value),), ("M",)):
            return False
        return all(
            kind.fits(item, replace(sizes, view=number)) for number, item in enumerate(value)
        )

    return Kind(fits)


def by_name(kind: Kind) -> Kind:
    """A dict from any names to values of one kind."""

    return Kind(
        lambda value, sizes: (
            isinstance(value, dict)
            and all(isinstance(key, str) for key in value)
            and all(kind.fits(item, sizes) for item in value.values())
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


# ---- objects


@runtime_checkable
class Checked(Protocol):
    """A stored object whose fields must go together."""

    def is_sound(self) -> bool:
        """Whether they do."""
        ...


def stored(*type_names: str) -> Kind:
    """An object of one of these storable types, or of a type derived from one, whose fields are of
    their kinds and go together.
    """

    def fits(value: Any, sizes: Sizes) -> bool:
        allowed = tuple(STORABLE[name] for name in type_names if name in STORABLE)
        if not isinstance(value, allowed):
            return False
        inside = replace(sizes, in_object={})
        kinds = kinds_of_fields(type(value))  # type: ignore[arg-type]
        if not all(kind.fits(getattr(value, name), inside) for name, kind in kinds.items()):
            return False
        return not isinstance(value, Checked) or value.is_sound()

    return Kind(fits)


@cache
def kinds_of_fields(storable_type: type) -> dict[str, Kind]:
    """The kinds of the fields of a dataclass."""
    types = get_type_hints(storable_type, include_extras=True)
    return {field.name: kind_of(types[field.name]) for field in fields(storable_type)}


def kind_of(field_type: Any) -> Kind:
    """The kind of the values of a type."""
    origin, inner = get_origin(field_type), get_args(field_type)
    if origin is Annotated:
        return inner[1]  # type: ignore[no-any-return]
    if origin in (Union, UnionType):
        return reduce(or_, map(kind_of, inner))
    if origin in (list, tuple, Sequence):
        return several(kind_of(inner[0]))
    if origin is Literal:
        return TEXT
    for name, storable_type in STORABLE.items():
        if storable_type is field_type:
            return stored(name)
    return KINDS_OF_TYPES.get(field_type, ANYTHING)


KINDS_OF_TYPES = {bool: FLAG, int: COUNT, float: NUMBER, str: TEXT, NoneType: NONE}
