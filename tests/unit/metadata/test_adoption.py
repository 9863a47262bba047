"""Data directories that these brokers can serve."""

import contextlib
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.config import BrokerConfig
from ottla.metadata.adoption import (
    FIRST_FEATURES,
    SnapshotId,
    adoption_problem,
    elect_leaders,
    first_records,
    first_snapshot,
    is_finished,
    snapshot_ids,
    voters_of,
)
from ottla.metadata.cluster_metadata import ClusterMetadata
from ottla.metadata.records import FeatureLevelRecord, PartitionChangeRecord, PartitionRecord, TopicRecord
from ottla.metadata.resource_configs import BROKER_RESOURCE
from ottla.protocol.errors import PeerError
from ottla.protocol.model import Record
from ottla.protocol.records.batch import decode_batch, split_batches
from trials.fuzz.mutation import mutate

DIRECTORY = bytes.fromhex("0e76e17bd7ae40eb9e6167f4f7017440")
LEADER_CHANGE = bytes.fromhex("0000 00000001 02 00000001 00 02 00000001 00 00")
VOTERS = bytes.fromhex("0000 02 00000001") + DIRECTORY + b"\x02\x0bCONTROLLER\n127.0.0.1" + bytes.fromhex("8a95 00 0000 0001 00 00 00")

HERE = bytes(range(100, 116))
TOPIC = bytes(range(16))


def control(kind: int, value: bytes) -> Record:
    return Record(0, 0, bytes([0, 0, 0, kind]), value)


@pytest.mark.parametrize(
    ("record", "voters"),
    [
        (control(2, LEADER_CHANGE), {1}),
        (
            control(2, bytes.fromhex("0001 00000001 03 00000001") + DIRECTORY + b"\0\0\0\0\x02" + DIRECTORY + bytes.fromhex("00 01 00")),
            {1, 2},
        ),
        (control(6, VOTERS), {1}),
        (control(5, bytes.fromhex("0000 0001 00")), None),
    ],
)
def test_voters(record: Record, voters: set[int] | None) -> None:
    assert voters_of(record) == voters


@pytest.mark.parametrize(("kind", "valid"), [(2, LEADER_CHANGE), (6, VOTERS)])
def test_mutated_control_records_give_voters_or_peer_error(kind: int, valid: bytes) -> None:
    for seed in range(2_000):
        with contextlib.suppress(PeerError):
            voters_of(control(kind, mutate(valid, Random(seed))))


@given(st.sampled_from([2, 6]), st.binary(max_size=80))
def test_any_bytes_give_voters_or_peer_error(kind: int, value: bytes) -> None:
    with contextlib.suppress(PeerError):
        voters_of(control(kind, value))


def test_snapshots_by_their_names() -> None:
    names = ["00000000000000000029.snapshot", "00000000000000000100-0000000002.checkpoint", "00000000000000000000-0000000000.checkpoint"]
    names += ["00000000000000000100-0000000002.checkpoint.part", "leader-epoch-checkpoint"]
    assert snapshot_ids(names) == [SnapshotId(0, 0), SnapshotId(100, 2)]
    assert SnapshotId(100, 2).file_name == names[1]


def test_the_first_snapshot_says_that_this_node_alone_votes() -> None:
    data = first_snapshot(7, DIRECTORY, 5)
    batches = [(header, decode_batch(data, at)) for at, header in split_batches(data)]
    assert [header.is_control for header, _ in batches] == [True, True]
    records = [record for _, found in batches for record in found]
    assert [record.key[3] for record in records] == [3, 5, 6, 4]
    assert [record.offset for record in records] == [0, 1, 2, 3]
    assert voters_of(records[2]) == {7}
    # the same fields in the same order as in the snapshot that Kafka's tool made, but for node and endpoint
    assert records[2].value == VOTERS.replace(b"\0\0\0\x01\x0e", b"\0\0\0\x07\x0e").replace(b"\n127.0.0.1\x8a\x95", b"\nlocalhost\x23\x85")


def test_a_snapshot_without_its_footer_is_not_finished() -> None:
    assert is_finished([control(3, b""), control(4, b"")])
    assert not is_finished([control(3, b"")])
    assert not is_finished([])
    assert not is_finished([Record(0, 0, None, b"")])


