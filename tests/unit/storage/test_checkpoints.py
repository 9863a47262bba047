"""The text files of a partition's directory, against bytes that Apache Kafka 4.3 wrote."""

from uuid import UUID

import pytest

from ottla.core.model import TopicPartition
from ottla.storage.checkpoints import (
    EpochStart,
    decode_leader_epochs,
    decode_offsets,
    decode_partition_metadata,
    encode_leader_epochs,
    encode_offsets,
    encode_partition_metadata,
)

# As found in a directory of Apache Kafka 4.3.0.
KAFKAS_EPOCHS = b"0\n2\n0 0\n2 41446\n"
KAFKAS_METADATA = b"version: 0\ntopic_id: 417SNXpqRBypTcREB5yO8w"


def test_leader_epochs_are_kafkas_bytes() -> None:
    epochs = [EpochStart(0, 0), EpochStart(2, 41446)]
    assert encode_leader_epochs(epochs) == KAFKAS_EPOCHS
    assert decode_leader_epochs(KAFKAS_EPOCHS) == epochs
    assert decode_leader_epochs(encode_leader_epochs([])) == []


@pytest.mark.parametrize(
    "data",
    [b"", b"\0\0\0", b"0", b"0\n1\n", b"1\n0\n", b"0\n1\n0 0\n1 5\n", b"0\n1\n0\n", b"0\n1\n0 0 0\n", b"0\n1\nx 0\n", b"\xff\n0\n",
     b"0\n2\n1 0\n0 5\n", b"0\n2\n0 9\n1 5\n"],
)  # fmt: skip
def test_a_damaged_checkpoint_is_none(data: bytes) -> None:
    assert decode_leader_epochs(data) is None


def test_partition_metadata_is_kafkas_bytes() -> None:
    topic_id = UUID("e35ed235-7a6a-441c-a94d-c444079c8ef3")
    assert encode_partition_metadata(topic_id) == KAFKAS_METADATA
    assert decode_partition_metadata(KAFKAS_METADATA) == decode_partition_metadata(KAFKAS_METADATA + b"\n") == topic_id
    for damaged in (b"", KAFKAS_METADATA[:-1], KAFKAS_METADATA[1:], KAFKAS_METADATA + b"x", KAFKAS_METADATA[:-1] + b"\xff"):
        assert decode_partition_metadata(damaged) is None


def test_the_offsets_of_a_directory_survive_the_way_to_text_and_back() -> None:
    offsets = {TopicPartition("flights", 0): 7, TopicPartition("a.b-c_d", 12): 2**62}
    text = encode_offsets(offsets)
    assert text == b"0\n2\nflights 0 7\na.b-c_d 12 4611686018427387904\n"
    assert decode_offsets(text) == offsets
    assert encode_offsets({}) == b"0\n0\n"
    assert decode_offsets(b"0\n0\n") == {}
    assert decode_offsets(b"") == {}, "as Kafka makes the file"


@pytest.mark.parametrize(
    "text", [b"\n", b"1\n0\n", b"0\n2\na 0 1\n", b"0\n1\na 0\n", b"0\n1\na 0 -1\n", b"0\n2\na 0 1\na 0 1\n", b"0\n1\na x 1\n", b"\xff"]
)
def test_a_damaged_directory_checkpoint_is_not_believed(text: bytes) -> None:
    assert decode_offsets(text) is None
