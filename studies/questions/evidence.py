"""Is the evidence that PreferenceGP reaches the largest? Ten searches from random starts beside its
own.

The data are those of the benchmark preference-1000: 1,000 items, 2,000 comparisons.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from benchmarks.comparison_cases import make_comparisons

from corank import PreferenceGP
from corank.core.basis import KernelBasis
from corank.core.kernels import Kernel, scale_gamma
from corank.solve.expectation_propagation import PairData
from corank.solve.preference import Ascent, EvidenceSearch, PreferenceTask
from studies.questions.methods import Results
from studies.study import Outcome, Part, Result, Settings, Study, Table

N_STARTS = 10
SAME = 0.01  # differences of the log evidence up to it do not count
WIDTHS: dict[str, Literal["given", "one", "each"]] = {
    "tune": "one",
    "columns": "each",
}  # gamma → the widths that are searched


def parts(settings: Settings) -> list[Part]:
    """One part per way of choosing widths."""
    return [Part(f"gamma {gamma}", run, {"gamma": gamma}) for gamma in WIDTHS]


def run(settings: Settings, rng: np.random.Generator, gamma: str) -> Result:
    """The evidence that the learner reaches, and that of every random start."""
    data = make_comparisons(*((60, 150) if settings.quick else (1_000, 2_000)))
    learner = PreferenceGP(gamma=gamma).fit_comparisons(data.X, data.winners, data.losers)
    used = np.unique(np.concatenate([data.winners, data.losers]))
    items, winners, losers = (
        data.X[used],
        np.searchsorted(used, data.winners),
        np.searchsorted(used, data.losers),
    )
    compared = PairData.merged(items, winners, losers, np.ones(len(winners)))
    basis = KernelBasis(Kernel("rbf", scale_gamma(items)), items)
    ascent = Ascent(
        PreferenceTask(compared, basis, whole=True), EvidenceSearch(None, WIDTHS[gamma])
    )
    rng = np.random.default_rng(0)
    evidence = []
    for _ in range(N_STARTS):
        start = np.r_[
            rng.uniform(np.log(0.1), np.log(100.0)), rng.uniform(-3.0, 3.0, ascent.n_widths)
        ]
        ascent.sites = None
        place, _unit = ascent.climb(start, np.ones(ascent.size))
        evidence.append(float(ascent.fitted(place).posterior.log_evidence))
    return {"learner": float(learner.log_evidence_), "starts": evidence}


def conclude(settings: Settings, results: Results) -> Outcome:
    """The learner's evidence beside the best of the random starts."""
    rows = []
    for key, result in results.items():
        learner, best = result["learner"], max(result["starts"])
        n_best = sum(value > best - SAME for value in result["starts"])
        rows.append(
            (
                key,
                f"{learner:.3f}",
                f"{best - learner:+.3f}",
                f"{n_best} of {len(result['starts'])}",
            )
        )
    head = ("widths", "learner", "best start minus learner", "starts that reach the best")
    return Outcome([Table("Log evidence", head, rows)], n_fits=len(results) * (N_STARTS + 1))


STUDY = Study(
    name="evidence",
    title="The evidence of PreferenceGP beside random starts",
    about=(
        f"1,000 items, 2,000 comparisons, one width or one per column; {N_STARTS} searches from"
        " random starts."
    ),
    parts=parts,
    conclude=conclude,
    fixed_draws=True,
    with_results=True,
)
STUDIES = (STUDY,)
