"""What every learner is: an estimator whose fitted functions are expansions, with `predict` and
`score`.

`Learner` is the base of all learners, `OneViewLearner` that of learners that see all columns at
once and are fitted in ways of their own; `rls` holds kernel least squares. `RankerMixin`
and `R2Mixin` say what `score` is.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from inspect import isfunction
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from corank.core.arrays import Array, Index, Mask, namespace, take, to_numpy, with_precision_of
from corank.core.basis import AUTO_LIMIT, AUTO_SIZE, read_basis
from corank.core.folds import Splits
from corank.core.kernels import Kernel, check_precomputed, is_named
from corank.core.loss import Loss, Pointwise, WithinQueries
from corank.core.messages import warn_user
from corank.core.observations import Question, ScoredRows, warn_of_ties
from corank.core.views import BlockKernel, View
from corank.inputs import (
    as_scan,
    compared_rows,
    given_scores,
    is_frame,
    is_scan,
    mean_over_targets,
    read_features,
    read_rows,
    read_scores,
    read_weights,
    scans,
    scored_rows,
    warn_of_scales,
)
from corank.learners.parameters import (
    GAMMA_RULES,
    BriefRequest,
    candidates,
    check_choice,
    check_weights,
    read_comparison,
    read_kernel,
    read_splits,
    seed,
)
from corank.learners.training import columns_of_views
from corank.learners.update import HoldsOut, Kept, check_like_fit, with_new_rows
from corank.model_files import Saveable
from corank.model_files.container import all_or_nothing
from corank.model_files.schema import FUNCTION_OF_ONE_VIEW, Contents
from corank.solve.function import Expansion, Function, Span
from corank.solve.holdout import SCORINGS
from corank.solve.systems import DualSystem, PrimalSystem
from corank.solve.tuning import Training

if TYPE_CHECKING:
    from corank.describe import Summary
    from corank.learners.pair_explanation import PairExplanation

PRECOMPUTED = "update cannot extend a precomputed kernel; fit again with the larger matrix."


def finite_predictions(values: Array) -> Array:
    """Predictions as they are, refused where they are not finite."""
    xp = namespace(values)
    if not xp.all(xp.isfinite(values)):
        raise ValueError(
            "the model gives NaN or infinity on these rows; their numbers, or those of the model,"
            " are too large."
        )
    return values


class QueryEstimator(BaseEstimator):  # type: ignore[misc]
    """How scikit-learn sees what learns from queries: `groups=` is their qid, CSR is welcome, y is
    needed.

    What a learner can do is said by attributes of its class, and what it was fitted on by the
    properties below; nobody looks for its methods to find that out.
    """

    is_average: ClassVar[bool] = False  # of the weighed `candidates_`; says its `reason_`
    has_posterior: ClassVar[bool] = False  # for `return_std` and `predict_comparison`
    has_evidence: ClassVar[bool] = False  # chose by it: `log_evidence_`, `amplitude_`
    has_views: ClassVar[bool] = False  # one function per view: `predict_views`, `agreement_`
    has_atoms: ClassVar[bool] = False  # that `explain` lists
    has_judges: ClassVar[bool] = False  # `judges_`, if it was said who answered
    has_targets: ClassVar[bool] = False  # y may be (n, t): several columns of scores
    suggests: ClassVar[bool] = False  # what to ask next
    needs_whole_queries = False  # whether predictions of a row depend on others of its query
    updates_comparisons: ClassVar[bool] = False  # not only scores
    knows_margins: ClassVar[bool] = True  # of comparisons; else only who won
    takes: ClassVar[frozenset[str]] = frozenset()  # by `predict` beside X
    columns_of_roles: Sequence[str] = ()  # that say who answered, about which item

    targets_: Sequence[Any]  # a fitted model per column of y, where there are several
    _learned: ClassVar[str]  # what every fitted one has
    _kind: Question = "score"
    _n_comparisons: int | None = None
    _n_unscored: int
    _with_queries: bool
    _with_links = False
    __metadata_request__fit: ClassVar[dict[str, str | bool]] = {"qid": "groups"}
    __metadata_request__score: ClassVar[dict[str, str | bool]] = {
        "qid": "groups",
        "sample_weight": True,
    }

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        for name, request in list(vars(cls).items()):  # scikit-learn has just put them there
            if name.startswith("set_") and name.endswith("_request"):
                setattr(cls, name, BriefRequest(request))
        for name in ("fit", "fit_comparisons", "update", "update_comparisons", "suggest"):
            if isfunction(vars(cls).get(name)):
                setattr(cls, name, all_or_nothing(vars(cls)[name]))

    @property
    def _pairwise(self) -> bool:
        """Whether X is one square matrix of kernel values."""
        return False

    # ---------------------------------------------------------------- what it was fitted on

    @property
    def learned_from(self) -> Question:
        """What the model was fitted on."""
        return self._kind

    @property
    def n_comparisons(self) -> int | None:
        """How many comparisons it was fitted on, None where it does not count them."""
        return self._n_comparisons

    @property
    def n_unscored(self) -> int:
        """How many unscored rows it learned from too."""
        return self._n_unscored

    @property
    def with_queries(self) -> bool:
        """Whether it was fitted with qid."""
        return self._with_queries

    @property
    def with_links(self) -> bool:
        """Whether it was fitted with links."""
        return self._with_links

    @property
    def feature_names(self) -> Any:
        """(d,) names of the columns that it was fitted on, None where these had no names."""
        return vars(self).get("feature_names_in_")

    @property
    def tuning_path(self) -> Any:
        """The `path_` of what was tried, None where nothing was tuned, or every column of y was."""
        path = vars(self).get("path_")
        return None if isinstance(path, list) else path

    @property
    def knows_uncertainty(self) -> bool:
        """Whether the fitted model says how sure it is of the order of several rows."""
        return self.has_posterior

    def refuse_targets(self, what: str) -> None:
        """Refuse what a model of several columns of y cannot do."""
        if self.has_targets and self.targets_:
            raise ValueError(f"{what} is for one column of y, as each of model.targets_ has it.")

    def summary(self) -> Summary:
        """The fitted model in words: what it was fitted on, kernel, basis, what was chosen,
        held-out error, effect.

        Returns
        -------
        Summary
            Print it; notebooks show it as a table. `corank inspect` says the same of a model file.
        """
        from corank.describe import summarise  # what is said of a model is not needed to fit it

        check_is_fitted(self)
        return summarise(self)

    def _read(self, X: Any) -> Array:
        """The features of new rows."""
        check_is_fitted(self)
        return read_features(self, self._as_features(X), reset=False)

    def _as_features(self, X: Any) -> Any:
        """A table as the features of a model that has a TableEncoder; anything else as it is."""
        return X if self.encoder_ is None or not is_frame(X) else self.encoder_.transform(X)

    def predict_to(
        self,
        X: Any,
        path: Any,
        *,
        columns: Any = None,
        name: str = "prediction",
        overwrite: bool = False,
    ) -> int:
        """Write the scores of the rows of a scan to a file, chunk by chunk, in the order of the
        rows.

        Parameters
        ----------
        X : corank.scan
        path : where to write: `.parquet`, `.csv` or `.csv.gz`; the file is there when it is
            complete, or not at all. Where the scan has a Dask client: a folder, in which every
            worker writes Parquet files of its own
        columns : names of columns of the scanned files to write beside the scores; None takes the
            query column, if any
        name : what to call the scores
        overwrite : whether a file that is already there may be replaced

        Returns
        -------
        int, the number of rows
        """
        check_is_fitted(self)
        self.refuse_targets("predict_to")
        X, _, _ = as_scan(X)
        if not is_scan(X):
            raise TypeError("predict_to takes a corank.scan; for rows in memory use predict.")
        n_rows: int = scans().write_predictions(self, X, path, columns, name, overwrite=overwrite)
        return n_rows

    def at_a_glance(self) -> Self:
        """The estimator without what is found out only when it is asked for."""
        return self

    def _html_repr(self) -> str:
        """scikit-learn's diagram and, once fitted, the summary below it."""
        from sklearn.utils import estimator_html_repr

        diagram: str = estimator_html_repr(self)
        if self._learned not in vars(self):
            return diagram
        return diagram + self.at_a_glance().summary().to_html()

    def _get_fitted_attr_html(self, *place: Any, **named: Any) -> Any:
        """scikit-learn's list of fitted attributes, for which it looks at every property."""
        return super(QueryEstimator, self.at_a_glance())._get_fitted_attr_html(*place, **named)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self._pairwise
        tags.target_tags.required = True
        tags.target_tags.multi_output = self.has_targets
        return tags


