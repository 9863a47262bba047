"""Copies of a topic's log outside a broker: partition folders that were copied, and the archive that `ottla watch` writes."""
