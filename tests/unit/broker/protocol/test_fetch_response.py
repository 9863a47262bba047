"""Our answers to Fetch are kio's bytes, in every version, whatever a partition has to say."""

import io
import types
import uuid
from typing import Any

import pytest
from kio.serial import entity_writer

from ottla.broker.protocol.current_leader import Leader
from ottla.broker.protocol.fetch_partition import FetchedPartition, FetchPartitionData
from ottla.broker.protocol.fetch_response import encode_fetch_response
from ottla.core.errors import ErrorCode
from ottla.core.wire import messages
from ottla.core.wire.api_keys import ApiKey
from ottla.storage.log.leader_epochs import EpochEnd
from ottla.storage.log.transaction_index import AbortedTransaction

LEADER = Leader(1, "broker.example", 9092)
IDS = {"one": uuid.UUID(int=1), "two": uuid.UUID(int=2)}


def found(version: int, topic: str, number: int, **values: Any) -> FetchPartitionData:
    key = (IDS[topic].bytes if version >= 13 else topic, number)
    part = FetchedPartition(key, -1, 0, -1, 100)
    records, diverging = values.pop("records", b""), values.pop("diverging", None)
    part.partition = values.pop("partition", None)
    each = FetchPartitionData(part, **values)
    each.records, each.diverging = records, diverging
    return each


def expected(version: int, error: int, session_id: int, topics: list[tuple[str, list[dict[str, Any]]]], endpoints: list[Any]) -> bytes:
    entity = messages.response_class(ApiKey.FETCH, version)
    blank = {
        "error_code": 0, "high_watermark": -1, "last_stable_offset": -1, "log_start_offset": -1, "aborted_transactions": None,
        "preferred_read_replica": -1, "records": b"",
    }  # fmt: skip
    responses = [{"topic": name, "topic_id": IDS[name], "partitions": [blank | part for part in parts]} for name, parts in topics]
    values = {"throttle_time": 0, "error_code": error, "session_id": session_id, "responses": responses}
    if endpoints and version >= 16:
        values["node_endpoints"] = endpoints
    out = io.BytesIO()
    entity_writer(entity)(out, messages.fitter(entity)(values))
    return out.getvalue()


def body(version: int, error: ErrorCode, session_id: int, parts: list[FetchPartitionData]) -> bytes:
    return b"".join(encode_fetch_response(version, error, session_id, parts, {1: LEADER}.get))


@pytest.mark.parametrize("version", range(4, 19))
def test_records_between_heads(version: int) -> None:
    offsets = {"high_watermark": 7, "last_stable_offset": 6, "log_start_offset": 2}
    parts = [
        found(version, "one", 0, records=b"r" * 200, **offsets),
        found(version, "one", 5, aborted=(), **offsets),
        found(version, "two", 1, error=ErrorCode.OFFSET_OUT_OF_RANGE),
        found(version, "one", 6, records=b"s", aborted=[AbortedTransaction(70, 3, 4, 5), AbortedTransaction(71, 5, 6, 7)], **offsets),
    ]
    aborted = [{"producer_id": 70, "first_offset": 3}, {"producer_id": 71, "first_offset": 5}]
    topics = [
        ("one", [{"partition_index": 0, "records": b"r" * 200} | offsets, {"partition_index": 5, "aborted_transactions": []} | offsets]),
        ("two", [{"partition_index": 1, "error_code": 1}]),
        ("one", [{"partition_index": 6, "records": b"s", "aborted_transactions": aborted} | offsets]),
    ]
    assert body(version, ErrorCode.NONE, 12345, parts) == expected(version, 0, 12345, topics, [])


@pytest.mark.parametrize("version", range(7, 19))
def test_an_error_of_the_session(version: int) -> None:
    assert body(version, ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0, []) == expected(version, 71, 0, [], [])


@pytest.mark.parametrize("version", range(12, 19))
def test_where_logs_diverge(version: int) -> None:
    part = found(version, "one", 0, diverging=EpochEnd(3, 2**33), high_watermark=1, last_stable_offset=1, log_start_offset=0)
    fields = {"partition_index": 0, "diverging_epoch": {"epoch": 3, "end_offset": 2**33}}
    offsets = {"high_watermark": 1, "last_stable_offset": 1, "log_start_offset": 0}
    assert body(version, ErrorCode.NONE, 0, [part]) == expected(version, 0, 0, [("one", [fields | offsets])], [])


@pytest.mark.parametrize("version", range(12, 19))
def test_who_leads_is_reported_with_an_old_epoch(version: int) -> None:
    partition = types.SimpleNamespace(leader=1, log=types.SimpleNamespace(leader_epoch=9))
    part = found(version, "one", 0, error=ErrorCode.FENCED_LEADER_EPOCH, partition=partition)
    fields: dict[str, Any] = {"partition_index": 0, "error_code": 74}
    if version >= 16:
        fields["current_leader"] = {"leader_id": 1, "leader_epoch": 9}
    endpoint = {"node_id": 1, "host": "broker.example", "port": 9092, "rack": None}
    assert body(version, ErrorCode.NONE, 0, [part]) == expected(version, 0, 0, [("one", [fields])], [endpoint])