class Learner(HoldsOut, Saveable, QueryEstimator):
    """A learner whose predictions are those of its `function_`. A kind of learner adds how it is
    fitted.
    """

    _learned = "function_"
    contents: ClassVar[Contents] = FUNCTION_OF_ONE_VIEW  # of its file
    beta: float = 0.0  # share of the plain squared error in the loss
    fit_intercept: bool = False  # whether the mean score is taken out first and put back

    function_: Function
    # rows up to which basis="auto" takes all of them; how many beyond
    _auto_basis = (AUTO_LIMIT, AUTO_SIZE)
    _kept: Kept | None = None  # what rows can be added to
    _bonds: Array | None = None  # of pairs of views: (M, M), None for 1
    _level: float  # was taken out of the scores before the fit

    def loss(self) -> Loss:
        """What is compared with what; checks the learner's own parameters."""
        raise AssertionError("a learner says what it compares")

    def unscored_loss(self) -> Loss:
        """How views are compared on unscored rows: beta touches the scored loss only."""
        return self.loss()

    def keep_counts(
        self, *, seen: int, scored: int, queries: int, with_queries: bool, level: float = 0.0
    ) -> None:
        """Remember what the function was fitted on; `fit` calls it.

        Parameters
        ----------
        seen, scored, queries : numbers of rows that were handed over, of those with a score, and of
            queries
        with_queries : whether the rows came with query labels
        level : was taken out of the scores before the fit
        """
        self._n_seen, self._n_scored, self._n_queries = seen, scored, queries
        self._level, self._with_queries = level, with_queries
        # those of a loaded model, or of several columns, belong to what it was fitted on before
        self.encoder_, self.table_, self.targets_ = None, None, ()

    # ---------------------------------------------------------------- what is fitted, as users see it

    def _shown(self, values: Sequence[Any]) -> Any:
        """Values per part as a fitted attribute: all of several views or bases, else the first."""
        several = self.has_views or (self.targets_ and len(values) > 1)
        return list(values) if several else values[0]

    def _listed(self, value: Any) -> list[Any]:
        """A fitted attribute with one entry per part."""
        return value if self.has_views or isinstance(value, list) else [value]

    def _of_spans(self, name: str) -> Any:
        return self._shown([getattr(part.span, name) for part in self.function_.parts])

    @property
    def coefficients(self) -> list[Array]:
        """Those of all parts of what was fitted: (r,) each."""
        return [part.coefficients for part in self.function_.parts]

    @property
    def coef_(self) -> Any:
        """(r,) coefficients of the basis functions, (r, t) for t columns of y; one array per view."""
        return self._shown(self.coefficients)

    @property
    def intercept_(self) -> Any:
        """The level of the function, (t,) for t columns of y."""
        return self.function_.level

    @property
    def basis_(self) -> Any:
        """(r,) row numbers of the basis in X, or None."""
        return self._of_spans("rows")

    @property
    def basis_points_(self) -> Any:
        """(r, d) the rows of the basis, None for the columns themselves."""
        return self._of_spans("points")

    @property
    def gamma_(self) -> Any:
        """The kernel width, None where it has none; (d,) where every column has its own."""
        return self._shown([part.span.kernel.width for part in self.function_.parts])

    @property
    def _kernel(self) -> Any:
        return self._of_spans("kernel")

    @property
    def _whitening(self) -> Any:
        return self._of_spans("whitening")

    @property
    def _statistics(self) -> Any:
        kept = self._kept
        return None if kept is None or kept.statistics is None else self._shown(kept.statistics)

    @property
    def _rows(self) -> Any:
        kept = self._kept
        return None if kept is None or kept.rows is None else self._shown(kept.rows)

    @property
    def _disagreement(self) -> Array | None:
        return None if self._kept is None else self._kept.disagreement

    @property
    def _calls_functions(self) -> bool:
        return any(part.span.kernel.calls_function for part in self.function_.parts)

    def _restore(self, values: dict[str, Any]) -> None:
        self.function_ = self._restored_function(values)
        of_views = ("_statistics", "_rows")
        statistics, rows = (values.pop(name, None) for name in of_views)
        disagreement = values.pop("_disagreement", None)
        if statistics is not None or rows is not None:
            self._kept = Kept(
                None if statistics is None else self._listed(statistics),
                None if rows is None else self._listed(rows),
                disagreement,
            )
        super()._restore(values)

    def _restored_function(self, values: dict[str, Any]) -> Function:
        """The function that values of a file stand for, which are taken out of them."""
        names = ("_kernel", "basis_points_", "basis_", "coef_")
        kernels, points, rows, coefficients = (self._listed(values.pop(name)) for name in names)
        del values["gamma_"]  # that of the kernel
        whitenings = values.pop("_whitening", None)
        views = values.get("views_") or [View()] * len(kernels)
        spans = [
            Span(kernel, own_points, view.columns, own_rows, view.penalty, whitening)
            for kernel, own_points, own_rows, view, whitening in zip(
                kernels,
                points,
                rows,
                views,
                [None] * len(views) if whitenings is None else self._listed(whitenings),
                strict=True,
            )
        ]
        level = values.pop("intercept_")
        if np.ndim(level):
            return Function(tuple(map(Expansion, spans, coefficients)), level)
        return Function.mean(spans, coefficients, level)

    # ---------------------------------------------------------------- predict

    def predict(self, X: Any) -> Array:
        """Scores of the rows of X, the mean of the views where there are several: higher is better.

        Parameters
        ----------
        X : (n, d) array, frame, CSR or tensor; for a precomputed kernel its values with all rows of
            `fit`. A table goes through the model's `encoder_` first, where it has one. Or a
            `corank.scan`; see `predict_to` for more rows than memory

        Returns
        -------
        (n,) in the library, on the device and with the precision of X. O(n r d), in blocks: memory
        does not grow with n beyond the result, and the columns of a view where they lie apart.
        """
        X, _, _ = as_scan(X)
        if is_scan(X):
            check_is_fitted(self)
            return scans().predict_scan(self, X)
        return self.predicted(self._read(X))

    def predicted(self, features: Array) -> Array:
        """Scores of checked features."""
        return self._scores(self.function_.values(features), features)

    def _scores(self, values: Array, features: Array) -> Array:
        """Values of the function as scores, with the precision of X."""
        return with_precision_of(features, finite_predictions(values))

    def explain_pair(
        self, a: Any, b: Any, *, items: Any = None, names: Any = None
    ) -> PairExplanation:
        """Say why one item is above another: by the items that the model consists of, by view and
        by column.

        Parameters
        ----------
        a, b : one row each, as in `predict`, or row numbers of `items`
        items : (n, d), rows such as those of `fit`: items of the model that are found among them
            are called by their names
        names : (n,) what the rows of `items` are called; None takes the index of a pandas frame, or
            their numbers

        Returns
        -------
        PairExplanation
            Three lists of parts, each of which sums to the difference of the two predictions.
        """
        from corank.learners.pair_explanation import ColumnOwners, explain_function, read_pair

        check_is_fitted(self)
        self.refuse_targets("explain_pair")
        pair = read_pair(self._read, a, b, items, names)
        return explain_function(self.function_, pair, ColumnOwners.of(self), **self._words())

    def _words(self) -> dict[str, Any]:
        """What `explain_function` calls parts and items of the function."""
        return {}

    # ---------------------------------------------------------------- update

    def update(self, X: Any, y: Any, *, qid: Any = None, sample_weight: Any = None) -> Self:
        """Add newly scored rows to a fitted model.

        Kernel, basis rule, `alpha_` and `agreement_` stay, and so do the unscored rows on which
        views agree; to choose them anew, fit again. A model on all its rows takes the new ones into
        its basis; a model on a subset only adds to its sums, however many rows it has seen. Rows
        with a qid form queries of their own; without one they join the one query of a model fitted
        without qid.

        Parameters
        ----------
        X : (n, d), as in `fit`
        y : (n,) scores, NaN = unscored: left out; with several views also one column per view, as
            in `fit`
        qid : (n,) query labels, needed where the model was fitted with them
        sample_weight : (n,) weights

        Returns
        -------
        self
        """
        check_is_fitted(self)
        if self._kept is None and not self.targets_:
            raise ValueError(self._why_fixed())
        comparison = self.loss()
        if comparison.needs_queries:
            check_like_fit("qid", qid, self._with_queries)
        check_weights(comparison, sample_weight)
        self._grow(X, y, qid, sample_weight)
        self._fitted_rows = None
        return self

    def _grown(self, rows: ScoredRows) -> DualSystem | PrimalSystem:
        """The system of the fitted function with newly scored rows, scores (n, t), which the model
        keeps and counts.
        """
        parts, loss, new = self.function_.parts, self.loss(), []
        columns = columns_of_views(rows, len(parts))
        for column, part in zip(columns, parts, strict=True):
            scored = scored_rows(rows, column).under(loss, self._level)
            new.append(scored.beside(part.coefficients))
        self._warn_of_nothing_new(new)
        assert self._kept is not None
        system, unscored = with_new_rows(
            self.function_,
            self._kept,
            new,
            self.unscored_loss(),
            self._n_seen,
            bonds=self._bonds,
            with_queries=self._with_queries,
        )
        self._kept = Kept.of(system, unscored)
        given: Mask = np.any(given_scores(rows), axis=1)
        self._n_seen += len(given)
        self._n_scored += int(given.sum())
        if self._with_queries:
            queries = rows.queries
            self._n_queries += 1 if queries is None else len(np.unique(to_numpy(queries)[given]))
        return system

    def _warn_of_nothing_new(self, rows: Sequence[ScoredRows]) -> None:
        """Say so where new rows, one set per view, can be compared with nothing."""
        problems = [scored for scored in rows if len(scored)]
        if self._with_queries and all(problem.is_tied for problem in problems):
            warn_user(
                "update: no two of the new rows can be compared, so nothing was learned from them."
                " New rows form queries of their own; to add to a query that is already known, fit"
                " again with all rows."
            )

    def _why_fixed(self) -> str:
        """Why a model without sums and rows cannot be updated."""
        raise AssertionError("a kind of learner says what it cannot add to")

    def _grow(self, X: Any, y: Any, qid: Any, sample_weight: Any) -> None:
        """Add rows to what was kept, and solve again."""
        raise AssertionError("a kind of learner says how it grows")


