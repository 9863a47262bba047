"""What-if checked by experiment: the same incident with recorded and with changed settings, by real clients on a real broker."""

from ottla.extras import require

require("test", "confluent_kafka", "aiokafka", "kafka")
