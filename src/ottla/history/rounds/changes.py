"""Who came and who went in a round, as sources say it in so many words: one entry a member, whatever the number of lines about it."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from ottla.history.rounds.identity import Identity, KnownMembers, of_evidence
from ottla.history.rounds.round import Arrival, Departure, Round
from ottla.history.sources.cause_codes import Cause
from ottla.history.sources.model import Evidence, Kind, Source

NO_REASON: Final = "not provided"
"""What a broker logs where the client gave no reason."""


class Role(StrEnum):
    """What a piece of evidence says that a member did, or that was done to it."""

    LISTED = ""
    """It is not listed any more, and the source does not say why."""

    JOINED = "joined"
    LEFT = "left"
    EXPIRED = "expired"
    LATE_TO_JOIN = "late to join"
    LATE_TO_SYNC = "late to sync"
    REMOVED = "removed"
    """Removed, and the source does not say why."""
    REJOINED = "rejoined"
    OTHER = "other"


_TEXTS: Final = (
    ("adding new member", Role.JOINED),
    ("explicit `leavegroup`", Role.LEFT),
    ("leader ", Role.REJOINED),
    ("updating metadata for member", Role.REJOINED),
    ("member ", Role.REJOINED),
)
"""How the coordinator's reasons begin, in lower case."""
_CODES: Final = {
    Cause.JOIN_NEW: Role.JOINED,
    Cause.COLD_START: Role.JOINED,
    Cause.RESTART_DYNAMIC: Role.JOINED,
    "LEAVE": Role.LEFT,
    Cause.LEAVE_CLOSE: Role.LEFT,
    Cause.POLL_TIMEOUT: Role.LEFT,
    "ADMIN_REMOVE": Role.LEFT,
    Cause.ADMIN: Role.LEFT,
    Cause.EXPIRE_HEARTBEAT: Role.EXPIRED,
    Cause.JOIN_TIMEOUT: Role.LATE_TO_JOIN,
    Cause.SYNC_TIMEOUT: Role.LATE_TO_SYNC,
    Cause.TOPIC_CHANGE: Role.REJOINED,
    Cause.SUBSCRIPTION: Role.REJOINED,
    "LEADER_REJOIN": Role.REJOINED,
    "METADATA_UPDATE": Role.REJOINED,
    Cause.COOP_FOLLOWUP: Role.REJOINED,
    Cause.ENFORCED: Role.REJOINED,
    Cause.LEADER_REJOIN_SPURIOUS: Role.REJOINED,
    Cause.COORDINATOR_MOVE: Role.REJOINED,
}
DEPARTS: Final = frozenset({Role.LISTED, Role.LEFT, Role.EXPIRED, Role.LATE_TO_JOIN, Role.LATE_TO_SYNC, Role.REMOVED})


_RANK: Final[Mapping[str, int]] = {
    Role.LISTED: 0,
    Role.REMOVED: 1,
    Role.LEFT: 2,
    Role.EXPIRED: 3,
    Role.LATE_TO_JOIN: 3,
    Role.LATE_TO_SYNC: 3,
}
"""The more a role says, the higher."""


def role_of(item: Evidence) -> Role:
    """What the evidence says that its member did."""
    if item.kind is Kind.MEMBER_JOINED:
        return Role.JOINED
    if item.kind is Kind.MEMBER_LEFT:
        return Role.LISTED if item.source in (Source.OFFSETS_TOPIC, Source.ADMIN) else Role.LEFT
    if item.kind is Kind.MEMBER_REMOVED:
        return _CODES.get(first_code(item), Role.REMOVED)
    if item.kind is not Kind.TRIGGER:
        return Role.OTHER
    text = (item.reason or "").lower()
    if text.startswith("removing member") and "leavegroup" in text:
        return Role.LEFT
    for start, role in _TEXTS:
        if text.startswith(start):
            return role
    return _CODES.get(first_code(item), Role.OTHER)


def first_code(item: Evidence) -> str:
    """The cause that the source names, or the likeliest that it leaves open; "" where it names none."""
    return item.trigger or (item.candidates[0] if item.candidates else "")


