"""The cluster metadata's records: Kafka's bytes, and hostile ones."""

import contextlib
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.metadata.records import (
    METADATA_TYPES,
    AbortTransaction,
    BeginTransaction,
    ConfigRecord,
    EndTransaction,
    FeatureLevelRecord,
    MetadataRecordType,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    decode,
    encode,
    record_type,
)
from ottla.protocol.errors import PeerError
from ottla.protocol.wire.primitives import Reader, Writer
from tests.support.kit.record_values import values_of
from trials.fuzz.mutation import mutate

ID = bytes(range(16))
RECORDS = [
    TopicRecord(name="flights", topic_id=ID),
    PartitionRecord(topic_id=ID, partition=3, replicas=(1,), in_sync=(1,), leader=1),
    ConfigRecord(resource_type=2, resource_name="flights", name="retention.ms", value="1000"),
    ConfigRecord(resource_type=2, resource_name="flights", name="retention.ms", value=None),
    RemoveTopicRecord(topic_id=ID),
    ProducerIdsRecord(broker_id=1, next_producer_id=2000),
    PartitionRecord(topic_id=ID, partition=0, replicas=(1, 2), in_sync=(1, 2), leader=2, leader_epoch=7, directories=(ID, bytes(16))),
    PartitionChangeRecord(topic_id=ID, partition=0, leader=1, in_sync=(1,), replicas=(1,)),
    PartitionChangeRecord(topic_id=ID, partition=0, directories=(ID,)),
    PartitionChangeRecord(topic_id=ID, partition=9, leader=-1, eligible_leaders=(1,), last_known_leaders=()),
    FeatureLevelRecord(name="metadata.version", level=25),
    AbortTransaction(),
]

KAFKAS_ID = bytes.fromhex("ba4dd14fc79a46328809985d2e9724df")
KAFKAS_DIRECTORY = bytes.fromhex("0e76e17bd7ae40eb9e6167f4f7017440")
# Written by the controller of Apache Kafka 4.3.0.
KAFKAS = {
    b"\x01\x02\x00\x02t" + KAFKAS_ID + b"\x00": TopicRecord(name="t", topic_id=KAFKAS_ID),
    b"\x01\x0c\x00\x11metadata.version\x00\x1e\x00": FeatureLevelRecord(name="metadata.version", level=30),
    b"\x01\x03\x02\x00\x00\x00\x01"
    + KAFKAS_ID
    + bytes.fromhex("0200000001 0200000001 01 01 00000001 00000000 00000000 02")
    + KAFKAS_DIRECTORY
    + b"\x00": PartitionRecord(topic_id=KAFKAS_ID, partition=1, replicas=(1,), in_sync=(1,), leader=1, directories=(KAFKAS_DIRECTORY,)),
    b"\x01\x05\x02\x00\x00\x00\x01"
    + KAFKAS_ID
    + bytes.fromhex("04 000101 0104ffffffff 06050200000001 07050200000001"): PartitionChangeRecord(
        topic_id=KAFKAS_ID, partition=1, leader=-1, in_sync=(), eligible_leaders=(1,), last_known_leaders=(1,)
    ),
    b"\x01\x17\x00\x01\x00\x12\x12Bootstrap records": BeginTransaction(name="Bootstrap records"),
    b"\x01\x18\x00\x00": EndTransaction(),
    b"\x01\x00\x04\x00\x00\x00\x01\x00" + ID + bytes.fromhex("000000000000000d 01 01 00 01 00 00"): RegisterBrokerRecord(
        broker_id=1, broker_epoch=13, incarnation_id=ID
    ),
    b"\x01\x14\x00\x00": None,
}


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_round_trip(record) -> None:
    assert decode(encode(record)) == record


@pytest.mark.parametrize(("value", "record"), KAFKAS.items(), ids=[str(record_type(value)) for value in KAFKAS])
def test_what_apache_kafka_wrote(value: bytes, record) -> None:
    assert decode(value) == record


@pytest.mark.parametrize("record_type", METADATA_TYPES.values(), ids=lambda record_type: record_type.name)
@given(data=st.data())
def test_every_type_and_version_both_ways(record_type: MetadataRecordType, data: st.DataObject) -> None:
    schema = record_type.schema
    value = data.draw(values_of(schema.type))
    version = data.draw(st.integers(0, schema.version_max))
    encoded = schema.encode(Writer(), value, version).to_bytes()
    decoded = schema.decode(Reader(encoded), version)
    assert schema.encode(Writer(), decoded, version).to_bytes() == encoded
    assert schema.from_json(schema.to_json(decoded, version), version) == decoded
    if version == schema.version_max:
        assert decoded == value


def test_the_lowest_version_that_can_say_it_is_written() -> None:
    versions = [encode(record)[2] for record in RECORDS if isinstance(record, PartitionRecord | PartitionChangeRecord)]
    assert versions == [0, 1, 0, 1, 2]


def test_golden_bytes_of_a_topic_record() -> None:
    # frame version 1, type 2, version 0, compact string, uuid, no tagged fields (TopicRecord.json)
    assert encode(RECORDS[0]).hex() == "010200" + "08" + b"flights".hex() + ID.hex() + "00"


def test_a_type_that_we_do_not_keep_is_passed_over() -> None:
    assert decode(bytes([1, 27, 0, 9, 9, 9])) is None


@pytest.mark.parametrize("valid", [*map(encode, RECORDS), *KAFKAS], ids=bytes.hex)
def test_mutated_records_give_a_record_or_peer_error(valid: bytes) -> None:
    for seed in range(500):
        with contextlib.suppress(PeerError):
            decode(mutate(valid, Random(seed)))


@given(st.binary(max_size=60))
def test_any_bytes_give_a_record_or_peer_error(data: bytes) -> None:
    with contextlib.suppress(PeerError):
        decode(data)
