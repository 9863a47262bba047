"""The broker: an embedded, Kafka-wire-compatible broker with a complete group coordinator. `Broker` is all that users need."""

from ottla.broker.broker import Broker

__all__ = ["Broker"]
