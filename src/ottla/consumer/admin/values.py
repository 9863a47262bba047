"""What an administrator's questions are answered with: groups, members, offsets and topics, as values without behaviour.

Assignments of classic members stay the bytes that they are: their meaning belongs to the members' own protocol.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ottla.core.errors import ErrorCode


class Node(NamedTuple):
    """A broker and where it listens."""

    broker_id: int
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Failure:
    """What was not granted for one group, topic or partition: the broker's code, and its own sentence if it had one."""

    code: ErrorCode
    message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    """A group as ListGroups names it; `kind` is "classic", "consumer", ..., "" where the broker is too old to tell."""

    group_id: str
    protocol_type: str
    state: str
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedMember:
    """A member. A classic one has `assignment_bytes`; one of a KIP-848 group has `assigned`, `target` (topic to partitions) and an epoch.

    `is_upgraded`: whether a member of a KIP-848 group speaks the new protocol; None where that is not told.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment_bytes: bytes = b""
    assigned: Mapping[str, tuple[int, ...]] | None = None
    target: Mapping[str, tuple[int, ...]] | None = None
    epoch: int | None = None
    is_upgraded: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedGroup:
    """A group as its coordinator describes it; the epochs are those of KIP-848 groups, None in classic ones."""

    group_id: str
    kind: str
    protocol_type: str
    state: str
    assignor: str
    coordinator: Node
    members: tuple[DescribedMember, ...]
    group_epoch: int | None = None
    target_epoch: int | None = None


class CommittedOffset(NamedTuple):
    """A committed offset (-1: none) and the leader epoch that was committed with it (-1: none)."""

    offset: int
    leader_epoch: int = -1


class DescribedTopic(NamedTuple):
    """A topic's partitions with the broker ids of their leaders; None while a partition has none."""

    name: str
    leaders: Mapping[int, int | None]
