"""`python -m benchmarks.federated`: rounds, bytes and seconds of sites that keep their data, over
gRPC on loopback.

Three parts: how close to the solution with all rows in one place, and in how many rounds; what one
call costs beside the work in it; and a table by sites and items. Sites are processes of their own,
with one BLAS thread each.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from corank import CoRLS, View
from corank_federated import (
    Coordinator,
    InProcess,
    Limits,
    Message,
    Plan,
    Report,
    SharedItems,
    Site,
)
from corank_federated.certificates import Identity, issued, new_authority
from corank_federated.messages import VERSION
from corank_federated.network import Connection, GrpcChannel

COLUMNS, GAMMA, ALPHA = 10, 0.05, 1.0
MANY = Limits(rounds=1_000_000, norm=1e6)
# agreement in units of scored rows / (items · other sites): where both sums weigh about the same
LEVEL = 0.5


@dataclass(frozen=True)
class Case:
    """A made-up problem that every process makes anew from its numbers."""

    sites: int
    items: int
    scored: int = 500
    basis: int = 200

    @property
    def names(self) -> tuple[str, ...]:
        """Of the sites."""
        return tuple(f"site-{v + 1}" for v in range(self.sites))

    @property
    def agreement(self) -> float:
        """Where scored rows and items weigh about the same."""
        return LEVEL * self.scored / (self.items * (self.sites - 1))

    def shared(self) -> Any:
        """The items: (items, COLUMNS)."""
        return np.random.default_rng(0).normal(size=(self.items, COLUMNS))

    def rows(self, v: int) -> tuple[Any, Any]:
        """Rows and scores of a site."""
        rng = np.random.default_rng(v + 1)
        X = rng.normal(size=(self.scored, COLUMNS))
        return X, np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=self.scored)

    def basis_rows(self, v: int) -> Any:
        """Row numbers of a site's basis."""
        return np.sort(
            np.random.default_rng(v + 1).choice(self.scored, size=self.basis, replace=False)
        )

    def site(self, v: int) -> Site:
        """A site, fitted alone."""
        learner = CoRLS(alpha=ALPHA, gamma=GAMMA, basis=self.basis_rows(v), fit_intercept=False)
        return Site(self.names[v], learner, *self.rows(v), SharedItems(self.shared()), limits=MANY)

    def joint(self, agreement: float) -> Any:
        """Predictions on the items with all rows in one place, by Cholesky: (sites, items)."""
        rows = [self.rows(v) for v in range(self.sites)]
        scores = np.full((self.sites * self.scored, self.sites), np.nan)
        for v, (_, y) in enumerate(rows):
            scores[v * self.scored : (v + 1) * self.scored, v] = y
        views = [
            View(gamma=GAMMA, basis=v * self.scored + self.basis_rows(v)) for v in range(self.sites)
        ]
        model = CoRLS(views, alpha=ALPHA, agreement=agreement, fit_intercept=False)
        model.fit(np.concatenate([X for X, _ in rows]), scores, unscored=self.shared())
        return model.predict_views(self.shared()).T


def run(
    case: Case, channel: Any, agreement: float | None = None, **how: Any
) -> tuple[Report, float]:
    plan = Plan(
        "benchmark", case.names, agreement or case.agreement, **{"max_rounds": 20_000, **how}
    )
    begin = time.perf_counter()
    report = Coordinator(plan, channel).run()
    return report, time.perf_counter() - begin


# ---- processes


class Echo:
    """A site without any work: what is left is the wire."""

    def __init__(self, name: str, items: int) -> None:
        self.name, self._answer = name, np.linspace(0, 1, items)

    def hello(self) -> Message:
        """Hello."""
        return Message(
            "hello",
            {"version": VERSION, "site": self.name, "comparison": "", "items": 0, "digest": ""},
        )

    def handle(self, message: Message) -> Message:
        """The same answer to everything."""
        return Message(
            "answer",
            {"run": "", "round": message["round"], "report": [0.0, 0.0, 0.0]},
            self._answer,
        )


def _take_part(case: Case, v: int, port: int, folder: str, echo: bool) -> None:
    own = Path(folder)
    identity = Identity.read(own / f"{case.names[v]}.pem", own / f"{case.names[v]}.key")
    authority = Identity.read(own / "authority.pem", own / "authority.key").certificate
    line = Connection(f"127.0.0.1:{port}", identity, authority, patience=60)
    line.answer(Echo(case.names[v], case.items) if echo else case.site(v))


