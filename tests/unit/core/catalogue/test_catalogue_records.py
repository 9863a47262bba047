"""The catalogue's records: Kafka's bytes, and hostile ones."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.core.catalogue.records import (
    ConfigRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
    TopicRecord,
    decode,
    encode,
)
from ottla.core.errors import PeerError

ID = bytes(range(16))
RECORDS = [
    TopicRecord(name="flights", topic_id=ID),
    PartitionRecord(topic_id=ID, partition=3, replicas=(1,), leader=1),
    ConfigRecord(resource_type=2, resource_name="flights", name="retention.ms", value="1000"),
    ConfigRecord(resource_type=2, resource_name="flights", name="retention.ms", value=None),
    RemoveTopicRecord(topic_id=ID),
    ProducerIdsRecord(broker_id=1, next_producer_id=2000),
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_round_trip(record) -> None:
    assert decode(encode(record)) == record


def test_golden_bytes_of_a_topic_record() -> None:
    # frame version 1, type 2, version 0, compact string, uuid, no tagged fields (TopicRecord.json)
    assert encode(RECORDS[0]).hex() == "010200" + "08" + b"flights".hex() + ID.hex() + "00"


def test_a_type_that_we_do_not_keep_is_passed_over() -> None:
    assert decode(bytes([1, 27, 0, 9, 9, 9])) is None


@given(st.binary(max_size=60))
def test_any_bytes_give_a_record_or_peer_error(data: bytes) -> None:
    with contextlib.suppress(PeerError):
        decode(data)
