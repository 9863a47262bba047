"""Scripts of consumer groups (KIP-848) on Ottla and on Apache Kafka."""
