"""Features that clients request and that are not built yet: a log line names client and feature, as few clients show a response's text."""

import logging
from collections.abc import Callable
from typing import Final

from ottla.broker.protocol.request import Request
from ottla.core.text import printable

log = logging.getLogger(__name__)

TRANSACTIONS: Final = "transactions (transactional.id), which are not supported yet"
CONSUMER_PROTOCOL: Final = "the consumer group protocol (KIP-848), which is not supported yet: set group.protocol=classic"
REPEATED_AFTER_S: Final = 600.0
KEPT_MAX: Final = 1000
SHOWN_CHARACTERS_MAX: Final = 100


class MissingFeatures:
    """Logs one line for a client id and a feature in ten minutes, and at most 1,000 lines in that time."""

    def __init__(self, clock_s: Callable[[], float]) -> None:
        self._clock_s = clock_s
        self._logged_at_s: dict[tuple[str, str], float] = {}

    def report(self, feature: str, request: Request) -> None:
        """A client requests `feature`."""
        client_id = (request.client_id or "")[:SHOWN_CHARACTERS_MAX]
        now_s = self._clock_s()
        # Every entry is added once and stays ten minutes: the oldest come first.
        while self._logged_at_s and now_s - next(iter(self._logged_at_s.values())) >= REPEATED_AFTER_S:
            del self._logged_at_s[next(iter(self._logged_at_s))]
        if (client_id, feature) in self._logged_at_s or len(self._logged_at_s) >= KEPT_MAX:
            return
        self._logged_at_s[client_id, feature] = now_s
        log.warning("client %s of %s asks for %s", printable(client_id) or "(no id)", request.client_host, feature)
