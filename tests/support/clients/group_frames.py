"""The requests of a consumer group's member as whole frames of bytes, and the few fields of the responses that a member must know.

Written for a driver that must cost less than the broker it drives: one version of each API (those of the Java client of Kafka 4.3), every
text shorter than 127 bytes, every request with correlation id 0, so that equal requests have equal responses. It decides nothing about
members, and it is no codec: ottla.testing.raw_client speaks every version.
"""

import struct
from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import NamedTuple

from ottla.protocol.wire.api_keys import ApiKey
from ottla.protocol.wire.primitives import encode_uvarint, uvarint

JOIN_GROUP_VERSION = 9
SYNC_GROUP_VERSION = 5
HEARTBEAT_VERSION = 4
OFFSET_COMMIT_VERSION = 9
CONSUMER_HEARTBEAT_VERSION = 1
CLIENT_ID = b"driver"
ALTER_CONFIGS_VERSION = 1
CONFIG_ERROR_AT = 4 + 4 + 1 + 4 + 1
"""Where the error of its one resource is in the answer: after size, correlation id, tags, throttle time and the number of resources."""
GROUP_RESOURCE, SET, NOT_ONLY_VALIDATED = 32, b"\0", b"\0"
REBALANCE_TIMEOUT_MS = 300_000

_SIZE_AND_HEADER = struct.Struct(">ihhih")  # size, API, version, correlation id, size of the client id
_ERROR = struct.Struct(">h")
_ERROR_AT = 4 + 1 + 4  # correlation id, tags, throttle time
_GENERATION = struct.Struct(">i")
_OFFSET = struct.Struct(">iqi")  # partition, offset, leader epoch
_NO_TAGS = b"\0"
_NULL = b"\0"


class Joined(NamedTuple):
    """What a member reads of the response to JoinGroup; `members` are the ids of a leader's group, each with its size before it."""

    error: int
    generation: int
    member_id: bytes
    members: Sequence[bytes]


def compact(text: bytes) -> bytes:
    """A compact string (or bytes) whose size fits one byte."""
    assert len(text) < 127, text
    return bytes((len(text) + 1,)) + text


def frame(api_key: int, version: int, body: bytes) -> bytes:
    """A whole request of a flexible version: size, header, body."""
    size = 8 + 2 + len(CLIENT_ID) + len(_NO_TAGS) + len(body)
    return _SIZE_AND_HEADER.pack(size, api_key, version, 0, len(CLIENT_ID)) + CLIENT_ID + _NO_TAGS + body


def join_frame(group: bytes, member_id: bytes, metadata: bytes, session_timeout_ms: int, protocol_type: bytes = b"consumer") -> bytes:
    """JoinGroup with the one protocol "range"; no member id (b"") asks for one."""
    protocols = b"\2" + compact(b"range") + compact(metadata) + _NO_TAGS
    timeouts = struct.pack(">ii", session_timeout_ms, REBALANCE_TIMEOUT_MS)
    member = compact(member_id) + _NULL + compact(protocol_type)
    return frame(ApiKey.JOIN_GROUP, JOIN_GROUP_VERSION, compact(group) + timeouts + member + protocols + _NULL + _NO_TAGS)


def sync_frame(group: bytes, generation: int, member_id: bytes, members: Sequence[bytes] = (), assignment: bytes = b"") -> bytes:
    """SyncGroup; a leader gives each of `members` (as in Joined) the same assignment."""
    given = compact(assignment) + _NO_TAGS
    plan = encode_uvarint(len(members) + 1) + (given.join(members) + given if members else b"")
    head = compact(group) + _GENERATION.pack(generation) + compact(member_id)
    return frame(ApiKey.SYNC_GROUP, SYNC_GROUP_VERSION, head + _NULL + compact(b"consumer") + compact(b"range") + plan + _NO_TAGS)


def heartbeat_frame(group: bytes, generation: int, member_id: bytes) -> bytes:
    """Heartbeat."""
    body = compact(group) + _GENERATION.pack(generation) + compact(member_id) + _NULL + _NO_TAGS
    return frame(ApiKey.HEARTBEAT, HEARTBEAT_VERSION, body)


