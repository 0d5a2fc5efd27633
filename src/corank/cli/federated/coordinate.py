"""`corank federated coordinate`: run the rounds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corank.cli.console import facts, in_bytes, note, show
from corank.cli.federated.common import live_rounds, logged, need_extra, shared_columns, shared_table
from corank.cli.options import AsJson, Quiet

if TYPE_CHECKING:
    from corank.federated.plan import Report
    from corank.federated.settings import CoordinatorSettings

Log = Annotated[Path | None, typer.Option(help="Also write a log here, one JSON object a line.", show_default=False)]


def coordinate(
    settings: Annotated[Path, typer.Argument(help="coordinator.toml", show_default=False)],
    log: Log = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Wait for the sites, run the rounds, and tell the sites to keep their models.

    Stopped or killed, it goes on after the last completed round when it is started again.
    """
    need_extra()
    from corank.federated.coordinator import Coordinator
    from corank.federated.settings import read_coordinator

    given = read_coordinator(settings)
    items = _own_items(given)
    with logged(log, quiet=quiet):
        channel = listening(given)
        try:
            with live_rounds(
                f"waiting for {', '.join(given.plan.sites)} at {given.address} …", quiet=quiet
            ) as progress:
                run = Coordinator(given.plan, channel, items=items, state=given.state, progress=progress)
                report = run.run()
        finally:
            channel.close()
    if not report.converged and not quiet:
        note(
            f"stopped after {report.n_rounds} rounds without convergence: raise max_rounds, or lower agreement; models "
            "are kept as they are"
        )
    if as_json:
        typer.echo(json.dumps(_result(report), indent=2))
    elif not quiet:
        _show(report)


def listening(given: CoordinatorSettings) -> Any:
    """The coordinator's end of the network."""
    from corank.federated.certificates import COORDINATOR
    from corank.federated.server import GrpcChannel

    identity, authority = given.certificates.load(COORDINATOR)
    return GrpcChannel(
        given.address,
        identity,
        authority,
        given.pins,
        max_items=given.max_items,
        join_timeout=given.join_timeout,
        answer_timeout=given.answer_timeout,
    )


def _own_items(given: CoordinatorSettings) -> Any:
    """The fingerprint of the coordinator's copy of the shared items, where it has one."""
    if given.shared is None:
        return None
    import numpy as np

    from corank.federated.shared import SharedItems

    table = shared_table(given.shared)
    return SharedItems(np.zeros((len(table), 1)), **shared_columns(given.shared, table)).fingerprint


def _result(report: Report) -> dict[str, Any]:
    last = report.rounds[-1] if report.rounds else None
    return {
        "run": report.run,
        "sites": list(report.sites),
        "lost": report.lost,
        "converged": report.converged,
        "rounds": report.n_rounds,
        "error": None if last is None else last.error,
        "gradient": None if last is None else last.gradient,
        "disagreement": [own.disagreement for own in report.rounds],
        "bytes": report.bytes,
        "seconds": round(sum(own.seconds for own in report.rounds), 3),
    }


def _show(report: Report) -> None:
    result = _result(report)
    pairs = {
        "sites": ", ".join(report.sites) + "".join(f"; lost {name}: {why}" for name, why in report.lost.items()),
        "rounds": f"{report.n_rounds}, {'converged' if report.converged else 'not converged'}",
    }
    if report.rounds:
        first, last = result["disagreement"][0], result["disagreement"][-1]
        pairs |= {
            "sites differ by": f"{first:.4g} after round {report.rounds[0].number}, {last:.4g} at the end",
            "exchanged": in_bytes(report.bytes),
            "time": f"{result['seconds']:.1f} s",
        }
    show(facts(f"The run {report.run!r}", pairs))
