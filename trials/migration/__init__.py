"""Topics that `ottla migrate` moves to another number of partitions while it is killed, and what the target must hold afterwards."""
