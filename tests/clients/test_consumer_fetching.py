"""How `ottla.Consumer` fetches from real brokers: ahead of the application, in sessions, and from positions that the log holds."""

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla import KafkaError, TopicPartition
from ottla.broker import Broker
from ottla.client.addresses import Address
from ottla.client.consumer import requests
from ottla.client.fetch.fetch_values import FetchPolicy, SessionFields
from ottla.client.fetch.requests import BY_ID, decode_fetch, encode_fetch
from ottla.client.network.connector import connect
from ottla.client.settings import ClientSettings
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records.batch import split_batches
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.waiting import wait_until

Make = Callable[..., ottla.Consumer]


@pytest.fixture
def fetches(monkeypatch: pytest.MonkeyPatch) -> list[SessionFields]:
    """Every Fetch that consumers send, in its order."""
    sent: list[SessionFields] = []

    def encode(session: SessionFields, policy: FetchPolicy, version: int) -> bytes:
        sent.append(session)
        return encode_fetch(session, policy, version)

    monkeypatch.setattr(requests, "encode_fetch", encode)
    return sent


@pytest.fixture
def errors(monkeypatch: pytest.MonkeyPatch) -> list[ErrorCode]:
    """The error of every whole Fetch response."""
    found: list[ErrorCode] = []

    def decode(response: memoryview, *arguments: Any) -> Any:
        decoded = decode_fetch(response, *arguments)
        found.append(decoded.error)
        return decoded

    monkeypatch.setattr(requests, "decode_fetch", decode)
    return found


@pytest.fixture
def make(kafka_broker: Any, unique_name: Callable[[str], str]) -> Iterator[Make]:
    """A consumer of the broker, closed at the end."""
    made: list[ottla.Consumer] = []
    group = unique_name("group")

    def consumer(**properties: Any) -> ottla.Consumer:
        config = {"bootstrap.servers": kafka_broker.bootstrap_servers, "group.id": group, "auto.offset.reset": "earliest"}
        made.append(ottla.Consumer(config | {name.replace("_", "."): value for name, value in properties.items()}))
        return made[-1]

    yield consumer
    for each in made:
        each.close()


@pytest.fixture
def library(kafka_broker: Any, library_on: Callable[..., Any]) -> Any:
    return library_on(kafka_broker)


@pytest.fixture
def topic(library: Any, unique_name: Callable[[str], str]) -> str:
    """Three partitions, with a hundred records in the first one."""
    made = unique_name("topic")
    library.create_topic(made, 3)
    library.produce(made, [(0, b"%d" % number) for number in range(100)])
    return made


def values(messages: list[Any]) -> list[int]:
    assert [message.error() for message in messages] == [None] * len(messages)
    return [int(message.value()) for message in messages]


def offsets(sent: list[SessionFields]) -> list[int]:
    """The offsets in partition 0 that were requested."""
    return [fetch.offset for session in sent for fetch in session.sent if fetch.partition.partition == 0]


def test_a_hundred_records_take_seven_polls_of_fifteen_and_no_second_fetch(make: Make, topic: str, fetches: list[SessionFields]) -> None:
    consumer = make(max_poll_records=15)
    consumer.assign([TopicPartition(topic, 0, 0)])
    counts = []
    for _ in range(6):
        counts.append(len(consumer.consume(500, 20)))
        assert offsets(fetches) == [0]
    counts.append(len(consumer.consume(500, 0)))
    assert counts == [15] * 6 + [10]
    wait_until(lambda: offsets(fetches) == [0, 100], "the next fetch")


def test_the_next_fetch_is_sent_before_the_application_polls_again(make: Make, topic: str, fetches: list[SessionFields]) -> None:
    consumer = make()
    consumer.assign([TopicPartition(topic, 0, 0)])
    assert values(consumer.consume(100, 20)) == list(range(100))
    wait_until(lambda: offsets(fetches) == [0, 100], "a fetch of what comes next, while the application works")


def test_fetches_of_a_session_name_what_has_changed(
    make: Make, library: Any, topic: str, fetches: list[SessionFields], errors: list[ErrorCode]
) -> None:
    consumer = make(fetch_max_wait_ms=50)
    consumer.assign([TopicPartition(topic, number, 0) for number in range(3)])
    assert values(consumer.consume(100, 20)) == list(range(100))
    wait_until(lambda: fetches[-1].epoch > 2 and not fetches[-1].sent, "a fetch that names nothing, since nothing has changed")
    first, *later = list(fetches)
    assert (first.session_id, first.epoch, len(first.sent)) == (0, 0, 3)
    assert len({each.session_id for each in later} - {0}) == 1
    assert [each.epoch for each in later] == list(range(1, len(later) + 1))
    assert all({fetch.partition.partition for fetch in each.sent} <= {0} for each in later)
    library.produce(topic, [(2, b"7")])
    assert values(consumer.consume(1, 20)) == [7]
    consumer.unassign()
    consumer.assign([TopicPartition(topic, 0, 90)])
    assert values(consumer.consume(10, 20)) == list(range(90, 100))
    assert {fetch.partition.partition for each in fetches for fetch in each.forgotten} >= {1, 2}
    session_id = fetches[-1].session_id
    consumer.close()
    assert fetches[-1] == SessionFields(session_id, -1, ())
    assert set(errors) == {ErrorCode.NONE}


