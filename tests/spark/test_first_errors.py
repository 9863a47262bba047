"""What a user sees first when something is wrong: the address, the option or the column, through Spark and in seconds."""

from pathlib import Path
from typing import Any

import pytest

SERVERS = "localhost:1"


def reader(spark: Any, **options: str) -> Any:
    given = {"kafka.bootstrap.servers": SERVERS, "subscribe": "flights", **{name.replace("_", "."): text for name, text in options.items()}}
    return spark.read.format("ottla").options(**given)


def failure_of(spark: Any, tmp_path: Path, **options: str) -> str:
    """The error of a stream that has to fail."""
    given = {"kafka.bootstrap.servers": SERVERS, "subscribe": "flights", **{name.replace("_", "."): text for name, text in options.items()}}
    frame = spark.readStream.format("ottla").options(**given).load()
    query = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    with pytest.raises(Exception) as caught:
        query.awaitTermination(60)
    return str(caught.value)


def test_a_broker_that_cannot_be_reached_is_named(spark: Any, tmp_path: Path):
    """In the first line, and the time that was set; how long it takes otherwise: tests/unit/spark/source/test_offset_reader.py."""
    said = failure_of(spark, tmp_path, kafka_default_api_timeout_ms="300").partition("\n")[0]
    assert f"no broker of bootstrap.servers was reached in 300 ms (no connection to broker {SERVERS}: " in said
    servers = "no-such-host.invalid:9092"
    said = _failure_of_batch(spark, kafka_default_api_timeout_ms="300", kafka_bootstrap_servers=servers).partition("\n")[0]
    assert f"no broker of bootstrap.servers was reached in 300 ms (no connection to broker {servers}: " in said


def test_a_broker_that_cannot_be_written_to_is_named(spark: Any, tmp_path: Path):
    options = {"kafka.bootstrap.servers": SERVERS, "topic": "flights", "kafka.max.block.ms": "300"}
    said = f"no broker of bootstrap.servers was reached in 300 ms (no connection to broker {SERVERS}: "
    with pytest.raises(Exception) as caught:
        spark.range(1).selectExpr("'v' value").write.format("ottla").mode("append").options(**options).save()
    assert said in str(caught.value).partition("\n")[0]
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).option("numPartitions", 1).load()
    stream = rows.selectExpr("'v' value").writeStream.format("ottla").options(**options).option("checkpointLocation", str(tmp_path))
    with pytest.raises(Exception) as caught:
        stream.trigger(availableNow=True).start().awaitTermination(60)
    assert said in str(caught.value), "in the first micro-batch"


def _failure_of_batch(spark: Any, **options: str) -> str:
    with pytest.raises(Exception) as caught:
        reader(spark, **options).load().count()
    return str(caught.value)


def test_mistakes_of_queries_are_said_through_spark(spark: Any, tmp_path: Path):
    said = failure_of(spark, tmp_path, endingOffsets="latest")
    assert 'OptionError: ending offset not valid in streaming queries: leave out the option "endingOffsets".' in said
    assert "UnboundLocalError" not in said
    store = {"kafka_security_protocol": "SSL", "kafka_ssl_truststore_location": "/t.jks", "kafka_ssl_truststore_password": "x"}
    with pytest.raises(Exception, match=r"^\[PYTHON_DATA_SOURCE_ERROR\][^\n]*keytool -list -rfc"):
        reader(spark, **store).load()
    with pytest.raises(Exception, match="The option \"startingoffset\" is not supported; did you mean 'startingOffsets'"):
        reader(spark, startingOffset="earliest").load()
    with pytest.raises(Exception, match='The column value is binary, not string: declare "value binary", and cast it'):
        reader(spark).schema("value string").load().count()
