"""Committing to consumer groups what a query has processed."""
