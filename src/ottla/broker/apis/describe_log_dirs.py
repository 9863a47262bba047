"""DescribeLogDirs (35), v1-5: the broker's log directory, the size of each partition, and the free space of the disk.

Version notes: v3+ has a top-level error; v4+ the size of the disk and its free space (KIP-827); v5+ whether a directory accepts new
partitions (KIP-1066), always true here. Null topics request all. There is one directory, or the memory of the process. The size of a
partition that is not open is that of its files, read in another thread; the partition is not opened.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from ottla.broker.cluster.brokers import Node
from ottla.broker.network.request import NO_THROTTLE_MS, Access, Api, Request
from ottla.broker.network.scheduling import RequestScheduler, Work
from ottla.broker.partitions.partitions import Partitions
from ottla.log.checkpoints import LOG_SUFFIX
from ottla.log.file_system import Files
from ottla.log.files import OsFiles
from ottla.metadata.cluster_metadata import ClusterMetadata
from ottla.protocol.errors import ErrorCode, StorageError
from ottla.protocol.model import TopicPartition
from ottla.protocol.wire.api_keys import ApiKey
from ottla.security.access import Operation, ResourceType

Volume = tuple[str, int, int]
"""A directory's absolute path, the bytes of its disk, and those that are free."""
MEMORY: Volume = ("memory", -1, -1)
"""How a broker without a data directory is named; -1: a size that is not known, as in Kafka."""

PIECE: Final = 512
"""So many partitions are read before other requests continue: some tenths of a millisecond."""


def handle(
    request: Request, *, cluster_metadata: ClusterMetadata, files: Files, node: Node, partitions: Partitions, scheduler: RequestScheduler
) -> None:
    """Answer when the files have been measured."""
    scheduler.run(request, _measure(cluster_metadata, files, node, partitions, scheduler, request))


def _measure(
    cluster_metadata: ClusterMetadata, files: Files, node: Node, partitions: Partitions, scheduler: RequestScheduler, request: Request
) -> Work:
    names: dict[TopicPartition, None] = {}
    for name in _all(cluster_metadata, node) if request.message.topics is None else _asked(cluster_metadata, node, request.message.topics):
        names[name] = None
        if len(names) % PIECE == 0:
            yield
    sizes_bytes: dict[TopicPartition, int] = {}
    for partition in tuple(partitions.opened()):
        sizes_bytes[partition.name] = partition.log.size_bytes
        if len(sizes_bytes) % PIECE == 0:
            yield
    unmeasured = set()
    for count, (topic, number) in enumerate(partitions.all()):
        if (name := TopicPartition(topic.name, number)) in names and name not in sizes_bytes:
            unmeasured.add(name)
        if count % PIECE == 0:
            yield
    looking = asyncio.get_running_loop().run_in_executor(None, _look, files, unmeasured)

    def answer(done: "asyncio.Future[tuple[Volume, dict[TopicPartition, int]]]") -> None:
        try:
            volume, measured = done.result()
        except StorageError as error:
            path = files.absolute("").rstrip("/") if isinstance(files, OsFiles) else MEMORY[0]
            result = {"error_code": error.code, "topics": []} | _volume((path, -1, -1))
        else:
            result = {"error_code": ErrorCode.NONE, "topics": _topics(names, sizes_bytes, measured)} | _volume(volume)
        values = {"throttle_time": NO_THROTTLE_MS, "error_code": ErrorCode.NONE, "results": [result]}
        scheduler.run(request, request.reply_in_pieces(values))

    looking.add_done_callback(request.guarded(answer))


def _all(cluster_metadata: ClusterMetadata, node: Node) -> Iterator[TopicPartition]:
    for topic in tuple(cluster_metadata.topics.values()):
        for number, home in enumerate(topic.replica_assignments):
            if node.id in home.replicas:
                yield TopicPartition(topic.name, number)


def _asked(cluster_metadata: ClusterMetadata, node: Node, topics: Iterable[Any]) -> Iterator[TopicPartition]:
    for asked in topics:
        topic = cluster_metadata.topics.get(asked.topic)
        for number in asked.partitions if topic else ():
            if topic and number in range(len(topic.replica_assignments)) and node.id in topic.replica_assignments[number].replicas:
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


def _refuse(request: Request, error: ErrorCode) -> None:
    request.reply({"throttle_time": NO_THROTTLE_MS, "error_code": error, "results": ()})


API = Api(
    key=ApiKey.DESCRIBE_LOG_DIRS,
    versions=range(1, 6),
    handle=handle,
    access=(Access(Operation.DESCRIBE, ResourceType.CLUSTER, refuse=_refuse),),
)
