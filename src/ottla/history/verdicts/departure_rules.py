"""Signatures of members that went: what distinguishes a close, a restart, an expired session and an exceeded poll interval."""

import re
from typing import Final

from ottla.history.rounds.membership import Role
from ottla.history.rounds.round import Departure
from ottla.history.sources.evidence import Cause, Source
from ottla.history.sources.outages import LOST_IN_GROUP
from ottla.history.verdicts.verdict import Confidence, Rule

COMMITS_ON_CLOSE_MS: Final = 2_000
"""A client that commits when it closes does so at most this long before the group has another assignment."""

SLACK_MS: Final = 2_500
"""How much later than its timeout a loss is seen: a heartbeat interval, and the time that others need to join."""

LEAVE_REASONS: Final = re.compile(
    r"the consumer is being closed|unsubscribed from all topics|poll timeout has expired|removed by an admin|pro-actively leaving"
)
"""The reasons that Java's clients give when they leave (KIP-800)."""

_C = Cause

ANY_LOSS: Final = {_C.LEAVE_CLOSE: 3.0, _C.RESTART_DYNAMIC: 3.0, _C.EXPIRE_HEARTBEAT: 2.0, _C.POLL_TIMEOUT: 2.0} | {
    _C.ADMIN: 0.3,
    _C.JOIN_TIMEOUT: 0.5,
    _C.SYNC_TIMEOUT: 0.3,
    _C.ASSIGNOR_CHANGE: 0.1,
}
"""A member that is not listed any more, and nothing says why."""
OPEN: Final = {_C.ASSIGNOR_CHANGE: 0.6, _C.CAPACITY: 0.1, _C.MIGRATION: 0.1}
SILENT: Final = {
    _C.EXPIRE_HEARTBEAT: 10.0,
    _C.RESTART_DYNAMIC: 1.0,
    _C.POLL_TIMEOUT: 1.0,
    _C.JOIN_TIMEOUT: 2.0,
    _C.LEAVE_CLOSE: 0.5,
    _C.SYNC_TIMEOUT: 0.5,
}
BACK: Final = {
    _C.RESTART_DYNAMIC: 6.0,
    _C.POLL_TIMEOUT: 3.0,
    _C.EXPIRE_HEARTBEAT: 6.0,
    _C.JOIN_TIMEOUT: 3.0,
    _C.SYNC_TIMEOUT: 3.0,
    _C.ADMIN: 3.0,
    _C.LEAVE_CLOSE: 0.2,
    _C.SUBSCRIPTION: 3.0,
    **OPEN,
    _C.ASSIGNOR_CHANGE: 2.0,
}
AWAY: Final = {**BACK, **OPEN, _C.LEAVE_CLOSE: 6.0, _C.SUBSCRIPTION: 0.3, _C.RESTART_DYNAMIC: 0.1, _C.POLL_TIMEOUT: 1.0, _C.ADMIN: 2.0}

ANY_CAUSE: Final = tuple({**BACK, **AWAY, **SILENT, **ANY_LOSS, _C.COORDINATOR_MOVE: 1.0})
LEAVES: Final = (_C.LEAVE_CLOSE, _C.RESTART_DYNAMIC, _C.POLL_TIMEOUT, _C.SUBSCRIPTION, _C.ASSIGNOR_CHANGE)

_LOG, _EVENTS, _TOPIC, _CLIENT = Source.BROKER_LOG, Source.GROUP_EVENTS, Source.OFFSETS_TOPIC, Source.CLIENT_LOG
_HIGH, _MEDIUM, _LOW = Confidence.HIGH, Confidence.MEDIUM, Confidence.LOW


def reason(departure: Departure) -> str:
    return departure.client_reason or ""


_NAMED: Final = frozenset({Cause.ADMIN, Cause.POLL_TIMEOUT, "ADMIN_REMOVE"})


def left(departure: Departure) -> bool:
    is_named = any(item.trigger in _NAMED for item in departure.items)
    return departure.role == Role.LEFT and not reason(departure) and not is_named


def closed(departure: Departure) -> bool:
    return "consumer is being closed" in reason(departure)


def unsubscribed(departure: Departure) -> bool:
    return "unsubscribed from all topics" in reason(departure)


def says_poll_timeout(departure: Departure) -> bool:
    return "poll timeout has expired" in reason(departure)


def says_admin(departure: Departure) -> bool:
    return "removed by an admin" in reason(departure)


