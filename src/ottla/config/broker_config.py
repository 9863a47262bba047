"""The broker's own settings as one checked value: what was given, and Kafka's defaults for the rest."""

from collections.abc import Mapping
from functools import cached_property

from ottla.config.broker_settings import BROKER_SETTINGS, OTHER_UNITS
from ottla.config.consistency import consistency_problem
from ottla.config.kafka_settings import KAFKA_BROKER_SETTINGS
from ottla.config.security_settings import LISTENER_SETTINGS, ListenerSettings, is_of_listener, listener_setting
from ottla.config.setting import INT_MAX, ConfigError, Value, shown
from ottla.config.topic_settings import TOPIC_SETTINGS
from ottla.config.value_grammar import double_text
from ottla.text import did_you_mean

GivenValue = str | int | float
"""What a caller may write in Python: text, a number, True or False."""

OTHER_GROUP_PROTOCOLS = ("group.share.", "group.streams.")
"""Kafka's settings of group protocols that are not served here."""

_ADDRESS = "the address is given with listeners, or with --listen HOST:PORT, in Python with Broker(listen=...)"
_NEVER_EMPTY = ("listeners", "advertised.listeners", "inter.broker.listener.name")
_DIRECTORY = "the data directory is given with --data DIR, in Python with Broker(DIR)"
_QUORUM = "this broker has neither ZooKeeper nor a controller quorum: leave it out"
ELSEWHERE = {
    "host.name": _ADDRESS,
    "port": _ADDRESS,
    "log.dir": _DIRECTORY,
    "log.dirs": _DIRECTORY,
    "broker.id": "write node.id, its name since Kafka 4",
    "controller.listener.names": _QUORUM,
    "controller.quorum.bootstrap.servers": _QUORUM,
    "controller.quorum.voters": _QUORUM,
    "process.roles": _QUORUM,
    "zookeeper.connect": _QUORUM,
}
"""Kafka's settings that nearly every server.properties has, and what to do with them here."""


def value_text(name: str, value: object) -> str:
    """A value from Python as Kafka writes it. Raises ConfigError for what is neither text nor number nor True nor False."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        return double_text(value)
    if isinstance(value, str):
        return str(value)
    hint = "leave it out for its default" if value is None else "write text, a number, True or False; the items of a list with commas"
    raise ConfigError(f"Invalid value of type {type(value).__name__} for configuration {name}: {hint}")


class BrokerConfig:
    """The settings of `--config k=v` or Python's `config`, checked for `brokers` brokers in the process; Kafka's defaults for the rest.

    Raises ConfigError when a name is unknown, a value is invalid, or values contradict each other.
    """

    def __init__(self, given: Mapping[str, GivenValue] | None = None, *, brokers: int = 1) -> None:
        if not isinstance(given or {}, Mapping):
            raise ConfigError(f"settings are names and values, for example {{'num.partitions': 3}}, not a {type(given).__name__}")
        self.given: Mapping[str, str] = {name: _checked(name, value) for name, value in (given or {}).items()}
        self._values: dict[str, Value] = {}
        problem = consistency_problem(self.text) or self._count_problem(brokers)
        if problem is not None:
            raise ConfigError(problem)

    def _count_problem(self, brokers: int) -> str | None:
        replicas, last_id = self.number("default.replication.factor"), self.node_id + brokers - 1
        if replicas > brokers:
            return (
                f"default.replication.factor ({replicas}) > the number of brokers ({brokers}): no topic could be created with it;"
                f" lower it to {brokers}, or run more brokers (--brokers, Cluster)"
            )
        if last_id > INT_MAX:
            return f"node.id ({self.node_id}) is too high for {brokers} brokers: the last one's id would be more than {INT_MAX}"
        return None

    def text(self, name: str) -> str:
        """The value of a setting as text, its own or that of a setting in another unit; "" when it has none."""
        if name not in self.given:
            for other, factor in OTHER_UNITS.get(name, ()):
                if self.text(other):
                    value = self.number(other)
                    return str(value * factor if value >= 0 else -1)
        return self.given.get(name, BROKER_SETTINGS[name].default)

    def number(self, name: str) -> int:
        """The value of a whole-number setting, in the unit of its name."""
        value = self._value(name)
        assert isinstance(value, int)
        return value

    def share(self, name: str) -> float:
        """The value of a setting that is a number with a fraction."""
        value = self._value(name)
        assert isinstance(value, float)
        return value

    def items(self, name: str) -> tuple[str, ...]:
        """The items of a setting that is a list."""
        value = self._value(name)
        assert isinstance(value, tuple)
        return value

    def flag(self, name: str) -> bool:
        """The value of a true/false setting."""
        value = self._value(name)
        assert isinstance(value, bool)
        return value

    def _value(self, name: str) -> Value:
        value = self._values.get(name)
        if value is None:
            value = self._values[name] = BROKER_SETTINGS[name].parse(self.text(name))
        return value

    def of_listener(self, listener: str) -> ListenerSettings:
        """The settings in force on one listener."""
        return ListenerSettings(listener, self.given.get)

    @cached_property
    def node_id(self) -> int:
        """The broker's number."""
        return self.number("node.id")


def _checked(name: str, value: object) -> str:
    setting = BROKER_SETTINGS.get(name) or listener_setting(str(name))
    if setting is None:
        raise ConfigError(_unknown(str(name)))
    text = value_text(name, value)
    if name in _NEVER_EMPTY and not text.strip():
        raise ConfigError(f"Configuration '{name}' must not be empty: leave it out for its default")
    setting.parse(text)
    return text


def _unknown(name: str) -> str:
    if is_of_listener(name):
        return f"{shown(name)} is not a setting of a listener here: those are {', '.join(LISTENER_SETTINGS)}"
    if name in ELSEWHERE:
        return f"{name} is not a setting here: {ELSEWHERE[name]}"
    if name in TOPIC_SETTINGS:
        return f"{name} is a setting of topics; the broker's default for all of them is {TOPIC_SETTINGS[name].broker_name}"
    if name.startswith(OTHER_GROUP_PROTOCOLS):
        return f"{name} is about a group protocol that this broker does not have: it has classic and consumer groups (`ottla docs groups`)"
    if name in KAFKA_BROKER_SETTINGS:
        return f"{name} is a setting of Apache Kafka that this broker does not act on; `ottla docs settings` lists those that it has"
    return f"unknown setting {shown(name)}{did_you_mean(name, BROKER_SETTINGS) or ';'} `ottla docs settings` lists them"
