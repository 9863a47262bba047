"""Requests of the hot path, read straight from their bytes: one file an API, held equal to kio's reader by tests."""
