"""What a partition remembers of its idempotent producers: their last five batches each, so that a repeated batch is appended once.

It checks sequences (KIP-98: duplicates, gaps, old epochs), records which transactions are open, and keeps the snapshot file's format, of
which only the last batch of each producer survives a restart. It writes no file, and it checks nothing of batches without a producer id.
"""

from collections.abc import Mapping
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from ottla.log.index import AbortedTransaction
from ottla.log.log_reading import ProducerEnd
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records.batch import NO_PRODUCER_EPOCH, NO_SEQUENCE, BatchHeader
from ottla.protocol.records.control import ControlType, EndMarker

REMEMBERED_BATCHES_MAX: Final = 5
UNVERIFIED_MAX: Final = 10_000
"""So many producers whose transactions have not begun here are remembered: the latest."""
SEQUENCE_MAX: Final = (1 << 31) - 1
EPOCH_MAX: Final = (1 << 15) - 1

SNAPSHOT_VERSION: Final = 1
SNAPSHOT_HEAD: Final = Struct(">hIi")
SNAPSHOT_CRC_FROM: Final = 6
"""The checksum covers all from here to the end."""
# producer id, epoch, last sequence, last offset, offset delta, timestamp, coordinator epoch, first offset of the open transaction
SNAPSHOT_ENTRY: Final = Struct(">qhiqiqiq")