@contextmanager
def over_grpc(case: Case, folder: Path, *, echo: bool = False) -> Iterator[GrpcChannel]:
    """A channel to sites that run in processes of their own."""
    authority = new_authority(1)
    authority.write(folder, "authority")
    pins: dict[str, str | None] = {}
    for name in case.names:
        issued(authority, name, 1).write(folder, name)
        pins[name] = None
    channel = GrpcChannel(
        "127.0.0.1:0", issued(authority, "coordinator", 1), authority.certificate, pins
    )
    context = multiprocessing.get_context("spawn")
    places = [(case, v, channel.port, str(folder), echo) for v in range(case.sites)]
    processes = [context.Process(target=_take_part, args=place) for place in places]
    for process in processes:
        process.start()
    try:
        channel.hello(case.names)
        yield channel
    finally:
        channel.tell(case.names, Message("stop", {"reason": "done", "row": None}))
        channel.close()
        for process in processes:
            process.join(30)
            process.kill()


# ---- the three parts


def accuracy(case: Case) -> dict[str, Any]:
    """Distance from the joint solution, and rounds with and without acceleration, weakly and
    strongly tied.
    """
    found: dict[str, Any] = {}
    for times in (1.0, 20.0):
        joint = case.joint(times * case.agreement)
        for schedule in ("sequential", "parallel"):
            for accelerate in (False, True):
                channel = InProcess([case.site(v) for v in range(case.sites)])
                how = {"schedule": schedule, "accelerate": accelerate}
                report, _ = run(case, channel, times * case.agreement, **how)
                key = (
                    f"agreement x {times:g}, {schedule}, {'accelerated' if accelerate else 'plain'}"
                )
                found[key] = {"rounds": report.n_rounds, "converged": report.converged}
                away = np.linalg.norm(report.predictions - joint) / np.linalg.norm(joint)
                found[key]["relative distance from joint"] = float(away)
                most = max(own.sent + own.received for own in report.rounds)
                found[key]["bytes of a round / (2 sites items 8)"] = most / (
                    16 * case.sites * case.items
                )
    return found


def call_cost(case: Case, folder: Path, calls: int) -> dict[str, float]:
    """Milliseconds from question to answer where the site does nothing, one site after the other."""
    target, seconds = np.linspace(0, 1, case.items), []
    with over_grpc(case, folder, echo=True) as channel:
        for number in range(calls):
            for name in case.names:
                question = Message(
                    "round", {"run": "", "round": number + 1, "sites": case.sites}, target
                )
                begin = time.perf_counter()
                channel.ask({name: question})
                seconds.append(time.perf_counter() - begin)
    ordered = sorted(seconds)
    return {
        "median ms": 1e3 * statistics.median(ordered),
        "p95 ms": 1e3 * ordered[int(0.95 * len(ordered))],
    }


def table(cases: list[Case], folder: Path) -> list[dict[str, Any]]:
    """Rounds, bytes and seconds by sites and items."""
    rows = []
    for case in cases:
        for schedule in ("sequential", "parallel"):
            place = folder / f"{case.sites}-{case.items}-{schedule}"
            place.mkdir()
            with over_grpc(case, place) as channel:
                report, seconds = run(case, channel, schedule=schedule)
            rows.append(
                {
                    "sites": case.sites,
                    "items": case.items,
                    "schedule": schedule,
                    "rounds": report.n_rounds,
                    "converged": report.converged,
                    "MB": round(report.bytes / 1e6, 2),
                    "seconds": round(seconds, 2),
                    "ms a round": round(1e3 * seconds / report.n_rounds, 1),
                }
            )
            print(rows[-1], flush=True)
    return rows


def main(arguments: list[str] | None = None) -> int:
    import tempfile

    parser = argparse.ArgumentParser(prog="python -m benchmarks.federated", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="small cases, to see that everything runs"
    )
    parser.add_argument("--out", type=Path, help="also write everything there, as JSON")
    given = parser.parse_args(arguments)
    # of the processes to come
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
    first = Case(3, 1_000, 100, 50) if given.quick else Case(3, 10_000)
    sizes = (
        [(2, 1_000)]
        if given.quick
        else [(m, n) for n in (1_000, 10_000, 100_000) for m in (2, 4, 8)]
    )
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "echo").mkdir()
        found: dict[str, Any] = {"accuracy": accuracy(first)}
        print(json.dumps(found, indent=2), flush=True)
        found["call"] = call_cost(first, Path(folder) / "echo", 20 if given.quick else 200)
        print(json.dumps(found["call"], indent=2), flush=True)
        found["table"] = table(
            [Case(m, n, first.scored, first.basis) for m, n in sizes], Path(folder)
        )
    if given.out is not None:
        given.out.write_text(json.dumps(found, indent=2))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
