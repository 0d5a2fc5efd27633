"""002 sect. 6.1 on any queries: regression and ranking, in the whole space and on components, from noisy scores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from corank import KPCR, RLS, KPCRank, RankRLS
from corank.metrics import disagreement_error
from studies.papers.data_sets import Rankings

LEVELS = (0.0, 0.5, 1.0)  # standard deviations, in ranges of the score
LEARNERS: dict[str, Any] = {"KPCR": KPCR, "KPCRank": KPCRank, "RLS": RLS, "RankRLS": RankRLS}
PAPER = {  # 002 table 1
    "KPCR": (0.40, 0.46, 0.47),
    "KPCRank": (0.37, 0.41, 0.42),
    "RLS": (0.34, 0.43, 0.46),
    "RankRLS": (0.35, 0.45, 0.47),
}


def noisy(
    train: Rankings, test: Rankings, spread: float, arguments: Mapping[str, Any], rng: np.random.Generator
) -> dict[str, dict[str, list[float]]]:
    """Errors on every test query by level of noise and method; training scores get noise, test scores do not.

    `spread`: the range of the scores. Everything is tuned by leave-query-out, the regressors too.
    """
    noise = rng.standard_normal(len(train.y))
    found: dict[str, dict[str, list[float]]] = {}
    for level in LEVELS:
        y = train.y + level * spread * noise
        found[str(level)] = own = {}
        for name, learner in LEARNERS.items():
            model = learner(**arguments).fit(train.X, y, qid=train.qid)
            errors = disagreement_error(test.y, model.predict(test.X), qid=test.qid, average=False)
            own[name] = [round(float(error), 6) for error in errors]
    return found
