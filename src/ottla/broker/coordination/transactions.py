"""What brokers do for transactions: questions to the coordinator of a transactional id, and the markers that end a transaction.

The brokers of a process share an event loop and the logs, so a marker goes from the coordinator's broker straight into the partition's log,
whichever broker leads it. Sources: KIP-98, KIP-890, Kafka's `TransactionMarkerChannelManager`.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.broker.cluster.topics import Topics
from ottla.broker.coordination.coordinators import ClusterCoordinators
from ottla.broker.coordination.groups import CoordinatorRouter
from ottla.broker.network.request import Request as ClientRequest
from ottla.broker.partitions.partitions import NotOpen, Partitions
from ottla.coordinator.coordinator import CoordinatorStatus
from ottla.coordinator.effects import Producer
from ottla.coordinator.loop import CoordinatorLoop
from ottla.coordinator.placement import coordinator_partition
from ottla.groups.coordinator import GroupCoordinator
from ottla.log.append import LogRefusal
from ottla.metadata.cluster_metadata import ClusterMetadata
from ottla.metadata.topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from ottla.protocol.errors import ErrorCode, StorageError
from ottla.protocol.model import TopicPartition
from ottla.protocol.records.control import ControlType, EndMarker
from ottla.protocol.wire.api_keys import ApiKey
from ottla.text import printable
from ottla.transactions.commands import (
    AddPartitions,
    CompleteTransaction,
    MarkersDue,
    PartitionsResult,
    Request,
    Result,
    VerifyPartitions,
    error_result,
)
from ottla.transactions.coordinator import TransactionCoordinator

log = logging.getLogger(__name__)

RETRY_S: Final = 0.1
MARKERS_AT_ONCE: Final = 64
"""So many markers are written before other requests continue."""

WriteMarker = Callable[[MarkersDue, TopicPartition], ErrorCode]
"""Writes the marker of one partition, and says how that went."""

_AGAIN: Final = frozenset(
    {ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR}
)
_GIVEN_UP: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})


class TransactionalIds:
    """The transactional ids of all brokers of a process, for those who ask and must know at once: Produce and TxnOffsetCommit.

    `verifications`: requests that asked for partitions, since the start; `unverified`: partitions for which they were refused.
    """

    def __init__(
        self,
        *,
        topics: Topics,
        coordinators: ClusterCoordinators[TransactionCoordinator],
        routers: Mapping[int, CoordinatorRouter[TransactionCoordinator]],
    ) -> None:
        self.verifications = self.unverified = 0
        self._topics = topics
        self._coordinators = coordinators
        self._routers = routers

    def ask(self, transactional_id: str, command: Callable[[int], Request]) -> Result:
        """The result of a request, whose records are in the log then. `command` gets the `reply_to`."""
        topic = self._topics.get(TRANSACTION_STATE)
        if topic is None:
            return error_result(command(0), ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        number = coordinator_partition(transactional_id, len(topic.leaders))
        router = self._routers.get(topic.leaders[number])
        if router is None:
            return error_result(command(0), ErrorCode.COORDINATOR_NOT_AVAILABLE)
        results: list[Result] = []
        router.run(transactional_id, command(router.expect_reply(results.append)))
        if not results:
            router.coordinators.by_partition[number].flush()
        return results[0]

    def write_errors(
        self, transactional_id: str, producer: Producer, partitions: Sequence[TopicPartition], *, adds: bool, knows_abortable: bool
    ) -> dict[TopicPartition, ErrorCode]:
        """Whether the producer may write to each partition in its transaction (KIP-890), as those who ask the log name it.

        `adds`: those that are not in it are added, and are in the coordinator's log then. Without it they are TRANSACTION_ABORTABLE, or
        INVALID_TXN_STATE.
        """
        named: dict[str, Any] = {
            "transactional_id": transactional_id,
            "producer_id": producer.id,
            "producer_epoch": producer.epoch,
            "partitions": partitions,
        }
        result = self.ask(
            transactional_id,
            lambda reply_to: (
                AddPartitions(reply_to=reply_to, bumps_epoch=True, **named) if adds else VerifyPartitions(reply_to=reply_to, **named)
            ),
        )
        assert isinstance(result, PartitionsResult)
        missing = ErrorCode.TRANSACTION_ABORTABLE if knows_abortable else ErrorCode.INVALID_TXN_STATE
        error = ErrorCode.INVALID_PRODUCER_EPOCH if result.error is ErrorCode.PRODUCER_FENCED else result.error
        self.verifications += 1
        self.unverified += len(result.missing) if error is ErrorCode.NONE else len(partitions)
        return {name: missing if name in result.missing else error for name in partitions}

    def loop(self, transactional_id: str) -> CoordinatorLoop[TransactionCoordinator] | None:
        """The coordinator of an id, where it serves."""
        topic = self._topics.get(TRANSACTION_STATE)
        if topic is None:
            return None
        number = coordinator_partition(transactional_id, len(topic.leaders))
        loops = self._coordinators.by_broker.get(topic.leaders[number])
        loop = None if loops is None else loops.by_partition.get(number)
        return loop if loop is not None and loop.coordinator.status is CoordinatorStatus.ACTIVE else None


@dataclass(slots=True)
class _Ending:
    """One transaction whose markers are being written; `left` loses each partition that has its marker.

    `refused`: those that refused it for good. With one, the transaction stays as it is until its coordinator is loaded anew.
    """

    due: MarkersDue
    left: list[TopicPartition]
    refused: list[TopicPartition] = field(default_factory=list)


class TransactionMarkers:
    """Writes the markers of ended transactions, and says to their coordinators when all are there.

    `committed` and `aborted` count those that are complete, since the start.
    """

    def __init__(
        self,
        *,
        transactional_ids: TransactionalIds,
        topics: Topics,
        partitions: Partitions,
        clock: Callable[[], int],
        write_offsets_marker: WriteMarker,
    ) -> None:
        self._transactional_ids = transactional_ids
        self._topics = topics
        self._partitions = partitions
        self._clock = clock
        self._write_offsets_marker = write_offsets_marker
        self.committed = self.aborted = 0
        self._endings: dict[str, _Ending] = {}
        self._is_scheduled = False

    @property
    def markers_waiting(self) -> int:
        """Markers that are not written yet."""
        return sum(len(ending.left) for ending in self._endings.values())

    @property
    def ends_waiting(self) -> int:
        """Transactions whose markers are written, and whose last record is not."""
        return sum(not ending.left and not ending.refused for ending in self._endings.values())

    def without_marker(self, transactional_id: str) -> list[TopicPartition] | None:
        """The partitions of an ending transaction that do not have its marker yet; None where no transaction of the id is ending."""
        ending = self._endings.get(transactional_id)
        return None if ending is None else [*ending.left, *ending.refused]

    def take(self, events: tuple[MarkersDue, ...]) -> None:
        """Ended transactions: their markers are written in the next iterations of the event loop."""
        for due in events:
            self._endings[due.transactional_id] = _Ending(due, list(due.partitions))
        self._write_soon()

    def _write_soon(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._write)

    def _write(self) -> None:
        """Write some markers; what is left comes in the next iteration, or later where a partition cannot take its marker now."""
        self._is_scheduled = False
        again: dict[str, list[TopicPartition]] = {}
        is_refused = False
        for count, (ending, name) in enumerate(self._next(), 1):
            due = ending.due
            try:
                error = self._write_one(due, name)
            except NotOpen as not_open:
                not_open.opening.add_done_callback(lambda _: self._write_soon())
                again.setdefault(due.transactional_id, []).append(name)
                continue
            if error in _AGAIN:
                again.setdefault(due.transactional_id, []).append(name)
                is_refused = True
            elif error in _GIVEN_UP:
                line = "Sending %s's transaction marker for partition %s-%d has permanently failed with error %s with the current"
                log.info(f"{line} coordinator epoch %d", printable(due.transactional_id), *name, error.name, due.coordinator_epoch)
                ending.refused.append(name)
            if count == MARKERS_AT_ONCE:
                self._write_soon()
                break
        if is_refused:
            asyncio.get_running_loop().call_later(RETRY_S, self._write_soon)
        for transactional_id, names in again.items():
            if transactional_id in self._endings:
                self._endings[transactional_id].left += names
        for ending in [ending for ending in self._endings.values() if not ending.left and not ending.refused]:
            self._complete(ending.due)

    def _next(self) -> Iterator[tuple[_Ending, TopicPartition]]:
        for ending in list(self._endings.values()):
            if not self._is_current(ending.due):
                del self._endings[ending.due.transactional_id]  # another coordinator finishes it
                continue
            for _ in range(len(ending.left)):
                yield ending, ending.left.pop(0)

    def _is_current(self, due: MarkersDue) -> bool:
        loop = self._transactional_ids.loop(due.transactional_id)
        return loop is not None and loop.coordinator.leader_epoch == due.coordinator_epoch

    def _write_one(self, due: MarkersDue, name: TopicPartition) -> ErrorCode:
        """Raises NotOpen."""
        topic = self._topics.get(name.topic)
        if topic is None or not 0 <= name.partition < len(topic.leaders):
            line = "Couldn't find leader endpoint for partitions %s-%d while trying to send transaction markers for %s, these partitions"
            log.info(f"{line} are likely deleted already and hence can be skipped", *name, printable(due.transactional_id))
            return ErrorCode.NONE
        if topic.name == CONSUMER_OFFSETS:
            return self._write_offsets_marker(due, name)
        try:
            partition = self._partitions.get(topic, name.partition)
            assert partition is not None, "a number below the topic's partitions"
            outcome = partition.append_marker(
                end_marker(due),
                producer_id=due.producer_id,
                producer_epoch=due.producer_epoch,
                is_bumped=due.bumps_epoch,
                now_ms=self._clock(),
            )
        except NotOpen:
            raise
        except StorageError:
            return ErrorCode.KAFKA_STORAGE_ERROR
        return outcome.error if isinstance(outcome, LogRefusal) else ErrorCode.NONE

    def _complete(self, due: MarkersDue) -> None:
        """Have the coordinator complete the transaction; again later, where its record cannot be appended now."""
        loop = self._transactional_ids.loop(due.transactional_id)
        if loop is not None and loop.coordinator.leader_epoch == due.coordinator_epoch:
            with suppress(Exception):  # the coordinator is loaded again then, and its markers are written again
                loop.run(
                    CompleteTransaction(
                        transactional_id=due.transactional_id, producer_id=due.producer_id, producer_epoch=due.producer_epoch
                    )
                )
            if loop.coordinator.is_ending(due):
                asyncio.get_running_loop().call_later(RETRY_S, self._write_soon)
                return
            self.committed += due.commits
            self.aborted += not due.commits
            if log.isEnabledFor(logging.DEBUG):
                outcome = "Committed" if due.commits else "Aborted"
                line = "%s the transaction of transactionalId %s: producerId %d, producer epoch %d, %d partitions, coordinator epoch %d"
                named = (due.producer_id, due.producer_epoch, len(due.partitions), due.coordinator_epoch)
                log.debug(line, outcome, printable(due.transactional_id), *named)
        del self._endings[due.transactional_id]


def end_marker(due: MarkersDue) -> EndMarker:
    """The marker that ends a transaction."""
    return EndMarker(ControlType.COMMIT if due.commits else ControlType.ABORT, due.coordinator_epoch)


class TransactionRouter(CoordinatorRouter[TransactionCoordinator]):
    """The transactional ids of one broker, as its API handlers reach them."""


_FIRST_VERSION_WITH_FENCED: Final = {
    ApiKey.INIT_PRODUCER_ID: 4,
    ApiKey.ADD_PARTITIONS_TO_TXN: 2,
    ApiKey.ADD_OFFSETS_TO_TXN: 2,
    ApiKey.END_TXN: 2,
}


def known_error(request: ClientRequest, error: ErrorCode) -> ErrorCode:
    """A coordinator's error as the request's version has it: before PRODUCER_FENCED, a fenced producer got INVALID_PRODUCER_EPOCH."""
    is_too_old = error is ErrorCode.PRODUCER_FENCED and request.version < _FIRST_VERSION_WITH_FENCED[ApiKey(request.key)]
    return ErrorCode.INVALID_PRODUCER_EPOCH if is_too_old else error


class OffsetsMarkers:
    """Markers in partitions of the offsets topic: their group coordinators write them, and apply what they end."""

    def __init__(self, coordinators: ClusterCoordinators[GroupCoordinator], cluster_metadata: ClusterMetadata) -> None:
        self._coordinators = coordinators
        self._cluster_metadata = cluster_metadata

    def __call__(self, due: MarkersDue, name: TopicPartition) -> ErrorCode:
        leaders = self._cluster_metadata.topics[name.topic].leaders
        loops = self._coordinators.by_broker.get(leaders[name.partition])
        loop = None if loops is None else loops.get(name.partition)
        if loop is None or loop.coordinator.status is not CoordinatorStatus.ACTIVE:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return loop.end_transaction(
            end_marker(due), producer_id=due.producer_id, producer_epoch=due.producer_epoch, is_bumped=due.bumps_epoch
        )
