"""`ottla whatif`: reading the evidence, and printing what other settings would have changed."""
