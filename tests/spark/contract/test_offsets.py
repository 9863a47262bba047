"""Start and end of a batch: earliest and latest, offsets by partition, -2 and -1; missing or extra partitions; deleted records."""

import json
from typing import Any

import pytest


@pytest.fixture
def topic(contract: Any) -> str:
    """Ten records in partition 0, five in 1, none in 2."""
    topic: str = contract.topic(partitions=3)
    contract.place.produce(topic, range(10))
    contract.place.produce(topic, range(5), partition=1)
    return topic


def _offsets(topic: str, *offsets: int) -> str:
    return json.dumps({topic: {str(number): offset for number, offset in enumerate(offsets)}})


def _expected(*ranges: range) -> list[tuple[int, int]]:
    return [(partition, offset) for partition, offsets in enumerate(ranges) for offset in offsets]


def test_where_a_batch_begins_and_ends(contract: Any, topic: str):
    def read(**options: Any) -> Any:
        return contract.rows("partition", "offset", subscribe=topic, **options)

    everything = _expected(range(10), range(5))
    assert read() == read(startingOffsets="earliest", endingOffsets="latest") == read(startingOffsets="Earliest") == everything
    assert read(startingOffsets=_offsets(topic, 3, -2, -2)) == _expected(range(3, 10), range(5))
    assert read(endingOffsets=_offsets(topic, 4, -1, 0)) == _expected(range(4), range(5))
    assert read(startingOffsets=_offsets(topic, 3, 5, 0), endingOffsets=_offsets(topic, 4, -1, -1)) == [(0, 3)]
    assert read(startingOffsets=_offsets(topic, 4, 0, 0), endingOffsets=_offsets(topic, 4, 1, 0)) == [(1, 0)]


def test_offsets_name_every_partition_and_no_other(contract: Any, topic: str):
    other = contract.topic()
    missing, extra, foreign = _offsets(topic, 1, 1), _offsets(topic, 1, 1, 0, 0), _offsets(other, 0)
    for name, offsets in (("startingOffsets", missing), ("startingOffsets", extra), ("endingOffsets", missing), ("endingOffsets", foreign)):
        failure = contract.failure_of(lambda: contract.rows(subscribe=topic, **{name: offsets}))  # noqa: B023
        assert not contract.is_ours or name in failure


def test_offsets_that_do_not_exist(contract: Any, topic: str):
    def read(**options: Any) -> Any:
        return contract.rows("partition", "offset", subscribe=topic, **options)

    beyond = _offsets(topic, 12, -2, -2)
    contract.failure_of(lambda: read(startingOffsets=beyond, endingOffsets=_offsets(topic, 14, -1, -1)))
    contract.place.delete_records(topic, 0, 6)
    assert read() == [*((0, offset) for offset in range(6, 10)), *_expected(range(0), range(5))], "begins at what is earliest now"
    gone = {"startingOffsets": _offsets(topic, 2, -2, -2)}
    contract.failure_of(lambda: read(**gone))
    assert read(**gone, failOnDataLoss=False) == read()
    part = {"startingOffsets": _offsets(topic, 2, 5, 0), "endingOffsets": _offsets(topic, 8, -1, -1)}
    assert read(**part, failOnDataLoss=False) == [(0, 6), (0, 7)]
    all_gone = {"startingOffsets": _offsets(topic, 2, 5, 0), "endingOffsets": _offsets(topic, 4, -1, -1)}
    assert read(**all_gone, failOnDataLoss=False) == []
