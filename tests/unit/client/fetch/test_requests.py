"""Fetch as bytes, held equal to kio's, and malformed responses."""

import contextlib
import io
import struct
import uuid
from base64 import urlsafe_b64encode
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.serial import entity_reader, entity_writer

from ottla.client.addresses import BrokerEndpoint
from ottla.client.fetch.fetch_sessions import without_session
from ottla.client.fetch.fetch_values import FetchPolicy, PartitionFetch, SessionFields
from ottla.client.fetch.leaders import LeaderAndEpoch
from ottla.client.fetch.requests import decode_fetch, encode_fetch, topic_id_bytes
from ottla.protocol.errors import ErrorCode, PeerError
from ottla.protocol.model import TopicPartition
from ottla.protocol.wire.messages import fitter

IDS = {"t": uuid.UUID(int=7), "u": uuid.UUID(int=2**127)}
VERSIONS = [12, 13, 16]


def text(topic: str) -> str:
    return urlsafe_b64encode(IDS[topic].bytes).decode().rstrip("=")


ASKS = [
    PartitionFetch(TopicPartition(topic, number), offset, 5, text(topic))
    for topic, number, offset in (("t", 1, 10), ("t", 0, 0), ("u", 3, 99))
]


def request_of(version: int) -> Any:
    return import_module(f"kio.schema.fetch.v{version}.request").FetchRequest


def answer_of(version: int) -> Any:
    return import_module(f"kio.schema.fetch.v{version}.response").FetchResponse


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_is_what_kio_reads(version: int) -> None:
    policy = FetchPolicy(max_wait_ms=9, min_bytes=7, max_bytes=1_000, partition_max_bytes=77, is_read_committed=True, rack="here")
    body = encode_fetch(without_session(tuple(ASKS)), policy, version)
    request, size = entity_reader(request_of(version))(body, 0)
    assert size == len(body)
    assert (request.min_bytes, request.max_bytes, request.isolation_level, request.session_epoch) == (7, 1_000, 1, -1)
    assert request.max_wait.total_seconds() == 0.009
    asked = [
        (IDS["t"] if version >= 13 else "t", [(1, 10), (0, 0)]),
        (IDS["u"] if version >= 13 else "u", [(3, 99)]),
    ]
    found = [
        (topic.topic_id if version >= 13 else topic.topic, [(item.partition, item.fetch_offset) for item in topic.partitions])
        for topic in request.topics
    ]
    assert found == asked
    item = request.topics[0].partitions[0]
    assert (item.current_leader_epoch, item.last_fetched_epoch, item.partition_max_bytes) == (5, -1, 77)
    assert (request.session_id, request.forgotten_topics_data, request.rack_id) == (0, (), "here")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_of_a_session_is_what_kio_reads(version: int) -> None:
    one, zero, three = ASKS
    old = three._replace(topic_id=text("t"))  # by its id, a topic of the past
    body = encode_fetch(SessionFields(7, 4, (one, three), (zero, old)), FetchPolicy(), version)
    request, size = entity_reader(request_of(version))(body, 0)
    assert (size, request.session_id, request.session_epoch) == (len(body), 7, 4)
    assert [[item.partition for item in topic.partitions] for topic in request.topics] == [[1], [3]]
    forgotten = [(topic.topic_id if version >= 13 else topic.topic, topic.partitions) for topic in request.forgotten_topics_data]
    assert forgotten == ([(IDS["t"], (0, 3))] if version >= 13 else [("t", (0,))])


