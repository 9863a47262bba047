"""One Kafka API a file, found by its name: message ↔ command, nothing more. Adding a file here adds the API to ApiVersions."""
