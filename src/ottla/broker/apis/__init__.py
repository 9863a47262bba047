"""One file for each Kafka API: messages to commands, results to messages. Adding a file here adds the API to ApiVersions."""
