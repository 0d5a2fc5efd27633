"""AutoRanker and AutoRegressor: the average of many closed-form models, weighed by held-out errors and evidence."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
from sklearn.base import RegressorMixin, clone
from sklearn.utils.validation import check_is_fitted

from corank._arrays import Array, FloatArray, Index, float64, is_foreign, is_sparse, like, namespace, to_numpy
from corank._messages import count, held_out_error, warn_user
from corank.average.candidates import Candidate
from corank.average.encoding import QUERY_RANKS
from corank.average.fitting import FittedAverage
from corank.average.model import (
    AverageModel,
    AverageSettings,
    ScoredTable,
    compared_units,
    extended,
    fit_items,
    fit_table,
    stacked_rows,
)
from corank.describe import Summary, summarise
from corank.encoder import TableEncoder
from corank.learners._learner import (
    QueryEstimator,
    R2Mixin,
    RankerMixin,
    comparison_groups,
    finite_predictions,
    seed,
)
from corank.learners._suggest import check_question, sample, shortlist
from corank.links import read_links
from corank.metrics import disagreement_error
from corank.model_files import Saveable
from corank.model_files.packing import storable
from corank.model_files.schema import COUNT, FLAG, NUMBER, TEXT, Contents, names, per_view, several, size, stored
from corank.problem import TIED
from corank.rows import (
    encode_queries,
    is_frame,
    is_matrix_of_numbers,
    read_comparisons,
    read_features,
    read_scores,
    read_unscored,
    read_weights,
    refuse_lost_differences,
)
from corank.solvers.active_learning import pairs_to_measure, rows_to_score
from corank.solvers.unscored_effect import FEWEST_HELD_OUT, UnscoredEffect, judged_effect
from corank.tables import to_arrow
from corank.views import View, encoded_views, read_views

MAX_REASONS = 3  # candidates that `reason_` names


@storable("WeighedCandidate")
@dataclass(frozen=True)
class WeighedCandidate:
    """One line of `candidates_`.

    Attributes
    ----------
    candidate : what was fitted
    what : the same in words
    weight : its share in the average
    error : held-out squared error of its scores; for rankers of score differences within queries, at their best scale
    """

    candidate: Candidate
    what: str
    weight: float
    error: float


@dataclass(eq=False, repr=False, kw_only=True)
class _AverageLearner(Saveable, QueryEstimator):
    """What AutoRanker and AutoRegressor share."""

    __metadata_request__fit: ClassVar[dict[str, str | bool]] = {"unscored": True, "unscored_qid": True}
    __metadata_request__predict: ClassVar[dict[str, str | bool]] = {"qid": "groups"}
    _learned = "candidates_"
    _ranks: ClassVar[bool]

    _contents: ClassVar[Contents] = {
        "n_columns": ("n_features_in_", size("d")),
        "column_names": ("feature_names_in_", names("d") | None),
        "model": ("_model", stored("AverageModel")),
        "candidates": ("candidates_", several(stored("WeighedCandidate"))),
        "views": ("_views", per_view(stored("View")) | several(stored("View"))),  # or none
        "error": ("held_out_error_", NUMBER),
        "constant_error": ("_constant_error", NUMBER),
        "with_queries": ("_with_queries", FLAG),
        "with_links": ("_with_links", FLAG),
        "kind": ("_kind", TEXT),
        "rows_seen": ("_n_seen", COUNT),
        "rows_scored": ("_n_scored", COUNT),
        "rows_unscored": ("_n_unscored", COUNT),
        "queries": ("_n_queries", COUNT),
        "n_comparisons": ("_n_comparisons", COUNT),
        "effect": ("_effect", stored("UnscoredEffect") | None),
    }

    # ---------------------------------------------------------------- fit

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        qid: Any = None,
        sample_weight: Any = None,
        unscored: Any = None,
        unscored_qid: Any = None,
        links: Any = None,
    ) -> Self:
        """Fit the average on the rows that have a score; the others say what columns look like and where views agree.

        Parameters
        ----------
        X : (n, d) array, frame, CSR or tensor
        y : (n,) scores, NaN = unscored
        qid : (n,) query labels, any hashable, in any order; None = one query. A ranker compares rows within queries, a
            regressor only holds the rows of a query out together
        sample_weight : (n,) weights of the squared errors
        unscored : (m, d) more rows without scores
        unscored_qid : (m,) their query labels, which are never the same queries as those of `qid`
        links : links between the rows of X, and of `unscored` after them: a SciPy sparse matrix, or an array (m, 2) of row
            numbers, with weights in a third column if there are any. `corank.links.read_links` reads ids

        Returns
        -------
        self
        """
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None.")
        X, unscored, encoder = self._encoded(X, unscored)
        features = read_features(self, X, reset=True)
        table = self._read_table(features, y, qid, sample_weight)
        if len(table.scored) == 0:
            given = not np.isnan(table.scores).all()
            cause = "sample_weight leaves no scored row: all of them have weight zero." if given else None
            raise ValueError(cause or "y has no scored row: every score is NaN.")
        table = self._with_unscored(table, features, unscored, unscored_qid)
        table = replace(table, links=_read_matrix_of_links(links, len(table.scores)))
        settings = self._read_settings(encoder)
        model, average = fit_table(table, settings)
        if average is None and self._ranks and len(table.scored) > 1:
            warn_user(TIED)
        scored = table.scored
        self._kind, self._n_comparisons = "score", 0
        self._with_queries, self._with_links = qid is not None, links is not None
        self._n_seen, self._n_scored = len(table.scores), len(scored)
        self._n_unscored = len(table.scores) - len(scored)
        self._n_queries = 1 if table.queries is None else len(np.unique(table.queries[scored]))
        self._keep(model, average, settings, table)
        self.encoder_ = encoder
        return self

    def _encoded(self, X: Any, unscored: Any) -> tuple[Any, Any, TableEncoder | None]:
        """X and unscored rows as numbers, and the encoder that a table of more than numbers went through."""
        if not (self.encoder is None or isinstance(self.encoder, TableEncoder) or hasattr(self.encoder, "groups_")):
            kind = type(self.encoder).__name__
            raise TypeError(
                f"encoder must be a TableEncoder, got {kind}; put other transformers before, in a pipeline."
            )
        fitted = self.encoder if hasattr(self.encoder, "columns_") else None
        if not is_frame(X):
            if self.encoder is not None and fitted is None:
                raise ValueError(
                    "encoder is for tables; X is a matrix, which an encoder that is fitted must have made."
                )
            if fitted is not None and np.ndim(X) == 2 and len(fitted.attributes_) != np.shape(X)[1]:
                raise ValueError(
                    f"encoder makes {len(fitted.attributes_)} columns, but X has {np.shape(X)[1]}: hand over the table, or "
                    "what the encoder made of it."
                )
            return X, unscored, fitted
        if self.encoder is None and is_matrix_of_numbers(X):
            return X, unscored, None
        encoder = fitted
        if encoder is None:
            template = TableEncoder() if self.encoder is None else clone(self.encoder)
            encoder = template.fit(X if unscored is None else _stacked_tables(X, unscored))
        return encoder.transform(X), None if unscored is None else encoder.transform(unscored), encoder

    def _keep(
        self,
        model: AverageModel,
        average: FittedAverage | None,
        settings: AverageSettings,
        table: ScoredTable | None = None,
    ) -> None:
        """Set what was fitted; a table is kept to find out whether its unscored rows helped."""
        self._model, self._views = model, list(settings.views)
        self._effect: UnscoredEffect | None = None
        self._training, self._average = table, average
        self.encoder_ = self.table_ = None
        view_names = [str(view.name) for view in settings.views]
        lines = [] if average is None else average.table
        self.candidates_ = [
            WeighedCandidate(candidate, candidate.describe(view_names), weight, error)
            for candidate, weight, error in lines
        ]
        self.held_out_error_, self._constant_error = self._honest_error(average)

    def _honest_error(self, average: FittedAverage | None) -> tuple[float, float]:
        """The error on new rows of an average that chose without them, and that of a constant."""
        raise AssertionError("a learner says what its error is")

    def _read_settings(self, encoder: TableEncoder | None) -> AverageSettings:
        """Parameters, checked; views are those of the kinds of columns that an encoder found, unless they are given."""
        views: Sequence[View] = ()
        kinds: Sequence[str] = ()
        number = seed(self.random_state)
        groups = [] if encoder is None else encoder.groups_
        found = [] if encoder is None else encoder.views()
        if isinstance(self.views, str) and self.views == "kinds":
            if len(groups) < 2:
                raise ValueError(
                    "views='kinds' needs a table with columns of more than one kind: text, vectors, and numbers with "
                    "categories."
                )
            views = found
        elif self.views is not None:
            views = self._declared_views(encoder, np.random.default_rng(number))
        elif any(group.kind != "table" for group in groups):
            views, kinds = found, [group.kind for group in groups]
        for view in views:
            if view.kernel not in ("linear", "cosine", "rbf", "laplacian"):
                raise ValueError(
                    f"views: kernel {view.kernel!r} of {view.name} has no place in the average; use 'linear', 'cosine', "
                    "'rbf' (which stands for several kernels) or 'laplacian', or fit CoRankRLS or CoRLS."
                )
        return AverageSettings(
            ranks=self._ranks,
            fit_intercept=bool(getattr(self, "fit_intercept", True)),
            views=views,
            kinds=kinds,
            groups=[group.columns for group in groups if group.kind != "table"],
            candidates=self.candidates,
            seed=number,
        )

    def _declared_views(self, encoder: TableEncoder | None, rng: np.random.Generator) -> Sequence[View]:
        """The views that were given, by columns of the features; names are those of a table's columns."""
        if encoder is None or not _by_name(self.views):
            names = getattr(self, "feature_names_in_", None)
            return read_views(self.views, self.n_features_in_, names, rng)
        names = encoder.feature_names_in_
        views: Sequence[View] = encoded_views(read_views(self.views, len(names), names, rng), encoder.attributes_)
        return views

    def _read_table(self, features: Array, y: Any, qid: Any, sample_weight: Any) -> ScoredTable:
        n = int(features.shape[0])
        scores = np.asarray(to_numpy(read_scores(y, n, np.empty(0))))
        weights = read_weights(sample_weight, n, np.empty(0))
        queries = None if qid is None else np.asarray(to_numpy(encode_queries(qid, n)[0]))
        if self._ranks and queries is not None:
            scored = ~np.isnan(scores)
            refuse_lost_differences(scores[scored], queries[scored])
        return ScoredTable(_as_numbers(features), scores, queries, weights)

    def _with_unscored(self, table: ScoredTable, features: Array, unscored: Any, labels: Any) -> ScoredTable:
        """The rows of a table, and unscored rows after them; their queries are their own."""
        if unscored is None:
            if labels is not None:
                raise ValueError("unscored_qid was given without unscored.")
            return table
        more = _as_numbers(read_unscored(self, features, unscored))
        m = int(more.shape[0])
        queries = table.queries
        if queries is not None:
            codes = (
                np.arange(m) if labels is None else np.asarray(to_numpy(encode_queries(labels, m, "unscored_qid")[0]))
            )
            queries = np.concatenate([queries, int(queries.max()) + 1 + codes])
        weights = None if table.weights is None else np.concatenate([table.weights, np.ones(m)])
        scores = np.concatenate([table.scores, np.full(m, np.nan)])
        return ScoredTable(stacked_rows(table.features, more), scores, queries, weights)

    def update(self, X: Any, y: Any, *, qid: Any = None, sample_weight: Any = None, links: Any = None) -> Self:
        """Add newly scored rows: the average is fitted anew on those that the model has kept and the new ones.

        Encodings, and the unscored rows on which views agree, stay; weights and alphas are chosen again.

        Parameters
        ----------
        X : (n, d), as in `fit`
        y : (n,) scores, NaN = unscored: left out
        qid : (n,) query labels, needed where the model was fitted with them; the rows form queries of their own
        sample_weight : (n,) weights
        links : links between the rows of X, needed where the model was fitted with them: X then holds all linked items, and
            y is NaN for those that have no new score

        Returns
        -------
        self
        """
        check_is_fitted(self)
        if self._kind == "comparison":
            raise ValueError("update adds scored rows, but this model was fitted on comparisons; fit it again instead.")
        if self._model.units is None:
            raise ValueError("update: the model has too many scored rows to keep them; fit again with all rows.")
        if (qid is not None) != self._with_queries:
            how = "with" if self._with_queries else "without"
            raise ValueError(f"qid must be given to update as it was to fit: the model was fitted {how} qid.")
        if (links is not None) != self._with_links:
            how = "with" if self._with_links else "without"
            raise ValueError(f"links must be given to update as they were to fit: the model was fitted {how} links.")
        features = self._read(X)
        table = self._read_table(features, y, qid, sample_weight)
        table = replace(table, links=_read_matrix_of_links(links, len(table.scores)))
        if len(table.scored) == 0:
            raise ValueError("y has no scored row: every score is NaN, or has weight zero.")
        encoder, known = self.encoder_, self.table_
        settings = self._read_settings(encoder)
        model, average = extended(self._model, table, settings)
        self._n_scored += len(table.scored)
        if links is None:
            self._n_seen += len(table.scored)
        else:  # linked items are those of `fit`, and perhaps more
            self._n_seen = max(self._n_seen, len(table.scores))
            self._n_unscored = max(self._n_seen - self._n_scored, 0)
        if table.queries is not None:
            sizes = np.unique(table.queries[table.scored], return_counts=True)[1]
            self._n_queries += len(sizes)
            if self._ranks and (sizes == 1).any():
                warn_user(
                    f"qid: {count(int((sizes == 1).sum()), 'new row')} of {len(table.scored)} alone in a query, which "
                    "says nothing about the order; rows of a query that the model knows count as a new query, so to "
                    "compare them with the old ones fit again with all rows."
                )
        self._keep(model, average, settings)
        self.encoder_, self.table_ = encoder, known
        return self

    # ---------------------------------------------------------------- predict

    def predict(self, X: Any, *, qid: Any = None, links: Any = None, return_std: bool = False) -> Any:
        """Scores of the rows of X: higher is better.

        Predictions lie within the range of the scores and one spread beyond.

        Parameters
        ----------
        X : (n, d), as in `fit`. A table goes through the model's `encoder_` first, where it has one
        qid : (n,) query labels. A ranker that was fitted with queries compares columns within them; without labels it
            predicts by its other candidates, which then have weights of their own
        links : links between the rows of X, for a model that was fitted with links; X then holds all items that are to be
            seen over links, known ones and new ones. A row without links is judged by its own columns; without `links` all
            rows are, by the candidates that need none, which then have weights of their own
        return_std : whether to return the standard deviation of a new score of every row too, noise included

        Returns
        -------
        (n,), or a tuple of two, in the library, on the device and with the precision of X. O(n r d) for r scored rows,
        in blocks.
        """
        features = self._read(X)
        numbers, queries = _as_numbers(features), self._read_queries(qid, int(features.shape[0]))
        matrix = self._read_links(links, int(features.shape[0]))
        mean = _beside(finite_predictions(self._model.predict(numbers, queries, matrix)), features)
        if not return_std:
            return mean
        return mean, _beside(self._model.deviations(numbers, queries, matrix), features)

    def _read_links(self, links: Any, n: int) -> Any:
        """Links between n new rows, of which there may be none."""
        if links is not None and not self._with_links:
            raise ValueError("links: the model was fitted without links, so it cannot use them; fit it with links=.")
        return _read_matrix_of_links(links, n, may_be_empty=True)

    def _read(self, X: Any) -> Array:
        """The features of new rows."""
        check_is_fitted(self)
        X = X if self.encoder_ is None or not is_frame(X) else self.encoder_.transform(X)
        return read_features(self, X, reset=False)

    def _read_queries(self, qid: Any, n: int) -> Index | None:
        """Query codes, where the model has a use for them."""
        if qid is None:
            return None
        codes = np.asarray(to_numpy(encode_queries(qid, n)[0]))
        return codes if any(encoding.name == QUERY_RANKS for encoding in self._model.encodings) else None

    def predict_comparison(self, X_a: Any, X_b: Any, observed: bool = False) -> Array:
        """The probability that row i of X_a is above row i of X_b.

        Parameters
        ----------
        X_a, X_b : (n, d)
        observed : whether to ask for the order of two newly observed scores, noise included; else for that of the
            functions

        Returns
        -------
        (n,) between 0 and 1, as `predict` returns scores
        """
        first, second = self._read(X_a), self._read(X_b)
        if first.shape[0] != second.shape[0]:
            raise ValueError(f"X_a has {first.shape[0]} rows and X_b {second.shape[0]}; row i is compared with row i.")
        chances = self._model.chances(_as_numbers(first), _as_numbers(second), observed=observed)
        return _beside(chances, first)

    def suggest(self, X_pool: Any, n: int = 1, kind: str | None = None, links: Any = None) -> Index:
        """What to ask next about the rows of a pool: the questions whose answers say most about the function.

        Scores are those that leave least uncertainty about all rows of the pool, comparisons those of largest
        uncertainty. Every question is picked as if those before it had been answered. Of a large pool not all rows are
        looked at: for comparisons 1,000 with the largest uncertainty, for scores 2,000 that stand for all.

        Parameters
        ----------
        X_pool : (m, d) rows that could be asked about
        n : how many questions
        kind : "comparison" (which of two is better), "score" (how good is one); None = what the model was fitted on
        links : as in `predict`

        Returns
        -------
        row numbers of X_pool: (n, 2) for comparisons, (n,) for scores
        """
        features = _as_numbers(self._read(X_pool))
        matrix = self._read_links(links, int(features.shape[0]))
        kind = self._kind if kind is None else kind
        m = int(features.shape[0])
        check_question(n, m, kind)
        rows = sample(m, n)
        if kind == "comparison":
            rows = shortlist(lambda: self._model.deviations(features, None, matrix), m, n)
        _, covariance, noise = self._model.belief(features, rows, matrix)
        noise = max(noise, 1e-12 * float(np.trace(covariance)), 1e-300)
        if kind == "comparison":
            return rows[pairs_to_measure(covariance, 2 * noise, n)]
        return rows[rows_to_score(covariance, noise, n)]

    # ---------------------------------------------------------------- what came out

    @property
    def reason_(self) -> str:
        """What the average is made of and how good it is, in at most six lines."""
        check_is_fitted(self)
        if not self.candidates_:
            return "There is too little to learn from: the prediction is constant."
        lines = [f"An average of {count(len(self._model.candidates), 'model')} out of {len(self.candidates_)}."]
        lines += [f"{line.weight:.0%} {line.what}." for line in self.candidates_[:MAX_REASONS]]
        lines.append(self._error_sentence())
        if any(line.candidate.views == "agreement" for line in self.candidates_):
            share = sum(line.weight for line in self.candidates_ if line.candidate.views == "agreement")
            lines.append(
                f"Views that agree on unscored rows have {share:.0%} of the weight."
                if share > 0
                else "The scores speak against agreement between the views, so it has no weight."
            )
        if any(line.candidate.hops for line in self.candidates_):
            share = sum(line.weight for line in self.candidates_ if line.candidate.hops)
            lines.append(f"What linked rows say has {share:.0%} of the weight.")
        return "\n".join(lines)

    @property
    def _error_name(self) -> str:
        """What the held-out error is an error of."""
        raise AssertionError("a learner says what its error is")

    def _error_sentence(self) -> str:
        if np.isnan(self.held_out_error_):
            return "There are too few scores to say how large the error on new rows is."
        meaning = f"{self._error_name}, which took no part in the choice"
        return f"The held-out error is {held_out_error(self.held_out_error_, None, self._constant_error, meaning)}."

    def summary(self) -> Summary:
        """The fitted model in words: what it was fitted on, what it is made of, its held-out error.

        Returns
        -------
        Summary
            Print it; notebooks show it as a table.
        """
        check_is_fitted(self)
        return summarise(self)

    def _at_a_glance(self) -> Self:
        seen = copy(self)
        seen._training = seen._average = None
        return seen

    def _summary(self) -> dict[str, int]:
        return {"rows": self._n_seen, "scored": self._n_scored, "queries": self._n_queries}

    @property
    def unscored_effect_(self) -> UnscoredEffect | None:
        """Whether unscored rows helped: the same average with and without them, on folds that chose nothing.

        Computed when first asked for, which takes one more fit; None where nothing can be told: no unscored rows, fewer
        than four scores, comparisons, or a model from a file that was saved before it was asked for.
        """
        check_is_fitted(self)
        if self._effect is None and self._training is not None:
            self._effect = self._compare_without(self._training)
        return self._effect

    def _compare_without(self, table: ScoredTable) -> UnscoredEffect | None:
        """Fit without unscored rows too, and compare held-out predictions; their folds took no part in any choice."""
        scored = table.scored
        if len(scored) == len(table.scores) or len(scored) < FEWEST_HELD_OUT or self._average is None:
            return None
        alone = table.take(scored)
        if table.links is not None:
            alone = replace(alone, links=table.links[scored][:, scored])
        _, plain = fit_table(alone, self._read_settings(self.encoder_))
        if plain is None:
            return None
        return unscored_effect_of(self._unit_errors(self._average), self._unit_errors(plain))

    def _unit_errors(self, average: FittedAverage) -> FloatArray:
        """Held-out errors per row or query: (units,)."""
        raise AssertionError("a learner says what its error is")


