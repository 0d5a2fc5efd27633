"""The coordinator: rounds of predictions on shared items until the sites' models stop changing
([Brefeld2006] section 4).

The plan of a run and its report; checks before the first round that all sites hold the same items;
extrapolation from past rounds, and the estimated distance to the solution.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from corank.core.arrays import FloatArray
from corank.tables import LARGEST
from corank_federated.channel import Channel, Fault
from corank_federated.messages import VERSION, Message, Terms, note
from corank_federated.shared_items import Fingerprint, SharedItemsError, first_difference
from corank_federated.site import REASONABLE
from corank_federated.state import StateError, read_state, write_state

LEAST, MOST = 20, 100  # differences that extrapolation looks back on
NUMBERS = 1 << 24  # that it may keep of each kind; few differences where there are many items
WORSE = 10.0  # a residual that has grown by this factor: forget the past
DEPENDENT = 1e-13  # a difference that others explain but for this share says nothing new


class Extrapolation:
    """Anderson's acceleration of x → F(x) for an affine F: the mix of past steps that leaves the
    least residual.

    With as many steps kept as there are, these are the iterates of GMRES (Walker and Ni 2011): as
    few evaluations of F as any method that sees nothing else can need. O(k N) per step for N
    numbers and k past steps, by a QR decomposition that grows; when it is full, the older half is
    forgotten.

    Parameters
    ----------
    memory : steps to look back on; None as many as fit, 0 is the plain iteration
    """

    def __init__(self, memory: int | None = None) -> None:
        self.memory = memory
        self.forget()

    def forget(self) -> None:
        """Start over, as after a change of F."""
        self._moves: list[FloatArray] = []  # of x and F(x) − x together: how far a step goes
        self._residuals: list[FloatArray] = []  # differences of F(x) − x = Q R
        self._q: list[FloatArray] = []
        self._r: list[FloatArray] = []  # columns
        self._last: tuple[FloatArray, FloatArray] | None = None

    def next(self, x: FloatArray, image: FloatArray) -> FloatArray:
        """Where to evaluate next, after F(x) = image."""
        most = min(MOST, max(LEAST, NUMBERS // x.size)) if self.memory is None else self.memory
        if most == 0:
            return image
        residual = image - x
        if self._last is not None and np.linalg.norm(residual) > WORSE * np.linalg.norm(
            self._last[1]
        ):
            self.forget()
        if self._last is not None:
            if len(self._q) == most:
                self._keep_newer(most // 2)
            change = residual - self._last[1]
            self._add((x - self._last[0] + change).ravel(), change.ravel())
        self._last = (x, residual)
        if not self._q:
            return image
        triangle = np.zeros((len(self._r), len(self._r)))
        for k, column in enumerate(self._r):
            triangle[: len(column), k] = column
        sizes = np.linalg.norm(triangle, axis=0)
        right = np.asarray([q @ residual.ravel() for q in self._q])
        mix = np.linalg.lstsq(triangle / sizes, right, rcond=1e-12)[0] / sizes
        moved = np.zeros(x.size)
        for share, move in zip(mix, self._moves, strict=True):
            moved += share * move
        return np.asarray(image - moved.reshape(x.shape))

    def _add(self, move: FloatArray, change: FloatArray) -> None:
        """One more column of the decomposition, orthogonalised twice; none where it is a mix of the
        others.
        """
        left, column = change.copy(), np.zeros(len(self._q) + 1)
        for _ in range(2):
            for k, q in enumerate(self._q):
                share = float(q @ left)
                column[k] += share
                left -= share * q
        column[-1] = np.linalg.norm(left)
        if column[-1] <= DEPENDENT * np.linalg.norm(change):
            return
        self._q.append(left / column[-1])
        self._r.append(column)
        self._moves.append(move)
        self._residuals.append(change)

    def _keep_newer(self, count: int) -> None:
        moves, residuals = self._moves[-count:], self._residuals[-count:]
        self._moves, self._residuals, self._q, self._r = [], [], [], []
        for move, change in zip(moves, residuals, strict=True):
            self._add(move, change)


@dataclass
class Distance:
    """How far from the fixed point, judged from residuals alone.

    A small step is not a small error where every step gains little: with a contraction of rho per
    round the error is rho / (1 − rho) residuals. Extrapolation says itself how far it thinks it has
    to go.
    """

    before: float | None = None
    steps: list[float] = field(default_factory=list)

    def left(self, residual: float, step: float, *, extrapolated: bool) -> float:
        """The estimated error of the latest values; `step` is how far extrapolation goes."""
        before, self.before = self.before, residual
        if residual == 0:
            return 0.0
        if before is None:
            return np.inf
        if extrapolated:
            self.steps = [*self.steps[-1:], step]
            return max(*self.steps, residual)  # one lucky step is not enough
        rho = residual / before
        return residual * rho / (1 - rho) if rho < 1 else np.inf


def spread(values: FloatArray) -> float:
    """The size of predictions (M, m), one mean taken out: what errors are measured against."""
    return float(np.linalg.norm(values - values.mean())) or 1.0


def disagreement(values: FloatArray) -> float:
    """Root mean square of the differences from the sites' mean, (M, m)."""
    return float(np.sqrt(np.mean((values - values.mean(axis=0)) ** 2)))


