"""Apache Kafka and Spark's own connector, to compare with."""
