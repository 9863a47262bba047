"""Which file is what, by its name, and the lines that a dump has about it.

Names are Kafka's, also those of files that are being made, swapped in or deleted. A dump of any file ends by itself: damage is a
`FindingItem`, and so is an error of the operating system. Whatever can be read is listed.

Of indexes it says whether the log agrees with them. An entry of the offset index must point to the batch that ends with its offset, one of
the time index name the last offset and the largest timestamp of a batch. Kafka keeps the index of a segment that is written to at full
size: zeros behind the last entry are no entries.
"""

from collections.abc import Iterator
from enum import Enum, auto
from itertools import count
from struct import Struct
from typing import Final

from crc32c import crc32c

from ottla.log.checkpoints import (
    CLEANER_FILE,
    HIGH_WATERMARK_FILE,
    INDEX_SUFFIX,
    LEADER_EPOCHS_FILE,
    LOG_START_FILE,
    LOG_SUFFIX,
    META_PROPERTIES,
    METADATA_FILE,
    RECOVERY_POINT_FILE,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    decode_leader_epochs,
    decode_offsets,
)
from ottla.log.dump.batches import WINDOW_BYTES, DumpOptions, Ends, Entry, FindingItem, Item, Note, Window, dump_batches, read_ends
from ottla.log.index import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES, TRANSACTION_ENTRY
from ottla.log.producer_state import SEQUENCE_MAX, SNAPSHOT_CRC_FROM, SNAPSHOT_ENTRY, SNAPSHOT_HEAD, SNAPSHOT_VERSION
from ottla.log.segment_facts import Readable
from ottla.protocol.errors import PeerError, StorageError

_BOOTSTRAP: Final = "bootstrap.checkpoint"


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


class FileKind(Enum):
    """What a file is."""

    LOG = auto()
    METADATA_SNAPSHOT = auto()
    OFFSET_INDEX = auto()
    TIME_INDEX = auto()
    TRANSACTION_INDEX = auto()
    PRODUCER_SNAPSHOT = auto()
    LEADER_EPOCHS = auto()
    OFFSETS = auto()
    PARTITION_METADATA = auto()
    PROPERTIES = auto()


# In the order in which a directory is dumped where the numbers in the names are the same.
_SUFFIXES: Final = {
    LOG_SUFFIX: FileKind.LOG,
    ".checkpoint": FileKind.METADATA_SNAPSHOT,
    INDEX_SUFFIX: FileKind.OFFSET_INDEX,
    TIME_INDEX_SUFFIX: FileKind.TIME_INDEX,
    TRANSACTION_INDEX_SUFFIX: FileKind.TRANSACTION_INDEX,
    SNAPSHOT_SUFFIX: FileKind.PRODUCER_SNAPSHOT,
}
_NAMES: Final = {
    META_PROPERTIES: FileKind.PROPERTIES,
    METADATA_FILE: FileKind.PARTITION_METADATA,
    LEADER_EPOCHS_FILE: FileKind.LEADER_EPOCHS,
    **dict.fromkeys((RECOVERY_POINT_FILE, LOG_START_FILE, HIGH_WATERMARK_FILE, CLEANER_FILE), FileKind.OFFSETS),
}
_STATES: Final = ("", ".cleaned", ".swap", ".deleted")


def kind_of(name: str) -> FileKind | None:
    """The kind of a file of this name; None when it is not a file of Kafka's."""
    if name in _NAMES:
        return _NAMES[name]
    plain = _split_state(name)[0]
    dot = plain.rfind(".")
    return _SUFFIXES.get(plain[dot:]) if dot > 0 else None


def _split_state(name: str) -> tuple[str, str]:
    for state in _STATES[1:]:
        if name.endswith(state):
            return name.removesuffix(state), state
    return name, ""


