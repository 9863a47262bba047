"""The options of the source and the sink, and Kafka's properties among them."""
