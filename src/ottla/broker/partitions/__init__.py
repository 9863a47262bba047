"""Partitions and their logs: opening, flushing, retention, cleaning, deletion."""
