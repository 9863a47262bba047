"""The log of the cluster metadata, `__cluster_metadata-0`, and `meta.properties`: the ids of cluster, node and data directory.

Records are appended and replayed, at once and at every start. The log has Kafka's format. Records that Apache Kafka's controller wrote are
replayed (the newest snapshot, then the log after it), and new ones are appended in the same leader epoch. No record is ever removed.

`meta.properties` is written as Kafka writes it, at the first start (KIP-631, KIP-858). Directories of other nodes and of clusters with
ZooKeeper are refused. A file that another program wrote is kept, except that a missing directory id is added.
"""

import base64
import binascii
import logging
import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple
from uuid import UUID

from ottla.broker.partitions.offset_checkpoints import OffsetCheckpoints
from ottla.log.checkpoints import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_FILE,
    HIGH_WATERMARK_FILE,
    LOG_START_FILE,
    META_PROPERTIES,
    RECOVERY_POINT_FILE,
)
from ottla.log.file_system import Files
from ottla.log.partition_log import PartitionLog
from ottla.log.settings import LogSettings
from ottla.metadata.adoption import (
    BOOTSTRAP_SNAPSHOT,
    SnapshotId,
    adoption_problem,
    elect_leaders,
    first_records,
    first_snapshot,
    is_finished,
    snapshot_ids,
    voters_of,
)
from ottla.metadata.cluster_metadata import ClusterMetadata, MetadataReplay
from ottla.metadata.records import NOT_ENFORCED, AbortTransaction, MetadataRecord, decode, encode, record_type
from ottla.metadata.topics import CLUSTER_METADATA
from ottla.metadata.topics import METADATA_DIRECTORY as DIRECTORY
from ottla.protocol.errors import PeerError, StorageError
from ottla.protocol.model import Record, TopicPartition
from ottla.protocol.records.batch import BatchHeader, decode_batch, split_batches

_VERSION = "1"
_ID_BYTES = 16
_PARTITION_DIRECTORY = re.compile(r".+-[0-9]+")
_WRITTEN_LATER = frozenset(
    {BOOTSTRAP_SNAPSHOT, RECOVERY_POINT_FILE, LOG_START_FILE, HIGH_WATERMARK_FILE, CLEANER_FILE, CLEAN_SHUTDOWN_FILE}
)
_NAMED_MAX = 3

log = logging.getLogger(__name__)

TOPIC_ID = UUID(int=1)
"""The id of the metadata topic, in every cluster."""
RECORDS_PER_BATCH_MAX = 20_000
"""Kafka's controller reads batches of up to 8 MiB; a record about a partition takes some 100 bytes."""
_NAME = TopicPartition(CLUSTER_METADATA, 0)


class Identity(NamedTuple):
    """The cluster's id as text, and the directory's as 16 bytes. `is_new`: the directory was empty until now."""

    cluster_id: str
    directory_id: bytes
    is_new: bool


def is_partition_directory(name: str) -> bool:
    """Whether a directory is named like a partition's: `<topic>-<number>`."""
    return _PARTITION_DIRECTORY.fullmatch(name) is not None


def identify(files: Files, node_id: int) -> Identity:
    """Read the file, or create it. Raises StorageError, with what to do, for a directory that this node cannot open."""
    if not files.exists(META_PROPERTIES):
        _refuse_data(files)
        made = Identity(_id_text(_new_id()), _new_id(), is_new=True)
        _write(files, made, node_id)
        return made
    values = _parse(files.read_all(META_PROPERTIES))
    version = values.get("version")
    if version == "0" or "broker.id" in values:
        raise StorageError(
            f"{META_PROPERTIES} is of version 0, from a cluster with ZooKeeper: migrate it to KRaft with Apache Kafka 3.9 first"
        )
    if "cluster.id" not in values or version != _VERSION:
        raise StorageError(f"{META_PROPERTIES} names no cluster.id and version=1: this is no Kafka data directory, or the file is damaged")
    if values.get("node.id") != str(node_id):
        owner = values.get("node.id", "(not given)")
        raise StorageError(f"the data directory belongs to node {owner}, but this broker is node {node_id}: set node.id={owner}")
    if "directory.id" not in values:  # before Kafka 3.7 there were none
        found = Identity(values["cluster.id"], _new_id(), is_new=False)
        _write(files, found, node_id)
        return found
    return Identity(values["cluster.id"], _id_bytes(values["directory.id"]), is_new=False)


