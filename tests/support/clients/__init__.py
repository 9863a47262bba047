"""Requests and group members without a client library."""

import ottla.core.wire  # noqa: F401 - before kio
