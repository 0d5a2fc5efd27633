"""The app of the SuperLink: `settings` in the run's config is the path of a coordinator.toml."""

from dataclasses import replace
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from corank_federated import Coordinator
from corank_federated.flower import FlowerChannel
from corank_federated.settings import read_coordinator

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """All sites at once: a call takes Flower some seconds, however short the work."""
    given = read_coordinator(Path(str(context.run_config["settings"])))
    channel = FlowerChannel(
        grid, join_timeout=given.join_timeout, answer_timeout=given.answer_timeout
    )
    plan = replace(given.plan, schedule="parallel")
    report = Coordinator(plan, channel, state=given.state).run()
    print(
        f"{', '.join(report.sites)}: {report.n_rounds} rounds, converged: {report.converged}, {report.bytes} bytes"
    )