def _refuse_data(files: Files) -> None:
    """Refuse data without the file. It is the first file to be written, so it was lost, and the owner of the data is unknown."""
    data = [name for name in files.list("") if name in _WRITTEN_LATER or is_partition_directory(name)]
    if data:
        named = ", ".join(data[:_NAMED_MAX]) + (", ..." if len(data) > _NAMED_MAX else "")
        raise StorageError(
            f"{META_PROPERTIES} is missing, but the directory holds data ({named}): restore the file from a copy (its version, node.id,"
            " cluster.id and directory.id must be what they were); for a new cluster, choose an empty directory"
        )


def _write(files: Files, identity: Identity, node_id: int) -> None:
    lines = [
        f"version={_VERSION}",
        f"cluster.id={identity.cluster_id}",
        f"node.id={node_id}",
        f"directory.id={_id_text(identity.directory_id)}",
    ]
    files.replace(META_PROPERTIES, ("\n".join(lines) + "\n").encode())


def _parse(data: bytes) -> dict[str, str]:
    lines = [line.strip() for line in data.decode(errors="replace").splitlines()]
    pairs = [line.split("=", 1) for line in lines if "=" in line and not line.startswith(("#", "!"))]
    return {name.strip(): value.strip() for name, value in pairs}


def _new_id() -> bytes:
    """A random id whose text does not begin with "-", which command lines would take for an option."""
    while True:
        made = uuid.uuid4().bytes
        if not _id_text(made).startswith("-"):
            return made


def _id_text(identity: bytes) -> str:
    return base64.urlsafe_b64encode(identity).rstrip(b"=").decode()


def _id_bytes(text: str) -> bytes:
    try:
        found = base64.urlsafe_b64decode(text + "==")
    except (ValueError, binascii.Error):
        found = b""
    if len(found) != _ID_BYTES:
        raise StorageError(f"{META_PROPERTIES} holds an invalid directory.id: {text}")
    return found


