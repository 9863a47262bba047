"""Parsers of option values, one function per format: flags, whole numbers, times, offsets and partitions as JSON.

Callers pass the option's name for the error message. Formats and their limits are those of Spark's own Kafka source (JsonUtils, and Java's
parsing of numbers and times).
"""

import json
import re
from collections.abc import Mapping
from typing import Final

from ottla.core.model import TopicPartition

_OFFSETS_EXAMPLE: Final = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
_TIMESTAMPS_EXAMPLE: Final = '{"topicA":{"0":123456789,"1":123456789},"topicB":{"0":123456789}}'
_PARTITIONS_EXAMPLE: Final = '{"topicA":[0,1],"topicB":[0,1]}'
_INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
_SHOWN_MAX: Final = 500
_UNITS_US: Final[Mapping[str, int]] = {
    "": 1_000,
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}


class OptionError(ValueError):
    """An invalid option: the message names it, and says what is valid."""


def flag(name: str, text: str) -> bool:
    """true or false, in any case of letters."""
    value = text.strip().lower()
    if value not in ("true", "false"):
        raise OptionError(f'The option "{name}" must be true or false, not {text!r}.')
    return value == "true"


def whole_number(name: str, text: str, low: int, high: int) -> int:
    """A whole number from `low` to `high`, both allowed."""
    value = text.strip()
    if not re.fullmatch(r"[+-]?[0-9]{1,19}", value) or not low <= int(value) <= high:
        raise OptionError(f'The option "{name}" must be a whole number from {low} to {high}, not {text!r}.')
    return int(value)


def positive(name: str, text: str, high: int = LONG_MAX) -> int:
    """A whole number from 1 to `high`."""
    if re.fullmatch(r"\s*([+-]?0+|-[0-9]+)\s*", text):
        raise OptionError(f"{name} must be positive, not {text.strip()}.")
    return whole_number(name, text, 1, high)


def milliseconds(name: str, text: str) -> int:
    """A time in Spark's notation, 500ms, 10s, 15m, 2h, 1d; without a unit it is milliseconds. Less than 1 ms counts as 0."""
    match = re.fullmatch(r"([0-9]{1,18})([a-z]*)", text.strip().lower())
    if match is None or match[2] not in _UNITS_US:
        raise OptionError(f'The option "{name}" must be a time such as 500ms, 10s, 15m, 2h or 1d, not {text!r}.')
    return int(match[1]) * _UNITS_US[match[2]] // 1_000


def partitions(name: str, text: str) -> tuple[TopicPartition, ...]:
    """{"topic":[0,1]} as partitions, sorted."""
    found: set[TopicPartition] = set()
    try:
        for topic, numbers in json.loads(text).items():
            found.update(TopicPartition(topic, _int(number, 0, _INT_MAX)) for number in numbers)
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise OptionError(f'The option "{name}": Expected e.g. {_PARTITIONS_EXAMPLE}, got {text[:_SHOWN_MAX]}') from error
    return tuple(sorted(found))


def offsets(name: str, text: str) -> dict[TopicPartition, int]:
    """{"topic":{"0":23,"1":-2}}: offsets, where -1 is latest and -2 earliest."""
    return _by_partition(name, text, -2, _OFFSETS_EXAMPLE)


def timestamps(name: str, text: str) -> dict[TopicPartition, int]:
    """{"topic":{"0":1700000000000}}: milliseconds since 1970 (-1 and -2 mean latest and earliest here, too)."""
    return _by_partition(name, text, -2, _TIMESTAMPS_EXAMPLE)


def _by_partition(name: str, text: str, low: int, example: str) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    try:
        for topic, values in json.loads(text).items():
            for number, value in values.items():
                found[TopicPartition(topic, _partition_number(number))] = _int(value, low, LONG_MAX)
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise OptionError(f'The option "{name}": Expected e.g. {example}, got {text[:_SHOWN_MAX]}') from error
    return found


def _partition_number(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,10}", text) or int(text) > _INT_MAX:
        raise ValueError(f"{text!r} is no partition")
    return int(text)


def _int(value: object, low: int, high: int) -> int:
    if type(value) is not int or not low <= value <= high:
        raise ValueError(f"{value!r} is out of range")
    return value
