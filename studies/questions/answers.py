"""What people answer when they are asked to compare: orders of sushi, and what several studies need around them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import numpy as np

from studies.questions.data import SUSHI, Integers


@lru_cache(maxsize=1)
def sushi_orders(folder: Path) -> Integers:
    """(5000, 10): the ten kinds of sushi that each user put in order, the best first; row numbers of `sushi().items`."""
    with np.load(folder / SUSHI[0]) as data:
        return np.asarray(data["order_b"], dtype=np.int64)


@contextmanager
def expected_parts() -> Iterator[None]:
    """A few comparisons drawn at random do not hang together: no news here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the comparisons fall into")
        yield
