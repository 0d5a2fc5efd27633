"""The golden fits give what they gave: a change of code that should not change results has not done
so.

Where a change is deliberate, `python tools/golden.py write` makes the file anew, and the commit
says why.
"""

import numpy as np
import pytest
from golden.fits import FITS, GOLDEN_FILE, distance

pytestmark = pytest.mark.usefixtures("one_blas_thread")

# Kernels of other processors add in another order and round otherwise. The fits are conditioned so
# that this stays far below the tolerance (1e-12 of the spread on five kinds of processor); anything
# above it is another computation.
TOLERANCE = 1e-9


@pytest.fixture(scope="module")
def golden():
    with np.load(GOLDEN_FILE) as kept:
        return dict(kept)


@pytest.mark.parametrize("name", FITS)
def test_golden_fits(name, golden):
    if FITS[name].rows == "torch":
        pytest.importorskip("torch")
    found = FITS[name].results()
    expected = {
        key.partition("/")[2]: values
        for key, values in golden.items()
        if key.partition("/")[0] == name
    }
    assert found.keys() == expected.keys()
    distances = {key: distance(values, found[key]) for key, values in expected.items()}
    assert {key: gap for key, gap in distances.items() if gap > TOLERANCE} == {}


@pytest.mark.parametrize("name", FITS)
def test_golden_fits_state_every_parameter(name):
    """So that a changed default does not touch them."""
    fit = FITS[name]
    assert set(fit.learner().get_params(deep=False)) == set(fit.parameters)


def test_the_golden_file_holds_nothing_else(golden):
    assert {key.partition("/")[0] for key in golden} == set(FITS)
    assert GOLDEN_FILE.stat().st_size < 1e6
