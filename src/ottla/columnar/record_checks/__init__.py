"""Checks of a client's records, and the search for a timestamp, in compiled code."""
