"""What a row of the table of client properties says: names, values, defaults, and which client does what with the property.

The table is `client_properties`. Nothing here knows a property by its name.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, Protocol

from ottla.config.value_grammar import parse_boolean, parse_double, parse_whole

Value = bool | int | float | str
"""A value after parsing."""


class Client(Enum):
    """Who takes properties. RANGES reads ranges of offsets and asks brokers, in no group: Spark's source, the administrator, commands."""

    RANGES = auto()
    CONSUMER = auto()
    PRODUCER = auto()


class Kind(Protocol):
    """The values that a property may have."""

    def parse(self, text: str) -> Value:
        """The value of a text. Raises ValueError with the rest of a sentence that begins with the property's name."""
        ...


@dataclass(frozen=True, slots=True)
class Number:
    """A whole number from `low` to `high`, both allowed."""

    low: int
    high: int

    def parse(self, text: str) -> int:
        try:
            number = parse_whole(text, bits=64)
        except ValueError:
            number = None
        if number is None or not self.low <= number <= self.high:
            raise ValueError(f"must be a whole number from {self.low} to {self.high}, not {text!r}")
        return number


@dataclass(frozen=True, slots=True)
class Fraction:
    """A number from `low` to `high`, both allowed."""

    low: int
    high: int

    def parse(self, text: str) -> float:
        try:
            number = parse_double(text)
        except ValueError:
            number = float("nan")
        if not self.low <= number <= self.high:
            raise ValueError(f"must be a number from {self.low} to {self.high}, not {text!r}")
        return number


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few words, in any case of letters unless `is_exact`."""

    words: tuple[str, ...]
    is_exact: bool = False

    def parse(self, text: str) -> str:
        word = text.strip()
        for choice in self.words:
            if word == choice or (not self.is_exact and word.lower() == choice.lower()):
                return choice
        choices = " or ".join(self.words) if len(self.words) == 2 else f"one of {', '.join(self.words)}"
        raise ValueError(f"must be {choices}, not {text!r}")


@dataclass(frozen=True, slots=True)
class Flag:
    """True or false."""

    def parse(self, text: str) -> bool:
        try:
            return parse_boolean(text)
        except ValueError:
            raise ValueError(f"must be true or false, not {text!r}") from None


@dataclass(frozen=True, slots=True)
class Text:
    """Any text that the protocol can have; what it means is checked where it is read."""

    def parse(self, text: str) -> str:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"must be text in UTF-8, not {text!r}") from error
        return text


INT_MAX: Final = 2**31 - 1
INT: Final = Number(0, INT_MAX)
LONG: Final = Number(0, 2**63 - 1)
POSITIVE: Final = Number(1, INT_MAX)
FLAG, TEXT = Flag(), Text()
OBJECT: Final = None
"""The kind of a value that no text stands for, and of one that is not read."""
_LIBRDKAFKA_FLAGS: Final[Mapping[str, str]] = {"1": "true", "t": "true", "0": "false", "f": "false"}


class Effect(Enum):
    """What a client does with a property that it knows."""

    APPLIED = auto()
    FIXED = auto()
    """Only one value is allowed: what the client always does."""
    IGNORED = auto()
    """It is checked and changes nothing: nothing that a program relies on depends on it."""
    REFUSED = auto()


@dataclass(frozen=True, slots=True)
class Support:
    """`why` says why a property is not applied, and what to do; `kind`: other values than the row's.

    `only`: the value of a fixed property, or that of an ignored one which says what the client does anyway.
    """

    effect: Effect
    why: str = ""
    kind: Kind | None = None
    only: str = ""


APPLIED: Final = Support(Effect.APPLIED)


def within(low: int, high: int) -> Support:
    """A number with bounds of this client's own."""
    return Support(Effect.APPLIED, kind=Number(low, high))


def only(value: str, why: str) -> Support:
    """The one value that is allowed."""
    return Support(Effect.FIXED, why, only=value)


def ignored(why: str, only: str = "", kind: Kind | None = None) -> Support:
    """A property without effect, of which a warning is not needed with the value `only`."""
    return Support(Effect.IGNORED, why, kind, only)


def refused(why: str) -> Support:
    """A property that is not supported."""
    return Support(Effect.REFUSED, why)


@dataclass(frozen=True, slots=True)
class ClientProperty:
    """A row. `name` is Kafka's, or librdkafka's where Kafka has none; `default` is Kafka's.

    `librdkafka` is the name there where that differs (its value times `unit` is Kafka's), `also` are further names there, and
    `librdkafka_values` values that Kafka writes otherwise. `defaults`: where a client here has another default than Kafka, None for none.
    `aiokafka`: the argument's default, as a tuple of one; its name is Kafka's with "_" for ".".
    """

    name: str
    kind: Kind | None
    default: Value | None
    support: Mapping[Client, Support]
    librdkafka: str = ""
    unit: int = 1
    also: tuple[str, ...] = ()
    librdkafka_values: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[Client, Value | None] = field(default_factory=dict)
    aiokafka: tuple[object] | None = None

    def default_of(self, client: Client) -> Value | None:
        """What `client` uses where nothing is given."""
        return self.defaults.get(client, self.default)

    def parse(self, value: object, client: Client) -> object:
        """A value, from text or from what stands for it in Python. Raises ValueError as `Kind.parse` does."""
        support = self.support[client]
        kind = support.kind or self.kind
        if kind is None:
            return value
        text = self._text(value, client)
        if support.effect is Effect.FIXED and text.strip().lower() != support.only:
            raise ValueError(f"can only be {support.only}: {support.why}")
        return kind.parse(text)

    def is_default(self, value: object, client: Client) -> bool:
        """Whether a value asks for what the client does anyway."""
        return self._text(value, client).strip().lower() == self.support[client].only

    def _text(self, value: object, client: Client) -> str:
        """The text that stands for a value, in Kafka's grammar where a consumer was given librdkafka's."""
        text = as_text(value)
        if client is Client.CONSUMER:
            text = self.librdkafka_values.get(text.strip(), text)
            if isinstance(self.support[client].kind or self.kind, Flag):
                text = _LIBRDKAFKA_FLAGS.get(text.strip().lower(), text)
        return text


def as_text(value: object) -> str:
    """A value of Python as it is written in a file of properties."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).lower() if isinstance(value, bool) else str(value)
