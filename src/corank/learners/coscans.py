"""Learners with several views on scans: scored rows in memory where they fit, unscored ones always pass by pass."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np

from corank._backend import to_numpy
from corank.learners.growth import GrowingViews
from corank.learners.scans import TOO_MANY, is_scan, note_features
from corank.learners.viewbasis import BasisMaker, asked_bases, candidates_of, check_scanned
from corank.learners.viewscores import GivenScores
from corank.looking import Look, Looking
from corank.passes import Passes
from corank.rows import encode_queries, read_unscored
from corank.scanned import ScannedRows, SomeRows, held_rows, look_at
from corank.scans import Scan
from corank.solvers.agreement import Unscored, ViewData
from corank.solvers.cofit import CoSolution
from corank.solvers.costreamed import SummedRows, solve_streamed_views
from corank.solvers.streamed import ScoredScan
from corank.statistics import Index
from corank.unscored import HeldRows, Part, StreamedRows, UnscoredRows, is_stream
from corank.views import select


class ScannedViews(GrowingViews):
    """Reading scans. `several` says how what was read is fitted."""

    def _fit_scan(self, X: Scan, unscored: Any, unscored_qid: Any, passes: Passes) -> Self:
        """Scored rows in memory, unscored ones pass by pass."""
        note_features(self, X)
        self._set_views(X.n_features, X.feature_names)
        self._refuse_precomputed()
        asked = asked_bases(self)
        looking = Looking(candidates_of(asked), self._seed)
        look = look_at(X, passes, looking, "X", contiguous=True)
        if look.n_scored == 0:
            raise ValueError("the scan has no scored row: its score column is empty.")
        if look.held is None:
            return self._fit_sums(X, look, asked, unscored, unscored_qid, passes)
        features, rows = held_rows(look, with_queries=X.has_queries)
        parts = self._scanned_parts(X, look, features, unscored, unscored_qid, passes)
        check_scanned(asked, len(rows) + sum(part.n_rows for part in parts))
        n_plain = look.n_rows - look.n_scored
        held = GivenScores.held(rows)
        self._fit_given(features, held, parts, n_plain, with_queries=X.has_queries)
        return self

    def _scanned_parts(
        self, X: Scan, look: Look, features: SomeRows, unscored: Any, labels: Any, passes: Passes
    ) -> list[Part]:
        """The rows of a scan without a score, then those of `unscored=`."""
        parts: list[Part] = []
        if look.n_rows > look.n_scored:
            with_queries = self._unscored_comparison().needs_queries
            parts.append(ScannedRows(X, look, passes, "X", every=False, with_queries=with_queries))
        return [*parts, *self._more_unscored(features, unscored, labels, passes)]

    def _fit_sums(self, X: Scan, look: Look, asked: Sequence[Any], unscored: Any, labels: Any, passes: Passes) -> Self:
        """Fit more scored rows than fit into memory."""
        self._check_streamed(asked, look.n_scored)
        index, pool = look.scored.rows()
        features = SomeRows(pool, index, look.n_rows)
        rows = UnscoredRows(tuple(self._scanned_parts(X, look, features, unscored, labels, passes)))
        maker = BasisMaker.of(self, features, None, [index for _ in self.views_], rows)
        self._check_streamed(["auto" if spec is None else spec for spec in maker.specs], look.n_scored)
        comparison, level = self._comparison(), look.level if self._centred else 0.0
        scored = ScoredScan(X, look, passes, comparison, level)
        nothing = rows.n_rows == 0 or len(self.views_) == 1
        settings = replace(self._co_settings(), agreement=0.0) if nothing else self._co_settings()
        stand_in: Any = SummedRows(comparison, scored.n_queries, X.reference())
        found: list[tuple[CoSolution, float | None, list[Index | None]]] = []
        choices = list(maker.widths())
        for widths in choices:
            data, bases = [], []
            for position, view in enumerate(self.views_):
                basis, own = maker.basis(position, select(pool, view.columns), widths[position])
                data.append(ViewData(stand_in, basis, view.columns, view.penalty))
                bases.append(own)
            own_settings = replace(settings, compared=len(choices) > 1)
            solution = solve_streamed_views(data, Unscored(self._unscored_comparison(), rows), scored, own_settings)
            found.append((solution, widths[0], bases))
        best, _, self.basis_ = min(found, key=lambda one: error_of(one[0]))
        self._keep(best, level, look.n_scored, X.has_queries)
        self._n_seen = look.n_rows + sum(part.n_rows for part in rows.parts if not _is_of_x(part))
        self._n_unscored = rows.n_rows
        self._keep_training(best.system, rows, in_memory=False)
        paths = [(one.path, width) for one, width, _ in found if one.path is not None]
        if len(paths) > 1:
            self.path_ = joined_paths(paths)
        self._warn(rows, best)
        return self

    def _check_streamed(self, asked: Sequence[Any], n_scored: int) -> None:
        """Refuse what needs scored rows in memory."""
        for spec in asked:
            number = isinstance(spec, numbers.Integral) and not isinstance(spec, bool)
            if not number and not (isinstance(spec, str) and spec in ("auto", "features")):
                raise ValueError(
                    f"basis={spec!r} needs the rows in memory, but {TOO_MANY.format(rows=n_scored)}; give a number of "
                    "basis rows, or 'features' with linear kernels."
                )
        if self._co_settings().tunes and (self._cv is not None or self.scoring == "disagreement"):
            what = "cv" if self._cv is not None else "scoring='disagreement'"
            raise ValueError(
                f"{what} needs the scored rows in memory, but {TOO_MANY.format(rows=n_scored)}; leave it out."
            )

    def _scanned(self, scan: Scan, n_before: int, passes: Passes) -> Part:
        """A scan of unscored rows, which come after those of X."""
        scan = scan.seen_by(getattr(self, "feature_names_in_", None), self.n_features_in_, type(self).__name__)
        self._refuse_precomputed()
        with_queries = self._unscored_comparison().needs_queries
        asked = asked_bases(self)
        looking = Looking(candidates_of(asked), self._seed, all_unscored=True, first_number=n_before)
        look = look_at(scan, passes, looking, "unscored", contiguous=with_queries)
        check_scanned(asked, n_before + look.n_rows)
        return ScannedRows(scan, look, passes, "unscored", with_queries=with_queries)

    def _refuse_precomputed(self) -> None:
        if any(isinstance(view.kernel, str) and view.kernel == "precomputed" for view in self.views_):
            raise ValueError("kernel='precomputed' needs all kernel values in memory; a scan holds features.")

    def _more_unscored(self, features: Any, unscored: Any, labels: Any, passes: Passes) -> list[Part]:
        """Rows of `unscored=`, whose queries are their own and whose numbers come after those of X."""
        n_before = int(features.shape[0])
        if unscored is None:
            if labels is not None:
                raise ValueError("unscored_qid was given without unscored.")
            return []
        if is_scan(unscored):
            if labels is not None:
                raise ValueError("unscored_qid does not go with a scan; name its column in scan(..., query=).")
            return [self._scanned(unscored, n_before, passes)]
        known = features.features if isinstance(features, SomeRows) else features
        if is_stream(unscored):
            if labels is not None:
                raise ValueError("unscored_qid does not go with chunks; each chunk brings its own: (X, qid).")
            with_queries = self._unscored_comparison().needs_queries
            return [StreamedRows(unscored, partial(read_unscored, self, known), with_queries, first=n_before)]
        more = read_unscored(self, known, unscored)
        codes = None if labels is None else encode_queries(labels, int(more.shape[0]), "unscored_qid")[0]
        return [HeldRows(more, None if codes is None else np.asarray(to_numpy(codes)), first=n_before)]


def _is_of_x(part: Part) -> bool:
    """Whether rows are among those of X."""
    return isinstance(part, ScannedRows) and not part.every


def error_of(solution: CoSolution) -> float:
    """Held out, of what was chosen; infinite where nothing was."""
    return float("inf") if solution.path is None else float(solution.path.error[solution.path.best])


def joined_paths(paths: Sequence[tuple[Any, float | None]]) -> Any:
    """The paths of several kernel widths as one; gamma is that of the first view."""
    errors = [float(path.error[path.best]) for path, _ in paths]
    best = int(np.argmin(errors))
    before = sum(len(path.alpha) for path, _ in paths[:best])
    return replace(
        paths[best][0],
        alpha=np.concatenate([path.alpha for path, _ in paths]),
        gamma=np.concatenate([np.full(len(path.alpha), np.nan if w is None else w) for path, w in paths]),
        error=np.concatenate([path.error for path, _ in paths]),
        standard_error=np.concatenate([path.standard_error for path, _ in paths]),
        agreement=np.concatenate([path.agreement for path, _ in paths]),
        best=before + paths[best][0].best,
    )
