"""The client's decisions: fetching, leaders, retries."""
