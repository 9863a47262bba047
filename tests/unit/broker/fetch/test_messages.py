"""One partition of a Fetch: what a later request changes, and when its offsets are in the response."""

import io
import random
import types
import uuid
from typing import Any

import pytest
from kio.serial import entity_writer

from ottla.broker.fetch import messages as fetch
from ottla.broker.fetch.messages import FetchedPartition, FetchPartitionData, decode_fetch_request, encode_fetch_response
from ottla.broker.network.request import Endpoint
from ottla.log.index import AbortedTransaction
from ottla.log.leader_epochs import EpochEnd
from ottla.protocol.errors import ErrorCode, PeerError
from ottla.protocol.wire import messages
from ottla.protocol.wire.api_keys import ApiKey


def test_a_changed_offset_is_in_the_next_response() -> None:
    part = FetchedPartition(("a", 0), -1, 0, -1, 100)
    assert part.record_sent(5, 0, is_error=False)
    assert not part.record_sent(5, 0, is_error=False)
    assert part.record_sent(6, 0, is_error=False)
    assert part.record_sent(6, 1, is_error=False)
    assert part.record_sent(-1, -1, is_error=True)
    assert part.record_sent(-1, -1, is_error=True)
    assert part.record_sent(6, 1, is_error=False)


def test_an_update_takes_every_field_of_the_later_request() -> None:
    part = FetchedPartition(("t", 0), 1, 2, 3, 4)
    part.update(FetchedPartition(("t", 0), 5, 6, 7, 8))
    assert (part.current_leader_epoch, part.offset, part.last_fetched_epoch, part.bytes_max) == (5, 6, 7, 8)


def test_an_error_returns_no_offsets_and_no_records() -> None:
    data = FetchPartitionData(FetchedPartition(("t", 0), -1, 0, -1, 100), ErrorCode.OFFSET_OUT_OF_RANGE)
    assert (data.high_watermark, data.last_stable_offset, data.log_start_offset) == (-1, -1, -1)
    assert (data.records, data.aborted, data.diverging) == (b"", None, None)


# Our decoder of Fetch reads what kio writes, in every version; and bytes that are no request are the peer's fault.

VERSIONS = range(4, 19)


def encode(version: int, **changes: Any) -> bytes:
    entity = messages.request_class(ApiKey.FETCH, version)
    ids = [uuid.UUID(int=1), uuid.UUID(int=2)]
    part = {"partition_max_bytes": 300, "log_start_offset": 77}
    topics = [
        {
            "topic": "one",
            "topic_id": ids[0],
            "partitions": [{"partition": number, "fetch_offset": 10 * number} | part for number in (3, 1)],
        },
        {"topic": "two", "topic_id": ids[1], "partitions": [{"partition": 0, "fetch_offset": 2**40, "current_leader_epoch": 5} | part]},
    ]
    for topic in topics:
        for each in topic["partitions"]:
            each.setdefault("current_leader_epoch", -1)
            each["last_fetched_epoch"] = 4
    values = {
        "replica_id": -1, "max_wait": 500, "min_bytes": 1, "max_bytes": 1000, "isolation_level": 1, "session_id": 9, "session_epoch": 8,
        "topics": topics, "rack_id": "rack",
        "forgotten_topics_data": [{"topic": "three", "topic_id": ids[0], "partitions": [4, 5]}],
    }  # fmt: skip
    out = io.BytesIO()
    entity_writer(entity)(out, messages.fitter(entity)(values | changes))
    return b"\xaa" * 5 + out.getvalue()


@pytest.mark.parametrize("version", VERSIONS)
def test_it_reads_what_kio_writes(version: int) -> None:
    read = decode_fetch_request(encode(version), 5, version)
    assert read[:4] == (500, 1, 1000, 1)
    assert (read.session_id, read.session_epoch) == ((9, 8) if version >= 7 else (0, -1))
    one, two = ("one", "two") if version < 13 else (uuid.UUID(int=1).bytes, uuid.UUID(int=2).bytes)
    assert list(read.partitions) == [(one, 3), (one, 1), (two, 0)]
    assert {part.key: part.offset for part in read.partitions.values()} == {(one, 3): 30, (one, 1): 10, (two, 0): 2**40}
    assert {part.bytes_max for part in read.partitions.values()} == {300}
    last = read.partitions[(two, 0)]
    assert last.current_leader_epoch == (5 if version >= 9 else -1)
    assert last.last_fetched_epoch == (4 if version >= 12 else -1)
    three = "three" if version < 13 else one
    assert read.forgotten == ([(three, 4), (three, 5)] if version >= 7 else [])


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_for_nothing(version: int) -> None:
    read = decode_fetch_request(encode(version, topics=[], forgotten_topics_data=[]), 5, version)
    assert (read.partitions, read.forgotten) == ({}, [])


