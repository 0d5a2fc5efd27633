"""The coordinator: rounds of predictions on shared items until all sites agree as far as they ever will (001 sect. 4)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from corank.federated.agreeing import RunStopped, check_items, introduced
from corank.federated.channel import Channel, Fault
from corank.federated.journal import note
from corank.federated.messages import FloatArray, Message, Terms
from corank.federated.plan import Plan, Report, Round
from corank.federated.rounds import Distance, Extrapolation, disagreement, spread
from corank.federated.shared import Fingerprint
from corank.federated.state import StateError, read_state, write_state
from corank.tables import LARGEST

STILL = 12  # rounds without any gain
ROUNDING = 1e4  # times tol: a joint gradient above that is more than rounding


@dataclass
class _Progress:
    """Where a run stands after a completed round: enough to go on from."""

    sites: list[str]
    number: int = 0
    completed: int = 0  # the last round that all have answered; `number` counts one that was broken off, too
    x: FloatArray | None = None  # (M, m) what the next round starts from
    scale: float = 0.0  # gradient at zero
    exact: bool = False  # whether the next round asks about the very predictions that sites gave
    strictness: float = 1.0
    measured: float = np.inf  # the joint gradient when it was last measured
    lost: dict[str, str] = field(default_factory=dict)
    converged: bool = False


class Coordinator:
    """Runs rounds over a channel.

    Round 1 asks every site for its predictions alone. From then on each is asked for its best answer given the mean of
    the others. A sequential or extrapolated round moves the questions while sites answer, so their gradients belong to
    different points: once predictions stand still, one plain parallel round measures the joint gradient at one point.

    Parameters
    ----------
    plan : Plan
    channel : Channel
    items : fingerprint of the coordinator's own copy of the shared items; None takes the first site's word
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

    def run(self) -> Report:
        """All rounds, until convergence or `max_rounds`; RunStopped where it cannot go on."""
        at = self._join()
        values = np.zeros((len(at.sites), self.terms.items)) if at.x is None else at.x
        while not at.converged and at.number < self.plan.max_rounds:
            try:
                values = self._round(at)
            except _SitesLost as lost:
                self._go_on_without(at, lost.faults)
        self._finish(at)
        return Report(self.plan.run, tuple(at.sites), at.lost, at.converged, at.completed, self.rounds, values)

    # ---------------------------------------------------------------- joining

    def _join(self) -> _Progress:
        """Terms that all sites accept, and where the run stands."""
        at = self._resumed()
        hellos = introduced(self.channel, at.sites)
        items, digest = check_items(self.channel, hellos, self.items)
        comparison = str(hellos[at.sites[0]]["comparison"])
        self.terms = Terms(
            self.plan.run, self.plan.sites, comparison, self.plan.agreement, items, digest, self.plan.report
        )
        if at.x is not None and at.x.shape[1] != items:
            raise StateError(f"{self.state} is about {at.x.shape[1]} shared items, but there are {items}.")
        replies = self.channel.ask(dict.fromkeys(at.sites, self.terms.message()))
        for name, reply in replies.items():
            if isinstance(reply, Fault) or reply.kind != "accepted":
                why = reply.reason if isinstance(reply, Fault) else f"it answered with {reply.kind}"
                self._stop(at, f"site {name!r} does not take part: {why}")
        return at

    def _resumed(self) -> _Progress:
        found = None if self.state is None else read_state(self.state)
        if found is None:
            return _Progress(list(self.plan.sites))
        facts, arrays = found
        if facts.get("run") != self.plan.run or facts.get("plan") != self.plan.fixed:
            raise StateError(
                f"{self.state} belongs to the run {facts.get('run')!r} under other settings; give this run a name and a "
                "state of its own, or move the file away."
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
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(f"{self.state} is not the state of a coordinator; move it away to begin anew.") from error
        note("resuming", run=self.plan.run, after=at.number)
        return at

    def _save(self, at: _Progress) -> None:
        if self.state is not None and at.x is not None:
            facts = {"run": self.plan.run, "plan": self.plan.fixed, "sites": at.sites, "round": at.number}
            facts |= {"scale": at.scale, "exact": at.exact, "strictness": at.strictness, "lost": at.lost}
            facts |= {"completed": at.completed}
            facts |= {"measured": at.measured if np.isfinite(at.measured) else None, "converged": at.converged}
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
        slope = float(np.sqrt(sum(own[2] ** 2 for own in reports.values())))
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

    def _judged(self, at: _Progress, values: FloatArray, gradient: float | None) -> tuple[float, bool]:
        """The estimated relative error of a round's values and whether they are final; sets what the next starts from."""
        assert at.x is not None
        size = spread(values)
        residual = float(np.linalg.norm(values - at.x))
        if at.exact and self.plan.schedule == "sequential":  # a step of another map: nothing to extrapolate from
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
            # ten times stricter and no nearer: that is rounding, unless a site has forgotten where it was
            done = at.measured / 2 < gradient <= ROUNDING * self.plan.tol
            at.strictness, at.measured = at.strictness * 0.1, gradient  # predictions stood still too early
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
        """One site after the other, each given the latest values (Gauss-Seidel, 001 Algorithm 1)."""
        assert at.x is not None
        values = at.x.copy()
        reports: dict[str, list[float]] = {}
        for v, name in enumerate(at.sites):
            answer, report = self._answers(at, number, {name: self._question(at, number, v, values)})
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
        faults = {name: why for name, reply in replies.items() if (why := self._wrong(reply, number)) is not None}
        if faults:
            raise _SitesLost(faults)
        answers = {name: reply for name, reply in replies.items() if isinstance(reply, Message)}
        values = np.stack([np.asarray(answers[name].numbers) for name in questions])
        return values, {name: answers[name]["report"] for name in questions} if self.plan.report else {}

    def _wrong(self, reply: Message | Fault, number: int) -> str | None:
        """What is wrong with an answer, if anything."""
        if isinstance(reply, Fault):
            return reply.reason
        if reply.kind != "answer" or reply["run"] != self.plan.run:
            return f"it answered with {reply.kind} where an answer was due"
        if reply["round"] != number:
            return f"it answered round {reply['round']} in round {number}"
        assert reply.numbers is not None
        if len(reply.numbers) != self.terms.items:
            return f"it sent {len(reply.numbers):,} predictions for {self.terms.items:,} shared items"
        sound = np.abs(reply.numbers) < LARGEST  # NaN is not less than anything
        if not sound.all():
            row = int(np.argmin(sound))
            return f"it sent {reply.numbers[row]} as prediction of item {row + 1:,}"
        report = reply["report"]
        if self.plan.report:
            numbers = isinstance(report, list) and len(report) == 3
            if not numbers or not all(type(own) in (int, float) and 0 <= own < LARGEST for own in report):
                return f"its report is {report!r:.80} instead of loss, norm and gradient norm"
        elif report is not None:
            return "it sent a report, although predictions alone were agreed on"
        return None

    # ---------------------------------------------------------------- endings

    def _go_on_without(self, at: _Progress, faults: dict[str, str]) -> None:
        words = "; ".join(f"site {name!r} is lost in round {at.number + 1}: {why}" for name, why in faults.items())
        left = [name for name in at.sites if name not in faults]
        if self.plan.on_missing == "stop":
            self._stop(at, f"{words}; start it again and then the coordinator, which goes on after round {at.number}")
        if len(left) < self.plan.min_sites:
            self._stop(at, f"{words}; {len(left)} sites remain, fewer than min_sites = {self.plan.min_sites}")
        note("going on", level=logging.WARNING, without=list(faults), why=words)
        self.channel.tell(
            faults, Message("stop", {"reason": f"the run goes on without this site: {words}", "row": None})
        )
        if at.x is not None:
            at.x = at.x[[v for v, name in enumerate(at.sites) if name in left]]
        at.sites, at.exact = left, False
        at.lost |= faults
        at.number += 1  # some have answered this one, under other conditions
        self._memory.forget()
        self._distance = Distance()
        self._save(at)

    def _stop(self, at: _Progress, words: str) -> None:
        self.channel.tell(at.sites, Message("stop", {"reason": words, "row": None}))
        raise RunStopped(words + ".")

    def _finish(self, at: _Progress) -> None:
        message = Message("finish", {"run": self.plan.run, "round": at.completed, "converged": at.converged})
        for name, reply in self.channel.ask(dict.fromkeys(at.sites, message)).items():
            if isinstance(reply, Fault) or reply.kind != "saved":
                why = reply.reason if isinstance(reply, Fault) else f"it answered with {reply.kind}"
                note(
                    "unconfirmed", level=logging.WARNING, site=name, why=f"it did not say that it kept its model: {why}"
                )


class _SitesLost(Exception):
    def __init__(self, faults: dict[str, str]) -> None:
        self.faults = faults
