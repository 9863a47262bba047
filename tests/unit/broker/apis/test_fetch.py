"""Fetch: bytes as they lie in the log, limits at every level, and waiting at the end."""

import asyncio
import uuid
from typing import Any

import pytest

from ottla.broker.apis import fetch as fetch_api
from ottla.broker.fetch.sessions import FetchSessions
from ottla.broker.network.memory import ResponseMemory
from ottla.config import BrokerConfig
from ottla.log.partition_log import PartitionLog
from ottla.protocol.errors import ErrorCode, StorageError
from ottla.protocol.model import Record
from ottla.protocol.records.batch import decode_batch, split_batches
from ottla.protocol.wire.api_keys import ApiKey


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
        answer = api.ask(ApiKey.PRODUCE, 9, transactional_id=None, acks=-1, timeout=1000, topic_data=data)
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE


@pytest.mark.parametrize("version", range(4, 19))
def test_every_version_reads(api, make_topic, batch, version: int) -> None:
    topic = make_topic("t")
    fill(api, batch, (b"a", b"b"), (b"c",))
    name = uuid.UUID(bytes=topic.topic_id) if version >= 13 else "t"
    (part,) = api.ask(ApiKey.FETCH, version, **fields(name, version=version)).responses[0].partitions
    assert (part.error_code, part.high_watermark, values(part)) == (0, 3, [b"a", b"b", b"c"])


def test_a_read_begins_with_the_batch_that_holds_the_offset(api, make_topic, batch) -> None:
    make_topic("t")
    fill(api, batch, (b"a", b"b"), (b"c", b"d"))
    (part,) = api.ask(ApiKey.FETCH, 12, **fields(offset=3)).responses[0].partitions
    assert values(part) == [b"c", b"d"]


@pytest.mark.parametrize(("topic", "partition", "offset", "error"), [("gone", 0, 0, 3), ("t", 5, 0, 3), ("t", 0, 9, 1), ("t", 0, -1, 1)])
def test_what_cannot_be_read_is_answered_at_once(api, make_topic, topic: str, partition: int, offset: int, error: int) -> None:
    make_topic("t")
    (part,) = api.ask(ApiKey.FETCH, 12, **fields(topic, offset, wait=60000, partitions=(partition,))).responses[0].partitions
    assert part.error_code == error


def test_an_unknown_topic_id(api) -> None:
    (part,) = api.ask(ApiKey.FETCH, 13, **fields(uuid.uuid4(), version=13)).responses[0].partitions
    assert part.error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_the_first_batch_comes_even_when_it_is_too_large_and_only_that(api, make_topic, batch) -> None:
    make_topic("t", 2)
    fill(api, batch, (b"a" * 100,), (b"b" * 100,))
    fill(api, batch, (b"c" * 100,), partition=1)
    first, second = api.ask(ApiKey.FETCH, 12, **fields(most=10, partitions=(0, 1))).responses[0].partitions
    assert (values(first), values(second)) == ([b"a" * 100], [])


def test_a_partitions_own_limit_holds(api, make_topic, batch) -> None:
    make_topic("t")
    fill(api, batch, *[(bytes([number]) * 100,) for number in range(10)])
    (part,) = api.ask(ApiKey.FETCH, 12, **fields(each=400)).responses[0].partitions
    assert len(values(part)) == 2  # 171 bytes each


def test_a_fetch_at_the_end_waits_and_is_woken_by_produce(api, make_topic, batch) -> None:
    make_topic("t")
    waiting = api.start(ApiKey.FETCH, 12, **fields(wait=60000))
    api.runner.run(asyncio.sleep(0))
    assert not waiting.done()
    fill(api, batch, (b"x",))
    assert values(api.finish(ApiKey.FETCH, 12, waiting).responses[0].partitions[0]) == [b"x"]
    assert api.cluster.partitions.by_name("t", 0).waiters == set()


