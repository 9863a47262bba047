"""A deleted topic: what is told to whom, and in which order."""

import pytest

from ottla.broker.cluster.topic_deletion import TopicDeletion
from ottla.core.errors import ApiError, ErrorCode, StorageError
from ottla.core.metadata.topics import CONSUMER_OFFSETS, NewTopic


class Calls:
    """Notes every call of any method."""

    def __init__(self) -> None:
        self.made: list[tuple[str, object]] = []

    def __getattr__(self, name: str):
        return lambda *given: self.made.append((name, *(getattr(each, "name", each) for each in given)))


@pytest.fixture
def calls() -> Calls:
    return Calls()


@pytest.fixture
def deletion(api, calls: Calls) -> TopicDeletion:
    log = api.cluster.metadata_log
    return TopicDeletion(metadata_log=log, partitions=calls, cleaner=calls, deletions=calls, coordinators=calls)  # type: ignore[arg-type]


def test_a_topic_goes_with_its_files_checkpoints_and_offsets(api, deletion, calls) -> None:
    api.cluster.topics.create(NewTopic(name="t"))
    assert deletion.delete("t") is None
    assert "t" not in api.cluster.cluster_metadata.topics
    assert calls.made == [("delete", "t"), ("topic_deleted", "t"), ("note", "t"), ("forget_topic", "t")]


def test_the_offsets_topic_goes_when_no_broker_coordinates_any_more(api, deletion, calls) -> None:
    api.cluster.topics.ensure(CONSUMER_OFFSETS)
    deletion.delete(CONSUMER_OFFSETS)
    assert [name for name, *_ in calls.made] == ["resign_all", "delete", "topic_deleted", "note", "forget_topic"]


def test_a_topic_that_does_not_exist(deletion, calls) -> None:
    refused = deletion.delete("t")
    assert isinstance(refused, ApiError)
    assert (refused.error, calls.made) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])


def test_a_topic_stays_where_the_deletion_cannot_be_kept(api, deletion, calls, monkeypatch) -> None:
    def full(_records) -> None:
        raise StorageError("the disk is full")

    api.cluster.topics.create(NewTopic(name="t"))
    monkeypatch.setattr(api.cluster.metadata_log, "append", full)
    with pytest.raises(StorageError):
        deletion.delete("t")
    assert ("t" in api.cluster.cluster_metadata.topics, calls.made) == (True, [])
