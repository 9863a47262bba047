"""For users' tests: `Broker` and `Cluster` with verbs, `wait_until`, fixtures.

from ottla.testing import Broker

with Broker() as broker:
    broker.produce("orders", [b"one"])
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.testing.application.brokers import Broker, Cluster, OttlaCase
    from ottla.testing.application.kafka_container import KafkaContainer
    from ottla.testing.pytest_plugin import BrokerFactory
    from ottla.testing.security.brokers import SecuredBroker
    from ottla.testing.waiting import wait_until

__all__ = ["Broker", "BrokerFactory", "Cluster", "KafkaContainer", "OttlaCase", "SecuredBroker", "wait_until"]

_MODULES = {
    "Broker": "application.brokers",
    "BrokerFactory": "pytest_plugin",
    "Cluster": "application.brokers",
    "KafkaContainer": "application.kafka_container",
    "OttlaCase": "application.brokers",
    "SecuredBroker": "security.brokers",
    "wait_until": "waiting",
}


def __getattr__(name: str) -> Any:
    """Loaded when they are asked for: pytest imports this package in every run, also where no test needs a broker."""
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{module}"), name)
