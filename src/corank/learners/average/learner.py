"""What AutoRanker and AutoRegressor share: an average that is fitted, updated, asked and explained."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
from sklearn.utils.validation import check_is_fitted

from corank.core.arrays import (
    Array,
    FloatArray,
    Index,
    like,
    to_numpy,
    with_precision_of,
)
from corank.core.messages import held_out_error, warn_user
from corank.core.observations import TIED
from corank.core.queries import encode_queries
from corank.core.storable import (
    COUNT,
    FLAG,
    NUMBER,
    TEXT,
    later,
    names,
    per_view,
    several,
    size,
    stored,
)
from corank.encode.encoder import TableEncoder
from corank.inputs import (
    as_numbers,
    as_scan,
    is_frame,
    is_scan,
    read_features,
    read_scanned_features,
    read_unscored,
    scans,
)
from corank.learners.average.candidates import WeighedCandidate
from corank.learners.average.encoding import (
    as_columns,
    encoded_tables,
    kernel_columns,
)
from corank.learners.average.explanation import (
    explain_average,
    reason_of,
    shares_of_distance,
)
from corank.learners.average.fitting import FittedAverage
from corank.learners.average.model import AverageModel, fit_table
from corank.learners.average.posterior import RowsToEncode
from corank.learners.average.refitting import (
    extended,
    fit_without_unscored,
    warn_of_lonely_rows,
    without_person,
)
from corank.learners.average.roles import (
    KnowsPersons,
    PersonsAndItems,
    RowLabels,
    forgotten,
    labels_of,
    more_answers,
    persons_at,
    read_roles,
    read_roles_of,
    settings_of,
    with_role_columns,
)
from corank.learners.average.scored_table import (
    AverageSettings,
    EncodedTable,
    ScoredTable,
    read_table,
)
from corank.learners.base import QueryEstimator, finite_predictions
from corank.learners.pair_explanation import ColumnOwners, PairExplanation, read_pair
from corank.learners.parameters import WITH_UNSCORED
from corank.learners.update import COMPARED, check_like_fit
from corank.links import read_link_matrix
from corank.model_files import Saveable
from corank.model_files.schema import Contents
from corank.solve.effect import UnscoredEffect, unscored_effect_of
from corank.solve.posterior import Posterior
from corank.solve.questions import ask
from corank.tables import to_arrow

NOT_HELD_OUT = "held-out predictions of an average are of rows in memory, not of files or updates."


class AverageLearner(KnowsPersons, Saveable, QueryEstimator):
    """What AutoRanker and AutoRegressor share."""

    is_average = has_posterior = suggests = True
    takes = frozenset({"qid", "links", "return_std", "person", "item", "persons"})

    __metadata_request__fit = WITH_UNSCORED
    __metadata_request__predict: ClassVar[dict[str, str | bool]] = {"qid": "groups"}
    _learned = "candidates_"
    _ranks: ClassVar[bool]
    fit_intercept = True  # whether the level of the scores is free
    _training: ScoredTable | None = None  # is not in a file
    _kernel_columns: Any = None  # for kernels of the user's own
    _roles: PersonsAndItems | None = None  # who answered, and about which item

    contents: ClassVar[Contents] = {
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
        "kernel_columns": ("_kernel_columns", later(several(stored("KernelColumns")))),
        "roles": ("_roles", later(stored("Roles"))),
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
        person: Any = None,
        item: Any = None,
        persons: Any = None,
        checkpoint: Any = None,
    ) -> Self:
        """Fit the average on the rows that have a score; the others say what columns look like and
        where views agree.

        Parameters
        ----------
        X : (n, d) array, frame, CSR or tensor; or a `corank.scan`, which brings its scores and
            queries: candidates are then weighed by a sample of its rows and fitted to all of them
        y : (n,) scores, NaN = unscored
        qid : (n,) query labels, any hashable, in any order; None = one query. A ranker compares
            rows within queries, a regressor only holds the rows of a query out together
        sample_weight : (n,) weights of the squared errors
        unscored : (m, d) more rows without scores
        unscored_qid : (m,) their query labels, which are never the same queries as those of `qid`
        links : links between the rows of X, and of `unscored` after them: a SciPy sparse matrix, or
            an array (m, 2) of row numbers, with weights in a third column if there are any.
            `corank.links.read_links` reads ids
        person : (n,) who gave the score of every row, or the name of a column of a frame: what
            persons have in common and where they differ is learned, as far as held-out errors say
            so. Without qid a ranker compares the rows of a person, and a regressor learns a level
            for each
        item : (n,) which item every row is, or the name of a column: items that come back have an
            effect of their own beside what columns say, and how often they were scored is a column
        persons : a table of columns about persons, by name: a frame with a column that is called as
            `person`, else by its index (pandas) or first column; or a dict of names to numbers
        checkpoint : folder for the sums so far of a scan; the same fit takes them up again

        Returns
        -------
        self
        """
        X, y, qid = as_scan(X, y, qid)
        if is_scan(X) or checkpoint is not None:
            scores = {"y": y, "qid": qid, "sample_weight": sample_weight}
            beside = {"unscored": unscored, "unscored_qid": unscored_qid, "links": links}
            beside |= {"person": person, "item": item, "persons": persons}
            return self._fit_scan(X, scores | beside, checkpoint)
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None.")
        X, labels = read_roles(X, person, item)
        unscored, others = read_roles_of(unscored, labels)
        self._roles, given = None, X
        X, unscored, encoder = encoded_tables(self.encoder, X, unscored)
        features = read_features(self, X, reset=True)
        self._kernel_columns = self.views and kernel_columns(self, features)
        table = read_table(self._numbers(features), y, qid, sample_weight, ranks=self._ranks)
        if len(table.scored) == 0:
            cause = (
                "sample_weight leaves no scored row: all of them have weight zero."
                if not np.isnan(table.scores).all()
                else None
            )
            raise ValueError(cause or "y has no scored row: every score is NaN.")
        more = None
        if unscored is not None:
            more = self._numbers(read_unscored(self, features, unscored))
        table = table.followed_by(more, unscored_qid)
        table = replace(table, links=read_link_matrix(links, len(table.scores)))
        self._with_queries = qid is not None
        self._with_links = links is not None
        width = table.features.shape[1]
        labels = labels.followed_by(others, n := features.shape[0], len(table.scores) - n)
        table, self._roles, persons_encoder = with_role_columns(table, labels, persons)
        self.fit_scored(table, self.read_settings(encoder, width))
        self.encoder_, self.persons_encoder_ = encoder, persons_encoder
        is_encoded = is_frame(given) and encoder is not None and encoder is not self.encoder
        if is_encoded and len(table.scored) < len(table.scores):
            self.keep_scored_rows(to_arrow(given).take(pa.array(table.scored)))
        return self

    def remark_in_passes(self, *, queries: bool) -> str:
        """What is left out of predictions in passes; queries : whether rows come with their labels."""
        return self._model.remark_in_passes(queries=queries)

    @property
    def needs_whole_queries(self) -> bool:  # type: ignore[override]  # noqa: D102
        return self._model.compares_within_queries

    def _fit_scan(self, scan: Any, given: Mapping[str, Any], checkpoint: Any) -> Self:
        """Fit the rows of a scan: all of them in memory where they are few, else a sample, and sums
        over all.

        given : the other arguments of `fit` by name, which do not go with a scan
        """
        with scans().passing(self, checkpoint, {"X": scan}) as passes:
            scan.check_alone(given)
            if self.encoder is not None and self.encoder is not scan.encoder:
                where = "that of a scan is fitted and given to scan(..., encoder=)"
                raise ValueError(f"encoder is for tables in memory; {where}.")
            read_scanned_features(self, scan)
            settings = self.read_settings(scan.encoder)
            sampled = scans().SampledScan.of(scan, passes, settings.seed)
            self._with_queries, self._with_links = scan.has_queries, False
            table = sampled.table.ordered(settings)
            alone = EncodedTable(table.features, None, settings)
            self.fit_scored(table, settings, None if sampled.has_whole_queries else alone)
        self._n_seen, self._n_scored, self._n_unscored, self._n_queries = sampled.counts
        self._training, self.encoder_ = None, scan.encoder
        return self

    def keep_scored_rows(self, rows: pa.Table) -> None:
        """Keep the scored rows as they were before they were encoded, for `unscored_effect_`."""
        assert self._training is not None
        assert self._training.numbers is not None
        scored = self._training.numbers[self._training.scored]
        places = np.argsort(np.argsort(scored))  # the ordered rows among those that are given
        self._scored_rows = rows.take(pa.array(places))

    def fit_scored(
        self, table: ScoredTable, settings: AverageSettings, encoded: EncodedTable | None = None
    ) -> None:
        """Fit to the scored rows of a table, which may be encoded already: then it is ordered."""
        table = table.ordered(settings) if table.numbers is None else table
        model, average = fit_table(table, settings, encoded)
        if average is None and self._ranks and len(table.scored) > 1:
            warn_user(TIED)
        scored = table.scored
        self._kind = "score"
        self._n_comparisons = 0
        self._n_seen = len(table.scores)
        self._n_scored = len(scored)
        self._n_unscored = len(table.scores) - len(scored)
        self._n_queries = 1 if table.queries is None else len(np.unique(table.queries[scored]))
        self._keep(model, average, settings, table)

    def _keep(
        self,
        model: AverageModel,
        average: FittedAverage | None,
        settings: AverageSettings,
        table: ScoredTable | None = None,
    ) -> None:
        """Set what was fitted; a table is kept to find out whether its unscored rows helped."""
        self._model = model
        self._views = list(settings.views)
        self._effect: UnscoredEffect | None = None
        self._training = table
        self._average = average
        self._scored_rows = None
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

    def read_settings(
        self, encoder: TableEncoder | None, width: int | None = None
    ) -> AverageSettings:
        """Parameters, checked; views are those of the kinds of columns that an encoder found,
        unless they are given.

        width : how many columns there are before those of items and persons, None where there are
            no others
        """
        return settings_of(
            self, encoder, self._roles, self._kernel_columns, width, ranks=self._ranks
        )

    def _numbers(self, features: Array) -> Array:
        parts = self._kernel_columns
        return as_columns(parts, features) if parts else as_numbers(features)

    def _inputs(
        self, X: Any, person: Any = None, item: Any = None, persons: Any = None
    ) -> tuple[Array, Array]:
        """The checked features of new rows, and what the model predicts from."""
        check_is_fitted(self)
        X, labels = labels_of(self._roles, X, person, item)
        features = self._read(X)
        return features, self._with_roles(self._numbers(features), labels, persons)

    def _with_roles(self, numbers: Array, labels: RowLabels, persons: Any = None) -> Array:
        if self._roles is None:
            return numbers
        of_persons = persons_at(self._roles, labels, persons, self.persons_encoder_)
        return self._roles.beside(numbers, labels, of_persons=of_persons)

    @property
    def _calls_functions(self) -> bool:
        return any(part.kernel.calls_function for part in self._kernel_columns or ())

    def update(
        self,
        X: Any,
        y: Any,
        *,
        qid: Any = None,
        sample_weight: Any = None,
        links: Any = None,
        person: Any = None,
        item: Any = None,
        persons: Any = None,
    ) -> Self:
        """Add newly scored rows: the average is fitted anew on those that the model has kept and
        the new ones.

        Encodings, and the unscored rows on which views agree, stay; weights and alphas are chosen
        again. Answers of persons who were not there in the fit take no new fit: what all persons
        share stays, and these get deviations of their own from it, in a moment.

        Parameters
        ----------
        X : (n, d), as in `fit`
        y : (n,) scores, NaN = unscored: left out
        qid : (n,) query labels, needed where the model was fitted with them; the rows form queries
            of their own
        sample_weight : (n,) weights
        links : links between the rows of X, needed where the model was fitted with them: X then
            holds all linked items, and y is NaN for those that have no new score
        person, item : as in `fit`, needed where the model was fitted with them
        persons : columns of persons who were not in `fit`

        Returns
        -------
        self
        """
        check_is_fitted(self)
        if self._kind == "comparison":
            raise ValueError(COMPARED)
        check_like_fit("qid", qid, self._with_queries)
        check_like_fit("links", links, self._with_links, "they were")
        X, labels = labels_of(self._roles, X, person, item)
        features = self._read(X)
        table = read_table(self._numbers(features), y, qid, sample_weight, ranks=self._ranks)
        table = replace(table, links=read_link_matrix(links, len(table.scores)))
        if len(table.scored) == 0:
            raise ValueError("y has no scored row: every score is NaN, or has weight zero.")
        encoder, persons_encoder = self.encoder_, self.persons_encoder_
        known, width = self.table_, table.features.shape[1]
        if self._roles is not None:
            for role, names in (("person", self._roles.persons), ("item", self._roles.items)):
                check_like_fit(role, getattr(labels, role), names is not None)
            add = partial(more_answers, table, self._roles, labels, persons, persons_encoder)
            table, roles = add(counted=False)
            newcomers = self._model.with_newcomers(table, self.read_settings(encoder, width))
            if newcomers is not None:
                self._model, self._roles = newcomers, roles
                self._n_scored += len(table.scored)
                self._n_seen += len(table.scored)
                return self
            table, self._roles = add(counted=True)
        settings = self.read_settings(encoder, width)
        self._n_scored += len(table.scored)
        if self._model.units is None:
            raise ValueError(
                "update: the model has too many scored rows to keep them; fit again with all rows."
            )
        model, average = extended(self._model, table, settings)
        if links is None:
            self._n_seen += len(table.scored)
        else:  # linked items are those of `fit`, and perhaps more
            self._n_seen = max(self._n_seen, len(table.scores))
            self._n_unscored = max(self._n_seen - self._n_scored, 0)
        if table.queries is not None and not settings.by_person:
            queries = table.queries[table.scored]
            n_queries = warn_of_lonely_rows(queries) if self._ranks else len(np.unique(queries))
            self._n_queries += n_queries
        self._keep(model, average, settings)
        self.encoder_, self.persons_encoder_ = encoder, persons_encoder
        self.table_ = known
        return self

    def forget(self, person: str) -> Self:
        """Remove a person: name, columns and answers. The average is fitted anew without them.

        What all rows together said of columns stays, such as medians and categories, and how often
        an item was answered in the columns of other rows: to lose that too, fit again.

        Parameters
        ----------
        person : one of `persons_`

        Returns
        -------
        self
        """
        check_is_fitted(self)
        encoders, known = (self.encoder_, self.persons_encoder_), self.table_
        is_scored = self._kind == "score"
        code, roles = forgotten(self._roles, person, self._model.scored if is_scored else None)
        if self._model.units is None:
            raise ValueError(
                "forget: the model has not kept its rows; fit again without the person."
            )
        self._roles = roles
        settings = self.read_settings(encoders[0], self.n_features_in_)
        self._keep(*without_person(self._model, code, settings), settings)
        if not is_scored:
            self._n_comparisons = len(self._model.units)
        else:
            self._n_queries -= settings.by_person
            self._n_seen -= self._n_scored - len(self._model.units)
            self._n_scored = len(self._model.units)
        (self.encoder_, self.persons_encoder_), self.table_ = encoders, known
        return self

    # ---------------------------------------------------------------- predict

    def predict(
        self,
        X: Any,
        *,
        qid: Any = None,
        links: Any = None,
        return_std: bool = False,
        person: Any = None,
        item: Any = None,
        persons: Any = None,
    ) -> Any:
        """Scores of the rows of X: higher is better.

        Predictions lie within the range of the scores and one spread beyond.

        Parameters
        ----------
        X : (n, d), as in `fit`. A table goes through the model's `encoder_` first, where it has
            one. Or a `corank.scan`; see `predict_to` for more rows than memory
        qid : (n,) query labels. A ranker that was fitted with queries compares columns within them;
            without labels it predicts by its other candidates, which then have weights of their own
        links : links between the rows of X, for a model that was fitted with links; X then holds
            all items that are to be seen over links, known ones and new ones. A row without links
            is judged by its own columns; without `links` all rows are, by the candidates that need
            none, which then have weights of their own
        return_std : whether to return the standard deviation of a new score of every row too, noise
            included
        person : (n,) for whom the rows are ordered, the name of a column of a frame, or one name
            for all rows. A known person gets an own order, anybody else what columns of persons
            say; None gives the consensus, what persons have in common
        item : (n,) which items the rows are, or the name of a column; the column of `fit` is found
        persons : columns of persons who were not in `fit`, as there

        Returns
        -------
        (n,), or a tuple of two, in the library, on the device and with the precision of X. O(n r d)
        for r scored rows, in blocks.
        """
        X, _, _ = as_scan(X)
        if is_scan(X):
            others = (qid, links, person, item, persons)
            if return_std or any(each is not None for each in others):
                raise ValueError(
                    "return_std, qid, links, person, item and persons do not go with a scan; give"
                    " the rows in memory."
                )
            check_is_fitted(self)
            return scans().predict_scan(self, X)
        features, numbers = self._inputs(X, person, item, persons)
        queries = self._read_queries(qid, features.shape[0])
        matrix = self._read_links(links, features.shape[0])
        mean = _beside(finite_predictions(self._model.predict(numbers, queries, matrix)), features)
        if not return_std:
            return mean
        return mean, _beside(self._model.deviations(numbers, queries, matrix), features)

    def predicted(self, features: Array, queries: Index | None = None) -> Array:
        """Scores of checked features, by the candidates that need no links; queries : (n,) codes."""
        numbers = self._with_roles(self._numbers(features), RowLabels())
        values = self._model.predict(numbers, queries)
        return _beside(finite_predictions(values), features)

    def predict_encoded(self, items: EncodedTable) -> FloatArray:
        """Scores (n,) of items that are encoded already, without queries and links."""
        return np.asarray(finite_predictions(self._model.predict_encoded(items)))

    def _read_links(self, links: Any, n: int) -> Any:
        """Links between n new rows, of which there may be none."""
        if links is not None and not self._with_links:
            raise ValueError(
                "links: the model was fitted without links, so it cannot use them; fit it with"
                " links=."
            )
        return read_link_matrix(links, n, may_be_empty=True)

    def _read_queries(self, qid: Any, n: int) -> Index | None:
        """Query codes, where the model has a use for them."""
        if qid is None:
            return None
        codes = to_numpy(encode_queries(qid, n)[0])
        return codes if self._model.compares_within_queries else None

    def predict_comparison(
        self,
        X_a: Any,
        X_b: Any,
        observed: bool = False,
        *,
        person: Any = None,
        item: tuple[Any, Any] | None = None,
        persons: Any = None,
    ) -> Array:
        """The probability that row i of X_a is above row i of X_b.

        Parameters
        ----------
        X_a, X_b : (n, d)
        observed : whether to ask for the order of two newly observed scores, noise included; else
            for that of the functions
        person, persons : as in `predict`; item : of the rows of X_a, and of those of X_b

        Returns
        -------
        (n,) between 0 and 1, as `predict` returns scores
        """
        items = (None, None) if item is None else item
        first, numbers = self._inputs(X_a, person, items[0], persons)
        second, other_numbers = self._inputs(X_b, person, items[1], persons)
        if first.shape[0] != second.shape[0]:
            raise ValueError(
                f"X_a has {first.shape[0]} rows and X_b {second.shape[0]}; row i is compared with"
                " row i."
            )
        posterior, rows = self._model.posterior(numbers)
        _, others = self._model.posterior(other_numbers)
        return _beside(posterior.chances(rows, others, observed=observed), first)

    def explain_pair(
        self,
        a: Any,
        b: Any,
        *,
        items: Any = None,
        names: Any = None,
        qid: Any = None,
        links: Any = None,
        person: str | None = None,
        item: Any = None,
    ) -> PairExplanation:
        """Say why one item is above another: by scored or compared item, by view and by column.

        Parameters
        ----------
        a, b : one row each, as in `predict`, or row numbers of `items`
        items : (n, d), rows such as those of `fit`: items of the model that are found among them
            are called by their names
        names : (n,) what the rows of `items` are called; None takes the index of a pandas frame, or
            their numbers
        qid, links : of the rows of `items`, as in `predict`; a and b must then be row numbers
        person : the name of whom they are ordered for, None for the consensus
        item : (n,) labels of the rows of `items`; a and b must then be row numbers

        Returns
        -------
        PairExplanation
            Three lists of parts, each of which sums to the difference of the two predictions.
        """
        check_is_fitted(self)
        if self._kernel_columns:
            raise ValueError("explain_pair speaks of columns, of which your kernels know nothing.")
        is_labelled = item is not None and not isinstance(item, str)

        def read(rows: Any) -> Array:
            return self._inputs(rows, person, item if rows is items or not is_labelled else None)[1]

        pair = read_pair(self._read if self._roles is None else read, a, b, items, names)
        if pair.numbers is None and not (qid is None and links is None):
            given = "qid" if links is None else "links"
            raise ValueError(f"{given} goes with items, and with a and b as their row numbers.")
        n = 0 if pair.items is None else pair.items.shape[0]
        queries = self._read_queries(qid, n)
        matrix = self._read_links(links, n)
        numbers = replace(
            pair, rows=as_numbers(pair.rows), items=None if n == 0 else as_numbers(pair.items)
        )
        view_names = [str(view.name) for view in self._views]
        items_are = "compared item" if self._kind == "comparison" else "scored item"
        return explain_average(
            self._model, numbers, ColumnOwners.of(self), view_names, items_are, queries, matrix
        )

    def suggest(
        self,
        X_pool: Any,
        n: int = 1,
        kind: str | None = None,
        links: Any = None,
        *,
        person: Any = None,
        item: Any = None,
        persons: Any = None,
    ) -> Index:
        """What to ask next about the rows of a pool: the questions whose answers say most about the
        function.

        Scores are those that leave least uncertainty about all rows of the pool, comparisons those
        of largest uncertainty. Every question is picked as if those before it had been answered. Of
        a large pool not all rows are looked at: for comparisons 1,000 with the largest uncertainty,
        for scores 2,000 that stand for all.

        Parameters
        ----------
        X_pool : (m, d) rows that could be asked about
        n : how many questions
        kind : "comparison" (which of two is better), "score" (how good is one); None = what the
            model was fitted on
        links, item, persons : as in `predict`
        person : the name of whom is asked; None asks about what persons have in common

        Returns
        -------
        row numbers of X_pool: (n, 2) for comparisons, (n,) for scores
        """
        posterior, rows = self.posterior_at(
            X_pool, links=links, person=person, item=item, persons=persons
        )
        return ask(posterior, rows, self._kind if kind is None else kind, n)

    def posterior_at(
        self,
        X: Any,
        *,
        links: Any = None,
        person: Any = None,
        item: Any = None,
        persons: Any = None,
    ) -> tuple[Posterior, RowsToEncode]:
        """What is believed about the function, and the rows of X as it takes them.

        Parameters
        ----------
        X, links, person, item, persons : as in `predict`
        """
        features = self._inputs(X, person, item, persons)[1]
        matrix = self._read_links(links, features.shape[0])
        return self._model.posterior(features, None, matrix)

    # ---------------------------------------------------------------- what came out

    @property
    def coefficients(self) -> list[FloatArray]:
        """Those of all models that carry weight: (r,) each."""
        return [candidate.coefficients for candidate in self._model.candidates]

    @property
    def reason_(self) -> str:
        """What the average is made of and how good it is, in at most six lines."""
        check_is_fitted(self)
        if not self.candidates_:
            return "There is too little to learn from: the prediction is a constant."
        return reason_of(
            self.candidates_, max(1, len(self._model.candidates)), self._error_sentence()
        )

    @property
    def error_name(self) -> str:
        """What the held-out error is an error of."""
        raise AssertionError("a learner says what its error is")

    def _error_sentence(self) -> str:
        if np.isnan(self.held_out_error_):
            return "There are too few scores to estimate the error on new rows."
        meaning = f"{self.error_name}, not used to choose the weights"
        return (
            "The held-out error is"
            f" {held_out_error(self.held_out_error_, None, self._constant_error, meaning)}."
        )

    @property
    def held_out_predictions_(self) -> FloatArray:
        """(n,) of the rows of `fit`, then `unscored`, without their fold (queries: mean 0), or NaN."""
        table = self._training
        if table is None or self._average is None:
            raise AttributeError(NOT_HELD_OUT)
        average, values = self._average, np.full(len(table.scores), np.nan)
        values[average.judged] = average.held_out / average.judged_units.roots
        return values

    @property
    def constant_error(self) -> float:
        """The held-out error of a constant prediction."""
        return self._constant_error

    @property
    def shares_of_distance(self) -> tuple[FloatArray | None, float]:
        """How much of the distance between rows every feature makes (d,) in models with one width
        per column, None where these have no weight, and their weight.
        """
        shares, weight = shares_of_distance(self._model, self.n_features_in_)
        return None if shares is None else shares[: self.n_features_in_], weight

    @property
    def _answers(self) -> list[Any] | None:
        model = self._model
        if model.scored is None:
            return None
        return [model.scored] if model.later is None else [model.scored, model.later.rows]

    @property
    def columns_of_roles(self) -> list[str]:  # type: ignore[override]
        """What the columns are called that say who answered, about which item."""
        return [] if self._roles is None else self._roles.names_of_columns

    @property
    def known_effect(self) -> UnscoredEffect | None:
        """The `unscored_effect_` where it was asked for before; finding it takes a fit."""
        return self._effect

    def at_a_glance(self) -> Self:
        """The model without what `unscored_effect_` is found from."""
        seen = copy(self)
        seen._training = seen._average = seen._scored_rows = None
        return seen

    @property
    def unscored_effect_(self) -> UnscoredEffect | None:
        """Whether unscored rows helped: the same average with and without them, on folds that chose
        nothing.

        Computed when first asked for, which takes one more fit; None where nothing can be told: no
        unscored rows, fewer than four scores, comparisons, a table whose scored rows are all alike,
        or a model from a file that was saved before it was asked for.
        """
        check_is_fitted(self)
        if self._effect is None and self._training is not None:
            self._effect = self._compare_without(self._training)
        return self._effect

    def _compare_without(self, table: ScoredTable) -> UnscoredEffect | None:
        """Fit without unscored rows too, and compare held-out predictions; their folds took no part
        in any choice.

        A table is encoded without them too.
        """
        if self._average is None:
            return None
        plain = fit_without_unscored(self, table, self._scored_rows)
        if plain is None:
            return None
        return unscored_effect_of(self._unit_errors(self._average), self._unit_errors(plain))

    def _unit_errors(self, average: FittedAverage) -> FloatArray:
        """Held-out errors per row or query: (units,)."""
        raise AssertionError("a learner says what its error is")


def _beside(values: FloatArray, features: Array) -> Array:
    """Values (n,) in the library, on the device and with the precision of the features."""
    return with_precision_of(features, like(values, features))
