"""Opening a directory: what this node may serve, and what it says in the log when it takes it over."""

import pytest

from ottla.core.catalogue.adoption import FIRST_FEATURES, first_records, problem, take_over
from ottla.core.catalogue.catalogue import Catalogue
from ottla.core.catalogue.records import FeatureLevelRecord, PartitionChangeRecord, PartitionRecord, TopicRecord

HERE = bytes(range(100, 116))
TOPIC = bytes(range(16))


def catalogue_with(*homes: tuple[tuple[int, ...], tuple[bytes, ...]], leader: int = 1, metadata_version: int = 30) -> Catalogue:
    catalogue = Catalogue((1,), lambda _name: "")
    catalogue.directory_id = HERE
    if metadata_version:
        catalogue.replay(FeatureLevelRecord(name="metadata.version", level=metadata_version))
    catalogue.replay(TopicRecord(name="t", topic_id=TOPIC))
    for number, (replicas, directories) in enumerate(homes):
        catalogue.replay(
            PartitionRecord(topic_id=TOPIC, partition=number, replicas=replicas, leader=leader, leader_epoch=4, directories=directories)
        )
    return catalogue


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
    found = problem(catalogue_with(home), HERE, voters)
    assert found is None if words is None else words in found


def test_a_topic_whose_files_would_be_the_metadata_log_is_not_served() -> None:
    catalogue = catalogue_with(((1,), (HERE,)))
    catalogue.replay(TopicRecord(name="__cluster_metadata", topic_id=bytes(15) + b"\x09"))
    assert "a topic __cluster_metadata, whose files would be the metadata log" in problem(catalogue, HERE, {1})


def test_a_partition_that_the_log_never_described_is_not_served() -> None:
    catalogue = catalogue_with(((1,), (HERE,)))
    catalogue.replay(PartitionRecord(topic_id=TOPIC, partition=2, replicas=(1,), leader=1))
    assert "t-1 lies on no broker" in problem(catalogue, HERE, {1})


def test_a_new_log_begins_with_the_features() -> None:
    catalogue = Catalogue((1,), lambda _name: "")
    for record in first_records(catalogue):
        catalogue.replay(record)
    assert catalogue.features == FIRST_FEATURES
    assert first_records(catalogue) == []


def test_what_has_another_leader_or_none_is_taken_over() -> None:
    catalogue = catalogue_with(((1,), (HERE,)), ((1,), (HERE,)), leader=-1)
    records = take_over(catalogue, after_crash=False)
    assert records == [
        PartitionChangeRecord(topic_id=TOPIC, partition=n, leader=1, in_sync=(1,), eligible_leaders=(), last_known_leaders=())
        for n in range(2)
    ]
    for record in records:
        catalogue.replay(record)
    assert (catalogue.topics["t"].leaders, catalogue.topics["t"].leader_epochs) == ([1, 1], [5, 5])
    assert take_over(catalogue, after_crash=False) == []


def test_after_a_crash_every_partition_gets_a_new_leader_epoch() -> None:
    catalogue = catalogue_with(((1,), (HERE,)))
    (record,) = take_over(catalogue, after_crash=True)
    catalogue.replay(record)
    assert catalogue.topics["t"].leader_epochs == [5]


@pytest.mark.parametrize(
    ("metadata_version", "directories", "eligible"), [(16, None, None), (17, (HERE,), None), (22, (HERE,), None), (23, (HERE,), ())]
)
def test_records_say_only_what_the_clusters_version_knows(metadata_version, directories, eligible) -> None:
    catalogue = catalogue_with(((1,), ()), leader=-1, metadata_version=metadata_version)
    (record,) = take_over(catalogue, after_crash=False)
    assert (record.directories, record.eligible_leaders, record.last_known_leaders) == (directories, eligible, eligible)
