"""One setting: its name, type, default and meaning, and what its value may be. It checks values; it never acts on them."""

from dataclasses import dataclass
from enum import IntEnum
from math import isnan

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1


class ConfigType(IntEnum):
    """Types as DescribeConfigs v3+ names them."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7


class ConfigSource(IntEnum):
    """Where a value comes from, as DescribeConfigs v1+ says it."""

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting: `low`/`high` bound a number, which may be `also` instead; `choices` a string or the items of a list.

    A `default` of "" is none at all (Kafka's null). An `is_internal` setting can be given but is not described, as in Kafka.
    """

    name: str
    type: ConfigType
    default: str
    doc: str
    low: float | None = None
    high: float | None = None
    also: float | None = None
    choices: tuple[str, ...] = ()
    broker_name: str | None = None
    is_internal: bool = False

    def problem(self, value: str | None) -> str | None:
        """Why `value` cannot be, as a sentence for the person who set it; None when it can."""
        if value is None:
            return f"Invalid value null for configuration {self.name}: a value is needed."
        text = value.strip()
        if self.type is ConfigType.BOOLEAN:
            return None if text.lower() in ("true", "false") else self._refuse(value, "Expected value to be either true or false")
        if self.type in (ConfigType.INT, ConfigType.SHORT, ConfigType.LONG, ConfigType.DOUBLE):
            return self._number_problem(value)
        items = [item.strip() for item in text.split(",")] if self.type is ConfigType.LIST and text else [text]
        if self.choices and any(item not in self.choices for item in items if item):
            return self._refuse(value, f"String must be one of: {', '.join(self.choices)}")
        return None

    def _number_problem(self, value: str) -> str | None:
        try:
            number: float = float(value) if self.type is ConfigType.DOUBLE else int(value.strip())
        except ValueError:
            return self._refuse(value, f"Not a number of type {self.type.name}")
        width = {ConfigType.INT: 31, ConfigType.SHORT: 15}.get(self.type, 63)
        if isnan(number) if self.type is ConfigType.DOUBLE else not -(2**width) <= number < 2**width:
            return self._refuse(value, f"Not a number of type {self.type.name}")
        if self.also is not None and number == self.also:
            return None
        either = "" if self.also is None else f" or equal to {self.also:g}"
        if self.low is not None and number < self.low:
            return self._refuse(value, f"Value must be at least {self.low:.15g}{either}")
        if self.high is not None and number > self.high:
            return self._refuse(value, f"Value must be no more than {self.high:.15g}{either}")
        return None

    def _refuse(self, value: str, why: str) -> str:
        return f"Invalid value {value} for configuration {self.name}: {why}"


def flag_setting(name: str, default: bool, doc: str, broker: str | None = None) -> Setting:
    """A setting that is true or false."""
    return Setting(name=name, type=ConfigType.BOOLEAN, default=str(default).lower(), doc=doc, broker_name=broker)


def number_setting(
    kind: ConfigType,
    name: str,
    default: float | str | None,
    doc: str,
    low: float | None = None,
    broker: str | None = None,
    high: float | None = None,
    *,
    also: float | None = None,
    is_internal: bool = False,
) -> Setting:
    """A setting that is a number; a `default` of None is none at all."""
    text = "" if default is None else str(default)
    return Setting(name=name, type=kind, default=text, doc=doc, low=low, high=high, also=also, broker_name=broker, is_internal=is_internal)
