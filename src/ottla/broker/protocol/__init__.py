"""Requests and responses: bytes to values and back."""
