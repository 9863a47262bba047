"""Transactions over the wire, step by step on both brokers: every answer is the same, whatever the state and the version."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.broker import Broker
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import RawClient, create_topic
from ottla.testing.waiting import wait_until
from tests.support.clients.transaction_script import Script

pytestmark = pytest.mark.kafka

_ENDS = [(commits, version, behind) for commits in (True, False) for version in (1, 4, 5) for behind in (0, 1)]


@pytest.mark.conformance(
    "TransactionCoordinatorTest.shouldReturnInvalidRequestWhenTransactionalIdIsEmpty",
    "TransactionCoordinatorTest.shouldInitPidWithEpochZeroForNewTransactionalId",
    "TransactionCoordinatorTest.shouldGenerateNewProducerIdIfNoStateAndProducerIdAndEpochProvided",
    "TransactionCoordinatorTest.shouldIncrementEpochAndUpdateMetadataOnHandleInitPidWhenExistingEmptyTransaction",
    "TransactionCoordinatorTest.shouldAbortTransactionOnHandleInitPidWhenExistingTransactionInOngoingState",
    "TransactionCoordinatorTest.testInitProducerIdWithNoLastProducerData",
    "TransactionCoordinatorTest.testFenceProducerWhenMappingExistsWithDifferentProducerId",
    "TransactionCoordinatorTest.testInitProducerIdWithCurrentEpochProvided",
    "TransactionCoordinatorTest.testInitProducerIdStaleCurrentEpochProvided",
    "TransactionCoordinatorTest.shouldFailToAbortTransactionOnHandleInitPidWhenProducerEpochIsSmaller",
    "TransactionStateManagerTest.testValidateTransactionTimeout",
    "TransactionMetadataTest.testEpochBumpWithCurrentEpochProvided",
    "TransactionMetadataTest.testAttemptedEpochBumpWithLastEpoch",
    "TransactionMetadataTest.testAttemptedEpochBumpWithFencedEpoch",
)
def inits(script: Script) -> None:
    for version in range(6):
        script.init(version)
    for timeout_ms in (0, -1, 900_001, 900_000):
        script.init(timeout_ms=timeout_ms)
    script.init(name="")
    script.init(4, producer_id=script.id, epoch=script.epoch)
    current = script.id, script.epoch
    script.init(4, producer_id=current[0], epoch=current[1] - 1)
    script.init(4, producer_id=current[0], epoch=current[1] - 2)
    script.init(3, producer_id=current[0], epoch=current[1] - 2)
    script.init(4, producer_id=current[0] + 12345, epoch=current[1])
    script.init(4, producer_id=-1, epoch=0)
    script.add()
    script.init(4, producer_id=script.id, epoch=script.epoch)
    script.init(4, name=script.name + "-unknown", producer_id=12345, epoch=7)


@pytest.mark.conformance(
    "TransactionCoordinatorTest.shouldRespondWithInvalidPidMappingOnAddPartitionsToTransactionWhenTransactionalIdNotPresent",
    "TransactionCoordinatorTest.shouldRespondWithInvalidRequestAddPartitionsToTransactionWhenTransactionalIdIsEmpty",
    "TransactionCoordinatorTest.shouldRespondWithProducerFencedOnAddPartitionsWhenEpochsAreDifferent",
    "TransactionCoordinatorTest.shouldRespondWithSuccessOnAddPartitionsWhenStateIsOngoing",
)
def additions(script: Script) -> None:
    script.add(name=script.name)  # an id that is not known
    script.init()
    for version in range(4):
        script.add(version, name="")
        script.add(version, name=script.name + "-unknown")
        script.add(version, id_delta=12345)
        script.add(version, epoch_delta=1)
        script.add(version, epoch_delta=-1)
        script.add(version, topic="no-such-topic")
        script.add(version, topic="__consumer_offsets")
        script.add(version, partition=99)
        script.add(version)
        script.describe()
    for version in range(5):
        script.add_offsets(version)
    script.describe()


def _ends(script: Script, prepare: Callable[[], None]) -> None:
    for commits, version, behind in _ENDS:
        script.init()
        prepare()
        script.end(commits=commits, version=version, behind=behind)
        script.describe()


@pytest.mark.conformance(
    "TransactionCoordinatorTest.TestEndTxnRequestWhenEmptyTransactionStateForAbortInV1",
    "TransactionCoordinatorTest.TestEndTxnRequestWhenEmptyTransactionStateForAbortInV2",
    "TransactionCoordinatorTest.TestEndTxnRequestWhenEmptyTransactionStateForCommitInV2",
    "TransactionCoordinatorTest.shouldReplyWithInvalidPidMappingOnEndTxnWhenTxnIdDoesntExist",
    "TransactionCoordinatorTest.shouldReplyWithInvalidPidMappingOnEndTxnWhenPidDoesntMatchMapped",
    "TransactionCoordinatorTest.shouldRespondWithInvalidRequestOnEndTxnWhenTransactionalIdIsEmpty",
    "TransactionCoordinatorTest.shouldReturnInvalidEpochOnEndTxnWhenEpochIsLarger",
    "TransactionMetadataTest.testTransitFromEmptyToPrepareAbortInV2",
)
def ends_of_empty_ones(script: Script) -> None:
    _ends(script, lambda: None)
    script.end(name="")
    script.end(name=script.name + "-unknown")
    script.end(id_delta=12345)
    script.end(version=5, id_delta=12345)
    script.end(behind=-1)
    script.end(version=5, behind=-1)


@pytest.mark.conformance(
    "TransactionCoordinatorTest.shouldReplyWithProducerFencedOnEndTxnWhenEpochIsNotSameAsTransaction",
    "TransactionCoordinatorTest.shouldReturnInvalidEpochOnEndTxnWhenEpochIsSmaller",
    "TransactionCoordinatorTest.shouldAppendPrepareCommitToLogOnEndTxnWhenStatusIsOngoingAndResultIsCommit",
    "TransactionCoordinatorTest.shouldAppendPrepareAbortToLogOnEndTxnWhenStatusIsOngoingAndResultIsAbort",
    "TransactionMetadataTest.testEpochBumpOnEndTxn",
)
def ends_of_open_ones(script: Script) -> None:
    _ends(script, script.add)


@pytest.mark.conformance(
    "TransactionCoordinatorTest.testEndTxnWhenStatusIsCompleteCommitAndResultIsCommitInV2",
    "TransactionCoordinatorTest.testEndTxnRequestWhenStatusIsCompleteCommitAndResultIsAbortInV2",
    "TransactionCoordinatorTest.shouldReturnInvalidTxnRequestOnEndTxnV2IfNotEndTxnV2Retry",
    "TransactionMetadataTest.testTransitFromCompleteCommitToPrepareAbortInV2",
    "TransactionsTest.testEmptyAbortAfterCommit",
)
def ends_after_a_commit(script: Script) -> None:
    def prepare() -> None:
        script.add()
        script.end(version=5)

    _ends(script, prepare)


@pytest.mark.conformance(
    "TransactionCoordinatorTest.shouldReturnOkOnEndTxnWhenStatusIsCompleteAbortAndResultIsAbortInV2",
    "TransactionMetadataTest.testTransitFromCompleteAbortToPrepareAbortInV2",
)
def ends_after_an_abort(script: Script) -> None:
    def prepare() -> None:
        script.add()
        script.end(version=5, commits=False)

    _ends(script, prepare)


@pytest.mark.conformance(
    "TransactionCoordinatorTest.testEndTxnWhenStatusIsCompleteCommitAndResultIsCommitInV1",
    "TransactionCoordinatorTest.testEndTxnWhenStatusIsCompleteAbortAndResultIsAbortInV1",
    "TransactionCoordinatorTest.shouldReturnInvalidTxnRequestOnEndTxnRequestWhenStatusIsCompleteAbortAndResultIsNotAbort",
    "TransactionCoordinatorTest.shouldReturnInvalidTxnRequestOnEndTxnRequestWhenStatusIsCompleteCommitAndResultIsNotCommit",
    "TransactionCoordinatorTest.testEndTxnRequestWhenStatusIsCompleteCommitAndResultIsAbortInV1",
)
def ends_after_an_old_clients_end(script: Script) -> None:
    for commits in (True, False):
        for again, version in [(True, 4), (False, 4), (True, 1), (False, 0), (True, 5), (False, 5)]:
            script.init()
            script.add()
            script.end(commits=commits)
            script.end(commits=again, version=version)


@pytest.mark.conformance("TransactionsTest.testFencingOnSend")
def records(script: Script) -> None:
    script.init()
    for version in (3, 9, 10, 11):
        script.produce(version)  # not added
    script.produce(name=None)
    script.produce(name=script.name + "-unknown")
    script.add()
    for version in (3, 9, 10, 11, 12):
        script.produce(version)
        script.describe_producers()
    script.produce(epoch_delta=-1)
    script.produce(epoch_delta=1)
    script.end()
    script.describe()
    script.produce(9)
    script.produce(11)
    script.produce(12)  # adds the partition by itself
    script.describe()
    script.end(version=5, commits=False)
    script.describe()
    script.describe_producers()
    script.epoch -= 1
    script.produce(12)
    script.produce(9)


def first_sequences(script: Script) -> None:
    """What a log accepts as a producer's first batch there, and after one whose transaction was not known."""
    for add, version in ((True, 9), (True, 11), (False, 12), (True, 12)):
        script.init(name=f"{script.name}-{add}-{version}")
        named = {"name": f"{script.name}-{add}-{version}"}
        if add:
            script.add(partition=1, **named)
        script.produce(version, partition=1, sequence_delta=3, **named)
        script.produce(version, partition=1, sequence_delta=4, **named)
        script.produce(version, partition=1, **named)
        script.end(commits=False, **named)
    for version in (9, 11):
        named = {"name": f"{script.name}-late-{version}"}
        script.init(**named)
        script.produce(version, sequence_delta=2, **named)  # not in the transaction
        script.produce(version, sequence_delta=1, **named)
        script.add(**named)
        for sequence_delta in (5, 2, 1, 2):
            script.produce(version, sequence_delta=sequence_delta, **named)
        script.describe_producers()
        script.end(commits=False, **named)


