"""Incidents with known causes, made with real clients on real brokers, and how often the diagnosis of their recordings is right.

`record` makes them and writes test data; `measure` reads that data with Ottla's readers and compares causes with labels.
"""

from ottla.extras import require

require("test", "confluent_kafka", "aiokafka", "kafka")
