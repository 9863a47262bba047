"""The options of `spark.read.format("ottla")`: names and meanings of Spark's own Kafka source, checked before a broker is asked.

An option that is unknown, refused or not supported yet is an error that says what to do; nothing is silently ignored. It opens no
connection.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ottla.consumer.cluster import EARLIEST, LATEST, parse_addresses
from ottla.core.model import TopicPartition

Offsets = int | Mapping[TopicPartition, int]
"""EARLIEST or LATEST for all partitions, or an offset for each, where -2 is earliest and -1 latest."""

SUPPORTED: Final = (
    "kafka.bootstrap.servers",
    "subscribe",
    "startingOffsets",
    "endingOffsets",
    "includeHeaders",
    "failOnDataLoss",
    "kafka.client.id",
    "kafka.request.timeout.ms",
    "kafka.fetch.max.wait.ms",
    "kafka.max.partition.fetch.bytes",
    "kafka.isolation.level",
    "kafka.security.protocol",
)

_REFUSED: Final[Mapping[str, str]] = {
    "path": 'load() takes no path here: name topics with the option "subscribe".',
    "assign": 'The option "assign" is not supported yet: use "subscribe", and give "startingOffsets" and "endingOffsets" per partition.',
    "subscribepattern": 'The option "subscribePattern" is not supported yet: list the topics in "subscribe".',
    "kafka.auto.offset.reset": 'The Kafka option "auto.offset.reset" is not supported: use the option "startingOffsets".',
    "kafka.enable.auto.commit": 'The Kafka option "enable.auto.commit" is not supported: a batch query commits no offsets.',
    "kafka.group.id": 'The Kafka option "group.id" is not supported: a batch query reads without a group.',
    "kafka.interceptor.classes": 'The Kafka option "interceptor.classes" is not supported: there are no Java classes here.',
    "kafka.key.deserializer": 'The Kafka option "key.deserializer" is not supported: keys come as binary; cast or parse the column.',
    "kafka.value.deserializer": 'The Kafka option "value.deserializer" is not supported: values come as binary; cast or parse the column.',
}

_JSON_EXAMPLE: Final = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
_BYTES_MAX: Final = 64 * 1024 * 1024
_MS_MAX: Final = 10 * 60 * 1000


class OptionError(ValueError):
    """An option that cannot be: the message says which, and what would do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """What was asked for, checked. Sizes and times are Kafka's settings of the same names."""

    bootstrap_servers: str
    topics: tuple[str, ...]
    starting: Offsets
    ending: Offsets
    include_headers: bool
    fail_on_data_loss: bool
    client_id: str
    request_timeout_ms: int
    fetch_max_wait_ms: int
    partition_fetch_bytes_max: int


def parse_options(given: Mapping[str, str]) -> SourceOptions:
    """Options by name, in any case of letters, to checked values. Raises OptionError."""
    options = {name.lower(): value for name, value in given.items()}
    _refuse_others(options)
    servers = _required(options, "kafka.bootstrap.servers")
    try:
        parse_addresses(servers)
    except ValueError as error:
        raise OptionError(f'The option "kafka.bootstrap.servers" is wrong: {error}.') from error
    topics = tuple(dict.fromkeys(name for name in (part.strip() for part in _required(options, "subscribe").split(",")) if name))
    if not topics:
        raise OptionError('The option "subscribe" names no topic.')
    starting = _offsets(options, "startingOffsets", EARLIEST)
    ending = _offsets(options, "endingOffsets", LATEST)
    _refuse_limits(starting, LATEST, "starting offset", "latest")
    _refuse_limits(ending, EARLIEST, "ending offset", "earliest")
    return SourceOptions(
        bootstrap_servers=servers,
        topics=topics,
        starting=starting,
        ending=ending,
        include_headers=_flag(options, "includeHeaders", False),
        fail_on_data_loss=_flag(options, "failOnDataLoss", True),
        client_id=options.get("kafka.client.id", "ottla-spark"),
        request_timeout_ms=_number(options, "kafka.request.timeout.ms", 30_000, 1, _MS_MAX),
        fetch_max_wait_ms=_number(options, "kafka.fetch.max.wait.ms", 500, 0, _MS_MAX),
        # Kafka's default is 1 MiB, to share one answer among many partitions; here an answer is one partition's.
        partition_fetch_bytes_max=_number(options, "kafka.max.partition.fetch.bytes", 4 * 1024 * 1024, 1, _BYTES_MAX),
    )


def _refuse_others(options: Mapping[str, str]) -> None:
    supported = {name.lower() for name in SUPPORTED}
    for name in options:
        if name in _REFUSED:
            raise OptionError(_REFUSED[name])
        if name not in supported:
            raise OptionError(f'The option "{name}" is not supported; the options are {", ".join(SUPPORTED)}.')
    if options.get("kafka.isolation.level", "read_uncommitted") != "read_uncommitted":
        raise OptionError('The Kafka option "isolation.level" can only be read_uncommitted so far.')
    if options.get("kafka.security.protocol", "PLAINTEXT").upper() != "PLAINTEXT":
        raise OptionError('The Kafka option "security.protocol" can only be PLAINTEXT so far.')


def _required(options: Mapping[str, str], name: str) -> str:
    value = options.get(name.lower(), "").strip()
    if not value:
        raise OptionError(f'The option "{name}" is needed.')
    return value


def _flag(options: Mapping[str, str], name: str, default: bool) -> bool:
    value = options.get(name.lower(), str(default)).strip().lower()
    if value not in ("true", "false"):
        raise OptionError(f'The option "{name}" must be true or false, not {value!r}.')
    return value == "true"


def _number(options: Mapping[str, str], name: str, default: int, low: int, high: int) -> int:
    text = options.get(name, str(default)).strip()
    if not (text.isascii() and text.isdigit() and low <= int(text) <= high):
        raise OptionError(f'The option "{name}" must be a whole number from {low} to {high}, not {text!r}.')
    return int(text)


def _offsets(options: Mapping[str, str], name: str, default: int) -> Offsets:
    text = options.get(name.lower())
    if text is None:
        return default
    word = text.strip().lower()
    if word in ("earliest", "latest"):
        return EARLIEST if word == "earliest" else LATEST
    try:
        return _parse_json(text)
    except (ValueError, TypeError, AttributeError) as error:
        raise OptionError(f'The option "{name}" must be earliest, latest or JSON such as {_JSON_EXAMPLE}, not {text}.') from error


def _parse_json(text: str) -> dict[TopicPartition, int]:
    offsets: dict[TopicPartition, int] = {}
    for topic, partitions in json.loads(text).items():
        for partition, offset in partitions.items():
            if type(offset) is not int or not EARLIEST <= offset < 2**63:
                raise ValueError(f"{offset!r} is no offset")
            offsets[TopicPartition(topic, int(partition))] = offset
    return offsets


def _refuse_limits(offsets: Offsets, limit: int, what: str, word: str) -> None:
    """A batch cannot start where the topic ends, nor end where it starts: the words of Spark's own source."""
    if isinstance(offsets, int):
        if offsets == limit:
            raise OptionError(f"{what} can't be {word} for batch queries on Kafka")
        return
    for partition, offset in offsets.items():
        if offset == limit:
            raise OptionError(f"{what} for {partition.topic}-{partition.partition} can't be {word} for batch queries on Kafka")
