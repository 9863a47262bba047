"""`python -m ottla` is the `ottla` command."""

from ottla.cli.main import main

main()
