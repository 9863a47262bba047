"""Requests and responses: bytes to values and back."""

import ottla.core.wire  # noqa: F401 - before kio
