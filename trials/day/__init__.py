"""Days of many groups on which much happens at once, and how often the diagnosis of what an operator has of such a day is right."""

from ottla.extras import require

require("test", "confluent_kafka", "aiokafka", "kafka")
