"""`write.format("ottla")` and `writeStream.format("ottla")`: rows into Kafka topics, as Spark's own Kafka sink writes them.

Options and columns are checked when the query is planned; tasks send, and end when every record is acknowledged. Delivery is at least once:
a task that is retried writes its rows again. It has no transactions.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from ottla.spark.options.option_names import unknown_option
from ottla.spark.options.values import OptionError
from ottla.spark.sink.first_contact import FirstContact, is_first_micro_batch, parse_first_contact
from ottla.spark.sink.producer_settings import NAMES, REFUSED, ProducerSettings, parse_producer_settings
from ottla.spark.sink.rows import check_columns

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.spark.sink.senders import SenderPool

_KAFKA: Final = "kafka."
_SPARKS_OWN: Final = frozenset({"checkpointlocation", "queryname"})
"""Options of streams that Spark itself reads."""


@dataclass(frozen=True, slots=True)
class SinkSettings:
    """The settings of the tasks. `topic` None: it is in the column."""

    producer: ProducerSettings
    topic: str | None


@dataclass
class Written(WriterCommitMessage):
    """The number of records that one task wrote, all acknowledged."""

    records: int


def parse_sink_options(given: Mapping[str, str]) -> SinkSettings:
    """Options by name, in any case of letters. Raises OptionError."""
    options = {name.lower(): value for name, value in given.items()}
    for name in given:
        if name.lower() == "path":
            raise OptionError('A path means nothing here: name the topic with the option "topic", or in a column.')
        if name.lower() not in ("topic", *_SPARKS_OWN) and not name.lower().startswith(_KAFKA):
            raise OptionError(_unknown(name))
    properties = {name.removeprefix(_KAFKA): value for name, value in options.items() if name.startswith(_KAFKA)}
    topic = options.get("topic")
    return SinkSettings(parse_producer_settings(properties), None if topic is None else topic.strip())


def _unknown(name: str) -> str:
    if name.lower() in ("subscribe", "assign", "subscribepattern"):
        return f'The option "{name}" is not supported for writing: name the topic with the option "topic".'
    return unknown_option(name, ("topic",), NAMES | REFUSED.keys(), where=" for writing")


def batch_sink(
    options: Mapping[str, str], schema: StructType, *, overwrite: bool, check: Callable[[FirstContact], None] = FirstContact.check
) -> "BatchSink":
    """The writer of a batch query. Raises OptionError (with `overwrite`, also for a topic with records), and ClientError."""
    settings = parse_sink_options(options)
    check_columns(schema, settings.topic)
    contact = parse_first_contact(options, settings.topic, settings.producer.max_block_ms)
    if overwrite:
        from ottla.spark.sink.overwriting import check_nothing_is_replaced

        check_nothing_is_replaced(contact)
    check(contact)
    return BatchSink(settings)


def stream_sink(options: Mapping[str, str], schema: StructType) -> "StreamSink":
    """The writer of a stream, in any output mode: every row is appended. Raises OptionError."""
    settings = parse_sink_options(options)
    check_columns(schema, settings.topic)
    return StreamSink(settings, parse_first_contact(options, settings.topic, settings.producer.max_block_ms))


class BatchSink(DataSourceArrowWriter):
    """The planner makes it; `write` runs in the tasks."""

    def __init__(self, settings: SinkSettings) -> None:
        self._settings = settings

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> Written:
        """Send the rows of one task. Raises DeliveryError or RowError."""
        return send(self._settings, iterator)


class StreamSink(DataSourceStreamArrowWriter):
    """As BatchSink, for every micro-batch."""

    def __init__(self, settings: SinkSettings, contact: FirstContact) -> None:
        self._settings = settings
        self._first_contact = contact

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> Written:
        """Send the rows of one task. Raises DeliveryError or RowError; in the first micro-batch also ClientError."""
        if is_first_micro_batch(TaskContext.get()):
            self._first_contact.check()
        return send(self._settings, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing: the records are written when the tasks end."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing: written records stay; Spark runs the micro-batch again."""


def send(settings: SinkSettings, batches: "Iterator[pa.RecordBatch]", pool: "SenderPool | None" = None) -> Written:
    """Send the rows of one task and wait until all are acknowledged, with a sender of `pool` (None: this worker's)."""
    # In the task, not in the planner: librdkafka is loaded where it runs.
    from ottla.spark.sink.rows import produce_arguments, topics_of
    from ottla.spark.sink.senders import WORKER_SENDERS

    senders, records = pool or WORKER_SENDERS, 0
    sender = senders.acquire(settings.producer)
    try:
        for batch in batches:
            sender.check_topics(topics_of(batch, settings.topic))
            records += sender.send_all(produce_arguments(batch, settings.topic))
        sender.finish()
    except BaseException:
        sender.discard()
        raise
    senders.release(sender)
    return Written(records)