def commit_frame(
    group: bytes,
    generation: int,
    member_id: bytes,
    topic: bytes,
    partitions: Sequence[int],
    offset: int,
    metadata: Sequence[bytes] = (b"",),
) -> bytes:
    """OffsetCommit of the same offset for several partitions of one topic; `metadata` is used in a cycle."""
    texts = cycle(map(compact, metadata))
    each = b"".join(_OFFSET.pack(partition, offset, -1) + text + _NO_TAGS for partition, text in zip(partitions, texts))
    topics = b"\2" + compact(topic) + encode_uvarint(len(partitions) + 1) + each + _NO_TAGS
    head = compact(group) + _GENERATION.pack(generation) + compact(member_id) + _NULL
    return frame(ApiKey.OFFSET_COMMIT, OFFSET_COMMIT_VERSION, head + topics + _NO_TAGS)


def error_of(response: bytes) -> int:
    """The error code of a response (without its size) to SyncGroup, Heartbeat or JoinGroup."""
    code: int = _ERROR.unpack_from(response, _ERROR_AT)[0]
    return code


def read_joined(response: bytes) -> Joined:
    """A response to JoinGroup, without its size. The members of one group have ids and metadata of equal sizes."""
    error = error_of(response)
    (generation,) = _GENERATION.unpack_from(response, _ERROR_AT + 2)
    at = _ERROR_AT + 2 + 4
    for _ in range(3):  # protocol type, protocol name, leader
        at += max(response[at], 1)
    at += 1  # skip_assignment
    member_id_bytes = response[at]
    member_id = response[at + 1 : at + member_id_bytes]
    at += member_id_bytes
    count, at = uvarint(response, at)
    if count <= 1:
        return Joined(error, generation, member_id, ())
    id_bytes = response[at]  # its own size byte included
    entry_bytes = (len(response) - 1 - at) // (count - 1)
    return Joined(error, generation, member_id, [response[start : start + id_bytes] for start in range(at, len(response) - 1, entry_bytes)])


class Beaten(NamedTuple):
    """What a member reads of the response to ConsumerGroupHeartbeat; `assigned` is None where the response has no assignment."""

    error: int
    epoch: int
    interval_ms: int
    assigned: frozenset[tuple[bytes, int]] | None


def group_config_frame(group: bytes, name: bytes, value: bytes) -> bytes:
    """IncrementalAlterConfigs that sets one config of a group."""
    config = b"\2" + compact(name) + SET + compact(value) + _NO_TAGS
    resource = b"\2" + bytes((GROUP_RESOURCE,)) + compact(group) + config + _NO_TAGS
    return frame(ApiKey.INCREMENTAL_ALTER_CONFIGS, ALTER_CONFIGS_VERSION, resource + NOT_ONLY_VALIDATED + _NO_TAGS)


def consumer_heartbeat_frame(
    group: bytes,
    member_id: bytes,
    epoch: int,
    topics: Sequence[bytes] | None = None,
    owned: Mapping[bytes, Sequence[int]] | None = None,
) -> bytes:
    """ConsumerGroupHeartbeat, with the rebalance timeout where it names topics. `owned`: partitions by the topic's id."""
    timeout_ms = -1 if topics is None else REBALANCE_TIMEOUT_MS
    names = _NULL if topics is None else encode_uvarint(len(topics) + 1) + b"".join(map(compact, topics))
    partitions = _NULL
    if owned is not None:
        each = b"".join(
            topic_id + encode_uvarint(len(numbers) + 1) + struct.pack(f">{len(numbers)}i", *numbers) + _NO_TAGS
            for topic_id, numbers in owned.items()
        )
        partitions = encode_uvarint(len(owned) + 1) + each
    head = compact(group) + compact(member_id) + _GENERATION.pack(epoch) + _NULL + _NULL + _GENERATION.pack(timeout_ms)
    return frame(ApiKey.CONSUMER_GROUP_HEARTBEAT, CONSUMER_HEARTBEAT_VERSION, head + names + _NULL + _NULL + partitions + _NO_TAGS)


def read_beaten(response: bytes) -> Beaten:
    """A response to ConsumerGroupHeartbeat, without its size."""
    error = error_of(response)
    at = _ERROR_AT + 2
    for _ in range(2):  # error message, member id
        at += max(response[at], 1)
    epoch, interval_ms, has_assignment = struct.unpack_from(">iib", response, at)
    at += 9
    if has_assignment < 0:
        return Beaten(error, epoch, interval_ms, None)
    assigned: list[tuple[bytes, int]] = []
    topics, at = uvarint(response, at)
    for _ in range(topics - 1):
        topic_id = response[at : at + 16]
        count, at = uvarint(response, at + 16)
        assigned += [(topic_id, number) for number in struct.unpack_from(f">{count - 1}i", response, at)]
        at += 4 * (count - 1) + 1
    return Beaten(error, epoch, interval_ms, frozenset(assigned))