def test_it_goes_on_waiting_until_there_are_enough_bytes(api, make_topic, batch) -> None:
    make_topic("t")
    waiting = api.start(ApiKey.FETCH, 12, **fields(wait=60000, least=200))
    fill(api, batch, (b"x" * 50,))
    api.runner.run(asyncio.sleep(0))
    assert not waiting.done()
    fill(api, batch, (b"y" * 50,))
    assert len(values(api.finish(ApiKey.FETCH, 12, waiting).responses[0].partitions[0])) == 2


@pytest.mark.parametrize("level", [0, 1])
def test_who_waits_for_many_bytes_reads_what_is_new_once(api, make_topic, batch, monkeypatch, level: int) -> None:
    make_topic("t", 2)
    read_bytes = 0
    really_read = PartitionLog.read

    def read(log: PartitionLog, *asked: Any, **how: Any) -> Any:
        nonlocal read_bytes
        found = really_read(log, *asked, **how)
        read_bytes += len(found or b"")
        return found

    monkeypatch.setattr(PartitionLog, "read", read)
    waiting = api.start(ApiKey.FETCH, 12, **fields(wait=60000, least=20_000, partitions=(0, 1)) | {"isolation_level": level})
    for number in range(40):
        assert not waiting.done()
        fill(api, batch, (b"x" * 430,), partition=number % 2)  # 500 bytes each
        api.runner.run(asyncio.sleep(0))
    first, second = api.finish(ApiKey.FETCH, 12, waiting).responses[0].partitions
    assert (len(values(first)), len(values(second))) == (20, 20)
    assert read_bytes <= 2 * 20_000 + 500


def test_who_waits_for_many_bytes_learns_of_a_deletion(api, make_topic, batch) -> None:
    make_topic("t")
    fill(api, batch, (b"x",))
    waiting = api.start(ApiKey.FETCH, 12, **fields(wait=60000, least=20_000))
    api.ask(ApiKey.DELETE_TOPICS, 5, timeout=1000, topic_names=["t"])
    assert api.finish(ApiKey.FETCH, 12, waiting).responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_it_is_answered_empty_when_its_time_is_up(api, make_topic) -> None:
    make_topic("t")
    (part,) = api.ask(ApiKey.FETCH, 12, **fields(wait=20)).responses[0].partitions
    assert (part.error_code, part.records) == (0, b"")
    assert api.cluster.partitions.by_name("t", 0).waiters == set()


def test_it_learns_when_its_topic_is_deleted(api, make_topic) -> None:
    make_topic("t")
    waiting = api.start(ApiKey.FETCH, 12, **fields(wait=60000))
    api.ask(ApiKey.DELETE_TOPICS, 5, timeout=1000, topic_names=["t"])
    assert api.finish(ApiKey.FETCH, 12, waiting).responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_session_that_we_never_gave_is_not_known(api, make_topic) -> None:
    make_topic("t")
    answer = api.ask(ApiKey.FETCH, 12, **{**fields(), "session_id": 77, "session_epoch": 1})
    assert (answer.error_code, answer.responses) == (70, ())