def unscored_effect_of(with_rows: FloatArray, without: FloatArray) -> UnscoredEffect | None:
    """The verdict on errors per unit, with and without unscored rows."""
    both = np.isfinite(with_rows) & np.isfinite(without)
    gaps = (without - with_rows)[both]
    if len(gaps) < 2:
        return None
    gap, error = float(gaps.mean()), float(gaps.std(ddof=1) / np.sqrt(len(gaps)))
    return judged_effect(float(with_rows[both].mean()), float(without[both].mean()), gap, error, len(gaps))


def _read_matrix_of_links(links: Any, n: int, *, may_be_empty: bool = False) -> Any:
    """Checked links between n rows as CSR (n, n), None without; what was ignored is said."""
    if links is None:
        return None
    checked = read_links(links, n, may_be_empty=may_be_empty)
    if checked.remark():
        warn_user(f"{checked.remark()}.")
    return checked.matrix


def _stacked_tables(first: Any, second: Any) -> pa.Table:
    """The rows of one table and then those of another, whose further columns are left out."""
    first = to_arrow(first)
    second = to_arrow(second, set(first.column_names))
    try:
        for at, name in enumerate(second.column_names):
            declared = first.schema.field(name).type
            if pa.types.is_dictionary(declared) and not pa.types.is_dictionary(second.schema.types[at]):
                second = second.set_column(at, name, second[name].cast(declared.value_type).dictionary_encode())
        return pa.concat_tables([first, second], promote_options="permissive")
    except pa.ArrowException as error:
        raise ValueError(f"unscored does not fit X: {error}.") from error


