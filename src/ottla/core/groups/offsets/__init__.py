"""Committed offsets: commit, fetch, deletion, expiry."""
