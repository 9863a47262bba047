"""Describes the settings of brokers, topics and groups as Kafka's ConfigHelper does: the value, where it comes from, and what else was set.

All of Kafka's settings are described (config/kafka_settings.py). The value of one that this broker does not act on is Kafka's
default, or what was set on it in the metadata log.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from ottla.config import (
    BROKER_SETTINGS,
    GROUP_SETTINGS,
    KAFKA_BROKER_SETTINGS,
    KAFKA_GROUP_SETTINGS,
    KAFKA_TOPIC_SETTINGS,
    OTHER_UNITS,
    TOPIC_SETTINGS,
    ConfigSource,
    ConfigType,
    KafkaSetting,
    Setting,
)
from ottla.metadata.resource_configs import BROKER_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE, ResourceConfigs

_SYNONYMS: Final = {name: (name, *(other for other, _ in others)) for name, others in OTHER_UNITS.items()} | {
    "log.retention.minutes": ("log.retention.minutes", "log.retention.hours")
}
"""The settings whose values are listed beside a setting's own, in this order."""


class Synonym(NamedTuple):
    """One of the values that a setting has, in the order of precedence; the value of a secret is None."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigDescription(NamedTuple):
    """One setting of a resource. A value of None is Kafka's null: there is none, or it is a secret."""

    name: str
    value: str | None
    source: ConfigSource
    synonyms: tuple[Synonym, ...]
    is_read_only: bool
    is_sensitive: bool
    type: ConfigType
    doc: str | None


