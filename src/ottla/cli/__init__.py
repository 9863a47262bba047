"""The `ottla` command: one file a command under `commands`; heavy imports wait until a command runs."""
