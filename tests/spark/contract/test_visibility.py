"""Deleted and invisible records: compacted topics, aborted and open transactions; offsets then have gaps."""

import time
from contextlib import nullcontext
from typing import Any

from confluent_kafka import Producer

LEVELS = {"kafka_isolation_level": "read_uncommitted"}, {"kafka_isolation_level": "read_committed"}


def test_a_compacted_topic(contract: Any):
    place = contract.place
    config = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.01", "segment_ms": "1"}
    topic, now = contract.topic(**config), int(time.time() * 1000)
    for key in (b"a", b"b"):
        place.produce(topic, range(5), key=key, timestamp=now - 10)
    place.produce(topic, ["active"], key=b"c", timestamp=now)  # begins a new segment, and only those before it are cleaned
    # Kafka's cleaner looks every 15 s.
    with place.broker_setting("log.cleaner.backoff.ms", "200") if place.kind == "apache-kafka" else nullcontext():
        place.wait_until(lambda: place.offsets_there(topic, 10) == [4, 9])
    kept = [(0, 4, "4"), (0, 9, "4"), (0, 10, "active")]
    assert contract.rows(subscribe=topic) == kept
    assert contract.rows(subscribe=topic, maxRecordsPerPartition=3) == kept
    ranges = {"startingOffsets": f'{{"{topic}":{{"0":1}}}}', "endingOffsets": f'{{"{topic}":{{"0":9}}}}'}
    assert contract.rows(subscribe=topic, **ranges) == kept[:1], "it may begin and end in a gap"
    assert contract.drain(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=3).rows == kept


def test_without_transactions_both_levels_see_everything(contract: Any):
    topic = contract.topic()
    contract.place.produce(topic, ["a", "b"])
    for level in LEVELS:
        assert contract.rows(subscribe=topic, **level) == [(0, 0, "a"), (0, 1, "b")]


def test_transactions(contract: Any):
    topic = contract.topic(partitions=2)
    producer = Producer({"bootstrap.servers": contract.place.servers, "transactional.id": topic, "log_level": 0})
    producer.init_transactions()
    for number in range(4):
        producer.begin_transaction()
        for index in range(3):
            producer.produce(topic, f"{number}-{index}", partition=0)
        producer.flush()
        if number % 2:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    contract.place.wait_for_end(topic, 0, 16)
    contract.place.produce(topic, ["after"], partition=0)
    producer.begin_transaction()
    producer.produce(topic, "open", partition=1)
    producer.flush()
    contract.place.produce(topic, ["behind it"], partition=1)
    # Each transaction ends with a marker, which has an offset too.
    every = {number: [(0, 4 * number + index, f"{number}-{index}") for index in range(3)] for number in range(4)}
    committed = [*every[1], *every[3], (0, 16, "after")]
    everything = [*every[0], *every[1], *every[2], *every[3], (0, 16, "after"), (1, 0, "open"), (1, 1, "behind it")]
    uncommitted_level, committed_level = LEVELS
    assert contract.rows(subscribe=topic, **uncommitted_level) == contract.rows(subscribe=topic) == everything
    assert contract.rows(subscribe=topic, **committed_level) == committed
    assert contract.rows(subscribe=topic, maxRecordsPerPartition=3, **committed_level) == committed
    options = {"subscribe": topic, "startingOffsets": "earliest", "checkpoint": "c", **committed_level}
    assert contract.drain(**options, maxOffsetsPerTrigger=6).rows == committed
    producer.commit_transaction()
    contract.place.wait_for_end(topic, 1, 3)
    assert contract.drain(**options).rows == [(1, 0, "open"), (1, 1, "behind it")]
