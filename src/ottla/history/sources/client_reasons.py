"""What a client's reason for joining or leaving says about the cause. The texts are those of Apache Kafka's Java clients (KIP-800).

They are in the broker's log and in the clients' own. Anyone may send any text: one that is not known leaves the candidates open. Members of
`ottla.Consumer` add what they measured, in brackets, which is read where Java's text leaves several causes of a removal open.
"""

import re
from typing import Final, NamedTuple

from ottla.groups.reason_evidence import HEARTBEATS_MISSING, POLLED_LATE, evidence_in
from ottla.history.sources.cause_codes import Cause


class Meaning(NamedTuple):
    """The cause, if the text names one, else those that it cannot tell apart; both empty where it says nothing of a cause."""

    trigger: str | None = None
    candidates: tuple[str, ...] = ()


NOTHING: Final = Meaning()
NOT_PROVIDED: Final = "not provided"

ANY_LEAVE: Final = Meaning(None, (Cause.LEAVE_CLOSE, Cause.POLL_TIMEOUT, Cause.RESTART_DYNAMIC))
"""Every client but Java's leaves without a reason; so does every member of KIP-848."""
ADMIN_OR_CLIENT: Final = Meaning(None, (Cause.ADMIN, Cause.LEAVE_CLOSE))
ANY_REJOIN: Final = Meaning(None, (Cause.SUBSCRIPTION, Cause.TOPIC_CHANGE, Cause.COOP_FOLLOWUP, Cause.LEADER_REJOIN_SPURIOUS))
REMOVED_BEFORE: Final = Meaning(None, (Cause.EXPIRE_HEARTBEAT, Cause.POLL_TIMEOUT, Cause.JOIN_TIMEOUT))
"""The coordinator does not know the member any more."""

LEAVE_TEXTS: Final = (
    ("the consumer is being closed", Meaning(Cause.LEAVE_CLOSE)),
    ("the consumer unsubscribed from all topics", Meaning(Cause.LEAVE_CLOSE)),
    ("consumer poll timeout has expired", Meaning(Cause.POLL_TIMEOUT)),
    ("worker poll timeout has expired", Meaning(Cause.POLL_TIMEOUT)),
    ("taking too long to read the log", Meaning(Cause.POLL_TIMEOUT)),
    ("member was removed by an admin", Meaning(Cause.ADMIN)),
    (NOT_PROVIDED, ANY_LEAVE),
)

LEFT_BY_ITSELF: Final = "consumer pro-actively leaving the group"
REMOVED_TEXTS: Final = ("encountered UNKNOWN_MEMBER_ID ", "encountered ILLEGAL_GENERATION ")

JOIN_TEXTS: Final = (
    ("need to re-join with the given member-id", NOTHING),
    ("group is already rebalancing", NOTHING),
    ("cached metadata has changed", Meaning(Cause.TOPIC_CHANGE)),
    ("subscription has changed", Meaning(Cause.SUBSCRIPTION)),
    ("received assignment does not match the current subscription", Meaning(Cause.SUBSCRIPTION)),
    ("received assignment ", Meaning(Cause.SUBSCRIPTION)),
    ("need to revoke partitions", Meaning(Cause.COOP_FOLLOWUP)),
    ("triggered followup rebalance scheduled", Meaning(Cause.COOP_FOLLOWUP)),
    ("rebalance enforced by user", Meaning(Cause.ENFORCED)),
    ("connect worker requested rejoin", Meaning(Cause.ENFORCED)),
    ("Shutdown requested", Meaning(Cause.ENFORCED)),
    ("Active tasks corrupted", Meaning(Cause.ENFORCED)),
    ("offset commit failed since group is already rebalancing", NOTHING),
    (LEFT_BY_ITSELF, Meaning(None, (Cause.POLL_TIMEOUT, Cause.SUBSCRIPTION, Cause.RESTART_DYNAMIC))),
    ("encountered FENCED_INSTANCE_ID ", Meaning(Cause.STATIC_FENCED)),
    *((text, REMOVED_BEFORE) for text in REMOVED_TEXTS),
    (NOT_PROVIDED, ANY_REJOIN),
)

FAILED_REBALANCE: Final = "rebalance failed due to "
EXCEPTION: Final = re.compile(r"(\w+)Exception\b")
COORDINATOR_ERRORS: Final = frozenset({"CoordinatorLoadInProgress", "CoordinatorNotAvailable", "NotCoordinator", "Disconnect"})


def leave_meaning(client_reason: str) -> Meaning:
    """What the reason of a LeaveGroup says. An administrator's own text is not told apart from a client's."""
    for text, meaning in LEAVE_TEXTS:
        if client_reason.startswith(text):
            return meaning
    return ADMIN_OR_CLIENT if client_reason else ANY_LEAVE


def rejoin_meaning(client_reason: str) -> Meaning:
    """What the reason says with which a member joins again. An application's text for `enforceRebalance` may be any."""
    for text, meaning in JOIN_TEXTS:
        if client_reason.startswith(text):
            return _measured(client_reason, meaning)
    if client_reason.startswith(FAILED_REBALANCE):
        return _failure_meaning(client_reason)
    return Meaning(None, (Cause.ENFORCED, *ANY_REJOIN.candidates)) if client_reason else ANY_REJOIN


def first_join_meaning(client_reason: str) -> Meaning:
    """What the reason says with which a new member joins: it may be new, or one that comes back."""
    meaning = NOTHING if client_reason in ("", NOT_PROVIDED) else rejoin_meaning(client_reason)
    is_return = meaning == REMOVED_BEFORE or client_reason.startswith((LEFT_BY_ITSELF, *REMOVED_TEXTS))
    return meaning if is_return else Meaning(None, (Cause.JOIN_NEW, Cause.COLD_START, Cause.RESTART_DYNAMIC))


def _measured(client_reason: str, meaning: Meaning) -> Meaning:
    """What a member measured narrows down why it had been removed."""
    cause = evidence_in(client_reason)
    if meaning == REMOVED_BEFORE and cause in HEARTBEATS_MISSING:
        return Meaning(Cause.EXPIRE_HEARTBEAT)
    if meaning == REMOVED_BEFORE and cause in POLLED_LATE:
        return Meaning(None, (Cause.JOIN_TIMEOUT, Cause.POLL_TIMEOUT))
    return Meaning(Cause.POLL_TIMEOUT) if cause is not None and client_reason.startswith(LEFT_BY_ITSELF) else meaning


def _failure_meaning(error: str) -> Meaning:
    names = EXCEPTION.findall(error)
    name = names[-1] if names else ""
    if name in COORDINATOR_ERRORS:
        return Meaning(Cause.COORDINATOR_MOVE)
    if name == "FencedInstanceId":
        return Meaning(Cause.STATIC_FENCED)
    if name in ("UnknownMemberId", "IllegalGeneration"):
        return REMOVED_BEFORE
    return NOTHING