class ConfigDescriptions:
    """The settings of one broker, and of topics and groups as it sees them.

    `configs` has what was set while brokers run, for this one (`broker_id`) and for others, `static` the values that this one was started
    with, by name: what was given, and what it does where Kafka has a setting for it.
    """

    def __init__(self, configs: ResourceConfigs, static: Mapping[str, str], *, broker_id: int) -> None:
        self._configs = configs
        self._static = static
        self._owners = (str(broker_id), "")

    def of_broker(self) -> Iterator[ConfigDescription]:
        """Every setting of this broker."""
        for setting in KAFKA_BROKER_SETTINGS.values():
            yield self._of_broker(setting)
        for name in self._unknown(self._owners):
            yield self._of_broker(_unknown_setting(name))

    def of_all_brokers(self) -> Iterator[ConfigDescription]:
        """What was set for all brokers at once; as in Kafka, nothing else."""
        for name, value in self._configs.given(BROKER_RESOURCE, "").items():
            setting = KAFKA_BROKER_SETTINGS.get(name) or _unknown_setting(name)
            shown = None if _is_secret(setting) else value
            source = ConfigSource.DYNAMIC_DEFAULT_BROKER
            yield _described(setting, shown, (Synonym(name, shown, source),), is_read_only=not setting.is_dynamic)

    def of_topic(self, topic: str) -> Iterator[ConfigDescription]:
        """Every setting of a topic."""
        given = self._configs.given(TOPIC_RESOURCE, topic)
        for setting in KAFKA_TOPIC_SETTINGS.values():
            yield self._of_topic(setting, given)
        for name in given.keys() - KAFKA_TOPIC_SETTINGS.keys():
            # Set with another version of Apache Kafka; a topic has no secrets.
            setting, synonym = _unknown_setting(name), Synonym(name, given[name], ConfigSource.DYNAMIC_TOPIC)
            yield _described(setting, given[name], (synonym,), is_read_only=False)._replace(is_sensitive=False)

    def of_group(self, group_id: str) -> Iterator[ConfigDescription]:
        """Every setting of a group, whether it exists or not; one of share and streams groups has no effect."""
        given = self._configs.given(GROUP_RESOURCE, group_id)
        for setting in KAFKA_GROUP_SETTINGS.values():
            served, text = GROUP_SETTINGS.get(setting.name), given.get(setting.name)
            synonyms: tuple[Synonym, ...] = (Synonym(setting.name, setting.default, ConfigSource.DEFAULT),)
            if setting.broker_name is not None:
                synonyms = self._synonyms(KAFKA_BROKER_SETTINGS[setting.broker_name], self._configs.owners)
            if text is not None and (served is None or served.problem(text) is None):
                synonyms = (Synonym(setting.name, _plain(served, text), ConfigSource.GROUP), *synonyms)
            value = synonyms[0].value
            plain = value if value is None or setting.broker_name is None else _plain(BROKER_SETTINGS.get(setting.broker_name), value)
            yield _described(setting, plain, synonyms, is_read_only=False)

    def _of_broker(self, setting: KafkaSetting) -> ConfigDescription:
        synonyms = self._synonyms(setting, self._owners)
        value = synonyms[0].value if synonyms else None
        if value is not None:
            value = _plain(BROKER_SETTINGS.get(setting.name), value)
        return _described(setting, value, synonyms, is_read_only=not setting.is_dynamic)

    def _of_topic(self, setting: KafkaSetting, given: Mapping[str, str]) -> ConfigDescription:
        # Topics have what is in force for all brokers of the process, whichever of them is asked.
        of_broker = None if setting.broker_name is None else KAFKA_BROKER_SETTINGS[setting.broker_name]
        synonyms = () if of_broker is None else self._synonyms(of_broker, self._configs.owners)
        served = TOPIC_SETTINGS.get(setting.name)
        if served is None:
            value = given.get(setting.name, setting.default)
            is_set = setting.name in given
        else:
            text, source = self._configs.topic_value(given, setting.name)
            value = _plain(served, text)
            is_set = source is ConfigSource.DYNAMIC_TOPIC
        if is_set:
            synonyms = (Synonym(setting.name, value, ConfigSource.DYNAMIC_TOPIC), *synonyms)
        return _described(setting, value, synonyms, is_read_only=False)

    def _synonyms(self, setting: KafkaSetting, owners: Sequence[str]) -> tuple[Synonym, ...]:
        """The values that a broker's setting has, the one in force first, as Kafka lists them.

        A value in another unit comes after one of the setting's own, or not at all.
        """
        names = _SYNONYMS.get(setting.name, (setting.name,))
        found = [
            Synonym(name, value, source) for source, values in self._layers(names, owners) for name, value in values if value is not None
        ]
        while found and found[0].name != setting.name:
            del found[0]
        return tuple(each._replace(value=None) for each in found) if _is_secret(setting) else tuple(found)

    def _layers(self, names: Iterable[str], owners: Sequence[str]) -> Iterator[tuple[ConfigSource, list[tuple[str, str | None]]]]:
        """The values of these settings by source, the source that takes precedence first."""
        for owner in owners:
            source = ConfigSource.DYNAMIC_BROKER if owner else ConfigSource.DYNAMIC_DEFAULT_BROKER
            yield source, [(name, self._configs.usable_broker_value(owner, name)) for name in names]
        yield ConfigSource.STATIC_BROKER, [(name, self._static.get(name)) for name in names]
        defaults = ((name, KAFKA_BROKER_SETTINGS.get(name)) for name in names)
        yield ConfigSource.DEFAULT, [(name, setting and setting.default) for name, setting in defaults]

    def _unknown(self, owners: Iterable[str]) -> list[str]:
        given = {name for owner in owners for name in self._configs.given(BROKER_RESOURCE, owner)}
        return sorted(given - KAFKA_BROKER_SETTINGS.keys() - BROKER_SETTINGS.keys())


def _described(setting: KafkaSetting, value: str | None, synonyms: tuple[Synonym, ...], *, is_read_only: bool) -> ConfigDescription:
    return ConfigDescription(
        name=setting.name,
        value=value,
        source=synonyms[0].source if synonyms else ConfigSource.DEFAULT,
        synonyms=synonyms,
        is_read_only=is_read_only,
        is_sensitive=_is_secret(setting),
        type=setting.type,
        doc=setting.doc or None,
    )


def _plain(served: Setting | None, text: str) -> str:
    return text if served is None else served.plain(text)


def _unknown_setting(name: str) -> KafkaSetting:
    """A setting that was set with Apache Kafka, perhaps a later one. It might be a secret, and is shown as one."""
    return KafkaSetting(name, ConfigType.UNKNOWN, None, is_dynamic=False, doc="")


def _is_secret(setting: KafkaSetting) -> bool:
    return setting.type in (ConfigType.PASSWORD, ConfigType.UNKNOWN)
