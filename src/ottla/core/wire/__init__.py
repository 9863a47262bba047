"""Kafka's primitive types as bytes, and the bounds checks on messages."""
