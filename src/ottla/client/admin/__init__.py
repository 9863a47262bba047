"""Admin requests: groups, offsets, topics."""
