"""The client: settings, connections, admin requests, fetching."""

import ottla.core.wire  # noqa: F401 - before kio