def answer_bytes(version: int, **changes: Any) -> bytes:
    def topic(name: str, *items: Any) -> dict[str, Any]:
        return {"topic_id": IDS[name], "partitions": items} if version >= 13 else {"topic": name, "partitions": items}

    def part(number: int, **more: Any) -> dict[str, Any]:
        values = {"error_code": ErrorCode.NONE, "high_watermark": 30, "last_stable_offset": 20, "log_start_offset": 1, "records": b"abc"}
        return {"partition_index": number, "aborted_transactions": (), "preferred_read_replica": -1} | values | more

    moved = {"error_code": ErrorCode.NOT_LEADER_OR_FOLLOWER, "records": None, "current_leader": {"leader_id": 3, "leader_epoch": 9}}
    aborted = ({"producer_id": 7, "first_offset": 11}, {"producer_id": 8, "first_offset": 12})
    values: dict[str, Any] = {
        "throttle_time": 0,
        "error_code": ErrorCode.NONE,
        "session_id": 0,
        "responses": (topic("t", part(1), part(0, **moved)), topic("u", part(3, aborted_transactions=aborted, records=b""))),
    }
    if version >= 16:
        values["node_endpoints"] = ({"node_id": 3, "host": "three", "port": 93, "rack": "r"},)
    buffer = io.BytesIO()
    entity_writer(answer_of(version))(buffer, fitter(answer_of(version))(values | changes))
    return buffer.getvalue()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_response_as_kio_writes_it(version: int) -> None:
    answer = decode_fetch(memoryview(answer_bytes(version)), ASKS, version)
    one, zero, three = answer.partitions
    assert (one.partition, one.error, one.high_watermark, one.last_stable_offset) == (TopicPartition("t", 1), ErrorCode.NONE, 30, 20)
    assert (one.log_start_offset, bytes(one.records), one.aborted) == (1, b"abc", ())
    assert (zero.error, bytes(zero.records), zero.current_leader) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, b"", LeaderAndEpoch(3, 9))
    assert (three.partition, three.aborted) == (TopicPartition("u", 3), ((7, 11), (8, 12)))
    assert answer.endpoints == ((BrokerEndpoint(3, "three", 93),) if version >= 16 else ())
    assert (answer.error, answer.session_id) == (ErrorCode.NONE, 0)
    assert decode_fetch(memoryview(answer_bytes(version, session_id=77)), ASKS, version).session_id == 77


def test_records_are_a_view_into_the_response() -> None:
    data = bytearray(answer_bytes(16))
    records = decode_fetch(memoryview(data), ASKS, 16).partitions[0].records
    data[data.index(b"abc")] = ord("x")
    assert bytes(records) == b"xbc"


def test_an_error_of_the_whole_response_is_one_of_each_partition() -> None:
    answer = decode_fetch(memoryview(answer_bytes(12, error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, responses=())), ASKS, 12)
    assert [(part.partition, part.error) for part in answer.partitions] == [
        (ask.partition, ErrorCode.FETCH_SESSION_ID_NOT_FOUND) for ask in ASKS
    ]
    assert answer.error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_response_that_names_a_follower() -> None:
    part = {
        "partition_index": 1,
        "error_code": ErrorCode.NONE,
        "high_watermark": 30,
        "last_stable_offset": 20,
        "log_start_offset": 1,
        "records": b"",
    }
    topic = {"topic": "t", "partitions": (part | {"aborted_transactions": (), "preferred_read_replica": 0},)}
    (found,) = decode_fetch(memoryview(answer_bytes(12, responses=(topic,))), ASKS, 12).partitions
    assert (found.error, found.preferred_replica) == (ErrorCode.NONE, 0)


def test_a_topic_that_was_not_requested() -> None:
    with pytest.raises(PeerError, match="a topic that was not requested"):
        decode_fetch(memoryview(answer_bytes(13)), ASKS[:2], 13)


@given(st.data())
def test_any_bytes_end_in_a_response_or_a_peer_error(data: st.DataObject) -> None:
    version = data.draw(st.sampled_from(VERSIONS))
    good = bytearray(answer_bytes(version))
    for _ in range(data.draw(st.integers(1, 4))):
        good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(PeerError):
        decode_fetch(memoryview(bytes(good[: data.draw(st.integers(0, len(good)))])), ASKS, version)


def test_an_array_that_cannot_fit_is_refused() -> None:
    head = struct.pack(">ihi", 0, 0, 0)
    with pytest.raises(PeerError, match="an array of"):
        decode_fetch(memoryview(head + b"\xff\xff\xff\xff\x0f"), ASKS, 12)


def test_topic_ids() -> None:
    assert topic_id_bytes(text("t")) == IDS["t"].bytes
    with pytest.raises(ValueError, match="no topic id"):
        topic_id_bytes("AAAA")
