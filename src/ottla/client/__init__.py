"""The client: settings, connections, admin requests, fetching."""

import ottla.protocol.wire  # noqa: F401 - before kio
