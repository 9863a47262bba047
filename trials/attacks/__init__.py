"""Small hostile requests, and a client that measures how long others wait meanwhile: for tests and benchmarks, on any Kafka broker."""

from ottla.extras import require

require("arrow", "numpy")
