"""The target topic: made with the settings of the source, or checked; and how it is set while it is filled.

While it is filled it keeps every record with its own time: nothing is deleted, compacted or given another timestamp, so that a later run
finds what is there. At the end it gets the source's settings.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewTopic,
)

from ottla.client.security.properties import to_librdkafka
from ottla.client.settings import ClientSettings
from ottla.spark.migration.values import MigrationError

_LONG_MAX: Final = str(2**63 - 1)
FILLING: Final[Mapping[str, str]] = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": _LONG_MAX,
    "message.timestamp.after.max.ms": _LONG_MAX,
    # A record that just fits into the source gets a header more.
    "max.message.bytes": "104857600",
}
"""The settings of the target while it is filled; brokers that do not know one go without it."""

NOT_COPIED: Final = frozenset({"leader.replication.throttled.replicas", "follower.replication.throttled.replicas"})
"""Settings that belong to the partitions of the source."""

REQUEST_S: Final = 30.0


class TopicSettings:
    """Topics and settings of one cluster. Raises MigrationError with the broker's reason."""

    def __init__(self, settings: ClientSettings, *, connect: Callable[[dict[str, Any]], Any] = AdminClient) -> None:
        config = {"bootstrap.servers": settings.bootstrap_servers, "client.id": settings.client_id, "log_level": 0}
        self._admin = connect({**config, **to_librdkafka(settings.security)})

    def read(self, topic: str) -> dict[str, str]:
        """The settings that were made for the topic itself."""
        entries = self._describe(topic)
        return {name: str(each.value) for name, each in entries.items() if each.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value}

    def is_compacted(self, topic: str) -> bool:
        """Whether the topic is compacted, by a setting of its own or by the broker's."""
        return "compact" in str(self._describe(topic)["cleanup.policy"].value)

    def create(self, topic: str, partitions: int, replicas: int, settings: Mapping[str, str]) -> None:
        """Create the topic with these settings but for those that FILLING names; `prepare` makes them."""
        config = {name: value for name, value in settings.items() if name not in FILLING and name not in NOT_COPIED}
        new = NewTopic(topic, num_partitions=partitions, replication_factor=replicas, config=config)
        self._wait(self._admin.create_topics([new], operation_timeout=REQUEST_S)[topic], f"topic {topic} cannot be created")

    def prepare(self, topic: str) -> None:
        """Set the topic as it is while it is filled."""
        entries = self._describe(topic)
        self._alter(topic, {name: value for name, value in FILLING.items() if name in entries and entries[name].value != value})

    def finish(self, topic: str, settings: Mapping[str, str]) -> None:
        """Set what FILLING names as in `settings`, or to the default."""
        entries = self._describe(topic)
        self._alter(topic, {name: settings.get(name) for name in FILLING if name in entries})

    def _describe(self, topic: str) -> Mapping[str, Any]:
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        found: Mapping[str, Any] = self._wait(self._admin.describe_configs([resource])[resource], f"the settings of {topic} cannot be read")
        return found

    def _alter(self, topic: str, changes: Mapping[str, str | None]) -> None:
        if not changes:
            return
        operation = {True: AlterConfigOpType.DELETE, False: AlterConfigOpType.SET}
        entries = [ConfigEntry(name, value, incremental_operation=operation[value is None]) for name, value in changes.items()]
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
        self._wait(self._admin.incremental_alter_configs([resource])[resource], f"the settings of {topic} cannot be changed")

    def _wait(self, future: Any, what: str) -> Any:
        try:
            return future.result(REQUEST_S)
        except KafkaException as error:
            raise MigrationError(f"{what}: {error.args[0].str()}") from error
        except TimeoutError as error:
            raise MigrationError(f"{what}: no broker answered within {REQUEST_S:g} s") from error