class MetadataLog:
    """Appends, then replays: every change of the cluster metadata is in its log first."""

    def __init__(self, files: Files, cluster_metadata: ClusterMetadata, clock: Callable[[], int], checkpoints: OffsetCheckpoints) -> None:
        self.cluster_metadata = cluster_metadata
        self._checkpoints = checkpoints
        self._files = files
        self._clock = clock
        self._log = PartitionLog(files, DIRECTORY, LogSettings(), topic_id=TOPIC_ID)
        self._voters: frozenset[int] = frozenset()
        self._not_enforced: set[str] = set()

    @property
    def log(self) -> PartitionLog:
        """The log, for reading its state. Only `append` appends records."""
        return self._log

    def open(self, node_id: int, identity: Identity, *, after_crash: bool) -> None:
        """Replay the newest snapshot and the log, and make these brokers the leaders of their partitions. Load the checkpoints before.

        Raises StorageError when a record cannot be read or is missing (a cluster must not lose topics silently), and for a directory that
        this node cannot serve alone; nothing was written then. A last write that a crash cut short is no error: it was not synced, and so
        not acknowledged.
        """
        self.cluster_metadata.directory_id = identity.directory_id
        opened = self._log.open(self._clock(), recovery_point=self._checkpoints.recovery_point(_NAME), refuses_losses=True)
        for loss in opened.losses:
            log.warning("%s", loss.sentence)
        newest = self._newest_snapshot()
        replay = MetadataReplay(self.cluster_metadata)
        for header, records in self._history(newest):
            for record in records:
                self._replay(replay, header, record)
        if not (self.cluster_metadata.features or self.cluster_metadata.topics):
            self._refuse_partitions_without_metadata()
        refused = adoption_problem(self.cluster_metadata, identity.directory_id, self._voters)
        if refused:
            raise StorageError(refused)
        if self._not_enforced:
            log.warning("the cluster has %s: this broker does not enforce them", ", ".join(sorted(self._not_enforced)))
        self._complete(newest, replay, node_id, identity)
        elected = elect_leaders(self.cluster_metadata, after_crash=after_crash)
        for first in range(0, len(elected), RECORDS_PER_BATCH_MAX):
            self.append(elected[first : first + RECORDS_PER_BATCH_MAX])
        self._log.flush()
        self._checkpoints.note_durable(_NAME, self._log.recovery_point)

    def _newest_snapshot(self) -> SnapshotId | None:
        found = snapshot_ids(self._files.list(DIRECTORY)) if self._files.exists(DIRECTORY) else []
        newest = found[-1] if found else None
        start, end = self._log.log_start_offset, self._log.log_end_offset
        covered = newest.end_offset if newest else 0
        if start > covered or (end and end < covered):
            raise StorageError(f"{DIRECTORY}: the log holds offsets {start} to {end}, but its newest snapshot ends at {covered}")
        if newest:
            self._log.leader_epoch = newest.epoch
        return newest

    def _refuse_partitions_without_metadata(self) -> None:
        partitions = [name for name in self._files.list("") if is_partition_directory(name) and name != DIRECTORY]
        if partitions:
            raise StorageError(
                f"the directory holds partitions ({min(partitions)}), but no {DIRECTORY} that describes them: it is one of several"
                " log.dirs, or the cluster's metadata lies elsewhere (metadata.log.dir), or its log was emptied: restore it from a copy"
            )

    def _history(self, newest: SnapshotId | None) -> Iterator[tuple[BatchHeader, list[Record]]]:
        """The batches to replay: those of the snapshot, then those of the log after it. Raises StorageError when one is missing."""
        if newest:
            yield from self._read_snapshot(f"{DIRECTORY}/{newest.file_name}")
        next_offset = newest.end_offset if newest else self._log.log_start_offset
        for header, records in self._log.read_batches(next_offset):
            self._check_offset(next_offset, header.base_offset)
            yield header, records
            next_offset = header.next_offset
        self._check_offset(next_offset, self._log.log_end_offset)

    def _check_offset(self, expected: int, found: int) -> None:
        if expected < found:
            raise StorageError(
                f"{DIRECTORY}: offsets {expected} to {found - 1} are missing: a file of the log is gone or damaged, and with it changes of"
                " topics and settings. Nothing was changed: restore the data directory from a copy"
            )

    def _read_snapshot(self, path: str) -> list[tuple[BatchHeader, list[Record]]]:
        data = self._files.read_all(path)
        try:
            batches = [(header, decode_batch(data, at)) for at, header in split_batches(data)]
        except PeerError as error:
            raise StorageError(f"the snapshot {path} cannot be read: {error}") from error
        if not batches or not batches[-1][0].is_control or not is_finished(batches[-1][1]):
            raise StorageError(f"the snapshot {path} was not written to its end")
        return batches

    def _replay(self, replay: MetadataReplay, header: BatchHeader, record: Record) -> None:
        try:
            if header.is_control:
                voters = voters_of(record)
                self._voters = self._voters if voters is None else voters
            elif record.value is not None:
                decoded = decode(record.value)
                if decoded is not None:
                    replay.replay(decoded)
                elif (kind := record_type(record.value)) in NOT_ENFORCED:
                    self._not_enforced.add(NOT_ENFORCED[kind])
        except (PeerError, LookupError) as error:
            raise StorageError(f"{DIRECTORY}: the record at offset {record.offset} cannot be replayed: {error}") from error

    def _complete(self, newest: SnapshotId | None, replay: MetadataReplay, node_id: int, identity: Identity) -> None:
        """Append what a new log, or one with an open transaction, needs before other records."""
        if newest is None and not self._voters:
            self._files.make_directory(DIRECTORY)
            now_ms = self._clock()
            self._files.replace(f"{DIRECTORY}/{SnapshotId(0, 0).file_name}", first_snapshot(node_id, identity.directory_id, now_ms))
        if replay.is_pending:
            self._append_values([encode(AbortTransaction())])
        if not self.cluster_metadata.metadata_version and self._files.exists(BOOTSTRAP_SNAPSHOT):
            # Formatted by Kafka's tool and never started: its bootstrap snapshot has the first records of the cluster.
            batches = self._read_snapshot(BOOTSTRAP_SNAPSHOT)
            records = [record for header, found in batches if not header.is_control for record in found]
            self._append_values([record.value for record in records if record.value is not None])
            for header, found in batches:
                for record in found:
                    self._replay(replay, header, record)
        self.append(first_records(self.cluster_metadata))

    def append(self, records: Sequence[MetadataRecord]) -> None:
        """Append the records, sync them, and apply them. Raises StorageError, with nothing applied.

        Records that could not be written are removed. Records that were written and could not be synced stay in the log: whether the disk
        has them is unknown until the next start, where they may take effect. Until then the log refuses every other change (StorageError).
        """
        self.append_encoded(records, [encode(record) for record in records])

    def append_encoded(self, records: Sequence[MetadataRecord], values: Sequence[bytes]) -> None:
        """As `append`, for records whose values are already encoded."""
        if not records:
            return
        self._append_values(values)
        for record in records:
            self.cluster_metadata.replay(record)

    def _append_values(self, values: Sequence[bytes]) -> None:
        now = self._clock()
        # Records that were written and cannot be synced end the log: so nothing is written where that can be known before.
        self._log.check_access()
        self._log.append_records([Record(0, now, None, value) for value in values], now_ms=now)
        self._log.flush()
        self._checkpoints.note_durable(_NAME, self._log.recovery_point)

    def close(self) -> None:
        """Close the log."""
        self._log.close(clean=True)
