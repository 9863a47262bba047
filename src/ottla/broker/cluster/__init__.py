"""The brokers of a process and what they share: nodes, topics, leadership."""
