"""Topics: made once, changed at once, and never half."""

from types import SimpleNamespace

import pytest

from ottla.broker.cluster import topics as topic_creation
from ottla.broker.cluster.topics import TopicCreation, TopicDeletion, alter_resources
from ottla.groups.commands import ForgetTopics
from ottla.metadata.resource_configs import TOPIC_RESOURCE
from ottla.metadata.topics import CONSUMER_OFFSETS, NewTopic, Topic
from ottla.protocol.errors import ApiError, ErrorCode, StorageError


def test_ensure_topic_makes_a_topic_once(api) -> None:
    made = api.cluster.topics.ensure("t")
    assert api.cluster.topics.ensure("t") is made
    assert isinstance(api.cluster.topics.ensure("bad name"), ApiError)


def test_only_checking_makes_nothing(api) -> None:
    imagined = api.cluster.topics.create(NewTopic(name="t", partitions=3), validate_only=True)
    assert isinstance(imagined, Topic)
    assert len(imagined.leaders) == 3
    assert api.cluster.topics.get("t") is None


def test_the_brokers_own_topics_have_settings_of_their_own(api) -> None:
    offsets = api.cluster.topics.ensure(CONSUMER_OFFSETS)
    assert (len(offsets.leaders), offsets.configs["cleanup.policy"], offsets.configs["segment.bytes"]) == (50, "compact", "104857600")


def test_changed_settings_reach_open_logs(api) -> None:
    topic = api.cluster.topics.ensure("t")
    log = api.cluster.partitions.get(topic, 0).log
    assert api.cluster.topics.alter_config(TOPIC_RESOURCE, "t", [("segment.ms", 0, "77")]) is None
    assert log.settings.segment_ms == 77


# Many new topics: few appends, nothing known before it is kept, and names that others take meanwhile.


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


# A deleted topic: what is told to whom, and in which order.


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
    return TopicDeletion(metadata_log=log, partitions=calls, cleaner=calls, deletions=calls, coordinators={CONSUMER_OFFSETS: calls})  # type: ignore[arg-type]


def test_a_topic_goes_with_its_files_checkpoints_and_offsets(api, deletion, calls) -> None:
    api.cluster.topics.create(NewTopic(name="t"))
    assert deletion.delete("t") is None
    assert "t" not in api.cluster.cluster_metadata.topics
    assert calls.made == [("delete", "t"), ("topic_deleted", "t"), ("note", "t"), ("run_everywhere", ForgetTopics(topics=("t",)))]


def test_the_offsets_topic_goes_when_no_broker_coordinates_any_more(api, deletion, calls) -> None:
    api.cluster.topics.ensure(CONSUMER_OFFSETS)
    deletion.delete(CONSUMER_OFFSETS)
    assert [name for name, *_ in calls.made] == ["resign_all", "delete", "topic_deleted", "note", "run_everywhere"]


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


# Producer ids: in blocks, and never twice.


def test_producer_ids_come_in_blocks(api) -> None:
    ids = [api.cluster.producer_ids.next() for _ in range(1001)]
    assert ids == list(range(1001))
    assert api.cluster.cluster_metadata.next_producer_id == 2000


def test_a_block_that_cannot_be_kept_is_not_used(api, monkeypatch) -> None:
    def full(_records) -> None:
        raise StorageError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(api.cluster.metadata_log, "append", full)
        with pytest.raises(StorageError):
            api.cluster.producer_ids.next()
    assert api.cluster.producer_ids.next() == 0


# Changes of settings, resource by resource: each has one result, and one that is named twice has two refusals.


class TopicsDouble:
    """Notes what is to be altered; `fails` is raised instead."""

    def __init__(self, fails: StorageError | None = None) -> None:
        self.altered: list[tuple[int, str, list[tuple[str, int, str | None]], bool]] = []
        self.fails = fails

    def alter_config(self, kind, name, changes, *, validate_only):
        if self.fails:
            raise self.fails
        self.altered.append((kind, name, changes, validate_only))
        return ApiError(ErrorCode.INVALID_CONFIG, "Unknown", unknown="retention.m") if name == "unknown" else None


def resource(name: str, *settings: str, kind: int = 2) -> SimpleNamespace:
    return SimpleNamespace(resource_type=kind, resource_name=name, configs=[SimpleNamespace(name=each) for each in settings])


def alter(topics, *resources, changes=()) -> list[tuple[str, ErrorCode, str | None]]:
    found = alter_resources(topics, 1, resources, lambda _resource: changes, validate_only=True)
    return [(each["resource_name"], each["error_code"], each["error_message"]) for each in found if each is not None]


def test_each_resource_is_altered() -> None:
    topics = TopicsDouble()
    changes = [("retention.ms", 0, "5")]
    assert alter(topics, resource("t"), resource("1", kind=4), changes=changes) == [("t", 0, None), ("1", 0, None)]
    assert topics.altered == [(2, "t", changes, True), (4, "1", changes, True)]


def test_a_resource_that_is_named_twice_is_not_altered() -> None:
    topics = TopicsDouble()
    assert [error for _, error, _ in alter(topics, resource("t"), resource("u"), resource("t"))] == [42, 0, 42]
    assert [name for _, name, _, _ in topics.altered] == ["u"]


def test_refusals_have_a_sentence() -> None:
    refused = ApiError(ErrorCode.INVALID_REQUEST, "no")
    assert alter(TopicsDouble(), resource("t"), changes=refused) == [("t", 42, "no")]
    assert alter(TopicsDouble(), resource("t", "a", "a")) == [("t", 42, "Error due to duplicate config keys")]
    assert alter(TopicsDouble(), resource("unknown")) == [("unknown", 40, "Unknown; did you mean 'retention.ms'?")]


def test_a_log_that_cannot_be_written_is_a_result() -> None:
    assert alter(TopicsDouble(StorageError("disk full")), resource("t")) == [("t", ErrorCode.KAFKA_STORAGE_ERROR, "disk full")]


def test_unknown_broker_settings_are_logged(caplog) -> None:
    changes = [*((f"no.such.{number}", 0, "1") for number in range(12)), ("log.retention.ms", 0, "5"), ("gone", 1, None)]
    asked = resource("1", kind=4)
    list(alter_resources(TopicsDouble(), 1, [asked], lambda _resource: changes, validate_only=False))
    assert len(caplog.messages) == 11
    assert caplog.messages[0] == "a broker config was set that is unknown, and that has no effect: no.such.0"
    assert caplog.messages[-1] == "2 more broker configs were set that have no effect"
    alter(TopicsDouble(), asked, changes=changes)
    assert len(caplog.messages) == 11, "nothing is logged of what is only checked"
