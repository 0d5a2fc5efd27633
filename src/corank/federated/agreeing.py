"""Before the first round: do all sites mean the same comparison and the same items, and where do they first differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from corank.federated.channel import Channel, Fault
from corank.federated.messages import VERSION, Message
from corank.federated.shared import Fingerprint, SharedItemsError, first_difference


class RunStopped(ConnectionError):
    """A run that cannot go on; says which site, why, and what to do."""


def introduced(channel: Channel, sites: Sequence[str]) -> dict[str, Message]:
    """Every site's hello, checked for what sites need to have in common beside the items."""
    hellos: dict[str, Message] = {}
    for name, hello in channel.hello(sites).items():
        if isinstance(hello, Fault):
            raise RunStopped(f"site {name!r} did not join: {hello.reason}.")
        if hello.kind != "hello" or hello["version"] != VERSION or hello["site"] != name or hello["items"] < 0:
            raise RunStopped(f"site {name!r} introduced itself as something else; do all sites run the same corank?")
        if hello["items"] == 0:
            raise RunStopped(f"site {name!r} has its model and only predicts; start it with --force to learn anew.")
        hellos[name] = hello
    first = hellos[sites[0]]
    for name in sites[1:]:
        if hellos[name]["comparison"] != first["comparison"]:
            words = f"site {sites[0]!r} does {first['comparison']}, but site {name!r} {hellos[name]['comparison']}"
            channel.tell(sites, Message("stop", {"reason": f"{words}; all must do the same", "row": None}))
            raise RunStopped(f"{words}; all must do the same.")
    return hellos


def check_items(channel: Channel, hellos: Mapping[str, Message], own: Fingerprint | None) -> tuple[int, str]:
    """Number and digest of the shared items, the same everywhere; else SharedItemsError names the first differing row.

    `own` is the coordinator's copy, where it has one. A difference is found by bisection: O(log items) questions.
    """
    names = list(hellos)
    if own is None:
        reference, known, theirs = f"site {names[0]!r}", hellos[names[0]]["items"], _asker(channel, names[0])
        digest = str(hellos[names[0]]["digest"])
    else:
        reference, known, theirs, digest = "the coordinator", len(own), own.upto, own.digest
    for name in names:
        items = int(hellos[name]["items"])
        if (items, hellos[name]["digest"]) == (known, digest):
            continue
        row = first_difference(theirs, _asker(channel, name), min(known, items))
        if row is None:
            words = f"{reference} has {known:,} shared items and site {name!r} {items:,}; the others are alike."
            row = min(known, items)
        else:
            words = (
                f"the shared items of {reference} and site {name!r} first differ in row {row + 1:,}, counted from 1: "
                "all sites need the same items with the same ids in the same order."
            )
        channel.tell(names, Message("stop", {"reason": words, "row": row}))
        raise SharedItemsError(words)
    return int(known), digest


def _asker(channel: Channel, name: str) -> Callable[[int], str]:
    def ask(upto: int) -> str:
        answer = channel.ask({name: Message("compare", {"upto": upto})})[name]
        if isinstance(answer, Fault):
            raise RunStopped(f"site {name!r} did not say what its shared items are: {answer.reason}.")
        if answer.kind != "digest" or answer["upto"] != upto:
            raise RunStopped(f"site {name!r} answered something else than was asked about its shared items.")
        return str(answer["digest"])

    return ask
