"""Kafka's protocol: errors, wire types, record batches, and their columns in Arrow."""
