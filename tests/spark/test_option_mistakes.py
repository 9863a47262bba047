"""Thirty-two mistakes with options of the format "ottla", each with its message. They call the source as Spark does, without Spark."""

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType

from ottla.spark.data_source import OttlaDataSource
from ottla.spark.options.values import OptionError
from ottla.spark.schemas import KAFKA

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}
READ = {**SERVERS, "subscribe": "flights"}
WRITE = {**SERVERS, "topic": "flights"}
TYPES = {"binary": BinaryType(), "string": StringType(), "int": IntegerType(), "bigint": LongType()}


def load(options: dict[str, str]) -> Any:
    """`spark.read....load()`, and an action."""
    source = _source(options)
    return source.reader(source.schema())


def load_columns(columns: str) -> Callable[[dict[str, str]], Any]:
    """`.schema(columns)` before `load()`."""
    return lambda options: _source(options).reader(_schema(columns))


def stream(options: dict[str, str]) -> Any:
    """`spark.readStream....load()`, and a query: Spark asks for the first offsets."""
    source = _source(options)
    return source.streamReader(source.schema()).initialOffset()


def save(options: dict[str, str]) -> Any:
    """`frame.write.mode("append")....save()`."""
    return _source(options).writer(_schema("value binary"), overwrite=False)


def save_columns(columns: str) -> Callable[[dict[str, str]], Any]:
    """`save()` of a frame with these columns."""
    return lambda options: _source(options).writer(_schema(columns), overwrite=False)


def _schema(columns: str) -> StructType:
    """ "value binary, offset bigint" without Spark's parser, which needs its JVM."""
    pairs = (column.split() for column in columns.split(","))
    return StructType([StructField(name, TYPES[kind]) for name, kind in pairs])


def _source(options: dict[str, str]) -> OttlaDataSource:
    return OttlaDataSource(options)


MISTAKES: list[tuple[Callable[[dict[str, str]], Any], dict[str, str], str]] = [
    # Where the brokers are.
    (load, {"subscribe": "flights"}, "Option 'kafka.bootstrap.servers' must be specified: the addresses of brokers, host:port,host:port."),
    (
        load,
        {"subscribe": "flights", "bootstrap.servers": "localhost:9092"},
        'The option "bootstrap.servers" is not supported: it is a property of the Kafka client, write "kafka.bootstrap.servers".',
    ),
    (load, {**READ, "kafka.bootstrap.server": "h:1"}, "did you mean 'bootstrap.servers'?"),
    (load, {**READ, "kafka.bootstrap.servers": "localhost"}, "Kafka option bootstrap.servers: 'localhost' is no host:port."),
    (
        load,
        {**READ, "bootstrapServers": "h:1"},
        "\"bootstrapServers\" is not supported; did you mean 'kafka.bootstrap.servers'?",
    ),
    # What to read.
    (load, SERVERS, "One of the following options must be specified for Kafka source: subscribe, subscribePattern, assign."),
    (load, {**READ, "assign": '{"flights":[0]}'}, "Only one of the following options can be specified for Kafka source"),
    (load, {**SERVERS, "topic": "flights"}, 'The option "topic" is not for reading: name topics with the option "subscribe".'),
    (load, {**READ, "subscribe": " , "}, "No topics to subscribe to as specified value for option 'subscribe' is ' , '"),
    (load, {**SERVERS, "assign": "flights"}, "No topicpartitions to assign as specified value for option 'assign' is 'flights'"),
    (load, {**SERVERS, "subscribePattern": "flights-("}, "The option \"subscribePattern\" cannot be 'flights-('"),
    (load, {**READ, "path": "/data"}, 'load() takes no path here: name topics with the option "subscribe".'),
    # Names, which Spark itself passes in lower case.
    (load, {**READ, "startingOffset": "earliest"}, "The option \"startingOffset\" is not supported; did you mean 'startingOffsets'?"),
    (load, {**READ, "includeHeader": "true"}, "The option \"includeHeader\" is not supported; did you mean 'includeHeaders'?"),
    (load, {**READ, "inferSchema": "true"}, 'The option "inferSchema" is not supported; the options are assign, subscribe,'),
    (load, {**READ, "isolation.level": "read_committed"}, 'it is a property of the Kafka client, write "kafka.isolation.level".'),
    # Where to start and end.
    (load, {**READ, "startingOffsets": "latest"}, "starting offset can't be latest for batch queries on Kafka"),
    (load, {**READ, "startingOffsets": "begin"}, 'The option "startingOffsets": Expected e.g. {"topicA":{"0":23,"1":-1}'),
    (load, {**READ, "endingOffsets": "earliest"}, "ending offset can't be earliest for batch queries on Kafka"),
    (load, {**READ, "startingTimestamp": "2026-01-01"}, 'The option "startingTimestamp" must be a whole number'),
    (load, {**READ, "kafka.auto.offset.reset": "earliest"}, "Instead set the source option 'startingOffsets' to 'earliest' or 'latest'"),
    (stream, {**READ, "endingOffsets": "latest"}, 'ending offset not valid in streaming queries: leave out the option "endingOffsets".'),
    (stream, {**READ, "endingTimestamp": "5"}, 'ending timestamp not valid in streaming queries: leave out the option "endingTimestamp".'),
    # Values.
    (load, {**READ, "failOnDataLoss": "no"}, "The option \"failOnDataLoss\" must be true or false, not 'no'."),
    (stream, {**READ, "maxOffsetsPerTrigger": "1e6"}, 'The option "maxOffsetsPerTrigger" must be a whole number from 1 to'),
    (load, {**READ, "group.id": "g"}, 'The option "group.id" is for streaming queries'),
    # Columns.
    (
        load_columns("value string"),
        READ,
        'value is binary, not string: declare "value binary", and cast it: .selectExpr("cast(',
    ),
    (load_columns("offset int"), READ, 'The column offset is bigint, not int: declare "offset bigint".'),
    (load_columns("vlaue binary"), READ, "There is no column vlaue; did you mean 'value'? The columns are key binary, value binary,"),
    # Writing.
    (
        save,
        {**SERVERS, "subscribe": "flights"},
        '"subscribe" is not supported for writing: name the topic with the option "topic".',
    ),
    (
        save,
        {**WRITE, "bootstrap.servers": "h:1"},
        'it is a property of the Kafka client, write "kafka.bootstrap.servers".',
    ),
    (save_columns("id bigint, name string"), WRITE, "Required attribute 'value' not found"),
]


def test_there_are_thirty_two():
    assert len(MISTAKES) == 32


@pytest.mark.parametrize(("use", "options", "message"), MISTAKES)
def test_a_mistake_is_named_with_what_is_right(use: Callable[[dict[str, str]], Any], options: dict[str, str], message: str):
    with pytest.raises(OptionError) as refused:
        use(options)
    assert message in str(refused.value)


def test_a_stream_with_mistakes_raises_the_message_at_each_of_spark_s_questions():
    """Whichever comes first: Spark 4.2 would replace an error of `streamReader` by an UnboundLocalError."""
    reader = _source({**READ, "endingOffsets": "latest"}).streamReader(KAFKA)
    for question in (
        reader.initialOffset,
        reader.getDefaultReadLimit,
        lambda: reader.latestOffset({}, ReadAllAvailable()),
        lambda: reader.partitions({}, {}),
        reader.prepareForTriggerAvailableNow,
    ):
        with pytest.raises(OptionError, match="ending offset not valid in streaming queries"):
            question()
    reader.stop()
