"""The cleaner's compiled backend."""