def files_in(names: list[str]) -> list[str]:
    """Those names in a directory that can be dumped, in order: the segments one after another, each with its indexes, then the rest."""
    suffixes = list(_SUFFIXES)

    def place(name: str) -> tuple[bool, str, int, str]:
        stem, dot, suffix = _split_state(name)[0].rpartition(".")
        is_segment = name not in _NAMES
        return not is_segment, stem if is_segment else "", suffixes.index(dot + suffix) if is_segment else 0, name

    return sorted((name for name in names if kind_of(name) is not None), key=place)


def dump_file(files: Readable, path: str, shown: str, options: DumpOptions) -> Iterator[Item]:
    """The items about the file at `path`, which is printed as `shown`."""
    name = path.rpartition("/")[2]
    kind = kind_of(name)
    if kind is None:
        yield FindingItem(f"Ignoring unknown file {shown}", "  its name is none of a log's files")
        return
    try:
        yield from _dump(kind, files, path, shown, options)
    except StorageError as error:
        yield FindingItem(f"{shown} could not be read", f"  {error}")
    except PeerError as error:
        yield FindingItem(f"{shown} is corrupt", f"  {error}")


def _dump(kind: FileKind, files: Readable, path: str, shown: str, options: DumpOptions) -> Iterator[Item]:
    window = Window(files, path, size_max=options.bytes_max if kind in (FileKind.LOG, FileKind.METADATA_SNAPSHOT) else None)
    match kind:
        case FileKind.LOG | FileKind.METADATA_SNAPSHOT:
            yield from _title(kind, path)
            yield from dump_batches(window, shown, options)
        case FileKind.OFFSET_INDEX | FileKind.TIME_INDEX:
            yield from _dump_index(kind, files, window, shown, options)
        case FileKind.TRANSACTION_INDEX:
            yield from dump_transaction_index(window, shown)
        case FileKind.PRODUCER_SNAPSHOT:
            yield from dump_producer_snapshot(window, shown)
        case FileKind.LEADER_EPOCHS:
            yield from dump_leader_epochs(window, shown)
        case FileKind.OFFSETS:
            yield from dump_offsets(window, shown)
        case FileKind.PARTITION_METADATA:
            yield from dump_properties(window, shown, ":")
        case FileKind.PROPERTIES:
            yield from dump_properties(window, shown, "=")


def _title(kind: FileKind, path: str) -> Iterator[Item]:
    """The fields in a log's name."""
    name = path.rpartition("/")[2]
    stem = name.partition(".")[0]
    if kind is FileKind.LOG:
        base_offset = _base_offset(name)
        if base_offset is not None:
            yield Note(f"Log starting offset: {base_offset}")
    elif name == _BOOTSTRAP:
        yield Note("KRaft bootstrap snapshot")
    elif (numbers := stem.split("-")) and len(numbers) == 2 and all(map(_is_number, numbers)):
        yield Note(f"Snapshot end offset: {int(numbers[0])}, epoch: {int(numbers[1])}")


def _dump_index(kind: FileKind, files: Readable, window: Window, shown: str, options: DumpOptions) -> Iterator[Item]:
    directory, slash, name = window.path.rpartition("/")
    base_offset = _base_offset(name)
    if base_offset is None:
        yield FindingItem(f"{shown} has no offset in its name", "  its entries count from the offset in the name: 0 is taken")
        base_offset = 0
    # The log after its index: what an index of a running broker refers to is in the log by then.
    log_name = name.partition(".")[0] + LOG_SUFFIX + _split_state(name)[1]
    log = None
    if files.exists(directory + slash + log_name):
        log = Window(files, directory + slash + log_name)
    elif not options.is_sanity_check:
        yield FindingItem(f"{shown} cannot be compared with its log", f"  there is no {log_name} beside it")
    dump = dump_offset_index if kind is FileKind.OFFSET_INDEX else dump_time_index
    yield from dump(window, log, base_offset, shown, options)


def _base_offset(name: str) -> int | None:
    digits = name.partition(".")[0]
    return int(digits) if _is_number(digits) else None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 20
