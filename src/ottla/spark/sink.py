"""`write.format("ottla")` and `writeStream.format("ottla")`: rows into Kafka topics, as Spark's own Kafka sink writes them.

Options and columns are checked when the query is planned; the tasks send, and end when every record is acknowledged. At least once: a task
that is tried again writes its rows again. It commits nothing and takes nothing back.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from ottla.spark.option_values import OptionError
from ottla.spark.producer_settings import ProducerSettings, parse_producer_settings
from ottla.spark.sink_rows import check_columns

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.spark.producing import KeptSenders

_KAFKA: Final = "kafka."
_SPARKS_OWN: Final = frozenset({"checkpointlocation", "queryname"})
"""What Spark itself reads from a stream's options and hands on."""


@dataclass(frozen=True, slots=True)
class SinkSettings:
    """What the tasks need. `topic` None: the column says it."""

    producer: ProducerSettings
    topic: str | None


@dataclass
class Written(WriterCommitMessage):
    """What one task wrote: records, all acknowledged."""

    records: int


def parse_sink_options(given: Mapping[str, str]) -> SinkSettings:
    """Options by name, in any case of letters. Raises OptionError."""
    options = {name.lower(): value for name, value in given.items()}
    for name in options:
        if name == "path":
            raise OptionError('A path means nothing here: name the topic with the option "topic", or in a column.')
        if name != "topic" and not name.startswith(_KAFKA) and name not in _SPARKS_OWN:
            raise OptionError(f'The option "{name}" is not supported for writing; the options are topic and kafka.*: leave it out.')
    properties = {name.removeprefix(_KAFKA): value for name, value in options.items() if name.startswith(_KAFKA)}
    topic = options.get("topic")
    return SinkSettings(parse_producer_settings(properties), None if topic is None else topic.strip())


def batch_sink(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> "BatchSink":
    """The writer of a batch query. Raises OptionError."""
    if overwrite:
        raise OptionError("Save mode Overwrite not allowed for Kafka. Allowed save modes are Append and ErrorIfExists (default).")
    settings = parse_sink_options(options)
    check_columns(schema, settings.topic)
    return BatchSink(settings)


def stream_sink(options: Mapping[str, str], schema: StructType) -> "StreamSink":
    """The writer of a stream, in any output mode: every row is appended. Raises OptionError."""
    settings = parse_sink_options(options)
    check_columns(schema, settings.topic)
    return StreamSink(settings)


class BatchSink(DataSourceArrowWriter):
    """Made by the planner; `write` runs in the tasks."""

    def __init__(self, settings: SinkSettings) -> None:
        self._settings = settings

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> Written:
        """Sends the rows of one task. Raises DeliveryError or RowError."""
        return send(self._settings, iterator)


class StreamSink(DataSourceStreamArrowWriter):
    """As BatchSink, for every micro-batch."""

    def __init__(self, settings: SinkSettings) -> None:
        self._settings = settings

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> Written:
        """Sends the rows of one task. Raises DeliveryError or RowError."""
        return send(self._settings, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing: the records are there since the tasks ended."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing: what tasks wrote stays; Spark runs the micro-batch again."""


def send(settings: SinkSettings, batches: "Iterator[pa.RecordBatch]", kept: "KeptSenders | None" = None) -> Written:
    """Sends the rows of one task and waits until all are acknowledged, with a sender that `kept` (this worker's own) keeps."""
    # In the task, not in the planner: librdkafka is loaded where it runs.
    from ottla.spark.producing import KEPT
    from ottla.spark.sink_rows import produce_arguments, topics_of

    senders, records = kept or KEPT, 0
    sender = senders.take(settings.producer)
    try:
        for batch in batches:
            sender.check_topics(topics_of(batch, settings.topic))
            records += sender.send_all(produce_arguments(batch, settings.topic))
        sender.finish()
    except BaseException:
        sender.discard()
        raise
    senders.give_back(sender)
    return Written(records)
