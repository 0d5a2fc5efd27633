"""Stand-ins for scikit-learn in commands that only load a model and predict, which would wait
longest for its import.

`corank.cli.main` puts this module in the place of `_scikit_learn`, in a process that does nothing
else. Models are fitted and rows are arrays of numbers there: what such commands cannot do is left
out.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import signature
from typing import Any


class BaseEstimator:
    """Parameters by name."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """What the estimator was made with."""
        return {name: getattr(self, name) for name in sorted(signature(type(self)).parameters)}


class OneToOneFeatureMixin:
    """Nothing that a loaded model needs."""


class RegressorMixin:
    """Marks regressors."""


class TransformerMixin:
    """Nothing that a loaded model needs."""


class ConvergenceWarning(UserWarning):
    """Raised by fits alone."""


class DataConversionWarning(UserWarning):
    """Raised where scores are read."""


class _OptionalMethod:
    """A method that objects have which pass a check."""

    def __init__(self, method: Any, check: Callable[[Any], bool]) -> None:
        self._method, self._check = method, check

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is not None and not self._check(instance):
            raise AttributeError(self._method.__name__)
        return self._method.__get__(instance, owner)


def available_if(check: Callable[[Any], bool]) -> Callable[[Any], Any]:
    """Make a method one that objects have which pass a check."""
    return partial(_OptionalMethod, check=check)


def check_is_fitted(estimator: Any) -> None:
    """A loaded model is fitted."""


def is_regressor(estimator: Any) -> bool:
    """Whether predictions are scores, and not only in their order."""
    return isinstance(estimator, RegressorMixin)


def validate_data(estimator: Any, X: Any, **options: Any) -> Any:
    """X (n, d), an array of numbers or CSR, refused where it has no row or another number of
    columns than the model.
    """
    n, d = X.shape
    if n == 0:
        raise ValueError(
            f"Found array with 0 sample(s) (shape={X.shape}) while a minimum of 1 is required."
        )
    if d != estimator.n_features_in_:
        name = type(estimator).__name__
        raise ValueError(
            f"X has {d} features, but {name} is expecting {estimator.n_features_in_} features as"
            " input."
        )
    return X


__all__ = [
    "BaseEstimator",
    "ConvergenceWarning",
    "DataConversionWarning",
    "OneToOneFeatureMixin",
    "RegressorMixin",
    "TransformerMixin",
    "available_if",
    "check_is_fitted",
    "is_regressor",
    "validate_data",
]
