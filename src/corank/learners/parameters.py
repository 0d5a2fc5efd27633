"""Checks of parameters that learners share: each refuses with one sentence that names the parameter."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from corank._backend import to_numpy
from corank.comparison import WEIGHTINGS, Comparison, blend
from corank.kernels import Kernel, is_registered, kernel_names


def read_kernel(kernel: Any, degree: Any, coef0: Any, kernel_params: Any) -> Kernel:
    """The kernel, its width still open."""
    if isinstance(kernel, str):
        if kernel not in kernel_names():
            raise ValueError(f"kernel {kernel!r} is not known; choose from {', '.join(kernel_names())}.")
    elif not callable(kernel):
        raise TypeError(f"kernel must be a name or a function, got {kernel!r}.")
    if kernel_params and isinstance(kernel, str) and not is_registered(kernel):
        raise ValueError(f"kernel_params go with a kernel function, not with kernel={kernel!r}.")
    for name, value in (("degree", degree), ("coef0", coef0)):
        if not isinstance(value, Real) or not math.isfinite(value):
            raise ValueError(f"{name} must be a number, got {value!r}.")
    return Kernel(kernel, None, degree, coef0, dict(kernel_params or {}))


def read_comparison(weighting: Any, beta: Any) -> Comparison:
    """What a ranker compares."""
    if weighting not in WEIGHTINGS:
        raise ValueError(f"weighting {weighting!r} is not known; use 'size', 'unit' or 'query'.")
    if not isinstance(beta, Real) or not 0 <= float(beta) <= 1:
        raise ValueError(f"beta must lie between 0 (ranking) and 1 (regression), got {beta!r}.")
    return blend(weighting, float(beta))


def check_choice(value: Any, name: str, choices: tuple[Any, ...]) -> None:
    """Refuse a value that is none of the choices."""
    if not any(value is choice or (isinstance(value, str) and value == choice) for choice in choices):
        raise ValueError(f"{name} {value!r} is not known; use {' or '.join(map(repr, choices))}.")


def check_weights(comparison: Comparison, sample_weight: Any) -> None:
    """Refuse weights where every query counts the same."""
    if sample_weight is not None and getattr(comparison, "weighting", None) == "query":
        raise ValueError(
            "sample_weight does not go with weighting='query', which gives every query the same weight; "
            "use weighting='size' or 'unit'."
        )


def candidates(value: Any, name: str, words: tuple[str, ...], *, zero: bool = False) -> float | str | tuple[float, ...]:
    """A number, one of the words, or a list of numbers; greater than 0, or 0 too where `zero`."""
    if isinstance(value, str):
        if value not in words:
            choices = [*map(repr, words), "a number or a list"]
            raise ValueError(f"{name} {value!r} is not known; use {', '.join(choices)}.")
        return value
    if isinstance(value, Mapping | bool) or value is None:
        choices = ["a number", *map(repr, words)]
        raise ValueError(f"{name} must be {', '.join(choices)} or a list of numbers, got {value!r}.")
    try:
        numbers = np.asarray(to_numpy(value), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be a number or a list of numbers, got {value!r}.") from error
    fitting = np.isfinite(numbers) & ((numbers >= 0) if zero else (numbers > 0))
    if numbers.size == 0 or numbers.ndim > 1 or not np.all(fitting):
        raise ValueError(f"{name} must be {'0 or more' if zero else 'greater than 0'}, got {value!r}.")
    return float(numbers) if numbers.ndim == 0 else tuple(float(number) for number in numbers)


def seed(random_state: Any) -> int:
    """None means the same choices every time."""
    return 0 if random_state is None else int(check_random_state(random_state).randint(2**31 - 1))
