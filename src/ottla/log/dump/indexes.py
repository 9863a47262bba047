"""The entries of a segment's two indexes, and whether the log agrees with them.

An entry of the offset index must point to the batch that ends with its offset, one of the time index name the last offset and the largest
timestamp of a batch. Kafka keeps the index of a segment that is written to at full size: zeros behind the last entry are no entries.
"""

from collections.abc import Iterator
from itertools import count
from struct import Struct
from typing import Final

from ottla.storage.dump.batches import Ends, read_ends
from ottla.storage.dump.items import DumpOptions, Entry, FindingItem, Item, Note
from ottla.storage.dump.window import WINDOW_BYTES, Window
from ottla.storage.log.index import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES

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
