"""The broker: embedded, Kafka-wire-compatible, with a complete group coordinator. Users need `Broker`, or `Cluster` for several."""

from ottla.broker.embedded import Broker, Cluster

__all__ = ["Broker", "Cluster"]
