"""What Kafka's Raft layer writes into the catalogue's log and beside it: who may vote, and snapshots (KIP-595, KIP-630, KIP-853).

It reads who the voters are, names snapshots, and makes the first snapshot of a new directory, by which Apache Kafka knows that this node
alone is the quorum. It holds no elections: this node is the only voter, or the directory is not served.
"""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from ottla.core.errors import PeerError
from ottla.core.model import Record
from ottla.core.records.batch import encode_batch
from ottla.core.records.control import CONTROL_KEY, ControlType, control_type
from ottla.core.wire import Reader, Writer

BOOTSTRAP_SNAPSHOT: Final = "bootstrap.checkpoint"
SNAPSHOT_SUFFIX: Final = ".checkpoint"
_SNAPSHOT_NAME: Final = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint")

# Where Apache Kafka's own example configuration puts the controller. The node that reads it corrects it when it becomes leader.
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
    kind, read = control_type(record.key), Reader(record.value or b"")
    if kind == ControlType.LEADER_CHANGE:
        version, _ = read.int16(), read.int32()
        return frozenset(_voter(read, version) for _ in range(read.count(5, compact=True)))
    if kind == ControlType.KRAFT_VOTERS:
        read.int16()
        return frozenset(_full_voter(read) for _ in range(read.count(23, compact=True)))
    return None


def _voter(read: Reader, version: int) -> int:
    voter = read.int32()
    read.skip(16 if version >= 1 else 0)  # the id of its data directory
    read.tagged_fields()
    return voter


def _full_voter(read: Reader) -> int:
    voter = read.int32()
    read.skip(16)  # the id of its data directory
    for _ in range(read.count(5, compact=True)):
        read.compact_string(), read.compact_string()  # the listener and its host
        read.skip(2)
        read.tagged_fields()
    read.skip(4)  # the versions of kraft.version that it can
    read.tagged_fields()
    read.tagged_fields()
    return voter


def first_snapshot(node_id: int, directory_id: bytes, now_ms: int) -> bytes:
    """The snapshot at offset 0 that `kafka-storage format --standalone` makes: this node is the only voter, and nothing else is known."""
    name, host, port = _CONTROLLER
    voter = Writer().int32(node_id).raw(directory_id).uvarint(2).compact_string(name).compact_string(host).raw(port.to_bytes(2)).uvarint(0)
    voter.int16(0).int16(_KRAFT_VERSION_MAX).uvarint(0).uvarint(0)
    head = [
        _control(0, ControlType.SNAPSHOT_HEADER, Writer().int16(0).int64(now_ms).uvarint(0), now_ms),
        _control(1, ControlType.KRAFT_VERSION, Writer().int16(0).int16(_KRAFT_VERSION_MAX).uvarint(0), now_ms),
        _control(2, ControlType.KRAFT_VOTERS, Writer().int16(0).uvarint(2).raw(voter.to_bytes()).uvarint(0), now_ms),
    ]
    foot = [_control(3, ControlType.SNAPSHOT_FOOTER, Writer().int16(0).uvarint(0), now_ms)]
    return bytes(encode_batch(head, is_control=True) + encode_batch(foot, base_offset=3, is_control=True))


def _control(offset: int, kind: ControlType, value: Writer, now_ms: int) -> Record:
    return Record(offset, now_ms, CONTROL_KEY.pack(0, kind), value.to_bytes())


def is_finished(records: Sequence[Record]) -> bool:
    """Whether the last record of a snapshot is its footer: one without it was not written to its end."""
    try:
        return bool(records) and control_type(records[-1].key) == ControlType.SNAPSHOT_FOOTER
    except PeerError:
        return False
