"""The same seeded requests for consumer groups to two brokers, and every difference in answers, groups and records."""
