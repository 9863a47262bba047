"""Seeded scripts of transactional requests, played to Ottla and Apache Kafka: the same answers, and the same records."""
