"""Many new topics: few appends, nothing known before it is kept, and names that others take meanwhile."""

import pytest

from ottla.broker.cluster import topic_creation
from ottla.broker.cluster.topic_creation import TopicCreation
from ottla.core.errors import ApiError, ErrorCode, StorageError
from ottla.core.metadata.topics import NewTopic, Topic


class Log:
    """The cluster's own log, with its appends counted; `broken`: it cannot be written."""

    def __init__(self, api) -> None:
        self.metadata_log = api.cluster.metadata_log
        self.appended: list[int] = []
        self.broken = False

    def append_encoded(self, records, values) -> None:
        assert len(records) == len(values)
        if self.broken:
            raise StorageError("the disk is gone")
        self.appended.append(len(records))
        self.metadata_log.append_encoded(records, values)


@pytest.fixture
def log(api) -> Log:
    return Log(api)


@pytest.fixture
def batch(api, log: Log) -> TopicCreation:
    return TopicCreation(api.cluster.cluster_metadata, log, api.cluster.deletions)  # type: ignore[arg-type]


def add(batch: TopicCreation, name: str, partitions: int = 1) -> int:
    """Adds a topic; in how many pieces."""
    return sum(1 for _ in batch.add(NewTopic(name=name, partitions=partitions), name.encode().ljust(16)[:16]))


def test_many_topics_share_one_append(api, batch: TopicCreation, log: Log) -> None:
    for number in range(100):
        add(batch, f"t{number}")
    assert (log.appended, api.cluster.cluster_metadata.topics) == ([], {})
    batch.commit()
    assert log.appended == [200]
    assert [result.name for result in batch.results if isinstance(result, Topic)] == [f"t{number}" for number in range(100)]
    assert len(api.cluster.cluster_metadata.topics) == 100


def test_what_was_made_is_there_after_a_restart(make_api, batch: TopicCreation, api) -> None:
    add(batch, "t", 7)
    batch.commit()
    again = make_api(files=api.files)
    assert len(again.cluster.cluster_metadata.topics["t"].leaders) == 7


def test_records_are_encoded_in_pieces_and_appended_by_some_thousand(
    batch: TopicCreation, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_creation, "RECORDS_PER_APPEND", 1000)
    assert add(batch, "a", 800) == 7
    assert log.appended == []
    add(batch, "b", 300)
    assert log.appended == [1102]
    add(batch, "c")
    batch.commit()
    assert log.appended == [1102, 2]


def test_each_topic_is_refused_by_itself(api, batch: TopicCreation) -> None:
    for name in ("a", "bad name", "b"):
        add(batch, name)
    batch.commit()
    assert [result.error if isinstance(result, ApiError) else result.name for result in batch.results] == ["a", 17, "b"]
    assert list(api.cluster.cluster_metadata.topics) == ["a", "b"]


def test_a_name_that_another_request_takes_meanwhile_is_refused(api, batch: TopicCreation, log: Log) -> None:
    for name in ("taken", "a.b", "free"):
        add(batch, name)
    api.cluster.topics.ensure("taken")
    api.cluster.topics.ensure("a_b")
    batch.commit()
    errors = [result.error if isinstance(result, ApiError) else None for result in batch.results]
    assert errors == [ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.INVALID_TOPIC_EXCEPTION, None]
    assert log.appended == [2]


def test_two_of_one_request_whose_metrics_collide(batch: TopicCreation) -> None:
    add(batch, "a.b")
    add(batch, "a_b")
    batch.commit()
    assert isinstance(batch.results[0], Topic)
    assert batch.results[1] == ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic 'a_b' collides with existing topic: a.b")


def test_nothing_is_made_when_the_log_cannot_be_written(api, batch: TopicCreation, log: Log) -> None:
    add(batch, "a")
    add(batch, "bad name")
    log.broken = True
    batch.commit()
    assert [result.error for result in batch.results if isinstance(result, ApiError)] == [ErrorCode.KAFKA_STORAGE_ERROR, 17]
    assert api.cluster.cluster_metadata.topics == {}
