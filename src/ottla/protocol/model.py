"""Small values that all packages share: records, and the names of partitions."""

from typing import Final, NamedTuple

TAGGED_FIELDS_MAX: Final = 100
"""In one structure of a message (KIP-482). Kafka's own have at most 5; a section of millions would take seconds to skip."""


class TopicPartition(NamedTuple):
    """One partition of a topic, by name and number."""

    topic: str
    partition: int


class Header(NamedTuple):
    """One record header; the value may be null."""

    key: str
    value: bytes | None


class Record(NamedTuple):
    """One record: `offset` is absolute, `timestamp_ms` is milliseconds since 1970 (-1: none)."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


class OffsetCommit(NamedTuple):
    """An offset that a group committed, as a record of the offsets topic has it; `offset` None: it was deleted or expired.

    `topic_id`: 22 letters of base64, "" where the record has none.
    """

    group: str
    topic: str
    partition: int
    offset: int | None
    topic_id: str
