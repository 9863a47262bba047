"""The files beside a log, entry by entry: the indexes, and whether the log agrees with them; producers, checkpoints and properties.

An entry of the offset index must point to the batch that ends with its offset, one of the time index name the last offset and the largest
timestamp of a batch. Kafka keeps the index of a segment that is written to at full size: zeros behind the last entry are no entries.
Whatever can be read is listed, with what is wrong with the file beside it.
"""

from collections.abc import Iterator
from itertools import count
from struct import Struct
from typing import Final

from crc32c import crc32c

from ottla.log.checkpoints import decode_leader_epochs, decode_offsets
from ottla.log.dump.batches import Ends, read_ends
from ottla.log.dump.items import WINDOW_BYTES, DumpOptions, Entry, FindingItem, Item, Note, Window
from ottla.log.index import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES, TRANSACTION_ENTRY
from ottla.log.producer_state import SEQUENCE_MAX, SNAPSHOT_CRC_FROM, SNAPSHOT_ENTRY, SNAPSHOT_HEAD, SNAPSHOT_VERSION
from ottla.protocol.errors import PeerError

_OFFSET_ENTRY: Final = Struct(">ii")
_TIME_ENTRY: Final = Struct(">qi")
assert (_OFFSET_ENTRY.size, _TIME_ENTRY.size) == (OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES)


def dump_offset_index(index: Window, log: Window | None, base_offset: int, shown: str, options: DumpOptions) -> Iterator[Item]:
    """The entries of an `.index` file, compared with its log."""
    before, entries, is_sound = (-1, -1), 0, True
    for relative_offset, position in _entries(index, _OFFSET_ENTRY):
        entries += 1
        offset = base_offset + relative_offset
        faults = []
        if relative_offset <= before[0] or position <= before[1]:
            heading = f"Entries that do not rise in {shown}"
            words = f"offset {offset} at position {position} follows offset {base_offset + before[0]} at position {before[1]}"
            faults.append(FindingItem(heading, f"  {words}"))
        if not options.is_sanity_check and log is not None and (words := _offset_fault(log, offset, position, options)):
            faults.append(FindingItem(f"Mismatches in :{shown}", f"  {words}"))
        is_sound = is_sound and not faults
        yield from faults
        before = relative_offset, position
        if options.with_entries and not options.is_sanity_check:
            yield Entry({"offset": offset, "position": position})
    yield from _end(index, _OFFSET_ENTRY, entries, is_sound, shown, options)


def _offset_fault(log: Window, offset: int, position: int, options: DumpOptions) -> str:
    ends = read_ends(log, position)
    if ends is None:
        return f"Index offset: {offset}, no batch lies at position {position} of the log"
    if ends.last_offset != offset:
        return f"Index offset: {offset}, log offset: {ends.last_offset}"
    size_bytes = ends.next_position - position
    if options.batch_bytes_max is not None and size_bytes > options.batch_bytes_max:
        return f"Index offset: {offset}, its batch has {size_bytes} bytes"
    return ""


def dump_time_index(times: Window, log: Window | None, base_offset: int, shown: str, options: DumpOptions) -> Iterator[Item]:
    """The entries of a `.timeindex` file, compared with its log, through which it walks once."""
    walk = None if log is None or options.is_sanity_check else _Walk(log)
    before, entries, is_sound = (-1, -1), 0, True
    for timestamp_ms, relative_offset in _entries(times, _TIME_ENTRY):
        entries += 1
        offset = base_offset + relative_offset
        faults = list(_order_faults(timestamp_ms, relative_offset, before, base_offset, shown))
        if not faults and walk is not None:
            faults += _time_faults(walk.first_ending_at(offset), timestamp_ms, offset, shown)
        is_sound = is_sound and not faults
        yield from faults
        before = timestamp_ms, relative_offset
        if options.with_entries and not options.is_sanity_check:
            yield Entry({"timestamp": timestamp_ms, "offset": offset})
    yield from _end(times, _TIME_ENTRY, entries, is_sound, shown, options)


