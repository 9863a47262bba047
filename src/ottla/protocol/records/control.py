"""Control records, and what they decide: all their fields, and which records belong to transactions that committed.

A dump shows all fields; the log itself reads how a producer's transaction ended. An unknown type is named by its number; damaged bytes
raise PeerError. Source: KIP-98, KIP-595, KIP-630, KIP-853.

`CommittedRecords` is for logs that are read without a broker's help: as fetched at isolation level read_uncommitted, or from files.
Records of a transaction count when it commits, those of an aborted one never, control records not at all.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from typing import Annotated, Any, Final, NamedTuple

from ottla.protocol.errors import PeerError
from ottla.protocol.model import Record
from ottla.protocol.record_codec import NO_ID, Int16, Int32, Int64, JsonValue, Schema, UInt16, Uuid, Wire, record_class
from ottla.protocol.records.batch import BatchHeader, encode_batch, iter_batch
from ottla.protocol.wire.primitives import Reader

# The key: its own version, then the type.
CONTROL_KEY: Final = Struct(">hh")

PENDING_RECORDS_MAX: Final = 1_000_000
"""Records of open transactions that are kept until their marker comes; of more, the oldest transactions are dropped and counted."""


class ControlType(IntEnum):
    """The second number of a control record's key; the names are Kafka's."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


def control_type(key: bytes | None) -> int:
    """The type that a control record's key names: a ControlType, or a number that is not known here. Raises PeerError."""
    if key is None or len(key) < CONTROL_KEY.size:
        raise PeerError("a control record names no type")
    return int(CONTROL_KEY.unpack_from(key)[1])


# Each value begins with its own version, which is also the version of its fields; that of the transaction markers is no field.


@record_class
class TransactionMarker:
    """The end of a producer's transaction."""

    version: Int16
    coordinator_epoch: Int32


@record_class
class Voter:
    """A voter of a leader's election."""

    voter_id: Int32
    voter_directory_id: Annotated[Uuid, Wire(since=1)] = NO_ID


@record_class
class LeaderChange:
    """A new leader of the metadata log, and who voted for it."""

    version: Int16
    leader_id: Int32
    voters: tuple[Voter, ...]
    granting_voters: tuple[Voter, ...]


@record_class
class SnapshotHeader:
    """The begin of a snapshot of the metadata log."""

    version: Int16
    last_contained_log_timestamp: Int64


@record_class
class SnapshotFooter:
    """The end of a snapshot."""

    version: Int16


@record_class
class KRaftVersion:
    """The version of the protocol among the voters."""

    version: Int16
    kraft_version: Annotated[Int16, Wire(name="kRaftVersion")]


@record_class
class VoterEndpoint:
    """Where a voter listens."""

    name: str
    host: str
    port: UInt16


@record_class
class KRaftVersionFeature:
    """The versions that a voter supports."""

    min_supported_version: Int16
    max_supported_version: Int16


@record_class
class KRaftVoter:
    """A voter of the metadata log."""

    voter_id: Int32
    voter_directory_id: Uuid
    endpoints: tuple[VoterEndpoint, ...]
    kraft_version_feature: Annotated[KRaftVersionFeature, Wire(name="kRaftVersionFeature")]


@record_class
class KRaftVoters:
    """The voters of the metadata log."""

    version: Int16
    voters: tuple[KRaftVoter, ...]


_SCHEMAS: Final[dict[int, Schema[Any]]] = {
    ControlType.ABORT: Schema(TransactionMarker),
    ControlType.COMMIT: Schema(TransactionMarker),
    ControlType.LEADER_CHANGE: Schema(LeaderChange, version_max=1, flexible_since=0),
    ControlType.SNAPSHOT_HEADER: Schema(SnapshotHeader, flexible_since=0),
    ControlType.SNAPSHOT_FOOTER: Schema(SnapshotFooter, flexible_since=0),
    ControlType.KRAFT_VERSION: Schema(KRaftVersion, flexible_since=0),
    ControlType.KRAFT_VOTERS: Schema(KRaftVoters, flexible_since=0),
}