class ProducerBatch(NamedTuple):
    """One batch as remembered; `offset_delta` is its last offset minus its first."""

    first_sequence: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class ProducerEntry:
    """One producer: its epoch, its last batches (oldest first), and its open transaction (`transaction_first_offset`, -1 without one)."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_timestamp_ms", "transaction_first_offset")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: list[ProducerBatch] = []
        self.last_timestamp_ms = -1
        self.coordinator_epoch = -1
        self.transaction_first_offset = -1


class Unverified(NamedTuple):
    """Batches of a producer that came and did not begin its transaction: none may be appended with a sequence above the lowest.

    It would overtake one that was refused and comes again. `bumps_epoch`: the first of them was of a client of KIP-890.
    """

    lowest_sequence: int
    bumps_epoch: bool


class SequenceRefused(NamedTuple):
    """Why a batch does not follow on what its producer appended."""

    error: ErrorCode
    message: str


def last_sequence(first_sequence: int, offset_delta: int) -> int:
    """Sequences run from 0 to 2147483647 and then begin again at 0."""
    return (first_sequence + offset_delta) & SEQUENCE_MAX


class ProducerStates:
    """All producers that a partition knows, by id."""

    __slots__ = ("_entries", "_open", "_unverified")

    def __init__(self) -> None:
        self._entries: dict[int, ProducerEntry] = {}
        self._open: dict[int, int] = {}
        self._unverified: dict[int, tuple[int, Unverified]] = {}
        """By producer, whose records came and did not begin a transaction here yet: the epoch, and what is known of them."""

    def __len__(self) -> int:
        return len(self._entries)

    def check(self, header: BatchHeader) -> ProducerBatch | SequenceRefused | None:
        """A client's batch before it is appended: None (append it), the batch that it repeats, or why it is refused."""
        entry = self._entries.get(header.producer_id)
        first, epoch = header.base_sequence, header.producer_epoch
        known_epoch = NO_PRODUCER_EPOCH if entry is None else entry.epoch
        if epoch < known_epoch:
            return SequenceRefused(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"Epoch of producer {header.producer_id} is {epoch}, which is smaller than the last seen epoch {known_epoch}",
            )
        if entry is not None and epoch == entry.epoch:
            last = last_sequence(first, header.last_offset_delta)
            for batch in entry.batches:
                if batch.first_sequence == first and batch.last_sequence == last:
                    return batch
        overtaking = self._overtaking(header, entry)
        if overtaking is not None or entry is None:
            return overtaking
        return self._misfit(header, entry)

    def _overtaking(self, header: BatchHeader, entry: ProducerEntry | None) -> SequenceRefused | None:
        """Why a batch may not be appended before those that came for the producer's transaction and did not begin it; else None.

        Batches outside transactions are checked as well, as by Kafka (`ProducerAppendInfo.checkSequence`).
        """
        seen = self._unverified.get(header.producer_id)
        if seen is None:
            return None
        _, (lowest, bumps_epoch) = seen
        named = f"{header.producer_id}: {header.base_sequence} (incoming seq. number)"
        if bumps_epoch and header.base_sequence != 0 and entry is None:
            # Without it, a batch whose predecessor was lost would begin the transaction (KAFKA-18202).
            message = f"Invalid sequence number for new idempotent producer: {named}"
        elif header.base_sequence > lowest:
            message = f"Out of order sequence number for producer {named}, {lowest} (earliest seen sequence)"
        else:
            return None
        return SequenceRefused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, message)

    def _misfit(self, header: BatchHeader, entry: ProducerEntry) -> SequenceRefused | None:
        """Why a batch that is no repetition does not follow on the producer's last one; None when it does."""
        first = header.base_sequence
        if entry.epoch != NO_PRODUCER_EPOCH:
            is_new = header.producer_epoch > entry.epoch or not entry.batches  # or only a marker is known of this epoch
            current = NO_SEQUENCE if is_new else entry.batches[-1].last_sequence
            if first != (0 if is_new else last_sequence(current, 1)):
                return self._gap(header, entry, current)
        if entry.transaction_first_offset >= 0 and not header.is_transactional:
            return SequenceRefused(
                ErrorCode.INVALID_TXN_STATE,
                f"Expected transactional write from producer {header.producer_id}: its transaction is open since offset"
                f" {entry.transaction_first_offset}",
            )
        return None

    @staticmethod
    def _gap(header: BatchHeader, entry: ProducerEntry, current_last: int) -> SequenceRefused:
        return SequenceRefused(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"Out of order sequence number for producer {header.producer_id}: {header.base_sequence} (incoming seq. number, epoch"
            f" {header.producer_epoch}), {current_last} (current end sequence number, epoch {entry.epoch})",
        )

    def see_unverified(self, producer_id: int, epoch: int, first_sequence: int, *, bumps_epoch: bool) -> "Unverified":
        """Note a batch that would begin a transaction; what is known of those that came for it (Kafka: `VerificationStateEntry`)."""
        known_epoch, (lowest, bumps_epoch) = self._unverified.pop(producer_id, (epoch, Unverified(first_sequence, bumps_epoch)))
        if epoch > known_epoch:
            known_epoch, lowest = epoch, first_sequence
        elif epoch == known_epoch:
            lowest = min(lowest, first_sequence)
        if len(self._unverified) >= UNVERIFIED_MAX:
            del self._unverified[next(iter(self._unverified))]
        seen = Unverified(lowest, bumps_epoch)
        self._unverified[producer_id] = (known_epoch, seen)
        return seen

    def forget_unverified(self, producer_id: int, marker_epoch: int, *, is_bumped: bool) -> None:
        """A marker is appended: what came before it is no longer expected, unless it is of the next transaction already."""
        seen = self._unverified.get(producer_id)
        if seen is not None and not (is_bumped and seen[0] == marker_epoch):
            del self._unverified[producer_id]

    def check_marker(self, producer_id: int, epoch: int, marker: EndMarker, *, is_bumped: bool) -> SequenceRefused | None:
        """A marker before it is appended: None (append it), or why it is refused. `is_bumped`: its epoch is above that of the transaction.

        The same marker again, when nothing is open, is appended again, as in Kafka (KAFKA-19999).
        """
        entry = self._entries.get(producer_id)
        if entry is None:
            return None
        is_repeated = epoch == entry.epoch and (entry.transaction_first_offset < 0 or epoch == EPOCH_MAX)
        if epoch < entry.epoch or (is_bumped and epoch == entry.epoch and not is_repeated):
            return SequenceRefused(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"The transaction marker of producer {producer_id} has epoch {epoch}; the last seen epoch is {entry.epoch}",
            )
        if marker.coordinator_epoch < entry.coordinator_epoch:
            return SequenceRefused(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"The transaction marker of producer {producer_id} is of coordinator epoch {marker.coordinator_epoch}; the last seen one is"
                f" {entry.coordinator_epoch}",
            )
        return None

    def get(self, producer_id: int) -> ProducerEntry | None:
        """One producer; None if nothing of it is known. Not to be changed."""
        return self._entries.get(producer_id)

    def all(self) -> Mapping[int, ProducerEntry]:
        """Every producer by its id. Not to be changed."""
        return self._entries

    @property
    def first_open_offset(self) -> int | None:
        """Where the oldest open transaction begins; None when none is open."""
        return min(self._open.values()) if self._open else None

    @property
    def oldest_open_timestamp_ms(self) -> int | None:
        """The timestamp of the last record of the oldest open transaction; None when none is open."""
        return self._entries[min(self._open, key=lambda each: self._open[each])].last_timestamp_ms if self._open else None

    def ends(self) -> dict[int, ProducerEnd]:
        """Where each producer stands, by id."""
        return {
            producer_id: ProducerEnd(entry.epoch, entry.batches[-1].last_offset if entry.batches else -1)
            for producer_id, entry in self._entries.items()
        }

    def end_transaction(self, header: BatchHeader, marker: EndMarker) -> AbortedTransaction | None:
        """A marker lies in the log: its producer's open transaction, if there is one, ends. What was aborted is given for the index."""
        self.note(header)
        entry = self._entries[header.producer_id]
        entry.coordinator_epoch = marker.coordinator_epoch
        first = self._open.pop(header.producer_id, None)
        entry.transaction_first_offset = -1
        if first is None or marker.type is ControlType.COMMIT:
            return None
        still_open = self.first_open_offset
        end = header.last_offset
        stable = end + 1 if still_open is None else min(still_open, end + 1)
        return AbortedTransaction(header.producer_id, first, end, stable)

    def note(self, header: BatchHeader) -> None:
        """A batch of a producer now lies in the log (just appended, or met while loading)."""
        entry = self._entries.get(header.producer_id)
        if entry is None:
            entry = self._entries[header.producer_id] = ProducerEntry(header.producer_epoch)
        elif header.producer_epoch != entry.epoch:
            entry.epoch = header.producer_epoch
            entry.batches.clear()
        entry.last_timestamp_ms = header.max_timestamp_ms
        if header.is_control:
            return
        if header.is_transactional:
            self._unverified.pop(header.producer_id, None)
            if entry.transaction_first_offset < 0:
                entry.transaction_first_offset = self._open[header.producer_id] = header.base_offset
        if len(entry.batches) == REMEMBERED_BATCHES_MAX:
            del entry.batches[0]
        delta = header.last_offset_delta
        entry.batches.append(
            ProducerBatch(
                header.base_sequence,
                last_sequence(header.base_sequence, delta),
                header.base_offset + delta,
                delta,
                header.max_timestamp_ms,
            )
        )

    def expire(self, *, now_ms: int, after_ms: int) -> int:
        """Forget producers without an open transaction whose last append is `after_ms` old; how many."""
        expired = [
            producer_id
            for producer_id, entry in self._entries.items()
            if entry.transaction_first_offset < 0 and now_ms - entry.last_timestamp_ms >= after_ms
        ]
        for producer_id in expired:
            del self._entries[producer_id]
        return len(expired)

    def encode(self) -> bytes:
        """The `.snapshot` file: version 1, checksum of what follows, count, one entry a producer."""
        parts = [self._encode_entry(producer_id, entry) for producer_id, entry in self._entries.items()]
        data = bytearray(b"".join([SNAPSHOT_HEAD.pack(SNAPSHOT_VERSION, 0, len(parts)), *parts]))
        data[2:SNAPSHOT_CRC_FROM] = crc32c(memoryview(data)[SNAPSHOT_CRC_FROM:]).to_bytes(4)
        return bytes(data)

    @staticmethod
    def _encode_entry(producer_id: int, entry: ProducerEntry) -> bytes:
        last = entry.batches[-1] if entry.batches else ProducerBatch(NO_SEQUENCE, NO_SEQUENCE, -1, 0, entry.last_timestamp_ms)
        return SNAPSHOT_ENTRY.pack(
            producer_id,
            entry.epoch,
            last.last_sequence,
            last.last_offset,
            last.offset_delta,
            entry.last_timestamp_ms,
            entry.coordinator_epoch,
            entry.transaction_first_offset,
        )

    @classmethod
    def decode(cls, data: bytes) -> "ProducerStates | None":
        """The producers of a snapshot file; None when it is damaged."""
        if len(data) < SNAPSHOT_HEAD.size:
            return None
        version, crc, count = SNAPSHOT_HEAD.unpack_from(data)
        if version != SNAPSHOT_VERSION or crc != crc32c(memoryview(data)[SNAPSHOT_CRC_FROM:]):
            return None
        if count * SNAPSHOT_ENTRY.size != len(data) - SNAPSHOT_HEAD.size:
            return None
        states = cls()
        for fields in SNAPSHOT_ENTRY.iter_unpack(memoryview(data)[SNAPSHOT_HEAD.size :]):
            producer_id, epoch, last, last_offset, delta, timestamp_ms, coordinator_epoch, transaction_first_offset = fields
            entry = states._entries[producer_id] = ProducerEntry(epoch)
            entry.last_timestamp_ms = timestamp_ms
            entry.coordinator_epoch = coordinator_epoch
            entry.transaction_first_offset = transaction_first_offset
            if transaction_first_offset >= 0:
                states._open[producer_id] = transaction_first_offset
            if last_offset >= 0:
                first = NO_SEQUENCE if last == NO_SEQUENCE else (last - delta) & SEQUENCE_MAX  # a transactional offset commit has none
                entry.batches.append(ProducerBatch(first, last, last_offset, delta, timestamp_ms))
        return states
