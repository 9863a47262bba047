"""Turns group events into rebalances: what happened, why, and whether it was planned; judges the cleaner and consumer settings."""
