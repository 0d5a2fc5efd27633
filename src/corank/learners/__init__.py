"""The learners; `registry` lists them, and `corank` exports them."""

from typing import Any

import corank


def __getattr__(name: str) -> Any:
    return getattr(corank, name)
