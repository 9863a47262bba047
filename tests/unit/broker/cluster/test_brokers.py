"""The brokers of a process, and partitions that requests open."""

import asyncio

import pytest

from ottla.broker.apis import produce
from ottla.broker.cluster.brokers import Brokers, Node, pack_endpoints, pack_leader
from ottla.broker.network.request import Endpoint
from ottla.broker.partitions.partitions import Partitions
from ottla.config import BrokerConfig
from ottla.log.partition_log import PartitionLog
from ottla.metadata.cluster_metadata import ClusterMetadata
from ottla.metadata.topics import NewTopic
from ottla.protocol.errors import ErrorCode, StorageError
from ottla.protocol.model import Record
from ottla.protocol.records.batch import encode_batch
from ottla.protocol.wire.api_keys import ApiKey
from ottla.protocol.wire.primitives import Writer
from tests.support.kit.sessions import listen

LIST_OFFSETS = {"replica_id": -1, "isolation_level": 0}


@pytest.fixture
def metadata() -> ClusterMetadata:
    return ClusterMetadata((1, 2), BrokerConfig().text)


@pytest.fixture
def brokers(metadata: ClusterMetadata) -> Brokers:
    made = Brokers(metadata)
    for node_id in (1, 2):
        made.add(Node(node_id, cluster_metadata=metadata, partitions=Partitions.__new__(Partitions)))
    return made


def test_the_controller_is_the_first_that_runs(brokers: Brokers, metadata: ClusterMetadata) -> None:
    metadata.live_ids = {1, 2}
    assert brokers.controller_id == 1
    metadata.live_ids = {2}
    assert brokers.controller_id == 2
    metadata.live_ids = set()
    assert brokers.controller_id == -1


def test_where_a_broker_is(brokers: Brokers) -> None:
    listen(brokers.nodes[2], "h", 9093)
    assert brokers.endpoint("PLAINTEXT", 2) == (2, "h", 9093)
    assert brokers.endpoint("OTHER", 2) is None
    assert brokers.endpoint("PLAINTEXT", 3) is None
    brokers.nodes[2].listeners["PLAINTEXT"] = brokers.nodes[2].listeners["PLAINTEXT"]._replace(advertised=None)
    assert brokers.endpoint("PLAINTEXT", 2) is None


def test_one_more_and_one_that_could_not_be_started(brokers: Brokers, metadata: ClusterMetadata) -> None:
    third = Node(3, cluster_metadata=metadata, partitions=Partitions.__new__(Partitions))
    brokers.add(third)
    assert metadata.broker_ids == (1, 2, 3)
    brokers.remove(third)
    assert (metadata.broker_ids, list(brokers.nodes)) == ((1, 2), [1, 2])


# One of several brokers: where it is, and what it leads.


def test_it_has_an_address_for_clients(api) -> None:
    assert api.node.address() == "127.0.0.1:9092"
    assert api.node.endpoint("PLAINTEXT") == (1, "127.0.0.1", 9092)
    listen(api.node, "::1", 9092)
    assert api.node.address("PLAINTEXT") == "[::1]:9092"
    assert api.node.address("OTHER") == ""


