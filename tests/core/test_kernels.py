"""Kernels of distances: values, near-equal rows, array libraries, CSR."""

import numpy as np
import pytest
from brute_force import kernel, small_problem
from scipy import sparse

from corank.core.arrays import to_numpy
from corank.core.kernels import Kernel, column_shares, scale_gamma

X, NEW = small_problem().X, small_problem().X_new
EXPONENTIAL = Kernel("exponential", 0.4)


def as_library(library, rows):
    if library == "csr":
        return sparse.csr_array(rows)
    return rows if library == "numpy" else pytest.importorskip(library).asarray(rows)


every_library = pytest.mark.parametrize("library", ["numpy", "csr", "torch", "array_api_strict"])


@every_library
@pytest.mark.parametrize("name", ["exponential", "laplacian"])
def test_values_are_exponentials_of_the_distance(library, name):
    found = Kernel(name, 0.4).block(as_library(library, NEW), as_library(library, X))
    np.testing.assert_allclose(to_numpy(found), kernel(name, 0.4)(NEW, X), rtol=1e-12)


@every_library
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_equal_rows_are_alike(library, offset):
    rows = as_library(library, np.vstack([X, X]) + offset)
    values = to_numpy(EXPONENTIAL.block(rows, as_library(library, X + offset)))
    n = len(X)
    assert (np.diag(values[:n]) == 1).all()
    assert (np.diag(values[n:]) == 1).all()
    assert (to_numpy(EXPONENTIAL.diagonal(rows)) == 1).all()


@pytest.mark.parametrize("library", ["numpy", "torch", "array_api_strict"])
def test_values_of_nearly_equal_rows_have_all_their_digits(library):
    rows = np.full((5, 3), 7.0)
    rows[:, 0] += [0.0, 2.0**-40, 2.0**-30, 2.0**-20, 2.0**-10]
    both = as_library(library, rows)
    away = -np.log(to_numpy(EXPONENTIAL.block(both, both))[0]) / 0.4
    np.testing.assert_allclose(away, rows[:, 0] - 7.0, rtol=1e-3, atol=1e-15)


def test_values_of_nearly_equal_csr_rows_are_off_by_rounding():
    steps = np.geomspace(1e-12, 1.0, 200)
    rows = np.full((200, 3), 7.0)
    rows[:, 0] += steps
    away = -np.log(EXPONENTIAL.block(sparse.csr_array(rows), sparse.csr_array([[7.0, 7.0, 7.0]])))
    np.testing.assert_allclose(away[:, 0] / 0.4, steps, atol=2e-6)
    assert (np.diff(away[:, 0]) >= -1e-6).all()


def test_written_values_are_those_of_a_block():
    out = np.empty((len(NEW), 2 * len(X)))[:, ::2]
    EXPONENTIAL.write(NEW, X, out)
    np.testing.assert_array_equal(out, EXPONENTIAL.block(NEW, X))


def test_scale_width_has_the_units_of_a_distance():
    assert EXPONENTIAL.scale_width(1000 * X) == pytest.approx(EXPONENTIAL.scale_width(X) / 1000)
    assert EXPONENTIAL.scale_width(X) == pytest.approx(np.sqrt(scale_gamma(X)))
    assert Kernel("laplacian").scale_width(X) == scale_gamma(X)


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_shares_of_columns_are_those_of_all_pairs(kind, power):
    rows = X * [3.0, 1.0, 0.1, *[0.0] * (X.shape[1] - 3)]
    expected = (np.abs(rows[:, None] - rows[None]) ** power).sum(axis=(0, 1))
    found = column_shares(sparse.csr_array(rows) if kind == "csr" else rows, power)
    np.testing.assert_allclose(found, expected / expected.sum(), atol=1e-12)
    np.testing.assert_array_equal(column_shares(np.ones((4, 2)), power), 0)
