"""Copies within transactions, while brokers, coordinators and copiers are disturbed: every input exactly once in the committed output."""
