"""Decides without I/O: wire types, records, settings, metadata, group coordination, cleaning, the fetch client's state, diagnosis."""
