"""What model files may hold: dataclasses and functions, registered under names that outlive those
of the code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

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
    return next(
        (name for name, storable_type in STORABLE.items() if storable_type is type(value)), None
    )


def function_name(function: object) -> str | None:
    """The name under which a function was registered, None where it was not."""
    return next(
        (name for name, registered in NAMED_FUNCTIONS.items() if registered is function), None
    )
