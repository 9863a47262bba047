"""Any request in any version; topics made with it."""

import datetime
import io
import socket
import struct
import threading
import uuid
from collections.abc import Callable, Iterator

import pytest
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader, entity_writer

from ottla.broker import Broker
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import Disconnected, RawClient, build_request, create_topic, host_and_port


def test_every_request_can_be_made_of_nothing_and_written() -> None:
    made = 0
    for key, name in api_key_map.items():
        for version in schema_name_map[name]:
            request = build_request(key, version)
            entity_writer(type(request))(io.BytesIO(), request)
            made += 1
    assert made > 250


def test_values_go_where_the_version_has_them() -> None:
    values = {
        "group_id": "g",
        "session_timeout": 6000,
        "rebalance_timeout": 9000,
        "protocols": [{"name": "range", "metadata": b"x"}],
        "group_instance_id": "gate",
    }
    oldest, newest = build_request(ApiKey.JOIN_GROUP, 0, values), build_request(ApiKey.JOIN_GROUP, 9, values)
    assert oldest.session_timeout == newest.session_timeout == datetime.timedelta(seconds=6)
    assert not hasattr(oldest, "rebalance_timeout")
    assert newest.rebalance_timeout == datetime.timedelta(seconds=9)
    assert newest.group_instance_id == "gate"
    assert [(each.name, each.metadata) for each in newest.protocols] == [("range", b"x")]
    assert newest.member_id == ""


def test_null_empty_and_nested() -> None:
    assert build_request(ApiKey.METADATA, 12, {"topics": None}).topics is None
    assert build_request(ApiKey.METADATA, 12, {"topics": []}).topics == ()
    topic_id = uuid.uuid4()
    (topic,) = build_request(ApiKey.METADATA, 12, {"topics": [{"topic_id": topic_id}]}).topics
    assert (topic.topic_id, topic.name) == (topic_id, None)
    (group,) = build_request(
        ApiKey.OFFSET_FETCH, 8, {"groups": [{"group_id": "g", "topics": [{"name": "t", "partition_indexes": [1]}]}]}
    ).groups
    assert group.topics[0].partition_indexes == (1,)


def test_a_name_that_no_version_has_is_an_error() -> None:
    with pytest.raises(AssertionError, match=r"no version of join_group has \['session_timeout_ms'\]"):
        build_request(ApiKey.JOIN_GROUP, 0, {"session_timeout_ms": 6000})
    with pytest.raises(AssertionError, match="nmae"):
        build_request(ApiKey.METADATA, 12, {"topics": [{"nmae": "x"}]})


def test_host_and_port() -> None:
    assert host_and_port("localhost:9092,other:9093") == ("localhost", 9092)
    assert host_and_port("::1:9092") == ("::1", 9092)


@pytest.fixture
def server() -> Iterator[Callable[[Callable[[socket.socket], None]], str]]:
    """`server(serve)` listens, calls `serve` with the first connection in a thread, and gives its address."""
    listening = socket.create_server(("127.0.0.1", 0))
    threads: list[threading.Thread] = []

    def start(serve: Callable[[socket.socket], None]) -> str:
        def accept() -> None:
            connection, _ = listening.accept()
            with connection:
                serve(connection)

        threads.append(threading.Thread(target=accept))
        threads[-1].start()
        return f"127.0.0.1:{listening.getsockname()[1]}"

    yield start
    for thread in threads:
        thread.join(60)
    listening.close()


def test_a_request_gets_its_answer(server: Callable[..., str]) -> None:
    requests: list[bytes] = []

    def serve(connection: socket.socket) -> None:
        for number in (1, 2):
            (size,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
            requests.append(connection.recv(size, socket.MSG_WAITALL))
            answer = struct.pack(">ihi", number, 0, 1) + struct.pack(">hhh", 18, 0, 4)
            connection.sendall(struct.pack(">i", len(answer)) + answer)

    with RawClient(server(serve), client_id="me") as client:
        answers = [client.call(ApiKey.API_VERSIONS, 0) for _ in range(2)]
    assert [(each.api_key, each.max_version) for each in answers[0].api_keys] == [(18, 4)]
    header = type(build_request(ApiKey.API_VERSIONS, 0)).__header_schema__
    sent, _ = entity_reader(header)(requests[1], 0)
    assert (sent.request_api_key, sent.request_api_version, sent.correlation_id, sent.client_id) == (18, 0, 2, "me")


def test_a_closed_connection_is_reported(server: Callable[..., str]) -> None:
    with RawClient(server(lambda connection: None)) as client, pytest.raises(Disconnected):
        client.call(ApiKey.API_VERSIONS, 0)


def test_silence_is_reported(server: Callable[..., str]) -> None:
    with RawClient(server(lambda connection: connection.recv(1000)), timeout_seconds=0.1) as client, pytest.raises(TimeoutError):
        client.receive_frame()


def test_bytes_behind_an_answer_are_a_mistake(server: Callable[..., str]) -> None:
    def serve(connection: socket.socket) -> None:
        connection.recv(1000)
        connection.sendall(struct.pack(">iihi", 11, 1, 0, 0) + b"x")

    with RawClient(server(serve)) as client, pytest.raises(AssertionError, match="1 bytes after the response"):
        client.call(ApiKey.API_VERSIONS, 0)


def test_a_topic_with_partitions_and_settings() -> None:
    with Broker() as broker, RawClient(broker.bootstrap_servers) as client:
        topic_id = create_topic(client, "flights", 3, cleanup_policy="compact")
        (topic,) = client.call(ApiKey.METADATA, 12, topics=[{"name": "flights"}]).topics
        assert (topic.topic_id, len(topic.partitions)) == (topic_id, 3)
        resource = {"resource_type": 2, "resource_name": "flights", "configuration_keys": ["cleanup.policy"]}
        (described,) = client.call(ApiKey.DESCRIBE_CONFIGS, 4, resources=[resource]).results
        assert [config.value for config in described.configs] == ["compact"]


def test_a_refusal_is_an_error() -> None:
    with Broker() as broker:
        create_topic(broker.bootstrap_servers, "flights")
        with pytest.raises(AssertionError, match="topic flights was not created: TOPIC_ALREADY_EXISTS: Topic 'flights' already exists"):
            create_topic(broker.bootstrap_servers, "flights")
