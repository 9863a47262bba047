"""An administrator's requests about transactions (KIP-664): to their coordinators, and to the leaders of the partitions they write to.

What holds a reader of committed records back at a partition's last stable offset is the open transaction with the first record there. The
leader knows its producer; the coordinators know which transactional id the producer has, since when it is open, and how long it may be.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, ClassVar, Final

from kio.schema.describe_producers.v0.request import DescribeProducersRequest, TopicRequest
from kio.schema.describe_producers.v0.response import DescribeProducersResponse
from kio.schema.describe_transactions.v0 import response as describe_response
from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.schema.init_producer_id.v4.request import InitProducerIdRequest
from kio.schema.init_producer_id.v4.response import InitProducerIdResponse
from kio.schema.list_transactions.v0.request import ListTransactionsRequest as ListTransactionsRequest0
from kio.schema.list_transactions.v0.response import ListTransactionsResponse as ListTransactionsResponse0
from kio.schema.list_transactions.v1.request import ListTransactionsRequest as ListTransactionsRequest1
from kio.schema.list_transactions.v1.response import ListTransactionsResponse as ListTransactionsResponse1
from kio.schema.list_transactions.v2.request import ListTransactionsRequest
from kio.schema.list_transactions.v2.response import ListTransactionsResponse
from kio.schema.types import ProducerId, TopicName, TransactionalId
from kio.schema.write_txn_markers.v1.request import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from kio.schema.write_txn_markers.v1.response import WriteTxnMarkersResponse
from kio.static.primitive import i16, i32, i32Timedelta, i64

from ottla.client.addresses import BrokerEndpoint
from ottla.client.admin.groups import call_coordinators
from ottla.client.admin.topics import partitions_by_leader
from ottla.client.admin.values import ActiveProducer, DescribedTransaction, Failure, ListedTransaction, PartitionTransaction
from ottla.client.brokers import Brokers
from ottla.client.deadlines import RETRIABLE, Deadline, raise_for
from ottla.client.errors import RequestFailedError, error_code
from ottla.client.network.connection import BrokerConnection
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition
from ottla.protocol.wire.api_keys import ApiKey

TRANSACTION_KEY: Final = 1
NONE: Final = -1
"""Where a broker has no offset, epoch or time to answer."""
PARTITIONS_MAX: Final = 500
"""Partitions in one request, as Kafka's tool has it: more are split."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _TransactionState:
    """kio's class, with a start as a number: kio reads no time before 1970, and a transaction that is not open has the start -1."""

    __type__: ClassVar = describe_response.TransactionState.__type__
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(ApiKey.DESCRIBE_TRANSACTIONS)
    __header_schema__: ClassVar = describe_response.TransactionState.__header_schema__
    error_code: KioErrorCode = field(metadata={"kafka_type": "error_code"})
    transactional_id: str = field(metadata={"kafka_type": "string"})
    transaction_state: str = field(metadata={"kafka_type": "string"})
    transaction_timeout: i32 = field(metadata={"kafka_type": "int32"})
    transaction_start_time: i64 = field(metadata={"kafka_type": "int64"})
    producer_id: i64 = field(metadata={"kafka_type": "int64"})
    producer_epoch: i16 = field(metadata={"kafka_type": "int16"})
    topics: tuple[describe_response.TopicData, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _DescribeTransactionsResponse:
    __type__: ClassVar = describe_response.DescribeTransactionsResponse.__type__
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(ApiKey.DESCRIBE_TRANSACTIONS)
    __header_schema__: ClassVar = describe_response.DescribeTransactionsResponse.__header_schema__
    throttle_time: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})
    transaction_states: tuple[_TransactionState, ...]


def list_transactions(
    brokers: Brokers, *, producer_ids: Iterable[int] = (), longer_than_ms: int = NONE, pattern: str | None = None
) -> list[ListedTransaction]:
    """The transactional ids that all coordinators know, open transactions or not, by their names.

    `producer_ids`: those of these producers alone; `longer_than_ms`: those whose transaction is open for longer; `pattern`: those whose
    whole name an expression of RE2 matches. Raises DeadlineExceededError, RequestFailedError, and UnsupportedBrokerError where a broker
    is too old for a filter.
    """
    ids = tuple(map(ProducerId, producer_ids))

    def attempt(deadline: Deadline) -> list[ListedTransaction]:
        found: list[ListedTransaction] = []
        for broker in brokers.endpoints(deadline).values():
            connection = brokers.connection(broker, deadline)
            if pattern is not None or connection.speaks(ApiKey.LIST_TRANSACTIONS, 2):
                request: Any = ListTransactionsRequest(
                    state_filters=(), producer_id_filters=ids, duration_filter=i64(longer_than_ms), transactional_id_pattern=pattern
                )
                answer: Any = brokers.call(connection, request, ListTransactionsResponse)
            elif longer_than_ms >= 0:
                request = ListTransactionsRequest1(state_filters=(), producer_id_filters=ids, duration_filter=i64(longer_than_ms))
                answer = brokers.call(connection, request, ListTransactionsResponse1)
            else:
                request = ListTransactionsRequest0(state_filters=(), producer_id_filters=ids)
                answer = brokers.call(connection, request, ListTransactionsResponse0)
            raise_for(answer.error_code, f"ListTransactions of broker {broker.broker_id}")
            found += [
                ListedTransaction(each.transactional_id, broker.broker_id, each.producer_id, each.transaction_state)
                for each in answer.transaction_states
            ]
        return sorted(found)

    return brokers.retry("listTransactions", attempt)


