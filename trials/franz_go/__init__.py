"""Programs of franz-go, Go's client."""
