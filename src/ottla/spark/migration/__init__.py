"""Copying a topic into one with another number of partitions, with the offsets of its groups: `ottla migrate`."""
