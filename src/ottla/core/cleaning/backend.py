"""The two passes of a cleaning over bytes, as a protocol: index the dirty keys, then filter all batches by them.

Two backends implement it with equal results, byte for byte: the reference backend (reference.py) and the compiled one (columnar). A backend
decides record by record, by the key's latest offset and the tombstone's age; what depends on transactions and producers is decided batch by
batch in `batch_retention.py`, and passed to it as a BatchRetention each, for the few batches that are not ordinary. So a backend
processes a buffer of ordinary batches in one call, however small they are. It touches no file. Source: Kafka's `Cleaner.cleanInto`,
`Cleaner.buildOffsetMapForSegment`, `MemoryRecords.filterTo`.
"""

from array import array
from collections.abc import Mapping, Sequence, Set
from enum import IntEnum
from typing import NamedTuple, Protocol

from ottla.core.cleaning.offset_map import OffsetMap

Buffer = bytes | bytearray | memoryview


class BatchRetention(IntEnum):
    """What the filter pass does with a batch."""

    FILTER = 0
    """Every ordinary batch, also one without an entry: its records are read, and it is dropped if none is kept."""
    FILTER_KEEP = 1
    """Its records are read; if none is kept, its header is kept as an empty batch."""
    DROP = 2
    """It is dropped, unread."""
    EMPTY = 3
    """Its header is kept as an empty batch, its records are dropped, unread."""
    KEEP = 4
    """It is kept as it is, unread."""
    KEEP_UNTIL_HORIZON = 5
    """It is kept with all its records, rebuilt with a delete horizon."""


class Tombstones(NamedTuple):
    """When tombstones are dropped: the time of this cleaning, and how long a tombstone is kept after the first cleaning that reads it."""

    now_ms: int
    delete_retention_ms: int

    @property
    def horizon_ms(self) -> int:
        """The delete horizon of a batch that gets one now."""
        return self.now_ms + self.delete_retention_ms


class Indexed(NamedTuple):
    """`is_full`: the map took no more before the end of the bytes; `OffsetMap.latest_offset` is the last offset that counts."""

    records: int
    is_full: bool


class Filtered(NamedTuple):
    """What is kept, as whole batches: `data` (valid until the backend's next call), and for each batch in it what `Segment.note` needs.

    `records_read` counts the records that were read, `records_kept` those that are kept.
    """

    data: Buffer
    last_offsets: Sequence[int]
    max_timestamps_ms: Sequence[int]
    sizes_bytes: Sequence[int]
    records_read: int
    records_kept: int


class Chunk(Protocol):
    """The whole batches at the start of a buffer, headers read and checked. The methods raise PeerError on a damaged batch."""

    @property
    def size_bytes(self) -> int:
        """Where the last whole batch ends; 0 when not even the first one is whole."""
        ...

    @property
    def next_batch_bytes(self) -> int:
        """The size of the batch behind them, of which only a part is in the buffer; 0 when not even its size is."""
        ...

    @property
    def special(self) -> Sequence[int]:
        """Rising positions of the batches that are not ordinary: control or transactional ones, and those that end at a marked offset."""
        ...

    def index(self, offset_map: OffsetMap, *, skipped: Set[int], from_offset: int) -> Indexed:
        """Put the keys of all batches but those at the positions `skipped` into the map, with their offsets.

        Records without a key or below `from_offset` are passed over. Before a record that should go in while the map is full it ends.
        After each whole batch that ends at or above `from_offset`, a skipped one too, the map's `latest_offset` is that batch's last one.
        """
        ...

    def filter(self, offset_map: OffsetMap, retentions: Mapping[int, BatchRetention], tombstones: Tombstones) -> Filtered:
        """The batches that are kept. `retentions` by position, for special batches; FILTER for all others.

        A record is kept when it lies above the map's `latest_offset`; or when it has a key, the map knows no later offset of it, and it has
        a value or its batch's delete horizon is not set or still ahead (`now_ms` < horizon). A batch whose records are all kept is copied
        as it is, unless it holds a tombstone and has no delete horizon yet. Otherwise it is rebuilt: header as before but for the count and
        what follows, records with their offsets and times, same codec. A delete horizon (bit 6, the base timestamp is the horizon then) is
        set when a tombstone is kept and none was set, and is not changed otherwise; without one the base timestamp is the first record's.
        The largest timestamp is that of the kept records. An empty batch has no records, no codec, no horizon, base timestamp -1 and the
        largest timestamp that it had.
        """
        ...


class CleaningBackend(Protocol):
    """How bytes are cleaned. One thread uses a backend."""

    def scan(self, buffer: Buffer, marked_offsets: "array[int]") -> Chunk:
        """Read the headers of the whole batches in `buffer` and check each batch's checksum; a part of a batch at the end is left alone.

        `marked_offsets`, rising 64-bit numbers: last offsets of batches whose retention is to be decided (the last one of a live producer,
        the last one of the range). `buffer` must stay as it is while the chunk is used. Raises PeerError on what is no batch of format 2.
        """
        ...
