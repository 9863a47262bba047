"""Which log is cleaned next, and which of its records stay; the reference backend."""
