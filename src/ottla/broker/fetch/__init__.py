"""Fetch: sessions, reading partitions, delayed fetches; lookups of offsets by timestamp."""
