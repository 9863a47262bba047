"""What `ottla groups` does, piece by piece: options, plans, tables, and the actions themselves."""
