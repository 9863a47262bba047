"""Fetch: bytes as they lie in the log, limits at every level, and waiting at the end."""

import asyncio
import uuid

import pytest

from ottla.core.records.batch import decode_batch, split_batches


def fields(
    topic="t", offset: int = 0, version: int = 12, wait: int = 0, least: int = 1, most: int = 1 << 20, partitions=(0,), each=1 << 20
):
    name = {"topic_id": topic} if version >= 13 else {"topic": topic}
    asked = [
        {"partition": number, "fetch_offset": offset, "partition_max_bytes": each, "current_leader_epoch": -1, "log_start_offset": -1}
        for number in partitions
    ]
    return {
        "replica_id": -1, "max_wait": wait, "min_bytes": least, "max_bytes": most, "isolation_level": 0, "session_id": 0,
        "session_epoch": -1, "topics": [{**name, "partitions": asked}], "forgotten_topics_data": [], "rack_id": "",
    }  # fmt: skip


def values(part) -> list[bytes]:
    data = part.records or b""
    return [record.value for at, _ in split_batches(data) for record in decode_batch(data, at)]


def fill(api, batch, *batches: tuple[bytes, ...], partition: int = 0) -> None:
    for contents in batches:
        data = [{"name": "t", "partition_data": [{"index": partition, "records": batch(*contents)}]}]
        answer = api.ask(0, 9, transactional_id=None, acks=-1, timeout=1000, topic_data=data)
        assert answer.responses[0].partition_responses[0].error_code == 0


@pytest.mark.parametrize("version", range(4, 19))
def test_every_version_reads(api, make_topic, batch, version: int) -> None:
    topic = make_topic("t")
    fill(api, batch, (b"a", b"b"), (b"c",))
    name = uuid.UUID(bytes=topic.topic_id) if version >= 13 else "t"
    (part,) = api.ask(1, version, **fields(name, version=version)).responses[0].partitions
    assert (part.error_code, part.high_watermark, values(part)) == (0, 3, [b"a", b"b", b"c"])


def test_a_read_begins_with_the_batch_that_holds_the_offset(api, make_topic, batch) -> None:
    make_topic("t")
    fill(api, batch, (b"a", b"b"), (b"c", b"d"))
    (part,) = api.ask(1, 12, **fields(offset=3)).responses[0].partitions
    assert values(part) == [b"c", b"d"]


@pytest.mark.parametrize(("topic", "partition", "offset", "error"), [("gone", 0, 0, 3), ("t", 5, 0, 3), ("t", 0, 9, 1), ("t", 0, -1, 1)])
def test_what_cannot_be_read_is_answered_at_once(api, make_topic, topic: str, partition: int, offset: int, error: int) -> None:
    make_topic("t")
    (part,) = api.ask(1, 12, **fields(topic, offset, wait=60000, partitions=(partition,))).responses[0].partitions
    assert part.error_code == error


def test_an_unknown_topic_id(api) -> None:
    (part,) = api.ask(1, 13, **fields(uuid.uuid4(), version=13)).responses[0].partitions
    assert part.error_code == 100


def test_the_first_batch_comes_even_when_it_is_too_large_and_only_that(api, make_topic, batch) -> None:
    make_topic("t", 2)
    fill(api, batch, (b"a" * 100,), (b"b" * 100,))
    fill(api, batch, (b"c" * 100,), partition=1)
    first, second = api.ask(1, 12, **fields(most=10, partitions=(0, 1))).responses[0].partitions
    assert (values(first), values(second)) == ([b"a" * 100], [])


def test_a_partitions_own_limit_holds(api, make_topic, batch) -> None:
    make_topic("t")
    fill(api, batch, *[(bytes([number]) * 100,) for number in range(10)])
    (part,) = api.ask(1, 12, **fields(each=400)).responses[0].partitions
    assert len(values(part)) == 2  # 171 bytes each


def test_a_fetch_at_the_end_waits_and_is_woken_by_produce(api, make_topic, batch) -> None:
    make_topic("t")
    waiting = api.start(1, 12, **fields(wait=60000))
    api.runner.run(asyncio.sleep(0))
    assert not waiting.done()
    fill(api, batch, (b"x",))
    assert values(api.finish(1, 12, waiting).responses[0].partitions[0]) == [b"x"]
    assert api.cluster.partitions.by_name("t", 0).waiters == set()


def test_it_goes_on_waiting_until_there_are_enough_bytes(api, make_topic, batch) -> None:
    make_topic("t")
    waiting = api.start(1, 12, **fields(wait=60000, least=200))
    fill(api, batch, (b"x" * 50,))
    api.runner.run(asyncio.sleep(0))
    assert not waiting.done()
    fill(api, batch, (b"y" * 50,))
    assert len(values(api.finish(1, 12, waiting).responses[0].partitions[0])) == 2


def test_it_is_answered_empty_when_its_time_is_up(api, make_topic) -> None:
    make_topic("t")
    (part,) = api.ask(1, 12, **fields(wait=20)).responses[0].partitions
    assert (part.error_code, part.records) == (0, b"")
    assert api.cluster.partitions.by_name("t", 0).waiters == set()


def test_it_is_told_when_its_topic_is_deleted(api, make_topic) -> None:
    make_topic("t")
    waiting = api.start(1, 12, **fields(wait=60000))
    api.ask(20, 5, timeout=1000, topic_names=["t"])
    assert api.finish(1, 12, waiting).responses[0].partitions[0].error_code == 3


def test_a_session_that_we_never_gave_is_not_known(api, make_topic) -> None:
    make_topic("t")
    answer = api.ask(1, 12, **{**fields(), "session_id": 77, "session_epoch": 1})
    assert (answer.error_code, answer.responses) == (70, ())


def test_an_answer_ends_when_it_holds_enough_unless_more_is_asked_for(api, make_topic, batch) -> None:
    make_topic("t", 3)
    for partition in range(3):
        for _ in range(4):
            fill(api, batch, (bytes(200_000),), partition=partition)

    def sizes(least: int) -> list[int]:
        answer = api.ask(1, 12, **fields(partitions=(0, 1, 2), most=10_000_000, least=least))
        return [len(part.records) // 200_000 for part in answer.responses[0].partitions]

    assert sizes(1) == [1, 0, 0]
    assert sizes(1_300_000) == [4, 2, 0]
