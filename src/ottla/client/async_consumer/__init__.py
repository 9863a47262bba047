"""`ottla.AsyncConsumer`, with the interface of aiokafka, and the errors that it raises."""
