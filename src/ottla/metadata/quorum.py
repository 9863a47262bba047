"""The records of Kafka's Raft layer in the metadata log and its snapshots: voters, names of snapshots (KIP-595, KIP-630, KIP-853).

The first snapshot of a new directory names this node as the only voter, for Apache Kafka. There are no elections: a directory with other
voters is not served.
"""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from ottla.protocol.errors import PeerError
from ottla.protocol.model import Record
from ottla.protocol.records.batch import encode_batch
from ottla.protocol.records.control import CONTROL_KEY, ControlType, control_type
from ottla.protocol.wire.primitives import Reader, Writer

BOOTSTRAP_SNAPSHOT: Final = "bootstrap.checkpoint"
SNAPSHOT_SUFFIX: Final = ".checkpoint"
_SNAPSHOT_NAME: Final = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint")

# The controller's address in Apache Kafka's example configuration. The node corrects it when it becomes leader.
_CONTROLLER: Final = ("CONTROLLER", "localhost", 9093)
_KRAFT_VERSION_MAX: Final = 1


class SnapshotId(NamedTuple):
    """A snapshot holds all below `end_offset`; `epoch` is the leader epoch of the last record in it."""

    end_offset: int
    epoch: int

    @property
    def file_name(self) -> str:
        """`<end offset>-<epoch>.checkpoint`, with 20 and 10 digits."""
        return f"{self.end_offset:020d}-{self.epoch:010d}{SNAPSHOT_SUFFIX}"


def snapshot_ids(names: Sequence[str]) -> list[SnapshotId]:
    """The snapshots among the file names of a directory, oldest first."""
    found = [_SNAPSHOT_NAME.fullmatch(name) for name in names]
    return sorted(SnapshotId(int(name[1]), int(name[2])) for name in found if name)


def voters_of(record: Record) -> frozenset[int] | None:
    """The voters that a control record names; None when it names none. Raises PeerError."""
    kind, read = control_type(record.key), Reader(record.value or b"", flexible=True)
    if kind == ControlType.LEADER_CHANGE:
        version, _ = read.int16(), read.int32()
        return frozenset(_voter(read, version) for _ in range(read.count(5)))
    if kind == ControlType.KRAFT_VOTERS:
        read.int16()
        return frozenset(_full_voter(read) for _ in range(read.count(23)))
    return None


def _voter(read: Reader, version: int) -> int:
    voter = read.int32()
    read.skip(16 if version >= 1 else 0)  # the id of its data directory
    read.skip_tagged_fields()
    return voter


def _full_voter(read: Reader) -> int:
    voter = read.int32()
    read.skip(16)  # the id of its data directory
    for _ in range(read.count(5)):
        read.string(), read.string()  # the listener and its host
        read.skip(2)
        read.skip_tagged_fields()
    read.skip(4)  # the versions of kraft.version that it supports
    read.skip_tagged_fields()
    read.skip_tagged_fields()
    return voter


def first_snapshot(node_id: int, directory_id: bytes, now_ms: int) -> bytes:
    """The snapshot at offset 0 that `kafka-storage format --standalone` writes: this node is the only voter."""
    name, host, port = _CONTROLLER
    voter = Writer(flexible=True).int32(node_id).raw(directory_id).array(1).string(name).string(host).raw(port.to_bytes(2)).end()
    voter.int16(0).int16(_KRAFT_VERSION_MAX).end().end()
    head = [
        _control(0, ControlType.SNAPSHOT_HEADER, Writer(flexible=True).int16(0).int64(now_ms).end(), now_ms),
        _control(1, ControlType.KRAFT_VERSION, Writer(flexible=True).int16(0).int16(_KRAFT_VERSION_MAX).end(), now_ms),
        _control(2, ControlType.KRAFT_VOTERS, Writer(flexible=True).int16(0).array(1).raw(voter.to_bytes()).end(), now_ms),
    ]
    foot = [_control(3, ControlType.SNAPSHOT_FOOTER, Writer(flexible=True).int16(0).end(), now_ms)]
    return bytes(encode_batch(head, is_control=True) + encode_batch(foot, base_offset=3, is_control=True))


def _control(offset: int, kind: ControlType, value: Writer, now_ms: int) -> Record:
    return Record(offset, now_ms, CONTROL_KEY.pack(0, kind), value.to_bytes())


def is_finished(records: Sequence[Record]) -> bool:
    """Whether the last record of a snapshot is its footer: one without it was not written to its end."""
    try:
        return bool(records) and control_type(records[-1].key) == ControlType.SNAPSHOT_FOOTER
    except PeerError:
        return False