def says_something_else(departure: Departure) -> bool:
    return departure.role == Role.LEFT and bool(reason(departure)) and LEAVE_REASONS.search(reason(departure)) is None


def expired(departure: Departure) -> bool:
    return departure.role == Role.EXPIRED and not departure.is_consumer_type and not is_static(departure)


def is_static(departure: Departure) -> bool:
    return departure.who.instance_id is not None


def static_expired(departure: Departure) -> bool:
    return departure.role == Role.EXPIRED and is_static(departure) and not departure.had_left_for_now


def static_had_closed(departure: Departure) -> bool:
    return departure.had_left_for_now


def static_expired_after_closes(departure: Departure) -> bool:
    closed = any(each.returned is None for each in departure.closed_before)
    return static_expired(departure) and departure.returned is None and closed


def static_group_expired(departure: Departure) -> bool:
    return static_expired(departure) and departure.went_with_all and LOST_IN_GROUP in departure.figures


def expired_in_consumer_group(departure: Departure) -> bool:
    return departure.role == Role.EXPIRED and departure.is_consumer_type and not is_static(departure)


def late_to_join(departure: Departure) -> bool:
    return departure.role == Role.LATE_TO_JOIN


def late_to_sync(departure: Departure) -> bool:
    return departure.role == Role.LATE_TO_SYNC


def only_listed(departure: Departure) -> bool:
    return departure.role in ("", Role.REMOVED)


def came_back(departure: Departure) -> bool:
    is_clear = not departure.is_shared_name and not departure.is_nameless_pair
    return departure.returned is not None and not departure.is_replaced_before and is_clear


def may_have_come_back(departure: Departure) -> bool:
    return departure.returned is not None and not departure.is_replaced_before and departure.is_shared_name


def another_came(departure: Departure) -> bool:
    return departure.is_nameless_pair


def stayed_away(departure: Departure) -> bool:
    return departure.returned is None


def same_id_came_back(departure: Departure) -> bool:
    """A KIP-848 member keeps its id as long as its process lives."""
    returned = departure.returned
    return (
        departure.is_consumer_type
        and departure.role == Role.LEFT
        and returned is not None
        and returned.who.member_id is not None
        and returned.who.member_id == departure.who.member_id
    )


def same_id_is_listed_again(departure: Departure) -> bool:
    returned = departure.returned
    is_same = returned is not None and returned.who.member_id is not None and returned.who.member_id == departure.who.member_id
    return departure.is_consumer_type and departure.role == Role.LISTED and is_same


def had_not_revoked(departure: Departure) -> bool:
    is_said = any(Cause.JOIN_TIMEOUT in item.candidates for item in departure.items)
    return departure.is_consumer_type and departure.role == Role.LISTED and is_said


def same_connection(departure: Departure) -> bool:
    return departure.is_same_connection is True and departure.role == Role.LEFT and not departure.is_left_by_other


def other_connection(departure: Departure) -> bool:
    return departure.is_same_connection is False and departure.role == Role.LEFT and not departure.is_left_by_other


def left_by_other(departure: Departure) -> bool:
    return departure.is_left_by_other is True and departure.role == Role.LEFT and departure.is_same_connection is not False


def left_by_itself(departure: Departure) -> bool:
    return departure.is_left_by_other is False and departure.role == Role.LEFT


def expired_and_kept_its_connection(departure: Departure) -> bool:
    return departure.is_same_connection is True and departure.role == Role.EXPIRED


def expired_and_came_from_elsewhere(departure: Departure) -> bool:
    return departure.is_same_connection is False and departure.role == Role.EXPIRED


def was_replaced(departure: Departure) -> bool:
    return departure.is_replaced_before


def may_be_replaced(departure: Departure) -> bool:
    return departure.may_be_replaced and departure.returned is None


def log_has_no_poll_timeout(departure: Departure) -> bool:
    return Cause.POLL_TIMEOUT in departure.unsaid


def log_has_no_leave(departure: Departure) -> bool:
    return Cause.LEAVE_CLOSE in departure.unsaid and departure.role == Role.LEFT


def log_has_no_leave_and_list_no_reason(departure: Departure) -> bool:
    return Cause.LEAVE_CLOSE in departure.unsaid and departure.role == ""


def protocol_changed(departure: Departure) -> bool:
    return departure.is_protocol_changed


def usual_interval_ms(departure: Departure) -> int:
    return departure.commit_interval_ms if departure.commit_interval_ms is not None else COMMITS_ON_CLOSE_MS


