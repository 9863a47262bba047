"""ElectLeaders (43), v0-2: makes the preferred leaders of partitions their leaders (KIP-183), or any replica where there is none (KIP-460).

Version notes: v0 elects preferred leaders only; v1+ names the type of election, and has a top-level error; v2+ is flexible. Null topics
mean all partitions; then those that need no election are left out. All replicas share the log: an unclean election loses nothing.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby, islice
from typing import Any, Final

from ottla.broker.cluster.leadership import Changed, Decide, Leadership
from ottla.broker.network.request import NO_THROTTLE_MS, Access, Api, Request
from ottla.broker.network.scheduling import RequestScheduler, Work
from ottla.metadata.cluster_metadata import ClusterMetadata
from ottla.metadata.leadership import elect_leader
from ottla.protocol.errors import ApiError, ErrorCode
from ottla.protocol.model import TopicPartition
from ottla.protocol.wire.api_keys import ApiKey
from ottla.security.access import Operation, ResourceType

PREFERRED: Final = 0
UNCLEAN: Final = 1


def handle(request: Request, *, cluster_metadata: ClusterMetadata, leadership: Leadership, scheduler: RequestScheduler) -> None:
    """Answer with one result a partition, when the elections are done: some hundred partitions change at once."""
    scheduler.run(request, _answer(cluster_metadata, leadership, request))


def _answer(cluster_metadata: ClusterMetadata, leadership: Leadership, request: Request) -> Work:
    asked = request.message.topic_partitions
    kind = getattr(request.message, "election_type", PREFERRED)
    error = ErrorCode.NONE
    results: Iterator[dict[str, Any]] = iter(())
    if kind in (PREFERRED, UNCLEAN):
        names = _all(cluster_metadata) if asked is None else _asked(asked)
        changed = yield from leadership.change_in_pieces(_decisions(cluster_metadata, names, unclean=kind == UNCLEAN))
        results = _results_of_all(changed) if asked is None else _results(asked, (refused for _, refused in changed))
    elif asked is None or asked:
        error = ErrorCode.INVALID_REQUEST
        refusal = ApiError(error, f"Unknown election type {kind}")
        results = _results(asked or (), (refusal for _ in _asked(asked or ())))
    yield from request.reply_in_pieces({"throttle_time": NO_THROTTLE_MS, "error_code": error, "replica_election_results": results})


def _all(cluster_metadata: ClusterMetadata) -> Iterator[TopicPartition]:
    for topic in tuple(cluster_metadata.topics.values()):
        for number in range(len(topic.leaders)):
            yield TopicPartition(topic.name, number)


def _asked(asked: Iterable[Any]) -> Iterator[TopicPartition]:
    return (TopicPartition(topic.topic, number) for topic in asked for number in topic.partitions)


def _decisions(
    cluster_metadata: ClusterMetadata, names: Iterable[TopicPartition], *, unclean: bool
) -> Iterator[tuple[TopicPartition, Decide]]:
    return ((name, partial(elect_leader, cluster_metadata, name.topic, name.partition, unclean=unclean)) for name in names)


def _results(asked: Sequence[Any], refused: Iterator[ApiError | None]) -> Iterator[dict[str, Any]]:
    for topic in asked:
        partitions = zip(topic.partitions, islice(refused, len(topic.partitions)), strict=True)
        yield {"topic": topic.topic, "partition_result": (_result(*each) for each in partitions)}


def _results_of_all(changed: Changed) -> Iterator[dict[str, Any]]:
    for topic, group in groupby(changed, key=lambda each: each[0].topic):
        yield {"topic": topic, "partition_result": _needed(group)}


def _needed(group: Iterable[tuple[TopicPartition, ApiError | None]]) -> Iterator[dict[str, Any]]:
    for name, refused in group:
        if refused is None or refused.error is not ErrorCode.ELECTION_NOT_NEEDED:
            yield _result(name.partition, refused)


def _result(number: int, refused: ApiError | None) -> dict[str, Any]:
    return {
        "partition_id": number,
        "error_code": refused.error if refused else ErrorCode.NONE,
        "error_message": refused.message if refused else None,
    }


def _refuse(request: Request, error: ErrorCode) -> None:
    """Version 0 has no error of its own: Kafka answers it without results too."""
    request.reply({"throttle_time": NO_THROTTLE_MS, "error_code": error, "replica_election_results": ()})


API = Api(
    key=ApiKey.ELECT_LEADERS, versions=range(3), handle=handle, access=(Access(Operation.ALTER, ResourceType.CLUSTER, refuse=_refuse),)
)
