"""What can be true of a member that went: the conditions of the rules."""

import re
from typing import Final

from ottla.history.rounds.changes import Role
from ottla.history.rounds.round import Departure
from ottla.history.sources.cause_codes import Cause

COMMITS_ON_CLOSE_MS: Final = 2_000
"""A client that commits when it closes does so at most this long before the group has another assignment."""


SLACK_MS: Final = 2_500
"""How much later than its timeout a loss is seen: a heartbeat interval, and the time that others need to join."""


LEAVE_REASONS: Final = re.compile(
    r"the consumer is being closed|unsubscribed from all topics|poll timeout has expired|removed by an admin|pro-actively leaving"
)
"""The reasons that Java's clients give when they leave (KIP-800)."""


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
    return departure.role == Role.EXPIRED and not departure.is_consumer_type


def expired_in_consumer_group(departure: Departure) -> bool:
    return departure.role == Role.EXPIRED and departure.is_consumer_type


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
    return departure.is_left_by_other and departure.role == Role.LEFT


def expired_and_kept_its_connection(departure: Departure) -> bool:
    return departure.is_same_connection is True and departure.role == Role.EXPIRED


def expired_and_came_from_elsewhere(departure: Departure) -> bool:
    return departure.is_same_connection is False and departure.role == Role.EXPIRED


def was_replaced(departure: Departure) -> bool:
    return departure.is_replaced_before


def may_be_replaced(departure: Departure) -> bool:
    return departure.may_be_replaced and departure.returned is None


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
