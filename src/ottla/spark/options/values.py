"""Values of options, the names that Spark passes in lower case, and the settings with the prefix `kafka.`.

There is a parser for each format (flags, whole numbers, times, offsets and partitions as JSON), which names the option in its error
message. Formats and limits are those of Spark's own Kafka source (JsonUtils, and Java's parsing of numbers and times). Spark passes options
to a Python source by lower-case names only: how a name was written is not known. Settings of the client go to its own parser, without those
that Spark's own Kafka source refuses.
"""

import json
import logging
import re
from collections.abc import Iterable, Mapping
from typing import Final

from ottla.client.settings import ClientSettings, parse_client_settings
from ottla.config.client_properties import OWN
from ottla.protocol.model import TopicPartition
from ottla.text import did_you_mean


def unknown_option(name: str, known: Iterable[str], properties: Iterable[str], *, where: str = "") -> str:
    """The message for an unknown option, `name` as given. `known`: all options; `properties`: those of the Kafka client.

    `where` says for what it is unknown, such as " for writing".
    """
    start = f'The option "{name}" is not supported{where}'
    options, kafka = tuple(known), tuple(properties)
    if name.lower() in kafka:
        return f'{start}: it is a property of the Kafka client, write "kafka.{name}".'
    meant = did_you_mean(name, options) or did_you_mean(f"kafka.{name.lower().removeprefix('kafka.')}", [f"kafka.{each}" for each in kafka])
    return f"{start}{meant}" if meant else f"{start}; the options are {', '.join(options)} and kafka.*: leave it out."


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


PREFIX: Final = "kafka."
CLIENT_ID: Final = "ottla-spark"
GROUP_ID: Final = "kafka.group.id"

API_TIMEOUT: Final = "kafka.default.api.timeout.ms"
BOOTSTRAP_TIMEOUT_MS: Final = 5_000
"""How long a query tries to reach a first broker, unless default.api.timeout.ms is set: the addresses are probably wrong."""

_REFUSED: Final[Mapping[str, str]] = {
    "kafka.key.deserializer": "Kafka option 'key.deserializer' is not supported: keys come as binary. Cast or decode the column.",
    "kafka.value.deserializer": "Kafka option 'value.deserializer' is not supported: values come as binary. Cast or decode the column.",
    "kafka.enable.auto.commit": "Kafka option 'enable.auto.commit' is not supported",
    "kafka.interceptor.classes": "Kafka option 'interceptor.classes' is not supported",
}
_NOT_FOR_THE_CLIENT: Final = frozenset({GROUP_ID, "kafka.auto.offset.reset"})
"""Read by `positions`: they set where a query starts."""
_OF_A_MEMBER: Final = frozenset({PREFIX + name for name in OWN})
"""Read by `group_mode`."""

_OF_MEMBERS: Final = "it is for members of a group, and no group is joined here"
_WITHOUT_EFFECT: Final[Mapping[str, str]] = {
    "kafka.session.timeout.ms": _OF_MEMBERS,
    "kafka.heartbeat.interval.ms": _OF_MEMBERS,
    "kafka.max.poll.interval.ms": _OF_MEMBERS,
    "kafka.max.poll.records": "records come as whole responses, bounded by kafka.max.partition.fetch.bytes",
}
"""Settings without effect on rows in Spark's own source either: accepted with a warning, so that its queries can be moved here."""

_GROUP_WARNING: Final = (
    'Kafka option "kafka.group.id" is set on this query. Here it joins no group and commits nothing, so that queries with one id do not get'
    " in each other's way; it only names the group of startingOffsets=group. To commit the query's progress, set the option \"group.id\"."
)

_MEMBER_WARNING: Final = (
    'Kafka option "kafka.group.id" has no effect: the option "group.id" names the group of which the query is a member.'
)

log = logging.getLogger(__name__)


def parse_kafka_options(options: Mapping[str, str], *, is_member: bool = False) -> ClientSettings:
    """The client's settings from a query's options (by lower-case names); other options are ignored. Raises OptionError.

    `is_member`: the query is a member of its group, whose own settings are among the options.
    """
    for name, message in _REFUSED.items():
        if name in options:
            raise OptionError(message)
    if not options.get("kafka.bootstrap.servers", "").strip():
        raise OptionError("Option 'kafka.bootstrap.servers' must be specified: the addresses of brokers, host:port,host:port.")
    others = _OF_A_MEMBER if is_member else _NOT_FOR_THE_CLIENT | _WITHOUT_EFFECT.keys()
    properties = {name.removeprefix(PREFIX): value for name, value in options.items() if name.startswith(PREFIX) and name not in others}
    try:
        return parse_client_settings({"client.id": CLIENT_ID, **properties})
    except ValueError as error:
        raise OptionError(f"Kafka option {error}.") from error


def bootstrap_timeout_ms(options: Mapping[str, str], client: ClientSettings) -> int:
    """How long to try to reach a first broker. `options`: those of which `client` was made."""
    return client.default_api_timeout_ms if API_TIMEOUT in options else BOOTSTRAP_TIMEOUT_MS


def warn_of_no_effect(options: Mapping[str, str], *, is_member: bool = False) -> None:
    """Log a warning for each option without effect, with the reason. `is_member`: the query is a member of its group."""
    for name, why in _WITHOUT_EFFECT.items():
        if name in options and not (is_member and why is _OF_MEMBERS):
            log.warning('Kafka option "%s" has no effect: %s.', name, why)
    if GROUP_ID in options:
        log.warning(_MEMBER_WARNING if is_member else _GROUP_WARNING)
    if "groupidprefix" in options:
        because = "as option kafka.group.id has been set" if GROUP_ID in options else "as no group is joined here"
        log.warning("Option groupIdPrefix will be ignored %s.", because)
