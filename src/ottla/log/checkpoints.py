"""Names of a log's files, and Kafka's small text files, text <-> values.

A name is the base offset (or, of a snapshot, its offset) in twenty digits, and a suffix for the kind of file. The text files are
`leader-epoch-checkpoint` and `partition.metadata` of a partition, and the checkpoints of a data directory, which hold one offset a
partition.

No file is touched here. Text that is not exactly such a file gives None, and the log rewrites it.
"""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Final, NamedTuple
from uuid import UUID

from ottla.protocol.model import TopicPartition

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TRANSACTION_INDEX_SUFFIX: Final = ".txnindex"
SNAPSHOT_SUFFIX: Final = ".snapshot"
SEGMENT_SUFFIXES: Final = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)
"""The log comes first, since it is the log that makes a segment."""
_DIGITS: Final = 20

LEADER_EPOCHS_FILE: Final = "leader-epoch-checkpoint"
METADATA_FILE: Final = "partition.metadata"
META_PROPERTIES: Final = "meta.properties"
RECOVERY_POINT_FILE: Final = "recovery-point-offset-checkpoint"
LOG_START_FILE: Final = "log-start-offset-checkpoint"
HIGH_WATERMARK_FILE: Final = "replication-offset-checkpoint"
CLEANER_FILE: Final = "cleaner-offset-checkpoint"
CLEAN_SHUTDOWN_FILE: Final = ".kafka_cleanshutdown"
_VERSION: Final = "0"
_METADATA: Final = re.compile(rb"version: \d+\ntopic_id: ([A-Za-z0-9_-]{22})\n?")


def file_name(offset: int, suffix: str) -> str:
    """The name of the file with this offset, without its directory."""
    return f"{offset:020d}{suffix}"


def offset_of(name: str) -> int | None:
    """The offset that a file name begins with; None when it begins otherwise."""
    digits = name[:_DIGITS]
    return int(digits) if len(digits) == _DIGITS and digits.isascii() and digits.isdigit() else None


def offsets_of(names: Iterable[str], suffix: str) -> list[int]:
    """The offsets of the names with exactly this suffix, in rising order."""
    found = (offset_of(name) for name in names if name.endswith(suffix) and len(name) == _DIGITS + len(suffix))
    return sorted(offset for offset in found if offset is not None)


class EpochStart(NamedTuple):
    """A leader epoch and the first offset that was written in it."""

    epoch: int
    start_offset: int


def encode_leader_epochs(epochs: list[EpochStart]) -> bytes:
    """Version, count, then `epoch startOffset` lines."""
    lines = [_VERSION, str(len(epochs)), *(f"{epoch} {start_offset}" for epoch, start_offset in epochs)]
    return ("\n".join(lines) + "\n").encode()


def decode_leader_epochs(data: bytes) -> list[EpochStart] | None:
    """The epochs in rising order; None when the text is damaged."""
    try:
        version, count, *lines = data.decode("ascii").splitlines()
        epochs = [EpochStart(*map(int, line.split(" "))) for line in lines]
        is_whole = version == _VERSION and int(count) == len(epochs)
    except (ValueError, TypeError):
        return None
    rises = all(before.epoch < after.epoch and before.start_offset <= after.start_offset for before, after in pairwise(epochs))
    return epochs if is_whole and rises else None


def encode_partition_metadata(topic_id: UUID) -> bytes:
    """The topic's id (base64 for URLs, without padding), so that a directory is never taken for that of a later topic of the same name."""
    return f"version: {_VERSION}\ntopic_id: ".encode() + urlsafe_b64encode(topic_id.bytes).rstrip(b"=")


def decode_partition_metadata(data: bytes) -> UUID | None:
    """The topic's id; None when the text is damaged."""
    found = _METADATA.fullmatch(data)
    return UUID(bytes=urlsafe_b64decode(found[1] + b"==")) if found else None


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    """A directory's checkpoint: version, count, then `topic partition offset` lines."""
    lines = [_VERSION, str(len(offsets)), *(f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items())]
    return ("\n".join(lines) + "\n").encode()


def decode_offsets(data: bytes) -> dict[TopicPartition, int] | None:
    """The offsets of a directory's checkpoint; None when the text is damaged. Kafka leaves a file empty until there is an offset."""
    if not data:
        return {}
    try:
        version, count, *lines = data.decode("ascii").splitlines()
        split = [line.split(" ") for line in lines]
        offsets = {TopicPartition(topic, int(partition)): int(offset) for topic, partition, offset in split}
        is_whole = version == _VERSION and int(count) == len(offsets) == len(lines)
    except ValueError:
        return None
    return offsets if is_whole and all(offset >= 0 for offset in offsets.values()) else None
