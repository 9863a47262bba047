"""Transactions while brokers stop, start and change places: nothing that was decided is lost, and nothing stays open for ever."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from ottla.broker import Broker, Cluster
from ottla.broker.partitions.partition import Partition
from ottla.protocol.errors import StorageError
from ottla.protocol.model import Record
from ottla.protocol.records.batch import encode_batch, split_batches
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import RawClient, build_request, create_topic
from ottla.testing.waiting import wait_until
from tests.support.clients.transaction_script import Script

QUICK = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 20}


def script(broker: Any, name: str = "x") -> Script:
    """A producer of a connection of its own."""
    client = RawClient(broker.bootstrap_servers)
    for key_type in (0, 1):
        client.call(ApiKey.FIND_COORDINATOR, 4, key_type=key_type, coordinator_keys=[name])
    return Script(client, "t", name)


def taken_over(broker: Any, before: Script) -> Script:
    """The same producer, with a connection to the broker as it runs now."""
    before.client.close()
    now = script(broker, before.name)
    now.id, now.epoch, now.sequences = before.id, before.epoch, before.sequences
    return now


def fetched(run: Script, partition: int = 0, isolation_level: int = 1) -> tuple[list[int], int, int]:
    """Base offsets of the batches that a read_committed consumer gets, the last stable offset and the end."""
    part = {"partition": partition, "fetch_offset": 0, "partition_max_bytes": 1 << 20, "current_leader_epoch": -1, "last_fetched_epoch": -1}
    base = {"max_wait": 0, "min_bytes": 1, "max_bytes": 1 << 20, "replica_id": -1, "session_epoch": -1, "isolation_level": isolation_level}
    (answer,) = run.client.call(ApiKey.FETCH, 12, topics=[{"topic": run.topic, "partitions": [part]}], **base).responses
    found = answer.partitions[0]
    return [header.base_offset for _, header in split_batches(found.records or b"")], found.last_stable_offset, found.high_watermark


@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.conformance("TransactionStateManagerTest.testLoadAndRemoveTransactionsForPartition")
def test_an_open_transaction_goes_on_after_a_restart(tmp_path: Path, commits: bool) -> None:
    with Broker(data_dir=tmp_path) as broker:
        run = script(broker)
        create_topic(run.client, "t", 2)
        run.init()
        run.add()
        run.add_offsets(group="x")
        run.produce()
        run.commit_offsets(group="x")
        run.fetch_offsets(stable=True, group="x")
    with Broker(data_dir=tmp_path) as broker:
        run = taken_over(broker, run)
        assert fetched(run) == ([], 0, 1)
        run.fetch_offsets(stable=True, group="x")
        run.produce()
        run.end(commits=commits)
        wait_until(lambda: fetched(run)[1:] == (3, 3), "the marker")
        run.fetch_offsets_when_stable("x")
        run.fetch_offsets(stable=False, group="x")
        offset = (0, 7, "m") if commits else (0, -1, "")
        assert run.said == [("offsets", 88, -1, ""), ("produce", 0), ("end", 0), ("offsets", *offset), ("offsets", *offset)]
        run.describe()
        assert run.said[-2][2] == ("CompleteCommit" if commits else "CompleteAbort")
    with Broker(data_dir=tmp_path) as broker:
        run = taken_over(broker, run)
        run.fetch_offsets(stable=True, group="x")
        assert run.said == [("offsets", *offset)]
    run.client.close()


def test_a_plain_commit_behind_a_transactions_counts(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path) as broker:
        run = script(broker)
        create_topic(run.client, "t", 2)
        run.init()
        run.add_offsets(group="x")
        run.commit_offsets(group="x")
        asked = {"partition_index": 0, "committed_offset": 5, "committed_leader_epoch": -1, "committed_metadata": "plain"}
        fields = {"group_id": "x", "generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
        run.client.call(ApiKey.OFFSET_COMMIT, 8, **fields, topics=[{"name": "t", "partitions": [asked]}])
        run.fetch_offsets(stable=True, group="x")
        run.end()
        run.fetch_offsets_when_stable("x")
        assert run.said[-2:] == [("end", 0), ("offsets", 0, 5, "plain")]
        run.client.close()


def test_a_transaction_that_takes_too_long_is_aborted_also_after_a_restart(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path) as broker:
        run = script(broker)
        create_topic(run.client, "t", 2)
        run.init(timeout_ms=1)
        run.add()
        run.produce()
    with Broker(data_dir=tmp_path, config=QUICK) as broker:
        run = taken_over(broker, run)
        wait_until(lambda: fetched(run)[1:] == (2, 2), "the transaction to be aborted")
        run.end()
        run.produce()
        run.describe()
        assert run.said[:3] == [("end", 90), ("produce", 47), ("described", 0, "CompleteAbort", 1, [])]
        run.client.close()


@pytest.mark.conformance("TransactionMarkerChannelManagerTest.shouldSkipSendMarkersWhenLeaderNotFound")
def test_a_deleted_topic_keeps_no_transaction_from_its_end() -> None:
    with Broker() as broker:
        run = script(broker)
        create_topic(run.client, "t", 2)
        create_topic(run.client, "other", 1)
        run.init()
        run.add(topic="other")
        run.produce()
        run.client.call(ApiKey.DELETE_TOPICS, 5, topic_names=["other"], timeout=10_000)
        run.end()
        run.describe()
        assert run.said[-3:-1] == [("end", 0), ("described", 0, "CompleteCommit", 1, [])]
        run.client.close()


def test_partitions_that_do_not_exist_and_internal_topics_keep_no_transaction_from_its_end() -> None:
    """Version 4 and later is what brokers send: it is not asked whether the partitions exist."""
    with Broker() as broker:
        run = script(broker)
        create_topic(run.client, "t", 2)
        run.init()
        named = {"transactional_id": "x", "producer_id": run.id, "producer_epoch": run.epoch, "verify_only": False}
        topics = [("t", [0, -1, 99]), ("none", [0]), ("__transaction_state", [0]), ("__consumer_offsets", [0])]
        asked = [{"name": name, "partitions": numbers} for name, numbers in topics]
        run.client.call(ApiKey.ADD_PARTITIONS_TO_TXN, 5, transactions=[{**named, "topics": asked}])
        run.end()
        run.describe()
        assert run.said[-3:-1] == [("end", 0), ("described", 0, "CompleteCommit", 1, [])]
        assert fetched(run)[1:] == (1, 1)
        run.client.close()


@pytest.mark.conformance(
    "TransactionStateManagerTest.testSuccessfulReimmigration",
    "TransactionMarkerChannelManagerTest.shouldRemoveMarkersForTxnPartitionWhenPartitionEmigrated",
    "TransactionMarkerChannelManagerTest.shouldNotLoseTxnCompletionAfterLoad",
)
def test_coordinators_and_partitions_change_their_brokers(tmp_path: Path) -> None:
    with Cluster(brokers=2, data_dir=tmp_path) as cluster:
        run = script(cluster)
        create_topic(run.client, "t", 2)
        run.init()
        for to in (1, 2, 1):
            for topic in ("__transaction_state", "t"):
                for number in range(50 if topic.startswith("_") else 2):
                    cluster.move_leader(topic, number, to)
            address = cluster.bootstrap_servers.split(",")[to - 1]
            run.client.close()
            run.client = RawClient(address)
            run.add()
            run.produce()
            run.end(version=5)
            run.describe()
        assert [said for said in run.said if said[0] in ("add", "produce", "end", "described")] == [
            answer
            for number in (1, 2, 3)
            for answer in (("add", 0, 0), ("produce", 0), ("end", 0, 1, number), ("described", 0, "CompleteCommit", 1, []))
        ]
        assert fetched(run)[1:] == (6, 6)
        run.client.close()


def test_an_administrator_ends_what_no_coordinator_knows() -> None:
    with Broker() as broker:
        run = script(broker)
        create_topic(run.client, "t", 2)
        run.init()
        run.add()
        run.produce()
        topic = {"name": "t", "partition_indexes": [0, 9]}
        marker = {"producer_id": run.id, "producer_epoch": run.epoch, "transaction_result": False, "coordinator_epoch": 0}
        answer = run.client.call(ApiKey.WRITE_TXN_MARKERS, 1, markers=[{**marker, "topics": [topic]}])
        assert [int(part.error_code) for part in answer.markers[0].topics[0].partitions] == [0, 3]
        assert fetched(run)[1:] == (2, 2)
        for impossible in ({"producer_id": -1}, {"producer_epoch": -1}):
            answer = run.client.call(ApiKey.WRITE_TXN_MARKERS, 1, markers=[{**marker, **impossible, "topics": [topic]}])
            assert [int(part.error_code) for part in answer.markers[0].topics[0].partitions] == [-1, -1]
        assert fetched(run)[1:] == (2, 2)
        run.client.close()


def test_an_unreadable_offset_in_an_open_transaction_is_skipped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Broker(data_dir=tmp_path, config={"offsets.topic.num.partitions": 1}) as broker:
        run = script(broker)
        create_topic(run.client, "t", 2)
        run.init()
        run.add_offsets(group="x")
        run.commit_offsets(group="x")
        assert run.said[-1] == ("commit offsets", 0, 3)

        async def append() -> Any:
            assert broker._task is not None
            log = broker._task.cluster.partitions.get(broker._task.cluster.cluster_metadata.topics["__consumer_offsets"], 0).log
            batch = encode_batch([Record(0, 0, b"\0\1?", b"?")], producer_id=run.id, producer_epoch=run.epoch, is_transactional=True)
            return log.append(batch, now_ms=0, from_client=False)

        assert broker._loop is not None
        asyncio.run_coroutine_threadsafe(append(), broker._loop).result(60)
    with caplog.at_level(logging.ERROR), Broker(data_dir=tmp_path) as broker:
        run = taken_over(broker, run)
        run.fetch_offsets(stable=True, group="x")
        run.end()
        run.fetch_offsets_when_stable("x")
        assert run.said == [("offsets", 88, -1, ""), ("end", 0), ("offsets", 0, 7, "m")]
        run.client.close()
    assert [record.getMessage() for record in caplog.records if "passed over" in record.getMessage()] != []


def test_a_marker_that_is_refused_keeps_no_other_from_being_written() -> None:
    """Both ends are decided in one turn of the event loop; the first one's marker is older than what an administrator wrote."""
    with Broker() as broker:
        refused, other = script(broker, "refused"), script(broker, "other")
        create_topic(refused.client, "t", 2)
        for run in (refused, other):
            run.init()
            run.add()
            run.produce()
        topics = [{"name": "t", "partition_indexes": [0]}]
        marker = {"producer_id": refused.id, "producer_epoch": refused.epoch + 5, "transaction_result": False, "coordinator_epoch": 0}
        refused.client.call(ApiKey.WRITE_TXN_MARKERS, 1, markers=[{**marker, "topics": topics}])
        ends = [
            build_request(
                ApiKey.END_TXN,
                4,
                {"transactional_id": run.name, "producer_id": run.id, "producer_epoch": run.epoch, "committed": True},
            )
            for run in (refused, other)
        ]
        refused.client.send_bytes(b"".join(len(frame).to_bytes(4) + frame for frame in map(refused.client.encode, ends)))
        assert [int(refused.client.receive(end).error_code) for end in ends] == [0, 0]
        other.describe()
        assert other.said[-2][2] == "CompleteCommit"
        (state,) = refused.client.call(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=["refused"]).transaction_states
        assert state.transaction_state == "PrepareCommit"
        assert [(topic.topic, topic.partitions) for topic in state.topics] == [("t", (0,))], "the other one has its marker"
        for run in (refused, other):
            run.client.close()


@pytest.mark.conformance(
    "TransactionMarkerChannelManagerTest.shouldRetryAppendToLogOnEndTxnWhenCoordinatorNotAvailableError",
    "TransactionMarkerChannelManagerTest.shouldCompleteAppendToLogOnEndTxnWhenSendMarkersSucceed",
)
def test_an_end_whose_last_record_cannot_be_written_is_completed_later(monkeypatch: pytest.MonkeyPatch) -> None:
    appends: list[int] = []
    original = Partition.append_framed

    def append(partition: Partition, *arguments: Any, **settings: Any) -> None:
        if partition.name.topic == "__transaction_state":
            appends.append(len(appends))
            if appends[-1] in (3, 4):  # after those of InitProducerId, AddPartitionsToTxn and EndTxn
                raise StorageError("the disk is full")
        original(partition, *arguments, **settings)

    monkeypatch.setattr(Partition, "append_framed", append)
    with Broker() as broker:
        run = script(broker)
        create_topic(run.client, "t", 2)
        run.init()
        run.add()
        run.end()
        run.describe()
        assert run.said[-3:-1] == [("end", 0), ("described", 0, "CompleteCommit", 1, [])]
        assert len(appends) == 6
        run.client.close()
