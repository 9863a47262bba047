"""The web console: pages over views; there are none yet (docs/skipped.md)."""
