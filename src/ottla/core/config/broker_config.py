"""The broker's own settings as one checked value: what was given, and Kafka's defaults for the rest."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from ottla.core.config.broker_settings import BROKER_SETTINGS, OTHER_UNITS
from ottla.core.config.connection_overrides import connection_overrides
from ottla.core.config.topic_settings import TOPIC_SETTINGS

_CLEANER_TABLE_BYTES_MIN = 1024 * 1024


class ConfigError(ValueError):
    """A setting with an unknown name or an impossible value: the message says which, and what would do."""


OTHER_GROUP_PROTOCOLS = ("group.consumer.", "group.share.", "group.streams.", "group.coordinator.rebalance.protocols")
"""Settings of Kafka's that would promise what is not there."""


def _unknown(name: str) -> str:
    if name in TOPIC_SETTINGS:
        return f"{name} is a setting of topics; the broker's default for all of them is {TOPIC_SETTINGS[name].broker_name}"
    if name.startswith(OTHER_GROUP_PROTOCOLS):
        return f"{name} is about group protocols; this broker has Kafka's classic one and no other (`ottla docs groups`)"
    return f"unknown setting {name}; `ottla docs settings` lists them"


@dataclass(frozen=True)
class BrokerConfig:
    """The broker's own settings, checked: what `--config k=v` gave, and Kafka's defaults for the rest."""

    given: Mapping[str, str]

    def __post_init__(self) -> None:
        for name, value in self.given.items():
            setting = BROKER_SETTINGS.get(name)
            if setting is None:
                raise ConfigError(_unknown(name))
            problem = setting.problem(value)
            if problem is not None:
                raise ConfigError(problem)
        if self.number("log.cleaner.dedupe.buffer.size") // self.number("log.cleaner.threads") <= _CLEANER_TABLE_BYTES_MIN:
            # Kafka's sentence, and Kafka's check, which wants a byte more than the sentence.
            raise ConfigError(
                "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread."
                f" {_CLEANER_TABLE_BYTES_MIN + 1} bytes for each will do."
            )
        self._check_connections()

    def _check_connections(self) -> None:
        try:
            overrides = connection_overrides(self.text("max.connections.per.ip.overrides"))
        except ValueError as error:
            raise ConfigError(str(error)) from error
        if self.number("max.connections.per.ip") == 0 and not overrides:
            raise ConfigError("max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set.")
        if 0 < self.number("queued.max.request.bytes") < self.number("socket.request.max.bytes"):
            raise ConfigError("queued.max.request.bytes must be larger or equal to socket.request.max.bytes")

    def text(self, name: str) -> str:
        """The value of a setting as it is written, or as a setting in another unit gives it; "" when it has none."""
        if name not in self.given:
            for other, factor in OTHER_UNITS.get(name, ()):
                if self.text(other):
                    value = self.number(other)
                    return str(value * factor if value >= 0 else -1)
        return self.given.get(name, BROKER_SETTINGS[name].default)

    def number(self, name: str) -> int:
        """The value of a whole-number setting, in the unit of its name."""
        return int(self.text(name))

    def share(self, name: str) -> float:
        """The value of a setting that is no whole number."""
        return float(self.text(name))

    def flag(self, name: str) -> bool:
        """The value of a true/false setting."""
        return self.text(name).strip().lower() == "true"

    @cached_property
    def node_id(self) -> int:
        """The broker's number."""
        return self.number("node.id")
