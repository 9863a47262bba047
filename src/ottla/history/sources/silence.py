"""What a client's log would have said and does not: evidence against a cause, where the log covers the time.

A log covers the time between two of its own lines about the group: the join of a membership, and the first line after it was over. It would
show only what its library writes at the level that the first of these lines proves.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from ottla.history.sources.evidence import Cause, Evidence, Kind

JAVA, LIBRDKAFKA, KAFKA_PYTHON, AIOKAFKA = "java", "librdkafka", "kafka-python", "aiokafka"

SHOWN: Final[Mapping[str, Mapping[Cause, str]]] = {
    JAVA: {
        Cause.POLL_TIMEOUT: "consumer poll timeout has expired (WARN)",
        Cause.LEAVE_CLOSE: "sending LeaveGroup request to coordinator (INFO)",
    },
    LIBRDKAFKA: {
        Cause.POLL_TIMEOUT: "MAXPOLL: Application maximum poll interval exceeded (WARNING)",
        Cause.LEAVE_CLOSE: "is rebalancing: unsubscribe, or max.poll.interval.ms exceeded (debug=cgrp)",
    },
    KAFKA_PYTHON: {
        Cause.POLL_TIMEOUT: "Consumer poll timeout has expired (WARNING)",
        Cause.LEAVE_CLOSE: "Leaving consumer group (INFO)",
    },
    AIOKAFKA: {
        Cause.POLL_TIMEOUT: "LeaveGroup request succeeded, and no new subscription after it (INFO)",
        Cause.LEAVE_CLOSE: "LeaveGroup request succeeded (INFO)",
    },
}
"""By library: the line that shows a cause, and its level. The join that proves that the log covers the time is INFO, or of debug=cgrp."""


def unsaid(joined: Evidence, said: Iterable[Evidence]) -> frozenset[Cause]:
    """The causes that the log of a member would show after this join, of which none of its lines up to the next join speaks."""
    shown = set(SHOWN.get(joined.library or "", ()))
    if joined.group_type == "consumer":
        shown.discard(Cause.LEAVE_CLOSE)  # a KIP-848 member leaves with a heartbeat, of which no library but Java's has a line of its own
    for item in said:
        causes = {item.trigger, *(item.candidates if item.kind is Kind.CLIENT_LEAVES else ())}
        if item.kind is Kind.CLIENT_LEAVES or Cause.POLL_TIMEOUT in causes:
            shown.discard(Cause.LEAVE_CLOSE)
        shown -= causes
    return frozenset(shown)
