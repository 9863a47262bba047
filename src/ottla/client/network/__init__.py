"""Connections to brokers: frames, ApiVersions, authentication."""
