"""Requests and group members without a client library."""