@dataclass(frozen=True, slots=True)
class ControlRecord:
    """`name` is Kafka's (ABORT, COMMIT, LEADER_CHANGE ...), UNKNOWN for a number without one; `data` is empty then."""

    control_type: int
    name: str
    data: dict[str, JsonValue]


def decode_control(key: bytes | None, value: bytes | None) -> ControlRecord:
    """The control record with this key and value; PeerError when the bytes are none."""
    number = control_type(key)
    if value is None:
        raise PeerError("a control record without a value")
    if number not in _SCHEMAS:
        return ControlRecord(number, "UNKNOWN", {})
    version = Reader(value).int16()
    if version < 0:
        raise PeerError(f"a control record of version {version}")
    schema = _SCHEMAS[number]
    return ControlRecord(number, ControlType(number).name, schema.to_json(schema.decode(Reader(value), version), version))


_VALUE: Final = Struct(">hi")


class EndMarker(NamedTuple):
    """How a producer's transaction ended, and the epoch of the coordinator that ended it."""

    type: ControlType
    coordinator_epoch: int


def decode_end_marker(record: Record) -> EndMarker | None:
    """The marker in a control record; None for another kind of control record. Raises PeerError on bytes that are neither."""
    kind = control_type(record.key)
    if kind not in (ControlType.ABORT, ControlType.COMMIT):
        return None
    if record.value is None or len(record.value) < _VALUE.size:
        raise PeerError(f"the transaction marker at offset {record.offset} names no coordinator epoch")
    return EndMarker(ControlType(kind), _VALUE.unpack_from(record.value)[1])


def encode_end_marker(marker: EndMarker, *, producer_id: int, producer_epoch: int, timestamp_ms: int) -> bytearray:
    """A batch with nothing but the end of a producer's transaction, as Kafka's coordinator writes it: 78 bytes."""
    record = Record(0, timestamp_ms, CONTROL_KEY.pack(0, marker.type), _VALUE.pack(0, marker.coordinator_epoch))
    return encode_batch([record], producer_id=producer_id, producer_epoch=producer_epoch, is_transactional=True, is_control=True)


class CommittedRecords:
    """Reads one partition. A record of a transaction is given at the transaction's marker, so offsets may go back there.

    `damaged_batches`: checksum or contents are wrong; records before the damage count. `aborted_records`: of aborted transactions.
    `dropped_records`: of transactions that were too large. `pending_records`: of transactions without a marker yet.
    """

    def __init__(self, *, pending_max: int = PENDING_RECORDS_MAX) -> None:
        self.damaged_batches = 0
        self.aborted_records = 0
        self.dropped_records = 0
        self.pending_records = 0
        self._pending_max = pending_max
        self._pending: dict[int, list[Record]] = {}

    def read(self, batch: bytes | memoryview, header: BatchHeader) -> Iterator[Record]:
        """The records that count from this batch on; `batch` is whole, and its checksum is verified here."""
        try:
            if header.is_control:
                yield from self._end_transaction(batch, header)
            elif header.is_transactional:
                self._keep(iter_batch(batch), header.producer_id)
            else:
                yield from iter_batch(batch)
        except PeerError:
            self.damaged_batches += 1

    def _keep(self, records: Iterator[Record], producer_id: int) -> None:
        pending = self._pending.setdefault(producer_id, [])
        for record in records:
            pending.append(record)
            self.pending_records += 1
        while self.pending_records > self._pending_max:
            oldest = self._pending.pop(next(iter(self._pending)))
            self.pending_records -= len(oldest)
            self.dropped_records += len(oldest)

    def _end_transaction(self, batch: bytes | memoryview, header: BatchHeader) -> Iterator[Record]:
        for control in iter_batch(batch):
            marker = decode_end_marker(control)
            if marker is None:
                continue
            ended = self._pending.pop(header.producer_id, [])
            self.pending_records -= len(ended)
            if marker.type is ControlType.COMMIT:
                yield from ended
            else:
                self.aborted_records += len(ended)
