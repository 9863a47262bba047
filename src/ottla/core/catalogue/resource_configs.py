"""What was set on topics and brokers, what of it is in force, and what may be set. Decisions give values or a refusal.

Values in the metadata log stay as they were written. An invalid one is not in force; `unusable` lists them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.core.catalogue.records import ConfigRecord
from ottla.core.config import (
    BROKER_SETTINGS,
    DYNAMIC_BROKER_SETTINGS,
    TOPIC_SETTINGS,
    ConfigError,
    ConfigSource,
    ConfigType,
    Setting,
    Value,
    consistency_problem,
    shown,
    topic_consistency_problem,
)
from ottla.core.errors import ErrorCode
from ottla.core.suggestions import did_you_mean

TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4
SET, DELETE, APPEND, SUBTRACT = range(4)

SUGGESTIONS_MAX: Final = 10
"""A request about more resources was not typed by a person: its unknown names get no suggestion."""
_CACHED_MAX: Final = 1_000
_CACHED_CHARS_MAX: Final = 100

Change = tuple[str, int, str | None]
"""Name, operation and value of one change."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A decision against the caller: the code and the sentence that a client shows. `unknown`: a name that is not a setting's."""

    error: ErrorCode
    message: str
    unknown: str | None = None


@dataclass(frozen=True, slots=True)
class Unusable:
    """A value in the log that is not in force, and why."""

    resource_type: int
    resource_name: str
    problem: str

    @property
    def owner(self) -> str:
        """Whose it is."""
        if self.resource_type == TOPIC_RESOURCE:
            return f"topic {self.resource_name}"
        return f"broker {self.resource_name}" if self.resource_name else "all brokers"


