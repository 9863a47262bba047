"""Metrics of transactions: what a broker shows while one is open, when others have ended, and when a partition has a late one."""

import logging
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ottla.broker import Broker
from ottla.broker.coordination.coordinators import LoadTimes
from ottla.broker.monitoring import transaction_metrics
from ottla.broker.monitoring.metrics_server import exposition
from ottla.broker.monitoring.transaction_metrics import BrokerTransactions, TransactionsSnapshot
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import RawClient, create_topic
from ottla.testing.waiting import wait_until
from ottla.transactions.states import State
from tests.support.clients.transaction_script import Script

MARKERS = "kafka_coordinator_transaction_transactionmarkerchannelmanager"
ADDED = "kafka_server_addpartitionstotxnmanager"
LOAD = "kafka_server_transaction_coordinator_metrics_partition_load_time"


def samples(text: str) -> dict[str, float]:
    """Values by name and the values of labels."""
    return {
        " ".join([sample.name, *sample.labels.values()]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def served(broker: Broker) -> dict[str, float]:
    with urllib.request.urlopen(str(broker.metrics_url), timeout=60) as answer:
        return samples(answer.read().decode())


def script(broker: Broker, name: str) -> Script:
    client = RawClient(broker.bootstrap_servers)
    for key_type in (0, 1):
        client.call(ApiKey.FIND_COORDINATOR, 4, key_type=key_type, coordinator_keys=[name])
    return Script(client, "t", name)


def test_what_a_broker_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(transaction_metrics, "INTERVAL_S", 0.05)
    with (
        caplog.at_level(logging.DEBUG, "ottla.broker.coordination.transactions"),
        Broker(data_dir=tmp_path, metrics="127.0.0.1:0") as broker,
    ):
        run, other = script(broker, "x"), script(broker, "y")
        create_topic(run.client, "t", 2)
        for each, commits in ((run, True), (run, False), (other, True)):
            each.init()
            each.add()
            each.produce()
            each.end(commits=commits)
        run.init()
        run.produce()  # refused: the partition is not in a transaction
        run.add()
        run.produce()
        wait_until(lambda: served(broker).get(f"{ADDED}_verificationtimems_count") == 5, "a sample after the last request")
        found = served(broker)
        shown = {name.split()[-1]: value for name, value in found.items() if name.startswith("ottla_transactional_ids") and value}
        assert shown == {"Ongoing": 1, "CompleteCommit": 1}
        assert found["ottla_transactions_ended_total committed"] == 2
        assert found["ottla_transactions_ended_total aborted"] == 1
        assert found["ottla_transaction_oldest_seconds 1"] > 0
        assert found["kafka_server_replicamanager_produceridcount"] == 4, "two producers in two partitions"
        assert found["kafka_server_replicamanager_partitionswithlatetransactionscount"] == 1, "its record is of 1970"
        assert found[f"{ADDED}_verificationtimems_count"] == 5
        assert found[f"{ADDED}_verificationfailurerate_count"] == 1
        assert found[f"{LOAD}_max 1"] == 0
        run.client.close()
        other.client.close()
    line = "Committed the transaction of transactionalId x: producerId 0, producer epoch 0, 2 partitions, coordinator epoch 0"
    ends = [record for record in caplog.records if "the transaction of transactionalId" in record.message]
    assert [record.message.split(":")[0] for record in ends] == [
        "Committed the transaction of transactionalId x",
        "Aborted the transaction of transactionalId x",
        "Committed the transaction of transactionalId y",
    ]
    assert ends[0].message == line
    assert {record.levelname for record in ends} == {"DEBUG"}

    with Broker(data_dir=tmp_path) as broker:
        assert broker._running().cluster.transaction_coordinators.by_broker[1].load_times.times == 2, "the partitions of both ids"


def test_a_snapshot() -> None:
    ids = {State.EMPTY: 5, State.ONGOING: 2}
    snapshot = TransactionsSnapshot(
        at_ms=1_000,
        brokers={2: BrokerTransactions(ids, 3_000, LoadTimes().plus(40).plus(20)), 1: BrokerTransactions({}, None, LoadTimes())},
        producers=7,
        late_partitions=1,
        markers_waiting=4,
        ends_waiting=3,
        committed=10,
        aborted=9,
        verifications=12,
        unverified=6,
    )
    assert samples(exposition([lambda: transaction_metrics.transaction_metrics(snapshot, 4_500)])().decode()) == {
        "ottla_transactional_ids 2 Empty": 5,
        "ottla_transactional_ids 2 Ongoing": 2,
        "ottla_transaction_oldest_seconds 1": 0,
        "ottla_transaction_oldest_seconds 2": 1.5,
        "ottla_transactions_ended_total committed": 10,
        "ottla_transactions_ended_total aborted": 9,
        f"{MARKERS}_unknowndestinationqueuesize": 4,
        f"{MARKERS}_logappendretryqueuesize": 3,
        "kafka_server_replicamanager_partitionswithlatetransactionscount": 1,
        "kafka_server_replicamanager_produceridcount": 7,
        f"{ADDED}_verificationtimems_count": 12,
        f"{ADDED}_verificationfailurerate_count": 6,
        f"{LOAD}_max 1": 0,
        f"{LOAD}_max 2": 40,
        f"{LOAD}_avg 1": 0,
        f"{LOAD}_avg 2": 30,
    }
