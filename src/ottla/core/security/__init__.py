"""SCRAM."""