def read_changes(each: Round, known: KnownMembers) -> None:
    """Fill in who came and who went, in the order in which the best source says it."""
    gone: dict[str, Departure] = {}
    came: dict[str, Arrival] = {}
    for item in each.items:
        role = role_of(item)
        if role is Role.JOINED:
            _add_arrival(came, item, known)
        elif role in DEPARTS:
            _add_departure(gone, item, role, known)
    named = [departure for departure in gone.values() if departure.who.member_id or departure.who.instance_id]
    each.departures = named or list(gone.values())  # a line that names no member repeats those that name one
    each.arrivals = list(came.values())


def attach_client_items(each: Round, known: KnownMembers) -> None:
    """Give each departure what its client's own log says; a loss that only clients saw is a departure, too."""
    for item in each.client_items:
        if item.kind in (Kind.CLIENT_LEAVES, Kind.CLIENT_LOST):
            who = known.complete(of_evidence(item))
            departure = _matching(each, who)
            if departure is None and not each.departures and not each.parts:
                departure = Departure(who=who, at_ms=item.at_ms, clock=item.clock, role=Role.REMOVED)
                each.departures.append(departure)
            if departure is not None and not _contradicts(item, departure):
                departure.client_items.append(item)


_REMOVED_BY_COORDINATOR: Final = frozenset({Role.EXPIRED, Role.LATE_TO_JOIN, Role.LATE_TO_SYNC})


def _contradicts(item: Evidence, departure: Departure) -> bool:
    """Whether a client's close is of another time: the coordinator removed this member, which had not left.

    A KIP-848 member may close without LeaveGroup, and is removed when its session ends.
    """
    is_close = item.kind is Kind.CLIENT_LEAVES and item.trigger == Cause.LEAVE_CLOSE
    return is_close and departure.role in _REMOVED_BY_COORDINATOR and not departure.is_consumer_type


def add_client_arrivals(each: Round, known: KnownMembers) -> None:
    """Clients that joined, as only their own logs say."""
    for item in each.client_arrivals:
        arrival = Arrival(who=known.complete(of_evidence(item)), at_ms=item.at_ms, clock=item.clock)
        arrival.client_items.append(item)
        each.arrivals.append(arrival)


def _matching(each: Round, who: Identity) -> Departure | None:
    """The departure of this member: by its id, by its name, or the only one of the round if the log names no member."""
    for departure in each.departures:
        if who.member_id is not None and who.member_id == departure.who.member_id:
            return departure
    for departure in each.departures:
        if who.is_same_client(departure.who):
            return departure
    is_nameless = who.member_id is None and who.name is None
    return each.departures[0] if is_nameless and len(each.departures) == 1 else None


def plain_reason(client_reason: str | None) -> str | None:
    """A client's reason; "" for the text that stands for none."""
    return "" if client_reason == NO_REASON else client_reason


def _add_departure(gone: dict[str, Departure], item: Evidence, role: Role, known: KnownMembers) -> None:
    key = item.member_id or item.instance_id or role
    departure = gone.get(key)
    if departure is None:
        who = known.complete(of_evidence(item))
        departure = gone[key] = Departure(who=who, at_ms=item.at_ms, clock=item.clock, role=role)
        departure.is_consumer_type = item.group_type == "consumer"
    elif _RANK[role] > _RANK.get(departure.role, 0):
        departure.role = role
    departure.items.append(item)
    departure.client_reason = departure.client_reason or plain_reason(item.client_reason)
    if item.evidence:
        departure.figures = {**item.evidence, **departure.figures}
        departure.session_timeout_ms = departure.session_timeout_ms or item.evidence.get("session_timeout_ms")
        departure.rebalance_timeout_ms = departure.rebalance_timeout_ms or item.evidence.get("rebalance_timeout_ms")


def _add_arrival(came: dict[str, Arrival], item: Evidence, known: KnownMembers) -> None:
    key = item.member_id or item.instance_id or ""
    arrival = came.get(key)
    if arrival is None:
        arrival = came[key] = Arrival(who=known.complete(of_evidence(item)), at_ms=item.at_ms, clock=item.clock)
    arrival.items.append(item)
    arrival.client_reason = arrival.client_reason or plain_reason(item.client_reason)