def _by_name(views: Any) -> bool:
    """Whether views name their columns."""
    columns = [view.columns for view in views if isinstance(view, View)] if isinstance(views, list | tuple) else []
    return any(isinstance(column, str) for chosen in columns for column in np.ravel(np.asarray(chosen, dtype=object)))


def _as_numbers(features: Array) -> Array:
    """Features as float64 in NumPy, or CSR."""
    return float64(features) if is_sparse(features) else np.asarray(to_numpy(features), dtype=np.float64)


def _beside(values: FloatArray, features: Array) -> Array:
    """Values (n,) in the library, on the device and with the precision of the features."""
    result = like(values, np.empty(0) if is_sparse(features) else features)
    precision = features.dtype if is_foreign(features) else features.dtype.type
    return namespace(result).astype(result, precision, copy=False)


@dataclass(eq=False, repr=False)
class AutoRegressor(R2Mixin, RegressorMixin, _AverageLearner):  # type: ignore[misc]
    r"""Regression by an average of many closed-form models.

    .. math:: f = \sum_c w_c f_c, \qquad f_c = \arg\min_f \sum_i (s_i - b - f(x_i))^2 + \alpha_c \|f\|_c^2

    Candidates differ in what columns become (standardised, normal scores over all rows), in kernel (linear, rbf,
    laplacian), width and views. Half of the weight follows the evidence of every candidate and alpha, half the
    leave-one-out error of every candidate at its best alpha. With few scores such an average is better than any rule that
    picks one model.

    Parameters
    ----------
    views : list of View or "kinds", default=None
        Several looks at the items. Sums and products of their kernels, and agreement on unscored rows, become
        candidates. Agreement is believed, unless the scores speak against it by a standard error. Where a table is
        encoded, names are those of its columns, and numbers those of the columns of the matrix that the encoder makes.
        "kinds" makes a view of every text column, of every group of vector columns, and of numbers and categories
        together. With None the same views are found, but nothing says that they agree.
    candidates : list of Candidate, default=None
        What the average is made of; None takes a list that suits the rows.
    fit_intercept : bool, default=True
        Whether the level of the scores is free.
    random_state : int, default=None
        For samples of rows where there are many; None makes the same choice every time.
    encoder : TableEncoder, default=None
        How a table with text, dates, categories or missing values becomes numbers; None stands for `TableEncoder()`. One
        that is fitted is taken as it is, and X may then be what it made of a table.

    Attributes
    ----------
    candidates_ : list of WeighedCandidate, heaviest first: all that was tried, each with the least held-out error of its
        alphas. It stands for the `path_` of other learners, which pick one setting
    held_out_error_ : float, mean squared error on rows that took no part in weights, alphas or coefficients
    reason_ : str, what the average is made of and how good it is
    unscored_effect_ : UnscoredEffect or None, whether unscored rows helped

    Notes
    -----
    O(C n³) for C candidates and n scored rows up to 300; more rows are weighed by a sample. Beyond 2,000 rows the
    heaviest five candidates are fitted in a basis of 500 rows. Rows must be in memory: a scan goes to `RLS`.

    Examples
    --------
    >>> import numpy as np
    >>> from corank import AutoRegressor
    >>> X = np.linspace(0, 6, 30)[:, None]
    >>> model = AutoRegressor().fit(X, np.sin(X[:, 0]))
    >>> bool(model.score(X, np.sin(X[:, 0])) > 0.99)
    True
    """

    views: Any = None
    candidates: Any = None
    fit_intercept: bool = True
    random_state: Any = None
    encoder: Any = None

    _ranks: ClassVar[bool] = False

    @property
    def _error_name(self) -> str:
        where = "rows of new queries" if self._with_queries and self._n_queries > 1 else "new rows"
        return f"squared error on {where}"

    def _honest_error(self, average: FittedAverage | None) -> tuple[float, float]:
        if average is None:
            return float("nan"), float("nan")
        units = average.judged_units
        weights = units.roots**2
        judged = np.isfinite(average.held_out)
        if not judged.any():
            return float("nan"), float("nan")
        error = float(np.average(average.residuals[judged] ** 2, weights=weights[judged]))
        total = weights.sum()
        without = (weights @ units.scores - weights * units.scores) / (total - weights)  # the mean of all others
        return error, float(np.average((units.scores - without) ** 2, weights=weights))

    def _unit_errors(self, average: FittedAverage) -> FloatArray:
        squares, queries = average.residuals**2, average.judged_units.queries
        if queries is None:
            return squares
        codes = np.unique(queries, return_inverse=True)[1]
        sums = np.bincount(codes, squares).astype(np.float64)
        return sums * (len(sums) / len(squares))  # their mean is that over rows, as `held_out_error_` is


