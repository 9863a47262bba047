"""Evidence: one thing that one source says of a group, with its own clock, and the causes of rebalances that it may name.

A trigger says what the coordinator saw (docs/rebalances.md); a cause says why it happened, which may take several sources. Tables, tests,
docs and views read these causes.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, NamedTuple

from ottla.groups.events import EventMember
from ottla.protocol.model import TopicPartition


class Source(StrEnum):
    """Where evidence comes from, the most informative first."""

    GROUP_EVENTS = "group-events"
    BROKER_LOG = "broker-log"
    CLIENT_LOG = "client-log"
    OFFSETS_TOPIC = "offsets-topic"
    ADMIN = "admin"


class Kind(StrEnum):
    """What happened. `generation` is the group's generation (classic) or group epoch (KIP-848), as each line says."""

    TRIGGER = "trigger"
    """Something asked for a rebalance; `generation` is the one before it. `coalesced`: one had already begun."""
    MEMBER_JOINED = "member-joined"
    MEMBER_LEFT = "member-left"
    """The member (or an administrator) sent LeaveGroup, or a KIP-848 heartbeat with epoch -1."""
    MEMBER_REMOVED = "member-removed"
    """The coordinator removed the member: `trigger` says why (EXPIRE_HEARTBEAT, JOIN_TIMEOUT, SYNC_TIMEOUT)."""
    JOIN_COMPLETED = "join-completed"
    """A generation was formed; `generation` is the new one. On KIP-848: the group epoch was increased to it."""
    SYNC_COMPLETED = "sync-completed"
    """The assignment of `generation` is stored. On KIP-848: the target assignment was computed. `members` have assignments."""
    EMPTIED = "emptied"
    """The last member is gone; `generation` is the new one."""
    STATIC_REPLACED = "static-replaced"
    """A static member came back with a new member id, without a rebalance."""
    STATIC_FENCED = "static-fenced"
    """Another process used the instance id of a member."""
    JOIN_REFUSED = "join-refused"
    """A member may not join: no assignor in common, or its instance id belongs to a member that has not left."""
    LOADED = "loaded"
    UNLOADED = "unloaded"
    """A coordinator read the group from its log, or gave it up."""
    CONVERTED = "converted"
    """The group changed between classic and KIP-848; `group_type` is the new one."""
    TOPICS_CHANGED = "topics-changed"
    """The subscribed topics or their partitions changed (metadata hash, regular expressions)."""
    COMMITS = "commits"
    """Offsets were committed: `commits` has what came since the COMMITS before."""
    DELETED = "deleted"
    MEMBER_RECONCILED = "member-reconciled"
    """A KIP-848 member has the assignment of target `generation` (`reconciliation_ms` since it was computed), or has given up the
    partitions that it had to (`revocation_ms` since it was asked to)."""
    OBSERVED = "observed"
    """What a first look shows: the members of a group, whatever happened before."""
    CLIENT_JOINED = "client-joined"
    """A client says that it has joined or synced `generation`."""
    CLIENT_REJOINS = "client-rejoins"
    """A client says that it joins again; `trigger` or `candidates` say why, `client_reason` in its words."""
    CLIENT_LEAVES = "client-leaves"
    CLIENT_LOST = "client-lost"
    """A client says that it lost its membership: poll interval exceeded, session timed out, unknown member, fenced."""


class CommitSpan(NamedTuple):
    """Commits of one partition: the times and offsets of the first and the last, and how many."""

    first_ms: int
    last_ms: int
    first_offset: int
    last_offset: int
    commit_count: int


