"""For users' tests: `Broker` and `Cluster` with verbs, pytest fixtures. And what tests Ottla itself: clients, simulation, chaos, fuzzing.

from ottla.testing import Broker

with Broker() as broker:
    broker.produce("orders", [b"one"])
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.testing.application.brokers import Broker, Cluster

__all__ = ["Broker", "Cluster"]

_MODULES = {"Broker": "brokers", "Cluster": "brokers"}


def __getattr__(name: str) -> Any:
    """Loaded when they are asked for: pytest imports this package in every run, also where no test needs a broker."""
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.application.{module}"), name)