def wild_sites(values: FloatArray) -> list[int]:
    """Sites whose predictions, (M, m), lie further off than an honest run explains, by comparison
    with all others.

    They are a minority of three sites or more; from the median of all sites each lies REASONABLE
    times as far as the others lie from it or vary over the items.
    """
    distances = np.sqrt(np.mean((values - np.median(values, axis=0)) ** 2, axis=1))
    sizes = np.maximum(distances, values.std(axis=1))
    order = np.argsort(-distances)
    for number in range((len(values) - 1) // 2, 0, -1):
        suspects, others = order[:number], order[number:]
        if distances[suspects].min() > REASONABLE * sizes[others].max():
            return sorted(int(site) for site in suspects)
    return []


class RunStopped(ConnectionError):
    """A run that cannot go on; says which site, why, and what to do."""


def introduced(channel: Channel, sites: Sequence[str]) -> dict[str, Message]:
    """Every site's hello, checked for what sites need to have in common beside the items."""
    hellos: dict[str, Message] = {}
    for name, hello in channel.hello(sites).items():
        if isinstance(hello, Fault):
            raise RunStopped(f"site {name!r} did not join: {hello.reason}.")
        if (
            hello.kind != "hello"
            or hello["version"] != VERSION
            or hello["site"] != name
            or hello["items"] < 0
        ):
            raise RunStopped(
                f"site {name!r} introduced itself as something else; do all sites run the same"
                " corank?"
            )
        if hello["items"] == 0:
            raise RunStopped(
                f"site {name!r} has its model and only predicts; start it with --force to learn"
                " again."
            )
        hellos[name] = hello
    first = hellos[sites[0]]
    for name in sites[1:]:
        if hellos[name]["comparison"] != first["comparison"]:
            conflict = (
                f"site {sites[0]!r} does {first['comparison']}, but site {name!r}"
                f" {hellos[name]['comparison']}"
            )
            channel.tell(
                sites, Message("stop", {"reason": f"{conflict}; all must do the same", "row": None})
            )
            raise RunStopped(f"{conflict}; all must do the same.")
    return hellos


def check_items(
    channel: Channel, hellos: Mapping[str, Message], copy: Fingerprint | None
) -> tuple[int, str]:
    """Number and digest of the shared items, the same everywhere; else SharedItemsError names the
    first differing row.

    `copy` is the coordinator's copy, where it has one. A difference is found by bisection: O(log
    items) questions.
    """
    names = list(hellos)
    if copy is None:
        reference, expected, theirs = (
            f"site {names[0]!r}",
            hellos[names[0]]["items"],
            _asker(channel, names[0]),
        )
        digest = str(hellos[names[0]]["digest"])
    else:
        reference, expected, theirs, digest = "the coordinator", len(copy), copy.upto, copy.digest
    for name in names:
        items = int(hellos[name]["items"])
        if (items, hellos[name]["digest"]) == (expected, digest):
            continue
        row = first_difference(theirs, _asker(channel, name), min(expected, items))
        if row is None:
            difference = (
                f"{reference} has {expected:,} shared items and site {name!r} {items:,}; the others"
                " are alike."
            )
            row = min(expected, items)
        else:
            difference = (
                f"the shared items of {reference} and site {name!r} first differ in row"
                f" {row + 1:,}, counted from 1: all sites need the same items with the same ids in"
                " the same order."
            )
        channel.tell(names, Message("stop", {"reason": difference, "row": row}))
        raise SharedItemsError(difference)
    return int(expected), digest


def _asker(channel: Channel, name: str) -> Callable[[int], str]:
    def ask(upto: int) -> str:
        answer = channel.ask({name: Message("compare", {"upto": upto})})[name]
        if isinstance(answer, Fault):
            raise RunStopped(
                f"site {name!r} did not say what its shared items are: {answer.reason}."
            )
        if answer.kind != "digest" or answer["upto"] != upto:
            raise RunStopped(
                f"site {name!r} answered something else than was asked about its shared items."
            )
        return str(answer["digest"])

    return ask


SCHEDULES = ("sequential", "parallel")


@dataclass(frozen=True)
class Plan:
    """How a run goes.

    Parameters
    ----------
    run : its name
    sites : names of at least two sites, in the order of their turns
    agreement : weight of the disagreement on shared items, as in `CoRLS`
    schedule : "sequential": one site after the other, each seeing the latest answers (Algorithm 1
        of Brefeld
        and others, 2006); "parallel": all at once, less waiting but up to twice the rounds
    accelerate : whether to extrapolate from past rounds
    report : whether sites tell loss, norm and gradient norm; else predictions are all that leaves
        them
    tol : when to stop: estimated error of the predictions and, where sites report, the joint
        gradient, both relative
    max_rounds : when to give up
    on_missing : "stop" or "continue", when a site is lost; with "continue" at least `min_sites`
        must remain
    """

    run: str
    sites: tuple[str, ...]
    agreement: float
    schedule: str = "sequential"
    accelerate: bool = True
    report: bool = True
    tol: float = 1e-10
    max_rounds: int = 200
    on_missing: str = "stop"
    min_sites: int = 2

    def __post_init__(self) -> None:
        if not self.run:
            raise ValueError("run needs a name.")
        if len(self.sites) < 2 or len(set(self.sites)) < len(self.sites):
            raise ValueError(
                "sites must name two sites or more, each once; got"
                f" {', '.join(self.sites) or 'none'}."
            )
        if not 0 < self.agreement < np.inf:
            raise ValueError(f"agreement must be greater than 0, got {self.agreement!r}.")
        if self.schedule not in SCHEDULES:
            raise ValueError(f"schedule must be 'sequential' or 'parallel', got {self.schedule!r}.")
        if self.on_missing not in ("stop", "continue"):
            raise ValueError(f"on_missing must be 'stop' or 'continue', got {self.on_missing!r}.")
        if not 0 < self.tol < 1:
            raise ValueError(f"tol must lie between 0 and 1, got {self.tol!r}.")
        if self.max_rounds < 2:
            raise ValueError(f"max_rounds must be at least 2, got {self.max_rounds!r}.")
        if not 2 <= self.min_sites <= len(self.sites):
            raise ValueError(
                f"min_sites must lie between 2 and the {len(self.sites)} sites, got"
                f" {self.min_sites!r}."
            )

    @property
    def fixed(self) -> dict[str, Any]:
        """What must not change between the parts of a run."""
        return {
            "sites": list(self.sites),
            "agreement": self.agreement,
            "report": self.report,
            "schedule": self.schedule,
        }


@dataclass(frozen=True)
class Round:
    """What a round brought.

    error : estimated relative error of the predictions; gradient : of the joint objective relative
        to its value at zero, None where it is not known; disagreement : root mean square between
        the sites' predictions
    reports : loss, norm and gradient norm by site, where sites tell them
    """

    number: int
    error: float
    gradient: float | None
    disagreement: float
    sent: int
    received: int
    seconds: float
    reports: dict[str, list[float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Report:
    """How a run went."""

    run: str
    sites: tuple[str, ...]
    lost: dict[str, str]
    converged: bool
    n_rounds: int  # the number of the last complete one, also where that was before a restart
    rounds: list[Round]  # since the last start
    predictions: FloatArray  # (M, m), as sites answered last

    @property
    def bytes(self) -> int:
        """Bytes of all rounds since the last start, both ways."""
        return sum(each.sent + each.received for each in self.rounds)


STILL = 12  # rounds without any gain
ROUNDING = 1e4  # times tol: a joint gradient above that is more than rounding


@dataclass
class _Progress:
    """Where a run stands after a completed round: enough to go on from."""

    sites: list[str]
    number: int = 0
    # the last round that all have answered; `number` counts one that was broken off, too
    completed: int = 0
    x: FloatArray | None = None  # (M, m) what the next round starts from
    scale: float = 0.0  # gradient at zero
    exact: bool = False  # whether the next round asks about the very predictions that sites gave
    strictness: float = 1.0
    measured: float = np.inf  # the joint gradient when it was last measured
    lost: dict[str, str] = field(default_factory=dict)
    converged: bool = False


class Coordinator:
    """Runs rounds over a channel.

    Round 1 asks every site for its predictions alone. From then on each is asked for its best
    answer given the mean of the others. A sequential or extrapolated round moves the questions
    while sites answer, so their gradients belong to different points: once predictions stand still,
    one plain parallel round measures the joint gradient at one point.

    Parameters
    ----------
    plan : Plan
    channel : Channel
    items : fingerprint of the coordinator's own copy of the shared items; None takes the first
        site's word
    state : path of the file from which a killed coordinator goes on; None forgets
    progress : is told of every round
    """

    def __init__(
        self,
        plan: Plan,
        channel: Channel,
        *,
        items: Fingerprint | None = None,
        state: Path | None = None,
        progress: Callable[[Round], None] | None = None,
    ) -> None:
        self.plan, self.channel, self.items, self.state = plan, channel, items, state
        self.progress = progress or (lambda done: None)
        self.rounds: list[Round] = []
        self._memory = Extrapolation(None if plan.accelerate else 0)
        self._distance = Distance()
        self._errors: list[float] = []
        self._answered: dict[str, FloatArray] = {}  # by every site, when it last did

    def run(self) -> Report:
        """All rounds, until convergence or `max_rounds`; RunStopped where it cannot go on."""
        at = self._join()
        values = np.zeros((len(at.sites), self.terms.items)) if at.x is None else at.x
        self._answered = {} if at.x is None else dict(zip(at.sites, at.x, strict=True))
        while not at.converged and at.number < self.plan.max_rounds:
            try:
                values = self._round(at)
            except _SitesLost as lost:
                self._go_on_without(at, lost)
        self._finish(at)
        return Report(
            self.plan.run, tuple(at.sites), at.lost, at.converged, at.completed, self.rounds, values
        )

    # ---------------------------------------------------------------- joining

    def _join(self) -> _Progress:
        """Terms that all sites accept, and where the run stands."""
        at = self._resumed()
        hellos = introduced(self.channel, at.sites)
        items, digest = check_items(self.channel, hellos, self.items)
        comparison = str(hellos[at.sites[0]]["comparison"])
        self.terms = Terms(
            self.plan.run,
            self.plan.sites,
            comparison,
            self.plan.agreement,
            items,
            digest,
            self.plan.report,
        )
        if at.x is not None and at.x.shape[1] != items:
            raise StateError(
                f"{self.state} is about {at.x.shape[1]} shared items, but there are {items}."
            )
        replies = self.channel.ask(dict.fromkeys(at.sites, self.terms.message()))
        for name, reply in replies.items():
            if (why := self._mismatch(reply, "accepted")) is not None:
                self._stop(at, f"site {name!r} does not take part: {why}")
        return at

    def _resumed(self) -> _Progress:
        state = None if self.state is None else read_state(self.state)
        if state is None:
            return _Progress(list(self.plan.sites))
        facts, arrays = state
        if facts.get("run") != self.plan.run or facts.get("plan") != self.plan.fixed:
            raise StateError(
                f"{self.state} belongs to the run {facts.get('run')!r} under other settings; give"
                " this run a name and a state of its own, or move the file away."
            )
        try:
            at = _Progress(
                list(facts["sites"]),
                int(facts["round"]),
                int(facts["completed"]),
                arrays["x"],
                float(facts["scale"]),
                bool(facts["exact"]),
                float(facts["strictness"]),
                np.inf if facts["measured"] is None else float(facts["measured"]),
                dict(facts["lost"]),
                bool(facts["converged"]),
            )
            if (
                at.x is None
                or at.x.ndim != 2
                or len(at.x) != len(at.sites)
                or not np.isfinite(at.x).all()
            ):
                raise ValueError("x")
            if not set(at.sites) <= set(self.plan.sites) or len(set(at.sites)) < len(at.sites):
                raise ValueError("sites")
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise StateError(
                f"{self.state} is not the state of a coordinator; move it away to start over."
            ) from error
        note("resuming", run=self.plan.run, after=at.number)
        return at

    def _save(self, at: _Progress) -> None:
        if self.state is not None and at.x is not None:
            facts = {
                "run": self.plan.run,
                "plan": self.plan.fixed,
                "sites": at.sites,
                "round": at.number,
            }
            facts |= {
                "scale": at.scale,
                "exact": at.exact,
                "strictness": at.strictness,
                "lost": at.lost,
            }
            facts |= {"completed": at.completed}
            facts |= {
                "measured": at.measured if np.isfinite(at.measured) else None,
                "converged": at.converged,
            }
            write_state(self.state, facts, {"x": at.x})

    # ---------------------------------------------------------------- rounds

    def _round(self, at: _Progress) -> FloatArray:
        """One more round: the sites' values."""
        began, sent, received = time.perf_counter(), self.channel.sent, self.channel.received
        number, start = at.number + 1, at.x
        plain = start is None or at.exact
        if plain or self.plan.schedule == "parallel":
            values, reports = self._together(at, number)
        else:
            values, reports = self._in_turn(at, number)
        slope = float(np.sqrt(sum(report[2] ** 2 for report in reports.values())))
        gradient, error = None, np.inf
        if start is None:
            at.scale, at.x = slope, values
        else:
            measured = at.exact or (self.plan.schedule == "parallel" and not self.plan.accelerate)
            if reports and measured:
                gradient = slope / (at.scale or 1.0)
            error, at.converged = self._judged(at, values, gradient)
        at.number = at.completed = number
        done_round = Round(
            number,
            error,
            gradient,
            disagreement(values),
            self.channel.sent - sent,
            self.channel.received - received,
            time.perf_counter() - began,
            reports,
        )
        self._save(at)
        self.rounds.append(done_round)
        facts = {
            name: getattr(done_round, name)
            for name in ("error", "gradient", "disagreement", "sent", "received", "seconds")
        }
        note("round", round=number, **facts)
        self.progress(done_round)
        return values

    def _judged(
        self, at: _Progress, values: FloatArray, gradient: float | None
    ) -> tuple[float, bool]:
        """The estimated relative error of a round's values and whether they are final; sets what
        the next starts from.
        """
        assert at.x is not None
        size = spread(values)
        residual = float(np.linalg.norm(values - at.x))
        # a step of another map: nothing to extrapolate from
        if at.exact and self.plan.schedule == "sequential":
            after, error = values, residual / size
            self._memory.forget()
            self._distance = Distance()
        else:
            after = self._memory.next(at.x, values)
            step = float(np.linalg.norm(after - at.x))
            error = self._distance.left(residual, step, extrapolated=self.plan.accelerate) / size
        small = error <= self.plan.tol * (1.0 if self._stands_still(error) else at.strictness)
        if not self.plan.report:
            at.x = after
            return error, small
        done = gradient is not None and gradient <= self.plan.tol and (small or at.exact)
        if at.exact and not done and gradient is not None:
            # ten times stricter and no nearer: that is rounding, unless a site has forgotten where
            # it was
            done = at.measured / 2 < gradient <= ROUNDING * self.plan.tol
            # predictions stood still too early
            at.strictness, at.measured = at.strictness * 0.1, gradient
        at.exact = small and gradient is None
        at.x = values if at.exact else after
        return error, done

    def _stands_still(self, error: float) -> bool:
        """Whether many rounds have brought nothing: what is left is rounding."""
        self._errors.append(error)
        before = self._errors[-STILL:-1]
        return len(before) == STILL - 1 and error > min(before) / 2

    def _together(self, at: _Progress, number: int) -> tuple[FloatArray, dict[str, list[float]]]:
        """All sites at once, each given the same x (Jacobi)."""
        questions = {name: self._question(at, number, v, at.x) for v, name in enumerate(at.sites)}
        return self._answers(at, number, questions)

    def _in_turn(self, at: _Progress, number: int) -> tuple[FloatArray, dict[str, list[float]]]:
        """One site after the other, each given the latest values (Gauss-Seidel, [Brefeld2006]
        Algorithm 1).
        """
        assert at.x is not None
        values = at.x.copy()
        reports: dict[str, list[float]] = {}
        for v, name in enumerate(at.sites):
            answer, report = self._answers(
                at, number, {name: self._question(at, number, v, values)}
            )
            values[v], reports = answer[0], reports | report
        return values, reports

    def _question(self, at: _Progress, number: int, v: int, x: FloatArray | None) -> Message:
        """The mean of the other sites' values."""
        m = len(at.sites)
        others = None if x is None else (x.sum(axis=0) - x[v]) / (m - 1)
        return Message("round", {"run": self.plan.run, "round": number, "sites": m}, others)

    def _answers(
        self, at: _Progress, number: int, questions: dict[str, Message]
    ) -> tuple[FloatArray, dict[str, list[float]]]:
        replies = self.channel.ask(questions)
        faults = {
            name: why
            for name, reply in replies.items()
            if (why := self._wrong(reply, number)) is not None
        }
        answers = {
            name: reply
            for name, reply in replies.items()
            if isinstance(reply, Message) and name not in faults
        }
        self._answered |= {name: np.asarray(answer.numbers) for name, answer in answers.items()}
        refusing = [
            name for name, reply in replies.items() if isinstance(reply, Fault) and reply.too_far
        ]
        if refusing:
            self._blame(at, faults, refusing)
        if faults:
            raise _SitesLost(faults)
        values = np.stack([self._answered[name] for name in questions])
        return values, (
            {name: answers[name]["report"] for name in questions} if self.plan.report else {}
        )

    def _blame(self, at: _Progress, faults: dict[str, str], refusing: list[str]) -> None:
        """Where sites refuse to be pulled that far, the fault is with those who sent wild
        predictions, if that shows.
        """
        if at.x is None:
            return
        if len(at.sites) == 2:
            (other,) = set(at.sites) - {refusing[0]}
            self._stop(
                at,
                f"site {refusing[0]!r} is lost in round {at.number + 1}: {faults[refusing[0]]};"
                f" what it refused came from site {other!r}, and with two sites nobody else can say"
                " which of them is wrong: compare the scores of both",
            )
        wild = [
            at.sites[v] for v in wild_sites(np.stack([self._answered[name] for name in at.sites]))
        ]
        if wild:
            names = ", ".join(repr(name) for name in refusing)
            why = (
                f"its predictions are far from those of all other sites, so that {names} refused to"
                " be pulled towards them"
            )
            honest = {name: fault for name, fault in faults.items() if name not in refusing}
            raise _SitesLost(honest | dict.fromkeys(wild, why), wild)

    def _wrong(self, reply: Message | Fault, number: int) -> str | None:
        """What is wrong with an answer, if anything."""
        why = self._mismatch(reply, "answer")
        if why is not None or isinstance(reply, Fault):
            return why
        if reply["round"] != number:
            return f"it answered round {reply['round']} in round {number}"
        assert reply.numbers is not None
        if len(reply.numbers) != self.terms.items:
            return (
                f"it sent {len(reply.numbers):,} predictions for {self.terms.items:,} shared items"
            )
        sound = np.abs(reply.numbers) < LARGEST  # NaN is not less than anything
        if not sound.all():
            row = int(np.argmin(sound))
            return f"it sent {reply.numbers[row]} as prediction of item {row + 1:,}"
        report = reply["report"]
        if self.plan.report:
            numbers = isinstance(report, list) and len(report) == 3
            if not numbers or not all(
                type(number) in (int, float) and 0 <= number < LARGEST for number in report
            ):
                # which other sites must not learn
                return "its report is not a loss, a norm and a gradient norm"
        elif report is not None:
            return "it sent a report, although predictions alone were agreed on"
        return None

    def _mismatch(self, reply: Message | Fault, kind: str) -> str | None:
        """Why a reply is not of this kind and this run, if so."""
        if isinstance(reply, Fault):
            return reply.reason
        if reply.kind != kind:
            return f"it sent a message of the kind {reply.kind!r} where {kind!r} was due"
        if reply["run"] != self.plan.run:
            return f"it answered for the run {reply['run']!r:.80}, not for {self.plan.run!r}"
        return None

    # ---------------------------------------------------------------- endings

    def _go_on_without(self, at: _Progress, lost: _SitesLost) -> None:
        faults, before = lost.faults, at.number
        losses = "; ".join(
            f"site {name!r} is lost in round {before + 1}: {why}" for name, why in faults.items()
        )
        left = [name for name in at.sites if name not in faults]
        if self.plan.on_missing == "stop":
            if lost.wild:
                self._forget(at, lost.wild)
            self._stop(
                at,
                f"{losses}; start it again and then the coordinator, which goes on after round"
                f" {before}",
            )
        if len(left) < self.plan.min_sites:
            self._stop(
                at,
                f"{losses}; {len(left)} sites remain, fewer than min_sites = {self.plan.min_sites}",
            )
        note("going on", level=logging.WARNING, without=list(faults), why=losses)
        self.channel.tell(
            faults,
            Message(
                "stop", {"reason": f"the run goes on without this site: {losses}", "row": None}
            ),
        )
        if at.x is not None:
            # nothing extrapolated from those that are lost
            at.x = np.stack([self._answered[name] for name in left])
        at.sites, at.exact = left, False
        at.lost |= faults
        at.number += 1  # some have answered this one, under other conditions
        self._memory.forget()
        self._distance = Distance()
        self._save(at)

    def _forget(self, at: _Progress, wild: list[str]) -> None:
        """Put the others' median in place of wild predictions, so that the run can go on once their
        site is mended.
        """
        others = np.median([self._answered[name] for name in at.sites if name not in wild], axis=0)
        at.x = np.stack([others if name in wild else self._answered[name] for name in at.sites])
        # sites may have answered this one, to another question
        at.number, at.exact = at.number + 1, False
        self._save(at)

    def _stop(self, at: _Progress, reason: str) -> NoReturn:
        self.channel.tell(at.sites, Message("stop", {"reason": reason, "row": None}))
        raise RunStopped(reason + ".")

    def _finish(self, at: _Progress) -> None:
        message = Message(
            "finish", {"run": self.plan.run, "round": at.completed, "converged": at.converged}
        )
        for name, reply in self.channel.ask(dict.fromkeys(at.sites, message)).items():
            if (why := self._mismatch(reply, "saved")) is not None:
                note(
                    "unconfirmed",
                    level=logging.WARNING,
                    site=name,
                    why=f"it did not say that it kept its model: {why}",
                )


class _SitesLost(Exception):
    def __init__(self, faults: dict[str, str], wild: Sequence[str] = ()) -> None:
        self.faults, self.wild = faults, list(wild)
