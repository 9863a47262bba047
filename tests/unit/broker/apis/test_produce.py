"""Produce: what is appended, what is refused, and that nothing is answered for acks=0."""

import uuid

import pytest

from ottla.core.errors import PeerError


def fields(records: bytes, topic="t", acks: int = -1, version: int = 9, partition: int = 0, transactional_id: str | None = None) -> dict:
    name = {"topic_id": topic} if version >= 13 else {"name": topic}
    data = [{**name, "partition_data": [{"index": partition, "records": records}]}]
    return {"transactional_id": transactional_id, "acks": acks, "timeout": 1000, "topic_data": data}


def result(answer):
    return answer.responses[0].partition_responses[0]


@pytest.mark.parametrize("version", range(3, 14))
def test_every_version_appends(api, make_topic, batch, version: int) -> None:
    topic = make_topic("t")
    name = uuid.UUID(bytes=topic.topic_id) if version >= 13 else "t"
    for base_offset in (0, 2):
        answer = result(api.ask(0, version, **fields(batch(b"a", b"b"), name, version=version)))
        assert (answer.error_code, answer.base_offset) == (0, base_offset)
    log = api.cluster.partitions.by_name("t", 0).log
    assert [(record.offset, record.value) for record in log.scan(0)] == [(0, b"a"), (1, b"b"), (2, b"a"), (3, b"b")]


@pytest.mark.parametrize(("topic", "partition", "error"), [("gone", 0, 3), ("t", 9, 3), ("t", -1, 3)])
def test_what_is_not_there(api, make_topic, batch, topic: str, partition: int, error: int) -> None:
    make_topic("t")
    assert result(api.ask(0, 9, **fields(batch(b"x"), topic, partition=partition))).error_code == error


def test_an_unknown_topic_id(api, batch) -> None:
    assert result(api.ask(0, 13, **fields(batch(b"x"), uuid.uuid4(), version=13))).error_code == 100


@pytest.mark.parametrize("name", ["__consumer_offsets", "__ottla_group_events"])
def test_s2_2_a_clients_produce_to_an_internal_topic_is_refused_and_nothing_crashes(api, make_topic, batch, name: str) -> None:
    make_topic(name, 3)
    answer = result(api.ask(0, 9, **fields(batch(b"x"), name)))
    assert (answer.error_code, answer.error_message) == (17, f"Cannot append to internal topic {name}")


def test_a_broken_batch_is_refused(api, make_topic, batch) -> None:
    make_topic("t")
    broken = bytearray(batch(b"value"))
    broken[-3] ^= 1
    assert result(api.ask(0, 9, **fields(bytes(broken)))).error_code == 2
    assert api.cluster.partitions.by_name("t", 0).log.log_end_offset == 0


@pytest.mark.parametrize(("acks", "transactional_id", "error"), [(2, None, 21), (-1, "tx", 42)])
def test_bad_acks_and_transactions(api, make_topic, batch, acks: int, transactional_id: str | None, error: int) -> None:
    make_topic("t")
    assert result(api.ask(0, 9, **fields(batch(b"x"), acks=acks, transactional_id=transactional_id))).error_code == error


def test_acks_0_is_not_answered_and_an_error_closes_the_connection(api, make_topic, batch) -> None:
    make_topic("t")
    assert api.ask(0, 9, **fields(batch(b"x"), acks=0)) is None
    assert api.cluster.partitions.by_name("t", 0).log.log_end_offset == 1
    with pytest.raises(PeerError):
        api.ask(0, 9, **fields(batch(b"x"), "gone", acks=0))


def test_records_that_end_before_their_length_are_the_peers_fault(api, make_topic, batch) -> None:
    make_topic("t")
    frame = api.encode(0, 3, fields(batch(b"x"), version=3))
    from ottla.broker.dispatch import dispatch, read_request

    found, request = read_request(memoryview(frame[:-5]), "/")
    with pytest.raises(PeerError):
        dispatch(api.cluster, found, request)


@pytest.mark.parametrize("version", [7, 8, 12])
def test_a_record_without_a_key_is_named_in_a_compacted_topic(api, make_topic, batch, version: int) -> None:
    make_topic("t", configs={"cleanup.policy": "compact"})
    answer = result(api.ask(0, version, **fields(batch(b"a", b"b"), version=version)))
    assert answer.error_code == 87
    if version >= 8:
        assert [error.batch_index for error in answer.record_errors] == [0, 1]
