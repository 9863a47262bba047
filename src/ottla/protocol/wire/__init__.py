"""Kafka's primitive types as bytes, and the bounds checks on messages."""

import ottla.protocol.wire.kio_types  # noqa: F401 - before any other of kio's modules
