"""Logs of partitions, their cleaner, and the dump of their files; only files.py touches the disk."""