@pytest.mark.conformance(
    "TransactionsTest.testOffsetMetadataInSendOffsetsToTransaction",
    "TransactionsTest.testFencingOnSendOffsets",
)
def offsets(script: Script) -> None:
    group = script.name
    script.init()
    for version in range(5):
        script.commit_offsets(version, group)  # not added
    script.add_offsets(group=group)
    for version in range(6):
        script.commit_offsets(version, group)
    script.commit_offsets(3, group, generation=3, member="nobody")
    script.commit_offsets(3, group, epoch_delta=-1)
    script.commit_offsets(3, "")
    script.fetch_offsets(stable=True, group=group)
    script.fetch_offsets(stable=False, group=group)
    script.end(commits=False)
    script.fetch_offsets_when_stable(group)
    script.commit_offsets(5, group)  # adds the group by itself
    script.fetch_offsets(stable=True, group=group)
    script.end(version=5)
    script.fetch_offsets_when_stable(group)
    script.fetch_offsets(stable=False, group=group)
    script.describe()


@pytest.mark.conformance(
    "TransactionCoordinatorTest.testDescribeTransactions",
    "TransactionStateManagerTest.testListTransactionsFiltering",
    "TransactionStateManagerTest.testListTransactionsFilteringWithInvalidPattern",
    "TransactionMetadataTest.testTransactionStateIdAndNameMapping",
)
def lists(script: Script) -> None:
    script.describe()
    script.init()
    script.list()
    script.list(state_filters=["Ongoing", "NoSuchState"])
    script.add()
    script.list(state_filters=["Ongoing", "NoSuchState"])
    script.list(state_filters=["ongoing"])
    script.list(producer_id_filters=[script.id])
    script.list(producer_id_filters=[script.id + 12345])
    script.list(duration_filter=3_600_000)
    script.list(duration_filter=0, state_filters=["Empty"])
    script.list(transactional_id_pattern=f"{script.name}.*")
    script.list(transactional_id_pattern="nothing")
    script.list(transactional_id_pattern="(")
    script.end(commits=False)


