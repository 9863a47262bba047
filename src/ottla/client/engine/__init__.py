"""The consumer without I/O: subscriptions, positions, commits, buffered records, rebalances, and the engine that joins them."""
