"""Fixtures shared by the tests."""

import tracemalloc
from contextlib import contextmanager

import pytest
from hypothesis import settings
from threadpoolctl import threadpool_limits

from corank.core.storable import NAMED_FUNCTIONS

# The same examples every time, however slow the machine.
settings.register_profile("corank", deadline=None, derandomize=True)
settings.load_profile("corank")


@pytest.fixture
def memory_limit():
    """`with memory_limit(megabytes):` fails when the block allocates more than that at any moment."""

    @contextmanager
    def limit(megabytes):
        tracemalloc.start()
        try:
            yield
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < megabytes * 1e6, f"{peak / 1e6:.1f} MB at the peak, {megabytes} allowed"

    return limit


@pytest.fixture(scope="module")
def one_blas_thread():
    """For modules of many small problems, where a second thread only waits."""
    with threadpool_limits(1):
        yield


@pytest.fixture
def named_functions():
    """The functions that were given to `register_kernel`: none at first, and those of before at the
    end.
    """
    before = dict(NAMED_FUNCTIONS)
    NAMED_FUNCTIONS.clear()
    yield NAMED_FUNCTIONS
    NAMED_FUNCTIONS.clear()
    NAMED_FUNCTIONS.update(before)
