"""Cleaning a log: the keys that count, and the segments without the others."""
