"""One setting: its name, type, default and meaning, and its valid values, with Kafka's messages."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from ottla.config.value_grammar import double_text, parse_boolean, parse_double, parse_list, parse_whole, trim
from ottla.text import printable

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

Value = bool | int | float | str | tuple[str, ...]
"""A value after parsing."""


class ConfigError(ValueError):
    """A setting with an unknown name or an invalid value: the message says which, and what is valid."""


class ConfigType(IntEnum):
    """Types as DescribeConfigs v3+ names them."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ConfigSource(IntEnum):
    """Where a value comes from, as DescribeConfigs v1+ encodes it."""

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    GROUP = 8


_BITS: Final = {ConfigType.SHORT: 16, ConfigType.INT: 32, ConfigType.LONG: 64}
_SHOWN_MAX: Final = 500


def shown(value: str) -> str:
    """A value for a message: on one line, and shortened when it is very long."""
    line = printable(value[:_SHOWN_MAX])
    return line if len(value) <= _SHOWN_MAX else f"{line}... ({len(value)} characters)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting: `low`/`high` bound a number, which may be `also` instead; `choices` a string or the items of a list
    (`ignores_case`: in any case).

    A `default` of "" means none (Kafka's null). An `is_internal` setting can be given but is not described, as in Kafka. `because` is the
    reason for a bound that is narrower than Kafka's.
    """

    name: str
    type: ConfigType
    default: str
    doc: str
    low: float | None = None
    high: float | None = None
    also: float | None = None
    choices: tuple[str, ...] = ()
    ignores_case: bool = False
    broker_name: str | None = None
    is_internal: bool = False
    because: str = ""

    def problem(self, value: str | None) -> str | None:
        """Why `value` is invalid, as a sentence for the user; None when it is valid."""
        if value is None:
            return f"Invalid value null for configuration {self.name}: a value is needed."
        try:
            self.parse(value)
        except ConfigError as error:
            return str(error)
        return None

    def parse(self, text: str) -> Value:
        """The value of a text. Raises ConfigError with Kafka's message when it is invalid."""
        match self.type:
            case ConfigType.BOOLEAN:
                return self._boolean(text)
            case ConfigType.STRING | ConfigType.PASSWORD | ConfigType.CLASS:
                return self._chosen(trim(text))
            case ConfigType.LIST:
                return self._list(text)
            case ConfigType.DOUBLE:
                return self._double(text)
            case _:
                return self._whole(text)

    def plain(self, text: str) -> str:
        """The same value as Kafka shows it, "5" for " +5 "; an invalid one as it is."""
        try:
            value = self.parse(text)
        except ConfigError:
            return text
        if isinstance(value, bool):
            return str(value).lower()
        return double_text(value) if isinstance(value, float) else ",".join(value) if isinstance(value, tuple) else str(value)

    @property
    def valid(self) -> str:
        """The valid values, as Kafka's documentation writes them; "" when all of the type are valid."""
        if self.choices:
            return f"[{'(case insensitive) ' if self.ignores_case else ''}{', '.join(self.choices)}]"
        if self.low is None and self.high is None:
            return ""
        low, high = ("..." if bound is None else f"{bound:.15g}" for bound in (self.low, self.high))
        either = "" if self.also is None else f" or {self.also:.15g}"
        return f"[{low},{high}]{either}" if "..." in (low, high) else f"[{low},...,{high}]{either}"

    def _boolean(self, text: str) -> bool:
        try:
            return parse_boolean(text)
        except ValueError as error:
            raise self._refusal(text, "Expected value to be either true or false") from error

    def _whole(self, text: str) -> int:
        try:
            number = parse_whole(text, bits=_BITS[self.type])
        except ValueError as error:
            raise self._refusal(text, f"Not a number of type {self.type.name}") from error
        self._check_range(number, str(number))
        return number

    def _double(self, text: str) -> float:
        try:
            number = parse_double(text)
        except ValueError as error:
            raise self._refusal(text, f"Not a number of type {self.type.name}") from error
        if number != number:
            raise self._refusal("NaN", "Value must be a number, not NaN")
        self._check_range(number, double_text(number))
        return number

    def _check_range(self, number: float, written: str) -> None:
        if self.also is not None:
            if number != self.also and not (self.low or number) <= number <= (self.high or number):
                raise self._refusal(written, f"Value must be between {self.low} and {self.high} or equal to {self.also}")
        elif self.low is not None and number < self.low:
            raise self._refusal(written, f"Value must be at least {self.low:.15g}{self.because}")
        elif self.high is not None and number > self.high:
            raise self._refusal(written, f"Value must be no more than {self.high:.15g}{self.because}")

    def _list(self, text: str) -> tuple[str, ...]:
        items = tuple(dict.fromkeys(parse_list(text)))
        for item in items:
            if not item:
                raise ConfigError(f"Configuration '{self.name}' values must not be empty.")
            self._chosen(item)
        return items

    def _chosen(self, text: str) -> str:
        if self.choices and text not in self.choices and not (self.ignores_case and text.upper() in map(str.upper, self.choices)):
            either = " (case insensitive)" if self.ignores_case else ""
            raise self._refusal(text, f"String must be one of{either}: {', '.join(self.choices)}")
        return text

    def _refusal(self, value: str, why: str) -> ConfigError:
        return ConfigError(f"Invalid value {shown(value)} for configuration {self.name}: {why}")


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
    because: str = "",
) -> Setting:
    """A setting that is a number; a `default` of None means none."""
    return Setting(
        name=name,
        type=kind,
        default="" if default is None else str(default),
        doc=doc,
        low=low,
        high=high,
        also=also,
        broker_name=broker,
        is_internal=is_internal,
        because=because,
    )
