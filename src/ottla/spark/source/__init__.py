"""The source: planning offsets on the driver, reading them in tasks."""
