"""Runs pipelines on a cluster: inputs, tables, batch and stream."""
