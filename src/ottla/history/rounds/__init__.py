"""Turns evidence into rounds: what belongs to one rebalance of one group, from every source, joined by generation or group epoch."""