class OneViewLearner(Learner):
    """A learner that sees all columns at once. A kind of learner adds how a checked problem is
    fitted.
    """

    dictionary: Any = None  # what a pursuit picks atoms from, where that is not the rows

    @property
    def _pairwise(self) -> bool:
        return is_named(self.kernel, "precomputed")

    def fit(self, X: Any, y: Any = None, *, qid: Any = None, sample_weight: Any = None) -> Self:
        """Fit on the rows that have a score.

        Parameters
        ----------
        X : (n, d) array, frame, CSR or tensor
        y : (n,) scores, NaN = unscored (left out, but may be in the dictionary of a pursuit)
        qid : (n,) query labels, any hashable, in any order; None = one query. For a regressor, rows
            with the same label are held out together, nothing else
        sample_weight : (n,) weights of the squared errors; of rankers a pair counts the product of
            its two. They are weights of the rows that make components, and the noise variance of a
            Gaussian process is divided by them

        Returns
        -------
        self
        """
        loss = self.loss()
        check_weights(loss, sample_weight)
        everything, rows = read_rows(self, X, y, qid, sample_weight)
        level = rows.mean_score if self.fit_intercept else 0.0
        problem = rows.under(loss, level)
        warn_of_ties(problem)
        training = Training(
            problem,
            to_numpy(rows.index),
            everything,
            rows.weights,
            level=level,
            with_queries=qid is not None,
        )
        return self._fit_training(training)

    def _fit_comparisons(self, X: Any, *given: Any) -> Self:
        self.loss()
        everything = read_features(self, X, reset=True)
        problem, used = compared_rows(everything, X, *given)
        training = Training(problem, used, everything, with_queries=problem.named)
        return self._fit_training(training)

    def _fit_training(self, training: Training) -> Self:
        """Fit a checked problem."""
        raise AssertionError("a kind of learner says how it is fitted")

    def _read_kernel(self, training: Training, *, per_column: bool = False) -> Kernel:
        """The kernel, its width still open; checks `scoring`, and the matrix where it is given."""
        kernel = read_kernel(self.kernel, self.degree, self.coef0, self.kernel_params)
        check_choice(self.scoring, "scoring", (None, *SCORINGS))
        if isinstance(kernel, BlockKernel):
            return kernel.seen_by(training.everything, self.feature_names)
        if kernel.precomputed:
            check_precomputed(training.everything)
        elif self.dictionary is None and not per_column:
            warn_of_scales(training.everything, self.kernel)
        return kernel

    def _shared_settings(self, training: Training) -> dict[str, Any]:
        """Parameters that learners with held-out errors share, checked against the rows."""
        return {
            "kernel": self._read_kernel(training),
            "gamma": candidates(self.gamma, "gamma", GAMMA_RULES),
            "scoring": self.scoring or "squared",
            "seed": seed(self.random_state),
        }

    def _splits(self, training: Training) -> Index | Splits | None:
        """What `cv` asks to hold out, None for the default."""
        return read_splits(self.cv, training.problem, training.index, training.everything.shape[0])

    def _basis_rows(self, training: Training) -> Any:
        """What `basis` asks for, checked against the rows; says so where "auto" takes some of them."""
        check_choice(self.basis_selection, "basis_selection", ("pivoted", "random"))
        n_rows, n = training.everything.shape[0], len(training.index)
        return read_basis(self.basis, self.kernel, n_rows, n, self._auto_basis)

    def _keep_counts(self, training: Training) -> None:
        """Remember how many rows and queries there were, and the level of their scores."""
        self.keep_counts(
            seen=training.everything.shape[0],
            scored=len(training.index),
            queries=training.problem.n_queries,
            with_queries=training.with_queries,
            level=training.level,
        )


