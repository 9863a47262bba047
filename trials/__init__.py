"""Trials of Ottla itself: simulations, chaos, hostile bytes, killed processes, recorded incidents. They do not ship."""
