"""The type of a field says what a file may hold there."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import pytest

from corank.core.kernels import Kernel
from corank.core.observations import ScoredRows
from corank.core.storable import (
    ANYTHING,
    FINITE,
    STORABLE,
    Sizes,
    floats,
    kind_of,
    kinds_of_fields,
    pair,
    per_view,
    stored,
    whole,
)
from corank.core.sums import Gram, Statistics
from corank.core.views import View
from corank.learners.average.coefficients import FittedCandidate
from corank.learners.average.model import AverageModel


@dataclass(frozen=True)
class Scaled:
    columns: Annotated[np.ndarray, whole(".k", below="d")]
    factors: Annotated[np.ndarray, floats(".k")]
    label: Literal["one", "two"] = "one"
    several: Sequence[int] = ()

    def is_sound(self):
        return bool((self.factors > 0).all())


@pytest.fixture
def scaled_is_storable(monkeypatch):
    monkeypatch.setitem(STORABLE, "Scaled", Scaled)
    return stored("Scaled")


def scaled(columns, factors, **more):
    return Scaled(np.array(columns), np.array(factors, dtype=float), **more)


@pytest.mark.parametrize(
    ("field_type", "sound", "unsound"),
    [
        (float, [1.0, 2, float("nan")], [True, "1", None]),
        (Annotated[float, FINITE], [1.0, 2], [float("nan"), 1e200]),
        (int, [0, 3], [-1, 2**60, 1.0, True]),
        (bool, [True], [1, None]),
        (str, ["a"], [1, None]),
        (Literal["a", "b"], ["a"], [1]),
        (float | None, [1.0, None], ["1"]),
        (tuple[int, ...], [(), [1, 2], (3,)], [(-1,), 1]),
        (np.ndarray, [np.zeros(2), "anything"], []),
    ],
)
def test_a_type_is_a_kind(field_type, sound, unsound):
    kind = kind_of(field_type)
    assert all(kind.fits(value, Sizes()) for value in sound)
    assert not any(kind.fits(value, Sizes()) for value in unsound)


def test_fields_of_an_object_are_checked_and_must_go_together(scaled_is_storable):
    sizes = Sizes()
    assert sizes.agree((3,), ("d",))
    assert scaled_is_storable.fits(scaled([0, 2], [1, 2], several=[1]), sizes)
    assert scaled_is_storable.fits(scaled([1], [1]), sizes)  # a size of its own
    assert not scaled_is_storable.fits(scaled([0, 3], [1, 2]), sizes)  # of three columns
    assert not scaled_is_storable.fits(scaled([0, 2], [1]), sizes)
    assert not scaled_is_storable.fits(scaled([0, 2], [1, -2]), sizes)
    assert not scaled_is_storable.fits(scaled([0, 2], [1, 2], several=["1"]), sizes)
    assert not scaled_is_storable.fits("Scaled", sizes)


def test_symbols_stand_for_one_size_per_view():
    kind = per_view(pair(floats("r"), floats("r")))
    first, second = [np.zeros(2), np.zeros(2)], [np.zeros(3), np.zeros(3)]
    assert kind.fits([first, second], Sizes())
    assert not kind.fits([first, [np.zeros(3), np.zeros(2)]], Sizes())
    assert not kind.fits([], Sizes())


def test_every_array_in_a_model_file_has_a_kind():
    kinds = {
        (stored_type.__name__, field): kind
        for stored_type in (
            ScoredRows,
            Statistics,
            Gram,
            Kernel,
            View,
            AverageModel,
            FittedCandidate,
        )
        for field, kind in kinds_of_fields(stored_type).items()
    }
    # what a user gave, which predictions do not read, or functions of their own do
    open_fields = {("Kernel", "params"), ("View", "gamma"), ("View", "basis")}
    assert {place for place, kind in kinds.items() if kind is ANYTHING} == open_fields
