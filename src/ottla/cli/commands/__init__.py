"""One command a file, found by its name: COMMAND is a click command."""
