"""Sites that may not share their data: each learns from its own rows, all agree on shared items (coRLSR, section 4).

`Site` and `Coordinator` know nothing of networks; `InProcess` connects them inside one process, `corank.federated.grpc`
over TLS. What leaves a site are its predictions on the shared items and three numbers a round, or the predictions alone.
"""

from corank.federated.agreeing import RunStopped
from corank.federated.channel import Channel, Fault, InProcess
from corank.federated.coordinator import Coordinator
from corank.federated.messages import Message, MessageError, Terms
from corank.federated.plan import Plan, Report, Round
from corank.federated.shared import SharedItems, SharedItemsError, synthetic_table
from corank.federated.site import Limits, Refused, Site
from corank.federated.state import StateError

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
