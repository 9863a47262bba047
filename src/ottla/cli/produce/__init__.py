"""`ottla produce`: writes lines as records, through confluent-kafka."""

from ottla.core.extras import require

require("spark", "confluent_kafka")
