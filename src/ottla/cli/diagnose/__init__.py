"""`ottla diagnose`: where its evidence comes from."""
