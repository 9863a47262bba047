"""What `ottla pipeline run` does."""
