"""Fixtures for users' tests, and what tests Ottla itself: clients, processes, simulation, chaos, fuzzing, Apache Kafka beside it."""
