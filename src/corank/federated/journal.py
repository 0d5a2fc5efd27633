"""What happens in a run, as log records with named facts: readable as text, or one JSON object a line."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any

NAME = "corank.federated"


def note(event: str, *, level: int = logging.INFO, **facts: Any) -> None:
    """Log an event and what there is to know of it. Never rows, scores or predictions."""
    words = " ".join(f"{name}={_short(value)}" for name, value in facts.items())
    logging.getLogger(NAME).log(
        level, "%s%s", event, f" {words}" if words else "", extra={"event": event, "facts": facts}
    )


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


class JsonLines(logging.Formatter):
    """One JSON object a record."""

    def format(self, record: logging.LogRecord) -> str:
        """Time, level, event and facts."""
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        about = {
            "time": when,
            "level": record.levelname.lower(),
            "event": getattr(record, "event", record.getMessage()),
        }
        return json.dumps({**about, **getattr(record, "facts", {})}, default=str)
