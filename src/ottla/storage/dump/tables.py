"""The small files beside the segments: aborted transactions, producers, checkpoints and properties, entry by entry.

Whatever can be read is listed, with what is wrong with the file beside it.
"""

from collections.abc import Iterator
from typing import Final

from crc32c import crc32c

from ottla.core.errors import PeerError
from ottla.storage.checkpoints import decode_leader_epochs, decode_offsets
from ottla.storage.dump.items import Entry, FindingItem, Item, Note
from ottla.storage.dump.window import WINDOW_BYTES, Window
from ottla.storage.log.producer_state import SEQUENCE_MAX, SNAPSHOT_CRC_FROM, SNAPSHOT_ENTRY, SNAPSHOT_HEAD, SNAPSHOT_VERSION
from ottla.storage.log.transaction_index import TRANSACTION_ENTRY

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
