"""What `ottla report` does: evidence from its sources to a page."""
