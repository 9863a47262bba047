"""Scenario files: their language, their rendering and their execution."""
