"""Members of a group as programs of their own, one for each client library, controlled by JSON lines on their input."""