def describe_transactions(brokers: Brokers, transactional_ids: Iterable[str]) -> dict[str, DescribedTransaction | Failure]:
    """Each transactional id as its coordinator has it, or the failure: TRANSACTIONAL_ID_NOT_FOUND for one that no producer has used."""

    def call(connection: BrokerConnection, coordinator: BrokerEndpoint, names: list[str]) -> Mapping[str, DescribedTransaction | Failure]:
        request = DescribeTransactionsRequest(transactional_ids=tuple(map(TransactionalId, names)))
        answer = brokers.call(connection, request, _DescribeTransactionsResponse)
        return {each.transactional_id: _described(each, coordinator) for each in answer.transaction_states}

    return call_coordinators(brokers, "describeTransactions", transactional_ids, call, key_type=TRANSACTION_KEY)


def _described(state: _TransactionState, coordinator: BrokerEndpoint) -> DescribedTransaction | Failure:
    code = error_code(state.error_code)
    if code is not ErrorCode.NONE:
        return Failure(code)
    return DescribedTransaction(
        transactional_id=state.transactional_id,
        coordinator=coordinator,
        state=state.transaction_state,
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        timeout_ms=state.transaction_timeout,
        start_ms=None if state.transaction_start_time < 0 else state.transaction_start_time,
        partitions=tuple(TopicPartition(topic.topic, number) for topic in state.topics for number in topic.partitions),
    )


def describe_producers(
    brokers: Brokers, partitions: Iterable[TopicPartition], *, broker_id: int | None = None
) -> dict[TopicPartition, tuple[ActiveProducer, ...] | Failure]:
    """What each partition's leader, or the replica on broker `broker_id`, knows of its producers, idempotent ones included.

    Raises DeadlineExceededError, UnknownTopicError.
    """
    asked = list(dict.fromkeys(partitions))
    found: dict[TopicPartition, tuple[ActiveProducer, ...] | Failure] = {}

    def attempt(deadline: Deadline) -> None:
        missing = [partition for partition in asked if partition not in found]
        if broker_id is None:
            by_broker = partitions_by_leader(brokers, missing, deadline)
        else:
            brokers.endpoints(deadline)
            by_broker = {broker_id: missing}
        for number, of_broker in by_broker.items():
            connection = brokers.connection(brokers.endpoint(number), deadline)
            for at in range(0, len(of_broker), PARTITIONS_MAX):
                request = DescribeProducersRequest(topics=_by_topic(of_broker[at : at + PARTITIONS_MAX], TopicRequest))
                for topic in brokers.call(connection, request, DescribeProducersResponse).topics:
                    for item in topic.partitions:
                        code = error_code(item.error_code)
                        if code in RETRIABLE and not (broker_id is not None and code is ErrorCode.NOT_LEADER_OR_FOLLOWER):
                            raise_for(code, f"partition {item.partition_index} of topic {topic.name}")
                        found[TopicPartition(topic.name, item.partition_index)] = (
                            tuple(map(_producer, item.active_producers)) if code is ErrorCode.NONE else Failure(code, item.error_message)
                        )
        if len(found) < len(asked):
            raise RequestFailedError("a broker did not answer for all partitions", ErrorCode.UNKNOWN_SERVER_ERROR)

    if asked:
        brokers.retry("describeProducers", attempt)
    return {partition: found[partition] for partition in asked}


