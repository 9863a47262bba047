"""DescribeLogDirs (35), v1-5: where this broker keeps its partitions, how large each is, and how full the disk is.

Version notes: v3+ has an error for the whole; v4+ the disk's size and what is free (KIP-827); v5+ says whether a directory takes new
partitions (KIP-1066), which ours always does. Null topics ask for all. There is one directory, or the memory of the process. A partition
that nobody uses is measured by its files, in another thread, and not opened.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from ottla.broker.api import NO_THROTTLE_MS, Api, Request
from ottla.broker.request_scheduler import Work
from ottla.core.errors import ErrorCode, StorageError
from ottla.core.model import TopicPartition
from ottla.storage.files import Files, OsFiles
from ottla.storage.segment import LOG_SUFFIX

if TYPE_CHECKING:
    from ottla.broker.node import Node

Volume = tuple[str, int, int]
"""A directory's absolute path, the bytes of its disk, and those that are free."""
MEMORY: Volume = ("memory", -1, -1)
"""How a broker without a data directory is named; -1: Kafka's word for a size that is not known."""

PIECE: Final = 512
"""So many partitions are read before other requests continue: some tenths of a millisecond."""


def handle(node: "Node", request: Request) -> None:
    """Answers when the files have been measured."""
    node.cluster.scheduler.run(request, _measure(node, request))


def _measure(node: "Node", request: Request) -> Work:
    names: dict[TopicPartition, None] = {}
    for name in _all(node) if request.message.topics is None else _asked(node, request.message.topics):
        names[name] = None
        if len(names) % PIECE == 0:
            yield
    sizes_bytes: dict[TopicPartition, int] = {}
    for partition in tuple(node.cluster.partitions.opened()):
        sizes_bytes[partition.name] = partition.log.size_bytes
        if len(sizes_bytes) % PIECE == 0:
            yield
    unmeasured = set()
    for count, (topic, number) in enumerate(node.cluster.partitions.all()):
        if (name := TopicPartition(topic.name, number)) in names and name not in sizes_bytes:
            unmeasured.add(name)
        if count % PIECE == 0:
            yield
    looking = asyncio.get_running_loop().run_in_executor(None, _look, node.cluster.files, unmeasured)

    def answer(done: "asyncio.Future[tuple[Volume, dict[TopicPartition, int]]]") -> None:
        try:
            volume, measured = done.result()
        except StorageError as error:
            path = node.cluster.files.absolute("").rstrip("/") if isinstance(node.cluster.files, OsFiles) else MEMORY[0]
            result = {"error_code": error.code, "topics": []} | _volume((path, -1, -1))
        else:
            result = {"error_code": ErrorCode.NONE, "topics": _topics(names, sizes_bytes, measured)} | _volume(volume)
        values = {"throttle_time": NO_THROTTLE_MS, "error_code": ErrorCode.NONE, "results": [result]}
        node.cluster.scheduler.run(request, request.reply_in_pieces(values))

    looking.add_done_callback(request.guarded(answer))


def _all(node: "Node") -> Iterator[TopicPartition]:
    for topic in tuple(node.cluster.catalogue.topics.values()):
        for number, home in enumerate(topic.homes):
            if node.id in home.replicas:
                yield TopicPartition(topic.name, number)


def _asked(node: "Node", topics: Iterable[Any]) -> Iterator[TopicPartition]:
    for asked in topics:
        topic = node.cluster.catalogue.topics.get(asked.topic)
        for number in asked.partitions if topic else ():
            if topic and number in range(len(topic.homes)) and node.id in topic.homes[number].replicas:
                yield TopicPartition(topic.name, number)


def _volume(volume: Volume) -> dict[str, Any]:
    path, total_bytes, usable_bytes = volume
    return {"log_dir": path, "total_bytes": total_bytes, "usable_bytes": usable_bytes, "is_cordoned": False}


def _look(files: Files, unmeasured: Iterable[TopicPartition]) -> tuple[Volume, dict[TopicPartition, int]]:
    """Runs in a worker thread. Raises StorageError when the directory itself cannot be looked at."""
    volume = files.volume() if isinstance(files, OsFiles) else MEMORY
    return volume, {name: _size_bytes(files, f"{name.topic}-{name.partition}") for name in unmeasured}


def _size_bytes(files: Files, directory: str) -> int:
    total = 0
    for name in files.list(directory):
        if name.endswith(LOG_SUFFIX):
            try:
                total += files.size(f"{directory}/{name}")
            except StorageError:  # retention or a deletion took it meanwhile
                continue
    return total


def _topics(
    names: Iterable[TopicPartition], opened: Mapping[TopicPartition, int], unused: Mapping[TopicPartition, int]
) -> Iterator[dict[str, Any] | None]:
    topics: dict[str, list[TopicPartition]] = defaultdict(list)
    for count, name in enumerate(names):
        topics[name.topic].append(name)
        if count % PIECE == 0:
            yield None
    for topic, partitions in topics.items():
        yield {
            "name": topic,
            "partitions": (
                {
                    "partition_index": name.partition,
                    "partition_size": opened.get(name) or unused.get(name, 0),
                    "offset_lag": 0,
                    "is_future_key": False,
                }
                for name in partitions
            ),
        }


API = Api(key=35, versions=range(1, 6), handle=handle)
