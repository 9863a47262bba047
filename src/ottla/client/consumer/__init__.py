"""`ottla.Consumer`: the consumer of confluent-kafka's interface, in Python."""
