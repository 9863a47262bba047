"""Evidence of what happened to groups: one model, and a reader for each source, from lines, records or snapshots to that model."""
