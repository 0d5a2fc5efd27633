"""BoTorch's PairwiseGP as its tutorial uses it: inputs scaled to the unit cube, its own priors, one width a column.

Imported only where it is installed.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from scipy.special import ndtr

from studies.questions.data import Floats, Integers

Chances: TypeAlias = Callable[
    [Floats, Integers, Integers], Floats
]  # rows, and row numbers a, b → P(a is said to beat b)
ANSWER_NOISE = 2.0  # PairwiseProbitLikelihood divides a difference by √2


def installed() -> bool:
    return importlib.util.find_spec("botorch") is not None


def fit_pairwise_gp(X: Floats, winners: Integers, losers: Integers) -> Chances:
    """Fitted by its own marginal likelihood (Laplace), on one thread."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of torch, when GPyTorch is imported
        import torch
        from botorch.fit import fit_gpytorch_mll
        from botorch.models.pairwise_gp import PairwiseGP, PairwiseLaplaceMarginalLogLikelihood
        from botorch.models.transforms.input import Normalize

    torch.set_num_threads(1)
    pairs = torch.as_tensor(np.stack([winners, losers], axis=1))
    model = PairwiseGP(torch.as_tensor(X), pairs, input_transform=Normalize(d=X.shape[1]))
    fit_gpytorch_mll(PairwiseLaplaceMarginalLogLikelihood(model.likelihood, model))
    return lambda rows, first, second: _chances(model, rows, first, second)


def _chances(model: Any, rows: Floats, first: Integers, second: Integers) -> Floats:
    """Of noisy answers, from the joint posterior of all rows."""
    import torch

    with torch.no_grad():
        posterior = model.posterior(torch.as_tensor(rows))
        mean = posterior.mean[:, 0].numpy()
        covariance = posterior.distribution.covariance_matrix.numpy()
    own = np.diag(covariance)
    variance = np.maximum(own[first] + own[second] - 2 * covariance[first, second], 0.0)
    return np.asarray(ndtr((mean[first] - mean[second]) / np.sqrt(ANSWER_NOISE + variance)))
