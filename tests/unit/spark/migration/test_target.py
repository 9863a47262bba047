"""The settings of the target, on a scripted admin client of confluent-kafka; brokers: tests/spark/test_migrate.py."""

from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ConfigSource

from ottla.client.settings import ClientSettings
from ottla.spark.migration.target import FILLING, TopicSettings
from ottla.spark.migration.values import MigrationError


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
