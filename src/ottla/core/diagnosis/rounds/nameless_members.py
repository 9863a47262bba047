"""Pairs members of which only a random id is known, as in the log of a KIP-848 group: by their times alone, so with little certainty.

A restarted process has another id: one member goes, another comes within seconds. If the process was killed, the other one may come
first: the session of the one that was killed is not over yet.
"""

from typing import Final

from ottla.core.diagnosis.rounds.changes import Role
from ottla.core.diagnosis.rounds.round import Arrival, Departure

RETURN_WITHIN_MS: Final = 30_000
SESSION_MAX_MS: Final = 60_000
"""Kafka's default for group.consumer.max.session.timeout.ms."""
KEPT_MAX: Final = 20


class NamelessMembers:
    """The last such members that went, and that nothing has been paired with."""

    def __init__(self) -> None:
        self._gone: list[Departure] = []
        self._came: list[Arrival] = []

    def add(self, departure: Departure) -> None:
        """Keep a departure; one whose session expired may be of a process that had been started again before."""
        self._gone = [*self._gone[1 - KEPT_MAX :], departure]
        if departure.role != Role.EXPIRED:
            return
        for arrival in self._came:
            is_near = departure.clock == arrival.clock and 0 <= departure.at_ms - arrival.at_ms <= SESSION_MAX_MS
            if is_near and arrival.who.member_id != departure.who.member_id:
                departure.may_be_replaced = arrival.may_replace = True

    def pair(self, arrival: Arrival) -> None:
        """Pair an arrival with the oldest departure of the last seconds, if there is one."""
        for departure in self._gone:
            is_near = departure.clock == arrival.clock and 0 <= arrival.at_ms - departure.at_ms <= RETURN_WITHIN_MS
            if is_near and departure.returned is None:
                self._gone.remove(departure)
                departure.returned, arrival.loss = arrival, departure
                departure.returned_after_ms = arrival.at_ms - departure.at_ms
                departure.is_nameless_pair = True
                return
        self._came = [*self._came[1 - KEPT_MAX :], arrival]
