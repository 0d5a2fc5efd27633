"""Whether what a file says of a Gaussian process fits together."""

from __future__ import annotations

from typing import Any

import numpy as np

from corank.learners.soundness import (
    check_counts,
    check_expansion,
    check_gamma,
    check_kernel,
    check_rows,
    check_single,
    demand,
    is_array,
    is_features,
    is_finite,
    is_index,
    is_matrix,
    is_number,
)
from corank.problem import ComparedRows
from corank.solvers.belief import GaussianPart
from corank.solvers.compared import Compared

PARTS = {
    "kernel": "_kernel",
    "parts": "_parts",
    "amplitude": "amplitude_",
    "log_evidence": "log_evidence_",
    "kind": "_kind",
    "n_comparisons": "_n_comparisons",
}


def check_preference(learner: Any) -> None:
    """Refuse fitted attributes of a PreferenceGP that do not fit each other."""
    check_counts(learner)
    check_expansion(learner.coef_, learner._kernel, learner.basis_points_, learner.basis_, learner.n_features_in_)
    check_gamma(learner.gamma_, learner._kernel)
    _check_parts(learner)
    demand(type(learner._whole) is bool and type(learner.n_iter_) is int and learner.n_iter_ > 0, "note on the fit")
    data = learner._data
    demand((data is None) == learner._kernel.precomputed, "comparisons")
    if data is None:
        demand(learner._rows is None, "rows")
        return
    demand(isinstance(data, Compared) and is_array(data.counts, 1), "comparisons")
    rows = _check_items(data, learner.n_features_in_, len(data.counts))
    sound = is_finite(data.counts) and bool(((data.counts > 0) & (data.counts == np.floor(data.counts))).all())
    demand(sound, "comparisons")
    demand(not learner._whole or rows == len(learner.coef_), "compared items")
    demand((learner._rows is None) == (learner._kind == "comparison"), "rows")
    if learner._rows is not None:
        check_rows(learner._rows, learner.n_features_in_)
        demand(is_finite(learner._rows.scores) and len(learner._rows) == rows, "rows")


def check_difference(learner: Any) -> None:
    """The same for a DifferenceGP."""
    check_single(learner)
    _check_parts(learner)
    demand(is_number(learner.noise_) and learner.noise_ > 0, "noise")
    demand(bool(np.isclose(learner.alpha_ * learner.amplitude_, learner.noise_, rtol=1e-9, atol=0)), "noise")
    data = learner._compared
    if data is None:
        demand(learner._kind == "score" or learner._kernel.precomputed, "comparisons")
        return
    demand(learner._kind == "comparison", "comparisons")
    demand(learner._rows is None and learner._statistics is None, "comparisons")
    demand(isinstance(data, ComparedRows) and is_array(data.margins, 1) and len(data.margins) > 0, "comparisons")
    size = len(data.margins)
    _check_items(data, learner.n_features_in_, size)
    demand(is_index(data.groups, size) and type(data.named) is bool, "comparisons")
    demand(is_array(data.weights, 1) and data.weights.shape == (size,), "comparisons")
    demand(is_finite(data.margins) and bool((data.margins >= 0).all()), "comparisons")
    demand(is_finite(data.weights) and bool((data.weights > 0).all()), "comparisons")


def _check_parts(learner: Any) -> None:
    """The belief: at least one part, whose shares add up to 1."""
    parts, size = learner._parts, len(learner.coef_)
    demand(isinstance(parts, list) and len(parts) > 0, "belief")
    demand(is_number(learner.amplitude_) and learner.amplitude_ > 0 and is_number(learner.log_evidence_), "belief")
    for part in parts:
        demand(isinstance(part, GaussianPart) and is_number(part.weight) and part.weight >= 0, "belief")
        check_kernel(part.kernel)
        demand(part.kernel.precomputed == learner._kernel.precomputed, "belief")
        demand(part.kernel.scales is None or len(part.kernel.scales) == learner.n_features_in_, "belief")
        demand(is_number(part.amplitude) and part.amplitude > 0, "belief")
        demand(is_array(part.coefficients, 1) and part.coefficients.shape == (size,), "belief")
        demand(is_finite(part.coefficients) and is_matrix(part.spread, (size, size)), "belief")
        demand(
            bool(np.allclose(part.spread, part.spread.T, rtol=1e-6, atol=1e-6 * np.abs(part.spread).max())), "belief"
        )
    demand(bool(np.isclose(sum(part.weight for part in parts), 1.0)), "belief")
    first = parts[0]
    demand(np.array_equal(first.coefficients, learner.coef_) and first.amplitude == learner.amplitude_, "belief")
    demand(first.kernel == learner._kernel, "belief")
    demand(learner._kind in ("score", "comparison"), "note on the fit")
    demand(type(learner._n_comparisons) is int and 0 <= learner._n_comparisons < 2**62, "note on the fit")


def _check_items(data: Any, columns: int, size: int) -> int:
    """Items of so many comparisons; returns how many."""
    shape: Any = getattr(data.features, "shape", ())
    demand(len(shape) == 2 and is_features(data.features, shape[0], columns), "compared items")
    ends = (data.winners, data.losers)
    demand(all(is_index(end, size, shape[0]) for end in ends) and bool((ends[0] != ends[1]).all()), "comparisons")
    return int(shape[0])
