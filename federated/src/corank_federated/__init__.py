"""Sites that may not share their data: each learns from its own rows, all agree on shared items
(coRLSR, section 4).

`Site` and `Coordinator` know nothing of networks; `InProcess` connects them inside one process,
`corank_federated.network` over TLS. What leaves a site are its predictions on the shared items and
three numbers per round, or the predictions alone.

Released together with corank, of whose modules it uses `corank.core.arrays`,
`corank.core.messages`, `corank.tables`, `corank.model_files` and `corank.model_files.container`;
for the fit of a site `corank.inputs`, `corank.core.queries`, `corank.core.loss`,
`corank.core.basis`, `corank.core.sums`, `corank.core.observations`, `corank.streaming.checkpoint` and
`corank.learners.co_rls`; for the command `corank.encode.encoder`, `corank.cli.columns`,
`corank.cli.console` and `corank.cli.options`, and `corank.display` to print.
"""

from corank_federated.channel import Channel, Fault, InProcess
from corank_federated.coordinator import Coordinator, Plan, Report, Round, RunStopped
from corank_federated.messages import Message, MessageError, Terms
from corank_federated.shared_items import SharedItems, SharedItemsError, synthetic_table
from corank_federated.site import Limits, Refused, Site
from corank_federated.state import StateError

__all__ = [
    "Channel",
    "Coordinator",
    "Fault",
    "InProcess",
    "Limits",
    "Message",
    "MessageError",
    "Plan",
    "Refused",
    "Report",
    "Round",
    "RunStopped",
    "SharedItems",
    "SharedItemsError",
    "Site",
    "StateError",
    "Terms",
    "synthetic_table",
]
