"""The client: settings, connections, admin requests, fetching."""
