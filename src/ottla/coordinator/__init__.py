"""The runtime of any coordinator (Kafka: coordinator-common): decide, append, replay, reply. It knows no group and no transaction."""