SCRIPTS = [
    inits,
    additions,
    ends_of_empty_ones,
    ends_of_open_ones,
    ends_after_a_commit,
    ends_after_an_abort,
    ends_after_an_old_clients_end,
    records,
    first_sequences,
    offsets,
    lists,
]


@pytest.fixture(scope="module")
def addresses(reference: Any) -> Iterator[list[str]]:
    """Ours and Apache Kafka's, each with a topic of two partitions."""
    with Broker() as broker:
        both = [broker.bootstrap_servers, reference.shared().bootstrap_servers]
        for address in both:
            with RawClient(address) as client:
                create_topic(client, "x-transaction-answers", 2)
        yield both


def play(script: Callable[[Script], None], address: str) -> list[tuple[Any, ...]]:
    """What a broker says to a script."""
    with RawClient(address) as client:
        run = Script(client, "x-transaction-answers", f"x-{script.__name__}")

        def has_coordinators() -> bool:
            asked = [client.call(ApiKey.FIND_COORDINATOR, 4, key_type=key_type, coordinator_keys=[run.name]) for key_type in (0, 1)]
            return all(answer.coordinators[0].error_code == 0 for answer in asked)

        wait_until(has_coordinators, "the coordinators of a group and of a transactional id")
        script(run)
        return run.said


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_answers(addresses: list[str], script: Callable[[Script], None]) -> None:
    ours, theirs = [play(script, address) for address in addresses]
    assert ours == theirs
