"""The fetch client: record batches of ranges of offsets."""
