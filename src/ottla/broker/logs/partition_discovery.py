"""Which partitions a data directory holds, by the names of its directories; and which the checkpoints know and the disk has lost."""

import logging
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from ottla.broker.logs.offset_checkpoints import OffsetCheckpoints
from ottla.core.metadata.topics import Topic
from ottla.core.model import TopicPartition

log = logging.getLogger(__name__)

_NAMED_MAX: Final = 10


class FoundPartitions(NamedTuple):
    """`partitions` of present topics; `unknown`: directories of none. `names`: of both, since a topic of that name may be created later."""

    partitions: list[tuple[Topic, int]]
    unknown: list[str]
    names: set[TopicPartition]


def find_partitions(directories: Iterable[str], topics: Mapping[str, Topic]) -> FoundPartitions:
    """The partitions among these directory names (`<topic>-<number>`)."""
    found = FoundPartitions([], [], set())
    for directory in directories:
        topic_name, _, number = directory.rpartition("-")
        topic = topics.get(topic_name)
        if topic is not None and number.isdecimal() and int(number) < len(topic.leaders):
            found.partitions.append((topic, int(number)))
        else:
            found.unknown.append(directory)
        if number.isdecimal():
            found.names.add(TopicPartition(topic_name, int(number)))
    return found


def log_missing(checkpoints: OffsetCheckpoints, topics: Mapping[str, Topic], names: set[TopicPartition]) -> None:
    """Log which partitions of present topics had durable records and have no directory: most are opened much later, or never.

    They are added to `names`, the partitions that have files.
    """
    without_files = sorted(checkpoints.names() - names)
    missing = [name for name in without_files if name.topic in topics and checkpoints.holds_records(name)]
    names.update(name for name in without_files if name.topic in topics)
    if missing:
        some = ", ".join(f"{topic}-{number}" for topic, number in missing[:_NAMED_MAX]) + (", ..." if len(missing) > _NAMED_MAX else "")
        log.error("%d partitions had records when they were last synced, and their directories are gone: %s", len(missing), some)
