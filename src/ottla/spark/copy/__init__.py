"""Copying a topic into one with another number of partitions."""
