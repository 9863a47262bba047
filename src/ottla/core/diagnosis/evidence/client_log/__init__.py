"""Reads the logs of consumers: Java's, librdkafka's (confluent-kafka), kafka-python's and aiokafka's, also mixed in one file."""
