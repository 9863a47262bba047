"""Topics and partitions of a query: subscribe, assign, subscribePattern; in a stream, also those that are added later."""

import json
from typing import Any

import pytest


@pytest.fixture
def topics(contract: Any) -> tuple[str, str]:
    """Two topics of two partitions, a record in each."""
    made = contract.topic(partitions=2), contract.topic(partitions=2)
    for topic in made:
        for partition in range(2):
            contract.place.produce(topic, [f"{topic}/{partition}"], partition=partition)
    return made


def test_by_name_number_and_pattern(contract: Any, topics: tuple[str, str]):
    a, b = topics
    where = ("topic", "partition")
    everything = [(topic, partition) for topic in (a, b) for partition in range(2)]
    assert contract.rows(*where, subscribe=f" {a} ,{b}, ") == everything
    assert contract.rows(*where, subscribe=b) == everything[2:]
    assert contract.rows(*where, assign=json.dumps({a: [1], b: [0]})) == [(a, 1), (b, 0)]
    # A part of the name may match.
    assert contract.rows(*where, subscribePattern=f"{a[1:-1]}[{a[-1]}{b[-1]}]") == everything
    assert contract.rows(*where, subscribePattern=f" ^{b}$ ") == everything[2:]
    assert contract.rows(*where, subscribePattern=f"^{a[:-1]}$") == []
    assert contract.rows(*where, subscribePattern="nothing-is-called-so") == []


def test_a_topic_that_does_not_exist(contract: Any):
    missing = contract.name("missing")
    contract.failure_of(lambda: contract.rows(assign=json.dumps({missing: [0]})))
    # A partition that is not there is left out.
    topic = contract.topic()
    contract.place.produce(topic, ["a"])
    assert contract.rows(assign=json.dumps({topic: [0, 1]})) == [(0, 0, "a")]


def test_an_empty_topic(contract: Any):
    topic = contract.topic(partitions=2)
    assert contract.rows(subscribe=topic) == []
    assert contract.load(subscribe=topic).count() == 0
    assert contract.drain(subscribe=topic, startingOffsets="earliest").rows == []


def test_topics_and_partitions_that_are_added_during_a_stream(contract: Any):
    prefix = contract.name("grows")
    first, second = contract.place.create(f"{prefix}-1"), f"{prefix}-2"
    contract.place.produce(first, ["old"])
    options = {"subscribePattern": f"{prefix}.*", "kafka_metadata_max_age_ms": "100"}
    with contract.stream(**options) as stream:
        assert stream.catch_up() == [], "a stream begins at the end"
        contract.place.produce(first, ["a"])
        assert stream.catch_up() == [(0, 1, "a")]
        contract.place.create(second)
        contract.place.produce(second, ["b"])
        contract.place.grow(first, 2)
        contract.place.produce(first, ["c"], partition=1)
        assert stream.catch_up() == [(0, 0, "b"), (0, 1, "a"), (1, 0, "c")], "what is new is read from its beginning"
