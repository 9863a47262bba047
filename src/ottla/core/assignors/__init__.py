"""Partition assignors, one a file: they come with the consumer client (docs/skipped.md)."""
