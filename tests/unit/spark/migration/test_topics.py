"""Looking up and making the topics of a migration on scripted clusters."""

from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ConfigSource

from ottla.client.settings import ClientSettings
from ottla.protocol.errors import ErrorCode
from ottla.spark.migration import topics
from ottla.spark.migration.topics import (
    FILLING,
    Admins,
    Shape,
    TopicSettings,
    check_source,
    extents,
    find,
    find_source,
    find_target,
    finish_target,
    make_target,
    prepare_target,
)
from ottla.spark.migration.values import Cluster, Extent, Migration, MigrationError
from ottla.spark.sink.producer_settings import parse_producer_settings

HERE = Cluster(client=ClientSettings(bootstrap_servers="h:1"), producer=parse_producer_settings({"bootstrap.servers": "h:1"}))
ONE = [Extent(0, 0)]


def migration(**changes: Any) -> Migration:
    return Migration(**{"source_cluster": HERE, "target_cluster": HERE, "source": "wide", "target": "narrow", "partitions": 2} | changes)


class Settings:
    """What TopicSettings would have done."""

    done: list[tuple[Any, ...]] = []

    def __init__(self, _client: ClientSettings) -> None:
        pass

    def read(self, topic: str) -> dict[str, str]:
        return {"settings": f"of {topic}"}

    def create(self, *arguments: Any) -> None:
        self.done.append(("create", *arguments))

    def prepare(self, topic: str) -> None:
        self.done.append(("prepare", topic))

    def finish(self, *arguments: Any) -> None:
        self.done.append(("finish", *arguments))


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    monkeypatch.setattr(topics, "TopicSettings", Settings)
    monkeypatch.setattr(Settings, "done", [])
    return Settings.done


def test_the_source_must_exist_and_be_another_topic(admin: Any) -> None:
    admins = Admins(source=admin, source_log=admin, target=admin, lease=admin)
    with pytest.raises(MigrationError, match="topic wide does not exist"):
        find_source(migration(), admins)
    admin.extents["wide"] = ONE
    assert find_source(migration(), admins) == Shape("wide", "id of wide", 1)
    with pytest.raises(MigrationError, match="wide cannot be migrated into itself"):
        find_source(migration(target="wide"), admins)


def test_a_source_that_becomes_another_topic(admin: Any) -> None:
    admins, before = Admins(source=admin, source_log=admin, target=admin, lease=admin), Shape("wide", "id of wide", 1)
    with pytest.raises(MigrationError, match="topic wide was deleted while it was copied"):
        check_source(before, admins)
    admin.extents["wide"] = ONE
    check_source(before, admins)
    with pytest.raises(MigrationError, match="topic wide was deleted and made again while it was copied: name another"):
        check_source(before._replace(topic_id="other"), admins)
    admin.extents["wide"] = ONE * 2
    with pytest.raises(MigrationError, match="topic wide has 2 partitions now, and had 1 when the run began: run the same command again"):
        check_source(before, admins)


def test_the_target_exists_with_as_many_partitions_or_its_number_is_given(admin: Any) -> None:
    admins = Admins(source=admin, source_log=admin, target=admin, lease=admin)
    assert find_target(migration(), admins) is None
    with pytest.raises(MigrationError, match="narrow does not exist: say with --partitions"):
        find_target(migration(partitions=None), admins)
    admin.extents["narrow"] = ONE
    assert find_target(migration(partitions=None), admins) == Shape("narrow", "id of narrow", 1)
    with pytest.raises(MigrationError, match="topic narrow exists and has 1 partitions, not 2"):
        find_target(migration(), admins)


def test_a_target_that_exists_stays_as_it_is(admin: Any, done: list[Any]) -> None:
    admin.extents["narrow"] = ONE * 2
    made = make_target(
        migration(), Shape("wide", "", 1), Admins(source=admin, source_log=admin, target=admin, lease=admin), pause=pytest.fail
    )
    assert (made.partitions, done) == (2, [])


def test_a_new_target_has_the_sources_settings_and_is_waited_for(admin: Any, done: list[Any]) -> None:
    def appear(_seconds: float) -> None:
        admin.extents["narrow"] = ONE * 2

    made = make_target(migration(), Shape("wide", "", 1), Admins(source=admin, source_log=admin, target=admin, lease=admin), pause=appear)
    assert made == Shape("narrow", "id of narrow", 2)
    # Three replicas in the source, two brokers.
    assert done == [("create", "narrow", 2, 2, {"settings": "of wide"})]


def test_a_new_target_that_gets_no_leaders(admin: Any, done: list[Any]) -> None:
    times = iter([0.0, 10.0, 40.0])
    with pytest.raises(MigrationError, match="narrow was created, but has no leaders: run the same command again"):
        make_target(
            migration(),
            Shape("wide", "", 1),
            Admins(source=admin, source_log=admin, target=admin, lease=admin),
            pause=lambda _s: None,
            clock=lambda: next(times),
        )