@dataclass(eq=False, repr=False)
class AutoRanker(RankerMixin, _AverageLearner):
    r"""Ranking within queries by an average of many closed-form models.

    .. math:: f = \sum_c w_c f_c, \qquad
              f_c = \arg\min_f \sum_q \tfrac{1}{m_q} \sum_{i<j \in q} \big((s_i - s_j) - (f(x_i) - f(x_j))\big)^2
              + \alpha_c \|f\|_c^2

    Candidates differ in what columns become (standardised, normal scores over all rows and within queries), in kernel
    (linear, rbf, laplacian), width and views. Their predictions, divided by their spread, are weighed by
    leave-query-out errors. With few scores such an average is better than any rule that picks one model.

    Parameters
    ----------
    views : list of View or "kinds", default=None
        Several looks at the items. Sums and products of their kernels, and agreement on unscored rows, become
        candidates. Agreement is believed, unless the scores speak against it by a standard error. Where a table is
        encoded, names are those of its columns, and numbers those of the columns of the matrix that the encoder makes.
        "kinds" makes a view of every text column, of every group of vector columns, and of numbers and categories
        together. With None the same views are found, but nothing says that they agree.
    candidates : list of Candidate, default=None
        What the average is made of; None takes a list that suits the rows.
    random_state : int, default=None
        For samples of rows where there are many; None makes the same choice every time.
    encoder : TableEncoder, default=None
        How a table with text, dates, categories or missing values becomes numbers; None stands for `TableEncoder()`. One
        that is fitted is taken as it is, and X may then be what it made of a table.

    Attributes
    ----------
    candidates_ : list of WeighedCandidate, heaviest first: all that was tried, each with the least held-out error of its
        alphas. It stands for the `path_` of other learners, which pick one setting
    held_out_error_ : float, share of misordered pairs among queries (rows of the only query, comparisons) that took no
        part in weights, alphas or coefficients
    reason_ : str, what the average is made of and how good it is
    unscored_effect_ : UnscoredEffect or None, whether unscored rows helped

    Notes
    -----
    O(C n³) for C candidates and n scored rows up to 300; more rows are weighed by a sample of queries. Beyond 2,000 rows
    the heaviest five candidates are fitted in a basis of 500 rows. Rows must be in memory: a scan goes to `RankRLS`.

    Examples
    --------
    >>> from corank import AutoRanker
    >>> from corank.datasets import make_ranking
    >>> data = make_ranking(n_queries=20, random_state=0)
    >>> model = AutoRanker().fit(data.X, data.y, qid=data.qid)
    >>> bool(model.score(data.X, data.y, qid=data.qid) > 0.8)
    True
    """

    views: Any = None
    candidates: Any = None
    random_state: Any = None
    encoder: Any = None

    _ranks: ClassVar[bool] = True
    _predicts_within_queries: ClassVar[bool] = True

    @property
    def _error_name(self) -> str:
        if self._kind == "comparison":
            return "share of new comparisons in the wrong order"
        where = "in new queries" if self._with_queries and self._n_queries > 1 else "of new rows"
        return f"share of misordered pairs {where}"

    def fit_comparisons(
        self,
        X: Any,
        winners: Any,
        losers: Any,
        *,
        margins: Any = None,
        weights: Any = None,
        qid: Any = None,
        unscored: Any = None,
        links: Any = None,
    ) -> Self:
        """Fit on explicit comparisons: rows `winners` of X beat rows `losers`.

        Parameters
        ----------
        X : (n, d) items
        winners, losers : (p,) row numbers of X, or labels of the index of a pandas frame (not whole numbers)
        margins : (p,) >= 0, by how much; default 1, 0 = a tie
        weights : (p,) >= 0
        qid : (n,) one label per row of X; comparisons of one query are held out together
        unscored : (m, d) more items, which say what columns look like and where views agree
        links : links between the rows of X, and of `unscored` after them, as in `fit`

        Returns
        -------
        self
        """
        table = X
        X, unscored, encoder = self._encoded(X, unscored)
        features = read_features(self, X, reset=True)
        n = int(features.shape[0])
        first, second, size_of_win, weight = read_comparisons(winners, losers, margins, weights, n, table)
        groups = np.asarray(comparison_groups(first, second, n, qid))
        used, ends = np.unique(np.concatenate([first, second]), return_inverse=True)
        units = compared_units(ends[: len(first)], ends[len(first) :], size_of_win, weight, groups, len(used))
        numbers = _as_numbers(features)
        if unscored is not None:
            numbers = stacked_rows(numbers, _as_numbers(read_unscored(self, features, unscored)))
        matrix = _read_matrix_of_links(links, int(numbers.shape[0]))
        settings = self._read_settings(encoder)
        model, average = fit_items(numbers, used, matrix, units, settings)
        self._kind, self._n_comparisons = "comparison", len(first)
        self._with_queries, self._with_links = qid is not None, links is not None
        self._n_seen, self._n_scored, self._n_unscored = n, len(used), int(numbers.shape[0]) - len(used)
        self._n_queries = len(np.unique(groups)) if qid is not None else 1
        self._keep(model, average, settings)
        self.encoder_ = encoder
        return self

    def _honest_error(self, average: FittedAverage | None) -> tuple[float, float]:
        if average is None:
            return float("nan"), float("nan")
        units, held_out = average.judged_units, average.held_out
        judged = np.isfinite(held_out)
        if not judged.any():
            return float("nan"), 0.5
        if units.second is not None:
            wrong = np.where(held_out == 0, 0.5, held_out < 0)[judged]
            return float(np.average(wrong, weights=units.roots[judged] ** 2)), 0.5
        queries = units.groups if units.whole else None
        predictions = np.where(judged, held_out, 0.0) / units.roots
        scores = np.where(judged, units.scores, np.nan)
        return float(disagreement_error(scores, predictions, qid=queries)), 0.5

    def _unit_errors(self, average: FittedAverage) -> FloatArray:
        units, judged = average.judged_units, np.isfinite(average.held_out)
        scores = np.where(judged, units.scores, np.nan)
        predictions = np.where(judged, average.held_out, 0.0) / units.roots
        if units.whole:
            errors: FloatArray = disagreement_error(scores, predictions, qid=units.groups, average=False)
            return errors
        differ = np.nan_to_num(np.sign(scores[:, None] - scores[None, :]))
        order = np.sign(predictions[:, None] - predictions[None, :])
        wrong = np.where(differ != 0, (1 - differ * order) / 2, 0.0).sum(axis=1)
        pairs = (differ != 0).sum(axis=1)
        return np.where(pairs > 0, wrong / np.maximum(pairs, 1), np.nan)
