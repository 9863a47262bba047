"""Streams whose records, partitions or topics are gone: they fail, or continue with failOnDataLoss=false."""

from typing import Any

TOLERANT = {"failOnDataLoss": False}


def test_records_that_were_deleted_between_two_runs(contract: Any):
    topic = contract.topic()
    contract.place.produce(topic, ["a", "b"])
    options = {"subscribe": topic, "startingOffsets": "earliest", "checkpoint": "c"}
    assert len(contract.drain(**options).rows) == 2
    contract.place.produce(topic, ["c", "d", "e"])
    contract.place.delete_records(topic, 0, 4)
    failure = contract.failure_of(lambda: contract.drain(**options))
    assert "failOnDataLoss" in failure, "says what to do"
    assert contract.drain(**options, **TOLERANT).rows == [(0, 4, "e")]


def test_a_topic_that_was_deleted(contract: Any):
    prefix = contract.name("loss")
    stays, goes = (contract.place.create(f"{prefix}-{what}") for what in ("stays", "goes"))
    options = {"subscribePattern": f"^{prefix}", "startingOffsets": "earliest", "checkpoint": "c"}
    for topic in (stays, goes):
        contract.place.produce(topic, ["a"])
    assert len(contract.drain(**options).rows) == 2
    contract.place.delete(goes)
    contract.place.produce(stays, ["b"])
    contract.failure_of(lambda: contract.drain(**options))
    assert contract.drain(**options, **TOLERANT).rows == [(0, 1, "b")]


def test_a_topic_that_is_deleted_during_a_stream(contract: Any):
    prefix = contract.name("loss")
    stays, goes = (contract.place.create(f"{prefix}-{what}") for what in ("stays", "goes"))
    with contract.stream(subscribePattern=f"^{prefix}", startingOffsets="earliest", **TOLERANT) as stream:
        contract.place.produce(goes, ["a"])
        assert stream.catch_up() == [(0, 0, "a")]
        contract.place.delete(goes)
        contract.place.produce(stays, ["b"])
        assert stream.catch_up() == [(0, 0, "a"), (0, 0, "b")]


def test_a_topic_re_created_with_fewer_records(contract: Any):
    topic = contract.topic()
    contract.place.produce(topic, range(2))
    options = {"subscribe": topic, "startingOffsets": "earliest", "checkpoint": "c"}
    contract.drain(**options)
    contract.place.delete(topic)
    contract.place.create(topic)
    contract.place.produce(topic, ["new"])
    assert topic in contract.failure_of(lambda: contract.drain(**options))
