"""The small files beside the segments: aborted transactions, producers, checkpoints and properties, entry by entry.

Whatever can be read is listed, and what is wrong with the file is told beside it.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final

from crc32c import crc32c

from ottla.core.errors import PeerError
from ottla.storage.checkpoints import decode_leader_epochs, decode_offsets
from ottla.storage.dump.items import Entry, Finding, Item, Note
from ottla.storage.dump.window import WINDOW_BYTES, Window
from ottla.storage.producer_state import SEQUENCE_MAX
from ottla.storage.transaction_index import TRANSACTION_ENTRY_BYTES

_ABORTED: Final = Struct(">hqqqq")
assert _ABORTED.size == TRANSACTION_ENTRY_BYTES
_SNAPSHOT_HEAD: Final = Struct(">hIi")
_SNAPSHOT_VERSION: Final = 1
_CRC_FROM: Final = 6
# producer id, epoch, last sequence, last offset, offset delta, timestamp, coordinator epoch, first offset of the open transaction
_PRODUCER: Final = Struct(">qhiqiqiq")

TEXT_BYTES_MAX: Final = 16 * 1024 * 1024
"""A directory of 100,000 partitions has checkpoints of a few megabytes."""


def dump_transaction_index(window: Window, shown: str) -> Iterator[Item]:
    """The transactions that were aborted in a segment (`.txnindex`)."""
    last_offset = -1
    for position in range(0, window.size - _ABORTED.size + 1, _ABORTED.size):
        data = window.read(position, _ABORTED.size)
        if len(data) < _ABORTED.size:
            return
        version, producer_id, first, last, last_stable = _ABORTED.unpack(data)
        if last <= last_offset or first > last or version != 0:
            yield Finding(f"Transaction index {shown} is corrupt", f"  the entry at position {position} does not follow on those before it")
        last_offset = last
        yield Entry(
            {"version": version, "producerId": producer_id, "firstOffset": first, "lastOffset": last, "lastStableOffset": last_stable}
        )
    if window.size % _ABORTED.size:
        yield Finding(f"Transaction index {shown} is corrupt", f"  its {window.size} bytes are no multiple of {_ABORTED.size}")


def dump_producer_snapshot(window: Window, shown: str) -> Iterator[Item]:
    """The producers that a partition knew at an offset (`.snapshot`)."""
    heading = f"Snapshot {shown} is corrupt"
    head = window.read(0, _SNAPSHOT_HEAD.size)
    if len(head) < _SNAPSHOT_HEAD.size:
        yield Finding(heading, f"  it has {len(head)} bytes, and {_SNAPSHOT_HEAD.size} come before the first producer")
        return
    version, crc, count = _SNAPSHOT_HEAD.unpack(head)
    if version != _SNAPSHOT_VERSION:
        yield Finding(heading, f"  Snapshot contained an unknown file version {version}")
        return
    if (computed := _crc32c(window)) != crc:
        yield Finding(heading, f"  Snapshot is corrupt (CRC is no longer valid). Stored crc: {crc}, computed crc: {computed}")
    entries = (window.size - _SNAPSHOT_HEAD.size) // _PRODUCER.size
    if count * _PRODUCER.size != window.size - _SNAPSHOT_HEAD.size:
        yield Finding(heading, f"  it claims {count} producers and has room for {entries}")
    for number in range(min(max(count, 0), entries)):
        data = window.read(_SNAPSHOT_HEAD.size + number * _PRODUCER.size, _PRODUCER.size)
        if len(data) == _PRODUCER.size:
            yield Entry(_producer(data))


def _producer(data: memoryview) -> dict[str, int | None]:
    producer_id, epoch, last_sequence, last_offset, delta, timestamp_ms, coordinator_epoch, transaction_offset = _PRODUCER.unpack(data)
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
    for position in range(_CRC_FROM, window.size, WINDOW_BYTES):
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


def _no_checkpoint(shown: str) -> Finding:
    return Finding(f"Checkpoint {shown} is corrupt", "  its lines are not a version, a count and so many entries that rise")


def dump_properties(window: Window, shown: str, separator: str) -> Iterator[Item]:
    """Lines of a name and a value (`partition.metadata`, `meta.properties`), all of them as one entry."""
    values: dict[str, str] = {}
    for number, line in enumerate(_text(window).decode(errors="replace").splitlines(), 1):
        name, found, value = line.partition(separator)
        if found:
            values[name.strip()] = value.strip()
        elif line.strip() and not line.startswith("#"):
            yield Finding(f"{shown} is corrupt", f"  line {number} is no name and value")
    if values:
        yield Entry(values)
    else:
        yield Finding(f"{shown} is corrupt", "  it says nothing")


def _text(window: Window) -> bytes:
    if window.size > TEXT_BYTES_MAX:
        raise PeerError(f"{window.size} bytes are too many for a file of this kind")
    return bytes(window.read(0, window.size))
