"""The options of `format("ottla")` as a source: names and meanings of Spark's own Kafka source, checked before a broker is asked.

An option that is unknown or refused is an error that says what to do; no option is silently ignored. Of several options for one end of the
query, Spark's own Kafka source takes startingTimestamp before startingOffsetsByTimestamp before startingOffsets, and so does this source;
`offset_reader` resolves positions to offsets. `ottla.group.mode` says whether a streaming query commits to its group or is a member of it.
A member's options are those of Kafka's consumer, with "kafka." before their names; where it starts is the group's business. No connection
is opened here. The formats of values are in values.py, topics in subscription.py.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from ottla.client.settings import ClientSettings
from ottla.config.client_properties import property_names
from ottla.config.client_property import Client
from ottla.protocol.model import TopicPartition
from ottla.spark.options.subscription import Assign, Subscribe, Subscription, compile_pattern, parse_subscription
from ottla.spark.options.values import (
    CLIENT_ID,
    GROUP_ID,
    LONG_MAX,
    PREFIX,
    OptionError,
    bootstrap_timeout_ms,
    flag,
    milliseconds,
    offsets,
    parse_kafka_options,
    positive,
    timestamps,
    unknown_option,
    warn_of_no_effect,
    whole_number,
)

EARLIEST: Final = -2
LATEST: Final = -1
RESETS: Final = ("earliest", "latest", "none")
GROUP: Final = "group"
LISTED_MAX: Final = 50
"""Most partitions that a message names: Spark repeats error messages several times over."""


class Edge(Enum):
    """The begin or end of every partition; the values are Kafka's timestamps for them."""

    EARLIEST = EARLIEST
    LATEST = LATEST


@dataclass(frozen=True, slots=True)
class SpecificOffsets:
    """An offset for each partition of the query; -2 earliest, -1 latest."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Timestamp:
    """The first record of each partition at or after one time (ms since 1970)."""

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Timestamps:
    """The first record at or after a time of its own (ms since 1970) for each partition of the query."""

    timestamps_ms: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class GroupOffsets:
    """A group's committed offsets; `reset` (one of RESETS) is for partitions without a commit."""

    group_id: str
    reset: str


Position = Edge | SpecificOffsets | Timestamp | Timestamps | GroupOffsets


def position(options: Mapping[str, str], end: str, default: Edge) -> Position:
    """Where a query begins (`end` "starting") or stops ("ending"), from options by their lower-case names. Raises OptionError."""
    by_time, by_times, by_offsets = f"{end}Timestamp", f"{end}OffsetsByTimestamp", f"{end}Offsets"
    if by_time.lower() in options:
        return Timestamp(whole_number(by_time, options[by_time.lower()], EARLIEST, LONG_MAX))
    if by_times.lower() in options:
        return Timestamps(timestamps(by_times, options[by_times.lower()]))
    text = options.get(by_offsets.lower())
    if text is None:
        return default
    word = text.strip().upper()
    return Edge[word] if word in Edge.__members__ else SpecificOffsets(offsets(by_offsets, text))


def starting_position(options: Mapping[str, str], default: Edge, group_id: str | None) -> Position:
    """Where a query begins; `group_id`: whose commits startingOffsets=group means. Raises OptionError."""
    has_time = "startingtimestamp" in options or "startingoffsetsbytimestamp" in options
    is_group = options.get("startingoffsets", "").strip().lower() == GROUP and not has_time
    reset = options.get("kafka.auto.offset.reset")
    if reset is not None and not is_group:
        raise OptionError(
            "Kafka option 'auto.offset.reset' is not supported. Instead set the source option 'startingOffsets' to 'earliest' or 'latest'"
            " to specify where to start; with 'startingOffsets' = 'group' it says where partitions start for which the group has"
            " committed nothing."
        )
    if not is_group:
        return position(options, "starting", default)
    if group_id is None:
        raise OptionError('The option "startingOffsets" is group: say which in the option "group.id".')
    word = "latest" if reset is None else reset.strip().lower()
    if word not in RESETS:
        raise OptionError(f'The option "kafka.auto.offset.reset" must be one of {", ".join(RESETS)}, not {reset!r}.')
    return GroupOffsets(group_id, word)


