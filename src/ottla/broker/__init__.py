"""The broker: embedded, Kafka-wire-compatible, with a complete group coordinator. Users need `Broker`, or `Cluster` for several."""

from ottla.broker.broker import Broker
from ottla.broker.embedded_cluster import Cluster

__all__ = ["Broker", "Cluster"]
