"""`ottla produce`, which needs confluent-kafka."""

from ottla.extras import require

require("spark", "confluent_kafka")
