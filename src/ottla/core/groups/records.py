"""Records of the offsets topic, typed, and their bytes (kafka-groups section 9.1, S2.1): what a coordinator writes and replays."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetValue:
    """A committed offset. `expire_timestamp_ms` is None unless the commit asked for its own expiry (value version 1)."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int | None = None
    topic_id: bytes = bytes(16)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRecord:
    """Key type 1: one group's offset in one partition; `value` None is the tombstone."""

    group_id: str
    topic: str
    partition: int
    value: OffsetValue | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberValue:
    """One member inside a group record."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadataValue:
    """The registration of a classic group at one generation."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    current_state_timestamp_ms: int
    members: tuple[MemberValue, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadataRecord:
    """Key type 2: a classic group; `value` None is the tombstone."""

    group_id: str
    value: GroupMetadataValue | None


GroupRecord = OffsetRecord | GroupMetadataRecord
