"""The data source checks options and delegates; that needs no Spark."""

import pytest

from ottla.spark.data_source import OttlaDataSource
from ottla.spark.options.values import OptionError
from ottla.spark.schemas import KAFKA, KAFKA_WITH_HEADERS
from ottla.spark.source.batch_reader import BatchReader
from ottla.spark.source.stream_reader import RefusedStreamReader, StreamReader

NEEDED = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t"}


def test_the_schema_is_the_kafka_source_s():
    assert OttlaDataSource.name() == "ottla"
    assert OttlaDataSource(NEEDED).schema() == KAFKA
    assert OttlaDataSource({**NEEDED, "includeHeaders": "true"}).schema() == KAFKA_WITH_HEADERS


def test_a_reader_for_batches():
    assert isinstance(OttlaDataSource(NEEDED).reader(schema=KAFKA), BatchReader)


def test_a_stream_s_reader_raises_what_is_wrong_when_it_is_asked():
    assert isinstance(OttlaDataSource(NEEDED).streamReader(schema=KAFKA), StreamReader)
    assert isinstance(OttlaDataSource({**NEEDED, "endingOffsets": "latest"}).streamReader(schema=KAFKA), RefusedStreamReader)


def test_options_are_checked_before_any_request():
    with pytest.raises(OptionError, match='The option "foo" is not supported'):
        OttlaDataSource({**NEEDED, "foo": "bar"}).schema()