def test_the_target_is_prepared_and_in_the_end_set_like_the_source(done: list[Any]) -> None:
    prepare_target(migration())
    finish_target(migration())
    assert done == [("prepare", "narrow"), ("finish", "narrow", {"settings": "of wide"})]


def test_each_cluster_has_its_client_and_the_source_is_read_committed() -> None:
    with topics.connect(migration()) as admins:
        assert admins.source._brokers.settings.is_read_committed
        assert not admins.source_log._brokers.settings.is_read_committed
        assert not admins.target._brokers.settings.is_read_committed


def test_a_topic_and_its_offsets(admin: Any) -> None:
    admin.extents = {"wide": [Extent(0, 5), Extent(7, 7)]}
    found = find(admin, "wide")
    assert found == Shape("wide", "id of wide", 2)
    assert extents(admin, found) == {0: Extent(0, 5), 1: Extent(7, 7)}
    assert find(admin, "gone") is None


def test_a_topic_that_may_not_be_described(admin: Any) -> None:
    admin.failures["secret"] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    with pytest.raises(MigrationError, match="topic secret cannot be described: TOPIC_AUTHORIZATION_FAILED"):
        find(admin, "secret")


class Admin:
    """Topics' settings by name: the value, and whether it was made for the topic."""

    def __init__(self) -> None:
        self.entries: dict[str, tuple[str, bool]] = {}
        self.created: list[Any] = []
        self.altered: list[dict[str, Any]] = []
        self.error: KafkaException | None = None

    def _future(self, result: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        if self.error is not None:
            future.set_exception(self.error)
        else:
            future.set_result(result)
        return future

    def describe_configs(self, resources: list[ConfigResource]) -> Any:
        sources = {True: ConfigSource.DYNAMIC_TOPIC_CONFIG.value, False: ConfigSource.DEFAULT_CONFIG.value}
        found = {name: ConfigEntry(name, value, source=sources[is_own]) for name, (value, is_own) in self.entries.items()}
        return {resources[0]: self._future(found)}

    def create_topics(self, topics: list[Any], operation_timeout: float) -> Any:
        self.created += topics
        return {topics[0].topic: self._future(None)}

    def incremental_alter_configs(self, resources: list[ConfigResource]) -> Any:
        operations = {AlterConfigOpType.SET: lambda entry: entry.value, AlterConfigOpType.DELETE: lambda _entry: None}
        self.altered.append({each.name: operations[each.incremental_operation](each) for each in resources[0].incremental_configs})
        return {resources[0]: self._future(None)}


@pytest.fixture
def broker() -> Admin:
    return Admin()


def settings(broker: Admin) -> TopicSettings:
    def connect(config: dict[str, Any]) -> Admin:
        assert config["bootstrap.servers"] == "h:1"
        return broker

    return TopicSettings(ClientSettings(bootstrap_servers="h:1"), connect=connect)


def test_only_the_topics_own_settings_are_read(broker: Admin) -> None:
    broker.entries = {"retention.ms": ("5", True), "segment.bytes": ("1", False)}
    assert settings(broker).read("t") == {"retention.ms": "5"}


def test_a_topic_is_compacted_by_its_own_setting_or_the_brokers(broker: Admin) -> None:
    broker.entries = {"cleanup.policy": ("compact,delete", False)}
    assert settings(broker).is_compacted("t")
    broker.entries = {"cleanup.policy": ("delete", True)}
    assert not settings(broker).is_compacted("t")


def test_a_topic_is_created_with_the_settings_that_do_not_wait(broker: Admin) -> None:
    given = {"segment.bytes": "9", "cleanup.policy": "compact", "leader.replication.throttled.replicas": "*"}
    settings(broker).create("t", 6, 2, given)
    (created,) = broker.created
    assert (created.num_partitions, created.replication_factor, created.config) == (6, 2, {"segment.bytes": "9"})


def test_while_it_is_filled_the_topic_keeps_everything(broker: Admin) -> None:
    broker.entries = {
        "cleanup.policy": ("compact", True),
        "retention.ms": ("-1", True),
        "retention.bytes": ("9", False),
        "other": ("1", True),
    }
    settings(broker).prepare("t")
    assert broker.altered == [{"cleanup.policy": "delete", "retention.bytes": "-1"}]
    broker.entries = {name: (value, True) for name, value in FILLING.items()}
    settings(broker).prepare("t")
    assert len(broker.altered) == 1


def test_in_the_end_it_is_set_like_the_source(broker: Admin) -> None:
    broker.entries = {"cleanup.policy": ("delete", True), "retention.ms": ("-1", True), "other": ("1", True)}
    settings(broker).finish("t", {"cleanup.policy": "compact", "other": "2"})
    assert broker.altered == [{"cleanup.policy": "compact", "retention.ms": None}]


def test_a_refusal_is_a_sentence(broker: Admin) -> None:
    broker.error = KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "not allowed"))
    with pytest.raises(MigrationError, match="topic t cannot be created: not allowed"):
        settings(broker).create("t", 1, 1, {})
    with pytest.raises(MigrationError, match="the settings of t cannot be read: not allowed"):
        settings(broker).read("t")