@pytest.mark.parametrize(("broker", "first", "second"), [(1, "t-0", 6), (2, 6, "t-1")])
def test_it_hands_out_what_it_leads(make_api, broker, first, second) -> None:
    api = make_api(brokers=2)
    api.cluster.topics.create(NewTopic(name="t", partitions=2))
    node = api.cluster.brokers.nodes[broker]
    for number, expected in enumerate((first, second)):
        led = node.led("t", number)
        assert (led if isinstance(led, ErrorCode) else f"{led.name.topic}-{led.name.partition}") == expected
    assert node.led("t", 2) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert node.led("t", -1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert node.led("other", 0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_it_is_alive_while_the_catalogue_says_so(api) -> None:
    assert api.node.is_alive
    api.cluster.cluster_metadata.live_ids.clear()
    assert not api.node.is_alive


# Who leads instead, as bytes; that they are what kio reads is held by the tests of Fetch and Produce.


def test_the_leader_of_a_partition_is_a_section_of_one_tagged_field() -> None:
    out = Writer(flexible=True)
    pack_leader(out, 1, leader_id=3, leader_epoch=7)
    assert bytes(out.data) == b"\x01\x01\x09" + (3).to_bytes(4, "big") + (7).to_bytes(4, "big") + b"\0"


def test_each_leader_is_named_once_and_strangers_are_left_out() -> None:
    out = Writer(flexible=True)
    pack_endpoints(out, [2, 1, 2, 9], {1: Endpoint(1, "a", 5), 2: Endpoint(2, "b", 6)}.get)
    first = (1).to_bytes(4, "big") + b"\x02a" + (5).to_bytes(4, "big") + b"\0\0"
    second = (2).to_bytes(4, "big") + b"\x02b" + (6).to_bytes(4, "big") + b"\0\0"
    assert bytes(out.data) == bytes([1, 0, 1 + len(first + second), 3]) + first + second


def test_an_answer_that_names_no_leader_ends_empty() -> None:
    out = Writer(flexible=True)
    pack_endpoints(out, [9], {}.get)
    assert bytes(out.data) == b"\0"


def reopened(make_api, held, partitions: int):
    """A broker after a clean stop; each partition has three records."""
    first = make_api()
    first.cluster.topics.create(NewTopic(name="t", partitions=partitions))
    for number in range(partitions):
        log = first.cluster.partitions.by_name("t", number).log
        log.append_records([Record(0, 5, None, b"x")] * 3, now_ms=5)

    async def close() -> None:
        first.cluster.close()

    first.runner.run(close())
    return make_api(files=first.files, opening_executor=held)


async def go_on() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def ends(number: int) -> dict[str, object]:
    return {**LIST_OFFSETS, "topics": [{"name": "t", "partitions": [{"partition_index": each, "timestamp": -1} for each in range(number)]}]}


def epochs(number: int) -> dict[str, object]:
    asked = [{"partition": each, "current_leader_epoch": -1, "leader_epoch": 0} for each in range(number)]
    return {"replica_id": -1, "topics": [{"topic": "t", "partitions": asked}]}


def starts(number: int) -> dict[str, object]:
    return {"timeout": 1000, "topics": [{"name": "t", "partitions": [{"partition_index": each, "offset": 2} for each in range(number)]}]}


def records(number: int) -> dict[str, object]:
    batch = bytes(encode_batch([Record(0, 1_700_000_000_000, None, b"y")]))
    data = [{"index": each, "records": batch} for each in range(number)]
    return {"acks": -1, "timeout": 1000, "topic_data": [{"name": "t", "partition_data": data}]}


ASKED = {
    2: (3, ends, lambda answer: [(part.error_code, part.offset) for part in answer.topics[0].partitions]),
    23: (3, epochs, lambda answer: [(part.error_code, part.end_offset) for part in answer.topics[0].partitions]),
    21: (1, starts, lambda answer: [(part.error_code, part.low_watermark) for part in answer.topics[0].partitions]),
    0: (8, records, lambda answer: [(part.error_code, part.base_offset) for part in answer.responses[0].partition_responses]),
}
FOUND = {2: 3, 23: 3, 21: 2, 0: 3}


@pytest.mark.parametrize("key", ASKED)
def test_a_request_waits_while_its_partitions_are_opened(make_api, held, key: int) -> None:
    api = reopened(make_api, held, 2)
    version, fields, found = ASKED[key]
    answer = api.start(key, version, **fields(2))
    api.runner.run(go_on())
    assert (answer.done(), len(held.held)) == (False, 2)
    held.run(1)
    api.runner.run(go_on())
    assert not answer.done()
    held.run(1)
    assert found(api.finish(key, version, answer)) == [(ErrorCode.NONE, FOUND[key])] * 2


@pytest.mark.parametrize("key", ASKED)
def test_a_partition_that_cannot_be_opened_costs_the_others_nothing(make_api, held, monkeypatch, key: int) -> None:
    api = reopened(make_api, held, 2)
    version, fields, found = ASKED[key]
    open_log = PartitionLog.open

    def fail(log, now_ms, **known):
        if log.directory == "t-0":
            raise StorageError("cannot read t-0: the disk reports an error")
        return open_log(log, now_ms, **known)

    monkeypatch.setattr(PartitionLog, "open", fail)
    answer = api.start(key, version, **fields(2))
    api.runner.run(go_on())
    held.run()
    assert found(api.finish(key, version, answer)) == [(ErrorCode.KAFKA_STORAGE_ERROR, -1), (ErrorCode.NONE, FOUND[key])]


@pytest.mark.parametrize("key", ASKED)
def test_a_topic_may_be_deleted_while_a_request_waits_for_its_partitions(make_api, held, key: int) -> None:
    api = reopened(make_api, held, 1)
    version, fields, found = ASKED[key]
    answer = api.start(key, version, **fields(1))

    async def delete() -> None:
        await go_on()
        assert api.cluster.topic_deletion.delete("t") is None
        await held.run_for(api.cluster.partitions.when_moved(["t"]))

    api.runner.run(delete())
    assert found(api.finish(key, version, answer)) == [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)]


@pytest.mark.parametrize("key", ASKED)
def test_a_leader_may_move_while_a_request_waits_for_its_partition(make_api, held, key: int) -> None:
    api = reopened(make_api, held, 1)
    version, fields, found = ASKED[key]
    answer = api.start(key, version, **fields(1))

    async def move() -> None:
        await go_on()
        topic = api.cluster.topics.get("t")
        topic.leaders[0] = 7
        held.run()
        await go_on()

    api.runner.run(move())
    assert found(api.finish(key, version, answer)) == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]