class SourceError(Exception):
    """A source that cannot be used; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One thing that one source says.

    clock: whose clock `at_ms` is of, e.g. a broker's log file, a client's log file; equal names are one clock. group: None where the source
    does not name it (lines of some clients): it is found by the member id or the client id. trigger: the cause code where the source has
    one; candidates: the codes that it cannot distinguish. trigger_code: the code of the event that an Ottla broker published
    (docs/rebalances.md). reason: the text as logged. member_count: members of the generation, where only their number is known. evidence:
    figures, units in the names. library: whose client wrote it, in a line of its joining.
    """

    at_ms: int
    source: Source
    clock: str
    kind: Kind
    group: str | None = None
    generation: int | None = None
    trigger: str | None = None
    candidates: tuple[str, ...] = ()
    trigger_code: str | None = None
    coalesced: bool = False
    reason: str | None = None
    member_id: str | None = None
    instance_id: str | None = None
    client_id: str | None = None
    client_host: str | None = None
    client_reason: str | None = None
    group_type: str | None = None
    protocol: str | None = None
    library: str | None = None
    leader: str | None = None
    member_count: int | None = None
    members: tuple[EventMember, ...] | None = None
    topics: frozenset[str] | None = None
    commits: Mapping[TopicPartition, CommitSpan] = field(default_factory=dict)
    evidence: Mapping[str, int] = field(default_factory=dict)


def about_member(evidence: Evidence, member: EventMember) -> Evidence:
    """The same evidence with the fields that name this member."""
    return replace(
        evidence,
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id or None,
        client_host=member.client_host or None,
    )


_SUFFIX: Final = re.compile(r"-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$")
"""A classic coordinator makes member ids of the client id or the instance id and a UUID."""


def name_in_member_id(member_id: str | None) -> str | None:
    """The client id or instance id that a classic member id begins with; None for the ids of KIP-848 members."""
    if not member_id:
        return None
    name = _SUFFIX.sub("", member_id)
    return name if name and name != member_id else None


class Cause(StrEnum):
    """Why a group rebalanced, or why it did not have to (STATIC_REJOIN)."""

    COLD_START = "COLD_START"
    """The first members of an empty group joined."""
    JOIN_NEW = "JOIN_NEW"
    """A new member joined: the group was scaled out."""
    LEAVE_CLOSE = "LEAVE_CLOSE"
    """A member closed, or unsubscribed, and did not come back."""
    RESTART_DYNAMIC = "RESTART_DYNAMIC"
    """A member without an instance id left or was stopped, and came back: both the leave and the join."""
    EXPIRE_HEARTBEAT = "EXPIRE_HEARTBEAT"
    """No heartbeat came within session.timeout.ms (class 1)."""
    POLL_TIMEOUT = "POLL_TIMEOUT"
    """The consumer did not poll within max.poll.interval.ms (class 2)."""
    JOIN_TIMEOUT = "JOIN_TIMEOUT"
    """A member did not rejoin, or did not revoke its partitions, within the rebalance timeout."""
    SYNC_TIMEOUT = "SYNC_TIMEOUT"
    """A member joined and did not send SyncGroup."""
    TOPIC_CHANGE = "TOPIC_CHANGE"
    """A subscribed topic was created or deleted, or got partitions."""
    SUBSCRIPTION = "SUBSCRIPTION"
    """A member subscribed to other topics."""
    ASSIGNOR_CHANGE = "ASSIGNOR_CHANGE"
    """The members use another assignor now."""
    COOP_FOLLOWUP = "COOP_FOLLOWUP"
    """The second half of a cooperative rebalance; part of the rebalance before it."""
    LEADER_REJOIN_SPURIOUS = "LEADER_REJOIN_SPURIOUS"
    """A member rejoined and nothing had changed."""
    ADMIN = "ADMIN"
    """An administrator removed members."""
    ENFORCED = "ENFORCED"
    """The application asked for the rebalance (enforceRebalance)."""
    CAPACITY = "CAPACITY"
    """The group was larger than group.max.size."""
    STORE_ERROR = "STORE_ERROR"
    """The coordinator could not store the assignment."""
    MIGRATION = "MIGRATION"
    """The group was converted between the classic protocol and KIP-848."""
    COORDINATOR_MOVE = "COORDINATOR_MOVE"
    """The group has another coordinator, or its coordinator stopped or stood still: members are lost or rejoin then."""
    STATIC_REJOIN = "STATIC_REJOIN"
    """A static member restarted: no rebalance, unless it came back during one."""
    STATIC_FENCED = "STATIC_FENCED"
    """A second process used the instance id of a live member."""
    FAILED_JOIN = "FAILED_JOIN"
    """A member was refused and could not join: it shares no assignor with the group, or its killed predecessor had not left."""
    UNKNOWN = "UNKNOWN"
    """The evidence does not say."""
