"""Judges whether triggers and rebalances were planned, with a confidence: a rebalance is unplanned when a member was lost or timed out.

A trigger is judged by the group's other triggers, a rebalance by its triggers. Members and assignments are not considered.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ottla.core.model import GroupEvent

LOW, MEDIUM, HIGH = range(3)
CONFIDENCES = ("low", "medium", "high")

RETURN_WITHIN_MS = 300_000
"""A member that leaves or is lost and joins again within this time came back; Kafka's default max.poll.interval.ms."""


class Verdict(NamedTuple):
    """Whether a trigger was planned (None: cannot be said), and a confidence from LOW to HIGH."""

    planned: bool | None
    confidence: int


UNKNOWN = Verdict(None, LOW)

VERDICTS: Mapping[str, Verdict] = {
    "JOIN_NEW": Verdict(True, HIGH),
    # Close, unsubscribe and, for every client but Java's, the poll timeout are the same request.
    "LEAVE": Verdict(True, MEDIUM),
    "POLL_TIMEOUT": Verdict(False, HIGH),
    "ADMIN_REMOVE": Verdict(True, HIGH),
    "EXPIRE_HEARTBEAT": Verdict(False, HIGH),
    "JOIN_TIMEOUT": Verdict(False, HIGH),
    "SYNC_TIMEOUT": Verdict(False, HIGH),
    # A changed topic, a changed subscription, a needless rejoin or the second half of a cooperative rebalance: see
    # `EXPLAINED_BY_NEW_PARTITIONS`.
    "LEADER_REJOIN": Verdict(True, LOW),
    "METADATA_UPDATE": Verdict(True, LOW),
    "ASSIGNOR_CHANGE": Verdict(True, HIGH),
    "STORE_ERROR": Verdict(False, HIGH),
    "CAPACITY": Verdict(False, HIGH),
    # Static members trigger a rebalance only if they come back during one: after a restart, or as a second process.
    "STATIC_REJOIN": Verdict(False, LOW),
    "STATIC_FENCED": Verdict(False, HIGH),
}

EXPLAINED_BY_NEW_PARTITIONS = frozenset({"LEADER_REJOIN", "METADATA_UPDATE"})
"""Triggers that new partitions in the assignment explain: partitions were added or a topic was created. The confidence is HIGH then."""

LOST = frozenset({"LEAVE", "POLL_TIMEOUT", "EXPIRE_HEARTBEAT", "JOIN_TIMEOUT", "SYNC_TIMEOUT"})
"""Triggers of a member that is gone. If it comes back, neither its leaving (for LEAVE) nor its return was planned."""

JOIN = "JOIN_NEW"
LEAVE = "LEAVE"
LEFT_WITH_REASON = Verdict(True, HIGH)
"""A member that left and gave a reason (only Java's do): the poll timeout has a code of its own."""

RETURNED = Verdict(False, LOW)
"""A client of the same id and host came back: the same process (after a restart, a poll timeout) or another one."""


def judge_triggers(triggers: Sequence[GroupEvent]) -> list[Verdict]:
    """Judge each trigger of one group, in the order in which they happened."""
    lost_ms = _last_before(triggers, LOST)
    joined_ms = _first_after(triggers, JOIN)
    verdicts = []
    for trigger, lost_at_ms, joined_at_ms in zip(triggers, lost_ms, joined_ms, strict=True):
        verdict = VERDICTS.get(trigger.trigger or "", UNKNOWN)
        came_back = trigger.trigger == JOIN and lost_at_ms is not None and trigger.at_ms - lost_at_ms <= RETURN_WITHIN_MS
        will_be_back = trigger.trigger == LEAVE and joined_at_ms is not None and joined_at_ms - trigger.at_ms <= RETURN_WITHIN_MS
        if trigger.trigger == LEAVE and trigger.client_reason:
            verdict = LEFT_WITH_REASON
        verdicts.append(RETURNED if came_back or will_be_back else verdict)
    return verdicts


def _last_before(triggers: Sequence[GroupEvent], codes: frozenset[str]) -> list[int | None]:
    """For each trigger, when the same client (id and host) was last the subject of one of `codes` before."""
    last: dict[tuple[str | None, str | None], int] = {}
    found: list[int | None] = []
    for trigger in triggers:
        client = (trigger.client_id, trigger.client_host)
        # An id that never joined has neither client id nor host.
        found.append(None if trigger.client_id is None else last.get(client))
        if trigger.trigger in codes:
            last[client] = max(trigger.at_ms, last.get(client, trigger.at_ms))
    return found


def _first_after(triggers: Sequence[GroupEvent], code: str) -> list[int | None]:
    """For each trigger, when the same client (id and host) is next the subject of `code`."""
    following: dict[tuple[str | None, str | None], int] = {}
    found: list[int | None] = []
    for trigger in reversed(triggers):
        client = (trigger.client_id, trigger.client_host)
        found.append(None if trigger.client_id is None else following.get(client))
        if trigger.trigger == code:
            following[client] = min(trigger.at_ms, following.get(client, trigger.at_ms))
    return found[::-1]


def judge_rebalance(triggers: Sequence[tuple[str, Verdict]], *, has_new_partitions: bool) -> Verdict:
    """Judge a rebalance by its triggers (code, verdict): an unplanned one decides, then one that cannot be judged."""
    verdicts = [
        Verdict(verdict.planned, HIGH) if has_new_partitions and code in EXPLAINED_BY_NEW_PARTITIONS else verdict
        for code, verdict in triggers
    ]
    unplanned = [verdict.confidence for verdict in verdicts if verdict.planned is False]
    if unplanned:
        return Verdict(False, max(unplanned))
    if not verdicts or any(verdict.planned is None for verdict in verdicts):
        return UNKNOWN
    return Verdict(True, min(verdict.confidence for verdict in verdicts))