def _order_faults(timestamp_ms: int, relative_offset: int, before: tuple[int, int], base_offset: int, shown: str) -> Iterator[Item]:
    before_ms, before_offset = before
    if timestamp_ms <= before_ms:
        yield FindingItem(
            f"Found out of order timestamp in :{shown}",
            f"  Index timestamp: {timestamp_ms}, Previously indexed timestamp: {before_ms}",
        )
    if relative_offset <= before_offset:
        yield FindingItem(
            f"Entries that do not rise in {shown}",
            f"  offset {base_offset + relative_offset} follows offset {base_offset + before_offset}",
        )


def _time_faults(found: Ends | None, timestamp_ms: int, offset: int, shown: str) -> Iterator[Item]:
    if found is None or found.last_offset != offset:
        found_offset = -1 if found is None else found.last_offset
        yield FindingItem(
            f"The following indexed offsets of {shown} are not found in the log.",
            f"Indexed offset: {offset}, found log offset: {found_offset}",
        )
    elif found.max_timestamp_ms != timestamp_ms:
        yield FindingItem(
            f"Found timestamp mismatch in :{shown}",
            f"  Index timestamp: {timestamp_ms}, log timestamp: {found.max_timestamp_ms}",
        )


class _Walk:
    """Reads a log forwards, from batch to batch, for rising offsets."""

    def __init__(self, log: Window) -> None:
        self._log = log
        self._position = 0

    def first_ending_at(self, offset: int) -> Ends | None:
        """The first batch that ends at or behind the offset; None when the log ends before."""
        while (ends := read_ends(self._log, self._position)) is not None and ends.last_offset < offset:
            self._position = ends.next_position
        return ends


def _entries(window: Window, entry: Struct) -> Iterator[tuple[int, int]]:
    """The entries up to the first that is not written yet; the last field of both kinds, or the first, is 0 in the first entry alone."""
    empty = bytes(entry.size)
    for number in count():
        data = bytes(window.read(number * entry.size, entry.size))
        if len(data) < entry.size:
            return
        is_last = window.size < (number + 2) * entry.size
        if data == empty and (number > 0 or not is_last):
            return
        first, second = entry.unpack(data)
        yield first, second


def _end(window: Window, entry: Struct, entries: int, is_sound: bool, shown: str, options: DumpOptions) -> Iterator[Item]:
    """The findings after the last entry."""
    at = entries * entry.size
    heading = f"Index {shown} is corrupt"
    if any(_has_bytes(window, position) for position in range(at, window.size - window.size % entry.size, WINDOW_BYTES)):
        yield FindingItem(heading, f"  entries follow zeros at position {at}")
    elif window.size % entry.size:
        yield FindingItem(heading, f"  its {window.size} bytes are no multiple of {entry.size}")
    elif not entries and entry is _OFFSET_ENTRY:
        yield Note(f"{shown} is empty.")
    elif is_sound and options.is_sanity_check:
        yield Note(f"{shown} passed sanity check.")


def _has_bytes(window: Window, position: int) -> bool:
    data = window.read(position, WINDOW_BYTES)
    return bytes(data).count(0) != len(data)


TEXT_BYTES_MAX: Final = 16 * 1024 * 1024
"""A directory of 100,000 partitions has checkpoints of a few megabytes."""


def dump_transaction_index(window: Window, shown: str) -> Iterator[Item]:
    """The transactions that were aborted in a segment (`.txnindex`)."""
    last_offset = -1
    for position in range(0, window.size - TRANSACTION_ENTRY.size + 1, TRANSACTION_ENTRY.size):
        data = window.read(position, TRANSACTION_ENTRY.size)
        if len(data) < TRANSACTION_ENTRY.size:
            return
        version, producer_id, first, last, last_stable = TRANSACTION_ENTRY.unpack(data)
        if last <= last_offset or first > last or version != 0:
            words = f"  the entry at position {position} does not follow on those before it"
            yield FindingItem(f"Transaction index {shown} is corrupt", words)
        last_offset = last
        yield Entry(
            {"version": version, "producerId": producer_id, "firstOffset": first, "lastOffset": last, "lastStableOffset": last_stable}
        )
    if window.size % TRANSACTION_ENTRY.size:
        yield FindingItem(f"Transaction index {shown} is corrupt", f"  its {window.size} bytes are no multiple of {TRANSACTION_ENTRY.size}")


