"""Requests and group members without a client library."""

import ottla.protocol.wire  # noqa: F401 - before kio
