"""See `ottla.core`."""