def _by_topic(partitions: Sequence[TopicPartition], make: Any) -> tuple[Any, ...]:
    topics: dict[str, list[i32]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append(i32(number))
    return tuple(make(name=TopicName(name), partition_indexes=tuple(numbers)) for name, numbers in topics.items())


def _producer(state: Any) -> ActiveProducer:
    return ActiveProducer(
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        last_sequence=state.last_sequence,
        last_timestamp_ms=state.last_timestamp,
        coordinator_epoch=state.coordinator_epoch,
        transaction_start_offset=None if state.current_txn_start_offset < 0 else state.current_txn_start_offset,
    )


def abort_transaction(
    brokers: Brokers, partition: TopicPartition, *, producer_id: int, producer_epoch: int, coordinator_epoch: int
) -> Failure | None:
    """Write an abort marker into one partition, past its coordinator: for a transaction that hangs there. None when it is written.

    Raises DeadlineExceededError, UnknownTopicError.
    """
    marker = WritableTxnMarker(
        producer_id=ProducerId(producer_id),
        producer_epoch=i16(producer_epoch),
        transaction_result=False,
        topics=_by_topic([partition], WritableTxnMarkerTopic),
        coordinator_epoch=i32(max(coordinator_epoch, 0)),  # the partition has seen none yet: no coordinator's epoch is lower
    )

    def attempt(deadline: Deadline) -> Failure | None:
        ((leader, _),) = partitions_by_leader(brokers, [partition], deadline).items()
        connection = brokers.connection(brokers.endpoint(leader), deadline)
        answer = brokers.call(connection, WriteTxnMarkersRequest(markers=(marker,)), WriteTxnMarkersResponse)
        for each in answer.markers:
            for topic in each.topics:
                for item in topic.partitions:
                    code = error_code(item.error_code)
                    if code in RETRIABLE:
                        raise_for(code, f"the marker in partition {partition.partition} of topic {partition.topic}")
                    return None if code is ErrorCode.NONE else Failure(code)
        return Failure(ErrorCode.UNKNOWN_SERVER_ERROR, "the leader did not answer for the partition")

    return brokers.retry("abortTransaction", attempt)


def force_terminate_transaction(brokers: Brokers, transactional_id: str) -> Failure | None:
    """Abort the open transaction of an id, if there is one, and fence its producer (Admin.forceTerminateTransaction). None when done.

    It is the InitProducerId of a producer that would take the id over. So an id that nobody has used is known afterwards.
    """
    # Kafka's admin client sends its own timeout here, too: until a producer takes over, there is no transaction to time out.
    timeout_ms = brokers.settings.request_timeout_ms

    def call(connection: BrokerConnection, coordinator: BrokerEndpoint, names: list[str]) -> Mapping[str, Failure | None]:
        request = InitProducerIdRequest(
            transactional_id=TransactionalId(transactional_id), transaction_timeout=i32Timedelta.parse(timedelta(milliseconds=timeout_ms))
        )
        code = error_code(brokers.call(connection, request, InitProducerIdResponse).error_code)
        if code is ErrorCode.CONCURRENT_TRANSACTIONS:  # the abort is under way; asked again when its markers are written
            code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return {transactional_id: None if code is ErrorCode.NONE else Failure(code)}

    return call_coordinators(brokers, "forceTerminateTransaction", [transactional_id], call, key_type=TRANSACTION_KEY)[transactional_id]


def first_open_transactions(brokers: Brokers, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, PartitionTransaction]:
    """For each partition with an open transaction, the one at its last stable offset. Partitions without any are left out.

    A partition whose leader does not answer for its producers is left out, too. Raises DeadlineExceededError and RequestFailedError.
    """
    first = _first_open(brokers, partitions)
    known = describe_producer_ids(brokers, {producer.producer_id for _, producer in first.values()})
    found = {
        partition: PartitionTransaction(partition, offset, producer, known.get(producer.producer_id))
        for partition, (offset, producer) in first.items()
    }
    # One that ended between the two requests looks as if it hung.
    again = _first_open(brokers, [partition for partition, each in found.items() if each.is_hanging])
    return {
        partition: each for partition, each in found.items() if not each.is_hanging or again.get(partition, (NONE,))[0] == each.start_offset
    }


def _first_open(brokers: Brokers, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, tuple[int, ActiveProducer]]:
    first: dict[TopicPartition, tuple[int, ActiveProducer]] = {}
    for partition, producers in describe_producers(brokers, partitions).items():
        if not isinstance(producers, Failure):
            started = [(each.transaction_start_offset, each) for each in producers if each.transaction_start_offset is not None]
            if started:
                first[partition] = min(started, key=lambda pair: pair[0])
    return first


def describe_producer_ids(brokers: Brokers, producer_ids: Iterable[int]) -> dict[int, DescribedTransaction]:
    """The transactions of producers by their ids, as far as a coordinator knows them. Raises as `list_transactions` does.

    Also RequestFailedError where a coordinator does not describe what another request has listed: nothing is said to hang then.
    """
    ids = set(producer_ids)
    if not ids:
        return {}
    names = {each.transactional_id for each in list_transactions(brokers, producer_ids=sorted(ids)) if each.producer_id in ids}
    described = describe_transactions(brokers, sorted(names))
    for name, answer in described.items():
        if isinstance(answer, Failure) and answer.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            raise_for(answer.code, f"transactional id {name}")
    return {each.producer_id: each for each in described.values() if not isinstance(each, Failure)}
