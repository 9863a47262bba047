"""The catalogue's shell: appends its records to the log `__cluster_metadata-0` and replays them, at once and at every start.

The log is Kafka's own. What Apache Kafka's controller wrote into it is taken over (the newest snapshot, then all that follows), and what is
appended here goes on in the same leader epoch; nothing in it is ever removed.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from uuid import UUID

from ottla.broker.meta_properties import Identity, is_partition_directory
from ottla.broker.offset_checkpoints import OffsetCheckpoints
from ottla.core.catalogue.adoption import first_records, problem, take_over
from ottla.core.catalogue.catalogue import CLUSTER_METADATA, Catalogue
from ottla.core.catalogue.quorum import BOOTSTRAP_SNAPSHOT, SnapshotId, first_snapshot, is_finished, snapshot_ids, voters_of
from ottla.core.catalogue.records import NOT_ENFORCED, AbortTransaction, CatalogueRecord, decode, encode, record_type
from ottla.core.catalogue.transactions import Replay
from ottla.core.errors import PeerError, StorageError
from ottla.core.model import Record, TopicPartition
from ottla.core.records.batch import BatchHeader, decode_batch, split_batches
from ottla.storage.files import Files
from ottla.storage.partition_log import LogSettings, PartitionLog

log = logging.getLogger("ottla.broker.catalogue_log")

DIRECTORY = f"{CLUSTER_METADATA}-0"
TOPIC_ID = UUID(int=1)
"""Of the metadata topic, in every cluster."""
RECORDS_PER_BATCH_MAX = 20_000
"""Kafka's controller reads batches of up to 8 MiB; a record about a partition takes some 100 bytes."""
_NAME = TopicPartition(CLUSTER_METADATA, 0)


class CatalogueLog:
    """Append, then replay: nothing becomes true in the catalogue that is not in its log."""

    def __init__(self, files: Files, catalogue: Catalogue, clock: Callable[[], int], checkpoints: OffsetCheckpoints) -> None:
        self.catalogue = catalogue
        self._checkpoints = checkpoints
        self._files = files
        self._clock = clock
        self._log = PartitionLog(files, DIRECTORY, LogSettings(), topic_id=TOPIC_ID)
        self._voters: frozenset[int] = frozenset()
        self._not_enforced: set[str] = set()

    @property
    def log(self) -> PartitionLog:
        """For reading its state; records are appended by `append` alone."""
        return self._log

    def open(self, node_id: int, identity: Identity, *, after_crash: bool) -> None:
        """Replays newest snapshot and log, and makes the brokers here the leaders of all that they hold. The checkpoints have been loaded.

        Raises StorageError when a record cannot be read or is not there any more (a cluster must not forget topics silently), and for a
        directory that this node cannot serve alone; then nothing was written. A last write that a crash cut short is no reason: it was not
        synced, and so not acknowledged.
        """
        self.catalogue.directory_id = identity.directory_id
        opened = self._log.open(self._clock(), recovery_point=self._checkpoints.recovery_point(_NAME), refuses_losses=True)
        for loss in opened.losses:
            log.warning("%s", loss.sentence)
        newest = self._newest_snapshot()
        replay = Replay(self.catalogue)
        for header, records in self._history(newest):
            for record in records:
                self._meet(replay, header, record)
        if not (self.catalogue.features or self.catalogue.topics):
            self._refuse_partitions_without_catalogue()
        refused = problem(self.catalogue, identity.directory_id, self._voters)
        if refused:
            raise StorageError(refused)
        if self._not_enforced:
            log.warning("the cluster has %s: this broker does not enforce them", ", ".join(sorted(self._not_enforced)))
        self._begin(newest, replay, node_id, identity)
        led = take_over(self.catalogue, after_crash=after_crash)
        for first in range(0, len(led), RECORDS_PER_BATCH_MAX):
            self.append(led[first : first + RECORDS_PER_BATCH_MAX])
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

    def _refuse_partitions_without_catalogue(self) -> None:
        partitions = [name for name in self._files.list("") if is_partition_directory(name) and name != DIRECTORY]
        if partitions:
            raise StorageError(
                f"the directory holds partitions ({min(partitions)}), but no {DIRECTORY} that says what they are: it is one of several"
                " log.dirs, or the cluster's metadata lies elsewhere (metadata.log.dir), or its log was emptied: restore it from a copy"
            )

    def _history(self, newest: SnapshotId | None) -> Iterator[tuple[BatchHeader, list[Record]]]:
        """Every batch that counts: those of the snapshot, then those of the log behind it, of which none is missing."""
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

    def _meet(self, replay: Replay, header: BatchHeader, record: Record) -> None:
        try:
            if header.is_control:
                voters = voters_of(record)
                self._voters = self._voters if voters is None else voters
            elif record.value is not None:
                decoded = decode(record.value)
                if decoded is not None:
                    replay.feed(decoded)
                elif (kind := record_type(record.value)) in NOT_ENFORCED:
                    self._not_enforced.add(NOT_ENFORCED[kind])
        except (PeerError, LookupError) as error:
            raise StorageError(f"{DIRECTORY}: the record at offset {record.offset} cannot be replayed: {error}") from error

    def _begin(self, newest: SnapshotId | None, replay: Replay, node_id: int, identity: Identity) -> None:
        """What a new log, or one that was left in the middle of something, needs before it goes on."""
        if newest is None and not self._voters:
            self._files.make_directory(DIRECTORY)
            now_ms = self._clock()
            self._files.replace(f"{DIRECTORY}/{SnapshotId(0, 0).file_name}", first_snapshot(node_id, identity.directory_id, now_ms))
        if replay.is_pending:
            self._append_values([encode(AbortTransaction())])
        if not self.catalogue.metadata_version and self._files.exists(BOOTSTRAP_SNAPSHOT):
            # Formatted by Kafka's tool and never started: what the format asked for is the cluster's beginning.
            batches = self._read_snapshot(BOOTSTRAP_SNAPSHOT)
            records = [record for header, found in batches if not header.is_control for record in found]
            self._append_values([record.value for record in records if record.value is not None])
            for header, found in batches:
                for record in found:
                    self._meet(replay, header, record)
        self.append(first_records(self.catalogue))

    def append(self, records: Sequence[CatalogueRecord]) -> None:
        """Keeps the records, on disk before it returns, and applies them. Raises StorageError, with nothing applied.

        What could not be written is undone. What was written and could not be synced stays in the log: nobody knows whether the disk has
        it, and the next start tells, where it may take effect after all. Until then the log refuses every other change (StorageError).
        """
        self.append_encoded(records, [encode(record) for record in records])

    def append_encoded(self, records: Sequence[CatalogueRecord], values: Sequence[bytes]) -> None:
        """As `append`, for records whose values are encoded already."""
        if not records:
            return
        self._append_values(values)
        for record in records:
            self.catalogue.replay(record)

    def _append_values(self, values: Sequence[bytes]) -> None:
        now = self._clock()
        self._log.append_records([Record(0, now, None, value) for value in values], now_ms=now)
        self._log.flush()
        self._checkpoints.note_durable(_NAME, self._log.recovery_point)

    def close(self) -> None:
        """Closes the log."""
        self._log.close(clean=True)