def test_an_answer_ends_when_it_holds_enough_unless_more_is_asked_for(api, make_topic, batch) -> None:
    make_topic("t", 3)
    for partition in range(3):
        for _ in range(4):
            fill(api, batch, (bytes(200_000),), partition=partition)

    def sizes(least: int) -> list[int]:
        answer = api.ask(ApiKey.FETCH, 12, **fields(partitions=(0, 1, 2), most=10_000_000, least=least))
        return [len(part.records) // 200_000 for part in answer.responses[0].partitions]

    assert sizes(1) == [1, 0, 0]
    assert sizes(900_000) == [4, 0, 0]
    assert sizes(10_000_000) == [4, 1, 0], "a reader that asks for much and takes nothing costs a megabyte"


def test_what_is_there_counts_though_its_next_batch_does_not_fit(api, make_topic, batch) -> None:
    make_topic("t", 3)
    for partition in range(2):
        fill(api, batch, *[(bytes(200_000),) for _ in range(4)], partition=partition)

    def sizes(**asked: Any) -> list[int] | None:
        waiting = api.start(ApiKey.FETCH, 12, **fields(wait=60_000, most=10_000_000, partitions=(0, 1, 2)) | asked)
        api.runner.run(asyncio.sleep(0))
        return (
            [len(part.records) // 200_000 for part in api.finish(ApiKey.FETCH, 12, waiting).responses[0].partitions]
            if waiting.done()
            else None
        )

    assert sizes(min_bytes=1 << 20) == [4, 1, 0]
    assert sizes(min_bytes=250_000) == [1, 0, 0]
    assert sizes(**fields(wait=60_000, least=500_000, most=10_000_000, each=300_000, partitions=(0, 1))) == [1, 1]
    assert sizes(**fields(wait=60_000, least=500_000, most=10_000_000, each=300_000)) is None, "one partition may not give so much"


# --- sessions


class Session:
    """A consumer with a session over partitions of topic `t`, or of the id that it is given."""

    def __init__(self, api: Any, version: int = 12, topic: Any = "t") -> None:
        self.api = api
        self.version = version
        self.topic = topic
        self.session_id = self.epoch = 0

    def ask(self, offsets: dict[int, int] | None = None, forgotten: tuple[int, ...] = (), **changes: Any) -> Any:
        name = {"topic_id": self.topic} if self.version >= 13 else {"topic": self.topic}
        asked = [
            {"partition": number, "fetch_offset": offset, "partition_max_bytes": 1 << 20, "current_leader_epoch": -1}
            for number, offset in (offsets or {}).items()
        ]
        given = {
            **fields(version=self.version, topic=self.topic),
            "session_id": self.session_id,
            "session_epoch": self.epoch,
            "topics": [{**name, "partitions": [part | {"log_start_offset": -1} for part in asked]}] if asked else [],
            "forgotten_topics_data": [{**name, "partitions": forgotten}] if forgotten else [],
        }
        answer = self.api.ask(ApiKey.FETCH, self.version, **given | changes)
        self.session_id = answer.session_id
        self.epoch += 1
        return answer

    def parts(self, *arguments: Any, **changes: Any) -> list[tuple[int, int, list[bytes]]]:
        """(partition, error, values) as they were answered."""
        answer = self.ask(*arguments, **changes)
        assert answer.error_code == ErrorCode.NONE, answer
        return [(part.partition_index, part.error_code, values(part)) for topic in answer.responses for part in topic.partitions]


@pytest.mark.parametrize("version", range(7, 19))
def test_a_session_answers_with_what_is_new(api, make_topic, batch, version: int) -> None:
    topic = make_topic("t", 3)
    session = Session(api, version, uuid.UUID(bytes=topic.topic_id) if version >= 13 else "t")
    assert session.parts({0: 0, 1: 0, 2: 0}) == [(0, 0, []), (1, 0, []), (2, 0, [])]
    assert session.session_id > 0
    assert session.parts() == []
    fill(api, batch, (b"a",), partition=1)
    assert session.parts() == [(1, 0, [b"a"])]
    assert session.parts() == [(1, 0, [b"a"])]  # until its reader has moved on
    assert session.parts({1: 1}) == []
    assert session.parts({}, (0, 2)) == []
    fill(api, batch, (b"b",), partition=0)
    assert session.parts() == []
    assert session.parts({0: 0}) == [(0, 0, [b"b"])]


def test_a_partition_that_gave_records_is_read_last(api, make_topic, batch) -> None:
    make_topic("t", 3)
    for partition in range(3):
        fill(api, batch, (b"%d" % partition,), partition=partition)
    session = Session(api)
    assert [number for number, _, found in session.parts({0: 0, 1: 0, 2: 0}, max_bytes=1) if found] == [0]
    seen = [next(number for number, _, found in session.parts(max_bytes=1) if found) for _ in range(6)]
    assert seen == [0, 1, 2, 0, 1, 2]


def test_the_log_start_is_news_and_so_is_the_end_of_an_error(api, make_topic, batch) -> None:
    make_topic("t")
    fill(api, batch, (b"a",), (b"b",))
    session = Session(api)
    assert session.parts({0: 9}) == [(0, 1, [])]
    assert session.parts() == [(0, 1, [])]
    assert session.parts({0: 2}) == [(0, 0, [])]
    assert session.parts() == []
    api.cluster.partitions.by_name("t", 0).log.delete_records(1)
    assert session.parts() == [(0, 0, [])]
    assert session.parts() == []


def test_a_wrong_epoch_and_a_session_that_is_gone(api, make_topic) -> None:
    make_topic("t")
    session = Session(api)
    session.ask({0: 0})
    known = session.session_id
    wrong = session.ask(session_epoch=5)
    assert (wrong.error_code, wrong.session_id, wrong.responses) == (71, 0, ())
    by_id = api.ask(ApiKey.FETCH, 13, **fields(uuid.uuid4(), version=13) | {"session_id": known, "session_epoch": 1, "topics": []})
    assert by_id.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    again = api.ask(ApiKey.FETCH, 12, **fields() | {"session_id": known, "session_epoch": -1})
    assert (again.error_code, again.session_id) == (0, 0)
    assert (
        api.ask(ApiKey.FETCH, 12, **fields() | {"session_id": known, "session_epoch": 1, "topics": []}).error_code
        == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    )


def test_without_room_for_sessions_requests_are_answered_as_ever(make_api, make_topic) -> None:
    api = make_api({"max.incremental.fetch.session.cache.slots": "0"})
    make_topic("t", of=api)
    session = Session(api)
    assert session.parts({0: 0}) == [(0, 0, [])]
    assert session.session_id == 0


def test_a_request_that_overtakes_another_one_of_its_session(api, make_topic, batch) -> None:
    make_topic("t")
    session = Session(api)
    session.ask({0: 0})
    incremental = {**fields(), "topics": [], "session_id": session.session_id}
    waiting = api.start(ApiKey.FETCH, 12, **incremental | {"session_epoch": 1, "max_wait": 60000})
    assert api.ask(ApiKey.FETCH, 12, **incremental | {"session_epoch": 2}).error_code == ErrorCode.NONE
    fill(api, batch, (b"a",))
    late = api.finish(ApiKey.FETCH, 12, waiting)
    assert (late.error_code, late.session_id, late.responses) == (71, session.session_id, ())


def test_a_session_waits_for_all_its_partitions(api, make_topic, batch) -> None:
    make_topic("t", 3)
    session = Session(api)
    session.ask({0: 0, 1: 0, 2: 0})
    incremental = {**fields(wait=60000), "topics": [], "session_id": session.session_id, "session_epoch": 1}
    waiting = api.start(ApiKey.FETCH, 12, **incremental)
    fill(api, batch, (b"a",), partition=2)
    (part,) = api.finish(ApiKey.FETCH, 12, waiting).responses[0].partitions
    assert (part.partition_index, values(part)) == (2, [b"a"])


def test_topic_ids_of_a_session_over_time(api, make_topic) -> None:
    first = make_topic("t")
    session = Session(api, 13, uuid.UUID(bytes=first.topic_id))
    assert session.parts({0: 0}) == [(0, 0, [])]
    api.ask(ApiKey.DELETE_TOPICS, 5, timeout=1000, topic_names=["t"])
    assert session.parts() == [(0, 3, [])]
    make_topic("t")
    assert session.parts() == [(0, 103, [])]
    assert (
        api.ask(ApiKey.FETCH, 13, **fields(session.topic, version=13)).responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    )
    unknown = Session(api, 13, uuid.uuid4())
    assert unknown.parts({0: 0}) == [(0, 100, [])]
    assert unknown.parts() == [(0, 100, [])]


def test_a_session_by_name_goes_on_with_a_new_topic_of_that_name(api, make_topic, batch) -> None:
    make_topic("t")
    session = Session(api)
    assert session.parts({0: 0, 7: 0}) == [(0, 0, []), (7, 3, [])]
    api.ask(ApiKey.DELETE_TOPICS, 5, timeout=1000, topic_names=["t"])
    assert session.parts() == [(0, 3, []), (7, 3, [])]
    make_topic("t")
    fill(api, batch, (b"a",))
    assert session.parts() == [(0, 0, [b"a"]), (7, 3, [])]


# --- waiting


def test_what_is_not_there_does_not_end_the_waiting_of_others(api, make_topic, batch) -> None:
    make_topic("t")
    waiting = api.start(ApiKey.FETCH, 12, **fields(wait=60000, partitions=(0, 5)))
    api.runner.run(asyncio.sleep(0))
    assert not waiting.done()
    fill(api, batch, (b"x",))
    first, second = api.finish(ApiKey.FETCH, 12, waiting).responses[0].partitions
    assert (values(first), second.error_code) == ([b"x"], 3)


def test_more_than_may_be_sent_is_not_waited_for(api, make_topic, batch) -> None:
    make_topic("t")
    fill(api, batch, (b"x" * 100,))
    (part,) = api.ask(ApiKey.FETCH, 12, **fields(wait=60000, least=1000, most=100)).responses[0].partitions
    assert len(values(part)) == 1


def test_no_fetch_waits_for_a_connection_that_is_gone(api, make_topic) -> None:
    make_topic("t")
    sent: list[Any] = []

    async def story() -> None:
        kind, request = api.dispatcher.read_request(memoryview(api.encode(1, 12, fields(wait=60000))), api.session)
        request.send = sent.append
        api.dispatcher.dispatch(kind, request)
        partition = api.cluster.partitions.by_name("t", 0)
        assert len(partition.waiters) == 1
        request.on_disconnect()
        assert partition.waiters == set()

    api.runner.run(story())
    assert sent == []


def test_a_topic_that_is_not_the_one_of_the_session_ends_the_waiting(api, make_topic) -> None:
    first = make_topic("t")
    make_topic("u")
    session = Session(api, 13, uuid.UUID(bytes=first.topic_id))
    session.ask({0: 0})
    api.ask(ApiKey.DELETE_TOPICS, 5, timeout=1000, topic_names=["t"])
    make_topic("t")
    other = uuid.UUID(bytes=api.cluster.cluster_metadata.topics["u"].topic_id)
    added = fields(other, version=13, wait=60000) | {"session_id": session.session_id, "session_epoch": 1}
    errors = {part.error_code for topic in api.ask(ApiKey.FETCH, 13, **added).responses for part in topic.partitions}
    assert errors == {0, 103}


def test_a_partition_that_is_offline_is_reported_at_once_and_the_others_live(api, make_topic, batch, monkeypatch) -> None:
    make_topic("t", 2)
    fill(api, batch, (b"x",), partition=1)
    really_get = type(api.cluster.partitions).get

    def get(partitions: Any, topic: Any, number: int) -> Any:
        if number == 0:
            raise StorageError("cannot open t-0: the disk reports an error; check the device")
        return really_get(partitions, topic, number)

    monkeypatch.setattr(type(api.cluster.partitions), "get", get)
    by_number = {
        part.partition_index: part for part in api.ask(ApiKey.FETCH, 12, **fields(wait=60000, partitions=(0, 1))).responses[0].partitions
    }
    assert (by_number[0].error_code, values(by_number[1])) == (56, [b"x"])
    alone = api.ask(ApiKey.FETCH, 12, **fields(wait=60000)).responses[0].partitions[0]
    assert alone.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    monkeypatch.undo()
    assert api.ask(ApiKey.FETCH, 12, **fields()).responses[0].partitions[0].error_code == ErrorCode.NONE


@pytest.mark.parametrize("version", range(9, 19))
def test_a_reader_with_an_old_leader_epoch_learns_who_leads(api, make_topic, batch, version: int) -> None:
    topic = make_topic("t")
    api.cluster.partitions.by_name("t", 0).log.leader_epoch = 3
    name = uuid.UUID(bytes=topic.topic_id) if version >= 13 else "t"
    asked = fields(name, version=version, wait=60000)
    asked["topics"][0]["partitions"][0]["current_leader_epoch"] = 2
    answer = api.ask(ApiKey.FETCH, version, **asked)
    (part,) = answer.responses[0].partitions
    assert part.error_code == ErrorCode.FENCED_LEADER_EPOCH
    if version >= 16:
        assert (part.current_leader.leader_id, part.current_leader.leader_epoch) == (1, 3)
        assert [(node.node_id, node.host, node.port) for node in answer.node_endpoints] == [(1, "127.0.0.1", 9092)]


def at_leader_epoch(epoch: int) -> dict[str, Any]:
    """Partition 0 of topic `t`, read by a client that knows this leader epoch."""
    (topic,) = fields()["topics"]
    (part,) = topic["partitions"]
    return {"topics": [topic | {"partitions": [part | {"current_leader_epoch": epoch}]}]}


def test_a_session_takes_over_a_changed_leader_epoch(api, make_topic) -> None:
    make_topic("t")
    api.cluster.partitions.by_name("t", 0).log.leader_epoch = 3
    session = Session(api)
    assert session.parts(**at_leader_epoch(3)) == [(0, ErrorCode.NONE, [])]
    assert session.parts(**at_leader_epoch(2)) == [(0, ErrorCode.FENCED_LEADER_EPOCH, [])]
    assert session.parts(**at_leader_epoch(4)) == [(0, ErrorCode.UNKNOWN_LEADER_EPOCH, [])]
    assert session.parts(**at_leader_epoch(3)) == [(0, ErrorCode.NONE, [])]


def test_a_session_request_that_names_nothing_is_fenced_by_a_new_leader_epoch(api, make_topic) -> None:
    make_topic("t")
    log = api.cluster.partitions.by_name("t", 0).log
    log.leader_epoch = 3
    session = Session(api)
    session.parts(**at_leader_epoch(3))
    assert session.parts() == []
    log.leader_epoch = 4
    assert session.parts() == [(0, ErrorCode.FENCED_LEADER_EPOCH, [])]


def test_it_reads_what_its_broker_leads(one_api, metadata, partitions, brokers) -> None:
    api = one_api(
        fetch_api.API,
        background=None,
        clock=lambda: 1_700_000_000_000,
        cluster_metadata=metadata,
        config=BrokerConfig(),
        fetch_sessions=FetchSessions(10, lambda: 1),
        node=brokers.nodes[1],
        partitions=partitions,
        response_memory=ResponseMemory(),
    )
    partitions.get(metadata.topics["t"], 0).log.append_records([Record(0, 5, None, b"v")], now_ms=5)
    parts = [
        {"partition": number, "fetch_offset": 0, "partition_max_bytes": 1000, "current_leader_epoch": -1, "log_start_offset": -1}
        for number in (0, 1, 2)
    ]
    topics = [{"topic": "t", "topic_id": None, "partitions": parts}]
    answer = api.ask(ApiKey.FETCH, 12, max_wait=0, min_bytes=1, max_bytes=1000, topics=topics, forgotten_topics_data=[])
    assert [(part.partition_index, part.error_code, bool(part.records)) for part in answer.responses[0].partitions] == [
        (0, ErrorCode.NONE, True),
        (1, ErrorCode.NOT_LEADER_OR_FOLLOWER, False),
        (2, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, False),
    ]
