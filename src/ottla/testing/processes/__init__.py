"""Servers and Java programs as child processes."""
