"""The sink: writes rows as records and waits for acknowledgements."""
