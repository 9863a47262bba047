"""The sink, `write.format("ottla")` and `writeStream.format("ottla")`: rows into Kafka topics, as Spark's own Kafka sink writes them.

Options and columns are checked when the query is planned; tasks send, and end when every record is acknowledged. Delivery is at least once:
a task that is retried writes its rows again. With the option transactionalIdPrefix each task writes in a transaction of its own.

The brokers are contacted once before anything is sent, by the driver for a batch and by the tasks for a stream's first micro-batch: a wrong
address ends the query in seconds, where librdkafka would try until max.block.ms. Nothing is checked later: brokers that cannot be reached
then probably restart, and the producer waits for them.

Save mode Overwrite is accepted where there is nothing to replace, since Spark refuses its default mode for Python data sources and proposes
Append or Overwrite. It deletes no record.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from ottla.client.admin.client import AdminClient
from ottla.client.admin.values import EARLIEST, LATEST, Failure
from ottla.client.settings import ClientSettings, parse_client_settings
from ottla.config.client_properties import is_security, property_names
from ottla.config.client_property import Client
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition
from ottla.spark.options.values import BOOTSTRAP_TIMEOUT_MS, PREFIX, OptionError, unknown_option
from ottla.spark.sink.producer_settings import ProducerSettings, parse_producer_settings, with_transactional_id
from ottla.spark.sink.senders import check_columns

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.client.admin.client import AdminClient
    from ottla.spark.sink.senders import SenderPool


_BATCH_ID: Final = "streaming.sql.batchId"
"""Spark's name for the number of a task's micro-batch (MicroBatchExecution)."""


@dataclass(frozen=True, slots=True)
class FirstContact:
    """The brokers of a query and its topic (None: it is in the column), and how long the first contact may take."""

    client: ClientSettings
    topic: str | None
    timeout_ms: int

    def check(self, *, connect: "Callable[..., AdminClient] | None" = None) -> None:
        """Raise NoBrokerReachedError where no broker, or not every leader of the topic, can be reached; also other ClientErrors."""
        with (connect or _admin_client())(self.client, bootstrap_timeout_ms=self.timeout_ms) as admin:
            admin.reach_leaders([] if self.topic is None else [self.topic])


def _admin_client() -> "type[AdminClient]":
    # Here, for the tasks that write load this module too, and most of them check nothing.
    from ottla.client.admin.client import AdminClient

    return AdminClient


def parse_first_contact(options: Mapping[str, str], topic: str | None, max_block_ms: int) -> FirstContact:
    """The brokers of checked options. `max_block_ms` is the limit where the options set it."""
    properties = {name.lower().removeprefix(PREFIX): value for name, value in options.items()}
    client = parse_client_settings(
        {name: text for name, text in properties.items() if name in ("bootstrap.servers", "client.id") or is_security(name)}
    )
    return FirstContact(client, topic, max_block_ms if "max.block.ms" in properties else BOOTSTRAP_TIMEOUT_MS)


def is_first_micro_batch(context: TaskContext | None) -> bool:
    """Whether this task belongs to the first micro-batch of a stream."""
    return context is not None and context.getLocalProperty(_BATCH_ID) == "0"


def check_nothing_is_replaced(contact: FirstContact, *, connect: Callable[..., AdminClient] = AdminClient) -> None:
    """Raise OptionError if the topic has records, or no option names it; raises ClientError."""
    topic = contact.topic
    if topic is None:
        raise OptionError('Save mode Overwrite needs the option "topic". To add to the topics of the column, use mode("append").')
    with connect(contact.client, bootstrap_timeout_ms=contact.timeout_ms) as admin:
        described = admin.describe_topics([topic])[topic]
        if isinstance(described, Failure):
            if described.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return
            raise OptionError(f"Save mode Overwrite: cannot look at topic {topic}: {described.message or described.code.name}.")
        partitions = [TopicPartition(topic, number) for number in described.leaders]
        starts, ends = admin.list_offsets(partitions, EARLIEST), admin.list_offsets(partitions, LATEST)
    if any(ends[partition] > starts[partition] for partition in partitions):
        raise OptionError(
            f"Save mode Overwrite not allowed for topic {topic}, which has records, and Kafka cannot replace them: write with"
            ' mode("append"), the one that always works, whatever Spark proposes for its default mode; or delete the topic first.'
        )


_KAFKA: Final = "kafka."
_TRANSACTIONAL_ID_PREFIX: Final = "transactionalIdPrefix"
_SPARKS_OWN: Final = frozenset({"checkpointlocation", "queryname"})
"""Options of streams that Spark itself reads."""


@dataclass(frozen=True, slots=True)
class SinkSettings:
    """The settings of the tasks. `topic` None: it is in the column. `transactional_id_prefix` None: without transactions."""

    producer: ProducerSettings
    topic: str | None
    transactional_id_prefix: str | None = None


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
        if name.lower() not in ("topic", _TRANSACTIONAL_ID_PREFIX.lower(), *_SPARKS_OWN) and not name.lower().startswith(_KAFKA):
            raise OptionError(_unknown(name))
    properties = {name.removeprefix(_KAFKA): value for name, value in options.items() if name.startswith(_KAFKA)}
    topic, prefix = options.get("topic"), options.get(_TRANSACTIONAL_ID_PREFIX.lower())
    if prefix is not None and not prefix.strip():
        raise OptionError(f'The option "{_TRANSACTIONAL_ID_PREFIX}" is empty: give the query a name of its own, or leave it out.')
    producer = parse_producer_settings(properties, is_transactional=prefix is not None)
    return SinkSettings(producer, None if topic is None else topic.strip(), None if prefix is None else prefix.strip())


def _unknown(name: str) -> str:
    if name.lower() in ("subscribe", "assign", "subscribepattern"):
        return f'The option "{name}" is not supported for writing: name the topic with the option "topic".'
    return unknown_option(name, ("topic", _TRANSACTIONAL_ID_PREFIX), property_names(Client.PRODUCER), where=" for writing")


def batch_sink(
    options: Mapping[str, str], schema: StructType, *, overwrite: bool, check: Callable[[FirstContact], None] = FirstContact.check
) -> "BatchSink":
    """The writer of a batch query. Raises OptionError (with `overwrite`, also for a topic with records), and ClientError."""
    settings = parse_sink_options(options)
    check_columns(schema, settings.topic)
    contact = parse_first_contact(options, settings.topic, settings.producer.max_block_ms)
    if overwrite:
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
    if settings.transactional_id_prefix is not None:
        context = TaskContext.get()
        return send_in_transaction(settings, batches, task=0 if context is None else context.partitionId())
    # In the task, not in the planner: librdkafka is loaded where it runs.
    from ottla.spark.sink.senders import WORKER_SENDERS, produce_arguments, topics_of

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


def send_in_transaction(settings: SinkSettings, batches: "Iterator[pa.RecordBatch]", *, task: int) -> Written:
    """Send the rows of task number `task` of its stage in one transaction. A task without rows begins none.

    The id is the prefix and the number, so that another attempt of the task ends what this one left open. Raises DeliveryError, RowError.
    """
    from ottla.spark.sink.senders import RecordSender, produce_arguments, topics_of

    sender, records = None, 0
    try:
        for batch in batches:
            if sender is None and batch.num_rows:
                sender = RecordSender(with_transactional_id(settings.producer, f"{settings.transactional_id_prefix}-{task}"))
                sender.begin_transaction()
            if sender is not None:
                sender.check_topics(topics_of(batch, settings.topic))
                records += sender.send_all(produce_arguments(batch, settings.topic))
        if sender is not None:
            sender.finish()
            sender.commit_transaction()
    except BaseException:
        if sender is not None:
            sender.discard()
        raise
    return Written(records)
