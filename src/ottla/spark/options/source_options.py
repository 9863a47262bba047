"""The options of `format("ottla")` as a source: names and meanings of Spark's own Kafka source, checked before a broker is asked.

An option that is unknown or refused is an error that says what to do; no option is silently ignored. It opens no connection.
The formats of values are in `values`, `positions`, `subscription` and `kafka_settings`.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from ottla.client.property_refusals import REFUSED
from ottla.client.settings import NAMES, ClientSettings
from ottla.spark.options.group_mode import MEMBER, OPTION, MemberOptions, group_mode, parse_member_options
from ottla.spark.options.kafka_settings import GROUP_ID, PREFIX, bootstrap_timeout_ms, parse_kafka_options, warn_of_no_effect
from ottla.spark.options.option_names import unknown_option
from ottla.spark.options.positions import Edge, GroupOffsets, Position, check_batch, position, starting_position
from ottla.spark.options.subscription import Subscription, parse_subscription
from ottla.spark.options.values import LONG_MAX, OptionError, flag, milliseconds, positive, whole_number

RECORDS, GROUP_RECORDS = "records", "group_records"
ERROR, LATEST = "error", "latest"

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
        unmatched_start=_one_of(options, "startingOffsetsByTimestampStrategy", (ERROR, LATEST)),
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
            raise OptionError(unknown_option(name, SUPPORTED, NAMES | REFUSED.keys()))


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
