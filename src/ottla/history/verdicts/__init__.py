"""Judges rounds: one verdict per rebalance, with cause, candidates, confidence, cost and advice. The rules are tables that docs list."""