def metadata_with(*homes: tuple[tuple[int, ...], tuple[bytes, ...]], leader: int = 1, metadata_version: int = 30) -> ClusterMetadata:
    cluster_metadata = ClusterMetadata((1,), lambda _name: "")
    cluster_metadata.directory_id = HERE
    if metadata_version:
        cluster_metadata.replay(FeatureLevelRecord(name="metadata.version", level=metadata_version))
    cluster_metadata.replay(TopicRecord(name="t", topic_id=TOPIC))
    for number, (replicas, directories) in enumerate(homes):
        cluster_metadata.replay(
            PartitionRecord(
                topic_id=TOPIC,
                partition=number,
                replicas=replicas,
                in_sync=replicas,
                leader=leader,
                leader_epoch=4,
                directories=directories,
            )
        )
    return cluster_metadata


@pytest.mark.parametrize(
    ("home", "voters", "words"),
    [
        (((1,), (HERE,)), {1}, None),
        (((1,), ()), set(), None),
        (((1,), (bytes(15) + b"\x02",)), {1}, None),
        (((1, 2), (HERE, HERE)), {1}, "partition t-0 lies on 1, 2, and this is node 1 alone"),
        (((2,), (HERE,)), {1}, "partition t-0 lies on 2"),
        (((1,), (bytes(range(16)),)), {1}, "another one of the node's log.dirs"),
        (((1,), (HERE,)), {1, 2, 3}, "controllers are the nodes 1, 2, 3"),
        (((1,), (HERE,)), {100}, "controllers are the nodes 100"),
    ],
)
def test_only_what_this_node_holds_alone_is_served(home, voters, words) -> None:
    found = adoption_problem(metadata_with(home), HERE, voters)
    assert found is None if words is None else words in found


def test_a_topic_whose_files_would_be_the_metadata_log_is_not_served() -> None:
    cluster_metadata = metadata_with(((1,), (HERE,)))
    cluster_metadata.replay(TopicRecord(name="__cluster_metadata", topic_id=bytes(15) + b"\x09"))
    assert "a topic __cluster_metadata, whose files would be the metadata log" in adoption_problem(cluster_metadata, HERE, {1})


def test_a_partition_that_the_log_never_described_is_not_served() -> None:
    cluster_metadata = metadata_with(((1,), (HERE,)))
    cluster_metadata.replay(PartitionRecord(topic_id=TOPIC, partition=2, replicas=(1,), in_sync=(1,), leader=1))
    assert "t-1 lies on no broker" in adoption_problem(cluster_metadata, HERE, {1})


def test_a_new_log_begins_with_the_features_and_the_minimum_of_in_sync_replicas() -> None:
    cluster_metadata = ClusterMetadata((1,), BrokerConfig({"min.insync.replicas": 2}).text)
    for record in first_records(cluster_metadata):
        cluster_metadata.replay(record)
    assert cluster_metadata.features == FIRST_FEATURES
    assert cluster_metadata.configs_set(BROKER_RESOURCE, "") == {"min.insync.replicas": "2"}
    assert first_records(cluster_metadata) == []


def test_what_has_another_leader_or_none_is_taken_over() -> None:
    cluster_metadata = metadata_with(((1,), (HERE,)), ((1,), (HERE,)), leader=-1)
    records = elect_leaders(cluster_metadata, after_crash=False)
    assert records == [
        PartitionChangeRecord(topic_id=TOPIC, partition=n, leader=1, in_sync=(1,), eligible_leaders=(), last_known_leaders=())
        for n in range(2)
    ]
    for record in records:
        cluster_metadata.replay(record)
    assert (cluster_metadata.topics["t"].leaders, cluster_metadata.topics["t"].leader_epochs) == ([1, 1], [5, 5])
    assert elect_leaders(cluster_metadata, after_crash=False) == []


def test_after_a_crash_every_partition_gets_a_new_leader_epoch() -> None:
    cluster_metadata = metadata_with(((1,), (HERE,)))
    (record,) = elect_leaders(cluster_metadata, after_crash=True)
    cluster_metadata.replay(record)
    assert cluster_metadata.topics["t"].leader_epochs == [5]


@pytest.mark.parametrize(
    ("metadata_version", "directories", "eligible"), [(16, None, None), (17, (HERE,), None), (22, (HERE,), None), (23, (HERE,), ())]
)
def test_records_say_only_what_the_clusters_version_knows(metadata_version, directories, eligible) -> None:
    cluster_metadata = metadata_with(((1,), ()), leader=-1, metadata_version=metadata_version)
    (record,) = elect_leaders(cluster_metadata, after_crash=False)
    assert (record.directories, record.eligible_leaders, record.last_known_leaders) == (directories, eligible, eligible)
