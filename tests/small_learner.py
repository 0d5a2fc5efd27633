"""A learner of one's own, as short as it gets: what `declare` makes of it is tested in
learners/test_registry.py.
"""

from dataclasses import dataclass, replace

from corank.core.arrays import namespace, to_numpy
from corank.core.kernels import scale_gamma
from corank.core.registry import LearnerRecord
from corank.inputs import read_rows
from corank.learners.base import Learner, RankerMixin
from corank.learners.parameters import KernelParameters, read_kernel
from corank.solve.function import Function, Span


@dataclass(eq=False, repr=False)
class KernelMean(RankerMixin, KernelParameters, Learner):
    """Ranks by how near a row lies to rows with high scores: f(x) = Σ_i w_i (s_i − s̄) k(x, x_i) /
    Σ_i w_i.
    """

    sharpness: float = 1.0

    def fit(self, X, y, *, qid=None, sample_weight=None):
        everything, rows = read_rows(self, X, y, qid, sample_weight)
        kernel = read_kernel(self.kernel, self.degree, self.coef0, self.kernel_params)
        width = (
            scale_gamma(rows.features, rows.weights) if isinstance(self.gamma, str) else self.gamma
        )
        kernel = replace(kernel, gamma=self.sharpness * width)
        centred = rows.scores - rows.mean_score
        weights = namespace(centred).ones_like(centred) if rows.weights is None else rows.weights
        coefficients = weights * centred / namespace(centred).sum(weights)
        span = Span(kernel, rows.features, rows=to_numpy(rows.index))
        self.function_ = Function.mean([span], [coefficients], level=0.0)
        self.keep_counts(
            seen=int(everything.shape[0]),
            scored=len(rows),
            queries=rows.n_queries,
            with_queries=qid is not None,
        )
        return self


RECORD = LearnerRecord(
    "KernelMean", __name__, "kernelmean", "ranks items by how near they lie to good ones"
)