def test_a_partition_that_is_named_twice_counts_as_it_is_named_last() -> None:
    part = {"partition": 0, "partition_max_bytes": 1, "current_leader_epoch": -1, "log_start_offset": -1, "last_fetched_epoch": -1}
    topics = [{"topic": "t", "partitions": [part | {"fetch_offset": offset} for offset in (1, 2)]}]
    (read,) = decode_fetch_request(encode(12, topics=topics), 5, 12).partitions.values()
    assert read.offset == 2


def test_tagged_fields_of_a_partition_are_passed_over() -> None:
    part = {"partition": 0, "partition_max_bytes": 1, "log_start_offset": -1, "last_fetched_epoch": -1, "current_leader_epoch": -1}
    tagged = {"replica_directory_id": uuid.UUID(int=3), "high_watermark": 12}
    ids = [{"topic_id": uuid.UUID(int=1), "partitions": [part | {"fetch_offset": offset} | tagged for offset in (1,)]}]
    (read,) = decode_fetch_request(encode(18, topics=ids), 5, 18).partitions.values()
    assert (read.offset, read.bytes_max) == (1, 1)


@pytest.mark.parametrize("version", VERSIONS)
def test_cut_or_damaged_bytes_are_the_peers_fault_or_a_request(version: int) -> None:
    whole = encode(version)
    rng = random.Random(version)
    end_of_forgotten = whole.index(b"rack") - 2 if version >= 11 else len(whole)
    for size in range(5, end_of_forgotten):
        with pytest.raises(PeerError):
            decode_fetch_request(whole[:size], 5, version)
    for _ in range(500):
        damaged = bytearray(whole)
        for _ in range(3):
            damaged[rng.randrange(5, len(damaged))] = rng.randrange(256)
        try:
            decode_fetch_request(damaged, 5, version)
        except PeerError:
            continue


@pytest.mark.parametrize("version", [4, 12])
def test_a_hostile_count_makes_no_room_for_itself(version: int) -> None:
    fixed = bytes(17) + (b"" if version < 7 else bytes(8))
    count = b"\x7f\xff\xff\xff" if version < 12 else b"\xff\xff\xff\xff\x07"
    with pytest.raises(PeerError):
        decode_fetch_request(fixed + count + bytes(100), 0, version)


@pytest.mark.parametrize("version", [4, 5, 9, 12, 13, 18])
def test_a_request_names_no_more_partitions_than_allowed(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data = encode(version)
    monkeypatch.setattr(fetch, "PARTITIONS_MAX", 3)
    assert len(decode_fetch_request(data, 5, version).partitions) == 3
    monkeypatch.setattr(fetch, "PARTITIONS_MAX", 2)
    with pytest.raises(PeerError, match="more than 2 partitions"):
        decode_fetch_request(data, 5, version)


@pytest.mark.parametrize("version", [4, 18])
def test_topics_without_partitions_and_forgotten_ones_are_counted_too(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    topics = [{"topic": "t", "topic_id": uuid.UUID(int=number), "partitions": []} for number in range(3)]
    monkeypatch.setattr(fetch, "PARTITIONS_MAX", 2)
    with pytest.raises(PeerError, match="more than 2 partitions"):
        decode_fetch_request(encode(version, topics=topics), 5, version)
    if version >= 7:
        forgotten = [{"topic": "t", "topic_id": uuid.UUID(int=1), "partitions": [1, 2, 3]}]
        with pytest.raises(PeerError, match="more than 2 partitions"):
            decode_fetch_request(encode(version, topics=[], forgotten_topics_data=forgotten), 5, version)


# Our answers to Fetch are kio's bytes, in every version, whatever a partition has to say.

LEADER = Endpoint(1, "broker.example", 9092)
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
