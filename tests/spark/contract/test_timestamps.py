"""Start and end by timestamp: one for all partitions, or one for each; partitions without a record that late."""

import json
import time
from typing import Any

import pytest


@pytest.fixture
def topic(contract: Any) -> tuple[str, int]:
    """A topic and a time in ms: partition 0 has records of its second 0 to 9, partition 1 of 0 to 4, partition 2 none."""
    topic, start = contract.topic(partitions=3), int(time.time() * 1000) - 60_000
    for partition, count in ((0, 10), (1, 5)):
        for second in range(count):
            contract.place.produce(topic, [second], partition=partition, timestamp=start + 1000 * second)
    return topic, start


def test_one_time_for_all(contract: Any, topic: tuple[str, int]):
    name, start = topic

    def read(**options: Any) -> Any:
        return contract.rows("partition", "offset", subscribe=name, **options)

    latest = {"startingOffsetsByTimestampStrategy": "latest"}
    since_7 = [(0, 7), (0, 8), (0, 9)]
    assert read(startingTimestamp=start + 7000, **latest) == read(startingTimestamp=start + 6001, **latest) == since_7
    assert read(endingTimestamp=start + 2000) == [(0, 0), (0, 1), (1, 0), (1, 1)], "records of the time itself are left out"
    assert read(endingTimestamp=start + 99_000) == read()
    assert read(startingTimestamp=start + 3000, endingTimestamp=start + 5000, **latest) == [(0, 3), (0, 4), (1, 3), (1, 4)]
    assert read(startingTimestamp=start + 8000, startingOffsets="earliest", **latest) == since_7[1:], "time goes before offsets"
    for strategy in ({}, {"startingOffsetsByTimestampStrategy": "error"}):
        failure = contract.failure_of(lambda: read(startingTimestamp=start + 1000, **strategy))  # noqa: B023
        assert "No offset matched" in failure
        assert str(start + 1000) in failure


def test_a_time_for_each(contract: Any, topic: tuple[str, int]):
    name, start = topic

    def times(*seconds: int) -> str:
        return json.dumps({name: {str(partition): start + 1000 * second for partition, second in enumerate(seconds)}})

    def read(**options: Any) -> Any:
        return contract.rows("partition", "offset", subscribe=name, **options)

    latest = {"startingOffsetsByTimestampStrategy": "latest"}
    assert read(startingOffsetsByTimestamp=times(8, 4, 0), **latest) == [(0, 8), (0, 9), (1, 4)]
    assert read(endingOffsetsByTimestamp=times(1, 2, 0)) == [(0, 0), (1, 0), (1, 1)]
    both = {"startingOffsetsByTimestamp": times(2, 3, 0), "startingOffsets": "earliest", **latest}
    assert read(**both, endingOffsetsByTimestamp=times(3, 99, 0), endingOffsets="latest") == [(0, 2), (1, 3), (1, 4)]
    assert read(startingTimestamp=start + 9000, **both) == [(0, 9)], "one time for all goes before a time for each"
    assert "No offset matched" in contract.failure_of(lambda: read(startingOffsetsByTimestamp=times(0, 5, 0)))
    contract.failure_of(lambda: read(startingOffsetsByTimestamp=times(0, 0), **latest))
    contract.failure_of(lambda: read(endingOffsetsByTimestamp=times(0, 0, 0, 0)))


def test_a_stream_begins_at_a_time(contract: Any, topic: tuple[str, int]):
    name, start = topic
    options = {"subscribe": name, "startingTimestamp": start + 8000, "startingOffsetsByTimestampStrategy": "latest"}
    with contract.stream(**options) as stream:
        assert stream.catch_up() == [(0, 8, "8"), (0, 9, "9")]
        contract.place.produce(name, ["late"], partition=1, timestamp=start)
        assert stream.catch_up() == [(0, 8, "8"), (0, 9, "9"), (1, 5, "late")]
    contract.failure_of(lambda: contract.drain(**{**options, "startingOffsetsByTimestampStrategy": "error"}))