def spoil(kafka_broker: Any, session: SessionFields, epoch: int) -> ErrorCode:
    """Send a request in the session of another client; gives its error."""
    settings = ClientSettings(bootstrap_servers=kafka_broker.bootstrap_servers)
    host, port = kafka_broker.bootstrap_servers.split(":")
    with connect(Address(host, int(port)), settings, 10_000) as connection:
        body = encode_fetch(SessionFields(session.session_id, epoch, ()), FetchPolicy(max_wait_ms=0), BY_ID)
        connection.send(ApiKey.FETCH, BY_ID, body)
        return decode_fetch(connection.wait_for_response(), (), BY_ID).error


@pytest.mark.parametrize("error", [ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH])
def test_a_session_that_the_broker_does_not_accept_is_begun_again(
    kafka_broker: Any, make: Make, library: Any, topic: str, fetches: list[SessionFields], errors: list[ErrorCode], error: ErrorCode
) -> None:
    consumer = make(fetch_max_wait_ms=300)
    consumer.assign([TopicPartition(topic, 0, 0)])
    assert values(consumer.consume(100, 20)) == list(range(100))
    wait_until(lambda: fetches[-1].session_id != 0, "a session")
    if error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
        spoil(kafka_broker, fetches[-1], -1)
    else:
        # The consumer's next request may come first: then the epoch of this one is too low, and nothing is spoiled.
        wait_until(lambda: spoil(kafka_broker, fetches[-1], fetches[-1].epoch + 1) is ErrorCode.NONE, "another request in the session")
    wait_until(lambda: error in errors, "the broker's refusal")
    library.produce(topic, [(0, b"%d" % number) for number in range(100, 120)])
    assert values(consumer.consume(20, 20)) == list(range(100, 120))
    wait_until(lambda: sum(each.epoch == 0 for each in fetches) > 1 and fetches[-1].epoch > 0, "another session")


def test_a_position_behind_the_end_of_its_epoch_is_moved_to_where_the_logs_diverge(make: Make, library: Any, topic: str) -> None:
    """As if the log had been truncated: records 100 to 149 of epoch 0 are not there."""
    consumer = make()
    consumer.assign([TopicPartition(topic, 0, 150, leader_epoch=0)])
    wait_until(lambda: consumer.position([TopicPartition(topic, 0)])[0].offset == 100, "the position", lambda: consumer.poll(0.05))
    library.produce(topic, [(0, b"100")])
    assert values(consumer.consume(1, 20)) == [100]


def test_a_position_of_an_epoch_that_the_log_does_not_know_is_reset(make: Make, topic: str) -> None:
    consumer = make()
    consumer.assign([TopicPartition(topic, 0, 50, leader_epoch=9)])
    assert values(consumer.consume(3, 20)) == [0, 1, 2]


def test_without_a_reset_policy_a_truncated_log_is_an_error(make: Make, topic: str) -> None:
    consumer = make(auto_offset_reset="none")
    consumer.assign([TopicPartition(topic, 0, 150, leader_epoch=0)])
    (message,) = consumer.consume(1, 20)
    assert (message.error().code(), message.partition(), message.offset()) == (KafkaError._LOG_TRUNCATION, 0, 150)
    assert "first offset known to diverge is 100 (epoch 0)" in message.error().str()
    consumer.seek(TopicPartition(topic, 0, 98))
    assert values(consumer.consume(2, 20)) == [98, 99]


def test_a_position_that_the_log_holds_is_read(make: Make, topic: str) -> None:
    first = make(enable_auto_commit=False)
    first.subscribe([topic])
    messages = first.consume(60, 20)
    assert values(messages) == list(range(60))
    (committed,) = first.commit(messages[-1], asynchronous=False) or []
    assert (committed.offset, committed.leader_epoch) == (60, 0)
    first.close()
    second = make()
    second.subscribe([topic])
    assert values(second.consume(40, 20)) == list(range(60, 100))


def lose(log: Path, offset: int) -> None:
    """Cut a log before the batch that begins at an offset, as a machine that fails may leave it."""
    data = log.read_bytes()
    at = next(at for at, _ in split_batches(memoryview(data)) if struct.unpack_from(">q", data, at)[0] == offset)
    log.write_bytes(data[:at])


def test_after_a_crash_that_lost_records_reading_goes_on_where_they_were(tmp_path: Path, library_on: Callable[..., Any]) -> None:
    """The log is longer than the committed offset again, but holds other records there: only leader epochs show that."""
    config = {"group.id": "g", "auto.offset.reset": "earliest"}
    with Broker(data_dir=tmp_path) as broker:
        library = library_on(broker)
        library.create_topic("t", 1)
        for numbers in (range(60), range(60, 100)):
            library.produce("t", [(0, b"%d" % number) for number in numbers])
        with ottla.Consumer(config | {"bootstrap.servers": broker.bootstrap_servers}) as consumer:
            consumer.subscribe(["t"])
            assert values(consumer.consume(100, 20)) == list(range(100))
    lose(tmp_path / "t-0" / "00000000000000000000.log", 60)
    (tmp_path / ".kafka_cleanshutdown").unlink()
    with Broker(data_dir=tmp_path) as broker:
        library_on(broker).produce("t", [(0, b"%d" % number) for number in range(1_000, 1_070)])
        with ottla.Consumer(config | {"bootstrap.servers": broker.bootstrap_servers}) as consumer:
            consumer.subscribe(["t"])
            assert values(consumer.consume(70, 20)) == list(range(1_000, 1_070))