def _split_by_groups() -> bool:
    """Whether scikit-learn, up the stack, splits rows by groups, of which the learner hears only by
    metadata routing.
    """
    frame: Any = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("sklearn.model_selection"):
            more = frame.f_locals.get("params")
            groups = more.get("groups") if isinstance(more, dict) else frame.f_locals.get("groups")
            if groups is not None:
                return True
        frame = frame.f_back
    return False


class RankerMixin:
    """What is compared and `score`, for learners whose predictions are compared within queries.

    `_predicts_within_queries` : whether predictions depend on query labels too
    """

    weighting: Any
    beta: float
    _with_queries: bool
    _predicts_within_queries: ClassVar[bool] = False

    def loss(self) -> Loss:
        """Differences within queries, and with `beta` the scores themselves."""
        return read_comparison(self.weighting, self.beta)

    def unscored_loss(self) -> Loss:
        """Differences within queries."""
        return WithinQueries(self.weighting)

    def score(
        self, X: Any, y: Any = None, *, qid: Any = None, sample_weight: Any = None, **given: Any
    ) -> float:
        """1 − disagreement: the mean share of rightly ordered pairs in a query; 0.5 is chance.

        Parameters
        ----------
        X : (n, d), or a `corank.scan`, which brings its scores and queries
        y : (n,) scores, NaN left out
        qid : (n,) query labels; None = one query
        sample_weight : (n,) weights
        given : what else `predict` takes, such as person= and item=

        Returns
        -------
        float
        """
        from corank.metrics import disagreement_error

        X, y, qid = as_scan(X, y, qid)
        if is_scan(X):
            given = {"y": y, "qid": qid, "sample_weight": sample_weight}
            if self._with_queries and not X.has_queries:
                warn_user(
                    "The model was fitted with queries but the scan has none: all rows count as one"
                    " query."
                )
            return float(scans().order_score(self, X, given))
        within = {"qid": qid} if self._predicts_within_queries else {}
        predictions = self.predict(X, **within, **given)  # type: ignore[attr-defined]
        if qid is None and not self._with_queries and _split_by_groups():
            warn_user(
                "groups= splits the rows, but does not reach the ranker: it is fitted and scored as"
                " if all rows were one query. Turn on"
                " sklearn.set_config(enable_metadata_routing=True) and pass params={'groups':"
                " groups}."
            )
        if qid is None and self._with_queries:
            warn_user(
                "The model was fitted with qid but is scored without: all rows count as one query."
                " In a search or cross-validation turn on"
                " sklearn.set_config(enable_metadata_routing=True) and pass groups=."
            )
        error = partial(disagreement_error, qid=qid, sample_weight=sample_weight)
        return 1.0 - mean_over_targets(error, y, predictions)


