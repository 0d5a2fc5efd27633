"""Sites that may not share their data: each learns from its own rows, all agree on shared items (coRLSR, section 4).

`Site` and `Coordinator` know nothing of networks; `InProcess` connects them inside one process, `corank.federated.network`
over TLS. What leaves a site are its predictions on the shared items and three numbers per round, or the predictions alone.
"""

from corank.federated.channel import Channel, Fault, InProcess
from corank.federated.coordinator import Coordinator, Plan, Report, Round, RunStopped
from corank.federated.messages import Message, MessageError, Terms
from corank.federated.shared_items import SharedItems, SharedItemsError, synthetic_table
from corank.federated.site import Limits, Refused, Site
from corank.model_files.container import StateError

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
