"""The settings of topics, brokers and groups: those that were set, and the values in force. config_changes.py decides about changes.

Values in the metadata log stay as they were written. An invalid one is not in force; `unusable` lists them.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from ottla.config import BROKER_SETTINGS, GROUP_SETTINGS, TOPIC_SETTINGS, ConfigError, ConfigSource, Setting, Value, bounds_of_group_setting
from ottla.metadata.records import ConfigRecord

TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4
GROUP_RESOURCE: Final = 32
_SETTINGS: Final = {TOPIC_RESOURCE: TOPIC_SETTINGS, BROKER_RESOURCE: BROKER_SETTINGS, GROUP_RESOURCE: GROUP_SETTINGS}
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
_CACHED_MAX: Final = 1_000
_CACHED_CHARS_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class Unusable:
    """A value in the log that is not in force, and why."""

    resource_type: int
    resource_name: str
    problem: str

    @property
    def owner(self) -> str:
        """The topic, the group or the brokers that it is set on."""
        if self.resource_type in (TOPIC_RESOURCE, GROUP_RESOURCE):
            return f"{'topic' if self.resource_type == TOPIC_RESOURCE else 'group'} {self.resource_name}"
        return f"broker {self.resource_name}" if self.resource_name else "all brokers"


class ResourceConfigs:
    """Settings by resource. `broker_id` is the broker whose own settings apply; `broker_default` gives those that it was started with.

    owners: whose settings are in force, the broker's own first, then those of all brokers ("").
    """

    def __init__(self, broker_id: int | None, broker_default: Callable[[str], str]) -> None:
        self._set: dict[tuple[int, str], dict[str, str]] = {}
        self.owners = ("",) if broker_id is None else (str(broker_id), "")
        self._broker_default = broker_default
        self._parsed: dict[tuple[str, str], Value] = {}
        self._of_broker: dict[str, tuple[str, ConfigSource]] = {}
        """The values in force of the broker's settings, until one of them changes."""

    # Reads.

    def given(self, resource_type: int, resource_name: str) -> Mapping[str, str]:
        """What was set on a resource, unknown settings and invalid values included."""
        return self._set.get((resource_type, resource_name), {})

    def topic_value(self, configs: Mapping[str, str], name: str) -> tuple[str, ConfigSource]:
        """The text in force of a topic's setting and where it comes from, where `configs` is what was set on the topic."""
        setting = TOPIC_SETTINGS[name]
        if self._is_usable(setting, configs):
            return configs[name], ConfigSource.DYNAMIC_TOPIC
        assert setting.broker_name is not None
        return self.broker_value(setting.broker_name)

    def parsed_topic_value(self, configs: Mapping[str, str], name: str) -> Value:
        """The value in force of a topic's setting."""
        setting = TOPIC_SETTINGS[name]
        text, source = self.topic_value(configs, name)
        if source is not ConfigSource.DYNAMIC_TOPIC and setting.broker_name is not None:
            setting = BROKER_SETTINGS[setting.broker_name]
        return self._value(setting, text)

    def groups(self) -> list[str]:
        """The groups on which a setting is set."""
        return [name for resource_type, name in self._set if resource_type == GROUP_RESOURCE]

    def group_number(self, group_id: str, name: str) -> int:
        """The value in force of a group's setting: its own, not beyond the broker's bounds, or the broker's."""
        setting = GROUP_SETTINGS[name]
        text = self._set.get((GROUP_RESOURCE, group_id), _NOTHING).get(name)
        value = None if text is None else self._parse(setting, text)
        if value is None:
            assert setting.broker_name is not None
            return self.broker_number(setting.broker_name)
        low, high = bounds_of_group_setting(name)
        return min(max(_number(value), self.broker_number(low)), self.broker_number(high))

    def _is_usable(self, setting: Setting, configs: Mapping[str, str]) -> bool:
        """Whether `configs` has a valid value for it."""
        text = configs.get(setting.name)
        return text is not None and self._parse(setting, text) is not None

    def _value(self, setting: Setting, text: str) -> Value:
        value = self._parse(setting, text)
        assert value is not None
        return value

    def _parse(self, setting: Setting, text: str) -> Value | None:
        """The value; None for an invalid one. Cached, since every partition reads the same when it is opened."""
        key = (setting.name, text)
        value = self._parsed.get(key)
        if value is not None:
            return value
        if len(self._parsed) >= _CACHED_MAX:
            self._parsed.clear()
        try:
            value = setting.parse(text)
        except ConfigError:
            return None
        if len(text) <= _CACHED_CHARS_MAX:
            self._parsed[key] = value
        return value

    def broker_value(self, name: str) -> tuple[str, ConfigSource]:
        """The text in force of this broker's setting. A value set for this broker takes precedence over one set for all ("")."""
        found = self._of_broker.get(name)
        if found is None:
            found = self._of_broker[name] = self.broker_value_if(name, None, {})
        return found

    def broker_value_if(self, name: str, changed: str | None, after: Mapping[str, str]) -> tuple[str, ConfigSource]:
        """The value in force if `after` were set for the owner `changed`."""
        setting = BROKER_SETTINGS[name]
        for owner in self.owners:
            configs = after if owner == changed else self.given(BROKER_RESOURCE, owner)
            if self._is_usable(setting, configs):
                return configs[name], ConfigSource.DYNAMIC_BROKER if owner else ConfigSource.DYNAMIC_DEFAULT_BROKER
        value = self._broker_default(name)
        return value, ConfigSource.DEFAULT if value == setting.default else ConfigSource.STATIC_BROKER

    def usable_broker_value(self, owner: str, name: str) -> str | None:
        """The text that was set for the broker `owner`, or for all (""); None where there is none, or it is invalid and so not in force."""
        text, setting = self.given(BROKER_RESOURCE, owner).get(name), BROKER_SETTINGS.get(name)
        return None if text is None or (setting is not None and self._parse(setting, text) is None) else text

    def broker_number(self, name: str) -> int:
        """The value in force of this broker's setting that is a whole number."""
        return _number(self._value(BROKER_SETTINGS[name], self.broker_value(name)[0]))

    def broker_share(self, name: str) -> float:
        """The same of a setting that is a number with a fraction."""
        value = self._value(BROKER_SETTINGS[name], self.broker_value(name)[0])
        assert isinstance(value, float)
        return value

    def default_number(self, name: str) -> int:
        """The whole-number value that the broker was started with, of a setting that is not dynamic."""
        return _number(self._value(BROKER_SETTINGS[name], self._broker_default(name)))

    def unusable(self) -> Iterator[Unusable]:
        """Invalid values of known settings: Apache Kafka or an earlier version accepted them."""
        for (resource_type, resource_name), configs in self._set.items():
            if resource_type in (TOPIC_RESOURCE, GROUP_RESOURCE) or (resource_type == BROKER_RESOURCE and resource_name in self.owners):
                known = settings_of(resource_type)
                for name, value in configs.items():
                    problem = known[name].problem(value) if name in known else None
                    if problem is not None:
                        yield Unusable(resource_type, resource_name, problem)

    def capped(self) -> Iterator[str]:
        """A sentence, Kafka's, for each value of a group that is beyond the bounds with which the broker was started."""
        for group_id in self.groups():
            for name, text in self.given(GROUP_RESOURCE, group_id).items():
                value = self._parse(GROUP_SETTINGS[name], text) if name in GROUP_SETTINGS else None
                if value is not None and (effective := self.group_number(group_id, name)) != value:
                    bound = (
                        "is below the broker's allowed minimum" if effective > _number(value) else "exceeds the broker's allowed maximum"
                    )
                    yield (
                        f"The group config '{name}' for group '{group_id}' has value {value} which {bound} {effective}. "
                        f"The effective value will be capped to {effective}."
                    )

    def overridden(self, given: Mapping[str, str]) -> Iterator[str]:
        """A sentence for each setting that a broker was started with, and whose value in force is another that was set in the log."""
        for name, text in given.items():
            if name not in BROKER_SETTINGS:
                continue  # one of a listener, which is as it was given at start
            value, source = self.broker_value(name)
            is_dynamic = source in (ConfigSource.DYNAMIC_BROKER, ConfigSource.DYNAMIC_DEFAULT_BROKER)
            plain = BROKER_SETTINGS[name].plain
            if is_dynamic and plain(value) != plain(text):
                yield (
                    f"{name}={plain(text)} has no effect: the data directory has {plain(value)}, which takes precedence;"
                    " change it while the broker runs (kafka-configs --alter)"
                )

    # Replay: the only way in which state changes.

    def of_topic(self, name: str) -> dict[str, str]:
        """The settings of a topic: one mapping, which changes update."""
        return self._set.setdefault((TOPIC_RESOURCE, name), {})

    def forget_topic(self, name: str) -> None:
        """Remove the settings of a deleted topic."""
        self._set.pop((TOPIC_RESOURCE, name), None)

    def replay(self, record: ConfigRecord) -> None:
        """Set or delete one setting."""
        configs = self._set.setdefault((record.resource_type, record.resource_name), {})
        if record.resource_type == BROKER_RESOURCE:
            self._of_broker.clear()
        if record.value is None:
            configs.pop(record.name, None)
            if not configs and record.resource_type == GROUP_RESOURCE:
                del self._set[record.resource_type, record.resource_name]
        else:
            configs[record.name] = record.value


def settings_of(resource_type: int) -> Mapping[str, Setting]:
    """The known settings of a type of resource, by name."""
    return _SETTINGS[resource_type]


def _number(value: Value) -> int:
    assert isinstance(value, int)
    return value