def test_a_client_that_goes_is_not_answered(make_api, held) -> None:
    api = reopened(make_api, held, 1)
    sent: list[object] = []

    async def ask_and_go() -> None:
        kind, request = api.dispatcher.read_request(memoryview(api.encode(2, 3, ends(1))), api.session)
        request.send = sent.append
        api.dispatcher.dispatch(kind, request)
        await go_on()
        request.on_disconnect()
        held.run()
        await go_on()

    api.runner.run(ask_and_go())
    assert sent == []


def test_records_of_a_producer_that_waits_for_no_answer_are_appended_though_it_has_gone(make_api, held) -> None:
    api = reopened(make_api, held, 1)

    async def ask_and_go() -> None:
        frame = api.encode(0, 8, {**records(1), "acks": 0})
        kind, request = api.dispatcher.read_request(memoryview(frame), api.session)
        request.send = lambda _parts: None
        api.dispatcher.dispatch(kind, request)
        frame[:] = bytes(len(frame))  # the server reads the next request into it
        request.on_disconnect()
        await go_on()
        held.run()
        await go_on()

    api.runner.run(ask_and_go())
    assert api.cluster.partitions.by_name("t", 0).log.log_end_offset == 4


def test_where_everything_is_open_produce_looks_at_no_partition_first(api, monkeypatch) -> None:
    api.cluster.topics.create(NewTopic(name="t", partitions=1))
    monkeypatch.setattr(produce.Produce, "_unopened", None)
    assert ASKED[0][2](api.ask(ApiKey.PRODUCE, 8, **records(1))) == [(ErrorCode.NONE, 0)]


def test_records_for_very_many_partitions_are_appended_over_several_iterations(api, monkeypatch) -> None:
    monkeypatch.setattr(produce, "PARTITIONS_AT_ONCE_MAX", 3)
    monkeypatch.setattr(produce, "SHARE_S", -1.0)
    api.cluster.topics.create(NewTopic(name="t", partitions=8))
    answer = api.start(ApiKey.PRODUCE, 8, **records(8))

    async def count() -> list[int]:
        counts = []
        while not answer.done():
            counts.append(len(api.cluster.partitions.opened()))
            await asyncio.sleep(0)
        return counts

    counts = api.runner.run(count())
    assert counts[0] < counts[len(counts) // 2] < 8
    assert ASKED[0][2](api.finish(ApiKey.PRODUCE, 8, answer)) == [(ErrorCode.NONE, 0)] * 8
