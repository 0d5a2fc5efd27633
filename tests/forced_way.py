"""Held-out errors found in one way, whatever the sizes call for."""

from contextlib import contextmanager

import pytest


@contextmanager
def forced(way):
    """Fits inside the block find held-out errors in a way; "auto" leaves the choice to them."""
    with pytest.MonkeyPatch.context() as patch:
        if way != "auto":
            for module in ("holdout", "tuning"):
                patch.setattr(f"corank.solve.{module}.hold_out_way", lambda system, folds: way)
        yield