def check_batch(starting: Position, ending: Position) -> None:
    """A batch query cannot start at the end, nor end at the start, nor end before it starts. Raises OptionError."""
    if starting is Edge.LATEST:
        raise OptionError(
            "starting offset can't be latest for batch queries on Kafka: startingOffsets may be earliest, or an offset for each partition."
        )
    if ending is Edge.EARLIEST:
        raise OptionError(
            "ending offset can't be earliest for batch queries on Kafka: endingOffsets may be latest, or an offset for each partition."
        )
    for limit, word, verb in (
        (starting, LATEST, "startingOffsets for {} can't be latest"),
        (ending, EARLIEST, "ending offset for {} (endingOffsets) can't be earliest"),
    ):
        if isinstance(limit, SpecificOffsets):
            for partition, offset in sorted(limit.offsets.items()):
                if offset == word:
                    raise OptionError(f"{verb.format(named(partition))} for batch queries on Kafka")
    if isinstance(starting, SpecificOffsets) and isinstance(ending, SpecificOffsets):
        _check_order("offset", starting.offsets, ending.offsets)
    if isinstance(starting, Timestamps) and isinstance(ending, Timestamps):
        _check_order("timestamp", starting.timestamps_ms, ending.timestamps_ms)


def _check_order(what: str, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> None:
    if set(starts) != set(ends):
        raise OptionError(
            "The specified start offset and end offset should have the same topic-partitions."
            f" Topic-partitions for start offset: {listed(starts)}, topic-partitions for end offset: {listed(ends)}."
        )
    for partition, start in sorted(starts.items()):
        end = ends[partition]
        if start > end and start >= 0 and end >= 0:
            raise OptionError(
                f"The specified start {what} {start} is greater than the end {what} {end}"
                f" for topic {partition.topic} partition {partition.partition}."
            )


def named(partition: TopicPartition) -> str:
    """A partition in Kafka's notation, topic-0."""
    return f"{partition.topic}-{partition.partition}"


def listed(partitions: Mapping[TopicPartition, object] | set[TopicPartition] | frozenset[TopicPartition]) -> str:
    """Sorted partitions, separated by commas; at most LISTED_MAX, and how many more there are."""
    first, more = sorted(partitions)[:LISTED_MAX], len(partitions) - LISTED_MAX
    return ", ".join(map(named, first)) + (f" and {more} more" if more > 0 else "")


OPTION: Final = "ottla.group.mode"
COMMIT, MEMBER = "commit", "member"
MODES: Final = (COMMIT, MEMBER)
_POLL_INTERVAL: Final = "max.poll.interval.ms"
_STARTS: Final = ("startingTimestamp", "startingOffsetsByTimestamp")


@dataclass(frozen=True, slots=True)
class MemberOptions:
    """A member: its consumer's properties, the topics to subscribe to (a pattern begins with "^"), and `reset`, one of RESETS."""

    properties: Mapping[str, str]
    topics: tuple[str, ...]
    reset: str


def group_mode(options: Mapping[str, str]) -> str:
    """The mode, from options by their lower-case names. Raises OptionError."""
    mode = options.get(OPTION, COMMIT).strip().lower()
    if mode not in MODES:
        raise OptionError(f'The option "{OPTION}" must be {" or ".join(MODES)}, not {options[OPTION]!r}.')
    return mode


def parse_member_options(options: Mapping[str, str], group_id: str | None, subscription: Subscription) -> MemberOptions:
    """The member of a query, from its options by their lower-case names. Raises OptionError."""
    if group_id is None:
        raise OptionError(f'The option "{OPTION}" is member: name the group with the option "group.id".')
    if isinstance(subscription, Assign):
        raise OptionError('The option "assign" is not for members of a group, which get their partitions from it: use "subscribe".')
    _check_start(options)
    own = {"group.id": group_id, "client.id": CLIENT_ID, "auto.offset.reset": "latest", _POLL_INTERVAL: "300000"}
    given = {name.removeprefix(PREFIX): text for name, text in options.items() if name.startswith(PREFIX)}
    given.pop("group.id", None)
    properties = {**own, **given}
    try:
        # Here, since it loads the consumer, which only a member needs: a tenth of a second in each process that plans.
        from ottla.client.consumer.properties import parse_properties

        parse_properties(properties)
    except ValueError as error:
        raise OptionError(f"Kafka option {error}.") from error
    reset = properties["auto.offset.reset"].strip().lower()
    if reset not in RESETS:
        raise OptionError(f'The option "kafka.auto.offset.reset" must be one of {", ".join(RESETS)}, not {reset!r}.')
    return MemberOptions(properties, _topics(subscription), reset)


def _check_start(options: Mapping[str, str]) -> None:
    given = [name for name in _STARTS if name.lower() in options]
    if options.get("startingoffsets", GROUP).strip().lower() != GROUP:
        given.append("startingOffsets")
    if given:
        raise OptionError(
            f'The option "{given[0]}" is not for members of a group: a partition starts at the offset that the group has committed, and'
            ' without one by "kafka.auto.offset.reset".'
        )


def _topics(subscription: Subscription) -> tuple[str, ...]:
    if isinstance(subscription, Subscribe):
        return subscription.topics
    assert not isinstance(subscription, Assign)
    pattern = compile_pattern(subscription.pattern)
    flags = "".join(letter for letter, flag in (("i", 2), ("m", 8), ("s", 16)) if pattern.flags & flag)
    # A consumer's pattern is matched from the beginning of a name, Java's anywhere in it.
    return (f"^(?s:.*?)(?a{flags}:{pattern.pattern})",)


RECORDS, GROUP_RECORDS = "records", "group_records"
START_AT_LATEST: Final = "latest"

SUPPORTED: Final = (
    "assign", "subscribe", "subscribePattern",
    "startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets", "startingOffsetsByTimestampStrategy",
    "endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets",
    "failOnDataLoss", "includeHeaders", "decode",
    "kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs",
    "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay",
    "minPartitions", "maxRecordsPerPartition", "maxTasks",
    "groupIdPrefix", "group.id", "ottla.group.mode",
)  # fmt: skip
"""Besides these, every option that begins with "kafka."."""

_ENDS: Final = {
    "endingoffsets": 'ending offset not valid in streaming queries: leave out the option "endingOffsets".',
    "endingoffsetsbytimestamp": 'ending timestamp not valid in streaming queries: leave out the option "endingOffsetsByTimestamp".',
    "endingtimestamp": 'ending timestamp not valid in streaming queries: leave out the option "endingTimestamp".',
}
_STREAMS_ONLY: Final = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
_INT_MAX: Final = 2**31 - 1

log = logging.getLogger(__name__)


class Query(Enum):
    """The kind of query that options are for; warnings about options without use in it need a known kind."""

    ANY = "any"
    BATCH = "batch"
    STREAM = "stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSettings:
    """The settings of every task of a query; it is pickled.

    `decode` is RECORDS or GROUP_RECORDS; `poll_timeout_ms`: how long a task waits for one record before it fails; `rows_max`: most rows of
    an Arrow batch.
    """

    client: ClientSettings
    columns: tuple[str, ...]
    fail_on_data_loss: bool = True
    decode: str = RECORDS
    poll_timeout_ms: int = 120_000
    rows_max: int = 16_384


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """The checked options of a query. None: no such limit, or no group.

    `bootstrap_timeout_ms`: how long the driver tries to reach a first broker. `offset_attempts_max`, `offset_retry_ms`: how often it
    asks for offsets, and how long it waits in between. `group_id`: the group that a stream commits its progress to, or is a
    `member` of.
    """

    client: ClientSettings
    bootstrap_timeout_ms: int
    subscription: Subscription
    starting: Position
    ending: Position
    unmatched_start: str
    fail_on_data_loss: bool
    include_headers: bool
    decode: str
    poll_timeout_ms: int
    offset_attempts_max: int
    offset_retry_ms: int
    trigger_offsets_max: int | None
    trigger_offsets_min: int | None
    trigger_delay_ms_max: int
    partitions_min: int | None
    task_records_max: int | None
    tasks_max: int | None
    group_id: str | None
    member: MemberOptions | None = None

    def read_settings(self, columns: tuple[str, ...]) -> ReadSettings:
        """The settings of the tasks."""
        return ReadSettings(
            client=self.client,
            columns=columns,
            fail_on_data_loss=self.fail_on_data_loss,
            decode=self.decode,
            poll_timeout_ms=self.poll_timeout_ms,
        )


def parse_options(given: Mapping[str, str], query: Query = Query.ANY) -> SourceOptions:
    """Options by name, in any case of letters, to checked values. Raises OptionError."""
    options = {name.lower(): value for name, value in given.items()}
    _refuse_others(given)
    if query is Query.STREAM:
        for name, message in _ENDS.items():
            if name in options:
                raise OptionError(message)
    is_member = group_mode(options) == MEMBER
    subscription, client = parse_subscription(options), parse_kafka_options(options, is_member=is_member)
    group_id = _group_id(options)
    if is_member and query is Query.BATCH:
        raise OptionError(f'The option "{OPTION}" = "{MEMBER}" is for streaming queries: a batch query joins no group.')
    member = parse_member_options(options, group_id, subscription) if is_member else None
    default = Edge.LATEST if query is Query.STREAM else Edge.EARLIEST
    starting = default if is_member else starting_position(options, default, group_id or options.get(GROUP_ID))
    ending = position(options, "ending", Edge.LATEST)
    if query is Query.BATCH:
        check_batch(starting, ending)
        _check_use_in_batch(options, starting)
    if query is not Query.ANY:
        warn_of_no_effect(options, is_member=is_member)
    most, least = _optional(options, "maxOffsetsPerTrigger"), _optional(options, "minOffsetsPerTrigger")
    if most is not None and least is not None and least > most:
        raise OptionError(f"The value of minOffsetsPerTrigger({least}) is higher than the maxOffsetsPerTrigger({most}).")
    return SourceOptions(
        client=client,
        bootstrap_timeout_ms=bootstrap_timeout_ms(options, client),
        subscription=subscription,
        starting=starting,
        ending=ending,
        unmatched_start=_one_of(options, "startingOffsetsByTimestampStrategy", ("error", START_AT_LATEST)),
        fail_on_data_loss=flag("failOnDataLoss", options.get("failondataloss", "true")),
        include_headers=flag("includeHeaders", options.get("includeheaders", "false")),
        decode=_one_of(options, "decode", (RECORDS, GROUP_RECORDS)),
        poll_timeout_ms=_number(options, "kafkaConsumer.pollTimeoutMs", 120_000, 1),
        offset_attempts_max=_number(options, "fetchOffset.numRetries", 3, 1, _INT_MAX),
        offset_retry_ms=_number(options, "fetchOffset.retryIntervalMs", 1_000, 0),
        trigger_offsets_max=most,
        trigger_offsets_min=least,
        trigger_delay_ms_max=milliseconds("maxTriggerDelay", options.get("maxtriggerdelay", "15m")),
        partitions_min=_optional(options, "minPartitions", _INT_MAX),
        task_records_max=_optional(options, "maxRecordsPerPartition"),
        tasks_max=_optional(options, "maxTasks", _INT_MAX),
        group_id=group_id,
        member=member,
    )


def _refuse_others(given: Mapping[str, str]) -> None:
    supported = {name.lower() for name in SUPPORTED}
    for name in given:
        if name.lower() == "path":
            raise OptionError('load() takes no path here: name topics with the option "subscribe".')
        if name.lower() in ("topic", "topics"):
            raise OptionError(f'The option "{name}" is not for reading: name topics with the option "subscribe".')
        if name.lower() not in supported and not name.lower().startswith(PREFIX):
            raise OptionError(unknown_option(name, SUPPORTED, property_names(Client.RANGES)))


def _check_use_in_batch(options: Mapping[str, str], starting: Position) -> None:
    for name in _STREAMS_ONLY:
        if name.lower() in options:
            log.warning("%s option ignored in batch queries", name)
    if "group.id" in options and not isinstance(starting, GroupOffsets):
        raise OptionError(
            'The option "group.id" is for streaming queries, or for "startingOffsets" = "group": a batch query commits nothing.'
        )


def _group_id(options: Mapping[str, str]) -> str | None:
    group_id = options.get("group.id")
    if group_id is not None and not group_id.strip():
        raise OptionError('The option "group.id" is empty.')
    return group_id


def _one_of(options: Mapping[str, str], name: str, allowed: tuple[str, ...]) -> str:
    """One of a few words, in any case of letters; the first is the default."""
    word = options.get(name.lower(), allowed[0]).strip().lower()
    if word not in allowed:
        raise OptionError(f'The option "{name}" must be {" or ".join(allowed)}, not {options[name.lower()]!r}.')
    return word


def _number(options: Mapping[str, str], name: str, default: int, low: int, high: int = LONG_MAX) -> int:
    return whole_number(name, options.get(name.lower(), str(default)), low, high)


def _optional(options: Mapping[str, str], name: str, high: int = LONG_MAX) -> int | None:
    text = options.get(name.lower())
    return None if text is None else positive(name, text, high)
