"""DescribeLogDirs (35), v1-5: where this broker keeps its partitions, how large each is, and how full the disk is.

Version notes: v3+ has an error for the whole; v4+ the disk's size and what is free (KIP-827); v5+ says whether a directory takes new
partitions (KIP-1066), which ours always does. Null topics ask for all. There is one directory, or the memory of the process. A partition
that nobody uses is measured by its files, in another thread, and not opened.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ottla.broker.api import NO_THROTTLE_MS, Api, Request
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


def handle(node: "Node", request: Request) -> None:
    """Answers when the files have been looked at."""
    asked = request.message.topics
    if asked is None:
        names = [
            TopicPartition(topic.name, number)
            for topic in node.cluster.catalogue.topics.values()
            for number, home in enumerate(topic.homes)
            if node.id in home.replicas
        ]
    else:
        names = [
            TopicPartition(topic.topic, number)
            for topic in asked
            if topic.topic in node.cluster.catalogue.topics
            for number in dict.fromkeys(topic.partitions)
            if number in range(len(homes := node.cluster.catalogue.topics[topic.topic].homes)) and node.id in homes[number].replicas
        ]
    sizes_bytes = {partition.name: partition.log.size_bytes for partition in node.cluster.partitions.opened()}
    unused = [TopicPartition(topic.name, number) for topic, number in node.cluster.partitions.all()]
    unmeasured = set(unused).intersection(names).difference(sizes_bytes)
    looking = asyncio.get_running_loop().run_in_executor(None, _look, node.cluster.files, unmeasured)

    def answer(done: "asyncio.Future[tuple[Volume, dict[TopicPartition, int]]]") -> None:
        try:
            volume, measured = done.result()
        except StorageError as error:
            path = node.cluster.files.absolute("").rstrip("/") if isinstance(node.cluster.files, OsFiles) else MEMORY[0]
            result = {"error_code": error.code, "topics": []} | _volume((path, -1, -1))
        else:
            result = {"error_code": ErrorCode.NONE, "topics": _topics(names, sizes_bytes | measured)} | _volume(volume)
        request.reply({"throttle_time": NO_THROTTLE_MS, "error_code": ErrorCode.NONE, "results": [result]})

    looking.add_done_callback(request.guarded(answer))


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


def _topics(names: Iterable[TopicPartition], sizes_bytes: dict[TopicPartition, int]) -> list[dict[str, Any]]:
    topics: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for name in names:
        size_bytes = sizes_bytes.get(name, 0)
        part = {"partition_index": name.partition, "partition_size": size_bytes, "offset_lag": 0, "is_future_key": False}
        topics[name.topic].append(part)
    return [{"name": topic, "partitions": parts} for topic, parts in topics.items()]


API = Api(key=35, versions=range(1, 6), handle=handle)
