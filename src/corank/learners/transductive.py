"""TransductiveRankRLS: ranking items that are known in advance, by completing their scores
([Pahikkala2007]).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from corank.core.arrays import Array, Index, dtype_name, is_sparse, like, stack_rows, to_numpy
from corank.core.kernels import MEAN_LENGTH, inverse_length, is_named
from corank.core.messages import warn_user
from corank.core.observations import ScoredRows, warn_of_ties
from corank.core.queries import encode_queries, query_codes
from corank.core.storable import ADDED_LATER
from corank.core.unscored import UnscoredRows
from corank.inputs import read_rows, unscored_parts
from corank.learners.base import OneViewLearner, RankerMixin
from corank.learners.parameters import (
    WITH_UNSCORED,
    BasisParameters,
    candidates,
    check_choice,
    read_splits,
)
from corank.learners.training import check_column_basis
from corank.model_files.schema import TRANSDUCTIVE
from corank.solve.function import Function, Span
from corank.solve.systems import ViewData
from corank.solve.transduction import (
    TransductionSettings,
    complete,
    untuned_pull,
)
from corank.solve.tuning import Candidates, PullPath, Training, is_open

ALONE = (
    "y has no unscored row and unscored= was not given: there is nothing to complete, so this is"
    " RankRLS. Transduction needs rows without a score: NaN in y, or unscored=."
)


@dataclass(eq=False, repr=False)
class TransductiveRankRLS(RankerMixin, BasisParameters, OneViewLearner):
    r"""Ranking of items that are known in advance, whose scores are completed along with the fit.

    .. math:: \hat y = \arg\min \sum_U \|J_U (y_U - f_{\bar U}(x_U))\|^2 + \text{pull}\,\|\hat y -
              f_{\bar V}(x_V)\|^2

    over the scores :math:`\hat y` of the unscored rows V. U goes through all queries (or `folds` of them),
    :math:`f_{\bar U}` is RankRLS on all queries but U, scores completed by :math:`\hat y`, and
    :math:`f_{\bar V}` RankRLS on the scored queries only. The fitted function is RankRLS on the
    completed scores of all rows: scores of the unscored queries are such that every query, scored
    or not, is predicted well from all others. After Pahikkala, Suominen, Boberg and Salakoski,
    "Transductive Ranking via Pairwise Regularized Least-Squares".

    Parameters
    ----------
    alpha : "tune", "mean-length", float or list, default="tune"
        Weight of the norm, "mean-length" as in `RLS`, of all rows. "tune" tries 20 values around the scale of the data, a list those
        values; the one is taken with which RankRLS on the scored queries errs least on queries left
        out. With one scored query there is nothing to leave out, and alpha is set to the scale of
        the data (the last of a list), with a warning.
    pull : float, "tune" or list, default=1.0
        How strongly the scores are held to what the scored queries alone say of the unscored rows;
        must be greater than 0, because nothing else says at what level the scores of an unscored
        query lie. "tune" tries seven values from 0.001 to 1,000 times what an unscored row weighs
        in the loss, a list those values: the scored queries, in up to ten folds, in turn count as
        unscored together with the rows that are, and the largest pull is taken whose completed
        scores err, within one standard error, no more than those of any other.
    basis : "auto", "all", "scored", "features", int or row indices, default="auto"
        The rows, scored and unscored, whose kernels span the function. "auto": all up to 5,000,
        else 1,000 of them. "features": the columns themselves (linear kernel).
    weighting : "query", "size" or "unit", default="query"
        Every query counts the same (as in the paper), every item, or every pair.
    folds : "queries" or "cv", default="queries"
        What U goes through: every query by itself, or the folds of scored queries that `cv` leaves
        out, with unscored queries dealt by chance to folds of as many.
    kernel, gamma, degree, coef0, kernel_params, basis_selection, random_state
        As in `RLS`; gamma="tune" or a list is chosen together with alpha, "mean-distance" that of
        all rows.
    cv : splitter or list of splits, default=None
        None: as in `RankRLS` for alpha, ten folds of queries for pull. For pull and ``folds="cv"``
        the splits must leave out whole queries, none of them twice.
    scoring : None, "squared", "rescaled" or "disagreement", default=None
        What the held-out error is, as in `RankRLS`; None is "squared".

    Attributes
    ----------
    transduction_ : (m,) the completed scores: one per NaN row of y in row order, then one per row
        of
        `unscored`
    coef_ : (r,) coefficients of the basis functions
    basis_ : (r,) row numbers of the basis: X, then `unscored`; None for basis="features"
    basis_points_ : (r, d) those rows
    alpha_, pull_, gamma_ : float, the values used
    path_ : what was tried: ``alpha``, ``gamma``, ``error``, ``standard_error``, ``best``, and
        ``pull`` where that was chosen too, infinite for the alphas of RankRLS that came before;
        None when nothing was tuned

    Notes
    -----
    All rows as basis: O(N³) for N rows, scored and unscored: one Cholesky factorisation with its
    inverse and one of the size of the unscored rows. A basis of r rows: O(N r (r + d)), 2 N r
    numbers of memory.

    Examples
    --------
    >>> import numpy as np
    >>> from corank import TransductiveRankRLS
    >>> from corank.datasets import make_ranking
    >>> data = make_ranking(n_queries=20, random_state=0)
    >>> y = np.where(np.isin(data.qid, [3, 8]), np.nan, data.y)  # two queries are known, but not scored
    >>> model = TransductiveRankRLS().fit(data.X, y, qid=data.qid)
    >>> model.transduction_.shape == (np.isnan(y).sum(),)
    True
    """

    alpha: Any = "tune"
    pull: Any = 1.0
    basis: Any = "auto"
    weighting: Any = "query"
    folds: Any = field(default="queries", metadata={ADDED_LATER: True})

    __metadata_request__fit = WITH_UNSCORED
    contents = TRANSDUCTIVE
    _no_closed_form = "scores were completed by those of all queries"

    def counts(self) -> dict[str, int]:
        """The numbers of rows behind the model, those without scores too."""
        return {**super().counts(), "unscored": self._n_unscored}

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        qid: Any = None,
        unscored: Any = None,
        unscored_qid: Any = None,
        **not_taken: Any,
    ) -> Self:
        """Complete the scores of the unscored rows, then fit to all of them.

        Parameters
        ----------
        X : (n, d) array, frame, CSR or tensor
        y : (n,) scores, NaN = unscored. A query with both kinds of rows counts as two: one scored,
            one unscored
        qid : (n,) query labels, any hashable, in any order; None = one query
        unscored : (m, d) more rows without scores, or chunks of them: a list of X or (X, qid); all
            are held in memory
        unscored_qid : (m,) their query labels, which are never the same queries as those of `qid`;
            None = one query
        **not_taken : `sample_weight` is refused: held-out queries count by their size alone

        Returns
        -------
        self
        """
        _refuse(not_taken)
        comparison = self.loss()
        check_choice(self.folds, "folds", ("queries", "cv"))
        pull = read_pull(self.pull)
        features, rows = read_rows(self, X, y, qid, None)
        problem = rows.under(comparison)
        warn_of_ties(problem)
        everything = self._all_rows(features, problem, qid, unscored, unscored_qid)
        index, with_queries = to_numpy(rows.index), qid is not None
        training = Training(problem, index, everything.features, with_queries=with_queries)
        if len(rows) == len(everything):
            warn_user(ALONE)
            pull = untuned_pull(pull, 1.0)
        settings = self._settings(features, everything, pull)
        chooses = settings.tunes
        if len(rows) < len(everything):  # of one scored query nothing is left out beside the others
            chooses = chooses or is_open(pull) or settings.in_folds
            chooses = chooses and problem.groups is not None
        if chooses:
            splits = read_splits(self.cv, problem, training.index, features.shape[0])
            settings = replace(settings, splits=splits)
        completed = complete(training, everything, features.shape[0], settings)
        self._keep_counts(training)
        span = Span.of(ViewData(None, completed.basis, rows=completed.rows))
        self.function_ = Function.mean([span], [completed.coefficients], 0.0)
        self.alpha_, self.pull_ = completed.alpha, completed.pull
        self.path_, self.transduction_ = completed.path, completed.scores
        self._n_unscored = int(completed.scores.shape[0])
        self._warn(settings)
        return self

    def _all_rows(
        self, features: Array, scored: ScoredRows, qid: Any, unscored: Any, labels: Any
    ) -> ScoredRows:
        """The rows of X and of `unscored=`, scores 0 where there are none; scored and unscored rows
        are of different queries.
        """
        n = features.shape[0]
        parts = unscored_parts(self, features, unscored, labels, with_queries=True, first=n)
        more, more_queries, _ = UnscoredRows(tuple(parts)).everything()
        queries = split_queries(n, to_numpy(scored.index), qid)
        queries = np.concatenate([queries, more_queries + int(queries.max()) + 1])
        if more is not None:
            if not is_sparse(more):
                more = like(more, features, dtype_name(features))
            features = stack_rows([features, more])
        scores = np.zeros(len(queries))
        scores[to_numpy(scored.index)] = to_numpy(scored.scores)
        return replace(
            scored,
            features=features,
            scores=like(scores, features),
            queries=like(queries, features, "int64"),
            n_queries=int(queries.max()) + 1,
            weights=None,
            index=like(np.arange(len(queries)), features, "int64"),
        )

    def _settings(
        self, features: Array, problem: ScoredRows, pull: Candidates
    ) -> TransductionSettings:
        """The parameters, checked against the rows of X and against all rows, which the basis is
        chosen from.
        """
        training = Training(problem, np.arange(len(problem)), features)
        basis = self._basis_rows(training)
        if is_named(basis, "features"):
            check_column_basis(features.shape[1], len(problem))
        shared = self._shared_settings(training)
        beyond = len(problem) > features.shape[0]
        if shared["kernel"].precomputed and beyond and is_named(basis, "all"):
            basis = np.arange(features.shape[0])  # values among the others were not given
        alpha = candidates(self.alpha, "alpha", ("tune", MEAN_LENGTH))
        if alpha == MEAN_LENGTH:
            alpha = inverse_length(problem.features)
        return TransductionSettings(
            **shared,
            alpha=alpha,
            pull=pull,
            in_folds=self.folds == "cv",
            basis=basis,
            selection=self.basis_selection,
        )

    def _warn(self, settings: TransductionSettings) -> None:
        """Say which parameters were to be tuned and could not be."""
        values = {}
        if self.path_ is None:
            values = {"alpha": self.alpha_, "gamma": self.gamma_}
        if not isinstance(self.path_, PullPath):
            values["pull"] = self.pull_
        missed = [
            f"{name} was set to {value:.3g}"
            for name, value in values.items()
            if is_open(getattr(settings, name))
        ]
        if missed:
            warn_user(
                f"{', '.join(missed)} and not tuned: there are too few scored queries to leave any"
                " out. Give qid, or numbers."
            )

    def _why_fixed(self) -> str:
        return (
            "update: the scores of unscored rows were completed for all rows at once, so nothing"
            " can be added to this model; fit it again with all rows."
        )


def _refuse(not_taken: dict[str, Any]) -> None:
    """Refuse weights, and arguments that do not exist."""
    if not_taken.pop("sample_weight", None) is not None:
        raise ValueError(
            "sample_weight does not go with TransductiveRankRLS, whose held-out queries count by"
            " their size alone; leave it out, or use RankRLS with weighting='size' or 'unit'."
        )
    if not_taken:
        raise TypeError(f"fit got an unexpected argument {next(iter(not_taken))!r}.")


def read_pull(pull: Any) -> Candidates:
    """The parameter `pull`: a number greater than 0, "tune", or a list of numbers."""
    numbers = np.asarray(pull) if isinstance(pull, str) else to_numpy(pull)
    if numbers.dtype.kind in "iuf" and np.any(numbers <= 0):
        raise ValueError(
            f"pull must be greater than 0, got {pull!r}: without it nothing says at what level the"
            " scores of an unscored query lie."
        )
    return candidates(pull, "pull", ("tune",))


def split_queries(n_rows: int, scored: Index, qid: Any) -> Index:
    """Query codes (n,) of the rows of X; a query with scored and unscored rows counts as two, with
    a warning.
    """
    codes = query_codes(None if qid is None else encode_queries(qid, n_rows)[0], n_rows)
    kind = np.ones(n_rows, dtype=np.int64)
    kind[scored] = 0
    both = np.intersect1d(codes[kind == 0], codes[kind == 1])
    if len(both):
        warn_user(
            f"{'A query has' if len(both) == 1 else f'{len(both)} queries have'} scored and"
            f" unscored rows; {'it counts' if len(both) == 1 else 'each counts'} as two queries,"
            " the scored rows and the unscored rows."
        )
    return np.asarray(np.unique(2 * codes + kind, return_inverse=True)[1])
