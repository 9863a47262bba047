"""What every kernel is built of: compilation, memory by address, checksums, varints and records, whole batches."""