class R2Mixin:
    """What is compared and `score`, for learners whose predictions are compared with the scores
    themselves.
    """

    def loss(self) -> Loss:
        """Every score for itself."""
        return Pointwise()

    def score(
        self, X: Any, y: Any = None, *, qid: Any = None, sample_weight: Any = None, **given: Any
    ) -> float:
        """R² of the predictions on the rows that have a score; qid plays no part.

        Parameters
        ----------
        X : (n, d), or a `corank.scan`, which brings its scores and queries
        y : (n,) scores, NaN left out
        qid : ignored; taken so that searches can hand it to every learner
        sample_weight : (n,) weights
        given : what else `predict` takes, such as person= and item=

        Returns
        -------
        float
        """
        from sklearn.metrics import r2_score

        X, y, qid = as_scan(X, y, qid)
        if is_scan(X):
            given = {"y": y, "qid": qid, "sample_weight": sample_weight}
            return float(scans().explained_score(self, X, given))

        def explained(y: Any, predictions: Array) -> float:
            scores = to_numpy(read_scores(y, len(predictions), np.empty(0)))
            scored = ~np.isnan(scores)
            weights = take(read_weights(sample_weight, len(scores), np.empty(0)), scored)
            return float(r2_score(scores[scored], predictions[scored], sample_weight=weights))

        predictions = to_numpy(self.predict(X, **given))  # type: ignore[attr-defined]
        return mean_over_targets(explained, y, predictions)
