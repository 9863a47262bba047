"""Our decoder of Fetch reads what kio writes, in every version; and bytes that are no request are the peer's fault."""

import io
import random
import uuid
from typing import Any

import pytest
from kio.serial import entity_writer

from ottla.broker.protocol.requests import fetch
from ottla.broker.protocol.requests.fetch import decode_fetch_request
from ottla.core.errors import PeerError
from ottla.core.wire import messages
from ottla.core.wire.api_keys import ApiKey

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