def committed_just_before(departure: Departure) -> bool:
    gap_ms, session_ms = departure.commit_gap_ms, departure.session_timeout_ms
    return gap_ms is not None and gap_ms <= COMMITS_ON_CLOSE_MS and (session_ms is None or gap_ms < session_ms / 2)


def silent_for_a_session(departure: Departure) -> bool:
    gap_ms, session_ms = departure.commit_gap_ms, departure.session_timeout_ms
    if gap_ms is None or not session_ms or departure.role == Role.EXPIRED or silent_for_a_poll_interval(departure):
        return False  # the coordinator's own words for an expired session are not said twice
    return 0.95 * session_ms <= gap_ms <= session_ms + SLACK_MS + usual_interval_ms(departure)


def silent_for_a_poll_interval(departure: Departure) -> bool:
    gap_ms, interval_ms = departure.commit_gap_ms, departure.rebalance_timeout_ms
    if gap_ms is None or not interval_ms:
        return False
    return 0.98 * interval_ms <= gap_ms <= interval_ms + SLACK_MS + 2 * usual_interval_ms(departure)


def all_went(departure: Departure) -> bool:
    return departure.went_with_all and departure.role == ""


def silent_while_others_joined(departure: Departure) -> bool:
    gap_ms, interval_ms = departure.commit_gap_ms, departure.rebalance_timeout_ms
    if gap_ms is None or not interval_ms or not departure.is_with_others or departure.role != "":
        return False
    return gap_ms >= 0.7 * interval_ms


def silent_and_replaced(departure: Departure) -> bool:
    gap_ms, session_ms = departure.commit_gap_ms, departure.session_timeout_ms
    is_list = departure.role == "" and departure.returned_at_once
    return is_list and gap_ms is not None and session_ms is not None and gap_ms >= 0.95 * session_ms


def never_synced(departure: Departure) -> bool:
    present_ms, interval_ms = departure.present_ms, departure.rebalance_timeout_ms
    if departure.role != "" or present_ms is None or not interval_ms:
        return False
    return 0.9 * interval_ms <= present_ms <= interval_ms + SLACK_MS


