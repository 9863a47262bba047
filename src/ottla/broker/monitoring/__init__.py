"""Health, group figures and their metrics."""
