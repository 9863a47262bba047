"""Groups under chaos: real consumers as processes that join, leave, freeze and die, on brokers that come, go and hand groups over."""

from ottla.extras import require

require("test", "confluent_kafka", "aiokafka", "kafka")
