"""Offsets, leader epoch and the topic's kind of timestamp, written into batches in place; and the broker's own batches, taken apart.

Base offset and leader epoch lie outside the checksum; with a changed timestamp the checksum is computed again. Nothing is appended here.
"""

from struct import Struct
from typing import Final

from ottla.core.errors import ErrorCode, PeerError
from ottla.core.records.batch import HEADER, LEADER_EPOCH_AT, LOG_APPEND_TIME_BIT, BatchHeader, crc_is_valid, seal, split_batches
from ottla.storage.log.settings import LogSettings
from ottla.storage.log.validation import LogRefusal

_INT32: Final = Struct(">i")
_INT64: Final = Struct(">q")


def own_batches(view: memoryview) -> list[BatchHeader] | LogRefusal:
    """The headers of whole, sound batches that fill `view`, for what the broker itself appends."""
    try:
        found = list(split_batches(view))
    except PeerError as error:
        return LogRefusal(ErrorCode.CORRUPT_MESSAGE, str(error))
    if not found or sum(header.size_bytes for _, header in found) != len(view):
        return LogRefusal(ErrorCode.CORRUPT_MESSAGE, f"{len(view)} bytes are no whole record batches")
    for at, header in found:
        if not crc_is_valid(view, at, header.size_bytes):
            return LogRefusal(ErrorCode.CORRUPT_MESSAGE, f"Record batch is corrupt (stored crc = {header.crc})")
    return [header for _, header in found]


def assign(
    view: memoryview, headers: list[BatchHeader], *, offset: int, leader_epoch: int, settings: LogSettings, now_ms: int
) -> list[BatchHeader]:
    """Number the batches that fill `view` from `offset` on; their headers as they are then."""
    at, is_broker_time, stored = 0, settings.is_log_append_time, []
    for header in headers:
        _INT64.pack_into(view, at, offset)
        _INT32.pack_into(view, at + LEADER_EPOCH_AT, leader_epoch)
        header = header._replace(base_offset=offset, leader_epoch=leader_epoch)
        if is_broker_time or header.is_log_append_time:
            attributes = header.attributes & ~LOG_APPEND_TIME_BIT | is_broker_time * LOG_APPEND_TIME_BIT
            header = header._replace(attributes=attributes, max_timestamp_ms=now_ms if is_broker_time else header.max_timestamp_ms)
            HEADER.pack_into(view, at, *header)
            seal(view[at : at + header.size_bytes])
        stored.append(header)
        at += header.size_bytes
        offset = header.next_offset
    return stored
