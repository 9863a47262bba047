"""The frames of the group driver, read and written by the whole codec: field for field what a member means."""

import io
import uuid
from typing import Any

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.serial import entity_reader, entity_writer

from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey
from ottla.protocol.wire.messages import fitter
from ottla.testing.raw_client import build_request
from tests.support.clients import group_frames


def read_request(frame: bytes, api_key: int, version: int) -> Any:
    assert int.from_bytes(frame[:4]) == len(frame) - 4
    schema: Any = load_request_schema(api_key, version)
    header, at = entity_reader(schema.__header_schema__)(frame[4:], 0)
    assert (header.request_api_key, header.request_api_version, header.correlation_id, header.client_id) == (api_key, version, 0, "driver")
    request, used = entity_reader(schema)(frame[4:], at)
    assert at + used == len(frame) - 4
    return request


def write_answer(api_key: int, version: int, error_code: int = 0, **values: Any) -> bytes:
    schema: Any = load_response_schema(api_key, version)
    out = io.BytesIO()
    header = schema.__header_schema__(correlation_id=0)
    entity_writer(type(header))(out, header)
    entity_writer(schema)(out, fitter(schema, True)({**values, "error_code": KioErrorCode(error_code)}))
    return out.getvalue()


def test_join() -> None:
    joining = group_frames.join_frame(b"flights", b"", b"topics", 45_000)
    expected = {
        "group_id": "flights",
        "session_timeout": 45_000,
        "rebalance_timeout": group_frames.REBALANCE_TIMEOUT_MS,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"topics"}],
    }
    assert read_request(joining, 11, 9) == build_request(ApiKey.JOIN_GROUP, 9, expected)
    joining = group_frames.join_frame(b"flights", b"driver-1", b"", 6_000, b"connect")
    assert read_request(joining, 11, 9).member_id == "driver-1"
    assert read_request(joining, 11, 9).protocol_type == "connect"


@pytest.mark.parametrize("count", [0, 1, 2, 300])
def test_sync(count: int) -> None:
    ids = [f"driver-{number:05}" for number in range(count)]
    syncing = group_frames.sync_frame(b"flights", 7, b"driver-1", [group_frames.compact(each.encode()) for each in ids], b"all")
    expected = {
        "group_id": "flights",
        "generation_id": 7,
        "member_id": "driver-1",
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [{"member_id": each, "assignment": b"all"} for each in ids],
    }
    assert read_request(syncing, 14, 5) == build_request(ApiKey.SYNC_GROUP, 5, expected)


def test_heartbeat_and_commit() -> None:
    expected: dict[str, Any] = {"group_id": "flights", "generation_id": 7, "member_id": "driver-1"}
    assert read_request(group_frames.heartbeat_frame(b"flights", 7, b"driver-1"), 12, 4) == build_request(ApiKey.HEARTBEAT, 4, expected)
    texts = ["", "a", "note"]
    partitions = [{"partition_index": each, "committed_offset": 42, "committed_metadata": texts[each % 3]} for each in range(200)]
    expected = {
        "group_id": "flights",
        "generation_id_or_member_epoch": 7,
        "member_id": "driver-1",
        "topics": [{"name": "t", "partitions": partitions}],
    }
    committing = group_frames.commit_frame(b"flights", 7, b"driver-1", b"t", range(200), 42, [text.encode() for text in texts])
    assert read_request(committing, 8, 9) == build_request(ApiKey.OFFSET_COMMIT, 9, expected)


@pytest.mark.parametrize("count", [0, 1, 2, 300])
def test_what_a_member_reads_of_its_join(count: int) -> None:
    members = [{"member_id": f"driver-{number:05}", "metadata": b"topics"} for number in range(count)]
    values = {
        "generation_id": 9,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "leader": "driver-00000",
        "member_id": "driver-00001",
    }
    joined = group_frames.read_joined(write_answer(ApiKey.JOIN_GROUP, 9, members=members, **values))
    assert joined[:3] == (0, 9, b"driver-00001")
    assert list(joined.members) == [group_frames.compact(b"driver-%05d" % number) for number in range(count)]


def test_errors() -> None:
    asked = group_frames.read_joined(
        write_answer(ApiKey.JOIN_GROUP, 9, error_code=ErrorCode.MEMBER_ID_REQUIRED, generation_id=-1, member_id="driver-1")
    )
    assert asked[:3] == (79, -1, b"driver-1")
    assert (
        group_frames.error_of(write_answer(ApiKey.SYNC_GROUP, 5, error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        == ErrorCode.REBALANCE_IN_PROGRESS
    )
    assert (
        group_frames.error_of(write_answer(ApiKey.HEARTBEAT, 4, error_code=ErrorCode.UNKNOWN_MEMBER_ID, throttle_time=10))
        == ErrorCode.UNKNOWN_MEMBER_ID
    )


def test_a_text_that_is_too_long_for_one_byte_of_size() -> None:
    with pytest.raises(AssertionError):
        group_frames.compact(b"x" * 127)


def test_consumer_heartbeat() -> None:
    topic_id = uuid.UUID(int=7)
    full = group_frames.consumer_heartbeat_frame(b"flights", b"m", 0, [b"a", b"b"], {})
    expected = {
        "group_id": "flights",
        "member_id": "m",
        "member_epoch": 0,
        "instance_id": None,
        "rack_id": None,
        "rebalance_timeout": group_frames.REBALANCE_TIMEOUT_MS,
        "subscribed_topic_names": ["a", "b"],
        "subscribed_topic_regex": None,
        "server_assignor": None,
        "topic_partitions": [],
    }
    assert read_request(full, 68, 1) == build_request(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, expected)
    owns = group_frames.consumer_heartbeat_frame(b"flights", b"m", 5, None, {topic_id.bytes: [1, 300]})
    says = {"topic_partitions": [{"topic_id": topic_id, "partitions": [1, 300]}], "subscribed_topic_names": None}
    expected |= {"member_epoch": 5, "rebalance_timeout": -1, **says}
    assert read_request(owns, 68, 1) == build_request(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, expected)


def test_a_response_to_a_consumer_heartbeat() -> None:
    topic_id = uuid.UUID(int=7)
    values = {"throttle_time": 0, "error_message": None, "member_id": "m", "member_epoch": 5, "heartbeat_interval": 500}
    answer = write_answer(68, 1, **values, assignment={"topic_partitions": [{"topic_id": topic_id, "partitions": [1, 300]}]})
    assert group_frames.read_beaten(answer) == (0, 5, 500, {(topic_id.bytes, 1), (topic_id.bytes, 300)})
    assert group_frames.read_beaten(write_answer(68, 1, **values, assignment=None)) == (0, 5, 500, None)
