"""A site: rows that stay where they are, and answers about shared items in a run with other sites.

Its block of Algorithm 1 of [Brefeld2006] is one view pulled towards given values on the shared
items.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from corank.core.arrays import (
    Array,
    FloatArray,
    add_diagonal,
    cholesky,
    like,
    namespace,
    solve_factored,
    take,
    to_numpy,
)
from corank.core.basis import Basis
from corank.core.loss import QueryLoss, WithinQueries
from corank.core.observations import ScoredRows, whitened_statistics
from corank.core.queries import encode_queries
from corank.core.sums import Gram
from corank.inputs import read_features
from corank.learners.co_rls import CoRankRLS, CoRLS
from corank.streaming.checkpoint import digest_of, in_words
from corank_federated.messages import VERSION, Message, Terms, note
from corank_federated.shared_items import SharedItems
from corank_federated.state import StateError, read_state, write_state

HELD = 1 << 26  # kernel values between shared rows and basis that are kept: 512 MB
BLOCK_ROWS = 4096


class PulledView:
    """min ‖J (s − offset − h)‖² + alpha ‖h‖² + pull ‖J̄ (h − target)‖² over h = Φ W c, for any pull
    and target.

    With G = B + alpha I + pull C: G c = b + pull Wᵀ Φ̄ᵀ L̄ target. C takes one pass over the shared
    rows, O(m r (r + d)); a pull O(r³/3), once; a target O(m r + r²).

    Parameters
    ----------
    basis : Basis of r functions, with the whitening W (r, r') that `gram` was gathered with
    gram : sums over the scored rows, B and b, on whitened features
    offset : what was taken out of the scores
    alpha : float > 0
    shared : the m shared rows and their comparison; their scores do not matter
    """

    def __init__(
        self, basis: Basis, gram: Gram, offset: float, alpha: float, shared: ScoredRows
    ) -> None:
        self.basis, self.gram, self.offset, self.alpha = basis, gram, offset, alpha
        self.rows = shared.features
        self.operator: QueryLoss = shared.operator
        self.right = gram.right(offset)
        self.sums = whitened_statistics(shared, basis).total().features  # C
        self._held = self._blocks() if self.n_shared * basis.size <= HELD else None
        self._pull = -1.0
        self._factor: Array | None = None

    @property
    def n_shared(self) -> int:
        """m."""
        return int(self.rows.shape[0])

    def _blocks(self) -> list[Array]:
        return list(self._made())

    def _made(self) -> Iterator[Array]:
        for begin in range(0, self.n_shared, BLOCK_ROWS):
            yield self.basis.features(
                take(self.rows, slice(begin, min(begin + BLOCK_ROWS, self.n_shared)))
            )

    def _features(self) -> Iterator[Array]:
        """Φ̄, block by block: made again where there is too much of it to keep."""
        yield from self._made() if self._held is None else self._held

    def solve(self, pull: float, target: Array) -> Array:
        """Whitened coefficients (r', 1) for a target (m, 1)."""
        if self._factor is None or pull != self._pull:
            self._factor, self._pull = cholesky(add_diagonal(self._matrix(pull), self.alpha)), pull
        return solve_factored(self._factor, self._pulled(pull, target))

    def gradient(self, white: Array, pull: float, target: Array) -> Array:
        """G c − b − pull Wᵀ Φ̄ᵀ L̄ target: half the slope of the objective, (r', 1)."""
        return self._matrix(pull) @ white + self.alpha * white - self._pulled(pull, target)

    def _matrix(self, pull: float) -> Array:
        return self.gram.features + pull * self.sums

    def _pulled(self, pull: float, target: Array) -> Array:
        if pull == 0:
            return self.right
        weighed = self.operator.apply(target)
        products, begin = [], 0
        for block in self._features():
            end = begin + int(block.shape[0])
            products.append(block.T @ weighed[begin:end, :])
            begin = end
        return self.right + pull * (self.basis.whitening.matrix.T @ sum(products[1:], products[0]))

    def values(self, white: Array) -> Array:
        """h on the shared rows: (m, 1)."""
        coefficients = self.coefficients(white)
        return namespace(white).concat([block @ coefficients for block in self._features()], axis=0)

    def coefficients(self, white: Array) -> Array:
        """Coefficients of the basis: (r, 1)."""
        return self.basis.whitening.matrix @ white

    def loss(self, white: Array) -> float:
        """‖J (s − offset − h)‖² on the scored rows."""
        return float(self.gram.loss(white, self.offset)[0])

    def norm(self, white: Array) -> float:
        """‖h‖."""
        return float(namespace(white).linalg.vector_norm(white))

    def compared(self, values: Array) -> Array:
        """Values (m, 1) less what no comparison sees: the mean of a query, where that costs
        nothing.
        """
        return self.operator.unroot(self.operator.root(values))


REASONABLE = 10.0  # times the size of a site's own scores: more than that no honest run asks for
ROUNDING = 1e-12  # of the scores: spreads below that are none


class Refused(ValueError):
    """What a site was asked for and does not do; says why."""


class PulledTooFar(Refused):
    """A round that would pull a site beyond its limits; which of the senders is to blame, the
    coordinator can tell.
    """


@dataclass(frozen=True)
class Limits:
    """Limits of a site. Its answers are affine in the questions, so that enough questions reveal
    them all.

    Parameters
    ----------
    rounds : answers in all, over every run and restart of this site
    norm : the largest root mean square of what it is pulled towards, less its own mean score; None
        for ten times that of its scores
    report : whether it tells its loss, norm and gradient norm in a run that asks for them; else it
        does not take part
    """

    rounds: int = 200
    norm: float | None = None
    report: bool = True

    def __post_init__(self) -> None:
        if type(self.rounds) is not int or self.rounds < 1:
            raise ValueError(f"rounds must be a whole number from 1, got {self.rounds!r}.")
        if self.norm is not None and not 0 < self.norm < np.inf:
            raise ValueError(f"norm must be greater than 0, got {self.norm!r}.")


class Site:
    """Private rows, and a function of them that learns to agree with other sites on shared items.

    With the other sites it minimises, over f of this site and theirs,

        Σ_v ‖J_v (s_v − f_v)‖² + Σ_v alpha_v ‖f_v‖² + 2·agreement Σ_{u<v} ‖J̄ (f_v − f_u)‖²

    where only values of f on the shared items, and three numbers a round, leave it.

    Parameters
    ----------
    name : str
    learner : CoRLS or CoRankRLS
        Says how this site learns: kernel, gamma, basis, alpha ("tune": by its own held-out error),
        weighting, beta, fit_intercept (its own mean score). It has one view; a list of one `View`
        picks columns. `agreement` and `solver` are not its own to choose.
    X, y : (n, d) rows and (n,) scores, NaN = unscored: left out
    shared : SharedItems
    qid, sample_weight : as in `fit`
    limits : Limits
    state : path of the file that remembers answered rounds across restarts; None forgets
    keep : called with the site when the run has ended, before the coordinator hears that its model
        is kept
    """

    def __init__(
        self,
        name: str,
        learner: CoRLS | CoRankRLS,
        X: Any,
        y: Any,
        shared: SharedItems,
        *,
        qid: Any = None,
        sample_weight: Any = None,
        limits: Limits | None = None,
        state: Path | None = None,
        keep: Callable[[Site], None] | None = None,
    ) -> None:
        self.name, self.shared, self.limits, self.state, self.keep = (
            name,
            shared,
            limits or Limits(),
            state,
            keep,
        )
        self.model = _alone(learner, X, y, shared, qid, sample_weight)
        self.comparison = comparison_of(self.model)
        self._block = _block(self.model, shared)
        size = _size(self._block)
        self._allowed = self.limits.norm or REASONABLE * size
        if self.limits.norm is None and size <= ROUNDING * abs(self.model.intercept_):
            raise ValueError(
                f"the scores of site {name!r} are all the same, so they do not say how far it may"
                " be pulled; give norm in its limits: the size of differences between scores that"
                " other sites may have."
            )
        self.terms: Terms | None = None
        given = _digest(learner, X, y, shared, qid, sample_weight)
        self._memory = _Memory.read(state, self._coefficients_size, len(shared), given)

    @property
    def _coefficients_size(self) -> int:
        return int(self._block.basis.whitening.matrix.shape[1])

    @property
    def answered(self) -> int:
        """How many rounds were answered so far, in all runs."""
        return self._memory.answered

    # ---------------------------------------------------------------- joining

    def hello(self) -> Message:
        """How this site introduces itself."""
        return Message(
            "hello",
            {
                "version": VERSION,
                "site": self.name,
                "comparison": self.comparison,
                "items": len(self.shared),
                "digest": self.shared.fingerprint.digest,
            },
        )

    def handle(self, message: Message) -> Message:
        """The answer to a message of the coordinator; Refused where there is none."""
        if message.kind == "compare":
            upto = int(message["upto"])
            if not 0 <= upto <= len(self.shared):
                raise Refused(f"there are {len(self.shared)} shared items, not {upto}.")
            return Message("digest", {"upto": upto, "digest": self.shared.fingerprint.upto(upto)})
        if message.kind == "terms":
            return self._accept(Terms.read(message))
        if message.kind == "round":
            return self._answer(message)
        if message.kind == "finish":
            return self._finish(message)
        raise Refused(f"a site does not answer a {message.kind}.")

    def _accept(self, terms: Terms) -> Message:
        if self.name not in terms.sites:
            raise Refused(
                f"the run {terms.run!r} is for {', '.join(terms.sites)}, not for {self.name!r}."
            )
        if terms.comparison != self.comparison:
            raise Refused(
                f"the run {terms.run!r} is {terms.comparison}, but {self.name!r} does"
                f" {self.comparison}."
            )
        if (terms.items, terms.digest) != (len(self.shared), self.shared.fingerprint.digest):
            raise Refused(
                f"the run {terms.run!r} is about other shared items than those of {self.name!r}."
            )
        if terms.report and not self.limits.report:
            raise Refused(
                f"the run {terms.run!r} asks for losses, norms and gradient norms, but"
                f" {self.name!r} gives predictions alone; set report = false for the run."
            )
        if self.terms is not None and self.terms.run == terms.run and self.terms != terms:
            raise Refused(f"the terms of the run {terms.run!r} are others than they were.")
        self.terms = terms
        self._memory.enter(terms.run)
        return Message("accepted", {"run": terms.run})

    # ---------------------------------------------------------------- rounds

    def _answer(self, message: Message) -> Message:
        terms = self._of_this_run(message)
        number, sites, target = int(message["round"]), int(message["sites"]), message.numbers
        if target is not None and (
            len(target) != len(self.shared) or not np.isfinite(target).all()
        ):
            raise Refused(
                f"round {number} holds {len(target)} numbers for {len(self.shared)} items, or not"
                " all finite."
            )
        if not 2 <= sites <= len(terms.sites):
            raise Refused(
                f"round {number} speaks of {sites} sites; the run has {len(terms.sites)}."
            )
        asked = hashlib.sha256(
            f"{sites}".encode() + (b"" if target is None else target.tobytes())
        ).hexdigest()
        # a retry: the same answer again
        if number == self._memory.round and asked == self._memory.asked:
            return self._said(number)
        if number <= self._memory.round:
            raise Refused(
                f"round {number} was answered before, to another question; the last was"
                f" {self._memory.round}."
            )
        if self._memory.answered >= self.limits.rounds:
            raise Refused(
                f"{self.name!r} has answered {self._memory.answered} rounds, the most that its"
                " limits allow; to go on, raise rounds in its limits."
            )
        pull, towards = self._pull(terms, sites, target)
        white, values, report = self._solved(pull, towards)
        if not (np.isfinite(values).all() and np.isfinite(report).all()):
            raise Refused(
                f"{self.name!r} finds no finite answer to round {number}; agreement is"
                f" {terms.agreement:.3g}."
            )
        self._memory.remember(number, asked, white, values, report)
        return self._said(number)

    def _pull(self, terms: Terms, sites: int, target: FloatArray | None) -> tuple[float, Array]:
        """How strongly, and towards what: the mean of the others, less this site's own mean score."""
        if target is None:
            return 0.0, like(np.zeros((len(self.shared), 1)), self._block.right)
        values = like(target[:, None], self._block.right) - self.model.intercept_
        towards = self._block.compared(values)
        size = float(np.sqrt(np.mean(to_numpy(towards) ** 2)))
        if size > self._allowed:
            # both numbers say something about the scores: they are for this site's log, not for the
            # others
            note("too far", level=logging.WARNING, site=self.name, size=size, allowed=self._allowed)
            raise PulledTooFar(
                f"{self.name!r} was to be pulled further than its limits allow; if the other sites'"
                " scores are that much larger than its own, raise norm in its limits: its log says"
                " how far."
            )
        return 2 * terms.agreement * (sites - 1), towards

    def _solved(self, pull: float, towards: Array) -> tuple[FloatArray, FloatArray, list[float]]:
        """Coefficients, values on the shared items, and what is reported: loss, norm, gradient norm
        before the update.
        """
        block = self._block
        before = like(self._memory.coefficients[:, None], block.right)
        slope = float(np.linalg.norm(to_numpy(block.gradient(before, pull, towards))))
        white = block.solve(pull, towards)
        values = block.compared(block.values(white) + self.model.intercept_)
        return (
            to_numpy(white)[:, 0],
            to_numpy(values)[:, 0],
            [block.loss(white), block.norm(white), slope],
        )

    def _said(self, number: int) -> Message:
        assert self.terms is not None
        report = self._memory.report if self.terms.report else None
        return Message(
            "answer",
            {"run": self.terms.run, "round": number, "report": report},
            self._memory.values,
        )

    def _of_this_run(self, message: Message) -> Terms:
        if self.terms is None or message["run"] != self.terms.run:
            raise Refused(f"{self.name!r} does not take part in the run {message['run']!r}.")
        return self.terms

    def _finish(self, message: Message) -> Message:
        terms = self._of_this_run(message)
        if message["round"] > self._memory.round:
            raise Refused(
                f"the run ended at round {message['round']}, but the last one here is"
                f" {self._memory.round}."
            )
        white = like(self._memory.coefficients[:, None], self._block.right)
        agreed(
            self.model, self._block.coefficients(white)[:, 0], terms, self.name, self._memory.round
        )
        if self.keep is not None:
            self.keep(self)
        return Message("saved", {"run": terms.run})


@dataclass
class _Memory:
    """What must survive a restart: the last question and its answer, and how many there were."""

    path: Path | None
    coefficients: FloatArray
    given: str  # digest of data and settings
    run: str = ""
    round: int = 0
    asked: str = ""
    answered: int = 0
    report: list[float] | None = None
    values: FloatArray | None = None

    @classmethod
    def read(cls, path: Path | None, size: int, items: int, given: str) -> _Memory:
        state = None if path is None else read_state(path)
        memory = cls(path, np.zeros(size), given)
        if state is None:
            return memory
        facts, arrays = state
        try:
            memory.run, memory.asked = str(facts["run"]), str(facts["asked"])
            memory.round, memory.answered = int(facts["round"]), int(facts["answered"])
            memory.report = [float(number) for number in facts["report"]]
            coefficients, values = arrays["coefficients"], arrays["values"]
            as_before = facts["given"] == given
            if memory.round < 1 or memory.answered < 1 or len(memory.report) != 3:
                raise ValueError("counts")
            if as_before and (coefficients.shape != (size,) or values.shape != (items,)):
                raise ValueError("shapes")
            if not all(
                np.isfinite(numbers).all() for numbers in (coefficients, values, memory.report)
            ):
                raise ValueError("numbers")
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise StateError(
                f"{path} is not the state of a site; move it away to start over."
            ) from error
        if as_before:
            memory.coefficients, memory.values = coefficients, values
        else:  # rounds count on, but what was said no longer holds
            note(
                "changed",
                level=logging.WARNING,
                why="data or settings are others than in the last round; starts over",
            )
            memory.run = ""
        return memory

    def enter(self, run: str) -> None:
        """Go on with a run, or begin another one."""
        if run != self.run:
            self.run, self.round, self.asked, self.report, self.values = run, 0, "", None, None
            self.coefficients = np.zeros_like(self.coefficients)

    def remember(
        self, number: int, asked: str, white: FloatArray, values: FloatArray, report: list[float]
    ) -> None:
        """Write down before it is said, so that no restart forgets an answer."""
        if self.path is not None:
            facts = {
                "run": self.run,
                "round": number,
                "asked": asked,
                "answered": self.answered + 1,
                "report": report,
            }
            write_state(
                self.path, {**facts, "given": self.given}, {"coefficients": white, "values": values}
            )
        self.round, self.asked, self.answered = number, asked, self.answered + 1
        self.coefficients, self.values, self.report = white, values, report


def comparison_of(learner: CoRLS | CoRankRLS) -> str:
    """What sites of one run must have in common."""
    return f"ranking by {learner.weighting}" if isinstance(learner, CoRankRLS) else "regression"


def _alone(
    learner: Any, X: Any, y: Any, shared: SharedItems, qid: Any, sample_weight: Any
) -> CoRLS | CoRankRLS:
    """The site's own model, with no one to agree with."""
    if not isinstance(learner, CoRLS | CoRankRLS):
        raise TypeError(f"learner must be a CoRLS or a CoRankRLS, got {type(learner).__name__}.")
    alone = clone(learner).set_params(agreement=0.0, solver="coordinate")
    views = alone.views
    if not isinstance(views, list | tuple):
        alone.set_params(views=1)
    elif len(views) != 1:
        raise ValueError(f"views: a site has one view, got {len(views)}.")
    kernel = alone.kernel if not isinstance(views, list | tuple) else views[0].kernel
    if isinstance(kernel, str) and kernel == "precomputed":
        raise ValueError(
            "kernel='precomputed' says nothing about shared items; a site needs a kernel of"
            " features."
        )
    queries = shared.queries if isinstance(alone, CoRankRLS) else None
    model: CoRLS | CoRankRLS = alone.fit(
        X, y, qid=qid, sample_weight=sample_weight, unscored=shared.features, unscored_qid=queries
    )
    return model


def _digest(learner: Any, X: Any, y: Any, shared: SharedItems, qid: Any, sample_weight: Any) -> str:
    """Digest of everything that a site's answers depend on, except the questions."""
    lines = [
        f"{name}={in_words(value)}"
        for name, value in sorted(learner.get_params(deep=False).items())
    ]
    arrays = (X, y, shared.features, shared.queries, qid, sample_weight)
    lines += ["" if array is None else digest_of(array) for array in arrays]
    return hashlib.sha256("\n".join([type(learner).__name__, *lines]).encode()).hexdigest()


def _block(model: Any, shared: SharedItems) -> PulledView:
    """The part of the joint problem that is this site's."""
    (part,) = model.function_.parts
    features = part.span.seen(read_features(model, shared.features, reset=False))
    m = len(shared)
    reference = model.coef_[0]
    ranks = isinstance(model, CoRankRLS)
    queries, n_queries = (
        (None, 1) if shared.queries is None or not ranks else encode_queries(shared.queries, m)
    )
    rows = ScoredRows(
        features=features,
        scores=like(np.zeros(m), reference),
        queries=None if queries is None else like(queries, reference, "int64"),
        n_queries=n_queries,
        weights=None,
        index=like(np.arange(m), reference, "int64"),
    )
    comparison = WithinQueries(model.weighting) if ranks else model.loss()
    (sums,) = model._statistics
    basis = part.span.basis(len(part.coefficients), reference)
    penalty = model.alpha_ * model.views_[0].penalty
    return PulledView(
        basis, sums.total(), model.intercept_ - model._level, penalty, rows.under(comparison)
    )


def _size(block: PulledView) -> float:
    """Root mean square of the scores, their level taken out."""
    gram = block.gram
    zero = like(np.zeros((int(gram.features.shape[0]), 1)), block.right)
    return float(np.sqrt(float(gram.loss(zero, block.offset)[0]) / gram.weight))


def agreed(model: Any, coefficients: Array, terms: Terms, name: str, rounds: int) -> None:
    """Make the model that a site had alone the one that was agreed on."""
    (part,) = model.function_.parts
    part = replace(part, span=replace(part.span, whitening=None), coefficients=coefficients)
    model.function_ = replace(model.function_, parts=(part,))
    model.agreement_, model.n_iter_ = terms.agreement, rounds
    # they know nothing of the other sites
    model._kept = model._evidence = None
    model.table_ = {
        **(model.table_ or {}),
        "federated": terms.run,
        "site": name,
        "sites": len(terms.sites),
    }