class ResourceConfigs:
    """Settings by resource. `broker_id` is the broker whose own settings count; `broker_default` gives what it was started with."""

    def __init__(self, broker_id: int | None, broker_default: Callable[[str], str]) -> None:
        self._set: dict[tuple[int, str], dict[str, str]] = {}
        self._owners = ("",) if broker_id is None else (str(broker_id), "")
        self._broker_default = broker_default
        self._parsed: dict[tuple[str, str], Value] = {}
        self._of_broker: dict[str, tuple[str, ConfigSource]] = {}
        """The values in force of the broker's settings, until one of them changes."""

    # Decisions.

    def problem_of_new(self, configs: Mapping[str, str | None]) -> Refused | None:
        """Why a topic cannot be made with these settings."""
        for name, value in configs.items():
            problem = self._name_problem(TOPIC_RESOURCE, name)
            if problem is not None:
                return problem
            if value is None:
                return Refused(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {name}")
        return self._problem(TOPIC_RESOURCE, "", configs, {name: value for name, value in configs.items() if value is not None})

    def altered(self, resource_type: int, resource_name: str, changes: Sequence[Change]) -> dict[str, str | None] | Refused:
        """What changes make of the settings of a resource: the new values by name, None where one is deleted."""
        after = dict(self.given(resource_type, resource_name))
        altered: dict[str, str | None] = {}
        for name, operation, value in changes:
            refused = self._change_problem(resource_type, name, operation, has_value=name in after)
            if refused is not None:
                return refused
            if operation == DELETE:
                altered[name] = None
                after.pop(name, None)
            else:
                assert value is not None
                altered[name] = after[name] = self._merged(resource_type, name, operation, value, after)
        return self._problem(resource_type, resource_name, altered, after) or altered

    def _change_problem(self, resource_type: int, name: str, operation: int, *, has_value: bool) -> Refused | None:
        if operation == DELETE:
            return None if has_value or name in settings_of(resource_type) else _unknown(resource_type, name)
        setting = settings_of(resource_type).get(name)
        if operation != SET and (setting is None or setting.type is not ConfigType.LIST):
            word = "APPEND" if operation == APPEND else "SUBTRACT"
            return Refused(
                ErrorCode.INVALID_CONFIG,
                f"Can't {word} to key {shown(name)} because its type is not LIST.",
                unknown=None if setting else name,
            )
        return self._name_problem(resource_type, name)

    def _merged(self, resource_type: int, name: str, operation: int, value: str, after: Mapping[str, str]) -> str:
        """As Kafka's controller joins lists: by what stands between commas, blanks included."""
        if operation == SET:
            return value
        present = after[name] if name in after else self._fallback(resource_type, name)
        items = [item for item in present.split(",") if item]
        given = value.split(",")
        if operation == APPEND:
            return ",".join([*items, *(item for item in dict.fromkeys(given) if item not in items)])
        return ",".join(item for item in items if item not in given)

    def _fallback(self, resource_type: int, name: str) -> str:
        return self.broker_value(TOPIC_SETTINGS[name].broker_name or name if resource_type == TOPIC_RESOURCE else name)[0]

    def _name_problem(self, resource_type: int, name: str) -> Refused | None:
        if name not in settings_of(resource_type):
            return _unknown(resource_type, name)
        if resource_type == BROKER_RESOURCE and name not in DYNAMIC_BROKER_SETTINGS:
            return Refused(ErrorCode.INVALID_REQUEST, f"Cannot update these configs dynamically: {name}; restart the broker with it.")
        return None

    def _problem(
        self, resource_type: int, resource_name: str, changed: Mapping[str, str | None], after: Mapping[str, str]
    ) -> Refused | None:
        """Why the changed values are invalid, or contradict others that are in force."""
        for name, value in changed.items():
            if value is not None:
                problem = settings_of(resource_type)[name].problem(value)
                if problem is not None:
                    return Refused(ErrorCode.INVALID_CONFIG, problem)
        if resource_type == TOPIC_RESOURCE:
            problem = topic_consistency_problem(lambda name: self.topic_value(after, name)[0])
        else:
            problem = consistency_problem(lambda name: self._broker_value(name, resource_name, after)[0])
        return Refused(ErrorCode.INVALID_CONFIG, problem) if problem is not None else None

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

    def _is_usable(self, setting: Setting, configs: Mapping[str, str]) -> bool:
        """Whether it was set there, to a valid value."""
        text = configs.get(setting.name)
        return text is not None and self._parse(setting, text) is not None

    def _value(self, setting: Setting, text: str) -> Value:
        value = self._parse(setting, text)
        assert value is not None
        return value

    def _parse(self, setting: Setting, text: str) -> Value | None:
        """The value; None for an invalid one. Cached, since every partition that opens asks for the same."""
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
        """The text in force of this broker's setting: what was set for it goes before what was set for all ("")."""
        found = self._of_broker.get(name)
        if found is None:
            found = self._of_broker[name] = self._broker_value(name, None, {})
        return found

    def _broker_value(self, name: str, changed: str | None, after: Mapping[str, str]) -> tuple[str, ConfigSource]:
        """As it would be with `after` as what was set for the owner `changed`."""
        setting = BROKER_SETTINGS[name]
        for owner in self._owners:
            configs = after if owner == changed else self.given(BROKER_RESOURCE, owner)
            if self._is_usable(setting, configs):
                return configs[name], ConfigSource.DYNAMIC_BROKER if owner else ConfigSource.DYNAMIC_DEFAULT_BROKER
        value = self._broker_default(name)
        return value, ConfigSource.DEFAULT if value == setting.default else ConfigSource.STATIC_BROKER

    def broker_number(self, name: str) -> int:
        """The value in force of this broker's setting that is a whole number."""
        return _number(self._value(BROKER_SETTINGS[name], self.broker_value(name)[0]))

    def default_number(self, name: str) -> int:
        """The same of a setting that the broker was started with and that nothing changes."""
        return _number(self._value(BROKER_SETTINGS[name], self._broker_default(name)))

    def unusable(self) -> Iterator[Unusable]:
        """Invalid values of known settings: Apache Kafka or an earlier version accepted them."""
        for (resource_type, resource_name), configs in self._set.items():
            if resource_type == TOPIC_RESOURCE or (resource_type == BROKER_RESOURCE and resource_name in self._owners):
                known = settings_of(resource_type)
                for name, value in configs.items():
                    problem = known[name].problem(value) if name in known else None
                    if problem is not None:
                        yield Unusable(resource_type, resource_name, problem)

    # Replay: the only way in which state changes.

    def of_topic(self, name: str) -> dict[str, str]:
        """The settings of a topic, that its changes go to as well."""
        return self._set.setdefault((TOPIC_RESOURCE, name), {})

    def forget_topic(self, name: str) -> None:
        """The topic is gone, and its settings with it."""
        self._set.pop((TOPIC_RESOURCE, name), None)

    def replay(self, record: ConfigRecord) -> None:
        """Sets or deletes one."""
        configs = self._set.setdefault((record.resource_type, record.resource_name), {})
        if record.resource_type == BROKER_RESOURCE:
            self._of_broker.clear()
        if record.value is None:
            configs.pop(record.name, None)
        else:
            configs[record.name] = record.value


def settings_of(resource_type: int) -> Mapping[str, Setting]:
    """The settings that are known of topics or brokers, by name."""
    return TOPIC_SETTINGS if resource_type == TOPIC_RESOURCE else BROKER_SETTINGS


def _number(value: Value) -> int:
    assert isinstance(value, int)
    return value


def _unknown(resource_type: int, name: str) -> Refused:
    word = "topic" if resource_type == TOPIC_RESOURCE else "broker"
    return Refused(ErrorCode.INVALID_CONFIG, f"Unknown {word} config name: {shown(name)}", unknown=name)


def suggestion(resource_type: int, refused: Refused) -> str:
    """What to add to the message: the known name that is most like the unknown one. It takes 0.3 ms."""
    return "" if refused.unknown is None else did_you_mean(refused.unknown, settings_of(resource_type))
