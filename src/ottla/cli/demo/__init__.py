"""The demo: a year of real flights through a consumer group that has a bad day. Nothing else in Ottla knows of it."""


class DemoFailedError(Exception):
    """The demo failed; the text says at which point, and which log to read."""
