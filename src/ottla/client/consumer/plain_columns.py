"""Fetched records in plain Python: the decoder of the core, batch by batch. It is the reference that the compiled one is held equal to."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice, pairwise
from typing import Final

from ottla.client.engine.record_buffer import Columns
from ottla.client.fetch.fetch_values import FetchedRecords
from ottla.protocol.errors import PeerError
from ottla.protocol.model import Record
from ottla.protocol.records.batch import NO_TIMESTAMP, BatchHeader, crc_is_valid, decode_batch, open_batch, split_batches
from ottla.protocol.records.control import ControlType, control_type

CREATE_TIME: Final = 1
LOG_APPEND_TIME: Final = 2
NOT_AVAILABLE: Final = (0, 0)
ROWS_MAX: Final = 16_384
"""Most records at a time: those of a batch may take a hundred times the memory of its bytes."""


class PlainColumns:
    """Records of one batch. `time_type`: of all their timestamps; `size_bytes`: those of the batch, decompressed."""

    def __init__(self, topic: str, partition: int, records: Sequence[Record], header: BatchHeader, size_bytes: int = 0) -> None:
        self.size_bytes = size_bytes
        self.topic = topic
        self.partition = partition
        self.records = records
        self._epoch = header.leader_epoch
        self.time_type = LOG_APPEND_TIME if header.is_log_append_time else CREATE_TIME

    def __len__(self) -> int:
        return len(self.records)

    @cached_property
    def keys(self) -> list[bytes | None]:
        """The records' keys."""
        return [record.key for record in self.records]

    @cached_property
    def values(self) -> list[bytes | None]:
        """The records' values."""
        return [record.value for record in self.records]

    @cached_property
    def offsets(self) -> list[int]:
        """The records' offsets."""
        return [record.offset for record in self.records]

    def offset(self, row: int) -> int:
        """A record's offset."""
        return self.records[row].offset

    def leader_epoch(self, row: int) -> int:
        """The batch's leader epoch."""
        return self._epoch

    def headers(self, row: int) -> list[tuple[str, bytes | None]] | None:
        """A record's headers, None without any."""
        return [(name, value) for name, value in self.records[row].headers] or None

    def timestamp(self, row: int) -> tuple[int, int]:
        """The type of a record's time, and the time."""
        time_ms = self.records[row].timestamp_ms
        return NOT_AVAILABLE if time_ms == NO_TIMESTAMP else (self.time_type, time_ms)


def decode_plain(fetched: FetchedRecords) -> Iterator[Columns]:
    """The records from `position` on, a batch at a time. Raises PeerError for damaged batches."""
    topic, partition = fetched.partition
    waiting = sorted(fetched.aborted, key=lambda pair: pair[1], reverse=True)
    aborting: set[int] = set()
    for at, header in split_batches(fetched.records):
        is_wanted = header.next_offset > fetched.position
        if is_wanted and not crc_is_valid(fetched.records, at, header.size_bytes):
            raise PeerError(f"CRC-32C of the record batch at offset {header.base_offset} is wrong")
        while waiting and waiting[-1][1] <= header.last_offset:
            aborting.add(waiting.pop()[0])
        is_aborted = header.is_transactional and header.producer_id in aborting
        if header.is_control:
            if is_aborted and _is_abort(decode_batch(fetched.records, at)):
                aborting.discard(header.producer_id)
            continue
        if is_aborted or not is_wanted:
            continue
        section, records = open_batch(fetched.records, at, verify_crc=False)
        size_bytes, following = len(section), fetched.position
        del section
        while piece := list(islice(records, ROWS_MAX)):
            if header.base_offset < fetched.position:
                piece = [record for record in piece if record.offset >= fetched.position]
            if piece:
                if piece[0].offset < following or any(second.offset <= first.offset for first, second in pairwise(piece)):
                    raise out_of_order(following)
                following = piece[-1].offset + 1
                yield PlainColumns(topic, partition, piece, header, size_bytes)


def out_of_order(offset: int) -> PeerError:
    """The error for records from `offset` on whose offsets do not rise."""
    return PeerError(f"the offsets of records from offset {offset} on do not rise")


def _is_abort(markers: Sequence[Record]) -> bool:
    """Whether the marker of a control batch ends an aborted transaction; the cleaner may have left the batch without its record."""
    return bool(markers) and control_type(markers[0].key) == ControlType.ABORT
