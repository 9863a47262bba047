"""The partition folders of one topic (`TOPIC-N`) in a directory, and the batches in them, for reading alone.

The folders may be copies, of Ottla's or Apache Kafka's data directory, made while a broker wrote to them: what is damaged is counted and
skipped, and a file ends where no whole batch begins.
"""

import re
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ottla.core.errors import PeerError, StorageError
from ottla.core.records.batch import DECOMPRESSED_BYTES_MAX, MAGIC, crc_is_valid, read_header
from ottla.core.records.merged_batches import Batch
from ottla.storage.checkpoints import METADATA_FILE, decode_partition_metadata
from ottla.storage.dump.batches import read_start
from ottla.storage.dump.window import Window
from ottla.storage.log.file_names import LOG_SUFFIX, file_name, offsets_of
from ottla.storage.log.segment_facts import Readable

_FOLDER: Final = re.compile(r"([a-zA-Z0-9._-]{1,249})-(\d{1,10})")
_METADATA_BYTES_MAX: Final = 4096


@dataclass(slots=True)
class FolderProblems:
    """`damaged_batches`: of a wrong checksum, an old format, or too large. `torn_bytes`: behind the last whole batch of a file.

    `unreadable_files`: those that the system refuses, and why.
    """

    damaged_batches: int = 0
    torn_bytes: int = 0
    unreadable_files: tuple[str, ...] = ()


def partition_of(name: str, topic: str) -> int | None:
    """The partition whose folder has this name; None for a folder of another topic, or one that a broker is deleting."""
    matched = _FOLDER.fullmatch(name)
    return int(matched[2]) if matched is not None and matched[1] == topic else None


def find_partitions(files: Readable, topic: str) -> dict[int, str]:
    """The folders of a topic's partitions, by their numbers. Raises StorageError."""
    found = {partition_of(name, topic): name for name in files.list("")}
    return {partition: name for partition, name in sorted(found.items(), key=lambda each: each[1]) if partition is not None}


def topic_names(files: Readable) -> dict[str, str]:
    """The topics of a data directory: ids, as 22 letters of base64, to names. Raises StorageError."""
    names: dict[str, str] = {}
    named: set[str] = set()
    for folder in files.list(""):
        matched, path = _FOLDER.fullmatch(folder), f"{folder}/{METADATA_FILE}"
        if matched is None or matched[1] in named or not files.exists(path):
            continue
        topic_id = decode_partition_metadata(files.read_range(path, 0, _METADATA_BYTES_MAX))
        if topic_id is not None:
            names[urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")] = matched[1]
            named.add(matched[1])
    return names


def read_batches(files: Readable, folder: str, problems: FolderProblems) -> Iterator[Batch]:
    """Every sound batch in a folder's segments, in the order of their offsets."""
    for base_offset in offsets_of(files.list(folder), LOG_SUFFIX):
        path = f"{folder}/{file_name(base_offset, LOG_SUFFIX)}"
        try:
            yield from _read_segment(Window(files, path), problems)
        except StorageError as error:
            problems.unreadable_files += (str(error),)


def _read_segment(window: Window, problems: FolderProblems) -> Iterator[Batch]:
    position = 0
    while (start := read_start(window, position)) is not None:
        batch = _read_batch(window, position, start.size_bytes) if start.magic == MAGIC else None
        if batch is None:
            problems.damaged_batches += 1
        else:
            yield batch
        position += start.size_bytes
    problems.torn_bytes += window.size - position


def _read_batch(window: Window, position: int, size_bytes: int) -> Batch | None:
    if size_bytes > DECOMPRESSED_BYTES_MAX:
        return None
    data = bytes(window.read(position, size_bytes))
    try:
        header = read_header(data)
    except PeerError:
        return None
    return Batch(header, data) if crc_is_valid(data, 0, size_bytes) else None
