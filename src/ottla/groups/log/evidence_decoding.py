"""Decoding of the offsets topic for diagnosis: commits as small tuples, all other records as the codec gives them.

Groups commit to the same partitions again and again, so keys of commits are cached.
"""

from dataclasses import replace
from typing import Final

from ottla.groups.log.records import OFFSET_KEYS, checked_group, decode_offset_value
from ottla.protocol.coordinator_records import OFFSET_VALUE, GroupMetadataValue, decode_offsets_record
from ottla.protocol.errors import PeerError
from ottla.protocol.model import OffsetCommit
from ottla.protocol.record_codec import NO_ID, DecodedRecord, UnknownRecord, uuid_text
from ottla.protocol.wire.primitives import Reader

CONSUMER_GROUP_TYPES: Final = frozenset({2, 3, 4, 5, 6, 7, 8, 16})
"""Classic groups and those of KIP-848. Records of share and streams groups are recognised by their number alone."""
_KEYS_MAX: Final = 1_000_000


def _decode_other(record_type: int, key: bytes, value: bytes | None) -> DecodedRecord | UnknownRecord:
    if record_type not in CONSUMER_GROUP_TYPES:
        return UnknownRecord(record_type, None)
    record = decode_offsets_record(key, value)
    if isinstance(record, DecodedRecord) and isinstance(record.value, GroupMetadataValue):
        return replace(record, value=checked_group(record.value))
    return record


class EvidenceDecoder:
    """Decodes one record after another; `decode` raises PeerError for bytes that are no record of the offsets topic."""

    def __init__(self) -> None:
        self._keys: dict[bytes, tuple[str, str, int]] = {}

    def decode(self, key: bytes | None, value: bytes | None) -> OffsetCommit | DecodedRecord | UnknownRecord:
        """The record's values; an UnknownRecord for those of other group types, and of types and versions that do not exist yet."""
        if key is None:
            raise PeerError("a record of the offsets topic has no key")
        target = self._keys.get(key)
        if target is None:
            record_type = Reader(key).int16()
            if record_type not in OFFSET_KEYS:
                return _decode_other(record_type, key, value)
            target = self._key(key)
        if value is None:
            return OffsetCommit(*target, None, "")
        if not 0 <= int.from_bytes(value[:2], signed=True) <= OFFSET_VALUE.version_max:
            return UnknownRecord(int.from_bytes(key[:2]), int.from_bytes(value[:2], signed=True))
        committed = decode_offset_value(value)
        return OffsetCommit(*target, committed.offset, "" if committed.topic_id == NO_ID else uuid_text(committed.topic_id))

    def _key(self, key: bytes) -> tuple[str, str, int]:
        reader = Reader(key)
        reader.skip(2)
        target = (reader.string(), reader.string(), reader.int32())
        if len(self._keys) >= _KEYS_MAX:
            self._keys.clear()
        self._keys[key] = target
        return target