def dump_producer_snapshot(window: Window, shown: str) -> Iterator[Item]:
    """The producers that a partition knew at an offset (`.snapshot`)."""
    heading = f"Snapshot {shown} is corrupt"
    head = window.read(0, SNAPSHOT_HEAD.size)
    if len(head) < SNAPSHOT_HEAD.size:
        yield FindingItem(heading, f"  it has {len(head)} bytes, and {SNAPSHOT_HEAD.size} come before the first producer")
        return
    version, crc, count = SNAPSHOT_HEAD.unpack(head)
    if version != SNAPSHOT_VERSION:
        yield FindingItem(heading, f"  Snapshot contained an unknown file version {version}")
        return
    if (computed := _crc32c(window)) != crc:
        yield FindingItem(heading, f"  Snapshot is corrupt (CRC is no longer valid). Stored crc: {crc}, computed crc: {computed}")
    entries = (window.size - SNAPSHOT_HEAD.size) // SNAPSHOT_ENTRY.size
    if count * SNAPSHOT_ENTRY.size != window.size - SNAPSHOT_HEAD.size:
        yield FindingItem(heading, f"  it claims {count} producers and has room for {entries}")
    for number in range(min(max(count, 0), entries)):
        data = window.read(SNAPSHOT_HEAD.size + number * SNAPSHOT_ENTRY.size, SNAPSHOT_ENTRY.size)
        if len(data) == SNAPSHOT_ENTRY.size:
            yield Entry(_producer(data))


def _producer(data: memoryview) -> dict[str, int | None]:
    producer_id, epoch, last_sequence, last_offset, delta, timestamp_ms, coordinator_epoch, transaction_offset = SNAPSHOT_ENTRY.unpack(data)
    values = {
        "producerId": producer_id,
        "producerEpoch": epoch,
        "coordinatorEpoch": coordinator_epoch,
        "currentTxnFirstOffset": None if transaction_offset < 0 else transaction_offset,
        "lastTimestamp": timestamp_ms,
    }
    if last_offset >= 0:
        first_sequence = (last_sequence - delta) & SEQUENCE_MAX
        values |= {"firstSequence": first_sequence, "lastSequence": last_sequence, "lastOffset": last_offset}
        values |= {"offsetDelta": delta, "timestamp": timestamp_ms}
    return values


def _crc32c(window: Window) -> int:
    crc = 0
    for position in range(SNAPSHOT_CRC_FROM, window.size, WINDOW_BYTES):
        crc = crc32c(window.read(position, WINDOW_BYTES), crc)
    return crc


def dump_leader_epochs(window: Window, shown: str) -> Iterator[Item]:
    """When which leader epoch began (`leader-epoch-checkpoint`)."""
    if not window.size:
        yield Note(f"{shown} is empty.")
        return
    epochs = decode_leader_epochs(_text(window))
    if epochs is None:
        yield _no_checkpoint(shown)
    for epoch in epochs or ():
        yield Entry({"epoch": epoch.epoch, "startOffset": epoch.start_offset})


def dump_offsets(window: Window, shown: str) -> Iterator[Item]:
    """One offset a partition (the checkpoints of a data directory)."""
    if not window.size:
        yield Note(f"{shown} is empty.")  # as Kafka makes it when it starts
        return
    offsets = decode_offsets(_text(window))
    if offsets is None:
        yield _no_checkpoint(shown)
    for (topic, partition), offset in (offsets or {}).items():
        yield Entry({"topic": topic, "partition": partition, "offset": offset})


def _no_checkpoint(shown: str) -> FindingItem:
    return FindingItem(f"Checkpoint {shown} is corrupt", "  its lines are not a version, a count and so many entries that rise")


def dump_properties(window: Window, shown: str, separator: str) -> Iterator[Item]:
    """Lines of a name and a value (`partition.metadata`, `meta.properties`), all of them as one entry."""
    values: dict[str, str] = {}
    for number, line in enumerate(_text(window).decode(errors="replace").splitlines(), 1):
        name, found, value = line.partition(separator)
        if found:
            values[name.strip()] = value.strip()
        elif line.strip() and not line.startswith("#"):
            yield FindingItem(f"{shown} is corrupt", f"  line {number} is no name and value")
    if values:
        yield Entry(values)
    else:
        yield FindingItem(f"{shown} is corrupt", "  it says nothing")


def _text(window: Window) -> bytes:
    if window.size > TEXT_BYTES_MAX:
        raise PeerError(f"{window.size} bytes are too many for a file of this kind")
    return bytes(window.read(0, window.size))
