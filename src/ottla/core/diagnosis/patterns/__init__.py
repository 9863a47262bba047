"""Finds what several rebalances of a group have in common: deployments, members that flap, the member that causes most."""
