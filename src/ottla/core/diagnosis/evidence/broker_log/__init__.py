"""Reads the log of a broker: what Kafka's group coordinators wrote, in 2.x, 3.x and 4.x, and Ottla's own, which prints Kafka's lines."""
