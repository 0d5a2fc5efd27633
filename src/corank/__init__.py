"""corank: learn to rank and score items when only a few of them are scored."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from corank.encoder import TableEncoder
    from corank.kernels import register_kernel
    from corank.learners import RLS, RankRLS, load

__version__ = "0.1.0"
__all__ = ["RLS", "RankRLS", "TableEncoder", "__version__", "load", "register_kernel"]

# Names are looked up when first used: `corank --help` should not wait for scikit-learn.
_PLACES = {
    "RLS": "corank.learners",
    "RankRLS": "corank.learners",
    "TableEncoder": "corank.encoder",
    "load": "corank.learners",
    "register_kernel": "corank.kernels",
}
_MODULES = ("datasets", "metrics")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"corank.{name}")
    if name not in _PLACES:
        raise AttributeError(f"module 'corank' has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