DEPARTURE_RULES: Final[tuple[Rule[Departure], ...]] = (
    Rule(
        name="left without a reason",
        source=_LOG,
        condition="LeaveGroup, or epoch -1, and no reason: what every client but Java's sends, and all of them on KIP-848",
        weights={_C.LEAVE_CLOSE: 3, _C.RESTART_DYNAMIC: 3, _C.POLL_TIMEOUT: 2, _C.ADMIN: 0.5, **OPEN},
        confidence=_MEDIUM,
        holds=left,
    ),
    Rule(
        name="closed",
        source=_LOG,
        condition="the client's reason: the consumer is being closed",
        weights={_C.LEAVE_CLOSE: 3, _C.RESTART_DYNAMIC: 3, **OPEN},
        confidence=_HIGH,
        holds=closed,
    ),
    Rule(
        name="unsubscribed",
        source=_LOG,
        condition="the client's reason: the consumer unsubscribed from all topics",
        weights={_C.LEAVE_CLOSE: 5, _C.SUBSCRIPTION: 1},
        confidence=_HIGH,
        holds=unsubscribed,
    ),
    Rule(
        name="poll timeout",
        source=_LOG,
        condition="the client's reason: (consumer|worker) poll timeout has expired",
        weights={_C.POLL_TIMEOUT: 1},
        confidence=_HIGH,
        holds=says_poll_timeout,
    ),
    Rule(
        name="removed by an administrator",
        source=_LOG,
        condition="the reason: member was removed by an admin",
        weights={_C.ADMIN: 1},
        confidence=_HIGH,
        holds=says_admin,
    ),
    Rule(
        name="a free-text reason",
        source=_LOG,
        condition="a reason that no client sends by itself: administrators may give any",
        weights={_C.ADMIN: 20, _C.LEAVE_CLOSE: 1},
        confidence=_HIGH,
        holds=says_something_else,
    ),
    Rule(
        name="session expired",
        source=_LOG,
        condition="no heartbeat within the session timeout",
        weights={_C.EXPIRE_HEARTBEAT: 10, _C.RESTART_DYNAMIC: 0.5},
        confidence=_HIGH,
        holds=expired,
    ),
    Rule(
        name="session of a static member expired",
        source=_LOG,
        condition="no heartbeat within the session timeout: a static member that closes sends nothing, either",
        weights={_C.EXPIRE_HEARTBEAT: 6, _C.LEAVE_CLOSE: 2, _C.POLL_TIMEOUT: 1, _C.RESTART_DYNAMIC: 1},
        confidence=_MEDIUM,
        holds=static_expired,
    ),
    Rule(
        name="a static member expired after others had closed",
        source=_LOG,
        condition="others left within a minute before, and neither they nor it came back: all are being stopped",
        weights={_C.EXPIRE_HEARTBEAT: 1, _C.LEAVE_CLOSE: 8, _C.POLL_TIMEOUT: 1, _C.RESTART_DYNAMIC: 1},
        confidence=_MEDIUM,
        holds=static_expired_after_closes,
    ),
    Rule(
        name="all static members of a group expired in one instant",
        source=_LOG,
        condition="no member is left, and few others were lost then: all were stopped in order, which static members do not say",
        weights={_C.EXPIRE_HEARTBEAT: 1, _C.LEAVE_CLOSE: 8, _C.POLL_TIMEOUT: 1, _C.RESTART_DYNAMIC: 16},
        confidence=_MEDIUM,
        holds=static_group_expired,
    ),
    Rule(
        name="a static member had closed",
        source=_LOG,
        condition="KIP-848: it left with epoch -2 and did not come back within its session",
        weights={_C.LEAVE_CLOSE: 10, _C.RESTART_DYNAMIC: 3, _C.EXPIRE_HEARTBEAT: 0.1},
        confidence=_HIGH,
        holds=static_had_closed,
    ),
    Rule(
        name="session expired, KIP-848",
        source=_LOG,
        condition="the member session expired: librdkafka's members also end so after a poll timeout, or when they unsubscribe",
        weights={_C.EXPIRE_HEARTBEAT: 6, _C.POLL_TIMEOUT: 2, _C.LEAVE_CLOSE: 0.7, _C.RESTART_DYNAMIC: 0.5},
        confidence=_HIGH,
        holds=expired_in_consumer_group,
    ),
    Rule(
        name="did not join again",
        source=_LOG,
        condition="removed dynamic members who haven't joined; KIP-848: failed to transition within the rebalance timeout",
        weights={_C.JOIN_TIMEOUT: 10, _C.RESTART_DYNAMIC: 0.5},
        confidence=_HIGH,
        holds=late_to_join,
    ),
    Rule(
        name="did not sync",
        source=_LOG,
        condition="removed on pending sync request expiration",
        weights={_C.SYNC_TIMEOUT: 1},
        confidence=_HIGH,
        holds=late_to_sync,
    ),
    Rule(
        name="not listed any more",
        source=_TOPIC,
        condition="the next list of members lacks it, and nothing says why",
        weights=ANY_LOSS,
        confidence=_MEDIUM,
        holds=only_listed,
    ),
    Rule(
        name="committed just before",
        source=_TOPIC,
        condition=f"the last commit of its partitions is at most {COMMITS_ON_CLOSE_MS} ms old: clients commit when they close",
        weights={_C.LEAVE_CLOSE: 6, _C.RESTART_DYNAMIC: 6, _C.ADMIN: 3, _C.POLL_TIMEOUT: 0.4, _C.EXPIRE_HEARTBEAT: 0.1, **OPEN},
        confidence=_MEDIUM,
        holds=committed_just_before,
    ),
    Rule(
        name="silent for a session timeout",
        source=_TOPIC,
        condition="its partitions had no commit for its session timeout, and not much longer",
        weights=SILENT,
        confidence=_MEDIUM,
        holds=silent_for_a_session,
    ),
    Rule(
        name="silent for a poll interval",
        source=_TOPIC,
        condition="its partitions had no commit for its rebalance timeout, which is max.poll.interval.ms in most clients",
        weights={
            _C.POLL_TIMEOUT: 10,
            _C.EXPIRE_HEARTBEAT: 1,
            _C.RESTART_DYNAMIC: 0.5,
            _C.LEAVE_CLOSE: 0.5,
            _C.JOIN_TIMEOUT: 1,
            _C.SYNC_TIMEOUT: 0.5,
        },
        confidence=_MEDIUM,
        holds=silent_for_a_poll_interval,
    ),
    Rule(
        name="silent, and replaced in the same generation",
        source=_TOPIC,
        condition="it had not committed for its session timeout, and the generation without it has a new member of its client id",
        weights={_C.RESTART_DYNAMIC: 60, _C.EXPIRE_HEARTBEAT: 2, _C.JOIN_TIMEOUT: 6, _C.POLL_TIMEOUT: 3},
        confidence=_MEDIUM,
        holds=silent_and_replaced,
    ),
    Rule(
        name="gone one rebalance timeout after it joined",
        source=_TOPIC,
        condition="it joined in the generation before, and is gone after about its rebalance timeout: the time for SyncGroup",
        weights={_C.SYNC_TIMEOUT: 500, _C.POLL_TIMEOUT: 1, _C.EXPIRE_HEARTBEAT: 1, _C.LEAVE_CLOSE: 1, _C.RESTART_DYNAMIC: 0.5},
        confidence=_MEDIUM,
        holds=never_synced,
    ),
    Rule(
        name="silent while others joined",
        source=_TOPIC,
        condition="another client joined in the same rebalance, and it had not committed for about its rebalance timeout",
        weights={_C.JOIN_TIMEOUT: 50, _C.POLL_TIMEOUT: 1, _C.EXPIRE_HEARTBEAT: 1, _C.RESTART_DYNAMIC: 0.3, _C.LEAVE_CLOSE: 0.2},
        confidence=_MEDIUM,
        holds=silent_while_others_joined,
    ),
    Rule(
        name="all went at once",
        source=_TOPIC,
        condition="every member of several is gone in one generation: an administrator can remove them with one request",
        weights={_C.ADMIN: 20, _C.LEAVE_CLOSE: 1, _C.EXPIRE_HEARTBEAT: 1, _C.RESTART_DYNAMIC: 0.3, _C.POLL_TIMEOUT: 0.1},
        confidence=_MEDIUM,
        holds=all_went,
    ),
    Rule(
        name="the client came back",
        source=_LOG,
        condition="a member with the same client id (or member id) joined within 5 minutes",
        weights=BACK,
        confidence=_LOW,
        holds=came_back,
    ),
    Rule(
        name="a client of the same name came",
        source=_LOG,
        condition="the same, and other members have this client id too, so that it may be another one",
        weights={**BACK, _C.LEAVE_CLOSE: 3},
        confidence=_LOW,
        holds=may_have_come_back,
    ),
    Rule(
        name="another member came",
        source=_LOG,
        condition="KIP-848: within 30 s a member joined of which only another random id is known, as after a restart",
        weights={**BACK, _C.RESTART_DYNAMIC: 6, _C.LEAVE_CLOSE: 2, _C.POLL_TIMEOUT: 0.5, _C.EXPIRE_HEARTBEAT: 4},
        confidence=_LOW,
        holds=another_came,
    ),
    Rule(
        name="the client stayed away",
        source=_LOG,
        condition="no member with the same client id joined within 5 minutes",
        weights=AWAY,
        confidence=_LOW,
        holds=stayed_away,
    ),
    Rule(
        name="the process lived on",
        source=_LOG,
        condition="KIP-848: the same member id left and came back, and a member id is that of a process",
        weights={_C.POLL_TIMEOUT: 6, _C.SUBSCRIPTION: 1, _C.LEAVE_CLOSE: 6},
        confidence=_MEDIUM,
        holds=same_id_came_back,
    ),
    Rule(
        name="the same id is listed again",
        source=_TOPIC,
        condition="KIP-848: the same member id is gone and there again, so its process lived on",
        weights={_C.EXPIRE_HEARTBEAT: 5, _C.POLL_TIMEOUT: 4, _C.JOIN_TIMEOUT: 3, _C.SUBSCRIPTION: 0.5},
        confidence=_MEDIUM,
        holds=same_id_is_listed_again,
    ),
    Rule(
        name="it had not revoked its partitions",
        source=_TOPIC,
        condition="KIP-848: its last record says that it had to revoke partitions and had not done so",
        weights={_C.JOIN_TIMEOUT: 20, _C.POLL_TIMEOUT: 1, _C.EXPIRE_HEARTBEAT: 1, _C.LEAVE_CLOSE: 1, _C.RESTART_DYNAMIC: 1},
        confidence=_MEDIUM,
        holds=had_not_revoked,
    ),
    Rule(
        name="came back on its connection",
        source=_EVENTS,
        condition="it left and joined again from the same port, so its process went on: too slow, or it subscribed again",
        weights={_C.POLL_TIMEOUT: 12, _C.SUBSCRIPTION: 1, _C.LEAVE_CLOSE: 6, _C.ADMIN: 6},
        confidence=_HIGH,
        holds=same_connection,
    ),
    Rule(
        name="came back on another connection",
        source=_EVENTS,
        condition="it left, and joined again from another port: most likely another process",
        weights={_C.RESTART_DYNAMIC: 30, _C.POLL_TIMEOUT: 1, _C.LEAVE_CLOSE: 1, _C.ADMIN: 6, _C.SUBSCRIPTION: 0.3, _C.ASSIGNOR_CHANGE: 10},
        confidence=_HIGH,
        holds=other_connection,
    ),
    Rule(
        name="left on its own connection",
        source=_EVENTS,
        condition="its LeaveGroup came from the port of its JoinGroup: no administrator sent it",
        weights={**dict.fromkeys(ANY_CAUSE, 1.0), _C.ADMIN: 0.02},
        confidence=_HIGH,
        holds=left_by_itself,
    ),
    Rule(
        name="removed from another connection",
        source=_EVENTS,
        condition="its LeaveGroup came from another port than its JoinGroup: an administrator sent it",
        weights={_C.ADMIN: 300, _C.LEAVE_CLOSE: 1, _C.RESTART_DYNAMIC: 1, _C.POLL_TIMEOUT: 1},
        confidence=_HIGH,
        holds=left_by_other,
    ),
    Rule(
        name="silent, and back on its connection",
        source=_EVENTS,
        condition="its session expired, and it joined again from the same port: its process was not started again",
        weights={_C.EXPIRE_HEARTBEAT: 1, _C.POLL_TIMEOUT: 1, _C.RESTART_DYNAMIC: 0.02},
        confidence=_HIGH,
        holds=expired_and_kept_its_connection,
    ),
    Rule(
        name="silent, and back on another connection",
        source=_EVENTS,
        condition="its session expired, and its client joined again from another port: killed and started again, or its network was lost",
        weights={_C.EXPIRE_HEARTBEAT: 3, _C.POLL_TIMEOUT: 0.5, _C.RESTART_DYNAMIC: 2},
        confidence=_MEDIUM,
        holds=expired_and_came_from_elsewhere,
    ),
    Rule(
        name="its successor was there first",
        source=_LOG,
        condition="a member with the same client id joined before this one was removed: a process that was killed and started again",
        weights={_C.RESTART_DYNAMIC: 200, _C.EXPIRE_HEARTBEAT: 1, _C.JOIN_TIMEOUT: 1},
        confidence=_HIGH,
        holds=was_replaced,
    ),
    Rule(
        name="another member had come",
        source=_LOG,
        condition="KIP-848: up to a minute before, a member joined of which only another random id is known, as after a kill and a restart",
        weights={_C.EXPIRE_HEARTBEAT: 1, _C.POLL_TIMEOUT: 1, _C.LEAVE_CLOSE: 1, _C.JOIN_TIMEOUT: 1, _C.RESTART_DYNAMIC: 100},
        confidence=_LOW,
        holds=may_be_replaced,
    ),
    Rule(
        name="its log has no poll timeout",
        source=_CLIENT,
        condition="its log covers the time, and lacks the line that its library writes when a poll comes too late",
        weights={**dict.fromkeys(ANY_CAUSE, 1.0), _C.POLL_TIMEOUT: 0.03},
        confidence=_LOW,
        holds=log_has_no_poll_timeout,
    ),
    Rule(
        name="its log does not say that it leaves",
        source=_CLIENT,
        condition="a LeaveGroup came, and its log, which covers the time, lacks the line of a leave: another program sent it",
        weights={**dict.fromkeys(ANY_CAUSE, 1.0), **dict.fromkeys(LEAVES, 0.01), _C.ADMIN: 2.0},
        confidence=_MEDIUM,
        holds=log_has_no_leave,
    ),
    Rule(
        name="it did not leave",
        source=_CLIENT,
        condition="it is not listed any more, and its log, which covers the time, lacks the line of a leave",
        weights={**dict.fromkeys(ANY_CAUSE, 1.0), _C.LEAVE_CLOSE: 0.02, _C.RESTART_DYNAMIC: 0.3, _C.POLL_TIMEOUT: 0.3},
        confidence=_LOW,
        holds=log_has_no_leave_and_list_no_reason,
    ),
    Rule(
        name="the assignor changed with it",
        source=_LOG,
        condition="the assignment before and after are of different assignors",
        weights={_C.ASSIGNOR_CHANGE: 1000, _C.RESTART_DYNAMIC: 1, _C.LEAVE_CLOSE: 0.2, _C.EXPIRE_HEARTBEAT: 100, _C.POLL_TIMEOUT: 100},
        confidence=_MEDIUM,
        holds=protocol_changed,
    ),
)
"""Those of broker logs hold for group events as well."""
